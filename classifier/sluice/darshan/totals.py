"""Sums over runs: bytes, operations, times, how much was recorded, and the size of operations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sluice.darshan.rows import AT_ONCE, differs, ratio, sums

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from sluice.darshan.log import DarshanLog
    from sluice.darshan.rows import Files

    Array = NDArray[np.float64]

UNRECORDED = 96 * 1024  # bytes alongside the recorded ones that prove nothing
UNSEEN_COVERAGE = 0.75  # of a partial log, whose heatmap is cut off like its records
READ_MOSTLY = 4.0  # bytes read over bytes written, from which a run is one that reads
INVISIBLE_COVERAGE = 0.3  # of a log whose data passed where Darshan does not look,
SILENT_COVERAGE = 0.5  # or of which a stream's may have
METADATA_OPERATIONS = 100  # opens and stats, before a run can be called metadata-heavy
HOLE_WRITES, HOLE = 64, 1024  # bytes of such a write; size of the file over them

# Of chunks: a size is in the class before the first edge that is not smaller
EDGES = np.array([100, 1024, 10240, 102400, 1 << 20, 1 << 22, 10 << 20, 100 << 20, 1 << 30])
LOWEST = np.append(1.0, EDGES)  # of each class, in bytes
HIGHEST = np.append(EDGES, 10.0 * EDGES[-1])
MIDDLES = np.sqrt(LOWEST) * np.sqrt(HIGHEST)
DOMINANT = 0.4  # share of the bytes from which one size speaks for all


@dataclass(frozen=True, slots=True)
class Times:
    """Seconds of I/O of each log's slowest process, and of all its processes together."""

    slowest: Array
    total: Array
    metadata: Array


@dataclass(frozen=True, slots=True)
class Totals:
    """A value for each log."""

    nprocs: Array
    runtime: Array
    times: Times
    written: Array
    read: Array
    """Without the files of programs."""
    program_read: Array
    operations: Array
    """Opens and stats."""
    writers: Array
    chunk: Array
    """0: nothing was written or read, or it cannot be seen."""
    coverage: Array
    """Share of the run that per-file records speak for, 0..1."""
    mapped: NDArray[np.bool_]
    """Files are written through memory, which Darshan cannot see."""

    @property
    def data(self) -> Array:
        return self.written + self.read


def totals_of(logs: Sequence[DarshanLog], files: Files) -> Totals:
    rows = files.rows
    nprocs = np.array([float(log.nprocs) for log in logs])
    written = rows.total(files.written)
    read = rows.total(files.read, ~files.program)
    program_read = rows.total(files.read, files.program)
    coverage = _coverage(logs, written + read + program_read)
    in_heatmap = np.array([float(log.heatmap.written.sum()) if log.heatmap else 0 for log in logs])
    written = np.where(coverage < 0.95, np.maximum(written, in_heatmap), written)
    mapped = _mapped(files)
    operations = rows.total(files.opens, ~files.program) + rows.total(rows["posix_stats"])
    invisible = mapped | _unseen(files, operations)
    silent = ~invisible & (written < UNRECORDED) & _silent_streams(files)
    coverage = np.where(invisible, np.minimum(coverage, INVISIBLE_COVERAGE), coverage)
    coverage = np.where(silent, np.minimum(coverage, SILENT_COVERAGE), coverage)
    reading = read > np.maximum(READ_MOSTLY * written, UNRECORDED)
    return Totals(
        nprocs=nprocs,
        runtime=np.array([log.runtime for log in logs]),
        times=times_of(files, nprocs),
        written=written,
        read=read,
        program_read=program_read,
        operations=operations,
        writers=_writers(files, nprocs),
        chunk=np.where(mapped, 0.0, chunk_sizes(files, reading)),
        coverage=coverage,
        mapped=mapped,
    )


