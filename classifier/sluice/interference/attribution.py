"""Attribution of slow I/O to other applications, from production jobs.

Shuffled histories come in blocks of columns, a hundred thousand numbers at a time: an application
with ten thousand runs needs no more memory for a thousand shuffled histories than for ten.

A victim's slices (`timeline.py`) differ in how much of each lay under the I/O of every other
application. The logarithm of their rate is regressed on those shares: within runs, each run with a
level of its own; and between runs of one size, by their means, for runs that an aggressor never
left alone. The coefficient of an aggressor is log(rho): what is left of the rate while it writes,
the others' part taken out.

How much of that is chance is found by turning the aggressor's I/O in time against each run, which
keeps the bursts of both as they are; between runs, by exchanging their rates. A pair that falls
further than in all of these shuffled histories is compared with more of them, as many as it takes
among so many pairs. Of all pairs that are called interference, at most the stated share is expected
to be false (Benjamini and Hochberg 1995, https://doi.org/10.1111/j.2517-6161.1995.tb02031.x).
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from sluice.interference.fitting import together
from sluice.interference.timeline import Timeline, exposure, slices_of
from sluice.policies import core

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from sluice.interference.timeline import Slices

    Array = NDArray[np.float64]


BLOCK = 1 << 17  # numbers in a block, which a cache holds


@dataclass(frozen=True, slots=True)
class Run:
    """A run that tells its rate, and what it met."""

    timeline: Timeline
    slices: Slices
    under: Mapping[str, Array]
    """Application → (bins): the share of each bin under its I/O."""


class Rows:
    """All slices of the runs of one application, run by run."""

    def __init__(self, runs: Sequence[Run]) -> None:
        self._runs = runs
        self.groups = Groups([len(run.slices) for run in runs])
        self.log_rate = np.concatenate([run.slices.log_rate for run in runs])
        self.size = np.array([run.timeline.processes for run in runs])
        """Processes of each run."""
        self.aggressors = sorted({name for run in runs for name in run.under})
        self.shares = np.zeros((len(self.log_rate), len(self.aggressors)))
        """(rows, aggressors): the share of each slice under each of them."""
        column = {name: i for i, name in enumerate(self.aggressors)}
        for first, run in zip(self.groups.first, runs, strict=True):
            for name, under in run.under.items():
                rows = slice(first, first + len(run.slices))
                self.shares[rows, column[name]] = run.slices.mean(under)

    def __len__(self) -> int:
        return len(self.log_rate)

    def met(self, aggressor: str) -> NDArray[np.bool_]:
        """Tell of each row whether its run met the aggressor."""
        return self.groups.repeat(np.array([aggressor in run.under for run in self._runs]))

    def turned(self, aggressor: str, turns: int, rng: np.random.Generator) -> Iterator[Array]:
        """Yield (rows that met it, some turns): shares under its I/O, turned against each run.

        Less the mean of the run. All other rows lie clear of it, however it is turned.
        """
        runs = [run for run in self._runs if aggressor in run.under]
        # Over two rounds of a run's bins, a slice that is turned past the end is one piece.
        twice = [np.tile(run.under[aggressor], 2) for run in runs]
        sums = np.concatenate([np.concatenate([[0.0], np.cumsum(one)]) for one in twice])
        begin = Groups([len(one) + 1 for one in twice]).first
        rows = Groups([len(run.slices) for run in runs])
        first = np.concatenate([run.slices.first for run in runs])
        width = np.concatenate([run.slices.end for run in runs]) - first
        first = first + rows.repeat(begin)
        bins = np.array([len(run.timeline.moved) for run in runs])
        for count in blocks(len(first), turns):
            by = rng.integers(1, np.maximum(2, bins), (count, len(runs))) % bins
            start = first[:, None] + rows.repeat(by.T)
            yield rows.centred((sums[start + width[:, None]] - sums[start]) / width[:, None])


class Groups:
    """Rows that lie group by group."""

    def __init__(self, lengths: Sequence[int] | NDArray[np.intp]) -> None:
        self._lengths = np.asarray(lengths)
        self.first = np.cumsum(self._lengths) - self._lengths
        """Row each group begins with; none is empty."""

    def repeat(self, values: NDArray[Any]) -> NDArray[Any]:
        """Give each row what its group has: (groups, …) to (rows, …)."""
        return np.repeat(values, self._lengths, axis=0)

    def mean(self, values: Array) -> Array:
        """Average (rows, …) over each group."""
        sums: Array = np.add.reduceat(values, self.first, axis=0)
        means: Array = sums.T / self._lengths
        return means.T

    def centred(self, values: Array) -> Array:
        """Leave of each row what differs from the mean of its group."""
        centred: Array = values - self.repeat(self.mean(values))
        return centred

    def exchanged(self, values: Array, turns: int, rng: np.random.Generator) -> Iterator[Array]:
        """Yield (rows, some turns): values exchanged at random within each group, centred."""
        for count in blocks(len(values), turns):
            groups = np.split(np.tile(values[:, None], count), self.first[1:])
            yield self.centred(np.concatenate([rng.permuted(one, axis=0) for one in groups]))


def blocks(rows: int, columns: int) -> Iterator[int]:
    """Split columns into blocks of at most BLOCK numbers."""
    most = max(1, BLOCK // rows)
    while columns > 0:
        yield min(most, columns)
        columns -= most


FALSE_RATE = 0.05  # share of false attributions among all
UNDER = 0.5  # of a slice: it counts as disturbed
CLEAR = 0.1  # of a slice: it still counts as undisturbed
FEWEST = 8  # slices on either side
TURNS = 999  # shuffled histories that a pair is compared with at first,
FINER = 20  # and if none of them fell as far, with this many times the fewest that could tell,
MOST_NUMBERS = 1 << 30  # as long as they hold no more shares of slices than that
MOST_LOG_RHO = 50.0  # what slices hardly differ in may seem to have any effect


@dataclass(frozen=True, slots=True)
class Observation:
    """What an aggressor did to the rate of a victim's I/O while both were active."""

    victim: str
    aggressor: str
    rho: float
    """Rate as a share of the undisturbed one; above 1 is a speed-up, and kept."""
    log_sd: float
    """Standard deviation of log(rho) by chance."""
    p_value: float
    """Of a fall as large as this, by chance."""
    disturbed: int
    """Slices of the victim under the aggressor."""
    undisturbed: int
    is_at_floor: bool
    """No shuffled history fell as far: the p-value is as small as their number lets it be."""
    is_attributed: bool = False

    @property
    def interval(self) -> tuple[float, float]:
        """Of rho, 90 %."""
        width = np.exp(core.Z90 * self.log_sd)
        return float(self.rho / width), float(self.rho * width)


