"""Estimates of jobs as they would have been without others' I/O.

What a program does alone, learned from runs that had co-runners. A run tells how fast its I/O went,
not how fast it would have gone. Which runs were alongside is known, and when each wrote
(`co_running.py`), so each run is cut into parts by how much I/O of others lay over it. What is left
of the rate in a part follows from what the others got there, by one of two laws of a storage that
is full:

    bytes  rate = min (R, K W - what the others moved)
    time   rate = R min (1, 1 + h - loss * sum of the others' I/O, in seconds of it alone)

R is the rate alone, W the most that the storage was seen to move, K what a mix moves beyond that.
Which law holds, and K, h and loss, differ from program to program and are not known; all are tried,
each by its prior, and what the runs bear out counts (a posterior on a grid). Parts without
co-runners say R by themselves, and outweigh the laws where there are any; where there are none,
what the laws leave open is the width of the interval. What others' I/O would take alone depends on
their own R, so programs are estimated in turn, some rounds.

What is predicted, assessed, ranked and decided starts from these. A program's rate alone is
estimated from all of its runs together; of each run, the time in I/O that it lost is
what its rate fell short of that, but no more than the time that others were in I/O meanwhile: who
was by himself lost nothing.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from sluice.darshan.bursts import unpacked
from sluice.policies import core
from sluice.prediction.co_running import IoRun, background_of, rate_by_cache
from sluice.prediction.jobs import Disturbance, latest_jobs

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from sluice.history_db.records import Profile
    from sluice.history_db.store import Store
    from sluice.prediction.co_running import Background
    from sluice.prediction.jobs import FinishedJob
    from sluice.prediction.submission_features import Submissions

    Array = NDArray[np.float64]
    Floats = NDArray[np.floating[Any]]


ROUNDS = 3  # what programs take from each other hardly changes after two
NEWEST = 24  # runs of a program that are asked
BATCH_UNITS = 128  # whose arrays the processor keeps at hand
GRID = 64  # rates that are tried
BEYOND = 1.2  # how far above W they go, in logarithms: what a cache takes,
BELOW = 0.6  # and below what was seen
USUAL_SD = 0.6
LOSS = np.linspace(0.0, 1.2, 9)
LOSS_MEAN, LOSS_SD, LOSS_ANY = 0.8, 0.25, 0.15
HEADROOM, HEADROOM_PRIOR = np.array([0.0, 0.3]), np.array([0.7, 0.3])
MIX, MIX_PRIOR = np.array([0.9, 1.05, 1.25]), np.array([0.25, 0.5, 0.25])
NOISE, NOISE_PRIOR = np.array([0.08, 0.2, 0.5]), np.array([0.5, 0.35, 0.15])
PART_NOISE = 0.06  # of the log rate of a part that is all of a run's I/O; small ones have more
FREEDOM = 4.0  # of Student's distribution: one wild run must not spoil the rest; see _likelihood
QUANTILES = np.array([0.05, 0.5, 0.95])  # of the rate alone that are told
FLOOR_SD = 0.05  # of ln R: what the next runs differ by, whatever these say
LEAST_KEPT = 0.02  # of R, by the law of time: a rate of 0 would exclude what was seen
# What was seen with co-runners counts as so many runs at most: the laws err in the same way for all
# of it, so more runs do not average that out.
WITH_CORUNNERS = 3.0
FLUSHING = 1.0  # likewise of programs that wait for what others queued, which no law describes
TEMPER = 0.7  # runs that one is worth: those of a program share the state of the site
ALONE = 1.0  # others at once, from which a cache is theirs too
# Others at once alongside which a run still has half of its guaranteed rate, 0.9 W: 1.0 is a fair
# share; at 0.15 it presses little, as with one request in flight, and others push it aside.
# Which of the two holds depends on the program, and no log tells it, so both count alike.
HOLD, HOLD_PRIOR = np.array([0.15, 1.0]), np.array([0.5, 0.5])
# A part that is slower than expected has 1 + SKEW times the variance if others were in I/O all
# the time: jobs without a log slow a run down, and nothing makes it faster.
SKEW = 6.0


@dataclass(frozen=True, slots=True)
class Alone:
    """What the runs of a program let believe of its rate alone."""

    log_rate: float
    """Of B/s: the median of the estimate."""
    log_sd: float
    low: float
    """Of log_rate, 90 %."""
    high: float
    runs: int

    @property
    def rate(self) -> float:
        return math.exp(self.log_rate)


@dataclass(frozen=True, slots=True)
class Estimates:
    """What runs say of their programs."""

    programs: Mapping[Hashable, Alone]
    place: Mapping[Hashable, int]
    """Of each run, by its job, in what follows."""
    exposed: Array
    """Of each run, the share of its time in I/O in which others were in I/O too."""


def estimate(runs: Sequence[IoRun], *, bandwidth: float | None = None) -> Estimates:
    """Return what each program's rate alone is, by program.

    bandwidth: B/s of the storage; None: the most that was seen.
    """
    if not runs:
        return Estimates({}, {}, np.zeros(0))
    background = background_of(runs, bandwidth)
    place = {run.job: i for i, run in enumerate(runs)}
    return Estimates(_Rounds(runs, background).result(), place, background.exposed)


class _Rounds:
    """Programs estimated in turn, each by the estimates of the others."""

    def __init__(self, runs: Sequence[IoRun], background: Background) -> None:
        self.background = background
        names: dict[Hashable, int] = {}
        self.program = np.array([names.setdefault(run.program, len(names)) for run in runs])
        self.names = list(names)
        self.log_rate = np.log([run.rate for run in runs])
        self.log_full = math.log(background.storage.most)
        fast = np.zeros(len(names))
        np.maximum.at(fast, self.program, [run.fastest for run in runs])
        self.log_usual = np.log(
            [
                rate_by_cache(run, background.storage, float(fast[n]))
                for run, n in zip(runs, self.program, strict=True)
            ]
        )
        self.flushes = np.array([run.flushes for run in runs])
        self.log_fast = np.log([run.fastest for run in runs])
        others = np.add.reduceat(
            background.others * background.fraction, background.first_part[:-1]
        )
        self.others_of_unit = others
        weights = background.share_of_run
        self.others_of_run = np.bincount(background.run_of_unit, others * weights, len(runs))
        # storage's share of what others moved: no weight changes it
        self.by_bytes = background.seconds * np.exp(self.log_rate - self.log_full)[background.other]
        self.starts = np.array([run.start for run in runs])
        self.batches = self._batches()

    def result(self) -> dict[Hashable, Alone]:
        believed = np.array(
            [
                max(np.median(self.log_usual[own]), self.log_rate[own].max())
                for own in _members(self.program, len(self.names))
            ]
        )
        sd = np.full(len(self.names), USUAL_SD)
        found: dict[int, Alone] = {}
        for _ in range(ROUNDS):
            time, variance = self._loads(believed, sd)
            for batch in self.batches:
                found |= batch.estimates(time, variance)
            for n, one in found.items():
                believed[n], sd[n] = one.log_rate, one.log_sd
        return {self.names[n]: found[n] for n in sorted(found)}

    def _batches(self) -> list[_Batch]:
        """Put programs of as many units together."""
        alike: dict[int, list[tuple[int, NDArray[np.intp]]]] = defaultdict(list)
        background = self.background
        moved = _sums(background.part, self.by_bytes, len(background.unit))
        for n, units in enumerate(_members(self.program[background.run_of_unit], len(self.names))):
            if len(units):
                newest = self._newest(units)
                alike[len(newest)].append((n, newest))
        return [
            self._batch(programs[at : at + max(1, BATCH_UNITS // count)], moved)
            for count, programs in sorted(alike.items())
            for at in range(0, len(programs), max(1, BATCH_UNITS // count))
        ]

    def _newest(self, units: NDArray[np.intp]) -> NDArray[np.intp]:
        """Leave the units of a program's newest runs: what older ones add is work."""
        if len(units) <= NEWEST:
            return units
        run = self.background.run_of_unit[units]
        own = np.unique(run)
        if len(own) <= NEWEST:
            return units
        newest = own[np.lexsort((own, self.starts[own]))][-NEWEST:]
        return units[np.isin(run, newest)]

    def _loads(self, believed: Array, sd: Array) -> tuple[Array, Array]:
        """Return the others' I/O over each part, in seconds alone, and its variance."""
        background, other = self.background, self.background.other
        kept = np.minimum(1.0, np.exp(self.log_rate - believed[self.program]))
        parts = len(background.unit)
        # A run that gets more than W alone gets it from a cache, which storage has to empty.
        by_time = np.maximum(background.seconds * kept[other], self.by_bytes)
        deviation = by_time * sd[self.program[other]]
        return _sums(background.part, by_time, parts), _sums(background.part, deviation**2, parts)

    def _batch(self, programs: list[tuple[int, NDArray[np.intp]]], moved: Array) -> _Batch:
        background = self.background
        of_program = np.stack([own for _, own in programs])
        units = of_program.ravel()
        first, stop = background.first_part[units], background.first_part[units + 1]
        parts = np.concatenate([np.arange(a, b) for a, b in zip(first, stop, strict=True)])
        run, seen = background.run_of_unit[of_program], background.log_rate[of_program]
        is_first = np.diff(run, axis=1, prepend=-1) != 0  # units of one run lie together
        flushes = (self.flushes[run] & is_first).sum(axis=1) > 0.5 * is_first.sum(axis=1)
        usual = np.array(
            [
                self._usual(own[places], flushes=waits)
                for own, places, waits in zip(run, is_first, flushes.tolist(), strict=True)
            ]
        )
        mean, sd, share = (usual[:, :, n, None] for n in range(3))
        grid = np.linspace(
            np.minimum(np.median(seen, axis=1), mean.min(axis=(1, 2))) - BELOW,
            np.maximum(seen.max(axis=1), mean.max(axis=(1, 2))) + BEYOND,
            GRID,
            axis=1,
        )
        return _Batch(
            numbers=[n for n, _ in programs],
            runs=is_first.sum(axis=1).tolist(),
            grid=grid,
            prior=(share * np.exp(-0.5 * ((grid[:, None] - mean) / sd) ** 2) / sd).sum(axis=1),
            weight=_weights(
                is_first,
                background.share_of_run[of_program],
                self.others_of_unit[of_program],
                most=np.where(self.flushes[run].mean(axis=1) > 0.5, FLUSHING, WITH_CORUNNERS),
            ),
            seen=background.log_rate[units] - self.log_full,
            share=background.share_of_run[units],
            slower=1.0 + SKEW * np.minimum(1.0, self.others_of_run[background.run_of_unit[units]]),
            parts=parts,
            first=np.cumsum(stop - first) - (stop - first),
            fraction=background.fraction[parts],
            others=background.others[parts],
            moved=moved[parts],
            full=self.log_full,
        )

    def _usual(self, runs: NDArray[np.intp], *, flushes: bool) -> list[tuple[float, float, float]]:
        """Return the prior of a program: mean, sd and share of three bells."""
        full = self.log_full
        if flushes:
            return [(full, 0.3, 0.6), (full, 0.8, 0.4), (full, 1.0, 0.0)]
        fast = float(self.log_fast[runs].max())
        if fast > full:
            by_cache = float(np.quantile(self.log_usual[runs], 0.75))
            return [(by_cache, 0.25, 0.6), (full, 0.3, 0.25), (full, 0.8, 0.15)]
        return [(fast, 0.25, 0.4), (full, 0.4, 0.3), ((fast + full) / 2, 0.6, 0.3)]


