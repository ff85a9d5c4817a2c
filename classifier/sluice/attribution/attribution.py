"""Which application slows which, from what production jobs did to each other.

A victim's slices (`timeline.py`) differ in how much of each lay under the I/O of every other
application. The logarithm of their rate is regressed on those shares: within runs, each run
with a level of its own; and between runs of one size, by their means, for runs that an
aggressor never left alone. The coefficient of an aggressor is log(rho): what is left of the
rate while it writes, the others' part taken out.

How much of that is chance is found by turning the aggressor's I/O in time against each run,
which keeps the bursts of both as they are; between runs, by exchanging their rates. Of all
pairs that are called interference, at most the stated share is expected to be false (Benjamini
and Hochberg 1995, https://doi.org/10.1111/j.2517-6161.1995.tb02031.x).
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.stats import combine_pvalues

from sluice.attribution.timeline import Slices, Timeline, exposure, slices_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    Array = NDArray[np.float64]

FALSE_RATE = 0.05  # share of false attributions among all
UNDER = 0.5  # of a slice: it counts as disturbed
CLEAR = 0.1  # of a slice: it still counts as undisturbed
FEWEST = 8  # slices on either side
TURNS = 999  # chance worlds that a pair is compared with
Z90 = 1.645  # standard deviations on either side of a 90 % interval


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
    is_attributed: bool = False

    @property
    def interval(self) -> tuple[float, float]:
        """Of rho, 90 %."""
        width = np.exp(Z90 * self.log_sd)
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


@dataclass(frozen=True, slots=True)
class _Run:
    timeline: Timeline
    slices: Slices
    under: dict[str, Array]
    """Application → (bins): the share of each bin under its I/O."""


@dataclass(frozen=True, slots=True)
class _Evidence:
    log_rho: float
    variance: float
    p_value: float


def attribute(
    timelines: Sequence[Timeline],
    *,
    others: Iterable[Timeline] = (),
    false_rate: float = FALSE_RATE,
    seed: int = 0,
) -> Findings:
    """Find who slows whom. `others` can be aggressors only, as the load that a server saw."""
    runs, unresolved = _resolve(timelines, list(others))
    observations: list[Observation] = []
    too_few = 0
    for number, (pair, members) in enumerate(sorted(_pairs(runs).items())):
        found = _observe(*pair, members, np.random.default_rng([seed, number]))
        if found:
            observations.append(found)
        else:
            too_few += 1
    return Findings(_called(observations, false_rate), len(runs), unresolved, too_few)


def _resolve(timelines: Sequence[Timeline], others: list[Timeline]) -> tuple[list[_Run], int]:
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
        runs.append(_Run(timeline, slices, under))
    return runs, unresolved


def _pairs(runs: Iterable[_Run]) -> dict[tuple[str, str], list[_Run]]:
    """Return the runs of each victim that an aggressor met; and all others of that victim."""
    by_application: dict[str, list[_Run]] = defaultdict(list)
    for run in runs:
        by_application[run.timeline.application].append(run)
    return {
        (victim, aggressor): members
        for victim, members in by_application.items()
        for aggressor in {name for run in members for name in run.under}
    }


def _observe(
    victim: str, aggressor: str, runs: Sequence[_Run], rng: np.random.Generator
) -> Observation | None:
    turnable = [_Turnable(run, aggressor) for run in runs]
    shares = np.concatenate([one.shares[0] for one in turnable])
    disturbed, undisturbed = int((shares >= UNDER).sum()), int((shares <= CLEAR).sum())
    if min(disturbed, undisturbed) < FEWEST:
        return None
    third = _third_shares(runs, aggressor)
    found = [_within_runs(turnable, third, rng), _between_runs(turnable, third, rng)]
    evidence = [one for one in found if one]
    if not evidence:
        return None
    weights = np.array([1.0 / one.variance for one in evidence])
    return Observation(
        victim=victim,
        aggressor=aggressor,
        rho=float(np.exp(np.average([one.log_rho for one in evidence], weights=weights))),
        log_sd=float(weights.sum() ** -0.5),
        p_value=float(combine_pvalues([one.p_value for one in evidence]).pvalue),
        disturbed=disturbed,
        undisturbed=undisturbed,
    )


class _Turnable:
    """A run's slices, and how they would lie if the aggressor's I/O were turned in time."""

    def __init__(self, run: _Run, aggressor: str) -> None:
        bins = len(run.timeline.moved)
        under = run.under.get(aggressor, np.zeros(bins))
        self.size = run.timeline.processes
        self.log_rate = run.slices.log_rate
        self.shares = run.slices.mean(np.stack([np.roll(under, by) for by in range(bins)]))
        """(turns, slices): under the aggressor; row 0 as it was."""


def _third_shares(runs: Sequence[_Run], aggressor: str) -> list[Array]:
    """Return for each run (slices, third applications): the shares under them."""
    names = sorted({name for run in runs for name in run.under if name != aggressor})
    return [
        np.stack(
            [
                run.slices.mean(run.under[name]) if name in run.under else np.zeros(len(run.slices))
                for name in names
            ],
            axis=1,
        )
        if names
        else np.zeros((len(run.slices), 0))
        for run in runs
    ]


def _within_runs(
    runs: Sequence[_Turnable], third: Sequence[Array], rng: np.random.Generator
) -> _Evidence | None:
    """Compare slices of the same run, the aggressor turned in time against each run."""
    columns = []
    for run in runs:
        turns = np.concatenate([[0], rng.integers(1, max(2, len(run.shares)), TURNS)])
        columns.append(_centred(run.shares[turns % len(run.shares)].T))
    return _regress(
        np.concatenate([_centred(run.log_rate) for run in runs]),
        np.concatenate(columns),
        np.concatenate([_centred(share) for share in third]),
    )


def _between_runs(
    runs: Sequence[_Turnable], third: Sequence[Array], rng: np.random.Generator
) -> _Evidence | None:
    """Compare runs of the same size, exchanged among each other."""
    by_size: dict[int, list[int]] = defaultdict(list)
    for i, run in enumerate(runs):
        by_size[run.size].append(i)
    rates, columns, thirds = [], [], []
    for _, members in sorted(by_size.items()):
        share = np.array([runs[i].shares[0].mean() for i in members])
        turned = rng.permuted(np.tile(share, (TURNS, 1)), axis=1)
        rates.append(_centred(np.array([runs[i].log_rate.mean() for i in members])))
        columns.append(_centred(np.vstack([share, turned]).T))
        thirds.append(_centred(np.stack([third[i].mean(axis=0) for i in members])))
    return _regress(np.concatenate(rates), np.concatenate(columns), np.concatenate(thirds))


def _centred(values: Array) -> Array:
    centred: Array = values - values.mean(axis=0)
    return centred


def _regress(rates: Array, columns: Array, third: Array) -> _Evidence | None:
    """Return the coefficient of column 0 beside those of third, the other columns being chance.

    rates (rows), columns (rows, 1 + TURNS), third (rows, applications). None where the data
    cannot tell the aggressor from the others, or from a constant.
    """
    basis, sizes, _ = np.linalg.svd(third, full_matrices=False)
    basis = basis[:, sizes > 1e-6 * max(1.0, float(sizes.max(initial=0.0)))]
    if len(rates) <= basis.shape[1] + 2:
        return None
    rates = rates - basis @ (basis.T @ rates)
    own = columns - basis @ (basis.T @ columns)
    spread = (own**2).sum(axis=0)
    usable = spread > 0.01 * max(1e-9, float((columns**2).sum(axis=0).max()))
    if not usable[0]:
        return None
    # Chance turns the aggressor's part that the others do not share: compare by what it
    # explains, which does not depend on how large that part happens to be.
    explained = own[:, usable].T @ rates / np.sqrt(spread[usable])
    chance = explained[1:]
    variance = float(np.var(chance)) / float(spread[0])
    if not variance > 0.0:
        return None
    return _Evidence(
        log_rho=float(explained[0] / np.sqrt(spread[0])),
        variance=variance,
        p_value=float((1 + (chance <= explained[0]).sum()) / (1 + len(chance))),
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
        Observation(
            **{name: getattr(one, name) for name in one.__slots__ if name != "is_attributed"},
            is_attributed=rank <= called and one.rho < 1.0,
        )
        for rank, one in enumerate(ranked, start=1)
    )
