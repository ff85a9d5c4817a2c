"""A replay in the mean-field storage model: jobs that slow each other on shared storage."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from sluice.sim._engine import ffi, lib
from sluice.sim.engine import outlive, struct_dtype
from sluice.sim.errors import StorageModelError
from sluice.sim.storage.mean_field import fill_profile

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

LOAD = struct_dtype("sluice_mean_field_load")
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
    profiles = ffi.new("struct sluice_profile []", len(kinds))
    for i, profile in enumerate(kinds):
        fill_profile(profiles + i, profile)
    loads = np.zeros(len(kind), LOAD)
    lib.sluice_contended_loads(
        profiles,
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


class Contention:
    """The storage of one replay; `storage` goes to `engine.run`, `results` is read after it."""

    def __init__(
        self, config: Any, loads: NDArray[Any], *, lanes: NDArray[np.uint32] | None = None
    ) -> None:
        """Take the loads of all jobs, and the lanes of each as a bit mask (0: all)."""
        if lanes is not None and len(lanes) != len(loads):
            raise StorageModelError(f"{len(loads)} jobs with lanes for {len(lanes)}")
        self._loads = np.ascontiguousarray(loads, LOAD)
        self._lanes = None if lanes is None else np.ascontiguousarray(lanes, np.uint32)
        error = ffi.new("struct sluice_error *")
        contended = lib.sluice_contended_new(
            config,
            ffi.cast("struct sluice_mean_field_load *", self._loads.ctypes.data),
            ffi.NULL if self._lanes is None else ffi.cast("uint32_t *", self._lanes.ctypes.data),
            len(self._loads),
            error,
        )
        if contended == ffi.NULL:
            raise StorageModelError(ffi.string(error.text).decode())
        self._contended = ffi.gc(contended, lib.sluice_contended_destroy)

    @property
    def handle(self) -> Any:
        """The struct sluice_contended, for those who watch it."""
        return self._contended

    @property
    def storage(self) -> Any:
        """The table for `engine.run`; this storage lives as long as the table is in use."""
        table = lib.sluice_contended_storage(self._contended)
        return ffi.gc(table, partial(outlive, self))

    @property
    def results(self) -> NDArray[Any]:
        """A CONTENTION for each job: its last run."""
        rows = lib.sluice_contended_results(self._contended)
        size = len(self._loads) * CONTENTION.itemsize
        return np.frombuffer(ffi.buffer(rows, size), CONTENTION).copy()


def _pointer(array: NDArray[Any], dtype: Any, kind: str) -> Any:
    """Return a C array with the elements of array."""
    return ffi.from_buffer(kind, np.ascontiguousarray(array, dtype))
