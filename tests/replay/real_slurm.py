"""The same jobs on a real slurmctld and in a replay.

A *stepped* run leaves no decision to the clock: jobs wait until they are told to end, and
after each end both sides say who runs now. Limits are different multiples of UNIT, so far
apart that it does not matter how long the real one took for a step.
"""

from __future__ import annotations

import contextlib
import os
import time
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

import numpy as np

from sluice.sim import engine
from sluice.sim.engine import Machine, Partition, Workload
from sluice.sim.trace.machine import SLURM

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from private_slurm import PrivateSlurm

UNIT = 1000
"""Minutes. 60,000 s lie in the middle between two of the windows, 30 s times a power of
two, by which slurmctld joins ends of jobs."""
STEP = 10.0
"""Seconds of the replay between two steps."""
PATIENCE = 90.0
"""Seconds that slurmctld may take for a step on a busy machine."""
LONGEST = 1800.0
"""Seconds that all jobs of a timed run may take."""
QUIET = 2.0
"""Seconds without a change after which a step is over: two passes of either scheduler."""


@dataclass(frozen=True)
class Wanted:
    """A job as its user submits it."""

    nodes: int
    minutes: int
    """Its limit."""
    tools: int = 0
    """Licences."""
    after: tuple[tuple[str, int], ...] = ()
    """Kind of dependency, and the index of the job that it waits for."""
    tasks: int = 1
    at_once: int = 0
    """Tasks of the array that may run at the same time; 0: all."""
    partition: str = "main"
    nice: int = 0
    fails: bool = False
    seconds: float = 0.0
    """How long it runs, where time decides."""
    begin: float = 0.0
    """Not before so many seconds after its submission."""


@dataclass(frozen=True)
class Cluster:
    """What a replay and a slurm.conf must agree on."""

    nodes: int = 6
    tools: int = 3
    partitions: tuple[tuple[str, int], ...] = (("main", 1),)
    """Name and priority tier, all on all nodes."""
    leased: int = 0
    """Licences that a capacity lease takes for the first minute of a timed run."""
    parameters: str = ""
    """More of SchedulerParameters."""
    slurm: tuple[tuple[str, str], ...] = ()
    replay: tuple[tuple[str, float | str], ...] = ()

    def slurm_options(self) -> dict[str, Any]:
        """Arguments of PrivateSlurm."""
        parameters = (
            "batch_sched_delay=0,sched_interval=1,bf_interval=1,bf_max_time=60,bf_window=43200"
        )
        return {
            "nodes": self.nodes,
            # the lowest node first, as groups of a replay are taken in their order
            "node_options": {f"n{i}": f"Weight={i}" for i in range(1, self.nodes + 1)},
            "partitions": {
                name: f"PriorityTier={tier}" + " Default=YES" * (name == "main")
                for name, tier in self.partitions
            },
            "settings": {
                "Licenses": f"tool:{self.tools}",
                "MinJobAge": "3600",  # records stay until all jobs have ended
                "SchedulerParameters": ",".join(filter(None, (parameters, self.parameters))),
                **dict(self.slurm),
            },
        }

    def machine(self) -> Machine:
        """Each node a group of its own, so that a plan keeps its nodes."""
        every = tuple(range(self.nodes))
        return Machine(
            (1,) * self.nodes,
            tuple(Partition(name, every, tier) for name, tier in self.partitions),
            {"tool": self.tools},
        )

    def settings(self) -> dict[str, float | str]:
        return {**SLURM, "interval": 1, "window": 43200 * 60, **dict(self.replay)}


@dataclass
class Task:
    """A job, or a task of an array: what starts and ends."""

    job: int
    number: int
    submit: float
    end: float | None = None
    """When it was told to end."""

    @property
    def name(self) -> str:
        return f"j{self.job}.{self.number}"


