"""What interference costs a site, from finished jobs alone.

What a run lost is its time in I/O less what its I/O takes alone (classifier/undisturbed.py), and
what a policy could have recovered at most, if keeping jobs apart cost nothing: no wait, no
narrower output. So the sum is a bound on the gain of every policy that only moves jobs. To whom
a loss is laid is looked at in a few instants of each run: who else was running, and by which
factor the decision core expects them to slow it. Where a run does not tell its time in I/O, that
factor also says what it lost.

Of many jobs that matter some are drawn, and each stands for as many as were not: they tell
the share of the node-hours that is lost. Among the others that run, all count.

What a program does alone is belief, and so is the interference model: their deviations go into
the interval, as does what differs from day to day.

What a run computed for longer while more jobs ran is not storage's doing, and told apart.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from sluice.policies import core
from sluice.prediction.to_core import profile_members

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from sluice.policies.core import Config, View
    from sluice.prediction.jobs import Disturbance, FinishedJob

    Array = NDArray[np.float64]

INSTANTS = 16  # of each run
VICTIMS = 5000  # runs of which the losses are computed; drawn where more matter
OTHERS = 64  # heaviest co-runners that are looked at: what the core takes
CAUSES = 5  # heaviest co-runners among which a loss is divided
DRAWS = 40  # models that the interval comes from
DRAWN_INSTANTS = 4000  # that each of them is asked about
WORST = 10  # pairs of applications that are told
DAYS = 2000  # bootstrap samples of days
DAY = 86400  # seconds
LOADS = (0.25, 0.5, 1.0, 2.0, 4.0, math.inf)
"""Upper ends of the classes of load: what everybody running asks of storage, over what it has."""
MATTERS = 0.01  # of the node-hours of jobs with I/O: from here on a loss is worth a word
FEWEST = 5  # runs of a program, to tell what others cost its computing,
CLEARLY = 2.5  # by so many standard errors
NOTHING = 0.001  # of them, at the upper end of the interval: below it nothing is at stake


@dataclass(frozen=True, slots=True)
class Party:
    """An application, as one that causes or suffers."""

    name: str
    jobs: int
    node_hours: float
    """Of its own runs."""
    suffered: float
    """Node-hours that its runs lost to others."""
    caused: float
    """Node-hours that other runs lost to it."""


@dataclass(frozen=True, slots=True)
class Pair:
    """Two applications, or one beside itself."""

    victim: str
    aggressor: str
    lost: float
    """Node-hours that the victim's runs lost to the aggressor's."""


@dataclass(frozen=True, slots=True)
class LoadClass:
    """Instants with at most this load, above the class before."""

    load: float
    node_hours: float
    lost: float
    """Node-hours."""


@dataclass(frozen=True, slots=True)
class Assessment:
    """What is at stake; node-hours unless said otherwise."""

    jobs: int
    """Finished jobs with a known profile."""
    heavy: int
    """Those of them that matter to storage."""
    drawn: int
    """Those of these whose losses were computed; they stand for the others."""
    node_hours: float
    """Of all of them."""
    heavy_node_hours: float
    lost: float
    """To interference: the most that any policy could recover."""
    interval: tuple[float, float]
    """Of lost, 90 %."""
    lost_computing: float
    """By computing longer while more jobs ran, as far as that is no chance; not in lost."""
    slowdowns: dict[str, float]
    """Of the jobs that matter: p50, p95, p99 and max."""
    parties: tuple[Party, ...]
    """Those that matter, the most harmful first."""
    worst_pairs: tuple[Pair, ...]
    """At most WORST, the costliest first; those that cost nothing are left out."""
    loads: tuple[LoadClass, ...]

    @property
    def is_anything_at_stake(self) -> bool:
        return self.interval[1] > NOTHING * self.node_hours

    @property
    def matters_from(self) -> float | None:
        """Load from which on more than MATTERS of the node-hours are lost; None: never."""
        floor = 0.0
        for one in self.loads:
            if one.lost > MATTERS * one.node_hours:
                return floor
            floor = one.load
        return None


@dataclass(slots=True)
class _Member:
    """A job that matters."""

    name: str
    nodes: int
    start: float
    end: float
    pressure: core.View
    disturbance: Disturbance | None = None
    """None: what it lost is what the model says."""
    stands_for: float = 1.0
    """Runs like it, of which one was drawn; 0: this one was not."""
    lost: float = 0.0
    """Node-seconds, of all that it stands for."""

    @property
    def node_seconds(self) -> float:
        return self.nodes * (self.end - self.start)

    @property
    def slowdown(self) -> float:
        """Observed time over the time it would have taken alone."""
        return 1.0 / max(1e-9, 1.0 - self.lost / (self.node_seconds * self.stands_for))

    @property
    def is_measured(self) -> bool:
        return self.disturbance is not None

    def measured_loss(self, z: float = 0.0) -> float:
        """Return the node-seconds that it lost by its own I/O time, and those it stands for."""
        if self.disturbance is None:
            return 0.0
        seconds = min(self.disturbance.lost(z), self.end - self.start)
        return self.nodes * seconds * self.stands_for


@dataclass(frozen=True, slots=True)
class _Instant:
    time: float
    victim: int
    node_seconds: float
    """Of the victim's run, and of those that it stands for, that the instant stands for."""


