"""The states of the cluster that decisions were made with."""

from __future__ import annotations

from sluice.history_db.connection import Connection
from sluice.history_db.records import Snapshot
from sluice.history_db.sql import signed


class Snapshots(Connection):
    """Table `snapshots`."""

    def add_snapshot(self, snapshot: Snapshot) -> None:
        with self._transaction() as db:
            db.execute(
                "INSERT INTO snapshots (checksum, sequence, taken, content) "
                "VALUES (?, ?, ?, ?) ON CONFLICT (checksum) DO NOTHING",
                [
                    signed(snapshot.checksum),
                    snapshot.sequence,
                    snapshot.taken,
                    snapshot.content,
                ],
            )

    def snapshot(self, checksum: int) -> Snapshot | None:
        rows = self._rows(
            "SELECT sequence, taken, content FROM snapshots WHERE checksum = ?",
            [signed(checksum)],
        )
        return Snapshot(checksum, *rows[0]) if rows else None
