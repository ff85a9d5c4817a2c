"""The mean-field storage model by itself, without a scheduler above it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sluice.sim._engine import ffi, lib
from sluice.sim.engine import StorageModelError
from sluice.sim.storage.mean_field import NAMES, configuration, fill_profile

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


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

    def start(
        self,
        now: float,
        load: Any,
        *,
        lanes: int = 0,
        tag: int = 0,
        block: tuple[int, int] = (0, 0),
    ) -> int:
        """Start a job on the lanes of a bit mask (0: all) or a block. Returns its slot."""
        slot: int = lib.sluice_mean_field_start(self._mean_field, now, load, lanes, block, tag)
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

    @property
    def written(self) -> list[float]:
        """Bytes on each target, where they are told apart."""
        found = []
        while (one := lib.sluice_mean_field_written(self._mean_field, len(found))) != ffi.NULL:
            found.append(one[0])
        return found

    def _ended(self) -> End:
        return End(*(getattr(self._end, name) for name in End.__slots__))
