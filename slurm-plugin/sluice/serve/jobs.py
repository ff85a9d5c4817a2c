"""The pages of jobs: the decisions on them, searched, and all that is known of one."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from sluice.history_db.records import Selection
from sluice.policies.core import ACTIONS, GRANTS, PATTERNS, CoreError, sentence
from sluice.policies.record import Record
from sluice.serve.job_timeline import timeline
from sluice.serve.tables import (
    AGES,
    BYTES,
    SECONDS,
    SHARE,
    TIMES,
    Cell,
    Column,
    Field,
    Page,
    Subject,
    Table,
    any_of,
    job_cell,
    moment,
    number,
    words,
)
from sluice.slurm.records import QueryError
from sluice.slurm.views.formatting import time_text
from sluice.slurm.views.job_explanation import story
from sluice.slurm.views.job_report import JobNumber, prediction_of
from sluice.slurm.views.query_replies import described, visible, why
from sluice.slurm.views.reviews import forecast
from sluice.slurm.visibility import user_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from sluice.history_db.records import Decision
    from sluice.history_db.store import Store
    from sluice.serve.site import Reader, Site

Facts = dict[str, Any]

SHOWN = 50
"""Decisions on a page."""
SEARCHED = 1000
"""Records that are read for a page whose words no index finds; older ones take another click."""
BLOCK = 200
TONES = {"delay": "warn", "disjoint": "warn", "abstain": "dim", "leave": "dim"}
GRANT_TEXTS = {name: name.replace("_", " ") for name in GRANTS if name != "none"}
"""What became of a decision: `held_out` are those that a lot left alone."""
GRANT_CHOICES = {"": "any", "none": "none"} | GRANT_TEXTS


def _action(action: str) -> Cell:
    return words(action, tone=TONES.get(action, ""))


def _job(row: Facts) -> Cell:
    return words("tie") if row["joined_by"] == "tie" else job_cell(row["job_id"])


def _known(name: str) -> Callable[[Facts], Any]:
    """Return what tells a number of the prediction; None where nothing was known of the job."""
    return lambda row: row[name] if row["evidence"] != "none" else None


def _worst(name: str) -> Callable[[Facts], Any]:
    """Return what tells of the co-runner with the most effect; the core reports it first."""
    return lambda row: row["latest"]["coruns"][0][name] if row["latest"]["coruns"] else None


COLUMNS = (
    Column("time", "Time", moment),
    Column("job", "Job", number, _job),
    Column("name", "Name"),
    Column("user", "User"),
    Column("action", "Action", of=lambda row: _action(row["latest"]["action"])),
    Column("reason", "Reason", of=lambda row: row["latest"]["reason_text"]),
    Column("pattern", "Pattern", of=_known("pattern")),
    Column("confidence", "Confidence", SHARE, _known("confidence")),
    Column("state", "State"),
    Column("grant", "Grant", of=lambda row: GRANT_TEXTS.get(row["grant"])),
    Column("waited", "Waited", SECONDS),
    Column("alongside", "Alongside", number, _worst("job_id")),
    Column("own", "It takes", TIMES, _worst("own_slowdown")),
    Column("other", "Other takes", TIMES, _worst("other_slowdown")),
    Column("chunk", "Chunk", BYTES, _known("chunk_bytes")),
    Column("nodes", "Nodes", number, lambda row: row["nodes"] or 1),
)


def page(site: Site, store: Store, reader: Reader, query: Mapping[str, str]) -> Page:
    """List decisions, the latest first; raises QueryError for what cannot be asked."""
    rows, rest = _search(site, store, reader, query)
    return Page(
        name="jobs",
        title="Jobs",
        facts={"decisions": rows, "before": rest},
        fields=(
            Field("job", "Job", query.get("job", "")),
            Field("find", "Find", query.get("find", "")),
            Field("user", "User", query.get("user", "")),
            Field("action", "Action", query.get("action", ""), any_of(ACTIONS)),
            Field("pattern", "Pattern", query.get("pattern", ""), any_of(PATTERNS)),
            Field("grant", "Grant", query.get("grant", ""), GRANT_CHOICES),
            Field("since", "Of the last", query.get("since", ""), any_of(AGES)),
        ),
        tables=[
            Table.of(
                "decisions",
                "Decisions, the latest first",
                COLUMNS,
                [row | {"latest": row["near_start"] or row} for row in rows],
                empty="No decision of this kind among those that were searched.",
                note=_note(rest),
                links=[("earlier ones", {"before": rest})] if rest else [],
            )
        ],
    )


def _note(rest: str | None) -> str:
    if rest is None:
        return "These are all."
    return f"Searched back to {time_text(int(rest.partition('.')[0]))}."


def _search(
    site: Site, store: Store, reader: Reader, query: Mapping[str, str]
) -> tuple[list[Facts], str | None]:
    """Return decisions that are asked for, and where to go on; None: there are no more."""
    users = [name for name in query.get("user", "").split(",") if name]
    wanted = visible(store, reader.viewer, _selection(site, query), users)
    found: list[Facts] = []
    if wanted is None:
        return found, None
    before, searched = _before(query), 0
    while searched < SEARCHED:
        block = store.decisions.latest_decisions(BLOCK, wanted.until(before))
        again = store.decisions.decided_again(one.job_id for one in block if one.job_id is not None)
        for decision in block:
            before, searched = (decision.now, decision.number), searched + 1
            if decision.job_id not in again and not _is_wanted(_told(decision), query):
                continue  # to describe one takes ten times as long
            row = described(store, reader.viewer, decision)
            if row is not None and _is_wanted(_latest(row), query):
                found.append(row | _outcome(store, decision))
                if len(found) == SHOWN:
                    return found, f"{before[0]}.{before[1]}"
        if len(block) < BLOCK:
            return found, None
    return found, f"{before[0]}.{before[1]}" if before else None


def _selection(site: Site, query: Mapping[str, str]) -> Selection:
    age = AGES.get(query.get("since", ""))
    return Selection(since=site.now - age if age else 0)


def _before(query: Mapping[str, str]) -> tuple[int, int] | None:
    match = re.fullmatch(r"(\d{1,12})\.(\d{1,18})", query.get("before", ""))
    return (int(match[1]), int(match[2])) if match else None


class Told(NamedTuple):
    """What a decision is chosen by."""

    action: str
    pattern: str
    grant: str
    texts: Sequence[str]


def _told(decision: Decision) -> Told | None:
    """Return what the record says, whatever came later; None: it is of another version."""
    try:
        record = Record.parse(decision.record)
    except CoreError:
        return None
    made, submission = record.decision, record.submission
    pattern = made.prediction.profile.pattern
    texts = (submission.name, user_text(submission.uid), pattern, sentence("reason", made.reason))
    return Told(made.action, pattern, record.grant.outcome, texts)


def _latest(row: Facts) -> Told:
    latest = row["near_start"] or row
    texts = (row["name"], row["user"], row["pattern"], latest["reason_text"])
    return Told(latest["action"], row["pattern"], row["grant"], texts)


def _is_wanted(told: Told | None, query: Mapping[str, str]) -> bool:
    if told is None:
        return False
    text = " ".join(told.texts).casefold()
    return (
        query.get("action", "") in {"", told.action}
        and query.get("pattern", "") in {"", told.pattern}
        and query.get("grant", "") in {"", told.grant}
        and all(word in text for word in query.get("find", "").casefold().split())
    )


def _outcome(store: Store, decision: Decision) -> Facts:
    """Say what became of the job, as far as sluiced or the accounting saw."""
    job = store.jobs.job(decision.job_id, decision.cluster) if decision.job_id else None
    if job is None or job.uid not in {None, decision.uid}:
        return {"state": None, "waited": None}
    waited = None if job.start is None else job.start - job.submit
    return {"state": job.state, "waited": waited}


def job_page(store: Store, reader: Reader, job: str, now: int) -> Page:
    """Explain one job; raises SlurmError where PrivateData hides it."""
    name = JobNumber.parse(job)
    if name is None:
        raise QueryError(f"{job} is no job number; write 4711, 4711_3 or 4711+1")
    facts = why(store, reader.viewer, job=job, is_live=False)
    return Page(
        name="jobs",
        title=f"Job {name}",
        facts=facts,
        tables=timeline(store, facts, now),
        story=list(story(facts)),
        subject=_subject(store, str(name), now) if facts["record"] and reader.is_operator else None,
    )


def _subject(store: Store, job: str, now: int) -> Subject:
    of, _ = prediction_of(store, job)
    return Subject("Those of its user and name", {"job": job}, forecast(store, [of], now))
