"""Losses of runs at busy times by comparison with quiet ones, without a model.

Runs of one program are compared: of one user, name, size and month, that move about the same bytes.
A run is quiet while others move next to nothing of what storage can move, else busy.

What others moved is known from logs and accounting, or from what the file system's servers counted.
With the former whole run times are compared, with the latter times in I/O.
"""

from __future__ import annotations

import math
import time
from collections import defaultdict
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from sluice.history_db.records import Job
    from sluice.history_db.store import Store
    from sluice.prediction.jobs import FinishedJob

    Array = NDArray[np.float64]

QUIET = 0.03
"""Of what storage can move: while others move less, a run is quiet.

Jobs kept 0.98 of their rate or more below that, and 0.95 or less above it
(docs/evidence/production.md)."""
ALIKE = math.log(1.25)  # of bytes: a wider gap is between runs of other inputs
FEWEST = 2  # quiet runs, and busy ones, for a comparison
DRAWS = 400
OF_MEDIAN = math.pi / 2
"""Variance of the median of many over that of their mean; of few it is smaller."""
LEAST_IO = 0.02
"""Share of its time alone that a job is in I/O, reads and writes, for it to count as one with I/O.

As MinIoShare is by default."""


@dataclass(frozen=True, slots=True)
class Moved:
    """Bytes that reached storage or came from it, evenly over a time."""

    start: float
    end: float
    bytes: float

    def during(self, start: float, end: float) -> float:
        common = min(self.end, end) - max(self.start, start)
        return self.bytes * max(0.0, common) / (self.end - self.start or 1.0)


@dataclass(frozen=True, slots=True)
class TimedRun:
    """A run to be compared."""

    program: Hashable
    """What it shares with runs that do the same."""
    start: float
    """UTC seconds."""
    seconds: float
    node_seconds: float
    """What a loss of these seconds is a share of."""
    load: float
    """What others moved meanwhile, as a share of what storage can move."""

    @property
    def month(self) -> str:
        return time.strftime("%Y-%m", time.gmtime(self.start))


@dataclass(frozen=True, slots=True)
class Month:
    """What runs of a month lost; of what was compared in it."""

    month: str
    programs: int
    quiet: int
    busy: int
    node_hours: float
    lost_share: float


@dataclass(frozen=True, slots=True)
class Comparison:
    """What runs lost, of all node-hours that count."""

    programs: int
    """Of which quiet and busy runs of one month were compared."""
    quiet: int
    busy: int
    kept: float
    """Median speed of the busy ones over that of quiet ones."""
    lost_share: float
    interval: tuple[float, float]
    """90 %."""
    compared_share: float
    """Of the node-hours that count: what was compared stands for the others."""
    months: tuple[Month, ...]


@dataclass(frozen=True, slots=True)
class _Group:
    """Runs of one program in one month."""

    month: str
    quiet: int
    busy: tuple[float, ...]
    """ln (time of a quiet one / time of each busy one)."""
    spread: float
    """Sum of squares around the two means, and its degrees of freedom."""
    freedom: int
    node_seconds: float
    disturbed: float
    """Of them, by busy runs."""

    @property
    def log_ratio(self) -> float:
        """Return ln (time of busy ones / time of quiet ones)."""
        return -math.fsum(self.busy) / len(self.busy)


def compare(runs: Sequence[TimedRun], *, of_all: float = 1.0, seed: int = 0) -> Comparison | None:
    """Return what runs lost at busy times; None where no program ran at both.

    of_all: node-seconds of these runs over those of all that a loss is told as a share of.
    """
    groups = _groups(runs)
    if not groups:
        return None
    everything = math.fsum(run.node_seconds for run in runs)
    compared = math.fsum(group.node_seconds for group in groups)
    busy = [kept for group in groups for kept in group.busy]
    low, high = (of_all * bound for bound in _interval(groups, np.random.default_rng(seed)))
    return Comparison(
        programs=len(groups),
        quiet=sum(group.quiet for group in groups),
        busy=len(busy),
        kept=math.exp(median(busy)),
        lost_share=of_all * _lost_share(groups),
        interval=(low, high),
        compared_share=compared / everything,
        months=_months(groups),
    )


def _groups(runs: Iterable[TimedRun]) -> list[_Group]:
    alike: dict[tuple[str, Hashable], list[TimedRun]] = defaultdict(list)
    for run in runs:
        if run.seconds > 0:
            alike[run.month, run.program].append(run)
    found = []
    for (month, _), members in alike.items():
        members.sort(key=lambda run: (run.seconds, run.load, run.node_seconds))
        quiet = [run for run in members if run.load < QUIET]
        busy = [run for run in members if run.load >= QUIET]
        if min(len(quiet), len(busy)) >= FEWEST:
            found.append(_group(month, quiet, busy))
    return sorted(found, key=lambda one: (one.month, one.log_ratio, one.node_seconds))


