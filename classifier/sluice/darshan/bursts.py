"""Bursts and their period, from Darshan's heatmap."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

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
