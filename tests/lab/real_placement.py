"""The jobs of placed_bursts.py on real throttled targets, under several placers at a time.

Each placer has targets of its own, so that all of them see the same minutes. A burst writes a
new file to each of its targets, one thread a target, and ends with the last fsync.
"""

from __future__ import annotations

import os
import threading
import time
from dataclasses import dataclass
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
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

RATE = 4_000_000
"""Bytes a second of each target."""
CHUNK = b"\1" * (256 * 1024)


def targets_of(place: Path, modes: int, count: int) -> StorageTargets:
    """Return targets for so many placers; `run` uses them when they are up."""
    lanes = [f"m{mode}t{target}" for mode in range(modes) for target in range(count)]
    limits = Limits(bandwidth=RATE, operations=0, dirty=MIB, size=512 * MIB)
    return StorageTargets(place, lanes=lanes, limits=limits, kinds=("blkio",))


class _Run:
    """One placer's jobs and targets."""

    def __init__(self, placer: Placer, directory_of: Callable[[int], Path], zero: float) -> None:
        self.placer = placer
        self.took: list[Took] = []
        self._directory_of = directory_of
        self._zero = zero
        self._lock = threading.Lock()

    def job(self, number: int, until: float) -> None:
        """Run the bursts of a job that begin until then; one is late if its last one was."""
        for begin in self.placer.jobs[number].times:
            time.sleep(max(0.0, begin - self._clock()))
            if (began := self._clock()) > until:
                return
            with self._lock:
                at = self.placer.begin(number, began)
            self._write(number, [self._directory_of(target) / f"job{number}" for target in at])
            ended = self._clock()
            with self._lock:
                self.placer.end(number, ended)
                self.took.append(Took(number, began, ended - began))
            for target in at:
                (self._directory_of(target) / f"job{number}").unlink()

    def _clock(self) -> float:
        return time.monotonic() - self._zero

    def _write(self, number: int, files: Sequence[Path]) -> None:
        size = int(self.placer.jobs[number].burst * RATE)
        threads = [threading.Thread(target=_write, args=(file, size)) for file in files]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


def _write(file: Path, size: int) -> None:
    with file.open("xb", buffering=0) as out:
        for left in range(size, 0, -len(CHUNK)):
            out.write(CHUNK[:left])
        os.fsync(out.fileno())


def run(
    targets: StorageTargets, placers: Mapping[str, Placer], until: float
) -> dict[str, list[Took]]:
    """Run all placers' jobs at once. Returns the bursts of each."""
    zero = time.monotonic() + 0.5
    runs = {
        name: _Run(placer, lambda target, mode=mode: targets.path(f"m{mode}t{target}"), zero)
        for mode, (name, placer) in enumerate(placers.items())
    }
    threads = [
        threading.Thread(target=one.job, args=(number, until))
        for one in runs.values()
        for number in range(len(one.placer.jobs))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return {name: one.took for name, one in runs.items()}


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
    measured = run(
        targets, {name: one(jobs, TARGETS, number) for name, one in PLACERS.items()}, seconds
    )
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