@dataclass(frozen=True, slots=True)
class Findings:
    """What could be told, and what could not."""

    observations: tuple[Observation, ...]
    """Every pair that was tested, the most certain first."""
    resolved: int
    """Runs whose bins are fine enough."""
    unresolved: int
    too_few: int
    """Pairs that met, but not often enough to tell."""
    coarse: int
    """Pairs whose aggressor's runs are mostly unresolved: when it wrote is unknown."""
    p_needed: float
    """What the p-value of a pair must not exceed to be called interference alone among all."""

    @property
    def out_of_reach(self) -> int:
        """Pairs that fell further than in all shuffled histories, of which there were too few."""
        return sum(
            one.is_at_floor and one.p_value > self.p_needed and not one.is_attributed
            for one in self.observations
        )


@dataclass(frozen=True, slots=True)
class _Evidence:
    log_rho: float
    variance: float
    p_value: float
    is_at_floor: bool


def attribute(
    timelines: Sequence[Timeline],
    *,
    alongside: Iterable[Timeline] = (),
    false_rate: float = FALSE_RATE,
    seed: int = 0,
) -> Findings:
    """Find the pairs in which one application slows the other.

    The bursts of what happened `alongside` are not known, so it is called no aggressor; it only
    keeps its load from being assigned to others.
    """
    alongside = list(alongside)
    runs, unresolved = _resolve(timelines, alongside)
    unclear = _mostly_unresolved(timelines, runs)
    vague = unclear | {one.application for one in alongside}
    found = {
        number: _observe(*pair, TURNS, np.random.default_rng([seed, number]))
        for number, pair in enumerate(_pairs(runs))
        if pair[2] not in vague
    }
    tested = {number: one for number, one in found.items() if one}
    coarse = {
        (run.timeline.application, name) for run in runs for name in unclear & run.under.keys()
    }
    p_needed = false_rate / max(1, len(tested))
    tested |= _finer(runs, tested, p_needed, seed)
    return Findings(
        observations=_called(list(tested.values()), false_rate),
        resolved=len(runs),
        unresolved=unresolved,
        too_few=len(found) - len(tested),
        coarse=len(coarse),
        p_needed=p_needed,
    )


