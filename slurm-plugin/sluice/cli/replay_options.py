"""Options of the commands that replay traces: together they make an Experiment."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from sluice.sim.replay.experiment import Experiment

FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
Function = TypeVar("Function", bound="Callable[..., Any]")


def pairs(
    _context: click.Context, parameter: click.Parameter, values: tuple[str, ...]
) -> dict[str, str]:
    """Take KEY=VALUE options apart."""
    for value in values:
        if "=" not in value:
            raise click.BadParameter(f"{value!r} is not KEY=VALUE", param=parameter)
    return dict(value.split("=", 1) for value in values)


def written(
    *names: str,
    endings: Sequence[str] = (),
    required: bool = False,
    metavar: str = "FILE",
    text: str,
) -> Callable[[Function], Function]:
    """Return an option for a file that the command writes, whose name must have such an ending."""

    def check(
        _context: click.Context, parameter: click.Parameter, path: Path | None
    ) -> Path | None:
        if path is not None and endings and path.suffix not in endings:
            *most, last = endings
            said = f"{', '.join(most)} or {last}" if most else last
            raise click.UsageError(f"{parameter.opts[0]} {path}: end its name in {said}")
        return path

    return click.option(
        *names,
        type=click.Path(dir_okay=False, path_type=Path),
        callback=check,
        required=required,
        metavar=metavar,
        help=text,
    )


def repeat(text: str) -> Callable[[Function], Function]:
    """Return the option for more draws, as `repeats`."""
    return click.option(
        "--repeat", "repeats", type=click.IntRange(min=0), default=0, metavar="N", help=text
    )


TRACE = (
    click.argument("trace", type=FILE, required=False),
    click.option(
        "--generate",
        type=click.IntRange(1, 10**8),
        metavar="JOBS",
        help="Instead of TRACE: so many jobs of the Lublin-Feitelson model.",
    ),
    click.option(
        "--load",
        type=click.FloatRange(min=0, min_open=True),
        help="What the jobs offer, as a share of the machine: submissions are stretched or "
        "squeezed.  [default: as TRACE has it; 0.7 with --generate]",
    ),
    click.option(
        "--seed",
        type=int,
        default=1,
        show_default=True,
        help="Of all that is drawn: jobs, I/O profiles, wrong predictions.",
    ),
    click.option(
        "--format",
        "kind",
        type=click.Choice(("swf", "sacct", "sacct-json", "csv", "history")),
        help="What TRACE is.  [default: what it looks like]",
    ),
    click.option(
        "--column",
        "columns",
        multiple=True,
        callback=pairs,
        metavar="KEY=TITLE",
        help="Which column of a CSV holds what: job, submit, begin, start, end, runtime, limit, "
        "slots, user, account, partition, state.",
    ),
    click.option(
        "--count",
        "slot",
        type=click.Choice(("node", "processor")),
        help="What to count in accounting.  [default: node; processor where jobs shared nodes]",
    ),
    click.option(
        "--cluster",
        metavar="NAME",
        help="Whose jobs of accounting to replay, where they are of several clusters.",
    ),
    click.option(
        "--slots",
        type=click.IntRange(min=1),
        help="Size of the machine.  [default: what the trace says, or was ever busy in it]",
    ),
    click.option(
        "--machine",
        type=FILE,
        help="A TOML file with the machine; see docs/reference/replay.md.",
    ),
    click.option("--slurm", is_flag=True, help="Schedule as slurmctld does by default."),
    click.option(
        "--set",
        "settings",
        multiple=True,
        callback=pairs,
        metavar="SETTING=VALUE",
        help="A setting of the scheduler, as in backfill=easy; see docs/reference/replay.md.",
    ),
    click.option(
        "--kill",
        "kills",
        is_flag=True,
        help="Kill jobs at their limit that really ran beyond it.  [default: believe them]",
    ),
)
STORAGE = (
    click.option(
        "--io-share",
        type=click.FloatRange(0, 1),
        metavar="SHARE",
        help="Draw I/O profiles, so large a share of the jobs being I/O-heavy.  [default: 0.3 "
        "where nothing else tells what jobs do]",
    ),
    click.option(
        "--mix",
        type=click.Choice(("checkpointing", "short", "measured")),
        default="checkpointing",
        show_default=True,
        help="How to draw I/O profiles: bursts at a program's period, 1 to 4 bursts of 10 to 60 s "
        "a job, or what runs of the same size did in the history of --profiles.",
    ),
    click.option(
        "--profiles",
        type=FILE,
        metavar="HISTORY",
        help="Take the jobs' I/O profiles from their Darshan logs in a history; TRACE may be one.",
    ),
    click.option(
        "--lanes", type=click.IntRange(1, 16), default=4, show_default=True, help="Of the storage."
    ),
    click.option(
        "--targets",
        type=click.IntRange(min=1),
        help="Storage targets in all.  [default: 0.16 a slot]",
    ),
    click.option(
        "--sharing",
        type=click.Choice(("fifo", "jobs", "nodes")),
        default="fifo",
        show_default=True,
        help="How a full target divides itself: by arrival, or fairly by jobs or by nodes.",
    ),
    click.option(
        "--storage-model",
        type=click.Choice(("mean-field", "discrete-event")),
        default="mean-field",
        show_default=True,
        help="Which storage model answers. The discrete-event one follows requests, and takes "
        "about a thousand times as long.",
    ),
    click.option(
        "--storage",
        multiple=True,
        callback=pairs,
        metavar="NUMBER=VALUE",
        help="A number of the storage, e.g. target_bandwidth=2e9; see "
        "sim/engine/storage/mean_field.h.",
    ),
    click.option(
        "--max-delay",
        metavar="SECONDS",
        help="Longest time for which a policy delays a job, or inf.  [default: 1800]",
    ),
    click.option(
        "--wrong",
        metavar="SHARE",
        help="Let so large a share of the predictions be wrong.  [default: 0]",
    ),
    click.option(
        "--option",
        "options",
        multiple=True,
        callback=pairs,
        metavar="NAME=VALUE",
        help="An option of a policy; see docs/reference/replay.md.",
    ),
    click.option(
        "--spread",
        type=click.FloatRange(0, 2),
        default=0.2,
        show_default=True,
        help="With --repeat: how uncertain each number of the storage is, as the standard "
        "deviation of its logarithm.",
    ),
)


def experiment_of(values: Mapping[str, Any]) -> Experiment:
    """Make an experiment of the values of TRACE and STORAGE."""
    from sluice.sim.replay.experiment import Experiment

    given = dict(values)
    if (given["trace"] is None) == (given["generate"] is None):
        raise click.UsageError("give either a TRACE or --generate JOBS")
    if given["slots"] is not None and given["machine"] is not None:
        raise click.UsageError("give --slots or --machine, not both")
    named = {name: given.pop(name) for name in ("max_delay", "wrong")}
    given["options"] = given["options"] | {
        name: text for name, text in named.items() if text is not None
    }
    return Experiment.of(given)


def known_policies(names: Sequence[str]) -> tuple[str, ...]:
    """Return the names, each once, or say which there are."""
    from sluice.sim.engine import PolicyError
    from sluice.sim.policies.policies import policy_named

    for name in names:
        try:
            policy_named(name)
        except PolicyError as error:
            raise click.UsageError(str(error)) from error
    return tuple(dict.fromkeys(names))
