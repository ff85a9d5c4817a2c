"""What a site's measurements teach the interference model.

The model is weighted sharing (`policies/core/interference.h`). For programs that write all the
time it says, with w what a program takes from others and h w what it holds on with itself:

    rho_j = 1 / (1 + sum_i v_i / (h_j v_j))
    v_i   = w_i (1 - s_i + s_i / (1 + kappa U)),  U = sum of s w over all, s h w for j itself

Streams (s = 1) have a queue to themselves: among each other they share by their weights, but
beside those that flush they count as one, the more so the larger kappa.

A first guess of w is the law of a queue that is served in order: of a program that flushes, the
time of a round of its flushes, all its processes' chunks over its rate alone; of streams, what
they keep in the cache, nearly whatever they write. The measurements of a site fit the few
coefficients of that law, and correct what it does not hold: the corrections are Gaussian
processes over the physical features of the programs, so that what was measured says most about
what is alike. Where programs that were left out are foretold better so, the fit begins at the
published coefficients instead, with larger corrections. What production showed of applications
counts in the same fit, by its precision; where nobody measured, it moves the published
coefficients alone. Fitted are the coefficients (`LAW`) and the corrections at the measured
programs (maximum a posteriori, by non-linear least squares, since a rate depends on several
programs at once). The bundle carries coefficients and points; the core evaluates them. Without
any evidence the published figures hold.

Order is kept by the form of the model: no company makes a program faster, and more company
never makes it faster than less. An observed speed-up stays in the history and counts in the
fit as it was seen.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.optimize import least_squares
from threadpoolctl import threadpool_limits

from sluice.interference.features import SCALES, features, likeness
from sluice.interference.observations import Seen
from sluice.interference.programs import Application
from sluice.policies import core
from sluice.policies.structs import View, new

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from sluice.interference.observations import Observation
    from sluice.interference.programs import Program

    Profile = Mapping[str, Any]
    Unseen = tuple["SiteModel", list[Observation]]

EFFICIENCY_SD = 2.0
MOST_LOG_POOLING = 4.0
NO_POOLING = -1000.0  # of which exp is 0: the published streams share by their weights alone
NOISE_SD = 0.08
"""Of ln rho in one measurement."""
LEAST_RHO = 1e-3
"""What is told apart from nothing in the time of one measurement."""
RATE_NOISE_SD = 0.1
"""Of the logarithm of a rate alone."""
COVERAGE = 0.78
"""Of intervals of 90 %, among observations that were left out of the fit. What differs from all
that was fitted is foretold worse than what lies between, which is then covered more often."""
NORMAL_90 = 1.6448536269514722
LEVEL_SD = 1.0
"""Of what another file system's levels differ from the published ones by: the order of the
patterns may be another (MooseFS)."""
SLOPE_SD = 0.1
JUDGED_KINDS = 64
"""Kinds of programs on which a fit is judged by leaving some out: a fit of each rest takes its
time, which grows with the cube of their number."""
MOST_DEVIATION = 4.0
SLIPPING = 0.75
"""The core's: how far operations slip in between the flushes of one process."""
BISECTIONS = 8


LAW = (
    *("create_level", "create_slope", "rewrite_level", "rewrite_slope", "process_exponent"),
    *("stream_level", "stream_slope", "stream_exponent"),
    "pooling",
)
"""Coefficients of the law, members of struct sluice_interference; of pooling the logarithm."""
FLUSHING = slice(0, 5)
STREAMING = slice(5, 8)
POOLING = 8


@dataclass(frozen=True, slots=True)
class Beginning:
    """What is expected of a site before it is measured."""

    law: tuple[tuple[float, float], ...]
    """Mean and sd of each coefficient of LAW."""
    queueing: Mapping[str, float]
    """What is held of the law of a queue: coefficients that no site is asked for."""
    weight_sd: float
    """Of ln w around the law, and of ln h."""
    hold_sd: float
    noise_sd: float
    """Of ln rho in one observation, if it is not a wild one."""
    capacity: float = 1.0
    """Throughput of a mix over that of one program."""


