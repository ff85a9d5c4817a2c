"""`sluice model score` and `sluice model backtest`: how good predictions are."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from sluice.cli.common import (
    CommandError,
    Files,
    ParamType,
    answer,
    coverage_text,
    files_options,
    json_option,
    show_json,
    show_table,
)
from sluice.cli.listing import since_option
from sluice.slurm.texts import NOTHING, one_line, share_text, time_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from sluice.prediction.backtest import PastPrediction, Score
    from sluice.prediction.jobs import FinishedJob
    from sluice.prediction.train import Past


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
@files_options
@json_option
def score(since: int, files: Files, *, show_all: bool, as_json: bool) -> None:
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
        share_text(score["within_2"].get("write_bytes")),
        share_text(score["within_2"].get("rate")),
    )


def _left_out(rows: list[Facts], shown: list[Facts]) -> None:
    if len(shown) < len(rows):
        click.echo(f"… and {len(rows) - len(shown)} more (--all)")


class Span(ParamType[float]):
    """A span of time, in days."""

    name = "TIME"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        if isinstance(value, float):
            return value
        match = re.fullmatch(r"(\d{1,6}(?:\.\d{1,6})?)([dhm]?)", value)
        days = float(match[1]) / {"d": 1, "h": 24, "m": 1440}[match[2] or "d"] if match else 0.0
        if not 1 / 1440 <= days <= 1000:
            self.fail(
                f"{value!r} is not between a minute and 1000 days; say 7d, 1h or 10m", param, ctx
            )
        return days


FORESTS_EVERY = 8  # steps: they take longest, and change least


@click.command("backtest", short_help="Predict the past: how good prediction at submission is.")
@click.option(
    "--made",
    type=click.IntRange(200, 200_000),
    metavar="RUNS",
    help="Not the history, but so many made-up runs of applications that scale, drift, are "
    "renamed or are new.",
)
@click.option("--seed", default=1, show_default=True, help="Which made-up history.")
@click.option(
    "--every",
    default="7d",
    show_default=True,
    type=Span(),
    help="How often a new model is learned: 7d, 1h, 10m; a number alone is days.",
)
@click.option(
    "--skip",
    default=0.3,
    show_default=True,
    type=click.FloatRange(0.05, 0.95),
    help="Share of the runs that are only learned from.",
)
@files_options
@json_option
def backtest(
    *, made: int | None, seed: int, every: float, skip: float, files: Files, as_json: bool
) -> None:
    """Predict the past: how good prediction at submission is.

    Walks through the history as it went: learns from what had ended by a time, predicts what was
    submitted in the time after it as slurmctld would, and moves on. Nothing is learned from the
    future. Volumes are judged too: how many are right within a factor of two, and of how many
    others the spread had said that they may not be. With --made it is known what each run is an
    example of, so it also shows where prediction breaks.

    \b
        sluice model backtest
        sluice model backtest --every 1d --json
        sluice model backtest --every 10m     # a history of hours
        sluice model backtest --made 6000
    """
    past, situation = _made(made, seed) if made else (_kept(files), None)
    coverage = None if made else files.coverage()
    items, earlier = _walk(past, every, skip)
    groups: dict[str, Callable[[PastPrediction], str]] = {"evidence": _evidence}
    if situation is not None:
        groups["situation"] = lambda item: situation[item.job.logs[0]]
    scores = {name: _by(items, earlier, label) for name, label in {"all": _every, **groups}.items()}
    if as_json:
        show_json(
            {
                "coverage": asdict(coverage) if coverage else None,
                **{
                    name: {label: asdict(score) for label, score in rows.items()}
                    for name, rows in scores.items()
                },
            }
        )
        return
    if not made:
        click.echo(coverage_text(coverage))
    overall = scores["all"]["all"]
    click.echo(
        f"{overall.jobs} jobs predicted; always saying {overall.baseline} would be right in "
        f"{share_text(overall.baseline_accuracy)}"
    )
    for name, rows in scores.items():
        click.echo()
        _show(name, rows)


def _kept(files: Files) -> Past:
    from sluice.prediction.train import EmptyHistoryError, past_of

    try:
        with files.open_history(read_only=True) as store:
            return past_of(store)
    except EmptyHistoryError as error:
        raise CommandError(str(error)) from error


def _made(runs: int, seed: int) -> tuple[Past, dict[int, str]]:
    """Return made-up jobs, and what each is an example of by log id."""
    from sluice.history_db.records import Run
    from sluice.prediction.jobs import finished_jobs
    from sluice.prediction.made_history import made_history
    from sluice.prediction.train import Past

    made = list(enumerate(made_history(runs, seed=seed), start=1))
    jobs = finished_jobs(Run(i, run.log, run.profile, b"", run.job) for i, run in made)
    return Past(jobs, []), {i: run.situation for i, run in made}


def _walk(past: Past, days: float, skip: float) -> tuple[list[PastPrediction], list[FinishedJob]]:
    """Return what was predicted, and what the last model had learned from."""
    from sluice.prediction.backtest import ended_before, predict_past, steps_of
    from sluice.prediction.train import bundle_of, fit_quickly

    items: list[PastPrediction] = []
    earlier: list[FinishedJob] = []
    forests = None
    for step, (ended, submitted) in enumerate(steps_of(past.jobs, days=days, skip=skip)):
        if not ended:
            continue
        silent = ended_before(past.silent, submitted[0].submit)
        model, _ = fit_quickly(ended, None if step % FORESTS_EVERY == 0 else forests, silent=silent)
        forests, earlier = model.forests, ended
        items += predict_past(bundle_of(model), submitted)
    if not items:
        raise CommandError(
            "no run ended before another was submitted, so none can be predicted from the past; "
            "read more with `sluice history ingest PATH…`, or try --made 1000"
        )
    return items, earlier


def _every(_: PastPrediction) -> str:
    return "all"


def _evidence(item: PastPrediction) -> str:
    return str(item.prediction.evidence)


def _by(
    items: list[PastPrediction], earlier: list[FinishedJob], label: Callable[[PastPrediction], str]
) -> dict[str, Score]:
    from sluice.prediction.backtest import judge

    groups: dict[str, list[PastPrediction]] = defaultdict(list)
    for item in items:
        groups[label(item)].append(item)
    return {name: judge(groups[name], earlier) for name in sorted(groups)}


def _show(name: str, rows: dict[str, Score]) -> None:
    columns = (
        "" if name == "all" else name,
        "jobs",
        "answered",
        "of those right",
        "chunk within 2×",
        "bytes within 2×",
        "others flagged",
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
                share_text(score.chunk_within_2),
                share_text(score.bytes_within_2),
                share_text(score.bytes_flagged),
                share_text(score.rate_within_2),
                share_text(score.accuracy),
                f"{score.calibration_error:.3f}" if score.jobs >= 100 else NOTHING,
            )
            for label, score in rows.items()
        ],
    )
