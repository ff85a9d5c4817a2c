"""What people said that logs do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluice.history_db.connection import Connection
from sluice.history_db.records import Label

if TYPE_CHECKING:
    from collections.abc import Iterable


class Labels(Connection):
    """Table `labels`."""

    def put_labels(self, labels: Iterable[Label]) -> None:
        with self._transaction() as db:
            db.executemany(
                "INSERT INTO labels (log, pattern, application) VALUES (?, ?, ?) "
                "ON CONFLICT (log) DO UPDATE "
                "SET pattern = excluded.pattern, application = excluded.application",
                ((label.log_id, label.pattern, label.application) for label in labels),
            )

    def labels(self) -> list[Label]:
        return [Label(*row) for row in self._rows("SELECT log, pattern, application FROM labels")]
