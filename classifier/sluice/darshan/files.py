"""What a job did to each of its files, from Darshan's counters.

Traps, all of them seen in real logs: a file has bytes in its POSIX record, its STDIO record or
both; C++ streams open through STDIO and write through POSIX; stream opens and duplicates of a
descriptor count as POSIX opens too; processes that share a file may have one common record.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sluice.darshan.rows import SHARED

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

DISTANCES = 4  # that Darshan keeps of a file, the commonest ones
LARGE = 2  # first class of access sizes that is data: smaller ones may be HDF5's own


@dataclass(frozen=True, slots=True)
class Files:
    """One row for each file (and its process, unless processes share it)."""

    rows: NDArray[Any]
    """All counters, as rows.ROW."""
    owner: NDArray[np.int64]
    """Rank, or SHARED."""
    stem: NDArray[np.uint64]
    """Hash of the name with each number as one sign; 0: no name."""
    program: NDArray[np.bool_]
    """Part of a program, read as it starts."""
    written: Array
    read: Array
    size: Array
    """Highest byte written + 1."""
    opens: Array
    """True ones: streams on top of descriptors and duplicates are not counted."""
    writes: Array
    reads: Array
    stdio_written: Array
    streamed: NDArray[np.bool_]
    """Opened through streams: fopen, or C++ streams whose data POSIX counts."""
    flushes: Array
    """fsync and fdatasync."""
    out_of_order: Array
    """Writes of 1 KiB and more that start before the end of the one before."""
    large_writes: Array
    """Writes of 1 KiB and more."""
    regular: Array
    """Share of the forward jumps that are over one of few distances, 0..1."""
    first_write: Array
    """Seconds from the job's start; infinite when never written."""
    last_write: Array
    first_read: Array
    last_read: Array
    seconds: Array
    """Of reads, writes and metadata, summed over the processes."""
    wrote: NDArray[np.bool_]
    """Anything was written to it."""
    shared: NDArray[np.bool_]
    """Several processes have one record of it."""
    in_common: NDArray[np.bool_]
    """Of several processes: in one record, or in one each, as aggregators have them."""

    def __len__(self) -> int:
        return len(self.owner)


def files_of(rows: NDArray[Any]) -> Files:
    """Look at rows (rows.ROW) as files."""

    def both(name: str) -> Array:
        return np.asarray(rows[f"posix_{name}"] + rows[f"stdio_{name}"])

    posix_opens = np.maximum(rows["posix_opens"] - rows["posix_opens_on_top"], 0)
    stdio_opens = np.maximum(rows["stdio_opens"] - rows["stdio_fdopens"], 0)
    large = rows["posix_size_write"][:, LARGE:].sum(axis=1, dtype=np.float64)
    in_order = np.minimum(rows["posix_seq_writes"] + rows["posix_opens"], rows["posix_writes"])
    # any four jumps have at most four distances: only more of them can show an order
    jumps = rows["posix_seq_writes"] - rows["posix_consec_writes"] - DISTANCES
    written = both("bytes_written")
    shared = rows["owner"] == SHARED
    return Files(
        rows=rows,
        owner=rows["owner"],
        stem=rows["stem"],
        program=rows["program"] > 0,
        written=written,
        read=both("bytes_read"),
        size=rows["max_byte_written"] + 1,
        opens=posix_opens + stdio_opens,
        writes=both("writes"),
        reads=both("reads"),
        stdio_written=rows["stdio_bytes_written"],
        streamed=rows["stdio_opens"] > 0,
        flushes=rows["posix_flushes"],
        out_of_order=np.maximum(large - in_order, 0),
        large_writes=large,
        regular=ratio(rows["posix_strides"] - DISTANCES, jumps).clip(0, 1),
        first_write=rows["write_start"],
        last_write=rows["write_end"],
        first_read=rows["read_start"],
        last_read=rows["read_end"],
        seconds=rows["read_time"] + rows["write_time"] + rows["meta_time"],
        wrote=written > 0,
        shared=shared,
        in_common=shared | _repeated(rows["id"]),
    )


def _repeated(ids: NDArray[Any]) -> NDArray[np.bool_]:
    """Whether another row has the same id."""
    order = ids.argsort()
    same = ~is_new(ids[order])[1:]
    result = np.zeros(len(ids), dtype=np.bool_)
    result[order[1:]] = same
    result[order[:-1]] |= same
    return result


def is_new(values: NDArray[Any]) -> NDArray[np.bool_]:
    """Whether a value differs from the one before it; the first one does."""
    result = np.ones(len(values), dtype=np.bool_)
    result[1:] = values[1:] != values[:-1]
    return result


def ratio(a: Array, b: Array) -> Array:
    """Return a / b, 0 where b is 0."""
    return np.divide(a, b, out=np.zeros(len(a)), where=b > 0)


def weighted(values: NDArray[Any], weights: Array) -> float:
    """Return the mean by weight; 0 without any."""
    total = float(weights.sum())
    return float((values * weights).sum()) / total if total else 0.0


def sums(rows: NDArray[Any], values: Array, count: int = 0) -> Array:
    """Sum the values of each row."""
    return np.bincount(rows, weights=values, minlength=count).astype(np.float64, copy=False)
