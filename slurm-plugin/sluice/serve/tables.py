"""A page and its tables: sorted and filtered by the query, as plain members for templates, or CSV.

Text from users stays text: templates escape it, and CSV keeps a spreadsheet from running it.
"""

from __future__ import annotations

import csv
import io
import re
import time
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from sluice.policies.review import TREATMENTS
from sluice.slurm.views.formatting import (
    NOTHING,
    amount_text,
    bytes_text,
    duration_text,
    one_line,
    rate_text,
    share_text,
    time_text,
    times_text,
)
from sluice.slurm.views.job_explanation import Heading, Rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from sluice.serve.drawings import Drawing

FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""What a cell begins with that a spreadsheet computes."""
AGES = {"1 h": 3600, "1 d": 86400, "7 d": 7 * 86400, "30 d": 30 * 86400}
"""Choices of how far back a page looks; seconds."""
WHOLE_NUMBER = re.compile(r"[0-9]{1,18}")
"""Of more digits the history holds none."""
SHOWN = 200
"""Rows of a long table on a page; JSON and CSV have all."""


class Cell(NamedTuple):
    """What stands in a place of a table."""

    text: str
    value: float | str | None = None
    """By which it is sorted, and which programs get; None: the text."""
    href: str = ""
    tone: str = ""
    """A class of the style sheet: good, warn, bad, dim, heat0 to heat9."""
    share: float | None = None
    """Shown as a meter from 0 to 1."""
    undoes: str = ""
    """The review that a button here takes back."""
    subject: Subject | None = None
    """On which buttons here rule."""

    @property
    def plain(self) -> float | str:
        return self.text if self.value is None else self.value

    def as_json(self) -> dict[str, Any]:
        return self._asdict() | {"subject": self.subject and self.subject.as_json()}


def words(text: str | None, href: str = "", tone: str = "") -> Cell:
    """Return a cell with a text that may come from a user."""
    return Cell(one_line(text) if text else NOTHING, None, href, tone)


def number(
    value: float | None, text: Callable[[float], str] = "{:.0f}".format, **more: Any
) -> Cell:
    """Return a cell with a number, which programs get as it is."""
    return Cell(NOTHING, "", **more) if value is None else Cell(text(value), float(value), **more)


def moment(seconds: float | None) -> Cell:
    """Return a cell with a time: that of today without the date, others without the second."""
    return number(seconds, _moment_text)


def _moment_text(seconds: float) -> str:
    text = time_text(int(seconds))
    return text[11:] if text[:10] == time_text(int(time.time()))[:10] else text[:16]


BYTES = partial(number, text=bytes_text)
RATE = partial(number, text=rate_text)
SHARE = partial(number, text=share_text)
SECONDS = partial(number, text=duration_text)
TIMES = partial(number, text=times_text)
AMOUNT = partial(number, text=amount_text)


def job_cell(job_id: int | None) -> Cell:
    """Return a link to the story of a job."""
    return Cell(str(job_id), float(job_id), f"/jobs/{job_id}") if job_id else words(None)


class Head(NamedTuple):
    """The head of a column, by the name that queries and programs use."""

    name: str
    title: str
    is_number: bool = False


class Column(NamedTuple):
    """A column, and how its cells are made of rows."""

    name: str
    title: str
    show: Callable[[Any], Cell] = words
    """Makes the cell of a value."""
    of: str | Callable[[Any], Any] = ""
    """What makes a value, or a cell, of a row, or the row's key; empty: the key is the name."""

    @property
    def head(self) -> Head:
        return Head(self.name, self.title, self.show is not words)

    def cell(self, row: Any) -> Cell:
        value = self.of(row) if callable(self.of) else row[self.of or self.name]
        return value if isinstance(value, Cell) else self.show(value)


