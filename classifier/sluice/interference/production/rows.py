"""The slices of an application's runs as rows, and how they might have lain under others' I/O.

Shuffled histories come in blocks of columns, a hundred thousand numbers at a time: an application
with ten thousand runs needs no more memory for a thousand shuffled histories than for ten.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from sluice.interference.production.timeline import Slices, Timeline

    Array = NDArray[np.float64]

BLOCK = 1 << 17  # numbers in a block, which a cache holds


@dataclass(frozen=True, slots=True)
class Run:
    """A run that tells its rate, and what it met."""

    timeline: Timeline
    slices: Slices
    under: Mapping[str, Array]
    """Application → (bins): the share of each bin under its I/O."""


class Rows:
    """All slices of the runs of one application, run by run."""

    def __init__(self, runs: Sequence[Run]) -> None:
        self._runs = runs
        self.groups = Groups([len(run.slices) for run in runs])
        self.log_rate = np.concatenate([run.slices.log_rate for run in runs])
        self.size = np.array([run.timeline.processes for run in runs])
        """Processes of each run."""
        self.aggressors = sorted({name for run in runs for name in run.under})
        self.shares = np.zeros((len(self.log_rate), len(self.aggressors)))
        """(rows, aggressors): the share of each slice under each of them."""
        column = {name: i for i, name in enumerate(self.aggressors)}
        for first, run in zip(self.groups.first, runs, strict=True):
            for name, under in run.under.items():
                rows = slice(first, first + len(run.slices))
                self.shares[rows, column[name]] = run.slices.mean(under)

    def __len__(self) -> int:
        return len(self.log_rate)

    def met(self, aggressor: str) -> NDArray[np.bool_]:
        """Tell of each row whether its run met the aggressor."""
        return self.groups.repeat(np.array([aggressor in run.under for run in self._runs]))

    def turned(self, aggressor: str, turns: int, rng: np.random.Generator) -> Iterator[Array]:
        """Yield (rows that met it, some turns): shares under its I/O, turned against each run.

        Less the mean of the run. All other rows lie clear of it, however it is turned.
        """
        runs = [run for run in self._runs if aggressor in run.under]
        # Over two rounds of a run's bins, a slice that is turned past the end is one piece.
        twice = [np.tile(run.under[aggressor], 2) for run in runs]
        sums = np.concatenate([np.concatenate([[0.0], np.cumsum(one)]) for one in twice])
        begin = Groups([len(one) + 1 for one in twice]).first
        rows = Groups([len(run.slices) for run in runs])
        first = np.concatenate([run.slices.first for run in runs])
        width = np.concatenate([run.slices.end for run in runs]) - first
        first = first + rows.repeat(begin)
        bins = np.array([len(run.timeline.moved) for run in runs])
        for count in blocks(len(first), turns):
            by = rng.integers(1, np.maximum(2, bins), (count, len(runs))) % bins
            start = first[:, None] + rows.repeat(by.T)
            yield rows.centred((sums[start + width[:, None]] - sums[start]) / width[:, None])


class Groups:
    """Rows that lie group by group."""

    def __init__(self, lengths: Sequence[int] | NDArray[np.intp]) -> None:
        self._lengths = np.asarray(lengths)
        self.first = np.cumsum(self._lengths) - self._lengths
        """Row each group begins with; none is empty."""

    def repeat(self, values: NDArray[Any]) -> NDArray[Any]:
        """Give each row what its group has: (groups, …) to (rows, …)."""
        return np.repeat(values, self._lengths, axis=0)

    def mean(self, values: Array) -> Array:
        """Average (rows, …) over each group."""
        sums: Array = np.add.reduceat(values, self.first, axis=0)
        means: Array = sums.T / self._lengths
        return means.T

    def centred(self, values: Array) -> Array:
        """Leave of each row what differs from the mean of its group."""
        centred: Array = values - self.repeat(self.mean(values))
        return centred

    def exchanged(self, values: Array, turns: int, rng: np.random.Generator) -> Iterator[Array]:
        """Yield (rows, some turns): values exchanged at random within each group, centred."""
        for count in blocks(len(values), turns):
            groups = np.split(np.tile(values[:, None], count), self.first[1:])
            yield self.centred(np.concatenate([rng.permuted(one, axis=0) for one in groups]))


def blocks(rows: int, columns: int) -> Iterator[int]:
    """Split columns into blocks of at most BLOCK numbers."""
    most = max(1, BLOCK // rows)
    while columns > 0:
        yield min(most, columns)
        columns -= most
