"""What live decisions predicted, alongside what the jobs then did.

One definition of a prediction that came true, for the story of a job, for the score of a model, and
for the confidence of a program whose predictions fail.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sluice.policies import core

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from sluice.history_db.records import Profile
    from sluice.policies.core import View

VOLUMES = ("write_bytes", "read_bytes")
SCORED = (*VOLUMES, "chunk_bytes", "rate", "burst_seconds", "io_share", "runtime_seconds")
"""Numbers that are laid next to each other."""
FEW_BYTES = 1 << 20
"""Below, factors mean nothing."""
OTHERS = frozenset({"none", "name", "forest", "account", "site"})
"""Evidence that is not of the user's own runs: its failures say nothing of these."""
RUNS_HALF_LIFE = 1.5
"""After so many runs, what became of a prediction counts half."""
BENEFIT = 0.5
"""Predictions that are taken to have come true, besides those that were made."""


@dataclass(frozen=True, slots=True)
class Predicted:
    """What a decision went by."""

    evidence: str
    pattern: str
    confidence: float
    is_answered: bool
    """Its pattern was certain enough; how far off the numbers may be, their spread says."""
    numbers: Mapping[str, float] = field(default_factory=dict)
    spread: Mapping[str, float] = field(default_factory=dict)
    """Sd of ln (the next run's value) by number, where the model tells it."""

    @classmethod
    def of(cls, prediction: View, *, is_answered: bool) -> Predicted:
        """Take what counts from a struct sluice_prediction."""
        profile = prediction.profile
        raw = profile.struct  # of a hundred thousand decisions, a view of each number takes long
        known = {name: getattr(raw, name) for name in SCORED}
        spread: Mapping[str, float] = getattr(profile, "spread", None) or {}
        return cls(
            evidence=prediction.evidence,
            pattern=profile.pattern,
            confidence=float(profile.confidence),
            is_answered=is_answered,
            numbers={name: value for name, value in known.items() if value >= 0},
            spread={name: float(spread[name]) for name in SCORED if name in spread},
        )

    def is_right(self, did: Profile) -> bool | None:
        """Whether the pattern came true; None where nobody knows."""
        if core.UNKNOWN in {self.pattern, did.pattern}:
            return None
        return self.pattern == did.pattern

    def factor(self, did: Profile, name: str) -> float | None:
        """Return what was, as a multiple of what was predicted; None where one is not known."""
        said, was = self.numbers.get(name), did.numbers.get(name)
        return was / said if said and was else None

    def is_within(self, did: Profile, name: str) -> bool | None:
        """Whether a number lies in its interval; None where there is none."""
        factor, spread = self.factor(did, name), self.spread.get(name)
        if factor is None or spread is None:
            return None
        return abs(math.log(factor)) <= core.Z90 * spread

    def came_true(self, did: Profile) -> bool | None:
        """Whether pattern and volume were as predicted; None where nobody knows.

        A volume may be off by a factor of two, or as far as its spread said.
        """
        if self.is_right(did) is False:
            return False
        moved = [self._is_volume_true(did, name) for name in VOLUMES]
        if False in moved:
            return False
        return True if self.is_right(did) or True in moved else None

    def _is_volume_true(self, did: Profile, name: str) -> bool | None:
        said, was = self.numbers.get(name), did.numbers.get(name)
        if said is None or was is None or max(said, was) < FEW_BYTES:
            return None
        factor = max(was, FEW_BYTES) / max(said, FEW_BYTES)
        return 0.5 <= factor <= 2.0 or bool(self.is_within(did, name))


def reliability_of(runs: Iterable[tuple[Predicted | None, Profile]]) -> float:
    """Return the share of the latest predictions of these runs that came true, the newest most.

    Of predictions by the user's own runs; 1 where none was made. Runs come the oldest first, as
    what was predicted and what it did.
    """
    verdicts = [
        verdict
        for predicted, did in runs
        if predicted is not None and predicted.evidence not in OTHERS
        if (verdict := predicted.came_true(did)) is not None
    ]
    true = total = BENEFIT
    for rank, verdict in enumerate(reversed(verdicts)):
        weight = 0.5 ** (rank / RUNS_HALF_LIFE)
        total += weight
        true += weight * verdict
    return true / total
