"""Fit of the interference law to the measurements of a site and to its production.

The law is the core's (`policies/core/interference.h`); the fit asks the core for rates and works
on coefficients only. Measured programs tell the coefficients of `MEASURED`; what they get alone
tells the overheads of their flushes. Pairs of applications from production count in the same fit,
by their precision; where a site measured nothing, they move the published coefficients. Without
any evidence the published figures hold.

The unknowns are whitened, so that their prior is a unit normal: the fit is a maximum a
posteriori by non-linear least squares, since a rate depends on several programs at once.

Order is kept by the form of the law: no co-runner makes a program faster, and more of them
never makes it faster than fewer. An observed speed-up counts in the fit as it was observed.
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
from sluice.interference.programs import ProductionProgram
from sluice.policies import core
from sluice.policies.structs import View, new

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from sluice.interference.observations import Observation
    from sluice.interference.programs import Program

    Array = NDArray[np.float64]
    Profile = Mapping[str, Any]
    Prior = Mapping[str, tuple[float, float]]
    Unseen = tuple["SiteModel", list[Observation]]

NOISE_SD = 0.08
"""Of ln rho in one measurement, in intervals."""
FIT_NOISE_SD = 0.1
"""Of ln rho in one observation, in the fit."""
LEAST_RHO = 1e-3
"""Smallest share of a rate that one measurement tells from nothing."""
RATE_NOISE_SD = 0.3
"""Of the logarithm of a rate alone around that of its kind of traffic."""
COVERAGE = 0.78
"""Of intervals of 90 %, among observations that were left out of the fit. Programs between the
measured ones are covered more often."""
NORMAL_90 = 1.6448536269514722
LEAST_DEVIATION, MOST_DEVIATION = 0.22, 4.0
"""Of ln w; measured programs that are alike may show too little of it."""
BISECTIONS = 8
STEP = 1.5e-8
"""Of differences: the square root of what doubles tell apart."""
MOST_LOG = 4.0
"""Largest ln of pooling and of an overhead in MiB."""

LOGARITHMS = ("pooling", "create_overhead", "rewrite_overhead")
"""Coefficients that the fit knows by their logarithm."""

MEASURED: Prior = {
    "stream_level": (math.log(125.0), 0.5),
    "rewrite_level": (0.0, 0.2),
    "create_exponent": (1.0, 0.3),
    "rewrite_exponent": (1.0, 0.3),
    "pooling": (-4.0, 1.5),
}
"""Mean and sd of coefficients of a server that takes requests as they come: a weight is the MiB
that a target could take while it serves what is in its queue. Streams take by processes, since a
kernel that throttles writers throttles each alike; a process has several times in the cache what
one queue serves."""
READ_LEVEL: Prior = {"read_level": (0.0, 1.5)}
"""Of reads there is no figure: a server may take them first, or a cache of writes may."""
SERVER = {"process_exponent": 1.0, "capacity": 1.0, "hot_write_loss": 0.0}
"""Coefficients of such a server that no site is asked for; one target has no slower ones."""
OVERHEADS: Prior = {"create_overhead": (0.0, 5.0), "rewrite_overhead": (0.0, 5.0)}
LEVEL_SD, SLOPE_SD = 1.0, 0.1
"""Of what another file system's coefficients differ from the published ones by: the order of the
patterns may be another (MooseFS)."""


@dataclass(frozen=True, slots=True)
class Basis:
    """Evidence that a model was fitted to."""

    measurements: int = 0
    production: int = 0
    """Pairs of applications."""
    busy_runs: int = 0
    """Runs alongside a background, compared with quiet ones."""
    busy_reads: int = 0
    """Those of them that mostly read."""
    reads: int = 0
    """Measurements with programs that read."""

    @property
    def count(self) -> int:
        """How much evidence there was."""
        return self.measurements + self.production + self.busy_runs

    def __str__(self) -> str:
        known = "published figures"
        if self.measurements:
            known = f"{self.measurements} measurements here"
            known += f", {self.reads} of them with reads" if self.reads else ""
        if self.production:
            pairs = "pair" if self.production == 1 else "pairs"
            known += f" and {self.production} {pairs} of applications seen in production"
        if self.busy_runs:
            known += f" and {self.busy_runs} runs at busy times, {self.busy_reads} of readers"
        return known


@dataclass(frozen=True, slots=True)
class SiteModel:
    """The interference model of a site."""

    interference: dict[str, Any]
    """Members of struct sluice_interference."""
    bandwidth: float
    """B/s: the highest rate that a program got from the target alone; rates refer to it."""
    basis: Basis = Basis()

    def for_bundle(self) -> dict[str, Any]:
        """Return the parts of a bundle that are made of it (prediction/publication.py)."""
        told = {"basis": asdict(self.basis), "bandwidth": self.bandwidth}
        return {"interference": self.interference, "interference_from": told}

    def with_deviation(self, log_sd: float) -> SiteModel:
        """Return the same with another sd of ln w."""
        return replace(self, interference=self.interference | {"log_sd": log_sd})

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
    """Return the model of measurements and production; without any, the published one.

    The result depends on nothing but the set of both. Of production only pairs of writers count.
    What was measured with readers tells their weight over that of writers, and nothing of these.
    The deviation is judged on measured writers that were left out, in turn.
    """
    measured = [item for item in observations if item.is_of_writers]
    reads = [item for item in observations if item.is_of_readers] if measured else []
    seen = [item for item in production if item.is_of_writers]
    if not measured and not seen:
        return SiteModel(core.default_interference(), 0.0)
    basis = Basis(len(measured) + len(reads), len(seen), reads=len(reads))
    # The matrices are small: several threads would mostly wait for each other.
    with threadpool_limits(limits=1, user_api="blas"):
        model = replace(_fit(measured, seen), basis=basis)
        if not measured:
            return model
        unseen = [pair for trait in TRAITS for pair in _unseen(measured, trait)]
        return _with_reads(model, reads).with_deviation(_deviation_on(unseen))


def _with_reads(model: SiteModel, reads: Sequence[Observation]) -> SiteModel:
    """Fit the weight of reads, with what is known of writes.

    Rates of reads are shares of the fastest read: a target may read faster than it writes. What
    these pairs lost, they lost on one target, which has no slower ones.
    """
    if not reads:
        return model
    rates = _rates_alone(reads)
    fastest = max((rate for one, rate in rates.items() if one.is_reader), default=1.0)
    faster = model.bandwidth / fastest
    rates |= {one: rate * faster for one, rate in rates.items() if one.is_reader}
    known = model.interference | {"hot_read_loss": 0.0}
    found = _fit_law(known, READ_LEVEL, reads, rates, model.bandwidth)
    return replace(model, interference=found.interference)


def _rates_alone(observations: Sequence[Observation]) -> dict[Program, float]:
    """Return the median rate of each victim, B/s."""
    alone: dict[Program, list[float]] = {}
    for item in observations:
        alone.setdefault(item.victim, []).append(item.rate_alone)
    return {program: median(found) for program, found in alone.items()}


def _fit(observations: Sequence[Observation], production: Sequence[Seen] = ()) -> SiteModel:
    if not observations:
        return _fit_law(core.default_interference(), _published_prior(), production)
    rates = _rates_alone(observations)
    bandwidth = max(item.rate_alone for item in observations)
    server = core.default_interference() | SERVER
    known = server | fit_overheads(server, {p: rate / bandwidth for p, rate in rates.items()})
    return _fit_law(known, MEASURED, [*observations, *production], rates, bandwidth)


def _published_prior() -> Prior:
    published = core.default_interference()
    sds = {"stream_level": LEVEL_SD, "rewrite_level": LEVEL_SD}
    sds |= dict.fromkeys(("create_exponent", "rewrite_exponent", "process_exponent"), SLOPE_SD)
    return {name: (published[name], sd) for name, sd in sds.items()}


def fit_overheads(
    coefficients: Mapping[str, float], shares: Mapping[Program, float]
) -> dict[str, float]:
    """Return overheads of flushes; shares: of the bandwidth, of each program alone."""
    programs = sorted(shares)
    profiles = [_profile(program, {}) for program in programs]
    observed = np.log([shares[program] for program in programs])

    def residuals(unknowns: Array) -> Array:
        model = _struct({**coefficients, **_values(OVERHEADS, unknowns)})
        expected = np.array([core.log_efficiency(profile, model) for profile in profiles])
        return np.concatenate([_robust((expected - observed) / RATE_NOISE_SD), unknowns])

    return _values(OVERHEADS, _least(residuals, len(OVERHEADS)))


def _fit_law(
    known: Mapping[str, float],
    prior: Prior,
    items: Sequence[Observation | Seen],
    rates: Mapping[Program, float] | None = None,
    bandwidth: float = 0.0,
) -> SiteModel:
    """Fit the coefficients of a prior; known: the others; rates: of programs alone, B/s."""
    items = sorted(items, key=_order)
    programs = sorted({one for item in items for one in item.members}, key=_member_order)
    index = {program: i for i, program in enumerate(programs)}
    profiles = [_profile(program, rates or {}) for program in programs]
    members = np.array([index[one] for item in items for one in item.members], np.uint32)
    sizes = np.array([len(item.members) for item in items], np.uint32)
    observed = np.array([math.log(max(item.rho, LEAST_RHO)) for item in items])
    is_mean = np.array([isinstance(item, Seen) for item in items])
    noise = np.hypot(FIT_NOISE_SD, [getattr(item, "log_sd", 0.0) for item in items])
    policy = SiteModel({}, bandwidth).policy()

    def residuals(unknowns: Array) -> Array:
        model = _struct({**known, **_values(prior, unknowns)})
        pressures = core.pressures([core.pressure_of(one, model, policy) for one in profiles])
        error = (core.guaranteed_shares(model, pressures, members, sizes) - observed) / noise
        # What production showed is a mean over many slices, and says itself how far it is off.
        return np.concatenate([np.where(is_mean, error, _robust(error)), unknowns])

    found = _values(prior, _least(residuals, len(prior)))
    return SiteModel({**known, **found}, bandwidth)


def _order(item: Observation | Seen) -> tuple[Any, ...]:
    if isinstance(item, Seen):
        return (1, item.victim, item.other, item.rho, item.log_sd)
    return (0, item.victim, item.others, item.rho, item.rate_alone)


def _member_order(member: Program | ProductionProgram) -> tuple[bool, Any]:
    return isinstance(member, ProductionProgram), member


def _profile(member: Program | ProductionProgram, rates: Mapping[Program, float]) -> View:
    if isinstance(member, ProductionProgram):
        return View(new("struct sluice_profile", member.profile()))
    return View(new("struct sluice_profile", member.profile(rates.get(member))))


def _robust(error: Array) -> Array:
    """Return Cauchy residuals, which one wild measurement does not spoil.

    Of streams side by side one may happen to take nearly all, which no form of the law can say.
    """
    result: Array = np.sign(error) * np.sqrt(np.log1p(error**2))
    return result


def _values(prior: Prior, unknowns: Array) -> dict[str, float]:
    """Return coefficients as the core takes them, of whitened unknowns."""
    found = {}
    for (name, (mean, sd)), unknown in zip(prior.items(), unknowns.tolist(), strict=True):
        value = mean + sd * unknown
        found[name] = math.exp(min(value, MOST_LOG)) if name in LOGARITHMS else value
    return found


def _struct(coefficients: Mapping[str, float]) -> View:
    return View(new("struct sluice_interference", coefficients))


def _least(residuals: Callable[[Array], Array], size: int) -> Array:
    def jacobian(unknowns: Array) -> Array:
        here = residuals(unknowns)
        steps = STEP * np.eye(size)
        return np.column_stack([(residuals(unknowns + step) - here) / STEP for step in steps])

    return least_squares(residuals, jacobian, size)


def _deviation_on(unseen: Sequence[Unseen]) -> float:
    """Return the sd of ln w with which intervals contain enough of what was not fitted."""
    if not unseen:
        return float(core.default_interference()["log_sd"])
    count = sum(len(left_out) for _, left_out in unseen)

    def covers(deviation: float) -> bool:
        inside = sum(
            model.with_deviation(deviation).hits(left_out, with_rates=False)
            for model, left_out in unseen
        )
        return inside >= COVERAGE * count

    low, high = LEAST_DEVIATION, MOST_DEVIATION
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
"""Traits in which a program may differ from all that were measured."""


def _unseen(
    observations: Sequence[Observation], trait: Callable[[Program], Any]
) -> Iterator[Unseen]:
    """Leave out each value of a trait in turn; yield the model of the rest and the left out."""
    traits = [{trait(p) for p in item.members} for item in observations]
    for value in sorted(set().union(*traits)):
        known = [o for o, values in zip(observations, traits, strict=True) if value not in values]
        if known:
            left_out = [o for o, v in zip(observations, traits, strict=True) if value in v]
            yield _fit(known), left_out
