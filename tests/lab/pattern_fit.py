"""Fits forests, by scikit-learn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import is_classifier
from sklearn.ensemble import ExtraTreesClassifier

from sluice.patterns.classifier import LEAF, Forest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

SEED = 20261121  # the same history gives the same model
MAX_LEAVES = 256  # what the core's tree can hold


def fit_classifier(
    rows: NDArray[np.float32],
    labels: NDArray[np.str_],
    *,
    weights: NDArray[np.float64],
    trees: int,
    leaf_size: int,
) -> tuple[Forest, list[str]]:
    """Fit a forest whose outputs are the shares of the classes, returned in their order.

    leaf_size: rows of a leaf at least.
    """
    model = ExtraTreesClassifier(
        trees,
        min_samples_leaf=leaf_size,
        max_leaf_nodes=MAX_LEAVES,
        random_state=SEED,
        n_jobs=1,
    )
    model.fit(rows, labels, sample_weight=weights)
    return export(model.estimators_), [str(name) for name in model.classes_]


def export(estimators: Sequence[Any]) -> Forest:
    """Lay scikit-learn's trees out behind one another, parents before their left child."""
    parts: dict[str, list[Any]] = {
        name: [] for name in ("roots", "feature", "threshold", "left", "right", "value")
    }
    offset = 0
    for estimator in estimators:
        tree = estimator.tree_
        order, position = _preorder(tree)
        values = tree.value[order]
        if is_classifier(estimator):
            values = _of_shares(values)
        leaf = tree.children_left[order] < 0
        parts["roots"].append(offset)
        parts["feature"].append(np.where(leaf, LEAF, tree.feature[order]))
        parts["threshold"].append(np.where(leaf, 0.0, tree.threshold[order]))
        for name, children in (("left", tree.children_left), ("right", tree.children_right)):
            parts[name].append(np.where(leaf, 0, position[children[order]] + offset))
        # classifiers keep (nodes, 1, classes), regressors (nodes, outputs, 1)
        parts["value"].append(values.reshape(len(order), -1))
        offset += len(order)
    return Forest(
        roots=np.array(parts["roots"], dtype=np.int32),
        feature=np.concatenate(parts["feature"]).astype(np.int32),
        threshold=np.concatenate(parts["threshold"]),
        left=np.concatenate(parts["left"]).astype(np.int32),
        right=np.concatenate(parts["right"]).astype(np.int32),
        value=np.concatenate(parts["value"]),
    )


def _of_shares(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return shares of the classes; before 1.3 scikit-learn keeps the weights behind them."""
    sums = values.sum(axis=-1, keepdims=True)
    return values if np.allclose(sums, 1) else values / sums


def _preorder(tree: Any) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the nodes so that each left child follows its parent, and where each one went."""
    order, stack = [], [0]
    while stack:
        node = stack.pop()
        order.append(node)
        if tree.children_left[node] >= 0:
            stack += [tree.children_right[node], tree.children_left[node]]
    position = np.zeros(tree.node_count, dtype=np.intp)
    position[order] = np.arange(tree.node_count)
    return np.array(order), position
