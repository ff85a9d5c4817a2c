"""The replay engine in C, for Python, and what can go wrong in a simulation."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from sluice.sim._engine import ffi, lib

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray


class SimError(Exception):
    """Any of them: what `sluice` prints in one line."""


class StorageModelError(SimError):
    """A storage model was described wrongly, or a workload does not fit it."""


class EngineError(SimError):
    """The engine refused a workload, or ran out of memory."""


class TraceError(SimError):
    """A trace, or a line of it, makes no sense."""


class MachineError(SimError):
    """The description of a machine makes no sense, or is missing."""


class PolicyError(SimError):
    """A policy does not fit the storage, or an option makes no sense."""


class SweepError(SimError):
    """A file of a sweep is another one's or damaged, or a grid makes no sense."""


INSTANTS_AT_A_TIME = 1000
"""So often a replay looks up for Ctrl-C: also a deep queue takes a second at most."""
PROGRESS_STEPS = 200


MAX_SLOTS = 2**30 - 1
"""Of a machine, and of a job."""

_SCALARS = {
    "double": "f8",
    "int32_t": "i4",
    "uint16_t": "u2",
    "uint32_t": "u4",
    "uint64_t": "u8",
}


def struct_dtype(struct: str) -> np.dtype[Any]:
    """Return a C struct of scalars, and structs of these, as numpy sees it."""
    kind = ffi.typeof(f"struct {struct}")
    return np.dtype(
        {
            "names": [name for name, _ in kind.fields],
            "formats": [
                _SCALARS.get(name := member.type.cname) or struct_dtype(name.split()[-1])
                for _, member in kind.fields
            ],
            "offsets": [member.offset for _, member in kind.fields],
            "itemsize": ffi.sizeof(kind),
        }
    )


def outlive(owner: object, table: Any) -> None:
    """Free nothing: a table whose destructor this is, bound to its owner, keeps the owner."""
    del owner, table


JOB = struct_dtype("sluice_replay_job")
LICENSE_NEED = struct_dtype("sluice_license_need")
DEPENDENCY = struct_dtype("sluice_dependency")
ASSOCIATION = struct_dtype("sluice_association")
LEASE = struct_dtype("sluice_lease")
RESULT = struct_dtype("sluice_job_result")


def _words(enum: str, prefix: str) -> tuple[str, ...]:
    elements = ffi.typeof(f"enum {enum}").elements
    return tuple(elements[value].removeprefix(prefix).lower() for value in sorted(elements))


STATES = _words("sluice_job_state", "SLUICE_JOB_")
BACKFILLS = _words("sluice_backfill", "SLUICE_BACKFILL_")
PRIORITIES = _words("sluice_priority", "SLUICE_PRIORITY_")
PREEMPTIONS = _words("sluice_preemption", "SLUICE_PREEMPT_")
DEPENDENCIES = _words("sluice_dependency_kind", "SLUICE_AFTER_")
_CHOICES = {"backfill": BACKFILLS, "priority": PRIORITIES, "preemption": PREEMPTIONS}


def scheduler_defaults() -> dict[str, float | str]:
    """Return each setting of struct sluice_scheduler (scheduler/workload.h) and its default."""
    struct = ffi.new("struct sluice_scheduler *")
    lib.sluice_scheduler_init(struct)
    members = [name for name, _ in ffi.typeof("struct sluice_scheduler").fields]
    return {
        name: _CHOICES[name][getattr(struct, name)] if name in _CHOICES else getattr(struct, name)
        for name in members
        if name != "reserved"
    }


@dataclass(frozen=True, slots=True)
class Partition:
    """A partition: the groups of slots it may use, and how it ranks."""

    name: str
    groups: tuple[int, ...] = (0,)
    tier: int = 0
    factor: float = 0.0


@dataclass(frozen=True, slots=True)
class Machine:
    """What there is to schedule on."""

    group_slots: tuple[int, ...]
    partitions: tuple[Partition, ...] = (Partition("all"),)
    licenses: Mapping[str, int] = field(default_factory=dict)
    """Totals by name."""

    @property
    def slots(self) -> int:
        return sum(self.group_slots)

    def slots_of(self, partition: int) -> int:
        """Return how many slots a job of the partition may have at most."""
        return sum(self.group_slots[group] for group in self.partitions[partition].groups)


def _empty(dtype: np.dtype[Any]) -> Callable[[], NDArray[Any]]:
    return lambda: np.zeros(0, dtype)


