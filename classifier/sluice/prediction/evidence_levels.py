"""Levels of evidence, from this script to the whole site, and how often each was right.

Which finished jobs may tell of the next one: those of its script, name, account or site. The more
general the key, the more it takes to say something under it: runs of several users for a name,
several applications for an account or the site. Each of these witnesses counts once, by however
many runs: no user counts more by running more.

Confidence that keeps its promises: how often entries of the table were right, walking in time. Each
job of the past is predicted from what had ended before it was submitted, by the most specific
evidence there was then. Of what was said with confidence p, how much came true? That corrects what
the votes say, for each kind of evidence apart, and only where it was said often enough: elsewhere
it stays as it is.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sluice.policies import core
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


SAMPLE = 4000  # jobs predicted: the latest
MIN_PAIRS = 20
HIGHEST = 0.99  # nothing is certain
BINS = 10  # of the confidence that was said
PRIOR = 10.0  # pairs in each bin that are assumed to have come true as said


@dataclass(frozen=True, slots=True)
class Reliability:
    """A rising line through points (said, came true)."""

    said: tuple[float, ...]
    true: tuple[float, ...]
    pairs: int

    def of(self, confidence: float) -> float:
        return min(float(np.interp(confidence, self.said, self.true)), HIGHEST)


def calibrate(jobs: Sequence[FinishedJob]) -> dict[str, Reliability]:
    """Return the correction for each kind of evidence that was asked often enough."""
    said: dict[str, list[tuple[float, bool]]] = defaultdict(list)
    for evidence, confidence, came_true in predicted(jobs):
        said[evidence].append((confidence, came_true))
    return {
        evidence: corrected(np.array(pairs, dtype=np.float64))
        for evidence, pairs in said.items()
        if len(pairs) >= MIN_PAIRS
    }


def predicted(jobs: Sequence[FinishedJob]) -> list[tuple[str, float, bool]]:
    """Predict the latest jobs one by one: kind of evidence, confidence, and whether it was so.

    The kind is the most specific one that knew anything when the job was submitted.
    """
    ended = sorted(jobs, key=lambda job: (job.end, job.logs))
    groups = groups_of(ended)
    ends = {key: [job.end for job in group] for key, group in groups.items()}
    pairs = []
    for job in sorted(jobs, key=lambda job: (job.submit, job.logs))[-SAMPLE:]:
        if job.profile.pattern == core.UNKNOWN:
            continue  # what was so is unknown
        for number, key in keys_of(job):
            count = bisect_left(ends[number, key], job.submit)
            if count:
                level = LEVELS[number]
                known = latest(level, groups[number, key][:count])
                pattern, confidence = vote(known, weights_of(level, known))
                confidence *= breadth(level, known, pattern)
                came_true = pattern == job.profile.pattern
                if pattern != core.UNKNOWN:
                    pairs.append((level.evidence, confidence, came_true))
                break
    return pairs


def corrected(pairs: Array) -> Reliability:
    """Return the correction that rows (said, whether it came true) ask for.

    The middle of each bin is corrected, and corrections rise (pool adjacent violators).
    """
    said, came_true = pairs.T
    middles = (np.arange(BINS) + 0.5) / BINS
    number = np.minimum((said * BINS).astype(int), BINS - 1)
    count = np.bincount(number, minlength=BINS)
    gain = np.bincount(number, weights=came_true - said, minlength=BINS)
    corrected = middles + gain / (count + PRIOR)
    pools: list[tuple[float, float, int]] = []  # mean, weight, bins
    for value, weight in zip(corrected.tolist(), (count + PRIOR).tolist(), strict=True):
        pools.append((value, weight, 1))
        while len(pools) > 1 and pools[-2][0] > pools[-1][0]:
            (low, w, n), (high, v, m) = pools[-2:]
            pools[-2:] = [((low * w + high * v) / (w + v), w + v, n + m)]
    rising = [mean for mean, _, bins in pools for _ in range(bins)]
    return Reliability(
        said=(0.0, *middles.tolist(), 1.0),
        true=(0.0, *(min(max(value, 0.0), 1.0) for value in rising), 1.0),
        pairs=len(pairs),
    )
