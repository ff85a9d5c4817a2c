"""What one replay under a policy comes to, and what any policy could gain at most.

What any policy that only moves jobs could gain at most, knowing everything beforehand. Such a
policy delays jobs, lets some run together and gives others lanes of their own; it makes no storage
faster. What jobs lost without it is the most it can recover. Part of that it cannot: where storage
has more to do than time to do it in, some job is slow.

The part is bounded from below for policies that start no job more than max_delay after plain Slurm
did. Relaxed, each in favour of the policy: jobs need no slots; a job's I/O may begin with its
submission, in any order, in pieces of any size, at any rate that the station can do; each station
(targets, links, metadata server) is looked at alone; no job is killed.

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
from typing import TYPE_CHECKING, Any

import numpy as np

from sluice.sim.replay import report
from sluice.sim.storage.mean_field import STATIONS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sluice.sim.replay.io_replay import IoOutcomes

    Array = NDArray[np.float64]
    Figures = dict[str, float | None]


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


MOVED = 1.0
"""Seconds by which a start must differ to count as moved."""


@dataclass(frozen=True, slots=True)
class Meaning:
    """What a figure says."""

    title: str
    unit: str
    """hours (of slots), seconds, share, times or jobs."""


FIGURES = {
    "lost_slot_hours": Meaning("slot-hours lost to interference, confinement and kills", "hours"),
    "lost_share": Meaning("the same, of all that ran", "share"),
    "killed_slot_hours": Meaning("of these, work of jobs killed at their limit", "hours"),
    "stream_lost_slot_hours": Meaning("of these, by jobs that stream", "hours"),
    "saved_slot_hours": Meaning("slot-hours saved", "hours"),
    "predicted_slot_hours": Meaning("slot-hours that were predicted to be saved", "hours"),
    "share_of_bound": Meaning("share of the bound recovered", "share"),
    "io_slowdown_mean": Meaning("slowdown of jobs with I/O, mean", "times"),
    "io_slowdown_p99": Meaning("slowdown of jobs with I/O, p99", "times"),
    "io_slowdown_max": Meaning("slowdown of jobs with I/O, largest", "times"),
    "wait_mean_s": Meaning("wait, mean", "seconds"),
    "wait_median_s": Meaning("wait, median", "seconds"),
    "wait_p99_s": Meaning("wait, p99", "seconds"),
    "wait_max_s": Meaning("wait, longest", "seconds"),
    "bounded_slowdown_mean": Meaning("bounded slowdown, mean", "times"),
    "bounded_slowdown_p99": Meaning("bounded slowdown, p99", "times"),
    "makespan_s": Meaning("makespan", "seconds"),
    "utilisation": Meaning("utilisation", "share"),
    "killed_jobs": Meaning("jobs killed at their limit", "jobs"),
    "held_jobs": Meaning("jobs that the policy delayed", "jobs"),
    "held_mean_s": Meaning("delayed, mean of those", "seconds"),
    "held_p99_s": Meaning("delayed, p99 of those", "seconds"),
    "held_max_s": Meaning("delayed, longest", "seconds"),
    "held_slot_hours": Meaning("slot-hours delayed", "hours"),
    "behind_later_jobs": Meaning("untouched jobs that started later", "jobs"),
    "behind_later_mean_s": Meaning("later, mean of those", "seconds"),
    "behind_later_p99_s": Meaning("later, p99 of those", "seconds"),
    "behind_later_max_s": Meaning("later, longest", "seconds"),
    "behind_earlier_jobs": Meaning("untouched jobs that started earlier", "jobs"),
    "behind_shift_mean_s": Meaning("start of untouched jobs moved by, mean", "seconds"),
}
"""In the order in which they are shown. Untouched: never delayed, and on no lane of its own."""

GROUPS = ("user", "partition", "size")
"""Groups of jobs that a policy may favour or burden."""


def figures(
    outcomes: IoOutcomes, plain: IoOutcomes, bound: Bound, is_stream: NDArray[np.bool_]
) -> Figures:
    """Return FIGURES; plain: the same jobs and storage without a policy. None: no job.

    is_stream: which jobs stream.
    """
    totals = report.totals(outcomes)
    lost = float(outcomes.lost_slot_seconds.sum())
    predicted = outcomes.predicted_slot_seconds
    found: Figures = {
        "lost_slot_hours": lost / 3600,
        "lost_share": lost / bound.ran if bound.ran else None,
        "killed_slot_hours": float(outcomes.killed_slot_seconds.sum()) / 3600,
        "stream_lost_slot_hours": float(outcomes.lost_slot_seconds[is_stream].sum()) / 3600,
        "saved_slot_hours": (bound.lost - lost) / 3600,
        "predicted_slot_hours": None
        if np.isnan(predicted).any()
        else float(predicted.sum()) / 3600,
        "share_of_bound": bound.share(lost),
        "wait_mean_s": totals["wait_s"]["mean"],
        "wait_median_s": totals["wait_s"]["median"],
        "wait_p99_s": totals["wait_s"]["p99"],
        "wait_max_s": totals["wait_s"]["max"],
        "bounded_slowdown_mean": totals["bounded_slowdown"]["mean"],
        "bounded_slowdown_p99": totals["bounded_slowdown"]["p99"],
        "makespan_s": totals["makespan_s"],
        "utilisation": totals["utilisation"],
        "killed_jobs": float(totals["states"].get("timeout", 0)),
        **_slowdowns(outcomes),
        **_held(outcomes),
        **_behind(outcomes, plain),
    }
    return {name: found[name] for name in FIGURES}


def _slowdowns(outcomes: IoOutcomes) -> Figures:
    found = report.spread(outcomes.job_slowdown[has_io(outcomes)])
    return {f"io_slowdown_{name}": found[name] for name in ("mean", "p99", "max")}


def has_io(outcomes: IoOutcomes) -> NDArray[np.bool_]:
    """Whether a job ran and wrote or read."""
    return np.asarray(outcomes.ran & (outcomes.io_seconds_alone > 0))


def _held(outcomes: IoOutcomes) -> Figures:
    slots = outcomes.replayable.workload.jobs["slots"]
    is_held = outcomes.ran & (outcomes.choices["held"] > 0)
    held = outcomes.delay[is_held]
    return {
        "held_jobs": float(is_held.sum()),
        **_tail("held", held),
        "held_slot_hours": float(np.sum(held * slots[is_held])) / 3600,
    }


def _behind(outcomes: IoOutcomes, plain: IoOutcomes) -> Figures:
    """Say what became of jobs that the policy did not touch: those behind the ones it did."""
    untouched = outcomes.ran & plain.ran & ~outcomes.is_touched
    shift = (outcomes.results["start"] - plain.results["start"])[untouched]
    later = shift[shift > MOVED]
    return {
        "behind_later_jobs": float(len(later)),
        **_tail("behind_later", later),
        "behind_earlier_jobs": float((shift < -MOVED).sum()),
        "behind_shift_mean_s": float(shift.mean()) if len(shift) else None,
    }


def _tail(name: str, seconds: Array) -> Figures:
    found = report.spread(seconds)
    return {f"{name}_{which}_s": found[which] for which in ("mean", "p99", "max")}


def fairness(outcomes: IoOutcomes, plain: IoOutcomes, what: str) -> list[dict[str, Any]]:
    """Return gains and losses by one of GROUPS: those with most jobs first, sizes in order.

    Waits are means in seconds, losses slot-hours.
    """
    wait, wait_plain, held = outcomes.wait, plain.wait, outcomes.delay
    lost, lost_plain = outcomes.lost_slot_seconds, plain.lost_slot_seconds
    return [
        {
            what: name,
            "jobs": int(own.sum()),
            "wait_mean_s": float(wait[own].mean()),
            "wait_plain_mean_s": float(wait_plain[own].mean()),
            "held_mean_s": float(held[own].mean()),
            "held_max_s": float(held[own].max()),
            "lost_slot_hours": float(lost[own].sum()) / 3600,
            "lost_plain_slot_hours": float(lost_plain[own].sum()) / 3600,
        }
        for name, own in report.members(outcomes, what, outcomes.ran & plain.ran)
    ]
