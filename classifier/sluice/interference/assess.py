"""Cost of interference to a site, from finished jobs.

What runs lost to others (cost.py) is what a policy could have recovered at most, if keeping jobs
apart cost nothing: no wait, no narrower output. So the sum is a bound on the gain of every policy
that only moves jobs.

What a program does alone is an estimate, and so is the interference model: deviations go into
the interval, as does what differs from day to day.

What a run computed for longer while more jobs ran is not storage's doing, and told apart.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import asdict, dataclass
from itertools import combinations, pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from sluice.interference.busy_runs import LEAST_IO, by_run_time, by_server_counts, node_seconds
from sluice.interference.cost import KEPT, Costs, lost_share
from sluice.policies import core

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from sluice.history_db.store import Store
    from sluice.interference.busy_runs import Comparison
    from sluice.interference.cost import Grounds, Instant, Member, Pair, Party
    from sluice.policies.core import View
    from sluice.prediction.jobs import FinishedJob

    Array = NDArray[np.float64]

DRAWS = 40  # models that the interval comes from
DRAWN_INSTANTS = 4000  # that each of them is asked about
DAYS = 2000  # bootstrap samples of days
DAY = 86400  # seconds
LOADS = (0.25, 0.5, 1.0, 2.0, 4.0, math.inf)
"""Upper ends of the classes of load: what all running jobs ask of storage, over what it has."""
MATTERS = 0.01  # of the node-hours of jobs with I/O: from here on a loss is worth a word
FEWEST = 5  # runs of a program, to tell what others cost its computing,
CLEARLY = 2.5  # by so many standard errors
NOTHING = 0.001  # of them, at the upper end of the interval: below it nothing is at stake


@dataclass(frozen=True, slots=True)
class LoadClass:
    """Instants with at most this load, above the class before."""

    load: float
    node_hours: float
    lost: float
    """Node-hours."""


HEAVY_SHARES = (0.05, 0.10, 0.30)
"""Of the jobs, at which replays say what is lost (docs/evidence): the scale of a site."""


@dataclass(frozen=True, slots=True)
class Scale:
    """Where a site stands among those that are replayed."""

    least_io: float
    """Share of its time from which on a job counts as one with I/O."""
    node_hours_share: float
    """Of such jobs, among those that tell."""
    read_share: float | None
    """Of the bytes that all moved."""
    at_least: float | None
    """The largest of HEAVY_SHARES that it reaches; None: not even the first."""
    below: float | None
    """The smallest that it does not reach."""


def scale_of(jobs: Iterable[FinishedJob]) -> Scale | None:
    """Return where a site stands by what its jobs did; None where none tells its share of I/O."""
    known = with_io = read = written = 0.0
    for job in jobs:
        numbers = job.profile.numbers
        read += numbers.get("read_bytes", 0.0)
        written += numbers.get("write_bytes", 0.0)
        if (share := numbers.get("io_share")) is not None:
            known += node_seconds(job)
            with_io += node_seconds(job) * (share >= LEAST_IO)
    if not known:
        return None
    share = with_io / known
    edges = (None, *HEAVY_SHARES, None)
    at_least, below = next(
        (low, high) for low, high in pairwise(edges) if high is None or share < high
    )
    moved = read + written
    return Scale(LEAST_IO, share, read / moved if moved else None, at_least, below)


@dataclass(frozen=True, slots=True)
class ByLaw:
    """What the interference model alone says was lost, of all node-hours."""

    jobs: int
    """That matter to storage."""
    lost_share: float
    interval: tuple[float, float]
    """90 %."""


@dataclass(frozen=True, slots=True)
class Sources:
    """What was lost, by three sources that know nothing of each other's error; None: no data."""

    law: ByLaw | None = None
    server_counts: Comparison | None = None
    run_times: Comparison | None = None

    @property
    def agree(self) -> bool | None:
        """Whether all intervals have something in common; None: there is but one, or none."""
        found = (self.law, self.server_counts, self.run_times)
        bounds = [one.interval for one in found if one is not None]
        if len(bounds) < 2:
            return None
        return all(max(a[0], b[0]) <= min(a[1], b[1]) for a, b in combinations(bounds, 2))

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "agree": self.agree}


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
    scale: Scale | None
    sources: Sources

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

    def as_json(self) -> dict[str, Any]:
        return {
            **asdict(self),
            "loads": [
                {**asdict(one), "load": None if math.isinf(one.load) else one.load}
                for one in self.loads
            ],
            "sources": self.sources.as_json(),
            "is_anything_at_stake": self.is_anything_at_stake,
            "matters_from": self.matters_from,
        }


