"""What a program does alone, learned from runs that had company.

A run tells how fast its I/O went, not how fast it would have gone. Who ran beside it is known,
and when each wrote (`company.py`), so each run is cut into parts by how much I/O of others lay
over it. What is left of the rate in a part follows from what the others got there, by one of two
laws of a storage that is full:

    bytes  rate = min (R, K W - what the others moved)
    time   rate = R min (1, 1 + h - loss * sum of the others' I/O, in seconds of it alone)

R is the rate alone, W the most that the storage was seen to move, K what a mix moves beyond
that. Which law holds, and K, h and loss, differ from program to program and are not known; all are
tried, each by its prior, and what the runs bear out counts (a posterior on a grid). Parts
without company say R by themselves, and outweigh the laws where there are any; where there are
none, what the laws leave open is the width of the interval. What others' I/O would take alone
depends on their own R, so programs are estimated in turn, some rounds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sluice.policies import core
from sluice.prediction.company import company_of, rate_by_cache

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence

    from numpy.typing import NDArray

    from sluice.prediction.company import Company, IoRun

    Array = NDArray[np.float64]

ROUNDS = 6
NEWEST = 24  # runs of a program that are asked
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
FREEDOM = 4.0  # of Student's distribution: one wild run must not spoil the rest
FLOOR_SD = 0.05  # of ln R: what the next runs differ by, whatever these say
LEAST_KEPT = 0.02  # of R, by the law of time: a rate of 0 would exclude what was seen
# What was seen in company counts as so many runs at most: the laws err in the same way for all
# of it, so more runs do not average that out.
IN_COMPANY = 3.0
FLUSHING = 1.0  # likewise of programs that wait for what others queued, which no law describes
TEMPER = 0.7  # runs that one is worth: those of a program share the state of the site
ALONE = 1.0  # others at once, from which a cache is theirs too
# Others at once beside which a run still has half of its guaranteed rate, 0.9 W: 1.0 is a fair
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
    """Of B/s: the median of what is believed."""
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
    company = company_of(runs, bandwidth)
    place = {run.job: i for i, run in enumerate(runs)}
    return Estimates(_Rounds(runs, company).result(), place, company.exposed)


class _Rounds:
    """Programs estimated in turn, each by what the others are believed to be."""

    def __init__(self, runs: Sequence[IoRun], company: Company) -> None:
        self.company = company
        names: dict[Hashable, int] = {}
        self.program = np.array([names.setdefault(run.program, len(names)) for run in runs])
        self.names = list(names)
        self.log_rate = np.log([run.rate for run in runs])
        self.log_full = np.full(len(runs), math.log(company.storage.most))
        fast = np.zeros(len(names))
        np.maximum.at(fast, self.program, [run.fastest for run in runs])
        self.log_usual = np.log(
            [
                rate_by_cache(run, company.storage, float(fast[n]))
                for run, n in zip(runs, self.program, strict=True)
            ]
        )
        self.flushes = np.array([run.flushes for run in runs])
        self.log_fast = np.log([run.fastest for run in runs])
        crowd = np.add.reduceat(company.crowd * company.fraction, company.first_part[:-1])
        self.crowd_of_unit = crowd
        weights = company.share_of_run
        self.crowd_of_run = np.bincount(company.run_of_unit, crowd * weights, len(runs))
        self.members = [
            self._newest(units, runs)
            for units in _members(self.program[company.run_of_unit], len(names))
        ]

    def result(self) -> dict[Hashable, Alone]:
        count = len(self.names)
        believed = np.zeros(count)
        for n in range(count):
            own = self.program == n
            believed[n] = max(np.median(self.log_usual[own]), self.log_rate[own].max())
        sd = np.full(count, USUAL_SD)
        found: list[Alone | None] = [None] * count
        for turn in range(ROUNDS):
            for_time, for_bytes, variance = self._loads(believed, sd)
            for n, units in enumerate(self.members):
                if len(units):
                    found[n] = self._one(units, for_time, for_bytes, variance)
            now = np.array([one.log_rate if one else believed[n] for n, one in enumerate(found)])
            sd = np.array([one.log_sd if one else USUAL_SD for one in found])
            believed = now if turn == ROUNDS - 1 else (believed + now) / 2
        return {self.names[n]: one for n, one in enumerate(found) if one}

    def _newest(self, units: NDArray[np.intp], runs: Sequence[IoRun]) -> NDArray[np.intp]:
        """Leave the units of a program's newest runs: what older ones add is work."""
        run = self.company.run_of_unit[units]
        own = sorted(set(run.tolist()), key=lambda i: (runs[i].start, i))[-NEWEST:]
        return units[np.isin(run, own)]

    def _loads(self, believed: Array, sd: Array) -> tuple[Array, Array, Array]:
        """Return the others' I/O over each part, in seconds alone and in shares of W a second."""
        company, other = self.company, self.company.other
        kept = np.minimum(1.0, np.exp(self.log_rate - believed[self.program]))
        parts = len(company.unit)
        by_bytes = company.seconds * np.exp(self.log_rate - self.log_full)[other]
        # Who gets more than W alone gets it from a cache, which storage has to empty.
        by_time = np.maximum(company.seconds * kept[other], by_bytes)
        deviation = by_time * sd[self.program[other]]
        loads = [
            np.asarray(np.bincount(company.part, one, parts), dtype=np.float64)
            for one in (by_time, by_bytes, deviation**2)
        ]
        return loads[0], loads[1], loads[2]

    def _one(self, units: NDArray[np.intp], time: Array, moved: Array, variance: Array) -> Alone:
        company = self.company
        run = company.run_of_unit[units]
        first, stop = company.first_part[units], company.first_part[units + 1]
        parts = np.concatenate([np.arange(a, b) for a, b in zip(first, stop, strict=True)])
        lengths = stop - first
        seen = company.log_rate[units]
        full = float(np.median(self.log_full[run]))
        usual = self._usual(np.unique(run), full)
        centres = [mean for mean, _, _ in usual]
        grid = np.linspace(
            min(float(np.median(seen)), *centres) - BELOW,
            max(float(seen.max()), *centres) + BEYOND,
            GRID,
        )
        evidence = _Evidence(
            seen=seen,
            weight=_weights(
                run,
                company.share_of_run[units],
                self.crowd_of_unit[units],
                most=FLUSHING if self.flushes[run].mean() > 0.5 else IN_COMPANY,
            ),
            share=company.share_of_run[units],
            fraction=company.fraction[parts],
            first=np.cumsum(lengths) - lengths,
            time=time[parts],
            moved=moved[parts],
            variance=np.add.reduceat(
                company.fraction[parts] * variance[parts], np.cumsum(lengths) - lengths
            ),
            slower=1.0 + SKEW * np.minimum(1.0, self.crowd_of_run[run]),
            crowd=company.crowd[parts],
            full=full,
            usual=usual,
        )
        return _alone(grid, evidence.posterior(grid), len(np.unique(run)))

    def _usual(self, runs: NDArray[np.intp], full: float) -> list[tuple[float, float, float]]:
        """Return what is believed of a program beforehand: mean, sd and share of some bells."""
        if self.flushes[runs].mean() > 0.5:
            return [(full, 0.3, 0.6), (full, 0.8, 0.4)]
        fast = float(self.log_fast[runs].max())
        if fast > full:
            by_cache = float(np.quantile(self.log_usual[runs], 0.75))
            return [(by_cache, 0.25, 0.6), (full, 0.3, 0.25), (full, 0.8, 0.15)]
        return [(fast, 0.25, 0.4), (full, 0.4, 0.3), ((fast + full) / 2, 0.6, 0.3)]


