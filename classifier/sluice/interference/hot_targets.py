"""Fit of what jobs lose on hot targets to runs of the same programs at busy and quiet times.

The law is the core's (`policies/core/interference.h`). Of a run, the background is all that others
read and write on its file system meanwhile; it counts as more jobs of the run's own kind, since
what it is made of is not known.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from sluice.policies import core
from sluice.policies.structs import View, new

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

BUSY = 0.03
"""Of the rate of a file system: a smaller background tells nothing of losses."""
MOST_OTHERS = 30.0
"""More jobs of a kind than these cost what these do."""
ERROR = 0.15
"""Mean absolute error of the logarithm of what runs keep."""
PRIOR_SD = 0.2
"""Of a loss on hot targets, among file systems."""
COARSE = [step / 10 for step in range(10)]
FINE = [step / 100 for step in range(-9, 10)]
LOSSES = {"hot_write_loss": False, "hot_read_loss": True}
"""Coefficients that the fit finds, by whether they are of reads."""


@dataclass(frozen=True, slots=True)
class Run:
    """A run that is compared with quiet runs of the same program, size and file system."""

    profile: Mapping[str, Any]
    """Members of struct sluice_profile; the rate is that alone."""
    bandwidth: float
    """B/s: the highest rate of its file system."""
    background: float
    """B/s of others on it meanwhile."""
    kept: float
    """Its rate over that of the quiet ones."""

    @property
    def is_busy(self) -> bool:
        """Return whether it can tell what a background costs."""
        return self.background >= BUSY * self.bandwidth

    @property
    def reads(self) -> bool:
        """Return whether it is mostly of reads."""
        return core.reading_share(self.profile) > 0.5


def share_kept(run: Run, model: View) -> float:
    """Return what a law, a struct sluice_interference, says that a run keeps of its rate."""
    pressure = core.pressure_of(run.profile, model, _file_system(run.bandwidth))
    others = min(MOST_OTHERS, run.background / run.profile["rate"])
    fewer = int(others)
    less, more = (core.rate_share(pressure, [pressure] * n, model) for n in (fewer, fewer + 1))
    return float(less + (others - fewer) * (more - less))


@cache
def _file_system(bandwidth: float) -> View:
    lane = f"Lane=fs Targets=1 Bandwidth={bandwidth:.0f}\n"
    policy: View = core.parse_config("fs", lane.encode()).policy
    return policy


def fit_losses(runs: Sequence[Run], interference: Mapping[str, float]) -> dict[str, float]:
    """Return the coefficients of `LOSSES`, fitted to the busy ones of these runs.

    Their values in the given coefficients are the prior. The fit is by absolute errors: what a run
    loses to other things than its file system has heavy tails.
    """
    return {
        name: _fit([run for run in runs if run.is_busy and run.reads == reads], interference, name)
        for name, reads in LOSSES.items()
    }


def _fit(runs: Sequence[Run], interference: Mapping[str, float], name: str) -> float:
    prior = interference[name]

    def cost(loss: float) -> float:
        model = View(new("struct sluice_interference", {**interference, name: loss}))
        errors = (abs(math.log(run.kept / share_kept(run, model))) for run in runs)
        return math.fsum(errors) / ERROR + ((loss - prior) / PRIOR_SD) ** 2 / 2

    if not runs:
        return prior
    near = min(COARSE, key=cost)
    return min((near + step for step in FINE if 0 <= near + step < 1), key=cost)
