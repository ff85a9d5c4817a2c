"""How the numbers of an application follow its size or an argument, where its runs show it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sluice.policies import core
from sluice.prediction.expectation import carried_over

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from sluice.prediction.expectation import Law
    from sluice.prediction.jobs import FinishedJob

    Array = NDArray[np.float64]

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
    found = {}
    for name, numbers in zip(FOLLOWING, carried_over(jobs, FOLLOWING, laws), strict=True):
        follow = known & (numbers > 0)
        if follow.sum() >= MIN_RUNS:
            exponent = _exponent(np.log2(values[follow]), np.log2(numbers[follow]), weights[follow])
            if exponent is not None:
                found[name] = exponent
    return found


def _exponent(x: Array, y: Array, weights: Array) -> float | None:
    weights = weights / weights.sum()
    x, y = x - weights @ x, y - weights @ y
    spread = float(weights @ x**2)
    total = float(weights @ y**2)
    if np.ptp(x) < MIN_SPREAD or spread <= 0 or total <= 0:
        return None
    slope = float(weights @ (x * y)) / spread
    rest = float(weights @ (y - slope * x) ** 2)
    runs = 1 / float(weights @ weights)  # of equal weight that would say as much
    error = np.sqrt(rest / spread / max(runs - 2, 1))
    if rest > (1 - MIN_EXPLAINED) * total or abs(slope) < CERTAIN * error:
        return None
    return slope if abs(slope) <= STEEPEST else None
