"""The discrete-event storage model: bound, its platforms, and scenarios from files.

sim/engine/storage/discrete_event.h says what every number means; the names here are its names.

The storage systems of the source papers, in the numbers of the discrete-event storage model. Every
number says where it is from. `fitted` names the figure that it was fitted to; a number that was
fitted to no figure is the platform's own, a default of its software, or an assumption that no
figure depends on much, and the source says which.

Scenarios of the discrete-event storage model in a file: other storage, other programs. TOML or
JSON. `platform` names the numbers to start from, `[storage]` changes some, and each `[[program]]`
is a writer. The outcome is each program alone and all together, or a Δ-graph.
"""

from __future__ import annotations

import json
import math
import re
import tomllib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sluice.sim._engine import ffi, lib
from sluice.sim.engine import StorageModelError
from sluice.sim.storage.turns import take_turns

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path


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


KIB, MIB = 1024.0, 1048576.0


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


_ORANGEFS = (
    Parameter("servers", 12, "the paper's platform"),
    Parameter("targets", 12, "one device a server"),
    Parameter("node_bandwidth", 1.25e9, "10 GbE"),
    Parameter("server_bandwidth", 1.25e9, "10 GbE"),
    Parameter("process_bandwidth", 1.55e9, "one process to memory alone: 2 GB in 1.32 s", "Y1"),
    Parameter("unit_bytes", 256 * KIB, "OrangeFS reference: FlowBufferSizeBytes 262144"),
    Parameter("flow_window", 8, "OrangeFS reference: FlowBuffersPerFlow 8"),
    Parameter("rewrite_window", 8, "the same: a server does not tell old blocks from new"),
    Parameter("cache_bandwidth", 1.96e9, "a server's memory: 4 GB in 2.09 s", "Y1"),
    Parameter("stall_seconds", 0.04, "Linux: TCP_DELACK_MIN, of each connection"),
    Parameter("flow_seconds", 170e-6, "where requests of 128 KiB stop interfering", "Y7a"),
    Parameter("flow_limit", 550, "between 512 and 704 clients", "Y8a"),
    Parameter("retry_seconds", 0.2, "Linux: TCP_RTO_MIN"),
    Parameter("slice_bytes", 512 * KIB, "Linux: max_sectors_kb, the largest request to a disk"),
    Parameter("commit_group", 1, "OrangeFS syncs each request by itself (TroveSyncData)"),
    Parameter("jitter_seconds", 0.01, "processes of an MPI program leave a barrier within this"),
)

_CACHED = Parameter("cache_bytes", 1e12, "sync off: the volume fits into the servers' memory")

_HDD = (
    Parameter("target_bandwidth", 150e6, "2 GB in 13.4 s", "Y1"),
    Parameter("seek_seconds", 0.00087, "two streams take 33.4 s", "Y1"),
    Parameter("commit_seconds", 0.0042, "half a turn at 7200/min"),
)
_SSD = (
    Parameter("target_bandwidth", 910e6, "2 GB in 2.27 s", "Y1"),
    Parameter("commit_seconds", 1e-4, "assumed: a program and erase in flash"),
)
_RAM = (Parameter("target_bandwidth", 1.96e9, "memory, as the cache", "Y1"),)

_LUSTRE = (
    Parameter("servers", 8, "the paper's platform: 8 OSS"),
    Parameter("targets", 104, "8 × 13 OST"),
    Parameter("target_bandwidth", 50e9 / 104, "50 GB/s over 104 OST"),
    Parameter("server_bandwidth", 50e9 / 8, "50 GB/s over 8 OSS"),
    Parameter("node_bandwidth", 4e9, "4X QDR InfiniBand"),
    Parameter("call_seconds", 2e-6, "assumed: a write into the page cache"),
    Parameter("unit_bytes", MIB, "Lustre default: 256 pages an RPC"),
    Parameter("flow_window", 3, "effective; the default max_rpcs_in_flight is 8", "S1"),
    Parameter("rewrite_window", 6, "twice that where no block is allocated", "S3a"),
    Parameter("setup_seconds", 0.0026, "lock, write and sync round trips of an operation", "S1"),
    Parameter("commit_seconds", 0.00093, "an OST's time for a sync", "S1"),
    Parameter("create_seconds", 24e-6, "what one MDS needs for one create at a time", "S1"),
    Parameter("create_contention", 0.00067, "two programs create less than twice one's", "S7c"),
    Parameter("create_delay", 0.0026, "open and close: as many round trips as a write and sync"),
)

