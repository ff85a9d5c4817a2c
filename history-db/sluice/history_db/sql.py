"""What all statements share: their small parts, and transactions."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

BATCH = 500  # values bound to one statement; SQLite's oldest limit is 999


class Cursor(Protocol):
    """What is used of sqlite3.Cursor, which `connection.py` alone imports."""

    @property
    def rowcount(self) -> int: ...

    @property
    def lastrowid(self) -> int | None: ...

    def __iter__(self) -> Iterator[Any]: ...

    def fetchone(self) -> Any: ...


class Database(Protocol):
    """What is used of sqlite3.Connection, likewise."""

    @property
    def in_transaction(self) -> bool: ...

    def execute(self, sql: str, values: Sequence[Any] | Mapping[str, Any] = ..., /) -> Cursor: ...

    def executemany(self, sql: str, values: Iterable[Sequence[Any]], /) -> Cursor: ...


def signed(value: int) -> int:
    """Fit a 64-bit unsigned number into SQLite's signed integers."""
    return value - (1 << 64) if value >= 1 << 63 else value


def unsigned(value: int) -> int:
    return value + (1 << 64) if value < 0 else value


def marks(count: int) -> str:
    return ", ".join("?" * count)


def columns(table: str, names: Iterable[str]) -> str:
    return ", ".join(f"{table}.{name}" for name in names)


def batches(values: Iterable[Any]) -> Iterator[list[Any]]:
    items = list(values)
    return (items[i : i + BATCH] for i in range(0, len(items), BATCH))


@contextmanager
def transaction(db: Database) -> Iterator[None]:
    """All or nothing; writers wait for one another here."""
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise
