"""A trained forest as flat arrays: what scikit-learn learned, without scikit-learn.

Evaluation equals scikit-learn's: inputs as float32, thresholds as double, left where x <= t,
trees summed in order.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

LEAF = -1  # feature of a leaf
BLOCK = 256  # rows at once: bounds the memory


@dataclass(frozen=True, slots=True)
class Forest:
    """Nodes of all trees, each tree's behind one another, children as indexes among all."""

    roots: NDArray[np.int32]
    """(trees,): the first node of each tree."""
    feature: NDArray[np.int32]
    """(nodes,): LEAF in a leaf."""
    threshold: NDArray[np.float64]
    left: NDArray[np.int32]
    right: NDArray[np.int32]
    value: NDArray[np.float64]
    """(nodes, outputs): class shares, or means."""

    def evaluate(self, rows: NDArray[np.float32]) -> NDArray[np.float64]:
        """(rows, features) -> (rows, outputs): the mean over the trees."""
        parts = [self._sum(rows[i : i + BLOCK]) for i in range(0, len(rows), BLOCK)]
        return np.concatenate([np.zeros((0, self.value.shape[1])), *parts]) / len(self.roots)

    def _sum(self, rows: NDArray[np.float32]) -> NDArray[np.float64]:
        """Walk all rows down all trees at once."""
        values = rows.astype(np.float64)
        row = np.repeat(np.arange(len(rows)), len(self.roots))
        node = np.tile(self.roots, len(rows))
        inner = np.flatnonzero(self.feature[node] != LEAF)
        while len(inner):
            at = node[inner]
            below = values[row[inner], self.feature[at]] <= self.threshold[at]
            child = np.where(below, self.left[at], self.right[at])
            node[inner] = child
            inner = inner[self.feature[child] != LEAF]
        # cumsum adds in the order of the trees, sum() would not
        return self.value[node.reshape(len(rows), -1)].cumsum(axis=1)[:, -1]

    def arrays(self, prefix: str) -> dict[str, Any]:
        """Name the arrays for np.savez."""
        return {f"{prefix}_{field.name}": getattr(self, field.name) for field in fields(self)}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Any], prefix: str) -> Forest:
        parts: dict[str, Any] = {
            field.name: arrays[f"{prefix}_{field.name}"] for field in fields(cls)
        }
        return cls(**parts)
