"""What leaves the history: files of flat rows, and copies without names.

A copy of the history that can be shared: no users, names or paths, the same statistics. Every name
becomes an HMAC-SHA-256 of itself under the site's key, shortened: the same name becomes the same
word throughout, in this copy and in the next one under the same key, and without the key nobody can
try names out. Times, sizes and profiles stay as they are. Whatever is not listed here is not in the
copy: models, bundles, decisions and snapshots hold names too.
"""

from __future__ import annotations

import csv
import hashlib
import hmac
import io
import json
from itertools import chain
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, BinaryIO, TextIO

from sluice.history_db.records import program_name
from sluice.history_db.store import Store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from sluice.history_db.records import Column

    Pages = Iterable[list[tuple[Any, ...]]]


class NoParquetError(Exception):
    """The library that writes Parquet is not installed."""


def write_csv(where: Path | TextIO, columns: Sequence[Column], pages: Pages) -> int:
    """Write a heading and all rows to a path or an open text; unknown is empty.

    Returns the number of rows.
    """
    if isinstance(where, Path):
        with where.open("w", newline="", encoding="utf-8", errors="backslashreplace") as file:
            return _write_rows(csv.writer(file), columns, pages)
    return _write_rows(csv.writer(where, lineterminator="\n"), columns, pages)


def _write_rows(writer: Any, columns: Sequence[Column], pages: Pages) -> int:
    writer.writerow([column.name for column in columns])
    count = 0
    for page in pages:
        writer.writerows(page)
        count += len(page)
    return count


def write_parquet(where: Path | BinaryIO, columns: Sequence[Column], pages: Pages) -> int:
    """Write all rows to a path or an open file; unknown is null.

    Returns the number of rows. Raises NoParquetError.
    """
    try:
        import pyarrow as pa  # noqa: PLC0415 - an extra, and large
        from pyarrow import parquet  # noqa: PLC0415
    except ImportError as error:
        raise NoParquetError(
            "Parquet needs pyarrow: install it with `pip install 'sluice[parquet]'`, or export CSV"
        ) from error
    types = {"TEXT": pa.string(), "INTEGER": pa.int64(), "REAL": pa.float64()}
    schema = pa.schema([(column.name, types[column.type]) for column in columns])
    count = 0
    with parquet.ParquetWriter(where, schema) as writer:
        for page in pages:
            values = [
                _utf8(part) if column.type == "TEXT" else part
                for column, part in zip(columns, zip(*page, strict=True), strict=True)
            ]
            writer.write_table(pa.table(values, schema=schema))
            count += len(page)
    return count


def table_bytes(ending: str, columns: Sequence[Column], pages: Pages) -> bytes:
    """Return a table as a file has it whose name ends so: .csv, .jsonl or .parquet.

    Raises NoParquetError.
    """
    if ending == ".parquet":
        content = io.BytesIO()
        write_parquet(content, columns, pages)
        return content.getvalue()
    text = io.StringIO()
    if ending == ".csv":
        write_csv(text, columns, pages)
    else:
        names = [column.name for column in columns]
        for row in chain.from_iterable(pages):
            line = json.dumps(dict(zip(names, row, strict=True)), ensure_ascii=False)
            text.write(f"{line}\n")
    return text.getvalue().encode()


def _utf8(values: Sequence[str | None]) -> list[str | None]:
    """Return texts as UTF-8 can hold them: names may be any bytes."""
    return [value and value.encode(errors="backslashreplace").decode() for value in values]


MIN_KEY = 16  # bytes
WORD = 12  # letters of four bits: no two of 10^6 names alike but once in 500 copies
LETTERS = str.maketrans("0123456789", "ghijklmnop")
"""Of hexadecimal digits: a name's stem has no numbers, and its word must be its own stem."""


class WeakKeyError(Exception):
    """The key could be guessed."""


class Anonymiser:
    """Replaces names by words that only the key's owner can make."""

    def __init__(self, key: bytes, name_stem: Callable[[str], str]) -> None:
        """Take the site's key, and what a job's name has in common with those of its series.

        Raises WeakKeyError.
        """
        if len(key) < MIN_KEY or len(set(key)) < MIN_KEY // 2:
            raise WeakKeyError(
                f"a key of {len(key)} bytes could be guessed; make one with "
                "`(umask 077; head -c 32 /dev/urandom > site.key)`"
            )
        self._key = key
        self._name_stem = name_stem

    def _digest(self, kind: str, value: str) -> bytes:
        text = f"{kind}\0{value}".encode(errors="surrogateescape")
        return hmac.digest(self._key, text, hashlib.sha256)

    def word(self, kind: str, value: str | None) -> str | None:
        if not value:
            return value
        return f"{kind}-{self._digest(kind, value).hex()[:WORD].translate(LETTERS)}"

    def number(self, kind: str, value: int | None) -> int | None:
        """Return a positive number of 31 bits; root stays root."""
        if not value:
            return value
        return int.from_bytes(self._digest(kind, str(value))[:4], "big") >> 1 or 1

    def name(self, value: str | None) -> str | None:
        """Replace a job's name by a word for its stem, so that its runs stay together."""
        return value and self.word("name", self._name_stem(value))

    def exe(self, value: str | None) -> str | None:
        """Replace a command line by a word for its program; arguments go."""
        return value and self.word("program", program_name(value))

    def path(self, value: str) -> str:
        return f"/{self.word('path', value)}{PurePosixPath(value).suffix}"

    def digest(self, value: bytes) -> bytes:
        return self._digest("log", value.hex())[:16]

    def rules(self) -> Mapping[str, Mapping[str, Callable[[Any], Any] | None]]:
        """Return what becomes of each column that could tell who or what it was."""

        def words(kind: str) -> Callable[[str | None], str | None]:
            return lambda value: self.word(kind, value)

        def uid(value: int | None) -> int | None:
            return self.number("uid", value)

        return {
            "logs": {
                "digest": self.digest,
                "path": self.path,
                "uid": uid,
                "exe": self.exe,
                "reason": lambda value: value and "quarantined",
            },
            "profiles": {},
            "reviews": {
                "name": words("review"),
                "content": lambda _value: "{}",
                "undone_by": words("user"),
            },
            "weekly_coverage": {},
            "uncovered_weeks": {},
            "jobs": {
                "cluster": words("cluster"),
                "name": self.name,
                "user": words("user"),
                "uid": uid,
                "account": words("account"),
                "partition": words("partition"),
                "qos": words("qos"),
                "submit_line": None,
                "script_signature": lambda value: self.number("script", value),
            },
        }


def write_anonymised(store: Store, path: Path, key: bytes, name_stem: Callable[[str], str]) -> None:
    """Write the copy into an empty file that no other process knows: names are in it until the end.

    Raises WeakKeyError, HistoryError or OSError.
    """
    anonymiser = Anonymiser(key, name_stem)
    store.upkeep.copy_to(path)
    with Store(path) as copy:
        copy.upkeep.rewrite(anonymiser.rules())
