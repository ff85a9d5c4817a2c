"""Observations that the interference law is fitted to."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np

from sluice.interference.programs import (
    ProductionProgram,
    Program,
    features,
    likeness,
)
from sluice.policies import core

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from sluice.history_db.records import Calibration, CoRun
    from sluice.history_db.store import Store

    Profile = Mapping[str, Any]


MOST_FOREIGN_SHARE = 0.10
"""Share of a target's traffic by others, above which a measurement does not count (Shah et al.)."""


@dataclass(frozen=True, slots=True)
class Observation:
    """One program alongside others on the same target."""

    victim: Program
    others: tuple[Program, ...]
    rho: float
    """Its rate over its rate alone; above 1 where co-runners helped."""
    rate_alone: float
    """B/s."""
    others_alone: tuple[float | None, ...] = ()
    """B/s; None where a program was never measured alone."""

    @property
    def members(self) -> tuple[Program, ...]:
        return (self.victim, *self.others)

    @property
    def is_of_data(self) -> bool:
        """Return whether none of its programs does metadata, which the law has not."""
        return not any("metadata" in program.parts for program in self.members)

    @property
    def is_of_writers(self) -> bool:
        """Return whether the law's weights of writers can be fitted to it."""
        return all(program.is_writer for program in self.members)

    @property
    def is_of_readers(self) -> bool:
        """Return whether it tells the weight of those that read: some do, the others write."""
        return not self.is_of_writers and all(
            program.is_writer or program.is_reader for program in self.members
        )


@dataclass(frozen=True, slots=True)
class Seen:
    """One application alongside another in production."""

    victim: ProductionProgram
    other: ProductionProgram
    rho: float
    """The victim's rate over its undisturbed one; above 1 where co-runners helped."""
    log_sd: float
    """Standard deviation of log(rho)."""

    @property
    def members(self) -> tuple[ProductionProgram, ProductionProgram]:
        return (self.victim, self.other)

    @property
    def is_of_writers(self) -> bool:
        return self.victim.is_writer and self.other.is_writer


def valid(coruns: Iterable[CoRun]) -> list[CoRun]:
    return [e for e in coruns if not e.dropped and e.mode == "rates"]


def shared(corun: CoRun) -> bool:
    return len(set(corun.targets)) == 1


def alone_rates(coruns: Iterable[CoRun]) -> dict[Program, float]:
    """Return the median rate alone of each program that was a probe, B/s."""
    found: dict[Program, list[float]] = defaultdict(list)
    for corun in valid(coruns):
        found[Program.parse(corun.members[0])] += corun.alone
    return {program: median(rates) for program, rates in found.items()}


def observations(
    coruns: Sequence[CoRun], alone: dict[Program, float] | None = None
) -> list[Observation]:
    """Return the share that each member of each valid co-run on a shared target kept.

    The probe is compared with its own runs around, a signal with the median of the runs in
    which it was a probe itself; one that never was is left out.
    """
    rates = alone_rates(coruns) if alone is None else alone
    found = []
    for corun in filter(shared, valid(coruns)):
        members = [Program.parse(text) for text in corun.members]
        for i, (member, rate) in enumerate(zip(members, corun.together, strict=True)):
            own = sum(corun.alone) / len(corun.alone) if i == 0 else rates.get(member)
            if own:
                others = (*members[:i], *members[i + 1 :])
                found.append(
                    Observation(member, others, rate / own, own, tuple(map(rates.get, others)))
                )
    return found


@dataclass(frozen=True, slots=True)
class Likeness:
    """A measurement, and its similarity to the pair that was asked for."""

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


def has_rates(store: Store, calibration: Calibration) -> bool:
    """Return whether it measured what programs keep; delta-graphs do not, nor one stopped early."""
    return bool(valid(store.interference.coruns([calibration.id])))


def site_coruns(store: Store) -> list[CoRun]:
    """Return what all calibrations measured of the site.

    That is the one of which a calibration last found what the interference model can learn.
    """
    known = store.interference.calibrations()
    for latest in reversed(known):
        if of_writers(store.interference.coruns([latest.id])):
            return store.interference.coruns([one.id for one in known if one.site == latest.site])
    return []


def of_writers(coruns: list[CoRun]) -> list[Observation]:
    """Return what the interference model can learn from them."""
    return [item for item in observations(coruns) if item.is_of_writers]
