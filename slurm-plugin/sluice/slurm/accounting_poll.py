"""Polls logs and accounting as they arrive, and joins what sluiced could not.

Finds the jobs of records that sluiced could not join, by what only accounting knows. Who submits a
sweep of one name within a second leaves records that the queue does not tell apart, and a job that
had ended before sluiced polled was never in it. The accounting has the line that each was submitted
with, and the record the line's hash.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from sluice.history_db.intake import add_jobs
from sluice.history_db.sacct import SacctError, parse_answers
from sluice.ingest.ingest import Tree, ingest_checked
from sluice.interference.ranking import refresh
from sluice.policies import core
from sluice.prediction.submission_features import SLACK
from sluice.slurm.pending_records import HOPE, Known, cut_name, known_of, readable
from sluice.slurm.record_matching import WINDOW, JobTraits, RecordKey, Submitted, match
from sluice.slurm.records import SlurmError
from sluice.slurm.service import say_alive
from sluice.slurm.slurm_commands import accounting

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from sluice.history_db.intake import JobSummary
    from sluice.history_db.records import Job
    from sluice.history_db.store import Store
    from sluice.ingest.ingest import Summary


HETEROGENEOUS = "het"
"""Flag of submissions that are left alone: a record is kept of the first component only."""

SubmissionKey = tuple[int, int]
"""Number that sbatch printed, and submit second."""


def join_late(store: Store, jobs: Sequence[Job], *, now: float) -> int:
    """Join records without a job with these jobs of the accounting; return how many.

    Only records that sluiced has given up by now (UTC seconds), and where line, user, name and
    second leave one choice; so nothing is joined where the accounting lacks SubmitLine.
    """
    told = [job for job in jobs if job.submit_line and job.uid is not None and not job.restarts]
    if not told:
        return 0
    joined = 0
    for cluster, records in _given_up(store, told, now).items():
        submissions = _submissions(job for job in told if job.cluster == cluster)
        submitted = [
            Submitted(key, _traits(members[0]))
            for key, members in submissions.items()
            if not _has_decision(store, members[0])
        ]
        joins = match({key: known.traits for key, known in records.items()}, submitted).joins
        store.decisions.join_decisions((*join.record, join.job[0], join.by) for join in joins)
        for join in joins:
            signature = records[join.record].script_signature or None
            store.jobs.upsert_jobs(
                replace(job, script_signature=signature) for job in submissions[join.job]
            )
        joined += len(joins)
    return joined


def _submissions(jobs: Iterable[Job]) -> dict[SubmissionKey, list[Job]]:
    """Put the tasks of an array together: one line submitted them, and one record is of them."""
    found: dict[SubmissionKey, list[Job]] = {}
    for job in jobs:
        found.setdefault((job.submission_id, job.submit), []).append(job)
    return found


def _given_up(store: Store, jobs: Sequence[Job], now: float) -> dict[str, dict[RecordKey, Known]]:
    """Return the records without a job of the seconds in which these were submitted, by cluster."""
    seconds = {job.submit + near for job in jobs for near in range(-WINDOW, WINDOW + 1)}
    found: dict[str, dict[RecordKey, Known]] = {}
    for decision in store.decisions.decisions_without_job(
        since=min(seconds), until=min(max(seconds), int(now) - HOPE)
    ):
        record = readable(decision) if decision.now in seconds else None
        if record and HETEROGENEOUS not in record.submission.flags:
            found.setdefault(decision.cluster, {})[record.key] = known_of(record)
    return found


def _has_decision(store: Store, job: Job) -> bool:
    decisions = store.decisions.decisions_for_job(job.submission_id, job.cluster)
    return any(abs(decision.now - job.submit) <= SLACK for decision in decisions)


def _traits(job: Job) -> JobTraits:
    line = core.submission_of({"submit_line": job.submit_line})
    return JobTraits(
        uid=job.uid or 0,
        submit=job.submit,
        name=cut_name(job.name or ""),
        is_array=job.array_job is not None,
        component=None,
        nodes=job.nodes or 0,
        time_limit=job.time_limit,
        account=job.account and job.account.lower(),
        partitions=tuple((job.partition or "").split(",")),
        submit_line_hash=line.submit_line_hash,
    )


FIRST_DAYS = 2
"""Days of accounting that are asked for at the start."""
OVERLAP = 300
"""Seconds asked for again each time: rows are completed late."""
LATE = 7200
"""Seconds asked for again once an hour, for what came later still."""
HOUR = 3600


class AccountingError(SlurmError):
    """Sacct could not tell."""


LOGS = 100  # read between two signs of life: there may be a million when a site begins


def _said_alive(paths: Iterable[Path]) -> Iterator[Path]:
    for number, path in enumerate(paths):
        if number % LOGS == 0:
            say_alive()
        yield path


class Follower:
    """Remembers what it has asked and seen."""

    def __init__(
        self,
        directories: tuple[Path, ...],
        *,
        workers: int,
        now: float,
        report: Callable[[str], None],
    ) -> None:
        """Follow these directories; report gets what people should be told of a log or line."""
        self._tree = Tree(directories)
        self._workers = workers
        self._report = report
        self._asked = now - FIRST_DAYS * 86400
        self._late = now
        self._added_up = 0.0

    def ask_sacct(self, store: Store, now: float) -> JobSummary:
        """Take up the jobs that ran since the last time. Raises AccountingError, HistoryError."""
        is_late = now >= self._late + HOUR
        try:
            answers = accounting(int(self._asked - (LATE if is_late else OVERLAP)))
            summary = add_jobs(
                store,
                parse_answers(*answers),
                report=lambda number, why: self._report(f"sacct:{number}: skipped: {why}"),
                join=partial(join_late, store, now=now),
            )
        except (SlurmError, SacctError) as error:
            raise AccountingError(f"no accounting this time: {error}") from error
        self._asked = now
        self._late = now if is_late else self._late
        return summary

    def read_logs(self, store: Store, now: float) -> Summary:
        """Take up the logs that came, and those whose jobs are known now. Raises HistoryError."""
        summary = ingest_checked(
            store,
            _said_alive(self._tree.files(now)),
            now=now,
            workers=self._workers,
            quarantined=lambda one: self._report(f"quarantined {one.path}: {one.reason}"),
        )
        for counter, count in sorted(summary.not_counted.items()):
            self._report(f"{counter} cannot be true in {count} logs, and was not counted there")
        for path, reason in self._tree.unlisted.items():
            self._report(f"cannot list {path}: {reason}")
        return summary

    def add_up(self, store: Store, now: float) -> None:
        """Add up, once an hour, the weeks that changed, for rankings."""
        if now >= self._added_up + HOUR:
            refresh(store)
            self._added_up = now
