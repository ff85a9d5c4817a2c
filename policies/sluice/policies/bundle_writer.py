"""Writes the model bundle, so that the core accepts it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from sluice.policies._core import ffi, lib
from sluice.policies.bundle import Bundle
from sluice.policies.container import Section, pack, write_atomically
from sluice.policies.structs import EVIDENCE, FIELD_NAMES, PATTERNS, View, new
from sluice.policies.trees import NODE, PackedTrees, TreeArrays, pack_trees

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray


class ForestArrays(TreeArrays, Protocol):
    """A forest of a bundle; fields of a profile are in its leaves as log2 (1 + x)."""

    meaning: Sequence[str]
    """What each output is: patterns, or fields of a profile."""


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


def write_bundle(
    path: Path,
    *,
    policy: View,
    interference: Mapping[str, float] | View,
    patterns: ForestArrays | None,
    numbers: ForestArrays | None,
    applications: Sequence[BundleApplication],
    text: str,
    created: int,
) -> bytes:
    """Write a bundle that the core accepts, atomically, and return its content."""
    content = pack_bundle(
        policy=policy,
        interference=interference,
        patterns=patterns,
        numbers=numbers,
        applications=applications,
        text=text,
        created=created,
    )
    Bundle.parse(content)  # never publish what the plugin would refuse
    write_atomically(path, content)
    return content


def pack_bundle(
    *,
    policy: View,
    interference: Mapping[str, float] | View,
    patterns: ForestArrays | None,
    numbers: ForestArrays | None,
    applications: Sequence[BundleApplication],
    text: str,
    created: int,
) -> bytes:
    """Return the bytes of a bundle; created is UTC seconds."""
    forests = [_pack_forest(patterns, PATTERNS), _pack_forest(numbers, FIELD_NAMES)]
    heads = ffi.new("struct sluice_forest[2]")
    for head, (meaning, trees) in zip(heads, forests, strict=True):
        head.tree_count = len(trees.roots)
        head.outputs = len(meaning)
        head.meaning = meaning
    heads[1].first_tree = heads[0].tree_count
    first, second = (trees for _, trees in forests)
    roots = np.concatenate([first.roots, second.roots + len(first.nodes)])
    table = ffi.new("struct sluice_application[]", len(applications))
    for row, application in zip(table, applications, strict=True):
        row.key = application.key
        row.evidence = EVIDENCE.index(application.evidence)
        row.id = application.id
        row.size = application.size
        row.agreement = application.agreement
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
            section("FOREST", ffi.sizeof("struct sluice_forest"), bytes(ffi.buffer(heads))),
            section("TREE", 4, roots.astype("<u4").tobytes()),
            section("NODE", NODE.itemsize, first.nodes.tobytes() + second.nodes.tobytes()),
            section("LEAF", 8, first.leaves.tobytes() + second.leaves.tobytes()),
            section(
                "APPLICATION", ffi.sizeof("struct sluice_application"), bytes(ffi.buffer(table))
            ),
            section("APPLICATION_INDEX", 4, _index([a.key for a in applications]).tobytes()),
            section("TEXT", 1, text.encode()),
        ],
        created=created,
    )


def _set_law(row: Any, law: ArgumentLaw) -> None:
    row.argument_place, row.argument = law.place, law.value
    row.least, row.greatest = law.values
    for name, exponent in law.exponents.items():
        row.argument_exponent[FIELD_NAMES.index(name)] = exponent


def _pack_forest(
    forest: ForestArrays | None, names: tuple[str, ...]
) -> tuple[list[int], PackedTrees]:
    if forest is None:
        return [], PackedTrees(np.empty(0, np.int64), np.empty(0, NODE), np.empty((0, 0)))
    return [names.index(name) for name in forest.meaning], pack_trees(forest)


def _index(keys: Sequence[int]) -> NDArray[np.uint32]:
    """Return the open-addressing table over keys; see policies/core/bundle.h."""
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
