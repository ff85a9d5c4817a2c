"""Darshan's records, one row a file.

Traps, all of them seen in real logs: a file has bytes in its POSIX record, its STDIO record or
both; C++ streams open through STDIO and write through POSIX; stream opens and duplicates of a
descriptor count as POSIX opens too; processes that share a file may have one common record.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from sluice.classifier.darshan_log import STANDARD_STREAMS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sluice.classifier.darshan_log import DarshanLog

    Array = NDArray[np.float64]

SHARED = -1  # owner of a file that several processes write


@dataclass(frozen=True, slots=True)
class Files:
    """One row for each file (and its process, unless processes share it)."""

    owner: NDArray[np.int64]
    """Rank, or SHARED."""
    written: Array
    read: Array
    size: Array
    """Highest byte written + 1."""
    opens: Array
    """True ones: streams on top of descriptors and duplicates are not counted."""
    writes: Array
    stdio_written: Array
    stdio_opens: Array
    renames: Array
    flushes: Array
    """fsync and fdatasync."""
    large_writes: Array
    """Those of 1 KiB and more: smaller ones may be HDF5's own."""
    out_of_order: Array
    """Large writes that start before the end of the one before."""
    consecutive: Array
    first_write: Array
    """Seconds from the job's start; infinite when never written."""
    last_write: Array
    program: NDArray[np.bool_]
    """Part of a program, read as it starts."""

    def __len__(self) -> int:
        return len(self.owner)


def without_streams(log: DarshanLog) -> DarshanLog:
    """Leave out standard input, output and error: they are no files of the job's making."""
    return replace(
        log,
        posix=log.posix.where(~_standard(log.posix.ids)),
        stdio=log.stdio.where(~_standard(log.stdio.ids)),
    )


def _standard(ids: NDArray[np.uint64]) -> NDArray[np.bool_]:
    found: NDArray[np.bool_] = (ids[:, np.newaxis] == STANDARD_STREAMS).any(axis=1)
    return found


def join_files(log: DarshanLog) -> Files:
    """Join POSIX and STDIO records by file and process."""
    posix, stdio = log.posix, log.stdio
    ids = np.concatenate([posix.ids, stdio.ids])
    owners = _owners(log, np.concatenate([posix.ranks, stdio.ranks]))
    row, firsts = _rows(ids, owners)
    of_posix, of_stdio = row[: len(posix)], row[len(posix) :]
    count = len(firsts)

    def p(name: str) -> Array:
        return sums(of_posix, posix.count(name), count)

    def s(name: str) -> Array:
        return sums(of_stdio, stdio.count(name), count)

    stdio_written, writes = s("BYTES_WRITTEN"), p("WRITES")
    large = np.maximum(writes - p("SIZE_WRITE_0_100") - p("SIZE_WRITE_100_1K"), 0)
    in_order = np.minimum(p("SEQ_WRITES") + p("OPENS"), writes)
    size, begin, end = np.zeros(count), np.full(count, np.inf), np.zeros(count)
    for records, rows in ((posix, of_posix), (stdio, of_stdio)):
        wrote = np.flatnonzero(records.count("BYTES_WRITTEN") > 0)
        np.maximum.at(size, rows[wrote], records.count("MAX_BYTE_WRITTEN")[wrote] + 1)
        np.minimum.at(begin, rows[wrote], records.time("F_WRITE_START_TIMESTAMP")[wrote])
        np.maximum.at(end, rows[wrote], records.time("F_WRITE_END_TIMESTAMP")[wrote])
    return Files(
        owner=owners[firsts],
        written=p("BYTES_WRITTEN") + stdio_written,
        read=p("BYTES_READ") + s("BYTES_READ"),
        size=size,
        opens=np.maximum(p("OPENS") - p("FILENOS") - p("DUPS"), 0)
        + np.maximum(s("OPENS") - s("FDOPENS"), 0),
        writes=writes + s("WRITES"),
        stdio_written=stdio_written,
        stdio_opens=s("OPENS"),
        renames=p("RENAME_TARGETS"),
        flushes=p("FSYNCS") + p("FDSYNCS"),
        large_writes=large,
        out_of_order=np.maximum(large - in_order, 0),
        consecutive=p("CONSEC_WRITES"),
        first_write=begin,
        last_write=end,
        program=np.isin(ids[firsts], log.program_files),
    )


def _rows(
    ids: NDArray[np.uint64], owners: NDArray[np.int64]
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Give each different (id, owner) a number; return the records' and a record of each."""
    order = np.lexsort((owners, ids))
    is_new = np.ones(len(ids), dtype=bool)
    is_new[1:] = (np.diff(ids[order]) != 0) | (np.diff(owners[order]) != 0)
    row = np.empty(len(ids), dtype=np.intp)
    row[order] = np.cumsum(is_new) - 1
    return row, order[is_new]


def _owners(log: DarshanLog, ranks: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the process behind each record; a lone process owns its shared records too."""
    return np.where(ranks < 0, 0 if log.nprocs == 1 else SHARED, ranks)


def sums(rows: NDArray[Any], values: Array, count: int = 0) -> Array:
    """Sum the values of each row."""
    return np.bincount(rows, weights=values, minlength=count).astype(np.float64, copy=False)
