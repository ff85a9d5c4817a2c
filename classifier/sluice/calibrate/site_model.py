"""What a site's measurements teach the interference model.

The model is weighted sharing (`policies/core/interference.h`). For programs that write all the
time it says, with w what a program takes from others and h w what it holds on with itself:

    rho_j = 1 / (1 + sum_i v_i / (h_j v_j))
    v_i   = w_i (1 - s_i + s_i / (1 + kappa U)),  U = sum of s w over all, s h w for j itself

Streams (s = 1) have a queue to themselves: among each other they share by their weights, but
beside those that flush they count as one, the more so the larger kappa.

The published figures say what w is where nobody measured; measurements correct it. The
corrections are Gaussian processes over the physical features of the programs, so that what was
measured says most about what is alike, and nothing about what is not. Fitted are their values
at the measured programs, and kappa (maximum a posteriori, by non-linear least squares, since a
rate depends on several programs at once). The bundle carries the points; the core evaluates
them.

Order is kept by the form of the model: no company makes a program faster, and more company
never makes it faster than less. An observed speed-up stays in the history and counts in the
fit as it was seen.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.optimize import least_squares
from threadpoolctl import threadpool_limits

from sluice.calibrate.features import SCALES, features, likeness
from sluice.policies import core
from sluice.policies.published import published_interference
from sluice.policies.structs import View, new

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from sluice.calibrate.observations import Observation
    from sluice.calibrate.programs import Program

WEIGHT_SD = 1.5
"""Of ln w around the published figures: how far a site may be from them."""
HOLD_SD = 1.0
EFFICIENCY_SD = 2.0
LOG_POOLING = -1.5
"""Of kappa, where a site's measurements do not say how streams share."""
LOG_POOLING_SD = 1.5
MOST_LOG_POOLING = 4.0
NOISE_SD = 0.08
"""Of ln rho in one measurement."""
RATE_NOISE_SD = 0.1
"""Of the logarithm of a rate alone."""
COVERAGE = 0.9
NORMAL_90 = 1.6448536269514722
MOST_DEVIATION = 4.0
BISECTIONS = 8


@dataclass(frozen=True, slots=True)
class SiteModel:
    """The interference model of a site."""

    interference: dict[str, Any]
    """Members of struct sluice_interference."""
    bandwidth: float
    """B/s: the most that any program got from the target alone; efficiencies refer to it."""

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

    def hits(self, observations: Sequence[Observation]) -> int:
        """Return how many lie within the interval of 90 %."""
        struct = self.struct()
        count = 0
        for item in observations:
            others = [program.profile() for program in item.others]
            low, high = _interval(struct, item.victim.profile(), others)
            count += low <= item.rho <= high
        return count

    def profile_share(
        self, victim: Mapping[str, Any], others: Sequence[Mapping[str, Any]], *, z: float = 0.0
    ) -> float:
        """Do as share_kept, for members of struct sluice_profile."""
        (share,) = _shares(self.struct(), victim, others, (z,))
        return share

    def profile_interval(
        self, victim: Mapping[str, Any], others: Sequence[Mapping[str, Any]]
    ) -> tuple[float, float]:
        return _interval(self.struct(), victim, others)

    def struct(self) -> View:
        return View(new("struct sluice_interference", self.interference))


def _shares(
    interference: View,
    victim: Mapping[str, Any],
    others: Sequence[Mapping[str, Any]],
    zs: tuple[float, ...],
) -> list[float]:
    """Return rho at each z."""
    policy = core.default_config().policy
    own, *their = (core.pressure_of(p, interference, policy) for p in (victim, *others))
    return [core.rate_share(own, their, interference, z) for z in zs]


def _interval(
    interference: View, victim: Mapping[str, Any], others: Sequence[Mapping[str, Any]]
) -> tuple[float, float]:
    low, high = _shares(interference, victim, others, (NORMAL_90, -NORMAL_90))
    noise = math.exp(NORMAL_90 * NOISE_SD)
    return low / noise, high * noise


def fit(observations: Sequence[Observation]) -> SiteModel:
    """Learn from these observations; without any, return the published model.

    The result depends on nothing but the set of observations. How far the model may be off
    where it was fitted is judged on chunk sizes, numbers of processes, and patterns and sync
    modes that were left out, in turn.
    """
    if not observations:
        return SiteModel(published_interference(), 0.0)
    # The matrices are small: several threads would mostly wait for each other.
    with threadpool_limits(limits=1, user_api="blas"):
        return _fit(observations).with_deviation(_deviation_on_unseen(observations))


def _fit(observations: Sequence[Observation]) -> SiteModel:
    problem = _Problem(observations, published_interference())
    start = np.zeros(2 * len(problem.at) + 1)
    return problem.model(least_squares(problem.residuals, start, jac=problem.jacobian).x)


def _deviation_on_unseen(observations: Sequence[Observation]) -> float:
    """Return the sd of ln w with which intervals contain 90 % of what was not fitted."""
    unseen = [pair for trait in TRAITS for pair in _unseen(observations, trait)]
    if not unseen:
        return float(published_interference()["log_sd"])
    count = sum(len(left_out) for _, left_out in unseen)

    def covers(deviation: float) -> bool:
        inside = sum(model.with_deviation(deviation).hits(left_out) for model, left_out in unseen)
        return inside >= COVERAGE * count

    low, high = 0.0, MOST_DEVIATION
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
    observations: Sequence[Observation], trait: Callable[[Program], Any]
) -> Iterator[tuple[SiteModel, list[Observation]]]:
    """Leave out each value of a trait in turn; yield what the rest says and what was left out."""
    traits = [{trait(p) for p in (item.victim, *item.others)} for item in observations]
    for value in sorted(set().union(*traits)):
        known = [o for o, values in zip(observations, traits, strict=True) if value not in values]
        if known:
            left_out = [o for o, v in zip(observations, traits, strict=True) if value in v]
            yield _fit(known), left_out


class _Problem:
    """The least-squares problem: unknowns are whitened, so their prior is a unit normal.

    They are ln w and ln h at each point, and ln kappa.
    """

    def __init__(self, observations: Sequence[Observation], published: Mapping[str, Any]) -> None:
        self.published = dict(published)
        items = sorted(observations, key=lambda o: (o.victim, o.others, o.rho, o.rate_alone))
        self.bandwidth = max(item.rate_alone for item in items)
        programs = sorted({p for o in items for p in (o.victim, *o.others)})
        index = {program: i for i, program in enumerate(programs)}
        # Programs with the same features are one point.
        self.at, where = np.unique(np.round(features(programs), 6), axis=0, return_inverse=True)
        point = where.reshape(-1)
        self.covariance = likeness(self.at, self.at) + NOISE_SD**2 * np.eye(len(self.at))
        self.root = np.linalg.cholesky(self.covariance)
        base = _published_log_weights(programs, published)
        streaming = self.at[point, 0]

        self.victim = point[[index[item.victim] for item in items]]
        self.victim_base = base[[index[item.victim] for item in items]]
        self.victim_streaming = streaming[[index[item.victim] for item in items]]
        pairs = [(row, index[p]) for row, o in enumerate(items) for p in o.others]
        self.row, other = np.array(pairs).T
        self.other, self.other_base = point[other], base[other]
        self.other_streaming = streaming[other]
        self.seen = np.array([math.log(item.rho) for item in items])
        self.rates: dict[int, list[float]] = {}
        for item, at in zip(items, self.victim, strict=True):
            self.rates.setdefault(int(at), []).append(math.log(item.rate_alone / self.bandwidth))

    def residuals(self, unknowns: NDArray[np.float64]) -> NDArray[np.float64]:
        error = (self._log_rho(unknowns)[0] - self.seen) / NOISE_SD
        # Pseudo-Huber: what the form of the model cannot say must not spoil the rest.
        robust = np.sign(error) * np.sqrt(2 * (np.hypot(1.0, error) - 1))
        return np.concatenate([robust, unknowns])

    def jacobian(self, unknowns: NDArray[np.float64]) -> NDArray[np.float64]:
        log_rho, slopes = self._log_rho(unknowns)
        long = np.hypot(1.0, (log_rho - self.seen) / NOISE_SD)
        # of the pseudo-Huber residual r: e / (r sqrt (1 + e^2)), 1 at 0
        steep = np.sqrt((long + 1) / 2) / long
        return np.vstack([steep[:, None] * slopes / NOISE_SD, np.eye(len(unknowns))])

    def _log_rho(
        self, unknowns: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return ln rho of each observation, and its slopes over the unknowns."""
        n, count = len(self.at), len(self.seen)
        weight, hold, kappa = self._values(unknowns)
        own = np.exp(self.victim_base + weight[self.victim] + hold[self.victim])
        other = np.exp(self.other_base + weight[self.other])
        own_streams, other_streams = self.victim_streaming * own, self.other_streaming * other
        streams = np.bincount(self.row, other_streams, count)
        queue = 1 + kappa * (own_streams + streams)
        # What counts of each, in the queue of streams or beside it.
        held = own - own_streams + own_streams / queue
        pressed = other - other_streams + other_streams / queue[self.row]
        pressure = np.bincount(self.row, pressed, count)

        # ln rho = -ln (1 + pressure / held): a slope in held, pressed and queue each.
        by_pressed = -1 / (held + pressure)
        by_held = -by_pressed * pressure / held
        by_queue = -(by_held * own_streams + by_pressed * streams) / queue**2
        by_own = by_held * held + by_queue * kappa * own_streams
        by_other = by_pressed[self.row] * pressed + by_queue[self.row] * kappa * other_streams

        slopes = np.zeros((count, 2 * n + 1))
        slopes[:, :n] = WEIGHT_SD * by_own[:, None] * self.root[self.victim]
        slopes[:, n:-1] = HOLD_SD * by_own[:, None] * self.root[self.victim]
        np.add.at(slopes[:, :n], self.row, WEIGHT_SD * by_other[:, None] * self.root[self.other])
        slopes[:, -1] = LOG_POOLING_SD * by_queue * (queue - 1)
        return -np.log1p(pressure / held), slopes

    def _values(
        self, unknowns: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], float]:
        """Return the corrections of ln w and of ln h at the points, and kappa."""
        n = len(self.at)
        pooling = LOG_POOLING + LOG_POOLING_SD * float(unknowns[-1])
        return (
            WEIGHT_SD * (self.root @ unknowns[:n]),
            HOLD_SD * (self.root @ unknowns[n:-1]),
            math.exp(min(pooling, MOST_LOG_POOLING)),
        )

    def model(self, unknowns: NDArray[np.float64]) -> SiteModel:
        *values, pooling = self._values(unknowns)
        pulls = [np.linalg.solve(self.covariance, value) for value in values]
        pulls.append(self._efficiency())
        points = [
            {"at": at.tolist(), "weight": float(a), "hold": float(h), "efficiency": float(b)}
            for at, a, h, b in zip(self.at, *pulls, strict=True)
        ]
        site = {"capacity": 1.0, "pooling": pooling, "scale": list(SCALES), "points": points}
        return SiteModel(self.published | site, self.bandwidth)

    def _efficiency(self) -> NDArray[np.float64]:
        """Return the pulls on ln e: a Gaussian process through the rates alone."""
        known = sorted(self.rates)
        seen = np.array([np.median(self.rates[i]) for i in known])
        noise = (RATE_NOISE_SD / EFFICIENCY_SD) ** 2
        covariance = likeness(self.at[known], self.at[known]) + noise * np.eye(len(known))
        pulls = np.zeros(len(self.at))
        pulls[known] = np.linalg.solve(covariance, seen)
        return pulls


def _published_log_weights(
    programs: Sequence[Program], published: Mapping[str, Any]
) -> NDArray[np.float64]:
    model = View(new("struct sluice_interference", published))
    policy = core.default_config().policy
    weights = [core.pressure_of(p.profile(), model, policy).weight for p in programs]
    return np.array([math.log(weight) for weight in weights])
