"""Load that the servers saw and no known job explains, as one more aggressor.

Lustre's job statistics and LMT-like series tell how many bytes the targets moved over time,
whoever moved them: login and transfer nodes, other clusters, jobs without a log.
"""

from __future__ import annotations

import csv
from typing import TYPE_CHECKING

import numpy as np

from sluice.attribution.timeline import Timeline, resampled

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from numpy.typing import NDArray

OTHER_LOAD = "(other load)"
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


def foreign(series: Timeline, known: Iterable[Timeline]) -> Timeline:
    """Leave of a series what is busy and the known runs did not move.

    Servers are never idle: busy is what exceeds the middle between the usual (the median) and
    the heavy (95 %) of what is left.
    """
    left = series.moved.copy()
    for run in known:
        first, end = _bins_under(run, series)
        edges = series.start + series.bin_seconds * np.arange(first, end + 1)
        left[first:end] -= resampled(run, edges)
    left = np.maximum(left, 0.0)
    threshold = (np.median(left) + np.quantile(left, 0.95)) / 2.0
    busy = np.where(left > threshold, left, 0.0)
    return Timeline(OTHER_LOAD, 1, series.start, series.bin_seconds, busy)


def _bins_under(run: Timeline, series: Timeline) -> tuple[int, int]:
    """Return the first bin of a series that a run may have moved bytes in, and the end."""
    first = np.floor((run.start - series.start) / series.bin_seconds)
    end = np.ceil((run.end - series.start) / series.bin_seconds)
    begin, behind = np.clip([first, end], 0, len(series.moved)).astype(int)
    return int(begin), int(behind)
