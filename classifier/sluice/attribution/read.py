"""Timelines of the runs in Darshan logs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluice.attribution.timeline import Timeline
from sluice.classifier.darshan_log import DarshanLogError, read_log
from sluice.classifier.jobs import program_name

if TYPE_CHECKING:
    from pathlib import Path

MOST_BINS = 1000  # Darshan has 200; work and memory grow with them, for each run that was met


def read_timeline(path: Path) -> Timeline | None:
    """Read one log; None where it has no heatmap, or nothing was moved.

    Raises DarshanLogError, OSError.
    """
    log = read_log(path)
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
    )
