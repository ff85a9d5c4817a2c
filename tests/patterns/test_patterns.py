"""The pattern classifier: equal to scikit-learn, honest, and what ships is what was trained."""

import csv
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pattern_examples import Example, example_of, labelled_examples, read_labels
from pattern_fit import export
from pattern_training import to_bytes, train_patterns
from sklearn.ensemble import ExtraTreesClassifier, ExtraTreesRegressor

from sluice.darshan.features import FEATURES, Measurement, measure
from sluice.darshan.log import read_log
from sluice.patterns.classifier import (
    Forest,
    PatternClassifier,
    packaged_classifier,
)

LOGS = Path(__file__).parents[1] / "data" / "darshan"
PROGRAMS = LOGS.parent / "programs"


@pytest.fixture(scope="module")
def examples() -> list[Example]:
    with (LOGS / "index.csv").open() as file:
        return [
            example_of(
                measure(read_log(LOGS / row["file"])),
                {"META": "metadata"}.get(row["pattern"], row["pattern"].lower()),
                row["app"],
            )
            for row in csv.DictReader(file)
            if row["label_quality"].startswith("clean")
        ]


def real_programs() -> list[Example]:
    """Those that calibrate what ships."""
    found = []
    for name in ("labels.csv", *(f"round{number}.csv" for number in range(6, 11))):
        with (PROGRAMS / name).open() as file:
            rows = [row for row in read_labels(file) if row.certain]
        found += labelled_examples(PROGRAMS, rows)
    return found


@settings(deadline=None, max_examples=30)
@given(
    seed=st.integers(0, 1 << 20),
    trees=st.integers(1, 12),
    classes=st.integers(2, 6),
    leaf_size=st.integers(1, 5),
)
def test_a_forest_in_numpy_equals_scikit_learns_bit_for_bit(seed, trees, classes, leaf_size):
    random = np.random.default_rng(seed)
    rows = random.normal(size=(80, 5)).astype(np.float32)
    labels = random.integers(classes, size=80)
    targets = random.normal(size=(80, 3))
    options = {"n_estimators": trees, "min_samples_leaf": leaf_size, "random_state": seed}
    classifier = ExtraTreesClassifier(**options).fit(rows, labels)
    regressor = ExtraTreesRegressor(**options).fit(rows, targets)
    fresh = random.normal(size=(300, 5)).astype(np.float32)
    np.testing.assert_array_equal(
        export(classifier.estimators_).evaluate(fresh), classifier.predict_proba(fresh)
    )
    np.testing.assert_array_equal(
        export(regressor.estimators_).evaluate(fresh), regressor.predict(fresh)
    )


def test_a_left_child_follows_its_parent():
    random = np.random.default_rng(1)
    model = ExtraTreesClassifier(5, random_state=1).fit(random.normal(size=(99, 3)), [0, 1, 2] * 33)
    forest = export(model.estimators_)
    inner = np.flatnonzero(forest.feature >= 0)
    np.testing.assert_array_equal(forest.left[inner], inner + 1)


@pytest.mark.acceptance
def test_what_ships_is_what_the_labelled_logs_teach(examples):
    """`make patterns` made it from tests/data."""
    trained = train_patterns(examples, calibrating=real_programs())
    packaged = packaged_classifier()
    assert trained.metrics == packaged.metrics
    assert trained.temperature == packaged.temperature
    for field in fields(trained.forest):
        theirs = getattr(packaged.forest, field.name)
        np.testing.assert_array_equal(getattr(trained.forest, field.name), theirs)


def test_it_is_judged_on_applications_that_it_has_not_seen():
    metrics = packaged_classifier().metrics
    assert metrics["applications"] == 4
    assert metrics["examples"] == {"labelled": 103, "synthesised": 2100}
    assert metrics["calibrated_on"] == 485
    held_out = metrics["by_application"]
    assert held_out["logs"] == 103
    assert held_out["accuracy"] > 0.95
    assert held_out["macro_f1"] > 0.9
    assert held_out["calibration_error"] < 0.05


def test_bytes_come_back_as_the_same_classifier():
    classifier = packaged_classifier()
    again = PatternClassifier.from_bytes(to_bytes(classifier))
    rows = np.random.default_rng(1).normal(size=(10, len(FEATURES))).astype(np.float32)
    np.testing.assert_array_equal(again.forest.evaluate(rows), classifier.forest.evaluate(rows))
    assert again.patterns == classifier.patterns


def test_it_abstains_when_the_trees_disagree():
    leaf = np.zeros(1, dtype=np.int32)
    undecided = Forest(leaf, leaf - 1, np.zeros(1), leaf, leaf, np.array([[0.34, 0.33, 0.33]]))
    classifier = PatternClassifier(undecided, ("owc", "ws", "aw"), {})
    features = np.zeros(len(FEATURES), dtype=np.float32)
    features[FEATURES.index("coverage")] = 1.0
    ((pattern, confidence),) = classifier.classify([Measurement(features, {}, {}, {}, 1.0)])
    assert pattern == "unknown"
    assert confidence == pytest.approx(0.34)


def test_it_needs_no_scikit_learn_to_classify():
    code = (
        "import sys; from pathlib import Path; from sluice.patterns.profile import read_profile;"
        f"print(read_profile(Path({str(LOGS / '001_ior_owc_posix_2K_n1_fpp.darshan')!r}))"
        ".profile.pattern, 'sklearn' in sys.modules)"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout.split() == ["owc", "False"]
