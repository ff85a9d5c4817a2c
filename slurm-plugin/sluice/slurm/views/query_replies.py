"""Replies to users' commands, as JSON: from the history itself, or from sluiced.

Each question names its viewer; rows about jobs that this user may not see are left out.
"""

from __future__ import annotations

import time
from collections import Counter
from contextlib import suppress
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from sluice.history_db.errors import HistoryError
from sluice.history_db.records import Selection
from sluice.policies import core
from sluice.policies.bundle import Bundle
from sluice.policies.core import CoreError
from sluice.policies.record import Record
from sluice.slurm.records import QueryError
from sluice.slurm.turns import turns_since
from sluice.slurm.views.formatting import known
from sluice.slurm.views.job_report import JobNumber, gather, shown
from sluice.slurm.visibility import Viewer, uid_of, user_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from sluice.history_db.records import Decision
    from sluice.history_db.store import Store
    from sluice.policies.core import Config

MOST_COUNTED = 5000
"""Decisions whose actions are counted, the latest: to read 10,000 takes a second."""
MOST_RUNS = 100
"""Runs behind a prediction that are listed."""

Facts = dict[str, Any]


def why(
    store: Store,
    viewer: Viewer,
    *,
    job: str,
    cluster: str | None = None,
    replay_with: Config | None = None,
    is_live: bool = True,
) -> Facts:
    """Tell everything of one job; is_live: also what Slurm says of it now."""
    name = JobNumber.parse(job)
    if name is None:
        raise QueryError(f"{job} is no job number; write 4711, 4711_3 or 4711+1")
    facts = gather(store, name, cluster, viewer=viewer, replay_with=replay_with, is_live=is_live)
    return {"coverage": _coverage(store, viewer), **facts}


def decisions(
    store: Store,
    viewer: Viewer,
    *,
    limit: int,
    users: Sequence[str] = (),
    accounts: Sequence[str] = (),
    clusters: Sequence[str] = (),
    states: Sequence[str] = (),
    since: int = 0,
) -> Facts:
    """List the latest decisions on such jobs, the latest last; count those of another version."""
    words = Selection((), tuple(accounts), tuple(clusters), tuple(map(str.upper, states)), since)
    wanted = visible(store, viewer, words, users)
    if wanted is None:
        return {"decisions": [], "others": 0}
    made = store.decisions.latest_decisions(limit, wanted)
    rows = [row for decision in made if (row := described(store, viewer, decision)) is not None]
    return {"decisions": rows[::-1], "others": len(made) - len(rows)}


def visible(
    store: Store, viewer: Viewer, wanted: Selection, users: Sequence[str]
) -> Selection | None:
    """Narrow a selection to these users and to what the viewer may see; None: nothing is left."""
    # whether the history knows a user is for operators alone
    uids = {uid_of(name, store if viewer.sees_all else None) for name in users}
    if not viewer.sees_all:
        if uids and viewer.uid not in uids:
            return None
        uids = {viewer.uid}
    return replace(wanted, uids=tuple(uids))


def described(store: Store, viewer: Viewer, decision: Decision) -> Facts | None:
    """Return what is reviewed of a decision; None for one of another version of Sluice."""
    try:
        record = Record.parse(decision.record)
    except CoreError:
        return None
    again = _latest_again(store, decision)
    later = shown(again, store, viewer)["decision"] if again else None
    return _summary(decision, shown(record, store, viewer), later)


def activity(store: Store, wanted: Selection) -> Facts:
    """Count the latest decisions by action; of any job, releases and bursts held in turns."""
    made = store.decisions.latest_decisions(MOST_COUNTED, wanted)
    actions: Counter[str] = Counter()
    for decision in made:
        with suppress(CoreError):  # of another version
            actions[Record.parse(decision.record).decision.action] += 1
    return {
        "since": wanted.since,
        "decisions": len(made),
        "has_more": len(made) == MOST_COUNTED,
        "actions": dict(actions.most_common()),
        "turns": turns_since(store, wanted.since),
        "released": dict(Counter(row.reason for row in store.gates.releases(since=wanted.since))),
    }


def _latest_again(store: Store, decision: Decision) -> Record | None:
    """Return what sluiced decided on the job last, near its start."""
    if decision.job_id is None:
        return None
    made = store.decisions.second_decisions(decision.job_id, since=decision.now)
    try:
        return Record.parse(made[-1].record) if made else None
    except CoreError:
        return None  # of another version


