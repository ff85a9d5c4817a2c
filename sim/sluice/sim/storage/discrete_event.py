"""The discrete-event storage model, bound: storage and programs in, what became of each out.

sim/engine/storage/discrete_event.h says what every number means; the names here are its names.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sluice.sim._engine import ffi, lib
from sluice.sim.errors import StorageModelError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence


@dataclass(frozen=True, slots=True)
class Field:
    """A number of a storage system or of a program."""

    name: str
    unit: str
    text: str
    value: float
    """The default."""
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class ProgramOutcome:
    """What became of one program; times in s since the simulation began."""

    first_start: float
    end: float
    """Of its last operation; infinite if the simulation stopped before."""
    drained: float
    """When the storage had what was staged, too; never before `end`."""
    bytes: float
    """Acknowledged."""
    share_time: float
    """When it had written the share at which the simulation was to stop."""
    stopped: float
    """The end of the simulation."""
    largest_target: float
    """Bytes on the target that got most of it."""
    smallest_target: float
    messages: float
    """Of the coordinators that re-route."""
    collapses: float
    """Flows that a server refused."""

    @property
    def seconds(self) -> float:
        return self.end - self.first_start

    @property
    def rate(self) -> float:
        """Bytes a second from its start until it ended or the simulation stopped."""
        return self.bytes / (min(self.end, self.stopped) - self.first_start)


def _fields(at: Callable[[int], Any]) -> Iterator[Field]:
    index = 0
    while field := at(index):
        name, unit, text = (ffi.string(s).decode() for s in (field.name, field.unit, field.text))
        yield Field(name, unit, text, field.value, field.low, field.high)
        index += 1


STORAGE_FIELDS = tuple(_fields(lib.sluice_storage_field))
PROGRAM_FIELDS = tuple(_fields(lib.sluice_program_field))

WORDS = {
    "sync": {
        "behind": lib.SLUICE_SYNC_BEHIND,
        "ack": lib.SLUICE_SYNC_ACK,
        "flush": lib.SLUICE_SYNC_FLUSH,
    },
    "dispatch": {
        "free": lib.SLUICE_DISPATCH_FREE,
        "turns": lib.SLUICE_DISPATCH_TURNS,
        "reroute": lib.SLUICE_DISPATCH_REROUTE,
    },
    "yields": {
        "never": lib.SLUICE_YIELD_NEVER,
        "block": lib.SLUICE_YIELD_BLOCK,
        "flush": lib.SLUICE_YIELD_FLUSH,
    },
}
"""What a program's words mean."""

WHOLE = ("creates", "rewrites", "interleaved", "inquiry", "noise", "divides")
"""Whole numbers of a program; all but the first are 0 or 1."""


def simulate(
    storage: Mapping[str, float],
    programs: Sequence[Mapping[str, float | str]],
    *,
    stop_share: float = 0.0,
    seed: int = 0,
) -> list[ProgramOutcome]:
    """Let programs write together, until all but the noise have ended.

    With stop_share, until the first has written that share of its bytes (facts S8).
    """
    machine = ffi.new("struct sluice_storage *")
    lib.sluice_storage_init(machine)
    machine.seed = seed
    _fill(machine, storage, {field.name for field in STORAGE_FIELDS}, "storage")
    writers = ffi.new("struct sluice_program []", len(programs))
    names = {field.name for field in PROGRAM_FIELDS} | set(WORDS) | set(WHOLE)
    for i, program in enumerate(programs):
        lib.sluice_program_init(writers + i)
        _fill(writers[i], program, names, f"program {i}")
    outcomes = ffi.new("struct sluice_program_outcome []", len(programs))
    error = ffi.new("struct sluice_error *")
    if not math.isfinite(stop_share) or not 0.0 <= stop_share <= 1.0:
        raise StorageModelError(f"stop_share is {stop_share}; give 0 to 1")
    events = lib.sluice_discrete_event_run(
        machine, writers, len(programs), stop_share, outcomes, error
    )
    if events < 0:
        raise StorageModelError(ffi.string(error.text).decode())
    return [
        ProgramOutcome(*(getattr(o, name) for name in ProgramOutcome.__slots__)) for o in outcomes
    ]


def _fill(struct: Any, values: Mapping[str, float | str], names: set[str], what: str) -> None:
    for name, value in values.items():
        if name not in names:
            raise StorageModelError(f"{what}: there is no {name}; give {', '.join(sorted(names))}")
        setattr(struct, name, _number(what, name, value))


def _number(what: str, name: str, value: float | str) -> float:
    """Read a number; words and flags become those of the header."""
    if name in WORDS:
        if value not in WORDS[name]:
            raise StorageModelError(f"{what}: {name} is {value!r}; give {' or '.join(WORDS[name])}")
        number: int = WORDS[name][str(value)]
        return number
    if isinstance(value, str) or not math.isfinite(value) or (name in WHOLE and value < 0):
        raise StorageModelError(f"{what}: {name} is {value!r}; give a number")
    return int(value) if name in WHOLE else float(value)
