"""Makes confidences honest: of the answers given with 0.8, eight in ten are right.

A forest's votes are no probabilities. One temperature sharpens or softens them all; it is found
on answers about applications and libraries that the forest had not seen, so that it holds where
the classifier is used. (Guo et al., On Calibration of Modern Neural Networks, ICML 2017.)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

TEMPERATURES = np.geomspace(0.2, 5.0, 97)  # tried in turn; the middle one is 1
FLOOR = 0.002  # of a vote: no finite number of trees proves that something cannot be
BINS = 10


def tempered(votes: NDArray[np.float64], temperature: float) -> NDArray[np.float64]:
    """Return probabilities, (rows, patterns), from the shares of the votes."""
    logits = np.log(np.maximum(votes, FLOOR)) / temperature
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    result: NDArray[np.float64] = powers / powers.sum(axis=1, keepdims=True)
    return result


def fit_temperature(
    votes: NDArray[np.float64], truth: NDArray[np.intp], weights: NDArray[np.float64]
) -> float:
    """Return the temperature that makes the true patterns likeliest; truth is a column each."""
    rows = np.arange(len(votes))
    losses = [
        -float((weights * np.log(tempered(votes, value)[rows, truth])).sum())
        for value in TEMPERATURES
    ]
    return float(TEMPERATURES[int(np.argmin(losses))])


def reliability(
    confidence: NDArray[np.float64], correct: NDArray[np.bool_]
) -> list[tuple[float, float, int]]:
    """Return for each class of confidence with answers: its mean, how many were right, count."""
    place = np.minimum((confidence * BINS).astype(int), BINS - 1)
    return [
        (float(confidence[place == k].mean()), float(correct[place == k].mean()), int(n))
        for k in range(BINS)
        if (n := (place == k).sum())
    ]


def calibration_error(confidence: NDArray[np.float64], correct: NDArray[np.bool_]) -> float:
    """Return the expected calibration error: the mean distance of the two in `reliability`."""
    total = max(1, len(confidence))
    return sum(n / total * abs(mean - right) for mean, right, n in reliability(confidence, correct))
