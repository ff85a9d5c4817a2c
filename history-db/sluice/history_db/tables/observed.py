"""Interference that was seen between production jobs."""

from __future__ import annotations

from dataclasses import fields, replace
from itertools import starmap
from typing import TYPE_CHECKING

from sluice.history_db.connection import Connection
from sluice.history_db.records import ObservedInterference
from sluice.history_db.sql import marks

if TYPE_CHECKING:
    from collections.abc import Iterable

COLUMNS = tuple(field.name for field in fields(ObservedInterference))


class Observed(Connection):
    """Table `observed_interference`."""

    def put_observed_interference(self, rows: Iterable[ObservedInterference]) -> None:
        """Keep what was seen of each pair; it takes the place of what was seen before."""
        with self._transaction() as db:
            db.executemany(
                f"REPLACE INTO observed_interference ({', '.join(COLUMNS)}) "
                f"VALUES ({marks(len(COLUMNS))})",
                [[getattr(row, name) for name in COLUMNS] for row in rows],
            )

    def observed_interference(self) -> list[ObservedInterference]:
        """Return every pair that was tested, the most harmful first."""
        return [
            replace(row, is_attributed=bool(row.is_attributed))
            for row in starmap(
                ObservedInterference,
                self._rows(
                    f"SELECT {', '.join(COLUMNS)} FROM observed_interference "
                    "ORDER BY is_attributed DESC, rho, victim, aggressor"
                ),
            )
        ]
