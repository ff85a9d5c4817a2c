"""The bundles that were published."""

from __future__ import annotations

from sluice.history_db.connection import Connection
from sluice.history_db.records import Bundle, Publication
from sluice.history_db.sql import signed, unsigned


class Bundles(Connection):
    """Table `bundles`; whole files, so that decisions can be replayed."""

    def add_bundle(self, bundle: Bundle) -> None:
        """Keep a bundle as the one published last, also of several in one second."""
        with self._transaction() as db:
            (latest,) = db.execute("SELECT max(published_at) FROM bundles").fetchone()
            db.execute(
                "INSERT INTO bundles (checksum, model, path, published_at, content) "
                "VALUES (?, ?, ?, ?, ?) ON CONFLICT (checksum) DO UPDATE "
                "SET path = excluded.path, published_at = excluded.published_at",
                [
                    signed(bundle.checksum),
                    bundle.model,
                    bundle.path,
                    max(bundle.published_at, (latest or 0) + 1),
                    bundle.content,
                ],
            )

    def bundle(self, checksum: int) -> Bundle | None:
        rows = self._rows(
            "SELECT model, path, published_at, content FROM bundles WHERE checksum = ?",
            [signed(checksum)],
        )
        return Bundle(checksum, *rows[0]) if rows else None

    def bundle_head(self, checksum: int, size: int) -> bytes:
        """Return the first bytes of a bundle that may have many; none if it is not known."""
        rows = self._rows("SELECT 1 FROM bundles WHERE checksum = ?", [signed(checksum)])
        return self._blob_head("bundles", "content", signed(checksum), size) if rows else b""

    def publications(self) -> list[Publication]:
        """Tell of the bundles that are kept, the latest last."""
        rows = self._rows(
            "SELECT checksum, model, path, published_at FROM bundles "
            "ORDER BY published_at, checksum"
        )
        return [Publication(unsigned(row[0]), *row[1:]) for row in rows]

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
                WHERE checksum NOT IN (SELECT bundle FROM decisions)
                  AND checksum NOT IN (
                      SELECT checksum FROM bundles ORDER BY published_at DESC LIMIT ?
                  )
                """,
                [keep],
            )
            db.execute(
                """
                DELETE FROM models
                WHERE id NOT IN (SELECT model FROM bundles WHERE model IS NOT NULL)
                  AND id NOT IN (SELECT id FROM models ORDER BY id DESC LIMIT ?)
                """,
                [keep],
            )
