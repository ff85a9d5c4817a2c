"""Who may read Sluice's files: their owner and the service group, because they name users' jobs.

The service group is the group of the directory that a file lies in.
"""

from __future__ import annotations

import os
import pwd
import stat
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from sluice.policies.container import GROUP_READS
from sluice.slurm.lock import learner_path, lock_path
from sluice.slurm.status import status_path
from sluice.slurm.switch import off_files

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sluice.policies.core import Config

UMASK = 0o027
"""Of sluiced, so that what it creates is for the group at most."""


def files(config: Config) -> Iterator[Path]:
    """Yield those of Sluice's files that are there and may be seen."""
    history, snapshot = Path(config.history), Path(config.snapshot)
    for path in (
        *(history.with_name(history.name + end) for end in ("", "-wal", "-shm")),
        *(snapshot.with_name(snapshot.name + end) for end in ("", ".previous")),
        lock_path(snapshot),
        status_path(snapshot),
        lock_path(learner_path(history)),
        status_path(learner_path(history)),
        Path(config.bundle),
        *off_files(config),
    ):
        with suppress(OSError):
            if stat.S_ISREG(path.lstat().st_mode):
                yield path


def wrong(path: Path) -> str:
    """Say what lets others read or write a file, or keeps the group out; empty: nothing."""
    status, group = path.lstat(), path.parent.stat().st_gid
    if status.st_mode & ~GROUP_READS & 0o777:
        return f"mode {status.st_mode & 0o777:03o}"
    if not status.st_mode & stat.S_IRGRP or status.st_gid != group:
        return f"group {status.st_gid} instead of its directory's, {group}, or unreadable for it"
    return ""


def may_read(path: Path) -> bool:
    """Whether this user may read the file, or would if it were there."""
    try:
        path.lstat()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return os.access(path, os.R_OK)


def may_user_read(uid: int, path: Path) -> bool:
    """Whether a user may read a file, by its mode; one that is not there does not count."""
    try:
        status, user = path.stat(), pwd.getpwuid(uid)
    except (OSError, KeyError):
        return True
    if uid == status.st_uid:
        return bool(status.st_mode & stat.S_IRUSR)
    if status.st_gid in os.getgrouplist(user.pw_name, user.pw_gid):
        return bool(status.st_mode & stat.S_IRGRP)
    return uid == 0 or bool(status.st_mode & stat.S_IROTH)


def repair(config: Config) -> list[str]:
    """Set modes and groups right, as far as this user may; return what stays wrong."""
    left = []
    for path in files(config):
        with suppress(OSError):
            if wrong(path):
                _repair(path)
            if what := wrong(path):
                left.append(f"{path}: {what}")
    return left


def _repair(path: Path) -> None:
    """By name: SQLite loses its locks when a process closes a file that it has open, too."""
    with suppress(PermissionError):
        path.chmod(GROUP_READS)
    with suppress(PermissionError):
        os.chown(path, -1, path.parent.stat().st_gid)
