"""The logs that `sluice history ingest` was offered, each with the profile that was made of it."""

from __future__ import annotations

import json
from dataclasses import fields
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from sluice.history_db.connection import Connection
from sluice.history_db.records import NUMBERS, Log, LogKey, Profile
from sluice.history_db.sql import Database, batches, columns, marks

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

LOG_COLUMNS = tuple(field.name for field in fields(Log))
PUT_LOG = (
    f"INSERT INTO logs ({', '.join(LOG_COLUMNS)}) "
    f"VALUES ({marks(len(LOG_COLUMNS))}) ON CONFLICT (digest) DO NOTHING"
)
PROFILE_COLUMNS = ("log", "pattern", "confidence", "shares", "log_sd", "features", *NUMBERS)
PUT_PROFILE = (
    f"INSERT INTO profiles ({', '.join(PROFILE_COLUMNS)}) VALUES ({marks(len(PROFILE_COLUMNS))})"
)
_fields_of = attrgetter(*LOG_COLUMNS)
_OSTS = LOG_COLUMNS.index("osts")
_to_json = json.JSONEncoder().encode

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
            ids = [_add_log(db, log, may_replace=may_replace) for log, _, _ in entries]
            db.executemany(
                PUT_PROFILE,
                (
                    _values_of_profile(log_id, profile, features)
                    for log_id, (_, profile, features) in zip(ids, entries, strict=True)
                    if log_id is not None and profile is not None
                ),
            )
        return [log_id is not None for log_id in ids]

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


def _add_log(db: Database, log: Log, *, may_replace: bool) -> int | None:
    """Return the number of a new log; None: it is there.

    may_replace: there are logs in quarantine, so that this one may take the place of one.
    """
    if may_replace:
        db.execute("DELETE FROM logs WHERE path = ? AND reason IS NOT NULL", [log.path])
    if may_replace and log.reason is None:  # a copy not believed must not keep the true log out
        db.execute("DELETE FROM logs WHERE digest = ? AND reason IS NOT NULL", [log.digest])
    cursor = db.execute(PUT_LOG, _values_of(log))
    return cursor.lastrowid if cursor.rowcount else None


def _values_of(log: Log) -> Sequence[Any]:
    values: Sequence[Any] = _fields_of(log)
    if log.osts is None:
        return values
    osts = json.dumps(log.osts, separators=(",", ":"))
    return [*values[:_OSTS], osts, *values[_OSTS + 1 :]]


def _values_of_profile(log_id: int, profile: Profile, features: bytes) -> Sequence[Any]:
    numbers = map(profile.numbers.get, NUMBERS)
    shares = _to_json(profile.shares)
    return (
        *(log_id, profile.pattern, profile.confidence, shares, profile.log_sd, features),
        *numbers,
    )
