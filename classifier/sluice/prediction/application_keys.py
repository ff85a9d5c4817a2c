"""Which finished jobs may tell of the next one: those of its script, name, account or site.

The more general the key, the more it takes to say something under it: runs of several users for
a name, several applications for an account or the site. Each of these witnesses counts once, by
however many runs: nobody speaks for all by running more than they do.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sluice.policies import core
from sluice.prediction.expectation import HALF_LIFE, recency, vote

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from sluice.prediction.jobs import FinishedJob

LATEST_JOBS = 200  # counted under a key; older ones weigh little
LATEST_OF_WITNESS = 20  # of these: so many keep the jobs of others among them


@dataclass(frozen=True, slots=True)
class Level:
    """A kind of evidence that the application table holds."""

    evidence: str
    label: Callable[[FinishedJob], str]
    witness: Callable[[FinishedJob], object] | None
    """What must vary for the entry to hold for others too; None: the runs themselves do."""
    doubt: float
    """Witnesses that are assumed to disagree."""


def _stem(job: FinishedJob) -> str:
    return core.name_stem(job.name)


LEVELS = (
    Level(
        "user_script",
        lambda job: f"script {job.script_signature:016x} ({_stem(job)}) of user {job.uid}",
        None,
        0,
    ),
    Level("user_name", lambda job: f"{_stem(job)} of user {job.uid}", None, 0),
    Level("name", _stem, lambda job: job.uid, 0.5),
    Level("account", lambda job: f"account {job.account}", _stem, 2.0),
    Level("site", lambda _: "all applications", _stem, 2.0),
)
"""From the specific to the general, as policies/core/predict.c asks them."""


def groups_of(jobs: Sequence[FinishedJob]) -> dict[tuple[int, int], list[FinishedJob]]:
    """Return jobs by (number of the level, key), each group in the order of the jobs."""
    groups: dict[tuple[int, int], list[FinishedJob]] = defaultdict(list)
    for job in jobs:
        for number, key in keys_of(job):
            groups[number, key].append(job)
    return groups


def keys_of(job: FinishedJob) -> Iterator[tuple[int, int]]:
    """Yield number and key of each level that the job has, from the specific to the general."""
    for number, level in enumerate(LEVELS):
        if key := job.keys.get(level.evidence):
            yield number, key


def latest(level: Level, jobs: Sequence[FinishedJob]) -> list[FinishedJob]:
    """Return the latest of the jobs under a key, in their order."""
    if level.witness is None:
        return list(jobs[-LATEST_JOBS:])
    seen: Counter[object] = Counter()
    kept: list[FinishedJob] = []
    for job in reversed(jobs):
        witness = level.witness(job)
        seen[witness] += 1
        if seen[witness] <= LATEST_OF_WITNESS:
            kept.append(job)
        if len(kept) == LATEST_JOBS:
            break
    return kept[::-1]


def weights_of(level: Level, jobs: Sequence[FinishedJob]) -> NDArray[np.float64]:
    """Weigh the jobs under a key, the oldest first, by how much they say about the next."""
    if level.witness is None:
        return recency(jobs)
    by_witness: dict[object, list[int]] = defaultdict(list)
    for place, job in enumerate(jobs):
        by_witness[level.witness(job)].append(place)
    weights = np.zeros(len(jobs))
    total = 0.0
    for places in by_witness.values():
        own = recency([jobs[place] for place in places])
        total += own.sum()
        age = (jobs[-1].start - jobs[places[-1]].start) / HALF_LIFE
        weights[places] = own / own.sum() * 0.5**age
    return weights * total / len(by_witness)


def breadth(level: Level, jobs: Sequence[FinishedJob]) -> float:
    """Return how far the witnesses carry: the share of them that agree, of those that doubt too."""
    if level.witness is None:
        return 1.0
    by_witness: dict[object, list[FinishedJob]] = defaultdict(list)
    for job in jobs:
        by_witness[level.witness(job)].append(job)
    pattern, _ = vote(jobs, weights_of(level, jobs))
    agreeing = sum(vote(group, recency(group))[0] == pattern for group in by_witness.values())
    return agreeing / (len(by_witness) + level.doubt)
