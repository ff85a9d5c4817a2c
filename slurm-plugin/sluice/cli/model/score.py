"""`sluice model score`: how good predictions are, live or of the past."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from sluice.cli.common import (
    CommandError,
    Files,
    answer,
    coverage_text,
    files_options,
    json_option,
    show_json,
    show_table,
)
from sluice.cli.listing import progress, since_option, working
from sluice.slurm.views.formatting import NOTHING, one_line, share_text, time_text

if TYPE_CHECKING:
    from sluice.prediction.score import Score


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
COLUMNS = (
    "jobs",
    "certain of",
    "came true",
    "pattern",
    "bytes within 2×",
    "as last time",
    "as the mean",
    "rate within 2×",
)


@click.command(short_help="Compare predictions with what the jobs then did.")
@since_option("30d", "Of jobs that started in this time")
@click.option("--all", "show_all", is_flag=True, help=f"Show more than {SHOWN} rows of a table.")
@click.option("--backtest", is_flag=True, help="Predict the past instead, only from the history.")
@click.option(
    "--skip",
    default=0.3,
    show_default=True,
    type=click.FloatRange(0.05, 0.95),
    help="Of --backtest: share of the runs that are only learned from.",
)
@files_options
@json_option
def command(
    since: int,
    skip: float,
    files: Files,
    *,
    show_all: bool,
    backtest: bool,
    as_json: bool,
) -> None:
    """Compare predictions with what the jobs then did.

    Of each decision on a job that has ended: whether the pattern was as predicted, and the volume
    within a factor of two or within the spread that was told. In all, by program and by user,
    those first of which most failed; then how far confidence keeps its promise, and how many
    numbers lie in their intervals, which nine in ten should.

    A program with failing predictions loses confidence at the next training, so that it is left
    alone until they come true again.

    With --backtest, walk through the history as it went: each job is predicted when it was
    submitted, as slurmctld would, and learned from LearnInterval after it ended. Nothing is learned
    from the future. Of how many others than those within a factor of two the spread had said that
    they may not be, is told too.

    Next to the bytes stand the lines to beat: "as last time", the user's last run of the same name
    and size, else of any size; and the mean of the application.

    Without read access to the history, the jobs that PrivateData permits are scored.

    \b
    Examples:
        sluice model score --since 7d
        sluice model score --backtest
        sluice model score --json | jq '.by_program[] | select(.came_true < 0.8)'
    """
    if backtest:
        _backtest(files, skip, as_json=as_json)
        return
    from sluice.history_db.records import Coverage
    from sluice.slurm.views.query_replies import model_score
    from sluice.slurm.visibility import OWNER

    with working("scoring"):
        found = answer(
            files,
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
        share_text(score["within_2"].get("moved")),
        share_text(score["last_within_2"]),
        share_text(score["mean_within_2"]),
        share_text(score["within_2"].get("rate")),
    )


def _left_out(rows: list[Facts], shown: list[Facts]) -> None:
    if len(shown) < len(rows):
        click.echo(f"… and {len(rows) - len(shown)} more (--all)")


def _backtest(files: Files, skip: float, *, as_json: bool) -> None:
    from sluice.prediction.backtest import NothingToPredictError, walk
    from sluice.prediction.score import scores
    from sluice.prediction.train import EmptyHistoryError, past_of

    coverage = files.coverage()
    try:
        with files.open_history(read_only=True) as store, working("reading the history"):
            past = past_of(store)
        with progress("jobs", lambda: len(past.jobs)) as (_, advance):
            items, earlier = walk(
                past,
                skip=skip,
                known_after=files.settings().learn_seconds,
                advance=advance,
            )
    except (EmptyHistoryError, NothingToPredictError) as error:
        raise CommandError(str(error)) from error
    overall = scores(items, earlier, lambda _: "all")
    evidence = scores(items, earlier, lambda item: str(item.prediction.evidence))
    if as_json:
        show_json(
            {
                "coverage": asdict(coverage) if coverage else None,
                "all": asdict(overall["all"]),
                "evidence": {label: asdict(score) for label, score in evidence.items()},
            }
        )
        return
    click.echo(coverage_text(coverage))
    whole = overall["all"]
    click.echo(
        f"{whole.jobs} jobs predicted; always saying {whole.baseline} would be right in "
        f"{share_text(whole.baseline_accuracy)}\n"
    )
    _show("all", overall)
    click.echo()
    _show("evidence", evidence)


def _show(name: str, rows: dict[str, Score]) -> None:
    columns = (
        "" if name == "all" else name,
        "jobs",
        "answered",
        "of those right",
        "bytes within 2×",
        "as last time",
        "as the mean",
        "in 90 %",
        "others flagged",
        "chunk within 2×",
        "rate within 2×",
        "best guess right",
        "calibration error",
    )
    show_table(
        columns,
        [
            (
                label,
                score.jobs,
                share_text(score.answered),
                share_text(score.accuracy_answered),
                share_text(score.bytes_within_2),
                share_text(score.last_within_2),
                share_text(score.mean_within_2),
                share_text(score.bytes_inside),
                share_text(score.bytes_flagged),
                share_text(score.chunk_within_2),
                share_text(score.rate_within_2),
                share_text(score.accuracy),
                f"{score.calibration_error:.3f}" if score.jobs >= 100 else NOTHING,
            )
            for label, score in rows.items()
        ],
    )