_GPFS = (
    Parameter("servers", 4, "the paper's platform"),
    Parameter("targets", 56, "4 × 14 devices"),
    Parameter("target_bandwidth", 20e9 / 56, "20 GB/s over 56 devices"),
    Parameter("server_bandwidth", 20e9 / 4, "20 GB/s over 4 servers"),
    Parameter("node_bandwidth", 4e9, "4X QDR InfiniBand"),
    Parameter("call_seconds", 2e-6, "assumed: a write into the page pool"),
    Parameter("unit_bytes", 4 * MIB, "assumed: the file system's block"),
    Parameter("flow_window", 1e6, "the process limits"),
    Parameter("rewrite_window", 1e6, "the process limits"),
    Parameter("process_window", 18, "GPFS default: prefetchThreads 72 write behind, 4 processes"),
    Parameter("setup_seconds", 0.001, "assumed: token and round trips"),
    Parameter("create_seconds", 1 / 20000, "assumed"),
    Parameter("create_contention", 0.00067, "as on Lustre", "S7c"),
)

_PVFS_8 = (
    Parameter("servers", 8, "the paper's platform: 8 PVFS servers"),
    Parameter("targets", 8, "one device a server"),
    Parameter("target_bandwidth", 100e6, "assumed; only ratios are compared"),
    Parameter("node_bandwidth", 1.25e9, "assumed: 10 GbE, more than the devices take"),
    Parameter("server_bandwidth", 1.25e9, "assumed: 10 GbE, more than the devices take"),
    Parameter("unit_bytes", 256 * KIB, "OrangeFS reference: FlowBufferSizeBytes 262144"),
    Parameter("buffer_bytes", 128 * MIB, "the paper's platform: 128 MB a node"),
    Parameter("buffer_bandwidth", 1e9, "assumed: a process into memory"),
)

_TARGETS_16 = (
    Parameter("servers", 16, "the paper's example: 16 targets"),
    Parameter("targets", 16, "the paper's example"),
    Parameter("target_bandwidth", 400e6, "assumed; only ratios are compared"),
)


_STAGING_16 = (
    *_TARGETS_16,
    Parameter("cache_bytes", 11.5e9, "70 % of what H6's programs write in all", "H6b"),
)


def _orangefs(device: str, parameters: tuple[Parameter, ...]) -> tuple[Platform, Platform]:
    title = f"OrangeFS 2.8.3, 12 servers with {device} (Yildiz et al. 2016)"
    name = f"orangefs-{device.lower()}"
    both = (*_ORANGEFS, *parameters)
    return (
        Platform(f"{name}-sync", f"{title}, sync on", both),
        Platform(name, f"{title}, sync off", (*both, _CACHED)),
    )


PLATFORMS = {
    platform.name: platform
    for platform in (
        *_orangefs("HDD", _HDD),
        *_orangefs("SSD", _SSD),
        *_orangefs("RAM", _RAM),
        Platform("lustre", "Lustre of TSUBAME 2.5 (Shah et al. 2019)", _LUSTRE),
        Platform("gpfs", "GPFS of TSUBAME 2.5 (Shah et al. 2019)", _GPFS),
        Platform("pvfs-8", "8 PVFS servers with buffers in the nodes (Kougkas et al.)", _PVFS_8),
        Platform("targets-16", "16 targets (Huang et al.)", _TARGETS_16),
        Platform("staging-16", "16 targets behind staging nodes (Huang et al.)", _STAGING_16),
    )
}

PATTERNS: dict[str, dict[str, float | str]] = {
    "owc": {"sync": "flush", "creates": 1},
    "ws": {"sync": "flush", "rewrites": 1},
    "aw": {"sync": "behind"},
}
"""What the patterns of Shah et al. mean in the numbers of a program."""

MEMBERS = ("platform", "storage", "turns", "program", "stop_share", "offsets", "seed")
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
    turns: Mapping[str, float] | None = None
    """Bursts take turns, with these settings (engine/storage/bursts.h); None: they do not."""


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
        turns=_sized("turns", content["turns"]) if "turns" in content else None,
    )


def run_together(scenario: Scenario) -> list[Together]:
    """Simulate each program alone, then all together."""
    options: dict[str, Any] = {"stop_share": scenario.stop_share, "seed": scenario.seed}
    alone = [simulate(scenario.storage, [program], **options)[0] for program in scenario.programs]
    together = simulate(scenario.storage, scenario.programs, turns=scenario.turns, **options)
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
        outcomes = simulate(scenario.storage, moved, seed=scenario.seed, turns=scenario.turns)
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
