"""Trains the pattern classifier that ships."""

from __future__ import annotations

import io
import json
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING

import numpy as np
from pattern_evaluation import Judgements, joined, judge, quality
from pattern_examples import LABELLED, WEIGHTS, Example, shares_of, synthesised_examples
from pattern_fit import fit_classifier

from sluice.darshan.features import FEATURES
from sluice.patterns.classifier import (
    COVERAGE,
    MIN_CONFIDENCE,
    PatternClassifier,
    doubted,
    tempered,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from numpy.typing import NDArray


SYNTHESISED_PER_PATTERN = 300
TEMPERATURES = np.geomspace(0.2, 5.0, 97)  # tried in turn; the middle one is 1
TREES = 100
LEAF_SIZE = 3
HIDDEN = ("stdio_share", "streamed_share", "mpiio_share", "read_ratio")
SEEN = tuple(name for name in FEATURES if name not in HIDDEN)
"""What the forest may see: not the library, because a pattern is the same through any; and of
reads only share_read, from which what a program is fed with is taken off."""


@dataclass(frozen=True, slots=True)
class Fold:
    """A group of logs and a classifier that has seen none of it."""

    name: str
    tested: list[Example]
    classifier: PatternClassifier


def train_patterns(
    examples: Sequence[Example],
    synthesised: Sequence[Example] | None = None,
    *,
    calibrating: Sequence[Example] = (),
) -> PatternClassifier:
    """Fit on labelled and synthesised logs; judge on held-out applications.

    calibrating: logs of other programs, which teach nothing but how sure an answer about a new
    program may be; without any, held-out applications and libraries tell that.
    Deterministic.
    """
    if synthesised is None:
        synthesised = synthesised_examples(SYNTHESISED_PER_PATTERN)
    everything = [*synthesised, *examples]
    applications = folds(everything, by_application, judged=is_labelled)
    libraries = folds(everything, by_library, judged=writes)
    whole = fit(everything)
    strangers = [Fold("calibrating", list(calibrating), whole)] if calibrating else []
    temperature = temperature_of(strangers or [*applications, *libraries])
    return replace(
        whole,
        temperature=temperature,
        metrics={
            "examples": dict(shares_of(everything)),
            "calibrated_on": len(calibrating),
            "applications": len(applications),
            "libraries": len(libraries),
            "min_confidence": MIN_CONFIDENCE,
            "by_application": quality(judged_folds(applications, temperature)),
        },
    )


def fit(examples: Sequence[Example], *, features_seen: Collection[str] = SEEN) -> PatternClassifier:
    """Fit a forest on examples, by their kind's weight; not calibrated."""
    features = np.array([example.features for example in examples], dtype=np.float32)
    features[:, [name not in features_seen for name in FEATURES]] = 0  # never splits
    forest, patterns = fit_classifier(
        features,
        np.array([example.pattern for example in examples]),
        weights=np.array([WEIGHTS[example.kind] for example in examples]),
        trees=TREES,
        leaf_size=LEAF_SIZE,
    )
    return PatternClassifier(forest, tuple(patterns), {})


def is_labelled(example: Example) -> bool:
    return example.kind == LABELLED


def writes(example: Example) -> bool:
    """Whether the log has a library to speak of."""
    return example.pattern in {"owc", "ws", "aw"}


def by_application(example: Example) -> str:
    return example.application


def by_library(example: Example) -> str:
    """Return the library that writes; what hardly writes is in a group of its own."""
    return example.library if writes(example) else "none"


def folds(
    examples: Sequence[Example],
    group: Callable[[Example], str],
    *,
    judged: Callable[[Example], bool] = lambda _: True,
    features_seen: Collection[str] = SEEN,
) -> list[Fold]:
    """Fit one classifier for each group with judged logs, on all that is not of the group."""
    return [
        Fold(
            name,
            [example for example in examples if group(example) == name and judged(example)],
            fit(
                [example for example in examples if group(example) != name],
                features_seen=features_seen,
            ),
        )
        for name in sorted({group(example) for example in examples if judged(example)})
    ]


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


def temperature_of(held_out: Sequence[Fold]) -> float:
    """Return the temperature (classifier.py) that suits what was said of unseen groups."""
    votes, coverage, truth, weights = [], [], [], []
    for fold in held_out:
        columns = {pattern: i for i, pattern in enumerate(fold.classifier.patterns)}
        known = [example for example in fold.tested if example.pattern in columns]
        features = np.array([example.features for example in known], dtype=np.float32)
        votes.append(fold.classifier.forest.evaluate(features))
        coverage.append(features[:, COVERAGE])
        truth += [columns[example.pattern] for example in known]
        weights += [WEIGHTS[example.kind] for example in known]
    width = max(part.shape[1] for part in votes)
    even = [np.pad(part, ((0, 0), (0, width - part.shape[1]))) for part in votes]
    return fit_temperature(
        np.concatenate(even), np.concatenate(coverage), np.array(truth), np.array(weights)
    )


def judged_folds(held_out: Sequence[Fold], temperature: float) -> Judgements:
    """Return what the classifiers say of the groups that they have not seen."""
    return joined(
        [
            judge(fold.tested, replace(fold.classifier, temperature=temperature).predict)
            for fold in held_out
        ]
    )


def to_bytes(classifier: PatternClassifier) -> bytes:
    """Return what `PatternClassifier.from_bytes` reads."""
    buffer = io.BytesIO()
    about = {
        "features": FEATURES,
        "patterns": classifier.patterns,
        "metrics": classifier.metrics,
        "temperature": classifier.temperature,
    }
    arrays = {
        f"pattern_{field.name}": getattr(classifier.forest, field.name)
        for field in fields(classifier.forest)
    }
    np.savez_compressed(buffer, about=np.array(json.dumps(about)), **arrays)
    return buffer.getvalue()
