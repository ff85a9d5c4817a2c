"""The jobs as Slurm accounts for them, which logs are theirs, and how much the logs cover."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

from sluice.history_db.connection import Tables
from sluice.history_db.records import Coverage, Job, is_borne_out
from sluice.history_db.sql import Database, columns, marks, signed, unsigned

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sluice.history_db.connection import Connection
    from sluice.history_db.job_stats import JobStats


JOB_COLUMNS = tuple(field.name for field in fields(Job))
# A job's accounting and the log's clock come from different machines.
CLOCK_SLACK_SECONDS = 60
# Seconds after its end in which the accounting of a job has come.
ACCOUNTING_DELAY = 2 * 86400
# Why a log is in quarantine: its job may still be accounted for, or is not any more.
WAITS = "waits for the accounting of job"
NO_JOB = "not believed: the accounting has no job of its number, user and time"


WEEK = 604800  # seconds
JOB_IDENTITY = ("cluster", "job_id", "array_task", "submit", "restarts")

LEFT_NO_LOG = """
    jobs.start IS NOT NULL AND jobs.end > jobs.start
    AND NOT EXISTS (SELECT 1 FROM logs WHERE logs.job = jobs.id)
"""
UNLOGGED = f"""
    {LEFT_NO_LOG} AND coalesce(write_bytes, read_bytes, metadata_operations) IS NOT NULL
"""

# sacct and the file system's servers count upwards, the servers what sacct may miss.
COUNTED = (
    *("write_bytes", "read_bytes", "metadata_operations"),
    *("accounted_write_bytes", "accounted_read_bytes"),
)


# States that a job passes through on its way from one attempt to the next. After a crash
# slurmctld gives numbers again, so that a job that waits may be another one.
BETWEEN = ("COMPLETING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED")
IS_BETWEEN = f"(state IN {BETWEEN} OR (state = 'PENDING' AND restarts > 0))"


def _tells_more(name: str, old: Any, new: Any) -> bool:
    if name == "source" or new == old:
        return False
    return name not in COUNTED or old is None or bool(new > old)


def _row_of(db: Database, job: Job, others: Sequence[str]) -> tuple[Any, ...] | None:
    """Find a job: id here, cluster, restarts, other columns; None: not known, or not which."""
    rows = list(
        db.execute(
            f"SELECT id, cluster, restarts, source, {', '.join(others)} FROM jobs "
            "WHERE job_id = ? AND array_task = ? AND submit = ?",
            [job.job_id, job.array_task, job.submit],
        )
    )
    # Each requeue has its own submit time, and older sacct do not count them.
    rows = [row for row in rows if row[2] == job.restarts] or [
        row for row in rows if 0 in {row[2], job.restarts} and "sacct" in {row[3], job.source}
    ]
    same = [row for row in rows if row[1] == job.cluster]
    same = same or [row for row in rows if not row[1] or not job.cluster]
    return (*same[0][:3], *same[0][4:]) if len(same) == 1 else None


OF_ONE_JOB = "job_id = ? AND array_task = ? AND (cluster = ? OR cluster = '' OR ? = '')"


def _is_left_behind(db: Database, job: Job) -> bool:
    """Whether this is the moment between two attempts of a job of which the later is known.

    A job that is requeued has a submit time of its own while it completes, and another one when
    it waits again; the first never ends.
    """
    waits_again = job.state == "PENDING" and job.restarts > 0
    if job.end is not None or not (waits_again or job.state in BETWEEN):
        return False
    row = db.execute(
        f"SELECT EXISTS (SELECT 1 FROM jobs WHERE {OF_ONE_JOB} AND submit > ?)",
        [job.job_id, job.array_task, job.cluster, job.cluster, job.submit],
    ).fetchone()
    return bool(row[0])


def _end_earlier(db: Database, job: Job) -> None:
    """Forget what was seen between this attempt of a job and the one before."""
    db.execute(
        f"DELETE FROM jobs WHERE {OF_ONE_JOB} AND submit < ? AND end IS NULL AND {IS_BETWEEN}",
        [job.job_id, job.array_task, job.cluster, job.cluster, job.submit],
    )


def job_of(row: Sequence[Any]) -> Job:
    values = dict(zip(JOB_COLUMNS, row, strict=True))
    if values["script_signature"] is not None:
        values["script_signature"] = unsigned(values["script_signature"])
    return Job(**values)


OF_SERVED = """
    (:seen IS NULL OR start <= :seen) AND (
        job_id = :job AND array_task = :task
        OR :task >= 0 AND array_job = :job AND array_index = :task
    )
