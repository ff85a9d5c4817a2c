"""The workloads on which turns are measured, and what became of their jobs.

A draw gives the same programs other widths and offsets. Jobs of a draw run with the same
offsets without turns (`off`), with turns that decide and hold nobody (`shadow`), with
turns (`on`), with turns that know the programs from what they see only (`unknown`), and with
turns that know all of `on` and go by who began first (`first-come`).
What a job loses is nodes x (its time - its time with nobody else there).
"""

import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

KIB, MIB = 1 << 10, 1 << 20
LANES = ("sl0", "sl1")
MODES = ("off", "shadow", "on", "unknown", "first-come")
WIDTHS = (1, 1, 2, 4, 8, 16)
"""Nodes of the jobs of a draw; which job has how many is drawn."""
OFFSETS = 12.0  # seconds within which the first bursts begin
SPREAD = 0.3  # standard deviation of the logarithm of a program's volumes
RING = 32 * MIB  # bytes of a stream's file
UNKNOWN: Mapping[str, Any] = {"pattern": "unknown"}
"""The profile of a program that nobody knows."""


@dataclass(frozen=True)
class Alone:
    """What a program does with nobody else there."""

    seconds: float  # from its first burst to the end of its last
    bursts: tuple[float, ...]  # seconds of each
    bytes: float  # that it writes
    profile: Mapping[str, Any]  # members of struct sluice_profile: what a history says of it


class AnyProgram(Protocol):
    """What all programs of a workload have."""

    @property
    def name(self) -> str: ...
    @property
    def pause(self) -> float:
        """Seconds of computing between bursts."""

    @property
    def lanes(self) -> tuple[str, ...]:
        """That it writes to."""

    @property
    def processes(self) -> int:
        """That write."""


def lane_mask(program: AnyProgram) -> int:
    return sum(1 << LANES.index(lane) for lane in program.lanes)


@dataclass(frozen=True)
class Program:
    """A periodic writer. Volumes are bytes of each process, one a burst."""

    name: str
    pattern: str
    chunk: int
    volumes: tuple[int, ...]
    pause: float  # seconds of computing between bursts
    lanes: tuple[str, ...] = LANES  # one process writes to each
    rate: int = 0  # B/s at most of each process; 0: as fast as it can

    @property
    def processes(self) -> int:
        return len(self.lanes)

    @property
    def bytes(self) -> int:
        return self.processes * sum(self.volumes)

    def words(self, *, pause: float | None = None) -> list[str]:
        """The writer's options."""
        rate = ("--rate", str(self.rate)) if self.rate else ()
        stream = ("--flush", "--ring", str(RING)) if self.pattern == "aw" else ()
        return [
            *("--pattern", self.pattern, "--chunk", str(self.chunk)),
            *("--volume", ",".join(map(str, self.volumes)), "--bursts", str(len(self.volumes))),
            *("--pause", str(self.pause if pause is None else pause)),
            *("--processes", str(self.processes), "--remove", *rate, *stream),
        ]


def program(
    name: str,
    pattern: str,
    seconds: float,
    pause: float,
    bursts: int,
    *,
    speed: float,
    chunk: int = MIB,
    lanes: Sequence[str] = LANES,
    rate: int = 0,
) -> Program:
    """One with bursts of about so many seconds, at a process's speed in B/s."""
    drawn = random.Random(name)
    volumes = []
    for _ in range(bursts):
        factor = math.exp(drawn.gauss(-(SPREAD**2) / 2, SPREAD))
        volumes.append(max(1, round(seconds * speed * factor / chunk)) * chunk)
    return Program(name, pattern, chunk, tuple(volumes), pause, tuple(lanes), rate)


@dataclass(frozen=True)
class Workload:
    name: str
    programs: tuple[AnyProgram, ...]


# B/s that a lone process takes of a target of 20 MB/s
SLOW_STREAM = 9.5e6  # the same of one of 10 MB/s
STREAM, FLUSHES, FILES, SMALL_FILES = 19.0e6, 2.4e6, 11.7e6, 1.44e6
PACE = 2.5e6  # B/s of each process: those of one lane fill it to five eighths
LEFT, RIGHT = LANES[:1], LANES[1:]

