"""What a figure about two programs rests on: the measurements that are most like them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sluice.interference.features import features, likeness
from sluice.policies import core

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sluice.interference.observations import Observation

    Profile = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Likeness:
    """A measurement, and how much it says about the pair that was asked for."""

    observation: Observation
    likeness: float
    """1: of the same kinds of traffic, towards 0 for unlike ones; of the less like program."""


def nearest(
    observations: Sequence[Observation], victim: Profile, other: Profile, *, count: int = 3
) -> list[Likeness]:
    """Return the measured pairs that are most like a victim alongside another one, best first.

    Victim and other are members of struct sluice_profile. A pair that was measured more than
    once counts once, with its first measurement; what is like nothing (below 1 %) is left out.
    """
    pairs: dict[tuple[Any, Any], Observation] = {}
    for item in observations:
        if len(item.others) == 1:
            pairs.setdefault((item.victim, item.others[0]), item)
    if not pairs:
        return []
    alike = [
        likeness(features(programs), np.array([core.traffic_features(profile)]))[:, 0]
        for programs, profile in zip(zip(*pairs, strict=True), (victim, other), strict=True)
    ]
    found = [
        Likeness(item, float(like))
        for item, like in zip(pairs.values(), np.minimum(*alike), strict=True)
        if like >= 0.01
    ]
    found.sort(key=lambda one: (-one.likeness, one.observation.victim, one.observation.others))
    return found[:count]
