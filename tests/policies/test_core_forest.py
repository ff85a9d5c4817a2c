"""The C evaluation of forests equals scikit-learn's bit for bit."""

from __future__ import annotations

import numpy as np
import pytest
from core_cases import bundle, submission
from forest_arrays import Arrays, arrays_of
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

from sluice.policies import core

COUNT = len(core.FEATURES)


def rows_like_features(generator: np.random.Generator, count: int) -> np.ndarray:
    """A few distinct values alongside a continuum, as real features have."""
    rows = generator.normal(size=(count, COUNT)) * 3
    rows[:, ::2] = generator.integers(0, 4, size=rows[:, ::2].shape)
    return rows.astype(np.float32)


@settings(max_examples=25)
@given(
    seed=st.integers(0, 2**32 - 1),
    trees=st.integers(1, 20),
    leaves=st.integers(2, 256),
    classes=st.integers(2, len(core.PATTERNS)),
)
def test_probabilities_equal_those_of_a_generated_classifier(seed, trees, leaves, classes):
    generator = np.random.default_rng(seed)
    rows = rows_like_features(generator, 300)
    labels = generator.integers(0, classes, size=len(rows))
    forest = RandomForestClassifier(trees, max_leaf_nodes=leaves, random_state=seed % 1000)
    forest.fit(rows, labels)
    meaning = [core.PATTERNS[label] for label in forest.classes_]
    model = bundle(patterns=arrays_of(forest, meaning))
    probes = np.vstack([rows_like_features(generator, 200), rows[:50]])
    assert (model.evaluate(0, probes) == forest.predict_proba(probes)).all()


@settings(max_examples=25)
@given(
    seed=st.integers(0, 2**32 - 1),
    trees=st.integers(1, 20),
    leaves=st.integers(2, 256),
    outputs=st.integers(1, len(core.PROFILE_FIELDS)),
)
def test_values_equal_those_of_a_generated_regressor(seed, trees, leaves, outputs):
    generator = np.random.default_rng(seed)
    rows = rows_like_features(generator, 300)
    targets = np.abs(generator.normal(size=(len(rows), outputs)) * 20).clip(0, 60)
    forest = RandomForestRegressor(trees, max_leaf_nodes=leaves, random_state=seed % 1000)
    forest.fit(rows, targets if outputs > 1 else targets[:, 0])
    meaning = [field.name for field in core.PROFILE_FIELDS[:outputs]]
    model = bundle(numbers=arrays_of(forest, meaning))
    probes = rows_like_features(generator, 200)
    expected = forest.predict(probes).reshape(len(probes), outputs)
    assert (model.evaluate(1, probes) == expected).all()


@pytest.fixture(scope="module")
def fitted():
    """Forests that saw users 0 to 9, of whom the even ones stream."""
    generator = np.random.default_rng(7)
    jobs = [submission(uid=uid, name=f"job{uid % 2}") for uid in generator.integers(0, 10, 400)]
    rows = core.features(jobs)
    is_streaming = np.array([job.uid % 2 == 0 for job in jobs])
    patterns = RandomForestClassifier(20, random_state=1).fit(rows, is_streaming)
    numbers = RandomForestRegressor(20, random_state=1).fit(
        rows, np.log2(1 + np.where(is_streaming[:, None], [2**20, 0.5, 1], [4096, 0.1, 0]))
    )
    fields = ["chunk_bytes", "io_share", "async_io"]
    return bundle(patterns=arrays_of(patterns, ["owc", "aw"]), numbers=arrays_of(numbers, fields))


def test_a_job_without_history_gets_its_profile_from_the_forests(fitted):
    prediction = fitted.predict(submission(uid=4, name="job0"))
    assert prediction.evidence == "forest"
    assert prediction.profile.pattern == "aw"
    assert prediction.profile.confidence > 0.95
    assert prediction.profile.chunk_bytes == pytest.approx(2**20, rel=0.1)
    assert prediction.profile.io_share == pytest.approx(0.5, rel=0.1)
    assert prediction.profile.async_io == 1.0
    assert prediction.profile.rate is None
    assert prediction.profile.log_sd > 0
    assert prediction.application == 0
    assert prediction.klass == "none"
    assert not core.counts(prediction)


def test_the_shares_of_a_forests_prediction_are_its_probabilities(fitted):
    job = submission(uid=3, name="job1")
    owc, aw = fitted.evaluate(0, core.features([job]))[0]
    share = fitted.predict(job).profile.share
    assert share["owc"] == np.float32(owc)
    assert share["aw"] == np.float32(aw)
    assert fitted.predict(job).profile.confidence == max(owc, aw)


def test_what_the_probabilities_leave_open_is_unknown():
    hesitant = Arrays(
        meaning=["owc", "unknown"],
        roots=np.array([0]),
        feature=np.array([-1]),
        threshold=np.zeros(1),
        right=np.zeros(1, int),
        value=np.array([[0.5, 0.25]]),
    )
    prediction = bundle(patterns=hesitant).predict(submission())
    assert prediction.profile.share["owc"] == 0.5
    assert prediction.profile.share["unknown"] == 0.5
    assert prediction.profile.confidence == 0.5


def test_rows_of_another_width_are_refused(fitted):
    with pytest.raises(core.CoreError, match="features"):
        fitted.evaluate(0, np.zeros((1, COUNT + 1), np.float32))