@dataclass(slots=True)
class _Sums:
    caused: dict[tuple[str, str], float] = field(default_factory=lambda: defaultdict(float))
    """Node-seconds by victim and aggressor."""
    offered: Array = field(default_factory=lambda: np.zeros(len(LOADS)))
    """Node-seconds by class of load."""
    lost: Array = field(default_factory=lambda: np.zeros(len(LOADS)))
    looks: dict[int, list[_Look]] = field(default_factory=lambda: defaultdict(list))
    """By victim whose loss was measured: where it may have come from."""


@dataclass(frozen=True, slots=True)
class _Look:
    """An instant of a run among others."""

    load: int
    """Its class of load."""
    share: float
    """Of the run's time that goes by for nothing, by the model."""
    causes: Mapping[str, float]


def assess(
    jobs: Sequence[FinishedJob],
    *,
    model: core.View,
    policy: core.View,
    seed: int = 0,
    advance: Callable[[int], None] = lambda _: None,
) -> Assessment:
    """Say what finished jobs lost to each other; the same jobs give the same answer.

    The model is a struct sluice_interference, the policy a struct sluice_policy whose lanes
    tell the bandwidth. `advance` is told of the number of instants dealt with, of INSTANTS for
    every job that matters, and VICTIMS jobs at most.
    """
    members = _members(jobs, model, policy)
    rng = np.random.default_rng(seed)
    sums = _Sums()
    sample: list[tuple[_Instant, list[int]]] = []
    instants = _instants(members)
    keep = min(1.0, DRAWN_INSTANTS / max(1, len(instants)))
    for instant, others in _sweep(members, instants, advance):
        _look(members, instant, others, model, sums)
        if others and not members[instant.victim].is_measured and rng.random() < keep:
            sample.append((instant, others))
    _lay_measured(members, sums)
    return Assessment(
        jobs=len(jobs),
        heavy=len(members),
        drawn=sum(one.stands_for > 0 for one in members),
        node_hours=sum(_node_seconds(job) for job in jobs) / 3600,
        heavy_node_hours=sum(one.node_seconds for one in members) / 3600,
        lost=sum(one.lost for one in members) / 3600,
        interval=_interval(members, sample, model, rng),
        lost_computing=lost_computing(jobs) / 3600,
        slowdowns=_slowdowns(members),
        parties=_parties(members, sums),
        worst_pairs=_worst_pairs(sums),
        loads=tuple(
            LoadClass(load, float(offered) / 3600, float(lost) / 3600)
            for load, offered, lost in zip(LOADS, sums.offered, sums.lost, strict=True)
        ),
    )


def worst_pairs(
    jobs: Sequence[FinishedJob],
    *,
    model: core.View,
    policy: core.View,
    advance: Callable[[int], None] = lambda _: None,
) -> tuple[Pair, ...]:
    """Return those of `assess`, without asking how uncertain the whole is."""
    members = _members(jobs, model, policy)
    sums = _Sums()
    for instant, others in _sweep(members, _instants(members), advance):
        _look(members, instant, others, model, sums)
    _lay_measured(members, sums)
    return _worst_pairs(sums)


def _node_seconds(job: FinishedJob) -> float:
    return max(1, job.nodes) * max(0.0, job.end - job.start)


