"""The decision records, and what sluiced's gates saw and did.

What a user submits again and again is decided in the same way. A record that is like one before
is compressed with that one, its base, and takes a twentieth of the room; others with some of the
latest as a dictionary. Bases and dictionaries are kept in one table.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

from sluice.history_db.connection import Connection
from sluice.history_db.records import (
    Decision,
    DecisionCounts,
    HeldBurst,
    HeldTotals,
    Holder,
    IoWait,
    Release,
    RunningSet,
    Selection,
)
from sluice.history_db.sql import WINDOW, Database, marks, packed, signed, unpacked, unsigned

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence


DECISION_COLUMNS = tuple(field.name for field in fields(Decision))


DICTIONARY_ROWS = 20_000
"""Records that are compressed with one dictionary."""


SEARCHED = 200_000
"""The latest decisions, which are searched for some jobs' where no time says how far back."""
PAGE = 20_000
"""Decisions that are read at a time."""
ALL_JOBS = Selection()
ALIKE = 128
"""One is like another if at most one in so many bits differs: time, number, snapshot, load."""
MOST_KNOWN = 4000
"""Records that may be bases; then half of them are forgotten."""
ZEROS = re.compile(rb"\0{32,}")
"""Unused room in records, which a dictionary has better things to do with than to repeat."""


@dataclass(slots=True)
class _Known:
    """A record that later ones may be like."""

    bits: int
    record: bytes
    number: int | None = None
    """Its id as a base; None: it is none yet."""

    def differs_by(self, bits: int) -> int:
        return (self.bits ^ bits).bit_count()


