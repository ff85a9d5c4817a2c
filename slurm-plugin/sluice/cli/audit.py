"""`sluice audit`: who changed what, when and why."""

from __future__ import annotations

from typing import Any

import click

from sluice.cli.common import Files, Layout, files_options, json_option, show_json, show_table
from sluice.cli.listing import layout_options, since_option
from sluice.slurm.views.formatting import NOTHING, one_line, time_text

COLUMNS = ("Time", "User", "What", "Before", "After", "Why")


@click.command()
@since_option(None, "Only what was changed in this time")
@layout_options
@files_options
@json_option
def command(*, since: int | None, layout: Layout, files: Files, as_json: bool) -> None:
    """List all changes of settings, reviews and models, the latest last.

    Each change of a setting, each switch off and on, each review, and each bundle published by a
    command or by sluice-learn, with the value before and after; but for bundles that only know
    more runs. Rows are only ever added: the history refuses to change or delete them.

    Commands record the user that called them, behind sudo too, and the --reason. Of a change that
    sluiced found in sluice.conf, the user is the owner of the file.

    \b
    Examples:
        sluice audit
        sluice audit --since 30d --parsable2 --format time,user,what,after
        sluice audit --json | jq '.entries[] | select(.subject == "Mode")'
    """
    from sluice.slurm.audit import listed

    with files.open_history(read_only=True) as store:
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
