"""Applications ranked by what they write and read and by metadata.

Totals are added up a week at a time, and again only for weeks whose runs changed.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from sluice.history_db.records import Total, program_name
from sluice.policies import core

if TYPE_CHECKING:
    from collections.abc import Callable

    from sluice.history_db.store import Store

Application = tuple[int, str]
"""uid, stem of the name."""


def refresh(store: Store, advance: Callable[[], None] = lambda: None) -> None:
    """Add up the weeks that changed; `advance` is called after each. Raises HistoryError."""
    weeks = store.rankings.stale_weeks()
    for week in weeks:
        store.rankings.put_week(week, totals_of(store, week))
        advance()
    if weeks:
        store.rankings.put_totals()


def totals_of(store: Store, week: int) -> list[Total]:
    sums: dict[Application, list[float]] = defaultdict(lambda: [0.0] * 4)
    users: dict[int, str] = {}
    for row in store.rankings.sums_of_week(week):
        values = sums[row.uid, application_name(row.name, row.exe)]
        if row.user:
            users[row.uid] = row.user
        for i, value in enumerate((row.runs, row.write_bytes, row.read_bytes, row.metadata)):
            values[i] += value
    return [
        Total(
            uid=key[0],
            application=key[1],
            user=users.get(key[0]),
            runs=int(values[0]),
            write_bytes=values[1],
            read_bytes=values[2],
            metadata=values[3],
        )
        for key, values in sorted(sums.items())
    ]


def application_name(name: str | None, exe: str | None) -> str:
    """Return what runs are put together by: the stem of the job's name, else of the program's."""
    return core.name_stem(name or program_name(exe or ""))
