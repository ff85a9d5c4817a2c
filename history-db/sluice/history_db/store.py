"""The history: what was read, learned and decided, in one SQLite file.

Records go in and come out (`records.py`), by subject (`tables/`). Nothing of the database leaves
`tables/` and `connection.py`. Whatever fails raises a HistoryError (`errors.py`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sluice.history_db.connection import Connection
from sluice.history_db.records import Counts
from sluice.history_db.tables.administration import Administration
from sluice.history_db.tables.decisions import Decisions
from sluice.history_db.tables.gates import Gates
from sluice.history_db.tables.interference import Interference
from sluice.history_db.tables.jobs import Jobs
from sluice.history_db.tables.models import Models
from sluice.history_db.tables.rankings import Rankings
from sluice.history_db.tables.runs import Runs
from sluice.history_db.tables.upkeep import Upkeep

if TYPE_CHECKING:
    from pathlib import Path


class Store(Connection):
    """An open history. Use as a context manager, from one thread."""

    def __init__(self, path: Path | str, **how: Any) -> None:
        """Open `path`; see Connection."""
        super().__init__(path, **how)
        self.jobs = Jobs(self)
        self.runs = Runs(self)
        self.models = Models(self)
        self.decisions = Decisions(self)
        self.gates = Gates(self)
        self.interference = Interference(self)
        self.rankings = Rankings(self)
        self.administration = Administration(self)
        self.upkeep = Upkeep(self)

    def counts(self) -> Counts:
        """Count what there is; from indices alone, so that a million runs take no time."""
        row = self.rows(
            """
            SELECT (SELECT count(*) FROM logs),
                   (SELECT count(*) FROM logs WHERE reason IS NOT NULL),
                   (SELECT count(*) FROM logs WHERE job IS NULL),
                   (SELECT count(*) FROM jobs),
                   (SELECT count(*) FROM decisions),
                   (SELECT count(*) FROM models),
                   (SELECT count(*) FROM bundles)
            """
        )[0]
        logs, quarantined, unlinked, *others = row
        return Counts(logs - quarantined, quarantined, logs - unlinked, *others)