@dataclass(frozen=True, slots=True)
class Table:
    """A table of a page."""

    name: str
    caption: str
    columns: Sequence[Head]
    rows: Sequence[Sequence[Cell]]
    empty: str = "None."
    """What stands there instead of no rows."""
    note: str = ""
    sorted_by: str = ""
    """Name of a column, with - before it where the largest comes first."""
    is_headed: bool = False
    """Whether the first cell of a row names it."""
    links: Sequence[tuple[str, Mapping[str, str]]] = ()
    """Texts and what the query says of them: other parts of the same list."""
    drawing: Drawing | None = None
    """Shows the same; the table is then one click away."""
    is_open: bool = False
    """Whether that click was made: the order of the rows was chosen."""

    @classmethod
    def of(
        cls, name: str, caption: str, columns: Sequence[Column], rows: Iterable[Any], **more: Any
    ) -> Table:
        """Make one of rows as the columns know them."""
        cells = [[column.cell(row) for column in columns] for row in rows]
        return cls(name, caption, [column.head for column in columns], cells, **more)

    def found(self, text: str) -> Table:
        """Return the rows that contain all words of a text."""
        wanted = text.casefold().split()
        rows = [row for row in self.rows if all(word in _line(row) for word in wanted)]
        return replace(self, rows=rows)

    def arranged(self, sort: str) -> Table:
        """Return the rows in the order of TABLE:COLUMN, if that names this table."""
        rows = self.rows
        table, _, wanted = sort.partition(":")
        names = [column.name for column in self.columns]
        if table != self.name or wanted.removeprefix("-") not in names:
            return self
        place = names.index(wanted.removeprefix("-"))
        rows = sorted(rows, key=lambda row: _order(row[place]), reverse=wanted.startswith("-"))
        return replace(self, rows=rows, sorted_by=wanted, is_open=True)

    def cut(self, query: Mapping[str, str]) -> Table:
        """Return a part of the rows, where they are many, and links to the others."""
        count = len(self.rows)
        if self.links or count <= SHOWN:
            return self
        start = start_of(self.name, query, count)
        rows = self.rows[start : start + SHOWN]
        return replace(self, rows=rows, links=links_from(self.name, start, SHOWN, count))

    def next_order(self, column: Head) -> str:
        """Return what `sort` says to order by this column, the other way where it is so now."""
        first = f"-{column.name}" if column.is_number else column.name
        second = column.name if column.is_number else f"-{column.name}"
        return f"{self.name}:{second if self.sorted_by == first else first}"

    def direction(self, column: Head) -> str:
        """Return the value of aria-sort."""
        if self.sorted_by.removeprefix("-") != column.name:
            return "none"
        return "descending" if self.sorted_by.startswith("-") else "ascending"

    def as_json(self) -> dict[str, Any]:
        heads = [
            head._asdict() | {"sort": self.next_order(head), "direction": self.direction(head)}
            for head in self.columns
        ]
        return {
            "name": self.name,
            "caption": self.caption,
            "columns": heads,
            "rows": [[cell.as_json() for cell in row] for row in self.rows],
            "empty": self.empty,
            "note": self.note,
            "is_headed": self.is_headed,
            "links": self.links,
            "drawing": self.drawing and self.drawing.as_json(),
            "is_open": self.is_open,
        }

    def csv(self) -> str:
        """Return the rows below the columns' names."""
        out = io.StringIO()
        writer = csv.writer(out)
        writer.writerow([column.name for column in self.columns])
        writer.writerows([_csv(cell) for cell in row] for row in self.rows)
        return out.getvalue()


def _line(row: Sequence[Cell]) -> str:
    return " ".join(cell.text for cell in row).casefold()


def _order(cell: Cell) -> tuple[int, float, str]:
    """Put what is not known first, then numbers, then texts."""
    plain = cell.plain
    if not isinstance(plain, str):
        return 1, float(plain), ""
    return (2, 0.0, plain.casefold()) if plain not in {"", NOTHING} else (0, 0.0, "")


def _csv(cell: Cell) -> str | float:
    plain = cell.plain
    if not isinstance(plain, str):
        return plain
    text = "" if plain == NOTHING else one_line(plain)
    return f"'{text}" if text.startswith(FORMULA) else text


def any_of(names: Iterable[str]) -> dict[str, str]:
    """Return choices: none of them, or one."""
    return {"": "any"} | {name: name for name in names}


def whole_number(text: str) -> int | None:
    """Return a number that somebody sent; None for what is none, or no number of ours."""
    return int(text) if WHOLE_NUMBER.fullmatch(text) else None


def start_of(table: str, query: Mapping[str, str], count: int) -> int:
    """Return the first of so many rows that TABLE:NUMBER in the query names, counted from 0."""
    name, _, first = query.get("from", "").partition(":")
    return min(whole_number(first) or 0, max(0, count - 1)) if name == table else 0


