"""The connection to the history's file: whether it is ours, its schema, transactions, errors.

The only module that imports sqlite3. Whatever is wrong or fails raises a HistoryError
(`errors.py`) that names the file and the remedy.
"""

from __future__ import annotations

import os
import sqlite3
import time
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import quote

from sluice.history_db.errors import (
    BusyHistoryError,
    DamagedHistoryError,
    ForeignFileError,
    FullDiskError,
    HistoryError,
    MissingHistoryError,
    NetworkedHistoryError,
    NewerHistoryError,
    NoSuchValueError,
    OldHistoryError,
    ReadOnlyHistoryError,
)
from sluice.history_db.migrations import MIGRATIONS
from sluice.history_db.place import network_file_system
from sluice.history_db.records import program_name
from sluice.history_db.sql import Database, transaction

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence


APPLICATION_ID = 0x534C_5543  # "SLUC" in the file's header: what tells ours from others


def check_ownership(db: Database, path: Path) -> None:
    """Refuse a database that is not empty and not ours."""
    # In this order: another process may be making the history, which sets the id with its tables.
    tables = db.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]
    if tables and db.execute("PRAGMA application_id").fetchone()[0] != APPLICATION_ID:
        raise ForeignFileError(
            f"{path}: a database, but not a history of Sluice; name another file with --history"
        )


def check_place(path: Path) -> None:
    """Refuse a file that several machines may share."""
    found = network_file_system(path.parent)
    if found:
        raise NetworkedHistoryError(
            f"{path}: lies on {found}, where SQLite's locks and shared memory do not hold, so that "
            "two processes would damage it; set History to a file on a disk of this machine, and "
            "keep copies elsewhere with `sluice history backup`"
        )


def check_migrated(db: Database, path: Path) -> None:
    """Refuse an old schema, where it cannot be changed."""
    if len(_applied(db, path)) < len(MIGRATIONS):
        raise OldHistoryError(
            f"{path}: from an older Sluice; a user who may write it should run "
            "`sluice history` once to bring it up to date"
        )


def check_integrity(db: Database, path: Path) -> None:
    """Refuse a file whose pages, indices or references are wrong."""
    [said] = db.execute("PRAGMA integrity_check(1)").fetchone()
    torn = db.execute("PRAGMA foreign_key_check").fetchone()
    if said != "ok" or torn:
        why = said if said != "ok" else f"rows of {torn[0]} refer to what is not there"
        raise DamagedHistoryError(f"{path}: damaged ({why}); take another copy")


def migrate(db: Database, path: Path) -> None:
    """Take the steps that this file has not seen, each in its own transaction."""
    if len(_applied(db, path)) == len(MIGRATIONS):
        return
    with transaction(db):
        db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        db.execute(
            "CREATE TABLE IF NOT EXISTS migrations "
            "(name TEXT PRIMARY KEY, applied_at INTEGER NOT NULL) STRICT"
        )
    for migration in MIGRATIONS:
        with transaction(db):
            if migration.__name__ not in _applied(db, path):  # another process was faster
                migration(db)
                db.execute(
                    "INSERT INTO migrations (name, applied_at) VALUES (?, ?)",
                    [migration.__name__, int(time.time())],
                )


def _applied(db: Database, path: Path) -> set[str]:
    if not db.execute("SELECT 1 FROM sqlite_schema WHERE name = 'migrations'").fetchone():
        return set()
    applied = {row[0] for row in db.execute("SELECT name FROM migrations")}
    unknown = applied - {migration.__name__ for migration in MIGRATIONS}
    if unknown:
        raise NewerHistoryError(
            f"{path}: written by a newer Sluice ({', '.join(sorted(unknown))}); "
            "update Sluice, or name another file with --history"
        )
    return applied


def _connect(path: Path, mode: str, busy_seconds: float) -> sqlite3.Connection:
    """Open the file; mode is `ro`, `rw` or `rwc` as in SQLite's URIs."""
    db = sqlite3.connect(
        f"file:{quote(bytes(path))}?mode={mode}",
        uri=True,
        timeout=busy_seconds,
        isolation_level=None,  # transactions are explicit
    )
    db.execute("PRAGMA foreign_keys = 1")
    db.create_function("program_name", 1, program_name, deterministic=True)
    return db


ALONE = "rwc&vfs=unix-none"
"""Of a file that no other process knows yet, and that may lie where locks do not hold."""


def create_file(path: Path) -> None:
    """Make the file before SQLite does, which would let all users read it.

    It gets the group of its directory, the service group, and made by root also its owner, so
    that sluiced can write what `sudo sluice history ingest` began. SQLite's own files next to it
    follow.
    """
    try:
        file = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o640)
    except OSError:
        return  # it is there, or SQLite says why it cannot be
    try:
        directory = path.parent.stat()
        with suppress(PermissionError):
            os.fchown(file, directory.st_uid if os.geteuid() == 0 else -1, directory.st_gid)
    finally:
        os.close(file)


def _is_full(path: Path) -> bool:
    try:
        return os.statvfs(path.parent).f_bavail == 0
    except OSError:
        return False


