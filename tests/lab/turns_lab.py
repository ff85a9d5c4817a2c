"""Turns on real file I/O: jobs of a private Slurm that write to two throttled targets.

Shim, agent, coordinator and spank_sluice.so are the real ones. Each mode has a bench of
its own: a cluster, its targets, a coordinator and an agent. So a draw (turns_cases.py) runs
in all modes at once, and whatever else the machine does disturbs all of them alike; which
bench has which mode changes from draw to draw.
"""

import json
import os
import shlex
import shutil
import subprocess
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import turns_daemons
import turns_page
from measured_programs import MeasurementError, writer
from moosefs import MooseFS
from private_slurm import PrivateSlurm
from storage_targets import StorageTargets
from target_kinds import Limits
from turns_cases import (
    LANES,
    MIB,
    MODES,
    UNKNOWN,
    WIDTHS,
    Alone,
    AnyProgram,
    Burst,
    Draw,
    Job,
    Outcome,
    Program,
    Run,
    lane_mask,
)
from turns_daemons import NOBODY, AgentPage
from up_and_down import UpAndDown

ROOT = Path(__file__).resolve().parents[2]
PLUGINS = ROOT / "build" / "plugins"
SLOW = Limits(bandwidth=10_000_000, operations=100, dirty=4 * MIB, size=1024 * MIB)
LIMITS = {
    "streams": SLOW,
    "first come": SLOW,
    "mixed": Limits(bandwidth=20_000_000, operations=100, dirty=8 * MIB, size=1024 * MIB),
    "programs": replace(SLOW, size=2048 * MIB),
    "never full": Limits(bandwidth=20_000_000, operations=100, dirty=8 * MIB, size=1024 * MIB),
    "moosefs": Limits(bandwidth=10_000_000, operations=0, dirty=4 * MIB, size=4500 * MIB),
}
OPERATIONS = 60  # a second of a target: writes, flushes and closes
LATENCY = 100  # ms, as measured from a burst's begin until it is held: 70 to 160
SCHEDULER = "batch_sched_delay=0,sched_interval=1,bf_interval=1"
LIMIT_MINUTES = 60  # of a job: it may be held for a twentieth of it
PATIENCE = 300.0  # seconds for a job to end
PERIOD = 0.1  # seconds between two samples of what is held
ALONE_PAUSE = 1.5  # seconds between bursts that are measured alone

COUNTED = ("bytes", "held_ns")


@dataclass
class Sampled:
    """What the page of a job said while it ran."""

    page: AgentPage
    holds: list[list[float]] = field(default_factory=list)
    is_held: bool = False
    counters: dict[str, int] = field(default_factory=dict)

    def look(self, now: float) -> None:
        is_held = self.page.is_held
        if is_held and not self.is_held:
            self.holds.append([now, now])
        if is_held or self.is_held:
            self.holds[-1][1] = now
        self.is_held = is_held

    def count(self) -> None:
        for name in COUNTED:
            self.counters[name] = max(self.counters.get(name, 0), self.page.sum(name))


