"""A replay as it was asked for: all that its answer depends on, as plain values.

They go into a file and come back, so that the file and the inputs suffice to compute the same
again.
"""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sluice.history_db.store import Store
from sluice.sim.engine import (
    EngineError,
    PolicyError,
    StorageModelError,
    TraceError,
    scheduler_defaults,
)
from sluice.sim.policies.policies import Options
from sluice.sim.replay.compare import Draw
from sluice.sim.storage.mean_field import (
    BY_REQUEST,
    DISCRETE_EVENT,
    MEAN_FIELD,
    configuration,
    storage_for,
)
from sluice.sim.trace import lublin
from sluice.sim.trace.machine import SLURM, one_pool, parse_site, site_of
from sluice.sim.trace.profiles import (
    CHECKPOINTING,
    MEASURED,
    MIXES,
    drawn_profiles,
    history_profiles,
    measured_profiles,
    no_profiles,
    where_known,
)
from sluice.sim.trace.repairs import make_replayable
from sluice.sim.trace.sources import is_history, read_trace

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from sluice.sim.storage.mean_field import Storage
    from sluice.sim.trace.jobs import Trace
    from sluice.sim.trace.machine import Site
    from sluice.sim.trace.profiles import Profiles
    from sluice.sim.trace.repairs import Replayable

IO_SHARE = 0.3
"""Of I/O-heavy jobs where nothing tells."""
GENERATED_LOAD = 0.7
GENERATED_SLOTS = 128
SPREAD = 0.2
"""Of a repetition's storage model: standard deviation of the logarithm of every number's error."""

