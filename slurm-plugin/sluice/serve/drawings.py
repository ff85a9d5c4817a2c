"""Drawings of the pages, as SVG: shapes in plain members; the templates escape their texts.

All can be read without colour: by hatching, dashes and numbers. The table with the same numbers is
one click away. Colours are classes of the style sheet, so that they fit light and dark.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from sluice.slurm.views.formatting import share_text, time_text

if TYPE_CHECKING:
    from collections.abc import Sequence

WIDTH, LEFT, RIGHT, TOP = 520, 84, 14, 10
"""Of a drawing, and its margins; the names of rows stand on the left."""
SHORT = 13
"""Characters of a name that have room there."""
BAR, CURVE, GAP, AXIS = 16, 36, 10, 24
"""Heights of a row's bars and curve, and of what is between and below."""
STEPS = (60, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800, 2592000)
"""Seconds between ticks of an axis of time."""
MOST_TICKS = 5
DASHES = ("none", "6 3", "2 3", "8 3 2 3")
"""Of the first curve, the second, …"""


class Shape(NamedTuple):
    """An element of SVG; names of tags and attributes are ours, texts anybody's."""

    tag: str
    attributes: dict[str, str | float]
    text: str = ""
    title: str = ""
    """Shown where a pointer rests on it."""


@dataclass(frozen=True, slots=True)
class Drawing:
    """A drawing, and the words that stand for it where it cannot be seen."""

    alt: str
    width: float
    height: float
    fits: bool = False
    """Whether it is as wide as there is room; else it scrolls where there is too little."""
    shapes: list[Shape] = field(default_factory=list)

    def add(self, tag: str, kind: str, *, title: str = "", **more: str | float) -> None:
        """Add a shape of a class of the style sheet."""
        values = {
            name.replace("_", "-"): round(value, 2) if isinstance(value, float) else value
            for name, value in more.items()
        }
        self.shapes.append(Shape(tag, {"class": kind, **values}, title=title))

    def write(self, x: float, y: float, text: str, anchor: str = "start") -> None:
        place: dict[str, str | float] = {"x": round(x, 2), "y": round(y, 2), "text-anchor": anchor}
        self.shapes.append(Shape("text", place, text))

    def line(self, kind: str, *ends: float) -> None:
        x1, y1, x2, y2 = ends
        self.add("line", kind, x1=x1, y1=y1, x2=x2, y2=y2)

    def as_json(self) -> dict[str, Any]:
        return asdict(self) | {"shapes": [shape._asdict() for shape in self.shapes]}


# Heat maps


class HeatCell(NamedTuple):
    """A share from 0 to 1, what is said of it, and whether it was measured."""

    share: float
    title: str
    is_measured: bool


CELL_WIDTH, CELL_HEIGHT = 58, 24
SCALE = (0.0, 0.25, 0.5, 0.75, 1.0)


def heat_map(
    alt: str, heading: str, names: Sequence[str], cells: Sequence[Sequence[HeatCell]], other: str
) -> Drawing:
    """Draw what rows lose to columns, with a scale; other: what stands in unmeasured cells."""
    left, top = 80, 40
    bottom = top + CELL_HEIGHT * len(names)
    drawing = Drawing(alt, left + CELL_WIDTH * len(names) + RIGHT, bottom + 56)
    drawing.write(left, 14, heading)
    for i, name in enumerate(names):
        drawing.write(left + CELL_WIDTH * (i + 0.47), top - 7, name, "middle")
        drawing.write(left - 6, top + CELL_HEIGHT * i + 15, name, "end")
    for i, row in enumerate(cells):
        for j, cell in enumerate(row):
            _heat_cell(drawing, left + CELL_WIDTH * j, top + CELL_HEIGHT * i, cell)
    drawing.write(left - 6, bottom + 31, "scale", "end")
    for i, share in enumerate(SCALE):
        _heat_cell(
            drawing, left + CELL_WIDTH * i, bottom + 16, HeatCell(share, "", is_measured=True)
        )
    for place, text, is_measured in ((5.4, "measured here", True), (8.4, other, False)):
        x = left + CELL_WIDTH * place
        _heat_cell(drawing, x, bottom + 16, HeatCell(0.0, "", is_measured), has_text=False)
        drawing.write(x + CELL_WIDTH + 4, bottom + 31, text)
    return drawing


