"""Jobs without a Darshan log: a coarse profile of what sacct or Lustre's servers counted.

Programs that crash, are killed, or were never linked with Darshan leave none. Their bytes and
rates are known all the same; how they write is not.

Of others nothing was counted. Where a user's runs of a name leave logs, one without a log and
without bytes says that it does not do what the others did.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluice.darshan.behaviour import METADATA_BYTES, SIGNIFICANT_BYTES
from sluice.darshan.totals import METADATA_OPERATIONS, READ_MOSTLY
from sluice.history_db.records import Profile
from sluice.policies import core
from sluice.prediction.jobs import described

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sluice.history_db.records import Job
    from sluice.history_db.store import Store
    from sluice.prediction.jobs import FinishedJob
    from sluice.prediction.requested import Submissions

CONFIDENCE = 0.6  # of a pattern that bytes and operations alone tell
LOG_SD = 1.0  # of ln w: nothing is known of chunks, flushes and files


def unlogged_jobs(store: Store, submissions: Submissions, *, latest: int) -> list[FinishedJob]:
    """Return the latest jobs that have no log but whose I/O was counted, the oldest first."""
    return [_described(job, submissions) for job in store.unlogged_jobs(latest)]


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
        for job in store.jobs_without_log(latest)
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
    return core.UNKNOWN  # it writes: in which way, nobody saw