def _identity(path: Path) -> tuple[int, int] | None:
    """Tell a file from all others; None where there is none."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


class Connection:
    """An open history; what the tables (`tables/`) build on."""

    def __init__(
        self,
        path: Path | str,
        *,
        create: bool = False,
        read_only: bool = False,
        as_it_is: bool = False,
        busy_seconds: float = 30,
    ) -> None:
        """Open `path`, bring its schema up to date, and create it if asked to.

        as_it_is takes an old schema for what it is: the file can be copied and checked, no more.
        busy_seconds is how long to wait for another process that writes.

        Raises a HistoryError that names the file and the remedy.
        """
        self.path = Path(path)
        self._busy_seconds = busy_seconds
        if not create and not self.path.exists():
            raise MissingHistoryError(
                f"{self.path}: there is no history yet; "
                "create it with `sluice history ingest PATH…`"
            )
        if not read_only:
            check_place(self.path)
        if create:
            create_file(self.path)
        with self.named_errors():
            mode = "ro" if read_only else "rwc" if create else "rw"
            self.sqlite = _connect(self.path, mode, busy_seconds)
            try:
                check_ownership(self.sqlite, self.path)
                if as_it_is:
                    _applied(self.sqlite, self.path)  # refuses what a newer Sluice wrote
                elif read_only:
                    check_migrated(self.sqlite, self.path)
                else:
                    self.sqlite.execute("PRAGMA journal_mode = WAL")
                    self.sqlite.execute("PRAGMA synchronous = NORMAL")
                    migrate(self.sqlite, self.path)
            except BaseException:
                self.sqlite.close()
                raise
        self._file = _identity(self.path)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.sqlite.close()

    def prove_writable(self) -> None:
        """Write something that changes nothing; raises the HistoryError that sluiced would meet."""
        [[version]] = self.rows("PRAGMA user_version")
        self.rows(f"PRAGMA user_version = {int(version)}")

    def back_up(self, path: Path) -> None:
        """Write a copy as of now, while others write; the file must be empty, or not there.

        It has no files next to it, and may lie anywhere. Raises HistoryError.
        """
        with self.named_errors(path), closing(_connect(path, ALONE, self._busy_seconds)) as copy:
            copy.execute("PRAGMA locking_mode = EXCLUSIVE")  # WAL without shared memory
            self.sqlite.backup(copy)  # in one step: what others write goes to the log of this one
            copy.execute("PRAGMA journal_mode = DELETE")
            check_integrity(copy, path)

    def check(self) -> None:
        """Read all of it. Raises DamagedHistoryError, or ForeignFileError where it is empty."""
        with self.named_errors():
            if not _applied(self.sqlite, self.path):
                raise ForeignFileError(f"{self.path}: empty, so no history of Sluice")
            check_integrity(self.sqlite, self.path)

    def settle(self) -> None:
        """Leave all in the one file, with none next to it.

        Raises BusyHistoryError while another process has it open.
        """
        self.rows("PRAGMA journal_mode = DELETE")

    def is_in_place(self) -> bool:
        """Whether the path still leads to the file that is open.

        A process that keeps a history open would write on into one that was deleted.
        """
        return _identity(self.path) == self._file

    def rows(self, sql: str, values: Sequence[Any] | Mapping[str, Any] = ()) -> list[Any]:
        with self.named_errors():
            return self.sqlite.execute(sql, values).fetchall()

    @contextmanager
    def transaction(self) -> Iterator[Database]:
        """All or nothing; see `sql.transaction`."""
        with self.named_errors(), transaction(self.sqlite):
            yield self.sqlite

    @contextmanager
    def named_errors(self, written: Path | None = None) -> Iterator[None]:
        """Raise errors as a HistoryError that names the file that is written, else this one."""
        try:
            yield
        except sqlite3.DatabaseError as error:
            raise self._named(error, written or self.path) from error
        except (UnicodeEncodeError, OverflowError) as error:
            raise NoSuchValueError(
                f"nothing in a history has such a name or number: {error}"
            ) from error

    def _named(self, error: sqlite3.DatabaseError, path: Path) -> HistoryError:
        primary = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if primary == sqlite3.SQLITE_IOERR and _is_full(path):
            primary = sqlite3.SQLITE_FULL  # as where there is no room for the file next to it
        match primary:
            case sqlite3.SQLITE_NOTADB:
                return ForeignFileError(
                    f"{path}: not a history of Sluice; name another file with --history"
                )
            case sqlite3.SQLITE_CANTOPEN | sqlite3.SQLITE_PERM | sqlite3.SQLITE_READONLY:
                return ReadOnlyHistoryError(
                    f"{path}: cannot be opened or written by this user ({error}); "
                    "SQLite needs write access to the file and its directory"
                )
            case sqlite3.SQLITE_FULL:
                return FullDiskError(
                    f"{path}: the disk is full; nothing of the last step was kept, "
                    "free some space and run the command again"
                )
            case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
                return BusyHistoryError(
                    f"{path}: another process has been writing for {self._busy_seconds:g} s; "
                    "try again when it is done"
                )
            case sqlite3.SQLITE_CORRUPT:
                return DamagedHistoryError(
                    f"{path}: damaged ({error}); restore a copy, or move it away and ingest again"
                )
        return HistoryError(f"{path}: {error}")


class Tables:
    """The tables of one subject in an open history."""

    def __init__(self, history: Connection) -> None:
        self._db = history
