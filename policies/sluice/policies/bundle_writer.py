"""Writes the model bundle, so that the core accepts it.

Decision trees of the pattern classifier are laid out and walked by the core.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from sluice.policies._core import ffi, lib
from sluice.policies.container import Section, pack
from sluice.policies.structs import EVIDENCE, FIELD_NAMES, CoreError, View, new

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

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
    """As the core takes them."""

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


@dataclass(frozen=True, slots=True)
class ArgumentLaw:
    """How numbers of a profile follow a number among the arguments of the submit line."""

    place: int
    """Of the number among all numbers there, from 1."""
    value: float
    """That the profile is for."""
    values: tuple[float, float]
    """The smallest and the largest of the runs behind it."""
    exponents: Mapping[str, float]
    """By field of the profile."""


@dataclass(frozen=True, slots=True)
class BundleApplication:
    """What was learned about one key of the application table."""

    key: int
    """core.application_key."""
    evidence: str
    id: int
    """Row in the history that lists the runs behind it."""
    profile: Mapping[str, Any] | View
    """Members of struct sluice_profile, for a job of this size."""
    size: float = 0.0
    """Processes; 0: unknown, and nothing scales."""
    sizes: tuple[float, float] = (0.0, 0.0)
    """The smallest and the largest of the runs behind it."""
    exponents: Mapping[str, float] = field(default_factory=dict)
    """By field of the profile: how it follows the size."""
    agreement: float = 1.0
    """Share of the runs behind it that bear its pattern out."""
    law: ArgumentLaw | None = None
    """How the profile follows a number among the arguments; None: it does not."""
    is_confirmed: bool = True
    """System counters bear out what the runs behind it claim."""
    newest: int = 0
    """When the newest run behind it ended, UTC seconds; 0: it does not age."""


def pack_bundle(
    *,
    policy: View,
    interference: Mapping[str, float] | View,
    applications: Sequence[BundleApplication],
    text: str,
    created: int,
    reviews: bytes = b"",
    ageing: Mapping[str, Sequence[float]] | None = None,
) -> bytes:
    """Return the bytes of a bundle; created is UTC seconds, reviews are review.packed.

    ageing: by field of the profile, what its spread is multiplied by at each of core.AGES and
    beyond; nothing where it is not told.
    """
    table = ffi.new("struct sluice_application[]", len(applications))
    for row, application in zip(table, applications, strict=True):
        row.key = application.key
        row.evidence = EVIDENCE.index(application.evidence)
        row.id = application.id
        row.size = application.size
        row.agreement = application.agreement
        row.is_confirmed = application.is_confirmed
        row.newest = application.newest
        row.smallest, row.largest = application.sizes
        for name, exponent in application.exponents.items():
            row.exponent[FIELD_NAMES.index(name)] = exponent
        if application.law is not None:
            _set_law(row, application.law)
        row.profile = new("struct sluice_profile", application.profile)[0]

    def section(name: str, size: int, content: bytes) -> Section:
        return Section(getattr(lib, f"SLUICE_SECTION_{name}"), size, content)

    def struct(name: str, kind: str, value: Mapping[str, Any] | View) -> Section:
        return section(name, ffi.sizeof(kind), bytes(ffi.buffer(new(kind, value))))

    return pack(
        lib.SLUICE_KIND_BUNDLE,
        lib.SLUICE_BUNDLE_VERSION,
        [
            struct("POLICY", "struct sluice_policy", policy),
            struct("INTERFERENCE", "struct sluice_interference", interference),
            section(
                "APPLICATION", ffi.sizeof("struct sluice_application"), bytes(ffi.buffer(table))
            ),
            section("APPLICATION_INDEX", 4, _index([a.key for a in applications]).tobytes()),
            section("TEXT", 1, text.encode()),
            section("REVIEW", ffi.sizeof("struct sluice_review"), reviews),
            section("AGEING", ffi.sizeof("struct sluice_ageing"), _widening(ageing or {})),
        ],
        created=created,
    )


def _widening(ageing: Mapping[str, Sequence[float]]) -> bytes:
    table = np.ones((lib.SLUICE_AGES, len(FIELD_NAMES)), "<f4")
    for name, factors in ageing.items():
        table[:, FIELD_NAMES.index(name)] = factors
    return table.tobytes()


def _set_law(row: Any, law: ArgumentLaw) -> None:
    row.argument_place, row.argument = law.place, law.value
    row.least, row.greatest = law.values
    for name, exponent in law.exponents.items():
        row.argument_exponent[FIELD_NAMES.index(name)] = exponent


def _index(keys: Sequence[int]) -> NDArray[np.uint32]:
    """Return the open-addressing table over keys; see policies/files/bundle.h."""
    size = 1
    while size < 2 * len(keys):
        size *= 2
    table = np.zeros(size, "<u4")
    for number, key in enumerate(keys, start=1):
        slot = key % size
        while table[slot]:
            slot = (slot + 1) % size
        table[slot] = number
    return table