LN_2 = math.log(2.0)
QUEUE = Beginning(
    law=(
        *((-0.1, 0.2), (LN_2, 0.15), (-0.3, 0.2), (LN_2, 0.15), (1.0, 0.05)),
        *((math.log(125.0), 0.5), (0.0, 0.15), (1.0, 0.2)),
        (-4.0, 1.5),
    ),
    queueing={"queueing": 1.0, "endurance": 0.1, "interleaving": 0.1, "filling": 1.0},
    weight_sd=0.175,
    hold_sd=0.25,
    noise_sd=0.1,
)
"""Weights are MiB that a target could take while it serves what is in its queue. Of a round of
flushes the journal has a tenth, of one that rewrites a quarter. Streams take by processes, since
a kernel that throttles writers throttles each alike; a process has several times in the cache
what one queue serves."""


def _as_published() -> Beginning:
    """Return the published coefficients, held; what the site differs by is of any form."""
    figures = core.default_interference()
    return Beginning(
        law=(*((figures[name], 0.0) for name in LAW[:POOLING]), (-1.5, 1.5)),
        queueing={name: figures[name] for name in QUEUE.queueing},
        weight_sd=1.5,
        hold_sd=1.0,
        noise_sd=0.08,
    )


def _unmeasured() -> Beginning:
    """Return the published coefficients, to be corrected by production alone.

    Corrections at points are for sites that measured: a point says what a program gets alone.
    """
    figures = core.default_interference()
    sds = {name: SLOPE_SD if name.endswith(("slope", "exponent")) else LEVEL_SD for name in LAW}
    return Beginning(
        law=(
            *((figures[name], sds[name]) for name in LAW[:POOLING]),
            (NO_POOLING, 0.0),
        ),
        queueing={name: figures[name] for name in QUEUE.queueing},
        weight_sd=0.0,
        hold_sd=0.0,
        noise_sd=0.08,
        capacity=figures["capacity"],
    )


@dataclass(frozen=True, slots=True)
class Basis:
    """What a model was learned from."""

    measurements: int = 0
    production: int = 0
    """Pairs of applications, as they were seen in production."""
    left_out: int = 0
    """Of both, because a bundle has room for so many kinds of programs."""

    def __str__(self) -> str:
        known = "published figures"
        if self.measurements:
            known = f"{self.measurements} measurements here"
        if self.production:
            pairs = "pair" if self.production == 1 else "pairs"
            known += f" and {self.production} {pairs} of applications seen in production"
        if self.left_out:
            known += (
                f"; {self.left_out} more left out, of the kinds of programs with the least "
                f"evidence: a bundle has room for {core.MAX_SITE_POINTS} kinds"
            )
        return known


@dataclass(frozen=True, slots=True)
class SiteModel:
    """The interference model of a site."""

    interference: dict[str, Any]
    """Members of struct sluice_interference."""
    bandwidth: float
    """B/s: the most that any program got from the target alone; efficiencies refer to it."""
    basis: Basis = Basis()

    def with_deviation(self, log_sd: float) -> SiteModel:
        """Return the same with another sd of ln w where the site measured."""
        known = {"site_log_sd": log_sd, "log_sd": max(log_sd, self.interference["log_sd"])}
        return replace(self, interference=self.interference | known)

    def share_kept(self, victim: Program, others: Sequence[Program], *, z: float = 0.0) -> float:
        """Return rho of the victim while all others are active; z as in sluice_rate_share."""
        return self.profile_share(victim.profile(), [p.profile() for p in others], z=z)

    def interval(self, victim: Program, others: Sequence[Program]) -> tuple[float, float]:
        """Return the bounds within which 90 % of measurements of rho should lie."""
        return self.profile_interval(victim.profile(), [p.profile() for p in others])

    def foretell(self, item: Observation, *, z: float = 0.0) -> float:
        """Return rho of an observation, knowing what its members get alone.

        As of jobs that have run before.
        """
        (share,) = _shares(self.struct(), *_profiles(item, with_rates=True), (z,), self.policy())
        return share

    def hits(self, observations: Sequence[Observation], *, with_rates: bool) -> int:
        """Return how many lie within the interval of 90 %; the rates alone may be known."""
        struct, policy = self.struct(), self.policy()
        count = 0
        for item in observations:
            low, high = _interval(struct, *_profiles(item, with_rates=with_rates), policy)
            count += low <= item.rho <= high
        return count

    def profile_share(self, victim: Profile, others: Sequence[Profile], *, z: float = 0.0) -> float:
        """Do as share_kept, for members of struct sluice_profile; a rate in it counts."""
        (share,) = _shares(self.struct(), victim, others, (z,), self.policy())
        return share

    def profile_interval(self, victim: Profile, others: Sequence[Profile]) -> tuple[float, float]:
        return _interval(self.struct(), victim, others, self.policy())

    def struct(self) -> View:
        return View(new("struct sluice_interference", self.interference))

    def policy(self) -> View:
        """Return a policy with the target as its one lane, as far as its bandwidth is known."""
        lane = f"Lane=target Targets=1 Bandwidth={self.bandwidth:.0f}\n" if self.bandwidth else ""
        policy: View = core.parse_config("target", lane.encode()).policy
        return policy


