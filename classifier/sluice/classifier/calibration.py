"""Confidence that keeps its promises: how often entries of the table were right, walking in time.

Each job of the past is foretold from what had ended before it was submitted, by the most
specific evidence there was then. Of what was said with confidence p, how much came true? A
logistic curve through these pairs, one for each kind of evidence, corrects what the votes say.
With few pairs it stays near to what they say.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sluice.classifier.applications import LATEST_JOBS, LEVELS, breadth, groups_of, keys_of
from sluice.classifier.expectation import UNKNOWN, recency, vote

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from sluice.classifier.jobs import FinishedJob

    Array = NDArray[np.float64]

SAMPLE = 4000  # jobs foretold: the latest
MIN_PAIRS = 20
LOWEST, HIGHEST = 1e-6, 0.99  # nothing is certain
PRIOR_SD = np.array([0.5, 1.0])  # of slope (around 1) and offset (around 0)
STEPS = 50


@dataclass(frozen=True, slots=True)
class Calibration:
    """p -> sigmoid (slope logit p + offset)."""

    slope: float
    offset: float
    pairs: int

    def of(self, confidence: float) -> float:
        if confidence <= 0:
            return 0.0
        raised = self.slope * float(_logit(np.array(confidence))) + self.offset
        return min(1 / (1 + math.exp(-raised)), HIGHEST)


def calibrate(jobs: Sequence[FinishedJob]) -> dict[str, Calibration]:
    """Return the correction for each kind of evidence that was asked often enough."""
    said: dict[str, list[tuple[float, bool]]] = defaultdict(list)
    for evidence, confidence, came_true in foretold(jobs):
        said[evidence].append((confidence, came_true))
    return {
        evidence: _fit(np.array(pairs, dtype=np.float64))
        for evidence, pairs in said.items()
        if len(pairs) >= MIN_PAIRS
    }


def foretold(jobs: Sequence[FinishedJob]) -> list[tuple[str, float, bool]]:
    """Foretell the latest jobs one by one: kind of evidence, confidence, and whether it was so.

    The kind is the most specific one that knew anything when the job was submitted.
    """
    ended = sorted(jobs, key=lambda job: (job.end, job.logs))
    groups = groups_of(ended)
    ends = {key: [job.end for job in group] for key, group in groups.items()}
    pairs = []
    for job in sorted(jobs, key=lambda job: (job.submit, job.logs))[-SAMPLE:]:
        if job.profile.pattern == UNKNOWN:
            continue  # nobody can say what was so
        for number, key in keys_of(job):
            count = bisect_left(ends[number, key], job.submit)
            if count:
                known = groups[number, key][max(0, count - LATEST_JOBS) : count]
                pattern, confidence = vote(known, recency(known))
                confidence *= breadth(LEVELS[number], known)
                came_true = pattern == job.profile.pattern
                if pattern != UNKNOWN:
                    pairs.append((LEVELS[number].evidence, confidence, came_true))
                break
    return pairs


def _logit(p: Array) -> Array:
    clipped: Array = np.clip(p, LOWEST, HIGHEST)
    return np.log(clipped) - np.log1p(-clipped)


def _fit(pairs: Array) -> Calibration:
    """Fit by Newton's method, drawn towards the identity by the prior."""
    x = np.stack([_logit(pairs[:, 0]), np.ones(len(pairs))], axis=1)
    identity = np.array([1.0, 0.0])
    precision = np.diag(1 / PRIOR_SD**2)
    beta = identity.copy()
    for _ in range(STEPS):
        p = 1 / (1 + np.exp(-x @ beta))
        gradient = x.T @ (pairs[:, 1] - p) - precision @ (beta - identity)
        curvature = (x * (p * (1 - p))[:, np.newaxis]).T @ x + precision
        step = np.linalg.solve(curvature, gradient)
        beta += step
        if np.abs(step).max() < 1e-10:
            break
    return Calibration(max(0.0, float(beta[0])), float(beta[1]), len(pairs))