def _coverage(logs: Sequence[DarshanLog], seen: Array) -> Array:
    # The first 1,024 files are recorded; how many more there were is anybody's guess.
    most = np.array([UNSEEN_COVERAGE if log.partial & {"POSIX", "STDIO"} else 1.0 for log in logs])
    moved = np.array([log.heatmap.moved if log.heatmap else 0.0 for log in logs])
    of_moved = (seen + UNRECORDED) / (moved + UNRECORDED)
    has_heatmap = np.array([log.heatmap is not None for log in logs])
    return np.where(has_heatmap, np.minimum(most, of_moved), most)


def _writers(files: Files, nprocs: Array) -> Array:
    """Count the processes that write; all of them where they share a file."""
    rows = files.rows
    writes = np.zeros(len(files), dtype=np.bool_)
    writes[rows.process[files.wrote]] = True
    log = np.zeros(len(files), dtype=np.intp)
    log[rows.process] = rows.log
    owners = np.bincount(log[writes], minlength=rows.logs)
    everybody = rows.some(files.shared & files.wrote)
    return np.where(everybody, nprocs, np.maximum(1, owners))


def _unseen(files: Files, operations: Array) -> NDArray[np.bool_]:
    """Whether files are opened, few of them, and not a byte of any was recorded.

    Nobody opens a file for nothing: its data passed by calls that Darshan does not see.
    """
    moved = files.rows.total(files.written) + files.rows.total(files.read)
    few = (operations > 0) & (operations < METADATA_OPERATIONS)
    return np.asarray(few & (moved == 0))


def _silent_streams(files: Files) -> NDArray[np.bool_]:
    """Whether a stream was opened and nothing recorded of it.

    What fortified stdio formats passes Darshan: a program that seems to read may write as much.
    """
    return files.rows.some(files.streamed & (files.reads + files.writes == 0) & ~files.program)


def _mapped(files: Files) -> NDArray[np.bool_]:
    """Whether a file is written through memory, which leaves no trace.

    It is made long by one tiny write at its end, nothing else is written to it, and it
    is larger than all that is.
    """
    stretched = (files.writes > 0) & (files.written <= HOLE_WRITES * files.writes)
    stretched &= (files.writes <= 4) & (files.size > HOLE * files.written)
    return files.rows.total(files.size, stretched) > files.rows.total(files.written)


def times_of(files: Files, nprocs: Array) -> Times:
    """Add up I/O times as darshan-parser's `agg_perf_by_slowest` does.

    Files of one process count with that process, shared files with their slowest process.
    """
    rows = files.rows
    by_process = np.bincount(rows.process, weights=files.seconds)[rows.process]
    slowest_time = rows["slowest_time"]
    spread = np.where(slowest_time > 0, slowest_time, files.seconds / nprocs[rows.log])
    return Times(
        slowest=rows.largest(by_process, ~files.shared) + rows.total(spread, files.shared),
        total=rows.total(files.seconds),
        metadata=rows.total(rows["meta_time"]),
    )


# The size of operations


def chunk_sizes(files: Files, reading: NDArray[np.bool_]) -> Array:
    """Return bytes of the operation that moves most of each log; 0: nothing was moved.

    That is a write, or a read where only reads matter. Darshan keeps the four commonest sizes of
    a file, reads and writes together, and how many operations are in which class of sizes, which
    places the others; STDIO has only sums, so there it is bytes over operations. Where no size
    moves a large part of the bytes, half of them are moved by smaller and half by larger
    operations than the result.
    """
    reads = reading[files.rows.log]
    starts = range(0, max(1, len(files)), AT_ONCE)
    parts = [_masses(files, reads, slice(start, start + AT_ONCE)) for start in starts]
    log, sizes, weights = (np.concatenate(part) for part in zip(*parts, strict=True))
    order = np.lexsort((sizes, log))
    log, sizes = log[order], sizes[order]
    first = differs(log, sizes)
    mass = np.bincount(first.cumsum() - 1, weights=weights[order])
    return _typical(files.rows.logs, log[first], sizes[first], mass)


