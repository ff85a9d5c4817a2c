"""What sluiced's gates saw and did."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import TYPE_CHECKING

from sluice.history_db.connection import Connection
from sluice.history_db.records import Holder, Release, RunningSet
from sluice.history_db.sql import marks

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

RELEASE_COLUMNS = tuple(field.name for field in fields(Release))
ALL_LANES = -1  # as a mask


class Gates(Connection):
    """Tables `running_sets`, `confined_jobs`, `jobs_in_company` and `releases`."""

    def add_running_set(self, row: RunningSet) -> None:
        content = {
            "holders": [
                [holder.job_id, holder.submit, holder.klass, holder.lane_mask]
                for holder in row.holders
            ],
            "gates": row.gates,
        }
        with self._transaction() as db:
            db.execute(
                "INSERT INTO running_sets (cluster, taken, content) VALUES (?, ?, ?)",
                [row.cluster, row.taken, json.dumps(content, separators=(",", ":"))],
            )
            db.executemany(
                "INSERT OR IGNORE INTO confined_jobs (cluster, job_id, submit, lane, seen) "
                "VALUES (?, ?, ?, ?, ?)",
                [
                    (
                        row.cluster,
                        holder.job_id,
                        holder.submit,
                        holder.lane_mask.bit_length() - 1,
                        row.taken,
                    )
                    for holder in row.holders
                    if holder.klass and holder.lane_mask.bit_count() == 1
                ],
            )
            db.executemany(
                "INSERT OR IGNORE INTO jobs_in_company (cluster, job_id, submit, seen) "
                "VALUES (?, ?, ?, ?)",
                [
                    (row.cluster, holder.job_id, holder.submit, row.taken)
                    for holder in _with_corunners(row.holders)
                ],
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
        with self._transaction() as db:
            return db.execute("DELETE FROM running_sets WHERE taken < ?", [before]).rowcount

    def add_releases(self, rows: Iterable[Release]) -> None:
        with self._transaction() as db:
            for row in rows:
                values = {name: getattr(row, name) for name in RELEASE_COLUMNS}
                db.execute(
                    f"INSERT INTO releases ({', '.join(values)}) VALUES ({marks(len(values))})",
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


def _with_corunners(holders: Sequence[Holder]) -> list[Holder]:
    """Return those who are not alone on their lanes; without a token they are on all of them."""
    shared = taken = 0
    for holder in holders:
        shared |= taken & (holder.lane_mask or ALL_LANES)
        taken |= holder.lane_mask or ALL_LANES
    return [holder for holder in holders if (holder.lane_mask or ALL_LANES) & shared]