def workload(cluster: Cluster, wanted: Sequence[Wanted], tasks: Sequence[Task]) -> Workload:
    """Return the tasks as the engine takes them; a run time is for the caller to set."""
    jobs = np.zeros(len(tasks), engine.JOB)
    needs, dependencies, limits = [], [], []
    arrays: dict[int, int] = {}
    names = [name for name, _ in cluster.partitions]
    for row, task in zip(jobs, tasks, strict=True):
        job = wanted[task.job]
        row["submit"], row["limit"], row["slots"] = task.submit, job.minutes * 60, job.nodes
        row["partition"], row["bonus"] = names.index(job.partition), -job.nice
        row["begin"] = task.submit + job.begin if job.begin else 0
        row["fails"] = job.fails
        row["first_license"], row["license_count"] = len(needs), job.tools > 0
        needs += [(0, job.tools)] * (job.tools > 0)
        if job.tasks > 1:
            if task.job not in arrays:
                arrays[task.job] = len(arrays)
                limits.append(job.at_once)
            row["array"] = arrays[task.job] + 1
        others = [(kind, i) for kind, j in job.after for i, t in enumerate(tasks) if t.job == j]
        row["first_dependency"], row["dependency_count"] = len(dependencies), len(others)
        dependencies += [(0.0, i, engine.DEPENDENCIES.index(kind)) for kind, i in others]
    return Workload(
        cluster.machine(),
        jobs,
        license_needs=np.array(needs, engine.LICENSE_NEED),
        dependencies=np.array(dependencies, engine.DEPENDENCY),
        associations=np.array([(0, 0, 1.0, 1.0)], engine.ASSOCIATION),
        array_limits=np.array(limits, np.uint32),
    )


AFTER: Mapping[str, str] = {
    "start": "after",
    "any": "afterany",
    "ok": "afterok",
    "not_ok": "afternotok",
}

HELD = "read status < $SLURM_SUBMIT_DIR/$SLURM_JOB_NAME.${SLURM_ARRAY_TASK_ID:-0}; exit $status"


def submit(
    slurm: PrivateSlurm,
    wanted: Sequence[Wanted],
    number: int,
    job_ids: Sequence[int],
    script: str,
) -> int:
    """Submit one of the jobs, those before it having the job ids; return its own."""
    job = wanted[number]
    options = [
        f"--job-name=j{number}",
        f"--nodes={job.nodes}",
        "--exclusive",
        f"--time={job.minutes}",
        f"--partition={job.partition}",
        f"--nice={job.nice}",
    ]
    if job.tools:
        options.append(f"--licenses=tool:{job.tools}")
    if job.after:
        words = ",".join(f"{AFTER[kind]}:{job_ids[other]}" for kind, other in job.after)
        options.append(f"--dependency={words}")
    if job.tasks > 1:
        at_once = f"%{job.at_once}" if job.at_once else ""
        options.append(f"--array=0-{job.tasks - 1}{at_once}")
    if job.begin:
        options.append(f"--begin=now+{job.begin:.0f}")
    return slurm.submit(*options, f"--wrap={script}")


class Stepped:
    """One cluster and its replay, step by step."""

    def __init__(self, slurm: PrivateSlurm, cluster: Cluster, wanted: Sequence[Wanted]) -> None:
        self.slurm, self.cluster, self.wanted = slurm, cluster, wanted
        self.tasks: list[Task] = []
        self.job_ids: list[int] = []
        self.now = 7.0  # no multiple of anything

    # -- the replay -------------------------------------------------------------

    def replayed(self) -> set[str]:
        """Who runs now, if nobody else is told to end."""
        load = workload(self.cluster, self.wanted, self.tasks)
        longest = self.now + 100 * STEP
        load.jobs["runtime"] = longest
        results = engine.run(load, self.cluster.settings())
        while True:  # a run time counts from a start that only the replay knows
            ended = [i for i, task in enumerate(self.tasks) if task.end is not None]
            runtimes = load.jobs["runtime"].copy()
            for i in ended:
                runtimes[i] = self.tasks[i].end - results["start"][i]
            if np.array_equal(runtimes, load.jobs["runtime"]):
                break
            load.jobs["runtime"] = np.where(runtimes > 0, runtimes, longest)
            results = engine.run(load, self.cluster.settings())
        seen = self.now + STEP - 1
        running = (results["start"] >= 0) & (results["start"] <= seen) & (seen < results["end"])
        return {task.name for task, runs in zip(self.tasks, running, strict=True) if runs}

    # -- the real one -------------------------------------------------------------

    def submit(self, number: int) -> None:
        job = self.wanted[number]
        for task in range(job.tasks):
            self.tasks.append(Task(number, task, self.now))
            os.mkfifo(self.place(self.tasks[-1]))
        self.job_ids.append(submit(self.slurm, self.wanted, number, self.job_ids, HELD))

    def place(self, task: Task) -> Path:
        return self.slurm.directory / task.name

    def end(self, name: str) -> None:
        """Let a running task go."""
        task = next(task for task in self.tasks if task.name == name)
        task.end = self.now
        status = b"1\n" if self.wanted[task.job].fails else b"0\n"
        deadline = time.monotonic() + PATIENCE
        while True:  # its script may not yet listen
            with contextlib.suppress(OSError):
                handle = os.open(self.place(task), os.O_WRONLY | os.O_NONBLOCK)
                os.write(handle, status)
                os.close(handle)
                return
            assert time.monotonic() < deadline, f"{name} does not listen"
            time.sleep(0.05)

    def running(self) -> set[str]:
        listed = self.slurm.run("squeue", "-h", "-t", "R", "-o", "%j %K").stdout.split("\n")
        words = (line.split() for line in listed if line)
        return {f"{name}.{0 if task == 'N/A' else task}" for name, task in words}

    def settled(self, expected: set[str]) -> set[str]:
        """Who runs after this step: the expected ones soon, or any others in the end."""
        deadline = time.monotonic() + PATIENCE
        while self.running() != expected and time.monotonic() < deadline:
            time.sleep(0.1)
        time.sleep(QUIET)
        return self.running()


