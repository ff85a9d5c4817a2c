"""A calibration on paper: JSON, pictures, and one page that holds them."""

from __future__ import annotations

import base64
import json
from dataclasses import asdict, dataclass
from html import escape
from itertools import groupby
from typing import TYPE_CHECKING, Any

from sluice.interference.calibrate import analysis
from sluice.interference.programs import size_text

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from sluice.history_db.records import Encounter
    from sluice.interference.programs import Program


@dataclass(frozen=True, slots=True)
class Report:
    """All figures of some encounters."""

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


def make_report(
    site: str, encounters: Sequence[Encounter], before: Sequence[Encounter] = ()
) -> Report:
    return Report(
        site=site,
        matrices=analysis.matrices(encounters),
        losses=analysis.losses(encounters),
        even=analysis.break_even(encounters),
        stability=analysis.stability(encounters),
        speeds=analysis.speeds(encounters),
        controls=analysis.controls(encounters),
        deltas=analysis.delta_graphs(encounters),
        agreement=analysis.agreement(before, encounters) if before else None,
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
        return f"no encounter counts; {figures.dropped} were dropped"
    if figures.mean_difference is None or figures.bound is None:
        return f"{figures.cells} cells, too few measured twice to say how stable they are"
    return (
        f"{figures.cells} cells; two measurements of one differ by "
        f"{100 * figures.mean_difference:.1f} points on average, and a repetition by at most "
        f"{100 * figures.bound:.1f} (95 %); {figures.dropped} encounters were dropped"
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


def pictures(report: Report) -> dict[str, bytes]:
    """Return the PNG files by name."""
    from sluice.interference.calibrate import charts  # noqa: PLC0415 - takes a second to load

    found = {}
    if report.matrices:
        found["matrix.png"] = charts.heat_maps(report.matrices)
        found["chunks.png"] = charts.chunk_curves(_curves(report.matrices), report.even)
    for number, (members, points) in enumerate(report.deltas.items()):
        found[f"delta-{number}.png"] = charts.delta_graph(members, points)
    return found


def _curves(
    matrices: Sequence[analysis.Matrix],
) -> dict[tuple[int, str, str], tuple[list[float], list[float]]]:
    """Return chunks and losses by processes, probe and signal."""
    curves: dict[tuple[int, str, str], tuple[list[float], list[float]]] = {}
    for matrix in matrices:
        for i, probe in enumerate(matrix.patterns):
            for j, signal in enumerate(matrix.patterns):
                loss = matrix.loss[i][j]
                if loss is not None:
                    chunks, losses = curves.setdefault((matrix.processes, probe, signal), ([], []))
                    chunks.append(float(matrix.chunk_bytes))
                    losses.append(loss)
    return curves


def write(report: Report, directory: Path) -> list[Path]:
    """Write the report into a directory, made if missing; return the files."""
    directory.mkdir(parents=True, exist_ok=True)
    images = pictures(report)
    files = dict(images)
    files["calibration.json"] = json.dumps(to_json(report), indent=2).encode()
    files["index.html"] = _page(report, images).encode()
    for name, content in files.items():
        (directory / name).write_bytes(content)
    return [directory / name for name in files]


def _page(report: Report, images: dict[str, bytes]) -> str:
    """One page without any other file: the pictures are inside."""
    parts = [f"<h1>Interference on {escape(report.site)}</h1>"]
    if report.losses or not report.deltas:
        parts.append(f"<p>{escape(stability_text(report.stability))}.</p>")
    if report.agreement:
        parts.append(f"<p>{escape(agreement_text(report.agreement))}.</p>")
    for heading, lines in even_by_size(report.even):
        items = "".join(f"<li>{escape(line)}</li>" for line in lines)
        parts.append(f"<h2>{heading}</h2><ul>{items}</ul>")
    for name, content in images.items():
        data = base64.b64encode(content).decode()
        parts.append(f'<p><img alt="{escape(name)}" src="data:image/png;base64,{data}"></p>')
    parts += [_table(columns, rows) for columns, rows in _tables(report) if rows]
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8">'
        f"<title>Interference on {escape(report.site)}</title>"
        "<style>body{font:16px sans-serif;margin:2em;max-width:70em}"
        "td,th{padding:.2em .8em;text-align:left}img{max-width:100%}</style>"
        + "\n".join(parts)
        + "</html>\n"
    )


def _tables(report: Report) -> list[tuple[Sequence[str], Sequence[Sequence[str]]]]:
    """Columns and rows of all that the pictures show, and of the rest."""
    losses = [
        (str(cell.victim), _together(cell.others), f"{100 * loss.loss:.0f} %", str(loss.count))
        for cell, loss in report.losses.items()
    ]
    deltas = [
        (*members, f"{p.offset:+.1f} s", f"{p.first:.2f}×", f"{p.second:.2f}×")
        for members, points in report.deltas.items()
        for p in points
    ]
    speeds = [(s.target, str(s.program), f"{s.rate / 1e6:.1f} MB/s") for s in report.speeds]
    controls = [
        (str(c.victim), _together(c.others), f"{100 * c.loss:.0f} %") for c in report.controls
    ]
    over_alone = ("I/O time of the first over alone", "of the second")
    return [
        (("Program", "beside", "loses", "measured"), losses),
        (("First", "Second", "starts later by", *over_alone), deltas),
        (("Target", "Program", "alone"), speeds),
        (("Program", "beside, on another target", "loses"), controls),
    ]


def _together(programs: Sequence[Program]) -> str:
    return " + ".join(map(str, programs))


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in columns)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows
    )
    return f"<table><tr>{head}</tr>{body}</table>"