def _members(jobs: Sequence[FinishedJob], model: core.View, policy: core.View) -> list[_Member]:
    """Return the jobs that matter, VICTIMS of them drawn to stand for all.

    By their node-seconds: a loss is a share of them, which varies less than the loss itself.
    """
    members = [member for job in jobs if (member := _member(job, model, policy))]
    if len(members) <= VICTIMS:
        return members
    drawn = np.random.default_rng(0).choice(len(members), VICTIMS, replace=False)
    weight = sum(one.node_seconds for one in members) / sum(members[i].node_seconds for i in drawn)
    for member in members:
        member.stands_for = 0.0
    for i in drawn:
        members[i].stands_for = weight
    return members


def _member(job: FinishedJob, model: core.View, policy: core.View) -> _Member | None:
    profile = profile_members(job.profile)
    suffers = job.disturbance is not None and job.disturbance.lost() > 0
    matters = suffers or core.class_of(profile, policy) != "none"
    if not matters or not _node_seconds(job):
        return None
    pressure = core.pressure_of(profile, model, policy)
    name, nodes = job.name or "(unnamed)", max(1, job.nodes)
    return _Member(name, nodes, job.start, job.end, pressure, job.disturbance)


def _instants(members: Sequence[_Member]) -> list[_Instant]:
    """Return the middles of equal parts of every run that was drawn, in the order of time."""
    return sorted(
        (
            _Instant(
                member.start + (member.end - member.start) * (part + 0.5) / INSTANTS,
                victim,
                member.node_seconds * member.stands_for / INSTANTS,
            )
            for victim, member in enumerate(members)
            if member.stands_for
            for part in range(INSTANTS)
        ),
        key=lambda one: (one.time, one.victim),
    )


def _sweep(
    members: Sequence[_Member], instants: Sequence[_Instant], advance: Callable[[int], None]
) -> Iterator[tuple[_Instant, list[int]]]:
    """Yield each instant with the other members that ran then, the heaviest first."""
    starts = sorted(range(len(members)), key=lambda i: members[i].start)
    running: dict[int, float] = {}
    started = 0
    for done, instant in enumerate(instants, start=1):
        while started < len(starts) and members[starts[started]].start <= instant.time:
            i = starts[started]
            running[i] = members[i].pressure.weight * members[i].pressure.demand
            started += 1
        for i in [i for i in running if members[i].end <= instant.time]:
            del running[i]
        others = [i for i in running if i != instant.victim]
        others.sort(key=lambda i: (-running[i], i))
        yield instant, others[:OTHERS]
        if done % INSTANTS == 0:
            advance(INSTANTS)


def _lost_share(
    members: Sequence[_Member], victim: int, others: list[int], model: core.View
) -> float:
    """Share of the victim's time that goes by for nothing among these others."""
    pressure = members[victim].pressure
    factor = core.io_factor(pressure, [members[i].pressure for i in others], model)
    return 1.0 - 1.0 / core.job_slowdown(pressure, factor)


def _look(
    members: Sequence[_Member],
    instant: _Instant,
    others: list[int],
    model: core.View,
    sums: _Sums,
) -> None:
    load = sum(
        members[i].pressure.demand * members[i].pressure.io_share for i in (instant.victim, *others)
    )
    klass = int(np.searchsorted(LOADS, load))
    sums.offered[klass] += instant.node_seconds
    if not others:
        return
    share = _lost_share(members, instant.victim, others, model)
    if members[instant.victim].is_measured:
        causes = _causes(members, instant.victim, others, share, model)
        sums.looks[instant.victim].append(_Look(klass, share, causes))
        return
    lost = instant.node_seconds * share
    members[instant.victim].lost += lost
    sums.lost[klass] += lost
    for name, part in _causes(members, instant.victim, others, share, model).items():
        sums.caused[members[instant.victim].name, name] += lost * part


def _lay_measured(members: Sequence[_Member], sums: _Sums) -> None:
    """Lay what runs lost to the instants in which the model expects most, and to their causes."""
    for member in members:
        if member.is_measured:
            member.lost = member.measured_loss()
    for victim, looks in sums.looks.items():
        member = members[victim]
        expected = sum(look.share for look in looks)
        for look in looks:
            part = look.share / expected if expected > 0 else 1 / len(looks)
            sums.lost[look.load] += member.lost * part
            for name, share in look.causes.items():
                sums.caused[member.name, name] += member.lost * part * share


