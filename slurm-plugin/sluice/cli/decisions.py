"""`sluice decisions`: what Sluice thinks of the jobs of today."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from sluice.cli.common import (
    NOTHING,
    bytes_text,
    config_option,
    history_option,
    json_option,
    open_history,
    show_json,
    show_table,
    times_text,
    user_text,
)

if TYPE_CHECKING:
    from pathlib import Path

    from sluice.history_db.records import Decision

COLUMNS = (
    "Job",
    "Name",
    "User",
    "Nodes",
    "Pattern",
    "Chunk",
    "Conf",
    "Beside",
    "It",
    "Other",
    "Action",
    "Reason",
)


@click.command()
@click.option(
    "-n", "--limit", default=20, show_default=True, type=click.IntRange(1), help="How many."
)
@config_option
@history_option
@json_option
def command(limit: int, config: Path | None, history: Path | None, *, as_json: bool) -> None:
    """List what Sluice decided, the latest last.

    A line for each submission: what it was predicted to do to storage and how surely, the
    running job with which it would interfere most, what Sluice would do, and why.

    Beside is the number of that running job; beside it, It (the new job) and Other (the running
    one) would take so many times as long as alone. A job whose number could not be told for
    certain shows as tie; one that was rejected, or that sluiced has not met yet, shows none.

    \b
    Examples:
        sluice decisions
        sluice decisions --limit 1000 --json | jq '.[] | select(.action == "delay")'
    """
    from sluice.policies.core import CoreError
    from sluice.policies.record import Record

    rows, others = [], 0
    with open_history(config, history, read_only=True) as store:
        for decision in reversed(store.latest_decisions(limit)):
            try:
                rows.append(summary(decision, Record.parse(decision.record).to_dict()))
            except CoreError:
                others += 1
    if others:
        click.echo(f"sluice: left out {others} decisions of another version of Sluice", err=True)
    if as_json:
        show_json(rows)
    elif rows:
        show_table(COLUMNS, [_cells(row) for row in rows])
    else:
        click.echo("No decisions yet. Is sluiced running? See `sluice doctor`.")


def summary(decision: Decision, record: dict[str, Any]) -> dict[str, Any]:
    """Return what an administrator reviews of a decision."""
    from sluice.policies.core import sentence

    submission, decided = record["submission"], record["decision"]
    prediction = decided["prediction"]
    profile = prediction["profile"]
    return {
        "job_id": decision.job_id,
        "joined_by": decision.joined_by,
        "record": f"{record['boot']}-{record['number']}",
        "time": record["now"],
        "cluster": record["cluster"],
        "mode": record["mode"],
        "name": submission["name"],
        "uid": submission["uid"],
        "user": user_text(submission["uid"]),
        "nodes": submission["nodes"] or None,
        "pattern": profile["pattern"],
        "chunk_bytes": profile["chunk_bytes"],
        "confidence": profile["confidence"],
        "evidence": prediction["evidence"],
        "class": prediction["klass"],
        "encounters": decided["encounters"],
        "action": decided["action"],
        "reason": decided["reason"],
        "reason_text": sentence("reason", decided["reason"]),
    }


def _cells(row: dict[str, Any]) -> tuple[object, ...]:
    is_known = row["evidence"] != "none"
    return (
        row["job_id"] or ("tie" if row["joined_by"] == "tie" else NOTHING),
        row["name"],
        row["user"],
        row["nodes"] or 1,
        row["pattern"] if is_known else NOTHING,
        bytes_text(row["chunk_bytes"]) if is_known else NOTHING,
        f"{row['confidence']:.2f}" if is_known else NOTHING,
        *_worst(row["encounters"]),
        row["action"],
        row["reason_text"],
    )


def _worst(encounters: list[dict[str, Any]]) -> tuple[object, str, str]:
    """Name the co-runner with the largest effect; the core reports the worst first."""
    if not encounters:
        return NOTHING, NOTHING, NOTHING
    worst = encounters[0]
    return worst["job_id"], times_text(worst["own_slowdown"]), times_text(worst["other_slowdown"])