def _heat_cell(
    drawing: Drawing, x: float, y: float, cell: HeatCell, *, has_text: bool = True
) -> None:
    """Draw a cell: framed where it was measured, else hatched along its edge."""
    width, height = CELL_WIDTH - 3, CELL_HEIGHT - 3
    share = max(0.0, min(1.0, cell.share))
    drawing.add(
        "rect",
        "heat measured" if cell.is_measured else "heat",
        title=cell.title,
        x=x,
        y=y,
        width=width,
        height=height,
        fill_opacity=0.04 + 0.42 * share,
    )
    if not cell.is_measured:
        lines = (f"M{x + i:.0f} {y + height:.0f}l5 -5" for i in range(0, width - 4, 6))
        drawing.add("path", "hatch", d="".join(lines))
    if has_text:
        drawing.write(x + width / 2, y + 15, share_text(cell.share), "middle")


# Rows over time


class Span(NamedTuple):
    """A time on a row: kind is job, burst, held, wait, predicted, or range, which is a line."""

    start: float
    end: float
    kind: str
    title: str


class Mark(NamedTuple):
    """An instant on a row."""

    at: float
    text: str


class Row(NamedTuple):
    """Something that is drawn over time: bars, instants, and a curve of what it did."""

    name: str
    spans: Sequence[Span] = ()
    marks: Sequence[Mark] = ()
    points: Sequence[tuple[float, float]] = ()
    """Of the curve: time and value."""
    top: float = 0.0
    """The value that the curve's height stands for."""
    top_text: str = ""


def rows_over_time(alt: str, rows: Sequence[Row], since: float, until: float) -> Drawing:
    """Draw rows below each other, on one axis of time."""
    heights = [(CURVE if row.top else 0) + (BAR if row.spans or row.marks else 0) for row in rows]
    height = TOP + sum(heights) + GAP * len(rows)
    drawing = Drawing(alt, WIDTH, height + AXIS, fits=True)
    at = _Scale(since, max(until, since + 1), LEFT, WIDTH - RIGHT)
    for tick, text in _time_ticks(since, until):
        drawing.line("grid", at(tick), TOP, at(tick), height)
        drawing.write(at(tick), height + 15, text, "middle")
    y = float(TOP)
    for row, tall in zip(rows, heights, strict=True):
        drawing.write(LEFT - 8, y + min(tall, CURVE) / 2 + 5, _short(row.name), "end")
        if row.top:
            _curve(drawing, row, at, y)
        _bars(drawing, row, at, y + tall - BAR)
        y += tall + GAP
        drawing.line("grid", LEFT, y - GAP / 2, WIDTH - RIGHT, y - GAP / 2)
    return drawing


