"""What the entries of a model's application table were learned from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluice.history_db.records import Application, Run
from sluice.history_db.sql import Database, signed, unsigned
from sluice.history_db.tables.runs import Runs

if TYPE_CHECKING:
    from collections.abc import Iterable


class Applications(Runs):
    """Tables `applications` and `application_runs`."""

    def reserve_applications(self, count: int) -> int:
        """Return the first of `count` consecutive ids that no application ever had."""
        with self._transaction() as db:
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
        rows = self._rows("SELECT id FROM applications WHERE model = ? ORDER BY id", [model])
        found = (self.application(row[0]) for row in rows)
        return [application for application in found if application is not None]

    def application(self, application_id: int) -> Application | None:
        """Return what a bundle's application entry was learned from."""
        rows = self._rows(
            "SELECT evidence, key, label, runs FROM applications WHERE id = ?", [application_id]
        )
        if not rows:
            return None
        evidence, key, label, runs = rows[0]
        logs = self._rows(
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

    def runs_behind(self, application_id: int) -> list[Run]:
        """Return the runs an application's profile was learned from, the latest first."""
        application = self.application(application_id)
        if application is None:
            return []
        return sorted(self.runs(application.logs), key=lambda run: run.log.start or 0, reverse=True)


def put_applications(db: Database, model: int, applications: Iterable[Application]) -> None:
    """Keep a model's applications, within a transaction; one that it has is replaced."""
    for application in applications:
        db.execute("DELETE FROM application_runs WHERE application = ?", [application.id])
        db.execute(
            "INSERT INTO applications (id, model, evidence, key, label, runs) "
            "VALUES (?, ?, ?, ?, ?, ?) "
            "ON CONFLICT (id) DO UPDATE SET label = excluded.label, runs = excluded.runs",
            [
                application.id,
                model,
                application.evidence,
                signed(application.key),
                application.label,
                application.runs,
            ],
        )
        db.executemany(
            # Not those that were forgotten while the model learned from them.
            "INSERT INTO application_runs (application, log) SELECT ?, id FROM logs WHERE id = ?",
            ((application.id, log) for log in application.logs),
        )
