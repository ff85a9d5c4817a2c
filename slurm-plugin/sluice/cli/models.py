"""`sluice model list`."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from sluice.cli.common import (
    NOTHING,
    config_option,
    coverage_line,
    history_option,
    json_option,
    open_history,
    share_text,
    show_json,
    show_table,
    time_text,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from sluice.history_db.records import Publication, Training


@click.command("models", short_help="List what was trained and published.")
@config_option
@history_option
@json_option
def command(*, config: Path | None, history: Path | None, as_json: bool) -> None:
    """List what was trained and published.

    Each line is a model, the latest last: the runs it learned from, how well it predicted those
    that came last, and when it was published. An arrow marks the one in use.

    \b
    Examples:
        sluice model list
        sluice model publish 7            # the model with this number
        sluice model publish --rollback   # the one in use before
    """
    with open_history(config, history, read_only=True) as store:
        models, bundles = store.trainings(), store.publications()
        in_use = store.model_in_use()
        coverage, shares = coverage_line(store), asdict(store.coverage())
    published = {model.id: [b for b in bundles if b.model == model.id] for model in models}
    if as_json:
        rows = [_fields(model, published[model.id], in_use) for model in models]
        show_json({"coverage": shares, "models": rows})
        return
    click.echo(coverage)
    if not models:
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
                f"→ {model.id}" if model.id == in_use else str(model.id),
                time_text(model.created),
                model.metrics["jobs"],
                *_range(model.metrics),
                *_quality(model.metrics),
                _latest(published[model.id]),
            )
            for model in models
        ],
        least=("squared error", "from", "until", "of those right", "certain of"),
    )


def _fields(
    model: Training, published: Sequence[Publication], in_use: int | None
) -> dict[str, Any]:
    return {
        "model": model.id,
        "in_use": model.id == in_use,
        "trained": model.created,
        "metrics": model.metrics,
        "bundles": [
            {
                "checksum": f"{bundle.checksum:016x}",
                "path": bundle.path,
                "published_at": bundle.published_at,
            }
            for bundle in published
        ],
    }


def _range(metrics: dict[str, Any]) -> tuple[str, str]:
    return time_text(metrics.get("since"))[:10], time_text(metrics.get("until"))[:10]


def _quality(metrics: dict[str, Any]) -> tuple[str, str, str]:
    later = metrics.get("later_jobs")
    if not later:
        return NOTHING, NOTHING, NOTHING
    answered, right = later["answered"], later["accuracy_answered"]
    return share_text(answered), share_text(right), f"{later['brier']:.3f}"


def _latest(published: Sequence[Publication]) -> str:
    return time_text(max((bundle.published_at for bundle in published), default=None))
