"""What a site's measurements teach the interference model.

The model is weighted sharing: `policies/core/interference.h` has its law, in which w is what a
program takes from others and h w what it holds on with itself. The fit asks the core what the
law says, and works on coefficients alone.

A first guess of w is the law of a queue that is served in order: of a program that flushes, the
time of a round of its flushes, all its processes' chunks over its rate alone; of streams, what
they keep in the cache, nearly whatever they write. The measurements of a site fit the few
coefficients of that law, and correct what it does not hold: the corrections are Gaussian
processes over the physical features of the programs, so that what was measured says most about
what is alike. Where programs that were left out are predicted better so, the fit begins at the
published coefficients instead, with larger corrections. What production showed of applications
counts in the same fit, by its precision; where nobody measured, it moves the published
coefficients alone. Fitted are the coefficients (`LAW`) and the corrections at the measured
programs (maximum a posteriori, by non-linear least squares, since a rate depends on several
programs at once). The bundle carries coefficients and points; the core evaluates them. Without
any evidence the published figures hold.

Order is kept by the form of the model: no co-runner makes a program faster, and more of them
never makes it faster than less. An observed speed-up stays in the history and counts in the
fit as it was seen.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np
from threadpoolctl import threadpool_limits

from sluice.interference.fitting import least_squares
from sluice.interference.observations import Seen
from sluice.interference.programs import SCALES, ProductionProgram, features, likeness
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
that was fitted is predicted worse than what lies between, which is then covered more often."""
NORMAL_90 = 1.6448536269514722
LEVEL_SD = 1.0
"""Of what another file system's levels differ from the published ones by: the order of the
patterns may be another (MooseFS)."""
SLOPE_SD = 0.1
JUDGED_KINDS = 64
"""Kinds of programs on which a fit is judged by leaving some out: a fit of each rest takes its
time, which grows with the cube of their number."""
MOST_DEVIATION = 4.0
BISECTIONS = 8
STEP = 1.5e-8
"""Of differences: the square root of what doubles tell apart."""


LAW = (
    *("create_level", "create_slope", "rewrite_level", "rewrite_slope", "process_exponent"),
    *("stream_level", "stream_slope", "stream_exponent"),
    "pooling",
)
"""Coefficients of the law, members of struct sluice_interference; of pooling the logarithm."""
POOLING = LAW.index("pooling")


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

    @property
    def count(self) -> int:
        """How much evidence there was."""
        return self.measurements + self.production + self.left_out

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

    def for_bundle(self) -> dict[str, Any]:
        """Return what a bundle tells of it besides the coefficients, as JSON takes it."""
        return {"basis": asdict(self.basis), "bandwidth": self.bandwidth}

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

    def predict(self, item: Observation, *, z: float = 0.0) -> float:
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

    def losses(
        self, programs: Sequence[Program], rates: Mapping[Program, float]
    ) -> list[list[float]]:
        """Return what each loses alongside each: a row for each that loses; rates alone in B/s."""
        profiles = [program.profile(rates.get(program)) for program in programs]
        return [[1 - self.profile_share(a, [b]) for b in profiles] for a in profiles]

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


def _most_told(items: Sequence[Observation | Seen], count: int) -> set[Program | ProductionProgram]:
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


def _programs(items: Sequence[Observation | Seen]) -> list[Program | ProductionProgram]:
    """Return the members of all, programs first."""
    members: set[Program | ProductionProgram] = {
        member for item in items for member in item.members
    }
    return sorted(members, key=lambda member: (isinstance(member, ProductionProgram), member))


def _rho(item: Observation | Seen) -> float:
    """Return rho, which has a logarithm also where a program got nothing at all."""
    return max(item.rho, LEAST_RHO)


def _log_sd(item: Observation | Seen) -> float:
    """Return the sd of ln rho beyond that of any measurement."""
    return item.log_sd if isinstance(item, Seen) else 0.0


