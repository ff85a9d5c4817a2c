"""The papers' remedies against interference, as what-ifs of the discrete-event storage model.

Each remedy changes a scenario; what it is worth is then simulated like anything else. Names
in brackets are those of the papers' facts: K Kougkas et al. (eScience 2016), Y Yildiz et al.
(IPDPS 2016), H Huang et al., S Shah et al. (SuperFrI 2019).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from sluice.sim.errors import StorageModelError
from sluice.sim.storage.discrete_event import simulate
from sluice.sim.storage.platforms import MIB

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sluice.sim.storage.discrete_event import ProgramOutcome
    from sluice.sim.storage.scenario import Scenario

STRIPES = 4
"""Larger stripes are so many times as large: 64 to 256 KiB in Y6."""
STAGING_BANDWIDTH = 1e10
"""B/s into the memory of the staging nodes."""

Program = dict[str, float | str]


class NotApplicableError(StorageModelError):
    """A remedy has nothing to change, or lacks what it needs; the text says what."""


@dataclass(frozen=True, slots=True)
class Remedy:
    """A way to write that hurts less, perhaps."""

    name: str
    title: str
    change: Callable[[Scenario], Scenario]
    """Raises NotApplicableError."""


@dataclass(frozen=True, slots=True)
class Worth:
    """What a remedy makes of a scenario."""

    remedy: str
    title: str
    factors: tuple[float, ...] = ()
    """Of each program: its I/O time, as it sees it, over that alone without any remedy."""
    seconds: float = math.nan
    """Until the storage has the last byte."""
    messages: float = 0.0
    """Of the coordinators that re-route."""
    why_not: str = ""
    """It was not simulated; why."""

    @property
    def mean_factor(self) -> float:
        return sum(self.factors) / len(self.factors) if self.factors else math.nan


def writers(scenario: Scenario) -> list[int]:
    """Return the indices of the programs that are no noise."""
    return [i for i, one in enumerate(scenario.programs) if not one.get("noise")]


def _volume(program: Program) -> float:
    """Return the bytes that a process writes in a burst."""
    return float(program.get("operation_bytes", MIB)) * float(program.get("operations", 1))


def _each(scenario: Scenario, change: Callable[[Program], Program]) -> Scenario:
    """Change all programs but the noise."""
    return replace(
        scenario,
        programs=tuple(
            dict(one) if one.get("noise") else {**one, **change(dict(one))}
            for one in scenario.programs
        ),
    )


def _pair(scenario: Scenario) -> tuple[int, int]:
    """Return which of two programs begins first, and which later."""
    if len(writers(scenario)) != 2:
        raise NotApplicableError("needs two programs")
    first, later = sorted(
        writers(scenario), key=lambda i: float(scenario.programs[i].get("start", 0))
    )
    return first, later


def stage(scenario: Scenario, *, is_first: bool, yields: str) -> Scenario:
    """Let the first or the later of two programs keep off while the other writes (K: 1, 2).

    yields: `block` (a) when the nodes' buffers are full, or `flush` (b).
    """
    number = _pair(scenario)[0 if is_first else 1]
    if not scenario.storage.get("buffer_bytes"):
        raise NotApplicableError("needs buffer_bytes, of a node, in [storage]")
    if scenario.programs[number].get("sync") == "behind":
        raise NotApplicableError("needs a program that waits for its writes (sync), to stage")
    programs = list(scenario.programs)
    programs[number] = {**programs[number], "yields": yields}
    return replace(scenario, programs=tuple(programs))


def part_statically(scenario: Scenario) -> Scenario:
    """Give each program targets of its own, for good (K: 3; Y5)."""
    count = sum(not one.get("noise") for one in scenario.programs)
    size = int(scenario.storage.get("targets", 1)) // count
    if count < 2 or not size:
        raise NotApplicableError("needs several programs, and a target for each")
    starts = iter(range(0, count * size, size))

    def part(program: Program) -> Program:
        stripes = min(float(program.get("stripe_targets", 1)), size)
        return {"first_target": next(starts), "target_count": size, "stripe_targets": stripes}

    return _each(scenario, part)


def part_dynamically(scenario: Scenario) -> Scenario:
    """Give each program targets of its own while several write, else all (K: 3)."""
    part_statically(scenario)  # applies where that does
    return _each(scenario, lambda _: {"divides": 1})


def take_turns(scenario: Scenario) -> Scenario:
    """Let each program write one operation at a time on each target (H2)."""
    if any(float(one.get("stripe_targets", 1)) > 1 for one in scenario.programs):
        raise NotApplicableError("needs files on one target each (stripe_targets 1)")
    return _each(scenario, lambda _: {"dispatch": "turns"})


def reroute(scenario: Scenario, *, inquiry: bool) -> Scenario:
    """Let idle targets take writes from busy ones, up to the program's throttle (H2 to H4).

    With an inquiry, from the longest queue first.
    """

    def rerouted(program: Program) -> Program:
        throttle = float(program.get("throttle", 0)) or 1.0
        return {"dispatch": "reroute", "throttle": throttle, "inquiry": float(inquiry)}

    return _each(take_turns(scenario), rerouted)


def buffer_in_transit(scenario: Scenario, memory: float = 0.0) -> Scenario:
    """Send everything through the memory of staging nodes in front of all targets (H6).

    memory: bytes of them; without, as much as the buffers of all nodes. It is drained in the
    order of arrival, with as many units under way as there are targets.
    """
    nodes = sum(float(one.get("nodes", 1)) for one in scenario.programs if not one.get("noise"))
    memory = memory or nodes * scenario.storage.get("buffer_bytes", 0.0)
    if not memory:
        raise NotApplicableError("needs buffer_bytes, of a node, in [storage]")
    changed = {
        "servers": 1.0,
        "server_bandwidth": 2 * STAGING_BANDWIDTH,
        "cache_bytes": memory,
        "cache_bandwidth": STAGING_BANDWIDTH,
        "drain_window": scenario.storage.get("targets", 1.0),
    }
    return replace(scenario, storage={**scenario.storage, **changed})


def one_writer_a_node(scenario: Scenario) -> Scenario:
    """Let one process of a node write for all of them (Y3)."""

    def gathered(program: Program) -> Program:
        processes, nodes = (float(program.get(name, 1)) for name in ("processes", "nodes"))
        size = float(program.get("operation_bytes", MIB)) * processes / nodes
        return {"processes": nodes, "operation_bytes": size}

    if all(one.get("processes", 1) == one.get("nodes", 1) for one in scenario.programs):
        raise NotApplicableError("would change nothing: one process a node writes already")
    return _each(scenario, gathered)


def larger_stripes(scenario: Scenario) -> Scenario:
    """Let an operation reach fewer targets (Y6)."""

    def larger(program: Program) -> Program:
        return {"stripe_bytes": STRIPES * float(program.get("stripe_bytes", 1e15 / STRIPES))}

    if all(float(one.get("stripe_targets", 1)) == 1 for one in scenario.programs):
        raise NotApplicableError("needs files on several targets (stripe_targets)")
    return _each(scenario, larger)


def ordered_service(scenario: Scenario) -> Scenario:
    """Let all targets serve operations in the order in which they began (Y6)."""
    return replace(scenario, storage={**scenario.storage, "ordered": 1.0})


def balanced_files(scenario: Scenario) -> Scenario:
    """Stripe files so that each target has as much of a program's data as any other."""
    targets = int(scenario.storage.get("targets", 1))

    def balanced(program: Program) -> Program:
        own = int(program.get("target_count", 0)) or targets - int(program.get("first_target", 0))
        stripes = own // math.gcd(own, int(program.get("processes", 1)))
        size = min(float(program.get("stripe_bytes", 1e15)), MIB, _volume(program) / stripes)
        return {"stripe_targets": stripes, "stripe_bytes": size}

    changed = _each(scenario, balanced)
    if all(
        float(new["stripe_targets"]) <= float(old.get("stripe_targets", 1))
        for new, old in zip(changed.programs, scenario.programs, strict=True)
        if not old.get("noise")
    ):
        raise NotApplicableError("would change nothing: each target has as much as any other")
    return changed


