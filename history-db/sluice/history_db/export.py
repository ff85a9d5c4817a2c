"""What leaves the history: files of flat rows."""

from __future__ import annotations

import csv
import io
import json
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TextIO

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

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
