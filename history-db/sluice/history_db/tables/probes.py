"""What was measured with sluice-probe."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from sluice.history_db.connection import Connection
from sluice.history_db.records import Calibration, CoRun

if TYPE_CHECKING:
    from collections.abc import Sequence


class Probes(Connection):
    """Tables `calibrations` and `encounters`, as the latter are stored."""

    def add_calibration(self, *, created: int, site: str, settings: dict[str, object]) -> int:
        """Begin a calibration; return its number."""
        with self._transaction() as db:
            row = db.execute(
                "INSERT INTO calibrations (created, site, settings) VALUES (?, ?, ?) RETURNING id",
                [created, site, json.dumps(settings)],
            ).fetchone()
            return int(row[0])

    def finish_calibration(self, number: int) -> None:
        with self._transaction() as db:
            db.execute("UPDATE calibrations SET finished = 1 WHERE id = ?", [number])

    def calibrations(self) -> list[Calibration]:
        """Return all calibrations, the latest last."""
        rows = self._rows(
            "SELECT id, created, site, settings, finished FROM calibrations ORDER BY id"
        )
        return [
            Calibration(number, created, site, json.loads(settings), bool(finished))
            for number, created, site, settings, finished in rows
        ]

    def add_corun(self, calibration: int, corun: CoRun) -> None:
        with self._transaction() as db:
            db.execute(
                "INSERT INTO encounters (calibration, started, mode, members, targets, offset, "
                "alone, together, foreign_share, dropped) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                [
                    calibration,
                    corun.started,
                    corun.mode,
                    json.dumps(corun.members),
                    json.dumps(corun.targets),
                    corun.offset,
                    json.dumps(corun.alone),
                    json.dumps(corun.together),
                    corun.foreign_share,
                    corun.dropped,
                ],
            )

    def coruns(self, calibrations: Sequence[int]) -> list[CoRun]:
        """Return what these calibrations measured, dropped or not, in the order of time."""
        rows = self._rows(
            "SELECT started, mode, members, targets, offset, alone, together, foreign_share, "
            "dropped FROM encounters WHERE calibration IN (SELECT value FROM json_each(?)) "
            "ORDER BY id",
            [json.dumps(list(calibrations))],
        )
        return [
            CoRun(
                started=row[0],
                mode=row[1],
                members=tuple(json.loads(row[2])),
                targets=tuple(json.loads(row[3])),
                offset=row[4],
                alone=tuple(json.loads(row[5])),
                together=tuple(json.loads(row[6])),
                foreign_share=row[7],
                dropped=row[8],
            )
            for row in rows
        ]
