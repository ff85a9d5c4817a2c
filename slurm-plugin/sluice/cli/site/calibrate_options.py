"""Options of the commands that measure storage: together they make the settings of a session."""

from __future__ import annotations

import math
import re
import shlex
import shutil
from typing import TYPE_CHECKING, Any

import click

from sluice.cli.common import options, usage_errors

if TYPE_CHECKING:
    from sluice.interference.calibrate.grid import PlannedCoRun
    from sluice.interference.calibrate.session import Settings

DEFAULT_BUDGET = "10m30s"
PROCESSES_OF_A_TASK = 2
MOST_SECONDS = 600.0
_DURATION = re.compile(r"(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s?)?")


def _seconds(_ctx: click.Context, _parameter: click.Parameter, text: str) -> float:
    match = _DURATION.fullmatch(text)
    if not text or not match:
        raise click.BadParameter(f"{text!r} is no time like 90s, 10m or 1h30m")
    hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return float(3600 * hours + 60 * minutes + seconds)


class Seconds(click.FloatRange):
    """Of one run: no program could be told a time that is endless or no number."""

    def __init__(self, least: float) -> None:
        super().__init__(least, MOST_SECONDS)

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        seconds = float(super().convert(value, param, ctx))
        if math.isnan(seconds):
            self.fail(f"{value} is no time", param, ctx)
        return seconds


def _command(_ctx: click.Context, _parameter: click.Parameter, text: str | None) -> tuple[str, ...]:
    try:
        words = tuple(shlex.split(text or ""))
    except ValueError as error:
        raise click.BadParameter(f"{text}: {error}") from None
    if words and not shutil.which(words[0]):
        raise click.BadParameter(f"{words[0]}: no such command")
    return words


counter_option = click.option(
    "--counter",
    "counters",
    multiple=True,
    metavar="NAME=WHERE",
    help="Counter of the bytes that reach a target: a command that prints them, or a "
    "directory on its block device.  [default: that of DIR]",
)


target_options = options(
    click.option(
        "--target",
        "targets",
        multiple=True,
        required=True,
        metavar="NAME=DIR[,DIR]",
        help="A directory whose files lie on one target; with two, each side has a client of "
        "its own. The first target is measured, a second one is a control.",
    ),
    counter_option,
    click.option("--probe", metavar="FILE", help="sluice-probe, if not in PATH."),
    click.option(
        "--srun",
        metavar="WORDS",
        callback=_command,
        help="Start the programs by this, as 'srun -N 4 --ntasks-per-node 1'.",
    ),
    click.option(
        "--tasks",
        default=1,
        show_default=True,
        type=click.IntRange(1),
        help="Tasks that --srun starts; a run with another number is dropped.",
    ),
    click.option(
        "--window",
        default=1.5,
        show_default=True,
        type=Seconds(0.2),
        help="Seconds measured in each run.",
    ),
    click.option(
        "--fill",
        default=0.4,
        show_default=True,
        type=Seconds(0),
        help="Seconds before, for caches to fill.",
    ),
    click.option("--seed", default=1, show_default=True, help="Of the order of runs."),
    click.option("--site", help="A name.  [default: the directory]"),
)


grid_options = options(
    click.option(
        "--budget",
        default=DEFAULT_BUDGET,
        show_default=True,
        callback=_seconds,
        help="Time limit: 90s, 10m, 1h30m.",
    ),
    click.option(
        "--chunk",
        "chunks",
        multiple=True,
        metavar="BYTES",
        help="Chunk sizes of the grid.  [default: 64K 256K 1M 4M 16M]",
    ),
    click.option(
        "--co-run",
        "coruns",
        multiple=True,
        metavar="'PROBE SIGNAL…'",
        help="Measure this, not the grid: 'owc:1M:2 aw:16M:4'.",
    ),
)
"""Options of the co-runs that are measured, and of the time for them."""


def settings_of(
    *,
    targets: tuple[str, ...],
    counters: tuple[str, ...],
    srun: tuple[str, ...],
    tasks: int,
    window: float,
    fill: float,
    seed: int,
    budget: float,
    chunks: tuple[str, ...],
    coruns: tuple[str, ...],
    **_: object,
) -> Settings:
    from sluice.interference.calibrate.grid import CHUNKS, default_grid, most_informative_first
    from sluice.interference.calibrate.protocol import Timing, check
    from sluice.interference.calibrate.servers import ROUNDS
    from sluice.interference.calibrate.session import LEAD_SECONDS, SRUN_LEAD_SECONDS, Settings
    from sluice.interference.calibrate.targets import parse_targets
    from sluice.interference.programs import CalibrationError, parse_size

    with usage_errors(CalibrationError):
        places = parse_targets(targets, counters)
        sizes = tuple(sorted(map(parse_size, chunks)))
        plan = [_corun(text) for text in coruns]
    grid = default_grid(
        sizes or CHUNKS,
        processes=PROCESSES_OF_A_TASK * tasks,
        several_targets=len(places) > 1,
    )
    plan = plan or most_informative_first(grid)
    with usage_errors(CalibrationError):
        for program in (p for corun in plan for p in (corun.probe, *corun.signals)):
            check(program, tasks)
    if tasks > 1 and not srun:
        raise click.UsageError(f"--tasks {tasks}: only --srun starts several")
    return Settings(
        targets=places,
        plan=tuple(plan),
        timing=Timing(fill=fill, window=window),
        budget=budget,
        seed=seed,
        prefix=srun,
        tasks=tasks,
        lead_seconds=SRUN_LEAD_SECONDS if srun else LEAD_SECONDS,
        rounds=0 if coruns else ROUNDS,
    )


def _corun(text: str) -> PlannedCoRun:
    from sluice.interference.calibrate.grid import PlannedCoRun
    from sluice.interference.programs import Program

    programs = [Program.parse(word) for word in text.split()]
    if len(programs) < 2:
        raise click.UsageError(f"{text!r}: name a probe and at least one signal")
    return PlannedCoRun(programs[0], tuple(programs[1:]))
