"""Judges pattern classifiers on groups of logs that they have not seen.

A group is an application or a library; holding out random rows would flatter, since the runs of
one program resemble each other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sluice.patterns.classifier import BINS, calibration_error, reliability

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray
    from pattern_examples import Example

    Texts = NDArray[np.str_]
    Predict = Callable[[NDArray[np.float32]], tuple[Texts, NDArray[np.float64]]]
    """Features -> best patterns and confidences."""

SEED = 20261121
ERROR_SEED = 20261122
RESAMPLES = 1000
THRESHOLDS = (0.0, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)


@dataclass(frozen=True, slots=True)
class Judgements:
    """What was said of logs, and what is true."""

    truth: Texts
    answer: Texts
    confidence: NDArray[np.float64]

    @property
    def correct(self) -> NDArray[np.bool_]:
        right: NDArray[np.bool_] = self.truth == self.answer
        return right

    def __len__(self) -> int:
        return len(self.truth)


def joined(parts: Sequence[Judgements]) -> Judgements:
    return Judgements(
        np.concatenate([part.truth for part in parts]),
        np.concatenate([part.answer for part in parts]),
        np.concatenate([part.confidence for part in parts]),
    )


def resampled_errors(
    confidence: NDArray[np.float64], correct: NDArray[np.bool_]
) -> tuple[float, float, float]:
    """Return the 95 % interval of the calibration error over resampled answers, and its bias.

    The bias is what answers of the same confidences show on average when each confidence is
    right (Broecker and Smith, Increasing the Reliability of Reliability Diagrams, 2007).
    """
    random = np.random.default_rng(ERROR_SEED)
    count = len(confidence)
    drawn = random.integers(count, size=(RESAMPLES, count))
    errors = [calibration_error(confidence[rows], correct[rows]) for rows in drawn]
    kept = random.random((RESAMPLES, count)) < confidence
    low, high = np.quantile(errors, [0.025, 0.975])
    return float(low), float(high), float(np.mean([calibration_error(confidence, k) for k in kept]))


def debiased_error(confidence: NDArray[np.float64], correct: NDArray[np.bool_]) -> float:
    """Return the calibration error as a root mean square without the bias of few answers.

    From each of BINS classes with equally many answers the variance of its share is taken off;
    being a root mean square it is, but for chance, not below the expected calibration error.
    (Kumar, Liang and Ma, Verified Uncertainty Calibration, NeurIPS 2019.)
    """
    order = np.argsort(confidence, kind="stable")
    total = 0.0
    for rows in np.array_split(order, min(BINS, len(order) // 2)):
        right = correct[rows].mean()
        gap = (confidence[rows].mean() - right) ** 2
        total += len(rows) * (gap - right * (1 - right) / (len(rows) - 1))
    return float(np.sqrt(max(0.0, total / len(order))))


def judge(examples: Sequence[Example], predict: Predict) -> Judgements:
    """Let a classifier say what it thinks of logs."""
    features = np.array([example.features for example in examples], dtype=np.float32)
    answer, confidence = predict(features)
    return Judgements(np.array([example.pattern for example in examples]), answer, confidence)


def macro_f1(truth: Texts, answer: Texts) -> float:
    """Return the mean over the true patterns of the harmonic mean of precision and recall."""
    scores = []
    for pattern in np.unique(truth):
        hits = float(((truth == pattern) & (answer == pattern)).sum())
        scores.append(2 * hits / float((truth == pattern).sum() + (answer == pattern).sum()))
    return float(np.mean(scores)) if scores else 0.0


def f1_interval(outcomes: Judgements) -> tuple[float, float]:
    """Return the 95 % interval of macro-F1 over resampled logs."""
    random = np.random.default_rng(SEED)
    count = len(outcomes)
    scores = []
    for _ in range(RESAMPLES):
        drawn = random.integers(count, size=count)
        scores.append(macro_f1(outcomes.truth[drawn], outcomes.answer[drawn]))
    low, high = np.quantile(scores, [0.025, 0.975])
    return float(low), float(high)


def confusion(outcomes: Judgements) -> dict[str, dict[str, int]]:
    """Count answers by truth."""
    answers = sorted(set(outcomes.answer.tolist()))
    return {
        truth: {
            answer: int(((outcomes.truth == truth) & (outcomes.answer == answer)).sum())
            for answer in answers
        }
        for truth in sorted(set(outcomes.truth.tolist()))
    }


def abstentions(outcomes: Judgements) -> list[tuple[float, float, float | None]]:
    """Return for each threshold of confidence: share answered, and accuracy of those."""
    rows = []
    for threshold in THRESHOLDS:
        said = outcomes.confidence >= threshold
        right = float(outcomes.correct[said].mean()) if said.any() else None
        rows.append((threshold, float(said.mean()), right))
    return rows


def quality(outcomes: Judgements) -> dict[str, object]:
    """Return all figures about answers, rounded for print; best guesses, none withheld."""
    low, high = f1_interval(outcomes)
    said = (outcomes.confidence, outcomes.correct)
    least, most, chance = resampled_errors(*said)
    return {
        "logs": len(outcomes),
        "accuracy": _rounded(outcomes.correct.mean()),
        "macro_f1": _rounded(macro_f1(outcomes.truth, outcomes.answer)),
        "macro_f1_interval": [_rounded(low), _rounded(high)],
        "calibration_error": _rounded(calibration_error(*said)),
        "calibration_error_interval": [_rounded(least), _rounded(most)],
        "calibration_error_by_chance": _rounded(chance),
        "calibration_error_debiased": _rounded(debiased_error(*said)),
        "reliability": [
            [_rounded(mean), _rounded(right), count] for mean, right, count in reliability(*said)
        ],
        "confusion": confusion(outcomes),
        "abstentions": [
            [threshold, _rounded(said), None if right is None else _rounded(right)]
            for threshold, said, right in abstentions(outcomes)
        ],
    }


def _rounded(value: float | np.floating) -> float:
    return round(float(value), 4)
