"""Doubts and costliest pairs, which take a minute to compute: done by `background.py`.

Of the last week: programs whose predictions went wrong or that do something else than before, the
longest delays, and pairs that cost most by the interference model although production never showed
what they do to each other.
Node-hours are those of `sluice site assess`.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from sluice.interference.cost import (
    UNNAMED,
    Application,
    application_of,
    grounds_of,
    programs_of,
)
from sluice.interference.pairs import pooled
from sluice.prediction.expectation import change
from sluice.prediction.score import live_predictions
from sluice.prediction.score import report as score_of
from sluice.slurm.views.decision_history import read_choices
from sluice.slurm.views.report import went_wrong

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from sluice.history_db.store import Store
    from sluice.interference.cost import Costs
    from sluice.policies.core import Config
    from sluice.prediction.jobs import FinishedJob
    from sluice.slurm.views.decision_history import Choice

Facts = dict[str, Any]

LOOKED_BACK = 7 * 86400
"""Seconds."""
MOST = 20
"""Of each kind."""


def computed(store: Store, settings: Config, now: int) -> Facts:
    """Return the pairs that cost most, and what is in doubt, the costliest of each kind first."""
    since = now - LOOKED_BACK
    grounds = grounds_of(store, settings)
    costs = grounds.costs()
    kinds = (
        wrong(store, settings, costs, since),
        changed(grounds.jobs, costs, since),
        delays(store, since),
        unmeasured(store, costs, since),
    )
    return {
        "pairs": [asdict(one) for one in costs.worst_pairs()],
        "doubts": [row for rows in kinds for row in _costliest(rows)],
    }


def _costliest(rows: Iterable[Facts]) -> list[Facts]:
    return sorted(rows, key=lambda row: -row["node_hours"])[:MOST]


def wrong(store: Store, settings: Config, costs: Costs, since: int) -> Iterator[Facts]:
    """Yield programs whose predictions went wrong, with what they cost others and lost to them."""
    at_stake = _at_stake(costs, since)
    items = live_predictions(store, since=since)
    latest = _latest_jobs(item.job for item in items)
    for row in score_of(items, str)["by_program"]:
        if went_wrong(row, settings):
            program = Application(int(row["user"]), row["program"] or UNNAMED)
            yield {
                "kind": "wrong",
                **_named(program),
                "job_id": latest.get(program),
                "node_hours": at_stake.get(program, 0.0),
                "came_true": row["came_true"],
                "checked": round(row["jobs"] * row["answered"]),
            }


def _at_stake(costs: Costs, since: int) -> dict[Application, float]:
    """Return the node-hours that each program costs others and loses to them."""
    return {
        Application(one.uid, one.name): one.caused + one.suffered
        for one in costs.parties(since=since)
    }


def changed(jobs: Sequence[FinishedJob], costs: Costs, since: int) -> Iterator[Facts]:
    """Yield programs whose runs have another pattern than before, since then.

    A change is what the learner takes for one: from then on it goes by the new runs.
    """
    at_stake, latest = _at_stake(costs, since), _latest_jobs(jobs)
    runs: dict[Application, list[FinishedJob]] = defaultdict(list)
    for job in sorted(jobs, key=lambda job: (job.start, job.logs)):
        runs[application_of(job)].append(job)
    for program, found in runs.items():
        first = change(found)
        if first and found[first].start >= since:
            yield {
                "kind": "changed",
                **_named(program),
                "job_id": latest.get(program),
                "node_hours": at_stake.get(program, 0.0),
                "before": found[first - 1].profile.pattern,
                "after": found[first].profile.pattern,
                "runs": len(found) - first,
                "since": found[first].start,
            }


def delays(store: Store, since: int) -> Iterator[Facts]:
    """Yield of each program the delay that costs most node-seconds."""
    worst: dict[Application, Choice] = {}
    for one in read_choices(store.decisions.decisions_since(since)).kept:
        before = worst.get(one.owner)
        if one.job and one.wait > 0 and (before is None or one.waited > before.waited):
            worst[one.owner] = one
    for owner, one in worst.items():
        yield {
            "kind": "delay",
            **_named(owner),
            "job_id": one.job[1] if one.job else None,
            "node_hours": one.waited / 3600,
            "wait": one.wait,
            "saved_node_hours": (one.own + one.others) / 3600,
        }


def unmeasured(store: Store, costs: Costs, since: int) -> Iterator[Facts]:
    """Yield pairs that cost something by the model, and of which production showed nothing."""
    programs = programs_of(store)
    measured = {
        (one.victim, one.aggressor) for one in pooled(store.interference.observed_interference())
    }
    latest = _latest_jobs(member.job for member in costs.members)

    def name(job: FinishedJob) -> tuple[Application, str]:
        return application_of(job), programs.get(job.logs[0], "")

    for (victim, aggressor), lost in costs.between(name, since=since).items():
        if (victim[1], aggressor[1]) not in measured:
            yield {
                "kind": "unmeasured",
                **_named(victim[0]),
                "job_id": latest.get(victim[0]),
                "node_hours": lost,
                "alongside": _named(aggressor[0]) | {"job_id": latest.get(aggressor[0])},
            }


def _latest_jobs(jobs: Iterable[FinishedJob]) -> dict[Application, int]:
    """Return the newest job of each application on which something was decided."""
    decided = sorted((job for job in jobs if job.decided_as), key=lambda job: job.start)
    return {application_of(job): job.decided_as[1] for job in decided if job.decided_as}


def _named(owner: Application) -> Facts:
    return {"uid": owner.uid, "program": owner.name}
