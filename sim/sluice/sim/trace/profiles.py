"""What the jobs of a replay do to storage: a profile of one of few kinds, and an own I/O share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sluice.sim.storage.contention import loads_of
from sluice.sim.trace.mix import KINDS, Mix, draw_mix

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

    def loads(self, workload: Workload, config: Any) -> NDArray[Any]:
        """Return a contention.LOAD for each job; config: from `world.configuration`."""
        return loads_of(
            self.kinds,
            kind=self.kind,
            io_share=self.io_share,
            nodes=workload.jobs["slots"],
            runtime=workload.jobs["runtime"],
            config=config,
        )


def profiles_of_mix(mix: Mix) -> Profiles:
    kinds = tuple({"pattern": kind.pattern, **kind.numbers} for kind in KINDS)
    return Profiles(kinds, mix.kind, mix.io_share)


def drawn_profiles(jobs: int, *, heavy: float, seed: int = 1) -> Profiles:
    """Draw profiles of which the share `heavy` is I/O-heavy (docs/reference/replay.md)."""
    return profiles_of_mix(draw_mix(jobs, heavy=heavy, seed=seed))


def no_profiles(jobs: int) -> Profiles:
    """Nobody does any I/O."""
    return Profiles(({"pattern": "none"},), np.zeros(jobs, np.int64), np.zeros(jobs))
