"""`sluice model train` and `sluice model publish`."""

from __future__ import annotations

import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sluice.cli.common import (
    CommandError,
    Files,
    bundle_line,
    coverage_text,
    files_options,
    json_option,
    published,
    show_json,
    show_table,
)
from sluice.cli.listing import working
from sluice.slurm.views.formatting import NOTHING, bytes_text, share_text

if TYPE_CHECKING:
    from sluice.cli.common import Published
    from sluice.prediction.applications import Learned
    from sluice.prediction.model_update import Comparison, Renewal


def bundle_json(published: Published) -> dict[str, object]:
    bundle = published.bundle
    return {
        "path": bundle.path,
        "checksum": f"{bundle.checksum:016x}",
        "model": bundle.model,
        "published_at": bundle.published_at,
        "bytes": len(bundle.content),
        "interference_from": asdict(published.basis),
    }


@click.command("publish", short_help="Write the bundle that slurmctld loads.")
@click.argument("version", type=click.IntRange(1), required=False, metavar="[MODEL]")
@click.option(
    "--rollback", is_flag=True, help="Publish the model that was in use before the one now."
)
@click.option(
    "--bundle",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Where to write it.  [default: Bundle of the configuration]",
)
@click.option("--reason", default="", help="Stored in the audit.")
@files_options
@json_option
def publish(
    version: int | None,
    bundle: Path | None,
    files: Files,
    *,
    reason: str,
    rollback: bool,
    as_json: bool,
) -> None:
    """Write the bundle that slurmctld loads.

    It holds the model that `sluice model train` learned last, or the one with this number (see
    `sluice model list`), how programs disturb each other (measured by `sluice site calibrate`,
    learned by `sluice site interference --learn`, else published figures; which of these is said),
    and the settings by which Sluice decides (MinConfidence, Lane, …). The file is replaced as a
    whole; the plugin takes it up by itself within a second. Run it as root or SlurmUser: the plugin
    accepts no other user's file.

    \b
        sluice model publish
        sluice model publish 7
        sluice model publish --rollback
        sluice model publish --bundle /tmp/try.bundle && sluice model bundle /tmp/try.bundle
    """
    if rollback and version is not None:
        raise click.UsageError("Name a model or say --rollback, not both.")
    made = published(files, bundle, version=version, rollback=rollback, reason=reason)
    if as_json:
        show_json(bundle_json(made))
    else:
        click.echo(bundle_line(made))


SHOWN = 30  # entries of the table, unless all are asked for


@click.command("train", short_help="Learn from the history what jobs will do.")
@click.option(
    "--publish", is_flag=True, help="Write the bundle at once, as `sluice model publish` does."
)
@click.option(
    "--force", is_flag=True, help="Take the new model even if the newest runs speak against it."
)
@click.option("--all", "show_all", is_flag=True, help=f"Show more than {SHOWN} applications.")
@files_options
@json_option
def command(
    *,
    publish: bool,
    force: bool,
    show_all: bool,
    files: Files,
    as_json: bool,
) -> None:
    """Learn from the history what jobs will do.

    From runs with a Darshan log, and their accounting where it is known, follows what is
    expected of the next run of a script or a job name. Keeps the result in the history; slurmctld
    sees it after `sluice model publish`. The same history always gives the same model.

    Both the model in use and the new one have to predict the newest runs. If the new one does
    worse by more than chance, it is dropped and the old one stays. Without a new run there is
    no new model. sluice-learn does all this by itself.

    \b
        sluice model train
        sluice model train --publish
    """
    from sluice.prediction.model_update import renew
    from sluice.prediction.train import EmptyHistoryError

    try:
        with files.open_history() as store:
            with working("learning"):
                outcome = renew(store, now=int(time.time()), force=force)
            coverage = store.jobs.coverage()
    except EmptyHistoryError as error:
        raise CommandError(str(error)) from error
    bundle = published(files, None, version=outcome.model_id) if publish else None
    if as_json:
        show_json({"coverage": asdict(coverage)} | _as_json(outcome, bundle))
    else:
        click.echo(coverage_text(coverage))
        _print(outcome, show_all=show_all)
        if bundle is not None:
            click.echo(bundle_line(bundle))
        else:
            click.echo("slurmctld will know it after `sluice model publish`")


def _print(outcome: Renewal, *, show_all: bool) -> None:
    model = outcome.model
    entries = sorted(model.table, key=lambda entry: -entry.profile.confidence)
    shown = entries if show_all else entries[:SHOWN]
    show_table(
        ("known by", "application", "runs", "pattern", "confidence", "chunk", "written", "read"),
        [_row(entry) for entry in shown],
    )
    if len(shown) < len(entries):
        click.echo(f"… and {len(entries) - len(shown)} less certain ones (--all)")
    click.echo()
    click.echo(_quality(model.metrics))
    click.echo(f"model {outcome.model_id}: {model.metrics['jobs']} jobs, {len(entries)} entries")
    if outcome.is_known:
        click.echo("no run is new since it was trained, so it stays")
    if outcome.comparison is not None:
        click.echo(_verdict(outcome.comparison, is_new=outcome.is_new))


def _verdict(comparison: Comparison, *, is_new: bool) -> str:
    scores = (
        f"on the newest {comparison.jobs} runs its squared error is {comparison.new_brier:.3f}, "
        f"that of model {comparison.model} {comparison.old_brier:.3f}"
    )
    if is_new:
        return f"new: {scores}"
    return f"kept model {comparison.model}, the new one is worse: {scores} (--force takes it)"


def _row(entry: Learned) -> tuple[object, ...]:
    profile = entry.profile
    return (
        entry.application.evidence,
        entry.application.label,
        entry.application.runs,
        profile.pattern,
        f"{profile.confidence:.2f}",
        bytes_text(profile.numbers.get("chunk_bytes")),
        bytes_text(profile.numbers.get("write_bytes")),
        bytes_text(profile.numbers.get("read_bytes")),
    )


def _quality(metrics: dict[str, Any]) -> str:
    later = metrics["later_jobs"]
    if not later:
        return "too few runs to say how good this is"
    right = share_text(later["accuracy_answered"]) if later["answered"] else NOTHING
    return (
        f"predicted from the earlier runs, {later['jobs']} of the last: certain enough of "
        f"{share_text(later['answered'])}, right in {right} of those (always saying "
        f"{later['baseline']}: {share_text(later['baseline_accuracy'])} of all); bytes within 2× "
        f"in {share_text(later['bytes_within_2'])} (as last time: "
        f"{share_text(later['last_within_2'])}, the application's mean: "
        f"{share_text(later['mean_within_2'])})"
    )


def _as_json(outcome: Renewal, bundle: Published | None) -> dict[str, object]:
    return {
        "model": outcome.model_id,
        "is_new": outcome.is_new,
        "comparison": asdict(outcome.comparison) if outcome.comparison else None,
        "metrics": outcome.model.metrics,
        "bundle": bundle_json(bundle) if bundle else None,
        "applications": [
            {
                "evidence": entry.application.evidence,
                "application": entry.application.label,
                "key": f"{entry.application.key:016x}",
                "runs": entry.application.runs,
                "pattern": entry.profile.pattern,
                "confidence": entry.profile.confidence,
                **entry.profile.numbers,
            }
            for entry in outcome.model.table
        ],
    }
