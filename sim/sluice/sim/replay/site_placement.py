"""Storage targets of a site, reasons why placement gains nothing, and the levers to replay there.

From the jobs of a replay, the servers' counts and the configuration. Where output has no choice of
targets, the file system itself keeps bursts apart, or its links are full before its targets are,
nothing is replayed.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from sluice.policies.core import MAX_TARGETS
from sluice.sim.policies.policies import POLICIES, Policy, Question, is_undisturbed

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from sluice.history_db.records import TargetCounts
    from sluice.history_db.store import Store
    from sluice.policies.core import Config
    from sluice.sim.policies.policies import Plan
    from sluice.sim.replay.compare import Draw
    from sluice.sim.replay.experiment import Experiment

MOST_NAMED = 3
"""Programs that a remedy names, those with the most of it first."""
BIG = 0.8
"""Of all bytes written, what big writers write together at least."""
DRIVES = 0.8
"""Share of its targets' rate from which on a program drives them."""
NO_CHOICE = 0.01
"""Of the node-seconds of I/O, in jobs that could be on other targets: below it there are none."""
EVEN = 1.1
"""Times the mean that the busiest target moves, where load is spread evenly."""
LINKS = 2.0
"""Times the bandwidth that all targets move by themselves, where links are full before them."""
ALL_LOGGED = 0.9
"""Of the node-hours, in jobs with logs: then these tell of all creates."""

UNKNOWN, ONE, TOO_MANY, OWN_ALLOCATOR = "unknown", "one", "too_many", "own_allocator"
NO_IO, ALL_TARGETS, UNDISTURBED, EVENLY, LINKS_FULL = (
    "no_io",
    "all_targets",
    "undisturbed",
    "evenly",
    "links",
)
"""Reasons to gain nothing."""

TWICE = "twice the targets: "
POOL = "a pool of their own for big writers"
NEED_SLUICE: Mapping[str, Policy] = {
    "placement on blocks": POLICIES["placement"],
    "placement on blocks, with turns": POLICIES["placement-turns"],
    "placement at create": POLICIES["placement-at-create"],
}
"""Levers of Sluice, without the cheap remedies that need none."""


@dataclass(frozen=True, slots=True)
class Used:
    """Targets that programs use, by the node-seconds of their I/O."""

    median: float
    least: float
    most: float


@dataclass(frozen=True, slots=True)
class SitePlacement:
    """What is known of a site's targets, and what to replay on them."""

    targets: int = 0
    """0: not known."""
    targets_from: str = ""
    nothing: str = ""
    """One of the reasons; empty: there may be something to gain."""
    own_allocator: str = ""
    """A file system that spreads new files by itself."""
    used: Used | None = None
    """None: no log tells."""
    creates: float | None = None
    """Files that others make during a burst, by logs; None: they do not tell."""
    is_at_most: bool = True
    """Whether nothing shows that creates of others disturb the allocator."""
    busiest: float | None = None
    """Bytes of the busiest target over the mean, by servers' counts; None: there are none."""
    big_writers: tuple[str, ...] = ()
    own_rate: float = 0.0
    """B/s that all targets together moved, each in its best time; 0: not known."""
    experiment: Experiment | None = field(default=None, repr=False)
    """None: there is nothing to gain."""
    levers: Mapping[str, Policy] = field(default_factory=dict, repr=False)
    """The cheap remedies first."""

    def as_json(self) -> dict[str, Any]:
        names = ("targets", "targets_from", "creates", "is_at_most", "busiest", "own_rate")
        return {
            **{name: getattr(self, name) for name in names},
            "used": asdict(self.used) if self.used else None,
            "nothing_to_gain": self.nothing or None,
            "big_writers": list(self.big_writers),
            "levers": list(self.levers),
        }


def site_placement(
    experiment: Experiment,
    store: Store,
    settings: Config,
    *,
    bandwidth: float,
    is_told: bool,
    own_allocator: str = "",
) -> SitePlacement:
    """Return what is known of placement for the jobs of an experiment.

    bandwidth: B/s that all targets write; is_told: by the site, not by its fastest run.
    own_allocator: name of a file system that spreads new files by itself.
    """
    counts = store.interference.target_counts()
    targets, source = _targets(store, settings, counts)
    found = SitePlacement(targets, source, own_allocator=own_allocator)
    if own_allocator:
        return replace(found, nothing=OWN_ALLOCATOR)
    if not 1 < targets <= MAX_TARGETS:
        return replace(found, nothing=TOO_MANY if targets > 1 else ONE if targets else UNKNOWN)
    told = replace(
        experiment, lanes=1, targets=targets, placement="round-robin", foreign_creates=0.0
    )
    jobs = _Jobs(told.writing(bandwidth).draw())
    rate = jobs.foreign_creates()
    told = replace(told, foreign_creates=rate or 0.0)
    is_disturbed = rate is not None and not jobs.is_undisturbed(rate)
    coverage = store.jobs.coverage()
    covers = coverage.logged_node_seconds >= ALL_LOGGED * coverage.node_seconds > 0
    found = replace(
        found,
        used=jobs.used(),
        creates=None if rate is None else rate * jobs.burst_seconds,
        is_at_most=not is_disturbed,
        busiest=targets * counts.busiest / counts.bytes if counts.bytes else None,
        own_rate=targets * counts.best_rate,
        big_writers=jobs.big_writers(),
        experiment=told if is_disturbed else replace(told, placement="chance"),
        levers={
            **{TWICE + name: _twice(name) for name in jobs.cannot_drive()},
            POOL: Policy(_pool),
            **NEED_SLUICE,
        },
    )
    nothing = ""
    if not jobs.has_io.any():
        nothing = NO_IO
    elif jobs.share_with_choice() < NO_CHOICE:
        nothing = ALL_TARGETS
    elif is_told and found.own_rate > LINKS * bandwidth:
        nothing = LINKS_FULL
    elif rate is not None and covers and not is_disturbed:
        nothing = UNDISTURBED
    elif (
        found.busiest is not None and found.busiest <= EVEN and counts.seconds <= jobs.burst_seconds
    ):
        nothing = EVENLY
    return replace(found, nothing=nothing, experiment=None) if nothing else found


