"""Locks next to files: one process keeps a file up to date, and commands see whether it lives.

sluiced locks next to the snapshot, sluice-learn next to the history.
"""

from __future__ import annotations

import fcntl
import os
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from sluice.policies.container import GROUP_READS
from sluice.slurm.errors import AnotherDaemonError

if TYPE_CHECKING:
    from pathlib import Path
    from typing import IO, Self

PAUSES = (0.01, 0.1, 1.0)
"""Seconds between attempts: a command that asks whether we run holds the lock for a moment."""


class SnapshotLock:
    """Held from `move` to `close`, and at the latest until the process ends."""

    def __init__(self, who: str = "sluiced", setting: str = "Snapshot") -> None:
        """Say in errors who holds it, and which setting would give each its own."""
        self._path: Path | None = None
        self._handle: IO[str] | None = None
        self._who, self._setting = who, setting

    def move(self, snapshot: Path) -> None:
        """Hold the lock of this file in place of the one held before.

        Raises AnotherDaemonError, and keeps the one held before, where another process has it.
        """
        path = lock_path(snapshot)
        if path == self._path:
            return
        handle = _lock(path)
        if handle is None:
            raise AnotherDaemonError(
                f"another {self._who} holds {path}; stop it first, or give this one its own "
                f"{self._setting}"
            )
        self.close()
        self._path, self._handle = path, handle

    def close(self) -> None:
        if self._handle:
            self._handle.close()
        self._path = self._handle = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def lock_path(snapshot: Path) -> Path:
    return snapshot.with_name(snapshot.name + ".lock")


def learner_path(history: Path) -> Path:
    """Return the name by which sluice-learn locks a history, and leaves its status."""
    return history.with_name(history.name + ".learn")


def is_locked(snapshot: Path) -> bool:
    """Whether the process that keeps this file up to date is alive.

    Raises FileNotFoundError where none was ever started, and PermissionError.
    """
    with lock_path(snapshot).open() as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def _lock(path: Path) -> IO[str] | None:
    # a user who can read the file can lock it, and so keep sluiced from starting
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
    handle = os.fdopen(os.open(path, flags, GROUP_READS), "a")
    for pause in PAUSES:
        with suppress(BlockingIOError):
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return handle
        time.sleep(pause)
    handle.close()
    return None
