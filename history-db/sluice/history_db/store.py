"""The history: what was read, learned and decided, in one SQLite file.

Records go in and come out (`records.py`); nothing of the database leaves `connection.py`,
`tables/` and `connection.py`. Whatever fails raises a HistoryError (`errors.py`).
"""

from __future__ import annotations

from sluice.history_db.records import Counts
from sluice.history_db.tables.audit import Audit
from sluice.history_db.tables.decisions import Decisions, Gates, HeldBursts
from sluice.history_db.tables.jobs import CoverageTable, Jobs, Links
from sluice.history_db.tables.logs import Labels, Logs
from sluice.history_db.tables.measured import Observed, Probes, Targets
from sluice.history_db.tables.models import Bundles, Models, Reviews
from sluice.history_db.tables.ranking import Ranking
from sluice.history_db.tables.reports import Reports
from sluice.history_db.tables.upkeep import Snapshots, Upkeep


class Store(
    Logs,
    Links,
    Labels,
    Jobs,
    CoverageTable,
    Models,
    Bundles,
    Reviews,
    Decisions,
    Upkeep,
    Snapshots,
    Gates,
    HeldBursts,
    Audit,
    Reports,
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
