"""What storage targets were seen to do: probes of them, and runs whose place is known."""

from __future__ import annotations

import json
from dataclasses import astuple
from typing import TYPE_CHECKING, Any

from sluice.history_db.connection import Connection
from sluice.history_db.records import PlacedRun, TargetProbe
from sluice.history_db.tables.logs import JOB_OF_LOG

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

LOGS_OF_A_RUN = 10
"""Logs that are read for each run that is asked for: a job may leave one a process."""

PLACED_LOGS = f"""
    SELECT {JOB_OF_LOG} AS job,
           logs.uid, program_name(logs.exe) AS program,
           logs.nprocs, logs.start, logs.end, profiles.write_bytes, profiles.read_bytes,
           profiles.rate, {{lane}} AS lane, logs.osts,
           EXISTS (SELECT 1 FROM jobs_in_company AS shared
                   WHERE shared.cluster = jobs.cluster AND shared.job_id = jobs.job_id
                     AND shared.submit = jobs.submit) AS with_corunners
    FROM {{sources}} JOIN profiles ON profiles.log = logs.id
    WHERE {{condition}} AND logs.reason IS NULL AND logs.start BETWEEN ? AND ?
      AND profiles.rate > 0
    ORDER BY logs.start DESC, logs.id LIMIT ?
"""


class Targets(Connection):
    """Table `target_probes`; for reading, what runs did and which jobs had co-runners."""

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

    def runs_on_lanes(self, *, since: int, until: int, latest: int) -> list[PlacedRun]:
        """Return the latest runs, started in a time, whose jobs held tokens of one lane."""
        logs = PLACED_LOGS.format(
            lane="confined_jobs.lane",
            sources="confined_jobs CROSS JOIN jobs USING (cluster, job_id, submit) "
            "CROSS JOIN logs ON logs.job = jobs.id",
            condition="confined_jobs.seen >= ?",
        )
        return self._placed_runs(logs, [since, since, until], latest)

    def runs_on_osts(self, *, since: int, until: int, latest: int) -> list[PlacedRun]:
        """Return the latest runs, started in a time, whose logs name Lustre's targets."""
        logs = PLACED_LOGS.format(
            lane="NULL",
            sources="logs LEFT JOIN jobs ON jobs.id = logs.job",
            condition="logs.osts IS NOT NULL",
        )
        return self._placed_runs(logs, [since, until], latest)

    def _placed_runs(self, logs: str, values: Sequence[int], latest: int) -> list[PlacedRun]:
        """Make one run of the logs that a job's processes left of a program in one place."""
        rows = self._rows(
            "SELECT job, uid, program, nprocs, min(start), max(end), "
            "total(write_bytes) + total(read_bytes), avg(rate), lane, osts, with_corunners "
            f"FROM ({logs}) GROUP BY job, uid, program, nprocs, lane, osts "
            "ORDER BY min(start) DESC, job, program, nprocs, osts LIMIT ?",
            [*values, LOGS_OF_A_RUN * latest, latest],
        )
        return [_placed_run(*row) for row in rows]


def _placed_run(*values: Any) -> PlacedRun:
    *others, text, with_corunners = values
    osts = None if text is None else tuple(json.loads(text))
    return PlacedRun(*[*others, osts, bool(with_corunners)])
