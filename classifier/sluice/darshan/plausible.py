"""What no job can have done: a log that says so was damaged or made up.

Checksums guard the compressed parts of a log, but not its header, which says how they are to be
read; and a hand that alters a log can mend its checksums. Bounds are far from what machines do: a
true log in quarantine would be a loss, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

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
ROUNDING = 1.001  # histograms are added up with seven digits
HISTOGRAMS = (
    ("reads", "posix_reads", "posix_bytes_read", "posix_size_read"),
    ("writes", "posix_writes", "posix_bytes_written", "posix_size_write"),
)
PARTS_OF_WRITES = (
    ("posix_consec_writes", "consecutive"),
    ("posix_seq_writes", "sequential"),
)


def impossible(rows: NDArray[Any], runtime: float, nprocs: int, in_heatmap: float) -> str | None:
    """Return what is impossible in a log, or None.

    rows are rows.ROW, runtime is in seconds, in_heatmap the bytes that the heatmap saw.
    """
    longest = max(runtime, SHORTEST)
    moved = max([in_heatmap, *(float(rows[name].sum()) for name in BYTES)])
    if moved > BYTES_A_SECOND * longest * nprocs:
        return f"says that {nprocs} processes moved {moved:.3g} bytes in {runtime:.3g} s"
    late = max(float(rows[name].max(initial=0)) for name in ENDS)
    if late > 1.1 * longest + LATE_SECONDS:
        return f"says that files were used {late:.3g} s after the start of a run of {runtime:.3g} s"
    spent = max(float(rows[name].sum()) for name in SECONDS)
    if spent > THREADS * longest * nprocs:
        return f"says that {nprocs} processes did I/O for {spent:.3g} s in {runtime:.3g} s"
    return _stranger(rows, nprocs) or _contradiction(rows) or _disorder(rows, longest)


def _stranger(rows: NDArray[Any], nprocs: int) -> str | None:
    """Return whose record this is if not of one of the log's processes."""
    strange = rows["owner"][rows["owner"] >= nprocs]
    if len(strange):
        return f"has a record of process {strange[0]}, and had {nprocs} processes"
    return None


def _contradiction(rows: NDArray[Any]) -> str | None:
    """Return where details of accesses contradict their number or their bytes."""
    for what, number, moved, sizes in HISTOGRAMS:
        told = rows[number] > 0  # runtimes may leave counters out
        histogram = rows[sizes][told].astype(float)
        count, volume = rows[number][told], rows[moved][told]
        accesses = histogram.sum(axis=1)
        if (accesses > ROUNDING * count).any():
            return f"its sizes of {what} tell of more {what} than there were"
        if (histogram @ SMALLEST > ROUNDING * volume + 1).any():
            return f"its sizes of {what} tell of more bytes than were moved"
        is_whole = ROUNDING * accesses >= count
        if (is_whole & (volume > ROUNDING * (histogram @ LARGEST))).any():
            return f"its sizes of {what} tell of fewer bytes than were moved"
    return _contradicting_parts(rows)


def _contradicting_parts(rows: NDArray[Any]) -> str | None:
    """Return which of the accesses are more than all."""
    for name, what in PARTS_OF_WRITES:
        if (rows[name] > rows["posix_writes"])[rows["posix_writes"] > 0].any():
            return f"it tells of more {what} writes than there were"
    accesses = rows["posix_reads"] + rows["posix_writes"]
    commonest = rows["posix_access_count"].sum(axis=1, dtype=float)
    if (commonest > ROUNDING * accesses)[accesses > 0].any():
        return "its commonest sizes tell of more accesses than there were"
    return None


def _disorder(rows: NDArray[Any], longest: float) -> str | None:
    """Return what ended before it began, by more than a clock that was put back."""
    for what in ("read", "write"):
        start, end = rows[f"{what}_start"], rows[f"{what}_end"]
        if (np.isfinite(start) & (start > end + 0.1 * longest + LATE_SECONDS)).any():
            return f"its first {what} of a file comes after the last"
    return None
