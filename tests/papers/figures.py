"""All published figures that the discrete-event storage model is asked for."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from papers import huang, remedies, shah, yildiz
from papers.figure import ask

from sluice.sim.engine import StorageModelError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from papers.figure import Figure, Verdict

FIGURES = (
    *yildiz.FIGURES,
    *shah.FIGURES,
    *huang.FIGURES,
    *remedies.FIGURES,
)


def find(names: Sequence[str]) -> list[Figure]:
    """Return the figures of these names, all without any.

    `Y7` stands for Y7a, Y7b and Y7c, `Y` for a whole paper.
    """
    wanted = [name.upper() for name in names]
    for name in wanted:
        if not any(_is_meant(figure, name) for figure in FIGURES):
            known = ", ".join(figure.name for figure in FIGURES)
            raise StorageModelError(f"there is no figure {name}; give one of {known}")
    return [f for f in FIGURES if not wanted or any(_is_meant(f, name) for name in wanted)]


def _is_meant(figure: Figure, name: str) -> bool:
    rest = figure.name.upper().removeprefix(name)
    is_longer_number = name[-1:].isdigit() and rest[:1].isdigit()
    return rest != figure.name.upper() and not is_longer_number


def ask_all(figures: Sequence[Figure], *, threads: int) -> Iterator[Verdict]:
    """Ask figures side by side (the simulation is C and lets others run); in their order."""
    with ThreadPoolExecutor(threads) as pool:
        yield from pool.map(ask, figures)
