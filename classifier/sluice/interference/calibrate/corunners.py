"""Which runs had Lustre's targets to themselves, as the logs of others tell.

The bytes of a run count as spread evenly over its time and its targets. What jobs without a log
did is not known.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING

from sluice.interference.calibrate.protocol import MOST_FOREIGN_SHARE

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Sequence

    from sluice.history_db.records import PlacedRun


def without_corunners(runs: Sequence[PlacedRun]) -> list[PlacedRun]:
    """Leave out runs of which other jobs had more than 10 % of the traffic on a target.

    And those of which sluiced saw it, which slow others all the same.
    """
    on_target: dict[Hashable, list[PlacedRun]] = defaultdict(list)
    runs_of_job = Counter(run.job for run in runs)
    for run in runs:
        for ost in run.osts or ():
            on_target[ost].append(run)
            if runs_of_job[run.job] > 1:
                on_target[ost, run.job].append(run)
    traffic = {place: _Traffic(there) for place, there in on_target.items()}
    return [run for run in runs if not run.with_corunners and not _had_corunners(run, traffic)]


def _had_corunners(run: PlacedRun, traffic: dict[Hashable, _Traffic]) -> bool:
    for ost in run.osts or ():
        several = traffic.get((ost, run.job))
        of_job = several.during(run) if several else _rate_on_target(run)
        others = traffic[ost].during(run) - of_job
        own = max(of_job, run.rate / len(run.osts or ()))
        if others > MOST_FOREIGN_SHARE * (others + own):
            return True
    return False


class _Traffic:
    """What runs moved on one target, over time."""

    def __init__(self, runs: Iterable[PlacedRun]) -> None:
        steps: dict[int, float] = defaultdict(float)
        for run in runs:
            rate = _rate_on_target(run)
            steps[run.observed] += rate
            steps[run.observed + _seconds(run)] -= rate
        self._times = sorted(steps)
        self._rates = list(accumulate(steps[time] for time in self._times))
        passed = zip(self._rates, pairwise(self._times), strict=False)
        self._moved = list(accumulate((r * (end - begin) for r, (begin, end) in passed), initial=0))

    def during(self, run: PlacedRun) -> float:
        """B/s on average while a run went on."""
        moved = self._until(run.observed + _seconds(run)) - self._until(run.observed)
        return moved / _seconds(run)

    def _until(self, instant: int) -> float:
        i = bisect_right(self._times, instant) - 1
        return self._moved[i] + self._rates[i] * (instant - self._times[i])


def _rate_on_target(run: PlacedRun) -> float:
    """B/s on each of its targets, over its whole time."""
    return run.moved / len(run.osts or ()) / _seconds(run)


def _seconds(run: PlacedRun) -> int:
    return max(1, run.ended - run.observed)
