"""`sluice model score`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from sluice.cli.common import (
    NOTHING,
    answer,
    config_option,
    coverage_text,
    history_option,
    json_option,
    one_line,
    share_text,
    show_json,
    show_table,
    time_text,
)
from sluice.cli.listing import since_option

if TYPE_CHECKING:
    from pathlib import Path

Facts = dict[str, Any]

SHOWN = 20
"""Programs and users of the tables, unless all are asked for."""
NAMES = {
    "write_bytes": "bytes written",
    "read_bytes": "bytes read",
    "chunk_bytes": "chunk",
    "rate": "rate",
    "burst_seconds": "burst",
    "io_share": "I/O share",
    "runtime_seconds": "run time",
}
COLUMNS = ("jobs", "certain of", "came true", "pattern", "written within 2×", "rate within 2×")


@click.command("score", short_help="Lay live predictions alongside what the jobs then did.")
@since_option("30d", "Of jobs that started in this time")
@click.option("--all", "show_all", is_flag=True, help=f"Show more than {SHOWN} rows of a table.")
@config_option
@history_option
@json_option
def command(
    since: int, config: Path | None, history: Path | None, *, show_all: bool, as_json: bool
) -> None:
    """Lay live predictions alongside what the jobs then did.

    Of each decision whose job has ended: whether the pattern was as predicted, and the volume
    within a factor of two or within the spread that was told. In all, by program and by user,
    those first of which most failed; then how far confidence keeps its promise, and how many
    numbers lie in their intervals, which nine in ten should.

    A program whose predictions fail loses confidence at the next training, so that it is left
    alone until they come true again.

    Who may not read the history asks sluiced, which scores the jobs that PrivateData allows.

    \b
    Examples:
        sluice model score --since 7d
        sluice model score --json | jq '.by_program[] | select(.came_true < 0.8)'
    """
    from sluice.history_db.records import Coverage
    from sluice.slurm.answers import model_score
    from sluice.slurm.viewers import OWNER

    found = answer(
        config,
        history,
        lambda store: model_score(store, OWNER, since=since),
        "model score",
        since=since,
    )
    if as_json:
        show_json(found)
        return
    if found["coverage"]:
        click.echo(coverage_text(Coverage(**found["coverage"])))
    _print(found, None if show_all else SHOWN)


def _print(found: Facts, most: int | None) -> None:
    whole = found["all"]
    click.echo(
        f"since {time_text(found['since'])} {whole['jobs']} jobs ended of which something was "
        f"predicted; Sluice was certain enough of {share_text(whole['answered'])}"
    )
    if not whole["jobs"]:
        return
    click.echo()
    programs, users = found["by_program"][:most], found["by_user"][:most]
    show_table(("program", "user", *COLUMNS), [_row(r, r["program"], r["user"]) for r in programs])
    _left_out(found["by_program"], programs)
    click.echo()
    show_table(("user", *COLUMNS), [_row(row, row["user"]) for row in users])
    _left_out(found["by_user"], users)
    click.echo()
    show_table(
        ("said with confidence", "came true", "jobs"),
        [
            (f"{row['said']:.2f}", share_text(row["came_true"]), row["jobs"])
            for row in found["reliability"]
        ],
    )
    error = whole["calibration_error"]
    click.echo(f"calibration error: {NOTHING if error is None else f'{error:.3f}'}")
    if whole["in_interval"]:
        inside = ", ".join(
            f"{NAMES[name]} {share_text(share)}" for name, share in whole["in_interval"].items()
        )
        click.echo(f"inside their intervals for 90 %: {inside}")


def _row(score: Facts, *names: str) -> tuple[object, ...]:
    return (
        *(one_line(name) for name in names),
        score["jobs"],
        share_text(score["answered"]),
        share_text(score["came_true"]),
        share_text(score["pattern_right"]),
        share_text(score["within_2"].get("write_bytes")),
        share_text(score["within_2"].get("rate")),
    )


def _left_out(rows: list[Facts], shown: list[Facts]) -> None:
    if len(shown) < len(rows):
        click.echo(f"… and {len(rows) - len(shown)} more (--all)")