def _summary(decision: Decision, record: Facts, later: Facts | None) -> Facts:
    """Return what an administrator reviews of a decision."""
    submission, decided = record["submission"], record["decision"]
    prediction = decided["prediction"]
    profile = prediction["profile"]
    return {
        "job_id": decision.job_id,
        "joined_by": decision.joined_by,
        "record": f"{record['boot']}-{record['number']}",
        "time": record["now"],
        "cluster": record["cluster"],
        "mode": record["mode"],
        "name": submission["name"],
        "uid": submission["uid"],
        "user": user_text(submission["uid"]),
        "nodes": submission["nodes"] or None,
        "pattern": profile["pattern"],
        "chunk_bytes": profile["chunk_bytes"],
        "confidence": profile["confidence"],
        "evidence": prediction["evidence"],
        "class": prediction["klass"],
        "coruns": decided["coruns"],
        "action": decided["action"],
        "reason": decided["reason"],
        "reason_text": core.sentence("reason", decided["reason"]),
        "grant": record["grant"]["outcome"],
        "in_turns": record["grant"]["in_turns"],
        "near_start": None
        if later is None
        else {
            "coruns": later["coruns"],
            "action": later["action"],
            "reason": later["reason"],
            "reason_text": core.sentence("reason", later["reason"]),
        },
    } | ({"place": record["place"]["choice"]} if "place" in record else {})


def models(store: Store) -> list[Facts]:
    """Tell of the models that are kept and the bundles with them, the latest last."""
    bundles, in_use, waiting = (
        store.models.publications(),
        store.models.model_in_use(),
        store.models.model_waiting(),
    )
    return [
        {
            "model": model.id,
            "in_use": model.id == in_use,
            "waits": model.id == waiting,
            "trained": model.created,
            "metrics": model.metrics,
            "bundles": [
                {
                    "checksum": f"{bundle.checksum:016x}",
                    "path": bundle.path,
                    "published_at": bundle.published_at,
                }
                for bundle in bundles
                if bundle.model == model.id
            ],
        }
        for model in store.models.trainings()
    ]


def model_score(store: Store, viewer: Viewer, *, since: int, most: int | None = None) -> Facts:
    """Lay live predictions since a time (UTC seconds) alongside what the viewer's jobs then did."""
    from sluice.prediction.score import MOST, live_predictions, report  # noqa: PLC0415 - numpy

    uid = None if viewer.sees_all else viewer.uid
    items = live_predictions(store, since=since, uid=uid, most=most or MOST)
    return {"coverage": _coverage(store, viewer), "since": since, **report(items, user_text)}


def report(store: Store, viewer: Viewer, *, config: Config, since: int) -> Facts:
    """Tell what Sluice did, or would have done, with the viewer's jobs since a time (UTC seconds).

    The site as a whole is for the history's own readers: it takes too long for a socket.
    """
    from sluice.slurm.views.report import gather  # noqa: PLC0415 - numpy

    own = Viewer(viewer.uid, sees_all=False)
    return gather(store, own, config, since=since, now=int(time.time()))


def predict(
    store: Store | None, viewer: Viewer, *, bundle: Path, request: Mapping[str, str | int | None]
) -> Facts:
    """Predict what a job will do; without a history the runs behind it stay unknown."""
    uid = request.get("uid")
    if not viewer.sees(uid if isinstance(uid, int) else None):
        raise QueryError("PrivateData: you may ask about jobs of your own")
    loaded = Bundle.load(bundle, bundle.stat().st_uid)
    prediction = loaded.predict(core.submission_of(request), int(time.time()))
    facts: Facts = {
        "min_confidence": loaded.policy.min_confidence,
        "evidence": prediction.evidence,
        "is_own": core.is_own(prediction),
        "klass": prediction.klass,
        "application": prediction.application,
        "profile": known(prediction.profile.to_dict()),
        "coverage": None,
        "runs": [],
    }
    if store is None:
        return facts
    try:
        runs = store.models.runs_behind(prediction.application) if prediction.application else []
        facts["coverage"] = _coverage(store, viewer)
    except HistoryError:
        return facts
    facts["runs"] = [
        {
            "start": run.log.start,
            "job_id": run.log.jobid,
            "pattern": run.profile.pattern,
            "confidence": run.profile.confidence,
            "path": run.log.path,
        }
        for run in runs
        if viewer.sees(run.log.uid)
    ][:MOST_RUNS]
    return facts


def _coverage(store: Store, viewer: Viewer) -> Facts | None:
    """Return how much of what ran the logs tell of, to those that may see all of it."""
    return asdict(store.jobs.coverage()) if viewer.sees_all else None
