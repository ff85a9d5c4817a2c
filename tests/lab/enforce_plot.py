"""The picture of what Sluice's gates gain: who ran and wrote when, and what was lost."""

from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl
from enforce_cases import BYSTANDER, EQUAL, WIDE, Case, Outcome, Prediction, Run
from measured_programs import STREAM, VICTIM

mpl.use("Agg")  # draws into files, wherever it runs

from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.patches import Patch

# Okabe and Ito's colours, told apart by everybody; the hatch says it without colour.
COLOURS = {VICTIM.name: "#0072B2", STREAM.name: "#D55E00", BYSTANDER: "#999999"}
WAITING = {"facecolor": "white", "edgecolor": "#555555", "hatch": "////", "linewidth": 0.8}
COMPUTING = 0.35  # opacity
BAR = 0.7  # of the distance between two rows
FONT = 11
"""Points; the README shows the picture at about two thirds of its size."""


def plot(path: Path, runs: Sequence[Run], prediction: Prediction, label: str) -> None:
    """Draw the runs of both cases in both modes; label says what the targets are."""
    with plt.rc_context({"font.size": FONT, "hatch.color": "#555555"}):
        figure, (left, right) = plt.subplots(
            1, 2, figsize=(12, 5.2), width_ratios=(1.9, 1), layout="constrained"
        )
        _timeline(left, [run for run in runs if run.case == WIDE])
        _losses(right, runs, prediction)
        figure.suptitle(f"Jobs that write real files to two targets: {label}", fontsize=FONT)
        figure.savefig(path, dpi=110, metadata={"Software": None})
        plt.close(figure)


def _timeline(axes: Axes, runs: Sequence[Run]) -> None:
    rows = [(run, job) for run in runs for job in run.jobs]
    for row, (run, job) in enumerate(rows):
        _job(axes, row + (0.6 if run is not runs[0] else 0), job, zero=run.jobs[0].submitted)
    places = [row + (0.6 if run is not runs[0] else 0) for row, (run, _) in enumerate(rows)]
    axes.set_yticks(places, [f"{job.name}, {_nodes(job.nodes)}" for _, job in rows])
    axes.invert_yaxis()
    axes.margins(x=0.02)
    for run, place in zip(runs, (places[0], places[len(places) // 2]), strict=True):
        axes.annotate(
            run.mode,
            (1.0, place - BAR / 2),
            xycoords=("axes fraction", "data"),
            xytext=(-4, 4),
            textcoords="offset points",
            ha="right",
            va="top",
            weight="bold",
        )
    axes.set_xlabel("seconds since the first submission")
    axes.set_title(f"{WIDE.name.capitalize()}: who writes when", fontsize=FONT)
    axes.legend(
        handles=[
            Patch(facecolor="#333333", label="writes"),
            Patch(facecolor="#333333", alpha=COMPUTING, label="computes"),
            Patch(**WAITING, label="waits to start"),
        ],
        loc="upper center",
        bbox_to_anchor=(0.5, -0.14),
        ncols=3,
        frameon=False,
    )


def _job(axes: Axes, row: float, job: Outcome, *, zero: float) -> None:
    colour = COLOURS[job.name]
    height = {"height": BAR, "align": "center"}
    axes.barh(row, job.wait, left=job.submitted - zero, **height, **WAITING)
    axes.barh(row, job.run, left=job.started - zero, color=colour, alpha=COMPUTING, **height)
    for start, end in job.bursts:
        axes.barh(row, end - start, left=start - zero, color=colour, **height)


def _losses(axes: Axes, runs: Sequence[Run], prediction: Prediction) -> None:
    """Stacked by job: node-seconds lost, in observe and enforce."""
    places = {(WIDE, "observe"): 0, (WIDE, "enforce"): 1, (EQUAL, "observe"): 2.6}
    places[EQUAL, "enforce"] = 3.6
    for run in runs:
        floor = 0.0
        for job in run.jobs:
            lost = max(job.lost, 0.0)
            place = places[run.case, run.mode]
            axes.bar(place, lost, bottom=floor, color=COLOURS[job.name], width=0.75)
            floor += lost
        axes.text(places[run.case, run.mode], floor, f"{run.lost:.0f}", ha="center", va="bottom")
    before = next(run.lost for run in runs if (run.case, run.mode) == (WIDE, "observe"))
    axes.errorbar(
        1.55,
        before - prediction.expected,
        yerr=[
            [prediction.high - prediction.expected],
            [prediction.expected - prediction.low],
        ],
        fmt="D",
        color="black",
        markersize=5,
        capsize=4,
        label="enforce, predicted",
    )
    axes.set_xticks(list(places.values()), [mode for _, mode in places], fontsize=FONT - 1)
    axes.set_ylabel("node-seconds lost, waits included")
    axes.set_title("What is lost, in both cases", fontsize=FONT)
    axes.margins(y=0.14)
    for case, place in ((WIDE, 0.5), (EQUAL, 3.1)):
        axes.text(
            place,
            -0.09,
            _caption(case),
            transform=axes.get_xaxis_transform(),
            ha="center",
            va="top",
        )
    axes.legend(
        handles=[
            *(Patch(facecolor=colour, label=name) for name, colour in COLOURS.items()),
            axes.containers[-1],
        ],
        loc="upper right",
        frameon=False,
    )


def _caption(case: Case) -> str:
    return f"{case.name}\n{case.victim_nodes} + 1 nodes"


def _nodes(count: int) -> str:
    return f"{count} nodes" if count > 1 else "1 node"
