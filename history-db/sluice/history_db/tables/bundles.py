"""The bundles that were published.

sluice-learn publishes every few minutes, and two of its bundles differ by some applications: most
are kept as what differs from one that is kept whole.
"""

from __future__ import annotations

from sluice.history_db.connection import Connection
from sluice.history_db.deltas import Base, restore
from sluice.history_db.packing import packed, unpacked
from sluice.history_db.records import Bundle, Publication
from sluice.history_db.sql import signed, unsigned

WORTH = 4
"""A delta is kept if it is so many times smaller than the whole."""


class Bundles(Connection):
    """Table `bundles`: files from which decisions can be replayed."""

    _whole: tuple[int, Base] | None = None
    """The one that was kept whole last, and its checksum."""

    def add_bundle(self, bundle: Bundle) -> None:
        """Keep a bundle as the one published last, also of several in one second."""
        with self._transaction() as db:
            base, content = self._delta(bundle.content)
            (latest,) = db.execute("SELECT max(published_at) FROM bundles").fetchone()
            db.execute(
                "INSERT INTO bundles (checksum, model, path, published_at, content, base) "
                "VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (checksum) DO UPDATE "
                "SET path = excluded.path, published_at = excluded.published_at",
                [
                    signed(bundle.checksum),
                    bundle.model,
                    bundle.path,
                    max(bundle.published_at, (latest or 0) + 1),
                    content,
                    base,
                ],
            )

    def _delta(self, content: bytes) -> tuple[int | None, bytes]:
        """Return the base's checksum and the delta to it; None and the whole if that is as good."""
        whole = self._latest_whole()
        if whole is None:
            return None, content
        checksum, base = whole
        delta = packed(base.delta(content))
        if WORTH * len(delta) > len(content):
            self._whole = None
            return None, content
        return signed(checksum), delta

    def _latest_whole(self) -> tuple[int, Base] | None:
        rows = self._rows(
            "SELECT checksum FROM bundles WHERE base IS NULL "
            "ORDER BY published_at DESC, rowid DESC LIMIT 1"
        )
        checksum = unsigned(rows[0][0]) if rows else None
        if checksum is None or self._whole is None or self._whole[0] != checksum:
            bundle = self.bundle(checksum) if checksum is not None else None
            self._whole = (bundle.checksum, Base(bundle.content)) if bundle else None
        return self._whole

    def bundle(self, checksum: int) -> Bundle | None:
        rows = self._rows(
            """
            SELECT one.model, one.path, one.published_at, one.content, base.content
            FROM bundles AS one LEFT JOIN bundles AS base ON base.checksum = one.base
            WHERE one.checksum = ?
            """,
            [signed(checksum)],
        )
        if not rows:
            return None
        model, path, published_at, content, base = rows[0]
        if base is not None:
            content = restore(base, unpacked(content))
        return Bundle(checksum, model, path, published_at, content)

    def latest_bundle(self) -> Bundle | None:
        """Return the one that was published last."""
        rows = self._rows(
            "SELECT checksum FROM bundles ORDER BY published_at DESC, rowid DESC LIMIT 1"
        )
        return self.bundle(unsigned(rows[0][0])) if rows else None

    def bundle_head(self, checksum: int, size: int) -> bytes:
        """Return the first bytes of a bundle that may have many; none if it is not known."""
        rows = self._rows(
            "SELECT base, substr(content, 1, ?) FROM bundles WHERE checksum = ?",
            [size, signed(checksum)],
        )
        if rows and rows[0][0] is not None:
            bundle = self.bundle(checksum)
            return bundle.content[:size] if bundle else b""
        return bytes(rows[0][1]) if rows else b""

    def publication(self, checksum: int) -> Publication | None:
        """Tell of one bundle, if it is kept."""
        rows = self._rows(
            "SELECT model, path, published_at FROM bundles WHERE checksum = ?", [signed(checksum)]
        )
        return Publication(checksum, *rows[0]) if rows else None

    def publications(self) -> list[Publication]:
        """Tell of the bundles that are kept, the latest last."""
        rows = self._rows(
            "SELECT checksum, model, path, published_at FROM bundles "
            "ORDER BY published_at, checksum"
        )
        return [Publication(unsigned(row[0]), *row[1:]) for row in rows]

    def published_at(self) -> int | None:
        """Return when a bundle was published last."""
        (moment,) = self._rows("SELECT max(published_at) FROM bundles")[0]
        return None if moment is None else int(moment)

    def model_in_use(self) -> int | None:
        """Return the model that was published last."""
        rows = self._rows(
            "SELECT model FROM bundles ORDER BY published_at DESC, rowid DESC LIMIT 1"
        )
        return rows[0][0] if rows else None

    def model_before(self) -> int | None:
        """Return the model that was published before the one in use."""
        rows = self._rows(
            """
            SELECT model FROM bundles
            WHERE model IS NOT NULL AND model IS NOT ?
            ORDER BY published_at DESC LIMIT 1
            """,
            [self.model_in_use()],
        )
        return rows[0][0] if rows else None

    def prune_models(self, keep: int) -> None:
        """Forget all but the latest `keep` models and bundles, except what decisions refer to."""
        with self._transaction() as db:
            db.execute(
                """
                DELETE FROM bundles
                WHERE base IS NOT NULL AND checksum NOT IN (SELECT bundle FROM decisions)
                  AND checksum NOT IN (
                      SELECT checksum FROM bundles ORDER BY published_at DESC LIMIT :keep
                  )
                """,
                {"keep": keep},
            )
            db.execute(  # now that it is known which deltas are left
                """
                DELETE FROM bundles
                WHERE base IS NULL AND checksum NOT IN (SELECT bundle FROM decisions)
                  AND checksum NOT IN (SELECT base FROM bundles WHERE base IS NOT NULL)
                  AND checksum NOT IN (
                      SELECT checksum FROM bundles ORDER BY published_at DESC LIMIT :keep
                  )
                """,
                {"keep": keep},
            )
            db.execute(
                """
                DELETE FROM models
                WHERE id NOT IN (SELECT model FROM bundles WHERE model IS NOT NULL)
                  AND id NOT IN (SELECT id FROM models ORDER BY id DESC LIMIT ?)
                """,
                [keep],
            )
