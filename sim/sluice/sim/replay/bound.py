"""What any policy that only moves jobs could gain at most, knowing everything beforehand.

Such a policy delays jobs, lets some run together and gives others lanes of their own; it makes no
storage faster. What jobs lost without it is the most it can recover. Part of that it cannot:
where storage has more to do than time to do it in, some job is slow.

The part is bounded from below for policies that start no job more than max_delay after plain
Slurm did. Relaxed, each in favour of the policy: jobs need no slots; a job's I/O may begin with
its submission, in any order, in pieces of any size, at any rate that the station can do; each
station (targets, links, metadata server) is looked at alone; no job is killed.

Let job j on n_j slots bring w_j seconds of work (1: all of a station) that without loss is done at
e_j = start without a policy + max_delay + run time alone. Then it loses at least n_j times what it
ends later than e_j. Earliest deadline first leaves, at every instant t at once, the least work
undone of those jobs that should be done by t: R(t). Undone work belongs to jobs that are late, and
the fewest slots that R seconds of work can belong to are K(R), a fractional knapsack. So at least
the integral of K(R(t)) over time is lost: slot-seconds. docs/reference/replay.md tells the same in
words.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from sluice.sim.storage.contention import STATIONS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sluice.sim.replay.io_outcomes import IoOutcomes

    Array = NDArray[np.float64]

NOTHING = 0.001
"""Of the slot-hours that ran: a loss below it is none worth a policy."""
SETTLED = 1e-6
"""Seconds of work that are rounding."""


@dataclass(frozen=True, slots=True)
class Bound:
    """What there is to gain on one trace; slot-seconds."""

    lost: float
    """Without a policy."""
    forced: float
    """Lost at least, whatever the policy."""
    station: str
    """Which station forces it; empty: none does."""
    max_delay: float
    """Seconds: no job starts later than that after its start without a policy."""
    ran: float
    """Slot-seconds of all runs."""

    @property
    def gain(self) -> float:
        """What perfect knowledge could recover at most."""
        return max(0.0, self.lost - self.forced)

    @property
    def is_anything_to_gain(self) -> bool:
        return self.gain > NOTHING * self.ran

    def share(self, lost: float) -> float | None:
        """Return which share of the gain a policy got that lost so much; None: nothing there."""
        return (self.lost - lost) / self.gain if self.is_anything_to_gain else None


def bound(plain: IoOutcomes, shares: NDArray[np.float64], *, max_delay: float) -> Bound:
    """Bound the gain over a replay without a policy.

    shares: of the same jobs, from `contention.station_shares`.
    """
    jobs, results = plain.replayable.workload.jobs, plain.results
    counted = np.isin(plain.state, ("completed", "failed")) & (plain.io_seconds_alone > 0)
    slots = jobs["slots"][counted].astype(np.float64)
    released = jobs["submit"][counted].astype(np.float64)
    due = results["start"][counted] + max_delay + plain.alone[counted]
    forced, station = max(
        (_forced(slots, released, due, work * plain.io_seconds_alone[counted]), name)
        for name, work in zip(STATIONS, shares[counted].T, strict=True)
    )
    return Bound(
        lost=float(plain.lost_slot_seconds.sum()),
        forced=forced,
        station=station if forced > 0 else "",
        max_delay=max_delay,
        ran=float(np.nansum(plain.runtime * jobs["slots"])),
    )


def _forced(slots: Array, released: Array, due: Array, work: Array) -> float:
    """Return slot-seconds that one station forces upon jobs with so many seconds of work."""
    some = work > 0
    if not some.any():
        return 0.0
    slots, released, due, work = slots[some], released[some], due[some], work[some]
    late = late_work(released, due, work)
    return _Knapsack(slots, work).integral_over(late) if late else 0.0


def late_work(released: Array, due: Array, work: Array) -> list[tuple[float, float]]:
    """Return (deadline, work then undone) of the jobs that miss theirs, earliest deadline first.

    One station that does a second of work a second, and may leave a job for another at any time.
    """
    order = np.argsort(released, kind="stable").tolist()
    release, deadline, left = released.tolist(), due.tolist(), work.tolist()
    waiting: list[tuple[float, int]] = []
    late: dict[int, float] = {}
    ends = [release[job] for job in order[1:]] + [np.inf]
    for job, until in zip(order, ends, strict=True):
        now = release[job]
        heapq.heappush(waiting, (deadline[job], job))
        while waiting and now < until:
            due_at, first = waiting[0]
            end = min(until, now + left[first])
            if now <= due_at < end:
                late[first] = left[first] - (due_at - now)
            elif due_at < now and first not in late:
                late[first] = left[first]
            left[first] -= end - now
            now = end
            if left[first] <= SETTLED:
                heapq.heappop(waiting)
    return sorted((deadline[job], undone) for job, undone in late.items() if undone > SETTLED)


class _Knapsack:
    """The fewest slots that so much undone work can belong to."""

    def __init__(self, slots: Array, work: Array) -> None:
        order = np.argsort(slots / work, kind="stable")
        self._work = np.concatenate([[0.0], np.cumsum(work[order])])
        self._slots = np.concatenate([[0.0], np.cumsum(slots[order])])
        steps = np.diff(self._work) * (self._slots[1:] + self._slots[:-1]) / 2
        self._area = np.concatenate([[0.0], np.cumsum(steps)])

    def integral_over(self, late: list[tuple[float, float]]) -> float:
        """Integrate the slots over time, while the undone work is worked off."""
        undone = lost = 0.0
        for (now, more), (then, _) in pairwise([*late, (np.inf, 0.0)]):
            undone += more
            after = max(0.0, undone - (then - now))
            lost += self._below(undone) - self._below(after)
            undone = after
        return lost

    def _below(self, work: float) -> float:
        """Area under the slots from no work to this much."""
        work = min(work, float(self._work[-1]))
        at = min(int(np.searchsorted(self._work, work, side="right")), len(self._work) - 1) - 1
        part = work - self._work[at]
        slope = (self._slots[at + 1] - self._slots[at]) / (self._work[at + 1] - self._work[at])
        return float(self._area[at] + part * self._slots[at] + slope * part * part / 2)