def _members(program: NDArray[np.intp], count: int) -> list[NDArray[np.intp]]:
    order = np.argsort(program, kind="stable")
    return np.split(order, np.searchsorted(program[order], np.arange(1, count)))


def _weights(run: NDArray[np.intp], share: Array, crowd: Array, *, most: float) -> Array:
    """Say how much each unit counts.

    Parts of one run share its luck: together they count little more than one. What was seen in
    company is only as good as the laws, which are wrong in one way for all of it: it counts as
    IN_COMPANY runs at most.
    """
    _, place, counts = np.unique(run, return_inverse=True, return_counts=True)
    weights = TEMPER * counts[place] ** -0.5 * np.clip(share / 0.1, 0.1, 1.0)
    disturbed = np.minimum(1.0, crowd / 0.5)
    in_company = float((weights * disturbed).sum())
    less = min(1.0, most / in_company) if in_company > 0 else 1.0
    tempered: Array = weights * (1.0 - disturbed + disturbed * less)
    return tempered


@dataclass(frozen=True, slots=True)
class _Evidence:
    """The units of one program's runs, and the parts of each."""

    seen: Array
    weight: Array
    share: Array
    """Of its run's I/O that a unit is."""
    fraction: Array
    """Of its unit that a part is."""
    first: NDArray[np.intp]
    time: Array
    moved: Array
    variance: Array
    slower: Array
    """How much more a unit may be slower than expected than faster: of the variance."""
    crowd: Array
    """Others in I/O at once, in the mean."""
    full: float
    """ln W."""
    usual: Sequence[tuple[float, float, float]]
    """What is believed beforehand: mean, sd and share of each of some bells."""

    def posterior(self, grid: Array) -> Array:
        """Return how far each rate of the grid is believed; sums to 1."""
        by_time = self._by_time(grid)
        by_bytes = self._by_bytes(grid)
        top = max(by_time.max(), by_bytes.max())
        both = np.exp(by_time - top).sum(axis=0) + np.exp(by_bytes - top).sum(axis=0)
        prior = sum(
            share * np.exp(-0.5 * ((grid - mean) / sd) ** 2) / sd for mean, sd, share in self.usual
        )
        belief: Array = both * prior
        belief /= belief.sum()
        return belief

    def _over_units(self, of_parts: Array) -> Array:
        sums: Array = np.add.reduceat(of_parts * self.fraction, self.first, axis=-1)
        return sums

    def _by_time(self, grid: Array) -> Array:
        """Return the log likelihoods by the law of time: (combinations, grid)."""
        kept = 1.0 + HEADROOM[:, None, None] - LOSS[:, None] * self.time
        kept = np.clip(kept, LEAST_KEPT, 1.0)[..., None, :]
        most = np.exp(grid - self.full)[:, None]
        share = kept * np.minimum(1.0, most)
        prior = np.exp(-0.5 * ((LOSS - LOSS_MEAN) / LOSS_SD) ** 2)
        prior = (1 - LOSS_ANY) * prior / prior.sum() + LOSS_ANY / len(LOSS)
        log_prior = np.log(HEADROOM_PRIOR)[:, None] + np.log(prior)
        of_unit = np.maximum(0.1, self._over_units(kept))
        variance = (LOSS[:, None, None] / of_unit) ** 2 * self.variance
        return self._likelihood(
            *self._error(share, most), variance, log_prior[..., None] + math.log(0.5)
        ).reshape(-1, len(grid))

    def _by_bytes(self, grid: Array) -> Array:
        """Likewise by the law of bytes; what is guaranteed depends on how heavily one presses."""
        guaranteed = 0.9 * HOLD[:, None] / (HOLD[:, None] + self.crowd)
        left = np.maximum(MIX[:, None, None] - self.moved, guaranteed)[..., None, :]
        most = np.exp(grid - self.full)[:, None]
        share = np.minimum(np.minimum(1.0, most), left)
        log_prior = np.log(MIX_PRIOR)[:, None] + np.log(HOLD_PRIOR)
        return self._likelihood(
            *self._error(share, most), np.zeros(1), log_prior[..., None] + math.log(0.5)
        ).reshape(-1, len(grid))

    def _error(self, share: Array, most: Array) -> tuple[Array, Array]:
        """Return ln of what was seen over what is expected, both in shares of W.

        What a cache takes beyond W depends on what lay in it, which nobody saw: between none and
        all of it nothing is an error.
        """
        beyond = np.maximum(0.0, most - 1.0) * np.exp(-self.crowd / ALONE)
        low = self.seen - self.full - np.log(self._over_units(share))
        high = self.seen - self.full - np.log(self._over_units(share + beyond))
        return np.minimum(low, 0.0) + np.maximum(high, 0.0), low - high

    def _likelihood(self, error: Array, width: Array, variance: Array, log_prior: Array) -> Array:
        """Return it for each noise: (noise, ..., grid); error (..., grid, units)."""
        own = PART_NOISE**2 / np.maximum(self.share, 0.05)
        found = []
        for noise, prior in zip(NOISE, NOISE_PRIOR, strict=True):
            scale = noise**2 + own + variance
            scale = np.where(error < 0.0, scale * self.slower, scale)
            terms = (FREEDOM + 1) * np.log1p(error**2 / (FREEDOM * scale)) + np.log(scale)
            terms += 2.0 * np.log1p(width / (2.5 * np.sqrt(scale)))
            found.append(-0.5 * (terms * self.weight).sum(axis=-1) + log_prior + math.log(prior))
        return np.stack(found)


def _alone(grid: Array, belief: Array, runs: int) -> Alone:
    passed = np.cumsum(belief) - belief / 2
    low, middle, high = np.interp([0.05, 0.5, 0.95], passed, grid).tolist()
    mean = float((belief * grid).sum())
    variance = float((belief * (grid - mean) ** 2).sum())
    floor = core.Z90 * FLOOR_SD
    return Alone(middle, math.hypot(math.sqrt(variance), FLOOR_SD), low - floor, high + floor, runs)
