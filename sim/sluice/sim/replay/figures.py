"""What one replay under a policy comes to, alongside the same replay without one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sluice.sim.replay import report

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sluice.sim.replay.bound import Bound
    from sluice.sim.replay.io_outcomes import IoOutcomes

    Array = NDArray[np.float64]
    Figures = dict[str, float | None]

MOVED = 1.0
"""Seconds by which a start must differ to count as moved."""


@dataclass(frozen=True, slots=True)
class Meaning:
    """What a figure says."""

    title: str
    unit: str
    """hours (of slots), seconds, share, times or jobs."""


FIGURES = {
    "lost_slot_hours": Meaning("slot-hours lost to interference and confinement", "hours"),
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
"""Whom a policy may favour or burden."""


def figures(outcomes: IoOutcomes, plain: IoOutcomes, bound: Bound) -> Figures:
    """Return FIGURES; plain: the same jobs and storage without a policy. None: no job."""
    totals = report.totals(outcomes)
    lost = float(outcomes.lost_slot_seconds.sum())
    found: Figures = {
        "lost_slot_hours": lost / 3600,
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


def is_touched(outcomes: IoOutcomes) -> NDArray[np.bool_]:
    """Whether the policy kept a job back or put it on lanes of its own."""
    return np.asarray((outcomes.choices["held"] > 0) | (outcomes.choices["lane_mask"] != 0))


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
    untouched = outcomes.ran & plain.ran & ~is_touched(outcomes)
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
    """Return who gains and who pays, by one of GROUPS: those with most jobs first, sizes in order.

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
