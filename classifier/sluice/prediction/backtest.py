"""How good prediction at submission is: walking forward in time, asking the core itself.

A model learns from what had ended by a moment, and predicts what was submitted afterwards;
then the moment moves on. Nothing is ever learned from the future, and nothing is shuffled.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sluice.policies import core
from sluice.prediction.arguments import VOLUME
from sluice.prediction.jobs import submission_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sluice.policies.bundle import Bundle
    from sluice.policies.core import View
    from sluice.prediction.jobs import FinishedJob

BINS = 10  # of the expected calibration error


@dataclass(frozen=True, slots=True)
class PastPrediction:
    """A job of the past, and what was predicted of it."""

    job: FinishedJob
    prediction: View

    @property
    def is_right(self) -> bool:
        return bool(self.prediction.profile.pattern == self.job.profile.pattern)

    @property
    def counts(self) -> bool:
        return core.counts(self.prediction)

    @property
    def confidence(self) -> float:
        return float(self.prediction.profile.confidence)

    def octaves_off(self, name: str) -> float | None:
        """|log2| of predicted over true; None where either is unknown or nothing."""
        said, true = getattr(self.prediction.profile, name), self.job.profile.numbers.get(name)
        return abs(math.log2(said / true)) if said and true else None

    def is_flagged(self, name: str) -> bool:
        """Whether its spread says that a number may be off by more than a factor of two."""
        return float(self.prediction.profile.spread.get(name, math.inf)) > core.WIDE


@dataclass(frozen=True, slots=True)
class Score:
    """How well jobs were predicted. Shares are None where there is nothing to share."""

    jobs: int
    accuracy: float
    """Of the best guesses, however uncertain."""
    answered: float
    """Share of the jobs for which it was certain enough not to abstain, by the user's own runs."""
    accuracy_answered: float | None
    brier: float
    """Mean square of confidence less outcome."""
    calibration_error: float
    """Expected calibration error, in ten bins of equal width."""
    chunk_within_2: float | None
    """Of the answered ones: share whose chunk is right within a factor of two."""
    bytes_within_2: float | None
    """Likewise of the bytes written."""
    rate_within_2: float | None
    burst_within_2: float | None
    bytes_flagged: float | None
    """Of the answered ones whose bytes are off by more: share whose spread had said so."""
    flagged: float | None
    """Of all answered ones: share whose spread says so of the bytes."""
    baseline: str
    """The pattern that was commonest before."""
    baseline_accuracy: float


def ended_before(jobs: Sequence[FinishedJob], time: int) -> list[FinishedJob]:
    return [job for job in jobs if job.end <= time]


def predict_past(bundle: Bundle, jobs: Sequence[FinishedJob]) -> list[PastPrediction]:
    return [PastPrediction(job, bundle.predict(submission_of(job))) for job in jobs]


def judge(items: Sequence[PastPrediction], earlier: Sequence[FinishedJob]) -> Score:
    """Score predictions; `earlier` is what the model had learned from. There must be some."""
    threshold = core.default_config().policy.min_confidence
    right = np.array([item.is_right for item in items])
    confidence = np.array([item.confidence for item in items])
    answered = (confidence >= threshold) & np.array([item.counts for item in items])
    taken = [item for item, is_taken in zip(items, answered, strict=True) if is_taken]
    patterns = Counter(job.profile.pattern for job in earlier)
    commonest = max(sorted(patterns), key=lambda name: patterns[name], default=core.UNKNOWN)
    return Score(
        jobs=len(items),
        accuracy=float(right.mean()),
        answered=float(answered.mean()),
        accuracy_answered=float(right[answered].mean()) if answered.any() else None,
        brier=float(((confidence - right) ** 2).mean()),
        calibration_error=_calibration_error(confidence, right),
        chunk_within_2=_within_2(taken, "chunk_bytes"),
        bytes_within_2=_within_2(taken, "write_bytes"),
        rate_within_2=_within_2(taken, "rate"),
        burst_within_2=_within_2(taken, "burst_seconds"),
        bytes_flagged=_flagged([item for item in taken if _is_off(item, VOLUME)], VOLUME),
        flagged=_flagged([item for item in taken if item.job.profile.numbers.get(VOLUME)], VOLUME),
        baseline=commonest,
        baseline_accuracy=float(np.mean([item.job.profile.pattern == commonest for item in items])),
    )


def _calibration_error(confidence: np.ndarray, right: np.ndarray) -> float:
    bins = np.minimum((confidence * BINS).astype(int), BINS - 1)
    gaps = [
        abs(float(confidence[bins == i].sum() - right[bins == i].sum()))
        for i in range(BINS)
        if (bins == i).any()
    ]
    return math.fsum(gaps) / len(confidence)


def _within_2(items: Sequence[PastPrediction], name: str) -> float | None:
    off = [octaves for item in items if (octaves := item.octaves_off(name)) is not None]
    return float(np.mean([octaves <= 1.0 for octaves in off])) if off else None


def _is_off(item: PastPrediction, name: str) -> bool:
    octaves = item.octaves_off(name)
    return octaves is not None and octaves > 1.0


def _flagged(items: Sequence[PastPrediction], name: str) -> float | None:
    return float(np.mean([item.is_flagged(name) for item in items])) if items else None


def steps_of(
    jobs: Sequence[FinishedJob], *, days: float, skip: float
) -> Iterator[tuple[list[FinishedJob], list[FinishedJob]]]:
    """Yield (what had ended, what was submitted next), moving on by so many days.

    The first `skip` of the jobs are only learned from.
    """
    ordered = sorted(jobs, key=lambda job: (job.submit, job.logs))
    at = int(len(ordered) * skip)
    submits = [job.submit for job in ordered]
    while at < len(ordered):
        moment = submits[at]
        stop = int(np.searchsorted(submits, moment + days * 86400))
        yield ended_before(ordered, moment), ordered[at:stop]
        at = stop
