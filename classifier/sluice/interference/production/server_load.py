"""Load that no log explains: what the servers saw, or what jobs without a log moved.

LMT-like series tell how many bytes the targets moved over time, for all clients: login and
transfer nodes, other clusters, jobs without a log. Where nobody watched the servers, accounting
or Lustre's job statistics tell what each of these jobs moved between its start and its end.
"""

from __future__ import annotations

import csv
import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from sluice.interference.production.timeline import Timeline, resampled

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from numpy.typing import NDArray

    from sluice.history_db.records import Job

OTHER_LOAD = "(other load)"
UNLOGGED_JOBS = "(jobs without a log)"
JOB_BIN_SECONDS = 10.0  # or longer where that would take
JOB_BINS = 100_000  # more than these
COLUMNS = ("time", "bytes")


class ServerLoadError(Exception):
    """A series cannot be used; the text says where and why."""


def read_series(path: Path) -> Timeline:
    """Read a CSV file with the columns time (UTC seconds, even steps) and bytes (of the step)."""
    times, moved = [], []
    with path.open(newline="", encoding="utf-8-sig", errors="replace") as file:
        rows = csv.DictReader(file)
        if not set(COLUMNS) <= set(rows.fieldnames or ()):
            raise ServerLoadError(f"{path}:1: needs the columns {' and '.join(COLUMNS)}")
        for row in rows:
            try:
                times.append(float(row["time"]))
                moved.append(float(row["bytes"]))
            except (TypeError, ValueError):
                raise ServerLoadError(
                    f"{path}:{rows.line_num}: time and bytes must be numbers"
                ) from None
    step = _even_step(np.array(times))
    if step is None:
        raise ServerLoadError(f"{path}: needs two times or more, rising in even steps")
    if not (np.isfinite(moved).all() and min(moved) >= 0):
        raise ServerLoadError(f"{path}: bytes must be finite and not negative")
    return Timeline(OTHER_LOAD, 1, times[0], step, np.array(moved))


def _even_step(times: NDArray[np.float64]) -> float | None:
    """Return the mean step; None where steps differ, or a time lies in another's bin.

    Over the steps of a month what each may differ by adds up.
    """
    if len(times) < 2 or not np.isfinite(times).all():
        return None
    steps = np.diff(times)
    step = float(times[-1] - times[0]) / len(steps)
    if steps[0] <= 0 or not np.allclose(steps, steps[0], rtol=1e-3):
        return None
    drift = np.abs(times - (times[0] + step * np.arange(len(times))))
    return step if drift.max() < step / 2 else None


def load_of_jobs(jobs: Iterable[Job], start: float, end: float) -> Timeline:
    """Return when jobs without a log were busy, as if each had moved its bytes evenly.

    Between start and end, UTC seconds.
    """
    bin_seconds = max(JOB_BIN_SECONDS, (end - start) / JOB_BINS)
    bins = math.ceil((end - start) / bin_seconds)
    series = Timeline(UNLOGGED_JOBS, 1, start, bin_seconds, np.zeros(bins))
    for job in jobs:
        if job.start is not None and job.end is not None and job.start < job.end:
            moved = float((job.write_bytes or 0) + (job.read_bytes or 0))
            seconds = float(job.end - job.start)
            run = Timeline(UNLOGGED_JOBS, 1, job.start, seconds, np.array([moved]))
            where, in_bins = _moved_during(run, series)
            series.moved[where] += in_bins
    return _busy(series)


def foreign(series: Timeline, known: Iterable[Timeline]) -> Timeline:
    """Leave of a series what is busy and the known runs did not move."""
    left = series.moved.copy()
    for run in known:
        where, in_bins = _moved_during(run, series)
        left[where] -= in_bins
    return _busy(replace(series, application=OTHER_LOAD, moved=np.maximum(left, 0.0)))


def _busy(series: Timeline) -> Timeline:
    """Leave of a series what is busy.

    Servers are never idle: busy is what exceeds the middle between the usual (the median) and
    the heavy (95 %).
    """
    moved = series.moved
    threshold = (np.median(moved) + np.quantile(moved, 0.95)) / 2.0
    return replace(series, moved=np.where(moved > threshold, moved, 0.0))


def _moved_during(run: Timeline, series: Timeline) -> tuple[slice, NDArray[np.float64]]:
    """Return the bins of a series that a run overlaps, and the bytes that it moved in each."""
    first = np.floor((run.start - series.start) / series.bin_seconds)
    end = np.ceil((run.end - series.start) / series.bin_seconds)
    begin, behind = np.clip([first, end], 0, len(series.moved)).astype(int)
    edges = series.start + series.bin_seconds * np.arange(begin, behind + 1)
    return slice(begin, behind), resampled(run, edges)
