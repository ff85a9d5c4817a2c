"""What the commands share: options, configuration, tables."""

from __future__ import annotations

import functools
import json
import os
import re
import shutil
import sys
import textwrap
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from sluice.slurm.views.formatting import (
    NOTHING,
    UNPRINTABLE,
    amount_text,
    bytes_text,
    one_line,
    rate_text,
    share_text,
    time_text,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import TextIO

    from sluice.history_db.records import Bundle, Coverage
    from sluice.history_db.store import Store
    from sluice.interference.cost import Grounds, Pair, Party
    from sluice.interference.site_model import Basis
    from sluice.policies.core import Config
    from sluice.slurm.doctor.findings import Finding

if TYPE_CHECKING:
    ParamType = click.ParamType
else:

    class ParamType(click.ParamType):
        """click's, of which older ones cannot be told the type of their values."""

        def __class_getitem__(cls, _value: type) -> type[click.ParamType]:
            return cls


VERSION = "0.1.0"
"""The distribution's, without the time that asking for it takes; a test compares them."""
DEFAULT_CONFIG = Path("/etc/slurm/sluice.conf")
NUMBER = re.compile(r"\d[\d.e+-]*( ?[A-Za-zµ%×][A-Za-z/]*)?")
SHORTEST = 12
"""Characters to which a text is cut at most, before whole columns are left out."""
MAX_LINE = 4 << 20
"""Characters; no submit line is longer, as all words of a command are 2 MiB at most on Linux."""
NO_COVERAGE = "coverage: not known without accounting; see `sluice history ingest --sacct`"

Function = TypeVar("Function", bound="Callable[..., Any]")


class CommandError(click.ClickException):
    """One line that says what is wrong and what to do; exit code 1."""

    def show(self, file: Any = None) -> None:
        click.echo(f"sluice: {self.message}", err=file is None, file=file)


def library_errors() -> tuple[type[Exception], ...]:
    """Return the errors whose text is written for users; imported once one may be there."""
    from sluice.darshan.log import DarshanLibraryError
    from sluice.history_db.errors import HistoryError
    from sluice.history_db.job_stats import JobStatsError
    from sluice.history_db.sacct import SacctError
    from sluice.history_db.server_counts import ServerCountsError
    from sluice.interference.programs import CalibrationError
    from sluice.policies.core import CoreError
    from sluice.sim.engine import SimError
    from sluice.slurm.records import SlurmError

    texts = (SacctError, JobStatsError, ServerCountsError)
    darshan = (DarshanLibraryError,)
    return (CalibrationError, *darshan, HistoryError, *texts, CoreError, SlurmError, SimError)


@contextmanager
def usage_errors(*errors: type[Exception]) -> Iterator[None]:
    """Take these errors for what they are where the words of a command are read: wrong usage."""
    try:
        yield
    except errors as error:
        raise click.UsageError(str(error)) from error


# Options


def config_option(function: Function) -> Function:
    return click.option(
        "--config",
        # click judges nothing: `off` works with any, and others say themselves what is wrong
        type=click.Path(readable=False, path_type=Path),
        envvar="SLUICE_CONF",
        show_envvar=True,
        help=f"The settings.  [default: {DEFAULT_CONFIG}]",
    )(function)


def files_options(function: Function) -> Function:
    """Add --config and --history, which become one argument, files."""

    @functools.wraps(function)
    def with_files(*args: Any, config: Path | None, history: Path | None, **named: Any) -> Any:
        return function(*args, files=Files(config, history), **named)

    history_option = click.option(
        "--history",
        type=click.Path(dir_okay=False, path_type=Path),
        envvar="SLUICE_HISTORY",
        show_envvar=True,
        help="Another history.",
    )
    return config_option(history_option(with_files))  # type: ignore[return-value] # click's own


def json_option(function: Function) -> Function:
    return click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")(
        function
    )


def options(*several: Callable[[Any], Any]) -> Callable[[Function], Function]:
    """Decorate a command with several options, in their order."""

    def decorate(function: Function) -> Function:
        for option in reversed(several):
            function = option(function)
        return function

    return decorate


class Words(ParamType[tuple[str, ...]]):
    """Words with commas between them."""

    name = "LIST"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, ...]:
        del param, ctx
        if isinstance(value, tuple):
            return value
        return tuple(word for part in value.split(",") if (word := part.strip()))


