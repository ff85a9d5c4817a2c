"""Decision records, and the snapshots that decisions were made with.

What a user submits again and again is decided in the same way. A record that is like one before
is compressed with that one, its base, and takes a twentieth of the room; others with some of the
latest as a dictionary. Bases and dictionaries are kept in one table.
Snapshots differ from second to second by a few bytes, so most are kept as what differs from the
one before.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

from sluice.history_db.connection import Tables
from sluice.history_db.records import (
    Decision,
    DecisionCounts,
    Selection,
    Snapshot,
)
from sluice.history_db.sql import (
    WINDOW,
    Base,
    Database,
    marks,
    packed,
    restore,
    signed,
    unpacked,
    unsigned,
)

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
MAX_DELTAS = 512
"""Deltas behind one that is kept whole: reading one takes all before it."""
MIN_SAVING = 3
"""A delta is kept if it is so many times smaller than the whole."""
FORGOTTEN_AT_ONCE = 10_000
"""Snapshots, in a transaction."""
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


class Decisions(Tables):
    """Tables `decisions` and `snapshots`, and what both are packed with."""

    _known: dict[int, list[_Known]] | None = None
    """By user."""
    _dictionary: tuple[int, bytes] | None = None
    """Id and content of the one in use."""
    _rows_left = 0
    """For which it is used; then it is made anew."""
    _recent: bytes = b""
    """The latest records, of which the next dictionary is made."""
    _latest_snapshot: tuple[int, Base] | None = None
    """The one that was stored last, and its checksum."""
    _deltas = 0
    """Since one was stored whole."""

    def insert_decisions(self, decisions: Iterable[Decision]) -> int:
        """Add decisions; those known by (boot, number) already are left. Return how many."""
        try:
            with self._db.transaction() as db:
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
        rows = self._db.rows(
            "SELECT id, content FROM dictionaries WHERE id IN (SELECT value FROM json_each(?))",
            [json.dumps(list(numbers))],
        )
        return {None: b"", **{number: unpacked(content) for number, content in rows}}

    def add_loss(self, found: int, records: int) -> None:
        """Say that so many records were lost until a time (UTC seconds)."""
        with self._db.transaction() as db:
            db.execute("INSERT INTO losses (found, records) VALUES (?, ?)", [found, records])

    def losses(self, *, since: int) -> int:
        """Count the records that were lost and noticed from a time on."""
        rows = self._db.rows(
            "SELECT coalesce(sum(records), 0) FROM losses WHERE found >= ?", [since]
        )
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
        [row] = self._db.rows(
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

    def join_decisions(self, verdicts: Iterable[tuple[int, int, int | None, str]]) -> None:
        """Say of decisions, by boot and number, which job each was about.

        How one knows is `mark`, `key` or, without a job, `tie`.
        """
        with self._db.transaction() as db:
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
        rows = self._db.rows(
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
        rows = self._db.rows(
            "SELECT now FROM decisions ORDER BY now DESC LIMIT 1 OFFSET ?", [SEARCHED - 1]
        )
        return int(rows[0][0]) if rows else 0

    def _decisions(self, condition: str, values: Sequence[Any]) -> list[Decision]:
        return list(self._each_decision(condition, values))

    def _each_decision(
        self, condition: str, values: Sequence[Any] | Mapping[str, Any]
    ) -> Iterator[Decision]:
        rows = self._db.rows(
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

    def add_snapshot(self, snapshot: Snapshot) -> None:
        if self._db.rows("SELECT 1 FROM snapshots WHERE checksum = ?", [signed(snapshot.checksum)]):
            return
        with self._db.transaction() as db:
            base, content = self._delta(db, snapshot)
            db.execute(
                "INSERT INTO snapshots (checksum, sequence, taken, content, base) "
                "VALUES (?, ?, ?, ?, ?) ON CONFLICT (checksum) DO NOTHING",
                [signed(snapshot.checksum), snapshot.sequence, snapshot.taken, content, base],
            )
        self._latest_snapshot = (snapshot.checksum, Base(snapshot.content))
        self._deltas = 0 if base is None else self._deltas + 1

    def _delta(self, db: Database, snapshot: Snapshot) -> tuple[int | None, bytes]:
        """Return the base's checksum and the delta to it; None and the whole if that is as good."""
        whole = packed(snapshot.content)
        if self._latest_snapshot is None or self._deltas >= MAX_DELTAS:
            return None, whole
        checksum, base = self._latest_snapshot
        delta = packed(base.delta(snapshot.content), base.content)
        is_there = db.execute("SELECT 1 FROM snapshots WHERE checksum = ?", [signed(checksum)])
        if MIN_SAVING * len(delta) > len(whole) or not is_there.fetchone():
            return None, whole
        return signed(checksum), delta

    def snapshot(self, checksum: int) -> Snapshot | None:
        rows = self._db.rows(
            """
            WITH RECURSIVE chain (depth, sequence, taken, content, base) AS (
                SELECT 0, sequence, taken, content, base FROM snapshots WHERE checksum = ?
                UNION ALL
                SELECT chain.depth + 1, one.sequence, one.taken, one.content, one.base
                FROM snapshots AS one JOIN chain ON one.checksum = chain.base
            )
            SELECT sequence, taken, content FROM chain ORDER BY depth DESC
            """,
            [signed(checksum)],
        )
        if not rows:
            return None
        content = unpacked(rows[0][2])
        for _, _, delta in rows[1:]:
            content = restore(content, unpacked(delta, content))
        sequence, taken, _ = rows[-1]
        return Snapshot(checksum, sequence, taken, content)

    def forget_snapshots(self, before: int) -> None:
        """Forget those of before a time that no decision refers to, and none is made of.

        The latest first: what is made of another was stored after it.
        """
        needed = self._db.rows(
            "SELECT base FROM snapshots WHERE base IS NOT NULL "
            "AND (taken >= ? OR checksum IN (SELECT snapshot FROM decisions))",
            [before],
        )
        bases = {base for (base,) in needed}
        old = self._db.rows(
            "SELECT checksum, base FROM snapshots "
            "WHERE taken < ? AND checksum NOT IN (SELECT snapshot FROM decisions) "
            "ORDER BY taken DESC, sequence DESC",
            [before],
        )
        forgotten = []
        for checksum, base in old:
            if checksum in bases:
                bases.add(base)
            else:
                forgotten.append((checksum,))
        for start in range(0, len(forgotten), FORGOTTEN_AT_ONCE):
            with self._db.transaction() as db:
                for row in forgotten[start : start + FORGOTTEN_AT_ONCE]:
                    db.execute("DELETE FROM snapshots WHERE checksum = ?", row)
