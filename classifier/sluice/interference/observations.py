"""Encounters as the model learns from them: who kept which share of its rate beside whom."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from sluice.interference.programs import Application, Program

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sluice.history_db.records import Encounter


@dataclass(frozen=True, slots=True)
class Observation:
    """One program beside others on the same target."""

    victim: Program
    others: tuple[Program, ...]
    rho: float
    """Its rate over its rate alone; above 1 where company helped."""
    rate_alone: float
    """B/s."""
    others_alone: tuple[float | None, ...] = ()
    """B/s; None where a program was never measured alone."""

    @property
    def members(self) -> tuple[Program, ...]:
        return (self.victim, *self.others)

    @property
    def is_of_writers(self) -> bool:
        """Whether the model, which has no reads and no metadata, can learn from it."""
        return all(program.is_writer for program in self.members)


@dataclass(frozen=True, slots=True)
class Seen:
    """One application beside another in production."""

    victim: Application
    other: Application
    rho: float
    """The victim's rate over its undisturbed one; above 1 where company helped."""
    log_sd: float
    """Standard deviation of log(rho)."""

    @property
    def members(self) -> tuple[Application, Application]:
        return (self.victim, self.other)

    @property
    def is_of_writers(self) -> bool:
        return self.victim.is_writer and self.other.is_writer


def valid(encounters: Iterable[Encounter]) -> list[Encounter]:
    return [e for e in encounters if not e.dropped and e.mode == "rates"]


def shared(encounter: Encounter) -> bool:
    return len(set(encounter.targets)) == 1


def alone_rates(encounters: Iterable[Encounter]) -> dict[Program, float]:
    """Return the median rate alone of each program that was a probe, B/s."""
    found: dict[Program, list[float]] = defaultdict(list)
    for encounter in valid(encounters):
        found[Program.parse(encounter.members[0])] += encounter.alone
    return {program: median(rates) for program, rates in found.items()}


def observations(
    encounters: Sequence[Encounter], alone: dict[Program, float] | None = None
) -> list[Observation]:
    """Return what each member of each valid encounter on a shared target kept.

    The probe is compared with its own runs around, a signal with the median of the runs in
    which it was a probe itself; one that never was is left out.
    """
    rates = alone_rates(encounters) if alone is None else alone
    found = []
    for encounter in filter(shared, valid(encounters)):
        members = [Program.parse(text) for text in encounter.members]
        for i, (member, rate) in enumerate(zip(members, encounter.together, strict=True)):
            own = sum(encounter.alone) / len(encounter.alone) if i == 0 else rates.get(member)
            if own:
                others = (*members[:i], *members[i + 1 :])
                found.append(
                    Observation(member, others, rate / own, own, tuple(map(rates.get, others)))
                )
    return found