def _profiles(item: Observation, *, with_rates: bool) -> tuple[Profile, list[Profile]]:
    """Return victim and others, or also the rates that they get alone."""
    if not with_rates:
        return item.victim.profile(), [program.profile() for program in item.others]
    rates = item.others_alone or (None,) * len(item.others)
    return item.victim.profile(item.rate_alone), [
        program.profile(rate) for program, rate in zip(item.others, rates, strict=True)
    ]


def _shares(
    interference: View,
    victim: Profile,
    others: Sequence[Profile],
    zs: tuple[float, ...],
    policy: View,
) -> list[float]:
    """Return rho at each z."""
    own, *their = (core.pressure_of(p, interference, policy) for p in (victim, *others))
    return [core.rate_share(own, their, interference, z) for z in zs]


def _interval(
    interference: View, victim: Profile, others: Sequence[Profile], policy: View
) -> tuple[float, float]:
    low, high = _shares(interference, victim, others, (NORMAL_90, -NORMAL_90), policy)
    noise = math.exp(NORMAL_90 * NOISE_SD)
    return low / noise, high * noise


def fit(observations: Sequence[Observation], production: Sequence[Seen] = ()) -> SiteModel:
    """Learn from what was measured and seen; without any, return the published model.

    The result depends on nothing but the set of both, of which only what is between writers
    counts. From what the fit begins, and how far the model may be off where it was fitted, is
    judged on chunk sizes, numbers of processes, and patterns and sync modes of measured
    programs that were left out, in turn. Where nobody measured, production corrects the
    published coefficients.
    """
    writers = [item for item in observations if item.is_of_writers]
    seen = [item for item in production if item.is_of_writers]
    if not writers and not seen:
        return SiteModel(core.default_interference(), 0.0)
    room = _most_told([*writers, *seen], core.MAX_SITE_POINTS)
    measured = [item for item in writers if room.issuperset(item.members)]
    shown = [item for item in seen if room.issuperset(item.members)]
    left_out = len(writers) + len(seen) - len(measured) - len(shown)
    basis = Basis(len(measured), len(shown), left_out)
    if not measured:
        return replace(_fit((), _unmeasured(), shown), basis=basis)
    # The matrices are small: several threads would mostly wait for each other.
    with threadpool_limits(limits=1, user_api="blas"):
        beginnings = (QUEUE, _as_published())
        told = _most_told(measured, JUDGED_KINDS)
        judged = [item for item in measured if told.issuperset(item.members)]
        unseen = [
            [pair for trait in TRAITS for pair in _unseen(judged, trait, beginning)]
            for beginning in beginnings
        ]
        best = min(range(len(beginnings)), key=lambda i: _median_error(unseen[i]))
        model = _fit(measured, beginnings[best], shown)
        return replace(model.with_deviation(_deviation_on(unseen[best])), basis=basis)


def _most_told(items: Sequence[Observation | Seen], count: int) -> set[Program | Application]:
    """Return the programs of so many kinds with the most evidence.

    An observation is evidence of each of its members, by its weight in the fit.
    """
    programs = _programs(items)
    kinds, kind_of = _kinds(programs)
    index = dict(zip(programs, kind_of.tolist(), strict=True))
    evidence = np.zeros(len(kinds))
    for item in items:
        weight = 1 / (1 + (_log_sd(item) / NOISE_SD) ** 2)
        evidence[[index[program] for program in item.members]] += weight
    most = set(np.argsort(-evidence, kind="stable")[:count].tolist())
    return {program for program in programs if index[program] in most}


