"""The states of the cluster that decisions were made with.

They differ from second to second by a few bytes, so most are kept as what differs from the one
before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluice.history_db.connection import Connection
from sluice.history_db.deltas import Base, restore
from sluice.history_db.packing import packed, unpacked
from sluice.history_db.records import Snapshot
from sluice.history_db.sql import signed

if TYPE_CHECKING:
    from sluice.history_db.sql import Database

LONGEST = 128
"""Deltas behind one that is kept whole: reading one takes all before it."""
AT_ONCE = 10_000
"""Rows forgotten in a transaction."""
WORTH = 3
"""A delta is kept if it is so many times smaller than the whole."""


class Snapshots(Connection):
    """Table `snapshots`."""

    _latest: tuple[int, Base] | None = None
    """The one that was stored last, and its checksum."""
    _deltas = 0
    """Since one was stored whole."""

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
        self._latest = (snapshot.checksum, Base(snapshot.content))
        self._deltas = 0 if base is None else self._deltas + 1

    def _packed(self, db: Database, snapshot: Snapshot) -> tuple[int | None, bytes]:
        """Return the base's checksum and the delta to it; None and the whole if that is as good."""
        whole = packed(snapshot.content)
        if self._latest is None or self._deltas >= LONGEST:
            return None, whole
        checksum, base = self._latest
        delta = packed(base.delta(snapshot.content), base.content)
        is_there = db.execute("SELECT 1 FROM snapshots WHERE checksum = ?", [signed(checksum)])
        if WORTH * len(delta) > len(whole) or not is_there.fetchone():
            return None, whole
        return signed(checksum), delta

    def snapshot(self, checksum: int) -> Snapshot | None:
        rows = self._rows(
            """
            WITH RECURSIVE chain (depth, sequence, taken, content, base) AS (
                SELECT 0, sequence, taken, content, base FROM snapshots WHERE checksum = ?
                UNION ALL
                SELECT chain.depth + 1, one.sequence, one.taken, one.content, one.base
                FROM snapshots AS one JOIN chain ON one.checksum = chain.base
            )
            SELECT sequence, taken, content FROM chain ORDER BY depth DESC
            """,
            [signed(checksum)],
        )
        if not rows:
            return None
        content = unpacked(rows[0][2])
        for _, _, delta in rows[1:]:
            content = restore(content, unpacked(delta, content))
        sequence, taken, _ = rows[-1]
        return Snapshot(checksum, sequence, taken, content)

    def _forget_snapshots(self, before: int) -> None:
        """Forget those of before a time that no decision refers to, and none is made of.

        The latest first: what is made of another was stored after it.
        """
        needed = self._rows(
            "SELECT base FROM snapshots WHERE base IS NOT NULL "
            "AND (taken >= ? OR checksum IN (SELECT snapshot FROM decisions))",
            [before],
        )
        bases = {base for (base,) in needed}
        old = self._rows(
            "SELECT checksum, base FROM snapshots "
            "WHERE taken < ? AND checksum NOT IN (SELECT snapshot FROM decisions) "
            "ORDER BY taken DESC, sequence DESC",
            [before],
        )
        forgotten = []
        for checksum, base in old:
            if checksum in bases:
                bases.add(base)
            else:
                forgotten.append((checksum,))
        for start in range(0, len(forgotten), AT_ONCE):
            with self._transaction() as db:
                for row in forgotten[start : start + AT_ONCE]:
                    db.execute("DELETE FROM snapshots WHERE checksum = ?", row)
