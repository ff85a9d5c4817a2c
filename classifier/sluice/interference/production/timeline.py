"""What a run moved over time, and the slices of it that tell the rate of its I/O.

Darshan's HEATMAP counts bytes in at most 200 bins. A bin at the edge of a burst says that the
burst began or ended somewhere inside it; only a bin with busy neighbours on both sides was
busy throughout, and tells a rate. A burst shorter than two bins has no such bin for certain:
a run of such bursts is unresolved, however many there are. So is one whose short bursts lie so
close that every bin has one, which the time that it spent in I/O gives away.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from sluice.darshan.bursts import QUIET, runs_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    Array = NDArray[np.floating[Any]]
    Spells = tuple[Array, Array]
    """When each began and ended; apart from each other, in order."""

INNER = 1  # bins that a burst must fill, between its edges, to tell a rate
SHORT = 0.25  # of a run's bursts may be shorter
FILLED = 0.5  # of its busy bins' time a run must at least spend in I/O
PIECE = 4  # bins of a slice at most, so that a job that writes throughout has slices too


@dataclass(frozen=True, eq=False)
class Timeline:
    """One run, or what a server saw; compared by identity."""

    application: str
    processes: int
    start: float
    """UTC seconds of the first bin."""
    bin_seconds: float
    moved: NDArray[np.float64]
    """Bytes of each bin."""
    job: int | None = None
    """What runs of one job have in common: they do not count as each other's aggressors."""
    targets: frozenset[int] | None = None
    """Storage targets that it uses; None: not known, so it may share with everybody."""
    io_seconds: float | None = None
    """That its slowest process spent in I/O; None: not known."""
    edge: int = 1
    """Bins at either end of a burst that it may not fill."""

    @cached_property
    def busy(self) -> NDArray[np.bool_]:
        """Bins in which it moved data, noise aside."""
        threshold = QUIET * float(self.moved.max(initial=0.0))
        return np.greater(self.moved, threshold)

    @cached_property
    def bursts(self) -> Spells:
        """UTC seconds at which its bursts began, and ended."""
        starts, stops = runs_of(self.busy)
        return self.start + self.bin_seconds * starts, self.start + self.bin_seconds * stops

    @property
    def busy_seconds(self) -> float:
        return float(self.busy.sum()) * self.bin_seconds

    @property
    def edges(self) -> Array:
        """UTC seconds between which its bins lie."""
        return self.start + self.bin_seconds * np.arange(len(self.moved) + 1)

    @property
    def end(self) -> float:
        return self.start + self.bin_seconds * len(self.moved)

    def shares_with(self, other: Timeline) -> bool:
        """Tell whether both were there at the same time, on targets that both may use."""
        if self.start >= other.end or other.start >= self.end:
            return False
        if self.job is not None and self.job == other.job:
            return False
        if self.targets is None or other.targets is None:
            return True
        return not self.targets.isdisjoint(other.targets)


@dataclass(frozen=True, slots=True)
class Slices:
    """Stretches of a run that were busy throughout; arrays of one length."""

    first: NDArray[np.intp]
    """Bin each begins with."""
    end: NDArray[np.intp]
    """Bin behind its last one."""
    log_rate: NDArray[np.float64]
    """Natural logarithm of bytes a second."""

    def __len__(self) -> int:
        return len(self.first)

    def mean(self, of_bins: NDArray[np.float64]) -> NDArray[np.float64]:
        """Average (..., bins) over the bins of each slice: (..., slices)."""
        sums = np.concatenate(
            [np.zeros((*of_bins.shape[:-1], 1)), np.cumsum(of_bins, axis=-1)], axis=-1
        )
        means: NDArray[np.float64] = sums[..., self.end] - sums[..., self.first]
        return means / (self.end - self.first)


def slices_of(timeline: Timeline) -> Slices | None:
    """Cut a run into slices; None where its bins are too wide for its bursts.

    They are too wide also where only some bursts are long enough: those may be the slow ones.
    """
    starts, stops = runs_of(timeline.busy)
    shortest = INNER + 2 * timeline.edge
    if not len(starts) or (stops - starts < shortest).mean() > SHORT or _is_sparse(timeline):
        return None
    first: list[int] = []
    end: list[int] = []
    for start, stop in zip(starts + timeline.edge, stops - timeline.edge, strict=True):
        for at in range(start, stop, PIECE):
            first.append(at)
            end.append(min(at + PIECE, stop))
    empty = Slices(np.array(first), np.array(end), np.empty(0))
    return Slices(empty.first, empty.end, np.log(empty.mean(timeline.moved) / timeline.bin_seconds))


def _is_sparse(timeline: Timeline) -> bool:
    """Tell whether its busy bins hold more pauses than I/O, which no bin of its own shows."""
    io_seconds = timeline.io_seconds
    return io_seconds is not None and io_seconds < FILLED * timeline.busy_seconds


def exposure(timeline: Timeline, others: Iterable[Timeline]) -> NDArray[np.float64]:
    """Return the share of each bin of a run during which any of the others was busy.

    Others whose bins are wider count as busy for the whole of their bin.
    """
    begin, finish = _covered([_bursts_during(timeline, other) for other in others])
    if not len(begin):
        return np.zeros(len(timeline.moved))
    turns = np.stack([begin, finish], axis=1).ravel()
    passed = np.concatenate([[0.0], np.cumsum(finish - begin)]).repeat(2)[1:-1]
    under: NDArray[np.float64] = np.diff(np.interp(timeline.edges, turns, passed))
    return np.clip(under / timeline.bin_seconds, 0.0, 1.0)


def _bursts_during(timeline: Timeline, other: Timeline) -> Spells:
    begin, finish = other.bursts
    some = slice(finish.searchsorted(timeline.start, "right"), begin.searchsorted(timeline.end))
    return begin[some], finish[some]


def _covered(spells: Sequence[Spells]) -> Spells:
    """Return the time that any of the spells covers."""
    begin = np.concatenate([np.empty(0), *(begin for begin, _ in spells)])
    finish = np.concatenate([np.empty(0), *(finish for _, finish in spells)])
    if not len(begin):
        return begin, finish
    order = begin.argsort()
    begin, finish = begin[order], np.maximum.accumulate(finish[order])
    is_apart = begin[1:] > finish[:-1]
    return begin[np.append(True, is_apart)], finish[np.append(is_apart, True)]


def resampled(run: Timeline, edges: Array) -> NDArray[np.float64]:
    """Return the bytes of a run between edges (UTC seconds), spread evenly within its bins."""
    sums = np.concatenate([[0.0], np.cumsum(run.moved)])
    return np.diff(np.interp(edges, run.edges, sums))


def shuffled(timelines: Sequence[Timeline], rng: np.random.Generator) -> list[Timeline]:
    """Give every run the start of another and turn its I/O in time: the negative control.

    What each run moved, how often, and how many ran together stays; whatever coincided with
    others no longer does, so nothing that is found in shuffled runs is true.
    """
    starts = rng.permutation([one.start for one in timelines])
    return [
        replace(one, start=float(start), moved=np.roll(one.moved, rng.integers(len(one.moved))))
        for one, start in zip(timelines, starts, strict=True)
    ]