def _programs(items: Sequence[Observation | Seen]) -> list[Program | Application]:
    """Return the members of all, programs first."""
    members: set[Program | Application] = {member for item in items for member in item.members}
    return sorted(members, key=lambda member: (isinstance(member, Application), member))


def _rho(item: Observation | Seen) -> float:
    """Return rho, which has a logarithm also where a program got nothing at all."""
    return max(item.rho, LEAST_RHO)


def _log_sd(item: Observation | Seen) -> float:
    """Return the sd of ln rho beyond that of any measurement."""
    return item.log_sd if isinstance(item, Seen) else 0.0


def _kinds(
    programs: Sequence[Program | Application],
) -> tuple[NDArray[np.float64], NDArray[np.intp]]:
    """Return (kinds, features and share of direct writes), and the kind of each program.

    Programs with the same features are one kind, those that write directly another.
    """
    direct = np.array([[program.direct] for program in programs])
    traits = np.hstack([np.round(features(programs), 6), direct])
    kinds, kind_of = np.unique(traits, axis=0, return_inverse=True)
    return kinds, kind_of.reshape(-1)


def _median_error(unseen: Sequence[Unseen]) -> float:
    """Return that of ln rho; 0 where nothing could be left out."""
    errors = [
        abs(math.log(model.share_kept(item.victim, item.others) / _rho(item)))
        for model, items in unseen
        for item in items
    ]
    return median(errors) if errors else 0.0


def _fit(
    observations: Sequence[Observation], beginning: Beginning, production: Sequence[Seen] = ()
) -> SiteModel:
    problem = _Problem(observations, beginning, production)
    found = least_squares(problem.residuals, np.zeros(problem.size), jac=problem.jacobian)
    return problem.model(found.x)


def _deviation_on(unseen: Sequence[Unseen]) -> float:
    """Return the sd of ln w with which intervals contain enough of what was not fitted.

    No less than programs are expected to differ from the law: what is like those that were
    measured may show too little of it.
    """
    if not unseen:
        return float(core.default_interference()["log_sd"])
    count = sum(len(left_out) for _, left_out in unseen)

    def covers(deviation: float) -> bool:
        inside = sum(
            model.with_deviation(deviation).hits(left_out, with_rates=False)
            for model, left_out in unseen
        )
        return inside >= COVERAGE * count

    low, high = QUEUE.weight_sd, MOST_DEVIATION
    if covers(low):
        return low
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        low, high = (low, middle) if covers(middle) else (middle, high)
    return high


TRAITS: tuple[Callable[[Program], Any], ...] = (
    lambda program: program.chunk_bytes,
    lambda program: program.processes,
    lambda program: (program.pattern, program.sync, program.direct),
)
"""In which a program may differ from all that were measured."""


def _unseen(
    observations: Sequence[Observation], trait: Callable[[Program], Any], beginning: Beginning
) -> Iterator[Unseen]:
    """Leave out each value of a trait in turn; yield what the rest says and what was left out."""
    traits = [{trait(p) for p in item.members} for item in observations]
    for value in sorted(set().union(*traits)):
        known = [o for o, values in zip(observations, traits, strict=True) if value not in values]
        if known:
            left_out = [o for o, v in zip(observations, traits, strict=True) if value in v]
            yield _fit(known, beginning), left_out


