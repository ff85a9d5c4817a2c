"""Whether a new model is better than the one in use: the newest runs decide.

The model in use has not seen what came after its training. Half of that is given to the new one
to learn from, and both predict the other half. The new one is worse if its squared error is
larger by more than chance would have it. Then the old one stays: runs that were read wrongly or
a week of failing jobs must not make decisions worse.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sluice.prediction.backtest import PastPrediction, ended_before, predict_past
from sluice.prediction.train import MOST_TESTED, TrainedModel, bundle_of, fit_quickly

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from sluice.history_db.records import Model
    from sluice.prediction.jobs import FinishedJob

MIN_NEW = 40  # jobs since the old model's training; with fewer nothing can be told


@dataclass(frozen=True, slots=True)
class Comparison:
    """The model in use against a new one, on the newest jobs."""

    model: int
    """The one in use."""
    jobs: int
    old_brier: float
    """Mean square of confidence less outcome."""
    new_brier: float
    error: float
    """Standard error of their difference."""

    @property
    def keeps_old(self) -> bool:
        return self.new_brier - self.old_brier > self.error


def compare(in_use: Model, jobs: Sequence[FinishedJob]) -> Comparison | None:
    """Let both models predict the newest jobs; None if there are too few new ones."""
    old = TrainedModel.from_bytes(in_use.content)
    until = old.metrics.get("until", in_use.created)
    ordered = sorted(jobs, key=lambda job: (job.submit, job.logs))
    new = [job for job in ordered if job.submit > int(str(until))]
    if len(new) < MIN_NEW:
        return None
    tested = new[len(new) // 2 :][:MOST_TESTED]
    model, _ = fit_quickly(ended_before(ordered, tested[0].submit), asked=tested)
    old_squares = _squares(predict_past(bundle_of(old), tested))
    new_squares = _squares(predict_past(bundle_of(model), tested))
    return Comparison(
        model=in_use.id,
        jobs=len(tested),
        old_brier=float(old_squares.mean()),
        new_brier=float(new_squares.mean()),
        error=float(np.std(new_squares - old_squares) / np.sqrt(len(tested))),
    )


def _squares(items: Sequence[PastPrediction]) -> NDArray[np.float64]:
    return np.array([(item.confidence - item.is_right) ** 2 for item in items])
