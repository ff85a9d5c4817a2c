"""What one file's writes and reads leave in the counters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from made_logs import bucket_of

if TYPE_CHECKING:
    from synthetic.run import Run
    from synthetic.style import Style

RATE = 1e9  # bytes/s of the storage
CALL, OPEN = 2e-6, 1e-4  # seconds
HDF5_SMALL = 200  # bytes of a typical metadata write


@dataclass(frozen=True, slots=True)
class Writes:
    """What each process that writes a file does to it."""

    chunk: float
    """Bytes."""
    count: int = 1
    opens: int = 1
    rewrites: bool = False
    """Each chunk is written at the start of the file."""
    in_order: float = 1.0
    """Share of the calls that write behind the one before."""
    jumps: float = 0.0
    """Share of the calls that jump forward, all of them over the same distance."""
    seeks: float = 0.0
    """For each call."""
    offsets_go_on: bool = False
    """A stream's, over several opens."""


@dataclass(frozen=True, slots=True)
class _Sums:
    """Of all processes that share the file."""

    total: int
    chunks: int
    calls: int
    opens: int


def write_file(run: Run, style: Style, file: int, rank: int, writes: Writes) -> None:
    """Let a process (-1: all of them) write a file; time passes."""
    processes = run.nprocs if rank < 0 else 1
    chunks = writes.count * processes
    total = int(writes.chunk) * chunks
    again = writes.rewrites and not writes.offsets_go_on
    sums = _Sums(
        total=total,
        chunks=chunks,
        calls=max(1, chunks * style.calls // style.aggregated),
        opens=writes.opens * processes,
    )
    begin = run.clock
    run.clock += total / RATE + sums.calls * CALL + sums.opens * OPEN
    run.moved.append((begin, run.clock, float(total), 0.0))
    spent = total / RATE + sums.calls * CALL / 2
    run.count(
        style.module,
        file,
        rank,
        OPENS=sums.opens,
        WRITES=sums.calls,
        SEEKS=int(writes.seeks * sums.calls),
        BYTES_WRITTEN=total,
        MAX_BYTE_WRITTEN=(int(writes.chunk) * processes if again else total) - 1,
        F_OPEN_START_TIMESTAMP=begin,
        F_WRITE_START_TIMESTAMP=begin,
        F_WRITE_END_TIMESTAMP=run.clock,
        F_WRITE_TIME=spent,
        F_META_TIME=sums.opens * OPEN,
        F_SLOWEST_RANK_TIME=spent / processes if rank < 0 else 0.0,
    )
    if style.module == "POSIX":
        run.count("POSIX", file, rank, **_posix_counters(run, style, rank, writes, sums))
    for module, counters in _library_counters(run, style, rank, sums).items():
        run.count(module, file, rank, **counters)


def _posix_counters(
    run: Run, style: Style, rank: int, writes: Writes, sums: _Sums
) -> dict[str, float]:
    # a rewrite of several calls starts anew once in style.calls
    anew = sums.calls // style.calls if writes.rewrites else sums.opens
    ordered = int(max(0, sums.calls - anew) * writes.in_order)
    jumps = int(writes.jumps * sums.calls)
    scattered = rank < 0 and run.random.random() < 0.5  # processes take turns in a shared file
    each = max(1, sums.total // sums.calls)
    return {
        "FSYNCS": sums.calls // style.calls if style.flush else 0,
        "SEQ_WRITES": ordered,
        "CONSEC_WRITES": 0 if scattered else max(0, ordered - jumps),
        "STRIDE1_STRIDE": each if jumps else 0,
        "STRIDE1_COUNT": jumps,
        "ACCESS1_ACCESS": each,
        "ACCESS1_COUNT": sums.calls,
        _bucket("WRITE", sums.total / sums.calls): sums.calls,
    }


def _library_counters(
    run: Run, style: Style, rank: int, sums: _Sums
) -> dict[str, dict[str, float]]:
    """Return what the library adds above or below the data, by module."""
    counters: dict[str, dict[str, float]] = {}
    if style.library == "iostream":
        counters = {"STDIO": {"OPENS": sums.opens}, "POSIX": {"FILENOS": sums.opens}}
    elif style.library == "python":
        counters = {"POSIX": {"SEEKS": sums.opens, "STATS": sums.opens}}
    elif style.library in {"hdf5", "parallel-hdf5"}:  # superblock, headers, indexes
        small = sums.opens * int(run.random.integers(3, 12))
        counters["POSIX"] = {
            "WRITES": small,
            "SIZE_WRITE_100_1K": small,
            "BYTES_WRITTEN": small * HDF5_SMALL,
            "STATS": sums.opens,
        }
    if style.library in {"mpiio", "collective", "parallel-hdf5"}:
        how = "INDEP" if style.library == "mpiio" else "COLL"
        counters["MPI-IO"] = {
            f"{how}_WRITES": sums.chunks,
            "COLL_OPENS" if rank < 0 else "INDEP_OPENS": sums.opens,
            "BYTES_WRITTEN": sums.total,
        }
    return counters


def read_file(run: Run, file: int, rank: int, *, volume: float, calls: int) -> None:
    """Read a file from start to end."""
    begin = run.clock
    run.clock += volume / RATE + calls * CALL + OPEN
    volume, each = int(volume), max(1, int(volume) // calls)
    run.moved.append((begin, run.clock, 0.0, float(volume)))
    run.count(
        "POSIX",
        file,
        rank,
        OPENS=run.nprocs if rank < 0 else 1,
        READS=calls,
        BYTES_READ=volume,
        SEQ_READS=calls - 1,
        CONSEC_READS=calls - 1,
        MAX_BYTE_READ=volume - 1,
        ACCESS1_ACCESS=each,
        ACCESS1_COUNT=calls,
        F_OPEN_START_TIMESTAMP=begin,
        F_READ_START_TIMESTAMP=begin,
        F_READ_END_TIMESTAMP=run.clock,
        F_READ_TIME=volume / RATE,
        F_META_TIME=OPEN,
        **{_bucket("READ", volume / calls): calls},
    )


def _bucket(verb: str, size: float) -> str:
    return f"SIZE_{verb}_{bucket_of(size)}"
