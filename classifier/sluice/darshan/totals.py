"""Sums over a run: bytes, operations, times, and how much of it was recorded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sluice.darshan.chunks import chunk_size
from sluice.darshan.files import sums

if TYPE_CHECKING:
    from sluice.darshan.files import Files
    from sluice.darshan.log import DarshanLog

UNRECORDED = 96 * 1024  # bytes beside the recorded ones that prove nothing
UNSEEN_COVERAGE = 0.75  # of a partial log, whose heatmap is cut off like its records
READ_MOSTLY = 4.0  # bytes read over bytes written, from which a run is one that reads
INVISIBLE_COVERAGE = 0.3  # of a log whose data passed where Darshan does not look,
SILENT_COVERAGE = 0.5  # or of which a stream's may have
METADATA_OPERATIONS = 100  # opens and stats, before a run can be called metadata-heavy
HOLE_WRITES, HOLE = 64, 1024  # bytes of such a write; size of the file over them


@dataclass(frozen=True, slots=True)
class Times:
    """Seconds of I/O of the slowest process, and of all processes together."""

    slowest: float
    total: float
    metadata: float


@dataclass(frozen=True, slots=True)
class Totals:
    nprocs: int
    runtime: float
    times: Times
    written: float
    read: float
    """Without the files of programs."""
    program_read: float
    operations: float
    """Opens and stats."""
    writers: float
    chunk: float
    """0: nothing was written or read, or it cannot be seen."""
    coverage: float
    """Share of the run that per-file records speak for, 0..1."""
    mapped: bool
    """Files are written through memory, which Darshan cannot see."""

    @property
    def data(self) -> float:
        return self.written + self.read


def totals_of(log: DarshanLog, files: Files) -> Totals:
    written = float(files.written.sum())
    read = float(files.read[~files.program].sum())
    program_read = float(files.read[files.program].sum())
    coverage = _coverage(log, written + read + program_read)
    if log.heatmap is not None and coverage < 0.95:
        written = max(written, float(log.heatmap.written.sum()))
    mapped = _mapped(files)
    operations = float(files.opens[~files.program].sum() + files.rows["posix_stats"].sum())
    if mapped or _unseen(files, operations):
        coverage = min(coverage, INVISIBLE_COVERAGE)
    elif written < UNRECORDED and _silent_streams(files):
        coverage = min(coverage, SILENT_COVERAGE)
    owners = files.owner[files.wrote]
    everybody = bool(files.shared[files.wrote].any())
    reading = read > max(READ_MOSTLY * written, UNRECORDED)
    return Totals(
        nprocs=log.nprocs,
        runtime=log.runtime,
        times=times_of(files, log.nprocs),
        written=written,
        read=read,
        program_read=program_read,
        operations=operations,
        writers=float(log.nprocs if everybody else max(1, len(set(owners.tolist())))),
        chunk=0.0 if mapped else chunk_size(files, reading=reading),
        coverage=coverage,
        mapped=mapped,
    )


def _coverage(log: DarshanLog, seen: float) -> float:
    # The first 1,024 files are recorded; how many more there were is anybody's guess.
    most = UNSEEN_COVERAGE if log.partial & {"POSIX", "STDIO"} else 1.0
    if log.heatmap is None:
        return most
    moved = log.heatmap.moved
    return min(most, (seen + UNRECORDED) / (moved + UNRECORDED))


def _unseen(files: Files, operations: float) -> bool:
    """Whether files are opened, few of them, and not a byte of any was recorded.

    Nobody opens a file for nothing: its data passed by calls that Darshan does not see.
    """
    moved = float(files.written.sum() + files.read.sum())
    return moved == 0 and 0 < operations < METADATA_OPERATIONS


def _silent_streams(files: Files) -> bool:
    """Whether a stream was opened and nothing recorded of it.

    What fortified stdio formats passes Darshan: a program that seems to read may write as much.
    """
    silent = files.streamed & (files.reads + files.writes == 0) & ~files.program
    return bool(silent.any())


def _mapped(files: Files) -> bool:
    """Whether a file is written through memory, which leaves no trace.

    It is made long by one tiny write at its end, nothing else is written to it, and it
    is larger than all that is.
    """
    stretched = (files.writes > 0) & (files.written <= HOLE_WRITES * files.writes)
    stretched &= (files.writes <= 4) & (files.size > HOLE * files.written)
    return float(files.size[stretched].sum()) > float(files.written.sum())


def times_of(files: Files, nprocs: int) -> Times:
    """Add up I/O times as darshan-parser's `agg_perf_by_slowest` does.

    Files of one process count with that process, shared files with their slowest process.
    """
    rows = files.rows
    alone = ~files.shared
    ranks = files.owner[alone].clip(0, nprocs - 1)
    by_rank = sums(ranks, files.seconds[alone], 1)
    spread = np.where(rows["slowest_time"] > 0, rows["slowest_time"], files.seconds / nprocs)
    return Times(
        slowest=float(by_rank.max()) + float(spread[~alone].sum()),
        total=float(files.seconds.sum()),
        metadata=float(rows["meta_time"].sum()),
    )
