"""Timelines of the runs in Darshan logs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sluice.darshan.features import ENOUGH
from sluice.darshan.files import files_of
from sluice.darshan.log import DarshanLogError, read_log
from sluice.darshan.totals import totals_of
from sluice.history_db.command_lines import program_name
from sluice.interference.production.timeline import Timeline

if TYPE_CHECKING:
    from pathlib import Path

    from sluice.darshan.log import DarshanLog

MOST_BINS = 1000  # Darshan has 200; work and memory grow with them, for each run that was met


@dataclass(frozen=True, slots=True)
class LogTimeline:
    """One log, known by its bytes: a copy tells nothing new."""

    digest: bytes
    timeline: Timeline | None
    """None where it has no heatmap, or nothing was moved."""


def read_timeline(path: Path) -> LogTimeline:
    """Read one log. Raises DarshanLogError, OSError."""
    log = read_log(path)
    return LogTimeline(log.digest, _timeline(log))


def _timeline(log: DarshanLog) -> Timeline | None:
    if log.heatmap is None:
        return None
    moved = log.heatmap.written + log.heatmap.read
    if len(moved) > MOST_BINS:
        raise DarshanLogError(f"a heatmap of {len(moved)} bins, more than the {MOST_BINS} expected")
    if not moved.any():
        return None
    return Timeline(
        application=program_name(log.exe) or "unknown",
        processes=log.nprocs,
        start=log.start,
        bin_seconds=log.heatmap.bin_seconds,
        moved=moved,
        job=log.jobid or None,
        targets=log.targets,
        io_seconds=_io_seconds(log),
    )


def _io_seconds(log: DarshanLog) -> float | None:
    """Return what the slowest process spent in I/O, where files were timed that had most of it."""
    totals = totals_of([log], files_of([log.rows]))
    seconds, coverage = float(totals.times.slowest[0]), float(totals.coverage[0])
    return seconds if seconds > 0 and coverage >= ENOUGH else None
