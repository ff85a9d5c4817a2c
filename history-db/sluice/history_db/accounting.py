"""Accounting into the history."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sluice.history_db.sacct import BrokenLine, parse_sacct

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from datetime import tzinfo

    from sluice.history_db.records import Job
    from sluice.history_db.store import Store

BATCH = 1000  # jobs in a transaction


@dataclass(slots=True)
class JobSummary:
    added: int = 0
    changed: int = 0
    unchanged: int = 0
    broken: int = 0
    """Lines that could not be understood."""


def add_accounting(
    store: Store,
    lines: Iterable[str],
    *,
    name: str,
    zone: tzinfo | None,
    cluster: str,
    report: Callable[[int, str], None],
) -> JobSummary:
    """Add what sacct printed; `report` is told number and fault of each broken line.

    Raises SacctError when there is no heading, HistoryError when it cannot be kept.
    """
    summary = JobSummary()
    batch: list[Job] = []
    for item in parse_sacct(lines, zone=zone, cluster=cluster, name=name):
        if isinstance(item, BrokenLine):
            summary.broken += 1
            report(item.number, item.reason)
            continue
        batch.append(item)
        if len(batch) == BATCH:
            _keep(store, batch, summary)
            batch = []
    _keep(store, batch, summary)
    store.link_logs()
    store.update_coverage()
    return summary


def _keep(store: Store, batch: list[Job], summary: JobSummary) -> None:
    added, changed = store.upsert_jobs(batch)
    summary.added += added
    summary.changed += changed
    summary.unchanged += len(batch) - added - changed
