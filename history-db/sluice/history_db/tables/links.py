"""Which job a log is of."""

from __future__ import annotations

from sluice.history_db.connection import Connection

# A job's accounting and the log's clock come from different machines.
CLOCK_SLACK_SECONDS = 60
# Seconds after its end in which the accounting of a job has come.
ACCOUNTING_DELAY = 2 * 86400
# Why a log is in quarantine: its job may still be accounted for, or is not any more.
WAITS = "waits for the accounting of job"
NO_JOB = "not believed: the accounting has no job of its number, user and time"


class Links(Connection):
    """Column `logs.job`."""

    def link_logs(self) -> int:
        """Find the job of each log that has none: same job id, uid and time. Return how many.

        Where several jobs fit (two clusters, a requeue), the one that started last before the
        log did is taken.
        """
        with self._transaction() as db:
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

        The files are to be read again: what they say is not kept before it is believed. now is in
        UTC seconds; logs that end later would be refused again at each poll.
        """
        rows = self._rows(
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
        """Say of logs that waited for too long why they are not believed; return how many.

        They are still read again once their job is accounted for. now is in UTC seconds.
        """
        with self._transaction() as db:
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
        rows = self._rows(
            """
            SELECT logs.start - jobs.start FROM logs
            JOIN jobs ON jobs.job_id = logs.jobid AND jobs.uid = logs.uid
            WHERE logs.job IS NULL AND logs.start IS NOT NULL AND jobs.start IS NOT NULL
            LIMIT 10000
            """
        )
        return [row[0] for row in rows]
