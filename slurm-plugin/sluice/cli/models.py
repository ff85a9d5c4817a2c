"""`sluice models`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from sluice.cli.common import (
    NOTHING,
    config_option,
    history_option,
    json_option,
    open_history,
    share_text,
    show_json,
    show_table,
    time_text,
)

if TYPE_CHECKING:
    from pathlib import Path


@click.command("models", short_help="List what was trained and published.")
@config_option
@history_option
@json_option
def command(*, config: Path | None, history: Path | None, as_json: bool) -> None:
    """List what was trained and published.

    Each line is a model, the latest last: how good it was found, and the bundles made of it.

    \b
    Example:
        sluice models
    """
    with open_history(config, history, read_only=True) as store:
        models, bundles = store.models(), store.bundles()
    if as_json:
        show_json(
            [
                {
                    "model": model.id,
                    "trained": model.created,
                    "metrics": model.metrics,
                    "bundles": [
                        {
                            "checksum": f"{bundle.checksum:016x}",
                            "path": bundle.path,
                            "published_at": bundle.published_at,
                        }
                        for bundle in bundles
                        if bundle.model == model.id
                    ],
                }
                for model in models
            ]
        )
        return
    show_table(
        ("model", "trained", "jobs", "certain of", "of those right", "published"),
        [
            (
                model.id,
                time_text(model.created),
                model.metrics["jobs"],
                *_quality(model.metrics),
                _published([b.published_at for b in bundles if b.model == model.id]),
            )
            for model in models
        ],
    )


def _quality(metrics: dict[str, Any]) -> tuple[str, str]:
    later = metrics.get("later_jobs")
    if not later:
        return NOTHING, NOTHING
    return share_text(later["answered"]), share_text(later["accuracy_answered"])


def _published(times: list[int]) -> str:
    return time_text(max(times)) if times else NOTHING
