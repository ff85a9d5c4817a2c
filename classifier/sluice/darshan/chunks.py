"""The size of the operation that moves most bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from sluice.darshan.files import ratio, sums

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sluice.darshan.files import Files

    Array = NDArray[np.float64]

# a size is in the class before the first edge that is not smaller
EDGES = np.array([100, 1024, 10240, 102400, 1 << 20, 1 << 22, 10 << 20, 100 << 20, 1 << 30])
LOWEST = np.append(1.0, EDGES)  # of each class, in bytes
HIGHEST = np.append(EDGES, 10.0 * EDGES[-1])
MIDDLES = np.sqrt(LOWEST) * np.sqrt(HIGHEST)
DOMINANT = 0.4  # share of the bytes from which one size speaks for all
AT_ONCE = 1 << 14  # files; each needs memory for all classes of sizes


def chunk_size(files: Files, *, reading: bool) -> float:
    """Return bytes of the operation that moves most; 0: nothing was moved.

    That is a write, or a read where only reads matter. Darshan keeps the four commonest sizes of
    a file, reads and writes together, and how many operations are in which class of sizes, which
    places the others; STDIO has only sums, so there it is bytes over operations. Where no size
    moves a large part of the bytes, half of them are moved by smaller and half by larger
    operations than the result.
    """
    verb = "read" if reading else "write"
    starts = range(0, len(files), AT_ONCE)
    parts = [_masses(files.rows[start : start + AT_ONCE], verb) for start in starts]
    if not any(len(sizes) for sizes, _ in parts):
        return 0.0
    sizes, weights = (np.concatenate(part) for part in zip(*parts, strict=True))
    values, place = np.unique(sizes, return_inverse=True)
    mass = np.bincount(place, weights=weights)
    if mass.max() >= DOMINANT * mass.sum():
        return float(values[mass.argmax()])
    return float(values[np.searchsorted(np.cumsum(mass), mass.sum() / 2)])


def _masses(rows: NDArray[Any], verb: str) -> tuple[Array, Array]:
    """Return sizes of operations, in whole bytes, and the bytes that each of them moved in all."""
    past = "read" if verb == "read" else "written"
    volume = rows[f"posix_bytes_{past}"]
    mine, others = rows[f"posix_size_{verb}"], rows[f"posix_size_{_other(verb)}"]
    access, times = rows["posix_access"], rows["posix_access_count"]
    kept = (times > 0) & (access <= volume[:, np.newaxis])
    row, common = kept.nonzero()[0], access[kept]
    bucket = EDGES.searchsorted(common, side="left")
    known = times[kept] * ratio(mine[row, bucket], (mine + others)[row, bucket])
    bytes_known = known * common
    left = mine.astype(np.float64)
    np.subtract.at(left, (row, bucket), known)
    rest = np.maximum(volume - sums(row, bytes_known, len(rows)), 0)
    stdio, stdio_count = rows[f"stdio_bytes_{past}"], np.maximum(rows[f"stdio_{verb}s"], 1)
    rest_count = np.maximum(rows[f"posix_{verb}s"] - sums(row, known, len(rows)), 1)
    sizes_left, bytes_left = _by_class(np.maximum(left, 0), rest, rest / rest_count)
    sizes = np.concatenate([common, sizes_left, stdio / stdio_count])
    weights = np.concatenate([bytes_known, bytes_left, stdio])
    moved = weights > 0
    return np.rint(sizes[moved]), weights[moved]


def _by_class(left: Array, rest: Array, mean: Array) -> tuple[Array, Array]:
    """Share the bytes of a row that no common size explains among its classes of sizes.

    left: operations of each class that are not of a common size, (rows, classes). Their sizes are
    the middles of the classes, all scaled alike until they move `rest`, within their class; where
    no class is left, `mean`.
    """
    scale = ratio(rest, left @ MIDDLES)[:, np.newaxis]
    sizes = np.clip(scale * MIDDLES, LOWEST, HIGHEST)
    moved = left * sizes
    share = moved * ratio(rest, moved.sum(axis=1))[:, np.newaxis]
    unexplained = np.where(moved.any(axis=1), 0.0, rest)
    return (
        np.concatenate([sizes.ravel(), mean]),
        np.concatenate([share.ravel(), unexplained]),
    )


def _other(verb: str) -> str:
    return "write" if verb == "read" else "read"
