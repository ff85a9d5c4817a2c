"""What the jobs of a replay do to storage: drawn from a mix, or known from a history.

I/O profiles for a trace that has none, drawn from a named mix. KINDS says what is drawn;
docs/reference/replay.md says why. The same seed gives a job the same kind of program in each mix,
whatever the share of I/O-heavy jobs is: raising it only adds some.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sluice.prediction.jobs import finished_jobs, profile_members
from sluice.prediction.solo_estimate import undisturbed
from sluice.sim.engine import TraceError
from sluice.sim.storage.mean_field import Kinds, loads_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from sluice.history_db.records import Run
    from sluice.history_db.store import Store
    from sluice.prediction.jobs import FinishedJob
    from sluice.sim.engine import Workload
    from sluice.sim.trace.repairs import Replayable


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of program; names and units of the numbers: policies/core/profile.h."""

    name: str
    weight: float
    """Its share among the I/O-heavy jobs, or among the others."""
    pattern: str
    io_share: tuple[float, float]
    """Least and most; drawn uniformly between them. Of `checkpointing`."""
    numbers: Mapping[str, float]
    """Processes, rate and metadata rate are those of one node; others are unknown."""


MIB = 2.0**20
CHECKPOINTING, SHORT, MEASURED = "checkpointing", "short", "measured"
MIXES = (CHECKPOINTING, SHORT, MEASURED)
"""What decides on the bursts of a job: a period of its kind, a number of its own, a history."""
PROCESSES = 8.0
"""Of a node."""
FLUSHES = 200.0
"""Writes a second of a process that waits for each: the median of the logs in tests/data."""
OPERATIONS = 2000.0
"""Metadata operations a second of a node."""
SHORT_BURSTS = (1, 4)
"""Bursts of an I/O-heavy job, least and most."""
SHORT_SECONDS = (10.0, 60.0)
"""Their length (Boito et al., IPDPS 2025)."""
SHORT_SHARE = 0.5
"""Largest I/O share: a job that is no longer than its bursts also computes."""


def _flushing(chunk_bytes: float) -> dict[str, float]:
    """Return the numbers of programs whose processes wait until each write is answered."""
    return {
        "nprocs": PROCESSES,
        "chunk_bytes": chunk_bytes,
        "bytes_per_flush": chunk_bytes,
        "rate": PROCESSES * FLUSHES * chunk_bytes,
    }


HEAVY = (
    Kind("checkpoints in a stream", 0.4, "aw", (0.1, 0.5),
         {"nprocs": PROCESSES, "chunk_bytes": 4 * MIB, "bytes_per_flush": 1024 * MIB,
          "period_seconds": 1800.0}),
    Kind("small synchronous writes", 0.25, "ws", (0.1, 0.4),
         {**_flushing(64 * 1024.0), "period_seconds": 300.0}),
    Kind("a file for each write", 0.2, "owc", (0.05, 0.3),
         {**_flushing(256 * 1024.0), "creates_per_mib": 4.0, "period_seconds": 600.0}),
    Kind("metadata", 0.15, "metadata", (0.05, 0.3),
         {"nprocs": PROCESSES, "chunk_bytes": 2048.0, "bytes_per_flush": 64 * MIB,
          "rate": OPERATIONS * 2048.0, "metadata_rate": OPERATIONS, "period_seconds": 120.0}),
)  # fmt: skip
LIGHT = (
    Kind("nothing that counts", 0.8, "none", (0.0, 0.0), {}),
    Kind("a little output", 0.2, "aw", (0.001, 0.02),
         {"nprocs": PROCESSES, "chunk_bytes": MIB, "bytes_per_flush": 64 * MIB,
          "period_seconds": 3600.0}),
)  # fmt: skip
KINDS = (*HEAVY, *LIGHT)


@dataclass(frozen=True, slots=True)
class Mix:
    """What was drawn, one element a job."""

    kind: NDArray[np.int64]
    """Index into KINDS."""
    io_share: NDArray[np.float64]
    period: NDArray[np.float64]
    """Seconds; 0: that of its kind."""

    @property
    def is_heavy(self) -> NDArray[np.bool_]:
        return np.asarray(self.kind < len(HEAVY))

    def profile(self, job: int) -> dict[str, Any]:
        """Return what is known of a node of a job, by the names of policies/core/profile.h."""
        kind = KINDS[self.kind[job]]
        share, period = float(self.io_share[job]), float(self.period[job])
        numbers = dict(kind.numbers)
        if period:
            numbers["period_seconds"] = period
        if "period_seconds" in numbers:
            numbers["burst_seconds"] = share * numbers["period_seconds"]
        return {"pattern": kind.pattern, "io_share": share, **numbers}


