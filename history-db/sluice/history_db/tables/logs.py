"""The logs that `sluice history ingest` was offered, each with the profile that was made of it."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from sluice.history_db.connection import Connection
from sluice.history_db.records import NUMBERS, Log, LogKey, Profile
from sluice.history_db.sql import Database, batches, columns, marks

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

LOG_COLUMNS = tuple(field.name for field in fields(Log))
# A name for the job of a log, also where accounting does not know it.
JOB_OF_LOG = "coalesce('job ' || logs.job, logs.jobid || ' of ' || logs.uid, logs.id)"


def log_of(row: Sequence[Any]) -> Log:
    values = dict(zip(LOG_COLUMNS, row, strict=True))
    osts = values["osts"]
    return Log(
        **{
            **values,
            "partial": bool(values["partial"]),
            "osts": None if osts is None else tuple(json.loads(osts)),
        }
    )


class Logs(Connection):
    """Tables `logs` and `profiles`: writing, and what was offered before."""

    def known_files(self, keys: Iterable[LogKey]) -> dict[LogKey, str | None]:
        """Return the files that were ingested and have not changed since.

        Each with the reason why it is in quarantine, or None.
        """
        wanted = set(keys)
        known: dict[LogKey, str | None] = {}
        for batch in batches(sorted({key.mtime_ns for key in wanted})):
            rows = self._rows(
                "SELECT path, size, mtime_ns, reason FROM logs "
                f"WHERE mtime_ns IN ({marks(len(batch))})",
                batch,
            )
            known |= {LogKey(*row[:3]): row[3] for row in rows}
        return {key: reason for key, reason in known.items() if key in wanted}

    def add_logs(self, entries: Sequence[tuple[Log, Profile | None, bytes]]) -> list[bool]:
        """Add logs with profile and features (none when quarantined); say which were new.

        A log that was in quarantine is replaced, a log that was read is never touched.
        """
        with self._transaction() as db:
            row = db.execute("SELECT EXISTS (SELECT 1 FROM logs WHERE reason IS NOT NULL)")
            may_replace = bool(row.fetchone()[0]) or any(log.reason for log, _, _ in entries)
            return [_add_log(db, *entry, may_replace=may_replace) for entry in entries]

    def replace_patterns(self, profiles: Iterable[tuple[int, Profile]]) -> None:
        """Give logs the pattern, confidence and shares that another classifier found."""
        with self._transaction() as db:
            db.executemany(
                "UPDATE profiles SET pattern = ?, confidence = ?, shares = ? WHERE log = ?",
                (
                    (profile.pattern, profile.confidence, json.dumps(profile.shares), log_id)
                    for log_id, profile in profiles
                ),
            )

    def quarantined(self) -> list[Log]:
        rows = self._rows(
            f"SELECT {columns('logs', LOG_COLUMNS)} FROM logs "
            "WHERE reason IS NOT NULL ORDER BY path"
        )
        return [log_of(row) for row in rows]

    def logs_named(self, names: Collection[str]) -> dict[str, list[int]]:
        """Find the logs that were read from files of these names, in whatever directory."""
        found: dict[str, list[int]] = {}
        for log_id, path in self._rows("SELECT id, path FROM logs WHERE reason IS NULL"):
            name = path.rpartition("/")[2]
            if name in names:
                found.setdefault(name, []).append(log_id)
        return found


def _add_log(
    db: Database, log: Log, profile: Profile | None, features: bytes, *, may_replace: bool
) -> bool:
    """may_replace: there are logs in quarantine, so that this one may take the place of one."""
    if may_replace:
        db.execute("DELETE FROM logs WHERE path = ? AND reason IS NOT NULL", [log.path])
    if may_replace and log.reason is None:  # a copy not believed must not keep the true log out
        db.execute("DELETE FROM logs WHERE digest = ? AND reason IS NOT NULL", [log.digest])
    cursor = db.execute(
        f"INSERT INTO logs ({', '.join(LOG_COLUMNS)}) "
        f"VALUES ({marks(len(LOG_COLUMNS))}) ON CONFLICT (digest) DO NOTHING",
        _values_of(log),
    )
    if cursor.rowcount == 0 or cursor.lastrowid is None:
        return False
    if profile is not None:
        _put_profile(db, cursor.lastrowid, profile, features)
    return True


def _values_of(log: Log) -> list[Any]:
    values = {name: getattr(log, name) for name in LOG_COLUMNS}
    if log.osts is not None:
        values["osts"] = json.dumps(log.osts, separators=(",", ":"))
    return list(values.values())


def _put_profile(db: Database, log_id: int, profile: Profile, features: bytes) -> None:
    row = {
        "log": log_id,
        "pattern": profile.pattern,
        "confidence": profile.confidence,
        "shares": json.dumps(profile.shares),
        "log_sd": profile.log_sd,
        "features": features,
        **{name: profile.numbers.get(name) for name in NUMBERS},
    }
    db.execute(
        f"INSERT INTO profiles ({', '.join(row)}) VALUES ({marks(len(row))})",
        list(row.values()),
    )
