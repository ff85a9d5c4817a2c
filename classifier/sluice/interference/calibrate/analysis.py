"""What a calibration says, in figures and as a report."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import asdict, dataclass
from itertools import groupby, pairwise
from statistics import mean, median, stdev
from typing import TYPE_CHECKING, Any

import numpy as np

from sluice.interference.calibrate import servers
from sluice.interference.observations import alone_rates, observations, shared, valid
from sluice.interference.programs import Program, size_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sluice.history_db.records import CoRun


EVEN = 0.05
"""Losses that differ by no more count as even."""
NORMAL_95 = 1.96


@dataclass(frozen=True, slots=True, order=True)
class Cell:
    """A program alongside others on the same target, however often that was measured."""

    victim: Program
    others: tuple[Program, ...]


@dataclass(frozen=True, slots=True)
class Loss:
    """Of a cell: the median share of its rate that the victim lost; negative: it gained."""

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
    """Whether two programs met that differ in nothing but their patterns, flushed as usual."""
    if len(cell.others) != 1:
        return False
    victim, other = cell.victim, cell.others[0]
    return victim == Program(victim.pattern, other.chunk_bytes, other.processes) and (
        other == Program(other.pattern, victim.chunk_bytes, victim.processes)
    )


def matrices(coruns: Sequence[CoRun]) -> list[Matrix]:
    """Return a matrix for each chunk at which programs of equal size met, smallest first."""
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
class BreakEven:
    """Where two patterns of equal chunk and size take the same share from each other."""

    processes: int
    """Of each."""
    first: str
    second: str
    chunk_bytes: float | None
    """None: one wins at every chunk that was measured."""
    winner_below: str | None
    """At the next smaller chunk, of those that decide where the lead changes hands; empty:
    nobody, they are even there, too; None: no such chunk was measured."""
    winner_above: str | None


def break_even(coruns: Sequence[CoRun]) -> list[BreakEven]:
    """Return where the loss of one pattern to another equals the loss the other way.

    Interpolated between the chunk sizes that were measured, by the logarithm of the chunk.
    """
    leads: dict[tuple[int, str, str], list[tuple[float, float]]] = defaultdict(list)
    for matrix in matrices(coruns):
        for i, a in enumerate(matrix.patterns):
            for j in range(i + 1, len(matrix.patterns)):
                mine, theirs = matrix.loss[i][j], matrix.loss[j][i]
                if mine is not None and theirs is not None:
                    key = (matrix.processes, a, matrix.patterns[j])
                    leads[key].append((math.log2(matrix.chunk_bytes), theirs - mine))
    return [
        BreakEven(*key, *_even_point(key[1], key[2], points))
        for key, points in sorted(leads.items())
        if len(points) > 1
    ]


def _even_point(
    first: str, second: str, points: Sequence[tuple[float, float]]
) -> tuple[float | None, str | None, str | None]:
    """Return the chunk at which two are even, and who wins below and above it.

    Points are (log2 chunk, how much more the second loses than the first), by chunk. Where the
    lead changes hands they break even, also when it is small elsewhere.
    """
    winners = ["" if abs(lead) <= EVEN else first if lead > 0 else second for _, lead in points]
    decided = [i for i, winner in enumerate(winners) if winner]
    for i, j in pairwise(decided):
        if winners[i] != winners[j]:
            return 2 ** _zero(points[i : j + 1]), winners[i], winners[j]
    if len(decided) == len(points):
        return None, winners[0], winners[0]

    def neighbours(i: int) -> tuple[str | None, str | None]:
        below, above = winners[:i][-1:], winners[i + 1 :][:1]
        return below[0] if below else None, above[0] if above else None

    # Of several even points the one that most is known about, of those the smallest chunk.
    even = [i for i, winner in enumerate(winners) if not winner]
    at = max(even, key=lambda i: sum(map(bool, neighbours(i))))
    return 2 ** points[at][0], *neighbours(at)


def _zero(points: Sequence[tuple[float, float]]) -> float:
    """Return where the line through the points meets zero; the ends lie on either side of it."""
    return next(
        x + (x_next - x) * lead / (lead - lead_next)
        for (x, lead), (x_next, lead_next) in pairwise(points)
        if lead * lead_next <= 0
    )


@dataclass(frozen=True, slots=True)
class Stability:
    """How well a repetition can be expected to agree."""

    cells: int
    pairs: int
    """Cells that were measured twice, which this is judged from: most of them as two equal
    programs side by side. What one gets the other lacks, so they differ by more than two
    repetitions would, and the bound is on the safe side."""
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
class Speed:
    """What one target gives a program alone."""

    target: str
    program: Program
    rate: float
    """B/s, median."""


def speeds(coruns: Sequence[CoRun]) -> list[Speed]:
    """Return the rate alone of each program."""
    targets = {Program.parse(e.members[0]): e.targets[0] for e in valid(coruns)}
    return [
        Speed(targets[program], program, rate)
        for program, rate in sorted(alone_rates(coruns).items())
    ]


@dataclass(frozen=True, slots=True)
class Control:
    """A program alongside others on another target: what it lost should be nothing."""

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
    even: list[BreakEven]
    stability: Stability
    speeds: list[Speed]
    controls: list[Control]
    agreement: Agreement | None
    """With the calibration before, if there is one."""
    servers: list[servers.Station]


def make_report(site: str, coruns: Sequence[CoRun], before: Sequence[CoRun] = ()) -> Report:
    return Report(
        site=site,
        matrices=matrices(coruns),
        losses=losses(coruns),
        even=break_even(coruns),
        stability=stability(coruns),
        speeds=speeds(coruns),
        controls=controls(coruns),
        agreement=agreement(before, coruns) if before else None,
        servers=servers.stations(coruns),
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
        "break_even": [asdict(item) for item in report.even],
        "stability": asdict(report.stability),
        "speeds": [
            {"target": s.target, "program": str(s.program), "rate": s.rate} for s in report.speeds
        ],
        "other_target": [
            {"victim": str(c.victim), "others": [str(o) for o in c.others], "loss": c.loss}
            for c in report.controls
        ],
        "agreement": asdict(report.agreement) if report.agreement else None,
        "servers": [asdict(station) for station in report.servers],
    }


def even_text(item: BreakEven) -> str:
    """Say in words where two patterns are even."""
    pair = f"{item.first.upper()} and {item.second.upper()}"
    if item.chunk_bytes is None:
        return f"{pair}: {_winner(item.winner_below)} takes more at every chunk size"
    chunk = size_text(max(1, round(item.chunk_bytes / 1024)) * 1024)
    sides = f"{_winner(item.winner_below)} below, {_winner(item.winner_above)} above"
    return f"{pair}: even at about {chunk} ({sides})"


def _winner(name: str | None) -> str:
    return "not measured" if name is None else name.upper() or "even"


def even_by_size(even: Sequence[BreakEven]) -> list[tuple[str, list[str]]]:
    """Return a heading and lines for each number of processes."""
    return [
        (f"Break-even chunk sizes, {processes} processes each", [even_text(item) for item in items])
        for processes, items in groupby(even, key=lambda item: item.processes)
    ]


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


SERVERS = ("Station", "takes", "filled by", "a node takes", "a stream", "switching", "serves")


def servers_rows(stations: Sequence[servers.Station]) -> list[tuple[str, ...]]:
    """Return the cells below SERVERS."""
    return [
        (
            f"{station.station} of {station.target}",
            _capacity_text(station),
            _streams_text(station.fills_at),
            *(
                _estimate_text(estimate, ".0f", "%", 100.0)
                for estimate in (station.node_share, station.stream_share, station.switch_cost)
            ),
            f"{station.sharing.verdict}: {_estimate_text(station.sharing.by_demand, '.2f')}",
        )
        for station in stations
    ]


def servers_remarks(stations: Sequence[servers.Station]) -> list[str]:
    """Say of what is not known why."""
    unfilled = [
        f"{s.station} of {s.target}: the programs do not fill it often enough to say what it "
        "takes; give more --tasks or --rounds"
        for s in stations
        if s.capacity is None
    ]
    return unfilled + [
        f"{s.station} of {s.target}: first come or fair is undecided: {s.sharing.why}"
        for s in stations
        if s.sharing.why
    ]


def _capacity_text(station: servers.Station) -> str:
    unit, scale = (" MB/s", 1e-6) if station.station == "bytes" else ("/s", 1.0)
    if station.capacity is None:
        return f"at least {station.most * scale:.3g}{unit}"
    return _estimate_text(station.capacity, ".3g", unit, scale)


def _streams_text(streams: int | None) -> str:
    if streams is None:
        return NOTHING
    return f"{streams} stream{'s' * (streams > 1)}"


def _estimate_text(
    estimate: servers.Estimate | None, number: str, unit: str = "", scale: float = 1.0
) -> str:
    if estimate is None:
        return NOTHING
    value, low, high = (
        format(scale * x, number) for x in (estimate.value, estimate.low, estimate.high)
    )
    return f"{value}{unit} ({low} to {high})"
