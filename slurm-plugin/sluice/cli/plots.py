"""All pictures, as PNG, each with words that say the same. The only importer of matplotlib."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from sluice.serve.tables import Picture
from sluice.sim.replay.compare import PLAIN
from sluice.sim.replay.figures import FIGURES, has_io
from sluice.sim.storage.mean_field import station_shares

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    from sluice.sim.replay.compare import Comparison
    from sluice.sim.replay.io_replay import IoOutcomes

    Array = NDArray[np.float64]

COLOURS = ("#5b5b5b", "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
"""Okabe and Ito's, which tell apart also without red or green; the first is plain Slurm."""
DASHES = ("-", "--", "-.", ":")
"""So that lines can be told apart without any colour."""
BLUE, GREY = "#2f6f9f", "#9a9a9a"
SIZE, WIDE = (5.2, 4.2), (10.0, 4.8)
"""Inches."""
HOUR = 3600.0


def picture(
    paint: Any, data: Any, *, size: tuple[float, float] = SIZE, rows: int = 1, columns: int = 1
) -> bytes:
    """Return what paint(axes, data) draws, size in inches; rows above each other share x.

    axes is one, or an array of several. Equal data give equal bytes.
    """
    figure = Figure(figsize=size, dpi=100, layout="constrained")
    FigureCanvasAgg(figure)
    paint(figure.subplots(rows, columns, sharex=rows > 1 and columns == 1), data)
    buffer = io.BytesIO()
    # Without the version of the library.
    figure.savefig(buffer, format="png", metadata={"Software": None})
    return buffer.getvalue()


def _style(number: int) -> dict[str, Any]:
    return {
        "color": COLOURS[number % len(COLOURS)],
        "linestyle": DASHES[number % len(DASHES)],
    }


# Reports of a month


def report_pictures(facts: dict[str, Any]) -> dict[str, list[Picture]]:
    """Return pictures by the heading of the section that they belong to."""
    users = facts["effects"]["by_user"][:USERS_SHOWN]
    found: dict[str, list[Picture]] = {}
    if users:
        title = "Gains and costs by user, in node-hours"
        gains = Picture(title, f"{title}; the table has them", picture(_gains, users))
        for heading in ("What Sluice did", "What Sluice would have done"):
            found[heading] = [gains]
    rows = facts["predictions"]["reliability"]
    if rows:
        title = "How often predictions came true, by the certainty they were made with"
        whole = {
            "reliability": [(row["said"], row["came_true"], row["jobs"]) for row in rows],
            "logs": sum(row["jobs"] for row in rows),
            "calibration_error": facts["predictions"]["all"]["calibration_error"],
        }
        image = picture(reliability_plot, whole)
        found["How right it was"] = [Picture(title, title, image)]
    return found


def reliability_plot(axes: Axes, found: dict[str, Any]) -> None:
    """Paint how often answers of each class of confidence were right; found is `quality`."""
    axes.plot([0, 1], [0, 1], color=GREY, linewidth=1)
    for confidence, right, count in found["reliability"]:
        axes.scatter(confidence, right, s=20 + 200 * count / found["logs"], color=BLUE)
        axes.annotate(str(count), (confidence, right), textcoords="offset points", xytext=(6, -10))
    axes.set(xlim=(0, 1.03), ylim=(0, 1.03), xlabel="confidence", ylabel="share that is right")
    axes.set_title(f"expected calibration error {found['calibration_error']:.3f}", fontsize="small")


USERS_SHOWN = 12


def _gains(axes: Axes, users: Sequence[dict[str, Any]]) -> None:
    names = [str(row["user"]) for row in users][::-1]
    for key, label, colour in (
        ("net_node_hours", "net, less the price of waits", BLUE),
        ("waited_node_hours", "waited", GREY),
    ):
        values = [row[key] for row in users][::-1]
        axes.barh(names, values, color=colour, alpha=0.7, height=0.4 if colour == GREY else 0.8)
        axes.plot([], [], color=colour, linewidth=6, label=label)
    axes.axvline(0, color="black", linewidth=0.8)
    axes.set(xlabel="node-hours")
    axes.legend(fontsize="small")


# Replays

BINS = 240
"""Of the timeline."""
COMPARED = ("lost_slot_hours", "io_slowdown_p99", "wait_mean_s", "wait_p99_s")


def replay_pictures(comparison: Comparison) -> list[Picture]:
    """Draw all; equal comparisons give equal bytes."""
    return [
        _timeline(comparison),
        _tail(comparison, "wait", "wait in hours", _waits),
        _tail(
            comparison,
            "slowdown of jobs with I/O",
            "run time over run time alone",
            _slowdowns,
            scale="log",
        ),
        *(_compared(comparison, name) for name in COMPARED),
    ]


def _policy_style(comparison: Comparison, policy: str) -> dict[str, Any]:
    return _style(comparison.policies.index(policy))


def _timeline(comparison: Comparison) -> Picture:
    rows = {name: _use(comparison, name) for name in comparison.policies}
    edges = _edges(comparison)
    hours = (edges[1:] + edges[:-1]) / 2 / HOUR

    def paint(axes: Sequence[Axes], data: dict[str, tuple[Array, Array]]) -> None:
        for name, values in data.items():
            style = _policy_style(comparison, name)
            for one, value in zip(axes, values, strict=True):
                one.plot(hours, value, label=name, linewidth=1, **style)
        axes[0].set(ylabel="slots busy", ylim=(0, 1.05))
        axes[1].set(ylabel="I/O on the targets", xlabel="hours since the first submission")
        axes[1].axhline(1.0, color=GREY, linewidth=1)
        axes[0].legend(
            fontsize="small", ncols=4, loc="lower left", bbox_to_anchor=(0, 1), frameon=False
        )

    words = "; ".join(
        f"{name}: {np.mean(busy):.0%} of the slots busy on average, I/O {np.mean(load):.0%} of "
        f"what the storage can do, {np.max(load):.0%} at most"
        for name, (busy, load) in rows.items()
    )
    return Picture(
        "Slots and I/O over time",
        f"Two curves over time for each policy. {words}.",
        picture(paint, rows, size=WIDE, rows=2),
        is_wide=True,
    )