# Configuration and history


def read_config(path: Path | None) -> Config:
    """Read the configuration; without a default file, the defaults.

    A file that was named must be there.
    """
    from sluice.policies import core

    if path is None and not DEFAULT_CONFIG.exists():
        return core.default_config()
    try:
        return core.read_config(path or DEFAULT_CONFIG)
    except FileNotFoundError:
        raise CommandError(f"{path}: no such file; `sluice init` writes one") from None


@dataclass(frozen=True, slots=True)
class Files:
    """What --config and --history name; None: not given."""

    config: Path | None
    named_history: Path | None

    def settings(self) -> Config:
        return read_config(self.config)

    @property
    def history(self) -> Path:
        """Where it is: --history, else the readable configuration, else the user's own."""
        if self.named_history is not None:
            return self.named_history
        if self.config is not None or os.access(DEFAULT_CONFIG, os.R_OK):
            return Path(self.settings().history)
        data = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
        return Path(data) / "sluice" / "history.db"

    def open_history(self, *, create: bool = False, read_only: bool = False) -> Store:
        """Open the history; with `create` its directory is made too.

        One of an older Sluice is brought up to date by a user who may write it, also to read it.
        """
        from sluice.history_db.errors import OldHistoryError, ReadOnlyHistoryError
        from sluice.history_db.store import Store
        from sluice.slurm.service import may_read

        path = self.history
        if not may_read(path):
            raise ReadOnlyHistoryError(
                f"{path}: readable only for its owner and the service group; sluiced answers "
                "others by `sluice why`, `decisions`, `predict` and `gates`"
            )
        if create:
            path.parent.mkdir(parents=True, exist_ok=True)
        try:
            return Store(path, create=create, read_only=read_only)
        except OldHistoryError:
            if not os.access(path, os.W_OK):
                raise
        Store(path).close()
        return Store(path, read_only=read_only)

    def coverage(self) -> Coverage | None:
        """How much of what ran the logs tell of, for a report that can do without a history."""
        from sluice.history_db.errors import HistoryError

        try:
            with self.open_history(read_only=True) as store:
                return store.jobs.coverage()
        except HistoryError:
            return None


@dataclass(frozen=True, slots=True)
class Published:
    """A bundle, and what its interference model rests on."""

    bundle: Bundle
    basis: Basis


def published(
    files: Files,
    bundle: Path | None,
    *,
    version: int | None = None,
    rollback: bool = False,
    reason: str = "",
) -> Published:
    """Publish where the configuration says, or into another file."""
    from sluice.interference.pairs import site_evidence
    from sluice.prediction.publication import publish_model
    from sluice.slurm.audit import uid_of_caller

    settings = files.settings()
    with files.open_history() as store:
        site = site_evidence(store).model()
        made = publish_model(
            store,
            bundle or Path(settings.bundle),
            policy=settings.policy,
            now=int(time.time()),
            uid=uid_of_caller(),
            version=version,
            rollback=rollback,
            reason=one_line(reason),
            **site.for_bundle(),
        )
    return Published(made, site.basis)


def bundle_line(published: Published) -> str:
    bundle = published.bundle
    return (
        f"published {bundle.path}: model {bundle.model}, {bytes_text(len(bundle.content))}, "
        f"checksum {bundle.checksum:016x}, {time_text(bundle.published_at)}\n"
        f"interference: from {published.basis}"
    )


def answer(
    files: Files, read: Callable[[Store], Any], command: str | None, **arguments: Any
) -> Any:
    """Ask the history, or, where this user may not read it, sluiced.

    command is what sluiced knows the question by; None: it answers the service group alone.
    """
    from sluice.slurm.service import may_read

    if command and files.named_history is None and not may_read(files.history):
        from sluice.slurm.visibility import ask

        return ask(files.settings(), command, arguments)
    with files.open_history(read_only=True) as store:
        return read(store)


def coverage_text(coverage: Coverage | None) -> str:
    """Say how much of what ran the logs tell of: what a report opens with."""
    if coverage is None or coverage.jobs == 0:
        return NO_COVERAGE
    shares = (
        ("jobs", coverage.logged_jobs, coverage.jobs),
        ("node-hours", coverage.logged_node_seconds, coverage.node_seconds),
        ("bytes that were counted", coverage.logged_bytes, coverage.bytes),
    )
    texts = (
        f"{share_text(part / whole if whole else None)} of the {of}" for of, part, whole in shares
    )
    return f"coverage: logs of {', '.join(texts)}"


