"""The jobs, as Slurm accounts for them."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

from sluice.history_db.connection import Connection
from sluice.history_db.records import Job
from sluice.history_db.sql import columns, marks, signed, unsigned

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

JOB_COLUMNS = tuple(field.name for field in fields(Job))
JOB_IDENTITY = ("cluster", "job_id", "array_task", "submit", "restarts")


def job_of(row: Sequence[Any]) -> Job:
    values = dict(zip(JOB_COLUMNS, row, strict=True))
    if values["script_signature"] is not None:
        values["script_signature"] = unsigned(values["script_signature"])
    return Job(**values)


class Jobs(Connection):
    """Table `jobs`."""

    def upsert_jobs(self, jobs: Iterable[Job]) -> tuple[int, int]:
        """Add jobs or complete what is known of them; return how many were added and changed.

        A field that is None never overwrites one that is known.
        """
        added = changed = 0
        others = [name for name in JOB_COLUMNS if name not in JOB_IDENTITY]
        where = " AND ".join(f"{name} = ?" for name in JOB_IDENTITY)
        with self._transaction() as db:
            for job in jobs:
                identity = [getattr(job, name) for name in JOB_IDENTITY]
                values = {name: getattr(job, name) for name in others}
                if job.script_signature is not None:
                    values["script_signature"] = signed(job.script_signature)
                row = db.execute(
                    f"SELECT {', '.join(others)} FROM jobs WHERE {where}", identity
                ).fetchone()
                if row is None:
                    db.execute(
                        f"INSERT INTO jobs ({', '.join((*JOB_IDENTITY, *others))}) "
                        f"VALUES ({marks(len(JOB_COLUMNS))})",
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
                    db.execute(
                        f"UPDATE jobs SET {', '.join(f'{name} = ?' for name in new)} WHERE {where}",
                        [*new.values(), *identity],
                    )
                    changed += 1
        return added, changed

    def jobs_with_id(self, job_id: int, cluster: str | None = None) -> list[Job]:
        """Return the jobs with this id, the latest first: ids are used again."""
        rows = self._rows(
            f"SELECT {columns('jobs', JOB_COLUMNS)} FROM jobs "
            "WHERE job_id = ? AND (? IS NULL OR cluster = ?) "
            "ORDER BY submit DESC, restarts DESC",
            [job_id, cluster, cluster],
        )
        return [job_of(row) for row in rows]

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
