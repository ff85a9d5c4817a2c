"""Matches a decision record with the job that it is about.

At submission there is no job id. In advise the note on the job carries the record's number;
otherwise record and job meet by what both know. Whatever cannot be told apart is a tie and is
reported as one, never guessed. Pure functions: state in, matching out.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Generic, TypeVar

from sluice.policies import core

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence

JobKey = TypeVar("JobKey", bound="Hashable")
WINDOW = 1  # seconds between a record's time and the job's submit time
PLACE = re.compile(r"sluice\(v=1,[^()]*,place=(\d{1,3})\+(\d{1,3})\)")
MARK = re.compile(r"sluice\(v=1,rec=([0-9a-f]{1,16})-(\d{1,20}),")


@dataclass(frozen=True, slots=True)
class RecordTraits:
    """What a record tells of its job. None, 0 and empty: the user did not give it."""

    uid: int
    now: int
    name: str
    """As far as the record keeps it: NAME_SIZE - 1 bytes."""
    is_array: bool
    component: int | None
    """0: first of a heterogeneous job, 1: a later one, None: no such job."""
    nodes: int = 0
    time_limit: int = 0
    account: str = ""
    partitions: tuple[str, ...] = ()
    submit_line_hash: int = 0


@dataclass(frozen=True, slots=True)
class JobTraits:
    """What Slurm tells of a submission."""

    uid: int
    submit: int
    name: str
    """Cut like the record's."""
    is_array: bool
    component: int | None
    nodes: int = 0
    time_limit: int | None = None
    account: str | None = None
    partitions: tuple[str, ...] = ()
    submit_line_hash: int | None = None
    """Only accounting knows it, later (accounting_poll.py); None: not known."""


RecordKey = tuple[int, int]
"""Boot and number of a record."""


@dataclass(frozen=True, slots=True)
class Submitted(Generic[JobKey]):
    """A submission that Slurm knows and that has no record yet."""

    key: JobKey
    """Whatever the caller tells jobs apart by; never the job id alone."""
    traits: JobTraits
    marks: tuple[RecordKey, ...] = ()
    """Record numbers found in notes on the job; users can forge some on their own jobs."""
    requeued: bool = False
    """Its submit time is no longer that of the submission: only a mark can tell."""


@dataclass(frozen=True, slots=True)
class Join(Generic[JobKey]):
    record: RecordKey
    job: JobKey
    by: str
    """`mark` or `key`."""


@dataclass(frozen=True, slots=True)
class Tie(Generic[JobKey]):
    """Records and jobs of which each could belong to several of the others."""

    records: tuple[RecordKey, ...]
    jobs: tuple[JobKey, ...]
    latest: int
    """The latest time in it: members may still be missing right after it."""


@dataclass(frozen=True, slots=True)
class Matching(Generic[JobKey]):
    joins: list[Join[JobKey]] = field(default_factory=list)
    ties: list[Tie[JobKey]] = field(default_factory=list)


def marks_in(comment: str) -> tuple[RecordKey, ...]:
    """Find the record numbers in what may be an admin comment."""
    return tuple({(boot_of(boot), int(number)) for boot, number in MARK.findall(comment)})


def block_in(comment: str) -> tuple[int, int]:
    """Find the first target and how many in what may be an admin comment; (0, 0): none."""
    found = PLACE.search(comment)
    block = (int(found[1]), int(found[2])) if found else (0, 0)
    return block if core.is_block(*block) else (0, 0)


@lru_cache(maxsize=64)  # all jobs of a life of slurmctld share one
def boot_of(text: str) -> int:
    return int(text, 16)


