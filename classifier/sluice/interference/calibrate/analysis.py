"""Figures of a calibration: losses, their stability, and agreement with another one."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import asdict, dataclass
from statistics import mean, median, stdev
from typing import TYPE_CHECKING, Any

import numpy as np

from sluice.interference.calibrate import servers
from sluice.interference.observations import observations, shared, valid
from sluice.interference.programs import Program

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sluice.history_db.records import CoRun


NORMAL_95 = 1.96


@dataclass(frozen=True, slots=True, order=True)
class Cell:
    """A program alongside others on the same target, however often that was measured."""

    victim: Program
    others: tuple[Program, ...]


@dataclass(frozen=True, slots=True)
class Loss:
    """Median share of its rate that a cell's victim lost; negative: it gained."""

    loss: float
    count: int


def losses(coruns: Sequence[CoRun]) -> dict[Cell, Loss]:
    """Return the loss of each cell; medians of what was not dropped."""
    found = _values(coruns)
    return {cell: Loss(1 - median(found[cell]), len(found[cell])) for cell in sorted(found)}


def outside_matrices(found: Mapping[Cell, Loss]) -> dict[Cell, Loss]:
    """Return the cells that no matrix shows: unequal programs, sync modes, and triples."""
    return {cell: loss for cell, loss in found.items() if not in_a_matrix(cell)}


def _values(coruns: Sequence[CoRun]) -> dict[Cell, list[float]]:
    found: dict[Cell, list[float]] = defaultdict(list)
    for item in observations(coruns):
        found[Cell(item.victim, tuple(sorted(item.others)))].append(item.rho)
    return found


@dataclass(frozen=True, slots=True)
class Matrix:
    """Losses among the plain patterns at one chunk size."""

    chunk_bytes: int
    processes: int
    patterns: tuple[str, ...]
    loss: tuple[tuple[float | None, ...], ...]
    """[probe][signal]; None: not measured."""


def in_a_matrix(cell: Cell) -> bool:
    """Return whether two programs differ only in their patterns, flushed as usual."""
    if len(cell.others) != 1:
        return False
    victim, other = cell.victim, cell.others[0]
    return victim == Program(victim.pattern, other.chunk_bytes, other.processes) and (
        other == Program(other.pattern, victim.chunk_bytes, victim.processes)
    )


def matrices(coruns: Sequence[CoRun]) -> list[Matrix]:
    """Return a matrix for each chunk at which programs of equal size co-ran, smallest first."""
    table: dict[tuple[int, int], dict[tuple[str, str], float]] = defaultdict(dict)
    for cell, loss in losses(coruns).items():
        if in_a_matrix(cell):
            key = (cell.victim.chunk_bytes, cell.victim.processes)
            table[key][cell.victim.pattern, cell.others[0].pattern] = loss.loss
    found = []
    for (chunk, processes), entries in sorted(table.items()):
        known = {pattern for pair in entries for pattern in pair}
        patterns = tuple(p for p in ("owc", "ws", "aw") if p in known) + tuple(
            sorted(known - {"owc", "ws", "aw"})
        )
        rows = tuple(tuple(entries.get((a, b)) for b in patterns) for a in patterns)
        found.append(Matrix(chunk, processes, patterns, rows))
    return found


@dataclass(frozen=True, slots=True)
class Stability:
    """Expected agreement of a repetition."""

    cells: int
    pairs: int
    """Cells measured twice, most of them as two equal programs side by side. What one gets the
    other lacks, so they differ by more than two repetitions would: the bound is safe."""
    mean_difference: float | None
    """Between two measurements of a loss, 0..1."""
    bound: float | None
    """95 % upper bound of that mean, for a calibration of as many cells."""
    alone_spread: float | None
    """Median difference of the two alone runs of a block, as a share of the rate."""
    dropped: int


def stability(coruns: Sequence[CoRun]) -> Stability:
    values = _values(coruns)
    apart = [abs(v[0] - v[1]) for v in values.values() if len(v) > 1]
    spread = [abs(e.alone[0] / e.alone[1] - 1) for e in valid(coruns) if len(e.alone) > 1]
    bound = None
    if len(apart) > 2:
        bound = mean(apart) + NORMAL_95 * stdev(apart) * math.sqrt(1 / len(apart) + 1 / len(values))
    return Stability(
        cells=len(values),
        pairs=len(apart),
        mean_difference=mean(apart) if apart else None,
        bound=bound,
        alone_spread=median(spread) if spread else None,
        dropped=sum(bool(e.dropped) for e in coruns),
    )


@dataclass(frozen=True, slots=True)
class Agreement:
    """Of two calibrations, over the cells that both measured."""

    cells: int
    rank_correlation: float
    mean_difference: float
    """Of the losses, 0..1."""
    bound: float | None
    """Of the mean difference, as the first one states (Stability)."""


