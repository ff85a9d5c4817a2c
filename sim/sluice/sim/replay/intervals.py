"""How far an answer may lie from the one that was computed, without assuming any distribution."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

WANTED = 0.9
"""Coverage that an interval has where there are enough draws: 19 of them."""


@dataclass(frozen=True, slots=True)
class Interval:
    """Where the answer of one more draw lies."""

    low: float
    high: float
    coverage: float
    """Probability that it does."""


def interval(values: Iterable[float | None]) -> Interval | None:
    """Return the interval of one more draw from where these came from; None: fewer than two.

    Of n exchangeable draws and one more, that one lies between the k-th smallest and the k-th
    largest with probability (n + 1 - 2k) / (n + 1). The largest k that has WANTED is taken; with
    fewer than 19 draws it is 1, and the coverage smaller.
    """
    known = sorted(value for value in values if value is not None)
    count = len(known)
    if count < 2:
        return None
    k = max(1, int((1 - WANTED) * (count + 1) / 2 + 1e-9))
    return Interval(known[k - 1], known[-k], (count + 1 - 2 * k) / (count + 1))
