"""`sluice decisions`: what Sluice thinks of the jobs of today."""

from __future__ import annotations

from typing import Any

import click

from sluice.cli.common import (
    Files,
    Layout,
    answer,
    files_options,
    json_option,
    show_json,
    show_table,
)
from sluice.cli.listing import layout_options, selection_options, since_option
from sluice.slurm.views.formatting import NOTHING, bytes_text, times_text

COLUMNS = (
    "Job",
    "Name",
    "User",
    "Nodes",
    "Pattern",
    "Chunk",
    "Conf",
    "Alongside",
    "It",
    "Other",
    "Action",
    "Reason",
)
LEAST = ("Chunk", "Nodes", "Conf", "It", "Other", "Alongside", "User", "Pattern")
"""What a narrow terminal does without, in this order."""
NO_DECISIONS = "No decisions yet. Is sluiced running? See `sluice doctor`."
NO_SUCH = "No such decision."
SINCE = " The latest 200,000 were searched; --since TIME searches further back."


@click.command()
@click.option(
    "-n", "--limit", default=20, show_default=True, type=click.IntRange(1), help="How many."
)
@selection_options("user", "account", "cluster", "state")
@since_option(None, "Only what was decided in this time")
@layout_options
@files_options
@json_option
def command(
    limit: int,
    *,
    since: int | None,
    layout: Layout,
    files: Files,
    as_json: bool,
    **selection: tuple[str, ...],
) -> None:
    """List what Sluice decided, the latest last.

    A line for each submission: what it was predicted to do to storage and how surely, the
    running job with which it would interfere most, what Sluice would do, and why: as decided
    near the start of the job, where that was decided again alongside others.

    Alongside is the number of that running job; together, It (the new job) and Other (the running
    one) would take so many times as long as alone. A job with an uncertain number shows
    as tie; one that was rejected, or that sluiced has not met yet, shows none.

    Without --since, the decisions on some jobs are searched among the latest 200,000.

    Without read access to the history you see only the jobs that PrivateData permits.

    \b
    Examples:
        sluice decisions
        sluice decisions --user ann,bob --since 36h --state pending,running
        sluice decisions --format job,user,action,reason%60 --noheader
        sluice decisions --limit 1000 --json | jq '.decisions[] | select(.action == "delay")'
    """
    from sluice.slurm.views.query_replies import decisions
    from sluice.slurm.visibility import OWNER

    asked: dict[str, Any] = {"limit": limit, "since": since or 0, **selection}
    found = answer(files, lambda store: decisions(store, OWNER, **asked), "decisions", **asked)
    rows, others = found["decisions"], found["others"]
    if others:
        click.echo(f"sluice: left out {others} decisions of another version of Sluice", err=True)
    if as_json:
        show_json(found)
    elif rows or layout.is_for_programs:
        show_table(COLUMNS, [_cells(row) for row in rows], least=LEAST, layout=layout)
    else:
        is_chosen = any(selection.values())
        click.echo(NO_SUCH if since else NO_SUCH + SINCE if is_chosen else NO_DECISIONS)


def _cells(row: dict[str, Any]) -> tuple[object, ...]:
    is_known = row["evidence"] != "none"
    latest = row["near_start"] or row
    return (
        row["job_id"] or ("tie" if row["joined_by"] == "tie" else NOTHING),
        row["name"],
        row["user"],
        row["nodes"] or 1,
        row["pattern"] if is_known else NOTHING,
        bytes_text(row["chunk_bytes"]) if is_known else NOTHING,
        f"{row['confidence']:.2f}" if is_known else NOTHING,
        *_worst(latest["coruns"]),
        latest["action"],
        latest["reason_text"],
    )


def _worst(coruns: list[dict[str, Any]]) -> tuple[object, str, str]:
    """Name the co-runner with the largest effect; the core reports the worst first."""
    if not coruns:
        return NOTHING, NOTHING, NOTHING
    worst = coruns[0]
    return (
        worst["job_id"] or NOTHING,
        times_text(worst["own_slowdown"]),
        times_text(worst["other_slowdown"]),
    )
