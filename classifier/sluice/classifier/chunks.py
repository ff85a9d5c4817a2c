"""The size of the operation that moves most bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sluice.classifier.files import Files

    Array = NDArray[np.float64]

# a size is in the class before the first edge that is not smaller
EDGES = np.array([100, 1024, 10240, 102400, 1 << 20, 1 << 22, 10 << 20, 100 << 20, 1 << 30])
DOMINANT = 0.4  # share of the bytes from which one size speaks for all


def chunk_size(files: Files, *, reading: bool) -> float:
    """Return bytes of the operation that moves most; 0: nothing was moved.

    That is a write, or a read where only reads matter. Darshan keeps the four commonest sizes of
    a file, reads and writes together, and how many operations are in which class of sizes; STDIO
    has only sums, so there it is bytes over operations. Where no size moves a large part of the
    bytes, half of them are moved by smaller and half by larger operations than the result.
    """
    sizes, weights = _masses(files, "read" if reading else "write")
    if not weights.sum():
        return 0.0
    values, place = np.unique(np.round(sizes), return_inverse=True)
    mass = np.bincount(place, weights=weights)
    if mass.max() >= DOMINANT * mass.sum():
        return float(values[mass.argmax()])
    return float(values[np.searchsorted(np.cumsum(mass), mass.sum() / 2)])


def _masses(files: Files, verb: str) -> tuple[Array, Array]:
    """Return sizes of operations and the bytes that each of them moved in all."""
    rows, past = files.rows, "read" if verb == "read" else "written"
    volume, count = rows[f"posix_bytes_{past}"], rows[f"posix_{verb}s"]
    mine, others = rows[f"posix_size_{verb}"], rows[f"posix_size_{_other(verb)}"]
    bucket = np.searchsorted(EDGES, rows["posix_access"], side="left")
    every = np.arange(len(rows))[:, np.newaxis]
    both = mine[every, bucket] + others[every, bucket]
    known = np.where(rows["posix_access"] <= volume[:, np.newaxis], rows["posix_access_count"], 0)
    known = known * np.divide(mine[every, bucket], both, out=np.zeros_like(both), where=both > 0)
    bytes_known = known * rows["posix_access"]
    rest = np.maximum(volume - bytes_known.sum(axis=1), 0)
    rest_count = np.maximum(count - known.sum(axis=1), 1)
    stdio, stdio_count = rows[f"stdio_bytes_{past}"], np.maximum(rows[f"stdio_{verb}s"], 1)
    sizes = [rows["posix_access"].ravel(), rest / rest_count, stdio / stdio_count]
    weights = [bytes_known.ravel(), rest, stdio]
    return np.concatenate(sizes), np.concatenate(weights)


def _other(verb: str) -> str:
    return "write" if verb == "read" else "read"
