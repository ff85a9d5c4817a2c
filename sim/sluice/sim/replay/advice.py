"""Which MaxDelay pays, by a sweep over several.

Who sets it trades waits for losses, so both count in slot-hours, and a slot-hour of waiting costs
WaitPrice of one that is lost, as in the decisions themselves. Counted are the waits that the policy
itself imposes; those of jobs behind go up and down by chance far more.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any

from sluice.sim.policies.policies import POLICIES, Options
from sluice.sim.replay.compare import PLAIN

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

VARIED = "max_delay"


@dataclass(frozen=True, slots=True)
class Wait:
    """What became of one case of a sweep under one policy; slot-hours and seconds."""

    max_delay: str
    """As the sweep has it."""
    saved: float
    """Lost less than without the policy, in the draw as asked."""
    least_saved: float
    """Of further draws, at the lower end of the interval; without any, `saved`."""
    held: float
    """For which it delayed jobs: an upper bound of the waits that it imposed."""
    wait_price: float
    """Lost slot-hours that one of those is worth."""
    held_mean: float
    """Seconds for which those were delayed that were."""
    wait_mean: float
    """Seconds that jobs wait without the policy."""

    @property
    def price(self) -> float:
        """What these waits cost."""
        return self.wait_price * self.held

    @property
    def net(self) -> float:
        return self.saved - self.price

    @property
    def break_even(self) -> float:
        """The WaitPrice at which it would save just what its waits cost."""
        return self.saved / self.held if self.held else 0.0

    @property
    def is_fair(self) -> bool:
        """Whether nobody who pays waits, on average, more than twice as long as jobs do anyhow."""
        return self.held_mean <= self.wait_mean

    @property
    def saves(self) -> bool:
        """Whether it loses less in the draw as asked and, by the interval, in others."""
        return self.least_saved > 0


@dataclass(frozen=True, slots=True)
class Advice:
    """On one policy, where all but MaxDelay is the same."""

    policy: str
    parameters: Mapping[str, str]
    """Of the sweep's other ones."""
    waits: tuple[Wait, ...]

    @property
    def best(self) -> Wait | None:
        """The one that gains most of those that save, fairly, more than they cost; None: none."""
        good = [wait for wait in self.waits if wait.saves and wait.is_fair and wait.net > 0]
        return max(good, key=lambda wait: wait.net, default=None)

    @property
    def nearest(self) -> Wait | None:
        """The one that would pay at the highest WaitPrice; None: no fair one saves anything."""
        good = [wait for wait in self.waits if wait.saves and wait.is_fair]
        return max(good, key=lambda wait: wait.break_even, default=None)


def advice(document: Mapping[str, Any]) -> Iterator[Advice]:
    """Yield one for each policy that delays jobs, and each value of what else the sweep varies.

    Nothing where it does not vary MaxDelay. document: of sweep.py.
    """
    if len(document["grid"].get(VARIED, ())) < 2:
        return
    policies = [name for name in document["policies"] if name in POLICIES and POLICIES[name].delays]

    def others(case: Mapping[str, Any]) -> list[tuple[str, str]]:
        return [pair for pair in case["parameters"].items() if pair[0] != VARIED]

    for parameters, cases in groupby(sorted(document["cases"], key=others), others):
        alike = list(cases)
        for policy in policies:
            waits = tuple(_wait(document, case, policy) for case in alike)
            yield Advice(policy, dict(parameters), waits)


def _wait(document: Mapping[str, Any], case: Mapping[str, Any], policy: str) -> Wait:
    parameters, figures = case["parameters"], case["policies"][policy]
    given = {**document["experiment"]["options"], **parameters}
    more = figures["lost_slot_hours"]["above_none"]
    most_lost = (figures["lost_slot_hours"]["above_none_interval"] or {"high": more})["high"]
    return Wait(
        parameters[VARIED],
        saved=-more,
        least_saved=-most_lost,
        held=figures["held_slot_hours"]["value"],
        wait_price=float(given.get("wait_price", Options().wait_price)),
        held_mean=figures["held_mean_s"]["value"] or 0.0,
        wait_mean=case["policies"][PLAIN]["wait_mean_s"]["value"] or 0.0,
    )
