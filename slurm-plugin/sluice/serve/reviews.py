"""The page of reviews with the audit, and what its forms do: approve, reject, pin and undo.

The forms call what `sluice review` calls, so that a review is the same wherever it is made.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from sluice.history_db.store import Store
from sluice.policies.review import (
    PAIRS,
    RULED,
    TREATMENTS,
    Review,
    Selector,
    day_text,
    end_of,
)
from sluice.serve.known_programs import entry
from sluice.serve.site import BUSY_SECONDS
from sluice.serve.tables import (
    AGES,
    Cell,
    Column,
    Field,
    Page,
    Table,
    any_of,
    moment,
    whole_number,
    words,
)
from sluice.slurm.audit import facts_of, user_of
from sluice.slurm.records import QueryError
from sluice.slurm.views import reviews
from sluice.slurm.views.formatting import time_text
from sluice.slurm.views.job_report import no_decision, prediction_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sluice.history_db.records import AuditEntry
    from sluice.serve.site import Reader, Site

Facts = dict[str, Any]

TREAT = tuple(TREATMENTS)
"""What jobs can be treated as."""
TONES = {"stands": "good", "ended": "dim", "undone": "dim"}
ABOUT = (
    "Reviews of predictions by administrators. They count from the next bundle on, which "
    "sluice-learn publishes by itself; the pages of jobs, programs and pairs have the forms."
)
COLUMNS = (
    Column("id", "Review"),
    Column("text", "Rule"),
    Column("until", "Until", of=lambda row: day_text(row["until"]) if row["until"] else None),
    Column("by", "By"),
    Column("made", "Made", moment, lambda row: row["made_at"] or None),
    Column("source", "Made in"),
    Column("state", "State", of=lambda row: words(row["state"], tone=TONES[row["state"]])),
    Column("comment", "Comment"),
)


def page(site: Site, store: Store, reader: Reader, query: Mapping[str, str]) -> Page:
    """List reviews of jobs that the viewer sees; the audit, too, for operators who see all jobs."""
    listed = reviews.listed(store, site.now)
    rows = [_told(row, reader) for row in listed[::-1] if _is_visible(row, reader)]
    made = Table.of(
        "reviews",
        "Reviews, the latest first",
        (*COLUMNS, Column("undo", "Undo", of=lambda row: _undo(row, reader))),
        rows,
        empty="No review was made.",
        is_headed=True,
    ).found(query.get("find", ""))
    facts: Facts = {"reviews": rows}
    if not (reader.is_operator and reader.viewer.sees_all):
        return Page("reviews", "Reviews", facts, [made], [ABOUT], fields=(_find(query),))
    entries, rest = _search(site, store, query)
    return Page(
        name="reviews",
        title="Reviews",
        facts=facts | {"entries": entries, "before": rest.before if rest else None},
        sentences=[ABOUT],
        fields=(
            _find(query),
            Field("since", "Audit of the last", query.get("since", ""), any_of(AGES)),
        ),
        tables=[made, _audit(entries, rest)],
    )


def _find(query: Mapping[str, str]) -> Field:
    return Field("find", "Find", query.get("find", ""))


def _told(row: Facts, reader: Reader) -> Facts:
    """Leave out by whom and why, as `sluice why` does, where a comment may tell of others' jobs."""
    hidden = {"by": "", "comment": "", "undone_by": None}
    return row if reader.viewer.sees_all or reader.is_operator else row | hidden


def _is_visible(row: Facts, reader: Reader) -> bool:
    sides = [row["of"], *([row["with"]] if "with" in row else [])]
    return all(reader.viewer.sees(side.get("uid")) for side in sides)


def _undo(row: Facts, reader: Reader) -> Cell:
    can_undo = reader.is_operator and row["state"] != "undone"
    return Cell("", undoes=row["id"] if can_undo else "")


def rule(site: Site, reader: Reader, form: Mapping[str, str]) -> None:
    """Do what a form says, for an operator; raises QueryError, ReviewError, UnknownJobError."""
    with Store(site.history, busy_seconds=BUSY_SECONDS) as store:
        if form.get("do") == "undo":
            reviews.undo(store, form.get("id", ""), by=reader.name, now=site.now)
            return
        of, pattern = _jobs(site, store, reader, form, "")
        other, _ = _jobs(site, store, reader, form, "with")
        made = _review(form, of, other, pattern)
        reviews.make(
            store,
            replace(made, until=end_of(form.get("until", "")), comment=form.get("comment", "")),
            source="page",
            by=reader.name,
            now=site.now,
        )


def _jobs(
    site: Site, store: Store, reader: Reader, form: Mapping[str, str], side: str
) -> tuple[Selector, str]:
    """Return which jobs a form means, where the viewer may see them, and what is predicted."""
    program = form.get(f"{side}_program" if side else "program", "")
    if program:
        one = entry(site, store, reader, whole_number(program) or 0)
        of, pattern = reviews.jobs_of_program(store, one.id), one.pattern
    elif job := form.get(side or "job", ""):
        of, pattern = prediction_of(store, job)
        if not reader.viewer.sees(of.uid):
            raise no_decision(job)
    else:
        return Selector(), ""
    if not of:
        raise QueryError(UNKNOWN_JOBS)
    return of, pattern


UNKNOWN_JOBS = (
    "no run tells which jobs these are; `sluice review pin` takes users, accounts and names"
)


def _review(form: Mapping[str, str], of: Selector, other: Selector, pattern: str) -> Review:
    wanted = form.get("do", "")
    if wanted == "approve":
        return reviews.approved(of, Selector(), pattern)
    if wanted == "reject":
        return reviews.rejected(of, Selector())
    if wanted not in RULED:
        raise QueryError(f"a form says approve, reject, undo or one of {', '.join(RULED)}")
    return Review(
        wanted,
        of,
        other if wanted in PAIRS else Selector(),
        treat_as=form.get("treat_as", "") if wanted == "treat" else "",
    )


# The audit

SHOWN = 200
"""Changes on a page."""
SEARCHED = 10_000
"""That are read for a page; older ones take another click."""
BLOCK = 1000
AUDIT_COLUMNS = (
    Column("time", "Time", moment, "at"),
    Column("user", "User"),
    Column("subject", "What"),
    Column("before", "Before"),
    Column("after", "After"),
    Column("reason", "Why"),
)


def _audit(entries: Sequence[Facts], rest: Rest | None) -> Table:
    return Table.of(
        "audit",
        "Audit, the latest change first",
        AUDIT_COLUMNS,
        entries,
        empty="Nothing of this kind was changed, or sluiced has not run since.",
        note=f"Searched back to {time_text(rest.at)}." if rest else "These are all.",
        links=[("earlier ones", {"before": str(rest.before)})] if rest else [],
    )


def _search(site: Site, store: Store, query: Mapping[str, str]) -> tuple[list[Facts], Rest | None]:
    """Return changes that are asked for, and where to go on; None: there are no more."""
    age = AGES.get(query.get("since", ""))
    since = site.now - age if age else 0
    wanted = query.get("find", "").casefold().split()
    before = whole_number(query.get("before", ""))
    found: list[Facts] = []
    rest: Rest | None = None
    for _ in range(SEARCHED // BLOCK):
        block = store.administration.latest_audit(
            BLOCK, since=since, before=rest.before if rest else before
        )
        for number, one in block:
            rest = Rest(number, one.at)
            if all(word in _text(one) for word in wanted):
                found.append(facts_of(one))
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