"""


def _contradiction(served: JobStats, job: Job) -> str | None:
    """Return what the accounting says against the servers' figures of a job, if anything."""
    if served.uid is not None and served.uid != job.uid is not None:
        return f"job {served.job_id} of user {served.uid}, which is user {job.uid}'s"
    if served.uid is not None:
        return None
    for count, accounted in (
        (served.write_bytes, job.accounted_write_bytes),
        (served.read_bytes, job.accounted_read_bytes),
    ):
        if accounted is not None and not is_borne_out(count, accounted):
            return f"job {served.job_id} with {count} B, of which Slurm counted {accounted} B"
    return None


NEWEST = 1000  # by their start, among which the latest end is sought


def newest_end(history: Connection, table: str, condition: str) -> int | None:
    """Return when the last of the newest rows of a table ended."""
    rows = history.rows(
        f"SELECT max(end) FROM (SELECT end FROM {table} "
        f"WHERE {condition} AND start IS NOT NULL ORDER BY start DESC LIMIT ?)",
        [NEWEST],
    )
    (end,) = rows[0]
    return None if end is None else int(end)


class Jobs(Tables):
    """Tables `jobs` and `weekly_coverage`, and column `logs.job`.

    Coverage is kept added up: a report that opens with it must not wait for a million jobs.
    """

    def upsert_jobs(self, jobs: Iterable[Job]) -> tuple[int, int]:
        """Add jobs or complete what is known of them; return how many were added and changed.

        A field that is None never overwrites one that is known. An empty cluster, as of sacct
        without that column, is any: its job is one that is known of a single cluster.
        """
        added = changed = 0
        others = [name for name in JOB_COLUMNS if name not in JOB_IDENTITY]
        with self._db.transaction() as db:
            for job in jobs:
                values = {name: getattr(job, name) for name in others}
                if job.source == "sacct":
                    values["accounted_write_bytes"] = job.write_bytes
                    values["accounted_read_bytes"] = job.read_bytes
                if job.script_signature is not None:
                    values["script_signature"] = signed(job.script_signature)
                row = _row_of(db, job, others)
                if row is None and _is_left_behind(db, job):
                    continue
                if row is None:
                    identity = [getattr(job, name) for name in JOB_IDENTITY]
                    db.execute(
                        f"INSERT INTO jobs ({', '.join((*JOB_IDENTITY, *others))}) "
                        f"VALUES ({marks(len(JOB_COLUMNS))})",
                        [*identity, *values.values()],
                    )
                    added += 1
                    _end_earlier(db, job)
                    continue
                new = {
                    name: value
                    for name, old, value in zip(others, row[3:], values.values(), strict=True)
                    if value is not None and _tells_more(name, old, value)
                }
                if job.cluster and not row[1]:
                    new["cluster"] = job.cluster
                if job.restarts > row[2]:
                    new["restarts"] = job.restarts
                if new:
                    db.execute(
                        f"UPDATE jobs SET {', '.join(f'{name} = ?' for name in new)} WHERE id = ?",
                        [*new.values(), row[0]],
                    )
                    changed += 1
        return added, changed

    def put_job_stats(self, stats: Iterable[JobStats]) -> tuple[int, list[str]]:
        """Give jobs the figures of the file system's servers; return how many were known.

        Servers count up until they forget a job, so the larger figure is the later one. A process
        says itself which job it is of, so what the accounting contradicts is not taken: returned
        as well, in words.
        """
        matched = 0
        contradicted = []
        with self._db.transaction() as db:
            for served in stats:
                row = db.execute(
                    f"SELECT id, {', '.join(JOB_COLUMNS)} FROM jobs WHERE {OF_SERVED} "
                    "ORDER BY start DESC, id LIMIT 1",
                    {
                        "job": served.job_id,
                        "task": served.array_task,
                        "seen": served.seen or None,
                    },
                ).fetchone()
                if row is None:
                    continue
                why = _contradiction(served, job_of(row[1:]))
                if why:
                    contradicted.append(why)
                    continue
                matched += 1
                db.execute(
                    """
                    UPDATE jobs SET
                        write_bytes = max(coalesce(write_bytes, 0), ?),
                        read_bytes = max(coalesce(read_bytes, 0), ?),
                        metadata_operations = max(coalesce(metadata_operations, 0), ?),
                        served_uid = coalesce(?, served_uid)
                    WHERE id = ?
                    """,
                    [
                        *(served.write_bytes, served.read_bytes, served.metadata_operations),
                        *(served.uid, row[0]),
                    ],
                )
        return matched, contradicted

    def unlogged_jobs(self, latest: int) -> list[Job]:
        """Return the latest jobs that ran without a log but with figures of their I/O.

        The oldest of them first.
        """
        return self._latest_jobs(UNLOGGED, latest)

    def jobs_without_log(self, latest: int) -> list[Job]:
        """Return the latest jobs that ran and left no log, the oldest of them first."""
        return self._latest_jobs(LEFT_NO_LOG, latest)

    def _latest_jobs(self, condition: str, latest: int) -> list[Job]:
        rows = self._db.rows(
            f"SELECT {columns('jobs', JOB_COLUMNS)} FROM jobs WHERE {condition} "
            "ORDER BY start DESC, jobs.id DESC LIMIT ?",
            [latest],
        )
        return [job_of(row) for row in reversed(rows)]

    def unlogged_jobs_during(self, start: float, end: float) -> list[Job]:
        """Return jobs without a log, but with figures of their I/O, that ran between two times."""
        return self._jobs_during(UNLOGGED, start, end)

    def served_jobs_during(self, start: float, end: float) -> list[Job]:
        """Return jobs whose I/O the file system's servers counted, likewise.

        They alone count operations on metadata.
        """
        return self._jobs_during("jobs.metadata_operations IS NOT NULL", start, end)

    def _jobs_during(self, condition: str, start: float, end: float) -> list[Job]:
        rows = self._db.rows(
            f"SELECT {columns('jobs', JOB_COLUMNS)} FROM jobs WHERE {condition} "
            "AND jobs.start < ? AND jobs.end > ? ORDER BY start, jobs.id",
            [end, start],
        )
        return [job_of(row) for row in rows]

    def jobs_with_id(self, job_id: int, cluster: str | None = None) -> list[Job]:
        """Return the jobs with this id, the latest first: ids are used again."""
        rows = self._db.rows(
            f"SELECT {columns('jobs', JOB_COLUMNS)} FROM jobs "
            "WHERE job_id = ? AND (? IS NULL OR cluster = ?) "
            "ORDER BY submit DESC, restarts DESC",
            [job_id, cluster, cluster],
        )
        return [job_of(row) for row in rows]

    def all_jobs(self, *, latest: int | None = None) -> list[Job]:
        """Return every job, or the last so many, in the order of submission."""
        rows = self._db.rows(
            f"SELECT {columns('jobs', JOB_COLUMNS)} FROM jobs ORDER BY submit DESC, "
            "cluster DESC, job_id DESC, array_task DESC, restarts DESC LIMIT ?",
            [-1 if latest is None else latest],
        )
        return [job_of(row) for row in reversed(rows)]

    def job(self, job_id: int, cluster: str | None = None) -> Job | None:
        """Return the latest job with this id."""
        return next(iter(self.jobs_with_id(job_id, cluster)), None)

    def uid_of(self, user: str) -> int | None:
        """Return the uid of a user by the accounting, or by the logs of their jobs."""
        rows = self._db.rows(
            "SELECT coalesce(jobs.uid, logs.uid) FROM jobs "
            "LEFT JOIN logs ON logs.job = jobs.id "
            "WHERE jobs.user = ? AND coalesce(jobs.uid, logs.uid) IS NOT NULL "
            "ORDER BY jobs.submit DESC LIMIT 1",
            [user],
        )
        return rows[0][0] if rows else None

    def link_logs(self) -> int:
        """Find the job of each log that has none: same job id, uid and time. Return how many.

        Where several jobs fit (two clusters, a requeue), the one that started last before the
        log did is taken.
        """
        with self._db.transaction() as db:
            return db.execute(
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

    def believable_logs(self, limit: int, *, now: float) -> list[str]:
        """Return the paths of unbelieved logs whose job has become known since, oldest first.

        The files are to be read again: what they say is not kept before it is trusted. now is in
        UTC seconds; logs that end later would be refused again at each poll.
        """
        rows = self._db.rows(
            """
            SELECT path FROM logs
            WHERE reason IS NOT NULL AND logs.end <= :now + :slack AND EXISTS (
                SELECT 1 FROM jobs
                WHERE jobs.job_id = logs.jobid
                  AND jobs.uid = logs.uid
                  AND jobs.start <= logs.start + :slack
                  AND (jobs.end IS NULL OR jobs.end >= logs.end - :slack)
            )
            ORDER BY start LIMIT :limit
            """,
            {"now": now, "slack": CLOCK_SLACK_SECONDS, "limit": limit},
        )
        return [row[0] for row in rows]

    def give_up_waiting(self, *, now: float) -> int:
        """Say of logs that waited for too long why they are not trusted; return how many.

        They are still read again once their job is accounted for. now is in UTC seconds.
        """
        with self._db.transaction() as db:
            return db.execute(
                """
                UPDATE logs SET reason = :reason
                WHERE reason >= :waits AND reason < :waits || '~' AND logs.end < :now - :delay
                """,
                {"reason": NO_JOB, "waits": WAITS, "now": now, "delay": ACCOUNTING_DELAY},
            ).rowcount

    def clock_offsets(self) -> list[int]:
        """Seconds from job start to log start of unlinked logs whose job id and uid fit one job.

        Whole hours among them say that the accounting was read in the wrong time zone.
        """
        rows = self._db.rows(
            """
            SELECT logs.start - jobs.start FROM logs
            JOIN jobs ON jobs.job_id = logs.jobid AND jobs.uid = logs.uid
            WHERE logs.job IS NULL AND logs.start IS NOT NULL AND jobs.start IS NOT NULL
            LIMIT 10000
            """
        )
        return [row[0] for row in rows]

    def update_coverage(self) -> None:
        """Add up anew the weeks in which jobs or their logs have changed."""
        with self._db.transaction() as db:
            db.execute(
                "DELETE FROM weekly_coverage WHERE week IN (SELECT week FROM uncovered_weeks)"
            )
            db.execute(
                """
                INSERT INTO weekly_coverage
                SELECT week, count(*), count(logged),
                       total(node_seconds), total(node_seconds) FILTER (WHERE logged),
                       total(max(logged_bytes, coarse_bytes)), total(logged_bytes)
                FROM (
                    SELECT jobs.start / :week AS week,
                           (jobs.end - jobs.start) * coalesce(jobs.nodes, 1) AS node_seconds,
                           coalesce(jobs.write_bytes, 0) + coalesce(jobs.read_bytes, 0)
                               AS coarse_bytes,
                           logs.logged, coalesce(logs.bytes, 0) AS logged_bytes
                    FROM jobs LEFT JOIN (
                        SELECT logs.job, 1 AS logged,
                               total(profiles.write_bytes) + total(profiles.read_bytes) AS bytes
                        FROM uncovered_weeks
                        JOIN jobs ON jobs.start BETWEEN uncovered_weeks.week * :week
                                                    AND uncovered_weeks.week * :week + :week - 1
                        JOIN logs ON logs.job = jobs.id
                        JOIN profiles ON profiles.log = logs.id
                        GROUP BY logs.job
                    ) AS logs ON logs.job = jobs.id
                    JOIN uncovered_weeks
                        ON jobs.start BETWEEN uncovered_weeks.week * :week
                                          AND uncovered_weeks.week * :week + :week - 1
                )
                GROUP BY week
                """,
                {"week": WEEK},
            )
            db.execute("DELETE FROM uncovered_weeks")

    def coverage(self) -> Coverage:
        """Return the shares over all that the accounting tells of, as last added up."""
        row = self._db.rows(
            """
            SELECT total(jobs), total(logged_jobs), total(node_seconds),
                   total(logged_node_seconds), total(bytes), total(logged_bytes)
            FROM weekly_coverage
            """
        )[0]
        return Coverage(int(row[0]), int(row[1]), *row[2:])

    def last_job_end(self) -> int | None:
        """Return when the last of the newest jobs ended."""
        return newest_end(self._db, "jobs", "end IS NOT NULL")
