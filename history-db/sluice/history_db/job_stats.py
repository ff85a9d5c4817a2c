"""Reads Lustre's per-job statistics, as `lctl get_param obdfilter.*.job_stats` prints them.

Servers count what each job moved and how often it opened, created or removed; several targets
and servers in one text are added up. A job is known by the number in its `job_id`, which is
what `jobid_var=SLURM_JOB_ID` or a `jobid_name` with %j makes of it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

DATA = {"write_bytes", "read_bytes"}
METADATA = {
    *("open", "close", "mknod", "link", "unlink", "mkdir", "rmdir", "rename"),
    *("getattr", "setattr", "getxattr", "setxattr", "samedir_rename", "crossdir_rename"),
}
_JOB = re.compile(r"^\s*-?\s*job_id:\s*(.*?)\s*$")
_SNAPSHOT = re.compile(r"^\s*snapshot_time:\s*(\d+)")
_COUNTER = re.compile(r"^\s*(\w+):\s*\{(.*)\}\s*$")
_NUMBER = re.compile(r"(\w+):\s*(\d+)")
_JOB_ID = re.compile(r"(?:[A-Za-z][\w.-]*:)?([1-9]\d{0,17})(?:\.\w+)?")  # [node:]job[.step]


class JobStatsError(Exception):
    """The text is not what Lustre prints; the message names line and remedy."""


@dataclass(slots=True)
class JobStats:
    """What the servers counted for one job, so far."""

    job_id: int
    seen: int = 0
    """UTC seconds of the newest snapshot; 0: not said."""
    write_bytes: int = 0
    read_bytes: int = 0
    metadata_operations: int = 0


def parse_job_stats(lines: Iterable[str], *, name: str) -> tuple[dict[int, JobStats], int]:
    """Return the sums by job id, and the number of entries without one.

    Raises JobStatsError.
    """
    found: dict[int, JobStats] = {}
    others = 0
    heading = False
    current: JobStats | None = None
    for line in lines:
        heading = heading or "job_stats:" in line
        job = _JOB.match(line)
        if job:
            number = _number(job[1])
            others += number is None
            current = None if number is None else found.setdefault(number, JobStats(number))
        elif current is not None:
            _add(current, line)
    if not heading:
        raise JobStatsError(
            f"{name}: no `job_stats:` in it; print it with "
            "`lctl get_param obdfilter.*.job_stats mdt.*.job_stats`"
        )
    return found, others


def _number(text: str) -> int | None:
    """Return the job of a job_id; programs outside of jobs have their name and user there."""
    match = _JOB_ID.fullmatch(text.strip("\"'"))
    return int(match[1]) if match else None


def _add(stats: JobStats, line: str) -> None:
    snapshot = _SNAPSHOT.match(line)
    if snapshot:
        stats.seen = max(stats.seen, int(snapshot[1][:18]))
    counter = _COUNTER.match(line)
    if counter is None:
        return
    name, numbers = counter[1], dict(_numbers(counter[2]))
    if name in DATA:
        setattr(stats, name, getattr(stats, name) + numbers.get("sum", 0))
    elif name in METADATA:
        stats.metadata_operations += numbers.get("samples", 0)


def _numbers(text: str) -> Iterator[tuple[str, int]]:
    for name, number in _NUMBER.findall(text):
        yield name, int(number[:18])
