"""What `sluice site calibrate` would learn of a storage system: pairs of probes on one target.

They are measured in the discrete-event storage model (discrete_event.py), so that Sluice has
learned from another model than the one that answers in a replay.
"""

from __future__ import annotations

import itertools
import math
import threading
from dataclasses import replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

from sluice.interference.calibrate.grid import default_grid
from sluice.interference.observations import Observation
from sluice.interference.programs import KIB, MIB
from sluice.interference.site_model import fit
from sluice.sim.storage import discrete_event
from sluice.sim.storage.mean_field import configuration
from sluice.sim.storage.platforms import PLATFORMS
from sluice.sim.storage.storage import TARGETS_A_SERVER

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from sluice.interference.programs import Program
    from sluice.sim.storage.storage import Storage

    Measure = Callable[[Mapping[str, float], Sequence[Program]], list[float]]

CHUNKS = (4 * KIB, 64 * KIB, MIB, 16 * MIB)
ENDLESS = 1e9
"""Seconds of a burst; operations of a signal."""
WINDOW = 2.0
"""Seconds for which a probe would write alone."""
MOST_UNITS = 4000.0
"""Requests that a target serves in a window: of fast devices a shorter one says as much."""
LEAST_OPERATIONS = 20
COUNTED = 0.9
"""The window closes when the probe has written so much (docs/guide/calibration.md)."""
JITTER = 0.01
"""Seconds between the starts of processes that begin together."""
SEED = 1
_ONE_AT_A_TIME = threading.Lock()
"""Replays on several threads ask for the same calibration at once: the first makes it."""


def calibrated(storage: Storage, measure: Measure | None = None) -> dict[str, Any]:
    """Return the interference model (members of struct sluice_interference) of a calibration.

    Measured on storage with the numbers that it has without a seed, by programs that
    `sluice site calibrate` runs and by no job of a trace; fitted as a site's own measurements are.
    measure: the B/s of each program while all of them write; None: rates_by_discrete_events.
    """
    with _ONE_AT_A_TIME:
        numbers = tuple(sorted(storage.numbers.items()))
        return dict(_calibrated(measure or rates_by_discrete_events, numbers))


@lru_cache(maxsize=8)
def _calibrated(measure: Measure, numbers: tuple[tuple[str, float], ...]) -> dict[str, Any]:
    rates_of = partial(measure, dict(numbers))
    alone: dict[Program, float] = {}
    observations = []
    for corun in default_grid(CHUNKS, several_targets=False):
        programs = (corun.probe, *corun.signals)
        for program in programs:
            if program not in alone:
                (alone[program],) = rates_of([program])
        for i, (program, rate) in enumerate(zip(programs, rates_of(programs), strict=True)):
            others = (*programs[:i], *programs[i + 1 :])
            own = alone[program]
            observations.append(Observation(program, others, rate / own, own))
    return fit(observations).interference


def rates_by_discrete_events(
    numbers: Mapping[str, float], programs: Sequence[Program]
) -> list[float]:
    """Return the B/s of each, the first being the probe and the others outlasting it."""
    storage = storage_of_one_target(numbers)
    written = [programs_of(program, storage) for program in programs]
    (probe, *_), *_ = written
    others = [
        {**part, "operations": ENDLESS, "noise": 1.0}
        for part in itertools.chain.from_iterable(written)
        if part is not probe
    ]
    alongside = others[: len(written[0]) - 1]
    probe["operations"] = float(LEAST_OPERATIONS)
    brief, *_ = discrete_event.simulate(storage, [probe, *alongside], seed=SEED)
    window = min(WINDOW, MOST_UNITS * storage["unit_bytes"] / storage["target_bandwidth"])
    enough = math.ceil(LEAST_OPERATIONS * window / brief.seconds)
    probe["operations"] = float(max(LEAST_OPERATIONS, enough))
    outcomes = iter(
        discrete_event.simulate(storage, [probe, *others], stop_share=COUNTED, seed=SEED)
    )
    return [sum(next(outcomes).rate for _ in parts) for parts in written]


def storage_of_one_target(numbers: Mapping[str, float]) -> dict[str, float]:
    """Return struct sluice_storage of one target of a storage model with these numbers.

    What the model has no number for, as round trips, is that of the platform of its defaults.
    """
    config = configuration(numbers)
    limits = {field.name: field for field in discrete_event.STORAGE_FIELDS}
    storage = {
        **PLATFORMS["lustre"].storage(),
        "servers": 1.0,
        "targets": 1.0,
        "target_bandwidth": config.target_bandwidth,
        "server_bandwidth": config.server_bandwidth / TARGETS_A_SERVER,
        "node_bandwidth": config.node_rate,
        "unit_bytes": config.request_bytes,
        "flow_window": round(config.stream_window),
        "rewrite_window": round(config.rewrite_window),
        "commit_seconds": config.commit_seconds,
        "create_seconds": 1.0 / config.metadata_rate,
        "slice_bytes": config.request_bytes,
        "seek_seconds": config.switch_cost * config.request_bytes / config.target_bandwidth,
        "jitter_seconds": JITTER,
    }
    return {
        name: min(max(value, limits[name].low), limits[name].high)
        for name, value in storage.items()
    }


def programs_of(program: Program, storage: Mapping[str, float]) -> list[dict[str, float | str]]:
    """Return what a probe is (struct sluice_program), without the numbers of operations.

    One program, or one for each part of a mix: processes are dealt to the parts in turn.
    """
    dealt = [program.parts[i % len(program.parts)] for i in range(program.processes)]
    return [
        _program_of(replace(program, pattern=part, processes=dealt.count(part)), storage)
        for part in dict.fromkeys(dealt)
    ]


def _program_of(program: Program, storage: Mapping[str, float]) -> dict[str, float | str]:
    creates = program.pattern == "owc"
    sync = {"each": "flush", "none": "behind"}[program.sync_of(program.pattern)]
    processes = program.processes
    if program.direct:
        sync = "ack"
    elif sync == "behind" and creates:
        # As many files under way as fill the window of a process; a flow holds one file.
        sync = "ack"
        in_a_file = max(1.0, program.chunk_bytes / storage["unit_bytes"])
        processes *= math.ceil(storage["flow_window"] / in_a_file)
    return {
        "processes": float(processes),
        "nodes": float(program.processes),
        "operation_bytes": float(program.chunk_bytes),
        "sync": sync,
        "creates": float(creates),
        "rewrites": float(program.pattern == "ws"),
    }