# Reading


def bounded_lines(file: TextIO, name: str) -> Iterator[str]:
    """Yield the lines of a text file, none so long that it fills the memory.

    Raises CommandError, which names the file, and the line if it is too long.
    """
    number = 0
    try:
        while line := file.readline(MAX_LINE + 1):
            number += 1
            if len(line) > MAX_LINE:
                raise CommandError(
                    f"{name}:{number}: a line of more than {MAX_LINE >> 20} MiB; "
                    "no such file is read: was another one meant?"
                )
            yield line
    except OSError as error:  # without a file name where reading fails
        raise CommandError(f"{name}: {error.strerror or error}") from error


# Printing


def show_json(value: Mapping[str, object]) -> None:
    """Print a document, which says by which Sluice it was written."""
    document = {"version": VERSION, **value}
    click.echo(json.dumps(document, indent=2, ensure_ascii=False))


@dataclass(frozen=True, slots=True)
class Layout:
    """How Slurm's commands are asked to print a list: --format, --noheader, --parsable2."""

    columns: tuple[str, ...] = ()
    """Empty: all."""
    noheader: bool = False
    parsable: bool = False

    @property
    def is_for_programs(self) -> bool:
        """Whether nothing but rows is wanted on standard output."""
        return self.noheader or self.parsable


def show_table(
    columns: Sequence[str],
    rows: Sequence[Sequence[object]],
    *,
    least: Sequence[str] = (),
    layout: Layout | None = None,
) -> None:
    """Print rows below a heading.

    Where a terminal is too narrow, the columns in `least` are left out first, in this order; then
    texts are cut; then columns are left out from the right.
    """
    layout = layout or Layout()
    chosen, widths = _chosen(columns, layout)
    heads = [columns[i] for i in chosen]
    cells = [
        [one_line(str(row[i]))[:width] for i, width in zip(chosen, widths, strict=True)]
        for row in rows
    ]
    if layout.parsable:
        for line in cells if layout.noheader else [heads, *cells]:
            click.echo("|".join(cell.replace("|", UNPRINTABLE) for cell in line))
    elif is_terminal():
        _show_ruled(heads, cells, least, layout)
    else:
        lines = aligned(heads, cells)[layout.noheader :]
        if lines:
            click.echo("\n".join(lines))


def grounds_line(grounds: Grounds) -> str:
    """Say what the node-hours of a report are computed from."""
    return (
        f"Storage writes {rate_text(grounds.bandwidth)} ({grounds.bandwidth_from}); "
        f"interference by {grounds.model}."
    )


def show_parties(parties: Sequence[Party], layout: Layout | None = None) -> None:
    """Print what applications lost to each other, in node-hours."""
    from sluice.slurm.visibility import user_text

    show_table(
        ("user", "application", "runs", "node-hours", "caused", "suffered"),
        [
            (
                one.user or user_text(one.uid),
                one.name,
                one.jobs,
                *map(amount_text, (one.node_hours, one.caused, one.suffered)),
            )
            for one in parties
        ],
        least=("node-hours", "runs"),
        layout=layout,
    )


def show_pairs(pairs: Sequence[Pair]) -> None:
    """Print which applications cost which others most."""
    from sluice.slurm.visibility import user_text

    show_table(
        ("user", "application", "alongside user", "application", "lost node-hours"),
        [
            (
                one.victim_user or user_text(one.victim_uid),
                one.victim,
                one.aggressor_user or user_text(one.aggressor_uid),
                one.aggressor,
                amount_text(one.lost),
            )
            for one in pairs
        ],
    )


def show_facts(facts: Sequence[tuple[str, object]]) -> None:
    """Print a name and a text a line; on a terminal a long text goes on below itself."""
    if not is_terminal():
        click.echo("\n".join(aligned(("", ""), facts)))
        return
    title = max((len(name) for name, _ in facts), default=0)
    room = max(SHORTEST, shutil.get_terminal_size().columns - title - 4)
    for name, text in facts:
        lines = textwrap.wrap(one_line(str(text)), room) or [""]
        click.echo(f"  {click.style(f'{name:<{title}}', bold=True)}  {lines[0]}")
        for line in lines[1:]:
            click.echo(f"{' ' * (title + 4)}{line}")


