"""What Sluice knows in a replay, and the calibration that it would know it from.

What `sluice site calibrate` would learn of a storage system: pairs of probes on one target. They
are measured in the discrete-event storage model (discrete_event.py), so that Sluice has learned
from another model than the one that answers in a replay.

Every job is a run of an application, told by its job name. What the history knows of an application
is the mean of its runs, of each octave of sizes apart: their I/O share, and the rate of a run
alone; of a user's own runs of it, how long they take. How programs disturb each other it does not
know from the storage model that answers, but from a calibration in another one.
"""

from __future__ import annotations

import itertools
import math
import threading
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from sluice.interference.calibrate.grid import default_grid
from sluice.interference.observations import Observation
from sluice.interference.programs import KIB, MIB
from sluice.interference.site_model import fit
from sluice.policies import core
from sluice.policies.bundle_writer import BundleApplication, pack_bundle
from sluice.sim.storage import discrete_event
from sluice.sim.storage.discrete_event import LUSTRE
from sluice.sim.storage.mean_field import BLOCKS, TARGETS_A_SERVER, configuration, rates_alone

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from sluice.interference.programs import Program
    from sluice.policies.structs import View
    from sluice.sim.engine import Workload
    from sluice.sim.storage.mean_field import Storage
    from sluice.sim.trace.profiles import Profiles

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
        **LUSTRE.storage(),
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


SHARE_STEP = 0.05
"""Runs of one application differ in their I/O share by less."""
CONFIDENCE = 0.95
FOLLOW_THE_SIZE = ("nprocs", "rate", "metadata_rate", "targets")
"""Numbers of a profile that grow with a job."""
STEEPEST = 2.0
"""Exponent by which they do, at most."""
ROUNDING = 1e-9
"""Octaves squared: sizes that differ by less are one."""
SCRIPT = "#!/bin/sh\n"
"""Jobs come from sbatch; by its script none is known."""


@dataclass(frozen=True, slots=True)
class SiteBundle:
    """What engine.Core needs."""

    bundle: bytes
    config: str
    """A sluice.conf."""
    submissions: Sequence[View]
    """struct sluice_submission, one an application; of a job of no size."""
    application: NDArray[np.int64]
    """Index into submissions, one a job."""


class TraceHistory:
    """What the runs of a trace's jobs teach a site. Ablations (tests/lab) override a method."""

    def __init__(self, workload: Workload, profiles: Profiles, storage: Storage) -> None:
        self.workload = workload
        self.profiles = profiles
        self.storage = storage
        config = replace(storage, seed=None).configuration()  # as the site knows its storage
        loads = profiles.loads(workload, config)
        self.rates = rates_alone(loads, config)
        # Those of jobs on all targets have no number.
        self.targets = np.where(loads["width"] > 0, loads["width"], storage.targets)
        processes = profiles.number("nprocs") * profiles.times(workload)
        self.processes = np.where(processes > 0, processes, workload.jobs["slots"])

    def applications(self) -> NDArray[np.int64]:
        """Return a number for each job: equal numbers are runs of one application."""
        profiles = self.profiles
        return profiles.kind.astype(np.int64) * 1000 + self.steps_of_share(SHARE_STEP)

    def steps_of_share(self, step: float) -> NDArray[np.int64]:
        return np.asarray(np.floor(self.profiles.io_share / step).astype(int))

    def numbers(self) -> dict[str, NDArray[Any]]:
        """Return members of a profile, one element a job: a bundle has the means over the runs.

        NaN, and a rate or period of 0: unknown.
        """
        profiles = self.profiles
        placed = {"targets": self.targets} if self.storage.placement == BLOCKS else {}
        return placed | {
            "io_share": profiles.io_share,
            "nprocs": self.processes,
            "rate": self.rates,
            "metadata_rate": profiles.number("metadata_rate") * profiles.times(self.workload),
            "period_seconds": profiles.periods,
        }

    def interference(self) -> dict[str, Any]:
        """Return the interference model that the site has measured."""
        return calibrated(self.storage)


def site_bundle(
    history: TraceHistory,
    *,
    max_delay: float,
    wait_price: float = 0.2,
    turns_gain: float = 0.0,
    is_confinable: bool = True,
) -> SiteBundle:
    """Return what a site publishes that has this history.

    is_confinable: jobs write only where Sluice puts them, so that one lane can do.
    """
    names, application = np.unique(history.applications(), return_inverse=True)
    submissions = [
        core.submission_of({"name": _word(i), "script": SCRIPT, "io_dir": int(is_confinable)})
        for i in range(len(names))
    ]
    config = _config(history.storage, max_delay, wait_price, turns_gain)
    bundle = pack_bundle(
        policy=core.parse_config("sluice.conf", config.encode()).policy,
        interference=history.interference(),
        applications=_table(history, submissions, application),
        text="{}",
        created=0,
    )
    return SiteBundle(bundle, config, submissions, application)


