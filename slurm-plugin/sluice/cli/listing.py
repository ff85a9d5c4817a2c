"""What listings and long work share: options, bars, and signals that end it in good order."""

from __future__ import annotations

import functools
import re
import signal
import sys
import time
from contextlib import contextmanager
from datetime import datetime, timedelta
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

import click

from sluice.cli.common import Function, Layout, ParamType, Words, options
from sluice.slurm.records import STATES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sluice.history_db.store import Store


TIMES_OF_DAY = {
    "today": (0, 0),
    "midnight": (0, 0),
    "yesterday": (1, 0),
    "noon": (0, 12),
    "fika": (0, 15),
    "teatime": (0, 16),
}
"""Days ago, and the hour: words of Slurm's commands, and yesterday."""
UNIT_SECONDS = {"h": 3600, "d": 86400, "w": 7 * 86400, "y": 365 * 86400}
# Of now-COUNTunit, as Slurm's commands have it: at most that word, and seconds without one.
SLURM_SECONDS = {"seconds": 1, "minutes": 60, "hours": 3600, "days": 86400, "weeks": 7 * 86400}
WHAT = {
    "user": "Only of these users, by name or uid.",
    "account": "Only of jobs of these accounts.",
    "cluster": "Only of these clusters.",
    "state": "Only of jobs in these states, as Slurm names them.",
}


AGE = re.compile(r"(\d{1,5})([hdwy])")


class Age(ParamType[int]):
    """A span of time in seconds: 36h, 90d, 12w, 2y."""

    name = "AGE"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        match = AGE.fullmatch(value)
        if match is None:
            self.fail(f"{value!r} is no age; say e.g. 36h, 90d, 12w or 2y", param, ctx)
        return int(match[1]) * UNIT_SECONDS[match[2]]


class Since(Age):
    """A time in UTC seconds: so long ago, or a date or an offset from now as Slurm has it."""

    name = "TIME"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        if value in TIMES_OF_DAY:
            days, hour = TIMES_OF_DAY[value]
            now = datetime.now()  # noqa: DTZ005 - of the reader's day
            then = now.replace(hour=hour, minute=0, second=0) - timedelta(days)
            value = (then if then <= now else then - timedelta(1)).isoformat("T", "seconds")
        if match := re.fullmatch(r"now(?:-(\d{1,9})([a-z]*))?", value):
            count, unit = match.groups("")
            seconds = [n for word, n in SLURM_SECONDS.items() if word.startswith(unit)]
            if seconds:
                return max(0, int(time.time()) - int(count or 0) * seconds[0])
        if AGE.fullmatch(value):
            return max(0, int(time.time()) - super().convert(value, param, ctx))
        try:
            return max(0, int(datetime.fromisoformat(value).timestamp()))
        except (ValueError, OverflowError):
            self.fail(
                f"{value!r} is no time; say e.g. 36h, 90d, 2026-11-20, 2026-11-20T08:30, "
                "now-7days, today or yesterday",
                param,
                ctx,
            )


class States(Words):
    """States of jobs, as Slurm names them, in any case."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, ...]:
        words = tuple(word.upper() for word in super().convert(value, param, ctx))
        for word in words:
            if word not in STATES:
                close = get_close_matches(word, STATES, n=1)
                meant = (
                    f"Did you mean {close[0]}?" if close else f"Give {', '.join(sorted(STATES))}."
                )
                self.fail(f"no state of a job is named {word!r}. {meant}", param, ctx)
        return words


def layout_options(function: Function) -> Function:
    """Add --format, --noheader and --parsable2, which become one argument, layout."""

    @functools.wraps(function)
    def laid_out(
        *args: Any, columns: tuple[str, ...], noheader: bool, parsable: bool, **named: Any
    ) -> Any:
        return function(*args, layout=Layout(columns, noheader, parsable), **named)

    return options(
        click.option(
            "--format",
            "columns",
            type=Words(),
            default=(),
            metavar="COLUMN[%WIDTH],…",
            help="These columns, by their headings without blanks, in this order.",
        ),
        click.option("--noheader", is_flag=True, help="Only rows, without the heading."),
        click.option(
            "-P",
            "--parsable2",
            "parsable",
            is_flag=True,
            help="Only rows, with | between the columns, as sacct has it.",
        ),
    )(laid_out)  # type: ignore[return-value] # of the type that click made of it


def selection_options(*names: str) -> Callable[[Function], Function]:
    """Add those of --user, --account, --cluster and --state that are named."""
    return options(
        *(
            click.option(
                f"--{name}",
                f"{name}s",
                type=States() if name == "state" else Words(),
                default=(),
                metavar="NAME,…",
                help=WHAT[name],
            )
            for name in names
        )
    )


def since_option(default: str | None, text: str) -> Callable[[Function], Function]:
    return click.option(
        "--since",
        type=Since(),
        default=default,
        show_default=default is not None,
        metavar="TIME",
        help=f"{text}: 36h, 90d, 12w or 2y ago, from a date on, 2026-11-20T08:30, or as Slurm's"
        " commands have it, now-7days, today, noon or yesterday.",
    )


@contextmanager
def progress(
    unit: str,
    count: Callable[[], int | None],
) -> Iterator[tuple[Callable[[str], None], Callable[[int], None]]]:
    """Yield how to print a line and how to advance the bar, which only a terminal sees.

    count may be None: it cannot be told how much there is.
    """
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


@contextmanager
def working(on: str) -> Iterator[None]:
    """Say on a terminal what takes seconds and does not tell how far it is."""
    with progress(on, lambda: None):
        yield


def add_up(store: Store) -> None:
    """Add up the weeks whose runs changed: about a second each."""
    from sluice.interference.ranking import refresh

    with progress("weeks", lambda: len(store.rankings.stale_weeks())) as (_, advance):
        refresh(store, lambda: advance(1))


@contextmanager
def stopped_like_ctrl_c() -> Iterator[None]:
    """Let SIGTERM, and SIGHUP unless it is ignored, raise KeyboardInterrupt as SIGINT does."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        for number, handler in before.items():
            if handler is not signal.SIG_IGN:
                signal.signal(number, signal.default_int_handler)
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
