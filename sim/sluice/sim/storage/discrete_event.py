"""The discrete-event storage model, bound: storage and programs in, outcomes out.

sim/engine/storage/discrete_event.h says what every number means; the names here are its names.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sluice.sim._engine import ffi, lib
from sluice.sim.engine import StorageModelError
from sluice.sim.storage.turns import take_turns

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
    io: float
    """Seconds inside bursts."""
    io_alone: float
    """The same alone; 0 where bursts take no turns."""
    held: float
    """Seconds for which turns held its bursts."""

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
    "coverage": {
        "covered": lib.SLUICE_COVERED,
        "seen": lib.SLUICE_SEEN,
        "unseen": lib.SLUICE_UNSEEN,
    },
}
"""What a program's words mean."""

WHOLE = (
    *("creates", "rewrites", "interleaved", "inquiry", "noise", "divides"),
    *("in_step", "overlaps"),
)
"""Whole numbers of a program; all but the first are 0 or 1."""


def simulate(
    storage: Mapping[str, float],
    programs: Sequence[Mapping[str, float | str]],
    *,
    stop_share: float = 0.0,
    seed: int = 0,
    turns: Mapping[str, float] | None = None,
    watch: Any = ffi.NULL,
) -> list[ProgramOutcome]:
    """Let programs write together, until all but the noise have ended.

    With stop_share, until the first has written that share of its bytes (facts S8). turns: bursts
    take turns, with these settings and errors (TURNS); watch: a sluice_turns_watch.
    """
    machine = storage_struct(storage, seed=seed, turns=turns)
    writers = program_structs(programs)
    outcomes = ffi.new("struct sluice_program_outcome []", len(programs))
    error = ffi.new("struct sluice_error *")
    if not math.isfinite(stop_share) or not 0.0 <= stop_share <= 1.0:
        raise StorageModelError(f"stop_share is {stop_share}; give 0 to 1")
    events = lib.sluice_discrete_event_run(
        machine, writers, len(programs), stop_share, watch, ffi.NULL, outcomes, error
    )
    if events < 0:
        raise StorageModelError(ffi.string(error.text).decode())
    return [
        ProgramOutcome(*(getattr(o, name) for name in ProgramOutcome.__slots__)) for o in outcomes
    ]


IN_A_SCENARIO = {"rare": 0.0, "trial": 0.0}
"""Of turns: it lasts minutes, so holds must pay wherever a station is full at the moment.

Trials would cost more than they could still tell.
"""


def storage_struct(
    storage: Mapping[str, float], *, seed: int = 0, turns: Mapping[str, float] | None = None
) -> Any:
    """Make a struct sluice_storage of its numbers; those not given keep their defaults."""
    machine = ffi.new("struct sluice_storage *")
    lib.sluice_storage_init(machine)
    machine.seed = seed
    _fill(machine, storage, {field.name for field in STORAGE_FIELDS}, "storage")
    if turns is not None:
        take_turns(machine.turns, IN_A_SCENARIO | dict(turns))
    return machine


def program_structs(programs: Sequence[Mapping[str, float | str]]) -> Any:
    """Make an array of struct sluice_program."""
    writers = ffi.new("struct sluice_program []", len(programs))
    names = {field.name for field in PROGRAM_FIELDS} | set(WORDS) | set(WHOLE)
    for i, program in enumerate(programs):
        lib.sluice_program_init(writers + i)
        _fill(writers[i], program, names, f"program {i}")
    return writers


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


MIB = 1048576.0


@dataclass(frozen=True, slots=True)
class Parameter:
    """One number of struct sluice_storage."""

    name: str
    value: float
    source: str
    fitted: str = ""
    """The figure that it was fitted to."""


@dataclass(frozen=True, slots=True)
class Platform:
    """A storage system that a paper measured."""

    name: str
    title: str
    parameters: tuple[Parameter, ...]

    def storage(self, **changed: float) -> dict[str, float]:
        """Return its numbers, some of them changed."""
        return {**{p.name: p.value for p in self.parameters}, **changed}

    def fitted_to(self, figure: str) -> list[tuple[str, float]]:
        """Return the names and values of the numbers that were fitted to a figure."""
        return [(p.name, p.value) for p in self.parameters if p.fitted == figure]


LUSTRE = Platform(
    "lustre",
    "Lustre of TSUBAME 2.5 (Shah et al. 2019)",
    (
        Parameter("servers", 8, "the paper's platform: 8 OSS"),
        Parameter("targets", 104, "8 × 13 OST"),
        Parameter("target_bandwidth", 50e9 / 104, "50 GB/s over 104 OST"),
        Parameter("server_bandwidth", 50e9 / 8, "50 GB/s over 8 OSS"),
        Parameter("node_bandwidth", 4e9, "4X QDR InfiniBand"),
        Parameter("call_seconds", 2e-6, "assumed: a write into the page cache"),
        Parameter("unit_bytes", MIB, "Lustre default: 256 pages an RPC"),
        Parameter("flow_window", 3, "effective; the default max_rpcs_in_flight is 8", "S1"),
        Parameter("rewrite_window", 6, "twice that where no block is allocated", "S3a"),
        Parameter(
            "setup_seconds", 0.0026, "lock, write and sync round trips of an operation", "S1"
        ),
        Parameter("commit_seconds", 0.00093, "an OST's time for a sync", "S1"),
        Parameter("create_seconds", 24e-6, "what one MDS needs for one create at a time", "S1"),
        Parameter("create_contention", 0.00067, "two programs create less than twice one's", "S7c"),
        Parameter(
            "create_delay", 0.0026, "open and close: as many round trips as a write and sync"
        ),
    ),
)
"""Replays by request start from these numbers; S1, S3a, S7c: figures of tests/papers."""