class Bench(UpAndDown):
    """One cluster on targets of its own, whose jobs are periodic writers."""

    between = 1.0
    """Seconds from the last job's start to the beginning of a draw."""

    def __init__(
        self,
        place: Path,
        *,
        limits: Limits,
    ) -> None:
        self.place = place
        self.storage = self._make_storage(place / "storage", limits)
        self.slurm = PrivateSlurm(
            place / "slurm",
            nodes=sum(WIDTHS),
            plugin_dir=PLUGINS,
            settings={"SchedulerParameters": SCHEDULER},
        )
        self._writer = place / "writer"  # where every user can read it
        self._library = place / "libsluice_turns.so"
        self._programs = (turns_daemons.build() / "sluice-turns", turns_daemons.build_first_come())
        self._stack = ExitStack()

    def up(self) -> None:
        self.place.mkdir(parents=True)
        self.place.chmod(0o755)
        shutil.copy(writer(), self._writer)
        shutil.copy(turns_page.build(), self._library)
        with ExitStack() as stack:
            stack.enter_context(self.storage)
            stack.enter_context(self.slurm)
            self.cluster = stack.enter_context(turns_daemons.cluster())
            self.configure("off")
            self.cluster.publish()
            self.cluster.start_turns()
            self.agent = self.cluster.agent()
            self._write_plugstack()
            self._stack = stack.pop_all()

    def down(self) -> None:
        self._stack.close()

    # -- storage ------------------------------------------------------------------

    def _make_storage(self, place: Path, limits: Limits) -> UpAndDown:
        self.targets = StorageTargets(place, lanes=LANES, limits=limits, kinds=("blkio",))
        return self.targets

    def path(self, lane: str, job: int) -> Path:  # noqa: ARG002 - of a file system with clients
        """Where the job of that number in its draw writes to a lane."""
        return self.targets.path(lane)

    def mount_points(self) -> Sequence[Path]:
        return [self.targets.path(lane) for lane in LANES]

    # -- daemons ------------------------------------------------------------------

    def configure(self, mode: str) -> None:
        self.cluster.configure(
            mode={"off": "off", "shadow": "observe"}.get(mode, "enforce"),
            bandwidth=self.targets.limits.bandwidth,
            lanes=LANES,
            operations=OPERATIONS if self.targets.limits.operations else 0,
            TurnsLatency=LATENCY,
        )

    def _write_plugstack(self) -> None:
        words = [
            f"turns={self._library}",
            *(f"turns_on={path}" for path in self.mount_points()),
            f"turns_socket={self.agent.socket}",
        ]
        plugstack = self.slurm.directory / "etc" / "plugstack.conf"
        plugstack.write_text(f"optional {PLUGINS / 'spank_sluice.so'} {' '.join(words)}\n")

    # -- alone ------------------------------------------------------------------

    def alone(self, program: AnyProgram) -> Alone:
        """Run the program with nobody else there."""
        assert isinstance(program, Program)
        self.targets.settle()
        directories = [self.path(lane, 0) for lane in program.lanes]
        words = [self._writer, *program.words(pause=ALONE_PAUSE), *directories]
        done = subprocess.run(
            self.targets.command(*words), check=True, capture_output=True, text=True
        )
        bursts = tuple(burst["seconds"] for burst in json.loads(done.stdout)["bursts"])
        seconds = sum(bursts) + program.pause * (len(bursts) - 1)
        return Alone(seconds, bursts, program.bytes, profile_of(program, bursts))

    # -- a draw -----------------------------------------------------------------

    def run(
        self,
        draw: Draw,
        mode: str,
        alone: Mapping[str, Alone],
    ) -> Run:
        """Run the jobs of a draw. alone: of each program, as `alone` measured it."""
        self.configure(mode)
        is_first_come = mode == "first-come"
        self.cluster.change_turns(self._programs[is_first_come])
        self.targets.settle()
        output = self.place / f"{draw.number}-{mode}-{time.monotonic_ns()}"
        output.mkdir()
        output.chmod(0o1777)
        ids = [self._submit(number, job, mode, output) for number, job in enumerate(draw.jobs)]
        self._publish(draw, ids, None if mode == "unknown" else alone)
        for job_id in ids:
            self.slurm.wait_for_job(job_id, "RUNNING")
        pages = (
            []
            if mode == "off"
            else [self._page(*pair) for pair in zip(ids, draw.jobs, strict=True)]
        )
        before = self.cluster.status()["counts"]
        zero = time.time() + self.between
        for job in draw.jobs:
            draft = output / f"{job.program.name}.draft"
            draft.write_text(f"{zero + job.offset:.3f}\n")
            draft.rename(output / f"{job.program.name}.at")
        sampled = self._watch(draw, pages, output, zero)
        for job_id in ids:
            self.slurm.wait_for_job(job_id, "COMPLETED", "FAILED", timeout=PATIENCE)
        for page in pages:
            page.page.close()
        after = self.cluster.status()["counts"]
        return Run(
            draw,
            mode,
            tuple(
                self._outcome(job, zero, output, alone[job.program.name], one)
                for job, one in zip(draw.jobs, sampled or [None] * len(ids), strict=True)
            ),
            {name: after[name] - before.get(name, 0) for name in after},
            os.getloadavg()[0],
        )

    def _script(self, program: AnyProgram, directories: Sequence[Path], output: Path) -> str:
        """What the job runs: it begins $at, and leaves a .json, or its complaints in an .err."""
        assert isinstance(program, Program)
        words = shlex.join(map(str, (self._writer, *program.words(), *directories)))
        name = output / program.name
        return f"{words} --at $at > {name}.json 2> {name}.err"

    def _submit(self, number: int, job: Job, mode: str, output: Path) -> int:
        name = job.program.name
        directories = [self.path(lane, number) for lane in job.program.lanes]
        script = (
            f"until [ -e {output}/{name}.at ]; do sleep 0.2; done; at=$(cat {output}/{name}.at); "
            + self._script(job.program, directories, output)
        )
        turns = () if mode == "off" else ("--io-turns",)
        return self.slurm.submit(
            *(f"--uid={NOBODY}", "--chdir=/", f"--time={LIMIT_MINUTES}", f"--job-name={name}"),
            *(f"--nodes={job.nodes}", "--exclusive", *turns, f"--wrap={script}"),
        )

    def _publish(self, draw: Draw, ids: Sequence[int], alone: Mapping[str, Alone] | None) -> None:
        """alone: None, nobody knows the programs."""
        self.cluster.publish_jobs(
            *(
                {
                    "job_id": job_id,
                    "nodes": job.nodes,
                    "lane_mask": lane_mask(job.program),
                    "profile": alone[job.program.name].profile if alone else UNKNOWN,
                }
                for job_id, job in zip(ids, draw.jobs, strict=True)
            )
        )

    def _page(self, job_id: int, job: Job) -> Sampled:
        agent = self.agent.register(job_id, *self.mount_points(), nodes=job.nodes, slots=0)
        return Sampled(agent)

    def _watch(
        self, draw: Draw, pages: Sequence[Sampled], output: Path, zero: float
    ) -> Sequence[Sampled]:
        """Sample the pages until all have written all."""
        results = [output / f"{job.program.name}.json" for job in draw.jobs]
        deadline = time.monotonic() + PATIENCE
        while any(not path.exists() or not path.stat().st_size for path in results):
            complaints = "".join(path.read_text() for path in output.glob("*.err"))
            if complaints or time.monotonic() > deadline:
                raise MeasurementError(complaints or f"after {PATIENCE:.0f} s jobs still write")
            for page in pages:
                page.look(time.time() - zero)
            time.sleep(PERIOD if pages else 0.5)
        for page in pages:
            page.count()
        return pages

    def _bursts(self, told: Mapping[str, Any]) -> tuple[Burst, ...]:
        """The bursts of a job by its .json, in seconds since the epoch."""
        began = told["started"]
        return tuple(
            Burst(
                began + burst["offset_seconds"], began + burst["offset_seconds"] + burst["seconds"]
            )
            for burst in told["bursts"]
        )

    def _outcome(
        self, job: Job, zero: float, output: Path, alone: Alone, sampled: Sampled | None
    ) -> Outcome:
        told = json.loads((output / f"{job.program.name}.json").read_text())
        bursts = tuple(Burst(one.start - zero, one.end - zero) for one in self._bursts(told))
        return Outcome(
            job=job,
            alone=alone.seconds,
            seconds=bursts[-1].end - job.offset,
            bursts=bursts,
            holds=tuple(Burst(*hold) for hold in sampled.holds) if sampled else (),
            held=sampled.counters["held_ns"] / 1e9 / job.program.processes if sampled else 0.0,
            written=alone.bytes,
            seen=sampled.counters["bytes"] if sampled else 0,
        )