def _staging(name: str, title: str, *, is_first: bool, yields: str) -> Remedy:
    return Remedy(name, title, lambda s: stage(s, is_first=is_first, yields=yields))


REMEDIES = (
    Remedy("sharing", "as it is", lambda scenario: scenario),
    _staging("1a", "the first stages, and blocks when full (K)", is_first=True, yields="block"),
    _staging("1b", "the first stages, and flushes when full (K)", is_first=True, yields="flush"),
    _staging("2a", "the later stages, and blocks when full (K)", is_first=False, yields="block"),
    _staging("2b", "the later stages, and flushes when full (K)", is_first=False, yields="flush"),
    Remedy("3-static", "targets of its own for each, for good (K, Y5)", part_statically),
    Remedy("3-dynamic", "targets of its own for each while several write (K)", part_dynamically),
    Remedy("turns", "one write at a time on each target (H2)", take_turns),
    Remedy(
        "reroute",
        "turns, and idle targets take from busy ones (H2 to H4)",
        partial(reroute, inquiry=False),
    ),
    Remedy(
        "reroute-asked",
        "likewise, from the longest queue first (H2)",
        partial(reroute, inquiry=True),
    ),
    Remedy("in-transit", "through the memory of staging nodes (H6)", buffer_in_transit),
    Remedy("one-writer", "one writer a node (Y3)", one_writer_a_node),
    Remedy("stripes", f"stripes {STRIPES} times as large (Y6)", larger_stripes),
    Remedy("ordered", "targets serve in the order of operations (Y6)", ordered_service),
    Remedy("balanced", "files striped until all targets have as much (S8)", balanced_files),
)


def outcomes(scenario: Scenario) -> list[ProgramOutcome]:
    """Let all programs of a scenario write together."""
    return simulate(
        scenario.storage, scenario.programs, stop_share=scenario.stop_share, seed=scenario.seed
    )


def alone_seconds(scenario: Scenario) -> list[float]:
    """Return the I/O time of each program when nobody else writes; NaN of noise."""
    return [
        math.nan
        if one.get("noise")
        else outcomes(replace(scenario, programs=({**one, "start": 0.0},)))[0].seconds
        for one in scenario.programs
    ]


def worth(scenario: Scenario, remedy: Remedy, alone: Sequence[float]) -> Worth:
    """Simulate a remedy; alone: `alone_seconds` without it."""
    try:
        found = outcomes(remedy.change(scenario))
    except NotApplicableError as error:
        return Worth(remedy.name, remedy.title, why_not=str(error))
    own = writers(scenario)
    return Worth(
        remedy.name,
        remedy.title,
        tuple(found[i].seconds / alone[i] for i in own),
        max(found[i].drained for i in own),
        sum(found[i].messages for i in own),
    )


def what_if(scenario: Scenario) -> list[Worth]:
    """Try each remedy on a scenario; the first is none."""
    alone = alone_seconds(scenario)
    return [worth(scenario, remedy, alone) for remedy in REMEDIES]
