"""How good live predictions were: of all, by program and by user."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sluice.patterns.confidence import calibration_error, reliability
from sluice.prediction.jobs import finished_jobs
from sluice.prediction.requested import Submissions
from sluice.prediction.unlogged import application_of, unlogged_jobs

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Sequence

    from numpy.typing import NDArray

    from sluice.history_db.records import Profile
    from sluice.history_db.store import Store
    from sluice.prediction.jobs import FinishedJob
    from sluice.prediction.outcomes import Predicted

MOST = 20_000
"""Jobs that are scored at most: the newest."""
INTERVALS = ("write_bytes", "read_bytes", "rate", "burst_seconds", "io_share", "runtime_seconds")
WITHIN = ("write_bytes", "read_bytes", "chunk_bytes", "rate", "burst_seconds", "runtime_seconds")


@dataclass(frozen=True, slots=True)
class Score:
    """Of predictions whose jobs have ended. Shares are None where there is nothing to share."""

    jobs: int
    answered: float
    """Share that Sluice was certain enough of to act by; what follows is of those."""
    came_true: float | None
    """Pattern and volume as predicted (outcomes.py)."""
    pattern_right: float | None
    within_2: dict[str, float]
    """By number: share within a factor of two."""
    in_interval: dict[str, float]
    """By number: share within the interval for nine in ten; only where the model tells a spread."""
    brier: float | None
    """Mean square of confidence less outcome of the pattern, of all predictions."""
    calibration_error: float | None


def live_predictions(
    store: Store, *, since: int, uid: int | None = None, most: int = MOST
) -> list[FinishedJob]:
    """Return the jobs of which something was predicted, and that started since and ended.

    uid: of this user alone. Raises HistoryError.
    """
    seen = Submissions(store.joined_decisions(most, uid=uid))
    runs = store.runs(store.run_ids(latest=most, since=since, uid=uid))
    jobs = finished_jobs((run for run in runs if run.job and run.job.end is not None), seen)
    logged = {(job.uid, job.start, job.name) for job in jobs}
    jobs += [
        job
        for job in unlogged_jobs(store, seen, latest=most)
        if job.start >= since and uid in {None, job.uid}
        if (job.uid, job.start, job.name) not in logged
    ]
    return sorted(
        (job for job in jobs if job.predicted is not None), key=lambda job: (job.start, job.logs)
    )


def score(jobs: Sequence[FinishedJob]) -> Score:
    """Score the predictions of jobs, each of which has one."""
    pairs = [(job.predicted, job.profile) for job in jobs if job.predicted is not None]
    taken = [pair for pair in pairs if pair[0].is_answered]
    confidence, right = _verdicts(pairs)
    return Score(
        jobs=len(pairs),
        answered=len(taken) / len(pairs) if pairs else 0.0,
        came_true=_share(p.came_true(did) for p, did in taken),
        pattern_right=_share(p.is_right(did) for p, did in taken),
        within_2=_shares(taken, WITHIN, _is_within_2),
        in_interval=_shares(taken, INTERVALS, lambda p, did, name: p.is_within(did, name)),
        brier=float(((confidence - right) ** 2).mean()) if len(right) else None,
        calibration_error=calibration_error(confidence, right) if len(right) else None,
    )


def report(jobs: Sequence[FinishedJob], names: Callable[[int], str]) -> dict[str, Any]:
    """Return what `sluice model score --json` prints; names gives a user's name."""
    pairs = [(job.predicted, job.profile) for job in jobs if job.predicted is not None]
    confidence, right = _verdicts(pairs)
    return {
        "all": asdict(score(jobs)),
        "reliability": [
            {"said": said, "came_true": true, "jobs": count}
            for said, true, count in reliability(confidence, right)
        ],
        "by_program": [
            {"user": names(uid), "program": program, **asdict(score(group))}
            for (uid, program), group in _grouped(
                jobs, lambda job: application_of(job.uid, job.name)
            )
        ],
        "by_user": [
            {"user": names(uid), **asdict(score(group))}
            for uid, group in _grouped(jobs, lambda job: job.uid)
        ],
    }


def _verdicts(
    pairs: Sequence[tuple[Predicted, Profile]],
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return confidences, and whether the pattern was right, where that is known."""
    known = [(p.confidence, v) for p, did in pairs if (v := p.is_right(did)) is not None]
    return np.array([c for c, _ in known], dtype=float), np.array([v for _, v in known], dtype=bool)


def _grouped(
    jobs: Sequence[FinishedJob], key: Callable[[FinishedJob], Any]
) -> list[tuple[Any, list[FinishedJob]]]:
    """Group jobs by a key, those with most predictions that failed first."""
    groups: dict[Hashable, list[FinishedJob]] = defaultdict(list)
    for job in jobs:
        groups[key(job)].append(job)
    return sorted(groups.items(), key=lambda item: (-_failed(item[1]), -len(item[1]), item[0]))


def _failed(jobs: Sequence[FinishedJob]) -> int:
    return sum(
        job.predicted is not None
        and job.predicted.is_answered
        and job.predicted.came_true(job.profile) is False
        for job in jobs
    )


def _is_within_2(predicted: Predicted, did: Profile, name: str) -> bool | None:
    factor = predicted.factor(did, name)
    return None if factor is None else 0.5 <= factor <= 2.0


def _shares(
    pairs: Sequence[tuple[Predicted, Profile]],
    names: Iterable[str],
    verdict: Callable[[Predicted, Profile, str], bool | None],
) -> dict[str, float]:
    shares = {name: _share(verdict(p, did, name) for p, did in pairs) for name in names}
    return {name: share for name, share in shares.items() if share is not None}


def _share(verdicts: Iterable[bool | None]) -> float | None:
    """Return the share of those that are known."""
    known = [verdict for verdict in verdicts if verdict is not None]
    return sum(known) / len(known) if known else None
