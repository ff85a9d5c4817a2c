"""`sluice audit`: who changed what, when and why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from sluice.cli.common import (
    NOTHING,
    Layout,
    config_option,
    history_option,
    json_option,
    one_line,
    open_history,
    show_json,
    show_table,
    time_text,
)
from sluice.cli.listing import layout_options, since_option

if TYPE_CHECKING:
    from pathlib import Path

COLUMNS = ("Time", "Who", "What", "Before", "After", "Why")


@click.command()
@since_option(None, "Only what was changed in this time")
@layout_options
@config_option
@history_option
@json_option
def command(
    *,
    since: int | None,
    layout: Layout,
    config: Path | None,
    history: Path | None,
    as_json: bool,
) -> None:
    """List who changed what about Sluice, the latest last.

    Each change of a setting, each switch off and on, each review, and each bundle published by a
    command or by sluice-learn, with the value before and after; but for bundles that only know
    more runs. Rows are only ever added: the history refuses to change or delete them.

    Commands say who called them, behind sudo the user, and why (--reason). Of a change that
    sluiced found in sluice.conf, Who is the owner of the file, as nobody knows more.

    \b
    Examples:
        sluice audit
        sluice audit --since 30d --parsable2 --format time,who,what,after
        sluice audit --json | jq '.entries[] | select(.subject == "Mode")'
    """
    from sluice.slurm.audit import listed

    with open_history(config, history, read_only=True) as store:
        entries = listed(store, since=since or 0)
    if as_json:
        show_json({"entries": entries})
    elif entries or layout.is_for_programs:
        show_table(COLUMNS, [_cells(entry) for entry in entries], layout=layout)
    else:
        click.echo("Nothing was changed, or sluiced has not run since.")


def _cells(entry: dict[str, Any]) -> tuple[object, ...]:
    return (
        time_text(entry["at"]),
        entry["user"] or NOTHING,
        entry["subject"],
        entry["before"] or NOTHING,
        entry["after"] or NOTHING,
        one_line(entry["reason"]),
    )
