"""A workload for when there is no trace: the model of Lublin and Feitelson.

U. Lublin, D. Feitelson: The workload on parallel supercomputers: modeling the characteristics of
rigid jobs. JPDC 63(11), 2003. Parameters of the whole sample, for a machine of 128 processors
there; the largest size follows the machine here. The model has no time limits and no users:
limits are the run time over a uniform share, users are drawn by Zipf's law.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sluice.sim.engine import TraceError
from sluice.sim.trace.jobs import Trace

if TYPE_CHECKING:
    from numpy.typing import NDArray

DAY = 86400
BUCKETS = 48
BUCKET = DAY // BUCKETS
FIRST_BUCKET = 11  # the day of the model begins there
LONGEST = 12.0  # exp: the longest run time in seconds, and 13 the longest gap
LONGEST_GAP = 13.0


@dataclass(frozen=True, slots=True)
class Model:
    """The parameters, by the paper's names (tables of sections 3 to 5)."""

    serial: float = 0.244
    """Share of jobs on one processor."""
    power_of_2: float = 0.576
    low: float = 0.8
    """Two-stage uniform distribution of log2 of the size: low, high - middle, high."""
    below_high: float = 2.5
    low_share: float = 0.86
    run_1: tuple[float, float] = (4.2, 0.94)
    """Log of the run time: one gamma distribution, or a second one."""
    run_2: tuple[float, float] = (312.0, 0.03)
    run_slope: float = -0.0054
    run_share: float = 0.78
    """Share of the first: run_slope * size + run_share."""
    arrive: tuple[float, float] = (10.2303, 0.4871)
    """Log of the gap between two submissions in rush hours: a gamma distribution."""
    arrive_ratio: float = 1.0225
    day: tuple[float, float] = (8.1737, 3.9631)
    """How submissions spread over the day: a gamma distribution over half hours."""


def generate(
    jobs: int,
    *,
    slots: int = 128,
    load: float | None = None,
    users: int = 50,
    seed: int = 1,
    model: Model | None = None,
) -> Trace:
    """Draw a trace of so many jobs for a machine of so many slots.

    load: stretch or squeeze the gaps so that the jobs offer this share of the machine.
    Equal arguments give equal traces.
    """
    if jobs < 1 or slots < 1 or users < 1 or (load is not None and not load > 0):
        raise TraceError("a generated trace needs jobs, slots, users and load above 0")
    model = model or Model()
    random = np.random.default_rng(seed)
    size = _sizes(random, model, jobs, slots)
    runtime = _runtimes(random, model, size)
    submit = _submissions(random, model, jobs)
    if load is not None and jobs > 1 and submit[-1] > submit[0]:
        offered = float(np.sum(size * runtime)) / (slots * (submit[-1] - submit[0]))
        submit *= offered / load
    share = random.uniform(0.1, 1.0, jobs)
    rank = np.arange(1, users + 1)
    user = random.choice(users, jobs, p=(1 / rank) / np.sum(1 / rank))
    return Trace(
        name=f"lublin-{seed}",
        job_id=np.arange(1, jobs + 1),
        submit=np.floor(submit - submit[0]),
        runtime=runtime,
        limit=np.ceil(runtime / share / 300) * 300,
        slots=size,
        user=user.astype(np.int64),
        users=tuple(f"user{i + 1}" for i in range(users)),
        machine_slots=slots,
    )


def _sizes(random: np.random.Generator, model: Model, jobs: int, slots: int) -> NDArray[np.int64]:
    """Draw sizes: serial ones, powers of 2, and others; log2 is two-stage uniform."""
    high = np.log2(slots)
    low = min(model.low, high)
    middle = min(max(low, high - model.below_high), high)
    is_low = random.uniform(size=jobs) <= model.low_share
    log2 = random.uniform(np.where(is_low, low, middle), np.where(is_low, middle, high))
    kind = random.uniform(size=jobs)
    log2 = np.where(kind <= model.serial + model.power_of_2, np.floor(log2 + 0.5), log2)
    size = np.where(kind <= model.serial, 1, np.floor(2.0**log2 + 0.5))
    return np.clip(size, 1, slots).astype(np.int64)


def _runtimes(
    random: np.random.Generator, model: Model, size: NDArray[np.int64]
) -> NDArray[np.float64]:
    first = np.clip(model.run_slope * size + model.run_share, 0.0, 1.0)

    def draw(which: NDArray[np.float64]) -> NDArray[np.float64]:
        is_first = random.uniform(size=len(which)) <= which
        return np.where(
            is_first,
            random.gamma(*model.run_1, len(which)),
            random.gamma(*model.run_2, len(which)),
        )

    log = draw(first)
    while (too_long := log > LONGEST).any():
        log[too_long] = draw(first[too_long])
    return np.maximum(1.0, np.floor(np.exp(log)))


def _submissions(random: np.random.Generator, model: Model, jobs: int) -> NDArray[np.float64]:
    """Draw times: a gap costs points, and a half hour of the day brings as many as it is busy."""
    shape, scale = model.arrive[0] * model.arrive_ratio, model.arrive[1]
    log = random.gamma(shape, scale, jobs)
    while (too_long := log > LONGEST_GAP).any():
        log[too_long] = random.gamma(shape, scale, int(too_long.sum()))
    points = np.cumsum(np.exp(log) / BUCKET)
    gained = np.concatenate([[0.0], np.cumsum(_busyness(model))])
    days, rest = np.divmod(points, gained[-1])
    return days * DAY + np.interp(rest, gained, np.arange(BUCKETS + 1) * BUCKET)


def _busyness(model: Model) -> NDArray[np.float64]:
    """How busy each half hour from midnight is; 1 on average."""
    number = np.arange(BUCKETS) + FIRST_BUCKET
    weights = np.empty(BUCKETS)
    weights[(number - 1) % BUCKETS] = np.diff(
        _gamma_cdf(np.append(number - 0.5, number[-1] + 0.5), *model.day)
    )
    return np.asarray(weights / weights.mean())


def _gamma_cdf(at: NDArray[np.float64], shape: float, scale: float) -> NDArray[np.float64]:
    """Integrate the density numerically: the model needs 49 values of it."""
    grid = np.linspace(0.0, 8.0 * shape * scale, 100_001)[1:]
    log = (shape - 1) * np.log(grid) - grid / scale
    whole = np.cumsum(np.exp(log - log.max()))
    return np.asarray(np.interp(at, grid, whole / whole[-1]))
