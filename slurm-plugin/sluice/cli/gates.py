"""`sluice gates`: what is let out, who holds it, who waits."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import click

from sluice.cli.common import (
    NOTHING,
    config_option,
    duration_text,
    json_option,
    read_config,
    show_json,
    show_table,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

Facts = dict[str, Any]


@click.command()
@config_option
@json_option
def command(config: Path | None, *, as_json: bool) -> None:
    """Show the gates: tokens let out, held and waited for.

    Everything is asked of Slurm at this moment, so it works without sluiced, too. A gate is open
    where there is no lease: in any mode but enforce, while Sluice is off, and where slurm.conf
    defines fewer than 100,000 of a token.

    \b
    Gate     tokens that may be held at once; open: as many as anybody wants
    Held     by running jobs
    Waiting  jobs that want one, and how long they have been eligible at most
    Lease    how long the gate stays closed if sluiced dies now

    \b
    Examples:
        sluice gates
        sluice gates --json | jq '.gates[] | select(.waiting > 0)'
    """
    from sluice.slurm.overview import overview

    facts = overview(read_config(config), int(time.time()))
    if as_json:
        show_json(facts)
        return
    show_table(
        ("Token", "Gate", "Held", "Waiting", "Longest wait", "Lease", "Remark"),
        [_row(gate) for gate in facts["gates"]],
    )
    for text in facts["differences"]:
        click.echo(f"The books do not balance: {text}.")
    if facts["is_off"]:
        click.echo("Sluice is switched off: all gates are open. `sluice on` closes them again.")
    elif facts["mode"] != "enforce":
        click.echo(f"Mode is {facts['mode']}: there are gates in enforce alone.")
    if facts["released"] is not None:
        for line in _released(facts["released"]):
            click.echo(line)


def _row(gate: Facts) -> tuple[object, ...]:
    return (
        gate["token"],
        "open" if gate["gate"] is None else gate["gate"],
        gate["held"],
        gate["waiting"],
        duration_text(gate["longest_wait"]),
        NOTHING if gate["lease_seconds"] is None else duration_text(gate["lease_seconds"]),
        "" if gate["defined"] else f"slurm.conf has {gate['total']}; it takes 100,000",
    )


def _released(counts: dict[str, int]) -> Iterator[str]:
    from sluice.policies.control import release_text

    if not counts:
        yield "Released in the last day: nobody."
        return
    yield "Released in the last day:"
    for reason, count in counts.items():
        yield f"  {count} {reason}: {release_text(reason)}"
