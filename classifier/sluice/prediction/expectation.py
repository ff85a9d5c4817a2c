"""What earlier runs let expect of the next one, also at another size.

Runs count by how recent they are, in days and in runs. One that does something else than ever
before may be an accident; several in a row after years of something else are a change, and what was
before it hardly counts any more.

How many runs a number is told by is chosen from MEMORIES, of which the first is the last run: by
what each would have said of the runs there were, here and at the site as a whole.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sluice.history_db.records import Profile
from sluice.patterns.profile import SINGLE_RUN_LOG_SD
from sluice.policies import core
from sluice.policies.core import UNKNOWN
from sluice.prediction.jobs import NUMBERS, alone_log_sd
from sluice.prediction.submission_features import VOLUMES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from sluice.prediction.jobs import FinishedJob

    Array = NDArray[np.float64]
    Losses = Mapping[str, Sequence[float]]  # by number, what each of MEMORIES lost a run


HALF_LIFE = 90 * 86400  # seconds: a run of a quarter ago counts half
HALF_LIFE_RUNS = 24  # and so does one after which so many came
DOUBT = 1.0  # runs that are assumed to have gone differently
STREAK = 3  # runs in a row that do something new are a change
STEADY = 0.9  # share of one pattern among what was before, for there to be a change at all
BEFORE_CHANGE = 0.05  # what such a run still counts
SPREAD_RUNS = 30  # the newest, whose weights on a target are compared
MEMORIES = (1.0, 3.0, 8.0, float(HALF_LIFE_RUNS))
"""Runs after which one counts half for a number; by the first, the newest decides."""
TRIED_RUNS = 16  # the newest, which each memory has to tell from those before
TRIED_HALF_LIFE = 12.0  # of them
SITE_RUNS = 16.0  # of one's own weigh as much as those of the whole site
MOST_LOST = 1.0  # by one run, of |ln (value / told)|: how far off hardly matters
SPREAD = ("write_bytes", "read_bytes", "rate", "burst_seconds", "io_share", "runtime_seconds")
"""Numbers whose spread over the runs is told."""
FIRST_SPREAD = 0.5  # of ln (value): what one run lets expect of the next
FEWEST_BYTES = 1024.0  # below, factors mean nothing
MIN_TRIED = 20  # runs of a site, for what a memory lost by them to count
_TO_LAST, _TO_MANY = (0.0, 0.005, 0.01, 0.02), (0.02, 0.01, 0.005, 0.0)
_UNTOLD = {name: _TO_LAST if name in VOLUMES else _TO_MANY for name in NUMBERS}
"""What memories lose at a site that has not told: volumes are the last run's, rates many runs'."""
_HANDICAP = np.array([[0.0, 0.3, 0.3, 0.3] if name in VOLUMES else [0.0] * 4 for name in NUMBERS])
"""What a longer memory must save of a volume: chance favours one of them as often as not."""


def recency(jobs: Sequence[FinishedJob]) -> Array:
    """Weigh runs, the oldest first, by how much they say about the next."""
    return recency_of([jobs])


def recency_of(groups: Sequence[Sequence[FinishedJob]]) -> Array:
    """Weigh the runs of each group likewise: one array for all, a group behind the other."""
    ages: list[int] = []
    ranks: list[int] = []
    changed: list[int] = []
    for jobs in groups:
        newest = jobs[-1].start
        changed.extend(range(len(ages), len(ages) + change(jobs)))
        ages.extend(newest - job.start for job in jobs)
        ranks.extend(range(len(jobs) - 1, -1, -1))
    weights = 0.5 ** (np.array(ages) / HALF_LIFE + np.array(ranks) / HALF_LIFE_RUNS)
    if changed:
        weights[changed] *= BEFORE_CHANGE
    return np.asarray(weights)


def change(jobs: Sequence[FinishedJob]) -> int:
    """Return the place of the first run, the oldest first, after the last change; 0: none."""
    if len(jobs) < 2 * STREAK:
        return 0
    patterns = [job.profile.pattern for job in jobs]
    streak = 1
    while streak < len(jobs) and patterns[-1 - streak] == patterns[-1]:
        streak += 1
    before = patterns[: len(jobs) - streak]
    if streak < STREAK or len(before) < STREAK:
        return 0
    commonest = max(before.count(pattern) for pattern in sorted(set(before)))
    return len(before) if commonest >= STEADY * len(before) else 0


def vote(jobs: Sequence[FinishedJob], weights: Array) -> tuple[str, float]:
    """Return the pattern that runs speak for, and the share of votes it has.

    A run's vote is as strong as it is certain; those assumed to disagree vote too.
    """
    votes: dict[str, float] = defaultdict(float)
    for job, weight in zip(jobs, weights.tolist(), strict=True):
        votes[job.profile.pattern] += weight * job.profile.confidence
    known = sorted(name for name in votes if name != UNKNOWN)
    if not known:
        return UNKNOWN, 0.0
    pattern = max(known, key=lambda name: votes[name])
    return pattern, votes[pattern] / (float(weights.sum()) + DOUBT)


@dataclass(frozen=True, slots=True)
class Law:
    """How numbers of a profile follow something that is known of each run at submission."""

    values: Array
    """Of each job; 0: not known, and nothing follows."""
    at: float
    """What the profile is for."""
    exponents: Mapping[str, float]
    """By number: it is as value^exponent."""

    def factors(self, names: Sequence[str]) -> Array:
        """Return by what each number of each job is to be multiplied: (names, jobs)."""
        octaves = np.log2(self.at / np.where(self.values > 0, self.values, self.at))
        follows = np.array([[self.exponents.get(name, 0.0)] for name in names])
        return np.asarray(np.exp2(follows * octaves))


def expected(
    jobs: Sequence[FinishedJob],
    weights: Array | None = None,
    *,
    laws: Sequence[Law] = (),
    first_spread: float = FIRST_SPREAD,
    losses: Losses | None = None,
) -> Profile:
    """Return the profile that the next run is expected to have.

    Jobs come the oldest first. Numbers are weighted medians of what the runs would have shown
    where the laws put the profile; losses: of the site, where memories are chosen.
    """
    weights = recency(jobs) if weights is None else weights
    pattern, confidence = vote(jobs, weights)
    shares: dict[str, float] = defaultdict(float)
    total = float(weights.sum())
    for job, weight in zip(jobs, weights.tolist(), strict=True):
        for name, share in job.profile.shares.items():
            shares[name] += weight / total * share
    values = carried_over(jobs, NUMBERS, laws)
    medians, spread = _tell(NUMBERS, values, weights, losses, first_spread)
    return Profile(
        pattern=pattern,
        confidence=confidence,
        shares=dict(shares),
        numbers=medians,
        log_sd=_log_sd(jobs),
        runs=len(jobs),
        spread=_with_doubt_of_alone(spread, alone_log_sd(jobs), medians.get("io_share", 1.0)),
    )


def told_by(
    jobs: Sequence[FinishedJob], losses: Losses
) -> tuple[dict[str, float], dict[str, float]]:
    """Return those of SPREAD that runs tell, and their spreads: as `expected`, but that alone."""
    weights = recency(jobs)
    medians, spread = _tell(SPREAD, carried_over(jobs, SPREAD, ()), weights, losses, FIRST_SPREAD)
    return medians, _with_doubt_of_alone(spread, alone_log_sd(jobs), medians.get("io_share", 1.0))


def _tell(
    names: Sequence[str], values: Array, weights: Array, losses: Losses | None, first_spread: float
) -> tuple[dict[str, float], dict[str, float]]:
    """Return what runs tell of each number, and the spread of the next run around that.

    Where memories are chosen, the spread is how far off the chosen one was of the runs it told:
    runs before a switch of inputs say nothing of how well the last run tells the next.
    """
    if losses is None:
        medians = _weighted_medians(names, values, weights)
        return medians, spreads_around(names, values, weights, medians)
    missed = missed_by(names, values[:, -TRIED_RUNS - 1 :])
    chosen = _memories(names, missed, losses)
    ranks = np.arange(values.shape[1])[::-1]
    faster = 0.5 ** (ranks * (1 / np.array(MEMORIES)[chosen] - 1 / HALF_LIFE_RUNS)[:, None])
    medians = _weighted_medians(names, values, weights, faster)
    rows = [place for place, name in enumerate(names) if name in SPREAD and name in medians]
    spreads = _spreads_by(missed[chosen[rows], rows], first_spread)
    return medians, dict(zip([names[row] for row in rows], spreads, strict=True))


def _spreads_by(missed: Array, first: float) -> list[float]:
    """Return the sd of what the next run is off by, from what runs were off by: (numbers, runs).

    Drawn towards `first`, which counts as one run.
    """
    known = ~np.isnan(missed)
    weights = np.where(known, 0.5 ** (np.arange(missed.shape[1])[::-1] / TRIED_HALF_LIFE), 0.0)
    squares = (weights * np.where(known, missed, 0.0) ** 2).sum(axis=1)
    return [math.sqrt(one) for one in (first**2 + squares) / (1 + weights.sum(axis=1))]


# How many runs tell a number


def missed_by(names: Sequence[str], values: Array) -> Array:
    """Return by how much each memory missed each run but the first, as |ln (value / told)|.

    values: (names, runs), the oldest first, nan where not known; there what is returned is nan,
    too: (memories, names, runs - 1).
    """
    logs = np.log(np.maximum(values, _least(names)))
    runs = logs.shape[1]
    order = np.argsort(logs, axis=1, kind="stable")
    ordered = np.take_along_axis(logs, order, axis=1)
    # how many runs before the one that is told; behind it, none
    ages = np.arange(runs - 1)[None, :, None] - order[:, None, :]
    ages = np.where((ages >= 0) & ~np.isnan(ordered)[:, None, :], ages, runs)
    told = np.empty((len(MEMORIES), len(logs), runs - 1))
    for memory, half_life in enumerate(MEMORIES):
        weights = np.append(0.5 ** (np.arange(runs) / half_life), 0.0)
        reached = np.cumsum(weights[ages], axis=2)
        total = reached[:, :, -1:]
        middle = (reached >= total / 2).argmax(axis=2)
        told[memory] = np.where(
            total[:, :, 0] > 0, np.take_along_axis(ordered, middle, axis=1), np.nan
        )
    return np.asarray(np.abs(told - logs[None, :, 1:]))


def _least(names: Sequence[str]) -> Array:
    return np.array([[FEWEST_BYTES if name.endswith("_bytes") else 1e-9] for name in names])


def _memories(names: Sequence[str], missed: Array, losses: Losses) -> NDArray[np.int64]:
    """Return the place among MEMORIES of the one that tells each number."""
    lost = np.array([losses.get(name, _UNTOLD[name]) for name in names]).T * SITE_RUNS
    ranks = np.arange(missed.shape[2])[::-1]
    own = np.minimum(missed, MOST_LOST) * 0.5 ** (ranks / TRIED_HALF_LIFE)
    lost = lost + np.nansum(own, axis=2) + _HANDICAP[[NUMBERS.index(name) for name in names]].T
    return np.asarray(lost.argmin(axis=0))


def site_losses(
    groups: Iterable[tuple[int, Sequence[FinishedJob]]],
) -> dict[str, tuple[float, ...]]:
    """Return what each memory lost a run, by number, in the mean over users.

    groups: users and runs of theirs, the oldest first. Each user counts once, so that no user's
    runs decide for the others.
    """
    total: dict[int, Array] = defaultdict(lambda: np.zeros((len(MEMORIES), len(NUMBERS))))
    count: dict[int, Array] = defaultdict(lambda: np.zeros(len(NUMBERS)))
    for uid, jobs in groups:
        if len(jobs) > 1:
            missed = missed_by(NUMBERS, carried_over(jobs[-TRIED_RUNS - 1 :], NUMBERS, ()))
            total[uid] += np.nansum(np.minimum(missed, MOST_LOST), axis=2)
            count[uid] += (~np.isnan(missed[0])).sum(axis=1)
    found = {}
    for place, name in enumerate(NUMBERS):
        users = [uid for uid in total if count[uid][place]]
        if sum(count[uid][place] for uid in users) >= MIN_TRIED:
            means = [total[uid][:, place] / count[uid][place] for uid in users]
            found[name] = tuple(np.mean(means, axis=0).round(6).tolist())
    return found


def _with_doubt_of_alone(
    spread: dict[str, float], log_sd: float, io_share: float
) -> dict[str, float]:
    """Return spreads with what was not measured in them: how fast the program is alone."""
    depends = {
        "rate": 1.0,
        "burst_seconds": 1.0,
        "io_share": max(0.0, 1.0 - io_share),
        "runtime_seconds": io_share,
    }
    return {name: math.hypot(sd, log_sd * depends.get(name, 0.0)) for name, sd in spread.items()}


def carried_over(jobs: Sequence[FinishedJob], names: Sequence[str], laws: Sequence[Law]) -> Array:
    """Return numbers of jobs as the laws carry them over, (names, jobs); nan: not known."""
    rows = np.stack([job.row for job in jobs])
    values = rows.T[[NUMBERS.index(name) for name in names]] if names != NUMBERS else rows.T
    for law in laws:
        values = values * law.factors(names)
    return np.ascontiguousarray(values)


def spreads_around(
    rows_of: Sequence[str],
    values: Array,
    weights: Array,
    centres: Mapping[str, float],
) -> dict[str, float]:
    """Return the sd of ln (value of the next run) around what is expected, where that is told.

    rows_of: names of the rows of values. Drawn towards FIRST_SPREAD, which counts as one run;
    few runs leave more open.
    """
    names = [name for name in SPREAD if name in centres]
    if not names:
        return {}
    rows = values[[rows_of.index(name) for name in names]]
    least = _least(names)
    centre = np.maximum([[centres[name]] for name in names], least)
    known = ~np.isnan(rows)
    logs = np.where(known, np.log(np.maximum(rows, least)) - np.log(centre), 0.0)
    counted = np.where(known, weights, 0.0)
    total = counted.sum(axis=1)
    count = total**2 / (counted**2).sum(axis=1)
    variance = (FIRST_SPREAD**2 + count * (counted * logs**2).sum(axis=1) / total) / (1 + count)
    return dict(zip(names, np.sqrt(variance * (1 + 1 / count)).tolist(), strict=True))


def _weighted_medians(
    names: Sequence[str], values: Array, weights: Array, faster: Array | None = None
) -> dict[str, float]:
    """Return the median of each number of which at least half of the weight knows the value.

    faster: by what the weights of each number change; None: they stay.
    """
    order = np.argsort(values, axis=1, kind="stable")  # nan, not known, comes last
    weights = np.broadcast_to(weights, values.shape) * (1.0 if faster is None else faster)
    known = np.where(np.isnan(values), 0.0, weights)
    reached = np.cumsum(np.take_along_axis(known, order, axis=1), axis=1)
    total = reached[:, -1]
    middle = (reached >= total[:, None] / 2).argmax(axis=1)
    places = np.arange(len(values))
    medians = values[places, order[places, middle]].tolist()
    enough = ((total > 0) & (total >= weights.sum(axis=1) / 2)).tolist()
    return {
        name: median
        for name, median, is_enough in zip(names, medians, enough, strict=True)
        if is_enough
    }


def _log_sd(jobs: Sequence[FinishedJob]) -> float:
    """Return the sd of ln w among the newest runs, drawn towards that of a single one."""
    logs = [job.log_weight for job in jobs[-SPREAD_RUNS:]]
    mean = math.fsum(logs) / len(logs)
    squares = math.fsum((log - mean) ** 2 for log in logs)
    return math.sqrt((SINGLE_RUN_LOG_SD**2 + squares) / len(logs))


MIN_RUNS = 6  # that know the number and their size
MIN_SPREAD = 1.0  # octaves between the smallest and the largest size
MIN_EXPLAINED = 0.5  # of the variance of the logarithm
CERTAIN = 3.0  # standard errors by which an exponent must differ from 0
STEEPEST = 3.0  # what is steeper comes from something else

FOLLOWING = tuple(field.name for field in core.PROFILE_FIELDS if not field.unit.startswith("0"))
"""Numbers that may follow the size: all but shares and flags."""


def exponents(
    jobs: Sequence[FinishedJob], weights: Array, values: Array, laws: Sequence[Law] = ()
) -> dict[str, float]:
    """Return e of number ~ value^e for the numbers that follow a value of each job, by name.

    By weighted least squares of the logarithms; what explains less than half of the variance, or
    is not certain, is left out. What other laws say is taken off first; a value of 0 is not known.
    """
    known = values > 0
    if known.sum() < MIN_RUNS or np.ptp(np.log2(values[known])) < MIN_SPREAD:
        return {}
    numbers = carried_over(jobs, FOLLOWING, laws)
    follow = known & (numbers > 0)
    chosen = follow.sum(axis=1) >= MIN_RUNS
    if not chosen.any():
        return {}
    follow, numbers = follow[chosen], numbers[chosen]
    x = np.where(follow, np.log2(np.where(known, values, 1.0)), 0.0)
    y = np.log2(np.where(follow, numbers, 1.0))
    slopes = _slopes(x, y, np.where(follow, weights, 0.0), follow)
    names = [name for name, one in zip(FOLLOWING, chosen.tolist(), strict=True) if one]
    return {
        name: slope
        for name, slope in zip(names, slopes.tolist(), strict=True)
        if not math.isnan(slope)
    }


def _slopes(x: Array, y: Array, weights: Array, follow: NDArray[np.bool_]) -> Array:
    """Return the slope of each row of y over x; nan where it explains little or is not certain."""
    steps = np.where(follow, x, -np.inf).max(axis=1) - np.where(follow, x, np.inf).min(axis=1)
    weights = weights / weights.sum(axis=1, keepdims=True)
    x, y = (one - (weights * one).sum(axis=1, keepdims=True) for one in (x, y))
    spread, total = ((weights * one**2).sum(axis=1) for one in (x, y))
    with np.errstate(divide="ignore", invalid="ignore"):
        slope = (weights * (x * y)).sum(axis=1) / spread
        rest = (weights * (y - slope[:, None] * x) ** 2).sum(axis=1)
        runs = 1 / (weights**2).sum(axis=1)  # of equal weight that would say as much
        error = np.sqrt(rest / spread / np.maximum(runs - 2, 1))
    is_good = (steps >= MIN_SPREAD) & (spread > 0) & (total > 0)
    is_good &= (rest <= (1 - MIN_EXPLAINED) * total) & (np.abs(slope) >= CERTAIN * error)
    return np.where(is_good & (np.abs(slope) <= STEEPEST), slope, np.nan)
