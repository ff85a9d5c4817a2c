"""Logs -> jobs: what a job was submitted as, and what it did to storage in all its logs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from sluice.history_db.command_lines import program_name
from sluice.ingest.same_job import by_job
from sluice.patterns.job_profile import heatmap_of, profile_of
from sluice.policies import core
from sluice.prediction.requested import Requested, Submissions, Submitted, requested_on
from sluice.prediction.to_core import MOST, log_weight

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sluice.history_db.records import Job, Profile, Run
    from sluice.history_db.store import Store
    from sluice.policies.core import Arguments
    from sluice.prediction.outcomes import Predicted

LATEST_RUNS = 50_000
"""Logs that a command reads as jobs, the newest: bounds its time and memory."""
NOT_ENDED = frozenset(
    {
        "COMPLETING",
        "CONFIGURING",
        "PENDING",
        "RESIZING",
        "RUNNING",
        "SIGNALING",
        "STAGE_OUT",
        "STOPPED",
        "SUSPENDED",
    }
)
EXPOSED_LOG_SD = 0.15  # of what is known of the time with co-runners: not everybody leaves a log
LONGEST_RUN = 7 * 1440  # minutes that a job without a time limit may take, its end not being known


@dataclass(frozen=True, slots=True)
class Disturbance:
    """What others' I/O did to that of a job."""

    io_seconds: float
    """In which it was in I/O, as it was seen."""
    exposed: float
    """Share of them in which others were, too: it cannot have lost more."""
    log_kept: float
    """ln (rate as it was seen / rate alone)."""
    log_sd: float
    """Of log_kept: of what is believed of the rate alone."""

    def lost(self, z: float = 0.0) -> float:
        """Return the seconds that it lost, were the rate alone z deviations higher."""
        kept = math.exp(min(0.0, self.log_kept - z * self.log_sd))
        exposed = min(1.0, self.exposed * math.exp(z * EXPOSED_LOG_SD))
        return self.io_seconds * (1.0 - max(kept, 1.0 - exposed))


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
    arguments: Arguments | None = None
    """None: the submit line is not known."""
    heatmap: bytes | None = None
    """When it moved how many bytes, in all its logs (timeline.py); None: not known."""
    targets: frozenset[int] | None = None
    """Storage targets that it used; None: not known."""
    disturbance: Disturbance | None = None
    """None: the profile is as it was seen."""
    user: str = ""
    """By the accounting; empty: not known."""
    predicted: Predicted | None = None
    """What was predicted of it when it was submitted; None: nothing, or nobody knows."""

    @property
    def size(self) -> float:
        """Processes as far as the user said; as sluice_submission_size."""
        return float(self.tasks or self.nodes)

    @cached_property
    def log_weight(self) -> float:
        """Ln w (to_core.py), worked out once: each entry of its keys asks for it."""
        return log_weight(self.profile)

    @cached_property
    def keys(self) -> dict[str, int]:
        """Return the keys that it has in the application table, by evidence; worked out once."""
        submission = submission_of(self)
        keys = {name: core.application_key(submission, name) for name in core.EVIDENCE}
        return {name: key for name, key in keys.items() if key}


def submission_of(job: FinishedJob) -> core.View:
    """Return what the controller saw when the job was submitted, as far as that is known."""
    return core.submission(
        {
            "uid": min(job.uid, MOST),
            "nodes": min(job.nodes, MOST),
            "tasks": min(job.tasks, MOST),
            "cpus_per_task": min(job.cpus_per_task, MOST),
            "time_limit": min(job.time_limit, MOST),
            "script_signature": job.script_signature,
            "name": job.name,
            "account": job.account,
            "partition": job.partition,
            "qos": job.qos,
            **({"arguments": job.arguments.members()} if job.arguments else {}),
        }
    )


def alone_log_sd(jobs: Iterable[FinishedJob]) -> float:
    """Return the sd of ln (rate alone) that runs leave open: the mean over those that tell it."""
    known = [job.disturbance.log_sd for job in jobs if job.disturbance is not None]
    return math.fsum(known) / len(known) if known else 0.0


def finished_jobs(runs: Iterable[Run], submissions: Submissions | None = None) -> list[FinishedJob]:
    """Put the logs of each job together (see same_job.py), the oldest job first."""
    seen = submissions or Submissions(())
    groups = by_job(runs)
    newest = max((run.log.end or 0 for group in groups for run in group), default=0)
    jobs = []
    while groups:  # a job takes half of the memory of its logs
        group = groups.pop()
        if not _still_runs(group[0].job, newest):
            jobs.append(_job(group, seen))
    return sorted(jobs, key=lambda job: (job.start, job.logs))


def latest_jobs(
    store: Store, submissions: Submissions | None = None, *, latest: int = LATEST_RUNS
) -> list[FinishedJob]:
    """Return the jobs of the newest logs, the oldest job first."""
    return finished_jobs(store.runs(store.run_ids(latest=latest)), submissions)


def _still_runs(job: Job | None, now: int) -> bool:
    """Whether the accounting knows of no end, and the job's time is not yet over.

    What it did so far is not what it does. now is the end of the newest log.
    """
    if job is None or job.end is not None or job.state not in NOT_ENDED:
        return False
    return now < (job.start or job.submit) + 60 * (job.time_limit or LONGEST_RUN)


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
        profile=profile_of(runs),
        heatmap=heatmap_of(runs),
        targets=_targets(runs),
    )


def _targets(runs: list[Run]) -> frozenset[int] | None:
    known = [run.log.osts for run in runs]
    return frozenset(ost for osts in known for ost in osts or ()) if all(known) else None


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
    heatmap: bytes | None = None,
    targets: frozenset[int] | None = None,
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
        arguments=_arguments(job, submission),
        heatmap=heatmap,
        targets=targets,
        user=(job.user if job else None) or "",
        predicted=submission.predicted if submission else None,
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


def _arguments(job: Job | None, submission: Submitted | None) -> Arguments | None:
    if submission is not None and submission.arguments is not None:
        return submission.arguments
    return core.arguments_of(job.submit_line) if job and job.submit_line else None


def _signature(job: Job | None, submission: Submitted | None) -> int:
    if submission is not None and submission.script_signature:
        return submission.script_signature
    return (job.script_signature or 0) if job else 0
