"""Reads what servers of a file system counted over time, as CSV.

A row says what one storage target read and wrote from its time on, until the next row of that
target. What LMT, GPFS' mmpmon or MooseFS' charts export needs other headings at most.
"""

from __future__ import annotations

import csv
import math
from collections import defaultdict
from datetime import datetime
from itertools import pairwise
from statistics import median
from typing import TYPE_CHECKING

from sluice.history_db.records import ServerCount

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

HEADINGS = ("time", "target", "read_bytes", "write_bytes")


class ServerCountsError(Exception):
    """The text is no such CSV; the message names line and remedy."""


def parse_server_counts(lines: Iterable[str], *, name: str) -> list[ServerCount]:
    """Return the counts; the last one of a target lasts as long as its others do.

    Raises ServerCountsError.
    """
    reader = csv.DictReader(lines)
    if not set(HEADINGS) <= set(reader.fieldnames or ()):
        raise ServerCountsError(f"{name}: its first line does not name {', '.join(HEADINGS)}")
    by_target: dict[str, list[tuple[float, float, float]]] = defaultdict(list)
    for row in reader:
        try:
            numbers = (_seconds(row["time"]), float(row["read_bytes"]), float(row["write_bytes"]))
        except (TypeError, ValueError):
            numbers = (math.nan,) * 3
        if not all(0 <= number < math.inf for number in numbers):
            raise ServerCountsError(
                f"{name}:{reader.line_num}: not a time (UTC seconds, or as "
                "2026-01-31T12:00:00+00:00) with two numbers of bytes"
            )
        by_target[row["target"] or ""].append(numbers)
    return [
        count for target, rows in by_target.items() for count in _of_target(target, sorted(rows))
    ]


def _seconds(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is None:
            raise
        return moment.timestamp()


def _of_target(target: str, rows: Sequence[tuple[float, float, float]]) -> Iterable[ServerCount]:
    gaps = [later[0] - row[0] for row, later in pairwise(rows)]
    usual = median([gap for gap in gaps if gap > 0] or [0.0])
    for (start, read, written), gap in zip(rows, [*gaps, usual], strict=True):
        if gap > 0:  # of two rows with one time, the latter counts
            yield ServerCount(target, start, min(gap, usual), read, written)