LEVEL_COLOURS = {"OK": "green", "WARN": "yellow", "FAIL": "red", "SKIP": "cyan"}


def show_findings(findings: Iterable[Finding]) -> None:
    """Print what checks found, each with its remedy unless it is well."""
    for finding in findings:
        level = click.style(f"{finding.level:4}", fg=LEVEL_COLOURS[finding.level], bold=True)
        click.echo(f"{level}  {finding.topic}: {finding.text}")
        if finding.remedy and finding.level != "OK":
            click.echo(f"      → {finding.remedy}")


def is_terminal() -> bool:
    return bool(sys.stdout and sys.stdout.isatty())  # None where it was closed


def column_key(name: str) -> str:
    """Return what --format knows a column by: its heading in any case, without blanks."""
    return re.sub(r"[^a-z0-9/]", "", name.lower())


def _chosen(columns: Sequence[str], layout: Layout) -> tuple[list[int], list[int | None]]:
    """Return which columns are wanted, and to how many characters each is cut."""
    if not layout.columns:
        return list(range(len(columns))), [None] * len(columns)
    known = {column_key(name): i for i, name in enumerate(columns)}
    chosen, widths = [], []
    for wanted in layout.columns:
        name, _, width = wanted.partition("%")
        if column_key(name) not in known or (width and not width.isdecimal()):
            raise click.UsageError(f"--format: no column {wanted}; there are {', '.join(known)}")
        chosen.append(known[column_key(name)])
        widths.append(int(width) if width else None)
    return chosen, widths


def _show_ruled(
    heads: list[str], cells: list[list[str]], least: Sequence[str], layout: Layout
) -> None:
    from rich import box
    from rich.cells import cell_len
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(highlight=False)
    right = _numeric_columns(len(heads), cells)
    widths = [max(map(cell_len, column)) for column in zip(heads, *cells, strict=True)]
    first_out = [heads.index(name) for name in least if name in heads]
    kept = fitting(widths, right, first_out, console.width)
    table = Table(header_style="bold", box=box.SIMPLE_HEAD, show_header=not layout.noheader)
    for i, width in kept.items():
        table.add_column(
            Text(heads[i]),
            justify="right" if right[i] else "left",
            width=width,
            no_wrap=True,
            overflow="ellipsis",
        )
    for row in cells:
        table.add_row(*(Text(row[i]) for i in kept))
    console.print(table)
    left_out = [name for i, name in enumerate(heads) if i not in kept]
    if left_out:
        console.print(f"not shown for want of room: {', '.join(left_out)}", style="dim")


def fitting(
    widths: Sequence[int], is_number: Sequence[bool], least: Sequence[int], room: int
) -> dict[int, int]:
    """Return the columns that fit into a line, each with its width.

    `least` are the columns that are left out first, in this order.
    """
    kept = dict(enumerate(widths))

    def excess() -> int:
        return sum(kept.values()) + 3 * len(kept) + 1 - room

    for i in least:
        if excess() > 0:
            del kept[i]
    while excess() > 0:
        texts = [i for i in kept if not is_number[i] and kept[i] > SHORTEST]
        if texts:
            widest = max(texts, key=lambda i: kept[i])
            kept[widest] = max(SHORTEST, kept[widest] - excess())
        elif len(kept) > 1:
            del kept[max(kept)]
        else:
            kept = {i: max(1, room - 4) for i in kept}
            break
    return kept


def aligned(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> list[str]:
    """Lines of plain text, the heading first; columns of numbers are aligned to the right."""
    cells = [[one_line(str(cell)) for cell in row] for row in rows]
    right = _numeric_columns(len(columns), cells)
    lines = [list(columns), *cells]
    widths = [max(len(line[i]) for line in lines) for i in range(len(columns))]
    return [
        "  ".join(
            cell.rjust(width) if is_right else cell.ljust(width)
            for cell, width, is_right in zip(line, widths, right, strict=True)
        ).rstrip()
        for line in lines
    ]


def _numeric_columns(count: int, cells: list[list[str]]) -> list[bool]:
    """Which columns hold nothing but numbers and NOTHING."""
    columns = [[row[i] for row in cells if row[i] != NOTHING] for i in range(count)]
    return [bool(column) and all(map(NUMBER.fullmatch, column)) for column in columns]
