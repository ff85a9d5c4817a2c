"""Replays a workload and keeps what became of each job as columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sluice.sim import engine

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from sluice.sim.trace.machine import Site
    from sluice.sim.trace.repairs import Replayable

SHORT_JOB = 10.0
"""Seconds: shorter jobs count as so long in the bounded slowdown (Feitelson et al. 1997)."""


@dataclass(frozen=True, slots=True)
class Outcomes:
    """What became of the jobs of a replay, one element a job."""

    replayable: Replayable
    results: NDArray[Any]
    """engine.RESULT."""

    @property
    def ran(self) -> NDArray[np.bool_]:
        """Whether the job ran to an end."""
        return np.asarray(self.results["end"] >= 0) & (self.results["start"] >= 0)

    @property
    def wait(self) -> NDArray[np.float64]:
        """Seconds from when the job could have started to its last start; NaN: never."""
        jobs = self.replayable.workload.jobs
        ready = np.maximum(jobs["submit"], self.results["eligible"])
        return np.where(self.ran, self.results["start"] - ready, np.nan)

    @property
    def runtime(self) -> NDArray[np.float64]:
        return np.where(self.ran, self.results["end"] - self.results["start"], np.nan)

    @property
    def bounded_slowdown(self) -> NDArray[np.float64]:
        """(wait + run time) / run time, at least 1, short jobs counting as 10 s."""
        length = np.maximum(self.runtime, SHORT_JOB)
        return np.maximum((self.wait + self.runtime) / length, 1.0)

    @property
    def state(self) -> NDArray[np.str_]:
        words: NDArray[np.str_] = np.array(engine.STATES)
        return np.asarray(words[self.results["state"]])


def replay(
    replayable: Replayable,
    site: Site,
    *,
    progress: Callable[[int], object] | None = None,
) -> Outcomes:
    """Replay under the site's scheduler, without I/O; progress gets the jobs ended so far."""
    results = engine.run(replayable.workload, site.settings, progress=progress)
    return Outcomes(replayable, results)
