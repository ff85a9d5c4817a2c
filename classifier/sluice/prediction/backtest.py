"""Predicts the past of a history, as deployment would have.

A model learns from what had ended by a moment, and predicts what was submitted afterwards; then the
moment moves on. Nothing is ever learned from the future, and nothing is shuffled.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sluice.prediction.score import ended_before, predict_past
from sluice.prediction.train import bundle_of, fit_quickly

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from sluice.prediction.jobs import FinishedJob
    from sluice.prediction.score import PastPrediction
    from sluice.prediction.train import Past, SubmitModel

FORESTS_EVERY = 8  # steps: they take longest to fit, and change least


class NothingToPredictError(Exception):
    """No run of the past ended before another one was submitted."""


def walk(
    past: Past, *, days: float, skip: float, advance: Callable[[int], object] = lambda _: None
) -> tuple[list[PastPrediction], list[FinishedJob]]:
    """Walk through a history: learn from what had ended, predict the next `days`, move on.

    skip: the share of the runs that are only learned from. advance gets how many runs of all are
    done with. Returns the predictions, and the jobs that the last model had learned from. Raises
    NothingToPredictError.
    """
    items: list[PastPrediction] = []
    earlier: list[FinishedJob] = []
    forests: SubmitModel | None = None
    advance(int(len(past.jobs) * skip))
    for step, (ended, submitted) in enumerate(steps_of(past.jobs, days=days, skip=skip)):
        if ended:
            silent = ended_before(past.silent, submitted[0].submit)
            kept = None if step % FORESTS_EVERY == 0 else forests
            model, _ = fit_quickly(ended, kept, silent=silent)
            forests, earlier = model.forests, ended
            items += predict_past(bundle_of(model), submitted)
        advance(len(submitted))
    if not items:
        raise NothingToPredictError(
            "no run ended before another was submitted, so none can be predicted from the past; "
            "read more with `sluice history ingest PATH…`"
        )
    return items, earlier


def steps_of(
    jobs: Sequence[FinishedJob], *, days: float, skip: float
) -> Iterator[tuple[list[FinishedJob], list[FinishedJob]]]:
    """Yield (what had ended, what was submitted next), moving on by so many days.

    The first `skip` of the jobs are only learned from.
    """
    ordered = sorted(jobs, key=lambda job: (job.submit, job.logs))
    at = int(len(ordered) * skip)
    submits = [job.submit for job in ordered]
    while at < len(ordered):
        moment = submits[at]
        stop = int(np.searchsorted(submits, moment + days * 86400))
        yield ended_before(ordered, moment), ordered[at:stop]
        at = stop
