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

from sluice.classifier.bursts import QUIET, Heatmap

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Array = NDArray[np.float64]

HEAD = struct.Struct("<dfd")  # start, seconds of a bin, bytes in all
STEPS = 4.0  # of a bin's code for each doubling: bytes to one part in ten
MOST_BINS = 1000  # Darshan has 200
BINS = 200  # at most, of several runs together


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

    @property
    def busy(self) -> NDArray[np.bool_]:
        return np.greater(self.moved, QUIET * float(self.moved.max(initial=0.0)))


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


def busy_seconds(runs: Sequence[MovedBytes]) -> float:
    """Return the seconds in which any of the runs was busy."""
    begins = np.concatenate([run.edges[:-1][run.busy] for run in runs])
    ends = np.concatenate([run.edges[1:][run.busy] for run in runs])
    order = begins.argsort()
    begins, ends = begins[order], np.maximum.accumulate(ends[order])
    gaps = np.maximum(begins[1:] - ends[:-1], 0.0)
    return float(ends[-1] - begins[0] - gaps.sum())


def together(runs: Sequence[MovedBytes]) -> Heatmap:
    """Lay runs over each other, in bins as wide as the widest or wider."""
    start = min(run.start for run in runs)
    end = max(float(run.edges[-1]) for run in runs)
    width = max(run.bin_seconds for run in runs)
    while width * BINS < end - start:
        width *= 2.0
    edges = start + width * np.arange(math.ceil((end - start) / width - 1e-6) + 1)
    moved = np.zeros(len(edges) - 1)
    for run in runs:
        passed = np.concatenate([[0.0], np.cumsum(run.moved)])
        moved += np.diff(np.interp(edges, run.edges, passed))
    return Heatmap(width, moved, np.zeros(len(moved)))
