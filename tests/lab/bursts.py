"""Bursts at unknown offsets, second by second: what the core's formulas are checked against.

Nothing here knows the formulas: a victim works off its burst, slower whenever others write, and
others write on and off in rhythms of their own.
"""

from collections.abc import Callable, Sequence

import numpy as np

Rate = Callable[[int], float]
"""Rate of the victim while a set of others writes, one bit an other; alone 1."""


def seconds_of_bursts(
    work: float,
    rhythms: Sequence[tuple[float, float]],
    rate: Rate,
    *,
    draws: int,
    seed: int = 1,
) -> np.ndarray:
    """Return how long a burst of `work` seconds alone takes, one a draw of everybody's offset.

    rhythms: seconds on and off of each other.
    """
    rng = np.random.default_rng(seed)
    on = np.array([a for a, _ in rhythms])
    cycle = np.array([a + b for a, b in rhythms])
    phase = rng.uniform(0, cycle, (draws, len(cycle)))
    left = np.full(draws, float(work))
    took = np.zeros(draws)
    rates = np.array([rate(state) for state in range(1 << len(cycle))])
    bits = 1 << np.arange(len(cycle))
    while (busy := left > 0).any():
        is_on = phase < on
        speed = rates[(is_on * bits).sum(1)]
        to_switch = np.where(is_on, on, cycle) - phase
        step = np.minimum(to_switch.min(1, initial=np.inf), left / speed) * busy
        left = np.where(left - step * speed > work * 1e-12, left - step * speed, 0.0)
        took += step
        switches = to_switch <= step[:, None]
        phase = np.where(switches, np.where(is_on, on, 0.0), phase + step[:, None])
    return took
