"""Which jobs hold or want which tokens, by their licences."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from sluice.slurm.records import QueuedJob

LICENSE = re.compile(r"([^:,;|]+)(?::(\d+))?")


Key = tuple[int, int, int]
"""Job id, submit time and restarts: what tells a job from others with its number."""


@dataclass(frozen=True, slots=True)
class Holding:
    """A job with tokens of ours: it holds them if it runs, and wants them while it waits."""

    job: QueuedJob
    klass: str
    lane_mask: int
    counts: tuple[tuple[str, int], ...]
    """Token and how many of it: 1, unless an administrator gave the job more."""

    @property
    def key(self) -> Key:
        return (self.job.job_id, self.job.submit, self.job.restarts)


def holdings(jobs: Iterable[QueuedJob], names: Mapping[str, tuple[int, str]]) -> list[Holding]:
    """Return the jobs that hold or want tokens."""
    found = []
    for job in jobs:
        if not job.licenses or not (job.is_pending or job.holds_licenses):
            continue
        counts = {
            name: count for name, count in parse_licenses(job.licenses).items() if name in names
        }
        if counts:
            found.append(_holding(job, counts, names))
    return found


def parse_licenses(text: str) -> dict[str, int]:
    """Count the licences in `a:2,b;a`: what is named twice adds up.

    As Slurm does, whatever follows the number is not looked at: users may write there.
    """
    counts: dict[str, int] = {}
    for item in re.split("[,;|]", text):
        if found := LICENSE.match(item):
            counts[found[1]] = counts.get(found[1], 0) + int(found[2] or 1)
    return counts


def _holding(
    job: QueuedJob, counts: Mapping[str, int], names: Mapping[str, tuple[int, str]]
) -> Holding:
    lanes = [names[token][0] for token in counts]
    return Holding(
        job=job,
        klass=names[min(counts)][1],
        lane_mask=sum(1 << lane for lane in set(lanes)),
        counts=tuple(sorted(counts.items())),
    )
