"""Confidence that keeps its promises: how often entries of the table were right, walking in time.

Each job of the past is predicted from what had ended before it was submitted, by the most
specific evidence there was then. Of what was said with confidence p, how much came true? That
corrects what the votes say, for each kind of evidence apart, and only where it was said often
enough: elsewhere it stays as it is.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sluice.policies import core
from sluice.prediction.application_keys import (
    LEVELS,
    breadth,
    groups_of,
    keys_of,
    latest,
    weights_of,
)
from sluice.prediction.expectation import vote

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from sluice.prediction.jobs import FinishedJob

    Array = NDArray[np.float64]

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
            continue  # nobody can say what was so
        for number, key in keys_of(job):
            count = bisect_left(ends[number, key], job.submit)
            if count:
                level = LEVELS[number]
                known = latest(level, groups[number, key][:count])
                pattern, confidence = vote(known, weights_of(level, known))
                confidence *= breadth(level, known)
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
