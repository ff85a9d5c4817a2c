"""Totals of applications a week: what rankings are made of without reading a million runs."""

from __future__ import annotations

from dataclasses import astuple
from typing import TYPE_CHECKING

from sluice.history_db.connection import Tables
from sluice.history_db.records import Total, WeekSum
from sluice.history_db.sql import marks
from sluice.history_db.tables.runs import JOB_OF_LOG

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

WEEK = 7 * 86400  # seconds; week 0 began at 0
SUMS = "max(user), sum(runs), sum(write_bytes), sum(read_bytes), sum(metadata)"
FIRST_ASKED = 1024  # applications that are asked at first; all, if these leave it open
ROUNDING = 1e-9  # by which sums of the same numbers may differ
SORTED_BY = ("write_bytes", "read_bytes", "metadata")


class Rankings(Tables):
    """Tables `weekly_totals`, `application_totals` (all weeks) and `stale_weeks`.

    Triggers on `logs` fill the last.
    """

    def stale_weeks(self) -> list[int]:
        """Return the weeks whose totals are to be added up again, the oldest first."""
        return [row[0] for row in self._db.rows("SELECT week FROM stale_weeks ORDER BY week")]

    def sums_of_week(self, week: int) -> list[WeekSum]:
        """Add up the jobs that started in a week, by user and job name, else program."""
        rows = self._db.rows(
            f"""
            SELECT coalesce(logs.uid, 0), max(jobs.user), jobs.name,
                   CASE WHEN jobs.name IS NULL THEN logs.exe END, count(DISTINCT {JOB_OF_LOG}),
                   total(profiles.write_bytes), total(profiles.read_bytes),
                   total(profiles.metadata_rate * profiles.io_share * profiles.runtime_seconds)
            FROM logs
            JOIN profiles ON profiles.log = logs.id
            LEFT JOIN jobs ON jobs.id = logs.job
            WHERE logs.reason IS NULL AND logs.start >= ? AND logs.start < ?
            GROUP BY 1, 3, 4
            """,
            [week * WEEK, (week + 1) * WEEK],
        )
        return [WeekSum(*row) for row in rows]

    def put_week(self, week: int, totals: Iterable[Total]) -> None:
        """Replace the totals of a week; it is not stale any more."""
        with self._db.transaction() as db:
            db.execute("DELETE FROM weekly_totals WHERE week = ?", [week])
            db.executemany(
                f"INSERT INTO weekly_totals VALUES ({marks(8)})",
                ((total.uid, total.application, week, *astuple(total)[2:]) for total in totals),
            )
            db.execute("DELETE FROM stale_weeks WHERE week = ?", [week])
            db.execute("DELETE FROM application_totals")

    def put_totals(self) -> None:
        """Add up all weeks; until then rankings of all time do so themselves, which is slow."""
        with self._db.transaction() as db:
            db.execute("DELETE FROM application_totals")
            db.execute(
                f"INSERT INTO application_totals SELECT uid, application, {SUMS} "
                "FROM weekly_totals GROUP BY uid, application"
            )

    def ranking(
        self, by: str, *, since_week: int, most: int, uids: Sequence[int] = ()
    ) -> list[Total]:
        """Return the applications with the largest totals since a week, the largest first.

        `by` is one of SORTED_BY; `uids`: only of these users.
        """
        column = SORTED_BY[SORTED_BY.index(by)]  # never text from outside
        if uids:
            of_users = (
                f"(SELECT uid, application, sum({column}) AS {column} FROM weekly_totals "
                f"WHERE uid IN ({', '.join(str(int(uid)) for uid in uids)}) "
                "GROUP BY uid, application)"
            )
            return self._largest_since(since_week, column, of_users, depth=-1, most=most)
        added_up = bool(self._db.rows("SELECT 1 FROM application_totals LIMIT 1"))
        if since_week == 0 and added_up:
            rows = self._db.rows(
                f"SELECT * FROM application_totals WHERE {column} > 0 "
                f"ORDER BY {column} DESC, uid, application LIMIT ?",
                [most],
            )
            return [Total(*row) for row in rows]
        of_all_weeks = (
            "application_totals"
            if added_up
            else f"(SELECT uid, application, sum({column}) AS {column} FROM weekly_totals "
            "GROUP BY uid, application)"
        )
        # A total since a week is no larger than that of all weeks: where the last one found is
        # larger than the largest of those not looked at, most rows of a year need not be read.
        depth = max(FIRST_ASKED, 4 * most)
        found = self._largest_since(since_week, column, of_all_weeks, depth=depth, most=most)
        following = self._db.rows(
            f"SELECT {column} FROM {of_all_weeks} WHERE {column} > 0 "
            f"ORDER BY {column} DESC LIMIT 1 OFFSET ?",
            [depth],
        )
        largest_left = following[0][0] * (1 + ROUNDING) if following else 0.0
        if not following or (len(found) == most and getattr(found[-1], by) > largest_left):
            return found
        return self._largest_since(since_week, column, of_all_weeks, depth=-1, most=most)

    def _largest_since(
        self, week: int, column: str, of_all_weeks: str, *, depth: int, most: int
    ) -> list[Total]:
        """Rank the `depth` applications (-1: all) with the largest totals of all weeks."""
        rows = self._db.rows(
            f"""
            SELECT uid, application, {SUMS}
            FROM (
                SELECT uid, application,
                       (SELECT sum({column}) FROM weekly_totals AS one
                        WHERE one.uid = early.uid AND one.application = early.application
                          AND one.week >= :week) AS since
                FROM (
                    SELECT uid, application FROM {of_all_weeks} WHERE {column} > 0
                    ORDER BY {column} DESC, uid, application LIMIT :depth
                ) AS early
                ORDER BY since DESC, uid, application LIMIT :most
            ) JOIN weekly_totals USING (uid, application)
            WHERE week >= :week
            GROUP BY uid, application HAVING sum({column}) > 0
            ORDER BY sum({column}) DESC, uid, application
            """,
            {"week": week, "depth": depth, "most": most},
        )
        return [Total(*row) for row in rows]
