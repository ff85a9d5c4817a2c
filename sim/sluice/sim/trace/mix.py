"""I/O profiles for a trace that has none, drawn from a named mix.

KINDS says what is drawn; docs/reference/replay.md says why. The same seed gives a job the same
kind of program in each mix, whatever the share of I/O-heavy jobs is: raising it only adds some.
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
    """Least and most; drawn uniformly between them. Of `checkpointing`."""
    numbers: Mapping[str, float]
    """Processes, rate and metadata rate are those of one node; others are unknown."""


MIB = 2.0**20
CHECKPOINTING, SHORT, MEASURED = "checkpointing", "short", "measured"
MIXES = (CHECKPOINTING, SHORT, MEASURED)
"""What decides on the bursts of a job: a period of its kind, a number of its own, a history."""
PROCESSES = 8.0
"""Of a node."""
FLUSHES = 200.0
"""Writes a second of a process that waits for each: the median of the logs in tests/data."""
OPERATIONS = 2000.0
"""Metadata operations a second of a node."""
SHORT_BURSTS = (1, 4)
"""Bursts of an I/O-heavy job, least and most."""
SHORT_SECONDS = (10.0, 60.0)
"""Their length (Boito et al., IPDPS 2025)."""
SHORT_SHARE = 0.5
"""Largest I/O share: a job that is no longer than its bursts also computes."""


def _flushing(chunk_bytes: float) -> dict[str, float]:
    """Return the numbers of programs whose processes wait until each write is answered."""
    return {
        "nprocs": PROCESSES,
        "chunk_bytes": chunk_bytes,
        "bytes_per_flush": chunk_bytes,
        "rate": PROCESSES * FLUSHES * chunk_bytes,
    }


HEAVY = (
    Kind("checkpoints in a stream", 0.4, "aw", (0.1, 0.5),
         {"nprocs": PROCESSES, "chunk_bytes": 4 * MIB, "bytes_per_flush": 1024 * MIB,
          "period_seconds": 1800.0}),
    Kind("small synchronous writes", 0.25, "ws", (0.1, 0.4),
         {**_flushing(64 * 1024.0), "period_seconds": 300.0}),
    Kind("a file for each write", 0.2, "owc", (0.05, 0.3),
         {**_flushing(256 * 1024.0), "creates_per_mib": 4.0, "period_seconds": 600.0}),
    Kind("metadata", 0.15, "metadata", (0.05, 0.3),
         {"nprocs": PROCESSES, "chunk_bytes": 2048.0, "bytes_per_flush": 64 * MIB,
          "rate": OPERATIONS * 2048.0, "metadata_rate": OPERATIONS, "period_seconds": 120.0}),
)  # fmt: skip
LIGHT = (
    Kind("nothing that counts", 0.8, "none", (0.0, 0.0), {}),
    Kind("a little output", 0.2, "aw", (0.001, 0.02),
         {"nprocs": PROCESSES, "chunk_bytes": MIB, "bytes_per_flush": 64 * MIB,
          "period_seconds": 3600.0}),
)  # fmt: skip
KINDS = (*HEAVY, *LIGHT)


@dataclass(frozen=True, slots=True)
class Mix:
    """What was drawn, one element a job."""

    kind: NDArray[np.int64]
    """Index into KINDS."""
    io_share: NDArray[np.float64]
    period: NDArray[np.float64]
    """Seconds; 0: that of its kind."""

    @property
    def is_heavy(self) -> NDArray[np.bool_]:
        return np.asarray(self.kind < len(HEAVY))

    def profile(self, job: int) -> dict[str, Any]:
        """Return what is known of a node of a job, by the names of policies/core/profile.h."""
        kind = KINDS[self.kind[job]]
        share, period = float(self.io_share[job]), float(self.period[job])
        numbers = dict(kind.numbers)
        if period:
            numbers["period_seconds"] = period
        if "period_seconds" in numbers:
            numbers["burst_seconds"] = share * numbers["period_seconds"]
        return {"pattern": kind.pattern, "io_share": share, **numbers}


def draw_mix(
    runtime: NDArray[np.float64], *, heavy: float, seed: int = 1, mix: str = CHECKPOINTING
) -> Mix:
    """Draw a profile for each job, of which the share `heavy` is I/O-heavy.

    runtime: seconds of each alone; mix: `checkpointing` or `short`.
    """
    if not 0 <= heavy <= 1:
        raise TraceError(f"the share of I/O-heavy jobs is {heavy}; give 0 to 1")
    jobs, random = len(runtime), np.random.default_rng(seed)
    is_heavy = random.uniform(size=jobs) < heavy
    which, where = random.uniform(size=jobs), random.uniform(size=jobs)
    kind = np.where(is_heavy, _choose(which, HEAVY), len(HEAVY) + _choose(which, LIGHT))
    low, high = np.array([kind.io_share for kind in KINDS]).T
    share, period = low[kind] + where * (high - low)[kind], np.zeros(jobs)
    if mix == SHORT:
        bursts, seconds = _short_bursts(runtime, random)
        length = np.maximum(runtime, 1.0)
        share = np.where(is_heavy, np.minimum(bursts * seconds / length, SHORT_SHARE), share)
        # A hair less than an equal part, so that so many bursts fit the run time.
        period = np.where(is_heavy, length / bursts * (1 - 1e-9), period)
    return Mix(kind, share, period)


def _short_bursts(
    runtime: NDArray[np.float64], random: np.random.Generator
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Draw how many bursts each job has, and their seconds; a brief job has fewer."""
    seconds = random.uniform(*SHORT_SECONDS, size=len(runtime))
    bursts = random.integers(*SHORT_BURSTS, size=len(runtime), endpoint=True)
    room = np.floor(SHORT_SHARE * runtime / seconds)
    return np.maximum(np.minimum(bursts, room), 1.0), seconds


def _choose(uniform: NDArray[np.float64], kinds: tuple[Kind, ...]) -> NDArray[np.int64]:
    edges = np.cumsum([kind.weight for kind in kinds])
    return np.minimum(np.searchsorted(edges, uniform, side="right"), len(kinds) - 1)
