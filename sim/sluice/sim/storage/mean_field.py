"""The mean-field storage model, bound: what answers in a replay (engine/storage/mean_field.h)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sluice.policies.structs import FIELD_NAMES, PATTERNS
from sluice.sim._engine import ffi, lib
from sluice.sim.errors import StorageModelError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

SHARING = {
    "fifo": lib.SLUICE_SHARING_FIFO,
    "jobs": lib.SLUICE_SHARING_JOBS,
    "nodes": lib.SLUICE_SHARING_NODES,
    "weights": lib.SLUICE_SHARING_WEIGHTS,
}
"""How a full target divides itself: first come first served, or fairly by jobs or nodes."""

NAMES = tuple(
    name
    for name, field in ffi.typeof("struct sluice_mean_field_config").fields
    if field.type.cname == "double"
)
"""The numbers of a storage model."""


@dataclass(frozen=True, slots=True)
class End:
    """How a job ended; seconds of the job, not of its nodes."""

    time: float
    runtime: float
    alone: float
    """Run time it would have had alone on all lanes."""
    io: float
    """Seconds inside bursts."""
    io_alone: float
    held: float
    """Seconds for which turns held its bursts."""
    tag: int


def configuration(
    numbers: Mapping[str, float] | None = None,
    *,
    lanes: Sequence[tuple[float, float]] = ((104, 8),),
    sharing: str = "fifo",
    seed: int | None = None,
    spread: float = 0.0,
    turns: Mapping[str, float] | None = None,
) -> Any:
    """Return a struct sluice_mean_field_config; lanes are (targets, servers).

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
    config.sharing = SHARING[sharing]
    config.seed = seed or 0
    config.lane_count = len(lanes)
    for lane, (targets, servers) in zip(config.lanes, lanes, strict=False):
        lane.targets, lane.servers = targets, servers
    if seed is not None:
        lib.sluice_mean_field_config_perturb(config, seed, spread)
    if turns is not None:
        take_turns(config, turns)
    return config


def take_turns(config: Any, settings: Mapping[str, float]) -> None:
    """Let bursts take turns; settings that are not given keep their defaults."""
    names = [name for name, _ in ffi.typeof("struct sluice_turns_settings").fields]
    config.turns.is_on = 1
    for name, value in settings.items():
        if name not in names:
            raise StorageModelError(f"turns have no {name}; give {', '.join(names)}")
        setattr(config.turns.settings, name, value)


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


class MeanField:
    """Jobs that compute and write on shared lanes; time moves only forwards."""

    def __init__(self, numbers: Mapping[str, float] | None = None, **options: Any) -> None:
        """Make a storage model; the options are those of `configuration`."""
        self.config = configuration(numbers, **options)
        error = ffi.new("struct sluice_error *")
        mean_field = lib.sluice_mean_field_new(self.config, error)
        if mean_field == ffi.NULL:
            raise StorageModelError(ffi.string(error.text).decode())
        self._mean_field = ffi.gc(mean_field, lib.sluice_mean_field_destroy)
        self._end = ffi.new("struct sluice_mean_field_end *")

    @property
    def numbers(self) -> dict[str, float]:
        return {name: getattr(self.config, name) for name in NAMES}

    def load_of(
        self,
        profile: Mapping[str, Any],
        *,
        nodes: float,
        runtime: float,
        max_bursts: int = 16,
    ) -> Any:
        """Turn the known numbers of a profile into a struct sluice_mean_field_load.

        `pattern` may be given by its name; runtime is the job's alone, in seconds.
        """
        struct = ffi.new("struct sluice_profile *")
        fill_profile(struct, profile)
        load = ffi.new("struct sluice_mean_field_load *")
        lib.sluice_mean_field_load_of(struct, nodes, runtime, max_bursts, self.config, load)
        return load

    def start(self, now: float, load: Any, *, lanes: int = 0, tag: int = 0) -> int:
        """Start a job on the lanes of a bit mask (0: all). Returns its slot."""
        slot: int = lib.sluice_mean_field_start(self._mean_field, now, load, lanes, tag)
        if slot < 0:
            raise MemoryError
        return slot

    def stop(self, now: float, slot: int) -> End:
        """End a job before its time."""
        lib.sluice_mean_field_stop(self._mean_field, now, slot, self._end)
        return self._ended()

    def run(self, until: float = math.inf) -> Iterator[End]:
        """Let time pass; yield the jobs as they end."""
        while lib.sluice_mean_field_run(self._mean_field, until, self._end):
            yield self._ended()

    def rate(self, slot: int) -> float:
        """Rate of a job's burst as a share of its rate alone; 1 while it computes."""
        rate: float = lib.sluice_mean_field_rate(self._mean_field, slot)
        return rate

    def _ended(self) -> End:
        return End(*(getattr(self._end, name) for name in End.__slots__))