def _quantiles(passed: Array, grid: Array) -> list[list[float]]:
    """Return QUANTILES of each row, what lies before each point of its grid being known."""
    place = np.sum(passed[:, None, :] <= QUANTILES[:, None], axis=2) - 1
    below = np.clip(place, 0, passed.shape[1] - 2)
    x, y = (np.take_along_axis(one, below, axis=1) for one in (passed, grid))
    x1, y1 = (np.take_along_axis(one, below + 1, axis=1) for one in (passed, grid))
    share = np.clip((QUANTILES - x) / (x1 - x), 0.0, 1.0)
    quantiles: list[list[float]] = (y + share * (y1 - y)).tolist()
    return quantiles


def _sums(places: NDArray[np.intp], values: Array, count: int) -> Array:
    return np.asarray(np.bincount(places, values, count), dtype=np.float64)


def _members(program: NDArray[np.intp], count: int) -> list[NDArray[np.intp]]:
    order = np.argsort(program, kind="stable")
    return np.split(order, np.searchsorted(program[order], np.arange(1, count)))


def _weights(is_first: NDArray[np.bool_], share: Array, others: Array, *, most: Array) -> Array:
    """Say how much each unit of some programs counts, (programs, units).

    Parts of one run share its luck: together they count little more than one. What was seen in
    co-runners is only as good as the laws, which are wrong in one way for all of them: it counts as
    `most` runs at most. is_first: of its run, whose units lie together.
    """
    counts = np.diff(np.append(np.flatnonzero(is_first), is_first.size))
    of_run = np.repeat(counts**-0.5, counts).reshape(is_first.shape)
    weights = TEMPER * of_run * np.clip(share / 0.1, 0.1, 1.0)
    disturbed = np.minimum(1.0, others / 0.5)
    with_corunners = (weights * disturbed).sum(axis=1)
    less = np.minimum(1.0, most / np.maximum(with_corunners, 1e-300))[:, None]
    tempered: Array = weights * (1.0 - disturbed + disturbed * less)
    return tempered


