"""Upkeep of the file: forgets, compacts, copies, takes names out and hands out flat rows."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from sluice.history_db.connection import Tables
from sluice.history_db.records import Column, Pruned
from sluice.history_db.tables.decisions import Decisions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


PAGE = 2000  # rows read at once
FORGOTTEN_AT_ONCE = 10_000  # rows in a transaction
KEPT_RUNS = 20
"""Of each user's application, however old: those that a model learns most from."""
TURN = 0.12  # seconds; SQLite looks every 0.1 s whether it may write
JOBS_OF_LOGS = "FROM logs LEFT JOIN jobs ON jobs.id = logs.job WHERE logs.reason IS NULL"
LEFT_OUT = (
    "id",
    "log",
    "job",
    "digest",
    "reason",
    "shares",
    "features",
    "array_task",
    "osts",
    "heatmap",
)
"""Columns that mean nothing outside this file, or are no single value."""


class Upkeep(Tables):
    """All tables."""

    def count_prunable(self, *, before: int) -> int:
        """Return about how many runs, jobs and decisions `prune` has to forget, by indices."""
        [[count]] = self._db.rows(
            "SELECT (SELECT count(*) FROM logs WHERE start < :before) "
            "+ (SELECT count(*) FROM jobs WHERE start < :before) "
            "+ (SELECT count(*) FROM decisions WHERE now < :before)",
            {"before": before},
        )
        return int(count)

    def prune(
        self,
        *,
        before: int,
        application: Callable[[str], str] | None = None,
        advance: Callable[[int], None] = lambda _: None,
    ) -> Pruned:
        """Forget runs, jobs and decisions of before a time (UTC seconds).

        With a function that gives the application of a name, the newest KEPT_RUNS of each user's
        stay whatever their age, so that a model still knows what runs once a year. Records of gates
        and snapshots that no decision refers to any more go too. What is interrupted has forgotten
        a part, and the next time goes on. `advance` is told how many rows went.
        """
        if application is not None:
            self._choose_needed(before, application)
        needed = {
            table: "" if application is None else f"AND id NOT IN (SELECT id FROM needed_{table})"
            for table in ("logs", "jobs")
        }
        logs = self._forget("logs", "id", f"start < :before {needed['logs']}", before, advance)
        jobs = self._forget(
            "jobs",
            "id",
            # The first line is for the index on start: no job ends before it began.
            "(start < :before OR start IS NULL) AND coalesce(end, start, submit) < :before "
            f"AND NOT EXISTS (SELECT 1 FROM logs WHERE logs.job = jobs.id) {needed['jobs']}",
            before,
            advance,
        )
        decisions = self._forget("decisions", "boot, number", "now < :before", before, advance)
        Decisions(self._db).forget_snapshots(before)
        with self._db.transaction() as db:
            db.execute("DELETE FROM running_sets WHERE taken < ?", [before])
            db.execute("DELETE FROM releases WHERE released < ?", [before])
            db.execute("DELETE FROM held_bursts WHERE began < ?", [before])
            db.execute("DELETE FROM confined_jobs WHERE seen < ?", [before])
            db.execute("DELETE FROM jobs_in_company WHERE seen < ?", [before])
            db.execute("DELETE FROM target_probes WHERE observed < ?", [before])
            db.execute("DELETE FROM server_counts WHERE start < ?", [before])
            db.execute("DELETE FROM losses WHERE found < ?", [before])
            db.execute("DELETE FROM reports WHERE made_at < ?", [before])
            db.execute(
                "DELETE FROM dictionaries WHERE id NOT IN "
                "(SELECT dictionary FROM decisions WHERE dictionary IS NOT NULL) "
                "AND id NOT IN (SELECT max(id) FROM dictionaries GROUP BY uid IS NULL)"
            )
            db.execute(
                "DELETE FROM decided_bundles WHERE checksum NOT IN (SELECT bundle FROM decisions)"
            )
        return Pruned(logs, jobs, decisions)

    def _choose_needed(self, before: int, application: Callable[[str], str]) -> None:
        """Fill `needed_logs` and `needed_jobs`, tables of this connection."""
        with self._db.named_errors():
            self._db.sqlite.create_function("application", 1, application, deterministic=True)
            for table, name, source in (
                ("logs", "coalesce(jobs.name, logs.exe, '')", JOBS_OF_LOGS),
                ("jobs", "coalesce(jobs.name, '')", "FROM jobs"),
            ):
                self._db.sqlite.execute(f"DROP TABLE IF EXISTS temp.needed_{table}")
                self._db.sqlite.execute(
                    f"""
                    CREATE TEMP TABLE needed_{table} AS
                    SELECT id FROM (
                        SELECT {table}.id, {table}.start, dense_rank() OVER (
                            PARTITION BY {table}.uid, application({name})
                            ORDER BY coalesce(jobs.start, {table}.start) DESC
                        ) AS age
                        {source}
                    )
                    WHERE age <= {KEPT_RUNS} AND start < {int(before)}
                    """
                )

    def _forget(
        self, table: str, key: str, condition: str, before: int, advance: Callable[[int], None]
    ) -> int:
        """Delete rows some at a time: in between it is sluiced's turn to write."""
        forgotten = 0
        while True:
            with self._db.transaction() as db:
                count = db.execute(
                    f"DELETE FROM {table} WHERE ({key}) IN "
                    f"(SELECT {key} FROM {table} WHERE {condition} LIMIT :most)",
                    {"before": before, "most": FORGOTTEN_AT_ONCE},
                ).rowcount
            forgotten += count
            advance(count)
            if count < FORGOTTEN_AT_ONCE:
                return forgotten
            time.sleep(TURN)

    def vacuum(self) -> None:
        """Give the room of what was forgotten back to the file system."""
        with self._db.named_errors():
            self._db.sqlite.execute("VACUUM")
            self._db.sqlite.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def flat_runs(self) -> tuple[list[Column], Iterator[list[tuple[Any, ...]]]]:
        """Return columns and pages of rows: log, profile and job of each run in one row."""
        wanted: list[str] = []
        found: dict[str, Column] = {}
        for table, one in (("logs", "log"), ("profiles", "profile"), ("jobs", "job")):
            for name, kind in self._db.rows("SELECT name, type FROM pragma_table_info(?)", [table]):
                if name not in LEFT_OUT:
                    own = f"{one}_{name}" if name in found else name
                    found[own] = Column(own, kind)
                    wanted.append(f"{table}.{name}")
        return list(found.values()), self._flat(", ".join(wanted))

    def _flat(self, selected: str) -> Iterator[list[tuple[Any, ...]]]:
        last = 0
        while True:
            rows = self._db.rows(
                f"SELECT logs.id, {selected} FROM logs JOIN profiles ON profiles.log = logs.id "
                "LEFT JOIN jobs ON jobs.id = logs.job "
                "WHERE logs.reason IS NULL AND logs.id > ? ORDER BY logs.id LIMIT ?",
                [last, PAGE],
            )
            if not rows:
                return
            last = rows[-1][0]
            yield [row[1:] for row in rows]
