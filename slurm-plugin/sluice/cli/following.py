"""`sluice history ingest --follow`: logs as they really arrive."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
from typing import TYPE_CHECKING

import click

from sluice.cli.common import CommandError, one_line

if TYPE_CHECKING:
    from pathlib import Path
    from types import FrameType

    from sluice.history_db.store import Store


class Stopped(Exception):  # noqa: N818 - no error: somebody wants it to end
    """SIGTERM or SIGINT came."""


def follow(
    store: Store,
    directories: tuple[Path, ...],
    *,
    workers: int,
    every: float,
    once: bool,
    ask_sacct: bool,
) -> None:
    """Poll the directories every so many seconds, until it is stopped."""
    from sluice.slurm.follower import AccountingError, Follower

    if os.geteuid() == 0:
        click.echo(
            "sluice: --follow runs as root, which it does not need: run it as a user who may "
            "read the logs (by their group) and write the history",
            err=True,
        )
    follower = Follower(
        directories,
        workers=workers,
        now=time.time(),
        report=lambda text: click.echo(one_line(text), err=True),
    )
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _stop)
    try:
        while True:
            begin = time.time()
            if not store.is_in_place():
                raise CommandError(f"{store.path}: moved away or replaced; start again")
            if ask_sacct and shutil.which("sacct"):
                try:
                    follower.ask_sacct(store, begin)
                except AccountingError as error:
                    click.echo(one_line(f"sluice: {error}"), err=True)
            summary = follower.read_logs(store, begin)
            if summary.read or summary.waiting or summary.quarantined:
                click.echo(
                    f"read {summary.read}, waiting for their accounting {summary.waiting}, "
                    f"quarantined {len(summary.quarantined)}"
                )
            sys.stdout.flush()
            follower.add_up(store, begin)
            if once:
                return
            time.sleep(max(0.0, begin + every - time.time()))
    except Stopped:
        click.echo("stopped")


def _stop(number: int, frame: FrameType | None) -> None:
    del number, frame
    raise Stopped
