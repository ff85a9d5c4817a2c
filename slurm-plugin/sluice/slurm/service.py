"""What sluiced and sluice-learn share: programs in the foreground that run until a signal."""

from __future__ import annotations

import logging
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sluice.slurm import permissions

if TYPE_CHECKING:
    from types import FrameType

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
    """Log to standard error, and let nobody but the service group read what is written."""
    logging.basicConfig(
        format="%(asctime)s %(name)s: %(levelname)s: %(message)s", level=log_level.upper()
    )
    os.umask(permissions.UMASK)


def stamp_of(path: Path) -> Stamp | None:
    """Return what changes when a file does; None where there is none to be seen."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino


def leave_at_signals() -> None:
    """Raise SystemExit at SIGTERM and SIGINT, wherever the program is.

    Whatever is half done then is a transaction that rolls back, or a temporary file.
    """

    def leave(number: int, _frame: FrameType | None) -> None:
        raise SystemExit(0 if number == signal.SIGTERM else 130)

    signal.signal(signal.SIGTERM, leave)
    signal.signal(signal.SIGINT, leave)
