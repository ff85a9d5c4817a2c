"""The picture of two jobs without Sluice and with it: when each ran, wrote and was held."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import matplotlib as mpl
from demo_lab import ARCHIVE, SWEEP, CoRun, Job

from sluice.darshan.log import read_log

mpl.use("Agg")  # draws into files, wherever it runs

from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.patches import Patch

# Okabe and Ito's colours, told apart by everybody; the hatch says it without colour.
COLOURS = {SWEEP.name: "#0072B2", ARCHIVE.name: "#D55E00"}
HELD = {"facecolor": "none", "edgecolor": "#555555", "hatch": "////", "linewidth": 0.8}
RUNS = 0.25  # opacity
BAR = 0.7  # of the distance between two rows
FONT = 11
"""Points; the docs show the picture at about two thirds of its size."""


def plot(path: Path, runs: Mapping[str, CoRun], alone: Mapping[str, float], label: str) -> None:
    """Draw two runs by their titles; label says what the targets are."""
    with plt.rc_context({"font.size": FONT, "hatch.color": "#555555"}):
        figure, axes = plt.subplots(2, 1, figsize=(10, 4.2), sharex=True, layout="constrained")
        for one, (title, run) in zip(axes, runs.items(), strict=True):
            _timeline(one, run)
            one.set_title(f"{title}: {run.lost(alone):.0f} node-seconds lost", fontsize=FONT)
        axes[-1].set_xlabel("seconds")
        figure.legend(
            handles=[
                Patch(facecolor="#333333", label="writes"),
                Patch(facecolor="#333333", alpha=RUNS, label="runs"),
                *([Patch(**HELD, label="is held")] if any(r.holds for r in runs.values()) else []),
            ],
            loc="outside lower center",
            ncols=3,
            frameon=False,
        )
        figure.suptitle(f"Two jobs on two targets: {label}", fontsize=FONT)
        figure.savefig(path, dpi=110, metadata={"Software": None})
        plt.close(figure)


def _timeline(axes: Axes, run: CoRun) -> None:
    zero = run.sweep.started
    for row, job in enumerate(run.jobs):
        colour = COLOURS[job.program.name]
        axes.barh(row, job.seconds, left=job.started - zero, height=BAR, color=colour, alpha=RUNS)
        busy = [(start - zero, seconds) for start, seconds in _writes(job)]
        axes.broken_barh(busy, (row - BAR / 2, BAR), facecolor=colour)
    for start, end in run.holds:
        axes.barh(1, end - start, left=start - zero, height=BAR, **HELD)
    axes.set_yticks((0, 1), [f"{job.program.name}, {_nodes(job)}" for job in run.jobs])
    axes.invert_yaxis()
    axes.margins(x=0.01)


def _writes(job: Job) -> Iterator[tuple[float, float]]:
    """When the job wrote, by the heatmaps of its logs: start and seconds."""
    for path in job.logs:
        log = read_log(path)
        if log.heatmap is None:
            continue
        for number, written in enumerate(log.heatmap.written):
            if written:
                yield log.start + number * log.heatmap.bin_seconds, log.heatmap.bin_seconds


def _nodes(job: Job) -> str:
    count = job.program.nodes
    return f"{count} nodes" if count > 1 else "1 node"
