"""The papers' remedies against interference, and what one of the papers found of them.

Each remedy changes a scenario; what it is worth is then simulated like anything else. Names in
brackets are those of the papers' facts: K Kougkas et al. (eScience 2016), Y Yildiz et al. (IPDPS
2016), H Huang et al., S Shah et al. (SuperFrI 2019).

Kougkas, Dorier, Latham, Ross, Sun (eScience 2016), facts K, and remedies of other papers. Two
programs of 256 processes that write 32 MB each, on 8 servers. A remedy is worth what the mean I/O
time of both, as they see it, falls by.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cache
from statistics import mean
from typing import TYPE_CHECKING

from papers.figure import Figure, Row, between
from papers.platforms import KIB, PLATFORMS, Scenario

from sluice.policies._core import ffi, lib
from sluice.sim.engine import StorageModelError
from sluice.sim.storage.discrete_event import MIB, simulate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from sluice.sim.storage.discrete_event import ProgramOutcome


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


def order_bursts(scenario: Scenario) -> Scenario:
    """Let bursts take turns by the rule that is deployed (policies/core/turns.h; K: 1 and 2).

    A history knows how long a burst of each program takes alone.
    """

    def known(program: Program) -> Program:
        one_burst = {**program, "start": 0.0, "bursts": 1}
        alone = outcomes(replace(scenario, programs=(one_burst,), turns=None))[0]
        return {"expected": program.get("expected") or alone.seconds}

    if len(writers(scenario)) < 2:
        raise NotApplicableError("needs several programs")
    return replace(_each(scenario, known), turns=scenario.turns or {})


def part_statically(scenario: Scenario) -> Scenario:
    """Give each program targets of its own, for good (K: 3; Y5).

    The core chooses them, as it does for jobs (policies/core/placement.h): blocks that no other
    program is on.
    """
    count = sum(not one.get("noise") for one in scenario.programs)
    targets = int(scenario.storage.get("targets", 1))
    size = 2 ** int(math.log2(max(1, targets // max(1, count))))
    if count < 2 or count > targets:
        raise NotApplicableError("needs several programs, and a target for each")
    placement = ffi.new("struct sluice_placement *")
    lib.sluice_placement_init(placement, targets)

    def part(program: Program) -> Program:
        nodes = float(program.get("nodes", 1))
        choice = ffi.new("struct sluice_placement_choice *")
        if lib.sluice_placement_choose(placement, size, 1.0, nodes, 0, choice):
            raise NotApplicableError("has no block of targets left")
        placed = {"duty": 1.0, "nodes": nodes, "block": choice.block}
        lib.sluice_placement_add(placement, ffi.new("struct sluice_placed *", placed))
        stripes = min(float(program.get("stripe_targets", 1)), size)
        first = float(choice.block.first)
        return {"first_target": first, "target_count": size, "stripe_targets": stripes}

    return _each(scenario, part)


def part_dynamically(scenario: Scenario) -> Scenario:
    """Give each program targets of its own while several write, else all (K: 3)."""
    part_statically(scenario)  # applies where that does
    return _each(scenario, lambda _: {"divides": 1})


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
)


def outcomes(scenario: Scenario) -> list[ProgramOutcome]:
    """Let all programs of a scenario write together."""
    return simulate(
        scenario.storage,
        scenario.programs,
        stop_share=scenario.stop_share,
        seed=scenario.seed,
        turns=scenario.turns,
    )


def alone_seconds(scenario: Scenario) -> list[float]:
    """Return the I/O time of each program when nobody else writes; NaN of noise."""
    return [
        math.nan
        if one.get("noise")
        else outcomes(replace(scenario, programs=({**one, "start": 0.0},), turns=None))[0].seconds
        for one in scenario.programs
    ]


def factors(scenario: Scenario, remedy: Remedy, alone: Sequence[float]) -> tuple[float, ...]:
    """Return the I/O time of each program over that in `alone`, as the program sees it."""
    found = outcomes(remedy.change(scenario))
    return tuple(found[i].seconds / alone[i] for i in writers(scenario))


OFFSETS = (0.0, 0.5)
"""Of the later program, over the time alone."""


def _programs(offset: float) -> Scenario:
    writer: dict[str, float | str] = {
        "processes": 256,
        "nodes": 32,
        "operation_bytes": MIB,
        "operations": 32,
        "stripe_bytes": 64 * KIB,
        "stripe_targets": 8,
        "interleaved": 1,
        "sync": "ack",
    }
    return Scenario(
        storage=PLATFORMS["pvfs-8"].storage(),
        programs=(writer, {**writer, "start": offset}),
    )


@cache
def _found(offset: float) -> dict[str, tuple[float, ...]]:
    alone = alone_seconds(_programs(0.0))
    scenario = _programs(max(offset * alone[0], 0.001))  # who is first is certain
    return {remedy.name: factors(scenario, remedy, alone) for remedy in REMEDIES}


def _gain(offset: float, name: str) -> float:
    found = _found(offset)
    return mean(found["sharing"]) / mean(found[name])


def _worth_of_staging() -> Iterator[Row]:
    for offset in OFFSETS:
        for name in ("1a", "1b", "2a", "2b"):
            yield between(f"Δ = {offset:g} T, {name}: mean I/O time of sharing over it",
                          "up to 2", _gain(offset, name), 1.0, 2.1)  # fmt: skip
    best = max(_gain(offset, name) for offset in OFFSETS for name in ("1a", "1b", "2a", "2b"))
    yield between("the best of them", "up to 2", best, 1.5, 2.1)


def _never_interrupted() -> Iterator[Row]:
    for offset in OFFSETS:
        factor = _found(offset)["2a"][0]
        yield between(
            f"Δ = {offset:g} T, 2a: I of the first", "not interrupted", factor, 0.95, 1.05
        )
        factor = _found(offset)["1a"][1]
        yield between(f"Δ = {offset:g} T, 1a: I of the later", "takes over", factor, 0.95, 1.05)


def _partition() -> Iterator[Row]:
    for offset in OFFSETS:
        for name, words in (("3-static", "static"), ("3-dynamic", "dynamic")):
            yield between(f"Δ = {offset:g} T, {words} halves: mean I/O time of sharing over it",
                          "up to 2", _gain(offset, name), 0.0, 2.1)  # fmt: skip
        static, dynamic = (mean(_found(offset)[name]) for name in ("3-static", "3-dynamic"))
        yield between(f"Δ = {offset:g} T: I/O time of dynamic over static halves",
                      "all when alone", dynamic / static, 0.0, 1.01)  # fmt: skip


TURNS: tuple[tuple[str, float, dict[str, float | str], str], ...] = (
    ("equal programs", 0.5, {}, "2"),
    ("a later one with a quarter of the bytes", 0.5, {"operations": 8}, "1"),
    ("the same, when the first is nearly done", 0.9, {"operations": 8}, "2"),
    ("a later one on four times the nodes", 0.5, {"nodes": 128}, "1"),
)
"""What the later program is, when it begins over the time alone of the first, and the strategy
(1: who writes yields; 2: the newcomer waits) that keeps fewer nodes waiting for I/O."""


@cache
def _pair_at(offset: float, later: tuple[tuple[str, float | str], ...]) -> Scenario:
    pair = _programs(0.0)
    (alone, _) = alone_seconds(pair)
    first, second = pair.programs
    return replace(pair, programs=(first, {**second, **dict(later), "start": offset * alone}))


def _strategy(pair: Scenario, name: str) -> Scenario:
    """Return strategy 1 or 2 without a buffer: who yields waits for the other's end."""
    programs = list(pair.programs)
    yields = 0 if name == "1" else 1
    programs[yields] = {**programs[yields], "yields": "block"}
    storage = {**pair.storage, "buffer_bytes": 0.0}
    return replace(pair, programs=tuple(programs), storage=storage)


