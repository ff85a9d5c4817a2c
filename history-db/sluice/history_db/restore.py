"""Puts a backup in the place of a history, which stays under another name."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from sluice.history_db.connection import check_place, create_file
from sluice.history_db.errors import DamagedHistoryError, ForeignFileError
from sluice.history_db.store import Store

if TYPE_CHECKING:
    from pathlib import Path

BUSY_SECONDS = 2.0
"""To wait for a command that has the history open; daemons keep it open."""
NEXT_TO_IT = ("-wal", "-shm", "-journal")


def restore(backup: Path, history: Path) -> Path | None:
    """Put a copy of a backup in the history's place; return what the one before is called now.

    The copy is checked and brought up to date first; until the last step, which is one rename,
    the history is as it was. The caller keeps daemons from opening it meanwhile. Raises
    HistoryError, and BusyHistoryError while a process has the history open; OSError.
    """
    check_place(history)
    draft = history.with_name(f".{history.name}.{os.getpid()}.restored")
    try:
        create_file(draft)
        with Store(backup, read_only=True, as_it_is=True) as source:
            source.check()
            source.back_up(draft)
        with Store(draft) as copy:
            copy.settle()
        return _exchange(draft, history)
    finally:
        for name in (draft.name, *(draft.name + suffix for suffix in NEXT_TO_IT)):
            draft.with_name(name).unlink(missing_ok=True)


def _exchange(draft: Path, history: Path) -> Path | None:
    before = None
    if history.exists():
        _close_off(history)
        before = history.with_name(f"{history.name}.before-{time.strftime('%Y%m%dT%H%M%S')}")
        before.hardlink_to(history)
    for suffix in NEXT_TO_IT:  # of one that is damaged: SQLite must not take them for the copy's
        with suppress(FileNotFoundError):
            left = history.with_name(history.name + suffix)
            left.rename(history.with_name((before or history).name + ".left" + suffix))
    draft.replace(history)
    return before


def _close_off(history: Path) -> None:
    """Refuse while a process has the history open; a damaged one is not in use."""
    with (
        suppress(DamagedHistoryError, ForeignFileError),
        Store(history, as_it_is=True, busy_seconds=BUSY_SECONDS) as present,
    ):
        present.settle()