def match(
    records: dict[RecordKey, RecordTraits], jobs: Sequence[Submitted[JobKey]]
) -> Matching[JobKey]:
    """Match records with jobs; no record and no job is in more than one join or tie.

    A record without any job (its submission may have been rejected) and a job without any
    record are left out.
    """
    result: Matching[JobKey] = Matching()
    by_mark = list(
        join_by_mark(
            lambda mark: records[mark].uid if mark in records else None,
            ((job.key, job.traits.uid, job.marks) for job in jobs),
        )
    )
    result.joins.extend(by_mark)
    joined_records = {join.record for join in by_mark}
    joined_jobs = {join.job for join in by_mark}

    # Equal traits cannot be told apart: work on groups, so that a thousand equal
    # submissions cost as much as one.
    record_groups: dict[RecordTraits, list[RecordKey]] = defaultdict(list)
    for key, traits in records.items():
        if key not in joined_records:
            record_groups[traits].append(key)
    job_groups: dict[JobTraits, list[JobKey]] = defaultdict(list)
    for job in jobs:
        if job.key not in joined_jobs and not job.requeued:
            job_groups[job.traits].append(job.key)

    for some_records, some_jobs in _connected(record_groups, job_groups):
        members = [key for traits in some_records for key in record_groups[traits]]
        candidates = [key for traits in some_jobs for key in job_groups[traits]]
        if len(members) == len(candidates) == 1:
            result.joins.append(Join(members[0], candidates[0], "key"))
            continue
        latest = max(*(t.now for t in some_records), *(t.submit for t in some_jobs))
        result.ties.append(Tie(tuple(sorted(members)), tuple(candidates), latest))
    return result


def fits(record: RecordTraits, job: JobTraits) -> bool:
    """Whether the record may be about the job."""
    return (
        record.uid == job.uid
        and record.name == job.name
        and abs(job.submit - record.now) <= WINDOW
        and record.is_array == job.is_array
        and record.component == (None if job.component is None else min(job.component, 1))
        and job.nodes >= record.nodes
        and record.time_limit in {0, job.time_limit}
        and record.account in {"", job.account}
        and (not record.partitions or set(job.partitions) <= set(record.partitions))
        and job.submit_line_hash in {None, record.submit_line_hash}
    )


def join_by_mark(
    uid_of: Callable[[RecordKey], int | None],
    jobs: Iterable[tuple[JobKey, int, tuple[RecordKey, ...]]],
) -> Iterator[Join[JobKey]]:
    """Join by the notes; they prove nothing on another user's job, nor when they contradict.

    uid_of tells whose record it is, None: nobody's; a job is its key, its user and its marks.
    """
    carriers: dict[RecordKey, JobKey | None] = {}
    for key, uid, marks in jobs:
        carried = [mark for mark in marks if uid_of(mark) == uid]
        for mark in carried:
            carriers[mark] = key if len(carried) == 1 and mark not in carriers else None
    return (Join(mark, key, "mark") for mark, key in carriers.items() if key is not None)


def _connected(
    records: Iterable[RecordTraits], jobs: Iterable[JobTraits]
) -> list[tuple[set[RecordTraits], set[JobTraits]]]:
    """Return the connected parts of the graph of `fits` that have both records and jobs."""
    by_name: dict[tuple[int, str, int], list[JobTraits]] = defaultdict(list)
    for job in jobs:
        by_name[job.uid, job.name, job.submit].append(job)
    jobs_of: dict[RecordTraits, list[JobTraits]] = {}
    records_of: dict[JobTraits, list[RecordTraits]] = defaultdict(list)
    for record in records:
        jobs_of[record] = [
            job
            for second in range(record.now - WINDOW, record.now + WINDOW + 1)
            for job in by_name.get((record.uid, record.name, second), ())
            if fits(record, job)
        ]
        for job in jobs_of[record]:
            records_of[job].append(record)

    parts: list[tuple[set[RecordTraits], set[JobTraits]]] = []
    visited: set[RecordTraits] = set()
    for record, near in jobs_of.items():
        if near and record not in visited:
            part = _part_around(record, jobs_of, records_of)
            visited |= part[0]
            parts.append(part)
    return parts


def _part_around(
    first: RecordTraits,
    jobs_of: dict[RecordTraits, list[JobTraits]],
    records_of: dict[JobTraits, list[RecordTraits]],
) -> tuple[set[RecordTraits], set[JobTraits]]:
    """Return everything that can be reached from a record."""
    part_records, part_jobs = {first}, set[JobTraits]()
    queue = [first]
    while queue:
        for job in jobs_of[queue.pop()]:
            if job in part_jobs:
                continue
            part_jobs.add(job)
            new = set(records_of[job]) - part_records
            part_records |= new
            queue.extend(new)
    return part_records, part_jobs