def _targets(store: Store, settings: Config, counts: TargetCounts) -> tuple[int, str]:
    lanes = sum(lane.targets for lane in settings.policy.lanes)
    if lanes:
        return lanes, "lanes of the configuration"
    if counts.targets > 1:
        return counts.targets, "servers' counts"
    if logged := store.interference.lustre_targets():
        return logged, "Lustre's records in logs"
    return 0, ""


class _Jobs:
    """The jobs of a draw, and what they do to targets."""

    def __init__(self, draw: Draw) -> None:
        self.draw = draw
        self.workload, self.profiles = draw.replayable.workload, draw.profiles
        self.config = draw.storage.configuration()
        self.loads = self.profiles.loads(self.workload, self.config)
        self.has_io = self.loads["bursts"] > 0
        self.io = self.loads["burst"] * self.loads["bursts"] * self.workload.nodes
        self.k = self.profiles.number("targets")

    @property
    def burst_seconds(self) -> float:
        """Of the mean burst."""
        bursts = self.loads["bursts"]
        return float((self.loads["burst"] * bursts).sum() / max(1, bursts.sum()))

    def used(self) -> Used | None:
        known = self.has_io & (self.k >= 1)
        if not known.any():
            return None
        k, weight = self.k[known], self.io[known]
        order = np.argsort(k)
        passed = np.cumsum(weight[order])
        median = k[order][np.searchsorted(passed, passed[-1] / 2)]
        return Used(float(median), float(k.min()), float(k.max()))

    def share_with_choice(self) -> float:
        """Return the share of I/O in jobs that a block of targets would suffice for."""
        width = np.maximum(self.loads["width"], 1)
        needs = 2.0 ** np.ceil(np.log2(width))
        has_choice = (self.loads["width"] > 0) & (2 * needs <= self.draw.storage.targets)
        return float(self.io[has_choice & self.has_io].sum() / max(1e-9, self.io.sum()))

    def foreign_creates(self) -> float | None:
        """Return the files a second that bursts do not account for; None: logs do not tell."""
        files = self.profiles.number("files")
        known = np.isfinite(files)
        if not self.io[known].sum() > self.io.sum() / 2:
            return None
        start = self.draw.replayable.trace.start
        if start is None:
            return None
        rows = self.draw.replayable.rows
        begun, ended = start[rows], start[rows] + self.workload.jobs["runtime"]
        span = float(np.nanmax(ended) - np.nanmin(begun))
        own = self.loads["bursts"] * np.maximum(self.loads["files"], 1.0)
        more = np.maximum(0.0, files[known] - own[known]).sum()
        return float(more) / max(1.0, span)

    def is_undisturbed(self, creates: float) -> bool:
        storage = replace(self.draw.storage, foreign_creates=creates)
        return is_undisturbed(Question(self.workload, self.profiles, storage, self.draw.options))

    def cannot_drive(self) -> tuple[str, ...]:
        """Name programs that write striped on more targets than their rate needs."""
        all_of_them = self.k * self.config.target_bandwidth
        is_slow = self.profiles.number("rate") < DRIVES * all_of_them
        could = is_slow & (2 * self.k <= self.draw.storage.targets) & (self.loads["files"] == 0)
        of_program = self._by_program(self.io)
        slow = self._by_program(np.where(could, self.io, 0.0))
        return tuple(name for name in of_program if slow[name] > of_program[name] / 2)[:MOST_NAMED]

    def big_writers(self) -> tuple[str, ...]:
        """Name those that write BIG of all bytes, or the first few of them."""
        written = np.nan_to_num(self.profiles.number("write_bytes"))
        found, left, whole = [], BIG * written.sum(), self._by_program(written)
        for name, bytes_written in whole.items():
            if left > 0 and bytes_written > 0:
                found.append(name)
                left -= bytes_written
        return tuple(found[:MOST_NAMED])

    def _by_program(self, amounts: NDArray[np.float64]) -> dict[str, float]:
        """Add up what jobs of each program have, the most first."""
        sums: dict[str, float] = {}
        for kind, amount in zip(self.profiles.kind.tolist(), amounts.tolist(), strict=True):
            name = self.profiles.names[kind] if kind < len(self.profiles.names) else ""
            if name:
                sums[name] = sums.get(name, 0.0) + amount
        return dict(sorted(sums.items(), key=lambda one: (-one[1], one[0])))


def _pool(question: Question) -> Plan:
    """Let only the replayed jobs move the pointer of the allocator."""
    storage = replace(question.storage, placement="round-robin", foreign_creates=0.0)
    return replace(POLICIES["none"].plan(question), storage=storage)


def _twice(program: str) -> Policy:
    def plan(question: Question) -> Plan:
        profiles = question.profiles
        kinds = [
            {**kind, "targets": 2.0 * kind["targets"]}
            if name == program and kind.get("targets")
            else kind
            for name, kind in zip(profiles.names, profiles.kinds, strict=True)
        ]
        changed = replace(profiles, kinds=kinds)
        reshape: Callable[[NDArray[Any], Any], NDArray[Any]] = lambda _loads, config: (  # noqa: E731
            changed.loads(question.workload, config)
        )
        return replace(POLICIES["none"].plan(question), reshape=reshape)

    return Policy(plan)