def _table(
    history: TraceHistory, submissions: Sequence[View], application: NDArray[np.int64]
) -> list[BundleApplication]:
    """Return an entry for each application and user, of all sizes.

    Processes and rates follow the size as those of the runs do.
    """
    jobs, profiles = history.workload.jobs, history.profiles
    _, first = np.unique(application, return_index=True)
    counts = np.bincount(application)
    octaves = np.log2(jobs["slots"])
    middle, _, _ = _line(application, octaves, octaves)
    lines = {
        name: _line(application, octaves, np.log2(values, where=values > 0, out=values * np.nan))
        for name, values in history.numbers().items()
        if name in FOLLOW_THE_SIZE
    }
    means = {
        name: np.bincount(application, values) / counts
        for name, values in history.numbers().items()
        if name not in FOLLOW_THE_SIZE
    }
    runs = _runs_of(application, jobs["user"], jobs["runtime"])
    asked = core.submission({})  # one for all: there may be ten thousand
    table = []
    for i, job in enumerate(first.tolist()):
        profile = dict(profiles.kinds[profiles.kind[job]])
        profile |= {"confidence": CONFIDENCE, "runs": int(counts[i])}
        profile |= {
            name: float(mean[i])
            for name, mean in means.items()
            if name == "io_share" or mean[i] > 0
        }
        known = {name: line for name, line in lines.items() if np.isfinite(line[0][i])}
        profile |= {name: float(2.0 ** line[0][i]) for name, line in known.items()}
        if "targets" in known:
            spread = {name: known[name][2][i] for name in ("rate", "targets") if name in known}
            profile["spread"] = {name: float(left) for name, left in spread.items()}
        if "period_seconds" in profile:
            profile["burst_seconds"] = profile["io_share"] * profile["period_seconds"]
        own = jobs["slots"][application == i]
        sizes = (float(own.min()), float(own.max()))
        asked.struct.name = submissions[i].struct.name
        for user, runtime in runs[i]:
            asked.struct.uid = user + 1
            table.append(
                BundleApplication(
                    key=core.application_key(asked, "user_name"),
                    evidence="user_name",
                    id=i + 1,
                    profile=_shares(profile | {"runtime_seconds": runtime}),
                    size=min(max(float(2.0 ** middle[i]), sizes[0]), sizes[1]),
                    sizes=sizes,
                    exponents={name: float(line[1][i]) for name, line in known.items()},
                )
            )
    return table


def _line(
    group: NDArray[np.int64], x: NDArray[np.float64], y: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return the mean of y in each group, by how much it rises with x there, and what is left.

    That is a standard deviation, of natural logarithms where y is in octaves.
    """
    count = np.bincount(group)
    mean = np.bincount(group, y) / count
    off = x - (np.bincount(group, x) / count)[group]
    spread = np.bincount(group, off * off)
    rise = np.bincount(group, off * (y - mean[group]))
    slope = np.divide(rise, spread, out=np.zeros_like(rise), where=spread > ROUNDING)
    slope = np.clip(slope, -STEEPEST, STEEPEST)
    left = np.square(y - mean[group] - slope[group] * off)
    return mean, slope, math.log(2.0) * np.sqrt(np.bincount(group, left) / count)


def _runs_of(
    of_group: NDArray[np.int64], users: NDArray[Any], runtime: NDArray[np.float64]
) -> list[list[tuple[int, float]]]:
    """Return the users of each group's jobs, and how long theirs run in the mean.

    Another user's runs are no evidence for them.
    """
    found: list[list[tuple[int, float]]] = [[] for _ in range(int(of_group.max(initial=-1)) + 1)]
    width = int(users.max(initial=0)) + 1
    pairs, which = np.unique(of_group * width + users, return_inverse=True)
    means = np.bincount(which, runtime) / np.bincount(which)
    for pair, mean in zip(pairs.tolist(), means.tolist(), strict=True):
        found[pair // width].append((pair % width, mean))
    return found


def _shares(profile: Mapping[str, Any]) -> dict[str, Any]:
    return {"share": {profile["pattern"]: 1.0}, **profile}


def _word(number: int) -> str:
    """Return a name for an application; digits would be the same to Sluice."""
    letters = "abcdefghij"
    return "app_" + "".join(letters[int(digit)] for digit in str(number))


def _config(
    storage: Storage,
    max_delay: float,
    wait_price: float,
    turns_gain: float,
) -> str:
    bandwidth, has_blocks = storage.number("target_bandwidth"), storage.placement == BLOCKS
    lanes = [
        f"Lane=sl{'abcdefghijklmnopqrstuvwxyz'[i]} Targets={int(targets)} "
        f"Bandwidth={targets * bandwidth:.0f}{' Place=blocks' if has_blocks else ''}"
        for i, (targets, _) in enumerate(storage.lanes)
        if len(storage.lanes) > 1 or has_blocks
    ]
    settings = [
        "Mode=enforce",
        f"MaxDelay={min(max_delay, 604800.0):.0f}",
        f"WaitPrice={wait_price:g}",
        f"TurnsGain={turns_gain:g}",
        f"MetadataCapacity={storage.number('metadata_rate'):g}",
    ]
    return "\n".join([*settings, *lanes, ""])
