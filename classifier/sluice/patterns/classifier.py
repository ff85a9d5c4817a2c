"""The pattern classifier: what a measurement is called, and how sure that is.

It ships trained (`patterns.npz`); a site can train its own from labelled logs. Evaluation needs
numpy alone.
"""

from __future__ import annotations

import io
import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import numpy as np

from sluice.darshan.features import FEATURES
from sluice.patterns.confidence import doubted, tempered
from sluice.patterns.forest import Forest
from sluice.policies.core import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from sluice.darshan.features import Measurement

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
    """Makes probabilities of the trees' votes (confidence.py)."""

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
