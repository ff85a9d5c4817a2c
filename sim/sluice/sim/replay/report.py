"""Results of a replay: totals, groups of jobs, and a table with a line a job."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from sluice.history_db.export import table_bytes
from sluice.history_db.records import Column
from sluice.sim.replay.io_replay import IoOutcomes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from sluice.sim.replay.io_replay import Outcomes
    from sluice.sim.trace.repairs import Repair

SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
"""Beginnings of the size classes that a report tells apart, in slots."""
MOST_GROUPS = 20
"""Groups that a report names, those with most jobs first."""

JOB_COLUMNS = (
    *(Column("job", "INTEGER"), Column("user", "TEXT"), Column("account", "TEXT")),
    *(Column("partition", "TEXT"), Column("slots", "INTEGER")),
    *(Column(name, "REAL") for name in ("submit", "eligible", "start", "end")),
    *(Column(name, "REAL") for name in ("wait", "runtime", "limit", "bounded_slowdown")),
    *(Column("restarts", "INTEGER"), Column("state", "TEXT")),
)
"""Of the table of jobs. Times are UTC seconds, spans seconds; empty: never."""
IO_COLUMNS = (
    *(Column("policy", "TEXT"), Column("alone", "REAL"), Column("job_slowdown", "REAL")),
    *(Column("lost_slot_seconds", "REAL"), Column("delay", "REAL")),
    *(Column("lanes", "INTEGER"), Column("action", "TEXT"), Column("reason", "TEXT")),
)
"""Further ones where jobs do I/O. lanes: a bit mask, 0 for all."""
PAGE = 50_000
"""Rows of the table that are made at a time."""


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
    wait = outcomes.wait
    return [
        {what: name, "jobs": int(own.sum()), "wait_s": spread(wait[own])}
        for name, own in members(outcomes, what, outcomes.ran)
    ]


def members(
    outcomes: Outcomes, what: str, among: NDArray[np.bool_]
) -> Iterator[tuple[str, NDArray[np.bool_]]]:
    """Yield each group that has jobs among these, and which they are.

    Sizes come in their order; of others the MOST_GROUPS with most jobs, those first.
    """
    names, index = groups(outcomes, what)
    counts = np.bincount(index[among & (index >= 0)], minlength=len(names))
    shown = np.flatnonzero(counts)
    if what != "size":
        shown = shown[np.argsort(-counts[shown], kind="stable")][:MOST_GROUPS]
    for group in shown.tolist():
        yield names[group], among & (index == group)


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
        return [], np.full(len(rows), -1)
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


def jobs_table(several: Sequence[Outcomes], ending: str) -> bytes:
    """Return the jobs of replays, one after the other, as table_bytes does."""
    return table_bytes(ending, _heading(several), _pages(several))


def _heading(several: Sequence[Outcomes]) -> tuple[Column, ...]:
    has_io = isinstance(several[0], IoOutcomes)
    return (*JOB_COLUMNS, *IO_COLUMNS) if has_io else JOB_COLUMNS


def _pages(several: Sequence[Outcomes]) -> Iterator[list[tuple[Any, ...]]]:
    """Yield rows of Python values; None where there is nothing to say."""
    for outcomes in several:
        for first in range(0, len(outcomes.results), PAGE):
            page = slice(first, first + PAGE)
            columns = _columns(outcomes, page)
            if isinstance(outcomes, IoOutcomes):
                columns += _io_columns(outcomes, page)
            yield list(zip(*columns, strict=True))


def _numbers(values: NDArray[np.float64]) -> list[Any]:
    known = np.isfinite(values).tolist()
    shown = np.where(np.isfinite(values), values, 0).tolist()
    return [
        (int(value) if value == int(value) else value) if is_known else None
        for value, is_known in zip(shown, known, strict=True)
    ]


def _columns(outcomes: Outcomes, page: slice) -> list[list[Any]]:
    """Return JOB_COLUMNS."""
    trace, rows = outcomes.replayable.trace, outcomes.replayable.rows[page]
    jobs, results = outcomes.replayable.workload.jobs[page], outcomes.results[page]

    def names(what: str) -> list[Any]:
        index, known = getattr(trace, what), getattr(trace, f"{what}s")
        if index is None:
            return [None] * len(rows)
        table = np.array([*known, None], object)  # -1 is the last
        return list(table[index[rows]])

    def times(name: str) -> list[Any]:
        return _numbers(np.where(results[name] == -1, np.nan, results[name]) + trace.epoch)

    return [
        trace.job_id[rows].tolist(),
        *(names(what) for what in ("user", "account", "partition")),
        jobs["slots"].tolist(),
        _numbers(jobs["submit"] + trace.epoch),
        *(times(name) for name in ("eligible", "start", "end")),
        _numbers(outcomes.wait[page]),
        _numbers(outcomes.runtime[page]),
        _numbers(jobs["limit"]),
        _numbers(np.round(outcomes.bounded_slowdown[page], 6)),
        results["restarts"].tolist(),
        outcomes.state[page].tolist(),
    ]


def _io_columns(outcomes: IoOutcomes, page: slice) -> list[list[Any]]:
    """Return IO_COLUMNS."""
    return [
        [outcomes.policy] * len(outcomes.results[page]),
        _numbers(outcomes.alone[page]),
        _numbers(np.round(outcomes.job_slowdown[page], 6)),
        _numbers(np.round(outcomes.lost_slot_seconds[page], 3)),
        _numbers(outcomes.delay[page]),
        outcomes.choices["lane_mask"][page].tolist(),
        outcomes.action[page].tolist(),
        outcomes.reason[page].tolist(),
    ]
