"""Scenarios of the discrete-event storage model in a file: other storage, other programs.

TOML or JSON. `platform` names the numbers to start from, `[storage]` changes some, and each
`[[program]]` is a writer. The outcome is each program alone and all together, or a Δ-graph.
"""

from __future__ import annotations

import json
import re
import tomllib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sluice.sim.errors import StorageModelError
from sluice.sim.storage.discrete_event import simulate
from sluice.sim.storage.platforms import PLATFORMS

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

PATTERNS: dict[str, dict[str, float | str]] = {
    "owc": {"sync": "flush", "creates": 1},
    "ws": {"sync": "flush", "rewrites": 1},
    "aw": {"sync": "behind"},
}
"""What the patterns of Shah et al. mean in the numbers of a program."""

MEMBERS = ("platform", "storage", "program", "stop_share", "offsets", "seed")
SIZE = re.compile(r"([0-9.]+(?:[eE][+-]?[0-9]+)?)\s*([KMGT]i?)?B", re.ASCII)
UNITS = {"": 1.0, **{p: 1e3**i for i, p in enumerate("KMGT", 1)}}
UNITS |= {f"{p}i": 1024.0**i for i, p in enumerate("KMGT", 1)}


@dataclass(frozen=True, slots=True)
class Scenario:
    """Storage, programs, and what to ask of them."""

    storage: Mapping[str, float]
    names: tuple[str, ...]
    programs: tuple[Mapping[str, float | str], ...]
    stop_share: float
    """Count until the first has written this share; 0: until all have ended."""
    offsets: tuple[float, ...]
    """Of a Δ-graph, in seconds; the second program starts so much later than the first."""
    seed: int


@dataclass(frozen=True, slots=True)
class Together:
    """A program alone and with the others."""

    name: str
    alone_seconds: float
    alone_rate: float
    """B/s."""
    seconds: float
    """Infinite if another had written its share before."""
    rate: float

    @property
    def factor(self) -> float:
        """I, the interference factor: time together over time alone."""
        return self.seconds / self.alone_seconds

    @property
    def lost(self) -> float:
        """Throughput degradation, 0 to 1."""
        return 1 - self.rate / self.alone_rate


def read_scenario(path: Path) -> Scenario:
    """Read a scenario; a StorageModelError names the file and what is wrong."""
    text = path.read_text(encoding="utf-8")
    try:
        content = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
        return parse_scenario(content)
    except (
        json.JSONDecodeError,
        tomllib.TOMLDecodeError,
        StorageModelError,
        RecursionError,
    ) as error:
        raise StorageModelError(f"{path}: {error}") from error


def parse_scenario(content: Any) -> Scenario:
    """Turn the content of a file into a scenario."""
    if not isinstance(content, dict):
        raise StorageModelError("no table at the top; give platform, [storage] and [[program]]")
    for name in content:
        if name not in MEMBERS:
            raise StorageModelError(f"there is no {name}; give {', '.join(MEMBERS)}")
    platform = content.get("platform")
    if platform is not None and platform not in PLATFORMS:
        raise StorageModelError(f"there is no platform {platform!r}; give {', '.join(PLATFORMS)}")
    start = PLATFORMS[platform].storage() if platform else {}
    writers = content.get("program")
    if not isinstance(writers, list) or not writers:
        raise StorageModelError("no program; give at least one [[program]]")
    offsets = content.get("offsets", [])
    if not isinstance(offsets, list) or not all(map(_is_number, offsets)):
        raise StorageModelError("offsets are no list of seconds; give offsets = [-5, 0, 5]")
    if offsets and len(writers) != 2:
        raise StorageModelError(f"offsets need two programs, and there are {len(writers)}")
    return Scenario(
        storage={**start, **_sized("storage", content.get("storage", {}))},
        names=tuple(str(_table(i, w).get("name", i + 1)) for i, w in enumerate(writers)),
        programs=tuple(_program(i, writer) for i, writer in enumerate(writers)),
        stop_share=_given(content, "stop_share"),
        offsets=tuple(map(float, offsets)),
        seed=int(_given(content, "seed")),
    )


def run_together(scenario: Scenario) -> list[Together]:
    """Simulate each program alone, then all together."""
    options: dict[str, Any] = {"stop_share": scenario.stop_share, "seed": scenario.seed}
    alone = [simulate(scenario.storage, [program], **options)[0] for program in scenario.programs]
    together = simulate(scenario.storage, scenario.programs, **options)
    return [
        Together(name, one.seconds, one.rate, both.seconds, both.rate)
        for name, one, both in zip(scenario.names, alone, together, strict=True)
    ]


def delta_graph(scenario: Scenario) -> list[tuple[float, float, float]]:
    """Return (offset in s, I of the first program, I of the second) for each offset."""
    first, second = scenario.programs
    alone = [
        simulate(scenario.storage, [p], seed=scenario.seed)[0].seconds for p in (first, second)
    ]
    points = []
    for offset in scenario.offsets:
        moved = [{**first, "start": max(0.0, -offset)}, {**second, "start": max(0.0, offset)}]
        outcomes = simulate(scenario.storage, moved, seed=scenario.seed)
        factors = [o.seconds / one for o, one in zip(outcomes, alone, strict=True)]
        points.append((offset, factors[0], factors[1]))
    return points


def _table(index: int, writer: Any) -> dict[str, Any]:
    if not isinstance(writer, dict):
        raise StorageModelError(f"program {index} is no table; write [[program]] above its numbers")
    return writer


def _program(index: int, writer: Any) -> dict[str, float | str]:
    given = dict(_table(index, writer))
    given.pop("name", None)
    pattern = given.pop("pattern", None)
    if pattern is not None and pattern not in PATTERNS:
        raise StorageModelError(
            f"program {index}: pattern is {pattern!r}; give {' or '.join(PATTERNS)}, "
            "or sync, creates and rewrites"
        )
    meaning = PATTERNS[pattern] if pattern is not None else {}
    return {**meaning, **_sized(f"program {index}", given)}


def _sized(what: str, values: Any) -> dict[str, Any]:
    """Read sizes with a unit, as `1 MiB`, as bytes."""
    if not isinstance(values, dict):
        raise StorageModelError(f"{what} is no table; give [{what}] and its numbers")
    sized = dict(values)
    for name, value in values.items():
        match = SIZE.fullmatch(value) if isinstance(value, str) else None
        if match:
            sized[name] = float(match[1]) * UNITS[match[2] or ""]
        elif not isinstance(value, str) and not _is_number(value):
            raise StorageModelError(f"{what}: {name} is {value!r}; give a number")
    return sized


def _given(content: Mapping[str, Any], name: str) -> float:
    value = content.get(name, 0)
    if not _is_number(value):
        raise StorageModelError(f"{name} is {value!r}; give a number")
    return float(value)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