def _time_laws() -> tuple[Array, Array, Array]:
    """Return headroom, loss and prior of each law of time."""
    prior = np.exp(-0.5 * ((LOSS - LOSS_MEAN) / LOSS_SD) ** 2)
    prior = (1 - LOSS_ANY) * prior / prior.sum() + LOSS_ANY / len(LOSS)
    headroom, loss = (one.ravel() for one in np.meshgrid(HEADROOM, LOSS, indexing="ij"))
    return headroom, loss, np.outer(HEADROOM_PRIOR, prior).ravel() / 2


TIME_HEADROOM, TIME_LOSS, TIME_PRIOR = _time_laws()
BYTES_PRIOR = np.outer(MIX_PRIOR, HOLD_PRIOR).ravel() / 2


@dataclass(slots=True)
class _Batch:
    """Programs of as many units each; units of one lie together, and so do parts of a unit.

    Arrays are (programs, units of a program, laws, grid), as far as they vary. They hold single
    precision: logarithms of likelihoods need no more, and a history has many millions of them.
    """

    numbers: list[int]
    """Of the programs."""
    runs: list[int]
    grid: Array
    prior: Array
    weight: Array
    """(programs, units); what follows is of each unit, one program's after the other's."""
    seen: Array
    """ln of the rate over W."""
    share: Array
    """Of its run's I/O that a unit is."""
    slower: Array
    """How much more a unit may be slower than expected than faster: of the variance."""
    parts: NDArray[np.intp]
    """Among all; what follows is of each part."""
    first: NDArray[np.intp]
    """Part of each unit."""
    fraction: Array
    """Of its unit that a part is."""
    others: Array
    """Others in I/O at once, in the mean."""
    moved: Array
    """By others, as a share of W."""
    full: float
    """ln W."""
    by_bytes: Array = field(init=False)
    """Log likelihood of each rate by the law of bytes, whatever the others do."""

    def __post_init__(self) -> None:
        self.by_bytes = self._by_bytes()

    def estimates(self, time: Array, variance: Array) -> dict[int, Alone]:
        """Return the estimate of each program; time and variance are of all parts."""
        by_time = self._by_time(time[self.parts], variance[self.parts])
        posterior = self.prior * np.exp(np.logaddexp(by_time, self.by_bytes))
        posterior /= posterior.sum(axis=1, keepdims=True)
        return dict(zip(self.numbers, self._believed(posterior), strict=True))

    def _believed(self, posterior: Array) -> Iterator[Alone]:
        """Yield the estimate of each program."""
        passed = np.cumsum(posterior, axis=1) - posterior / 2
        mean = (posterior * self.grid).sum(axis=1, keepdims=True)
        variance = (posterior * (self.grid - mean) ** 2).sum(axis=1)
        floor = core.Z90 * FLOOR_SD
        for (low, middle, high), square, runs in zip(
            _quantiles(passed, self.grid), variance.tolist(), self.runs, strict=True
        ):
            log_sd = math.hypot(math.sqrt(square), FLOOR_SD)
            yield Alone(middle, log_sd, low - floor, high + floor, runs)

    def _by_time(self, time: Array, variance: Array) -> Array:
        """Return the log likelihoods by the laws of time, up to a number: (programs, grid)."""
        kept = 1.0 + TIME_HEADROOM[:, None] - TIME_LOSS[:, None] * time
        of_unit = self._over_units(np.clip(kept, LEAST_KEPT, 1.0))
        doubt = (TIME_LOSS / np.maximum(0.1, of_unit)) ** 2 * self._over_units(variance[None])
        beyond = self._over_units(np.exp(-self.others / ALONE)[None])
        most = np.exp(self.grid - self.full).astype(np.float32)[:, None, None, :]
        own, least = of_unit.astype(np.float32)[..., None], np.minimum(1, most)
        with_cache = own * least
        with_cache += beyond.astype(np.float32)[..., None] * np.maximum(0, most - 1)
        # the logarithm of a product: two of little instead of one of much
        return self._likelihood(np.log(own) + np.log(least), with_cache, doubt, TIME_PRIOR)

    def _by_bytes(self) -> Array:
        """Likewise by the laws of bytes; what is guaranteed depends on how one presses."""
        most = np.repeat(np.exp(self.grid - self.full), self._parts_of_programs(), axis=0)
        beyond = np.maximum(0.0, most - 1.0) * np.exp(-self.others / ALONE)[:, None]
        shares = []
        for mix in MIX:
            for hold in HOLD:
                left = np.maximum(mix - self.moved, 0.9 * hold / (hold + self.others))
                shares.append(np.minimum(np.minimum(1.0, most), left[:, None]))
        share, with_cache = (
            np.stack([self._of_units(one) for one in laws], axis=2)
            for laws in (shares, [one + beyond for one in shares])
        )
        return self._likelihood(np.log(share), with_cache, np.zeros((1, 1, 1)), BYTES_PRIOR)

    def _parts_of_programs(self) -> NDArray[np.intp]:
        units = self.weight.shape[1]
        return np.diff(np.append(self.first, len(self.parts))[::units])

    def _over_units(self, of_parts: Array) -> Array:
        """Add up the parts of units: (laws, parts) to (programs, units, laws)."""
        sums = np.add.reduceat(of_parts * self.fraction, self.first, axis=-1)
        return np.asarray(sums.T.reshape(*self.weight.shape, len(of_parts)))

    def _of_units(self, of_parts: Array) -> Array:
        """Likewise (parts, grid) to (programs, units, grid)."""
        sums = np.add.reduceat(of_parts * self.fraction[:, None], self.first, axis=0)
        return np.asarray(sums.reshape(*self.weight.shape, GRID))

    def _likelihood(
        self, log_share: Floats, with_cache: Floats, doubt: Array, prior: Array
    ) -> Array:
        """Return the logarithm of all laws' likelihoods together.

        log_share is of what a unit is expected to get of W. What a cache takes beyond W depends on
        what lay in it, which is unknown: between none and all of it nothing is an error.
        """
        shape = (*self.weight.shape, 1, 1)
        seen = self.seen.reshape(shape).astype(np.float32)
        low = seen - log_share.astype(np.float32)
        high = seen - np.log(with_cache.astype(np.float32, copy=False))
        is_slower = low < 0.0
        slower = self.slower.reshape(shape).astype(np.float32)
        narrower = np.where(is_slower, slower**-0.5, np.float32(1.0))
        width = np.maximum(low - high, 0.0) * narrower
        square = np.square((np.minimum(low, 0.0) + np.maximum(high, 0.0)) * narrower)
        weight = self.weight.astype(np.float32)
        of_slower = weight * np.log(self.slower).astype(np.float32).reshape(weight.shape)
        skew = np.einsum("pnlg,pn->plg", is_slower.astype(np.float32), of_slower)
        own = (PART_NOISE**2 / np.maximum(self.share, 0.05)).reshape(shape[:-1])
        found = []
        for noise, its_prior in zip(NOISE, NOISE_PRIOR, strict=True):
            scale = (noise**2 + own + doubt).astype(np.float32)[..., None]
            # one logarithm for the product of what would be three
            terms = 1.0 + square / (FREEDOM * scale)
            terms *= np.square(np.square(terms))  # FREEDOM + 1 of them
            terms *= scale * np.square(1.0 + width / (2.5 * np.sqrt(scale)))
            sums = np.einsum("pnlg,pn->plg", np.log(terms), weight) + skew
            found.append(-0.5 * sums + np.log(prior * its_prior)[:, None])
        laws = np.concatenate(found, axis=1)
        most = laws.max(axis=1, keepdims=True)
        return np.asarray(np.log(np.exp((laws - most).astype(np.float32)).sum(axis=1)) + most[:, 0])


