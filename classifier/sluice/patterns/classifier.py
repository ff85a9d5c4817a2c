"""The pattern classifier: its forest, its answers, and how far to trust them.

A trained forest as flat arrays: what scikit-learn learned, without scikit-learn. The core evaluates
it, equal to scikit-learn bit for bit.

Makes confidences honest: of the answers given with 0.8, eight in ten are right. A forest's votes
are no probabilities. One temperature sharpens or softens them all; it is found on answers about
applications and libraries that the forest had not seen, so that it holds where the classifier is
used. (Guo et al., On Calibration of Modern Neural Networks, ICML 2017.)

It ships trained (`patterns.npz`); a site can train its own from labelled logs. Evaluation needs
numpy alone.
"""

from __future__ import annotations

import io
import json
from dataclasses import dataclass, fields
from functools import cache, cached_property
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import numpy as np

from sluice.darshan.features import FEATURES
from sluice.policies.bundle_writer import Trees
from sluice.policies.core import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from sluice.darshan.features import Measurement
    from sluice.history_db.store import Store


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

    @cached_property
    def _trees(self) -> Trees:
        return Trees(self)

    def evaluate(self, rows: NDArray[np.float32]) -> NDArray[np.float64]:
        """(rows, features) -> (rows, outputs): the mean over the trees."""
        return self._trees.evaluate(rows)

    def arrays(self, prefix: str) -> dict[str, Any]:
        """Name the arrays for np.savez."""
        return {f"{prefix}_{field.name}": getattr(self, field.name) for field in fields(self)}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Any], prefix: str) -> Forest:
        parts: dict[str, Any] = {
            field.name: arrays[f"{prefix}_{field.name}"] for field in fields(cls)
        }
        return cls(**parts)


TEMPERATURES = np.geomspace(0.2, 5.0, 97)  # tried in turn; the middle one is 1
FLOOR = 0.002  # of a vote: no finite number of trees proves that something cannot be
BINS = 10
SEED = 20261122
RESAMPLES = 1000


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


def fit_temperature(
    votes: NDArray[np.float64],
    coverage: NDArray[np.floating],
    truth: NDArray[np.intp],
    weights: NDArray[np.float64],
) -> float:
    """Return the temperature that makes the true patterns likeliest; truth is a column each."""
    rows = np.arange(len(votes))
    losses = [
        -float((weights * np.log(doubted(tempered(votes, value), coverage)[rows, truth])).sum())
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
    """Return the expected calibration error: the mean distance of the two in `reliability`.

    Of few answers it is too large: chance alone parts confidence and share in each class.
    """
    place = np.minimum((confidence * BINS).astype(int), BINS - 1)
    gaps = np.bincount(place, weights=confidence - correct, minlength=BINS)
    return float(np.abs(gaps).sum()) / max(1, len(confidence))


def resampled_errors(
    confidence: NDArray[np.float64], correct: NDArray[np.bool_]
) -> tuple[float, float, float]:
    """Return the 95 % interval of the calibration error over resampled answers, and its bias.

    The bias is what answers of the same confidences show on average when each confidence is
    right (Broecker and Smith, Increasing the Reliability of Reliability Diagrams, 2007).
    """
    random = np.random.default_rng(SEED)
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


MIN_CONFIDENCE = 0.5  # below, nothing is said
PACKAGED = "patterns.npz"
COVERAGE = FEATURES.index("coverage")


class ClassifierError(Exception):
    """A pattern classifier cannot be used."""


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

    def to_bytes(self) -> bytes:
        buffer = io.BytesIO()
        np.savez_compressed(
            buffer,
            about=np.array(
                json.dumps(
                    {
                        "features": FEATURES,
                        "patterns": self.patterns,
                        "metrics": self.metrics,
                        "temperature": self.temperature,
                    }
                )
            ),
            **self.forest.arrays("pattern"),
        )
        return buffer.getvalue()

    @classmethod
    def from_bytes(cls, content: bytes) -> PatternClassifier:
        """Read what `to_bytes` made; raises ClassifierError for another version's."""
        with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
            about = json.loads(str(arrays["about"]))
            if tuple(about["features"]) != FEATURES:
                raise ClassifierError(
                    "the pattern classifier was trained for other features; "
                    "train it again with `sluice model train --patterns`"
                )
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


def site_classifier(store: Store) -> PatternClassifier:
    """Return the classifier that a site trained last, else the one that ships."""
    content = store.models.classifier()
    if content is None:
        return packaged_classifier()
    try:
        return PatternClassifier.from_bytes(content)
    except ClassifierError:  # trained by another version, on features that are no longer made
        return packaged_classifier()