class Decisions(Connection):
    """Table `decisions`."""

    _known: dict[int, list[_Known]] | None = None
    """By user."""
    _dictionary: tuple[int, bytes] | None = None
    """Id and content of the one in use."""
    _rows_left = 0
    """For which it is used; then it is made anew."""
    _recent: bytes = b""
    """The latest records, of which the next dictionary is made."""

    def insert_decisions(self, decisions: Iterable[Decision]) -> int:
        """Add decisions; those known by (boot, number) already are left. Return how many."""
        try:
            with self._transaction() as db:
                return sum(self._insert(db, decision) for decision in decisions)
        except BaseException:
            self._dictionary = self._known = None  # they may be some that were not stored
            raise

    def _insert(self, db: Database, decision: Decision) -> int:
        number, dictionary = self._base_for(db, decision) or self._dictionary_for(
            db, decision.record
        )
        values = {name: getattr(decision, name) for name in DECISION_COLUMNS}
        values["record"] = packed(decision.record, dictionary)
        values["dictionary"] = number
        for name in ("boot", "number", "bundle", "snapshot"):
            values[name] = signed(values[name])
        return db.execute(
            f"INSERT INTO decisions ({', '.join(values)}) "
            f"VALUES ({marks(len(values))}) ON CONFLICT (boot, number) DO NOTHING",
            list(values.values()),
        ).rowcount

    def _base_for(self, db: Database, decision: Decision) -> tuple[int, bytes] | None:
        """Return id and content of a record of the user that this one is like, if there is one."""
        if self._known is None or sum(map(len, self._known.values())) >= MOST_KNOWN:
            self._known = self._latest_bases(db)
        record, own = decision.record, self._known[decision.uid]
        bits = int.from_bytes(record, "little")
        nearest = min(own, key=lambda one: one.differs_by(bits), default=None)
        if nearest is None or ALIKE * nearest.differs_by(bits) > 8 * len(record):
            own.append(_Known(bits, record))
            return None
        # another process may have forgotten it together with the last that was like it
        known = db.execute("SELECT 1 FROM dictionaries WHERE id = ?", [nearest.number]).fetchone()
        if not known:
            row = db.execute(
                "INSERT INTO dictionaries (content, uid) VALUES (?, ?)",
                [packed(nearest.record), decision.uid],
            )
            nearest.number = row.lastrowid or 0
        return nearest.number or 0, nearest.record

    def _latest_bases(self, db: Database) -> dict[int, list[_Known]]:
        known: dict[int, list[_Known]] = defaultdict(list)
        for number, uid, content in db.execute(
            "SELECT id, uid, content FROM dictionaries WHERE uid IS NOT NULL "
            "ORDER BY id DESC LIMIT ?",
            [MOST_KNOWN // 2],
        ):
            record = unpacked(content)
            known[uid].append(_Known(int.from_bytes(record, "little"), record, number))
        return known

    def _dictionary_for(self, db: Database, record: bytes) -> tuple[int | None, bytes]:
        """Return id and content of the dictionary for a record; None: there is none yet."""
        self._recent = (self._recent + ZEROS.sub(b"", record))[-WINDOW:]
        if self._rows_left > 0 and self._dictionary is not None:
            self._rows_left -= 1
            return self._dictionary
        made: tuple[int, bytes] | None = None
        if self._dictionary is None:  # go on with the latest of before
            found = db.execute(
                "SELECT id, content FROM dictionaries WHERE uid IS NULL ORDER BY id DESC LIMIT 1"
            )
            made = next(((number, unpacked(content)) for number, content in found), None)
        if made is None:
            if len(self._recent) < WINDOW:
                return None, b""
            content = packed(self._recent)
            row = db.execute("INSERT INTO dictionaries (content) VALUES (?)", [content])
            made = (row.lastrowid or 0, self._recent)
        self._dictionary, self._rows_left = made, DICTIONARY_ROWS
        return made

    def _dictionaries(self, numbers: set[int]) -> dict[int | None, bytes]:
        rows = self._rows(
            "SELECT id, content FROM dictionaries WHERE id IN (SELECT value FROM json_each(?))",
            [json.dumps(list(numbers))],
        )
        return {None: b"", **{number: unpacked(content) for number, content in rows}}

    def add_loss(self, found: int, records: int) -> None:
        """Say that so many records were lost until a time (UTC seconds)."""
        with self._transaction() as db:
            db.execute("INSERT INTO losses (found, records) VALUES (?, ?)", [found, records])

    def losses(self, *, since: int) -> int:
        """Count the records that were lost and noticed from a time on."""
        rows = self._rows("SELECT coalesce(sum(records), 0) FROM losses WHERE found >= ?", [since])
        return int(rows[0][0])

    def unjoined_decisions(self, *, since: int = 0) -> list[Decision]:
        """Return the decisions made at or after `since` whose job is sought, oldest first."""
        return self._decisions(
            "job_id IS NULL AND joined_by IS NULL AND now >= ? ORDER BY now, number", [since]
        )

    def decisions_without_job(self, *, since: int, until: int) -> list[Decision]:
        """Return the plugin's decisions of a span of time that are tied or have no job.

        The oldest first.
        """
        return self._decisions(
            "job_id IS NULL AND is_second = 0 AND now BETWEEN ? AND ? ORDER BY now, number",
            [since, until],
        )

    def count_decisions(self, *, since: int, until: int) -> DecisionCounts:
        """Count the plugin's decisions of a span of time, ties as those with a job."""
        [row] = self._rows(
            """
            SELECT count(*), count(CASE WHEN job_id IS NULL AND joined_by IS NULL THEN 1 END)
            FROM   decisions
            WHERE  is_second = 0 AND now BETWEEN ? AND ?
            """,
            [since, until],
        )
        return DecisionCounts(*row)

    def decisions_of_user(self, uid: int, *, since: int, until: int) -> list[Decision]:
        """Return a user's decisions of a span of time, joined or not, oldest first."""
        return self._decisions(
            "uid = ? AND is_second = 0 AND now BETWEEN ? AND ? ORDER BY now, number",
            [uid, since, until],
        )

    def join_decision(self, boot: int, number: int, job_id: int, joined_by: str) -> None:
        """Say which job a decision was about; joined_by is `mark` or `key`."""
        self.join_decisions([(boot, number, job_id, joined_by)])

    def join_decisions(self, verdicts: Iterable[tuple[int, int, int | None, str]]) -> None:
        """Say of many decisions, by boot and number, which job each was about and how one knows."""
        with self._transaction() as db:
            for boot, number, job_id, joined_by in verdicts:
                db.execute(
                    "UPDATE decisions SET job_id = ?, joined_by = ? WHERE boot = ? AND number = ?",
                    [job_id, joined_by, signed(boot), signed(number)],
                )

    def decision(self, boot: int, number: int) -> Decision | None:
        found = self._decisions("boot = ? AND number = ?", [signed(boot), signed(number)])
        return found[0] if found else None

    def decisions_for_job(self, job_id: int, cluster: str | None = None) -> list[Decision]:
        """Return the plugin's decisions about jobs with this id, the latest first."""
        return self._decisions(
            "job_id = ? AND is_second = 0 AND (? IS NULL OR cluster = ?) "
            "ORDER BY now DESC, number DESC",
            [job_id, cluster, cluster],
        )

    def decisions_for_jobs(self, job_ids: Iterable[int], cluster: str) -> list[Decision]:
        """Return the plugin's decisions about any of these jobs of a cluster, the latest first."""
        listed = json.dumps(list(job_ids))
        return self._decisions(
            "job_id IN (SELECT value FROM json_each(?)) AND is_second = 0 AND cluster = ? "
            "ORDER BY now DESC, number DESC",
            [listed, cluster],
        )

    def second_decisions(self, job_id: int, *, since: int) -> list[Decision]:
        """Return what sluiced decided again on a job from a time on, oldest first."""
        return self._decisions(
            "job_id = ? AND is_second = 1 AND now >= ? ORDER BY now, number", [job_id, since]
        )

    def decided_again(self, job_ids: Iterable[int]) -> set[int]:
        """Return which of these jobs sluiced decided again on."""
        rows = self._rows(
            "SELECT DISTINCT job_id FROM decisions WHERE is_second = 1 "
            "AND job_id IN (SELECT value FROM json_each(?))",
            [json.dumps(list(job_ids))],
        )
        return {row[0] for row in rows}

    def joined_decisions(self, latest: int, *, uid: int | None = None) -> Iterator[Decision]:
        """Yield the latest decisions whose job is known, of a user or of all."""
        return self._each_decision(
            "job_id IS NOT NULL AND (:uid IS NULL OR uid = :uid) "
            "ORDER BY now DESC, number DESC LIMIT :latest",
            {"uid": uid, "latest": latest},
        )

    def latest_decisions(self, limit: int, selection: Selection = ALL_JOBS) -> list[Decision]:
        """Return the plugin's latest decisions on these jobs, the latest first.

        Without a time, some jobs' are searched among the latest SEARCHED: no index finds them.
        """
        conditions = ["is_second = 0", "now >= ?"]
        is_bounded = selection.since or replace(selection, before=None) == ALL_JOBS
        values: list[Any] = [selection.since if is_bounded else self._searched_from()]
        if selection.before is not None:
            now, number = selection.before
            conditions += ["now <= ?", "(now, number) < (?, ?)"]
            values += [now, now, signed(number)]
        for column, words in (("uid", selection.uids), ("cluster", selection.clusters)):
            if words:
                conditions.append(f"{column} IN (SELECT value FROM json_each(?))")
                values.append(json.dumps(words))
        of_job = [("account", selection.accounts), ("state", selection.states)]
        if any(words for _, words in of_job):
            conditions.append(
                "EXISTS (SELECT 1 FROM jobs WHERE jobs.job_id = decisions.job_id "
                "AND jobs.cluster = decisions.cluster"
                + "".join(
                    f" AND jobs.{column} IN (SELECT value FROM json_each(?))"
                    for column, words in of_job
                    if words
                )
                + ")"
            )
            values += [json.dumps(words) for _, words in of_job if words]
        return self._decisions(
            f"{' AND '.join(conditions)} ORDER BY now DESC, number DESC LIMIT ?", [*values, limit]
        )

    def decisions_since(self, since: int, *, uid: int | None = None) -> Iterator[Decision]:
        """Yield all decisions made from a time on, of a user or of all, the oldest first.

        In pages, since there may be a million.
        """
        last: tuple[int, int, int] = (since, -(1 << 63), -1)
        while True:
            page = self._decisions(
                "(now, boot, number) > (?, ?, ?) AND (? IS NULL OR uid = ?) "
                "ORDER BY now, boot, number LIMIT ?",
                [*last, uid, uid, PAGE],
            )
            yield from page
            if len(page) < PAGE:
                return
            last = (page[-1].now, signed(page[-1].boot), signed(page[-1].number))

    def _searched_from(self) -> int:
        rows = self._rows(
            "SELECT now FROM decisions ORDER BY now DESC LIMIT 1 OFFSET ?", [SEARCHED - 1]
        )
        return int(rows[0][0]) if rows else 0

    def _decisions(self, condition: str, values: Sequence[Any]) -> list[Decision]:
        return list(self._each_decision(condition, values))

    def _each_decision(
        self, condition: str, values: Sequence[Any] | Mapping[str, Any]
    ) -> Iterator[Decision]:
        rows = self._rows(
            f"SELECT dictionary, {', '.join(DECISION_COLUMNS)} FROM decisions WHERE {condition}",
            values,
        )
        dictionaries = self._dictionaries({row[0] for row in rows if row[0] is not None})
        for dictionary, boot, number, now, cluster, uid, job, joined_by, record, *rest in rows:
            bundle, snapshot, is_second = rest
            yield Decision(  # by their places in DECISION_COLUMNS: there may be a million
                unsigned(boot),
                unsigned(number),
                now,
                cluster,
                uid,
                job,
                joined_by,
                unpacked(record, dictionaries[dictionary]),
                unsigned(bundle),
                unsigned(snapshot),
                bool(is_second),
            )


RELEASE_COLUMNS = tuple(field.name for field in fields(Release))
HELD_COLUMNS = tuple(field.name for field in fields(HeldBurst))
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

    def latest_running_set(self) -> RunningSet | None:
        """Return who ran together last, and which gates there were."""
        rows = self._rows(
            "SELECT cluster, taken, content FROM running_sets "
            "ORDER BY taken DESC, rowid DESC LIMIT 1"
        )
        return _running_set(*rows[0]) if rows else None

    def running_sets(self, *, since: int = 0) -> Iterator[RunningSet]:
        """Yield what sluiced saw running together, oldest first."""
        for row in self._rows(
            "SELECT cluster, taken, content FROM running_sets WHERE taken >= ? "
            "ORDER BY taken, rowid",
            [since],
        ):
            yield _running_set(*row)

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

    def add_io_waits(self, rows: Iterable[IoWait]) -> None:
        """Add these seconds to those that are there."""
        with self._transaction() as db:
            db.executemany(
                "INSERT INTO io_waits (cluster, hour, uid, account, seconds) "
                "VALUES (?, ?, ?, ?, ?) "
                "ON CONFLICT DO UPDATE SET seconds = seconds + excluded.seconds",
                [(row.cluster, row.hour, row.uid, row.account, row.seconds) for row in rows],
            )

    def io_waits(self, *, since: int = 0, cluster: str | None = None) -> list[IoWait]:
        """Return how long users waited for tokens, hour by hour, oldest first."""
        rows = self._rows(
            "SELECT cluster, hour, uid, account, seconds FROM io_waits "
            "WHERE hour >= ? AND (? IS NULL OR cluster = ?) ORDER BY hour, cluster, uid, account",
            [since, cluster, cluster],
        )
        return [IoWait(*row) for row in rows]


class HeldBursts(Connection):
    """Table `held_bursts`."""

    def add_held_bursts(self, rows: Iterable[HeldBurst]) -> None:
        """Keep these; what is there already stays as it is."""
        with self._transaction() as db:
            db.executemany(
                f"INSERT OR IGNORE INTO held_bursts ({', '.join(HELD_COLUMNS)}) "
                f"VALUES ({marks(len(HELD_COLUMNS))})",
                [[getattr(row, name) for name in HELD_COLUMNS] for row in rows],
            )

    def held_bursts(
        self, job_id: int, cluster: str, *, since: int, until: int | None = None
    ) -> list[HeldBurst]:
        """Return the held bursts of a job that began in this time, oldest first."""
        rows = self._rows(
            f"SELECT {', '.join(HELD_COLUMNS)} FROM held_bursts "
            "WHERE job_id = ? AND cluster = ? AND began >= ? AND (? IS NULL OR began <= ?) "
            "ORDER BY began, number",
            [job_id, cluster, since, until, until],
        )
        named = (dict(zip(HELD_COLUMNS, row, strict=True)) for row in rows)
        return [HeldBurst(**row | {"is_held": bool(row["is_held"])}) for row in named]

    def held_totals(self, *, since: int, is_held: bool) -> HeldTotals:
        """Add up the bursts that were held, or would have been, since a time (UTC seconds)."""
        [row] = self._rows(
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