def profile_of(program: Program, alone: Sequence[float]) -> dict[str, Any]:
    """What a history would say of a program; alone: seconds of its bursts."""
    rate = program.bytes / sum(alone)
    seconds = sum(alone) / len(alone)
    return {
        "pattern": program.pattern,
        "share": {program.pattern: 1.0},
        "rate": rate,
        "chunk_bytes": program.chunk,
        "bytes_per_flush": program.chunk if program.pattern != "aw" else program.volumes[0],
        "creates_per_mib": MIB / program.chunk if program.pattern == "owc" else 0.0,
        "burst_seconds": seconds,
        "period_seconds": seconds + program.pause,
        "io_share": seconds / (seconds + program.pause),
    }


class MooseBench(Bench):
    """One whose targets are those of a MooseFS; each job has a client of its own."""

    def _make_storage(self, place: Path, limits: Limits) -> UpAndDown:
        self._moosefs = MooseFS(place, lanes=LANES, limits=limits, clients=len(WIDTHS))
        self.targets = self._moosefs.targets
        return self._moosefs

    def path(self, lane: str, job: int) -> Path:
        return self._moosefs.path(lane, client=job)

    def mount_points(self) -> Sequence[Path]:
        return self._moosefs.mounts


class TurnsLab(UpAndDown):
    """A bench for each mode."""

    def __init__(
        self,
        place: Path,
        modes: Sequence[str] = MODES,
        *,
        bench: type[Bench] = Bench,
        **options: Any,
    ) -> None:
        self.modes = tuple(modes)
        self.benches = [bench(place / f"bench{i}", **options) for i in range(len(modes))]
        self._stack = ExitStack()

    def up(self) -> None:
        with ExitStack() as stack:
            for bench in self.benches:
                stack.enter_context(bench)
            self._threads = stack.enter_context(ThreadPoolExecutor(len(self.benches)))
            self._stack = stack.pop_all()

    def down(self) -> None:
        self._stack.close()

    def alone(self, programs: Sequence[AnyProgram]) -> dict[str, Alone]:
        """Run each program with nobody else there; by their names."""
        parts = [programs[i :: len(self.benches)] for i in range(len(self.benches))]

        def measure(pair: tuple[Bench, Sequence[AnyProgram]]) -> list[Alone]:
            return [pair[0].alone(program) for program in pair[1]]

        found = self._threads.map(measure, zip(self.benches, parts, strict=True))
        return {
            program.name: one
            for part, measured in zip(parts, found, strict=True)
            for program, one in zip(part, measured, strict=True)
        }

    def run(self, draw: Draw, alone: Mapping[str, Alone]) -> dict[str, Run]:
        """The draw in each mode, all at once."""
        turned = draw.number % len(self.modes)
        benches = self.benches[turned:] + self.benches[:turned]
        runs = self._threads.map(
            lambda pair: pair[0].run(draw, pair[1], alone),
            zip(benches, self.modes, strict=True),
        )
        return {run.mode: run for run in runs}