def _finer(
    runs: Sequence[Run], tested: Mapping[int, Observation], p_needed: float, seed: int
) -> dict[int, Observation]:
    """Observe pairs that no shuffled history comes up to again, in as many as they need."""
    at_floor = {n: o for n, o in tested.items() if o.is_at_floor and o.p_value > p_needed}
    finer: dict[int, Observation] = {}
    if not at_floor:
        return finer
    for number, pair in enumerate(_pairs(runs)):
        if number in at_floor:
            turns = min(math.ceil(FINER / p_needed), MOST_NUMBERS // len(pair[0]))
            if turns > TURNS:
                found = _observe(*pair, turns, np.random.default_rng([seed, number, 1]))
                finer[number] = found or at_floor[number]
    return finer


def _resolve(timelines: Sequence[Timeline], others: list[Timeline]) -> tuple[list[Run], int]:
    runs, unresolved = [], 0
    everybody = [*timelines, *others]
    starts = np.array([one.start for one in everybody])
    ends = np.array([one.end for one in everybody])
    for timeline in timelines:
        slices = slices_of(timeline)
        if slices is None:
            unresolved += 1
            continue
        met: dict[str, list[Timeline]] = defaultdict(list)
        for i in np.flatnonzero((starts < timeline.end) & (ends > timeline.start)):
            other = everybody[i]
            if other is not timeline and timeline.shares_with(other):
                met[other.application].append(other)
        under = {name: exposure(timeline, members) for name, members in met.items()}
        runs.append(Run(timeline, slices, under))
    return runs, unresolved


def _mostly_unresolved(timelines: Sequence[Timeline], runs: Sequence[Run]) -> frozenset[str]:
    """Return applications whose bursts are mostly too short to say when one of them wrote.

    Others can be measured alongside them, not what they do: their I/O covers too much time.
    """
    all_runs = Counter(one.application for one in timelines)
    resolved = Counter(run.timeline.application for run in runs)
    return frozenset(name for name, count in all_runs.items() if 2 * resolved[name] < count)


def _pairs(runs: Iterable[Run]) -> Iterator[tuple[Rows, str, str]]:
    """Yield each victim, all of its runs, with each aggressor that one of them met."""
    by_application: dict[str, list[Run]] = defaultdict(list)
    for run in runs:
        by_application[run.timeline.application].append(run)
    for victim, members in sorted(by_application.items()):
        rows = Rows(members)
        for aggressor in rows.aggressors:
            yield rows, victim, aggressor


def _observe(
    rows: Rows, victim: str, aggressor: str, turns: int, rng: np.random.Generator
) -> Observation | None:
    column = rows.aggressors.index(aggressor)
    share, third = rows.shares[:, column], np.delete(rows.shares, column, axis=1)
    disturbed, undisturbed = int((share >= UNDER).sum()), int((share <= CLEAR).sum())
    if min(disturbed, undisturbed) < FEWEST:
        return None
    turned = rows.turned(aggressor, turns, rng)
    found = [
        _within_runs(rows, share, third, rows.met(aggressor), turned),
        _between_runs(rows, share, third, turns, rng),
    ]
    evidence = [one for one in found if one]
    if not evidence:
        return None
    weights = np.array([1.0 / one.variance for one in evidence])
    log_rho = np.average([one.log_rho for one in evidence], weights=weights)
    return Observation(
        victim=victim,
        aggressor=aggressor,
        rho=float(np.exp(np.clip(log_rho, -MOST_LOG_RHO, MOST_LOG_RHO))),
        log_sd=float(weights.sum() ** -0.5),
        p_value=together([one.p_value for one in evidence]),
        disturbed=disturbed,
        undisturbed=undisturbed,
        is_at_floor=any(one.is_at_floor for one in evidence),
    )


def _within_runs(
    rows: Rows, share: Array, third: Array, met: NDArray[np.bool_], turned: Iterable[Array]
) -> _Evidence | None:
    """Compare slices of the same run, the aggressor turned in time against each run."""
    of_run = rows.groups
    return _regress(
        of_run.centred(rows.log_rate),
        of_run.centred(third),
        met,
        chain([of_run.centred(share)[met, None]], turned),
    )


def _between_runs(
    rows: Rows, share: Array, third: Array, turns: int, rng: np.random.Generator
) -> _Evidence | None:
    """Compare runs of the same size, exchanged among each other."""
    order = np.argsort(rows.size, kind="stable")
    of_size = Groups(np.unique(rows.size, return_counts=True)[1])
    rate, share, third = (
        rows.groups.mean(values)[order] for values in (rows.log_rate, share, third)
    )
    return _regress(
        of_size.centred(rate),
        of_size.centred(third),
        np.ones(len(order), dtype=bool),
        chain([of_size.centred(share)[:, None]], of_size.exchanged(share, turns, rng)),
    )


def _regress(
    rates: Array, third: Array, met: NDArray[np.bool_], columns: Iterable[Array]
) -> _Evidence | None:
    """Return the coefficient of the first column alongside those of third; the others are chance.

    rates (rows), third (rows, applications); columns in blocks (rows that met the aggressor,
    some), all zero in the other rows. None where the data cannot tell the aggressor from the
    others, or from a constant.
    """
    basis, sizes, _ = np.linalg.svd(third, full_matrices=False)
    basis = basis[:, sizes > 1e-6 * max(1.0, float(sizes.max(initial=0.0)))]
    if len(rates) <= basis.shape[1] + 2:
        return None
    rates = (rates - basis @ (basis.T @ rates))[met]
    basis = basis[met]
    sums = [
        ((block**2).sum(axis=0), ((basis.T @ block) ** 2).sum(axis=0), block.T @ rates)
        for block in columns
    ]
    whole, shared, fall = (np.concatenate(one) for one in zip(*sums, strict=True))
    spread = whole - shared
    usable = spread > 0.01 * max(1e-9, float(whole.max()))
    if not usable[0]:
        return None
    # Chance turns the aggressor's part that the others do not share: compare by what it
    # explains, which does not depend on how large that part happens to be.
    explained = fall[usable] / np.sqrt(spread[usable])
    chance = explained[1:]
    variance = float(np.var(chance)) / float(spread[0])
    if not variance > 0.0:
        return None
    as_low = int((chance <= explained[0]).sum())
    return _Evidence(
        log_rho=float(explained[0] / np.sqrt(spread[0])),
        variance=variance,
        p_value=(1 + as_low) / (1 + len(chance)),
        is_at_floor=as_low == 0,
    )


def _called(observations: Sequence[Observation], false_rate: float) -> tuple[Observation, ...]:
    """Mark the pairs that are called interference, at most this share of them falsely."""
    ranked = sorted(observations, key=lambda one: (one.p_value, one.victim, one.aggressor))
    passed = [
        rank
        for rank, one in enumerate(ranked, start=1)
        if one.p_value <= false_rate * rank / len(ranked)
    ]
    called = max(passed, default=0)
    return tuple(
        replace(one, is_attributed=rank <= called and one.rho < 1.0)
        for rank, one in enumerate(ranked, start=1)
    )
