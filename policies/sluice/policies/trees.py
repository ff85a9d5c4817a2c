"""Decision trees outside of a bundle: laid out and walked by the core, as a bundle's are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from sluice.policies._core import ffi, lib
from sluice.policies.structs import CoreError

if TYPE_CHECKING:
    from numpy.typing import NDArray

NODE = np.dtype([("threshold", "<f4"), ("feature", "<u2"), ("right", "<u2")])
"""struct sluice_node."""


class TreeArrays(Protocol):
    """The trees of a forest one after the other, nodes numbered through all of them.

    In preorder: a left child stands right behind its parent.
    """

    roots: NDArray[Any]
    """(trees,): each tree's first node."""
    feature: NDArray[Any]
    """(nodes,): index of a feature; negative in a leaf."""
    threshold: NDArray[np.float64]
    """(nodes,): left if the feature is not above."""
    right: NDArray[Any]
    """(nodes,): node on the other side."""
    value: NDArray[np.float64]
    """(nodes, outputs): used in leaves."""


@dataclass(frozen=True, slots=True)
class PackedTrees:
    """As a bundle holds them."""

    roots: NDArray[np.int64]
    nodes: NDArray[Any]
    leaves: NDArray[np.float64]
    """(leaves, outputs)."""


def pack_trees(forest: TreeArrays) -> PackedTrees:
    feature = np.asarray(forest.feature)
    roots = np.asarray(forest.roots, np.int64)
    sizes = np.diff(roots, append=len(feature))
    is_leaf = feature < 0
    if len(roots) == 0 or roots[0] != 0 or (sizes <= 0).any():
        raise CoreError("trees must follow each other from node 0 on")
    if sizes.max() > 2 * lib.SLUICE_MAX_LEAVES - 1:
        raise CoreError(f"a tree has more than {lib.SLUICE_MAX_LEAVES} leaves")

    first_node = np.repeat(roots, sizes)
    leaves_before: NDArray[np.int64] = np.cumsum(is_leaf) - is_leaf
    leaf_in_tree: NDArray[np.int64] = leaves_before - leaves_before[first_node]
    nodes = np.zeros(len(feature), NODE)
    nodes["feature"] = np.where(is_leaf, lib.SLUICE_LEAF_NODE, feature)
    nodes["right"] = np.where(is_leaf, leaf_in_tree, np.asarray(forest.right) - first_node)
    nodes["threshold"] = np.where(is_leaf, 0.0, _float_below(forest.threshold))
    leaves = np.ascontiguousarray(np.asarray(forest.value, "<f8")[is_leaf])
    return PackedTrees(roots, nodes, leaves)


def _float_below(thresholds: NDArray[np.float64]) -> NDArray[np.float32]:
    """Return the largest floats not above: for a float x, x <= t is x <= that."""
    nearest = np.asarray(thresholds, np.float32)
    return np.where(nearest > thresholds, np.nextafter(nearest, np.float32(-np.inf)), nearest)


class Trees:
    """Trees laid out for the walk."""

    def __init__(self, forest: TreeArrays) -> None:
        """Raise CoreError for trees that the core refuses."""
        packed = pack_trees(forest)
        if len(packed.roots) > lib.SLUICE_MAX_TREES:
            raise CoreError(f"a forest has more than {lib.SLUICE_MAX_TREES} trees")
        self._leaves = packed.leaves
        self._features = int(max(forest.feature)) + 1
        blocks = lib.sluice_blocks_allocate(len(packed.roots), len(packed.nodes))
        if blocks == ffi.NULL:
            raise MemoryError
        self._blocks = ffi.gc(blocks, lib.sluice_blocks_free)
        self._trees = ffi.new("struct sluice_tree[]", len(packed.roots))
        self._lay_out(packed)

    def _lay_out(self, packed: PackedTrees) -> None:
        nodes = ffi.from_buffer("struct sluice_node[]", packed.nodes)
        leaves = ffi.from_buffer("double[]", self._leaves)
        bounds = [*packed.roots.tolist(), len(packed.nodes)]
        error, block, leaf = ffi.new("struct sluice_error *"), self._blocks, 0
        for number, tree in enumerate(self._trees):
            first, size = nodes + bounds[number], bounds[number + 1] - bounds[number]
            count = lib.sluice_tree_check(first, size, error)
            if count < 0:
                raise CoreError(f"tree {number}: {ffi.string(error.text).decode()}")
            tree.blocks, tree.leaves = block, leaves + leaf * self._leaves.shape[1]
            block, leaf = lib.sluice_tree_lay_out(first, block), leaf + count

    def evaluate(self, rows: NDArray[np.float32]) -> NDArray[np.float64]:
        """(rows, features) -> (rows, outputs): the mean over the trees."""
        rows = np.ascontiguousarray(rows, np.float32)
        if rows.ndim != 2 or rows.shape[1] < self._features:
            raise CoreError(f"rows need {self._features} features, not {rows.shape[1:]}")
        outputs, width = self._leaves.shape[1], rows.shape[1]
        result = np.empty((len(rows), outputs))
        features = ffi.from_buffer("float[]", rows)
        out = ffi.from_buffer("double[]", result, require_writable=True)
        for i in range(len(rows)):
            lib.sluice_trees_mean(
                self._trees, len(self._trees), outputs, features + i * width, out + i * outputs
            )
        return result
