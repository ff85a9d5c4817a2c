"""Logs -> jobs: what a job was submitted as, and what it did to storage in all its logs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from sluice.classifier.requested import Requested, Submissions, Submitted, requested_on
from sluice.classifier.same_job import by_job
from sluice.classifier.to_core import log_weight
from sluice.history_db.command_lines import program_name
from sluice.history_db.records import Profile

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from sluice.history_db.records import Job, Run
    from sluice.history_db.store import Store

LATEST_RUNS = 100_000
"""Logs that a command reads as jobs, the newest: bounds its time and memory."""
SUMMED = ("write_bytes", "read_bytes", "files")
NOT_AVERAGED = (*SUMMED, "nprocs", "runtime_seconds", "io_share")


@dataclass(frozen=True)
class FinishedJob:
    """One job of the past: what the controller saw of it, and what Darshan saw."""

    logs: tuple[int, ...]
    uid: int
    name: str
    account: str
    partition: str
    qos: str
    nodes: int
    """0, as the other sizes: not known."""
    tasks: int
    cpus_per_task: int
    time_limit: int
    """Minutes."""
    script_signature: int
    submit: int
    """UTC seconds, as start and end."""
    start: int
    end: int
    profile: Profile

    @property
    def size(self) -> float:
        """Processes as far as the user said; as sluice_submission_size."""
        return float(self.tasks or self.nodes)

    @cached_property
    def log_weight(self) -> float:
        """Ln w (to_core.py), worked out once: each entry of its keys asks for it."""
        return log_weight(self.profile)


def finished_jobs(runs: Iterable[Run], submissions: Submissions | None = None) -> list[FinishedJob]:
    """Put the logs of each job together (see same_job.py), the oldest job first."""
    seen = submissions or Submissions(())
    groups = by_job(runs)
    jobs = []
    while groups:  # a job takes half of the memory of its logs
        jobs.append(_job(groups.pop(), seen))
    return sorted(jobs, key=lambda job: (job.start, job.logs))


def latest_jobs(
    store: Store, submissions: Submissions | None = None, *, latest: int = LATEST_RUNS
) -> list[FinishedJob]:
    """Return the jobs of the newest logs, the oldest job first."""
    return finished_jobs(store.runs(store.run_ids(latest=latest)), submissions)


def _job(runs: list[Run], submissions: Submissions) -> FinishedJob:
    first = min(runs, key=lambda run: (run.log.start or 0, run.log_id))
    start = first.log.start or 0
    return described(
        first.job,
        submissions,
        logs=tuple(run.log_id for run in runs),
        uid=first.log.uid or 0,
        program=program_name(first.log.exe or ""),
        processes=first.log.nprocs or 0,
        start=start,
        end=max(run.log.end or 0 for run in runs) or start,
        profile=runs[0].profile if len(runs) == 1 else _combined(runs),
    )


def described(
    job: Job | None,
    submissions: Submissions,
    *,
    logs: tuple[int, ...],
    uid: int,
    program: str,
    processes: int,
    start: int,
    end: int,
    profile: Profile,
) -> FinishedJob:
    """Return a job of the past as it was submitted, as far as that is known."""
    submission = submissions.of(job) if job else None
    sizes = _sizes(job, processes, submission)
    return FinishedJob(
        logs=logs,
        uid=uid,
        name=(job.name if job else None) or program,
        account=(job.account if job else None) or "",
        partition=(job.partition if job else None) or "",
        qos=(job.qos if job else None) or "",
        nodes=sizes.nodes,
        tasks=sizes.tasks,
        cpus_per_task=sizes.cpus_per_task,
        time_limit=(job.time_limit or 0) if job else 0,
        script_signature=_signature(job, submission),
        submit=job.submit if job and job.submit else start,
        start=start,
        end=end,
        profile=profile,
    )


def _sizes(job: Job | None, processes: int, submission: Submitted | None) -> Requested:
    """Return what was asked for, as far as that is known, else what was given."""
    if submission is not None:
        return submission
    if job is None:
        return Requested(tasks=processes)
    on_line = requested_on(job.submit_line or "")
    if on_line is not None:
        return on_line
    cpus, tasks = job.cpus or 0, job.tasks or 0
    return Requested(
        nodes=job.nodes or 0,
        tasks=tasks or processes,
        cpus_per_task=max(1, cpus // tasks) if tasks and cpus else 0,
    )


def _signature(job: Job | None, submission: Submitted | None) -> int:
    if submission is not None and submission.script_signature:
        return submission.script_signature
    return (job.script_signature or 0) if job else 0


def _combined(runs: Sequence[Run]) -> Profile:
    """One profile of several logs: bytes add up, the rest is weighted by them."""
    profiles = [run.profile for run in runs]
    weights = np.array([_bytes(profile) for profile in profiles]) + 1.0
    weights /= weights.sum()
    shares: dict[str, float] = {}
    votes: dict[str, float] = {}
    for profile, weight in zip(profiles, weights, strict=True):
        votes[profile.pattern] = votes.get(profile.pattern, 0.0) + profile.confidence * weight
        for name, share in profile.shares.items():
            shares[name] = shares.get(name, 0.0) + share * weight
    pattern = max(sorted(votes), key=lambda name: votes[name])
    return Profile(
        pattern=pattern,
        confidence=float(votes[pattern]),
        shares=shares,
        numbers=_combined_numbers(runs, weights),
        log_sd=max(profile.log_sd for profile in profiles),
    )


def _bytes(profile: Profile) -> float:
    return profile.numbers.get("write_bytes", 0.0) + profile.numbers.get("read_bytes", 0.0)


def _combined_numbers(runs: Sequence[Run], weights: NDArray[np.float64]) -> dict[str, float]:
    numbers: dict[str, float] = {}
    for name in sorted({name for run in runs for name in run.profile.numbers}):
        known = [i for i, run in enumerate(runs) if name in run.profile.numbers]
        values = np.array([runs[i].profile.numbers[name] for i in known])
        if name in SUMMED:
            numbers[name] = float(values.sum())
        elif name not in NOT_AVERAGED:
            numbers[name] = float(np.average(values, weights=weights[known]))
    start = min(run.log.start or 0 for run in runs)
    end = max(run.log.end or 0 for run in runs)
    runtime = max(float(end - start), *(_number(run, "runtime_seconds") for run in runs))
    busy = sum(_number(run, "io_share") * _number(run, "runtime_seconds") for run in runs)
    numbers["runtime_seconds"] = runtime
    if runtime > 0:
        numbers["io_share"] = min(1.0, busy / runtime)
    numbers["nprocs"] = float(_most_at_once(runs))
    return numbers


def _number(run: Run, name: str) -> float:
    return run.profile.numbers.get(name, 0.0)


def _most_at_once(runs: Sequence[Run]) -> int:
    """Return the largest number of processes that ran at the same time."""
    events = [(run.log.start or 0, 1, run.log.nprocs or 1) for run in runs]
    events += [(run.log.end or 0, 0, -(run.log.nprocs or 1)) for run in runs]
    most = running = 0
    for _, _, change in sorted(events, key=lambda event: (event[0], -event[1])):
        running += change
        most = max(most, running)
    return most