def steps(stepped: Stepped, rng: Any) -> Iterator[tuple[set[str], set[str]]]:
    """Yield who runs in the replay and really, after each step.

    The first job takes the whole machine while the others are submitted; then one running
    task after the other ends, in a random order.
    """
    stepped.submit(0)
    yield (expected := stepped.replayed()), (real := stepped.settled(expected))
    stepped.now += STEP
    for number in range(1, len(stepped.wanted)):
        stepped.submit(number)
    while real:
        stepped.now += STEP
        stepped.end(rng.choice(sorted(real)))
        yield (expected := stepped.replayed()), (real := stepped.settled(expected))


def moment(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


class Timed:
    """One cluster on which jobs run as long as they want to."""

    def __init__(self, slurm: PrivateSlurm, cluster: Cluster, wanted: Sequence[Wanted]) -> None:
        self.slurm, self.cluster, self.wanted = slurm, cluster, wanted
        self.leases = np.zeros(0, engine.LEASE)

    def observe(self) -> dict[str, tuple[float, float, float]]:
        """Run all jobs; return submission, start and end of each task in seconds."""
        job_ids: list[int] = []
        names = {}
        for number, job in enumerate(self.wanted):
            if number == 1:
                self.slurm.wait_for_job(job_ids[0], "RUNNING", timeout=PATIENCE)
                time.sleep(1.1)  # Slurm's times are whole seconds: not to seem to come with it
                self.lease()
            script = f"sleep {job.seconds:g}; exit {int(job.fails)}"
            job_ids.append(submit(self.slurm, self.wanted, number, job_ids, script))
            for task in range(job.tasks):
                suffix = f"_{task}" if job.tasks > 1 else ""
                names[f"{job_ids[-1]}{suffix}"] = Task(number, task, 0).name
        deadline = time.monotonic() + LONGEST
        while self.slurm.run("squeue", "-h").stdout.strip():  # seldom: asking slows it down
            assert time.monotonic() < deadline, "there are jobs left"
            time.sleep(1)
        seen = {}
        for job_id, name in names.items():
            record = self.slurm.wait_for_job(job_id, "COMPLETED", "FAILED", timeout=PATIENCE)
            submit_, start, end = (moment(record[f"{w}Time"]) for w in ("Submit", "Start", "End"))
            seen[name] = (submit_, start, end)
        return seen

    def lease(self) -> None:
        """Take licences out of circulation as sluiced does."""
        if self.cluster.leased:
            self.slurm.run(
                *[
                    "scontrol",
                    "create",
                    "reservation",
                    "reservationname=lease",
                    "starttime=now",
                    "duration=1",
                ],
                f"licenses=tool:{self.cluster.leased}",
                *["users=root", "flags=license_only,ignore_jobs"],
            )
            shown = self.slurm.run("scontrol", "show", "reservation", "-o").stdout.split()
            times = dict(word.split("=", 1) for word in shown if "Time=" in word)
            begin, end = (moment(times[f"{what}Time"]) for what in ("Start", "End"))
            self.leases = np.array([(begin, end, 0, 0, self.cluster.leased, 0)], engine.LEASE)

    def replay(self, seen: Mapping[str, tuple[float, float, float]]) -> dict[str, float]:
        """Return the start of each task, its run time being what it really was."""
        tasks = [
            Task(number, task, seen[Task(number, task, 0).name][0])
            for number, job in enumerate(self.wanted)
            for task in range(job.tasks)
        ]
        load = workload(self.cluster, self.wanted, tasks)
        load.jobs["runtime"] = [seen[task.name][2] - seen[task.name][1] for task in tasks]
        load = replace(load, leases=self.leases)
        results = engine.run(load, self.cluster.settings())
        return {task.name: float(s) for task, s in zip(tasks, results["start"], strict=True)}
