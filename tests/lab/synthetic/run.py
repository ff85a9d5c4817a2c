"""A run under construction: counters as the runtime would have kept them, and the clock."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from operator import add
from typing import TYPE_CHECKING

import numpy as np
from made_logs import MadeLog

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from numpy.random import Generator

RECORD_CAP = 1024  # of a module, in one process; it keeps no others
BINS = 200  # of a heatmap at most; their width doubles from
BIN_SECONDS = 0.1

LARGEST = ("MAX_BYTE", "ACCESS1_ACCESS", "STRIDE1_STRIDE", "_END_TIMESTAMP")
SMALLEST = ("_START_TIMESTAMP",)


@cache
def _join(counter: str) -> Callable[[float, float], float]:
    """Return how two values of a counter become one."""
    if any(word in counter for word in LARGEST):
        return max
    return min if any(word in counter for word in SMALLEST) else add


@dataclass(slots=True)
class Run:
    """One row of counters for each module, file and process; -1 stands for all of them."""

    random: Generator
    nprocs: int
    pause: float = 0.5
    """Seconds of computing between two steps, on average."""
    clock: float = 0.1
    """Seconds since the start."""
    rows: dict[tuple[str, int, int], dict[str, float]] = field(default_factory=dict)
    names: dict[int, str] = field(default_factory=dict)
    moved: list[tuple[float, float, float, float]] = field(default_factory=list)
    """Begin, end, bytes written, bytes read."""

    def file(self, name: str) -> int:
        """Return the record id of a new file."""
        id_ = int(self.random.integers(1, 1 << 62))
        self.names[id_] = name
        return id_

    def count(self, module: str, file: int, rank: int, **counters: float) -> None:
        """Add to counters, named as in Darshan; extremes stay extremes."""
        row = self.rows.setdefault((module, file, rank), {})
        for name, value in counters.items():
            row[name] = _join(name)(row[name], value) if name in row else value

    def bytes_moved(self) -> float:
        return sum(written + read for _, _, written, read in self.moved)

    def bytes_read(self) -> float:
        return sum(read for _, _, _, read in self.moved)


@dataclass(frozen=True, slots=True)
class Recording:
    """How the runtime was set up."""

    named: bool
    """The names of the files were kept, not anonymised."""
    heatmap: bool
    capped: bool
    """The runtime kept only the first records of a process."""


def write_log(run: Run, recording: Recording, path: Path, *, jobid: int, exe: str) -> Path:
    """Write the run as a genuine log; the same run gives the same bytes."""
    start = 1_700_000_000 + 60 * jobid
    log = MadeLog(
        jobid=jobid,
        nprocs=run.nprocs,
        start=start,
        end=start + int(np.ceil(run.clock)),
        exe=exe,
        names=run.names if recording.named else {},
    )
    kept: dict[tuple[str, int], int] = {}
    partial = set()
    for (module, file, rank), counters in run.rows.items():
        kept[module, rank] = kept.get((module, rank), 0) + 1
        if recording.capped and kept[module, rank] > RECORD_CAP:
            partial.add(module)
        else:
            log.add(module, file=file, rank=rank, counters=counters)
    if recording.heatmap:
        width, written, read = bins(run)
        log.add_heatmap(width, written, read)
    return log.write(path, partial=tuple(sorted(partial)))


def bins(run: Run) -> tuple[float, list[int], list[int]]:
    """Spread the bytes over time as the runtime does: seconds of a bin, what each moved."""
    width = BIN_SECONDS
    while run.clock > BINS * width:
        width *= 2
    count = int(np.ceil(run.clock / width))
    moved = np.array(run.moved).reshape(-1, 4)
    edges = np.arange(count + 1) * width
    sums = np.zeros((2, count))
    for begin, end, *volumes in moved:
        first = min(int(begin / width), count - 1)
        last = min(int(end / width), count - 1)
        low = np.maximum(edges[first : last + 1], begin)
        high = np.minimum(edges[first + 1 : last + 2], end)
        part = np.maximum(high - low, 1e-9)
        sums[:, first : last + 1] += np.outer(volumes, part / part.sum())
    written, read = np.rint(sums).astype(np.int64).tolist()
    return width, written, read
