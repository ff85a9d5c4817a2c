"""What is added to the history besides logs: accounting and servers' counts."""

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
    contradicted: int
    """Jobs whose accounting names another user or far fewer bytes: any user can name a job."""
    others: int
    """Entries that are not of a job: of daemons, of logins."""
    form: str
    """How a job is named in an entry."""
    is_guessed: bool
    other_example: str | None
    contradicted_example: str | None


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
    """Add what a file has of sacct; as add_jobs. Raises SacctError when there is no heading."""
    jobs = parse_sacct(lines, zone=zone, cluster=cluster, name=name)
    return add_jobs(store, jobs, report=report, join=join)


def add_jobs(
    store: Store,
    jobs: Iterable[Job | BrokenLine],
    *,
    report: Callable[[int, str], None],
    join: Callable[[Sequence[Job]], int] | None = None,
) -> JobSummary:
    """Add jobs of the accounting; `report` is told number and fault of each broken line.

    `join` gets the jobs, some at a time, and returns to how many of them it gave a decision.
    Raises SacctError of the text, HistoryError when it cannot be kept.
    """
    summary = JobSummary()

    def keep(batch: list[Job]) -> None:
        added, changed = store.jobs.upsert_jobs(batch)
        summary.added += added
        summary.changed += changed
        summary.unchanged += len(batch) - added - changed
        summary.joined += join(batch) if join else 0

    batch: list[Job] = []
    for item in jobs:
        if isinstance(item, BrokenLine):
            summary.broken += 1
            report(item.number, item.reason)
            continue
        batch.append(item)
        if len(batch) == BATCH:
            keep(batch)
            batch = []
    keep(batch)
    store.jobs.link_logs()
    store.jobs.update_coverage()
    return summary


def add_job_stats(
    store: Store,
    lines: Iterable[str],
    *,
    name: str,
    form: str | None = None,
    told: str | None = None,
) -> JobStatsSummary:
    """Give jobs the servers' figures; form, told: as `parse_job_stats` takes them.

    Raises JobStatsError or HistoryError.
    """
    parsed = parse_job_stats(lines, name=name, form=form, told=told)
    matched, contradicted = store.jobs.put_job_stats(parsed.jobs)
    store.jobs.update_coverage()
    return JobStatsSummary(
        jobs=matched,
        unmatched=len(parsed.jobs) - matched - len(contradicted),
        contradicted=len(contradicted),
        others=parsed.others,
        form=parsed.form,
        is_guessed=parsed.is_guessed,
        other_example=parsed.example,
        contradicted_example=contradicted[0] if contradicted else None,
    )
