"""Timelines: bytes that runs and jobs moved over time.

Darshan's HEATMAP counts bytes in at most 200 bins. A bin at the edge of a burst says that the burst
began or ended somewhere inside it; only a bin with busy neighbours on both sides was busy
throughout, and tells a rate. A burst shorter than two bins has no such bin for certain: a run of
such bursts is unresolved, however many there are. So is one whose short bursts lie so close that
every bin has one, which the time that it spent in I/O gives away.

One run a job: its logs put together. A program without MPI leaves a log for each of its processes.
They did the same at the same time, so each taken for a run of its own would count one piece of
evidence many times over.

Of jobs without a log, accounting or Lustre's job statistics tell what each moved between its start
and its end.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from sluice.darshan.bursts import QUIET, runs_of, unpacked
from sluice.history_db.records import program_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from sluice.history_db.records import Job, Run

    Array = NDArray[np.floating[Any]]
    Spells = tuple[Array, Array]
    """When each began and ended; apart from each other, in order."""


INNER = 1  # bins that a burst must fill, between its edges, to tell a rate
SHORT = 0.25  # of a run's bursts may be shorter
FILLED = 0.5  # of its busy bins' time a run must at least spend in I/O
PIECE = 4  # bins of a slice at most, so that a job that writes throughout has slices too


@dataclass(frozen=True, eq=False)
class Timeline:
    """One run, or several jobs together; compared by identity."""

    application: str
    processes: int
    start: float
    """UTC seconds of the first bin."""
    bin_seconds: float
    moved: NDArray[np.float64]
    """Bytes of each bin."""
    job: int | None = None
    """What runs of one job have in common: they do not count as each other's aggressors."""
    targets: frozenset[int] | None = None
    """Storage targets that it uses; None: not known, so it may share with all."""
    io_seconds: float | None = None
    """That its slowest process spent in I/O; None: not known."""
    edge: int = 1
    """Bins at either end of a burst that it may not fill."""

    @cached_property
    def busy(self) -> NDArray[np.bool_]:
        """Bins in which it moved data, noise aside."""
        threshold = QUIET * float(self.moved.max(initial=0.0))
        return np.greater(self.moved, threshold)

    @cached_property
    def bursts(self) -> Spells:
        """UTC seconds at which its bursts began, and ended."""
        starts, stops = runs_of(self.busy)
        return self.start + self.bin_seconds * starts, self.start + self.bin_seconds * stops

    @property
    def busy_seconds(self) -> float:
        return float(self.busy.sum()) * self.bin_seconds

    @property
    def edges(self) -> Array:
        """UTC seconds between which its bins lie."""
        return self.start + self.bin_seconds * np.arange(len(self.moved) + 1)

    @property
    def end(self) -> float:
        return self.start + self.bin_seconds * len(self.moved)

    def shares_with(self, other: Timeline) -> bool:
        """Tell whether both were there at the same time, on targets that both may use."""
        if self.start >= other.end or other.start >= self.end:
            return False
        if self.job is not None and self.job == other.job:
            return False
        if self.targets is None or other.targets is None:
            return True
        return not self.targets.isdisjoint(other.targets)


@dataclass(frozen=True, slots=True)
class Slices:
    """Stretches of a run that were busy throughout; arrays of one length."""

    first: NDArray[np.intp]
    """Bin each begins with."""
    end: NDArray[np.intp]
    """Bin behind its last one."""
    log_rate: NDArray[np.float64]
    """Natural logarithm of bytes a second."""

    def __len__(self) -> int:
        return len(self.first)

    def mean(self, of_bins: NDArray[np.float64]) -> NDArray[np.float64]:
        """Average (..., bins) over the bins of each slice: (..., slices)."""
        sums = np.concatenate(
            [np.zeros((*of_bins.shape[:-1], 1)), np.cumsum(of_bins, axis=-1)], axis=-1
        )
        means: NDArray[np.float64] = sums[..., self.end] - sums[..., self.first]
        return means / (self.end - self.first)


