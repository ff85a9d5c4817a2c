"""Writes the model bundle, so that the core accepts it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from sluice.policies._core import ffi, lib
from sluice.policies.container import Section, pack
from sluice.policies.structs import EVIDENCE, FIELD_NAMES, View, new

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray


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
