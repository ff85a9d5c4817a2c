"""Trees that the core walks: what it refuses, and how a threshold decides.

That their answers equal scikit-learn's is tested with what fits them (tests/patterns).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.patterns.classifier import Forest
from sluice.policies._core import lib
from sluice.policies.structs import CoreError


def stump(threshold: float = 0.0, **changes: Any) -> Forest:
    parts: dict[str, Any] = {
        "roots": np.array([0]),
        "feature": np.array([0, -1, -1]),
        "threshold": np.array([threshold, 0, 0]),
        "left": np.array([1, 0, 0]),
        "right": np.array([2, 0, 0]),
        "value": np.array([[0], [0], [1.0]]),
    }
    return Forest(**parts | changes)


def chain(leaves: int) -> Forest:
    """A tree as deep as it has leaves."""
    nodes = 2 * leaves - 1
    return Forest(
        roots=np.array([0]),
        feature=np.array([0, -1] * (leaves - 1) + [-1]),
        threshold=np.repeat(np.arange(leaves), 2)[:nodes] * 1.0,
        left=np.arange(nodes) + 1,
        right=np.arange(nodes) + 2,
        value=np.repeat(np.linspace(0, 1, leaves), 2)[:nodes, None],
    )


def test_a_tree_with_too_many_leaves_is_refused():
    with pytest.raises(CoreError, match="more than 256 leaves"):
        chain(lib.SLUICE_MAX_LEAVES + 1).evaluate(np.zeros((1, 1), np.float32))


def test_the_deepest_tree_that_fits_is_walked_to_its_end():
    rows = np.full((1, 1), 1e9, np.float32)
    assert chain(lib.SLUICE_MAX_LEAVES).evaluate(rows).item() == 1.0


@pytest.mark.parametrize(
    ("tree", "says"),
    [
        (stump(float("nan")), "finite threshold"),
        (stump(feature=np.array([lib.SLUICE_MAX_FEATURES, -1, -1])), "asks for feature"),
        (stump(right=np.array([1, 0, 0])), "children"),
        (stump(right=np.array([7, 0, 0])), "children"),
        (stump(feature=np.array([0, -1, 0])), "ends without a leaf"),
        (stump(roots=np.array([1])), "from node 0"),
    ],
)
def test_what_is_no_tree_is_refused_with_its_reason(tree: Forest, says: str):
    with pytest.raises(CoreError, match=says):
        tree.evaluate(np.zeros((1, lib.SLUICE_MAX_FEATURES), np.float32))


def test_rows_of_another_width_are_refused():
    with pytest.raises(CoreError, match="features"):
        stump().evaluate(np.zeros((1, 0), np.float32))


@given(st.floats(-1e30, 1e30))
def test_a_threshold_decides_alike_as_float_and_as_double(threshold: float):
    nearest = np.float32(threshold)
    around = [np.nextafter(nearest, np.float32(side)) for side in (-np.inf, np.inf)]
    rows = np.array([nearest, *around], np.float32)[:, None]
    went_right = stump(threshold).evaluate(rows)[:, 0] == 1.0
    assert went_right.tolist() == (rows[:, 0].astype(float) > threshold).tolist()
