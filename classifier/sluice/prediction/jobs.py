"""Logs -> jobs: what a job was submitted as, and what it did to storage.

Jobs without a Darshan log: a coarse profile of what sacct or Lustre's servers counted. Programs
that crash, are killed, or were never linked with Darshan leave none. Their bytes and rates are
known all the same; how they write is not.

Of others nothing was counted. Where a user's runs of a name leave logs, one without a log and
without bytes says that it does not do what the others did.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from sluice.darshan.features import (
    METADATA_BYTES,
    METADATA_OPERATIONS,
    READ_MOSTLY,
    SIGNIFICANT_BYTES,
)
from sluice.history_db.records import Profile, program_name
from sluice.ingest.trust import bears_out, by_job, is_of_job
from sluice.patterns.job_profile import heatmap_of, profile_of
from sluice.policies import core
from sluice.policies.structs import View, new
from sluice.prediction.submission_features import Requested, Submissions, Submitted, requested_on

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from sluice.history_db.records import Job, Run
    from sluice.history_db.store import Store
    from sluice.policies.core import Arguments
    from sluice.prediction.submission_features import Predicted

    Array = NDArray[np.float64]


MOST = (1 << 32) - 1  # members of 32 bits


def profile_members(profile: Profile) -> dict[str, Any]:
    """Return the members of struct sluice_profile."""
    total = math.fsum(profile.shares.values())
    shares = {name: share / total for name, share in profile.shares.items()} if total else None
    return {
        **profile.numbers,
        "pattern": profile.pattern,
        "confidence": profile.confidence,
        "log_sd": profile.log_sd,
        "runs": min(profile.runs, MOST),
        "share": shares or {core.UNKNOWN: 1.0},
        "spread": profile.spread,
    }


@cache
def _published() -> tuple[core.View, core.View]:
    interference = View(new("struct sluice_interference"))
    return interference, core.default_config().policy


def log_weight(profile: Profile) -> float:
    """Return ln w, how heavily a run presses on a target (policies/core/interference.h)."""
    model, policy = _published()
    return math.log(core.pressure_of(profile_members(profile), model, policy).weight)


NUMBERS = tuple(sorted(field.name for field in core.PROFILE_FIELDS))
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
EXPOSED_LOG_SD = 0.15  # of what is known of the time with co-runners: not every job leaves a log
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
    """Of log_kept: of the estimate of the rate alone."""

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
    decided_as: tuple[str, int] | None = None
    """Cluster and job id of decisions on it; None: the accounting does not know the job."""
    predicted: Predicted | None = None
    """What was predicted of it when it was submitted; None: nothing, or unknown."""
    is_confirmed: bool = False
    """System counters bear out the I/O that the profile claims; see `bears_out`."""

    @property
    def size(self) -> float:
        """Processes as far as the user said; as sluice_submission_size."""
        return float(self.tasks or self.nodes)

    @cached_property
    def moved(self) -> float:
        """Bytes written and read."""
        numbers = self.profile.numbers
        return numbers.get("write_bytes", 0.0) + numbers.get("read_bytes", 0.0)

    @cached_property
    def log_weight(self) -> float:
        """Ln w (jobs.py), worked out once: each entry of its keys asks for it."""
        return log_weight(self.profile)

    @cached_property
    def stem(self) -> str:
        """What its name has in common with those of other runs."""
        return core.name_stem(self.name)

    @cached_property
    def row(self) -> Array:
        """Numbers of the profile in the order of NUMBERS; nan: not known."""
        numbers = self.profile.numbers
        return np.array([numbers.get(name, math.nan) for name in NUMBERS])

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
    """Put the logs of each job together (see trust.py), the oldest job first."""
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
    return finished_jobs(store.runs.runs(store.runs.run_ids(latest=latest)), submissions)


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
    profile = profile_of(runs)
    return described(
        first.job,
        submissions,
        logs=tuple(run.log_id for run in runs),
        uid=first.log.uid or 0,
        program=program_name(first.log.exe or ""),
        processes=first.log.nprocs or 0,
        start=start,
        end=max(run.log.end or 0 for run in runs) or start,
        profile=profile,
        is_confirmed=first.job is not None and bears_out(first.job, profile),
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
    is_confirmed: bool,
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
        decided_as=(job.cluster, job.submission_id) if job else None,
        predicted=submission.predicted if submission else None,
        is_confirmed=is_confirmed,
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


CONFIDENCE = 0.6  # of a pattern that bytes and operations alone tell
LOG_SD = 1.0  # of ln w: nothing is known of chunks, flushes and files


def unlogged_jobs(store: Store, submissions: Submissions, *, latest: int) -> list[FinishedJob]:
    """Return the latest jobs that have no log but whose I/O was counted, the oldest first."""
    return [_described(job, submissions) for job in store.jobs.unlogged_jobs(latest)]


def silent_jobs(
    store: Store, submissions: Submissions, logged: Sequence[FinishedJob], *, latest: int
) -> list[FinishedJob]:
    """Return the latest jobs of which neither a log nor bytes are known, the oldest first.

    Only those of users and names of which there are logs. Logs come later than the accounting:
    what ended after the last of them may yet have one.
    """
    names = {application_of(job.uid, job.name) for job in logged}
    until = max((job.end for job in logged), default=0)
    return [
        _described(job, submissions)
        for job in store.jobs.jobs_without_log(latest)
        if (job.end or 0) <= until
        and (job.write_bytes or 0) + (job.read_bytes or 0) < SIGNIFICANT_BYTES
        and job.uid is not None
        and application_of(job.uid, job.name or "") in names
    ]


def application_of(uid: int, name: str) -> tuple[int, str]:
    return uid, core.name_stem(name)


def _described(job: Job, submissions: Submissions) -> FinishedJob:
    return described(
        job,
        submissions,
        logs=(),
        uid=job.uid or 0,
        program="",
        processes=0,
        start=job.start or 0,
        end=job.end or 0,
        profile=coarse_profile(job),
        is_confirmed=is_of_job(job),
    )


def coarse_profile(job: Job) -> Profile:
    """Return what the figures of a job that ran say."""
    written, read = float(job.write_bytes or 0), float(job.read_bytes or 0)
    seconds = float((job.end or 0) - (job.start or 0))
    numbers = {"write_bytes": written, "read_bytes": read, "runtime_seconds": seconds}
    if job.tasks:
        numbers["nprocs"] = float(job.tasks)
    if job.metadata_operations is not None and seconds > 0:
        # over the whole run time: the least that its rate can have been
        numbers["metadata_rate"] = job.metadata_operations / seconds
    pattern = _pattern(written, read, job.metadata_operations or 0)
    known = pattern != core.UNKNOWN
    return Profile(
        pattern=pattern,
        confidence=CONFIDENCE if known else 0.0,
        shares={pattern: 1.0} if known else {},
        numbers=numbers,
        log_sd=LOG_SD,
    )


def _pattern(written: float, read: float, metadata: int) -> str:
    if metadata >= METADATA_OPERATIONS and (written + read) / metadata < METADATA_BYTES:
        return "metadata"
    if written + read < SIGNIFICANT_BYTES:
        return "none"
    if read > READ_MOSTLY * written:
        return "read"
    return core.UNKNOWN  # it writes: in which way is unknown
