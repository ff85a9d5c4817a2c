"""Runs: a log that was read, its profile and its job, put together."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from sluice.history_db.connection import Connection
from sluice.history_db.records import NUMBERS, Profile, Run
from sluice.history_db.sql import batches, columns, marks
from sluice.history_db.tables.jobs import JOB_COLUMNS, job_of
from sluice.history_db.tables.logs import JOB_OF_LOG, LOG_COLUMNS, log_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

LONGEST = 30 * 86400
"""Seconds that a run lasts at most, where the last ones are sought by their start."""
NEWEST = 1000


class Runs(Connection):
    """Tables `logs`, `profiles` and `jobs`, for reading."""

    def runs(self, log_ids: Sequence[int] | None = None) -> Iterator[Run]:
        """Yield the logs that were read, the oldest first; all, or those with these ids.

        Those with given ids come in their order in batches, each the oldest first.
        """
        for batch in batches(self.run_ids() if log_ids is None else log_ids):
            yield from self._runs(batch)

    def run_ids(
        self,
        *,
        latest: int | None = None,
        since: int | None = None,
        until: int | None = None,
        uid: int | None = None,
    ) -> list[int]:
        """Return the ids of the logs that were read, the oldest first.

        Those that started in [since, until), of one user or of all; with `latest`, the newest so
        many of them.
        """
        conditions, values = ["reason IS NULL"], []
        for condition, value in (("start >= ?", since), ("start < ?", until), ("uid = ?", uid)):
            if value is not None:
                conditions.append(condition)
                values.append(value)
        rows = self._rows(
            f"SELECT id FROM logs WHERE {' AND '.join(conditions)} "
            "ORDER BY start DESC, id DESC LIMIT ?",
            [*values, -1 if latest is None else latest],
        )
        return [row[0] for row in reversed(rows)]

    def run_ids_of_jobs_since(self, log_id: int) -> list[int]:
        """Return the logs that were read after this one, and the others of their jobs."""
        rows = self._rows(
            "SELECT id FROM logs WHERE reason IS NULL AND id > :after "
            "UNION SELECT other.id FROM logs JOIN logs AS other ON other.job = logs.job "
            "WHERE logs.reason IS NULL AND logs.id > :after AND other.reason IS NULL ORDER BY 1",
            {"after": log_id},
        )
        return [row[0] for row in rows]

    def runs_ended_after(self, moment: int) -> tuple[int | None, int]:
        """Return when the first run after a time ended, and how many did; not of running jobs."""
        rows = self._rows(
            "SELECT min(logs.end), count(*) FROM logs LEFT JOIN jobs ON jobs.id = logs.job "
            "WHERE logs.reason IS NULL AND logs.start >= :since AND logs.end > :moment "
            "AND (jobs.id IS NULL OR jobs.end IS NOT NULL)",
            {"since": moment - LONGEST, "moment": moment},
        )
        first, count = rows[0]
        return first, count

    def last_run_end(self) -> int | None:
        """Return when the last of the newest runs ended."""
        return self._newest_end("logs", "reason IS NULL")

    def last_job_end(self) -> int | None:
        """Return when the last of the newest jobs ended."""
        return self._newest_end("jobs", "end IS NOT NULL")

    def _newest_end(self, table: str, condition: str) -> int | None:
        rows = self._rows(
            f"SELECT max(end) FROM (SELECT end FROM {table} "
            f"WHERE {condition} AND start IS NOT NULL ORDER BY start DESC LIMIT ?)",
            [NEWEST],
        )
        (end,) = rows[0]
        return None if end is None else int(end)

    def count_waiting_logs(self) -> int:
        """Return how many logs wait for the accounting of their jobs."""
        rows = self._rows("SELECT count(*) FROM logs WHERE reason LIKE 'waits for%'")
        return int(rows[0][0])

    def commands(self) -> list[tuple[int, str, str]]:
        """Return id, command line and job of the logs that were read, the oldest first."""
        return self._rows(
            f"SELECT id, exe, {JOB_OF_LOG} FROM logs "
            "WHERE reason IS NULL AND exe IS NOT NULL ORDER BY start, id"
        )

    def runs_of_job(self, job_id: int, cluster: str | None = None) -> list[Run]:
        """Return what Darshan logged of a job."""
        rows = self._rows(
            "SELECT logs.id FROM logs JOIN jobs ON jobs.id = logs.job "
            "WHERE jobs.job_id = ? AND (? IS NULL OR jobs.cluster = ?)",
            [job_id, cluster, cluster],
        )
        return list(self.runs([row[0] for row in rows]))

    def _runs(self, log_ids: Sequence[int]) -> Iterator[Run]:
        profile_columns = ("pattern", "confidence", "shares", "log_sd", "features", *NUMBERS)
        rows = self._rows(
            f"SELECT logs.id, {columns('logs', LOG_COLUMNS)}, "
            f"{columns('profiles', profile_columns)}, {columns('jobs', JOB_COLUMNS)} "
            "FROM logs JOIN profiles ON profiles.log = logs.id "
            "LEFT JOIN jobs ON jobs.id = logs.job "
            f"WHERE logs.reason IS NULL AND logs.id IN ({marks(len(log_ids))}) "
            "ORDER BY logs.start, logs.id",
            log_ids,
        )
        after_log = 1 + len(LOG_COLUMNS)
        after_profile = after_log + len(profile_columns)
        for row in rows:
            pattern, confidence, shares, log_sd, features, *numbers = row[after_log:after_profile]
            job = row[after_profile:]
            yield Run(
                log_id=row[0],
                log=log_of(row[1:after_log]),
                profile=Profile(
                    pattern=pattern,
                    confidence=confidence,
                    shares=json.loads(shares),
                    numbers={
                        name: value
                        for name, value in zip(NUMBERS, numbers, strict=True)
                        if value is not None
                    },
                    log_sd=log_sd,
                ),
                features=features,
                job=job_of(job) if job[0] is not None else None,
            )
