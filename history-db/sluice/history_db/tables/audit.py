"""Who changed what about Sluice: a table to which rows are only ever added."""

from __future__ import annotations

from dataclasses import astuple, fields
from typing import TYPE_CHECKING

from sluice.history_db.connection import Connection
from sluice.history_db.records import AuditEntry
from sluice.history_db.sql import marks

if TYPE_CHECKING:
    from collections.abc import Iterable

LARGEST = (1 << 63) - 1
COLUMNS = ", ".join(field.name for field in fields(AuditEntry))


class Audit(Connection):
    """Table `audit`."""

    def add_audit(self, entries: Iterable[AuditEntry]) -> None:
        """Add these, in their order."""
        with self._transaction() as db:
            db.executemany(
                f"INSERT INTO audit ({COLUMNS}) VALUES ({marks(len(fields(AuditEntry)))})",
                [astuple(entry) for entry in entries],
            )

    def audit(self, *, since: int = 0) -> list[AuditEntry]:
        """Return what was changed from a time on (UTC seconds), oldest first."""
        rows = self._rows(f"SELECT {COLUMNS} FROM audit WHERE at >= ? ORDER BY id", [since])
        return [AuditEntry(*row) for row in rows]

    def latest_audit(
        self, limit: int, *, since: int = 0, before: int | None = None
    ) -> list[tuple[int, AuditEntry]]:
        """Return the latest changes with their numbers, the latest first.

        since: UTC seconds; before: only those with a smaller number than this.
        """
        rows = self._rows(
            f"SELECT id, {COLUMNS} FROM audit WHERE at >= ? AND id < ? ORDER BY id DESC LIMIT ?",
            [since, LARGEST if before is None else before, limit],
        )
        return [(row[0], AuditEntry(*row[1:])) for row in rows]

    def audited(self, cluster: str) -> dict[str, str]:
        """Return the value of each subject of a cluster after its latest change."""
        rows = self._rows(
            "SELECT subject, after FROM audit WHERE id IN "
            "(SELECT max(id) FROM audit WHERE cluster = ? GROUP BY subject)",
            [cluster],
        )
        return dict(rows)