def _node_seconds(scenario: Scenario) -> float:
    """Return the node-seconds that both programs spend on I/O."""
    nodes = (float(program["nodes"]) for program in scenario.programs)
    return sum(one.seconds * n for one, n in zip(outcomes(scenario), nodes, strict=True))


def _index() -> Iterator[Row]:
    for what, offset, later, name in TURNS:
        pair = _pair_at(offset, tuple(later.items()))
        other = {"1": "2", "2": "1"}[name]
        index = _node_seconds(order_bursts(replace(pair, turns={"latency": 0.0})))
        chosen, rejected = (_node_seconds(_strategy(pair, one)) for one in (name, other))
        case = f"Δ = {offset:g} T, {what}"
        yield between(f"{case}: strategy {name} over the index",
                      "open", chosen / index, 0.96, 1.01)  # fmt: skip
        yield between(f"{case}: strategy {other} over the index",
                      "open", rejected / index, 1.02, 5.0)  # fmt: skip
        late = _node_seconds(order_bursts(replace(pair, turns={})))
        yield between(f"{case}: sharing over the index, a second late",
                      "open", _node_seconds(pair) / late, 0.999, 5.0)  # fmt: skip


_P = ("pvfs-8",)

FIGURES = (
    Figure(
        "K1",
        "Staging in the nodes' buffers while the other writes: up to twice as fast",
        "Two that share take twice as long each; who stages returns at the speed of memory, and "
        "the other one has the servers to himself.",
        _P,
        _worth_of_staging,
    ),
    Figure(
        "K2",
        "Who has the turn is not disturbed",
        "While one program stages and blocks, the servers serve the other one alone.",
        _P,
        _never_interrupted,
    ),
    Figure(
        "K3",
        "Static and dynamic partition of the servers",
        "Static halves leave servers idle whenever one program does not write; dynamic ones do "
        "not. The core of the product chooses the static ones, as blocks of targets.",
        _P,
        _partition,
    ),
    Figure(
        "K4",
        "Who should have the turn, strategy 1 or 2: an open question; node-seconds of I/O",
        "Both strategies are outcomes of the index that orders bursts: the program that writes "
        "yields to a newcomer with more nodes or less left to write; else the newcomer waits.",
        _P,
        _index,
    ),
)
