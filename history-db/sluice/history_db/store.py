"""The history: what was read, learned and decided, in one SQLite file.

The only module that imports sqlite3. Records go in and come out (`records.py`); nothing else
of the database leaves this module. Whatever fails raises a HistoryError (`errors.py`).
"""

from __future__ import annotations

import json
import sqlite3
import time
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import quote

from sluice.history_db.errors import (
    BusyHistoryError,
    DamagedHistoryError,
    ForeignFileError,
    FullDiskError,
    HistoryError,
    MissingHistoryError,
    NewerHistoryError,
    ReadOnlyHistoryError,
)
from sluice.history_db.migrations import MIGRATIONS
from sluice.history_db.records import (
    Application,
    Bundle,
    Counts,
    Decision,
    Holder,
    Job,
    Label,
    Log,
    LogKey,
    Model,
    Profile,
    Release,
    Run,
    RunningSet,
    Snapshot,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

APPLICATION_ID = 0x534C_5543  # "SLUC" in the file's header: what tells ours from others
BATCH = 500  # values bound to one statement; SQLite's oldest limit is 999

NUMBERS = (
    "chunk_bytes",
    "nprocs",
    "write_bytes",
    "read_bytes",
    "files",
    "rate",
    "metadata_rate",
    "burst_seconds",
    "period_seconds",
    "io_share",
    "runtime_seconds",
    "bytes_per_flush",
    "creates_per_mib",
    "unflushed_bytes",
    "direct_share",
    "collective_share",
    "shared_share",
    "targets",
    "async_io",
)
"""The numeric fields of a profile, as policies/core/profile.h names them (a test compares)."""

LOG_COLUMNS = tuple(field.name for field in fields(Log))
JOB_COLUMNS = tuple(field.name for field in fields(Job))
DECISION_COLUMNS = tuple(field.name for field in fields(Decision))
RELEASE_COLUMNS = tuple(field.name for field in fields(Release))
JOB_IDENTITY = ("cluster", "job_id", "array_task", "submit", "restarts")

# A job's accounting and the log's clock come from different machines.
CLOCK_SLACK_SECONDS = 60


def _signed(value: int) -> int:
    """Fit a 64-bit unsigned number into SQLite's signed integers."""
    return value - (1 << 64) if value >= 1 << 63 else value


def _unsigned(value: int) -> int:
    return value + (1 << 64) if value < 0 else value


def _marks(count: int) -> str:
    return ", ".join("?" * count)


def _columns(table: str, names: Iterable[str]) -> str:
    return ", ".join(f"{table}.{name}" for name in names)


def _batches(values: Iterable[Any]) -> Iterator[list[Any]]:
    items = list(values)
    return (items[i : i + BATCH] for i in range(0, len(items), BATCH))


def _connect(path: Path, mode: str, busy_seconds: float) -> sqlite3.Connection:
    """Open the file; mode is `ro`, `rw` or `rwc` as in SQLite's URIs."""
    db = sqlite3.connect(
        f"file:{quote(str(path))}?mode={mode}",
        uri=True,
        timeout=busy_seconds,
        isolation_level=None,  # transactions are explicit
    )
    db.execute("PRAGMA foreign_keys = 1")
    return db


class Store:
    """An open history. Use as a context manager, from one thread."""

    def __init__(
        self,
        path: Path | str,
        *,
        create: bool = False,
        read_only: bool = False,
        busy_seconds: float = 30,
    ) -> None:
        """Open `path`, bring its schema up to date, and create it if asked to.

        busy_seconds is how long to wait for another process that writes.

        Raises a HistoryError that names the file and the remedy.
        """
        self.path = Path(path)
        self._busy_seconds = busy_seconds
        if not create and not self.path.exists():
            raise MissingHistoryError(
                f"{self.path}: there is no history yet; create it with `sluice ingest PATH…`"
            )
        with self._named_errors():
            mode = "ro" if read_only else "rwc" if create else "rw"
            self._db = _connect(self.path, mode, busy_seconds)
            try:
                self._check_ownership()
                if read_only:
                    self._check_migrated()
                else:
                    self._db.execute("PRAGMA journal_mode = WAL")
                    self._db.execute("PRAGMA synchronous = NORMAL")
                    self._migrate()
            except BaseException:
                self._db.close()
                raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._db.close()

    # Logs, profiles, labels

    def known_files(self, keys: Iterable[LogKey]) -> dict[LogKey, str | None]:
        """Return the files that were ingested and have not changed since.

        Each with the reason why it is in quarantine, or None.
        """
        wanted = set(keys)
        known: dict[LogKey, str | None] = {}
        for batch in _batches(wanted):
            rows = self._rows(
                "SELECT path, size, mtime_ns, reason FROM logs "
                f"WHERE path IN ({_marks(len(batch))})",
                [key.path for key in batch],
            )
            known |= {LogKey(*row[:3]): row[3] for row in rows}
        return {key: reason for key, reason in known.items() if key in wanted}

    def add_logs(self, entries: Sequence[tuple[Log, Profile | None, bytes]]) -> list[bool]:
        """Add logs with profile and features (none when quarantined); say which were new.

        A log that was in quarantine is replaced, a log that was read is never touched.
        """
        with self._transaction():
            return [self._add_log(*entry) for entry in entries]

    def replace_patterns(self, profiles: Iterable[tuple[int, Profile]]) -> None:
        """Give logs the pattern, confidence and shares that another classifier found."""
        with self._transaction():
            self._db.executemany(
                "UPDATE profiles SET pattern = ?, confidence = ?, shares = ? WHERE log = ?",
                (
                    (profile.pattern, profile.confidence, json.dumps(profile.shares), log_id)
                    for log_id, profile in profiles
                ),
            )

    def quarantined(self) -> list[Log]:
        rows = self._rows(
            f"SELECT {_columns('logs', LOG_COLUMNS)} FROM logs "
            "WHERE reason IS NOT NULL ORDER BY path"
        )
        return [self._log(row) for row in rows]

    def link_logs(self) -> int:
        """Find the job of each log that has none: same job id, uid and time. Return how many.

        Where several jobs fit (two clusters, a requeue), the one that started last before the
        log did is taken.
        """
        with self._transaction():
            return self._db.execute(
                """
                UPDATE logs SET job = (
                    SELECT jobs.id FROM jobs
                    WHERE jobs.job_id = logs.jobid
                      AND jobs.array_task = -1
                      AND (jobs.uid IS NULL OR jobs.uid = logs.uid)
                      AND jobs.start <= logs.start + :slack
                      AND (jobs.end IS NULL OR jobs.end >= logs.end - :slack)
                    ORDER BY jobs.start DESC, jobs.id LIMIT 1
                )
                WHERE job IS NULL AND reason IS NULL AND EXISTS (
                    SELECT 1 FROM jobs
                    WHERE jobs.job_id = logs.jobid
                      AND jobs.array_task = -1
                      AND (jobs.uid IS NULL OR jobs.uid = logs.uid)
                      AND jobs.start <= logs.start + :slack
                      AND (jobs.end IS NULL OR jobs.end >= logs.end - :slack)
                )
                """,
                {"slack": CLOCK_SLACK_SECONDS},
            ).rowcount

    def clock_offsets(self) -> list[int]:
        """Seconds from job start to log start of unlinked logs whose job id and uid fit one job.

        Whole hours among them say that the accounting was read in the wrong time zone.
        """
        rows = self._rows(
            """
            SELECT logs.start - jobs.start FROM logs
            JOIN jobs ON jobs.job_id = logs.jobid AND jobs.uid = logs.uid
            WHERE logs.job IS NULL AND logs.start IS NOT NULL AND jobs.start IS NOT NULL
            LIMIT 10000
            """
        )
        return [row[0] for row in rows]

    def put_labels(self, labels: Iterable[Label]) -> None:
        with self._transaction():
            self._db.executemany(
                "INSERT INTO labels (log, pattern, application) VALUES (?, ?, ?) "
                "ON CONFLICT (log) DO UPDATE "
                "SET pattern = excluded.pattern, application = excluded.application",
                ((label.log_id, label.pattern, label.application) for label in labels),
            )

    def labels(self) -> list[Label]:
        return [Label(*row) for row in self._rows("SELECT log, pattern, application FROM labels")]

    def logs_named(self, names: Collection[str]) -> dict[str, list[int]]:
        """Find the logs that were read from files of these names, in whatever directory."""
        found: dict[str, list[int]] = {}
        for log_id, path in self._rows("SELECT id, path FROM logs WHERE reason IS NULL"):
            name = path.rpartition("/")[2]
            if name in names:
                found.setdefault(name, []).append(log_id)
        return found

    def runs(self, log_ids: Sequence[int] | None = None) -> Iterator[Run]:
        """Yield the logs that were read, the oldest first; all, or those with these ids."""
        if log_ids is None:
            yield from self._runs("", [])
            return
        for batch in _batches(log_ids):
            yield from self._runs(f"AND logs.id IN ({_marks(len(batch))})", batch)

    # Jobs

    def upsert_jobs(self, jobs: Iterable[Job]) -> tuple[int, int]:
        """Add jobs or complete what is known of them; return how many were added and changed.

        A field that is None never overwrites one that is known.
        """
        added = changed = 0
        others = [name for name in JOB_COLUMNS if name not in JOB_IDENTITY]
        where = " AND ".join(f"{name} = ?" for name in JOB_IDENTITY)
        with self._transaction():
            for job in jobs:
                identity = [getattr(job, name) for name in JOB_IDENTITY]
                values = {name: getattr(job, name) for name in others}
                if job.script_signature is not None:
                    values["script_signature"] = _signed(job.script_signature)
                row = self._db.execute(
                    f"SELECT {', '.join(others)} FROM jobs WHERE {where}", identity
                ).fetchone()
                if row is None:
                    self._db.execute(
                        f"INSERT INTO jobs ({', '.join((*JOB_IDENTITY, *others))}) "
                        f"VALUES ({_marks(len(JOB_COLUMNS))})",
                        [*identity, *values.values()],
                    )
                    added += 1
                    continue
                new = {
                    name: value
                    for name, old, value in zip(others, row, values.values(), strict=True)
                    if value is not None and value != old and name != "source"
                }
                if new:
                    self._db.execute(
                        f"UPDATE jobs SET {', '.join(f'{name} = ?' for name in new)} WHERE {where}",
                        [*new.values(), *identity],
                    )
                    changed += 1
        return added, changed

    def jobs_with_id(self, job_id: int, cluster: str | None = None) -> list[Job]:
        """Return the jobs with this id, the latest first: ids are used again."""
        rows = self._rows(
            f"SELECT {_columns('jobs', JOB_COLUMNS)} FROM jobs "
            "WHERE job_id = ? AND (? IS NULL OR cluster = ?) "
            "ORDER BY submit DESC, restarts DESC",
            [job_id, cluster, cluster],
        )
        return [self._job(row) for row in rows]

    def job(self, job_id: int, cluster: str | None = None) -> Job | None:
        """Return the latest job with this id."""
        return next(iter(self.jobs_with_id(job_id, cluster)), None)

    def uid_of(self, user: str) -> int | None:
        """Return the uid of a user by the accounting, or by the logs of his jobs."""
        rows = self._rows(
            "SELECT coalesce(jobs.uid, logs.uid) FROM jobs "
            "LEFT JOIN logs ON logs.job = jobs.id "
            "WHERE jobs.user = ? AND coalesce(jobs.uid, logs.uid) IS NOT NULL "
            "ORDER BY jobs.submit DESC LIMIT 1",
            [user],
        )
        return rows[0][0] if rows else None

    def runs_of_job(self, job_id: int, cluster: str | None = None) -> list[Run]:
        """Return what Darshan logged of a job."""
        rows = self._rows(
            "SELECT logs.id FROM logs JOIN jobs ON jobs.id = logs.job "
            "WHERE jobs.job_id = ? AND (? IS NULL OR jobs.cluster = ?)",
            [job_id, cluster, cluster],
        )
        return list(self.runs([row[0] for row in rows]))

    # Classifiers, models, applications, bundles

    def add_classifier(self, content: bytes, metrics: dict[str, object]) -> None:
        with self._transaction():
            self._db.execute(
                "INSERT INTO classifiers (created, metrics, content) VALUES (?, ?, ?)",
                [int(time.time()), json.dumps(metrics), content],
            )

    def classifier(self) -> bytes | None:
        """Return the pattern classifier that was trained last on this history's labels."""
        rows = self._rows("SELECT content FROM classifiers ORDER BY id DESC LIMIT 1")
        return rows[0][0] if rows else None

    def reserve_applications(self, count: int) -> int:
        """Return the first of `count` consecutive ids that no application ever had."""
        with self._transaction():
            row = self._db.execute(
                "SELECT seq FROM sqlite_sequence WHERE name = 'applications'"
            ).fetchone()
            first = 1 if row is None else row[0] + 1
            last = first + count - 1
            if row is None:
                self._db.execute(
                    "INSERT INTO sqlite_sequence (name, seq) VALUES ('applications', ?)", [last]
                )
            else:
                self._db.execute(
                    "UPDATE sqlite_sequence SET seq = ? WHERE name = 'applications'", [last]
                )
        return first

    def add_model(
        self,
        content: bytes,
        metrics: dict[str, object],
        applications: Iterable[Application],
        *,
        created: int,
    ) -> int:
        """Keep a trained model and what its applications were learned from; return its id."""
        with self._transaction():
            cursor = self._db.execute(
                "INSERT INTO models (created, metrics, content) VALUES (?, ?, ?)",
                [created, json.dumps(metrics), content],
            )
            model = cursor.lastrowid
            if model is None:
                raise HistoryError(f"{self.path}: SQLite gave no id to the new model")
            for application in applications:
                self._db.execute(
                    "INSERT INTO applications (id, model, evidence, key, label, runs) "
                    "VALUES (?, ?, ?, ?, ?, ?)",
                    [
                        application.id,
                        model,
                        application.evidence,
                        _signed(application.key),
                        application.label,
                        application.runs,
                    ],
                )
                self._db.executemany(
                    "INSERT INTO application_runs (application, log) VALUES (?, ?)",
                    ((application.id, log) for log in application.logs),
                )
        return model

    def models(self) -> list[Model]:
        """Return the models that are kept, the latest last."""
        rows = self._rows("SELECT id, created, metrics, content FROM models ORDER BY id")
        return [self._model(row) for row in rows]

    def latest_model(self) -> Model | None:
        rows = self._rows(
            "SELECT id, created, metrics, content FROM models ORDER BY id DESC LIMIT 1"
        )
        return self._model(rows[0]) if rows else None

    def applications(self, model: int) -> list[Application]:
        rows = self._rows("SELECT id FROM applications WHERE model = ? ORDER BY id", [model])
        found = (self.application(row[0]) for row in rows)
        return [application for application in found if application is not None]

    def application(self, application_id: int) -> Application | None:
        """Return what a bundle's application entry was learned from."""
        rows = self._rows(
            "SELECT evidence, key, label, runs FROM applications WHERE id = ?", [application_id]
        )
        if not rows:
            return None
        evidence, key, label, runs = rows[0]
        logs = self._rows(
            "SELECT log FROM application_runs WHERE application = ? ORDER BY log",
            [application_id],
        )
        return Application(
            evidence=evidence,
            key=_unsigned(key),
            label=label,
            runs=runs,
            logs=tuple(row[0] for row in logs),
            id=application_id,
        )

    def runs_behind(self, application_id: int) -> list[Run]:
        """Return the runs an application's profile was learned from, the latest first."""
        application = self.application(application_id)
        if application is None:
            return []
        return sorted(self.runs(application.logs), key=lambda run: run.log.start or 0, reverse=True)

    def add_bundle(self, bundle: Bundle) -> None:
        with self._transaction():
            self._db.execute(
                "INSERT INTO bundles (checksum, model, path, published_at, content) "
                "VALUES (?, ?, ?, ?, ?) ON CONFLICT (checksum) DO UPDATE "
                "SET path = excluded.path, published_at = excluded.published_at",
                [
                    _signed(bundle.checksum),
                    bundle.model,
                    bundle.path,
                    bundle.published_at,
                    bundle.content,
                ],
            )

    def bundle(self, checksum: int) -> Bundle | None:
        rows = self._rows(
            "SELECT model, path, published_at, content FROM bundles WHERE checksum = ?",
            [_signed(checksum)],
        )
        return Bundle(checksum, *rows[0]) if rows else None

    def bundles(self) -> list[Bundle]:
        """Return the bundles that are kept, the latest last."""
        rows = self._rows(
            "SELECT checksum, model, path, published_at, content FROM bundles "
            "ORDER BY published_at, checksum"
        )
        return [Bundle(_unsigned(row[0]), *row[1:]) for row in rows]

    def prune_models(self, keep: int) -> None:
        """Forget all but the latest `keep` models and bundles, except what decisions refer to."""
        with self._transaction():
            self._db.execute(
                """
                DELETE FROM bundles
                WHERE checksum NOT IN (SELECT bundle FROM decisions)
                  AND checksum NOT IN (
                      SELECT checksum FROM bundles ORDER BY published_at DESC LIMIT ?
                  )
                """,
                [keep],
            )
            self._db.execute(
                """
                DELETE FROM models
                WHERE id NOT IN (SELECT model FROM bundles WHERE model IS NOT NULL)
                  AND id NOT IN (SELECT id FROM models ORDER BY id DESC LIMIT ?)
                """,
                [keep],
            )

    # Decisions and snapshots

    def insert_decisions(self, decisions: Iterable[Decision]) -> int:
        """Add decisions; those known by (boot, number) already are left. Return how many."""
        added = 0
        with self._transaction():
            for decision in decisions:
                values = {name: getattr(decision, name) for name in DECISION_COLUMNS}
                for name in ("boot", "number", "bundle", "snapshot"):
                    values[name] = _signed(values[name])
                added += self._db.execute(
                    f"INSERT INTO decisions ({', '.join(values)}) "
                    f"VALUES ({_marks(len(values))}) ON CONFLICT (boot, number) DO NOTHING",
                    list(values.values()),
                ).rowcount
        return added

    def unjoined_decisions(self, *, since: int = 0) -> list[Decision]:
        """Return the decisions made at or after `since` whose job is sought, oldest first."""
        return self._decisions(
            "job_id IS NULL AND joined_by IS NULL AND now >= ? ORDER BY now, number", [since]
        )

    def decisions_of_user(self, uid: int, *, since: int, until: int) -> list[Decision]:
        """Return a user's decisions of a span of time, joined or not, oldest first."""
        return self._decisions(
            "uid = ? AND now BETWEEN ? AND ? ORDER BY now, number", [uid, since, until]
        )

    def join_decision(self, boot: int, number: int, job_id: int, joined_by: str) -> None:
        """Say which job a decision was about; joined_by is `mark` or `key`."""
        self._set_join(boot, number, job_id, joined_by)

    def mark_tie(self, boot: int, number: int) -> None:
        """Say that several jobs fit a decision equally well."""
        self._set_join(boot, number, None, "tie")

    def decision(self, boot: int, number: int) -> Decision | None:
        found = self._decisions("boot = ? AND number = ?", [_signed(boot), _signed(number)])
        return found[0] if found else None

    def decisions_for_job(self, job_id: int, cluster: str | None = None) -> list[Decision]:
        """Return the decisions about jobs with this id, the latest first."""
        return self._decisions(
            "job_id = ? AND (? IS NULL OR cluster = ?) ORDER BY now DESC, number DESC",
            [job_id, cluster, cluster],
        )

    def decision_for_job(self, job_id: int, cluster: str | None = None) -> Decision | None:
        """Return the latest decision about a job."""
        return next(iter(self.decisions_for_job(job_id, cluster)), None)

    def latest_decisions(self, limit: int) -> list[Decision]:
        """Return the latest decisions, the latest first."""
        return self._decisions("1 ORDER BY now DESC, number DESC LIMIT ?", [limit])

    def add_snapshot(self, snapshot: Snapshot) -> None:
        with self._transaction():
            self._db.execute(
                "INSERT INTO snapshots (checksum, sequence, taken, content) "
                "VALUES (?, ?, ?, ?) ON CONFLICT (checksum) DO NOTHING",
                [
                    _signed(snapshot.checksum),
                    snapshot.sequence,
                    snapshot.taken,
                    snapshot.content,
                ],
            )

    def snapshot(self, checksum: int) -> Snapshot | None:
        rows = self._rows(
            "SELECT sequence, taken, content FROM snapshots WHERE checksum = ?",
            [_signed(checksum)],
        )
        return Snapshot(checksum, *rows[0]) if rows else None

    def prune_snapshots(self, *, before: int) -> int:
        """Forget snapshots taken before a time that no decision refers to; return how many."""
        with self._transaction():
            return self._db.execute(
                "DELETE FROM snapshots WHERE taken < ? "
                "AND NOT EXISTS (SELECT 1 FROM decisions "
                "                WHERE decisions.snapshot = snapshots.checksum)",
                [before],
            ).rowcount

    # Gates

    def add_running_set(self, row: RunningSet) -> None:
        content = {
            "holders": [
                [holder.job_id, holder.submit, holder.klass, holder.lane_mask]
                for holder in row.holders
            ],
            "gates": row.gates,
        }
        with self._transaction():
            self._db.execute(
                "INSERT INTO running_sets (cluster, taken, content) VALUES (?, ?, ?)",
                [row.cluster, row.taken, json.dumps(content, separators=(",", ":"))],
            )

    def running_sets(self, *, since: int = 0) -> Iterator[RunningSet]:
        """Yield what sluiced saw running together, oldest first."""
        for cluster, taken, text in self._rows(
            "SELECT cluster, taken, content FROM running_sets WHERE taken >= ? "
            "ORDER BY taken, rowid",
            [since],
        ):
            content = json.loads(text)
            holders = tuple(Holder(*holder) for holder in content["holders"])
            yield RunningSet(cluster, taken, holders, content["gates"])

    def prune_running_sets(self, *, before: int) -> int:
        """Forget the sets seen before a time; return how many."""
        with self._transaction():
            return self._db.execute("DELETE FROM running_sets WHERE taken < ?", [before]).rowcount

    def add_releases(self, rows: Iterable[Release]) -> None:
        with self._transaction():
            for row in rows:
                values = {name: getattr(row, name) for name in RELEASE_COLUMNS}
                self._db.execute(
                    f"INSERT INTO releases ({', '.join(values)}) VALUES ({_marks(len(values))})",
                    list(values.values()),
                )

    def releases(self, *, since: int = 0, job_id: int | None = None) -> list[Release]:
        """Return the jobs whose tokens were taken off, oldest first."""
        rows = self._rows(
            f"SELECT {', '.join(RELEASE_COLUMNS)} FROM releases "
            "WHERE released >= ? AND (? IS NULL OR job_id = ?) ORDER BY released, rowid",
            [since, job_id, job_id],
        )
        return [Release(*row) for row in rows]

    def counts(self) -> Counts:
        row = self._rows(
            """
            SELECT (SELECT count(*) FROM logs WHERE reason IS NULL),
                   (SELECT count(*) FROM logs WHERE reason IS NOT NULL),
                   (SELECT count(*) FROM logs WHERE job IS NOT NULL),
                   (SELECT count(*) FROM labels),
                   (SELECT count(*) FROM jobs),
                   (SELECT count(*) FROM decisions),
                   (SELECT count(*) FROM models),
                   (SELECT count(*) FROM bundles)
            """
        )[0]
        return Counts(*row)

    # Inside

    def _rows(self, sql: str, values: Sequence[Any] = ()) -> list[Any]:
        with self._named_errors():
            return self._db.execute(sql, values).fetchall()

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """All or nothing; writers wait for one another here."""
        with self._named_errors():
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._db.execute("COMMIT")
            except BaseException:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise

    @contextmanager
    def _named_errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.DatabaseError as error:
            raise self._named(error) from error

    def _named(self, error: sqlite3.DatabaseError) -> HistoryError:
        primary = getattr(error, "sqlite_errorcode", 0) & 0xFF
        match primary:
            case sqlite3.SQLITE_NOTADB:
                return ForeignFileError(
                    f"{self.path}: not a history of Sluice; name another file with --history"
                )
            case sqlite3.SQLITE_CANTOPEN | sqlite3.SQLITE_PERM | sqlite3.SQLITE_READONLY:
                return ReadOnlyHistoryError(
                    f"{self.path}: cannot be opened or written by this user ({error}); "
                    "SQLite needs write access to the file and its directory"
                )
            case sqlite3.SQLITE_FULL:
                return FullDiskError(
                    f"{self.path}: the disk is full; nothing of the last step was kept, "
                    "free some space and run the command again"
                )
            case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
                return BusyHistoryError(
                    f"{self.path}: another process has been writing for {self._busy_seconds:g} s; "
                    "try again when it is done"
                )
            case sqlite3.SQLITE_CORRUPT:
                return DamagedHistoryError(
                    f"{self.path}: damaged ({error}); restore a copy, or move it away and "
                    "ingest again"
                )
        return HistoryError(f"{self.path}: {error}")

    def _check_ownership(self) -> None:
        """Refuse a database that is not empty and not ours."""
        if self._db.execute("PRAGMA application_id").fetchone()[0] == APPLICATION_ID:
            return
        if self._db.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]:
            raise ForeignFileError(
                f"{self.path}: a database, but not a history of Sluice; "
                "name another file with --history"
            )

    def _applied(self) -> set[str]:
        exists = self._db.execute(
            "SELECT 1 FROM sqlite_schema WHERE name = 'migrations'"
        ).fetchone()
        if exists is None:
            return set()
        applied = {row[0] for row in self._db.execute("SELECT name FROM migrations")}
        unknown = applied - {migration.__name__ for migration in MIGRATIONS}
        if unknown:
            raise NewerHistoryError(
                f"{self.path}: written by a newer Sluice ({', '.join(sorted(unknown))}); "
                "update Sluice, or name another file with --history"
            )
        return applied

    def _check_migrated(self) -> None:
        if len(self._applied()) < len(MIGRATIONS):
            raise HistoryError(
                f"{self.path}: from an older Sluice; whoever may write it should run "
                "`sluice history` once to bring it up to date"
            )

    def _migrate(self) -> None:
        if len(self._applied()) == len(MIGRATIONS):
            return
        with self._transaction():
            self._db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            self._db.execute(
                "CREATE TABLE IF NOT EXISTS migrations "
                "(name TEXT PRIMARY KEY, applied_at INTEGER NOT NULL) STRICT"
            )
        for migration in MIGRATIONS:
            with self._transaction():
                if migration.__name__ not in self._applied():  # another process was faster
                    migration(self._db)
                    self._db.execute(
                        "INSERT INTO migrations (name, applied_at) VALUES (?, ?)",
                        [migration.__name__, int(time.time())],
                    )

    def _add_log(self, log: Log, profile: Profile | None, features: bytes) -> bool:
        self._db.execute("DELETE FROM logs WHERE path = ? AND reason IS NOT NULL", [log.path])
        cursor = self._db.execute(
            f"INSERT INTO logs ({', '.join(LOG_COLUMNS)}) "
            f"VALUES ({_marks(len(LOG_COLUMNS))}) ON CONFLICT (digest) DO NOTHING",
            [getattr(log, name) for name in LOG_COLUMNS],
        )
        if cursor.rowcount == 0 or cursor.lastrowid is None:
            return False
        if profile is not None:
            self._put_profile(cursor.lastrowid, profile, features)
        return True

    def _put_profile(self, log_id: int, profile: Profile, features: bytes) -> None:
        row = {
            "log": log_id,
            "pattern": profile.pattern,
            "confidence": profile.confidence,
            "shares": json.dumps(profile.shares),
            "log_sd": profile.log_sd,
            "features": features,
            **{name: profile.numbers.get(name) for name in NUMBERS},
        }
        self._db.execute(
            f"INSERT INTO profiles ({', '.join(row)}) VALUES ({_marks(len(row))})",
            list(row.values()),
        )

    def _runs(self, condition: str, values: Sequence[Any]) -> Iterator[Run]:
        profile_columns = ("pattern", "confidence", "shares", "log_sd", "features", *NUMBERS)
        rows = self._rows(
            f"SELECT logs.id, {_columns('logs', LOG_COLUMNS)}, "
            f"{_columns('profiles', profile_columns)}, {_columns('jobs', JOB_COLUMNS)} "
            "FROM logs JOIN profiles ON profiles.log = logs.id "
            "LEFT JOIN jobs ON jobs.id = logs.job "
            f"WHERE logs.reason IS NULL {condition} ORDER BY logs.start, logs.id",
            values,
        )
        after_log = 1 + len(LOG_COLUMNS)
        after_profile = after_log + len(profile_columns)
        for row in rows:
            pattern, confidence, shares, log_sd, features, *numbers = row[after_log:after_profile]
            job = row[after_profile:]
            yield Run(
                log_id=row[0],
                log=self._log(row[1:after_log]),
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
                job=self._job(job) if job[0] is not None else None,
            )

    def _set_join(self, boot: int, number: int, job_id: int | None, joined_by: str) -> None:
        with self._transaction():
            self._db.execute(
                "UPDATE decisions SET job_id = ?, joined_by = ? WHERE boot = ? AND number = ?",
                [job_id, joined_by, _signed(boot), _signed(number)],
            )

    def _decisions(self, condition: str, values: Sequence[Any]) -> list[Decision]:
        rows = self._rows(
            f"SELECT {', '.join(DECISION_COLUMNS)} FROM decisions WHERE {condition}", values
        )
        found = []
        for row in rows:
            values_by_name = dict(zip(DECISION_COLUMNS, row, strict=True))
            for name in ("boot", "number", "bundle", "snapshot"):
                values_by_name[name] = _unsigned(values_by_name[name])
            found.append(Decision(**values_by_name))
        return found

    @staticmethod
    def _model(row: Sequence[Any]) -> Model:
        model, created, metrics, content = row
        return Model(id=model, created=created, metrics=json.loads(metrics), content=content)

    @staticmethod
    def _log(row: Sequence[Any]) -> Log:
        values = dict(zip(LOG_COLUMNS, row, strict=True))
        return Log(**{**values, "partial": bool(values["partial"])})

    @staticmethod
    def _job(row: Sequence[Any]) -> Job:
        values = dict(zip(JOB_COLUMNS, row, strict=True))
        if values["script_signature"] is not None:
            values["script_signature"] = _unsigned(values["script_signature"])
        return Job(**values)
