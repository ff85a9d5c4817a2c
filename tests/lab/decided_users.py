"""What is decided on jobs of the past, as deployed.

Each is decided on when it was submitted, next to those that ran then, as they were predicted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluice.policies import core
from sluice.policies.record import Situation, decide
from sluice.policies.snapshot import Snapshot, pack_snapshot
from sluice.prediction.backtest import Deployed, walk
from sluice.prediction.jobs import submission_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sluice.policies.bundle import Bundle
    from sluice.policies.record import Record
    from sluice.prediction.jobs import FinishedJob
    from sluice.prediction.score import PastPrediction
    from sluice.prediction.train import Past

MATTERS = 0.02  # of the run time, MinIoShare: what a job spends in I/O that matters


class Deciding(Deployed):
    """Decides on each job that it predicts."""

    def __init__(self, past: Past, known_after: int) -> None:
        super().__init__(past, known_after)
        self.records: dict[tuple[int, ...], Record] = {}
        """By logs of the job."""
        self._present: list[tuple[FinishedJob, Record]] = []

    def bundle_for(self, job: FinishedJob) -> Bundle:
        bundle, now = super().bundle_for(job), job.submit
        self._present = [(other, made) for other, made in self._present if other.end > now]
        state = {"sequence": 1, "taken": now, "running": len(self._present)}
        corunners = [
            {
                "job_id": number,
                "nodes": other.nodes,
                "klass": made.prediction.klass,
                "expected_end": other.end,
                "profile": made.prediction.profile,
            }
            for number, (other, made) in enumerate(self._present, 1)
            if other.start <= now and made.prediction.klass != "none"
        ]
        snapshot = Snapshot.parse(pack_snapshot(state=state, corunners=corunners))
        record = decide(Situation(bundle, snapshot), core.default_config(), submission_of(job), now)
        self.records[job.logs] = record
        self._present.append((job, record))
        return bundle


def walk_deciding(
    past: Past, *, skip: float, known_after: int
) -> tuple[list[PastPrediction], dict[tuple[int, ...], Record]]:
    """Walk as `walk` does; return the predictions, and what was decided by logs of the job."""
    sites: list[Deciding] = []

    def site(past: Past, known_after: int) -> Deciding:
        sites.append(Deciding(past, known_after))
        return sites[0]

    items, _ = walk(past, skip=skip, known_after=known_after, deployed=site)
    return items, sites[0].records


def matters(job: FinishedJob) -> bool:
    return job.profile.numbers.get("io_share", 0.0) >= MATTERS


def is_decided(record: Record) -> bool:
    return record.decision.action != "abstain"


def share_decided(made: Sequence[tuple[FinishedJob, Record]]) -> float | None:
    """Return the share of jobs that Sluice did not abstain from; None where there are none."""
    return sum(is_decided(record) for _, record in made) / len(made) if made else None