Pairs = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Experiment:
    """What is replayed, on what, with which I/O; all of it hashable."""

    trace: str | None = None
    """Path; None: `generate` so many jobs."""
    kind: str | None = None
    """One of sources.FORMATS; None: what it looks like."""
    columns: Pairs = ()
    slot: str | None = None
    """What is counted of accounting; None: as trace_of_jobs finds."""
    processors_per_node: float | None = None
    """Where slots are processors; None: as the trace says, else one."""
    cluster: str | None = None
    """The cluster whose jobs are replayed."""
    latest: int | None = None
    """Of a history, so many jobs, the last; None: all."""
    generate: int | None = None
    load: float | None = None
    """What the jobs offer, as a share of the machine; None: as the trace has it."""
    seed: int = 1
    slots: int | None = None
    machine: str | None = None
    """Tables of a scenario that tell of it (machine.PARTS), as JSON."""
    slurm: bool = False
    settings: Pairs = ()
    """Of the scheduler."""
    kills: bool = False
    io_share: float | None = None
    """Share of I/O-heavy jobs among those of which no history knows."""
    mix: str = CHECKPOINTING
    """One of mix.MIXES: how those jobs' profiles are drawn."""
    profiles: str | None = None
    """Path of a history."""
    lanes: int = 4
    targets: int | None = None
    servers: int | None = None
    """Of its targets; None: one for eight."""
    placement: str | None = None
    """A key of storage.PLACEMENTS: how targets of new files are chosen; None: on lanes."""
    foreign_creates: float = 0.0
    """Files a second that others make."""
    sharing: str = "fifo"
    storage_model: str = MEAN_FIELD
    """One of storage.MODELS."""
    storage: Pairs = ()
    """Numbers of the storage model."""
    options: Pairs = ()
    """Of the policies."""
    spread: float = SPREAD

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Experiment:
        """Make one of what `plain` returned, or of options of a command."""
        known = {one.name for one in fields(cls)}
        if unknown := sorted(set(values) - known):
            raise TraceError(f"an experiment has no {', '.join(unknown)}")
        return cls(**{name: _frozen(value) for name, value in values.items()})

    def plain(self) -> dict[str, Any]:
        """Return what `of` takes, as JSON can hold it."""
        return {
            one.name: dict(value) if isinstance(value := getattr(self, one.name), tuple) else value
            for one in fields(self)
        }

    @property
    def inputs(self) -> tuple[str, ...]:
        """Paths of the files that it reads."""
        return tuple(path for path in (self.trace, self.profiles) if path is not None)

    @property
    def history(self) -> str | None:
        """Path of the history that tells profiles: the trace itself may be one."""
        if self.profiles is None and self.trace is not None and is_history(Path(self.trace)):
            return self.trace
        return self.profiles

    @property
    def io_share_drawn(self) -> float | None:
        """Share of I/O-heavy jobs among those of which no log tells; None: none is drawn so."""
        if self.mix == MEASURED:
            return None
        return IO_SHARE if self.io_share is None and self.history is None else self.io_share

    def replayable(self, repetition: int = 0) -> tuple[Replayable, Site]:
        """Return the jobs and the machine; a generated trace is another in each repetition."""
        return _replayable(replace(self._of_the_jobs(), seed=self.seed + self._drawn(repetition)))

    def _drawn(self, repetition: int) -> int:
        return repetition if self.generate is not None else 0

    def _of_the_jobs(self) -> Experiment:
        """Forget what the jobs and the machine do not depend on."""
        fresh = Experiment()
        of_jobs = ("io_share", "mix", "profiles", "options")
        of_storage = (
            *("lanes", "targets", "servers", "placement", "foreign_creates"),
            *("sharing", "storage_model", "storage", "spread"),
        )
        return replace(self, **{name: getattr(fresh, name) for name in (*of_jobs, *of_storage)})

    def writing(self, bandwidth: float, speed: float = 1.0) -> Experiment:
        """Return the experiment on as many usual targets as write so many B/s.

        Single targets keep their number, and links carry what theirs write. speed: of the metadata
        server, over the usual one.
        """
        usual = configuration()
        targets = max(self.lanes, round(bandwidth / usual.target_bandwidth))
        if self.placement is not None and self.targets is not None:
            targets = self.targets
        numbers = {
            "target_bandwidth": bandwidth / targets,
            "metadata_rate": usual.metadata_rate * speed,
        }
        if self.placement is not None:
            times = numbers["target_bandwidth"] / usual.target_bandwidth
            numbers["server_bandwidth"] = usual.server_bandwidth * times
        told = tuple((name, f"{number:g}") for name, number in numbers.items())
        return replace(self, targets=targets, storage=told)

    def draw(self, repetition: int = 0) -> Draw:
        """Return all that a replay needs; other seeds and other storage in each repetition."""
        replayable, site = self.replayable(repetition)
        profiles = self.profiles_of(replayable, repetition)[0]
        storage = self._storage(replayable.workload.machine_nodes)
        if repetition:
            storage = replace(storage, seed=self.seed + repetition, spread=self.spread)
        return Draw(
            replayable if profiles.lost is None else _alone(replayable, profiles.lost),
            site,
            profiles,
            storage,
            self.policy_options(repetition),
        )

    def profiles_of(self, replayable: Replayable, repetition: int = 0) -> tuple[Profiles, float]:
        """Return what the jobs do, and the share of the jobs whose logs tell it.

        Others are drawn, or do no I/O.
        """
        drawn, history = self._drawn_profiles(replayable, repetition), self.history
        if history is None:
            return drawn, 0.0
        told, known = _told(history, self._of_the_jobs())
        return where_known(known, told, drawn), float(np.mean(known))

    def _drawn_profiles(self, replayable: Replayable, repetition: int) -> Profiles:
        workload, seed = replayable.workload, self.seed + repetition
        if self.mix not in MIXES:
            raise TraceError(f"no mix {self.mix}; there are {', '.join(MIXES)}")
        if self.mix == MEASURED:
            if self.history is None:
                raise TraceError("the mix `measured` is drawn from a history: give --profiles")
            if self.io_share is not None:
                raise TraceError("the mix `measured` has the history's I/O: leave out --io-share")
            with Store(Path(self.history), read_only=True) as store:
                return measured_profiles(store, workload, seed=seed)
        if (share := self.io_share_drawn) is None:
            return no_profiles(len(replayable.rows))
        return drawn_profiles(workload, heavy=share, seed=seed, mix=self.mix)

    def _storage(self, nodes: int) -> Storage:
        storage = storage_for(
            nodes,
            lanes=self.lanes,
            targets=self.targets,
            servers=self.servers,
            sharing=self.sharing,
        )
        numbers = {name: _number("[storage]", name, text) for name, text in self.storage}
        by_request = {name: numbers.pop(name) for name in BY_REQUEST if name in numbers}
        if by_request and self.storage_model != DISCRETE_EVENT:
            raise StorageModelError(
                f"{', '.join(by_request)}: only the discrete-event storage model has it; "
                f'give model = "{DISCRETE_EVENT}" in [storage] of a --scenario'
            )
        return replace(
            storage,
            numbers={**storage.numbers, **numbers},
            model=self.storage_model,
            placement=self.placement,
            foreign_creates=self.foreign_creates,
            grain=by_request.get("grain", storage.grain),
            commit_group=by_request.get("commit_group", storage.commit_group),
        )

    def policy_options(self, repetition: int = 0) -> Options:
        kinds = {one.name: type(getattr(Options(), one.name)) for one in fields(Options)}
        given: dict[str, Any] = {}
        for name, text in self.options:
            if name not in kinds or name == "seed":
                known = ", ".join(sorted(kinds.keys() - {"seed"}))
                raise PolicyError(f"no policy has the option {name}; there are {known}")
            given[name] = kinds[name](_number("[policy]", name, text))
        return Options(**given, seed=self.seed + repetition)


