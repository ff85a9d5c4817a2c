"""What no job can have done: a log that says so was damaged or made up.

Checksums guard the compressed parts of a log, but not its header, which says how they are to be
read; and a hand that alters a log can mend its checksums. Bounds are far from what machines do: a
true log in quarantine would be a loss, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy.typing import NDArray

BYTES_A_SECOND = 1e12  # of one process; the memory of a large node moves about as much
THREADS = 4096  # of one process that do I/O at once
LATE_SECONDS = 60.0  # after the end of the job, and a tenth of its run time
SHORTEST = 1.0  # seconds; the run time is rounded in logs before 3.41

BYTES = ("posix_bytes_read", "posix_bytes_written", "stdio_bytes_read", "stdio_bytes_written")
SECONDS = ("read_time", "write_time", "meta_time")
ENDS = ("read_end", "write_end")


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
    return None
