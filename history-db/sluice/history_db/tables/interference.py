"""Interference that was measured: by probe runs, on storage targets, between production jobs."""

from __future__ import annotations

import json
from dataclasses import astuple, fields
from itertools import starmap
from typing import TYPE_CHECKING, Any

from sluice.history_db.connection import Tables
from sluice.history_db.records import (
    Calibration,
    CoRun,
    ObservedInterference,
    PlacedRun,
    ServerCount,
    TargetCounts,
    TargetProbe,
)
from sluice.history_db.sql import marks
from sluice.history_db.tables.runs import JOB_OF_LOG

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


def _placed_run(*values: Any) -> PlacedRun:
    *others, text, with_corunners = values
    osts = None if text is None else tuple(json.loads(text))
    return PlacedRun(*[*others, osts, bool(with_corunners)])


COLUMNS = tuple(field.name for field in fields(ObservedInterference))


class Interference(Tables):
    """Tables of calibrations and their co-runs, probes, servers' counts, observed interference.

    For reading, what runs did and which jobs had co-runners.
    """

    def add_calibration(self, *, created: int, site: str, settings: dict[str, object]) -> int:
        """Begin a calibration; return its number."""
        with self._db.transaction() as db:
            row = db.execute(
                "INSERT INTO calibrations (created, site, settings) VALUES (?, ?, ?) RETURNING id",
                [created, site, json.dumps(settings)],
            ).fetchone()
            return int(row[0])

    def finish_calibration(self, number: int) -> None:
        with self._db.transaction() as db:
            db.execute("UPDATE calibrations SET finished = 1 WHERE id = ?", [number])

    def calibrations(self) -> list[Calibration]:
        """Return all calibrations, the latest last."""
        rows = self._db.rows(
            "SELECT id, created, site, settings, finished FROM calibrations ORDER BY id"
        )
        return [
            Calibration(number, created, site, json.loads(settings), bool(finished))
            for number, created, site, settings, finished in rows
        ]

    def add_corun(self, calibration: int, corun: CoRun) -> None:
        with self._db.transaction() as db:
            db.execute(
                "INSERT INTO coruns (calibration, started, mode, members, targets, "
                "alone, together, foreign_share, dropped) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                [
                    calibration,
                    corun.started,
                    corun.mode,
                    json.dumps(corun.members),
                    json.dumps(corun.targets),
                    json.dumps(corun.alone),
                    json.dumps(corun.together),
                    corun.foreign_share,
                    corun.dropped,
                ],
            )

    def coruns(self, calibrations: Sequence[int]) -> list[CoRun]:
        """Return what these calibrations measured, dropped or not, in the order of time."""
        rows = self._db.rows(
            "SELECT started, mode, members, targets, alone, together, foreign_share, "
            "dropped FROM coruns WHERE calibration IN (SELECT value FROM json_each(?)) "
            "ORDER BY id",
            [json.dumps(list(calibrations))],
        )
        return [
            CoRun(
                started=row[0],
                mode=row[1],
                members=tuple(json.loads(row[2])),
                targets=tuple(json.loads(row[3])),
                alone=tuple(json.loads(row[4])),
                together=tuple(json.loads(row[5])),
                foreign_share=row[6],
                dropped=row[7],
            )
            for row in rows
        ]

    def add_target_probes(self, probes: Iterable[TargetProbe]) -> None:
        """Keep what probes got; of two in one second the later one stays."""
        with self._db.transaction() as db:
            db.executemany(
                "REPLACE INTO target_probes (target, program, observed, rate) VALUES (?, ?, ?, ?)",
                [astuple(probe) for probe in probes],
            )

    def put_server_counts(self, counts: Iterable[ServerCount]) -> None:
        """Keep what the servers counted; what was kept of the same target and time is replaced."""
        with self._db.transaction() as db:
            db.executemany(
                "REPLACE INTO server_counts (target, start, seconds, read_bytes, write_bytes) "
                "VALUES (?, ?, ?, ?, ?)",
                map(astuple, counts),
            )

    def server_counts_during(self, start: float, end: float) -> list[ServerCount]:
        """Return those that began between these times (UTC seconds), the oldest first."""
        rows = self._db.rows(
            "SELECT target, start, seconds, read_bytes, write_bytes FROM server_counts "
            "WHERE start BETWEEN ? AND ? ORDER BY start, target",
            [start, end],
        )
        return list(starmap(ServerCount, rows))

    def lustre_targets(self) -> int:
        """Return how many targets Lustre has, as far as logs name them; 0: they name none."""
        numbers = self._db.rows("SELECT max(value) FROM logs, json_each(logs.osts)")[0][0]
        most = self._db.rows("SELECT max(targets) FROM profiles")[0][0]
        return max(0 if numbers is None else numbers + 1, int(most or 0))

    def target_counts(self) -> TargetCounts:
        """Return what the servers counted in all, and how unevenly."""
        moved, most, seconds = self._db.rows(
            "SELECT total(moved), total(most), avg(seconds) FROM (SELECT "
            "sum(read_bytes + write_bytes) AS moved, max(read_bytes + write_bytes) AS most, "
            "avg(seconds) AS seconds FROM server_counts GROUP BY start)"
        )[0]
        targets, best = self._db.rows(
            "SELECT count(*), avg(best) FROM (SELECT max((read_bytes + write_bytes) / seconds) "
            "AS best FROM server_counts GROUP BY target)"
        )[0]
        return TargetCounts(targets, moved, most, seconds or 0.0, best or 0.0)

    def target_rates(self, *, since: float) -> dict[str, float]:
        """Return the B/s, read and written, that the servers counted since a time, by target."""
        return dict(
            self._db.rows(
                "SELECT target, total(read_bytes + write_bytes) / total(seconds) "
                "FROM server_counts WHERE start >= ? GROUP BY target ORDER BY target",
                [since],
            )
        )

    def target_probes(self, *, since: int) -> list[TargetProbe]:
        """Return the probes of a time on, the oldest first."""
        return [
            TargetProbe(*row)
            for row in self._db.rows(
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
        rows = self._db.rows(
            "SELECT job, uid, program, nprocs, min(start), max(end), "
            "total(write_bytes) + total(read_bytes), avg(rate), lane, osts, with_corunners "
            f"FROM ({logs}) GROUP BY job, uid, program, nprocs, lane, osts "
            "ORDER BY min(start) DESC, job, program, nprocs, osts LIMIT ?",
            [*values, LOGS_OF_A_RUN * latest, latest],
        )
        return [_placed_run(*row) for row in rows]

    def put_observed_interference(self, rows: Iterable[ObservedInterference]) -> None:
        """Add what was seen of each pair.

        It takes the place of what was seen of it before in a time that overlaps, or that was not
        recorded: no log counts twice.
        """
        found = list(rows)
        with self._db.transaction() as db:
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
                self._db.rows(
                    f"SELECT {', '.join(COLUMNS)} FROM observed_interference "
                    "ORDER BY victim, aggressor, since, until"
                ),
            )
        )
