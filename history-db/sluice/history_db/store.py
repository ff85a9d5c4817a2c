"""The history: what was read, learned and decided, in one SQLite file.

Records go in and come out (`records.py`); nothing of the database leaves `connection.py`,
`tables/` and `upgrade.py`. Whatever fails raises a HistoryError (`errors.py`).
"""

from __future__ import annotations

from sluice.history_db.records import Counts
from sluice.history_db.tables.bundles import Bundles
from sluice.history_db.tables.coverage import CoverageTable
from sluice.history_db.tables.decisions import Decisions
from sluice.history_db.tables.gates import Gates
from sluice.history_db.tables.jobs import Jobs
from sluice.history_db.tables.labels import Labels
from sluice.history_db.tables.links import Links
from sluice.history_db.tables.logs import Logs
from sluice.history_db.tables.models import Models
from sluice.history_db.tables.observed import Observed
from sluice.history_db.tables.probes import Probes
from sluice.history_db.tables.ranking import Ranking
from sluice.history_db.tables.snapshots import Snapshots
from sluice.history_db.tables.targets import Targets
from sluice.history_db.tables.upkeep import Upkeep


class Store(
    Logs,
    Links,
    Labels,
    Jobs,
    CoverageTable,
    Models,
    Bundles,
    Decisions,
    Upkeep,
    Snapshots,
    Gates,
    Observed,
    Ranking,
    Probes,
    Targets,
):
    """An open history. Use as a context manager, from one thread."""

    def counts(self) -> Counts:
        """Count what there is; from indices alone, so that a million runs take no time."""
        row = self._rows(
            """
            SELECT (SELECT count(*) FROM logs),
                   (SELECT count(*) FROM logs WHERE reason IS NOT NULL),
                   (SELECT count(*) FROM logs WHERE job IS NULL),
                   (SELECT count(*) FROM labels),
                   (SELECT count(*) FROM jobs),
                   (SELECT count(*) FROM decisions),
                   (SELECT count(*) FROM models),
                   (SELECT count(*) FROM bundles)
            """
        )[0]
        logs, quarantined, unlinked, *others = row
        return Counts(logs - quarantined, quarantined, logs - unlinked, *others)