def _typical(logs: int, log: NDArray[np.intp], sizes: Array, mass: NDArray[Any]) -> Array:
    """Return the dominant size of each log, or the one in the middle of its bytes."""
    result, most = np.zeros(logs), np.zeros(logs)
    np.maximum.at(most, log, mass)
    largest = np.flatnonzero(mass == most[log])[::-1]  # the first of each log comes last
    result[log[largest]] = sizes[largest]
    bounds = log.searchsorted(np.arange(logs + 1))
    for place in np.flatnonzero(most < DOMINANT * sums(mass, bounds)):
        own = slice(bounds[place], bounds[place + 1])
        below = mass[own].cumsum()
        result[place] = sizes[own][below.searchsorted(mass[own].sum() / 2)]
    return result


def _masses(
    files: Files, reads: NDArray[np.bool_], part: slice
) -> tuple[NDArray[np.intp], Array, Array]:
    """Return logs and sizes of operations, in whole bytes, and the bytes that they moved in all."""
    rows, reads, log = files.rows, reads[part], files.rows.log[part]

    def of_verb(read: str, write: str) -> NDArray[Any]:
        written = rows[write][part]
        return np.where(reads, rows[read][part], written) if reads.any() else written

    of_reads, of_writes = rows["posix_size_read"][part], rows["posix_size_write"][part]
    access, times = rows["posix_access"][part], rows["posix_access_count"][part]
    volume = of_verb("posix_bytes_read", "posix_bytes_written")
    kept = np.flatnonzero((times > 0) & (access <= volume[:, np.newaxis]))
    row, common = kept // times.shape[1], access.ravel()[kept]
    bucket = EDGES.searchsorted(common, side="left")
    reads_of, writes_of = of_reads[row, bucket], of_writes[row, bucket]
    own = np.where(reads[row], reads_of, writes_of)
    known = times.ravel()[kept] * ratio(own, reads_of + writes_of)
    bytes_known = known * common
    rest = np.maximum(volume - np.bincount(row, bytes_known, len(log)), 0)
    rest_count = of_verb("posix_reads", "posix_writes") - np.bincount(row, known, len(log))
    some = np.flatnonzero(rest > 0)
    mine = np.where(reads[some, np.newaxis], of_reads[some], of_writes[some])
    left = np.ascontiguousarray(mine, dtype=np.float64)
    place = np.full(len(log), -1)
    place[some] = np.arange(len(some))
    unexplained = place[row] >= 0
    np.subtract.at(left, (place[row][unexplained], bucket[unexplained]), known[unexplained])
    by_class = (left > 0).any(axis=1)
    sizes_left, bytes_left = _by_class(np.maximum(left[by_class], 0), rest[some[by_class]])
    mean = rest[some] / np.maximum(rest_count[some], 1)
    by_mean = rest[some]
    by_mean[by_class] *= ~bytes_left.any(axis=1)
    stdio = of_verb("stdio_bytes_read", "stdio_bytes_written")
    stdio_count = np.maximum(of_verb("stdio_reads", "stdio_writes"), 1)
    logs = np.concatenate([log[row], log[some[by_class]].repeat(len(MIDDLES)), log[some], log])
    sizes = np.concatenate([common, sizes_left.ravel(), mean, stdio / stdio_count])
    weights = np.concatenate([bytes_known, bytes_left.ravel(), by_mean, stdio])
    moved = weights > 0
    return logs[moved], np.rint(sizes[moved]), weights[moved]


def _by_class(left: Array, rest: Array) -> tuple[Array, Array]:
    """Share the bytes of rows that no common size explains among their classes of sizes.

    left: operations of each class that are not of a common size, (rows, classes). Their sizes are
    the middles of the classes, all scaled alike until they move `rest`, within their class.
    """
    scale = ratio(rest, (left * MIDDLES).sum(axis=1))[:, np.newaxis]
    sizes = np.clip(scale * MIDDLES, LOWEST, HIGHEST)
    moved = left * sizes
    return sizes, moved * ratio(rest, moved.sum(axis=1))[:, np.newaxis]
