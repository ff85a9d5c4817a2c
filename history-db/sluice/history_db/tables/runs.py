"""The logs that `sluice history ingest` was offered, with profiles.

A run is a log that was read, its profile and its job, put together.
"""

from __future__ import annotations

import json
from dataclasses import fields
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from sluice.history_db.connection import Tables
from sluice.history_db.records import (
    COUNT_MARGIN,
    COUNT_SLACK,
    NUMBERS,
    Log,
    LogKey,
    Profile,
    Run,
)
from sluice.history_db.sql import Database, batches, columns, marks
from sluice.history_db.tables.jobs import JOB_COLUMNS, job_of, newest_end

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence


LOG_COLUMNS = tuple(field.name for field in fields(Log))
PUT_LOG = (
    f"INSERT INTO logs ({', '.join(LOG_COLUMNS)}) "
    f"VALUES ({marks(len(LOG_COLUMNS))}) ON CONFLICT (digest) DO NOTHING"
)
PROFILE_COLUMNS = ("log", "pattern", "confidence", "shares", "log_sd", "features", *NUMBERS)
PUT_PROFILE = (
    f"INSERT INTO profiles ({', '.join(PROFILE_COLUMNS)}) VALUES ({marks(len(PROFILE_COLUMNS))})"
)
_fields_of = attrgetter(*LOG_COLUMNS)
_OSTS = LOG_COLUMNS.index("osts")
_to_json = json.JSONEncoder().encode

LONGEST = 30 * 86400
"""Seconds that a run lasts at most, where the last ones are sought by their start."""

# A name for the job of a log, also where accounting does not know it.
JOB_OF_LOG = "coalesce('job ' || logs.job, logs.jobid || ' of ' || logs.uid, logs.id)"


def log_of(row: Sequence[Any]) -> Log:
    values = dict(zip(LOG_COLUMNS, row, strict=True))
    osts = values["osts"]
    return Log(
        **{
            **values,
            "partial": bool(values["partial"]),
            "osts": None if osts is None else tuple(json.loads(osts)),
        }
    )


def _add_log(db: Database, log: Log, *, may_replace: bool) -> int | None:
    """Return the number of a new log; None: it is there.

    may_replace: there are logs in quarantine, so that this one may take the place of one.
    """
    if may_replace:
        db.execute("DELETE FROM logs WHERE path = ? AND reason IS NOT NULL", [log.path])
    if may_replace and log.reason is None:  # a copy not trusted must not keep the true log out
        db.execute("DELETE FROM logs WHERE digest = ? AND reason IS NOT NULL", [log.digest])
    cursor = db.execute(PUT_LOG, _values_of(log))
    return cursor.lastrowid if cursor.rowcount else None


def _values_of(log: Log) -> Sequence[Any]:
    values: Sequence[Any] = _fields_of(log)
    if log.osts is None:
        return values
    osts = json.dumps(log.osts, separators=(",", ":"))
    return [*values[:_OSTS], osts, *values[_OSTS + 1 :]]


def _values_of_profile(log_id: int, profile: Profile, features: bytes) -> Sequence[Any]:
    numbers = map(profile.numbers.get, NUMBERS)
    shares = _to_json(profile.shares)
    return (
        *(log_id, profile.pattern, profile.confidence, shares, profile.log_sd, features),
        *numbers,
    )