class _Scale(NamedTuple):
    """From values to places; what is outside lies on the edge."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        share = (value - self.low) / (self.high - self.low)
        return self.start + (self.end - self.start) * max(0.0, min(1.0, share))


def _short(text: str) -> str:
    return text if len(text) <= SHORT else f"{text[: SHORT - 1]}…"


def _curve(drawing: Drawing, row: Row, at: _Scale, y: float) -> None:
    level = _Scale(0.0, row.top, y + CURVE - 4, y + 2)
    drawing.write(LEFT + 3, y + 10, row.top_text)
    drawing.line("limit", LEFT, y + 2, WIDTH - RIGHT, y + 2)
    if row.points:
        drawing.add("polyline", "curve", points=_points(row.points, at, level))


def _points(points: Sequence[tuple[float, float]], x: _Scale, y: _Scale) -> str:
    return " ".join(f"{x(one):.1f},{y(other):.1f}" for one, other in points)


def _bars(drawing: Drawing, row: Row, at: _Scale, y: float) -> None:
    for span in row.spans:
        if span.end < at.low or span.start > at.high:
            continue
        x, end = at(span.start), at(span.end)
        if span.kind == "range":
            path = f"M{x:.1f} {y + 2}v12m0 -6H{end:.1f}m0 -6v12"
            drawing.add("path", "mark", title=span.title, d=path)
            continue
        drawing.add(
            "rect",
            f"bar-{span.kind}",
            title=span.title,
            x=x,
            y=y + 3,
            width=max(1.5, end - x),
            height=BAR - 6,
        )
        if span.kind == "held":
            lines = (f"M{x + i:.1f} {y + BAR - 3:.1f}l5 -10" for i in range(0, int(end - x) - 4, 6))
            drawing.add("path", "hatch", d="".join(lines))
    for mark in row.marks:
        x = at(mark.at)
        drawing.add("path", "mark", title=mark.text, d=f"M{x:.1f} {y}v{BAR}m-4 0h8")
        is_right = x > (LEFT + WIDTH) / 2
        drawing.write(
            x - 6 if is_right else x + 6, y + 12, mark.text, "end" if is_right else "start"
        )


def _time_ticks(since: float, until: float) -> list[tuple[float, str]]:
    """Return times on whole steps of the day, and how they are written."""
    wanted = (until - since) / MOST_TICKS
    step = next((one for one in STEPS if one >= wanted), math.ceil(wanted / STEPS[-1]) * STEPS[-1])
    first = math.ceil(since / step) * step
    return [(tick, _tick_text(tick, step)) for tick in range(first, int(until) + 1, step)]


def _tick_text(tick: int, step: int) -> str:
    text = time_text(tick)
    return text[5:10] if step >= 86400 else text[11:16]


# Charts


class Curve(NamedTuple):
    """Points that are joined, or lie by themselves: each x, y and what is said of it."""

    name: str
    points: Sequence[tuple[float, float, str]]
    is_joined: bool = True


CHART_WIDTH, CHART_HEIGHT = 460, 250


def chart(
    alt: str,
    curves: Sequence[Curve],
    x_title: str,
    y_title: str,
    *,
    since: float | None = None,
    until: float = 1.0,
) -> Drawing:
    """Draw shares from 0 to 1: over a time from since to until, else over a share."""
    drawing = Drawing(alt, CHART_WIDTH, CHART_HEIGHT + 44 + 16 * len(curves))
    x = _Scale(since or 0.0, until, 46, CHART_WIDTH - 2 * RIGHT)
    y = _Scale(0.0, 1.0, CHART_HEIGHT, 28)
    drawing.write(4, 14, y_title)
    for share in SCALE:
        drawing.line("grid", x.start, y(share), x.end, y(share))
        drawing.write(40, y(share) + 4, share_text(share), "end")
    ticks = [(one, share_text(one)) for one in SCALE]
    for tick, text in ticks if since is None else _time_ticks(since, until):
        drawing.line("grid", x(tick), y.start, x(tick), y.start + 4)
        drawing.write(x(tick), y.start + 17, text, "middle")
    drawing.write(x.end, y.start + 33, x_title, "end")
    for number, curve in enumerate(curves):
        below = y.start + 44 + 16 * number
        dash = DASHES[number % len(DASHES)]
        _chart_curve(drawing, curve, dash, x, y)
        drawing.add("path", "curve", d=f"M46 {below}h30", stroke_dasharray=dash)
        drawing.write(84, below + 4, curve.name)
    return drawing


def _chart_curve(drawing: Drawing, curve: Curve, dash: str, x: _Scale, y: _Scale) -> None:
    if curve.is_joined:
        points = [(one, other) for one, other, _ in curve.points]
        drawing.add("polyline", "curve", points=_points(points, x, y), stroke_dasharray=dash)
    for one, other, title in curve.points:
        if title:
            drawing.add("circle", "point", title=title, cx=x(one), cy=y(other), r=4)