@dataclass(frozen=True, slots=True)
class Workload:
    """Everything the engine reads. Indices and units: sim/engine/scheduler/workload.h."""

    machine: Machine
    jobs: NDArray[Any]
    """JOB, in the order of submission."""
    license_needs: NDArray[Any] = field(default_factory=_empty(LICENSE_NEED))
    dependencies: NDArray[Any] = field(default_factory=_empty(DEPENDENCY))
    associations: NDArray[Any] = field(default_factory=_empty(ASSOCIATION))
    leases: NDArray[Any] = field(default_factory=_empty(LEASE))
    array_limits: NDArray[np.uint32] = field(default_factory=lambda: np.zeros(0, np.uint32))
    slots_per_node: float = 1.0
    """Of storage and I/O: what a node writes is that of so many slots."""

    @property
    def nodes(self) -> NDArray[np.float64]:
        """Nodes of each job; a part of one where jobs share nodes."""
        return np.asarray(self.jobs["slots"] / self.slots_per_node)

    @property
    def machine_nodes(self) -> int:
        return max(1, round(self.machine.slots / self.slots_per_node))


_ARRAYS = (
    ("jobs", "job_count", JOB, "struct sluice_replay_job *"),
    ("license_needs", "license_need_count", LICENSE_NEED, "struct sluice_license_need *"),
    ("dependencies", "dependency_count", DEPENDENCY, "struct sluice_dependency *"),
    ("associations", "association_count", ASSOCIATION, "struct sluice_association *"),
    ("leases", "lease_count", LEASE, "struct sluice_lease *"),
    ("array_limits", "array_count", np.dtype(np.uint32), "uint32_t *"),
)


def _fill_machine(struct: Any, machine: Machine) -> None:
    counts = (len(machine.group_slots), len(machine.partitions), len(machine.licenses))
    limits = (
        lib.SLUICE_MAX_GROUPS,
        lib.SLUICE_REPLAY_PARTITIONS,
        lib.SLUICE_MAX_LICENSES,
    )
    for count, limit, what in zip(
        counts, limits, ("groups of slots", "partitions", "licences"), strict=True
    ):
        if count > limit:
            raise EngineError(f"the machine has {count} {what}; the engine takes {limit}")
    struct.group_count, struct.partition_count, struct.license_count = counts
    struct.group_slots[0 : counts[0]] = machine.group_slots
    struct.licenses[0 : counts[2]] = list(machine.licenses.values())
    for i, partition in enumerate(machine.partitions):
        struct.partitions[i].groups = sum(1 << group for group in set(partition.groups))
        struct.partitions[i].tier = partition.tier
        struct.partitions[i].factor = partition.factor


def _fill_scheduler(struct: Any, settings: Mapping[str, float | str]) -> None:
    lib.sluice_scheduler_init(ffi.addressof(struct))
    known = scheduler_defaults()
    for name, value in settings.items():
        if name not in known:
            raise EngineError(f"no setting {name}; there are {', '.join(known)}")
        if name in _CHOICES:
            if value not in _CHOICES[name]:
                raise EngineError(f"{name} is one of {', '.join(_CHOICES[name])}, not {value}")
            setattr(struct, name, _CHOICES[name].index(str(value)))
        else:
            setattr(struct, name, int(value) if isinstance(known[name], int) else float(value))


def _checked(result: Any, error: Any) -> Any:
    if result in (ffi.NULL, -1):
        raise EngineError(ffi.string(error.text).decode(errors="replace"))
    return result


def run(
    workload: Workload,
    settings: Mapping[str, float | str] | None = None,
    *,
    storage: Any = ffi.NULL,
    policy: Any = ffi.NULL,
    progress: Callable[[int], object] | None = None,
) -> NDArray[Any]:
    """Replay the workload and return a RESULT for each job.

    settings: members of struct sluice_scheduler, others keep their defaults. storage and
    policy: the tables of sim/engine/scheduler/engine.h. progress gets the number of jobs that
    have ended. The engine gives up Python's lock while it runs.
    """
    struct = ffi.new("struct sluice_workload *")
    _fill_machine(struct.machine, workload.machine)
    _fill_scheduler(struct.scheduler, settings or {})
    kept: Sequence[NDArray[Any]] = [
        np.ascontiguousarray(getattr(workload, name), dtype) for name, _, dtype, _ in _ARRAYS
    ]
    for array, (name, count, _, kind) in zip(kept, _ARRAYS, strict=True):
        setattr(struct, name, ffi.cast(kind, array.ctypes.data))
        setattr(struct, count, len(array))
    error = ffi.new("struct sluice_error *")
    engine = _checked(lib.sluice_engine_new(struct, storage, policy, error), error)
    try:
        told = 0
        while _checked(lib.sluice_engine_run(engine, INSTANTS_AT_A_TIME, error), error):
            ended = lib.sluice_engine_ended(engine)
            if progress and (ended - told) * PROGRESS_STEPS >= len(kept[0]):
                progress(ended)
                told = ended
        rows = ffi.buffer(lib.sluice_engine_results(engine), len(kept[0]) * RESULT.itemsize)
        return np.frombuffer(rows, RESULT).copy()
    finally:
        lib.sluice_engine_destroy(engine)
