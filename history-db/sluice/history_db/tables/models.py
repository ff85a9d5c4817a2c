"""What was trained and published: models, their application tables, bundles.

sluice-learn publishes every few minutes, and two of its bundles differ by some applications:
most are kept as what differs from one that is kept whole.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from sluice.history_db.connection import Tables
from sluice.history_db.errors import HistoryError
from sluice.history_db.records import (
    Application,
    Bundle,
    Known,
    Model,
    Publication,
    Run,
    Training,
)
from sluice.history_db.sql import Base, Database, packed, restore, signed, unpacked, unsigned
from sluice.history_db.tables.runs import Runs

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


def put_applications(db: Database, model: int, applications: Iterable[Application]) -> None:
    """Keep a model's applications, within a transaction; one that it has is replaced."""
    kept = list(applications)
    db.executemany(
        "DELETE FROM application_runs WHERE application = ?", ((one.id,) for one in kept)
    )
    db.executemany(
        "INSERT INTO applications (id, model, evidence, key, label, runs) "
        "VALUES (?, ?, ?, ?, ?, ?) "
        "ON CONFLICT (id) DO UPDATE SET label = excluded.label, runs = excluded.runs",
        ((one.id, model, one.evidence, signed(one.key), one.label, one.runs) for one in kept),
    )
    db.executemany(
        # Not those that were forgotten while the model learned from them.
        "INSERT INTO application_runs (application, log) SELECT ?, id FROM logs WHERE id = ?",
        ((one.id, log) for one in kept for log in one.logs),
    )


def model_of(row: Sequence[Any]) -> Model:
    model, created, metrics, content = row
    return Model(id=model, created=created, metrics=json.loads(metrics), content=content)


MIN_SAVING = 4
"""A delta is kept if it is so many times smaller than the whole."""


