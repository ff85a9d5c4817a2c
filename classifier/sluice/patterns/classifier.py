"""The pattern classifier: its forest, its answers, and how far to trust them.

A trained forest as flat arrays: what scikit-learn learned, without scikit-learn. It
gives the same answers, bit for bit.

Makes confidences honest: of the answers given with 0.8, eight in ten are right. A forest's votes
are no probabilities. One temperature sharpens or softens them all; it is found on answers about
applications and libraries that the forest had not seen, so that it holds where the classifier is
used. (Guo et al., On Calibration of Modern Neural Networks, ICML 2017.)

It ships trained (`patterns.npz`, by `make patterns`). Evaluation needs numpy alone.
"""

from __future__ import annotations

import io
import json
from dataclasses import dataclass, fields
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import numpy as np

from sluice.darshan.features import FEATURES
from sluice.policies.core import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from sluice.darshan.features import Measurement


LEAF = -1  # feature of a leaf


@dataclass(eq=False)
class Forest:
    """Nodes of all trees, each tree's behind one another, children as indexes among all."""

    roots: NDArray[np.int32]
    """(trees,): the first node of each tree."""
    feature: NDArray[np.int32]
    """(nodes,): LEAF in a leaf."""
    threshold: NDArray[np.float64]
    left: NDArray[np.int32]
    right: NDArray[np.int32]
    value: NDArray[np.float64]
    """(nodes, outputs): class shares, or means."""

    def evaluate(self, rows: NDArray[np.float32]) -> NDArray[np.float64]:
        """(rows, features) -> (rows, outputs): the mean over the trees."""
        node = np.tile(self.roots, (len(rows), 1))
        row = np.arange(len(rows))[:, np.newaxis]
        while (is_inner := (feature := self.feature[node]) != LEAF).any():
            goes_left = rows[row, feature] <= self.threshold[node]
            child = np.where(goes_left, self.left[node], self.right[node])
            node = np.where(is_inner, child, node)
        total = np.zeros((len(rows), self.value.shape[1]))
        for reached in node.T:  # their order decides on the last bit
            total += self.value[reached]
        mean: NDArray[np.float64] = total / len(self.roots)
        return mean

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Any], prefix: str) -> Forest:
        parts: dict[str, Any] = {
            field.name: arrays[f"{prefix}_{field.name}"] for field in fields(cls)
        }
        return cls(**parts)


FLOOR = 0.002  # of a vote: no finite number of trees proves that something cannot be
BINS = 10


def tempered(votes: NDArray[np.float64], temperature: float) -> NDArray[np.float64]:
    """Return probabilities, (rows, patterns), from the shares of the votes."""
    logits = np.log(np.maximum(votes, FLOOR)) / temperature
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    result: NDArray[np.float64] = powers / powers.sum(axis=1, keepdims=True)
    return result


def doubted(
    probabilities: NDArray[np.float64], coverage: NDArray[np.floating]
) -> NDArray[np.float64]:
    """Return probabilities, (rows, patterns), as far as the records of each row speak for it.

    Of what was not recorded nothing is known: there any pattern is as likely.
    """
    seen = coverage[:, np.newaxis]
    result: NDArray[np.float64] = probabilities * seen + (1 - seen) / probabilities.shape[1]
    return result


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
    """Return the expected calibration error: the mean distance of the two in `reliability`.

    Of few answers it is too large: chance alone parts confidence and share in each class.
    """
    place = np.minimum((confidence * BINS).astype(int), BINS - 1)
    gaps = np.bincount(place, weights=confidence - correct, minlength=BINS)
    return float(np.abs(gaps).sum()) / max(1, len(confidence))


MIN_CONFIDENCE = 0.5  # below, nothing is said
PACKAGED = "patterns.npz"
COVERAGE = FEATURES.index("coverage")


@dataclass(frozen=True, slots=True)
class PatternClassifier:
    """A forest over FEATURES and the patterns that its outputs stand for."""

    forest: Forest
    patterns: tuple[str, ...]
    metrics: dict[str, object]
    temperature: float = 1.0
    """Makes probabilities of the trees' votes (classifier.py)."""

    def predict(self, features: NDArray[np.float32]) -> tuple[Any, NDArray[np.float64]]:
        """Return the likeliest patterns and how likely they are."""
        votes = tempered(self.forest.evaluate(features), self.temperature)
        probabilities = doubted(votes, features[:, COVERAGE])
        answers = np.array(self.patterns)[probabilities.argmax(axis=1)]
        return answers, probabilities.max(axis=1)

    def classify(self, measurements: Sequence[Measurement]) -> list[tuple[str, float]]:
        """Return pattern and confidence of each, or `unknown` when that is too little."""
        if not measurements:
            return []
        answers, confidences = self.predict(np.array([each.features for each in measurements]))
        return [
            (str(answer) if confidence >= MIN_CONFIDENCE else UNKNOWN, float(confidence))
            for answer, confidence in zip(answers, confidences, strict=True)
        ]

    @classmethod
    def from_bytes(cls, content: bytes) -> PatternClassifier:
        """Read what `make patterns` wrote."""
        with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
            about = json.loads(str(arrays["about"]))
            return cls(
                forest=Forest.from_arrays(arrays, "pattern"),
                patterns=tuple(about["patterns"]),
                metrics=about["metrics"],
                temperature=float(about["temperature"]),
            )


@cache
def packaged_classifier() -> PatternClassifier:
    """Return the classifier that ships with Sluice."""
    return PatternClassifier.from_bytes(files(__package__).joinpath(PACKAGED).read_bytes())
