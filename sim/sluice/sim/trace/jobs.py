"""Jobs as a trace tells them, whatever its format: one numpy column a fact.

Nothing is repaired here: what a trace does not say is NaN, -1 or UNKNOWN. repairs.py makes a
workload of it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray


class JobEnd(IntEnum):
    """How a job ended, as the trace says."""

    UNKNOWN = -1
    FAILED = 0
    COMPLETED = 1
    PARTIAL = 2
    """A piece of a job that another line tells whole (SWF status 2 to 4)."""
    CANCELLED = 5
    TIMEOUT = 6


@dataclass(frozen=True, slots=True)
class BadLine:
    """A line of the file that was passed over."""

    number: int
    reason: str


@dataclass(frozen=True, slots=True)
class Trace:
    """Columns of equal length, in the order of the file."""

    name: str
    """Of the file, for messages."""
    job_id: NDArray[np.int64]
    submit: NDArray[np.float64]
    """Seconds since `epoch`, like begin and start."""
    runtime: NDArray[np.float64]
    limit: NDArray[np.float64]
    """Seconds asked for."""
    slots: NDArray[np.int64]
    """Processors, or nodes: what `slot` says."""
    slot: str = "processor"
    begin: NDArray[np.float64] | None = None
    """When it became eligible."""
    start: NDArray[np.float64] | None = None
    """When it really started."""
    outcome: NDArray[np.int8] | None = None
    """JobEnd."""
    user: NDArray[np.int64] | None = None
    """Index into users; -1: unknown. So account and partition."""
    account: NDArray[np.int64] | None = None
    partition: NDArray[np.int64] | None = None
    users: Sequence[str] = ()
    accounts: Sequence[str] = ()
    partitions: Sequence[str] = ()
    after: NDArray[np.int64] | None = None
    """Id of a job that must end before this one is submitted; -1: none."""
    think_time: NDArray[np.float64] | None = None
    """Seconds from that end."""
    epoch: float = 0.0
    """UTC seconds of time 0."""
    machine_slots: int = 0
    """What the machine had, as the trace says; 0: it does not."""
    max_limit: float = np.nan
    """The longest run time that was allowed, in seconds."""
    header: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """What the file says of itself, by field."""
    bad_lines: tuple[BadLine, ...] = ()
    bad_line_count: int = 0

    def __len__(self) -> int:
        return len(self.job_id)


def codes(names: Iterable[str | None]) -> tuple[NDArray[np.int64], list[str]]:
    """Return a number for each name, and the names; None and the empty name are -1."""
    known: dict[str, int] = {}
    numbers = [known.setdefault(name, len(known)) if name else -1 for name in names]
    return np.array(numbers, np.int64), list(known)


def numbered(values: NDArray[np.float64]) -> tuple[NDArray[np.int64], list[str]]:
    """Return the same for numbers that stand for names; negative ones are unknown."""
    known, index = np.unique(values[values >= 0], return_inverse=True)
    numbers = np.full(len(values), -1, np.int64)
    numbers[values >= 0] = index
    return numbers, [f"{name:g}" for name in known]
