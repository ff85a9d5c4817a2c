"""What daemons share as services, and the kill switch.

Readers of Sluice's files: their owner and the service group, because they name users' jobs. The
service group is the group of the directory that a file lies in.
"""

from __future__ import annotations

import ctypes
import logging
import os
import pwd
import signal
import socket
import stat
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sluice.policies import core
from sluice.policies.container import GROUP_READS
from sluice.slurm.status import (
    backup_path,
    held_path,
    learner_path,
    lock_path,
    status_path,
    turns_path,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

    from sluice.policies.core import Config


def off_files(config: Config) -> list[Path]:
    """Return the OffFile of the configuration, and the default one, which always counts.

    `sluice off` makes the default one where it cannot read the configuration: sluiced goes on
    with the last good one, which no other process knows.
    """
    paths = (Path(config.off_file), Path(core.default_config().off_file))
    return list(dict.fromkeys(paths))


def present(config: Config) -> list[Path]:
    """Return those of the files that are there; none: Sluice is on."""
    return [path for path in off_files(config) if _exists(path)]


def is_off(config: Config) -> bool:
    return bool(present(config))


def _exists(path: Path) -> bool:
    """Whether the file is there, as far as this user may see."""
    try:
        path.lstat()
    except OSError:
        return False
    return True


UMASK = 0o027
"""Of sluiced, so that what it creates is for the group at most."""


def files(config: Config) -> Iterator[Path]:
    """Yield those of Sluice's files that are there and may be seen."""
    history, snapshot = Path(config.history), Path(config.snapshot)
    held = held_path(snapshot)
    for path in (
        *(history.with_name(history.name + end) for end in ("", "-wal", "-shm")),
        *(snapshot.with_name(snapshot.name + end) for end in ("", ".previous")),
        lock_path(snapshot),
        status_path(snapshot),
        lock_path(learner_path(history)),
        status_path(learner_path(history)),
        status_path(backup_path(history)),
        lock_path(turns_path(snapshot)),
        status_path(turns_path(snapshot)),
        *(held.with_name(held.name + end) for end in ("", ".1")),
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


Stamp = tuple[int, int, int]
"""Of a file: when it was changed, its size and inode."""

config_option = click.option(
    "--config",
    type=click.Path(dir_okay=False, path_type=Path),
    envvar="SLUICE_CONF",
    show_envvar=True,
    default=Path("/etc/slurm/sluice.conf"),
    show_default=True,
    help="The configuration of the site.",
)
log_level_option = click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    default="info",
    show_default=True,
    help="What to write to standard error.",
)


def begin(log_level: str) -> None:
    """Log to standard error, and let only the service group read what is written."""
    logging.basicConfig(
        format="%(asctime)s %(name)s: %(levelname)s: %(message)s", level=log_level.upper()
    )
    os.umask(UMASK)


def stamp_of(path: Path) -> Stamp | None:
    """Return what changes when a file does; None where there is none to be seen."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino


def say_alive() -> None:
    """Tell systemd that this daemon is not stuck, where its unit has WatchdogSec (sd_notify(3)).

    It kills and restarts a daemon that has not said so for as long.
    """
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address or os.environ.get("WATCHDOG_PID", str(os.getpid())) != str(os.getpid()):
        return
    path = f"\0{address[1:]}" if address.startswith("@") else address
    kind = socket.SOCK_DGRAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC
    with suppress(OSError), socket.socket(socket.AF_UNIX, kind) as said:
        said.sendto(b"WATCHDOG=1", path)


SUPERVISOR = "SLUICE_SUPERVISOR"
"""Environment variable: the process id of the sluiced that started this program."""
PR_SET_PDEATHSIG = 1


def end_with_sluiced() -> None:
    """Have the kernel kill this process when the sluiced that started it ends, however it does."""
    parent = os.environ.pop(SUPERVISOR, None)
    if parent is None:
        return
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != int(parent):
        sys.exit(1)  # it ended before the kernel knew


def leave_at_signals() -> None:
    """Raise SystemExit at SIGTERM and SIGINT, wherever the program is.

    Whatever is half done then is a transaction that rolls back, or a temporary file.
    """

    def leave(number: int, _frame: FrameType | None) -> None:
        raise SystemExit(0 if number == signal.SIGTERM else 130)

    signal.signal(signal.SIGTERM, leave)
    signal.signal(signal.SIGINT, leave)
