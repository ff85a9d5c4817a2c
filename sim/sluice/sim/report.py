"""What a replay says: totals, whom it concerns, and a table with a line a job."""

from __future__ import annotations

import csv
import io
import json
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from sluice.sim.repairs import Repair
    from sluice.sim.replay import Outcomes

SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
"""Beginnings of the size classes that a report tells apart, in slots."""
MOST_GROUPS = 20
"""Groups that a report names, those with most jobs first."""

JOB_COLUMNS = (
    *("job", "user", "account", "partition", "slots", "submit", "eligible", "start", "end"),
    *("wait", "runtime", "limit", "bounded_slowdown", "restarts", "state"),
)
"""Of the table of jobs. Times are UTC seconds, spans seconds; empty: never."""


def totals(outcomes: Outcomes) -> dict[str, Any]:
    """Return the figures of the whole replay; seconds, slot-hours and shares."""
    jobs = outcomes.replayable.workload.jobs
    ran = outcomes.ran
    states, counts = np.unique(outcomes.state, return_counts=True)
    figures: dict[str, Any] = {
        "jobs": len(jobs),
        "states": dict(zip(states.tolist(), counts.tolist(), strict=True)),
        "wait_s": spread(outcomes.wait[ran]),
        "bounded_slowdown": spread(outcomes.bounded_slowdown[ran]),
        "makespan_s": None,
        "utilisation": None,
        "slot_hours": None,
        "slot_hours_lost_to_preemption": float(
            np.sum(outcomes.results["lost"] * jobs["slots"]) / 3600
        ),
    }
    if ran.any():
        makespan = float(outcomes.results["end"][ran].max() - jobs["submit"][0])
        busy = float(np.sum((outcomes.runtime * jobs["slots"])[ran]))
        slots = outcomes.replayable.workload.machine.slots
        figures["makespan_s"] = makespan
        figures["slot_hours"] = busy / 3600
        figures["utilisation"] = busy / (makespan * slots) if makespan > 0 else None
    return figures


def recorded_wait(outcomes: Outcomes) -> dict[str, float | None] | None:
    """Return the waits that the trace recorded of the same jobs, where it has them."""
    trace, rows = outcomes.replayable.trace, outcomes.replayable.rows
    if trace.start is None:
        return None
    waited = (trace.start - trace.submit)[rows]
    waited = waited[np.isfinite(waited)]
    return spread(waited) if len(waited) else None


def by_group(outcomes: Outcomes, what: str) -> list[dict[str, Any]]:
    """Return jobs, mean and p99 wait by `user`, `account`, `partition` or `size`."""
    names, index = groups(outcomes, what)
    wait, ran = outcomes.wait, outcomes.ran
    rows: list[dict[str, Any]] = []
    for i, name in enumerate(names):
        own = (index == i) & ran
        if own.any():
            rows.append({what: name, "jobs": int(own.sum()), "wait_s": spread(wait[own])})
    if what == "size":
        return rows
    return sorted(rows, key=lambda row: -row["jobs"])[:MOST_GROUPS]


def groups(outcomes: Outcomes, what: str) -> tuple[Sequence[str], NDArray[np.int64]]:
    """Return the names of the groups, and each job's index into them; -1: none."""
    trace, rows = outcomes.replayable.trace, outcomes.replayable.rows
    if what == "size":
        slots = outcomes.replayable.workload.jobs["slots"]
        names = [
            f"{low}" if low + 1 == high else f"{low}–{high - 1}" for low, high in pairwise(SIZES)
        ]
        return [*names, f"{SIZES[-1]}–"], np.searchsorted(SIZES, slots, side="right") - 1
    index = getattr(trace, what)
    if index is None:
        return [], np.zeros(len(rows), np.int64)
    return getattr(trace, f"{what}s"), index[rows]


def spread(values: NDArray[np.float64]) -> dict[str, float | None]:
    """Return mean, median, p99 and max; None of nothing."""
    if not len(values):
        return {"mean": None, "median": None, "p99": None, "max": None}
    median, p99 = np.quantile(values, (0.5, 0.99))
    return {
        "mean": float(values.mean()),
        "median": float(median),
        "p99": float(p99),
        "max": float(values.max()),
    }


def repairs_of(repairs: Sequence[Repair]) -> list[dict[str, Any]]:
    return [
        {
            "what": repair.what,
            "rule": repair.rule,
            "count": repair.count,
            "examples": list(repair.examples),
        }
        for repair in repairs
    ]


def _columns(outcomes: Outcomes) -> list[list[Any]]:
    """Return JOB_COLUMNS as Python values; None where there is nothing to say."""
    trace, rows = outcomes.replayable.trace, outcomes.replayable.rows
    jobs, results = outcomes.replayable.workload.jobs, outcomes.results

    def names(what: str) -> list[Any]:
        index, known = getattr(trace, what), getattr(trace, f"{what}s")
        if index is None:
            return [None] * len(rows)
        table = np.array([*known, None], object)  # -1 is the last
        return list(table[index[rows]])

    def numbers(values: NDArray[np.float64], epoch: float = 0.0) -> list[Any]:
        shown = np.where(np.isfinite(values), values + epoch, 0).tolist()
        return [
            (int(value) if value == int(value) else value) if is_known else None
            for value, is_known in zip(shown, np.isfinite(values).tolist(), strict=True)
        ]

    def times(name: str) -> list[Any]:
        return numbers(np.where(results[name] == -1, np.nan, results[name]), trace.epoch)

    return [
        trace.job_id[rows].tolist(),
        *(names(what) for what in ("user", "account", "partition")),
        jobs["slots"].tolist(),
        numbers(jobs["submit"], trace.epoch),
        *(times(name) for name in ("eligible", "start", "end")),
        numbers(outcomes.wait),
        numbers(outcomes.runtime),
        numbers(jobs["limit"]),
        numbers(np.round(outcomes.bounded_slowdown, 6)),
        results["restarts"].tolist(),
        outcomes.state.tolist(),
    ]


def jobs_csv(outcomes: Outcomes) -> bytes:
    """Return the table of jobs as CSV with a heading."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(JOB_COLUMNS)
    writer.writerows(zip(*_columns(outcomes), strict=True))
    return text.getvalue().encode()


def jobs_json(outcomes: Outcomes) -> bytes:
    """Return the table of jobs as JSON Lines."""
    rows = zip(*_columns(outcomes), strict=True)
    lines = (
        json.dumps(dict(zip(JOB_COLUMNS, row, strict=True)), ensure_ascii=False) for row in rows
    )
    return "".join(f"{line}\n" for line in lines).encode()
