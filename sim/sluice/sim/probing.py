"""What `sluice calibrate` would learn of a storage world: pairs of probes on one of its targets."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from sluice.calibrate.grid import default_grid
from sluice.calibrate.observations import Observation
from sluice.calibrate.programs import KIB, MIB
from sluice.calibrate.site_model import fit
from sluice.policies.structs import View, new
from sluice.sim._engine import ffi, lib
from sluice.sim.contention import LOAD, rates_alone
from sluice.sim.storage import TARGETS_A_SERVER
from sluice.sim.world import World

if TYPE_CHECKING:
    from sluice.calibrate.grid import Encounterable
    from sluice.calibrate.programs import Program
    from sluice.sim.storage import Storage

CHUNKS = (4 * KIB, 64 * KIB, MIB, 16 * MIB)
NODES = 4
"""Of a probe: enough to fill a target."""
ENDLESS = 1e9
"""Seconds of a burst."""


def calibrated(storage: Storage) -> dict[str, Any]:
    """Return the interference model (members of struct sluice_interference) of a calibration.

    Measured in the world as it is without a seed, by the programs that `sluice calibrate` runs
    and by no job of a trace; fitted as a site's own measurements are.
    """
    return dict(_calibrated(tuple(sorted(storage.numbers.items()))))


@lru_cache(maxsize=4)
def _calibrated(numbers: tuple[tuple[str, float], ...]) -> dict[str, Any]:
    observations = [
        seen
        for encounter in default_grid(CHUNKS, several_targets=False)
        for seen in _measured(encounter, dict(numbers))
    ]
    return fit(observations).interference


def _measured(encounter: Encounterable, numbers: dict[str, float]) -> list[Observation]:
    """Let the programs of an encounter write on one target of the world."""
    programs = (encounter.probe, *encounter.signals)
    world = World(numbers, lanes=((1, 1 / TARGETS_A_SERVER),))
    loads = [_load_of(program, world) for program in programs]
    slots = [world.start(0.0, load) for load in loads]
    kept = [world.rate(slot) for slot in slots]
    return [
        Observation(
            program,
            (*programs[:i], *programs[i + 1 :]),
            kept[i],
            _rate_alone(loads[i], world),
        )
        for i, program in enumerate(programs)
    ]


def _load_of(program: Program, world: World) -> Any:
    profile = ffi.new("struct sluice_profile *")
    ffi.buffer(profile)[:] = View(new("struct sluice_profile", program.profile())).bytes
    load = ffi.new("struct sluice_world_load *")
    lib.sluice_world_load_of(profile, NODES, ENDLESS, 1, world.config, load)
    return load


def _rate_alone(load: Any, world: World) -> float:
    row = np.frombuffer(ffi.buffer(load), LOAD)
    return float(rates_alone(row, world.config)[0])
