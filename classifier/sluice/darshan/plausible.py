"""What no job can have done: a log that says so was damaged or made up.

Checksums guard the compressed parts of a log, but not its header, which says how they are to be
read; and a hand that alters a log can repair its checksums. Bounds are far from what machines do: a
true log in quarantine would be a loss, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from sluice.darshan.rows import Rows

    Array = NDArray[np.float64]
    Check = tuple[NDArray[np.bool_], Callable[[int], str]]

BYTES_A_SECOND = 1e12  # of one process; the memory of a large node moves about as much
THREADS = 4096  # of one process that do I/O at once
LATE_SECONDS = 60.0  # after the end of the job, and a tenth of its run time
SHORTEST = 1.0  # seconds; the run time is rounded in logs before 3.41

BYTES = ("posix_bytes_read", "posix_bytes_written", "stdio_bytes_read", "stdio_bytes_written")
SECONDS = ("read_time", "write_time", "meta_time")
ENDS = ("read_end", "write_end")

KIB, MIB = 1 << 10, 1 << 20
SMALLEST = np.array(
    [0, 100, KIB, 10 * KIB, 100 * KIB, MIB, 4 * MIB, 10 * MIB, 100 * MIB, 1024 * MIB], float
)
"""Bytes that an access in each bin of Darshan's histogram has at least."""
LARGEST = np.append(SMALLEST[1:], 1 << 60)
"""And at most."""
PER_ACCESS = np.array([np.ones(len(SMALLEST)), SMALLEST, LARGEST]).T
ROUNDING = 1.001  # histograms are added up with seven digits
HISTOGRAMS = (
    ("reads", "posix_reads", "posix_bytes_read", "posix_size_read"),
    ("writes", "posix_writes", "posix_bytes_written", "posix_size_write"),
)
PARTS_OF_WRITES = (
    ("posix_consec_writes", "consecutive"),
    ("posix_seq_writes", "sequential"),
)


def impossible(
    rows: Rows, runtime: Array, nprocs: NDArray[np.int64], in_heatmap: Array
) -> list[str | None]:
    """Return of each log what is impossible in it, or None.

    runtime is in seconds, in_heatmap the bytes that the heatmap saw.
    """
    reasons: list[str | None] = [None] * rows.logs
    for found, reason in _checks(rows, runtime, nprocs, in_heatmap):
        for log in np.flatnonzero(found).tolist():
            reasons[log] = reasons[log] or reason(log)
    return reasons


def _checks(
    rows: Rows, runtime: Array, nprocs: NDArray[np.int64], in_heatmap: Array
) -> Iterator[Check]:
    """Yield for each check which logs fail it, and what to say of one."""
    longest = np.maximum(runtime, SHORTEST)
    moved = np.maximum.reduce([in_heatmap, *(rows.total(rows[name]) for name in BYTES)])
    yield (
        moved > BYTES_A_SECOND * longest * nprocs,
        lambda log: (
            f"says that {nprocs[log]} processes moved {moved[log]:.3g} bytes "
            f"in {runtime[log]:.3g} s"
        ),
    )
    late = np.maximum.reduce([rows.largest(rows[name]) for name in ENDS])
    yield (
        late > 1.1 * longest + LATE_SECONDS,
        lambda log: (
            f"says that files were used {late[log]:.3g} s after the start "
            f"of a run of {runtime[log]:.3g} s"
        ),
    )
    spent = np.maximum.reduce([rows.total(rows[name]) for name in SECONDS])
    yield (
        spent > THREADS * longest * nprocs,
        lambda log: (
            f"says that {nprocs[log]} processes did I/O for {spent[log]:.3g} s "
            f"in {runtime[log]:.3g} s"
        ),
    )
    yield _stranger(rows, nprocs)
    for wrong, what in (*_contradictions(rows), *_disorder(rows, longest)):
        yield rows.some(wrong), lambda _, what=what: what  # type: ignore[misc]


def _stranger(rows: Rows, nprocs: NDArray[np.int64]) -> Check:
    """Tell of records that are not of one of the log's processes."""
    owner = rows["owner"]
    strange = owner >= nprocs[rows.log]
    return (
        rows.some(strange),
        lambda log: (
            f"has a record of process {owner[strange & (rows.log == log)][0]}, "
            f"and had {nprocs[log]} processes"
        ),
    )


def _contradictions(rows: Rows) -> Iterator[tuple[NDArray[np.bool_], str]]:
    """Yield the rows whose details of accesses contradict their number or their bytes."""
    for what, number, moved, sizes in HISTOGRAMS:
        count, volume = rows[number], rows[moved]
        told = count > 0  # runtimes may leave counters out
        if not told.any():
            continue
        accesses, least, most = (rows[sizes].astype(float) @ PER_ACCESS).T
        yield (
            told & (accesses > ROUNDING * count),
            f"its sizes of {what} tell of more {what} than there were",
        )
        yield (
            told & (least > ROUNDING * volume + 1),
            f"its sizes of {what} tell of more bytes than were moved",
        )
        is_whole = told & (ROUNDING * accesses >= count)
        yield (
            is_whole & (volume > ROUNDING * most),
            f"its sizes of {what} tell of fewer bytes than were moved",
        )
    writes = rows["posix_writes"]
    for name, what in PARTS_OF_WRITES:
        more = (rows[name] > writes) & (writes > 0)
        yield more, f"it tells of more {what} writes than there were"
    accesses = rows["posix_reads"] + writes
    commonest = rows["posix_access_count"].sum(axis=1, dtype=float)
    more = (commonest > ROUNDING * accesses) & (accesses > 0)
    yield more, "its commonest sizes tell of more accesses than there were"


def _disorder(rows: Rows, longest: Array) -> Iterator[tuple[NDArray[np.bool_], str]]:
    """Yield what ended before it began, by more than a clock that was put back."""
    slack = (0.1 * longest + LATE_SECONDS)[rows.log]
    for what in ("read", "write"):
        start, end = rows[f"{what}_start"], rows[f"{what}_end"]
        late = np.isfinite(start) & (start > end + slack)
        yield late, f"its first {what} of a file comes after the last"