def _edges(comparison: Comparison) -> Array:
    last = max(float(np.nanmax(one.results["end"])) for one in comparison.outcomes.values())
    return np.linspace(0.0, max(last, 1.0), BINS + 1)


def _use(comparison: Comparison, policy: str) -> tuple[Array, Array]:
    """Return the share of the slots in use, and the I/O as a share of all targets, in each bin.

    A job's I/O is spread evenly over its run.
    """
    outcomes, edges = comparison.outcomes[policy], _edges(comparison)
    ran = outcomes.ran & (outcomes.runtime > 0)
    draw = comparison.draw
    config = draw.storage.configuration()
    jobs = outcomes.replayable.workload.jobs
    loads = draw.profiles.loads(outcomes.replayable.workload, config)
    work = station_shares(loads, config)[:, 0] * outcomes.io_seconds_alone
    start, end = outcomes.results["start"][ran], outcomes.results["end"][ran]
    slots = jobs["slots"][ran].astype(np.float64)
    machine = outcomes.replayable.workload.machine.slots
    rate = work[ran] / outcomes.runtime[ran]
    return _average(start, end, slots, edges) / machine, _average(start, end, rate, edges)


def _average(start: Array, end: Array, amount: Array, edges: Array) -> Array:
    """Average over each bin the sum of the amounts of what is between start and end."""
    if not len(start):
        return np.zeros(len(edges) - 1)
    times = np.concatenate([start, end])
    order = np.argsort(times, kind="stable")
    times, steps = times[order], np.concatenate([amount, -amount])[order]
    level = np.concatenate([[0.0], np.cumsum(steps)])
    grown = np.concatenate([[0.0], np.cumsum(level[1:-1] * np.diff(times))])
    whole = np.interp(edges, times, grown, left=0.0)
    return np.asarray(np.maximum(np.diff(whole) / np.diff(edges), 0.0))


def _waits(outcomes: IoOutcomes) -> Array:
    return np.asarray(outcomes.wait[outcomes.ran] / HOUR)


def _slowdowns(outcomes: IoOutcomes) -> Array:
    return np.asarray(outcomes.job_slowdown[has_io(outcomes)])


def _tail(
    comparison: Comparison,
    what: str,
    label: str,
    values: Callable[[IoOutcomes], Array],
    *,
    scale: str = "linear",
) -> Picture:
    """Draw which share of the jobs has more, which shows the tail that a mean hides."""
    drawn = {name: np.sort(values(one)) for name, one in comparison.outcomes.items()}
    data = {name: one for name, one in drawn.items() if len(one)}

    def paint(axes: Axes, data: dict[str, Array]) -> None:
        axes.set(xlabel=label, ylabel="share of the jobs with as much or more")
        if not data:
            return  # there is nothing to scale
        for name, sorted_values in data.items():
            count = len(sorted_values)
            more = 1 - np.arange(count) / count
            style = _policy_style(comparison, name)
            axes.step(sorted_values, more, where="post", label=name, **style)
        axes.set(xscale=scale, yscale="log")
        axes.legend(fontsize="small")

    words = "; ".join(
        f"{name}: median {np.quantile(one, 0.5):.3g}, p99 {np.quantile(one, 0.99):.3g}, "
        f"largest {one[-1]:.3g}"
        for name, one in data.items()
    )
    return Picture(
        f"{what[0].upper()}{what[1:]}: distribution",
        f"Share of the jobs that have at least so much ({label}). {words or 'No job has any'}.",
        picture(paint, data),
    )


def _compared(comparison: Comparison, figure: str) -> Picture:
    meaning = FIGURES[figure]
    scale = HOUR if meaning.unit == "seconds" else 1.0
    unit = "hours" if meaning.unit in ("seconds", "hours") else meaning.unit
    values = {
        name: (comparison.value(name, figure), comparison.interval(name, figure))
        for name in comparison.policies
    }
    known = {name: (value, range_) for name, (value, range_) in values.items() if value is not None}

    def paint(axes: Axes, data: dict[str, Any]) -> None:
        for i, (name, (value, range_)) in enumerate(data.items()):
            colour = _policy_style(comparison, name)["color"]
            if range_:
                axes.plot([range_.low / scale, range_.high / scale], [i, i], color=colour)
            axes.plot(value / scale, i, "o", color=colour)
        axes.set_yticks(range(len(data)), list(data))
        axes.invert_yaxis()
        axes.set(xlabel=unit)
        axes.margins(x=0.08, y=0.2)
        if PLAIN in data:
            axes.axvline(data[PLAIN][0] / scale, color=GREY, linewidth=1)

    words = "; ".join(
        f"{name} {value / scale:.3g}"
        + (f" ({range_.low / scale:.3g} to {range_.high / scale:.3g})" if range_ else "")
        for name, (value, range_) in known.items()
    )
    return Picture(
        meaning.title,
        f"{meaning.title}, {unit}, by policy: {words or 'not known'}.",
        picture(paint, known),
    )
