"""When a run moved how much, from Darshan's heatmap: its bursts, their period, and what is kept.

What several processes or steps of a job did is laid over each other by the bytes moved.
"""

from __future__ import annotations

import math
import struct
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Array = NDArray[np.float64]


QUIET = 0.02  # of the busiest bin: what is below it is no burst
MIN_BURSTS = 3  # before their distances can be called a period
ALIKE = 0.6  # correlation of a signal with itself, a period later, from which it repeats
MOST = 0.75  # share of the distances that must be alike,
REGULAR = 0.25  # that is, differ from their median by no more than this share of it


@dataclass(frozen=True, slots=True)
class Heatmap:
    """Bytes of all processes, by time bin from the job's start."""

    bin_seconds: float
    written: NDArray[np.float64]
    read: NDArray[np.float64]

    @property
    def moved(self) -> float:
        return float(self.written.sum() + self.read.sum())


@dataclass(frozen=True, slots=True)
class Bursts:
    """Seconds; None where the heatmap does not tell."""

    length: float | None = None
    period: float | None = None


def find_bursts(heatmap: Heatmap) -> Bursts:
    """Find bursts as runs of busy bins.

    A burst shorter than two bins has an unknown length: a bin says that it was somewhere
    inside. Its period is known all the same if the bursts are two bins or more apart.
    """
    moved = heatmap.written + heatmap.read
    if len(moved) < 4 or not moved.any():
        return Bursts()
    busy = moved > QUIET * moved.max()
    starts, ends = runs_of(busy)
    starts, ends = _joined(starts, ends)
    lengths = ends - starts
    length = None
    if (lengths >= 2).mean() > 0.5 and not busy.all():
        length = float(np.median(lengths)) * heatmap.bin_seconds
    period = _period(starts, heatmap.bin_seconds) or _repetition(moved, heatmap.bin_seconds)
    return Bursts(length=length, period=period)


def runs_of(busy: NDArray[np.bool_]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return where runs of busy bins begin, and the bins behind their ends."""
    edges = np.diff(np.concatenate([[0], busy.astype(np.int8), [0]]))
    return np.flatnonzero(edges == 1), np.flatnonzero(edges == -1)


def _joined(
    starts: NDArray[np.intp], ends: NDArray[np.intp]
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Join bursts that are one quiet bin apart while most are much further apart."""
    gaps = starts[1:] - ends[:-1]
    if not len(gaps) or np.median(gaps) < 4:
        return starts, ends
    keep = gaps > 1
    return starts[np.concatenate([[True], keep])], ends[np.concatenate([keep, [True]])]


def _period(starts: NDArray[np.intp], bin_seconds: float) -> float | None:
    if len(starts) < MIN_BURSTS:
        return None
    distances = np.diff(starts)
    median = float(np.median(distances))
    if median < 2 or float(np.quantile(np.abs(distances - median), MOST)) > REGULAR * median:
        return None
    return float(starts[-1] - starts[0]) / len(distances) * bin_seconds


def _repetition(moved: NDArray[np.float64], bin_seconds: float) -> float | None:
    """Return the shift at which the signal looks like itself, and again at twice that shift.

    For bursts that come in groups, or alongside others: no single distance tells their period.
    """
    signal = np.minimum(moved, np.quantile(moved[moved > 0], 0.9))
    signal = signal - signal.mean()
    longest = len(signal) // MIN_BURSTS
    if longest < 4 or not signal.any():
        return None
    alike = np.array([_correlation(signal, shift) for shift in range(2 * longest + 1)])
    shifts = np.arange(3, longest + 1)
    peak = (alike[shifts] >= alike[shifts - 1]) & (alike[shifts] >= alike[shifts + 1])
    good = shifts[peak & (alike[shifts] >= ALIKE) & (alike[2 * shifts] >= ALIKE)]
    return float(good[0]) * bin_seconds if len(good) else None


def _correlation(signal: NDArray[np.float64], shift: int) -> float:
    if not shift:
        return 1.0
    early, late = signal[:-shift], signal[shift:]
    size = float(np.sqrt((early**2).sum() * (late**2).sum()))
    return float((early * late).sum()) / size if size else 0.0


HEAD = struct.Struct("<dfd")  # start, seconds of a bin, bytes in all
STEPS = 4.0  # of a bin's code for each doubling: bytes to one part in ten
MOST_BINS = 1000  # Darshan has 200
BINS = 200  # at most, of several runs together,
MOST_SLICES = 2000  # and when their seconds of I/O are laid over each other


@dataclass(frozen=True, slots=True, eq=False)
class MovedBytes:
    """Bytes by time bin."""

    start: float
    """UTC seconds of the first bin."""
    bin_seconds: float
    moved: Array

    @property
    def edges(self) -> Array:
        bins = np.arange(len(self.moved) + 1, dtype=np.float64)
        return np.asarray(self.start + self.bin_seconds * bins)

    def between(self, edges: Array) -> Array:
        """Return the bytes between edges (UTC seconds), spread evenly within its bins."""
        passed = np.concatenate([[0.0], np.cumsum(self.moved)])
        return np.diff(np.interp(edges, self.edges, passed))


def packed(start: float, heatmap: Heatmap | None) -> bytes | None:
    """Return a heatmap as it is kept; None where it tells nothing."""
    if heatmap is None:
        return None
    moved = heatmap.written + heatmap.read
    if not moved.any() or len(moved) > MOST_BINS:
        return None
    codes = np.rint(STEPS * np.log2(1.0 + moved)).clip(0, 255).astype(np.uint8)
    head = HEAD.pack(start, heatmap.bin_seconds, float(moved.sum()))
    return head + zlib.compress(codes.tobytes(), 9)


def unpacked(content: bytes | None) -> MovedBytes | None:
    if content is None:
        return None
    start, bin_seconds, total = HEAD.unpack_from(content)
    codes = np.frombuffer(zlib.decompress(content[HEAD.size :]), dtype=np.uint8)
    moved = np.exp2(codes / STEPS) - 1.0
    return MovedBytes(start, bin_seconds, moved * (total / moved.sum()))


def io_seconds_of_all(runs: Sequence[MovedBytes], io_seconds: Sequence[float]) -> float:
    """Return the seconds in which any of the runs was in I/O.

    Each spends its own in its bins by their bytes. Within a bin all are taken to be in I/O at the
    same time, as those of a parallel program are: of it too, the slowest process counts.
    """
    edges = _edges(runs, width=min(run.bin_seconds for run in runs), most=MOST_SLICES)
    longest = np.zeros(len(edges) - 1)
    for run, seconds in zip(runs, io_seconds, strict=True):
        np.maximum(longest, seconds * run.between(edges) / run.moved.sum(), out=longest)
    return float(longest.sum())


def _edges(runs: Sequence[MovedBytes], *, width: float, most: int) -> Array:
    """Return the edges of common bins, at least so wide and at most so many."""
    start = min(run.start for run in runs)
    seconds = max(float(run.edges[-1]) for run in runs) - start
    while width * most < seconds:
        width *= 2.0
    bins = np.arange(math.ceil(seconds / width - 1e-6) + 1, dtype=np.float64)
    return np.asarray(start + width * bins)


def together(runs: Sequence[MovedBytes]) -> Heatmap:
    """Lay runs over each other, in bins as wide as the widest or wider."""
    edges = _edges(runs, width=max(run.bin_seconds for run in runs), most=BINS)
    moved = np.sum([run.between(edges) for run in runs], axis=0)
    return Heatmap(float(edges[1] - edges[0]), moved, np.zeros(len(moved)))
