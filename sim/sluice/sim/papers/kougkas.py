"""Kougkas, Dorier, Latham, Ross, Sun (eScience 2016), facts K, and remedies of other papers.

Two programs of 256 processes that write 32 MB each, on 8 servers. A remedy is worth what the
mean I/O time of both, as they see it, falls by.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from sluice.sim.papers.figure import Figure, Row, between
from sluice.sim.papers.remedies import REMEDIES, alone_seconds, worth
from sluice.sim.storage.platforms import KIB, MIB, PLATFORMS
from sluice.sim.storage.scenario import Scenario

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sluice.sim.papers.remedies import Worth

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
        names=("A", "B"),
        programs=(writer, {**writer, "start": offset}),
        stop_share=0.0,
        offsets=(),
        seed=0,
    )


@cache
def _found(offset: float) -> dict[str, Worth]:
    alone = alone_seconds(_programs(0.0))
    scenario = _programs(max(offset * alone[0], 0.001))  # who is first is certain
    return {r.name: worth(scenario, r, alone) for r in REMEDIES if r.name[0] in "s123"}


def _gain(offset: float, name: str) -> float:
    found = _found(offset)
    return found["sharing"].mean_factor / found[name].mean_factor


def _staging() -> Iterator[Row]:
    for offset in OFFSETS:
        for name in ("1a", "1b", "2a", "2b"):
            yield between(f"Δ = {offset:g} T, {name}: mean I/O time of sharing over it",
                          "up to 2", _gain(offset, name), 1.0, 2.1)  # fmt: skip
    best = max(_gain(offset, name) for offset in OFFSETS for name in ("1a", "1b", "2a", "2b"))
    yield between("the best of them", "up to 2", best, 1.5, 2.1)


def _never_interrupted() -> Iterator[Row]:
    for offset in OFFSETS:
        factor = _found(offset)["2a"].factors[0]
        yield between(
            f"Δ = {offset:g} T, 2a: I of the first", "not interrupted", factor, 0.95, 1.05
        )
        factor = _found(offset)["1a"].factors[1]
        yield between(f"Δ = {offset:g} T, 1a: I of the later", "takes over", factor, 0.95, 1.05)


def _partition() -> Iterator[Row]:
    for offset in OFFSETS:
        static, dynamic = (_found(offset)[name].mean_factor for name in ("3-static", "3-dynamic"))
        yield between(f"Δ = {offset:g} T: I/O time of dynamic over static halves",
                      "all when alone", dynamic / static, 0.0, 1.01)  # fmt: skip


_P = ("pvfs-8",)

FIGURES = (
    Figure(
        "K1",
        "Staging in the nodes' buffers while the other writes: up to twice as fast",
        "Two that share take twice as long each; who stages returns at the speed of memory, and "
        "the other one has the servers to himself.",
        _P,
        _staging,
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
        "not.",
        _P,
        _partition,
    ),
)
