"""What the jobs of a trace do to storage, as the logs in a history tell it, job by job."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from sluice.prediction.jobs import finished_jobs
from sluice.prediction.to_core import profile_members
from sluice.prediction.undisturbed import undisturbed
from sluice.sim.errors import TraceError
from sluice.sim.trace.profiles import Profiles, no_profiles

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from sluice.history_db.records import Run
    from sluice.history_db.store import Store
    from sluice.prediction.jobs import FinishedJob
    from sluice.sim.engine import Workload
    from sluice.sim.trace.repairs import Replayable

SLACK = 60
"""Seconds by which clocks of nodes and of the accounting may differ."""


def history_profiles(store: Store, replayable: Replayable) -> tuple[Profiles, NDArray[np.bool_]]:
    """Return what a workload's jobs do alone, and whose the history knows; others do no I/O.

    A log belongs to the job that the accounting says, by its id and second of submission; one
    that no accounting knows to the job with its id that ran when it began.
    """
    rows = _Rows(replayable)
    logs = store.run_ids(since=int(rows.first_start - SLACK)) if rows.first_start else None
    runs = {run.log_id: run for run in store.runs(logs)}
    nothing = no_profiles(len(replayable.rows))
    kinds: list[Mapping[str, Any]] = list(nothing.kinds)
    kind, io_share = nothing.kind, nothing.io_share
    known = np.zeros(len(kind), bool)
    for job in undisturbed(finished_jobs(runs.values())):
        row = rows.of(runs[job.logs[0]])
        if row is not None:
            kind[row], io_share[row], known[row] = len(kinds), _io_share(job), True
            kinds.append(profile_members(job.profile))
    return Profiles(tuple(kinds), kind, io_share), known


def measured_profiles(store: Store, workload: Workload, *, seed: int = 1) -> Profiles:
    """Draw for each job what some run in the history did, of those nearest to it in size.

    Sizes are told apart by the octave; what a run did, a job does in proportion to its nodes.
    Where the history has no sizes, each run is taken as it was.
    """
    runs = undisturbed(finished_jobs(store.runs()))
    if not runs:
        raise TraceError("the history has no runs to draw profiles from; ingest logs first")
    runs = [run for run in runs if run.nodes] or runs
    nodes = np.array([run.nodes for run in runs])
    octaves, wanted = _octave(nodes), _octave(workload.jobs["slots"])
    where = np.random.default_rng(seed).uniform(size=len(wanted))
    kind = np.zeros(len(wanted), np.int64)
    for octave in np.unique(wanted):
        distance = np.abs(octaves - octave)
        like = np.flatnonzero(distance == distance.min())
        own = wanted == octave
        kind[own] = like[(where[own] * len(like)).astype(np.int64)]
    shares = np.array([_io_share(run) for run in runs])
    kinds = tuple(profile_members(run.profile) for run in runs)
    return Profiles(kinds, kind, shares[kind], tuple(nodes.astype(float).tolist()))


def _octave(sizes: NDArray[Any]) -> NDArray[np.int64]:
    return np.asarray(np.rint(np.log2(np.maximum(sizes, 1))), np.int64)


def where_known(known: NDArray[np.bool_], told: Profiles, otherwise: Profiles) -> Profiles:
    """Return what is told of the jobs that are known, and of the others what is given instead."""
    return Profiles(
        (*otherwise.kinds, *told.kinds),
        np.where(known, told.kind + len(otherwise.kinds), otherwise.kind),
        np.where(known, told.io_share, otherwise.io_share),
        (*otherwise.nodes_of_kinds, *told.nodes_of_kinds),
        None if otherwise.period is None else np.where(known, 0.0, otherwise.period),
    )


def _io_share(job: FinishedJob) -> float:
    return min(1.0, max(0.0, job.profile.numbers.get("io_share", 0.0)))


class _Rows:
    """Finds the job of a workload that a log is of."""

    def __init__(self, replayable: Replayable) -> None:
        trace, rows = replayable.trace, replayable.rows
        submit = (trace.submit[rows] + trace.epoch).tolist()
        start = np.full(len(rows), np.nan) if trace.start is None else trace.start[rows]
        self._began = (start + trace.epoch).tolist()
        self.first_start: float | None = None if np.isnan(start).any() else min(self._began)
        self._length = trace.runtime[rows].tolist()
        self._by_submission: dict[tuple[int, int], int] = {}
        self._by_id: dict[int, list[int]] = {}
        for row, (job_id, second) in enumerate(
            zip(trace.job_id[rows].tolist(), submit, strict=True)
        ):
            self._by_submission[job_id, int(second)] = row
            self._by_id.setdefault(job_id, []).append(row)

    def of(self, run: Run) -> int | None:
        if run.job is not None:
            return self._by_submission.get((run.job.job_id, run.job.submit))
        begin = run.log.start or 0
        for row in self._by_id.get(run.log.jobid or 0, ()):
            since = begin - self._began[row]
            if -SLACK <= since <= self._length[row] + SLACK:
                return row
        return None
