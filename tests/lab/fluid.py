"""A fluid model of full stations: bursts under the verdicts of the core, or under another order.

Stations are shared as first-come servers share them: where those who go want more of one than
there is, each of them is slowed by the same factor. No bursts come back, no control latency.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import permutations
from typing import TYPE_CHECKING, Protocol

import core_turns as turns

if TYPE_CHECKING:
    from collections.abc import Sequence

ROUNDING = 1e-9


@dataclass(frozen=True)
class Burst:
    """What a job writes once."""

    begin: float
    length: float
    """Seconds at full speed."""
    nodes: float = 1.0
    bytes: float = 1.0
    """Share of the station's bandwidth that it takes at full speed."""
    operations: float = 0.0
    is_known: bool = True


@dataclass
class _Running:
    key: int
    burst: Burst
    done: float = 0.0
    held: float = 0.0


class Order(Protocol):
    """Speeds at which bursts may go, and when to ask again if none begins or ends before."""

    def __call__(self, running: list[_Running], now: float, /) -> tuple[list[float], float]: ...


STORAGE = turns.storage([{"bytes": 1.0, "operations": 1.0}])
NO_LATENCY = {"latency": 0.0}


def by_core(**settings: float) -> Order:
    """Return the order of the core under these settings."""
    struct = turns.settings(**NO_LATENCY, **settings)

    def order(running: list[_Running], now: float) -> tuple[list[float], float]:
        verdicts = turns.decide(struct, STORAGE, turns.jobs_of(states(running)), clock=now)
        return [verdicts[i].share for i in range(len(running))], verdicts.again

    return order


def states(running: Sequence[_Running]) -> list[dict[str, object]]:
    return [
        {
            "key": one.key,
            "nodes": one.burst.nodes,
            "demand": {"bytes": one.burst.bytes, "operations": one.burst.operations},
            "expected": one.burst.length if one.burst.is_known else 0.0,
            "done": one.done,
            "held": one.held,
            "began": one.burst.begin,
        }
        for one in running
    ]


def everybody(running: list[_Running], _now: float) -> tuple[list[float], float]:
    """First come, first served: nobody is held."""
    return [1.0] * len(running), math.inf


def by_priority(order: Sequence[int], fit: float) -> Order:
    """Start, in this order of keys, each that finds room for the share `fit` of its demand."""

    def decide(running: list[_Running], _now: float) -> tuple[list[float], float]:
        free, goes = [1.0, 1.0], [0.0] * len(running)
        for i in sorted(range(len(running)), key=lambda i: order.index(running[i].key)):
            wants = (running[i].burst.bytes, running[i].burst.operations)
            if all(room >= fit * want - ROUNDING for room, want in zip(free, wants, strict=True)):
                goes[i] = 1.0
                free = [room - want for room, want in zip(free, wants, strict=True)]
        return goes, math.inf

    return decide


def speeds(running: Sequence[_Running], allowed: Sequence[float]) -> list[float]:
    """Slow down alike all who want a station that is too full."""
    found = list(allowed)
    for station in ("bytes", "operations"):
        wants = [getattr(one.burst, station) for one in running]
        wanted = sum(want * share for want, share in zip(wants, allowed, strict=True))
        for i, want in enumerate(wants):
            if want > 0 and wanted > 1:
                found[i] = min(found[i], allowed[i] / wanted)
    return found


def lost(bursts: Sequence[Burst], order: Order) -> float:
    """Return the node-seconds by which the bursts end later than alone."""
    now, total = 0.0, 0.0
    coming = sorted(range(len(bursts)), key=lambda key: bursts[key].begin)
    running: list[_Running] = []
    while coming or running:
        if not running:
            now = max(now, bursts[coming[0]].begin)
        while coming and bursts[coming[0]].begin <= now + ROUNDING:
            running.append(_Running(coming[0], bursts[coming.pop(0)]))
        allowed, again = order(running, now)
        rates = speeds(running, allowed)
        ends = [
            (one.burst.length - one.done) / rate
            for one, rate in zip(running, rates, strict=True)
            if rate > 0
        ]
        until = min([now + max(0.0, end) for end in ends] + [again])
        if coming:
            until = min(until, bursts[coming[0]].begin)
        for one, rate, share in zip(running, rates, allowed, strict=True):
            one.done += rate * (until - now)
            one.held += (1.0 - share) * (until - now)
        now = until
        for one in [one for one in running if one.done >= one.burst.length - ROUNDING]:
            running.remove(one)
            total += one.burst.nodes * (now - one.burst.begin - one.burst.length)
    return total


def best_priority(bursts: Sequence[Burst], fit: float) -> float:
    """Return what is lost under the best fixed order of all, by trying each."""
    return min(lost(bursts, by_priority(order, fit)) for order in permutations(range(len(bursts))))


def optimum(bursts: Sequence[Burst], bound: float) -> float:
    """Return the least that can be lost on one station that each burst fills alone.

    Branch and bound over who writes until the next begin or end: with one station and full
    demands, dividing it among several never helps. bound: what some order loses.
    """
    order = sorted(range(len(bursts)), key=lambda i: bursts[i].begin)
    begins = [bursts[i].begin for i in order]
    work = [bursts[i].length for i in order]
    nodes = [bursts[i].nodes for i in order]
    best = bound + ROUNDING

    def go(now: float, came: int, there: tuple[int, ...], left: list[float], cost: float) -> None:
        nonlocal best
        at_least = cost + sum(
            nodes[i] * max(0.0, now + left[i] - begins[i] - work[i]) for i in there
        )
        if at_least >= best:
            return
        if not there:
            if came == len(order):
                best = cost
                return
            now = max(now, begins[came])
        while came < len(order) and begins[came] <= now + ROUNDING:
            there, came = (*there, came), came + 1
        until = begins[came] if came < len(order) else math.inf
        for i in sorted(there, key=lambda i: left[i] / nodes[i]):
            rest = left.copy()
            if now + left[i] <= until:
                rest[i] = 0.0
                end = now + left[i]
                late = nodes[i] * (end - begins[i] - work[i])
                go(end, came, tuple(one for one in there if one != i), rest, cost + late)
            else:
                rest[i] -= until - now
                go(until, came, there, rest, cost)

    go(begins[0], 0, (), work, 0.0)
    return min(best, bound)
