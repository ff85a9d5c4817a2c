"""`sluice history`."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from sluice.cli.common import (
    config_option,
    coverage_line,
    history_option,
    json_option,
    open_history,
    show_json,
    show_table,
)

if TYPE_CHECKING:
    from pathlib import Path


@click.command("history", short_help="Say what the history holds.")
@click.option("--quarantined", is_flag=True, help="List the logs in quarantine and why.")
@config_option
@history_option
@json_option
def command(*, quarantined: bool, config: Path | None, history: Path | None, as_json: bool) -> None:
    """Say what the history holds.

    \b
        sluice history
        sluice history --quarantined
    """
    with open_history(config, history, read_only=True) as store:
        counts, path = store.counts(), store.path
        coverage, shares = coverage_line(store), store.coverage()
        logs = store.quarantined() if quarantined else []
    if quarantined:
        if as_json:
            show_json([{"path": log.path, "reason": log.reason} for log in logs])
        else:
            show_table(("log", "why it is in quarantine"), [(log.path, log.reason) for log in logs])
        return
    if as_json:
        show_json({"path": str(path), **asdict(counts), "coverage": asdict(shares)})
        return
    click.echo(coverage)
    click.echo(str(path))
    show_table(
        ("", ""),
        [
            ("logs read", counts.logs),
            ("  of known jobs", counts.linked),
            ("  labelled", counts.labels),
            ("logs in quarantine", counts.quarantined),
            ("jobs of the accounting", counts.jobs),
            ("decisions", counts.decisions),
            ("models", counts.models),
            ("bundles published", counts.bundles),
        ],
    )
