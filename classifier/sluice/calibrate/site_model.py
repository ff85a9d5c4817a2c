"""What a site's measurements teach the interference model.

The model is weighted sharing (`policies/core/interference.h`). For programs that write all the
time it says, with w what a program takes from others and h w what it holds on with itself:

    rho_j = 1 / (1 + sum_i w_i / (h_j w_j))

The published figures say what w is where nobody measured; measurements correct it. The
corrections are Gaussian processes over the physical features of the programs, so that what was
measured says most about what is alike, and nothing about what is not. Fitted are their values
at the measured programs (maximum a posteriori, by non-linear least squares, since a rate
depends on several programs at once). The bundle carries the points; the core evaluates them.

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

from sluice.calibrate.features import SCALES, features, likeness
from sluice.policies import core
from sluice.policies.published import published_interference
from sluice.policies.structs import View, new

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from sluice.calibrate.observations import Observation
    from sluice.calibrate.programs import Program

WEIGHT_SD = 1.5
"""Of ln w around the published figures: how far a site may be from them."""
HOLD_SD = 1.0
EFFICIENCY_SD = 2.0
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

    def profile_share(
        self, victim: Mapping[str, Any], others: Sequence[Mapping[str, Any]], *, z: float = 0.0
    ) -> float:
        """Do as share_kept, for members of struct sluice_profile."""
        struct = self.struct()
        policy = core.default_config().policy
        pressures = [core.pressure_of(p, struct, policy) for p in (victim, *others)]
        return core.rate_share(pressures[0], pressures[1:], struct, z)

    def profile_interval(
        self, victim: Mapping[str, Any], others: Sequence[Mapping[str, Any]]
    ) -> tuple[float, float]:
        noise = math.exp(NORMAL_90 * NOISE_SD)
        low, high = (self.profile_share(victim, others, z=z) for z in (NORMAL_90, -NORMAL_90))
        return low / noise, high * noise

    def struct(self) -> View:
        return View(new("struct sluice_interference", self.interference))


def fit(observations: Sequence[Observation]) -> SiteModel:
    """Learn from these observations; without any, return the published model.

    The result depends on nothing but the set of observations. How far the model may be off
    where it was fitted is judged on chunk sizes that were left out, in turn.
    """
    if not observations:
        return SiteModel(published_interference(), 0.0)
    return _fit(observations).with_deviation(_deviation_on_unseen(observations))


def _fit(observations: Sequence[Observation]) -> SiteModel:
    problem = _Problem(observations, published_interference())
    start = np.zeros(2 * len(problem.at))
    return problem.model(least_squares(problem.residuals, start, jac=problem.jacobian).x)


def _deviation_on_unseen(observations: Sequence[Observation]) -> float:
    """Return the sd of ln w with which intervals contain 90 % of what was not fitted.

    Each chunk size is left out in turn, with all programs that use it.
    """
    unseen: list[tuple[SiteModel, Observation]] = []
    for chunk in sorted({item.victim.chunk_bytes for item in observations}):
        known = [o for o in observations if chunk not in _chunks(o)]
        if known:
            model = _fit(known)
            unseen += [(model, o) for o in observations if o.victim.chunk_bytes == chunk]
    if not unseen:
        return float(published_interference()["log_sd"])

    def covers(deviation: float) -> bool:
        inside = 0
        for model, item in unseen:
            low, high = model.with_deviation(deviation).interval(item.victim, item.others)
            inside += low <= item.rho <= high
        return inside >= COVERAGE * len(unseen)

    low, high = 0.0, MOST_DEVIATION
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        low, high = (low, middle) if covers(middle) else (middle, high)
    return high


def _chunks(observation: Observation) -> set[int]:
    return {p.chunk_bytes for p in (observation.victim, *observation.others)}


class _Problem:
    """The least-squares problem: unknowns are whitened, so their prior is a unit normal."""

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

        self.victim = point[[index[item.victim] for item in items]]
        self.victim_base = base[[index[item.victim] for item in items]]
        pairs = [(row, index[p]) for row, o in enumerate(items) for p in o.others]
        self.row, other = np.array(pairs).T
        self.other, self.other_base = point[other], base[other]
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
        n = len(self.at)
        weight = WEIGHT_SD * (self.root @ unknowns[:n])
        hold = HOLD_SD * (self.root @ unknowns[n:])
        own = self.victim_base + weight[self.victim] + hold[self.victim]
        pressed = np.exp(self.other_base + weight[self.other] - own[self.row])
        pressure = np.bincount(self.row, pressed, len(self.seen))
        share = pressed / (1 + pressure[self.row])  # of the slope, by other

        slopes = np.zeros((len(self.seen), 2 * n))
        lost = pressure / (1 + pressure)
        slopes[:, :n] += WEIGHT_SD * lost[:, None] * self.root[self.victim]
        slopes[:, n:] += HOLD_SD * lost[:, None] * self.root[self.victim]
        np.subtract.at(slopes[:, :n], self.row, WEIGHT_SD * share[:, None] * self.root[self.other])
        return -np.log1p(pressure), slopes

    def model(self, unknowns: NDArray[np.float64]) -> SiteModel:
        n = len(self.at)
        values = (
            WEIGHT_SD * (self.root @ unknowns[:n]),
            HOLD_SD * (self.root @ unknowns[n:]),
        )
        pulls = [np.linalg.solve(self.covariance, value) for value in values]
        pulls.append(self._efficiency())
        points = [
            {"at": at.tolist(), "weight": float(a), "hold": float(h), "efficiency": float(b)}
            for at, a, h, b in zip(self.at, *pulls, strict=True)
        ]
        site = {"capacity": 1.0, "scale": list(SCALES), "points": points}
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
