"""I/O profiles for a trace that has none, drawn from a stated mix.

KINDS says what is drawn; docs/reference/replay.md says why. The same seed gives a job the same
profile whatever the share of I/O-heavy jobs is: raising the share only adds heavy jobs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sluice.sim.errors import TraceError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of program; names and units of the numbers: policies/core/profile.h."""

    name: str
    weight: float
    """Its share among the I/O-heavy jobs, or among the others."""
    pattern: str
    io_share: tuple[float, float]
    """Least and most; drawn uniformly between them."""
    numbers: Mapping[str, float]
    """Of a process, or of the job; others are unknown."""


MIB = 2.0**20

HEAVY = (
    Kind("checkpoints in a stream", 0.4, "aw", (0.1, 0.5),
         {"chunk_bytes": 4 * MIB, "bytes_per_flush": 1024 * MIB, "period_seconds": 1800.0}),
    Kind("small synchronous writes", 0.25, "ws", (0.1, 0.4),
         {"chunk_bytes": 64 * 1024.0, "bytes_per_flush": 64 * 1024.0, "period_seconds": 300.0}),
    Kind("a file for each write", 0.2, "owc", (0.05, 0.3),
         {"chunk_bytes": 256 * 1024.0, "bytes_per_flush": 256 * 1024.0, "creates_per_mib": 4.0,
          "period_seconds": 600.0}),
    Kind("metadata", 0.15, "metadata", (0.05, 0.3),
         {"chunk_bytes": 4096.0, "metadata_rate": 2000.0, "period_seconds": 120.0}),
)  # fmt: skip
LIGHT = (
    Kind("nothing that counts", 0.8, "none", (0.0, 0.0), {}),
    Kind("a little output", 0.2, "aw", (0.001, 0.02),
         {"chunk_bytes": MIB, "bytes_per_flush": 64 * MIB, "period_seconds": 3600.0}),
)  # fmt: skip
KINDS = (*HEAVY, *LIGHT)


@dataclass(frozen=True, slots=True)
class Mix:
    """What was drawn, one element a job."""

    kind: NDArray[np.int64]
    """Index into KINDS."""
    io_share: NDArray[np.float64]

    @property
    def is_heavy(self) -> NDArray[np.bool_]:
        return np.asarray(self.kind < len(HEAVY))

    def profile(self, job: int) -> dict[str, Any]:
        """Return what is known of a job's profile, by the names of policies/core/profile.h."""
        kind = KINDS[self.kind[job]]
        share = float(self.io_share[job])
        numbers = dict(kind.numbers)
        if "period_seconds" in numbers:
            numbers["burst_seconds"] = share * numbers["period_seconds"]
        return {"pattern": kind.pattern, "io_share": share, **numbers}


def draw_mix(jobs: int, *, heavy: float, seed: int = 1) -> Mix:
    """Draw a profile for each of so many jobs, of which the share `heavy` is I/O-heavy."""
    if not 0 <= heavy <= 1:
        raise TraceError(f"the share of I/O-heavy jobs is {heavy}; give 0 to 1")
    random = np.random.default_rng(seed)
    is_heavy = random.uniform(size=jobs) < heavy
    which, where = random.uniform(size=jobs), random.uniform(size=jobs)
    kind = np.where(is_heavy, _choose(which, HEAVY), len(HEAVY) + _choose(which, LIGHT))
    low, high = np.array([kind.io_share for kind in KINDS]).T
    return Mix(kind, low[kind] + where * (high - low)[kind])


def _choose(uniform: NDArray[np.float64], kinds: tuple[Kind, ...]) -> NDArray[np.int64]:
    edges = np.cumsum([kind.weight for kind in kinds])
    return np.minimum(np.searchsorted(edges, uniform, side="right"), len(kinds) - 1)
