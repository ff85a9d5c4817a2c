"""Learns interference of pairs from finished runs: their heatmaps in the history, compared.

Only runs that system counters confirm count, because the model decides about others: a log can
claim what its user likes.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from sluice.history_db.records import ObservedInterference
from sluice.interference.attribution import FALSE_RATE, Findings, attribute
from sluice.interference.timeline import load_of_jobs, one_run_a_job, timeline_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from sluice.history_db.store import Store
    from sluice.interference.timeline import Timeline
    from sluice.prediction.jobs import FinishedJob

MOST_DAYS = 400
"""A run whose clock is further off the usual one does not count for the time covered."""


@dataclass(frozen=True, slots=True)
class Learned:
    """Pairs found, and what they were found in."""

    findings: Findings
    logs: int
    """With a heatmap."""
    without: int
    jobs_without_log: int


def learn_pairs(store: Store, jobs: Iterable[FinishedJob], *, since: int, now: int) -> Learned:
    """Compare the confirmed ones of these jobs since a time (UTC seconds), and store the pairs."""
    logs = [log for job in jobs if job.is_confirmed and job.start >= since for log in job.logs]
    found = [timeline_of(run) for run in store.runs.runs(logs)]
    timelines = [one for one in found if one is not None]
    runs = one_run_a_job(timelines)
    runs.sort(key=lambda one: (one.start, one.application, one.job or 0, one.end))
    alongside, unlogged = _load_without_logs(store, runs)
    findings = attribute(runs, alongside=alongside)
    store.interference.put_observed_interference(_observed(runs, findings, now))
    return Learned(findings, len(timelines), len(found) - len(timelines), unlogged)


def _load_without_logs(store: Store, runs: Sequence[Timeline]) -> tuple[list[Timeline], int]:
    """Return the load of jobs that left no log, and their number."""
    if not runs:
        return [], 0
    start, end = min(one.start for one in runs), max(one.end for one in runs)
    logged = {one.job for one in runs}
    jobs = [one for one in store.jobs.unlogged_jobs_during(start, end) if one.job_id not in logged]
    return [load_of_jobs(jobs, start, end)] if jobs else [], len(jobs)


def _observed(
    runs: Sequence[Timeline], findings: Findings, now: int
) -> Iterator[ObservedInterference]:
    since, until = time_covered(runs)
    for one in findings.observations:
        yield ObservedInterference(
            victim=one.victim,
            aggressor=one.aggressor,
            found=now,
            rho=one.rho,
            log_sd=one.log_sd,
            p_value=one.p_value,
            disturbed=one.disturbed,
            undisturbed=one.undisturbed,
            since=since,
            until=until,
            false_rate=FALSE_RATE,
        )


def time_covered(runs: Sequence[Timeline]) -> tuple[int, int]:
    """Return when the first and the last run began; not by a clock that is years off."""
    starts = [int(run.start) for run in runs] or [0]
    usual = median(starts)
    near = [start for start in starts if abs(start - usual) < MOST_DAYS * 86400]
    return min(near), max(near)
