"""What all tables share: parts of statements, transactions, and how large values are packed.

What is much like something that is there already is compressed with it, or kept as a delta: a
list of stretches of the base, with the bytes that stand between them. The structs in snapshots
are multiples of STEP long, so a stretch begins at a multiple of STEP.
"""

from __future__ import annotations

import struct
import zlib
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


WINDOW = 1 << 15
"""Bytes that zlib looks back."""


def packed(content: bytes, like: bytes = b"") -> bytes:
    """Compress content, with the end of another that is like it."""
    if not like:
        return zlib.compress(content)
    # zlib's header and checksums would take ten bytes, a tenth of what is alike
    squeeze = zlib.compressobj(wbits=-zlib.MAX_WBITS, zdict=like[-WINDOW:])
    return squeeze.compress(content) + squeeze.flush()


def unpacked(content: bytes, like: bytes = b"") -> bytes:
    if not like:
        return zlib.decompress(content)
    squeezed = zlib.decompressobj(wbits=-zlib.MAX_WBITS, zdict=like[-WINDOW:])
    return squeezed.decompress(content)


STEP = 8
BLOCK = 32
"""Bytes that a stretch has at least."""
LONGEST = 1 << 16
PIECE = struct.Struct("<III")
"""Bytes that are new, and offset and length of the stretch of the base that follows them."""


class Base:
    """A file that others are compared with."""

    def __init__(self, content: bytes) -> None:
        self.content = content

    def delta(self, content: bytes) -> bytes:
        base = self.content
        offsets = {base[i : i + BLOCK]: i for i in range(0, len(base) - BLOCK + 1, STEP)}
        pieces: list[bytes] = []
        at = new = shift = 0
        while at < len(content):
            found = self._find(offsets, content[at : at + BLOCK], at + shift)
            if found is None:
                at += STEP
                continue
            length = self._common(content, at, found)
            pieces += (PIECE.pack(at - new, found, length), content[new:at])
            shift = found - at
            at = new = at + length
        pieces += (PIECE.pack(len(content) - new, 0, 0), content[new:])
        return b"".join(pieces)

    def _find(self, offsets: Mapping[bytes, int], block: bytes, likely: int) -> int | None:
        if likely >= 0 and self.content[likely : likely + BLOCK] == block and len(block) == BLOCK:
            return likely
        return offsets.get(block)

    def _common(self, content: bytes, at: int, found: int) -> int:
        """Count the bytes that are equal from here on, in steps."""
        length, step = 0, LONGEST
        while step >= STEP:
            a, b = at + length, found + length
            piece = content[a : a + step]
            if len(piece) == step and piece == self.content[b : b + step]:
                length += step
            else:
                step //= 2
        return length


def restore(base: bytes, delta: bytes) -> bytes:
    """Return the content that a delta was made of. Raises ValueError for a damaged delta."""
    pieces: list[bytes] = []
    at = 0
    while at < len(delta):
        try:
            new, offset, length = PIECE.unpack_from(delta, at)
        except struct.error:
            raise ValueError("a delta cut short") from None
        at += PIECE.size + new
        pieces += (delta[at - new : at], base[offset : offset + length])
    return b"".join(pieces)