LEAST_BYTES = 1 << 20  # that a job moves, for its rate to tell of storage
LEAST_SECONDS = 0.01  # in I/O
GAP = 1.5  # octaves between volumes of a program, from which its runs are of two kinds
EXPOSED = (
    0.2  # share of its time in I/O with co-runners, from which a run is no evidence against others
)
FLUSHES = 0.5  # bytes between two flushes over those of the run, from which it waits for them


def latest_undisturbed(
    store: Store, submissions: Submissions | None = None, *, latest: int | None = None
) -> list[FinishedJob]:
    """Return the jobs of the newest logs as they would have been alone, the oldest first."""
    chosen = {} if latest is None else {"latest": latest}
    return undisturbed(latest_jobs(store, submissions, **chosen))


def undisturbed(jobs: Sequence[FinishedJob]) -> list[FinishedJob]:
    """Return jobs with what they would have done alone; they come and go in the same order.

    All that may have met have to be among them. What counters bear out was slowed down only by
    what they bear out, too.
    """
    kinds = _kinds(jobs)
    runs = {i: run for i, job in enumerate(jobs) if (run := _io_run(i, job, kinds.get(i)))}
    confirmed = {i: run for i, run in runs.items() if jobs[i].is_confirmed}
    found = list(jobs)
    for among, asked in ((runs, runs.keys() - confirmed.keys()), (confirmed, confirmed.keys())):
        if not asked:
            continue
        estimates = estimate(list(among.values()))
        for i in asked:
            found[i] = _alone(jobs[i], runs[i], estimates, estimates.place[i])
    return found


