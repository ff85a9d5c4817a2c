"""Reviews as commands and page make, list and undo them."""

from __future__ import annotations

import pwd
from collections import Counter
from dataclasses import replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from sluice.history_db.records import AuditEntry, Selection, StoredReview
from sluice.policies import core
from sluice.policies.core import UNKNOWN, CoreError, sentence
from sluice.policies.record import Record
from sluice.policies.review import Review, ReviewError, Selector, day_text
from sluice.slurm.views.formatting import count_text, duration_text
from sluice.slurm.visibility import user_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from sluice.history_db.store import Store
    from sluice.policies.bundle import Bundle

Facts = dict[str, Any]


def approved(of: Selector, other: Selector, pattern: str) -> Review:
    """Return the review that says: it is as predicted."""
    if other:
        return Review("apart", of, other)
    if pattern in ("", UNKNOWN):
        raise ReviewError("no pattern was predicted; say it: `sluice review pin treat --as …`")
    return Review("treat", of, treat_as=pattern)


def rejected(of: Selector, other: Selector) -> Review:
    """Return the review that says: it is not as predicted."""
    return Review("together", of, other) if other else Review("ignore", of)


def jobs_of_program(store: Store, application: int) -> Selector:
    """Return which jobs an entry of the application table is about; an empty one: unknown.

    The latest run behind it tells whose they are and what Slurm calls them.
    """
    entry = store.models.application(application)
    runs = store.models.runs_behind(application) if entry else []
    job, uid = next(((run.job, run.log.uid) for run in runs if run.job), (None, None))
    if entry is None or job is None:
        return Selector()
    name, script = job.name or "", job.script_signature or 0
    if entry.evidence == "user_script" and script:
        return Selector(uid=uid, script=script)
    if entry.evidence.startswith("user_"):
        return Selector(uid=uid, name=name)
    return {
        "name": Selector(name=name),
        "account": Selector(account=job.account or ""),
    }.get(entry.evidence, Selector())


def make(store: Store, review: Review, *, source: str, by: str, now: int) -> Review:
    """Write a review down. One that settles the same is undone by it."""
    made = replace(review, by=by, made_at=now)
    for stored in store.administration.reviews():
        if stored.undone_at is None and Review.from_json(stored.content).subject == made.subject:
            _take_back(store, stored, by, now, reason=f"replaced by review {made.name}")
    store.administration.add_review(StoredReview(made.name, source, made.made_at, made.to_json()))
    store.administration.add_audit(
        [AuditEntry.of_review(now, _uid(by), made.name, made.summary, made.comment)]
    )
    return made


def _take_back(store: Store, stored: StoredReview, by: str, now: int, *, reason: str) -> Review:
    undone = Review.from_json(stored.content)
    store.administration.undo_review(stored.name, by, now)
    entry = AuditEntry.of_review(now, _uid(by), undone.name, undone.summary, reason, is_undone=True)
    store.administration.add_audit([entry])
    return undone


def _uid(user: str) -> int | None:
    try:
        return pwd.getpwnam(user).pw_uid
    except KeyError:  # the proxy of the page knows users that this machine does not
        return None


def undo(store: Store, name: str, *, by: str, now: int) -> Review:
    """Take back the review whose name begins so; raise ReviewError."""
    standing = [one for one in store.administration.reviews() if one.undone_at is None]
    found = [one for one in standing if one.name.startswith(name.lower())]
    if len(found) != 1:
        what = "no review that stands is" if not found else f"{len(found)} reviews are"
        raise ReviewError(f"{what} called {name}; `sluice review list` shows them")
    return _take_back(store, found[0], by, now, reason="undone")


def listed(store: Store, now: int) -> list[Facts]:
    """Return all reviews that were made, the oldest first."""
    return [facts_of(one, now) for one in store.administration.reviews()]


def facts_of(stored: StoredReview, now: int) -> Facts:
    """Return a review as `sluice review --json` shows it."""
    review = Review.from_json(stored.content)
    state = (
        "undone"
        if stored.undone_at is not None
        else "stands"
        if review.is_in_force(now)
        else "ended"
    )
    undone = {"undone_at": stored.undone_at, "undone_by": stored.undone_by}
    return {
        **review.to_json(),
        "source": stored.source,
        "state": state,
        **undone,
        "text": text_of(review),
    }


def text_of(review: Review) -> str:
    """Say it in a sentence."""
    of = selector_text(review.of)
    if review.is_pair:
        sides = f"{of} and {selector_text(review.other)}"
        return f"{sides}: {sentence('ruling', review.ruling)}"
    treated = f" ({review.treat_as})" if review.treat_as else ""
    return f"{of}: {sentence('ruling', review.ruling)}{treated}"


