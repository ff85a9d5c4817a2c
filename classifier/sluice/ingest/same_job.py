"""Which logs are of one job.

A program without MPI leaves a log for each of its processes, a job with several steps one for
each. Where the accounting knows the job, that settles it. Elsewhere the same user, job id and
time do, unless the id is none: Darshan takes the process id where the environment names no job.
"""

from __future__ import annotations

import re
from pathlib import PurePath
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sluice.history_db.records import Log, Run

LONGEST_PAUSE = 3600  # seconds between two steps of a job whose accounting is not known
# user_program_id<job>-<pid>_<month>-<day>-<seconds>-…: how the runtime names its logs
LOG_NAME = re.compile(r"_id(\d+)-(\d+)_\d+-\d+-\d+")


def is_pid(log: Log) -> bool:
    """Whether a log's job id is a mere process id, by the name that the runtime gave the file."""
    name = LOG_NAME.search(PurePath(log.path).name)
    return name is not None and name[1] == name[2] and int(name[1]) == log.jobid


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
        elif is_pid(run.log):
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
