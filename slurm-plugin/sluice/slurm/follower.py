"""Takes up logs and accounting as they arrive, for `history ingest --follow` and sluice-learn."""

from __future__ import annotations

import io
from functools import partial
from typing import TYPE_CHECKING

from sluice.history_db.accounting import add_accounting
from sluice.history_db.sacct import SacctError
from sluice.ingest.follow import Tree
from sluice.ingest.ingest import ingest_checked
from sluice.interference.ranking import refresh
from sluice.patterns.site import site_classifier
from sluice.slurm.errors import SlurmError
from sluice.slurm.late_joins import join_late
from sluice.slurm.slurm_commands import accounting

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from sluice.history_db.accounting import JobSummary
    from sluice.history_db.store import Store
    from sluice.ingest.ingest import Summary

FIRST_DAYS = 2
"""Days of accounting that are asked for at the start."""
OVERLAP = 300
"""Seconds asked for again each time: rows are completed late."""
LATE = 7200
"""Seconds asked for again once an hour, for what came later still."""
HOUR = 3600


class AccountingError(SlurmError):
    """Sacct could not tell."""


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
            text = accounting(int(self._asked - (LATE if is_late else OVERLAP)))
            summary = add_accounting(
                store,
                io.StringIO(text),
                name="sacct",
                zone=None,
                cluster="",
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
            self._tree.files(now),
            now=now,
            workers=self._workers,
            classifier=site_classifier(store),
            quarantined=lambda one: self._report(f"quarantined {one.path}: {one.reason}"),
        )
        for path, reason in self._tree.unlisted.items():
            self._report(f"cannot list {path}: {reason}")
        return summary

    def add_up(self, store: Store, now: float) -> None:
        """Add up, once an hour, the weeks that changed, for rankings."""
        if now >= self._added_up + HOUR:
            refresh(store)
            self._added_up = now
