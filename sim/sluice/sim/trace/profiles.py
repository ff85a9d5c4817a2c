"""What the jobs of a replay do to storage: a profile of one of few kinds, and an own I/O share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sluice.sim.storage.contention import loads_of
from sluice.sim.trace.mix import CHECKPOINTING, KINDS, draw_mix

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from sluice.sim.engine import Workload


@dataclass(frozen=True, slots=True)
class Profiles:
    """Of all jobs of a workload, in its order."""

    kinds: tuple[Mapping[str, Any], ...]
    """Members of struct sluice_profile (policies/core/profile.h), `pattern` by its name."""
    kind: NDArray[np.int64]
    """Index into kinds, one a job."""
    io_share: NDArray[np.float64]
    """0..1: share of the run time alone that is I/O, one a job."""
    nodes: tuple[float, ...] = ()
    """Nodes of which processes, rate and metadata rate of each kind are: a job has as many times
    these as it has times the nodes. 0, as where it ends: they are the job's at any size."""
    period: NDArray[np.float64] | None = None
    """Seconds from a burst to the next, one a job; 0 and None: as its kind has it."""

    def loads(self, workload: Workload, config: Any) -> NDArray[Any]:
        """Return a contention.LOAD for each job; config: from `mean_field.configuration`."""
        return loads_of(
            self.kinds,
            kind=self.kind,
            io_share=self.io_share,
            nodes=workload.jobs["slots"],
            runtime=workload.jobs["runtime"],
            config=config,
            period=self.period,
            times=self.times(workload),
        )

    def times(self, workload: Workload) -> NDArray[np.float64]:
        """Return how many times the processes and rates of its kind each job has."""
        nodes = np.array(self.nodes_of_kinds)[self.kind]
        return np.where(nodes > 0, workload.jobs["slots"] / np.maximum(nodes, 1.0), 1.0)

    def number(self, name: str) -> NDArray[np.float64]:
        """Return a number of each job's kind; NaN: unknown."""
        of_kinds = [kind.get(name) for kind in self.kinds]
        return np.array([np.nan if one is None else one for one in of_kinds])[self.kind]

    @property
    def periods(self) -> NDArray[np.float64]:
        """Seconds from a burst to the next, one a job; NaN: unknown."""
        own = np.zeros(len(self.kind)) if self.period is None else self.period
        return np.where(own > 0, own, self.number("period_seconds"))

    @property
    def nodes_of_kinds(self) -> tuple[float, ...]:
        """Return `nodes` for all kinds."""
        return (*self.nodes, *[0.0] * (len(self.kinds) - len(self.nodes)))


def drawn_profiles(
    workload: Workload, *, heavy: float, seed: int = 1, mix: str = CHECKPOINTING
) -> Profiles:
    """Draw profiles of which the share `heavy` is I/O-heavy (docs/reference/replay.md)."""
    drawn = draw_mix(workload.jobs["runtime"], heavy=heavy, seed=seed, mix=mix)
    kinds = tuple({"pattern": kind.pattern, **kind.numbers} for kind in KINDS)
    return Profiles(kinds, drawn.kind, drawn.io_share, (1.0,) * len(kinds), drawn.period)


def no_profiles(jobs: int) -> Profiles:
    """Nobody does any I/O."""
    return Profiles(({"pattern": "none"},), np.zeros(jobs, np.int64), np.zeros(jobs))