class Models(Tables):
    """Tables `models`, `applications`, `application_runs` and `bundles`."""

    _whole: tuple[int, Base] | None = None
    """The one that was kept whole last, and its checksum."""

    def add_model(
        self,
        content: bytes,
        metrics: dict[str, object],
        applications: Iterable[Application],
        *,
        created: int,
    ) -> int:
        """Keep a trained model and what its applications were learned from; return its id."""
        with self._db.transaction() as db:
            cursor = db.execute(
                "INSERT INTO models (created, metrics, content) VALUES (?, ?, ?)",
                [created, json.dumps(metrics), content],
            )
            model = cursor.lastrowid
            if model is None:
                raise HistoryError(f"{self._db.path}: SQLite gave no id to the new model")
            put_applications(db, model, applications)
        return model

    def update_applications(self, model: int, applications: Iterable[Application]) -> None:
        """Say what these applications of a model, known or new to it, are learned from now."""
        with self._db.transaction() as db:
            put_applications(db, model, applications)

    def trainings(self) -> list[Training]:
        """Tell of the models that are kept, the latest last."""
        rows = self._db.rows("SELECT id, created, metrics FROM models ORDER BY id")
        return [Training(model, created, json.loads(metrics)) for model, created, metrics in rows]

    def model(self, model_id: int) -> Model | None:
        rows = self._db.rows(
            "SELECT id, created, metrics, content FROM models WHERE id = ?", [model_id]
        )
        return model_of(rows[0]) if rows else None

    def latest_model(self) -> Model | None:
        rows = self._db.rows(
            "SELECT id, created, metrics, content FROM models ORDER BY id DESC LIMIT 1"
        )
        return model_of(rows[0]) if rows else None

    def reserve_applications(self, count: int) -> int:
        """Return the first of `count` consecutive ids that no application ever had."""
        with self._db.transaction() as db:
            row = db.execute(
                "SELECT seq FROM sqlite_sequence WHERE name = 'applications'"
            ).fetchone()
            first = 1 if row is None else row[0] + 1
            last = first + count - 1
            if row is None:
                db.execute(
                    "INSERT INTO sqlite_sequence (name, seq) VALUES ('applications', ?)", [last]
                )
            else:
                db.execute("UPDATE sqlite_sequence SET seq = ? WHERE name = 'applications'", [last])
        return first

    def applications(self, model: int) -> list[Application]:
        rows = self._db.rows("SELECT id FROM applications WHERE model = ? ORDER BY id", [model])
        found = (self.application(row[0]) for row in rows)
        return [application for application in found if application is not None]

    def application(self, application_id: int) -> Application | None:
        """Return what a bundle's application entry was learned from."""
        rows = self._db.rows(
            "SELECT evidence, key, label, runs FROM applications WHERE id = ?", [application_id]
        )
        if not rows:
            return None
        evidence, key, label, runs = rows[0]
        logs = self._db.rows(
            "SELECT log FROM application_runs WHERE application = ? ORDER BY log",
            [application_id],
        )
        return Application(
            evidence=evidence,
            key=unsigned(key),
            label=label,
            runs=runs,
            logs=tuple(row[0] for row in logs),
            id=application_id,
        )

    def known_applications(self, model: int | None) -> list[Known]:
        """Tell of all applications of a model; None: of none."""
        rows = self._db.rows(
            """
            SELECT id, evidence, label, runs,
                   (SELECT logs.uid FROM application_runs
                    JOIN logs ON logs.id = application_runs.log
                    WHERE application_runs.application = applications.id LIMIT 1)
            FROM applications WHERE model = ? ORDER BY id
            """,
            [model],
        )
        return [Known(*row) for row in rows]

    def runs_behind(self, application_id: int) -> list[Run]:
        """Return the runs an application's profile was learned from, the latest first."""
        application = self.application(application_id)
        if application is None:
            return []
        return sorted(
            Runs(self._db).runs(application.logs),
            key=lambda run: run.log.start or 0,
            reverse=True,
        )

    def add_bundle(self, bundle: Bundle) -> None:
        """Keep a bundle as the one published last, also of several in one second."""
        with self._db.transaction() as db:
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
        if MIN_SAVING * len(delta) > len(content):
            self._whole = None
            return None, content
        return signed(checksum), delta

    def _latest_whole(self) -> tuple[int, Base] | None:
        rows = self._db.rows(
            "SELECT checksum FROM bundles WHERE base IS NULL "
            "ORDER BY published_at DESC, rowid DESC LIMIT 1"
        )
        checksum = unsigned(rows[0][0]) if rows else None
        if checksum is None or self._whole is None or self._whole[0] != checksum:
            bundle = self.bundle(checksum) if checksum is not None else None
            self._whole = (bundle.checksum, Base(bundle.content)) if bundle else None
        return self._whole

    def bundle(self, checksum: int) -> Bundle | None:
        rows = self._db.rows(
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

    def latest_publication(self) -> Publication | None:
        """Tell of the bundle that was published last."""
        rows = self._db.rows(
            "SELECT checksum, model, path, published_at FROM bundles "
            "ORDER BY published_at DESC, rowid DESC LIMIT 1"
        )
        return Publication(unsigned(rows[0][0]), *rows[0][1:]) if rows else None

    def latest_bundle(self) -> Bundle | None:
        """Return the one that was published last."""
        latest = self.latest_publication()
        return self.bundle(latest.checksum) if latest else None

    def bundle_head(self, checksum: int, size: int) -> bytes:
        """Return the first bytes of a bundle that may have many; none if it is not known."""
        rows = self._db.rows(
            "SELECT base, substr(content, 1, ?) FROM bundles WHERE checksum = ?",
            [size, signed(checksum)],
        )
        if rows and rows[0][0] is not None:
            bundle = self.bundle(checksum)
            return bundle.content[:size] if bundle else b""
        return bytes(rows[0][1]) if rows else b""

    def publication(self, checksum: int) -> Publication | None:
        """Tell of one bundle, if it is kept."""
        rows = self._db.rows(
            "SELECT model, path, published_at FROM bundles WHERE checksum = ?", [signed(checksum)]
        )
        return Publication(checksum, *rows[0]) if rows else None

    def publications(self) -> list[Publication]:
        """Tell of the bundles that are kept, the latest last."""
        rows = self._db.rows(
            "SELECT checksum, model, path, published_at FROM bundles "
            "ORDER BY published_at, checksum"
        )
        return [Publication(unsigned(row[0]), *row[1:]) for row in rows]

    def published_at(self) -> int | None:
        """Return when a bundle was published last."""
        (moment,) = self._db.rows("SELECT max(published_at) FROM bundles")[0]
        return None if moment is None else int(moment)

    def model_in_use(self) -> int | None:
        """Return the model that was published last."""
        rows = self._db.rows(
            "SELECT model FROM bundles ORDER BY published_at DESC, rowid DESC LIMIT 1"
        )
        return rows[0][0] if rows else None

    def model_waiting(self) -> int | None:
        """Return the latest model if it was never published, while an earlier one is in use."""
        rows = self._db.rows(
            """
            SELECT id FROM (SELECT max(id) AS id FROM models)
            WHERE id > ? AND id NOT IN (SELECT model FROM bundles WHERE model IS NOT NULL)
            """,
            [self.model_in_use()],
        )
        return rows[0][0] if rows else None

    def model_before(self) -> int | None:
        """Return the model that was published before the one in use."""
        rows = self._db.rows(
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
        with self._db.transaction() as db:
            db.execute(
                """
                DELETE FROM bundles
                WHERE base IS NOT NULL AND checksum NOT IN (SELECT checksum FROM decided_bundles)
                  AND checksum NOT IN (
                      SELECT checksum FROM bundles ORDER BY published_at DESC LIMIT :keep
                  )
                """,
                {"keep": keep},
            )
            db.execute(  # now that it is known which deltas are left
                """
                DELETE FROM bundles
                WHERE base IS NULL AND checksum NOT IN (SELECT checksum FROM decided_bundles)
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