def _causes(
    members: Sequence[_Member], victim: int, others: list[int], whole: float, model: core.View
) -> dict[str, float]:
    """Divide a loss among the heaviest others, by how much less it would be without each.

    Where the model sees no loss, by what each presses.
    """
    parts: dict[str, float] = defaultdict(float)
    for one in others[:CAUSES]:
        without = [i for i in others if i != one]
        less = whole - (_lost_share(members, victim, without, model) if without else 0.0)
        parts[members[one].name] += max(0.0, less)
    if not sum(parts.values()) > 0:
        for one in others[:CAUSES]:
            pressure = members[one].pressure
            parts[members[one].name] += pressure.demand * pressure.io_share + 1e-9
    total = sum(parts.values())
    return {name: part / total for name, part in parts.items()}


def _interval(
    members: Sequence[_Member],
    sample: Sequence[tuple[_Instant, list[int]]],
    model: core.View,
    rng: np.random.Generator,
) -> tuple[float, float]:
    """Return 90 % of the node-hours lost, over models and days."""
    point = sum(member.lost for member in members)
    by_model = sum(member.lost for member in members if not member.is_measured)
    drawn = _measured_losses(members, rng)
    if sample:
        drawn = drawn + by_model * _ratios(members, sample, model, rng)
    by_day: dict[int, float] = defaultdict(float)
    for member in members:
        by_day[int(member.start // DAY)] += member.lost
    days = np.array([by_day[day] for day in sorted(by_day)])
    factors = np.ones(DAYS)
    if point > 0:
        picked = rng.integers(0, len(days), (DAYS, len(days)))
        factors = days[picked].sum(axis=1) / point
    low, high = np.quantile(factors * rng.choice(drawn, DAYS), [0.05, 0.95])
    return float(min(low, point)) / 3600, float(max(high, point)) / 3600


def _measured_losses(members: Sequence[_Member], rng: np.random.Generator) -> Array:
    """Return DRAWS of the node-seconds that measured runs lost.

    What is believed of a program's rate alone is wrong in one direction for all its runs.
    """
    measured = [member for member in members if member.is_measured and member.stands_for > 0]
    names = sorted({member.name for member in measured})
    lost = np.zeros(DRAWS)
    for draw in range(DRAWS):
        shift = dict(zip(names, rng.standard_normal(len(names)).tolist(), strict=True))
        lost[draw] = sum(member.measured_loss(shift[member.name]) for member in measured)
    return lost


def _ratios(
    members: Sequence[_Member],
    sample: Sequence[tuple[_Instant, list[int]]],
    model: core.View,
    rng: np.random.Generator,
) -> Array:
    """Return what the sample loses under other models, over what it loses under this one.

    An application's weight is as uncertain as its profile and the model say, and wrong in the
    same direction for all its runs.
    """
    names = sorted({member.name for member in members})
    weights = [member.pressure.weight for member in members]
    lost = np.zeros(1 + DRAWS)
    for draw in range(1 + DRAWS):
        shift = dict(zip(names, rng.standard_normal(len(names)) * (draw > 0), strict=True))
        for member, weight in zip(members, weights, strict=True):
            pressure = member.pressure.struct
            pressure.weight = weight * math.exp(pressure.log_sd * shift[member.name])
        lost[draw] = sum(
            instant.node_seconds * _lost_share(members, instant.victim, others, model)
            for instant, others in sample
        )
    for member, weight in zip(members, weights, strict=True):
        member.pressure.struct.weight = weight
    return lost[1:] / lost[0] if lost[0] > 0 else np.ones(DRAWS)


def lost_computing(jobs: Sequence[FinishedJob]) -> float:
    """Return the node-seconds by which runs computed longer while more jobs ran.

    Of each program, as far as its time outside I/O rises with the jobs that ran meanwhile by more
    than chance; from the line that fits best.
    """
    beside = _jobs_beside(jobs)
    by_program: dict[tuple[int, str], list[int]] = defaultdict(list)
    for i, job in enumerate(jobs):
        if {"io_share", "runtime_seconds"} <= job.profile.numbers.keys():
            by_program[job.uid, core.name_stem(job.name)].append(i)
    lost = 0.0
    for members in by_program.values():
        seconds = np.array([_computing(jobs[i]) for i in members])
        nodes = np.array([max(1, jobs[i].nodes) for i in members])
        lost += float(nodes @ (_slope(beside[members], seconds) * beside[members]))
    return lost


def _computing(job: FinishedJob) -> float:
    numbers = job.profile.numbers
    return numbers["runtime_seconds"] * (1.0 - numbers["io_share"])


def _jobs_beside(jobs: Sequence[FinishedJob]) -> Array:
    """Return how many other jobs ran during each, in the mean."""
    starts = np.array([job.start for job in jobs], dtype=np.float64)
    ends = np.array([max(job.end, job.start + 1) for job in jobs], dtype=np.float64)

    def passed(times: Array) -> Array:
        """Return the job-seconds before each time."""
        total = np.zeros(len(times))
        for edges, sign in ((np.sort(starts), 1.0), (np.sort(ends), -1.0)):
            sums = np.concatenate([[0.0], np.cumsum(edges)])
            count = np.searchsorted(edges, times)
            total += sign * (count * times - sums[count])
        return total

    mean: Array = (passed(ends) - passed(starts)) / (ends - starts) - 1.0
    return np.maximum(mean, 0.0)


def _slope(beside: Array, seconds: Array) -> float:
    """Return the seconds that each job more costs; 0 where chance may have made them."""
    if len(seconds) < FEWEST or np.ptp(beside) <= 0:
        return 0.0
    x, y = beside - beside.mean(), seconds - seconds.mean()
    slope = float(x @ y / (x @ x))
    left = y - slope * x
    deviation = math.sqrt(float(left @ left) / (len(y) - 2) / float(x @ x))
    return slope if slope > CLEARLY * deviation else 0.0


def _slowdowns(members: Sequence[_Member]) -> dict[str, float]:
    values = np.array([one.slowdown for one in members if one.stands_for] or [1.0])
    return {
        "p50": float(np.quantile(values, 0.5)),
        "p95": float(np.quantile(values, 0.95)),
        "p99": float(np.quantile(values, 0.99)),
        "max": float(values.max()),
    }


def _parties(members: Sequence[_Member], sums: _Sums) -> tuple[Party, ...]:
    by_name: dict[str, list[_Member]] = defaultdict(list)
    for member in members:
        by_name[member.name].append(member)
    caused: dict[str, float] = defaultdict(float)
    for (_, aggressor), lost in sorted(sums.caused.items()):
        caused[aggressor] += lost
    parties = [
        Party(
            name,
            len(runs),
            sum(run.node_seconds for run in runs) / 3600,
            sum(run.lost for run in runs) / 3600,
            caused[name] / 3600,
        )
        for name, runs in by_name.items()
    ]
    return tuple(sorted(parties, key=lambda one: (-one.caused, -one.suffered, one.name)))


def _worst_pairs(sums: _Sums) -> tuple[Pair, ...]:
    costs = sorted((-lost, pair) for pair, lost in sums.caused.items() if lost > 0)
    return tuple(Pair(*pair, -lost / 3600) for lost, pair in costs[:WORST])


def storage_policy(
    settings: Config, bandwidth: str | None, jobs: Sequence[FinishedJob]
) -> tuple[View, float, str]:
    """Return the settings with the bandwidth of the file system, and where that comes from.

    Raises CoreError for a bandwidth that is none.
    """
    lanes = [lane.bandwidth or 0.0 for lane in settings.policy.lanes]
    if bandwidth is None and lanes and all(lanes):
        return settings.policy, sum(lanes), "the lanes in the configuration"
    if bandwidth is None:
        fastest = max((job.profile.numbers.get("rate", 0.0) for job in jobs), default=0.0)
        return _one_lane(f"{max(1.0, fastest):.0f}"), fastest, "the fastest run of the history"
    policy = _one_lane(bandwidth)
    return policy, policy.lanes[0].bandwidth, "--bandwidth"


def _one_lane(bandwidth: str) -> View:
    text = f"Lane=all Targets=1 Bandwidth={bandwidth}\n"
    policy: View = core.parse_config("--bandwidth", text.encode()).policy
    return policy
