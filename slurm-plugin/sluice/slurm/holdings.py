"""Which jobs hold or want which tokens, by their licences, and how Slurm is told otherwise."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sluice.policies.tokens import LICENSES_SIZE
from sluice.slurm.records import LicenseChange

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
        return key_of(self.job)


def key_of(job: QueuedJob) -> Key:
    return (job.job_id, job.submit, job.restarts)


def holdings(jobs: Iterable[QueuedJob], names: Mapping[str, tuple[int, str]]) -> list[Holding]:
    """Return the jobs that hold or want tokens."""
    found = (holding_of(job, names) for job in jobs)
    return [holding for holding in found if holding is not None]


def holding_of(job: QueuedJob, names: Mapping[str, tuple[int, str]]) -> Holding | None:
    """Return what a job holds or wants; None: no token."""
    if not job.licenses or not (job.is_pending or job.holds_licenses):
        return None
    counts = {name: count for name, count in parse_licenses(job.licenses).items() if name in names}
    if not counts:
        return None
    lanes = {names[token][0] for token in counts}
    return Holding(
        job=job,
        klass=names[min(counts)][1],
        lane_mask=sum(1 << lane for lane in lanes),
        counts=tuple(sorted(counts.items())),
    )


def parse_licenses(text: str) -> dict[str, int]:
    """Count the licences in `a:2,b;a`: what is named twice adds up.

    As Slurm does, whatever follows the number is not looked at: users may write there.
    """
    counts: dict[str, int] = {}
    for item in re.split("[,;|]", text):
        if found := LICENSE.match(item):
            counts[found[1]] = counts.get(found[1], 0) + int(found[2] or 1)
    return counts


def release_of(holding: Holding, licenses: Mapping[str, object]) -> LicenseChange:
    """Return the change that leaves a job all licences but our tokens.

    The text is put together from names that the controller has, never copied: users may write
    behind a number whatever they like.
    """
    return LicenseChange(holding.job, ",".join(_own(holding, licenses)))


def exchange_of(
    holding: Holding, licenses: Mapping[str, object], tokens: Iterable[str]
) -> LicenseChange | None:
    """Return the change that gives a waiting job these tokens for its own; None: no room."""
    text = ",".join([*_own(holding, licenses), *tokens])
    return LicenseChange(holding.job, text) if len(text) < LICENSES_SIZE else None


def _own(holding: Holding, licenses: Mapping[str, object]) -> list[str]:
    """Return the licences that are not ours."""
    tokens = dict(holding.counts)
    return [
        f"{name}:{count}"
        for name, count in parse_licenses(holding.job.licenses).items()
        if name in licenses and name not in tokens
    ]
