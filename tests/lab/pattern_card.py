"""What a pattern classifier is worth on logs that it has not seen, and what simple baselines are.

`cross_examined` trains one without each application and each library in turn; `as_is` asks one that
exists about logs that its training did not have.
"""

from dataclasses import replace

import numpy as np
from pattern_evaluation import SEED, Judgements, judge, quality
from pattern_examples import LABELLED, shares_of
from pattern_training import (
    by_application,
    by_library,
    fit,
    folds,
    is_labelled,
    judged_folds,
    temperature_of,
    writes,
)

from sluice.darshan.features import FEATURES
from sluice.patterns.classifier import MIN_CONFIDENCE

WITHIN = 1.0  # octaves: a factor of two
REPEATS = 5  # shuffles of a feature
CHUNK_ALONE = ("log2_chunk",)


def judge_rules(examples):
    """Let the rules alone say it; they know no doubt."""
    return Judgements(
        np.array([example.pattern for example in examples]),
        np.array([example.by_rules for example in examples]),
        np.ones(len(examples)),
    )


def chunk_quality(examples):
    """Return the errors of the chunk size in octaves; None where no truth is known."""
    known = [example.chunk_octaves for example in examples if example.chunk_octaves is not None]
    if not known:
        return None
    errors = np.abs(np.array(known))
    return {
        "logs": len(errors),
        "median_octaves": _rounded(np.median(errors)),
        "percentile_95_octaves": _rounded(np.quantile(errors, 0.95)),
        "within_factor_two": _rounded((errors <= WITHIN).mean()),
        "errors": [_rounded(error) for error in known],
    }


def importance(examples, predict, names):
    """Return by how much accuracy falls when a feature's values are shuffled among the logs.

    (Breiman, Random Forests, 2001.)
    """
    random = np.random.default_rng(SEED)
    features = np.array([example.features for example in examples], dtype=np.float32)
    truth = np.array([example.pattern for example in examples])
    base = float((predict(features)[0] == truth).mean())
    losses = {}
    for column, name in enumerate(names):
        shuffled = features.copy()
        scores = []
        for _ in range(REPEATS):
            shuffled[:, column] = random.permutation(features[:, column])
            scores.append(float((predict(shuffled)[0] == truth).mean()))
        losses[name] = base - float(np.mean(scores))
    return losses


def cross_examined(examples, synthesised):
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


def as_is(examples, classifier, synthesised):
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
        "importance": _ordered(importance(examples, classifier.predict, FEATURES)),
    }


def _applications(examples):
    return sorted({example.application for example in examples})


def _count(examples, application):
    return sum(example.application == application for example in examples)


def _importance(held_out, temperature):
    """Return the mean over the groups, by their logs."""
    losses = np.zeros(len(FEATURES))
    for fold in held_out:
        predict = replace(fold.classifier, temperature=temperature).predict
        lost = importance(fold.tested, predict, FEATURES)
        losses += len(fold.tested) * np.array([lost[name] for name in FEATURES])
    losses /= sum(len(fold.tested) for fold in held_out)
    return _ordered(dict(zip(FEATURES, losses.tolist(), strict=True)))


def _ordered(losses):
    """Return the features that matter, the most important first."""
    ordered = sorted(losses.items(), key=lambda item: (-item[1], item[0]))
    return {name: round(loss, 4) for name, loss in ordered if abs(loss) >= 0.0005}


def _rounded(value):
    return round(float(value), 4)
