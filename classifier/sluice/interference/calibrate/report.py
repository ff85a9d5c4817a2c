"""What a calibration found: all figures, in JSON and in words."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any

from sluice.interference.calibrate import analysis, servers
from sluice.interference.programs import size_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sluice.history_db.records import CoRun


NOTHING = "–"  # for a number that is not known


@dataclass(frozen=True, slots=True)
class Report:
    """All figures of some co-runs."""

    site: str
    matrices: list[analysis.Matrix]
    losses: dict[analysis.Cell, analysis.Loss]
    even: list[analysis.BreakEven]
    stability: analysis.Stability
    speeds: list[analysis.Speed]
    controls: list[analysis.Control]
    deltas: dict[tuple[str, ...], list[analysis.DeltaPoint]]
    agreement: analysis.Agreement | None
    """With the calibration before, if there is one."""
    servers: list[servers.Station]


def make_report(site: str, coruns: Sequence[CoRun], before: Sequence[CoRun] = ()) -> Report:
    return Report(
        site=site,
        matrices=analysis.matrices(coruns),
        losses=analysis.losses(coruns),
        even=analysis.break_even(coruns),
        stability=analysis.stability(coruns),
        speeds=analysis.speeds(coruns),
        controls=analysis.controls(coruns),
        deltas=analysis.delta_graphs(coruns),
        agreement=analysis.agreement(before, coruns) if before else None,
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
        "delta": [
            {"members": list(members), "points": [asdict(point) for point in points]}
            for members, points in report.deltas.items()
        ],
        "agreement": asdict(report.agreement) if report.agreement else None,
        "servers": [asdict(station) for station in report.servers],
    }


def even_text(item: analysis.BreakEven) -> str:
    """Say in words where two patterns are even."""
    pair = f"{item.first.upper()} and {item.second.upper()}"
    if item.chunk_bytes is None:
        return f"{pair}: {_winner(item.winner_below)} takes more at every chunk size"
    chunk = size_text(max(1, round(item.chunk_bytes / 1024)) * 1024)
    sides = f"{_winner(item.winner_below)} below, {_winner(item.winner_above)} above"
    return f"{pair}: even at about {chunk} ({sides})"


def _winner(name: str | None) -> str:
    return "not measured" if name is None else name.upper() or "even"


def even_by_size(even: Sequence[analysis.BreakEven]) -> list[tuple[str, list[str]]]:
    """Return a heading and lines for each number of processes."""
    return [
        (f"Break-even chunk sizes, {processes} processes each", [even_text(item) for item in items])
        for processes, items in groupby(even, key=lambda item: item.processes)
    ]


def stability_text(figures: analysis.Stability) -> str:
    if not figures.cells:
        return f"no co-run counts; {figures.dropped} were dropped"
    if figures.mean_difference is None or figures.bound is None:
        return f"{figures.cells} cells, too few measured twice to say how stable they are"
    return (
        f"{figures.cells} cells; two measurements of one differ by "
        f"{100 * figures.mean_difference:.1f} points on average, and a repetition by at most "
        f"{100 * figures.bound:.1f} (95 %); {figures.dropped} co-runs were dropped"
    )


def agreement_text(figures: analysis.Agreement) -> str:
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
