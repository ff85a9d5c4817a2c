"""Labels into the history: what logs are known to do, from a CSV that a person wrote."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sluice.history_db.records import Label

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sluice.history_db.store import Store

PATTERNS = {
    **{name: name for name in ("owc", "ws", "aw", "read", "metadata", "mixed", "none")},
    "meta": "metadata",
}
CERTAIN = "clean"


class LabelsError(Exception):
    """The CSV cannot be used; the text names line and remedy."""


@dataclass(slots=True)
class LabelSummary:
    labelled: int = 0
    uncertain: int = 0
    """Rows whose label_quality does not begin with `clean`: not learned from."""
    unmatched: int = 0
    """Rows whose file was not ingested."""


def add_labels(store: Store, lines: Iterable[str], *, name: str) -> LabelSummary:
    """Label the logs that were read from the files a CSV names, in whatever directory.

    Columns: `file`, `pattern`; where there are any: `app`, by which logs are held out together,
    and `label_quality`. Raises LabelsError or HistoryError.
    """
    rows = csv.DictReader(lines)
    missing = {"file", "pattern"} - set(rows.fieldnames or ())
    if missing:
        raise LabelsError(
            f"{name}:1: the heading lacks {', '.join(sorted(missing))}; "
            "the first line must name the columns file and pattern"
        )
    summary = LabelSummary()
    wanted: dict[str, tuple[str, str]] = {}
    try:
        for row in rows:
            pattern = PATTERNS.get((row["pattern"] or "").strip().lower())
            if pattern is None:
                raise LabelsError(
                    f"{name}:{rows.line_num}: no pattern {row['pattern']!r}; "
                    f"there are {', '.join(sorted(set(PATTERNS.values())))}"
                )
            if not (row.get("label_quality") or CERTAIN).startswith(CERTAIN):
                summary.uncertain += 1
                continue
            wanted[(row["file"] or "").rpartition("/")[2]] = (pattern, row.get("app") or "")
    except csv.Error as error:
        raise LabelsError(f"{name}:{rows.line_num}: no CSV: {error}") from error
    logs = store.logs_named(wanted)
    labels = [
        Label(log_id, pattern, application or file)
        for file, (pattern, application) in wanted.items()
        for log_id in logs.get(file, ())
    ]
    store.put_labels(labels)
    summary.labelled = len(labels)
    summary.unmatched = len(wanted) - len(logs)
    return summary
