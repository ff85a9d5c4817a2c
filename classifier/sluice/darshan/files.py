"""What jobs did to each of their files, from Darshan's counters.

Traps, all of them seen in real logs: a file has bytes in its POSIX record, its STDIO record or
both; C++ streams open through STDIO and write through POSIX; stream opens and duplicates of a
descriptor count as POSIX opens too; processes that share a file may have one common record.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sluice.darshan.rows import SHARED, Rows, ratio

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Array = NDArray[np.float64]

DISTANCES = 4  # that Darshan keeps of a file, the commonest ones
LARGE = 2  # first class of access sizes that is data: smaller ones may be HDF5's own


@dataclass(frozen=True, slots=True)
class Files:
    """One row for each file (and its process, unless processes share it), of several logs."""

    rows: Rows
    """All counters, and what is summed up for each log."""
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


def files_of(logs: Sequence[NDArray[Any]] | Rows) -> Files:
    """Look at the rows of logs as files."""
    rows = logs if isinstance(logs, Rows) else Rows(logs)

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
        in_common=shared | (np.bincount(rows.file)[rows.file] > 1),
    )
