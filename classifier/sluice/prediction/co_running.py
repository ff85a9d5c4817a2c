"""Co-running I/O of a history: runs of one storage laid over each other in time.

A run's heatmap says when it moved bytes, its counters how long it was in I/O. Where the two
agree, a part of a burst has a rate of its own. Where most of the I/O is waiting that no bin shows
(a flush), or bins are wider than bursts, only the whole run has one, and each burst is taken to
last as long as its share of the bytes. Without a heatmap I/O is spread evenly over the run.
"""

from __future__ import annotations

import math
from copy import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sluice.darshan.bursts import QUIET, runs_of

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator, Sequence

    from numpy.typing import NDArray

    Array = NDArray[np.float64]

LOADS_OF_OTHERS = np.array(
    [0.1, 0.5, 1.1, 2.1, 3.5]
)  # others at once, between which parts are told apart
PIECES = 64  # of a burst of a run whose bins tell no rate
SLICE = 4  # bins
SHORT = 0.25  # of a run's bursts may lie within two bins
AGREE = (0.5, 1.5)  # counted seconds of I/O over those of busy bins
WINDOW = 5.0  # seconds over which a storage's most is looked for, at least
MOST = 0.98  # quantile of its busy windows
FULL = 0.995  # quantile of what waits in a cache while anything does
STORAGE_RUNS = 2000  # the newest, that tell what a storage takes,
COARSE = 8.0  # but for those whose bins are so many times as wide as usual
MOST_PIECES = 256  # of a run
PLAIN = 3  # edges of a run without a heatmap, at most: start, end, and when storage had it all
MOST_OTHERS = 64  # alongside a run that count, those that move most


@dataclass(frozen=True, slots=True, eq=False)
class IoRun:
    """One run, as far as its I/O goes."""

    program: Hashable
    """Runs of one program are alike."""
    job: Hashable
    """Runs of one job are no co-runners of each other."""
    start: float
    """UTC seconds."""
    seconds: float
    io_seconds: float
    """Of its slowest process."""
    moved: float
    """Bytes."""
    bin_seconds: float = 0.0
    bins: Array | None = None
    """Bytes, from the start; None: no heatmap."""
    flushes: bool = False
    """It waits now and then until what it wrote is out of the cache."""
    targets: frozenset[int] | None = None
    """Of the storage; None: not known, so that it may share with all."""

    @property
    def rate(self) -> float:
        return self.moved / self.io_seconds

    @property
    def fastest(self) -> float:
        """B/s of its fastest bin."""
        if self.bins is None or not self.bins.any():
            return self.rate
        return float(self.bins.max()) / self.bin_seconds


@dataclass(frozen=True, slots=True, eq=False)
class Background:
    """Units are what has a rate, a run or some of it; parts of a unit differ in co-runners."""

    run_of_unit: NDArray[np.intp]
    log_rate: Array
    """Of each unit."""
    share_of_run: Array
    """Of its run's I/O, of each unit."""
    first_part: NDArray[np.intp]
    """Of each unit, and behind the last one."""
    unit: NDArray[np.intp]
    """Of each part."""
    fraction: Array
    """Of its unit's I/O time, of each part."""
    others: Array
    """Others in I/O at once, of each part, in the mean."""
    part: NDArray[np.intp]
    """Of each meeting: a part and another run; likewise the next two."""
    other: NDArray[np.intp]
    seconds: Array
    """Of the other's I/O, a second of the part."""
    exposed: Array
    """Of each run: the share of its I/O time in which others were in I/O, too."""
    storage: Storage


