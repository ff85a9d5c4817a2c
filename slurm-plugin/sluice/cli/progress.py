"""A bar for long work, on a terminal only."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sluice.history_db.store import Store


@contextmanager
def progress(
    unit: str,
    count: Callable[[], int],
) -> Iterator[tuple[Callable[[str], None], Callable[[int], None]]]:
    """Yield how to print a line and how to advance the bar, which only a terminal sees."""
    if not (sys.stderr and sys.stderr.isatty()):
        yield lambda line: click.echo(line, err=True), lambda _: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    console = Console(stderr=True)
    columns = TextColumn(unit), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    # auto_refresh would be a thread, and the workers are forked
    with Progress(*columns, console=console, auto_refresh=False, transient=True) as bar:
        task = bar.add_task(unit, total=count())

        def advance(by: int) -> None:
            bar.advance(task, by)
            bar.refresh()

        yield (
            lambda line: bar.console.print(line, markup=False, highlight=False),
            advance,
        )


def add_up(store: Store) -> None:
    """Add up the weeks whose runs changed: about a second each."""
    from sluice.interference.ranking import refresh

    with progress("weeks", lambda: len(store.stale_weeks())) as (_, advance):
        refresh(store, lambda: advance(1))
