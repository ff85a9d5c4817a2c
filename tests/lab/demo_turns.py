"""The last part of `make demo`: bursts of running jobs take turns on slow storage targets."""

import statistics
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from turns_cases import STREAMS, Run, draw
from turns_lab import LIMITS, TurnsLab
from turns_plot import plot
from turns_predicted import predict
from turns_report import prediction, recoveries

from sluice.cli.common import show_table

DRAWS = 2
MODES = ("off", "on")
COLUMNS = ("Job", "Nodes", "Alone", "Without turns", "With turns", "Held", "Lost", "Then lost")


def show(place: Path, picture: Path, say: Callable[[str], None]) -> None:
    """Run everything below place, print it, save the picture. say prints a heading."""
    say("13. Bursts of running jobs take turns")
    print("Six programs alone, then all together, without and with turns: 3 minutes …", flush=True)
    place.mkdir()
    limits = LIMITS[STREAMS.name]
    drawn = [draw(STREAMS, number) for number in range(DRAWS)]
    labs = [TurnsLab(place / f"{i}", MODES, limits=limits) for i in range(DRAWS)]
    with labs[0], labs[1], ThreadPoolExecutor(DRAWS) as threads:
        parts = [STREAMS.programs[i::DRAWS] for i in range(DRAWS)]
        found = threads.map(lambda lab, part: lab.alone(part), labs, parts)
        alone = {name: one for part in found for name, one in part.items()}
        print(prediction([predict(one, limits, alone, seed) for one in drawn for seed in range(5)]))
        runs = list(threads.map(lambda lab, one: lab.run(one, alone), labs, drawn))
        label = labs[0].benches[0].targets.label
    show_jobs(runs[0]["off"], runs[0]["on"])
    for one in runs:
        print(f"Node-seconds lost: {one['off'].lost:.0f}, with turns {one['on'].lost:.0f}.")
    print(f"Recovered: {statistics.mean(recoveries(runs, 'on')):.0%} of {DRAWS} draws' loss.")
    plot(picture, runs[0], label)
    print(f"\nPicture of the first draw: {picture.resolve()}")


def show_jobs(off: Run, on: Run) -> None:
    show_table(
        COLUMNS,
        [
            (
                before.job.program.name,
                before.job.nodes,
                *(f"{one:.1f}" for one in (before.alone, before.seconds, after.seconds)),
                *(f"{one:.1f}" for one in (after.held, before.lost, after.lost)),
            )
            for before, after in zip(off.jobs, on.jobs, strict=True)
        ],
    )
    print("\nSeconds; Lost: nodes times the seconds by which a job is slower than alone.")
