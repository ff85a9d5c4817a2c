"""What storage targets were seen to do: probes of them, and runs whose place is known."""

from __future__ import annotations

import json
from dataclasses import astuple
from typing import TYPE_CHECKING, Any

from sluice.history_db.connection import Connection
from sluice.history_db.records import PlacedRun, TargetProbe

if TYPE_CHECKING:
    from collections.abc import Iterable


class Targets(Connection):
    """Table `target_probes`; `logs`, `profiles` and `confined_jobs` for reading."""

    def add_target_probes(self, probes: Iterable[TargetProbe]) -> None:
        """Keep what probes got; of two in one second the later one stays."""
        with self._transaction() as db:
            db.executemany(
                "REPLACE INTO target_probes (target, program, observed, rate) VALUES (?, ?, ?, ?)",
                [astuple(probe) for probe in probes],
            )

    def target_probes(self, *, since: int) -> list[TargetProbe]:
        """Return the probes of a time on, the oldest first."""
        return [
            TargetProbe(*row)
            for row in self._rows(
                "SELECT target, program, observed, rate FROM target_probes WHERE observed >= ? "
                "ORDER BY observed, target, program",
                [since],
            )
        ]

    def placed_runs(self, *, since: int, latest: int) -> list[PlacedRun]:
        """Return the latest runs that started from a time on and wrote to known targets.

        Those on Lustre's targets and those on lanes: at most `latest` of each, the newest first.
        """
        columns = "logs.uid, logs.exe, logs.nprocs, logs.start, profiles.rate"
        usable = "logs.reason IS NULL AND logs.start >= ? AND profiles.rate > 0"
        on_lanes = self._rows(
            f"SELECT {columns}, confined_jobs.lane, logs.osts FROM confined_jobs "
            "JOIN jobs USING (cluster, job_id, submit) JOIN logs ON logs.job = jobs.id "
            "JOIN profiles ON profiles.log = logs.id "
            f"WHERE {usable} ORDER BY logs.start DESC, logs.id LIMIT ?",
            [since, latest],
        )
        elsewhere = self._rows(
            f"SELECT {columns}, NULL, logs.osts FROM logs "
            "JOIN profiles ON profiles.log = logs.id LEFT JOIN jobs ON jobs.id = logs.job "
            f"WHERE logs.osts IS NOT NULL AND {usable} AND NOT EXISTS (SELECT 1 "
            "FROM confined_jobs AS c WHERE c.cluster = jobs.cluster AND c.job_id = jobs.job_id "
            "AND c.submit = jobs.submit) ORDER BY logs.start DESC, logs.id LIMIT ?",
            [since, latest],
        )
        return [_placed_run(*row) for row in (*on_lanes, *elsewhere)]


def _placed_run(*values: Any) -> PlacedRun:
    *others, text = values
    osts = None if text is None else tuple(json.loads(text))
    return PlacedRun(*[*others, osts])
