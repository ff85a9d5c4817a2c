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


ASKED = (
    click.argument("trace", type=FILE, required=False),
    click.option(
        "--generate",
        type=click.IntRange(1, 10**8),
        metavar="JOBS",
        help="Instead of TRACE: so many made jobs.",
    ),
    click.option(
        "--load",
        type=click.FloatRange(min=0, min_open=True),
        help="Of the machine, offered by jobs.  [default: as TRACE; 0.7 with --generate]",
    ),
    click.option(
        "--seed",
        type=int,
        help="Of all that is drawn.  [default: 1]",
    ),
    click.option(
        "--slots",
        type=click.IntRange(min=1),
        help="Size of the machine.  [default: as TRACE]",
    ),
    click.option(
        "--scenario",
        type=FILE,
        metavar="FILE.toml",
        help="TRACE's form, machine, scheduler, mix, storage, policies: see reference/replay.md "
        "in /usr/share/doc/sluice.",
    ),
    click.option(
        "--profiles",
        type=FILE,
        metavar="HISTORY",
        help="Take I/O profiles from a history; TRACE may be one.",
    ),
    click.option(
        "--io-share",
        type=click.FloatRange(0, 1),
        metavar="SHARE",
        help="Draw I/O profiles: share of I/O-heavy jobs.  [default: 0.3 where nothing else tells]",
    ),
    click.option(
        "--max-delay",
        metavar="SECONDS",
        help="Longest delay by a policy, or inf.  [default: 1800]",
    ),
)
"""Of replay and sweep: what is replayed."""


def experiment_of(values: Mapping[str, Any]) -> Experiment:
    """Make an experiment of the values of ASKED; those given win over the scenario's."""
    from sluice.sim.replay.experiment import Experiment
    from sluice.sim.replay.scenario import read_scenario

    given = {name: value for name, value in values.items() if value is not None}
    if ("trace" in given) == ("generate" in given):
        raise click.UsageError("give either a TRACE or --generate JOBS")
    members = read_scenario(given.pop("scenario")) if "scenario" in given else {}
    if "slots" in given and "machine" in members:
        raise click.UsageError("give --slots, or [groups] in the scenario, not both")
    if (longest := given.pop("max_delay", None)) is not None:
        members["options"] = members.get("options", {}) | {"max_delay": longest}
    return Experiment.of(members | given)


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