def slices_of(timeline: Timeline) -> Slices | None:
    """Cut a run into slices; None where its bins are too wide for its bursts.

    They are too wide also where only some bursts are long enough: those may be the slow ones.
    """
    starts, stops = runs_of(timeline.busy)
    shortest = INNER + 2 * timeline.edge
    if not len(starts) or (stops - starts < shortest).mean() > SHORT or _is_sparse(timeline):
        return None
    first: list[int] = []
    end: list[int] = []
    for start, stop in zip(starts + timeline.edge, stops - timeline.edge, strict=True):
        for at in range(start, stop, PIECE):
            first.append(at)
            end.append(min(at + PIECE, stop))
    empty = Slices(np.array(first), np.array(end), np.empty(0))
    return Slices(empty.first, empty.end, np.log(empty.mean(timeline.moved) / timeline.bin_seconds))


def _is_sparse(timeline: Timeline) -> bool:
    """Tell whether its busy bins hold more pauses than I/O, which no bin of its own shows."""
    io_seconds = timeline.io_seconds
    return io_seconds is not None and io_seconds < FILLED * timeline.busy_seconds


def exposure(timeline: Timeline, others: Iterable[Timeline]) -> NDArray[np.float64]:
    """Return the share of each bin of a run during which any of the others was busy.

    Others whose bins are wider count as busy for the whole of their bin.
    """
    begin, finish = _covered([_bursts_during(timeline, other) for other in others])
    if not len(begin):
        return np.zeros(len(timeline.moved))
    turns = np.stack([begin, finish], axis=1).ravel()
    passed = np.concatenate([[0.0], np.cumsum(finish - begin)]).repeat(2)[1:-1]
    under: NDArray[np.float64] = np.diff(np.interp(timeline.edges, turns, passed))
    return np.clip(under / timeline.bin_seconds, 0.0, 1.0)


def _bursts_during(timeline: Timeline, other: Timeline) -> Spells:
    begin, finish = other.bursts
    some = slice(finish.searchsorted(timeline.start, "right"), begin.searchsorted(timeline.end))
    return begin[some], finish[some]


def _covered(spells: Sequence[Spells]) -> Spells:
    """Return the time that any of the spells covers."""
    begin = np.concatenate([np.empty(0), *(begin for begin, _ in spells)])
    finish = np.concatenate([np.empty(0), *(finish for _, finish in spells)])
    if not len(begin):
        return begin, finish
    order = begin.argsort()
    begin, finish = begin[order], np.maximum.accumulate(finish[order])
    is_apart = begin[1:] > finish[:-1]
    return begin[np.append(True, is_apart)], finish[np.append(is_apart, True)]


def resampled(run: Timeline, edges: Array) -> NDArray[np.float64]:
    """Return the bytes of a run between edges (UTC seconds), spread evenly within its bins."""
    sums = np.concatenate([[0.0], np.cumsum(run.moved)])
    return np.diff(np.interp(edges, run.edges, sums))


def timeline_of(run: Run) -> Timeline | None:
    """Return when a run moved how much; None where its log has no heatmap."""
    seen, log = unpacked(run.log.heatmap), run.log
    if seen is None:
        return None
    share = run.profile.numbers.get("io_share")
    runtime = run.profile.numbers.get("runtime_seconds")
    return Timeline(
        application=program_name(log.exe or "") or "unknown",
        processes=log.nprocs or 1,
        start=seen.start,
        bin_seconds=seen.bin_seconds,
        moved=seen.moved,
        job=log.jobid or None,
        targets=None if log.osts is None else frozenset(log.osts),
        io_seconds=share * runtime if share and runtime else None,
    )


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
    return replace(whole, io_seconds=_io_seconds_of_job(whole, parts))


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


def _io_seconds_of_job(whole: Timeline, parts: Sequence[Timeline]) -> float | None:
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


UNLOGGED_JOBS = "(jobs without a log)"
JOB_BIN_SECONDS = 10.0  # or longer where that would take
JOB_BINS = 100_000  # more than these


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
