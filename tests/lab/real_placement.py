"""The jobs of placed_bursts.py on real throttled targets, under several placers at a time.

Each placer has targets of its own, so that all of them see the same minutes. A burst writes a
new file to each of its targets, one thread a target, and ends with the last fsync.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from placed_bursts import (
    AtCreate,
    Blocks,
    Chance,
    DisturbedRoundRobin,
    Followed,
    Job,
    Placer,
    RoundRobin,
    Took,
    draw_jobs,
    fluid,
    losses,
)
from storage_targets import StorageTargets
from target_kinds import MIB, Limits

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

RATE = 4_000_000
"""Bytes a second of each target."""
CHUNK = b"\1" * (256 * 1024)


def targets_of(place: Path, modes: int, count: int) -> StorageTargets:
    """Return targets for so many placers; `run` uses them when they are up."""
    lanes = [f"m{mode}t{target}" for mode in range(modes) for target in range(count)]
    limits = Limits(bandwidth=RATE, operations=0, dirty=MIB, size=512 * MIB)
    return StorageTargets(place, lanes=lanes, limits=limits, kinds=("blkio",))


FilesOf = Callable[[int, Sequence[int]], list[Path]]
"""The files of a job's burst on these targets."""


class _Run:
    """One placer's jobs and targets."""

    def __init__(self, placer: Placer, files_of: FilesOf, zero: float, rate: int) -> None:
        self.placer = placer
        self.took: list[Took] = []
        self._files_of = files_of
        self._zero, self._rate = zero, rate
        self._lock = threading.Lock()

    def job(self, number: int, until: float) -> None:
        """Run the bursts of a job that begin until then; one is late if its last one was."""
        for begin in self.placer.jobs[number].times:
            time.sleep(max(0.0, begin - self._clock()))
            if (began := self._clock()) > until:
                return
            with self._lock:
                at = self.placer.begin(number, began)
            files = self._files_of(number, at)
            self._write(number, files)
            ended = self._clock()
            with self._lock:
                self.placer.end(number, ended)
                self.took.append(Took(number, began, ended - began))
            for file in files:
                file.unlink()

    def _clock(self) -> float:
        return time.monotonic() - self._zero

    def _write(self, number: int, files: Sequence[Path]) -> None:
        size = int(self.placer.jobs[number].burst * self._rate)
        with ThreadPoolExecutor(len(files)) as pool:
            list(pool.map(_write, files, [size] * len(files)))


def _write(file: Path, size: int) -> None:
    with file.open("xb", buffering=0) as out:
        for left in range(size, 0, -len(CHUNK)):
            out.write(CHUNK[:left])
        os.fsync(out.fileno())


def run(
    placed: Mapping[str, tuple[Placer, FilesOf]], until: float, rate: int = RATE
) -> dict[str, list[Took]]:
    """Run all placers' jobs at once. Returns the bursts of each."""
    zero = time.monotonic() + 0.5
    runs = {name: _Run(*one, zero, rate) for name, one in placed.items()}
    jobs = [(one, number) for one in runs.values() for number in range(len(one.placer.jobs))]
    with ThreadPoolExecutor(len(jobs)) as pool:
        list(pool.map(lambda job: job[0].job(job[1], until), jobs))
    return {name: one.took for name, one in runs.items()}


def on_targets(targets: StorageTargets, mode: int) -> FilesOf:
    """A file on each target, of those of a placer."""
    return lambda job, at: [targets.path(f"m{mode}t{target}") / f"job{job}" for target in at]


PLACERS: dict[str, type[Placer]] = {
    "chance": Chance,
    "round robin": RoundRobin,
    "disturbed": DisturbedRoundRobin,
    "blocks": Blocks,
    "directory": Followed,
    "at create": AtCreate,
}
TARGETS, JOBS = 8, 10
LOADS = (0.15, 0.20, 0.25, 0.30, 0.35, 0.40)
"""Of the draws, one after the other."""


@dataclass(frozen=True)
class Draw:
    """The bursts of one draw by the name of the placer, measured and in the model."""

    jobs: tuple[Job, ...]
    measured: dict[str, list[Took]]
    modelled: dict[str, list[Took]]


def draw_of(number: int, targets: StorageTargets, seconds: float) -> Draw:
    """Run a draw on targets for all PLACERS, and in the model."""
    load = LOADS[number % len(LOADS)]
    jobs = draw_jobs(number, load=load, targets=TARGETS, count=JOBS, until=seconds)
    placed = {
        name: (one(jobs, TARGETS, number), on_targets(targets, mode))
        for mode, (name, one) in enumerate(PLACERS.items())
    }
    measured = run(placed, seconds)
    modelled = {name: fluid(one(jobs, TARGETS, number), seconds) for name, one in PLACERS.items()}
    return Draw(jobs, measured, modelled)


def draws(place: Path, numbers: Iterable[int], seconds: float) -> Iterator[Draw]:
    """Run draws of so many seconds, one after the other."""
    with targets_of(place, len(PLACERS), TARGETS) as targets:
        for number in numbers:
            yield draw_of(number, targets, seconds)


def share_lost(found: Sequence[Draw], placer: str, *, modelled: bool = False) -> float:
    """Of the node-seconds of all bursts alone, those by which they outlasted that."""
    pairs = [
        losses(draw.jobs, (draw.modelled if modelled else draw.measured)[placer]) for draw in found
    ]
    return sum(lost for lost, _ in pairs) / sum(alone for _, alone in pairs)


def stretches(found: Sequence[Draw], placer: str) -> list[float]:
    """Of each burst, its time over its time alone; rising."""
    return sorted(
        burst.seconds / draw.jobs[burst.job].burst
        for draw in found
        for burst in draw.measured[placer]
    )