class Runs(Tables):
    """Tables `logs` and `profiles`; with `jobs`, for reading."""

    def known_files(self, keys: Iterable[LogKey]) -> dict[LogKey, str | None]:
        """Return the files that were ingested and have not changed since.

        Each with the reason why it is in quarantine, or None.
        """
        wanted = set(keys)
        known: dict[LogKey, str | None] = {}
        for batch in batches(sorted({key.mtime_ns for key in wanted})):
            rows = self._db.rows(
                "SELECT path, size, mtime_ns, reason FROM logs "
                f"WHERE mtime_ns IN ({marks(len(batch))})",
                batch,
            )
            known |= {LogKey(*row[:3]): row[3] for row in rows}
        return {key: reason for key, reason in known.items() if key in wanted}

    def add_logs(self, entries: Sequence[tuple[Log, Profile | None, bytes]]) -> list[bool]:
        """Add logs with profile and features (none when quarantined); say which were new.

        A log that was in quarantine is replaced, a log that was read is never touched.
        """
        with self._db.transaction() as db:
            row = db.execute("SELECT EXISTS (SELECT 1 FROM logs WHERE reason IS NOT NULL)")
            may_replace = bool(row.fetchone()[0]) or any(log.reason for log, _, _ in entries)
            ids = [_add_log(db, log, may_replace=may_replace) for log, _, _ in entries]
            db.executemany(
                PUT_PROFILE,
                (
                    _values_of_profile(log_id, profile, features)
                    for log_id, (_, profile, features) in zip(ids, entries, strict=True)
                    if log_id is not None and profile is not None
                ),
            )
        return [log_id is not None for log_id in ids]

    def quarantined(self) -> list[Log]:
        rows = self._db.rows(
            f"SELECT {columns('logs', LOG_COLUMNS)} FROM logs "
            "WHERE reason IS NOT NULL ORDER BY path"
        )
        return [log_of(row) for row in rows]

    def runs(self, log_ids: Sequence[int] | None = None) -> Iterator[Run]:
        """Yield the logs that were read, the oldest first; all, or those with these ids.

        Those with given ids come in their order in batches, each the oldest first.
        """
        for batch in batches(self.run_ids() if log_ids is None else log_ids):
            yield from self._runs(batch)

    def runs_of_program(self, program: str) -> list[tuple[int, str]]:
        """Return the users and job names under which a program ran."""
        return self._db.rows(
            """
            SELECT DISTINCT logs.uid, jobs.name FROM logs JOIN jobs ON jobs.id = logs.job
            WHERE instr(logs.exe, ?1) > 0 AND program_name(logs.exe) = ?1 AND logs.reason IS NULL
              AND jobs.name IS NOT NULL
            ORDER BY logs.uid, jobs.name
            """,
            [program],
        )

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
        rows = self._db.rows(
            f"SELECT id FROM logs WHERE {' AND '.join(conditions)} "
            "ORDER BY start DESC, id DESC LIMIT ?",
            [*values, -1 if latest is None else latest],
        )
        return [row[0] for row in reversed(rows)]

    def run_ids_of_jobs_since(self, log_id: int) -> list[int]:
        """Return the logs that were read after this one, and the others of their jobs."""
        rows = self._db.rows(
            "SELECT id FROM logs WHERE reason IS NULL AND id > :after "
            "UNION SELECT other.id FROM logs JOIN logs AS other ON other.job = logs.job "
            "WHERE logs.reason IS NULL AND logs.id > :after AND other.reason IS NULL ORDER BY 1",
            {"after": log_id},
        )
        return [row[0] for row in rows]

    def runs_ended_after(self, moment: int) -> tuple[int | None, int]:
        """Return when the first run after a time ended, and how many did; not of running jobs."""
        rows = self._db.rows(
            "SELECT min(logs.end), count(*) FROM logs LEFT JOIN jobs ON jobs.id = logs.job "
            "WHERE logs.reason IS NULL AND logs.start >= :since AND logs.end > :moment "
            "AND (jobs.id IS NULL OR jobs.end IS NOT NULL)",
            {"since": moment - LONGEST, "moment": moment},
        )
        first, count = rows[0]
        return first, count

    def last_run_end(self) -> int | None:
        """Return when the last of the newest runs ended."""
        return newest_end(self._db, "logs", "reason IS NULL")

    def count_waiting_logs(self) -> int:
        """Return how many logs wait for the accounting of their jobs."""
        rows = self._db.rows("SELECT count(*) FROM logs WHERE reason LIKE 'waits for%'")
        return int(rows[0][0])

    def claims_beyond_counts(self, *, since: int, limit: int) -> list[tuple[int, float, int]]:
        """Return job id, bytes by its logs and by Slurm of jobs whose logs claim far more.

        Of logs that started since a time (UTC seconds), the largest claims first.
        """
        return self._db.rows(
            """
            SELECT job_id, claimed, counted FROM (
                SELECT jobs.job_id,
                       total(profiles.write_bytes) + total(profiles.read_bytes) AS claimed,
                       coalesce(jobs.accounted_write_bytes, 0)
                           + coalesce(jobs.accounted_read_bytes, 0) AS counted
                FROM logs JOIN jobs ON jobs.id = logs.job
                JOIN profiles ON profiles.log = logs.id
                WHERE logs.start >= :since
                  AND (jobs.accounted_write_bytes IS NOT NULL
                       OR jobs.accounted_read_bytes IS NOT NULL)
                GROUP BY jobs.id
            )
            WHERE claimed > :margin * counted + 2 * :slack
            ORDER BY claimed DESC, job_id LIMIT :limit
            """,
            {"since": since, "limit": limit, "margin": COUNT_MARGIN, "slack": COUNT_SLACK},
        )

    def commands(self) -> list[tuple[int, str, str]]:
        """Return id, command line and job of the logs that were read, the oldest first."""
        return self._db.rows(
            f"SELECT id, exe, {JOB_OF_LOG} FROM logs "
            "WHERE reason IS NULL AND exe IS NOT NULL ORDER BY start, id"
        )

    def runs_of_job(self, job_id: int, cluster: str | None = None) -> list[Run]:
        """Return what Darshan logged of a job."""
        rows = self._db.rows(
            "SELECT logs.id FROM logs JOIN jobs ON jobs.id = logs.job "
            "WHERE jobs.job_id = ? AND (? IS NULL OR jobs.cluster = ?)",
            [job_id, cluster, cluster],
        )
        return list(self.runs([row[0] for row in rows]))

    def _runs(self, log_ids: Sequence[int]) -> Iterator[Run]:
        profile_columns = ("pattern", "confidence", "shares", "log_sd", "features", *NUMBERS)
        rows = self._db.rows(
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