def draw_mix(
    runtime: NDArray[np.float64], *, heavy: float, seed: int = 1, mix: str = CHECKPOINTING
) -> Mix:
    """Draw a profile for each job, of which the share `heavy` is I/O-heavy.

    runtime: seconds of each alone; mix: `checkpointing` or `short`.
    """
    if not 0 <= heavy <= 1:
        raise TraceError(f"the share of I/O-heavy jobs is {heavy}; give 0 to 1")
    jobs, random = len(runtime), np.random.default_rng(seed)
    is_heavy = random.uniform(size=jobs) < heavy
    which, where = random.uniform(size=jobs), random.uniform(size=jobs)
    kind = np.where(is_heavy, _choose(which, HEAVY), len(HEAVY) + _choose(which, LIGHT))
    low, high = np.array([kind.io_share for kind in KINDS]).T
    share, period = low[kind] + where * (high - low)[kind], np.zeros(jobs)
    if mix == SHORT:
        bursts, seconds = _short_bursts(runtime, random)
        length = np.maximum(runtime, 1.0)
        share = np.where(is_heavy, np.minimum(bursts * seconds / length, SHORT_SHARE), share)
        # A hair less than an equal part, so that so many bursts fit the run time.
        period = np.where(is_heavy, length / bursts * (1 - 1e-9), period)
    return Mix(kind, share, period)