class _Problem:
    """The least-squares problem: unknowns are whitened, so their prior is a unit normal.

    They are the coefficients of the law, and the corrections of ln w and ln h at each point.
    """

    def __init__(
        self,
        observations: Sequence[Observation],
        beginning: Beginning,
        production: Sequence[Seen] = (),
    ) -> None:
        self.beginning = beginning
        measured = sorted(observations, key=lambda o: (o.victim, o.others, o.rho, o.rate_alone))
        seen = sorted(production, key=lambda o: (o.victim, o.other, o.rho, o.log_sd))
        items: list[Observation | Seen] = [*measured, *seen]
        self.bandwidth = max((item.rate_alone for item in measured), default=0.0)
        programs = _programs(items)
        index = {program: i for i, program in enumerate(programs)}
        known, point = _kinds(programs)
        self.at, self.direct = known[:, :-1], known[:, -1]
        self.covariance = likeness(self.at, self.at) + NOISE_SD**2 * np.eye(len(self.at))
        self.root = np.linalg.cholesky(self.covariance)

        self.victim = point[[index[item.victim] for item in items]]
        pairs = [(row, index[p]) for row, item in enumerate(items) for p in item.members[1:]]
        self.row, other = np.array(pairs).T
        self.other = point[other]
        self.seen = np.array([math.log(_rho(item)) for item in items])
        self.is_mean = np.array([isinstance(item, Seen) for item in items])
        self.noise_sd = np.hypot(beginning.noise_sd, [_log_sd(item) for item in items])
        self.rates: dict[int, list[float]] = {}
        for item, at in zip(measured, self.victim[: len(measured)], strict=True):
            self.rates.setdefault(int(at), []).append(math.log(item.rate_alone / self.bandwidth))
        self.efficiency = self._efficiency()
        self._state_the_law()

    @property
    def size(self) -> int:
        return len(LAW) + 2 * len(self.at)

    def _state_the_law(self) -> None:
        """Set what ln f and ln g of each point are, as sums over the coefficients."""
        streaming, creating, level, processes = self.at.T
        one, processes = np.ones(len(self.at)), processes * LN_2
        rewriting = 1 - creating
        flushed = 1 - self.beginning.queueing["queueing"] * self.direct
        flushing = [
            *(flushed * creating, creating * level),
            *(flushed * rewriting, rewriting * level),
            processes,
        ]
        self.flush_terms, self.stream_terms = np.zeros((2, len(self.at), len(LAW)))
        self.flush_terms[:, FLUSHING] = np.array(flushing).T
        self.stream_terms[:, STREAMING] = np.array([one, level, processes]).T
        self.streaming = streaming
        self.log_efficiency = np.minimum(0.0, likeness(self.at, self.at) @ self.efficiency)
        efficiency, filling = np.exp(self.log_efficiency), self.beginning.queueing["filling"]
        transfer = efficiency[self.victim] ** 3
        ratio = np.exp(processes - processes[self.victim][:, None])
        ratio **= self.beginning.queueing["interleaving"]
        self.busy = transfer[:, None] * ratio * (1 - filling * (1 - efficiency))
        gaps = SLIPPING * filling * efficiency * (1 - self.direct) * np.exp(-processes / 2)
        self.queued = (1 - transfer)[:, None] * (1 - gaps)

    def residuals(self, unknowns: NDArray[np.float64]) -> NDArray[np.float64]:
        error = (self.log_rho(unknowns)[0] - self.seen) / self.noise_sd
        # Cauchy: of streams side by side one may happen to take nearly all, which no form of
        # the model can say and which must not spoil the rest. What production showed is a mean
        # over many slices, and says itself how far it may be off.
        robust = np.sign(error) * np.sqrt(np.log1p(error**2))
        return np.concatenate([np.where(self.is_mean, error, robust), unknowns])

    def jacobian(self, unknowns: NDArray[np.float64]) -> NDArray[np.float64]:
        log_rho, slopes = self.log_rho(unknowns)
        square = ((log_rho - self.seen) / self.noise_sd) ** 2
        # of the Cauchy residual r: e / (r (1 + e^2)), 1 at 0
        ratio = np.divide(square, np.log1p(square), out=np.ones_like(square), where=square > 0)
        steep = np.where(self.is_mean, 1.0, np.sqrt(ratio) / (1 + square))
        return np.vstack([steep[:, None] * slopes / self.noise_sd[:, None], np.eye(len(unknowns))])

    def log_rho(
        self, unknowns: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return ln rho of each observation, and its slopes over the unknowns."""
        n, count = len(self.at), len(self.seen)
        law, weight, hold = self._values(unknowns)
        kappa = math.exp(min(law[POOLING], MOST_LOG_POOLING))
        held_law = self.beginning.queueing
        flush = self.flush_terms @ law - held_law["queueing"] * self.log_efficiency + weight
        flushes = (1 - self.streaming) * np.exp(flush)
        streams = self.streaming * np.exp(self.stream_terms @ law + weight)

        victim, other = self.victim, self.other
        holds = np.exp(hold - held_law["endurance"] * self.log_efficiency)[victim]
        own_flushes, own_streams = flushes[victim] * holds, streams[victim] * holds
        other_streams = np.bincount(self.row, streams[other], count)
        queue = 1 + kappa * (own_streams + other_streams)
        # What counts of each, in the queue of streams or beside it.
        held = own_flushes + own_streams / queue
        epsilon, pooled = held_law["interleaving"], streams / (1 + kappa * streams)
        room = ((flushes + pooled)[victim] * holds) ** epsilon
        among = (room[:, None] * self.busy)[self.row, other] * flushes[other] ** (1 - epsilon)
        behind = self.queued[self.row, other] * flushes[other]
        taken = np.bincount(self.row, among, count)
        pressure = taken + np.bincount(self.row, behind, count) + other_streams / queue

        # ln rho = -ln (1 + pressure / held): a slope in held, pressure and queue each.
        by_pressure = -1 / (held + pressure)
        by_held = -by_pressure * pressure / held
        by_queue = -(by_held * own_streams + by_pressure * other_streams) / queue**2
        by_own_streams = by_held / queue + by_queue * kappa
        by_streams = by_pressure / queue + by_queue * kappa

        # Over ln f, ln g and ln h of each point.
        by_flush, by_stream, by_hold = np.zeros((3, count, n))
        rows = np.arange(count)
        by_room = epsilon * by_pressure * taken
        by_alone = by_room / (flushes + pooled)[victim]
        by_hold[rows, victim] = by_held * own_flushes + by_own_streams * own_streams + by_room
        by_flush[rows, victim] = by_held * own_flushes + by_alone * flushes[victim]
        by_pooled = by_alone * (pooled / (1 + kappa * streams))[victim]
        by_stream[rows, victim] = by_own_streams * own_streams + by_pooled
        by_others = by_pressure[self.row] * ((1 - epsilon) * among + behind)
        np.add.at(by_flush, (self.row, other), by_others)
        np.add.at(by_stream, (self.row, other), by_streams[self.row] * streams[other])

        by_law = by_flush @ self.flush_terms + by_stream @ self.stream_terms
        by_law[:, POOLING] = by_queue * (queue - 1) - by_pooled * kappa * streams[victim]
        slopes = [
            by_law * [sd for _, sd in self.beginning.law],
            self.beginning.weight_sd * (by_flush + by_stream) @ self.root,
            self.beginning.hold_sd * by_hold @ self.root,
        ]
        mix = math.log(self.beginning.capacity)
        return mix - np.log1p(pressure / held), np.hstack(slopes)

    def _values(
        self, unknowns: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """Return the coefficients, and the corrections of ln w and of ln h at the points."""
        law, weight, hold = np.split(unknowns, [len(LAW), len(LAW) + len(self.at)])
        means, sds = np.array(self.beginning.law).T
        return (
            means + sds * law,
            self.beginning.weight_sd * (self.root @ weight),
            self.beginning.hold_sd * (self.root @ hold),
        )

    def model(self, unknowns: NDArray[np.float64]) -> SiteModel:
        law, *values = self._values(unknowns)
        pulls = [np.linalg.solve(self.covariance, value) for value in values]
        points = [
            {"at": at.tolist(), "weight": float(a), "hold": float(h), "efficiency": float(b)}
            for at, a, h, b in zip(self.at, *pulls, self.efficiency, strict=True)
        ]
        site = {name: float(value) for name, value in zip(LAW, law, strict=True)}
        site |= self.beginning.queueing
        site |= {
            "process_exponent": max(0.0, site["process_exponent"]),
            "stream_exponent": max(0.0, site["stream_exponent"]),
            "capacity": self.beginning.capacity,
            "pooling": math.exp(min(site["pooling"], MOST_LOG_POOLING)),
        }
        measured = {"scale": list(SCALES), "points": points} if self.rates else {}
        return SiteModel(core.default_interference() | site | measured, self.bandwidth)

    def _efficiency(self) -> NDArray[np.float64]:
        """Return the pulls on ln e: a Gaussian process through the rates alone."""
        if not self.rates:
            return np.zeros(len(self.at))
        known = sorted(self.rates)
        seen = np.array([np.median(self.rates[i]) for i in known])
        noise = (RATE_NOISE_SD / EFFICIENCY_SD) ** 2
        covariance = likeness(self.at[known], self.at[known]) + noise * np.eye(len(known))
        pulls = np.zeros(len(self.at))
        pulls[known] = np.linalg.solve(covariance, seen)
        return pulls