def links_from(table: str, start: int, shown: int, count: int) -> list[tuple[str, dict[str, str]]]:
    """Return the links of a table that shows so many rows of all from one on."""
    found = []
    if start > 0:
        found.append(("earlier ones", {"from": f"{table}:{max(0, start - shown)}"}))
    if start + shown < count:
        found.append(("more", {"from": f"{table}:{start + shown}"}))
    return found


@dataclass(frozen=True, slots=True)
class Field:
    """Something that a page can be asked for, in its form."""

    name: str
    title: str
    value: str = ""
    choices: Mapping[str, str] = field(default_factory=dict)
    """What may be chosen, and how it is called; empty: any text."""


@dataclass(frozen=True, slots=True)
class Subject:
    """What an operator may rule on here."""

    text: str
    """Which jobs that are."""
    fields: Mapping[str, str]
    """What the form says of them: `job`, `program`, `user` or `account`; of a pair also `with` or
    `with_program`."""
    changes: Sequence[str] = ()
    """What rulings would have changed lately."""

    @property
    def is_pair(self) -> bool:
        return not self.fields.keys().isdisjoint(("with", "with_program"))

    @property
    def is_predicted(self) -> bool:
        """Whether a prediction of theirs can be right or wrong."""
        return not self.fields.keys().isdisjoint(("job", "program"))

    def as_json(self) -> dict[str, Any]:
        return asdict(self) | {
            "is_pair": self.is_pair,
            "is_predicted": self.is_predicted,
            "treatments": list(TREATMENTS),
        }


class Picture(NamedTuple):
    """A PNG with its words."""

    title: str
    alt: str
    png: bytes
    is_wide: bool = False


Part = Heading | Rows | Picture | str
"""Of a story: a text is a paragraph."""


def parts_json(parts: Iterable[Part]) -> list[dict[str, Any]]:
    """Return the parts of a story for templates, each with its kind."""
    return [
        {"kind": "text", "text": part}
        if isinstance(part, str)
        else {"kind": type(part).__name__.lower(), **part._asdict()}
        for part in parts
    ]


@dataclass(frozen=True, slots=True)
class Page:
    """A page, before it is known in which form it is wanted."""

    name: str
    title: str
    facts: Mapping[str, Any]
    """For programs: as the commands' --json."""
    tables: Sequence[Table] = ()
    sentences: Sequence[str] = ()
    figures: Sequence[tuple[str, Cell]] = ()
    """Few numbers that say how things are."""
    fields: Sequence[Field] = ()
    ways: Sequence[tuple[str, str]] = ()
    """Texts and paths: other pages about the same."""
    story: Sequence[Part] = ()
    subject: Subject | None = None
    """What an operator may rule on here."""
    model: int = 0
    """Which an operator may put into use here; 0: none."""
    refresh: int = 0
    """Seconds after which it is worth looking again; 0: it stays as it is."""

    def as_json(self) -> dict[str, Any]:
        """Return all but the facts, for templates."""
        return {
            "name": self.name,
            "title": self.title,
            "tables": [table.as_json() for table in self.tables],
            "sentences": self.sentences,
            "figures": [(name, cell.as_json()) for name, cell in self.figures],
            "fields": [asdict(one) for one in self.fields],
            "ways": self.ways,
            "story": parts_json(self.story),
            "subject": self.subject and self.subject.as_json(),
            "model": self.model,
            "refresh": self.refresh,
        }

    def arranged(self, query: Mapping[str, str]) -> Page:
        """Return the page with its tables as the query wants them.

        A page that has fields has chosen its rows itself; others are searched for `find`, but not
        those that tell a story.
        """
        tables = [table.arranged(query.get("sort", "")) for table in self.tables]
        if self.fields or self.story or not tables:
            return replace(self, tables=tables)
        text = query.get("find", "")
        fields = (Field("find", "Find", text),)
        return replace(self, tables=[table.found(text) for table in tables], fields=fields)

    def cut(self, query: Mapping[str, str]) -> Page:
        """Return the page with a part of each table that is long."""
        return replace(self, tables=[table.cut(query) for table in self.tables])
