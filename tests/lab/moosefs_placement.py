"""The jobs of placed_bursts.py on real MooseFS, one for each way to place, at the same time.

Files of a burst go to a directory whose storage class names their targets; made when first used.
"""

from __future__ import annotations

import contextlib
import itertools
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from moosefs import MooseFS
from placed_bursts import (
    Anywhere,
    AtCreate,
    Blocks,
    FollowedBlocks,
    Job,
    Placer,
    Took,
    draw_jobs,
    losses,
)
from real_placement import LOADS, TARGETS, run
from target_kinds import MIB, Limits

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

RATE = 2_000_000
JOBS = 9
PLACERS: dict[str, type[Placer]] = {
    "own": Anywhere,
    "blocks": Blocks,
    "directory": FollowedBlocks,
    "each file": AtCreate,
}
ALONE = (Job(1, 1, 4.0, 1.0, (0.0, 0.0, 0.0)),)


class Classes:
    """One MooseFS, with a directory for each block of its targets.

    The class of a directory says where chunks are made; they may stay wherever they are. Where
    these servers are too busy, others are taken (-m L): by default MooseFS waits for them.
    """

    def __init__(self, place: Path) -> None:
        limits = Limits(bandwidth=RATE, operations=0, size=2500 * MIB)
        lanes = [f"c{target}" for target in range(TARGETS)]
        self.storage = MooseFS(place, lanes=lanes, limits=limits, clients=JOBS)
        self._bursts = itertools.count()

    def make(self) -> None:
        for width in (1, 2, 4, TARGETS):
            for first in range(0, TARGETS, width):
                self._make(range(first, first + width))

    def files(self, job: int, classes: Sequence[Sequence[int]]) -> list[Path]:
        """New files of a burst, of these classes, by way of a client of the job's own."""
        mount, burst = self.storage.mounts[job], next(self._bursts)
        return [mount / _name(at) / f"job{job}-{burst}-{i}" for i, at in enumerate(classes)]

    def _make(self, at: Sequence[int]) -> None:
        root, name = self.storage.mounts[0], _name(at)
        labels = "+".join(chr(ord("A") + target) for target in at)
        made_at = "*" if len(at) == TARGETS else f"[{labels}]"
        (root / name).mkdir()
        self.storage.run("mfsscadmin", root, "create", "-m", "L", "-C", made_at, "-K", "*", name)
        self.storage.run("mfssettrashtime", "0", root / name)
        self.storage.run("mfssetsclass", name, root / name)


def _name(at: Sequence[int]) -> str:
    return f"block-{at[0]}-{len(at)}"


@dataclass(frozen=True)
class Draw:
    """The bursts of one draw by the name of the placer."""

    jobs: tuple[Job, ...]
    measured: dict[str, list[Took]]
    stretch: float
    """Time of bursts alone over that at the rate of their targets."""


def share_lost(found: Sequence[Draw], placer: str) -> float:
    """Of the node-seconds of all bursts alone, those by which they outlasted that."""
    pairs = [losses(one.jobs, one.measured[placer], stretch=one.stretch) for one in found]
    return sum(lost for lost, _ in pairs) / sum(alone for _, alone in pairs)


def _placed(classes: Classes, placer: Placer):
    def files(job: int, at: Sequence[int]) -> list[Path]:
        width = placer.jobs[job].width
        is_by_file = isinstance(placer, AtCreate)
        return classes.files(job, [(target,) for target in at] if is_by_file else [at] * width)

    return placer, files


def _stretch(all_classes: Iterable[Classes]) -> float:
    """Of bursts alone, one after the other: their time over that at the targets' rate."""
    took = [
        burst.seconds / ALONE[0].burst
        for classes in all_classes
        for burst in run({"": _placed(classes, Anywhere(ALONE, TARGETS, 0))}, 60.0, RATE)[""]
    ]
    return median(took)


def draws(place: Path, numbers: Iterable[int], seconds: float) -> Iterator[Draw]:
    """Run draws of so many seconds, one after the other."""
    with contextlib.ExitStack() as stack:
        classes = {name: Classes(place / name.replace(" ", "-")) for name in PLACERS}
        for one in classes.values():
            one.storage.place.parent.mkdir()
            stack.enter_context(one.storage)
            one.make()
        stretch = _stretch(classes.values())
        for number in numbers:
            load = LOADS[number % len(LOADS)]
            jobs = draw_jobs(number, load=load, targets=TARGETS, count=JOBS, until=seconds)
            placed = {
                name: _placed(classes[name], placer(jobs, TARGETS, number))
                for name, placer in PLACERS.items()
            }
            yield Draw(jobs, run(placed, seconds, RATE), stretch)
