"""Predicts the past of a history, as deployment would have.

A run is known a little after it ended, as sluice-learn polls; each job is predicted from the runs
that were known when it was submitted. What the past shows of predictions is looked at anew when the
history has grown by a tenth, as when a model is fitted. Nothing is ever learned from the future.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from sluice.prediction.applications import GrowingTable
from sluice.prediction.evidence_levels import keys_of
from sluice.prediction.hindsight import Hindsight, hindsight_of
from sluice.prediction.score import Yardsticks, ended_before, predict_one
from sluice.prediction.train import TrainedModel, bundle_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from sluice.policies.bundle import Bundle
    from sluice.prediction.applications import Learned, Place
    from sluice.prediction.jobs import FinishedJob
    from sluice.prediction.score import PastPrediction
    from sluice.prediction.train import Past

KNOWN_AFTER = 60
"""Seconds from the end of a run until it is learned from: LearnInterval, unless a site sets it."""
GROWN, MIN_GROWN = 0.1, 40
"""By this share and so many jobs the history grows until hindsight is taken anew."""


class NothingToPredictError(Exception):
    """No run of the past ended before another one was submitted."""


def walk(
    past: Past,
    *,
    skip: float,
    known_after: int = KNOWN_AFTER,
    advance: Callable[[int], object] = lambda _: None,
    deployed: type[Deployed] | None = None,
) -> tuple[list[PastPrediction], list[FinishedJob]]:
    """Walk through a history: predict each job when it was submitted, learn from it when it ended.

    skip: the share of the runs that are only learned from. advance gets how many runs more are done
    with. deployed: what learns, where that is not Sluice as it is. Returns the predictions, and the
    jobs that were known at the end. Raises NothingToPredictError.
    """
    ordered = sorted(past.jobs, key=lambda job: (job.submit, job.logs))
    begin = int(len(ordered) * skip)
    advance(begin)
    site = (deployed or Deployed)(past, known_after)
    items: list[PastPrediction] = []
    for job in ordered[begin:]:
        site.move_to(job.submit)
        if site.known:
            items.append(predict_one(site.bundle_for(job), job, site.yardsticks))
        advance(1)
    if not items:
        raise NothingToPredictError(
            "no run ended before another was submitted, so none can be predicted from the past; "
            "read more with `sluice history ingest PATH…`"
        )
    return items, site.known


class Deployed:
    """What is known at a moment of the past."""

    def __init__(self, past: Past, known_after: int) -> None:
        self.yardsticks = Yardsticks()
        self._ended = sorted(past.jobs, key=lambda job: (job.end, job.logs))
        self._silent = past.silent
        self._known_after = known_after
        self._known = self._looked_back = 0
        self._table = GrowingTable([], [], Hindsight())
        self._entries: dict[Place, dict[float, list[Learned]]] = defaultdict(dict)

    @property
    def known(self) -> list[FinishedJob]:
        return self._ended[: self._known]

    def move_to(self, moment: int) -> None:
        """Learn from what is known by then."""
        while self._known < len(self._ended):
            job = self._ended[self._known]
            if job.end + self._known_after > moment:
                break
            self._known += 1
            self.yardsticks.add(job)
            for place in self._table.add(job):
                self._entries.pop(place, None)
        is_first = self._known > 0 and self._looked_back == 0
        if is_first or self._known - self._looked_back >= max(MIN_GROWN, GROWN * self._known):
            self._looked_back = self._known
            silent = ended_before(self._silent, moment)
            self._table = GrowingTable(self.known, silent, self.look_back(self.known))
            self._entries.clear()

    def look_back(self, jobs: list[FinishedJob]) -> Hindsight:
        return hindsight_of(jobs)

    def entries_for(self, job: FinishedJob) -> list[Learned]:
        """Return the entries that a job may be predicted by."""
        entries: list[Learned] = []
        for place in keys_of(job):
            known = self._entries[place]
            if job.size not in known:
                known[job.size] = self._table.entries(place, {job.size})
            entries += known[job.size]
        return entries

    def bundle_for(self, job: FinishedJob) -> Bundle:
        hindsight = {"ageing": self._table.hindsight.ageing}
        return bundle_of(TrainedModel(tuple(self.entries_for(job)), {"hindsight": hindsight}))
