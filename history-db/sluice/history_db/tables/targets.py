"""What storage targets were seen to do: probes of them, and runs whose place is known."""

from __future__ import annotations

import json
from dataclasses import astuple
from typing import TYPE_CHECKING, Any

from sluice.history_db.connection import Connection
from sluice.history_db.records import PlacedRun, TargetProbe

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

COLUMNS = "logs.uid, logs.exe, logs.nprocs, logs.start, profiles.rate"
USABLE = "logs.reason IS NULL AND logs.start >= ? AND profiles.rate > 0"


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

    def runs_on_lanes(self, *, since: int, latest: int) -> list[PlacedRun]:
        """Return the latest runs, started from a time on, whose jobs held tokens of one lane."""
        return self._placed_runs(
            f"SELECT {COLUMNS}, confined_jobs.lane, logs.osts FROM confined_jobs "
            "JOIN jobs USING (cluster, job_id, submit) JOIN logs ON logs.job = jobs.id "
            "JOIN profiles ON profiles.log = logs.id "
            f"WHERE confined_jobs.seen >= ? AND {USABLE} "
            "ORDER BY logs.start DESC, logs.id LIMIT ?",
            [since, since, latest],
        )

    def runs_on_osts(self, *, since: int, latest: int) -> list[PlacedRun]:
        """Return the latest runs, started from a time on, whose logs name Lustre's targets."""
        return self._placed_runs(
            f"SELECT {COLUMNS}, NULL, logs.osts FROM logs "
            "JOIN profiles ON profiles.log = logs.id "
            f"WHERE logs.osts IS NOT NULL AND {USABLE} "
            "ORDER BY logs.start DESC, logs.id LIMIT ?",
            [since, latest],
        )

    def _placed_runs(self, sql: str, values: Sequence[int]) -> list[PlacedRun]:
        return [_placed_run(*row) for row in self._rows(sql, values)]


def _placed_run(*values: Any) -> PlacedRun:
    *others, text = values
    osts = None if text is None else tuple(json.loads(text))
    return PlacedRun(*[*others, osts])
