"""From what Sluice recovers up to the bound: one limit after the other is taken away.

Each rung is a policy of its own, replayed beside the others. The bound takes waits for free, so
each rung says what its waits cost.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sluice.sim.policies.policies import POLICIES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from sluice.sim.replay.compare import Comparison

RUNGS: Mapping[str, str] = {
    "sluice-perfect": "knowing I/O share and run time of each job",
    "sluice-oracle": "knowing how programs disturb each other, too",
    "sluice-oracle-free-waits": "with waits that cost nothing, too",
    "sluice-oracle-patient": "with waits of up to a week, too",
    "two-groups": "with few I/O-heavy jobs at a time (option `heavy`), whatever they are",
    "one-at-a-time": "with one I/O-heavy job at a time, however long the others wait",
}
"""By policy, how it comes closer to the bound than the rung below."""


@dataclass(frozen=True, slots=True)
class Rung:
    """What one policy recovers of the bound, and what that costs in waits."""

    policy: str
    how: str
    share_of_bound: float
    kept_back: float | None
    """Slot-hours for each slot-hour recovered: an upper bound of the waits. None: none given."""


def ladder(comparison: Comparison) -> Iterator[Rung]:
    """Yield the policies of Sluice that were asked about, and the RUNGS above them.

    Nothing where not all rungs were replayed, or nothing is there to be gained.
    """
    if not RUNGS.keys() <= set(comparison.policies) or not comparison.bounds[0].is_anything_to_gain:
        return
    asked = [name for name in comparison.policies if name.startswith("sluice-")]
    for policy in dict.fromkeys((*(name for name in asked if name not in RUNGS), *RUNGS)):
        figures = comparison.figures[policy][0]
        saved = -(comparison.difference(policy, "lost_slot_hours") or 0.0)
        yield Rung(
            policy,
            RUNGS.get(policy, POLICIES[policy].summary),
            share_of_bound=figures["share_of_bound"] or 0.0,
            kept_back=(figures["held_slot_hours"] or 0.0) / saved if saved > 0 else None,
        )
