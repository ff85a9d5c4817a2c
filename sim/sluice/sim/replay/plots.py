"""Pictures of a comparison of policies, as PNG, each with words for who cannot see it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sluice.patterns.plots import GREY, picture
from sluice.sim.replay.compare import PLAIN
from sluice.sim.replay.figures import FIGURES, has_io
from sluice.sim.storage.contention import station_shares

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    from sluice.sim.replay.compare import Comparison
    from sluice.sim.replay.io_outcomes import IoOutcomes

    Array = NDArray[np.float64]

COLOURS = ("#5b5b5b", "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
"""Okabe and Ito's, which tell apart also without red or green; the first is plain Slurm."""
DASHES = ("-", "--", "-.", ":")
"""So that lines can be told apart without any colour."""
WIDE, HIGH = (10.0, 4.8), (5.2, 4.2)
"""Sizes in inches."""
BINS = 240
"""Of the timeline."""
COMPARED = ("lost_slot_hours", "io_slowdown_p99", "wait_mean_s", "wait_p99_s")
HOUR = 3600.0


@dataclass(frozen=True, slots=True)
class Picture:
    """One with its words."""

    title: str
    alt: str
    png: bytes
    is_wide: bool = False


def pictures(comparison: Comparison) -> list[Picture]:
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


def _style(comparison: Comparison, policy: str) -> dict[str, Any]:
    i = comparison.policies.index(policy)
    return {"color": COLOURS[i % len(COLOURS)], "linestyle": DASHES[i % len(DASHES)]}


# Timeline


def _timeline(comparison: Comparison) -> Picture:
    rows = {name: _use(comparison, name) for name in comparison.policies}
    edges = _edges(comparison)
    hours = (edges[1:] + edges[:-1]) / 2 / HOUR

    def paint(axes: Sequence[Axes], data: dict[str, tuple[Array, Array]]) -> None:
        for name, values in data.items():
            for one, value in zip(axes, values, strict=True):
                one.plot(hours, value, label=name, linewidth=1, **_style(comparison, name))
        axes[0].set(ylabel="slots busy", ylim=(0, 1.05))
        axes[1].set(ylabel="I/O on the targets", xlabel="hours since the first submission")
        axes[1].axhline(1.0, color=GREY, linewidth=1)
        axes[0].legend(fontsize="small", ncols=4)

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


# Distributions


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
            axes.step(sorted_values, more, where="post", label=name, **_style(comparison, name))
        axes.set(xscale=scale, yscale="log")
        axes.legend(fontsize="small")

    words = "; ".join(
        f"{name}: median {np.quantile(one, 0.5):.3g}, p99 {np.quantile(one, 0.99):.3g}, "
        f"largest {one[-1]:.3g}"
        for name, one in data.items()
    )
    title = what[0].upper() + what[1:]
    return Picture(
        f"{title}: distribution",
        f"Share of the jobs that have at least so much ({label}). {words or 'No job has any'}.",
        picture(paint, data, size=HIGH),
    )


# Comparison


def _compared(comparison: Comparison, figure: str) -> Picture:
    meaning = FIGURES[figure]
    scale = HOUR if meaning.unit == "seconds" else 1.0
    unit = "hours" if meaning.unit in ("seconds", "hours") else meaning.unit
    values = {
        name: (comparison.figures[name][0][figure], comparison.interval(name, figure))
        for name in comparison.policies
    }
    known = {name: (value, range_) for name, (value, range_) in values.items() if value is not None}

    def paint(axes: Axes, data: dict[str, Any]) -> None:
        for i, (name, (value, range_)) in enumerate(data.items()):
            colour = _style(comparison, name)["color"]
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
        picture(paint, known, size=HIGH),
    )