def _frozen(value: Any) -> Any:
    if isinstance(value, dict):
        return tuple((str(name), str(text)) for name, text in value.items())
    return str(value) if isinstance(value, Path) else value


def _number(table: str, name: str, text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if math.isnan(number):
        raise EngineError(f"{table} {name} = {text}: give a number")
    return number


@lru_cache(maxsize=4)
def _replayable(experiment: Experiment) -> tuple[Replayable, Site]:
    if experiment.trace is None:
        trace = lublin.generate(
            experiment.generate or 0,
            slots=experiment.slots or GENERATED_SLOTS,
            load=experiment.load or GENERATED_LOAD,
            seed=experiment.seed,
        )
    else:
        trace = _read(
            experiment.trace,
            experiment.kind,
            experiment.columns,
            slot=experiment.slot,
            cluster=experiment.cluster,
            latest=experiment.latest,
        )
    if experiment.processors_per_node is not None:
        trace = replace(trace, slots_per_node=experiment.processors_per_node)
    site = _site(experiment, trace)
    if experiment.trace is not None and experiment.load is not None:
        trace = at_load(trace, experiment.load, slots=site.machine.slots)
    return make_replayable(trace, site, kills=experiment.kills), site


def _alone(replayable: Replayable, lost: NDArray[np.float64]) -> Replayable:
    """Take what runs lost to others off their run times: the storage model adds its own losses."""
    jobs = replayable.workload.jobs.copy()
    shortest = np.minimum(jobs["runtime"], 1.0)
    jobs["runtime"] = np.maximum(jobs["runtime"] - np.nan_to_num(lost), shortest)
    return replace(replayable, workload=replace(replayable.workload, jobs=jobs))


@lru_cache(maxsize=1)
def _told(history: str, experiment: Experiment) -> tuple[Profiles, NDArray[np.bool_]]:
    with Store(Path(history), read_only=True) as store:
        return history_profiles(store, _replayable(experiment)[0])


@lru_cache(maxsize=1)
def _read(
    path: str,
    kind: str | None,
    columns: Pairs,
    *,
    slot: str | None,
    cluster: str | None,
    latest: int | None,
) -> Trace:
    return read_trace(
        Path(path), kind=kind, columns=dict(columns), slot=slot, cluster=cluster, latest=latest
    )


def _site(experiment: Experiment, trace: Trace) -> Site:
    if experiment.machine is not None:
        site = parse_site(json.loads(experiment.machine))
    elif experiment.slots is not None:
        site = one_pool(experiment.slots)
    else:
        site = site_of(trace)
    if experiment.slurm:
        site = site.with_settings(SLURM)
    known = scheduler_defaults()
    return site.with_settings(
        {
            name: text if isinstance(known.get(name), str) else _number("[scheduler]", name, text)
            for name, text in experiment.settings
        }
    )


def at_load(trace: Trace, load: float, *, slots: int) -> Trace:
    """Stretch or squeeze the submissions so that the jobs offer this share of the machine."""
    usable = np.isfinite(trace.submit) & (trace.runtime > 0) & (trace.slots > 0)
    submit = trace.submit[usable]
    span = float(np.ptp(submit)) if len(submit) else 0.0
    if not span:
        raise TraceError(f"{trace.name}: its load cannot be changed: all is submitted at once")
    offered = float(np.sum((trace.runtime * trace.slots)[usable])) / (slots * span)
    first, factor = submit.min(), offered / load
    return replace(
        trace,
        submit=first + (trace.submit - first) * factor,
        begin=None if trace.begin is None else first + (trace.begin - first) * factor,
        start=None,
    )


def checksum(path: str) -> str | None:
    """Return the SHA-256 of a file, in hexadecimal digits; None: a pipe, which is read once."""
    if not Path(path).is_file():
        return None
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