def assess_site(
    store: Store, grounds: Grounds, advance: Callable[[int], None] = lambda _: None
) -> Assessment:
    """Say what is at stake at a site; advance as in `costs`."""
    return assess(
        grounds.jobs,
        grounds.costs(advance),
        grounds.model.struct,
        server_counts=by_server_counts(store, grounds.jobs, grounds.bandwidth),
        run_times=by_run_time(store, grounds.jobs, grounds.bandwidth),
    )


def assess(
    jobs: Sequence[FinishedJob],
    found: Costs,
    model: View,
    *,
    seed: int = 0,
    **compared: Comparison | None,
) -> Assessment:
    """Say what is at stake by what finished jobs cost each other, which the model said.

    compared: sources that need no model, by their names in Sources.
    """
    members = found.members
    return Assessment(
        jobs=len(jobs),
        heavy=len(members),
        drawn=sum(one.stands_for > 0 for one in members),
        node_hours=sum(map(node_seconds, jobs)) / 3600,
        heavy_node_hours=sum(one.node_seconds for one in members) / 3600,
        lost=found.lost() / 3600,
        interval=_interval(found, model, np.random.default_rng(seed)),
        lost_computing=lost_computing(jobs) / 3600,
        slowdowns=_slowdowns(members),
        parties=found.parties(),
        worst_pairs=found.worst_pairs(),
        loads=_loads(found.instants),
        scale=scale_of(jobs),
        sources=Sources(law=_by_law(jobs, found, model, np.random.default_rng(seed)), **compared),
    )


