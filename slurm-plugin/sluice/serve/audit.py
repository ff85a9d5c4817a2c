"""The page of the audit, for operators: who changed what about Sluice, when and why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from sluice.serve.access import HiddenError
from sluice.serve.tables import (
    AGES,
    Column,
    Field,
    Page,
    Table,
    any_of,
    moment,
    whole_number,
)
from sluice.slurm.audit import facts_of, user_of
from sluice.slurm.formatting import time_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sluice.history_db.records import AuditEntry
    from sluice.history_db.store import Store
    from sluice.serve.access import Who
    from sluice.serve.site import Site

Facts = dict[str, Any]

SHOWN = 200
"""Changes on a page."""
SEARCHED = 10_000
"""That are read for a page; older ones take another click."""
BLOCK = 1000
ABOUT = (
    "Each change of a setting, each switch off and on, each review, and each model put into use. "
    "Nothing is ever taken out of this list."
)
COLUMNS = (
    Column("time", "Time", moment, "at"),
    Column("who", "Who", of="user"),
    Column("subject", "What"),
    Column("before", "Before"),
    Column("after", "After"),
    Column("reason", "Why"),
)


def page(site: Site, store: Store, who: Who, query: Mapping[str, str]) -> Page:
    """List changes, the latest first; raises HiddenError for who may not see all jobs."""
    if not who.viewer.sees_all:
        raise HiddenError("reviews tell of all users' jobs, which PrivateData hides from you")
    found, rest = _search(site, store, query)
    entries = [facts_of(one) for one in found]
    return Page(
        name="audit",
        title="Audit",
        facts={"entries": entries, "before": rest.before if rest else None},
        sentences=[ABOUT],
        fields=(
            Field("find", "Find", query.get("find", "")),
            Field("since", "Of the last", query.get("since", ""), any_of(AGES)),
        ),
        tables=[
            Table.of(
                "audit",
                "Changes, the latest first",
                COLUMNS,
                entries,
                empty="Nothing of this kind was changed, or sluiced has not run since.",
                note=f"Searched back to {time_text(rest.at)}." if rest else "These are all.",
            )
        ],
        links=[("earlier ones", {"before": str(rest.before)})] if rest else [],
    )


def _search(
    site: Site, store: Store, query: Mapping[str, str]
) -> tuple[list[AuditEntry], Rest | None]:
    """Return changes that are asked for, and where to go on; None: there are no more."""
    age = AGES.get(query.get("since", ""))
    since = site.now - age if age else 0
    wanted = query.get("find", "").casefold().split()
    before = whole_number(query.get("before", ""))
    found: list[AuditEntry] = []
    rest: Rest | None = None
    for _ in range(SEARCHED // BLOCK):
        block = store.latest_audit(BLOCK, since=since, before=rest.before if rest else before)
        for number, entry in block:
            rest = Rest(number, entry.at)
            if all(word in _text(entry) for word in wanted):
                found.append(entry)
                if len(found) == SHOWN:
                    return found, rest
        if len(block) < BLOCK:
            return found, None
    return found, rest


class Rest(NamedTuple):
    """Where older entries begin."""

    before: int
    """All have smaller numbers."""
    at: int
    """When the last was made that was searched; UTC seconds."""


def _text(one: AuditEntry) -> str:
    texts = (user_of(one) or "", one.subject, one.before, one.after, one.reason)
    return " ".join(texts).casefold()
