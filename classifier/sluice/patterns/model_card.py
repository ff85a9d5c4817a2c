"""The model card: what a pattern classifier is worth on logs that it has not seen.

Two ways: `cross_examined` trains one without each application and each library in turn;
`as_is` asks one that exists about logs that its training did not have.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from sluice.darshan.features import FEATURES
from sluice.patterns.classifier import MIN_CONFIDENCE
from sluice.patterns.evaluation import (
    chunk_quality,
    importance,
    judge,
    judge_rules,
    quality,
)
from sluice.patterns.examples import LABELLED, shares_of
from sluice.patterns.training import (
    by_application,
    by_library,
    fit,
    folds,
    is_labelled,
    judged_folds,
    temperature_of,
    writes,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sluice.patterns.classifier import PatternClassifier
    from sluice.patterns.examples import Example
    from sluice.patterns.training import Fold

CHUNK_ALONE = ("log2_chunk",)

Card = dict[str, Any]
"""As JSON: figures rounded, lists and texts."""


def cross_examined(examples: Sequence[Example], synthesised: Sequence[Example]) -> Card:
    """Hold out each application among the labelled logs, then each library among all writers."""
    everything = [*synthesised, *examples]
    labelled = [example for example in examples if example.kind == LABELLED]
    applications = folds(everything, by_application, judged=is_labelled)
    libraries = folds(everything, by_library, judged=writes)
    temperature = temperature_of([*applications, *libraries])
    by_chunk = folds(everything, by_application, judged=is_labelled, features_seen=CHUNK_ALONE)
    tested = [example for fold in applications for example in fold.tested]
    return {
        "how": "trained without each application, and without each library, in turn",
        "examples": dict(shares_of(everything)),
        "applications": {fold.name: len(fold.tested) for fold in applications},
        "libraries": {fold.name: len(fold.tested) for fold in libraries},
        "min_confidence": MIN_CONFIDENCE,
        "temperature": round(temperature, 4),
        "unseen_applications": quality(judged_folds(applications, temperature)),
        "unseen_libraries": quality(judged_folds(libraries, temperature)),
        "baselines": {
            "rules alone": quality(judge_rules(tested)),
            "chunk size alone": quality(judged_folds(by_chunk, 1.0)),
        },
        "chunk": chunk_quality(labelled),
        "chunk_synthesised": chunk_quality(synthesised),
        "importance": _importance(applications, temperature),
    }


def as_is(
    examples: Sequence[Example], classifier: PatternClassifier, synthesised: Sequence[Example]
) -> Card:
    """Judge a classifier on labelled logs that must not have been in its training."""
    by_chunk = fit(synthesised, features_seen=CHUNK_ALONE)
    return {
        "how": "a finished classifier, asked about logs that its training did not have",
        "examples": classifier.metrics.get("examples", {}),
        "applications": {name: _count(examples, name) for name in _applications(examples)},
        "min_confidence": MIN_CONFIDENCE,
        "temperature": round(classifier.temperature, 4),
        "unseen_applications": quality(judge(examples, classifier.predict)),
        "baselines": {
            "rules alone": quality(judge_rules(examples)),
            "chunk size alone": quality(judge(examples, by_chunk.predict)),
        },
        "chunk": chunk_quality(examples),
        "importance": _rounded(importance(examples, classifier.predict, FEATURES)),
    }


def _applications(examples: Sequence[Example]) -> list[str]:
    return sorted({example.application for example in examples})


def _count(examples: Sequence[Example], application: str) -> int:
    return sum(example.application == application for example in examples)


def _importance(held_out: Sequence[Fold], temperature: float) -> dict[str, float]:
    """Return the mean over the groups, by their logs."""
    losses = np.zeros(len(FEATURES))
    for fold in held_out:
        predict = replace(fold.classifier, temperature=temperature).predict
        lost = importance(fold.tested, predict, FEATURES)
        losses += len(fold.tested) * np.array([lost[name] for name in FEATURES])
    losses /= sum(len(fold.tested) for fold in held_out)
    return _rounded(dict(zip(FEATURES, losses.tolist(), strict=True)))


def _rounded(losses: dict[str, float]) -> dict[str, float]:
    """Return the features that matter, the most important first."""
    ordered = sorted(losses.items(), key=lambda item: (-item[1], item[0]))
    return {name: round(loss, 4) for name, loss in ordered if abs(loss) >= 0.0005}
