"""One row a file: what POSIX, STDIO and MPI-IO counted for it, side by side.

A row stands for one (file, process), or for one file that several processes share. All numbers
are sums over the records that fall into the row, unless the name says otherwise; a counter that
Darshan did not keep (-1) counts 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

SHARED = -1
"""Owner of a file that several processes share."""

MODULES = {"posix": "POSIX", "stdio": "STDIO", "mpiio": "MPI-IO"}
SUMS = {
    "posix": (
        *("opens", "filenos", "dups", "reads", "writes", "seeks", "stats", "mmaps"),
        *("fsyncs", "fdsyncs", "rename_sources", "rename_targets", "bytes_read", "bytes_written"),
        *("consec_reads", "seq_reads", "consec_writes", "seq_writes", "rw_switches"),
    ),
    "stdio": (
        *("opens", "fdopens", "reads", "writes", "seeks", "flushes", "bytes_read"),
        "bytes_written",
    ),
    "mpiio": (
        *("indep_opens", "coll_opens", "indep_writes", "coll_writes", "split_writes"),
        *("nb_writes", "indep_reads", "coll_reads", "split_reads", "nb_reads", "syncs"),
        *("bytes_read", "bytes_written"),
    ),
}
"""Integer counters, as in Darshan without the module's name."""

MOSTS = {"posix": ("max_byte_written", "max_byte_read")} | {
    "stdio": ("max_byte_written", "max_byte_read")
}
"""Largest of the records; -1 where nothing was moved."""

SECONDS = ("read_time", "write_time", "meta_time", "slowest_time")
"""Of each module: seconds; slowest_time is that of the slowest process of a shared file."""

STARTS = ("open_start", "read_start", "write_start")
"""Of POSIX and STDIO: seconds from the job's start to the first one; infinite: never."""

ENDS = ("read_end", "write_end")
"""Likewise to the end of the last one; 0: never."""

BUCKETS = tuple(
    f"{low}_{high}"
    for low, high in zip(
        ("0", "100", "1K", "10K", "100K", "1M", "4M", "10M", "100M", "1G"),
        ("100", "1K", "10K", "100K", "1M", "4M", "10M", "100M", "1G", "PLUS"),
        strict=True,
    )
)
"""Darshan's classes of access sizes."""

ARRAYS = {
    "posix_size_read": len(BUCKETS),
    "posix_size_write": len(BUCKETS),
    "posix_access": 4,  # commonest sizes of accesses, reads and writes together
    "posix_access_count": 4,
    "mpiio_size_write_agg": len(BUCKETS),
}
SCALARS = (
    *(f"{module}_{name}" for table in (SUMS, MOSTS) for module in table for name in table[module]),
    *(f"{module}_{name}" for module in MODULES for name in SECONDS),
    *(f"{module}_{name}" for module in ("posix", "stdio") for name in STARTS + ENDS),
    "posix_strides",  # forward jumps over one of the four commonest distances
    "stripe_count",
)
ROW = np.dtype(
    [
        ("id", "u8"),
        ("owner", "i8"),  # rank, or SHARED
        ("modules", "u8"),  # bits: 1 POSIX, 2 STDIO, 4 MPI-IO
        ("program", "u8"),  # 1: only read, and part of a program
        ("stem", "u8"),  # hash of the name with each number as one sign; 0: no name
        *((name, "f8") for name in SCALARS),
        *((name, "f8", size) for name, size in ARRAYS.items()),
    ]
)


def empty_rows(count: int) -> NDArray[Any]:
    """Return rows of files that nobody has touched."""
    rows = np.zeros(count, dtype=ROW)
    for module, names in MOSTS.items():
        for name in names:
            rows[f"{module}_{name}"] = -1
    for module in ("posix", "stdio"):
        for name in STARTS:
            rows[f"{module}_{name}"] = np.inf
    return rows
