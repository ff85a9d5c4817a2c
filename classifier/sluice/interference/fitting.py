"""Two methods of statistics by numpy, so that assessing a site needs no SciPy.

Debian's SciPy brings a compiler and Boost along.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    Array = NDArray[np.float64]

MOST_STEPS = 200
LEAST_GAIN = 1e-12  # of the sum of squares; a step that gains less is the last one
FIRST_DAMPING, LEAST_DAMPING, MOST_DAMPING = 1e-3, 1e-12, 1e12


def together(p_values: Sequence[float]) -> float:
    """Return the joint p-value of independent ones (Fisher's method).

    Twice the sum of -ln p is distributed as chi-squared, here with an even number of degrees of
    freedom, so that its tail is a finite sum.
    """
    if not p_values or min(p_values) <= 0:
        return float("nan") if not p_values else 0.0
    half = -math.fsum(map(math.log, p_values))
    if half <= 0:
        return 1.0
    terms = (i * math.log(half) - math.lgamma(i + 1) - half for i in range(len(p_values)))
    return min(1.0, math.fsum(map(math.exp, terms)))


def least_squares(
    residuals: Callable[[Array], Array], jacobian: Callable[[Array], Array], size: int
) -> Array:
    """Return where the sum of the squares of residuals is least, searched from 0 on.

    Levenberg's and Marquardt's method: Gauss' step, the shorter the less it keeps its promise.
    """
    found = np.zeros(size)
    rest = residuals(found)
    damping = FIRST_DAMPING
    for _ in range(MOST_STEPS):
        slopes = jacobian(found)
        normal, down = slopes.T @ slopes, slopes.T @ rest
        while damping < MOST_DAMPING:
            scale = damping * (np.diag(normal) + np.finfo(float).tiny)
            step = np.linalg.lstsq(normal + np.diag(scale), -down, rcond=None)[0]
            tried = residuals(found + step)
            gain = float(rest @ rest - tried @ tried)
            if gain >= 0:
                break
            damping *= 10
        else:
            return found
        is_last = gain <= LEAST_GAIN * float(rest @ rest)
        found, rest, damping = found + step, tried, max(damping / 10, LEAST_DAMPING)
        if is_last:
            return found
    return found
