"""Administration: the audit of what was changed, to which rows are only added, reviews, reports.

The names of users and jobs are in reports.
"""

from __future__ import annotations

import json
from dataclasses import astuple, fields
from typing import TYPE_CHECKING

from sluice.history_db.connection import Tables
from sluice.history_db.records import AuditEntry, ReportTitle, StoredReport, StoredReview
from sluice.history_db.sql import Database, marks, packed, unpacked

if TYPE_CHECKING:
    from collections.abc import Iterable

LARGEST = (1 << 63) - 1
COLUMNS = ", ".join(field.name for field in fields(AuditEntry))
KEPT_REPORTS = 60
"""The latest: two months of daily reports."""


class Administration(Tables):
    """Tables `audit`, `reviews` and `reports`."""

    def add_audit(self, entries: Iterable[AuditEntry]) -> None:
        """Add these, in their order."""
        with self._db.transaction() as db:
            db.executemany(
                f"INSERT INTO audit ({COLUMNS}) VALUES ({marks(len(fields(AuditEntry)))})",
                [astuple(entry) for entry in entries],
            )

    def audit(self, *, since: int = 0) -> list[AuditEntry]:
        """Return what was changed from a time on (UTC seconds), oldest first."""
        rows = self._db.rows(f"SELECT {COLUMNS} FROM audit WHERE at >= ? ORDER BY id", [since])
        return [AuditEntry(*row) for row in rows]

    def latest_audit(
        self, limit: int, *, since: int = 0, before: int | None = None
    ) -> list[tuple[int, AuditEntry]]:
        """Return the latest changes with their numbers, the latest first.

        since: UTC seconds; before: only those with a smaller number than this.
        """
        rows = self._db.rows(
            f"SELECT id, {COLUMNS} FROM audit WHERE at >= ? AND id < ? ORDER BY id DESC LIMIT ?",
            [since, LARGEST if before is None else before, limit],
        )
        return [(row[0], AuditEntry(*row[1:])) for row in rows]

    def audited(self, cluster: str) -> dict[str, str]:
        """Return the value of each subject of a cluster after its latest change."""
        rows = self._db.rows(
            "SELECT subject, after FROM audit WHERE id IN "
            "(SELECT max(id) FROM audit WHERE cluster = ? GROUP BY subject)",
            [cluster],
        )
        return dict(rows)

    def add_review(self, review: StoredReview) -> None:
        """Write a review down; those that stand under the same name are undone by it."""
        with self._db.transaction() as db:
            self._undo(db, review.name, review.content.get("by") or review.source, review.made_at)
            db.execute(
                "INSERT INTO reviews (name, source, made_at, content) VALUES (?, ?, ?, ?)",
                [review.name, review.source, review.made_at, json.dumps(review.content)],
            )

    def undo_review(self, name: str, by: str, now: int) -> bool:
        """Take a review back; False if none of this name stands."""
        with self._db.transaction() as db:
            return self._undo(db, name, by, now)

    @staticmethod
    def _undo(db: Database, name: str, by: str, now: int) -> bool:
        undone = db.execute(
            "UPDATE reviews SET undone_at = ?, undone_by = ? WHERE name = ? AND undone_at IS NULL",
            [now, by, name],
        )
        return undone.rowcount > 0

    def reviews(self, name: str | None = None) -> list[StoredReview]:
        """Return all reviews there ever were, or those of a name, in the order of their making."""
        chosen, values = ("", []) if name is None else ("WHERE name = ?", [name])
        return [
            StoredReview(row[0], row[1], row[2], json.loads(row[3]), *row[4:])
            for row in self._db.rows(
                "SELECT name, source, made_at, content, undone_at, undone_by FROM reviews "
                f"{chosen} ORDER BY id",
                values,
            )
        ]

    def add_report(self, report: StoredReport) -> None:
        """Keep a report as the latest, and forget the oldest beyond KEPT_REPORTS."""
        sections, facts = json.dumps(report.sections), json.dumps(report.facts)
        with self._db.transaction() as db:
            db.execute(
                "INSERT INTO reports (made_at, since, verdict, sections, facts) "
                "VALUES (?, ?, ?, ?, ?)",
                [report.made_at, report.since, report.verdict, sections, packed(facts.encode())],
            )
            db.execute(
                "DELETE FROM reports WHERE id NOT IN "
                "(SELECT id FROM reports ORDER BY id DESC LIMIT ?)",
                [KEPT_REPORTS],
            )

    def report_titles(self) -> dict[int, ReportTitle]:
        """Return the titles of all reports by their numbers, the latest first."""
        rows = self._db.rows("SELECT id, made_at, since, verdict FROM reports ORDER BY id DESC")
        return {row[0]: ReportTitle(*row[1:]) for row in rows}

    def report(self, number: int) -> StoredReport | None:
        rows = self._db.rows(
            "SELECT made_at, since, verdict, sections, facts FROM reports WHERE id = ?", [number]
        )
        if not rows:
            return None
        made_at, since, verdict, sections, facts = rows[0]
        return StoredReport(
            made_at, since, verdict, json.loads(sections), json.loads(unpacked(facts))
        )
