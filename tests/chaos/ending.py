"""How all jobs end once everything is repaired, and what Slurm itself has lost of them.

slurmctld saves its state every five seconds. When it is killed, a job that ended since comes back
as running, without a process, for minutes. So does one whose slurmd was killed while it launched
the job. That is Slurm's loss, told by evidence: no process of the job goes on, and a daemon that
knew of it started after the job did. Anything else that does not end is a fault.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import evidence
import processes
from lab import ChaosError

if TYPE_CHECKING:
    from private_slurm import PrivateSlurm

STEP = 1.0  # seconds
STALLED = 60.0
"""Seconds in which nothing in the queue changes. A slurmstepd reports again after 15."""
LAST_WAIT = 120.0  # seconds in which all jobs end,
LAST_WAIT_OF_EACH = 3.0  # and for each of them: a busy machine starts a job in a second
LAUNCHED = 10.0  # seconds after which a job that runs has a process, also on a busy machine

STATES = "PD,R,S,CG,CF"
FORMAT = "%i|%A|%T|%r|%S|%N"


@dataclass(frozen=True, slots=True)
class Left:
    """A job or task that has not ended."""

    name: str
    """As Slurm's commands take it: 23_2 of a task, for 22.05 refuses to cancel its job id 49; 23 of
    tasks that wait."""
    job_id: int
    """Of a heterogeneous job's component, that of the leader, where its processes are."""
    state: str
    reason: str
    start: str
    nodes: str

    @property
    def progress(self) -> tuple[str, ...]:
        """What changes when it comes nearer to its end; of one that waits, Slurm guesses more."""
        return (self.name, self.state, "" if self.state == "PENDING" else self.start)

    def __str__(self) -> str:
        return f"job {self.job_id} ({self.name}) {self.state} {self.reason}"


def parse_left(row: str) -> Left:
    name, job_id, *others = row.split("|")
    leader, is_component, _ = name.partition("+")
    return Left(leader.partition("_[")[0], int(leader if is_component else job_id), *others)


def jobs_left(slurm: PrivateSlurm) -> list[Left]:
    asked = ("squeue", "-h", "-t", STATES, "-o", FORMAT)
    return [parse_left(row) for row in slurm.run(*asked).stdout.splitlines()]


class Lost:
    """The jobs that run by Slurm's word alone."""

    def __init__(self, slurm: PrivateSlurm) -> None:
        self.found: dict[str, str] = {}
        """By name, the evidence."""
        self._slurm = slurm
        self._bare: dict[Left, float] = {}
        """Since when no process of a running job has been seen."""

    def end(self, left: list[Left]) -> None:
        """Cancel those that have had no process for long, where Slurm has an excuse for that."""
        running = [one for one in left if one.state == "RUNNING"]
        going = processes.going_jobs(self._slurm.slurm_conf) if running else set()
        now = time.monotonic()
        self._bare = {one: self._bare.get(one, now) for one in running if one.job_id not in going}
        for one, since in self._bare.items():
            if now > since + LAUNCHED:
                self._end(one)

    def _end(self, one: Left) -> None:
        excuse = evidence.daemon_started_since(self._slurm, one.job_id)
        if excuse:
            self.found[one.name] = f"runs without a process on {one.nodes}; {excuse}"
            self._slurm.run("scancel", "--quiet", one.name, check=False)


class Ending:
    """Helps what is left to its end, step by step."""

    def __init__(self, slurm: PrivateSlurm, lost: Lost, jobs: int) -> None:
        self._slurm = slurm
        self._lost = lost
        self._deadline = time.monotonic() + LAST_WAIT + LAST_WAIT_OF_EACH * jobs
        self._before: set[tuple[str, ...]] = set()
        self._changed = time.monotonic()

    def step(self) -> list[Left]:
        """Help all on; return those left. Raises ChaosError when they do not end."""
        left = jobs_left(self._slurm)
        now = time.monotonic()
        if (progress := {one.progress for one in left}) != self._before:
            self._before, self._changed = progress, now
        if left and (now > self._deadline or now > self._changed + STALLED):
            raise ChaosError(f"{len(left)} jobs do not end: {', '.join(map(str, left[:20]))}")
        self._lost.end(left)
        for one in left:
            self._help(one)
        return left

    def _help(self, one: Left) -> None:
        """What is held, suspended or has to wait goes on; what never can, is cancelled."""
        if one.state == "SUSPENDED":
            self._run("scontrol", "resume", one.name)
        elif "held" in one.reason.lower():
            self._run("scontrol", "release", one.name)
        elif one.reason == "BeginTime":
            self._run("scontrol", "update", f"jobid={one.name}", "starttime=now")
        elif one.reason == "DependencyNeverSatisfied":
            self._run("scancel", "--quiet", one.name)

    def _run(self, *command: str) -> None:
        """What fails is tried again at the next step."""
        self._slurm.run(*command, check=False)
