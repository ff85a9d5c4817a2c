"""Makes a workload of a trace: what is missing or broken is repaired by a stated rule, or dropped.

Every rule counts the jobs that it changes and names some; docs/reference/replay.md lists them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from sluice.sim import engine
from sluice.sim.engine import TraceError, Workload
from sluice.sim.trace.jobs import JobEnd

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sluice.sim.trace.jobs import Trace
    from sluice.sim.trace.machine import Site

EXAMPLES = 5
SHORTEST_LIMIT = 1.0  # seconds; the engine takes no shorter one

RULES = {
    "broken line": "dropped",
    "piece of a job told whole elsewhere": "dropped",
    "no submission time": "dropped",
    "never ran": "dropped",
    "no run time": "dropped",
    "no size": "dropped",
    "no time limit": "takes the longest limit of the trace, at least its run time",
    "ran beyond its limit": "limit raised to its run time",
    "out of order": "sorted by submission",
    "unknown partition": "goes to the first one",
    "waits for a job that is not there": "the dependency is dropped",
    "larger than its partition": "refused at its submission",
}
"""What may be wrong with a job, and what is done about it."""


@dataclass(frozen=True, slots=True)
class Repair:
    """One rule that was needed."""

    what: str
    """A key of RULES."""
    count: int
    examples: tuple[int, ...]
    """Ids of the first jobs, or numbers of lines."""

    @property
    def rule(self) -> str:
        return RULES[self.what]


@dataclass(frozen=True, slots=True)
class Replayable:
    """A trace made ready."""

    trace: Trace
    rows: NDArray[np.int64]
    """Of the trace, one a job of the workload."""
    workload: Workload
    repairs: tuple[Repair, ...]


@dataclass(slots=True)
class _Repairer:
    trace: Trace
    found: list[Repair] = field(default_factory=list)

    def note(self, what: str, rows: NDArray[np.int64]) -> None:
        if len(rows):
            ids = tuple(int(job) for job in self.trace.job_id[rows[:EXAMPLES]])
            self.found.append(Repair(what, len(rows), ids))


def make_replayable(trace: Trace, site: Site, *, kills: bool = False) -> Replayable:
    """Repair the trace and put it on the site's machine.

    kills: a job that ran beyond its limit is killed there; without, its run time counts, since it
    did run that long.
    """
    repairer = _Repairer(trace)
    if trace.bad_line_count:
        lines = tuple(line.number for line in trace.bad_lines[:EXAMPLES])
        repairer.found.append(Repair("broken line", trace.bad_line_count, lines))
    rows = _usable(trace, repairer)
    if not len(rows):
        why = ", ".join(f"{repair.what}: {repair.count}" for repair in repairer.found)
        raise TraceError(f"{trace.name}: none of its {len(trace)} jobs can be replayed ({why})")
    if np.any(np.diff(trace.submit[rows]) < 0):
        back = np.flatnonzero(np.diff(trace.submit[rows]) < 0) + 1
        repairer.note("out of order", rows[back])
        rows = rows[np.argsort(trace.submit[rows], kind="stable")]
    jobs = np.zeros(len(rows), engine.JOB)
    jobs["submit"] = trace.submit[rows]
    if trace.begin is not None:
        jobs["begin"] = np.nan_to_num(trace.begin[rows])
    jobs["runtime"] = trace.runtime[rows]
    jobs["limit"] = _limits(trace, rows, repairer, kills=kills)
    jobs["slots"] = trace.slots[rows]
    jobs["partition"] = _partitions(trace, rows, site, repairer)
    jobs["user"], associations = _associations(trace, rows)
    if trace.outcome is not None:
        jobs["fails"] = np.isin(trace.outcome[rows], (JobEnd.FAILED, JobEnd.CANCELLED))
    dependencies = _dependencies(trace, rows, jobs, repairer)
    capacity = np.array([site.machine.slots_of(i) for i in range(len(site.machine.partitions))])
    repairer.note("larger than its partition", rows[jobs["slots"] > capacity[jobs["partition"]]])
    leases = site.leases.copy()
    leases["from"] -= trace.epoch
    leases["until"] -= trace.epoch
    workload = Workload(
        site.machine,
        jobs,
        dependencies=dependencies,
        associations=associations,
        leases=leases,
        slots_per_node=trace.slots_per_node,
    )
    return Replayable(trace, rows, workload, tuple(repairer.found))


def _usable(trace: Trace, repairer: _Repairer) -> NDArray[np.int64]:
    """Return the rows of jobs that ran and of which the least is known."""
    outcome = np.full(len(trace), JobEnd.UNKNOWN) if trace.outcome is None else trace.outcome
    did_not_run = (outcome == JobEnd.CANCELLED) & ~(trace.runtime > 0)
    reasons = (
        ("piece of a job told whole elsewhere", outcome == JobEnd.PARTIAL),
        ("no submission time", ~np.isfinite(trace.submit)),
        ("never ran", did_not_run),
        ("no run time", ~(np.isfinite(trace.runtime) & (trace.runtime >= 0))),
        ("no size", ~((trace.slots > 0) & (trace.slots < engine.MAX_SLOTS))),
    )
    usable = np.ones(len(trace), bool)
    for what, is_so in reasons:
        repairer.note(what, np.flatnonzero(usable & is_so))
        usable &= ~is_so
    return np.flatnonzero(usable)


def _limits(
    trace: Trace, rows: NDArray[np.int64], repairer: _Repairer, *, kills: bool
) -> NDArray[np.float64]:
    limit, runtime = trace.limit[rows].copy(), trace.runtime[rows]
    unknown = ~(limit > 0)
    repairer.note("no time limit", rows[unknown])
    longest = trace.max_limit
    if np.isnan(longest):
        known = limit[~unknown & np.isfinite(limit)]
        longest = known.max() if len(known) else runtime.max()
    limit[unknown] = np.maximum(longest, runtime[unknown])
    beyond = runtime > limit
    if not kills:
        repairer.note("ran beyond its limit", rows[beyond])
        limit[beyond] = runtime[beyond]
    return np.maximum(limit, SHORTEST_LIMIT)


def _partitions(
    trace: Trace, rows: NDArray[np.int64], site: Site, repairer: _Repairer
) -> NDArray[np.int64]:
    names = [partition.name for partition in site.machine.partitions]
    if trace.partition is None or len(names) == 1:
        return np.zeros(len(rows), np.int64)
    index = [names.index(name) if name in names else -1 for name in trace.partitions]
    partition = np.array([*index, -1], np.int64)[trace.partition[rows]]
    repairer.note("unknown partition", rows[partition < 0])
    return np.maximum(partition, 0)


def _associations(trace: Trace, rows: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Return each job's pair of user and account by number, and the pairs; shares are equal."""
    missing = np.full(len(rows), -1, np.int64)
    user = missing if trace.user is None else trace.user[rows]
    account = missing if trace.account is None else trace.account[rows]
    width = int(user.max(initial=-1)) + 2
    pairs, index = np.unique((account + 1) * width + user + 1, return_inverse=True)
    associations = np.zeros(len(pairs), engine.ASSOCIATION)
    associations["account"] = np.unique(pairs // width, return_inverse=True)[1]
    associations["shares"] = associations["account_shares"] = 1
    return index.reshape(-1), associations


def _dependencies(
    trace: Trace, rows: NDArray[np.int64], jobs: NDArray[Any], repairer: _Repairer
) -> NDArray[Any]:
    """Let jobs wait for the one they name: its end, and the think time after it."""
    if trace.after is None or trace.think_time is None:
        return np.zeros(0, engine.DEPENDENCY)
    after = trace.after[rows]
    ids = trace.job_id[rows]
    order = np.argsort(ids, kind="stable")
    place = np.minimum(np.searchsorted(ids[order], after), len(rows) - 1)
    other = order[place]
    asked = after > 0
    found = asked & (ids[other] == after) & (other != np.arange(len(rows)))
    repairer.note("waits for a job that is not there", rows[asked & ~found])
    dependencies = np.zeros(int(found.sum()), engine.DEPENDENCY)
    dependencies["job"] = other[found]
    dependencies["kind"] = engine.DEPENDENCIES.index("any")
    dependencies["delay"] = np.nan_to_num(trace.think_time[rows][found])
    jobs["dependency_count"] = found
    jobs["first_dependency"] = np.cumsum(found) - found
    return dependencies