def _group(month: str, quiet: Sequence[TimedRun], busy: Sequence[TimedRun]) -> _Group:
    logs = [np.log([run.seconds for run in side]) for side in (quiet, busy)]
    usual = math.log(usual_seconds([run.seconds for run in quiet]))
    return _Group(
        month=month,
        quiet=len(quiet),
        busy=tuple(usual - math.log(run.seconds) for run in busy),
        spread=float(sum(((side - side.mean()) ** 2).sum() for side in logs)),
        freedom=len(quiet) + len(busy) - 2,
        node_seconds=math.fsum(run.node_seconds for run in (*quiet, *busy)),
        disturbed=math.fsum(run.node_seconds for run in busy),
    )


def usual_seconds(quiet: Sequence[float]) -> float:
    """Return how long a program takes, by its quiet runs.

    The median: some of them lose much to other things than storage.
    """
    return median(quiet)


def _lost_share(groups: Sequence[_Group]) -> float:
    """Return the share of what was compared; below 0 where busy runs were the faster ones."""
    lost = math.fsum(group.disturbed * -math.expm1(-group.log_ratio) for group in groups)
    return lost / math.fsum(group.node_seconds for group in groups)


def _interval(groups: Sequence[_Group], rng: np.random.Generator) -> tuple[float, float]:
    """Draw programs anew, and how far the runs of each are from their mean."""
    variance = sum(group.spread for group in groups) / sum(group.freedom for group in groups)
    of_mean = np.array([OF_MEDIAN / one.quiet + 1 / len(one.busy) for one in groups])
    ratios = np.array([group.log_ratio for group in groups])
    disturbed = np.array([group.disturbed for group in groups])
    whole = np.array([group.node_seconds for group in groups])
    drawn = rng.integers(0, len(groups), (DRAWS, len(groups)))
    errors = rng.standard_normal(drawn.shape) * np.sqrt(variance * of_mean)[drawn]
    lost = disturbed[drawn] * -np.expm1(-(ratios[drawn] + errors))
    low, high = np.quantile(lost.sum(axis=1) / whole[drawn].sum(axis=1), [0.05, 0.95])
    return float(low), float(high)


def _months(groups: Sequence[_Group]) -> tuple[Month, ...]:
    by_month: dict[str, list[_Group]] = defaultdict(list)
    for group in groups:
        by_month[group.month].append(group)
    return tuple(
        Month(
            month=month,
            programs=len(own),
            quiet=sum(group.quiet for group in own),
            busy=sum(len(group.busy) for group in own),
            node_hours=sum(group.node_seconds for group in own) / 3600,
            lost_share=_lost_share(own),
        )
        for month, own in sorted(by_month.items())
    )


# Runs of a history, and what others moved meanwhile


def by_run_time(store: Store, jobs: Sequence[FinishedJob], bandwidth: float) -> Comparison | None:
    """Compare run times of jobs with I/O; others' bytes are those of logs and accounting."""
    if not jobs:
        return None
    some = [job for job in jobs if _io_share(job) >= LEAST_IO]
    own = [moved_by(job) for job in some]
    without_log = store.jobs.unlogged_jobs_during(*_span(jobs))
    traffic = [*map(moved_by, jobs), *map(counted, without_log)]
    runs = _timed(some, own, traffic, bandwidth, {})
    return compare(runs, of_all=_share_of_all(runs, jobs))


def by_server_counts(
    store: Store, jobs: Sequence[FinishedJob], bandwidth: float
) -> Comparison | None:
    """Compare times in I/O; others' bytes are those that the file system's servers counted.

    Of all that moved over time, else of each job.
    """
    if not jobs:
        return None
    if series := store.interference.server_counts_during(*_span(jobs)):
        traffic = [Moved(one.start, one.start + one.seconds, one.bytes) for one in series]
        begun, ended = traffic[0].start, max(one.end for one in traffic)
        own = [(job, moved_by(job)) for job in jobs if begun <= job.start and job.end <= ended]
        return _by_io_time(own, traffic, jobs, bandwidth)
    served = store.jobs.served_jobs_during(*_span(jobs))
    by_job: dict[tuple[str, int], list[Job]] = defaultdict(list)
    for one in served:
        by_job[one.cluster, one.submission_id].append(one)
    own = [
        (job, counted(min(its, key=lambda one: abs((one.start or 0) - job.start))))
        for job in jobs
        if job.decided_as and (its := by_job.get(job.decided_as))
    ]
    return _by_io_time(own, [*map(counted, served)], jobs, bandwidth)