class _Activity:
    """When one run was in I/O."""

    def __init__(self, run: IoRun) -> None:
        self.run = run
        self.is_resolved = False
        if run.bins is None or not run.bins.any():
            self.edges = np.array([run.start, run.start + run.seconds])
            self.begin, self.end = self.edges[:1], self.edges[1:]
            self.spent = np.array([0.0, min(run.io_seconds, run.seconds)])
            return
        spent = self._bursts(run, run.bins)
        self.edges = np.stack([self.begin, self.end], axis=1).ravel()
        self.spent = np.repeat(np.concatenate([[0.0], np.cumsum(spent)]), 2)[1:-1]
        if self.is_resolved:
            self.edges = run.start + run.bin_seconds * np.arange(len(run.bins) + 1)
            moved = np.concatenate([[0.0], np.cumsum(run.bins)])
            self.spent = moved * (run.io_seconds / moved[-1])

    def _bursts(self, run: IoRun, bins: Array) -> Array:
        first, stop = runs_of(bins > QUIET * bins.max())
        sums = np.concatenate([[0.0], np.cumsum(bins)])
        moved = sums[stop] - sums[first]
        io_seconds = run.io_seconds * moved / moved.sum()
        begin, length = run.start + run.bin_seconds * first, run.bin_seconds * (stop - first)
        until = np.append(begin[1:], max(run.start + run.seconds, begin[-1] + length[-1]))
        self.begin = begin
        self.end = begin + np.minimum(np.maximum(length, io_seconds), until - begin)
        agree = run.io_seconds / float(length.sum())
        self.is_resolved = bool(
            AGREE[0] <= agree <= AGREE[1] and (stop - first < 3).mean() <= SHORT
        )
        spent: Array = np.minimum(io_seconds, self.end - self.begin)
        return spent

    def written_back(self, most: float) -> _Activity:
        """Return it pressing until storage has taken its bytes: a cache takes them sooner."""
        if not self.is_resolved and self.run.rate <= most:
            return self  # its bursts are at least as long as their I/O, so nothing waits
        edges, spent = self.edges, self.spent
        length = np.diff(edges)
        taken = np.diff(spent) * self.run.rate / most  # seconds of the storage
        # what waits at each edge: a queue that is served at one second a second
        total = np.cumsum(taken - length)
        waiting = total - np.minimum.accumulate(np.minimum(total, 0.0))
        if waiting.max(initial=0.0) < 0.05:
            return self
        served = np.concatenate([[0.0], np.cumsum(taken)]) - np.append(0.0, waiting)
        pressing = copy(self)
        pressing.edges = np.append(edges, edges[-1] + waiting[-1])
        pressing.spent = np.append(served, served[-1] + waiting[-1]) * (spent[-1] / taken.sum())
        return pressing

    def seconds(self, begin: Array, end: Array) -> Array:
        """Return the time in I/O between each begin and end."""
        passed: Array = np.interp(np.concatenate([begin, end]), self.edges, self.spent)
        return passed[len(begin) :] - passed[: len(begin)]

    def pieces(self) -> _Pieces:
        """Cut its I/O into pieces; with the bytes of each where they tell a rate."""
        if self.is_resolved and self.run.bins is not None:
            return _pieces_of_bursts(self.run, self.run.bins)
        counts = np.ceil((self.end - self.begin) / max(self.run.bin_seconds, 1e-3))
        most = max(1, min(PIECES, MOST_PIECES // len(counts)))
        counts = np.clip(counts, 1, most).astype(np.intp)
        behind = np.cumsum(counts)
        number = np.arange(behind[-1]) - np.repeat(behind - counts, counts)
        begin = np.repeat((self.end - self.begin) / counts, counts) * number
        begin += np.repeat(self.begin, counts)
        end = np.append(begin[1:], 0.0)
        end[behind - 1] = self.end
        return _Pieces(begin, end, self.seconds(begin, end), None)


@dataclass(frozen=True, slots=True, eq=False)
class _Pieces:
    begin: Array
    end: Array
    io_seconds: Array
    moved: Array | None


def _pieces_of_bursts(run: IoRun, bins: Array) -> _Pieces:
    """Return the edges of bursts, which may be busy in part, and pieces of what lies between.

    The edges share the time in I/O that the rest leaves of what was counted, so that a burst
    that begins fast, into an empty cache, is not told slower than it was.
    """
    first, stop = runs_of(bins > QUIET * bins.max())
    at: list[int] = []
    to: list[int] = []
    for f, s in zip(first.tolist(), stop.tolist(), strict=True):
        inner = [*range(f + 1, s - 1, SLICE)]
        edges = [f, *inner, s - 1, s] if s - f > 1 else [f, s]
        at += edges[:-1]
        to += edges[1:]
    begin, end = np.array(at), np.array(to)
    is_edge = np.isin(begin, first) | np.isin(end, stop)
    width = run.bin_seconds * (end - begin)
    inside, outside = float(width[~is_edge].sum()), float(width[is_edge].sum())
    fill = min(1.0, max(0.1, (run.io_seconds - inside) / outside))
    spent = np.where(is_edge, fill * width, width)
    sums = np.concatenate([[0.0], np.cumsum(bins)])
    return _Pieces(
        run.start + run.bin_seconds * begin,
        run.start + run.bin_seconds * end,
        spent * (run.io_seconds / float(spent.sum())),
        sums[end] - sums[begin],
    )


def background_of(runs: Sequence[IoRun], bandwidth: float | None = None) -> Background:
    """Lay the runs of one storage over each other.

    bandwidth: B/s of the storage, if it is known.
    """
    activities = [_Activity(run) for run in runs]
    storage = seen_storage(runs, bandwidth)
    pressing = _Pressing([one.written_back(storage.most) for one in activities])
    built = _Built(len(runs))
    for i, others in _alongside(runs, pressing.starts, pressing.ends):
        built.add(i, activities[i], others, pressing)
    return built.background(storage)


class _Pressing:
    """When all runs were in I/O, those without a heatmap as rows of numbers."""

    def __init__(self, activities: Sequence[_Activity]) -> None:
        self.activities = activities
        self.starts = np.array([one.edges[0] for one in activities])
        self.ends = np.array([one.edges[-1] for one in activities])
        self.is_plain = np.array([len(one.edges) <= PLAIN for one in activities])
        self.edges, self.spent = (
            np.stack([_padded(one, PLAIN) for one in rows])
            for rows in (
                [one.edges for one in activities],
                [one.spent for one in activities],
            )
        )
        length = np.diff(self.edges)
        self.share = np.diff(self.spent) / np.where(length > 0, length, 1.0)

    def seconds(self, others: NDArray[np.intp], begin: Array, end: Array) -> Array:
        """Return the time in I/O of each of these between each begin and end."""
        is_plain = self.is_plain[others]
        plain = others[is_plain]
        total = np.zeros((len(plain), len(begin)))
        for n in range(PLAIN - 1):
            share = self.share[plain, n, None]
            if share.any():
                passed = np.minimum(end, self.edges[plain, n + 1, None])
                passed -= np.maximum(begin, self.edges[plain, n, None])
                np.maximum(passed, 0.0, out=passed)
                passed *= share
                total += passed
        if is_plain.all():
            return total
        found = np.empty((len(others), len(begin)))
        found[is_plain] = total
        for place in np.flatnonzero(~is_plain).tolist():
            found[place] = self.activities[others[place]].seconds(begin, end)
        return found


def _padded(values: Array, count: int) -> Array:
    """Return so many of the values, the last one repeated where there are fewer."""
    return values[np.minimum(np.arange(count), len(values) - 1)]


def _alongside(
    runs: Sequence[IoRun], starts: Array, ends: Array
) -> Iterator[tuple[int, NDArray[np.intp]]]:
    """Yield each run with those of other jobs that ran meanwhile and may share its targets."""
    order = np.argsort(starts, kind="stable")
    behind = np.searchsorted(
        starts[order], ends
    )  # place in the order of those that begin afterwards
    moves = np.array([run.moved / run.seconds for run in runs])
    rank = np.empty(len(runs), dtype=np.intp)
    rank[np.argsort(-moves, kind="stable")] = np.arange(len(runs))
    numbers: dict[Hashable, int] = {}
    job = np.array([numbers.setdefault(run.job, len(numbers)) for run in runs])
    may_share = _sharing(runs)
    running = order[:0]  # those that began before and have not ended
    for place, i in enumerate(order.tolist()):
        running = running[ends[running] > starts[i]]
        near = np.concatenate([running, order[place : behind[i]]])
        running = np.append(running, i)
        near = near[(job[near] != job[i]) & may_share(i, near)]
        if len(near) > MOST_OTHERS:
            near = near[np.argpartition(rank[near], MOST_OTHERS)[:MOST_OTHERS]]
            near = near[np.argsort(rank[near])]
        yield i, near


def _sharing(
    runs: Sequence[IoRun],
) -> Callable[[int, NDArray[np.intp]], NDArray[np.bool_] | bool]:
    """Return what tells with which others a run may share a target."""
    known = sorted({target for run in runs for target in run.targets or ()})
    if not known:
        return lambda _i, _others: True
    bit = {target: 1 << n for n, target in enumerate(known)}
    size = -(-len(known) // 8)
    every = (1 << len(known)) - 1
    masks = np.frombuffer(
        b"".join(
            (every if run.targets is None else sum(map(bit.__getitem__, run.targets))).to_bytes(
                size, "little"
            )
            for run in runs
        ),
        dtype=np.uint8,
    ).reshape(len(runs), size)
    return lambda i, others: (masks[others] & masks[i]).any(axis=1)


@dataclass(frozen=True, slots=True)
class Storage:
    """What a place was seen to take."""

    most: float
    """B/s, for as long as one likes."""
    cache: float
    """Bytes that it takes faster than that, before it has to write them back."""


def seen_storage(runs: Sequence[IoRun], most: float | None = None) -> Storage:
    """Tell what a place takes from the sum of what all runs moved there; `most` if it is known."""
    fine = sorted((run for run in runs if run.bins is not None), key=lambda run: run.start)
    if not fine:
        return Storage(most or max(run.rate for run in runs), 0.0)
    fine = fine[-STORAGE_RUNS:]
    step = float(np.median([run.bin_seconds for run in fine]))
    moved = _moved([run for run in fine if run.bin_seconds <= COARSE * step], step)
    if most is None:
        width = max(1, round(max(WINDOW, step) / step))
        sums = np.convolve(moved, np.ones(width), mode="valid") / (width * step)
        busy = sums[sums > 0]
        most = float(np.quantile(busy, MOST)) if len(busy) else 1.0
        # Those without a heatmap are not in the sum; what one of them got for long it has.
        most = max([most, *(r.rate for r in runs if r.bins is None and r.io_seconds >= WINDOW)])
    change = np.cumsum(moved - most * step)
    waiting = change - np.minimum.accumulate(np.minimum(change, 0.0))
    waits = waiting[waiting > 0]
    return Storage(most, float(np.quantile(waits, FULL)) if len(waits) else 0.0)


def _moved(runs: Sequence[IoRun], step: float) -> Array:
    """Return the bytes of each step, time without a run left out."""
    ends = np.array([run.start + run.seconds for run in runs])
    starts = np.array([run.start for run in runs])
    cells = [
        np.arange(int(a // step), int(b // step) + 1) for a, b in zip(starts, ends, strict=True)
    ]
    known = np.unique(np.concatenate(cells))
    moved = np.zeros(len(known))
    for run, own in zip(runs, cells, strict=True):
        bins = np.zeros(1) if run.bins is None else run.bins
        edges = run.start + run.bin_seconds * np.arange(len(bins) + 1)
        sums = np.concatenate([[0.0], np.cumsum(bins)])
        kept = own[own >= known[0]]
        if len(kept):
            passed = np.interp(np.append(kept, kept[-1] + 1) * step, edges, sums)
            np.add.at(moved, np.searchsorted(known, kept), np.diff(passed))
    return moved


def rate_by_cache(run: IoRun, storage: Storage, fast: float) -> float:
    """Return B/s that a run would get with an empty cache before it, and none alongside it.

    Its bursts and pauses are those of its heatmap; fast: B/s into a cache with room.
    """
    if run.bins is None or not run.bins.any():
        return storage.most
    first, stop = runs_of(run.bins > QUIET * run.bins.max())
    sums = np.concatenate([[0.0], np.cumsum(run.bins)])
    bursts = sums[stop] - sums[first]
    pauses = run.bin_seconds * (np.append(first[1:], stop[-1]) - stop)
    if fast <= storage.most:
        return fast
    held = seconds = 0.0
    for burst, pause in zip(bursts.tolist(), pauses.tolist(), strict=True):
        until_full = max(0.0, storage.cache - held) / (fast - storage.most)
        quick = min(burst / fast, until_full)
        slow = (burst - quick * fast) / storage.most
        seconds += quick + slow
        held = max(0.0, held + quick * (fast - storage.most) - pause * storage.most)
    return float(bursts.sum()) / seconds


class _Built:
    def __init__(self, runs: int) -> None:
        self.exposed = np.zeros(runs)
        self.run: list[int] = []
        self.log_rate: list[float] = []
        self.share: list[float] = []
        self.first: list[int] = []
        self.fraction: list[float] = []
        self.unit: list[int] = []
        self.other: list[NDArray[np.intp]] = []
        self.seconds: list[Array] = []

    def add(
        self, i: int, activity: _Activity, others: NDArray[np.intp], pressing: _Pressing
    ) -> None:
        pieces = activity.pieces()
        own, moved = pieces.io_seconds, pieces.moved
        load = pressing.seconds(others, pieces.begin, pieces.end)
        load /= pieces.end - pieces.begin
        at_once = load.sum(axis=0)
        whole = float(own.sum())
        self.exposed[i] = float(np.minimum(1.0, at_once) @ own) / whole
        level = np.searchsorted(LOADS_OF_OTHERS, at_once)
        seconds = np.bincount(level, own)
        bytes_moved = None if moved is None else np.bincount(level, moved).tolist()
        if bytes_moved is None:
            self._unit(i, math.log(activity.run.rate), 1.0)
        for one in np.flatnonzero(seconds > 0).tolist():
            spent = float(seconds[one])
            if bytes_moved is not None:
                if bytes_moved[one] <= 0:
                    continue
                self._unit(i, math.log(bytes_moved[one] / spent), spent / whole)
            self.unit.append(len(self.run) - 1)
            self.fraction.append(1.0 if bytes_moved is not None else spent / whole)
            self.other.append(others)
            self.seconds.append(load @ np.where(level == one, own / spent, 0.0))

    def _unit(self, run: int, log_rate: float, share: float) -> None:
        self.run.append(run)
        self.log_rate.append(log_rate)
        self.share.append(share)
        self.first.append(len(self.unit))

    def background(self, storage: Storage) -> Background:
        part = np.repeat(np.arange(len(self.unit)), list(map(len, self.other)))
        seconds = np.concatenate([np.zeros(0), *self.seconds])
        other = np.concatenate([np.zeros(0, dtype=np.intp), *self.other])
        met = seconds > 0
        return Background(
            run_of_unit=np.array(self.run, dtype=np.intp),
            log_rate=np.array(self.log_rate),
            share_of_run=np.array(self.share),
            first_part=np.array([*self.first, len(self.unit)], dtype=np.intp),
            unit=np.array(self.unit, dtype=np.intp),
            fraction=np.array(self.fraction),
            others=np.array([one.sum() for one in self.seconds]),
            part=part[met],
            other=other[met],
            seconds=seconds[met],
            exposed=self.exposed,
            storage=storage,
        )
