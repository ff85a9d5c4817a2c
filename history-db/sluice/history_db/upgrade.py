"""Whether a file is ours, and bringing its schema up to date.

Whatever is wrong raises a HistoryError that names the file and the remedy.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from sluice.history_db.errors import ForeignFileError, NewerHistoryError, OldHistoryError
from sluice.history_db.migrations import MIGRATIONS
from sluice.history_db.sql import Database, transaction

if TYPE_CHECKING:
    from pathlib import Path

APPLICATION_ID = 0x534C_5543  # "SLUC" in the file's header: what tells ours from others


def check_ownership(db: Database, path: Path) -> None:
    """Refuse a database that is not empty and not ours."""
    # In this order: another process may be making the history, which sets the id with its tables.
    tables = db.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]
    if tables and db.execute("PRAGMA application_id").fetchone()[0] != APPLICATION_ID:
        raise ForeignFileError(
            f"{path}: a database, but not a history of Sluice; name another file with --history"
        )


def check_migrated(db: Database, path: Path) -> None:
    """Refuse an old schema, where it cannot be changed."""
    if len(_applied(db, path)) < len(MIGRATIONS):
        raise OldHistoryError(
            f"{path}: from an older Sluice; a user who may write it should run "
            "`sluice history` once to bring it up to date"
        )


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