def agreement(first: Sequence[CoRun], second: Sequence[CoRun]) -> Agreement | None:
    """Compare two calibrations; None when they have too little in common."""
    a, b = losses(first), losses(second)
    both = sorted(a.keys() & b.keys())
    if len(both) < 3:
        return None
    x, y = (np.array([table[cell].loss for cell in both]) for table in (a, b))
    correlation = float(np.corrcoef(_ranks(x), _ranks(y))[0, 1])
    difference = float(np.abs(x - y).mean())
    return Agreement(len(both), correlation, difference, stability(first).bound)


def _ranks(values: np.ndarray) -> np.ndarray:
    """Ranks from 1; ties share the mean of theirs."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return np.asarray((last - (counts - 1) / 2)[inverse.reshape(-1)])


@dataclass(frozen=True, slots=True)
class Control:
    """A program alongside others on another target: its loss should be zero."""

    victim: Program
    others: tuple[Program, ...]
    loss: float


def controls(coruns: Sequence[CoRun]) -> list[Control]:
    found: dict[tuple[str, ...], list[float]] = defaultdict(list)
    for corun in valid(coruns):
        if not shared(corun):
            own = sum(corun.alone) / len(corun.alone)
            found[corun.members].append(corun.together[0] / own)
    return [
        Control(Program.parse(m[0]), tuple(map(Program.parse, m[1:])), 1 - median(rhos))
        for m, rhos in sorted(found.items())
    ]


NOTHING = "–"  # for a number that is not known


@dataclass(frozen=True, slots=True)
class Report:
    """All figures of some co-runs."""

    site: str
    matrices: list[Matrix]
    losses: dict[Cell, Loss]
    stability: Stability
    controls: list[Control]
    agreement: Agreement | None
    """With the calibration before, if there is one."""
    servers: list[servers.Discipline]


def make_report(site: str, coruns: Sequence[CoRun], before: Sequence[CoRun] = ()) -> Report:
    return Report(
        site=site,
        matrices=matrices(coruns),
        losses=losses(coruns),
        stability=stability(coruns),
        controls=controls(coruns),
        agreement=agreement(before, coruns) if before else None,
        servers=servers.disciplines(coruns),
    )


def to_json(report: Report) -> dict[str, Any]:
    return {
        "site": report.site,
        "matrices": [asdict(matrix) for matrix in report.matrices],
        "losses": [
            {
                "victim": str(cell.victim),
                "others": [str(other) for other in cell.others],
                "loss": loss.loss,
                "count": loss.count,
            }
            for cell, loss in report.losses.items()
        ],
        "stability": asdict(report.stability),
        "other_target": [
            {"victim": str(c.victim), "others": [str(o) for o in c.others], "loss": c.loss}
            for c in report.controls
        ],
        "agreement": asdict(report.agreement) if report.agreement else None,
        "servers": [asdict(one) for one in report.servers],
    }


def stability_text(figures: Stability) -> str:
    if not figures.cells:
        return f"no co-run counts; {figures.dropped} were dropped"
    if figures.mean_difference is None or figures.bound is None:
        return f"{figures.cells} cells, too few measured twice to say how stable they are"
    return (
        f"{figures.cells} cells; two measurements of one differ by "
        f"{100 * figures.mean_difference:.1f} points on average, and a repetition by at most "
        f"{100 * figures.bound:.1f} (95 %); {figures.dropped} co-runs were dropped"
    )


def agreement_text(figures: Agreement) -> str:
    bound = (
        "which states no bound"
        if figures.bound is None
        else f"which states at most {100 * figures.bound:.1f}"
    )
    return (
        f"against the calibration before: rank correlation {figures.rank_correlation:.3f}, mean "
        f"difference {100 * figures.mean_difference:.1f} points over {figures.cells} cells, {bound}"
    )


SERVERS = ("Target", "serves", "by demand")


def servers_rows(disciplines: Sequence[servers.Discipline]) -> list[tuple[str, ...]]:
    """Return the cells below SERVERS."""
    return [(one.target, one.verdict, _estimate_text(one.by_demand)) for one in disciplines]


def servers_remarks(disciplines: Sequence[servers.Discipline]) -> list[str]:
    """Return the reasons of what is undecided."""
    return [
        f"{one.target}: first come or fair is undecided: {one.why}"
        for one in disciplines
        if one.why
    ]


def _estimate_text(estimate: servers.Estimate | None) -> str:
    if estimate is None:
        return NOTHING
    return f"{estimate.value:.2f} ({estimate.low:.2f} to {estimate.high:.2f})"
