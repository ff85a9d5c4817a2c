"""scikit-learn's forests as the arrays that the bundle's writer takes, for tests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Arrays:
    meaning: list[str]
    roots: NDArray[Any]
    feature: NDArray[Any]
    threshold: NDArray[Any]
    right: NDArray[Any]
    value: NDArray[Any]


def preorder(tree: Any) -> list[int]:
    """Nodes of a tree with the left child behind its parent; best-first growth mixes them."""
    order, stack = [], [0]
    while stack:
        node = stack.pop()
        order.append(node)
        if tree.children_left[node] >= 0:
            stack += [tree.children_right[node], tree.children_left[node]]
    return order


def arrays_of(forest: Any, meaning: list[str]) -> Arrays:
    parts: dict[str, list[Any]] = {name: [] for name in ("feature", "threshold", "right", "value")}
    roots, count = [], 0
    for estimator in forest.estimators_:
        tree = estimator.tree_
        order = np.array(preorder(tree))
        place = np.empty(len(order), int)
        place[order] = np.arange(len(order))
        is_leaf = tree.children_left[order] < 0
        roots.append(count)
        parts["feature"].append(np.where(is_leaf, -1, tree.feature[order]))
        parts["threshold"].append(tree.threshold[order])
        parts["right"].append(count + place[tree.children_right[order]] * ~is_leaf)
        values = tree.value[order]
        one_output = values.shape[1] == 1
        parts["value"].append(values[:, 0, :] if one_output else values[:, :, 0])
        count += len(order)
    joined = {name: np.concatenate(part) for name, part in parts.items()}
    return Arrays(meaning, np.array(roots), **joined)
