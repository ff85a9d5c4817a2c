"""`sluice model list` and `sluice model bundle`."""

from __future__ import annotations

import itertools
import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sluice.cli.common import (
    Files,
    coverage_text,
    files_options,
    json_option,
    show_json,
    show_table,
)
from sluice.slurm.views.formatting import NOTHING, bytes_text, rate_text, share_text, time_text

if TYPE_CHECKING:
    from sluice.policies.bundle import Bundle
    from sluice.policies.core import View


@click.command("models", short_help="List what was trained and published.")
@files_options
@json_option
def list_(*, files: Files, as_json: bool) -> None:
    """List what was trained and published.

    Each line is a model, the latest last: the runs it learned from, how well it predicted those
    that came last, and when it was published. An arrow marks the one in use.

    \b
    Examples:
        sluice model list
        sluice model publish 7            # the model with this number
        sluice model publish --rollback   # the one in use before
    """
    from sluice.slurm.views.query_replies import models

    with files.open_history(read_only=True) as store:
        rows = models(store)
        coverage = store.jobs.coverage()
    if as_json:
        show_json({"coverage": asdict(coverage), "models": rows})
        return
    click.echo(coverage_text(coverage))
    if not rows:
        click.echo("no model yet; see `sluice model train`")
        return
    show_table(
        (
            "model",
            "trained",
            "jobs",
            "from",
            "until",
            "certain of",
            "of those right",
            "squared error",
            "published",
        ),
        [
            (
                f"→ {row['model']}" if row["in_use"] else str(row["model"]),
                time_text(row["trained"]),
                row["metrics"]["jobs"],
                *_range(row["metrics"]),
                *_quality(row["metrics"]),
                time_text(max((one["published_at"] for one in row["bundles"]), default=None)),
            )
            for row in rows
        ],
        least=("squared error", "from", "until", "of those right", "certain of"),
    )


def _range(metrics: dict[str, Any]) -> tuple[str, str]:
    return time_text(metrics.get("since"))[:10], time_text(metrics.get("until"))[:10]


def _quality(metrics: dict[str, Any]) -> tuple[str, str, str]:
    later = metrics.get("later_jobs")
    if not later:
        return NOTHING, NOTHING, NOTHING
    answered, right = later["answered"], later["accuracy_answered"]
    return share_text(answered), share_text(right), f"{later['brier']:.3f}"


@click.command("bundle", short_help="Look into a model bundle.")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--owner",
    type=int,
    metavar="UID",
    help="The user, besides root, that may own the file.  [default: the file's]",
)
@json_option
@click.option(
    "--applications",
    default=20,
    show_default=True,
    type=click.IntRange(0),
    help="How many applications to list; --json lists all.",
)
@click.option("--skip", default=0, type=click.IntRange(0), help="Begin after so many applications.")
def bundle_(file: Path, owner: int | None, applications: int, skip: int, *, as_json: bool) -> None:
    """Look into a model bundle.

    The bundle is the one file that `sluice model publish` writes and slurmctld loads: what is known
    of each application, how patterns interfere, reviews, and the settings to decide by. A bundle
    that slurmctld would not load is refused with the reason: the checks are those of the plugin
    (checksum, bounds, owner and mode).

    \b
    Examples:
        sluice model bundle /var/lib/sluice/model.bundle
        sluice model bundle model.bundle --owner $(id -u slurm)
        sluice model bundle model.bundle --skip 20 --applications 100
        sluice model bundle model.bundle --json | jq .policy
    """
    from sluice.policies.bundle import Bundle

    bundle = Bundle.load(file, file.stat().st_uid if owner is None else owner)
    if as_json:
        show_json(
            _summary(bundle)
            | {"applications": [entry.to_dict() for entry in bundle.applications()]}
        )
        return
    _show_summary(file, _summary(bundle))
    listed = list(itertools.islice(bundle.applications(), skip, skip + applications))
    if listed:
        click.echo(
            f"\nApplications {skip + 1} to {skip + len(listed)} of {bundle.application_count}"
        )
        show_table(
            (
                *("Known by", "Pattern", "Conf", "Runs", "Class"),
                *("Chunk", "Written", "Read", "Rate", "I/O"),
            ),
            [_application(entry, bundle) for entry in listed],
        )


def _summary(bundle: Bundle) -> dict[str, Any]:
    return {
        "checksum": f"{bundle.checksum:016x}",
        "created": bundle.created,
        "policy": bundle.policy.to_dict(),
        "interference": bundle.interference.to_dict(),
        "application_count": bundle.application_count,
        "training": _training(bundle.text),
    }


def _training(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _show_summary(file: Path, summary: dict[str, Any]) -> None:
    click.echo(
        f"{file}: valid, checksum {summary['checksum']}, written {time_text(summary['created'])}."
    )
    click.echo("\nPolicy")
    policy = dict(summary["policy"])
    lanes = policy.pop("lanes")
    policy.pop("lane_count", None)
    show_table(("Setting", "Value"), [(name, f"{value:g}") for name, value in policy.items()])
    if lanes:
        click.echo("\nLanes")
        show_table(
            ("Lane", "Targets", "Bandwidth"),
            [
                (lane["name"], lane["targets"], rate_text(lane["bandwidth"] or None))
                for lane in lanes
            ],
        )
    click.echo("\nInterference (policies/core/interference.h)")
    show_table(
        ("Coefficient", "Value"),
        [
            (name, f"{value:g}")
            for name, value in summary["interference"].items()
            if isinstance(value, (int, float))
        ],
    )
    click.echo("\nTraining")
    click.echo(json.dumps(summary["training"], indent=2, ensure_ascii=False))


def _application(entry: View, bundle: Bundle) -> tuple[object, ...]:
    from sluice.policies.core import class_of

    profile = entry.profile
    return (
        entry.evidence,
        profile.pattern,
        f"{profile.confidence:.2f}",
        profile.runs,
        class_of(profile, bundle.policy),
        bytes_text(profile.chunk_bytes),
        bytes_text(profile.write_bytes),
        bytes_text(profile.read_bytes),
        rate_text(profile.rate),
        share_text(profile.io_share),
    )
