"""Effect of acting on jobs, by comparison with a random holdout.

Each job is a unit with an outcome between 0 and 1, and a lot decided whether it was acted on. The
effect is the mean, over all units so far, of what a unit's outcome is when acted on less what it
is when left alone; either is seen of each, never both. Weighed by the lot's odds, what is seen
gives the effect without bias, however jobs and times change.

The interval is one of a confidence sequence: with the stated probability, all the intervals of
all looks hold the effect as it was then. So one may look every day and stop whenever one likes.
It assumes no distribution, only that outcomes lie between 0 and 1, and that acting on a job
changes no other unit's outcome. The last is not quite so: jobs of the holdout slow the others,
so the effect on storage is understated.

Sources: S. R. Howard, A. Ramdas, J. McAuliffe, J. Sekhon, "Time-uniform, nonparametric,
nonasymptotic confidence sequences", Annals of Statistics 49 (2021): the empirical-Bernstein
sequence (Theorem 4), its use for treatment effects (section 4.2), and the gamma-exponential
mixture that bounds it (Proposition 9).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import brentq
from scipy.special import gammainc, gammaln

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Array = NDArray[np.float64]

FALSE_ALARMS = 0.05
"""Probability that some interval of the sequence, ever, misses the effect."""
PLANNED = 1000
"""Units at which the interval is narrowest for its kind,"""
DEVIATION = 0.1
"""where outcomes deviate by so much. Both are guesses made before: any would be right."""


@dataclass(frozen=True, slots=True)
class Unit:
    """A job that would be acted on, and its outcome."""

    is_held_out: bool
    outcome: float
    """From 0 to 1."""


@dataclass(frozen=True, slots=True)
class Effect:
    """Of acting on jobs; below 0 where that lowers the outcome."""

    units: int
    held_out: int
    mean: float
    """Of what was acted on, less what was left alone."""
    low: float
    high: float
    acted_on_mean: float | None
    """Mean outcomes; None: of no unit."""
    held_out_mean: float | None

    @property
    def is_certain(self) -> bool:
        """Whether the interval leaves out that there is no effect."""
        return self.low > 0 or self.high < 0


def effect(units: Sequence[Unit], share: float, *, false_alarms: float = FALSE_ALARMS) -> Effect:
    """Compare those that were acted on with the holdout, in the order in which lots were drawn.

    share: probability of being held out, the same for all, between 0 and 1.
    """
    held_out = np.array([unit.is_held_out for unit in units], dtype=bool)
    outcomes = np.array([unit.outcome for unit in units], dtype=np.float64)
    sums, variances = walk(held_out, outcomes, share)
    count = len(units)
    width = math.inf
    if count:
        width = boundary(float(variances[-1]), share, false_alarms / 2) / count
    mean = float(sums[-1]) / count if count else 0.0
    return Effect(
        units=count,
        held_out=int(held_out.sum()),
        mean=mean,
        low=max(-1.0, mean - width),
        high=min(1.0, mean + width),
        acted_on_mean=_mean(outcomes[~held_out]),
        held_out_mean=_mean(outcomes[held_out]),
    )


def walk(held_out: NDArray[np.bool_], outcomes: Array, share: float) -> tuple[Array, Array]:
    """Return the running sums of the units' estimates of the effect, and of their squares.

    Outcomes are taken less the mean of those before, which is known before a lot is drawn: the
    estimate stays unbiased, and varies less. No estimate is larger than `scale`.
    """
    before = np.concatenate([[0.5], np.cumsum(outcomes)[:-1] / np.arange(1, len(outcomes))])
    weights = np.where(held_out, -1 / share, 1 / (1 - share))
    estimates = weights * (outcomes - before[: len(outcomes)])
    return np.cumsum(estimates), np.cumsum(estimates**2)


def boundary(variance: float, share: float, probability: float) -> float:
    """Return how far the sum of estimates may lie from that of the effects, on one side.

    variance: the sum of their squares.
    """
    limit = math.log(1 / probability)
    high = 1.0
    while evidence(high, variance, share, probability) < limit:
        high *= 2
    return float(brentq(lambda s: evidence(s, variance, share, probability) - limit, 0.0, high))


def evidence(
    deviation: Array | float, variance: Array | float, share: float, probability: float
) -> Array:
    """Return ln of the mixture of supermartingales, by how far the sum lies off.

    It exceeds ln (1 / probability), ever, with that probability at most. `probability` is also
    what the mixture is tuned for.
    """
    scale = 1 / min(share, 1 - share)
    planned = PLANNED * DEVIATION**2 / (share * (1 - share))
    twice = 2 * math.log(0.5 / probability)
    prior = planned / (twice + math.log1p(twice)) / scale**2
    shape = np.asarray(variance) / scale**2 + prior
    rate = np.maximum(deviation, 0.0) / scale + shape  # on the other side it says nothing
    result: Array = (
        prior * math.log(prior)
        - gammaln(prior)
        - np.log(gammainc(prior, prior))
        + gammaln(shape)
        + np.log(gammainc(shape, rate))
        - shape * np.log(rate)
        + (rate - prior)
    )
    return result


def _mean(values: Array) -> float | None:
    return float(values.mean()) if len(values) else None
