"""Flat rows of the history -> CSV or Parquet, a page at a time."""

from __future__ import annotations

import csv
from typing import TYPE_CHECKING, Any, BinaryIO

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from sluice.history_db.records import Column

    Pages = Iterable[list[tuple[Any, ...]]]


class NoParquetError(Exception):
    """The library that writes Parquet is not installed."""


def write_csv(path: Path, columns: Sequence[Column], pages: Pages) -> int:
    """Write a heading and all rows; unknown is empty. Returns the number of rows."""
    count = 0
    with path.open("w", newline="", encoding="utf-8", errors="backslashreplace") as file:
        writer = csv.writer(file)
        writer.writerow([column.name for column in columns])
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


def _utf8(values: Sequence[str | None]) -> list[str | None]:
    """Return texts as UTF-8 can hold them: names may be any bytes."""
    return [value and value.encode(errors="backslashreplace").decode() for value in values]
