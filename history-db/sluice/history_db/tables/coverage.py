"""How much of what ran the logs tell of: share of jobs, node-hours and bytes."""

from __future__ import annotations

from sluice.history_db.connection import Connection
from sluice.history_db.records import Coverage

WEEK = 604800  # seconds


class CoverageTable(Connection):
    """Table `weekly_coverage`: a report that opens with it must not wait for a million jobs."""

    def update_coverage(self) -> None:
        """Add up anew the weeks in which jobs or their logs have changed."""
        with self._transaction() as db:
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
        row = self._rows(
            """
            SELECT total(jobs), total(logged_jobs), total(node_seconds),
                   total(logged_node_seconds), total(bytes), total(logged_bytes)
            FROM weekly_coverage
            """
        )[0]
        return Coverage(int(row[0]), int(row[1]), *row[2:])