def _short_bursts(
    runtime: NDArray[np.float64], random: np.random.Generator
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Draw how many bursts each job has, and their seconds; a brief job has fewer."""
    seconds = random.uniform(*SHORT_SECONDS, size=len(runtime))
    bursts = random.integers(*SHORT_BURSTS, size=len(runtime), endpoint=True)
    room = np.floor(SHORT_SHARE * runtime / seconds)
    return np.maximum(np.minimum(bursts, room), 1.0), seconds


def _choose(uniform: NDArray[np.float64], kinds: tuple[Kind, ...]) -> NDArray[np.int64]:
    edges = np.cumsum([kind.weight for kind in kinds])
    return np.minimum(np.searchsorted(edges, uniform, side="right"), len(kinds) - 1)


@dataclass(frozen=True, slots=True)
class Profiles:
    """Of all jobs of a workload, in its order."""

    kinds: Sequence[Mapping[str, Any]]
    """Members of struct sluice_profile (policies/core/profile.h), `pattern` by its name."""
    kind: NDArray[np.int64]
    """Index into kinds, one a job."""
    io_share: NDArray[np.float64]
    """0..1: share of the run time alone that is I/O, one a job."""
    nodes: tuple[float, ...] = ()
    """Nodes of which processes, rate and metadata rate of each kind are: a job has as many times
    these as it has times the nodes. 0, as where it ends: they are the job's at any size."""
    period: NDArray[np.float64] | None = None
    """Seconds from a burst to the next, one a job; 0 and None: as its kind has it."""
    lost: NDArray[np.float64] | None = None
    """Seconds that each job's own run lost to others, by its I/O time; NaN: not measured."""
    names: tuple[str, ...] = ()
    """Programs that kinds are runs of, with their users; empty: kinds of no program."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "kinds", Kinds.of(self.kinds))

    def loads(self, workload: Workload, config: Any) -> NDArray[Any]:
        """Return a contention.LOAD for each job; config: from `mean_field.configuration`."""
        return loads_of(
            self.kinds,
            kind=self.kind,
            io_share=self.io_share,
            nodes=workload.nodes,
            runtime=workload.jobs["runtime"],
            config=config,
            period=self.period,
            times=self.times(workload),
        )

    def times(self, workload: Workload) -> NDArray[np.float64]:
        """Return how many times the processes and rates of its kind each job has."""
        nodes = np.array(self.nodes_of_kinds)[self.kind]
        return np.where(nodes > 0, workload.nodes / np.maximum(nodes, 1.0), 1.0)

    def number(self, name: str) -> NDArray[np.float64]:
        """Return a number of each job's kind; NaN: unknown."""
        of_kinds = [kind.get(name) for kind in self.kinds]
        return np.array([np.nan if one is None else one for one in of_kinds])[self.kind]

    @property
    def periods(self) -> NDArray[np.float64]:
        """Seconds from a burst to the next, one a job; NaN: unknown."""
        own = np.zeros(len(self.kind)) if self.period is None else self.period
        return np.where(own > 0, own, self.number("period_seconds"))

    @property
    def nodes_of_kinds(self) -> tuple[float, ...]:
        """Return `nodes` for all kinds."""
        return (*self.nodes, *[0.0] * (len(self.kinds) - len(self.nodes)))


def drawn_profiles(
    workload: Workload, *, heavy: float, seed: int = 1, mix: str = CHECKPOINTING
) -> Profiles:
    """Draw profiles of which the share `heavy` is I/O-heavy (docs/reference/replay.md)."""
    drawn = draw_mix(workload.jobs["runtime"], heavy=heavy, seed=seed, mix=mix)
    kinds = tuple({"pattern": kind.pattern, **kind.numbers} for kind in KINDS)
    return Profiles(kinds, drawn.kind, drawn.io_share, (1.0,) * len(kinds), drawn.period)


def no_profiles(jobs: int) -> Profiles:
    """No job does any I/O."""
    return Profiles(({"pattern": "none"},), np.zeros(jobs, np.int64), np.zeros(jobs))


SLACK = 60
"""Seconds by which clocks of nodes and of the accounting may differ."""


def history_profiles(store: Store, replayable: Replayable) -> tuple[Profiles, NDArray[np.bool_]]:
    """Return profiles of jobs alone, and which jobs the history knows; others do no I/O.

    A log belongs to the job that the accounting says, by its id and second of submission; one
    that no accounting knows to the job with its id that ran when it began.
    """
    rows = _Rows(replayable)
    logs = store.runs.run_ids(since=int(rows.first_start - SLACK)) if rows.first_start else None
    runs = {run.log_id: run for run in store.runs.runs(logs)}
    nothing = no_profiles(len(replayable.rows))
    kinds: list[Mapping[str, Any]] = list(nothing.kinds)
    names = [""] * len(kinds)
    kind, io_share = nothing.kind, nothing.io_share
    known, lost = np.zeros(len(kind), bool), np.full(len(kind), np.nan)
    for job in undisturbed(finished_jobs(runs.values())):
        row = rows.of(runs[job.logs[0]])
        if row is not None:
            kind[row], io_share[row], known[row] = len(kinds), _io_share(job), True
            kinds.append(profile_members(job.profile))
            names.append(_program(job))
            if job.disturbance is not None:
                lost[row] = min(job.disturbance.lost(), job.end - job.start)
    return Profiles(tuple(kinds), kind, io_share, lost=lost, names=tuple(names)), known


def _program(job: FinishedJob) -> str:
    """Name a program and its user; a job may be called anything."""
    name = f"{job.stem or 'unnamed'} ({job.user or job.uid})"
    return "".join(c if c.isprintable() else "?" for c in name)


def measured_profiles(store: Store, workload: Workload, *, seed: int = 1) -> Profiles:
    """Draw for each job what some run in the history did, of those nearest to it in size.

    Sizes are told apart by the octave; what a run did, a job does in proportion to its nodes.
    Where the history has no sizes, each run is taken as it was.
    """
    runs = undisturbed(finished_jobs(store.runs.runs()))
    if not runs:
        raise TraceError("the history has no runs to draw profiles from; ingest logs first")
    runs = [run for run in runs if run.nodes] or runs
    nodes = np.array([run.nodes for run in runs])
    octaves, wanted = _octave(nodes), _octave(workload.nodes)
    where = np.random.default_rng(seed).uniform(size=len(wanted))
    kind = np.zeros(len(wanted), np.int64)
    for octave in np.unique(wanted):
        distance = np.abs(octaves - octave)
        like = np.flatnonzero(distance == distance.min())
        own = wanted == octave
        kind[own] = like[(where[own] * len(like)).astype(np.int64)]
    shares = np.array([_io_share(run) for run in runs])
    kinds = tuple(profile_members(run.profile) for run in runs)
    return Profiles(kinds, kind, shares[kind], tuple(nodes.astype(float).tolist()))


def _octave(sizes: NDArray[Any]) -> NDArray[np.int64]:
    return np.asarray(np.rint(np.log2(np.maximum(sizes, 1))), np.int64)


def where_known(known: NDArray[np.bool_], told: Profiles, otherwise: Profiles) -> Profiles:
    """Return what is told of the jobs that are known, and of the others what is given instead."""
    return Profiles(
        (*otherwise.kinds, *told.kinds),
        np.where(known, told.kind + len(otherwise.kinds), otherwise.kind),
        np.where(known, told.io_share, otherwise.io_share),
        (*otherwise.nodes_of_kinds, *told.nodes_of_kinds),
        None if otherwise.period is None else np.where(known, 0.0, otherwise.period),
        told.lost,
        (*[""] * len(otherwise.kinds), *told.names) if told.names else (),
    )


def _io_share(job: FinishedJob) -> float:
    return min(1.0, max(0.0, job.profile.numbers.get("io_share", 0.0)))


class _Rows:
    """Finds the job of a workload that a log is of."""

    def __init__(self, replayable: Replayable) -> None:
        trace, rows = replayable.trace, replayable.rows
        submit = (trace.submit[rows] + trace.epoch).tolist()
        start = np.full(len(rows), np.nan) if trace.start is None else trace.start[rows]
        self._began = (start + trace.epoch).tolist()
        self.first_start: float | None = None if np.isnan(start).any() else min(self._began)
        self._length = trace.runtime[rows].tolist()
        self._by_submission: dict[tuple[int, int], int] = {}
        self._by_id: dict[int, list[int]] = {}
        for row, (job_id, second) in enumerate(
            zip(trace.job_id[rows].tolist(), submit, strict=True)
        ):
            self._by_submission[job_id, int(second)] = row
            self._by_id.setdefault(job_id, []).append(row)

    def of(self, run: Run) -> int | None:
        if run.job is not None:
            return self._by_submission.get((run.job.job_id, run.job.submit))
        begin = run.log.start or 0
        for row in self._by_id.get(run.log.jobid or 0, ()):
            since = begin - self._began[row]
            if -SLACK <= since <= self._length[row] + SLACK:
                return row
        return None
