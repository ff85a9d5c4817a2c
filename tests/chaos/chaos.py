#!/usr/bin/env python3
"""Breaks what can break around Sluice, step by step, and checks after each that its laws hold.

    make chaos SECONDS=600 SEED=7 JOBS=200

See README.md. Ends with 1 at the first violation, and keeps the logs then.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from random import Random

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lab"))

import checks
import evidence
from account import Account
from actions import Actions
from ending import STEP, Ending, Lost, jobs_left
from faults import FAULTS, Fault
from lab import LIMITS, ChaosError, ChaosLab, enter_namespace
from sampler import Sampler
from workload import Workload


class Driver:
    def __init__(self, lab: ChaosLab, *, seed: int, jobs: int, only: str, pace: float) -> None:
        self.lab = lab
        self.jobs = jobs
        self.pace = pace
        # one source each, so that what a step finds in the queue changes no later step
        self.schedule = Random(f"{seed} schedule")
        self.workload = Workload(lab, Random(f"{seed} workload"))
        self.actions = Actions(lab, self.workload, Random(f"{seed} actions"))
        self.rng = Random(f"{seed} faults")
        self.faults = [fault for fault in FAULTS if only in fault.name]
        self.account = Account(LIMITS)
        self.sampler = Sampler(lab, self.account)
        self.survived: Counter[str] = Counter()
        self.lost = Lost(lab.slurm)
        self.acted = 0
        self._order: list[Fault] = []
        self._begin = time.monotonic()

    def run(self, seconds: float) -> None:
        """Go on for so long, then repair and let all jobs end."""
        self.fill()
        self.sampler.start()
        number = 0
        while time.monotonic() < self._begin + seconds:
            number += 1
            self.step(number)
        self.finish()
        self.sampler.end()
        self.raise_if(self.sampler.violations)

    def step(self, number: int) -> None:
        fault = self.next_fault()
        length = self.schedule.uniform(0.3, 1) * fault.longest * self.pace
        acts = self.schedule.randint(0, 4)
        try:
            with fault.make(self.lab, self.workload, self.rng) as made:
                did = self.act(acts)
                self.wait(length)
            self.fill()
            found = [] if self.sampler.violations else checks.after_step(self.lab, self.workload)
        except ChaosError as error:
            raise ChaosError(f"step {number}, {fault.name}: {error}") from error
        self.say(number, fault, made, length, did)
        found += self.lab.turns.violations
        self.raise_if([*self.sampler.violations, *found], f"step {number}, {fault.name} ({made})")
        self.survived[fault.name] += 1

    def next_fault(self) -> Fault:
        """Each kind once in an order drawn by chance, then anew."""
        if not self._order:
            self._order = self.schedule.sample(self.faults, len(self.faults))
        return self._order.pop()

    def act(self, count: int) -> str:
        if not self.lab.slurm.responds():
            return ""
        pending, running = self.queue("PD"), self.queue("R")
        done = [self.actions.one(pending, running) for _ in range(count)]
        self.acted += len(done)
        return "; ".join(filter(None, done))

    def queue(self, states: str) -> list[int]:
        rows = self.lab.slurm.run(
            "squeue", "-h", "-t", states, "-o", "%F", check=False
        ).stdout.split()
        return sorted({int(row) for row in rows})

    def wait(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end and not self.sampler.violations:
            time.sleep(0.2)

    def fill(self) -> None:
        """Submit until as many jobs are in flight as asked for."""
        left = jobs_left(self.lab.slurm)
        self.lost.end(left)
        for _ in range(self.jobs - len(left)):
            self.workload.submit()
        self.lab.last_submission = time.monotonic()

    def finish(self) -> None:
        """All jobs end, with everything repaired; then nothing is left of Sluice."""
        lab, shown = self.lab, ""
        ending = Ending(lab.slurm, self.lost, self.jobs)
        while left := ending.step():
            self.raise_if(self.sampler.violations, "at the end")
            counts = Counter(f"{one.state} {one.reason}" for one in left)
            text = ", ".join(f"{count}x {what}" for what, count in counts.most_common(8))
            if text != shown:
                print(f"     {len(left)} jobs left; {self.sampler.state()}; {text}", flush=True)
                shown = text
            self.wait(STEP)
        self.raise_if(checks.after_step(lab, self.workload), "at the end")
        lab.turns.finish()
        self.raise_if(lab.turns.violations, "at the end")
        lab.sluiced.stop()
        lab.kill_sluiced()
        self.raise_if(checks.at_the_end(lab), "at the end")

    def say(self, number: int, fault: Fault, made: str, length: float, did: str) -> None:
        took = time.monotonic() - self._begin
        print(
            f"{number:4} {took:6.0f} s  {fault.name}: {made}, for {length:.1f} s; "
            f"{len(self.workload.jobs)} jobs, {self.sampler.state()}, "
            f"longest wait {self.account.longest:.1f} s"
            f"{'; ' + did if did else ''}",
            flush=True,
        )

    @staticmethod
    def raise_if(found: list[str], where: str = "") -> None:
        if found:
            raise ChaosError("\n  ".join([where, *found[:20]]))

    def summary(self) -> str:
        lines = [f"{count:4} x {name}" for name, count in sorted(self.survived.items())]
        account = (
            f"{len(self.workload.jobs)} jobs ({len(self.workload.refused)} refused by Slurm), "
            f"{self.acted} changes by users and operators, {self.sampler.polls} polls"
        )
        turns = self.lab.turns
        written = f"{turns.ended} programs ended under the shim, which held {turns.holds} writes"
        lost = [f"Lost by Slurm: {name} {why}" for name, why in self.lost.found.items()]
        longest = f"Longest that a job was kept from starting: {self.account.longest:.1f} s"
        return "\n".join(
            [
                "Survived:",
                *lines,
                *lost,
                account,
                written,
                f"{longest} (allowed {LIMITS.alive:g} s)",
            ]
        )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=200, help="in flight")
    parser.add_argument("--nodes", type=int, default=16)
    parser.add_argument("--only", default="", help="kinds of fault whose name has this")
    parser.add_argument("--pace", type=float, default=1, help="how long faults last, times this")
    words = parser.parse_args()
    enter_namespace()
    root = Path(tempfile.mkdtemp(prefix="sluice-chaos-"))
    print(
        f"seed {words.seed}, {words.jobs} jobs in flight, {words.nodes} nodes, in {root}",
        flush=True,
    )
    with ExitStack() as stack:
        lab = stack.enter_context(ChaosLab(root, nodes=words.nodes))
        driver = Driver(lab, seed=words.seed, jobs=words.jobs, only=words.only, pace=words.pace)
        try:
            driver.run(words.seconds)
        except Exception as error:  # noqa: BLE001 - whatever it is, keep what tells why
            print(f"VIOLATION, seed {words.seed}: {error}", flush=True)
            driver.sampler.end()
            print(evidence.of_jobs(lab.slurm, str(error)), flush=True)
            keep(lab, driver, root)
            print(driver.summary())
            return 1
        print(driver.summary())
    shutil.rmtree(root, ignore_errors=True)
    return 0


def keep(lab: ChaosLab, driver: Driver, root: Path) -> None:
    """Leave what tells why: the logs, Slurm's queue, and the last polls."""
    kept = root / "kept"
    kept.mkdir()
    (kept / "polls.txt").write_text("\n".join(map(str, driver.sampler.recent)))
    for name, command in {
        "jobs": ("scontrol", "show", "job", "-o"),
        "reservations": ("scontrol", "show", "reservation", "-o"),
        "licenses": ("scontrol", "show", "lic", "-o"),
        "nodes": ("sinfo", "-N", "-l"),
        "queue": ("squeue", "-o", "%.8i %.10P %.12j %.8u %.4t %.8Q %.6D %.20r %W"),
    }.items():
        done = lab.slurm.run(*command, check=False)
        (kept / f"{name}.txt").write_text(done.stdout + done.stderr)
    shutil.copytree(lab.place.history, kept / "history", dirs_exist_ok=True)
    print(f"kept: {kept}, {lab.sluiced.log} and {lab.slurm.controller_log}")


if __name__ == "__main__":
    sys.exit(main())
