"""Whether a log that somebody dropped into a directory is believed.

Any user can put a forged or altered log where Darshan puts its own. It counts only if the
file's owner, the user inside and the user of the job agree, and its times lie within the job.
The accounting comes later than the log, but not for ever: what no job has vouched for by then is
not believed, unless the accounting of its job is read by hand one day.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sluice.history_db.tables.links import ACCOUNTING_DELAY, CLOCK_SLACK_SECONDS, NO_JOB, WAITS
from sluice.ingest.same_job import is_pid

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sluice.history_db.records import Job, Log
    from sluice.patterns.profile import Reading


@dataclass(frozen=True, slots=True)
class Doubt:
    """Why a log is not believed."""

    reason: str
    waits: bool
    """The accounting may yet say that it is true."""


def doubt(reading: Reading, jobs: Sequence[Job], *, now: float) -> Doubt | None:
    """Return why a log is not believed; None: it is.

    jobs are those of the accounting with the log's job id, on whatever cluster; now is in UTC
    seconds.
    """
    log = reading.log
    if reading.owner != log.uid:
        return _forged(f"the file is user {reading.owner}'s, the log inside user {log.uid}'s")
    if log.end is None or log.end > now + CLOCK_SLACK_SECONDS:
        return _forged(f"it says that it ran until {log.end} (UTC seconds), which is to come")
    at_that_time = [job for job in jobs if _at_that_time(log, job)]
    if any(job.uid == log.uid for job in at_that_time):
        return None
    if not jobs and (log.jobid is None or is_pid(log)):
        return _forged("it ran outside of a job: its job id is that of a process")
    found = _mismatch(log, jobs, at_that_time)
    if found.waits and log.end < now - ACCOUNTING_DELAY:
        return Doubt(NO_JOB, waits=False)
    return found


def _mismatch(log: Log, jobs: Sequence[Job], at_that_time: Sequence[Job]) -> Doubt:
    if any(job.uid is None for job in at_that_time):
        return _waits(f"{log.jobid} with the field UID")
    if at_that_time:
        owner = at_that_time[0].uid
        return _forged(f"job {log.jobid} was user {owner}'s, the log is user {log.uid}'s")
    own = [job for job in jobs if job.uid == log.uid]
    if own:
        return _forged(
            f"it says that it ran from {log.start} to {log.end} (UTC seconds), "
            f"job {log.jobid} from {own[0].start} to {own[0].end}"
        )
    return _waits(str(log.jobid))


def _forged(reason: str) -> Doubt:
    return Doubt(f"not believed: {reason}", waits=False)


def _waits(job: str) -> Doubt:
    return Doubt(f"{WAITS} {job}", waits=True)


def _at_that_time(log: Log, job: Job) -> bool:
    if job.start is None or log.start is None or log.end is None:
        return False
    return job.start <= log.start + CLOCK_SLACK_SECONDS and (
        job.end is None or job.end >= log.end - CLOCK_SLACK_SECONDS
    )