def selector_text(selector: Selector) -> str:
    """Say which jobs a selector means."""
    given = selector.to_json()
    if "uid" in given:
        given["user"] = user_text(given.pop("uid"))
    order = ("user", "account", "partition", "name", "script", "program")
    return "jobs of " + ", ".join(f"{term} {given[term]}" for term in order if term in given)


def facts_behind(store: Store, bundle: Bundle, record: Record, *, sees_all: bool) -> list[Facts]:
    """Return the reviews in a record's bundle that are about its job.

    Who does not see all jobs is told what was ruled, not on whom else, by whom or why.
    """
    found = []
    for number in bundle.reviews_on(record.submission, record.now):
        for stored in store.administration.reviews(f"{number:08x}")[-1:]:
            facts = facts_of(stored, record.now)
            if not sees_all:
                ruled = sentence("ruling", facts["ruling"])
                facts = {name: facts[name] for name in ("id", "ruling", "treat_as", "until")}
                facts |= {"text": ruled, "by": "", "comment": ""}
            found.append(facts)
    return found


def line_of(facts: Mapping[str, Any]) -> str:
    """Return the rule's author, end and reason."""
    who = f"by {facts['by']}" if facts["by"] else "by the site"
    until = f" until {day_text(facts['until'])}" if facts["until"] else ""
    comment = f": {facts['comment']}" if facts["comment"] else ""
    return f"{facts['text']} ({facts['id']}, {who}{until}){comment}"


FORECAST_SECONDS, MOST_FORECAST = 30 * 86400, 2000
"""How far back rulings are tried, and the decisions that are read for it, the latest."""


OUTCOMES = {
    "abstain": "left alone",
    "colocate": "shared",
    "delay": "delayed",
    "disjoint": "on a lane of its own",
    "turns": "in turns",
}


def forecast(store: Store, sides: Sequence[Selector], now: int) -> list[str]:
    """Say what rulings on such jobs, or such a pair, would have changed in the last 30 days."""
    records = list(_decisions_on(store, sides[0], now))
    if not records:
        return ["In the last 30 days nothing was decided on such jobs."]
    if len(sides) == 2:
        return _forecast_of_pair(store, records, sides[1])
    actions = Counter(record.decision.action for record in records)
    outcomes = Counter({OUTCOMES.get(name, name): count for name, count in actions.items()})
    delayed = [one for one in records if one.decision.action == "delay"]
    waits = sum(one.decision.wait for one in delayed)
    patterns = Counter(one.prediction.profile.pattern for one in records)
    return [
        (
            f"In the last 30 days: {count_text(len(records), 'decision')} on such jobs, "
            f"{_counts(outcomes)}; predicted: {_counts(patterns)}."
        ),
        (
            f"Never delay would have changed {len(delayed)} of these, which were to wait "
            f"{duration_text(waits)} in all; Wrong {len(records) - actions['abstain']}; Right "
            f"{actions['abstain']}, on which Sluice abstained."
        ),
    ]


def _forecast_of_pair(store: Store, records: Sequence[Record], other: Selector) -> list[str]:
    """Say it of the decisions on one side while the other side ran."""
    is_of = cache(partial(_is_of, store, other))
    met = [
        record
        for record in records
        if any(is_of(record.cluster, one.job_id) for one in record.decision.coruns)
    ]
    apart = sum(record.decision.action in {"delay", "disjoint", "turns"} for record in met)
    return [
        (
            f"In the last 30 days: {count_text(len(records), 'decision')} on the first of the two, "
            f"{len(met)} of them while the second ran. Keep apart concerns the "
            f"{len(met) - apart} of these that shared, Let run together the {apart} that did not."
        )
    ]


def _is_of(store: Store, selector: Selector, cluster: str, job_id: int) -> bool:
    """Return whether a job is one of those; by user and name, which the history knows of all."""
    job = store.jobs.job(job_id, cluster or None)
    return job is not None and (
        selector.uid in {None, job.uid} and selector.name in {"", core.name_stem(job.name or "")}
    )


def _decisions_on(store: Store, of: Selector, now: int) -> Iterator[Record]:
    uids = () if of.uid is None else (of.uid,)
    wanted = Selection(uids, since=now - FORECAST_SECONDS)
    for decision in store.decisions.latest_decisions(MOST_FORECAST, wanted):
        try:
            record = Record.parse(decision.record)
        except CoreError:
            continue  # of another version
        if of.selects(record.submission):
            yield record


def _counts(found: Counter[str]) -> str:
    return ", ".join(f"{count} {name}" for name, count in found.most_common())
