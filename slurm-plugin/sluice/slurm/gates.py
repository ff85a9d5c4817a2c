"""How many tokens each gate lets out, by the core, for who runs and who waits.

Slurm chooses who starts, so a gate is sized for the worst that it may choose. Jobs that sluiced
has not seen yet are not in that: gates let out what the known ones need and no more, so that a
new job with a token waits until it was looked at.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sluice.policies import core
from sluice.policies.structs import View, new
from sluice.policies.tokens import token_names

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from sluice.policies.bundle import Bundle

Member = tuple[str, View]
"""Class, and pressure on a lane."""

LIMIT = 16
"""Jobs of a class that are let in at one look; the next one lets in more."""
KEPT_BACKGROUND = 16
"""Jobs without tokens that are looked at one by one: the heaviest."""


@dataclass(frozen=True, slots=True)
class Load:
    """A job as the gates see it."""

    klass: str
    lane_mask: int
    """Lanes it may write to."""
    profile: View | None
    """None: nothing is known of it."""
    tasks: int = 1
    """Jobs like this one: the tasks of an array that wait."""
    should_wait: bool = False
    """No token is let out for its sake: it waits until a conflict is over."""


class Sizer:
    """Sizes gates under one bundle; remembers the answers of the latest question."""

    def __init__(self, bundle: Bundle) -> None:
        self.bundle = bundle
        self.policy = bundle.policy
        self.names = token_names(self.policy)
        self._model = bundle.interference
        self._z = core.normal_quantile(self.policy.quantile)
        self._speeds: dict[str, float] = {}
        self._pressures: dict[tuple[bytes, int], View] = {}
        self._latest: dict[int, tuple[object, dict[str, int]]] = {}

    def take_speeds(self, speeds: Mapping[str, float]) -> None:
        """Take up the speeds of the lanes that straggle, by name."""
        if speeds != self._speeds:
            self._speeds = dict(speeds)
            self._pressures.clear()

    def gates(
        self, running: Sequence[Load], waiting: Sequence[Load], background: Sequence[Load]
    ) -> dict[str, int]:
        """Return the gate of each token; background is who runs without one."""
        sizes = {
            lane: self._size(
                lane,
                self._members(load for load in running if load.lane_mask >> lane & 1),
                self._members(load for load in waiting if load.lane_mask >> lane & 1),
                [p for _, p in self._members(background)],
            )
            for lane in {lane for lane, _ in self.names.values()}
        }
        return {
            token: min(sizes[lane][klass], _most(lane, klass, running, waiting))
            for token, (lane, klass) in self.names.items()
        }

    def is_admissible(self, load: Load) -> bool:
        """Whether its lanes could ever be good enough for a job, with nobody else there."""
        alone = core.job_slowdown(self.pressure(load), 1.0)
        return bool(alone <= self.policy.tolerance)

    def pressure(self, load: Load) -> View:
        """Return what a job presses on its lanes; one that is unknown, as hard as it can."""
        if load.profile is None:
            return _unknown(load.klass)
        key = (load.profile.bytes, load.lane_mask)
        if key not in self._pressures:
            pressure = core.pressure_of(load.profile, self._model, self.policy, load.lane_mask)
            self._pressures[key] = _fuller(pressure, self._slowest(load.lane_mask))
        return self._pressures[key]

    def _slowest(self, lane_mask: int) -> float:
        lanes = [lane.name for i, lane in enumerate(self.policy.lanes) if lane_mask >> i & 1]
        return min((self._speeds.get(name, 1.0) for name in lanes), default=1.0)

    def _members(self, loads: Iterable[Load]) -> list[tuple[Load, View]]:
        return [(load, self.pressure(load)) for load in loads]

    def _size(
        self,
        lane: int,
        running: list[tuple[Load, View]],
        waiting: list[tuple[Load, View]],
        background: list[View],
    ) -> dict[str, int]:
        # A class with a job of which nothing is known yet waits until it is.
        closed = {load.klass for load, _ in waiting if load.profile is None}
        waiting = [item for item in waiting if item[0].klass not in closed]
        question = (
            [(load.klass, pressure.bytes) for load, pressure in running],
            _representatives(waiting),
            self._merged(background),
        )
        latest = self._latest.get(lane)
        if latest is None or latest[0] != question:
            answer = core.gates(
                [(load.klass, pressure) for load, pressure in running],
                question[1],
                question[2],
                model=self._model,
                policy=self.policy,
                limit=LIMIT,
            )
            latest = self._latest[lane] = (question, answer.tokens)
        return latest[1]

    def _merged(self, background: list[View]) -> list[View]:
        """Bound the number of jobs: all but the heaviest as one that is always on.

        So the core takes the weakest of a set, too (interference.h).
        """
        ranked = sorted(background, key=lambda p: (p.weight, p.bytes), reverse=True)
        rest = ranked[KEPT_BACKGROUND:]
        if not rest:
            return ranked
        weights = [p.weight * math.exp(self._z * p.log_sd) for p in rest]
        streams = sum(w * p.streaming for w, p in zip(weights, rest, strict=True))
        # Flushes add up as the core counts them beside a victim.
        exponent = 1 - max(p.interleaving for p in rest)
        flushes = sum(
            (w * (1 - p.streaming)) ** exponent * math.exp((1 - exponent) * p.log_nprocs)
            for w, p in zip(weights, rest, strict=True)
        ) ** (1 / exponent)
        weight = flushes + streams
        always = {
            "weight": weight,
            "streaming": streams / weight if streams else 0.0,
            "interleaving": 1 - exponent,
            "demand": sum(p.demand for p in rest),
            "metadata": sum(p.metadata for p in rest),
            "io_share": 1.0,
            "confined": 1.0,
        }
        return [*ranked[:KEPT_BACKGROUND], View(new("struct sluice_pressure", always))]


def _fuller(pressure: View, speed: float) -> View:
    """Fill a slow lane sooner; that jobs are slow there is not for the tolerance to judge."""
    if speed >= 1:
        return pressure
    demand = core.slowed_down(pressure, speed).demand
    return View(new("struct sluice_pressure", pressure.to_dict() | {"demand": demand}))


def _most(lane: int, klass: str, running: Sequence[Load], waiting: Sequence[Load]) -> int:
    """Count those that hold a token of a lane and class, and those that wait and may have one."""
    return sum(
        load.tasks
        for load in (*running, *(load for load in waiting if not load.should_wait))
        if load.klass == klass and load.lane_mask >> lane & 1
    )


def _representatives(waiting: Iterable[tuple[Load, View]]) -> list[Member]:
    """Return enough jobs to stand for all that wait.

    The worst case depends on which kinds wait, on whether a kind can meet itself, and on how
    many of a class there are, up to LIMIT.
    """
    counts: Counter[Member] = Counter()
    for load, pressure in waiting:
        counts[load.klass, pressure] += load.tasks
    chosen: Counter[Member] = Counter({kind: min(count, 2) for kind, count in counts.items()})
    for kind, count in counts.items():
        in_class = sum(n for (klass, _), n in chosen.items() if klass == kind[0])
        chosen[kind] += max(0, min(LIMIT - in_class, count - chosen[kind]))
    return sorted(chosen.elements(), key=lambda member: (member[0], member[1].bytes))


def _unknown(klass: str) -> View:
    """Return a job that fills its targets all the time."""
    members = {"weight": 1.0, "demand": 1.0, "io_share": 1.0, "confined": 1.0}
    if klass == "meta":
        members["metadata"] = 1.0
    return View(new("struct sluice_pressure", members))
