"""The picture of turns: who wrote, and who waited, without and with them."""

from collections.abc import Mapping
from pathlib import Path

import matplotlib as mpl
from turns_cases import Outcome, Run

mpl.use("Agg")  # draws into files, wherever it runs

from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.patches import Patch

# Okabe and Ito's colours, told apart by everybody; the hatch says it without colour.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00")
HELD = {"facecolor": "white", "edgecolor": "#555555", "hatch": "////", "linewidth": 0.8}
BAR = 0.7  # of the distance between two rows
FONT = 11
"""Points; the docs show the picture at about two thirds of its size."""


def plot(path: Path, runs: Mapping[str, Run], label: str) -> None:
    """Draw a draw without and with turns; label says what the targets are."""
    with plt.rc_context({"font.size": FONT, "hatch.color": "#555555"}):
        figure, axes = plt.subplots(2, 1, figsize=(10, 6), sharex=True, layout="constrained")
        for one, mode in zip(axes, ("off", "on"), strict=True):
            _timeline(one, runs[mode])
        axes[1].set_xlabel("seconds")
        figure.legend(
            handles=[Patch(facecolor="#333333", label="writes"), Patch(**HELD, label="is held")],
            loc="outside lower center",
            ncols=2,
            frameon=False,
        )
        figure.suptitle(f"Bursts of six jobs on two targets: {label}", fontsize=FONT)
        figure.savefig(path, dpi=110, metadata={"Software": None})
        plt.close(figure)


def _timeline(axes: Axes, run: Run) -> None:
    jobs = sorted(zip(run.jobs, COLOURS, strict=True), key=lambda pair: -pair[0].job.nodes)
    for row, (job, colour) in enumerate(jobs):
        _bursts(axes, row, job, colour)
    axes.set_yticks(range(len(jobs)), [f"{_nodes(job.job.nodes)}" for job, _ in jobs])
    axes.invert_yaxis()
    axes.margins(x=0.01)
    words = "without turns" if run.mode == "off" else "with turns"
    axes.set_title(f"{words}: {run.lost:.0f} node-seconds lost", fontsize=FONT)


def _bursts(axes: Axes, row: int, job: Outcome, colour: str) -> None:
    height = {"height": BAR, "align": "center"}
    for burst in job.bursts:
        axes.barh(row, burst.end - burst.start, left=burst.start, color=colour, **height)
    for hold in job.holds:
        axes.barh(row, hold.end - hold.start, left=hold.start, **height, **HELD)


def _nodes(count: int) -> str:
    return f"{count} nodes" if count > 1 else "1 node"
