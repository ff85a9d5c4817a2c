"""What Slurm and the storage servers count of jobs, into the history."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sluice.history_db.job_stats import parse_job_stats
from sluice.history_db.sacct import BrokenLine, parse_sacct

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
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
    joined: int = 0
    """Decisions that were without a job, and are not any more."""


@dataclass(frozen=True, slots=True)
class JobStatsSummary:
    jobs: int
    """Whose figures the history now has."""
    unmatched: int
    """Jobs that the accounting does not know (yet)."""
    others: int
    """Entries that are not of a job: of daemons, of logins."""


def add_accounting(
    store: Store,
    lines: Iterable[str],
    *,
    name: str,
    zone: tzinfo | None,
    cluster: str,
    report: Callable[[int, str], None],
    join: Callable[[Sequence[Job]], int] | None = None,
) -> JobSummary:
    """Add what sacct printed; `report` is told number and fault of each broken line.

    `join` gets the jobs, some at a time, and returns to how many of them it gave a decision.
    Raises SacctError when there is no heading, HistoryError when it cannot be kept.
    """
    summary = JobSummary()

    def keep(batch: list[Job]) -> None:
        added, changed = store.upsert_jobs(batch)
        summary.added += added
        summary.changed += changed
        summary.unchanged += len(batch) - added - changed
        summary.joined += join(batch) if join else 0

    batch: list[Job] = []
    for item in parse_sacct(lines, zone=zone, cluster=cluster, name=name):
        if isinstance(item, BrokenLine):
            summary.broken += 1
            report(item.number, item.reason)
            continue
        batch.append(item)
        if len(batch) == BATCH:
            keep(batch)
            batch = []
    keep(batch)
    store.link_logs()
    store.update_coverage()
    return summary


def add_job_stats(store: Store, lines: Iterable[str], *, name: str) -> JobStatsSummary:
    """Give jobs the servers' figures. Raises JobStatsError or HistoryError."""
    stats, others = parse_job_stats(lines, name=name)
    matched = store.put_job_stats(stats.values())
    store.update_coverage()
    return JobStatsSummary(matched, len(stats) - matched, others)
