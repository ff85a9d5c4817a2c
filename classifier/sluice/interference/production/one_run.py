"""One run a job: its logs put together.

A program without MPI leaves a log for each of its processes. They did the same at the same
time, so each taken for a run of its own would count one piece of evidence many times over.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from sluice.interference.production.timeline import Timeline, resampled

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

BINS = 200  # at most, as in one log
ALIGNED = 1e-3  # of a bin: edges that are no further apart are the same


def one_run_a_job(timelines: Iterable[Timeline]) -> list[Timeline]:
    """Put together what one program of one job did in processes that ran at the same time.

    Steps one after the other stay apart, as do logs without a job's number.
    """
    runs: list[Timeline] = []
    by_job: dict[tuple[int, str], list[Timeline]] = defaultdict(list)
    for timeline in timelines:
        if timeline.job is None:
            runs.append(timeline)
        else:
            by_job[timeline.job, timeline.application].append(timeline)
    for logs in by_job.values():
        runs += [_merged(group) for group in _at_once(logs)]
    return runs


def _at_once(logs: Sequence[Timeline]) -> list[list[Timeline]]:
    groups: list[list[Timeline]] = []
    end = -np.inf
    for log in sorted(logs, key=lambda log: log.start):
        if log.start <= end:
            groups[-1].append(log)
        else:
            groups.append([log])
        end = max(end, log.end - log.bin_seconds)  # a run may end anywhere in its last bin
    return groups


def _merged(logs: Sequence[Timeline]) -> Timeline:
    if len(logs) == 1:
        return logs[0]
    frame = _frame(logs)
    parts = [
        replace(
            log, start=frame.start, bin_seconds=frame.bin_seconds, moved=resampled(log, frame.edges)
        )
        for log in logs
    ]
    whole = replace(frame, moved=np.sum([part.moved for part in parts], axis=0))
    return replace(whole, io_seconds=_io_seconds(whole, parts))


def _frame(logs: Sequence[Timeline]) -> Timeline:
    """Lay out bins for all: as wide as the widest, or wider to be few enough."""
    start = min(log.start for log in logs)
    widths = [log.bin_seconds for log in logs]
    seconds = max(log.end for log in logs) - start - ALIGNED * min(widths)
    width = max(widths)
    while width * BINS < seconds:
        width *= 2.0
    targets = [log.targets for log in logs if log.targets is not None]
    return replace(
        logs[0],
        processes=sum(log.processes for log in logs),
        start=start,
        bin_seconds=width,
        moved=np.zeros(math.ceil(seconds / width)),
        targets=frozenset().union(*targets) if len(targets) == len(logs) else None,
        # A bin that lies across two of the new ones is spread over both, and so is an edge.
        edge=1 if all(_divides(log, start, width) for log in logs) else 2,
    )


def _divides(log: Timeline, start: float, width: float) -> bool:
    """Tell whether none of its bins lies across an edge of bins that begin there."""
    steps = np.array([log.start - start, width]) / log.bin_seconds
    return bool(np.allclose(steps, steps.round(), rtol=0.0, atol=ALIGNED))


def _io_seconds(whole: Timeline, parts: Sequence[Timeline]) -> float | None:
    """Return the time in I/O at which as much of the busy time is filled as in each, by bytes."""
    known = [
        (part.io_seconds / part.busy_seconds, float(part.moved.sum()))
        for part in parts
        if part.io_seconds is not None
    ]
    if not known:
        return None
    filled, weights = zip(*known, strict=True)
    return whole.busy_seconds * float(np.average(filled, weights=weights))