def _kinds(jobs: Sequence[FinishedJob]) -> dict[int, Hashable]:
    """Tell which jobs are alike: of one user, name, octave of sizes, and about one volume."""
    alike: dict[tuple[Hashable, ...], list[int]] = defaultdict(list)
    for i, job in enumerate(jobs):
        octave = round(math.log2(job.size)) if job.size > 0 else -1
        alike[job.uid, job.stem, octave].append(i)
    kinds: dict[int, Hashable] = {}
    for key, members in alike.items():
        volumes = np.log2([1.0 + _bytes(jobs[i].profile) for i in members])
        order = np.argsort(volumes, kind="stable")
        kind = np.concatenate([[0], np.cumsum(np.diff(volumes[order]) > GAP)])
        for place, number in zip(order.tolist(), kind.tolist(), strict=True):
            kinds[members[place]] = (*key, number)
    return kinds


def _bytes(profile: Profile) -> float:
    return profile.numbers.get("write_bytes", 0.0) + profile.numbers.get("read_bytes", 0.0)


def _io_run(number: int, job: FinishedJob, kind: Hashable) -> IoRun | None:
    numbers = job.profile.numbers
    seconds = numbers.get("runtime_seconds", 0.0)
    io_seconds = numbers.get("io_share", 0.0) * seconds
    moved = numbers.get("rate", 0.0) * io_seconds
    if moved < LEAST_BYTES or io_seconds < LEAST_SECONDS:
        return None
    seen = unpacked(job.heatmap)
    return IoRun(
        program=kind,
        job=number,
        start=seen.start if seen else float(job.start),
        seconds=seconds,
        io_seconds=io_seconds,
        moved=moved,
        bin_seconds=seen.bin_seconds if seen else 0.0,
        bins=seen.moved if seen else None,
        flushes=numbers.get("bytes_per_flush", math.inf) < FLUSHES * moved,
        targets=job.targets,
    )


