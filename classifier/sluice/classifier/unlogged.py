"""Jobs without a Darshan log: a coarse profile of what sacct or Lustre's servers counted.

Programs that crash, are killed, or were never linked with Darshan leave none. Their bytes and
rates are known all the same; how they write is not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluice.classifier.behaviour import METADATA_BYTES, SIGNIFICANT_BYTES
from sluice.classifier.jobs import described
from sluice.classifier.totals import METADATA_OPERATIONS, READ_MOSTLY
from sluice.history_db.records import Profile

if TYPE_CHECKING:
    from sluice.classifier.jobs import FinishedJob
    from sluice.classifier.requested import Submissions
    from sluice.history_db.records import Job
    from sluice.history_db.store import Store

CONFIDENCE = 0.6  # of a pattern that bytes and operations alone tell
LOG_SD = 1.0  # of ln w: nothing is known of chunks, flushes and files


def unlogged_jobs(store: Store, submissions: Submissions, *, latest: int) -> list[FinishedJob]:
    """Return the latest jobs that have no log but whose I/O was counted, the oldest first."""
    return [
        described(
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
        for job in store.unlogged_jobs(latest)
    ]


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
    known = pattern != "unknown"
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
    return "unknown"  # it writes: in which way, nobody saw