STREAMS = Workload(
    "streams",
    (
        program("lapse", "aw", 3, 15, 4, speed=SLOW_STREAM),
        program("mesh", "aw", 4, 22, 3, speed=SLOW_STREAM),
        program("plasma", "aw", 4.5, 26, 3, speed=SLOW_STREAM),
        program("ocean", "aw", 7, 36, 2, speed=SLOW_STREAM),
        program("left", "aw", 5, 22, 3, speed=SLOW_STREAM, lanes=LEFT),
        program("right", "aw", 5, 22, 3, speed=SLOW_STREAM, lanes=RIGHT),
    ),
)
MIXED = Workload(
    "mixed",
    (
        program("lapse", "aw", 3, 15, 4, speed=STREAM),
        program("plasma", "aw", 5, 24, 3, speed=STREAM),
        program("journal", "ws", 4, 20, 3, speed=FLUSHES, chunk=64 * KIB),
        program("frames", "owc", 4, 20, 3, speed=FILES),
        program("left", "aw", 5, 20, 3, speed=STREAM, lanes=LEFT),
        program("right", "owc", 5, 20, 3, speed=SMALL_FILES, chunk=128 * KIB, lanes=RIGHT),
    ),
)
PACED = Workload(
    "never full",
    tuple(
        program(name, "aw", 8, 12, 3, speed=PACE, lanes=lanes, rate=int(PACE))
        for name, lanes in (
            *((name, LANES) for name in ("lapse", "mesh", "plasma", "ocean")),
            *(("left", LEFT), ("right", RIGHT)),
        )
    ),
)
WORKLOADS = {workload.name: workload for workload in (STREAMS, MIXED, PACED)}


@dataclass(frozen=True)
class Job:
    program: AnyProgram
    nodes: int
    offset: float  # seconds of computing before its first burst


@dataclass(frozen=True)
class Draw:
    number: int
    jobs: tuple[Job, ...]


def draw(workload: Workload, number: int) -> Draw:
    drawn = random.Random(f"{workload.name} {number}")
    widths = drawn.sample(WIDTHS, len(WIDTHS))
    offsets = [drawn.uniform(0, OFFSETS) for _ in workload.programs]
    jobs = zip(workload.programs, widths, offsets, strict=True)
    return Draw(number, tuple(Job(*job) for job in jobs))


@dataclass(frozen=True)
class Burst:
    """Seconds since the beginning of the draw."""

    start: float
    end: float


@dataclass(frozen=True)
class Outcome:
    """What became of a job. Seconds."""

    job: Job
    alone: float  # from its first burst to the end of its last, with nobody else there
    seconds: float  # the same among the others
    bursts: tuple[Burst, ...]
    holds: tuple[Burst, ...]  # when it was held or slowed down
    held: float  # while its processes waited; of several, the mean
    written: float  # bytes
    seen: int  # of these, that the shim counted

    @property
    def lost(self) -> float:
        return self.job.nodes * (self.seconds - self.alone)

    @property
    def slowdown(self) -> float:
        return self.seconds / self.alone


@dataclass(frozen=True)
class Run:
    """A draw in a mode."""

    draw: Draw
    mode: str
    jobs: tuple[Outcome, ...]
    counts: Mapping[str, float]  # of the coordinator
    load: float  # the machine's load average when it ended

    @property
    def lost(self) -> float:
        return sum(job.lost for job in self.jobs)

    @property
    def held(self) -> float:
        return sum(job.held for job in self.jobs)

    @property
    def covered(self) -> float:
        """Share of the bytes written that the shim counted."""
        return sum(job.seen for job in self.jobs) / sum(job.written for job in self.jobs)


def recovered(off: Run, other: Run) -> float:
    """Share of the node-seconds lost without turns that are not lost with them."""
    return 1.0 - other.lost / off.lost


def slowdowns(off: Run, other: Run) -> Iterator[float]:
    """Of each job: its time over its time without turns."""
    for before, after in zip(off.jobs, other.jobs, strict=True):
        yield after.seconds / before.seconds


def load_of(workload: Workload, alone: Mapping[str, Alone], lane: str) -> float:
    """Share of the time in which a lane is busy if its jobs never meet."""
    return sum(
        sum(alone[one.name].bursts) / (alone[one.name].seconds + one.pause)
        for one in workload.programs
        if lane in one.lanes
    )