def _by_law(
    jobs: Sequence[FinishedJob], found: Costs, model: View, rng: np.random.Generator
) -> ByLaw | None:
    everything = math.fsum(map(node_seconds, jobs))
    if not found.members or not everything:
        return None
    lost: dict[int, float] = defaultdict(float)
    for one in found.instants:
        day = int(found.members[one.victim].job.start // DAY)
        lost[day] += one.node_seconds * one.share
    with_others = [one for one in found.instants if one.others]
    keep = min(1.0, KEPT / max(1, len(with_others)))
    sample = [one for one in with_others if rng.random() < keep]
    point = math.fsum(lost.values())
    drawn = point * _ratios(found.members, sample, model, rng)
    low, high = _bounds(lost, drawn, rng)
    return ByLaw(len(found.members), point / everything, (low / everything, high / everything))


def _loads(instants: Iterable[Instant]) -> tuple[LoadClass, ...]:
    sums = np.zeros((len(LOADS), 2))
    for one in instants:
        sums[np.searchsorted(LOADS, one.load)] += one.node_seconds, one.lost
    hours = (sums / 3600).tolist()
    return tuple(LoadClass(load, *row) for load, row in zip(LOADS, hours, strict=True))


def _interval(found: Costs, model: View, rng: np.random.Generator) -> tuple[float, float]:
    """Return 90 % of the node-hours lost, over models and days."""
    members = found.members
    sample = _sample(found, rng)
    by_model = sum(member.lost for member in members if member.disturbance is None)
    drawn = _measured_losses(members, rng)
    if sample:
        drawn = drawn + by_model * _ratios(members, sample, model, rng)
    by_day: dict[int, float] = defaultdict(float)
    for member in members:
        by_day[int(member.job.start // DAY)] += member.lost
    low, high = _bounds(by_day, drawn, rng)
    return low / 3600, high / 3600


def _bounds(
    by_day: Mapping[int, float], drawn: Array, rng: np.random.Generator
) -> tuple[float, float]:
    """Return 90 % of a sum over days, by days drawn anew and by what else may differ."""
    days = np.array([by_day[day] for day in sorted(by_day)])
    point, factors = days.sum(), np.ones(DAYS)
    if point > 0:
        picked = rng.integers(0, len(days), (DAYS, len(days)))
        factors = days[picked].sum(axis=1) / point
    low, high = np.quantile(factors * rng.choice(drawn, DAYS), [0.05, 0.95])
    return float(min(low, point)), float(max(high, point))


def _sample(found: Costs, rng: np.random.Generator) -> list[Instant]:
    """Draw instants in which the model alone says what was lost."""
    keep = min(1.0, DRAWN_INSTANTS / max(1, len(found.instants)))
    return [
        one
        for one in found.instants
        if one.others and found.members[one.victim].disturbance is None and rng.random() < keep
    ]


def _measured_losses(members: Sequence[Member], rng: np.random.Generator) -> Array:
    """Return DRAWS of the node-seconds that measured runs lost.

    An estimate of a program's rate alone is wrong in one direction for all its runs.
    """
    measured = [one for one in members if one.disturbance is not None and one.stands_for > 0]
    names = sorted({member.application for member in measured})
    lost = np.zeros(DRAWS)
    for draw in range(DRAWS):
        shift = dict(zip(names, rng.standard_normal(len(names)).tolist(), strict=True))
        lost[draw] = sum(member.measured_loss(shift[member.application]) for member in measured)
    return lost


def _ratios(
    members: Sequence[Member],
    sample: Sequence[Instant],
    model: View,
    rng: np.random.Generator,
) -> Array:
    """Return what the sample loses under other models, over what it loses under this one.

    An application's weight is as uncertain as its profile and the model say, and wrong in the
    same direction for all its runs.
    """
    names = sorted({member.application for member in members})
    weights = [member.pressure.weight for member in members]
    lost = np.zeros(1 + DRAWS)
    for draw in range(1 + DRAWS):
        shift = dict(zip(names, rng.standard_normal(len(names)) * (draw > 0), strict=True))
        for member, weight in zip(members, weights, strict=True):
            pressure = member.pressure.struct
            pressure.weight = weight * math.exp(pressure.log_sd * shift[member.application])
        lost[draw] = sum(
            one.node_seconds * lost_share(members, one.victim, one.others, model) for one in sample
        )
    for member, weight in zip(members, weights, strict=True):
        member.pressure.struct.weight = weight
    return lost[1:] / lost[0] if lost[0] > 0 else np.ones(DRAWS)


def lost_computing(jobs: Sequence[FinishedJob]) -> float:
    """Return the node-seconds by which runs computed longer while more jobs ran.

    Of each program, as far as its time outside I/O rises with the jobs that ran meanwhile by more
    than chance; from the line that fits best.
    """
    alongside = _jobs_alongside(jobs)
    by_program: dict[tuple[int, str], list[int]] = defaultdict(list)
    for i, job in enumerate(jobs):
        if {"io_share", "runtime_seconds"} <= job.profile.numbers.keys():
            by_program[job.uid, core.name_stem(job.name)].append(i)
    lost = 0.0
    for members in by_program.values():
        seconds = np.array([_computing(jobs[i]) for i in members])
        nodes = np.array([max(1, jobs[i].nodes) for i in members])
        lost += float(nodes @ (_slope(alongside[members], seconds) * alongside[members]))
    return lost


def _computing(job: FinishedJob) -> float:
    numbers = job.profile.numbers
    return numbers["runtime_seconds"] * (1.0 - numbers["io_share"])


def _jobs_alongside(jobs: Sequence[FinishedJob]) -> Array:
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


def _slope(alongside: Array, seconds: Array) -> float:
    """Return the seconds that each job more costs; 0 where chance may have made them."""
    if len(seconds) < FEWEST or np.ptp(alongside) <= 0:
        return 0.0
    x, y = alongside - alongside.mean(), seconds - seconds.mean()
    slope = float(x @ y / (x @ x))
    left = y - slope * x
    deviation = math.sqrt(float(left @ left) / (len(y) - 2) / float(x @ x))
    return slope if slope > CLEARLY * deviation else 0.0


def _slowdowns(members: Sequence[Member]) -> dict[str, float]:
    values = np.array([one.slowdown for one in members if one.stands_for] or [1.0])
    return {
        "p50": float(np.quantile(values, 0.5)),
        "p95": float(np.quantile(values, 0.95)),
        "p99": float(np.quantile(values, 0.99)),
        "max": float(values.max()),
    }
