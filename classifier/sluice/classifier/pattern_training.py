"""Trains the pattern classifier and judges it on applications that it has not seen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sluice.classifier.features import FEATURES, measure
from sluice.classifier.fit import SEED, fit_classifier
from sluice.classifier.patterns import MIN_CONFIDENCE, PatternClassifier
from sluice.classifier.profile import reclassified
from sluice.classifier.synthetic import synthetic_runs

if TYPE_CHECKING:
    from sluice.classifier.forest import Forest
    from sluice.history_db.store import Store

SYNTHETIC_PER_PATTERN = 300
REAL_WEIGHT = 3.0  # of a labelled log against a made-up run
TREES = 100
LEAF_SIZE = 3


class TooFewLabelsError(Exception):
    """Nothing can be learned from so few labelled logs."""


@dataclass(frozen=True, slots=True)
class Example:
    """One labelled log."""

    features: np.ndarray[tuple[int], np.dtype[np.float32]]
    pattern: str
    application: str


def train_patterns(examples: list[Example]) -> PatternClassifier:
    """Fit on labelled logs and made-up runs; the metrics come from held-out applications.

    Deterministic. Raises TooFewLabelsError when there are not two applications to hold out.
    """
    applications = sorted({example.application for example in examples})
    if len(applications) < 2:
        raise TooFewLabelsError(
            "the labelled logs come from fewer than two applications, so that none could be held "
            "out; ingest more with `sluice ingest PATH… --labels FILE.csv`"
        )
    made_up = [
        Example(measure(log).features, pattern, "")
        for pattern, log in synthetic_runs(SYNTHETIC_PER_PATTERN, SEED)
    ]
    forest, patterns = _fit(examples, made_up)
    held_out = [
        outcome
        for application in applications
        for outcome in _hold_out(application, examples, made_up)
    ]
    return PatternClassifier(forest, tuple(patterns), _metrics(examples, held_out))


def _fit(examples: list[Example], made_up: list[Example]) -> tuple[Forest, list[str]]:
    rows = [*made_up, *examples]
    return fit_classifier(
        np.array([row.features for row in rows], dtype=np.float32),
        np.array([row.pattern for row in rows]),
        weights=np.array([1.0] * len(made_up) + [REAL_WEIGHT] * len(examples)),
        trees=TREES,
        leaf_size=LEAF_SIZE,
    )


def _hold_out(
    application: str, examples: list[Example], made_up: list[Example]
) -> list[tuple[str, str, float]]:
    """Return (truth, answer, confidence) of an application's logs, learned without it."""
    rest = [example for example in examples if example.application != application]
    tested = [example for example in examples if example.application == application]
    forest, patterns = _fit(rest, made_up)
    shares = forest.evaluate(np.array([example.features for example in tested], dtype=np.float32))
    best = shares.argmax(axis=1)
    return [
        (example.pattern, patterns[i], float(share[i]))
        for example, share, i in zip(tested, shares, best, strict=True)
    ]


def _metrics(examples: list[Example], outcomes: list[tuple[str, str, float]]) -> dict[str, object]:
    correct = np.array([truth == answer for truth, answer, _ in outcomes])
    confidence = np.array([confidence for _, _, confidence in outcomes])
    said = confidence >= MIN_CONFIDENCE
    truths = [example.pattern for example in examples]
    commonest = max(sorted(set(truths)), key=truths.count)
    return {
        "logs": len(examples),
        "applications": len({example.application for example in examples}),
        "held_out_accuracy": round(float(correct.mean()), 4),
        "held_out_answered": round(float(said.mean()), 4),
        "held_out_accuracy_answered": round(float(correct[said].mean()), 4) if said.any() else None,
        "held_out_brier": round(float(((confidence - correct) ** 2).mean()), 4),
        "baseline": commonest,
        "baseline_accuracy": round(truths.count(commonest) / len(truths), 4),
    }


def train_site_patterns(store: Store) -> PatternClassifier:
    """Train on the labelled logs of a history, keep the result there, and name its runs anew.

    Raises TooFewLabelsError or HistoryError.
    """
    labels = {label.log_id: label for label in store.labels()}
    width = 4 * len(FEATURES)  # runs that another version measured have others
    examples = [
        Example(
            np.frombuffer(run.features, dtype="<f4").astype(np.float32),
            labels[run.log_id].pattern,
            labels[run.log_id].application,
        )
        for run in store.runs(sorted(labels))
        if len(run.features) == width
    ]
    classifier = train_patterns(examples)
    store.add_classifier(classifier.to_bytes(), classifier.metrics)
    store.replace_patterns(
        (run.log_id, reclassified(run.profile, run.features, classifier))
        for run in store.runs()
        if len(run.features) == width
    )
    return classifier
