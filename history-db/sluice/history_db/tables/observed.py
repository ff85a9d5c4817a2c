"""Interference that was seen between production jobs."""

from __future__ import annotations

from dataclasses import astuple, fields
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
        """Add what was seen of each pair.

        It takes the place of what was seen of it before in a time that overlaps, or that was not
        recorded: no log counts twice.
        """
        found = list(rows)
        with self._transaction() as db:
            db.executemany(
                "DELETE FROM observed_interference WHERE victim = ? AND aggressor = ? "
                "AND (since <= ? AND until >= ? OR until = 0)",
                [(row.victim, row.aggressor, row.until, row.since) for row in found],
            )
            db.executemany(
                f"INSERT INTO observed_interference ({', '.join(COLUMNS)}) "
                f"VALUES ({marks(len(COLUMNS))})",
                map(astuple, found),
            )

    def observed_interference(self) -> list[ObservedInterference]:
        """Return every pair that was tested, once for each time, the earliest first."""
        return list(
            starmap(
                ObservedInterference,
                self._rows(
                    f"SELECT {', '.join(COLUMNS)} FROM observed_interference "
                    "ORDER BY victim, aggressor, since, until"
                ),
            )
        )
