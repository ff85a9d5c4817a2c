"""The page of the audit, for operators: who changed what about Sluice, when and why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sluice.serve.access import HiddenError
from sluice.serve.tables import (
    AGES,
    Column,
    Field,
    Page,
    Table,
    any_of,
    links_from,
    moment,
    start_of,
    words,
)
from sluice.slurm.audit import listed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sluice.history_db.store import Store
    from sluice.serve.access import Who
    from sluice.serve.site import Site
    from sluice.serve.tables import Cell

Facts = dict[str, Any]

SHOWN = 200
"""Changes on a page."""
ABOUT = (
    "Each change of a setting, each switch off and on, each review, and each model put into use. "
    "Nothing is ever taken out of this list."
)
COLUMNS = (
    Column("time", "Time", is_number=True),
    Column("who", "Who"),
    Column("subject", "What"),
    Column("before", "Before"),
    Column("after", "After"),
    Column("reason", "Why"),
)


def page(site: Site, store: Store, who: Who, query: Mapping[str, str]) -> Page:
    """List changes, the latest first; raises HiddenError for who may not see all jobs."""
    if not who.viewer.sees_all:
        raise HiddenError("reviews tell of all users' jobs, which PrivateData hides from you")
    age = AGES.get(query.get("since", ""))
    entries = listed(store, since=site.now - age if age else 0)[::-1]
    wanted = query.get("find", "").casefold().split()
    chosen = [one for one in entries if all(word in _text(one) for word in wanted)]
    start = start_of(query, len(chosen))
    shown = chosen[start : start + SHOWN]
    return Page(
        name="audit",
        title="Audit",
        facts={"entries": shown, "first": start + 1 if shown else 0, "chosen": len(chosen)},
        sentences=[ABOUT],
        fields=(
            Field("find", "Find", query.get("find", "")),
            Field("since", "Of the last", query.get("since", ""), any_of(AGES)),
        ),
        tables=[
            Table(
                "audit",
                "Changes, the latest first",
                COLUMNS,
                [_row(one) for one in shown],
                empty="Nothing was changed, or sluiced has not run since.",
            )
        ],
        links=links_from(start, SHOWN, len(chosen)),
    )


def _text(one: Facts) -> str:
    names = ("user", "subject", "before", "after", "reason")
    return " ".join(one[name] or "" for name in names).casefold()


def _row(one: Facts) -> list[Cell]:
    return [
        moment(one["at"]),
        words(one["user"]),
        *(words(one[name]) for name in ("subject", "before", "after", "reason")),
    ]
