"""Levels of evidence: which finished jobs may tell of the next one.

Those of its script or name by its user, and those of
its name by anybody. Of a name runs of several users tell, each of which counts once, by however
many runs: no user counts more by running more.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sluice.prediction.expectation import HALF_LIFE, recency, recency_of, vote

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from sluice.prediction.jobs import FinishedJob

    Array = NDArray[np.float64]


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
    return job.stem


LEVELS = (
    Level(
        "user_script",
        lambda job: f"script {job.script_signature:016x} ({_stem(job)}) of user {job.uid}",
        None,
        0,
    ),
    Level("user_name", lambda job: f"{_stem(job)} of user {job.uid}", None, 0),
    Level("name", _stem, lambda job: job.uid, 0.5),
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
    if len(by_witness) == 1:
        return recency(jobs)
    groups = [[jobs[place] for place in places] for places in by_witness.values()]
    own = recency_of(groups)
    counts = np.array([len(group) for group in groups])
    sums = np.add.reduceat(own, np.cumsum(counts) - counts)
    age = np.array([jobs[-1].start - group[-1].start for group in groups]) / HALF_LIFE
    weights = np.zeros(len(jobs))
    flat = [place for places in by_witness.values() for place in places]
    weights[flat] = own * np.repeat(0.5**age / sums, counts)
    return weights * float(sums.sum()) / len(by_witness)


def breadth(level: Level, jobs: Sequence[FinishedJob], pattern: str) -> float:
    """Return how far the witnesses carry: the share of them that agree, of those that doubt too.

    pattern: what the jobs speak for, by the weights that the level gives them.
    """
    if level.witness is None:
        return 1.0
    by_witness: dict[object, list[FinishedJob]] = defaultdict(list)
    for job in jobs:
        by_witness[level.witness(job)].append(job)
    agreeing = sum(_pattern_of(group) == pattern for group in by_witness.values())
    return agreeing / (len(by_witness) + level.doubt)


def _pattern_of(jobs: Sequence[FinishedJob]) -> str:
    """Return the pattern that runs, the oldest first, speak for; of a single one by any weights."""
    first = jobs[0].profile.pattern
    if all(job.profile.pattern == first for job in jobs):
        return first
    return vote(jobs, recency(jobs))[0]
