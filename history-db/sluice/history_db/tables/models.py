"""What was trained: pattern classifiers and submit-time models."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

from sluice.history_db.errors import HistoryError
from sluice.history_db.records import Application, Model, Training
from sluice.history_db.tables.applications import Applications, put_applications

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


def model_of(row: Sequence[Any]) -> Model:
    model, created, metrics, content = row
    return Model(id=model, created=created, metrics=json.loads(metrics), content=content)


class Models(Applications):
    """Tables `classifiers` and `models`."""

    def add_classifier(self, content: bytes, metrics: dict[str, object]) -> None:
        with self._transaction() as db:
            db.execute(
                "INSERT INTO classifiers (created, metrics, content) VALUES (?, ?, ?)",
                [int(time.time()), json.dumps(metrics), content],
            )

    def classifier(self) -> bytes | None:
        """Return the pattern classifier that was trained last on this history's labels."""
        rows = self._rows("SELECT content FROM classifiers ORDER BY id DESC LIMIT 1")
        return rows[0][0] if rows else None

    def add_model(
        self,
        content: bytes,
        metrics: dict[str, object],
        applications: Iterable[Application],
        *,
        created: int,
    ) -> int:
        """Keep a trained model and what its applications were learned from; return its id."""
        with self._transaction() as db:
            cursor = db.execute(
                "INSERT INTO models (created, metrics, content) VALUES (?, ?, ?)",
                [created, json.dumps(metrics), content],
            )
            model = cursor.lastrowid
            if model is None:
                raise HistoryError(f"{self.path}: SQLite gave no id to the new model")
            put_applications(db, model, applications)
        return model

    def update_applications(self, model: int, applications: Iterable[Application]) -> None:
        """Say what these applications of a model, known or new to it, are learned from now."""
        with self._transaction() as db:
            put_applications(db, model, applications)

    def trainings(self) -> list[Training]:
        """Tell of the models that are kept, the latest last."""
        rows = self._rows("SELECT id, created, metrics FROM models ORDER BY id")
        return [Training(model, created, json.loads(metrics)) for model, created, metrics in rows]

    def model(self, model_id: int) -> Model | None:
        rows = self._rows(
            "SELECT id, created, metrics, content FROM models WHERE id = ?", [model_id]
        )
        return model_of(rows[0]) if rows else None

    def latest_model(self) -> Model | None:
        rows = self._rows(
            "SELECT id, created, metrics, content FROM models ORDER BY id DESC LIMIT 1"
        )
        return model_of(rows[0]) if rows else None
