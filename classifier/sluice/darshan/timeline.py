"""When a run moved how much: its heatmap, small enough to be kept of every log.

What several processes or steps of a job did is laid over each other by these.
"""

from __future__ import annotations

import math
import struct
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sluice.darshan.bursts import Heatmap

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Array = NDArray[np.float64]

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
