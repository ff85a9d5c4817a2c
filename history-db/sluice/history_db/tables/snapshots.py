"""The states of the cluster that decisions were made with.

They differ from second to second by a few bytes, so most are kept as what differs from another.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

from sluice.history_db.connection import Connection
from sluice.history_db.deltas import Base, restore
from sluice.history_db.records import Snapshot
from sluice.history_db.sql import signed

if TYPE_CHECKING:
    from sluice.history_db.sql import Database

WORTH = 3
"""A delta is kept if it is so many times smaller than the whole."""


class Snapshots(Connection):
    """Table `snapshots`."""

    _base: tuple[int, Base] | None = None
    """The latest that was stored whole, and its checksum."""

    def add_snapshot(self, snapshot: Snapshot) -> None:
        if self._rows("SELECT 1 FROM snapshots WHERE checksum = ?", [signed(snapshot.checksum)]):
            return
        with self._transaction() as db:
            base, content = self._packed(db, snapshot)
            db.execute(
                "INSERT INTO snapshots (checksum, sequence, taken, content, base) "
                "VALUES (?, ?, ?, ?, ?) ON CONFLICT (checksum) DO NOTHING",
                [signed(snapshot.checksum), snapshot.sequence, snapshot.taken, content, base],
            )
        if base is None:
            self._base = (snapshot.checksum, Base(snapshot.content))

    def _packed(self, db: Database, snapshot: Snapshot) -> tuple[int | None, bytes]:
        """Return the base's checksum and the delta to it; None and the whole if that is as good."""
        whole = zlib.compress(snapshot.content)
        if self._base is None:
            return None, whole
        checksum, base = self._base
        delta = zlib.compress(base.delta(snapshot.content))
        is_there = db.execute("SELECT 1 FROM snapshots WHERE checksum = ?", [signed(checksum)])
        if WORTH * len(delta) > len(whole) or not is_there.fetchone():
            return None, whole
        return signed(checksum), delta

    def snapshot(self, checksum: int) -> Snapshot | None:
        rows = self._rows(
            "SELECT one.sequence, one.taken, one.content, base.content FROM snapshots AS one "
            "LEFT JOIN snapshots AS base ON base.checksum = one.base WHERE one.checksum = ?",
            [signed(checksum)],
        )
        if not rows:
            return None
        sequence, taken, content, base = rows[0]
        content = zlib.decompress(content)
        if base is not None:
            content = restore(zlib.decompress(base), content)
        return Snapshot(checksum, sequence, taken, content)