def _alone(job: FinishedJob, run: IoRun, estimates: Estimates, place: int) -> FinishedJob:
    known = estimates.programs[run.program]
    disturbance = Disturbance(
        io_seconds=run.io_seconds,
        exposed=float(estimates.exposed[place]),
        log_kept=math.log(run.rate) - known.log_rate,
        log_sd=known.log_sd,
    )
    lost = disturbance.lost()
    if disturbance.exposed >= EXPOSED:
        lost = run.io_seconds * (1.0 - math.exp(min(0.0, disturbance.log_kept)))
    return replace(job, profile=_profile(job.profile, run, lost), disturbance=disturbance)


def _profile(profile: Profile, run: IoRun, lost: float) -> Profile:
    """Return the profile without the time that was lost."""
    kept = 1.0 - lost / run.io_seconds
    numbers = dict(profile.numbers)
    for name in ("rate", "metadata_rate"):
        if name in numbers:
            numbers[name] /= kept
    numbers["runtime_seconds"] -= lost
    numbers["io_share"] = (run.io_seconds - lost) / numbers["runtime_seconds"]
    if (burst := numbers.get("burst_seconds")) is not None:
        numbers["burst_seconds"] = burst * kept
        if (period := numbers.get("period_seconds")) is not None:
            numbers["period_seconds"] = max(burst, period) - burst * (1.0 - kept)
    return replace(profile, numbers=numbers)
