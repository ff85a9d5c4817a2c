"""The page of reviews, and what its forms do: approve, reject, pin and undo.

The forms call what `sluice review` calls, so that a review is the same wherever it is made.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sluice.history_db.store import Store
from sluice.policies.review import (
    FILE,
    PAIRS,
    RULED,
    TREATMENTS,
    Review,
    Selector,
    day_text,
    end_of,
)
from sluice.serve.predictions import entry
from sluice.serve.site import BUSY_SECONDS
from sluice.serve.tables import Cell, Column, Page, Table, moment, whole_number, words
from sluice.slurm import reviews
from sluice.slurm.job_report import no_decision, prediction_of
from sluice.slurm.records import QueryError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sluice.serve.access import Who
    from sluice.serve.site import Site

Facts = dict[str, Any]

TREAT = tuple(TREATMENTS)
"""What jobs can be treated as."""
TONES = {"stands": "good", "ended": "dim", "undone": "dim"}
ABOUT = (
    "What administrators ruled on predictions. It counts from the next bundle on, which "
    "sluice-learn publishes by itself; the pages of jobs, programs and pairs have the forms."
)
COLUMNS = (
    Column("id", "Review"),
    Column("text", "What holds"),
    Column("until", "Until", of=lambda row: day_text(row["until"]) if row["until"] else None),
    Column("by", "By"),
    Column("made", "Made", moment, lambda row: row["made_at"] or None),
    Column("source", "Made in"),
    Column("state", "State", of=lambda row: words(row["state"], tone=TONES[row["state"]])),
    Column("comment", "Comment"),
)


def page(site: Site, store: Store, who: Who) -> Page:
    """List all reviews, the latest first, as far as they are about jobs that the viewer sees."""
    listed = reviews.listed(store, Path(site.config.reviews), site.now)
    rows = [_told(row, who) for row in listed[::-1] if _is_visible(row, who)]
    return Page(
        name="reviews",
        title="Reviews",
        facts={"reviews": rows},
        sentences=[ABOUT],
        tables=[
            Table.of(
                "reviews",
                "Reviews, the latest first",
                (*COLUMNS, Column("undo", "Undo", of=lambda row: _undo(row, who))),
                rows,
                empty="No review was made.",
                is_headed=True,
            )
        ],
    )


def _told(row: Facts, who: Who) -> Facts:
    """Leave out by whom and why, as `sluice why` does, where a comment may tell of others' jobs."""
    hidden = {"by": "", "comment": "", "undone_by": None}
    return row if who.viewer.sees_all or who.is_operator else row | hidden


def _is_visible(row: Facts, who: Who) -> bool:
    sides = [row["of"], *([row["with"]] if "with" in row else [])]
    return all(who.viewer.sees(side.get("uid")) for side in sides)


def _undo(row: Facts, who: Who) -> Cell:
    can_undo = who.is_operator and row["state"] != "undone" and row["source"] != FILE
    return Cell("", undoes=row["id"] if can_undo else "")


def rule(site: Site, who: Who, form: Mapping[str, str]) -> None:
    """Do what a form says, for an operator; raises QueryError, ReviewError, UnknownJobError."""
    with Store(site.history, busy_seconds=BUSY_SECONDS) as store:
        if form.get("do") == "undo":
            reviews.undo(store, form.get("id", ""), by=who.name, now=site.now)
            return
        of, pattern = _jobs(site, store, who, form, "")
        other, _ = _jobs(site, store, who, form, "with")
        made = _review(form, of, other, pattern)
        reviews.make(
            store,
            replace(made, until=end_of(form.get("until", "")), comment=form.get("comment", "")),
            source="page",
            by=who.name,
            now=site.now,
            file=Path(site.config.reviews),
        )


def _jobs(
    site: Site, store: Store, who: Who, form: Mapping[str, str], side: str
) -> tuple[Selector, str]:
    """Return which jobs a form means, where the viewer may see them, and what is predicted."""
    program = form.get(f"{side}_program" if side else "program", "")
    if program:
        one = entry(site, store, who, whole_number(program) or 0)
        of, pattern = reviews.jobs_of_program(store, one.id), one.pattern
    elif job := form.get(side or "job", ""):
        of, pattern = prediction_of(store, job)
        if not who.viewer.sees(of.uid):
            raise no_decision(job)
    elif not side and (form.get("user") or form.get("account")):
        of, pattern = _budgeted(who, form), ""
    else:
        return Selector(), ""
    if not of:
        raise QueryError(NOBODY)
    return of, pattern


def _budgeted(who: Who, form: Mapping[str, str]) -> Selector:
    """Return the jobs of a user or an account, where the viewer may see them."""
    uid = whole_number(form.get("user", ""))
    of = Selector(account=form.get("account", "")) if uid is None else Selector(uid=uid)
    return of if who.viewer.sees(of.uid) else Selector()


NOBODY = "no run tells which jobs these are; `sluice review pin` takes users, accounts and names"


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
