"""Gates of sluiced: jobs that ran together, waited and were released; bursts that were held."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import TYPE_CHECKING

from sluice.history_db.connection import Tables
from sluice.history_db.records import HeldBurst, HeldTotals, Holder, Release, RunningSet
from sluice.history_db.sql import marks

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


RELEASE_COLUMNS = tuple(field.name for field in fields(Release))
HELD_COLUMNS = tuple(field.name for field in fields(HeldBurst))
ALL_LANES = -1  # as a mask


class Gates(Tables):
    """Tables `running_sets`, `confined_jobs`, `jobs_in_company`, `releases` and `held_bursts`."""

    def add_running_set(self, row: RunningSet) -> None:
        content = {
            "holders": [
                [holder.job_id, holder.submit, holder.klass, holder.lane_mask]
                for holder in row.holders
            ],
            "gates": row.gates,
        }
        with self._db.transaction() as db:
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

    def latest_running_set(self) -> RunningSet | None:
        """Return the jobs that ran together last, and the gates."""
        rows = self._db.rows(
            "SELECT cluster, taken, content FROM running_sets "
            "ORDER BY taken DESC, rowid DESC LIMIT 1"
        )
        return _running_set(*rows[0]) if rows else None

    def prune_running_sets(self, *, before: int) -> int:
        """Forget the sets seen before a time; return how many."""
        with self._db.transaction() as db:
            return db.execute("DELETE FROM running_sets WHERE taken < ?", [before]).rowcount

    def add_releases(self, rows: Iterable[Release]) -> None:
        with self._db.transaction() as db:
            for row in rows:
                values = {name: getattr(row, name) for name in RELEASE_COLUMNS}
                db.execute(
                    f"INSERT INTO releases ({', '.join(values)}) VALUES ({marks(len(values))})",
                    list(values.values()),
                )

    def releases(self, *, since: int = 0, job_id: int | None = None) -> list[Release]:
        """Return the jobs whose tokens were taken off, oldest first."""
        rows = self._db.rows(
            f"SELECT {', '.join(RELEASE_COLUMNS)} FROM releases "
            "WHERE released >= ? AND (? IS NULL OR job_id = ?) ORDER BY released, rowid",
            [since, job_id, job_id],
        )
        return [Release(*row) for row in rows]

    def add_held_bursts(self, rows: Iterable[HeldBurst]) -> None:
        """Keep these; what is there already stays as it is."""
        with self._db.transaction() as db:
            db.executemany(
                f"INSERT OR IGNORE INTO held_bursts ({', '.join(HELD_COLUMNS)}) "
                f"VALUES ({marks(len(HELD_COLUMNS))})",
                [[getattr(row, name) for name in HELD_COLUMNS] for row in rows],
            )

    def held_bursts(
        self, job_id: int, cluster: str, *, since: int, until: int | None = None
    ) -> list[HeldBurst]:
        """Return the held bursts of a job that began in this time, oldest first."""
        return self._held_bursts(
            "job_id = ? AND cluster = ? AND began >= ? AND (? IS NULL OR began <= ?) "
            "ORDER BY began, number",
            [job_id, cluster, since, until, until],
        )

    def latest_held_bursts(self, cluster: str, *, since: int, most: int) -> list[HeldBurst]:
        """Return the latest held bursts of all jobs that began since a time, the latest first."""
        return self._held_bursts(
            "cluster = ? AND began >= ? ORDER BY began DESC LIMIT ?", [cluster, since, most]
        )

    def _held_bursts(self, where: str, values: Sequence[object]) -> list[HeldBurst]:
        rows = self._db.rows(
            f"SELECT {', '.join(HELD_COLUMNS)} FROM held_bursts WHERE {where}", values
        )
        named = (dict(zip(HELD_COLUMNS, row, strict=True)) for row in rows)
        return [HeldBurst(**row | {"is_held": bool(row["is_held"])}) for row in named]

    def held_totals(self, *, since: int, is_held: bool) -> HeldTotals:
        """Add up the bursts that were held, or would have been, since a time (UTC seconds)."""
        [row] = self._db.rows(
            "SELECT count(*), total(holds), total(held), total(held * nodes), "
            "total(ended = 'budget'), total(saving) FROM held_bursts "
            "WHERE began >= ? AND is_held = ?",
            [since, is_held],
        )
        bursts, holds, seconds, node_seconds, budgets, saving = row
        return HeldTotals(bursts, int(holds), seconds, node_seconds, int(budgets), saving)


def _running_set(cluster: str, taken: int, text: str) -> RunningSet:
    content = json.loads(text)
    holders = tuple(Holder(*holder) for holder in content["holders"])
    return RunningSet(cluster, taken, holders, content["gates"])


def _with_corunners(holders: Sequence[Holder]) -> list[Holder]:
    """Return those who are not alone on their lanes; without a token they are on all of them."""
    shared = taken = 0
    for holder in holders:
        shared |= taken & (holder.lane_mask or ALL_LANES)
        taken |= holder.lane_mask or ALL_LANES
    return [holder for holder in holders if (holder.lane_mask or ALL_LANES) & shared]
