"""What `sluice report` said last, for the pages: names of users and jobs are in it."""

from __future__ import annotations

import json

from sluice.history_db.connection import Connection
from sluice.history_db.records import ReportTitle, StoredReport
from sluice.history_db.sql import packed, unpacked

KEPT = 60
"""The latest: two months of daily reports."""


class Reports(Connection):
    """Table `reports`."""

    def add_report(self, report: StoredReport) -> None:
        """Keep a report as the latest, and forget the oldest beyond KEPT."""
        sections, facts = json.dumps(report.sections), json.dumps(report.facts)
        with self._transaction() as db:
            db.execute(
                "INSERT INTO reports (made_at, since, verdict, sections, facts) "
                "VALUES (?, ?, ?, ?, ?)",
                [report.made_at, report.since, report.verdict, sections, packed(facts.encode())],
            )
            db.execute(
                "DELETE FROM reports WHERE id NOT IN "
                "(SELECT id FROM reports ORDER BY id DESC LIMIT ?)",
                [KEPT],
            )

    def report_titles(self) -> dict[int, ReportTitle]:
        """Return the titles of all reports by their numbers, the latest first."""
        rows = self._rows("SELECT id, made_at, since, verdict FROM reports ORDER BY id DESC")
        return {row[0]: ReportTitle(*row[1:]) for row in rows}

    def report(self, number: int) -> StoredReport | None:
        rows = self._rows(
            "SELECT made_at, since, verdict, sections, facts FROM reports WHERE id = ?", [number]
        )
        if not rows:
            return None
        made_at, since, verdict, sections, facts = rows[0]
        return StoredReport(
            made_at, since, verdict, json.loads(sections), json.loads(unpacked(facts))
        )