def _by_io_time(
    known: Sequence[tuple[FinishedJob, Moved]],
    traffic: Sequence[Moved],
    jobs: Sequence[FinishedJob],
    bandwidth: float,
) -> Comparison | None:
    """Compare those with I/O, of each of which it is known what it moved itself."""
    some = [(job, own) for job, own in known if io_seconds(job) > 0 and _io_share(job) >= LEAST_IO]
    timed, own = [job for job, _ in some], [itself for _, itself in some]
    seconds = {id(job): io_seconds(job) for job in timed}
    runs = _timed(timed, own, traffic, bandwidth, seconds)
    return compare(runs, of_all=_share_of_all(runs, jobs))


def _span(jobs: Sequence[FinishedJob]) -> tuple[int, int]:
    return min(job.start for job in jobs), max(job.end for job in jobs)


def _share_of_all(runs: Sequence[TimedRun], jobs: Sequence[FinishedJob]) -> float:
    everything = math.fsum(map(node_seconds, jobs))
    return math.fsum(run.node_seconds for run in runs) / everything if everything else 0.0


def _io_share(job: FinishedJob) -> float:
    return job.profile.numbers.get("io_share", 0.0)


def node_seconds(job: FinishedJob) -> float:
    return max(1, job.nodes) * max(0.0, job.end - job.start)


def io_seconds(job: FinishedJob) -> float:
    """Return its time in I/O as it was seen."""
    if job.disturbance is not None:
        return job.disturbance.io_seconds
    return _io_share(job) * job.profile.numbers.get("runtime_seconds", 0.0)


def moved_by(job: FinishedJob) -> Moved:
    """Return what it moved; what it read from its nodes' caches is none of it."""
    numbers = job.profile.numbers
    read = numbers.get("read_bytes", 0.0) * (1.0 - numbers.get("read_cached_share", 0.0))
    return Moved(job.start, job.end, numbers.get("write_bytes", 0.0) + read)


def counted(job: Job) -> Moved:
    start, end = float(job.start or 0), float(job.end or 0)
    return Moved(start, end, float((job.write_bytes or 0) + (job.read_bytes or 0)))


def _timed(
    jobs: Sequence[FinishedJob],
    own: Sequence[Moved],
    traffic: Iterable[Moved],
    bandwidth: float,
    seconds: Mapping[int, float],
) -> list[TimedRun]:
    """Return the runs with their load; seconds: of each, by its id(), else its run time."""
    kinds = kinds_of(jobs)
    spans = np.array([(job.start, job.end) for job in jobs], dtype=np.float64).reshape(-1, 2)
    all_moved = moved_during(traffic, spans)
    runs = []
    for job, itself, kind, moved in zip(jobs, own, kinds, all_moved.tolist(), strict=True):
        runtime = job.end - job.start
        if runtime > 0 and bandwidth > 0:
            taken = seconds.get(id(job), float(runtime))
            load = max(0.0, moved - itself.during(job.start, job.end)) / runtime / bandwidth
            nodes = max(1, job.nodes)
            runs.append(TimedRun(kind, job.start, taken, nodes * taken, load))
    return runs


def kinds_of(jobs: Sequence[FinishedJob]) -> list[Hashable]:
    """Tell which runs do the same: of one user, name and size, and about the same bytes."""
    alike: dict[tuple[Hashable, ...], list[int]] = defaultdict(list)
    for i, job in enumerate(jobs):
        alike[job.uid, job.stem, job.nodes, job.size].append(i)
    kinds: list[Hashable] = [None] * len(jobs)
    for key, members in alike.items():
        volumes = np.log([1.0 + _volume(jobs[i]) for i in members])
        order = np.argsort(volumes, kind="stable")
        numbers = np.concatenate([[0], np.cumsum(np.diff(volumes[order]) > ALIKE)])
        for place, number in zip(order.tolist(), numbers.tolist(), strict=True):
            kinds[members[place]] = (*key, number)
    return kinds


def _volume(job: FinishedJob) -> float:
    numbers = job.profile.numbers
    return numbers.get("write_bytes", 0.0) + numbers.get("read_bytes", 0.0)


def moved_during(traffic: Iterable[Moved], spans: Array) -> Array:
    """Return the bytes moved within each span (start and end)."""
    known = [one for one in traffic if one.bytes > 0 and one.end > one.start]
    rates = np.array([one.bytes / (one.end - one.start) for one in known])
    if not len(spans):
        return np.zeros(0)
    origin = spans.min()  # small numbers keep their last digits in large sums
    until, total = spans - origin, np.zeros(spans.shape)
    for edges, sign in (([one.start for one in known], 1.0), ([one.end for one in known], -1.0)):
        after = np.array(edges) - origin
        order = np.argsort(after)
        rate = np.concatenate([[0.0], np.cumsum(rates[order])])
        moment = np.concatenate([[0.0], np.cumsum((rates * after)[order])])
        count = np.searchsorted(after[order], until)
        total += sign * (rate[count] * until - moment[count])
    return np.asarray(total[:, 1] - total[:, 0])
