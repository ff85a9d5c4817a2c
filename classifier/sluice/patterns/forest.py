"""A trained forest as flat arrays: what scikit-learn learned, without scikit-learn.

The core evaluates it, equal to scikit-learn bit for bit.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any

from sluice.policies.trees import Trees

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    from numpy.typing import NDArray

LEAF = -1  # feature of a leaf


@dataclass(eq=False)
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

    @cached_property
    def _trees(self) -> Trees:
        return Trees(self)

    def evaluate(self, rows: NDArray[np.float32]) -> NDArray[np.float64]:
        """(rows, features) -> (rows, outputs): the mean over the trees."""
        return self._trees.evaluate(rows)

    def arrays(self, prefix: str) -> dict[str, Any]:
        """Name the arrays for np.savez."""
        return {f"{prefix}_{field.name}": getattr(self, field.name) for field in fields(self)}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Any], prefix: str) -> Forest:
        parts: dict[str, Any] = {
            field.name: arrays[f"{prefix}_{field.name}"] for field in fields(cls)
        }
        return cls(**parts)
