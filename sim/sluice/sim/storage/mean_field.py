"""The storage under a replay: the fast model, and jobs that slow each other in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from sluice.policies.structs import FIELD_NAMES, PATTERNS
from sluice.sim._engine import ffi, lib
from sluice.sim.engine import StorageModelError, outlive, struct_dtype
from sluice.sim.storage.turns import take_turns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


SHARING = {
    "fifo": lib.SLUICE_SHARING_FIFO,
    "jobs": lib.SLUICE_SHARING_JOBS,
    "nodes": lib.SLUICE_SHARING_NODES,
}
"""How a full target divides itself: first come first served, or fairly by jobs or nodes."""

ALLOCATORS = {
    None: lib.SLUICE_ALLOCATOR_NONE,
    "chance": lib.SLUICE_ALLOCATOR_CHANCE,
    "round-robin": lib.SLUICE_ALLOCATOR_ROUND_ROBIN,
}
"""How the file system chooses targets for new files; None: a lane is one big target."""

FOREIGN = "foreign_creates"
NAMES = tuple(
    name
    for name, field in ffi.typeof("struct sluice_mean_field_config").fields
    if field.type.cname == "double" and name != FOREIGN
)
"""The numbers of a storage model."""


def configuration(
    numbers: Mapping[str, float] | None = None,
    *,
    lanes: Sequence[tuple[float, float]] = ((104, 8),),
    sharing: str = "fifo",
    seed: int | None = None,
    spread: float = 0.0,
    turns: Mapping[str, float] | None = None,
    allocator: str | None = None,
    foreign_creates: float = 0.0,
) -> Any:
    """Return a struct sluice_mean_field_config; lanes are (targets, servers).

    allocator: a key of ALLOCATORS; foreign_creates: files a second that others make.
    turns: bursts take turns, with these settings (policies/core/turns.h). With a seed, every
    number is multiplied by a random factor whose logarithm has the standard deviation
    `spread`.
    """
    config = ffi.new("struct sluice_mean_field_config *")
    lib.sluice_mean_field_config_init(config)
    for name, value in (numbers or {}).items():
        if name not in NAMES:
            raise StorageModelError(f"a storage model has no {name}; give {', '.join(NAMES)}")
        setattr(config, name, value)
    if sharing not in SHARING:
        raise StorageModelError(f"sharing is {sharing!r}; give {' or '.join(SHARING)}")
    if len(lanes) > len(config.lanes):
        raise StorageModelError(f"{len(lanes)} lanes; give 1 to {len(config.lanes)}")
    if allocator not in ALLOCATORS:
        known = " or ".join(one for one in ALLOCATORS if one)
        raise StorageModelError(f"the allocator is {allocator!r}; give {known}")
    config.sharing = SHARING[sharing]
    config.allocator = ALLOCATORS[allocator]
    config.foreign_creates = foreign_creates
    config.seed = seed or 0
    config.lane_count = len(lanes)
    for lane, (targets, servers) in zip(config.lanes, lanes, strict=False):
        lane.targets, lane.servers = targets, servers
    if seed is not None:
        lib.sluice_mean_field_config_perturb(config, seed, spread)
    if turns is not None:
        take_turns(config.turns, turns)
    return config


def fill_profile(struct: Any, profile: Mapping[str, Any]) -> None:
    """Fill a struct sluice_profile; what is not given, or None, is unknown.

    `pattern` is a name; `share` of the bytes by name, without it all are of the pattern;
    `spread` of a field by its name.
    """
    lib.sluice_profile_init(struct)
    for name, value in profile.items():
        if name == "pattern":
            struct.pattern = PATTERNS.index(value)
        elif name == "spread":
            struct.spread = [value.get(field, -1.0) for field in FIELD_NAMES]
        elif name != "share" and value is not None:
            setattr(struct, name, value)
    share = profile.get("share") or ({profile["pattern"]: 1.0} if "pattern" in profile else {})
    if share:
        struct.share = [share.get(name, 0.0) for name in PATTERNS]


class Kinds(tuple[Mapping[str, Any], ...]):  # noqa: SLOT001 - structs are kept in it
    """Profiles by the names of policies/core/profile.h, for C filled once: jobs may have many."""

    @classmethod
    def of(cls, profiles: Sequence[Mapping[str, Any]]) -> Kinds:
        return profiles if isinstance(profiles, cls) else cls(profiles)

    @cached_property
    def structs(self) -> Any:
        """An array of struct sluice_profile."""
        structs = ffi.new("struct sluice_profile []", len(self))
        for i, profile in enumerate(self):
            fill_profile(structs + i, profile)
        return structs


TARGETS_A_SLOT = 0.16
"""So that about a sixth of the machine fills the storage, writing at the rate of its nodes."""
TARGETS_A_SERVER = 8
METADATA_A_SLOT = 310.0
"""Operations a second: as large a part of the machine fills the metadata server."""
MEAN_FIELD = "mean-field"
DISCRETE_EVENT = "discrete-event"
MODELS = (MEAN_FIELD, DISCRETE_EVENT)
BLOCKS, AT_CREATE = "blocks", "create"
PLACEMENTS = ("chance", "round-robin", BLOCKS, AT_CREATE)
"""Of the file system; on blocks by predicted pairs, else by chance; and where fewest write now."""
BY_REQUEST = ("grain", "commit_group")
"""Numbers of a Storage that the discrete-event model alone has."""


@dataclass(frozen=True, slots=True)
class Storage:
    """Lanes and the numbers of a storage model."""

    lanes: tuple[tuple[float, float], ...]
    """(targets, servers) of each."""
    numbers: Mapping[str, float] = field(default_factory=dict)
    """Of SLUICE_MEAN_FIELD_FIELDS; others keep their defaults."""
    sharing: str = "fifo"
    """A key of mean_field.SHARING."""
    placement: str | None = None
    """How the targets of new files are chosen, one of PLACEMENTS; None: lanes are one target."""
    foreign_creates: float = 0.0
    """Files a second that others make."""
    seed: int | None = None
    """With one, every number is multiplied by a random factor."""
    spread: float = 0.0
    """Standard deviation of the logarithm of that factor."""
    model: str = MEAN_FIELD
    """One of MODELS: which storage model answers in a replay."""
    grain: float = 16.0
    """Discrete-event: how many requests one of the simulation stands for."""
    commit_group: float = 1.0
    """Discrete-event: how many flushes a commit can serve; 1 as in the mean-field model."""

    @property
    def targets(self) -> float:
        return sum(targets for targets, _ in self.lanes)

    def number(self, name: str) -> float:
        """Return one of SLUICE_MEAN_FIELD_FIELDS as it is without a seed: what a site knows."""
        return float(getattr(configuration(self.numbers), name))

    def shared(self, sharing: str) -> Storage:
        """Return the same storage that divides itself otherwise."""
        return replace(self, sharing=sharing)

    def configuration(self) -> Any:
        """Return the struct sluice_mean_field_config."""
        return configuration(
            self.numbers,
            lanes=self.lanes,
            sharing=self.sharing,
            seed=self.seed,
            spread=self.spread,
            allocator=self.placement if self.placement in ALLOCATORS else "chance",
            foreign_creates=self.foreign_creates,
        )


def storage_for(
    slots: int,
    *,
    lanes: int = 4,
    targets: int | None = None,
    servers: int | None = None,
    sharing: str = "fifo",
) -> Storage:
    """Return a storage system for a machine of so many nodes, divided into equal lanes.

    Targets that do not divide evenly go to the first lanes.
    """
    if targets is None:
        targets = max(lanes, round(TARGETS_A_SLOT * slots))
    if not 1 <= lanes <= targets:
        raise StorageModelError(
            f"{lanes} lanes of {targets} targets; give each lane a target at least"
        )
    sizes = [targets // lanes + (lane < targets % lanes) for lane in range(lanes)]
    a_server = TARGETS_A_SERVER if servers is None else targets / servers
    return Storage(
        tuple((size, size / a_server) for size in sizes),
        numbers={"metadata_rate": METADATA_A_SLOT * slots},
        sharing=sharing,
    )


LOAD = struct_dtype("sluice_mean_field_load")
PROGRAM = struct_dtype("sluice_program")
CONTENTION = struct_dtype("sluice_contention")
STATIONS = ("storage targets", "links of the servers", "metadata server")
"""What jobs share, in the order of sluice_contended_shares."""


def loads_of(
    kinds: Sequence[Mapping[str, Any]],
    *,
    kind: NDArray[Any],
    io_share: NDArray[np.float64],
    nodes: NDArray[Any],
    runtime: NDArray[np.float64],
    config: Any,
    period: NDArray[np.float64] | None = None,
    times: NDArray[np.float64] | None = None,
    max_bursts: int = 16,
) -> NDArray[Any]:
    """Return a LOAD for each job: what it does to storage, from the profile of its kind.

    kind: index into kinds (profiles by the names of policies/core/profile.h); runtime: seconds
    alone; period: seconds, 0 and None: as the kind has it; times: how many times the processes,
    rate and metadata rate of its kind a job has, None: once; config: from
    `mean_field.configuration`.
    """
    loads = np.zeros(len(kind), LOAD)
    lib.sluice_contended_loads(
        Kinds.of(kinds).structs,
        _pointer(kind, np.uint32, "uint32_t *"),
        _pointer(io_share, np.float64, "double *"),
        _pointer(np.zeros(len(kind)) if period is None else period, np.float64, "double *"),
        _pointer(np.ones(len(kind)) if times is None else times, np.float64, "double *"),
        _pointer(nodes, np.float64, "double *"),
        _pointer(runtime, np.float64, "double *"),
        len(kind),
        max_bursts,
        config,
        ffi.cast("struct sluice_mean_field_load *", loads.ctypes.data),
    )
    return loads


def limited(loads: NDArray[Any], config: Any, *, node_rate: float) -> NDArray[Any]:
    """Return the loads held to node_rate B/s a node at their sources."""
    slower = np.array(loads, LOAD)
    error = ffi.new("struct sluice_error *")
    rows = ffi.cast("struct sluice_mean_field_load *", slower.ctypes.data)
    if lib.sluice_contended_limit(config, node_rate, rows, len(slower), error):
        raise StorageModelError(ffi.string(error.text).decode())
    return slower


def station_shares(loads: NDArray[Any], config: Any) -> NDArray[np.float64]:
    """Return what each load takes of STATIONS while it writes alone, a row each; 1: all of it."""
    loads = np.ascontiguousarray(loads, LOAD)
    shares = np.zeros((len(loads), len(STATIONS)))
    lib.sluice_contended_shares(
        ffi.cast("struct sluice_mean_field_load *", loads.ctypes.data),
        len(loads),
        config,
        ffi.cast("double *", shares.ctypes.data),
    )
    return shares


def rates_alone(loads: NDArray[Any], config: Any) -> NDArray[np.float64]:
    """Return the B/s that each load writes alone during a burst; 0: it has none."""
    servers = sum(config.lanes[i].servers for i in range(config.lane_count))
    of_links = station_shares(loads, config)[:, 1]
    return np.asarray(of_links * servers * config.server_bandwidth)


@dataclass(frozen=True, slots=True)
class Requests:
    """What the discrete-event storage model needs to know besides the loads."""

    kinds: Sequence[Mapping[str, Any]]
    kind: NDArray[Any]
    times: NDArray[np.float64]
    """As `loads_of` takes them."""
    grain: float
    """How many requests one of the simulation stands for."""
    commit_group: float
    """How many flushes a commit can serve."""

    def programs(self, config: Any, loads: NDArray[Any]) -> tuple[Any, NDArray[Any]]:
        """Return the struct sluice_storage, and a PROGRAM for each job."""
        storage, programs = ffi.new("struct sluice_storage *"), np.zeros(len(loads), PROGRAM)
        error = ffi.new("struct sluice_error *")
        if lib.sluice_contended_storage_of(config, self.grain, storage, error):
            raise StorageModelError(ffi.string(error.text).decode())
        lib.sluice_contended_programs(
            Kinds.of(self.kinds).structs,
            _pointer(self.kind, np.uint32, "uint32_t *"),
            _pointer(self.times, np.float64, "double *"),
            ffi.cast("struct sluice_mean_field_load *", loads.ctypes.data),
            len(loads),
            self.grain,
            config,
            ffi.cast("struct sluice_program *", programs.ctypes.data),
        )
        storage.commit_group = self.commit_group
        return storage, programs


class Contention:
    """The storage of one replay; `storage` goes to `engine.run`, `results` is read after it."""

    def __init__(
        self,
        config: Any,
        loads: NDArray[Any],
        *,
        lanes: NDArray[np.uint32] | None = None,
        requests: Requests | None = None,
    ) -> None:
        """Take the loads of all jobs, and the lanes of each as a bit mask (0: all).

        requests: the discrete-event storage model answers; None: the mean-field one.
        """
        if lanes is not None and len(lanes) != len(loads):
            raise StorageModelError(f"{len(loads)} jobs with lanes for {len(lanes)}")
        self._loads = np.ascontiguousarray(loads, LOAD)
        self._lanes = None if lanes is None else np.ascontiguousarray(lanes, np.uint32)
        self._requests = None if requests is None else requests.programs(config, self._loads)
        error = ffi.new("struct sluice_error *")
        contended = self._new(config, error)
        if contended == ffi.NULL:
            raise StorageModelError(ffi.string(error.text).decode())
        self._contended = ffi.gc(contended, lib.sluice_contended_destroy)

    def _new(self, config: Any, error: Any) -> Any:
        """Return the struct sluice_contended; NULL and an error."""
        jobs, lanes = len(self._loads), ffi.NULL
        if self._lanes is not None:
            lanes = ffi.cast("uint32_t *", self._lanes.ctypes.data)
        if self._requests is None:
            loads = ffi.cast("struct sluice_mean_field_load *", self._loads.ctypes.data)
            return lib.sluice_contended_new(config, loads, lanes, jobs, error)
        storage, programs = self._requests
        rows = ffi.cast("struct sluice_program *", programs.ctypes.data)
        return lib.sluice_contended_by_request(storage, rows, lanes, jobs, error)

    @property
    def handle(self) -> Any:
        """The struct sluice_contended, for watchers."""
        return self._contended

    @property
    def storage(self) -> Any:
        """The table for `engine.run`; this storage lives as long as the table is in use."""
        table = lib.sluice_contended_storage(self._contended)
        return ffi.gc(table, partial(outlive, self))

    @property
    def written(self) -> NDArray[np.float64]:
        """Bytes on each target; none where targets are not told apart."""
        found: list[float] = []
        while (one := lib.sluice_contended_written(self._contended, len(found))) != ffi.NULL:
            found.append(one[0])
        return np.array(found)

    @property
    def results(self) -> NDArray[Any]:
        """A CONTENTION for each job: its last run."""
        rows = lib.sluice_contended_results(self._contended)
        size = len(self._loads) * CONTENTION.itemsize
        return np.frombuffer(ffi.buffer(rows, size), CONTENTION).copy()


def _pointer(array: NDArray[Any], dtype: Any, kind: str) -> Any:
    """Return a C array with the elements of array."""
    return ffi.from_buffer(kind, np.ascontiguousarray(array, dtype))