def _kinds(
    programs: Sequence[Program | ProductionProgram],
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
    return problem.model(least_squares(problem.residuals, problem.jacobian, problem.size))


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
        self.at = known[:, :-1]
        self.covariance = likeness(self.at, self.at) + NOISE_SD**2 * np.eye(len(self.at))
        self.root = np.linalg.cholesky(self.covariance)

        members = [index[member] for item in items for member in item.members]
        self.members = point[members].astype(np.uint32)
        self.sizes = np.array([len(item.members) for item in items], np.uint32)
        self.row = np.repeat(np.arange(len(items)), self.sizes)
        self.place = np.concatenate([np.arange(size) for size in self.sizes])
        self.seen = np.array([math.log(_rho(item)) for item in items])
        self.is_mean = np.array([isinstance(item, Seen) for item in items])
        self.noise_sd = np.hypot(beginning.noise_sd, [_log_sd(item) for item in items])
        self.rates: dict[int, list[float]] = {}
        victims = self.members[self.place == 0][: len(measured)]
        for item, at in zip(measured, victims, strict=True):
            self.rates.setdefault(int(at), []).append(math.log(item.rate_alone / self.bandwidth))
        self.efficiency = self._efficiency()
        uncorrected = self._points(*np.zeros((2, len(self.at))))
        site = View(new("struct sluice_interference", uncorrected))
        self.traffic = core.traffic(self.at, known[:, -1], site)

    @property
    def size(self) -> int:
        return len(LAW) + 2 * len(self.at)

    def residuals(self, unknowns: NDArray[np.float64]) -> NDArray[np.float64]:
        error = (self.log_rho(unknowns) - self.seen) / self.noise_sd
        # Cauchy: of streams side by side one may happen to take nearly all, which no form of
        # the model can say and which must not spoil the rest. What production showed is a mean
        # over many slices, and says itself how far it may be off.
        robust = np.sign(error) * np.sqrt(np.log1p(error**2))
        return np.concatenate([np.where(self.is_mean, error, robust), unknowns])

    def jacobian(self, unknowns: NDArray[np.float64]) -> NDArray[np.float64]:
        log_rho = self.log_rho(unknowns)
        slopes = self._slopes(unknowns, log_rho)
        square = ((log_rho - self.seen) / self.noise_sd) ** 2
        # of the Cauchy residual r: e / (r (1 + e^2)), 1 at 0
        ratio = np.divide(square, np.log1p(square), out=np.ones_like(square), where=square > 0)
        steep = np.where(self.is_mean, 1.0, np.sqrt(ratio) / (1 + square))
        return np.vstack([steep[:, None] * slopes / self.noise_sd[:, None], np.eye(len(unknowns))])

    def log_rho(self, unknowns: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return ln rho of each observation, by the core."""
        return self._log_rho(*self._values(unknowns))

    def _log_rho(
        self, law: NDArray[np.float64], weight: NDArray[np.float64], hold: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        model = self._struct(law)
        self.traffic["log_weight"], self.traffic["log_hold"] = weight, hold
        pressures = core.pressures_of_traffic(model, self.traffic)
        return core.guaranteed_shares(model, pressures, self.members, self.sizes)

    def _slopes(
        self, unknowns: NDArray[np.float64], log_rho: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return those of ln rho over the unknowns, by differences."""
        law, weight, hold = self._values(unknowns)
        by_law = np.zeros((len(LAW), len(log_rho)))
        for i, (_, sd) in enumerate(self.beginning.law):
            if sd:
                moved = law + STEP * (np.arange(len(LAW)) == i)
                by_law[i] = sd * (self._log_rho(moved, weight, hold) - log_rho) / STEP
        by_weight, by_hold = self._slopes_of_kinds(law, weight, hold, log_rho)
        return np.hstack(
            [
                by_law.T,
                self.beginning.weight_sd * by_weight @ self.root,
                self.beginning.hold_sd * by_hold @ self.root,
            ]
        )

    def _slopes_of_kinds(
        self,
        law: NDArray[np.float64],
        weight: NDArray[np.float64],
        hold: NDArray[np.float64],
        log_rho: NDArray[np.float64],
    ) -> NDArray[np.float64]:
        """Return those over ln w and over ln h of each kind.

        An observation depends on its members alone. So all victims move at once, and all others
        that stand in the same place: they are taken from kinds with more weight, or more hold.
        """
        model, kinds = self._struct(law), np.tile(self.traffic, 3)
        kinds["log_weight"] = np.concatenate([weight, weight + STEP, weight])
        kinds["log_hold"] = np.concatenate([hold, hold, hold + STEP])
        pressures = core.pressures_of_traffic(model, kinds)
        slopes = np.zeros((2, len(log_rho), len(self.at)))
        for over, place in [*((0, place) for place in range(self.sizes.max())), (1, 0)]:
            there = self.place == place
            moved = self.members + there * np.uint32((over + 1) * len(self.at))
            found = core.guaranteed_shares(model, pressures, moved, self.sizes) - log_rho
            row = self.row[there]
            slopes[over, row, self.members[there]] += found[row] / STEP
        return slopes

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

    def _struct(self, law: NDArray[np.float64]) -> View:
        return View(new("struct sluice_interference", self._coefficients(law)))

    def _coefficients(self, law: NDArray[np.float64]) -> dict[str, float]:
        """Return them as the core takes them."""
        site = {name: float(value) for name, value in zip(LAW, law, strict=True)}
        return {
            **site,
            **self.beginning.queueing,
            "process_exponent": max(0.0, site["process_exponent"]),
            "stream_exponent": max(0.0, site["stream_exponent"]),
            "capacity": self.beginning.capacity,
            "pooling": math.exp(min(site["pooling"], MOST_LOG_POOLING)),
        }

    def model(self, unknowns: NDArray[np.float64]) -> SiteModel:
        law, *values = self._values(unknowns)
        pulls = [np.linalg.solve(self.covariance, value) for value in values]
        site = self._coefficients(law) | self._points(*pulls)
        return SiteModel(core.default_interference() | site, self.bandwidth)

    def _points(self, weight: NDArray[Any], hold: NDArray[Any]) -> dict[str, Any]:
        """Return the measured kinds with their pulls, as the core takes them."""
        if not self.rates:
            return {}
        points = [
            {"at": at.tolist(), "weight": float(a), "hold": float(h), "efficiency": float(b)}
            for at, a, h, b in zip(self.at, weight, hold, self.efficiency, strict=True)
        ]
        return {"scale": list(SCALES), "points": points}

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
