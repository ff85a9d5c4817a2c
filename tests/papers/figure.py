"""A published figure alongside what the discrete-event storage model makes of it.

Published numbers stand here only to be compared with: nothing of the model reads them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from papers.platforms import PLATFORMS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

EXPLAINED, FITTED, NOT_REPRODUCED = "explained", "fitted", "not reproduced"


@dataclass(frozen=True, slots=True)
class Row:
    """One number of a figure."""

    what: str
    published: str
    """As the paper gives it, or its plot or words."""
    model: float
    low: float
    """The model agrees from here ..."""
    high: float
    """... to here."""

    @property
    def agrees(self) -> bool:
        return self.low <= self.model <= self.high


@dataclass(frozen=True, slots=True)
class Figure:
    """What a paper found, and how the model is asked for it."""

    name: str
    title: str
    why: str
    """The mechanism that explains it, or what is missing, in a sentence."""
    platforms: tuple[str, ...]
    rows: Callable[[], Iterator[Row]]

    @property
    def fitted(self) -> list[str]:
        """Names of the numbers that were fitted to this very figure, once for each value."""
        numbers = {n for name in self.platforms for n in PLATFORMS[name].fitted_to(self.name)}
        return [name for name, _ in sorted(numbers)]


@dataclass(frozen=True, slots=True)
class Verdict:
    """A figure, asked."""

    figure: Figure
    rows: tuple[Row, ...]

    @property
    def status(self) -> str:
        if not all(row.agrees for row in self.rows):
            return NOT_REPRODUCED
        return FITTED if self.figure.fitted else EXPLAINED

    @property
    def words(self) -> str:
        """The status, with the number of fitted parameters."""
        count = len(self.figure.fitted)
        plural = "" if count == 1 else "s"
        return f"{FITTED} ({count} parameter{plural})" if self.status == FITTED else self.status


def about(what: str, published: float, model: float, tolerance: float) -> Row:
    """Compare with a number, as exact as the paper's table or plot allows."""
    return Row(what, f"{published:g}", model, published - tolerance, published + tolerance)


def between(what: str, published: str, model: float, low: float, high: float) -> Row:
    """Compare with what the paper says in words."""
    return Row(what, published, model, low, high)


def ask(figure: Figure) -> Verdict:
    """Run the simulations of a figure."""
    return Verdict(figure, tuple(figure.rows()))
