"""`sluice gates`: what is let out, who holds it, who waits."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sluice.cli.common import Layout, config_option, json_option, read_config, show_json, show_table
from sluice.cli.listing import layout_options
from sluice.slurm.views.formatting import NOTHING, duration_text

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from sluice.policies.core import Config

Facts = dict[str, Any]

BURSTS_SHOWN = 20


@click.command()
@layout_options
@config_option
@json_option
def command(config: Path | None, *, layout: Layout, as_json: bool) -> None:
    """Show tokens released, held and waited for, and bursts in turns.

    Everything is asked of Slurm at this moment, so it works without sluiced, too. Where
    PrivateData hides jobs, sluiced is asked for these numbers. A gate is open
    where there is no lease: in any mode but enforce, while Sluice is off, and where slurm.conf
    defines fewer than 100,000 of a token.

    \b
    Gate     tokens that may be held at once; open: unlimited
    Held     by running jobs
    Waiting  jobs that want one, and how long they have been eligible at most
    Lease    how long the gate stays closed if sluiced dies now

    Where sluice-turns runs, the lines below say what it holds, and which jobs write now or are
    held, on which lanes, for which jobs and since when.

    \b
    Examples:
        sluice gates
        sluice gates --parsable2 --format token,held,waiting
        sluice gates --json | jq '.gates[] | select(.waiting > 0)'
        sluice gates --json | jq '.turns.bursts[]'
    """
    from sluice.slurm.turns import turns_now

    settings = read_config(config)
    troubles = reported(settings)
    facts = _facts(settings) | {"troubles": troubles, "turns": turns_now(settings)}
    if as_json:
        show_json(facts)
        return
    show_table(
        ("Token", "Gate", "Held", "Waiting", "Longest wait", "Lease", "Remark"),
        [_row(gate, facts["hidden"]) for gate in facts["gates"]],
        least=("Lease", "Longest wait"),
        layout=layout,
    )
    if layout.is_for_programs:
        return
    if facts["hidden"]:
        click.echo(
            f"Slurm hides {' and '.join(facts['hidden'])} of others from you (PrivateData), and "
            "sluiced could not be asked: this is what you may see; the token audit needs all jobs."
        )
    for text in facts["differences"]:
        click.echo(f"The tokens do not balance: {text}.")
    for text in troubles:
        click.echo(f"{text[0].upper()}{text[1:]}. See `sluice doctor`.")
    for line in _below(facts):
        click.echo(line)


def _below(facts: Facts) -> Iterator[str]:
    if facts["is_off"]:
        yield "Sluice is switched off: all gates are open. `sluice on` closes them again."
    elif facts["furthest_mode"] != "enforce":
        yield f"Mode is {facts['mode']}: there are gates only in enforce."
    elif facts["mode"] != "enforce":
        yield f"Mode is {facts['mode']}, and enforce for the jobs that ModeOf names."
    if facts["turns"] is not None:
        yield _turns(facts["turns"])
        yield from _bursts(facts["turns"]["bursts"], int(time.time()))
    if facts["released"] is not None:
        yield from _released(facts["released"])


def _facts(config: Config) -> Facts:
    """Ask Slurm, or sluiced, where Slurm or the history does not tell this user everything."""
    from sluice.slurm import slurm_commands
    from sluice.slurm.gates.gate_status import overview
    from sluice.slurm.records import QueryError
    from sluice.slurm.service import may_read
    from sluice.slurm.visibility import ask, hidden

    unseen = hidden(os.geteuid(), slurm_commands.controller(), ("jobs", "reservations"))
    if unseen or not may_read(Path(config.history)):
        with suppress(QueryError):
            facts: Facts = ask(config, "gates", {})
            return facts
    return overview(config, int(time.time()), unseen)


def reported(config: Config) -> list[str]:
    """Say what sluiced has trouble with at the gates, to those who may see whose jobs these are."""
    from sluice.slurm.doctor.findings import named
    from sluice.slurm.status import is_locked, read_status

    snapshot = Path(config.snapshot)
    try:
        status = read_status(snapshot) if is_locked(snapshot) else None
    except OSError:
        status = None
    return [finding.text for finding in named(status)] if status else []


def _turns(found: Facts) -> str:
    held = duration_text(found["held_seconds"])
    no_help = found.get("no_help", 0)
    was = "were" if found["mode"] == "enforce" else "would have been"
    return (
        f"Turns ({found['mode']}): {found['active']} bursts now, {found['holding']} of them held; "
        f"{found['holds']} {was} held so far, for {held} in all, and {found['budgets']} used up "
        "their budget."
        + (f" {no_help} went on because holds were seen not to help." if no_help else "")
        + "".join(f" Lane {lane} {text}." for lane, text in found.get("lanes", {}).items())
    )


def _bursts(bursts: list[Facts], now: int) -> Iterator[str]:
    """Name the jobs that write and those that are held, the longest first."""
    for burst in bursts[:BURSTS_SHOWN]:
        since = duration_text(max(0, now - burst["since"]))
        yield f"  job {burst['job_id']}: {burst['state']}, for {since}"
    if len(bursts) > BURSTS_SHOWN:
        yield f"  and {len(bursts) - BURSTS_SHOWN} more, in --json"


def _row(gate: Facts, hidden: Collection[str]) -> tuple[object, ...]:
    return (
        gate["token"],
        _gate(gate["gate"], hidden),
        gate["held"],
        gate["waiting"],
        duration_text(gate["longest_wait"]),
        NOTHING if gate["lease_seconds"] is None else duration_text(gate["lease_seconds"]),
        "" if gate["defined"] else f"slurm.conf has {gate['total']} (needs at least 100,000)",
    )


def _gate(size: int | None, hidden: Collection[str]) -> object:
    if size is not None:
        return size
    return "hidden" if "reservations" in hidden else "open"


def _released(counts: dict[str, int]) -> Iterator[str]:
    from sluice.policies.control import release_text

    if not counts:
        yield "Released in the last day: none."
        return
    yield "Released in the last day (no token needed):"
    for reason, count in counts.items():
        yield f"  {count} {reason}: {release_text(reason)}"
