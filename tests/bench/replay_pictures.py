"""Draws the pictures of replays in the docs: `make picture`.

What a replay costs by the number of its jobs (replay_bench.py measures it), and what policies make
of KTH-SP2 (Parallel Workloads Archive, Lars Malinowsky, KTH), where that is next to the repository.
"""

import os
from pathlib import Path

import replay_bench

from sluice.cli.plots import picture, replay_pictures
from sluice.sim.replay.compare import compare
from sluice.sim.replay.experiment import Experiment
from sluice.sim.replay.figures import FIGURES

DOCS = Path(__file__).resolve().parents[2] / "docs" / "evidence"
POLICIES = ("sluice-auto", "turns", "two-groups", "license-cap")
OPTIONS = (("max_delay", "86400"), ("wait_price", "0.01"))
"""Those at which Sluice delays jobs on this trace: docs/evidence/replays.md says why."""
DRAWS = 19
SHOWN = {"lost_slot_hours": "replay-lost.png", "wait_p99_s": "replay-wait.png"}


def draw_costs() -> None:
    curves = {
        "EASY": ("-", replay_bench.costs()),
        "EASY, contention, Sluice": ("--", replay_bench.costs_with_io()),
    }

    def paint(axes, data):
        for name, (dashes, costs) in data.items():
            seconds = [count * cost for count, cost in costs.items()]
            axes.plot(list(costs), seconds, "o" + dashes, label=name)
        axes.set(xscale="log", yscale="log", xlabel="jobs", ylabel="seconds of processor time")
        axes.grid(visible=True, linewidth=0.3)
        axes.legend(fontsize="small")

    (DOCS / "replay-cost.png").write_bytes(picture(paint, curves))


def draw_comparison() -> None:
    experiment = Experiment(
        trace=str(replay_bench.KTH), io_share=replay_bench.HEAVY, options=OPTIONS
    )
    workers = os.cpu_count() or 1
    comparison = compare(experiment.draw, POLICIES, repeats=DRAWS, workers=workers)
    drawn = {one.title: one for one in replay_pictures(comparison)}
    for figure, file in SHOWN.items():
        one = drawn[FIGURES[figure].title]
        (DOCS / file).write_bytes(one.png)
        print(f"{file}: {one.alt}")


if __name__ == "__main__":
    draw_costs()
    if replay_bench.KTH.exists():
        draw_comparison()
