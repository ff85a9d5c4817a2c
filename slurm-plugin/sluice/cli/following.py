"""`sluice ingest --follow`: logs as they really arrive."""

from __future__ import annotations

import io
import os
import shutil
import signal
import sys
import time
from functools import partial
from typing import TYPE_CHECKING

import click

from sluice.cli.common import CommandError, one_line
from sluice.cli.history import add_up

if TYPE_CHECKING:
    from pathlib import Path
    from types import FrameType

    from sluice.classifier.follow import Tree
    from sluice.classifier.ingest import Summary
    from sluice.history_db.store import Store

FIRST_DAYS = 2  # of accounting that are asked for at the start
ADD_UP_EVERY = 3600  # seconds: the weeks that changed, which rankings are made of
OVERLAP = 3600  # seconds asked for again each time: rows are completed late


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
    """Look at the directories every so many seconds, until somebody stops it."""
    from sluice.classifier.follow import Tree

    if os.geteuid() == 0:
        click.echo(
            "sluice: --follow runs as root, which it does not need: run it as a user who may "
            "read the logs (by their group) and write the history",
            err=True,
        )
    tree = Tree(directories)
    asked = time.time() - FIRST_DAYS * 86400
    added_up = 0.0
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _stop)
    try:
        while True:
            begin = time.time()
            if not store.is_in_place():
                raise CommandError(f"{store.path}: moved away or replaced; start again")
            if ask_sacct and _accounted(store, asked - OVERLAP):
                asked = begin
            _look(store, tree, workers, begin)
            if begin >= added_up + ADD_UP_EVERY:
                add_up(store)
                added_up = begin
            if once:
                return
            time.sleep(max(0.0, begin + every - time.time()))
    except Stopped:
        click.echo("stopped")


def _stop(number: int, frame: FrameType | None) -> None:
    del number, frame
    raise Stopped


def _look(store: Store, tree: Tree, workers: int, now: float) -> None:
    from sluice.classifier.ingest import ingest_checked
    from sluice.classifier.site import site_classifier

    summary = ingest_checked(
        store,
        tree.files(now),
        now=now,
        workers=workers,
        classifier=site_classifier(store),
        quarantined=lambda failure: click.echo(
            one_line(f"quarantined {failure.path}: {failure.reason}"), err=True
        ),
    )
    for path, reason in tree.unlisted.items():
        click.echo(one_line(f"cannot list {path}: {reason}"), err=True)
    if summary.read or summary.waiting or summary.quarantined:
        click.echo(_line(summary))
    sys.stdout.flush()


def _line(summary: Summary) -> str:
    return (
        f"read {summary.read}, waiting for their accounting {summary.waiting}, "
        f"quarantined {len(summary.quarantined)}"
    )


def _accounted(store: Store, since: float) -> bool:
    """Ask sacct for the jobs since a time; say so when it cannot tell, and go on without."""
    from sluice.history_db.accounting import add_accounting
    from sluice.history_db.sacct import SacctError
    from sluice.slurm.errors import CommandFailedError
    from sluice.slurm.late_joins import join_late
    from sluice.slurm.slurm_commands import accounting

    if shutil.which("sacct") is None:
        return False
    try:
        text = accounting(int(since))
        add_accounting(
            store,
            io.StringIO(text),
            name="sacct",
            zone=None,
            cluster="",
            report=_broken,
            join=partial(join_late, store, now=time.time()),
        )
    except (CommandFailedError, SacctError) as error:
        click.echo(one_line(f"sluice: no accounting this time: {error}"), err=True)
        return False
    return True


def _broken(number: int, reason: str) -> None:
    click.echo(one_line(f"sacct:{number}: skipped: {reason}"), err=True)
