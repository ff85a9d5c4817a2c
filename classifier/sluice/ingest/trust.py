"""Which logs are of one job, and whether a log is trusted.

A program without MPI leaves a log for each of its processes, a job with several steps one for each.
Where the accounting knows the job, that settles it. Elsewhere the same user, job id and time do,
unless there is none: Darshan takes the process id where the environment names no job (darshan/).

Any user can put a forged or altered log where Darshan puts its own. It counts only if the file's
owner, the user inside and the user of the job agree, and its times lie within the job. The
accounting comes later than the log, but not for ever: what no job has vouched for by then is not
believed, unless the accounting of its job is read by hand one day.

A log of one's own job passes all that, whatever it claims. So what it claims has effects on others
only as far as counters bear it out that no user can write: those of Slurm's accounting, else those
of the file system's servers. The page of a job's shim is no such counter.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sluice.darshan.features import METADATA_BYTES, METADATA_OPERATIONS
from sluice.history_db.records import COUNT_MARGIN, is_borne_out
from sluice.history_db.tables.jobs import ACCOUNTING_DELAY, CLOCK_SLACK_SECONDS, NO_JOB, WAITS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sluice.history_db.records import Job, Log, Profile, Run
    from sluice.patterns.profile import Reading


MOST_OF_A_NODE = 100e9  # B/s: no node of today moves more, through caches and links together
LONGEST_PAUSE = 3600  # seconds between two steps of a job whose accounting is not known


def by_job(runs: Iterable[Run]) -> list[list[Run]]:
    """Put the runs of each job together, in order of their logs' numbers; deterministic."""
    known: dict[tuple[object, ...], list[Run]] = {}
    unknown: dict[tuple[int | None, int | None], list[Run]] = {}
    groups: list[list[Run]] = []
    for run in sorted(runs, key=lambda run: run.log_id):
        job = run.job
        if job is not None:
            key = (job.cluster, job.job_id, job.submit, job.restarts)
            known.setdefault(key, []).append(run)
        elif run.log.jobid is None:
            groups.append([run])
        else:
            unknown.setdefault((run.log.uid, run.log.jobid), []).append(run)
    groups += known.values()
    for alike in unknown.values():
        groups += _by_time(alike)
    return [sorted(group, key=lambda run: run.log_id) for group in groups]


def _by_time(runs: Sequence[Run]) -> list[list[Run]]:
    """Part runs where nothing ran for long: ids are used again, a pid sooner than a job's."""
    groups: list[list[Run]] = []
    end = 0
    for run in sorted(runs, key=lambda run: (run.log.start or 0, run.log_id)):
        start = run.log.start or 0
        if groups and start <= end + LONGEST_PAUSE:
            groups[-1].append(run)
        else:
            groups.append([run])
            end = 0
        end = max(end, run.log.end or 0)
    return groups


@dataclass(frozen=True, slots=True)
class Doubt:
    """Why a log is not trusted."""

    reason: str
    waits: bool
    """The accounting may yet say that it is true."""


def doubt(reading: Reading, jobs: Sequence[Job], *, now: float) -> Doubt | None:
    """Return why a log is not trusted; None: it is.

    jobs are those of the accounting with the log's job id, on whatever cluster; now is in UTC
    seconds.
    """
    log = reading.log
    if reading.owner != log.uid:
        return _forged(f"the file is user {reading.owner}'s, the log inside user {log.uid}'s")
    if log.end is None or log.end > now + CLOCK_SLACK_SECONDS:
        return _forged(f"it says that it ran until {log.end} (UTC seconds), which is to come")
    at_that_time = [job for job in jobs if _at_that_time(log, job)]
    own = [job for job in at_that_time if job.uid == log.uid]
    if own:
        return None if any(is_possible(job, reading.profile) for job in own) else _impossible(log)
    if log.jobid is None:
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


def _impossible(log: Log) -> Doubt:
    return _forged(f"job {log.jobid} cannot have moved that many bytes in its time on its nodes")


def _waits(job: str) -> Doubt:
    return Doubt(f"{WAITS} {job}", waits=True)


def _at_that_time(log: Log, job: Job) -> bool:
    if job.start is None or log.start is None or log.end is None:
        return False
    return job.start <= log.start + CLOCK_SLACK_SECONDS and (
        job.end is None or job.end >= log.end - CLOCK_SLACK_SECONDS
    )


def is_possible(job: Job, profile: Profile) -> bool:
    """Whether the nodes of a job can have moved what a log claims, in the time that Slurm tells."""
    if job.start is None or job.end is None:
        return True
    seconds = job.end - job.start + CLOCK_SLACK_SECONDS
    return _moved(profile) <= (job.nodes or 1) * MOST_OF_A_NODE * seconds


def bears_out(job: Job, profile: Profile) -> bool:
    """Whether counters bear out what all logs of a job claim together.

    Slurm counts what the processes read and wrote, wherever: the most that storage can have seen.
    What the servers counted under the job's name was moved by somebody, whose log it then is.
    """
    write, read = job.accounted_write_bytes, job.accounted_read_bytes
    if write is None and read is None:
        write, read = job.write_bytes, job.read_bytes
    if write is None and read is None:
        return False
    claimed = profile.numbers
    return (
        is_borne_out(claimed.get("write_bytes", 0.0), write)
        and is_borne_out(claimed.get("read_bytes", 0.0), read)
        and _is_metadata_borne_out(job, profile)
        and is_possible(job, profile)
    )


def _is_metadata_borne_out(job: Job, profile: Profile) -> bool:
    """Whether opens and the like are counted, or few next to the bytes that came with them."""
    names = ("metadata_rate", "io_share", "runtime_seconds")
    operations = math.prod(profile.numbers.get(name, 0.0) for name in names)
    is_heavy = profile.pattern == "metadata" or _moved(profile) < METADATA_BYTES * operations
    counted = COUNT_MARGIN * (job.metadata_operations or 0) + METADATA_OPERATIONS
    return not is_heavy or operations <= counted


def is_of_job(job: Job) -> bool:
    """Whether counts of a job without a log are its own.

    Any process can tell Lustre's servers that it is of that job. Slurm or the kernel must agree.
    """
    if job.served_uid is not None and job.served_uid == job.uid:
        return True
    if job.accounted_write_bytes is None and job.accounted_read_bytes is None:
        return False
    return (
        is_borne_out(job.write_bytes or 0, job.accounted_write_bytes)
        and is_borne_out(job.read_bytes or 0, job.accounted_read_bytes)
        and (job.metadata_operations or 0) < METADATA_OPERATIONS
    )


def _moved(profile: Profile) -> float:
    return profile.numbers.get("write_bytes", 0.0) + profile.numbers.get("read_bytes", 0.0)
