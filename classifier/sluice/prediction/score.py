"""Scores of predictions, of the past (`backtest.py`) and live ones."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sluice.patterns.classifier import calibration_error, reliability
from sluice.policies import core
from sluice.prediction.applications import VOLUME
from sluice.prediction.jobs import application_of, finished_jobs, submission_of, unlogged_jobs
from sluice.prediction.submission_features import Submissions

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Sequence

    from numpy.typing import NDArray

    from sluice.history_db.records import Profile
    from sluice.history_db.store import Store
    from sluice.policies.bundle import Bundle
    from sluice.policies.core import View
    from sluice.prediction.jobs import FinishedJob
    from sluice.prediction.submission_features import Predicted


BINS = 10  # of the expected calibration error


@dataclass(frozen=True, slots=True)
class PastPrediction:
    """A job of the past, and what was predicted of it."""

    job: FinishedJob
    prediction: View

    @property
    def is_right(self) -> bool:
        return bool(self.prediction.profile.pattern == self.job.profile.pattern)

    @property
    def is_own(self) -> bool:
        return core.is_own(self.prediction)

    @property
    def confidence(self) -> float:
        return float(self.prediction.profile.confidence)

    def octaves_off(self, name: str) -> float | None:
        """|log2| of predicted over true; None where either is unknown or nothing."""
        said, true = getattr(self.prediction.profile, name), self.job.profile.numbers.get(name)
        return abs(math.log2(said / true)) if said and true else None

    def is_flagged(self, name: str) -> bool:
        """Whether its spread says that a number may be off by more than a factor of two."""
        return float(self.prediction.profile.spread.get(name, math.inf)) > core.WIDE


@dataclass(frozen=True, slots=True)
class Score:
    """How well jobs were predicted. Shares are None where there is nothing to share."""

    jobs: int
    accuracy: float
    """Of the best guesses, however uncertain."""
    answered: float
    """Share of the jobs for which it was certain enough not to abstain, by the user's own runs."""
    accuracy_answered: float | None
    brier: float
    """Mean square of confidence less outcome."""
    calibration_error: float
    """Expected calibration error, in ten bins of equal width."""
    chunk_within_2: float | None
    """Of the answered ones: share whose chunk is right within a factor of two."""
    bytes_within_2: float | None
    """Likewise of the bytes written."""
    rate_within_2: float | None
    burst_within_2: float | None
    bytes_flagged: float | None
    """Of the answered ones whose bytes are off by more: share whose spread had said so."""
    flagged: float | None
    """Of all answered ones: share whose spread says so of the bytes."""
    baseline: str
    """The pattern that was commonest before."""
    baseline_accuracy: float


def ended_before(jobs: Sequence[FinishedJob], time: int) -> list[FinishedJob]:
    return [job for job in jobs if job.end <= time]


def predict_past(bundle: Bundle, jobs: Sequence[FinishedJob]) -> list[PastPrediction]:
    return [PastPrediction(job, bundle.predict(submission_of(job), job.submit)) for job in jobs]


def scores(
    items: Sequence[PastPrediction],
    earlier: Sequence[FinishedJob],
    label: Callable[[PastPrediction], str],
) -> dict[str, Score]:
    """Score the predictions of each label apart; `earlier` as `walk` returns it."""
    groups: dict[str, list[PastPrediction]] = defaultdict(list)
    for item in items:
        groups[label(item)].append(item)
    return {name: judge(groups[name], earlier) for name in sorted(groups)}


def judge(items: Sequence[PastPrediction], earlier: Sequence[FinishedJob]) -> Score:
    """Score predictions; `earlier` is what the model had learned from. There must be some."""
    threshold = core.default_config().policy.min_confidence
    right = np.array([item.is_right for item in items])
    confidence = np.array([item.confidence for item in items])
    answered = (confidence >= threshold) & np.array([item.is_own for item in items])
    taken = [item for item, is_taken in zip(items, answered, strict=True) if is_taken]
    patterns = Counter(job.profile.pattern for job in earlier)
    commonest = max(sorted(patterns), key=lambda name: patterns[name], default=core.UNKNOWN)
    return Score(
        jobs=len(items),
        accuracy=float(right.mean()),
        answered=float(answered.mean()),
        accuracy_answered=float(right[answered].mean()) if answered.any() else None,
        brier=float(((confidence - right) ** 2).mean()),
        calibration_error=_calibration_error(confidence, right),
        chunk_within_2=_within_2(taken, "chunk_bytes"),
        bytes_within_2=_within_2(taken, "write_bytes"),
        rate_within_2=_within_2(taken, "rate"),
        burst_within_2=_within_2(taken, "burst_seconds"),
        bytes_flagged=_flagged([item for item in taken if _is_off(item, VOLUME)], VOLUME),
        flagged=_flagged([item for item in taken if item.job.profile.numbers.get(VOLUME)], VOLUME),
        baseline=commonest,
        baseline_accuracy=float(np.mean([item.job.profile.pattern == commonest for item in items])),
    )


def _calibration_error(confidence: np.ndarray, right: np.ndarray) -> float:
    bins = np.minimum((confidence * BINS).astype(int), BINS - 1)
    gaps = [
        abs(float(confidence[bins == i].sum() - right[bins == i].sum()))
        for i in range(BINS)
        if (bins == i).any()
    ]
    return math.fsum(gaps) / len(confidence)


def _within_2(items: Sequence[PastPrediction], name: str) -> float | None:
    off = [octaves for item in items if (octaves := item.octaves_off(name)) is not None]
    return float(np.mean([octaves <= 1.0 for octaves in off])) if off else None


def _is_off(item: PastPrediction, name: str) -> bool:
    octaves = item.octaves_off(name)
    return octaves is not None and octaves > 1.0


def _flagged(items: Sequence[PastPrediction], name: str) -> float | None:
    return float(np.mean([item.is_flagged(name) for item in items])) if items else None


MOST = 20_000
"""Jobs that are scored at most: the newest."""
INTERVALS = ("write_bytes", "read_bytes", "rate", "burst_seconds", "io_share", "runtime_seconds")
WITHIN = ("write_bytes", "read_bytes", "chunk_bytes", "rate", "burst_seconds", "runtime_seconds")


@dataclass(frozen=True, slots=True)
class LiveScore:
    """Of predictions whose jobs have ended. Shares are None where there is nothing to share."""

    jobs: int
    answered: float
    """Share that Sluice was certain enough of to act by; what follows is of those."""
    came_true: float | None
    """Pattern and volume as predicted (submission_features.py)."""
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
    seen = Submissions(store.decisions.joined_decisions(most, uid=uid))
    runs = store.runs.runs(store.runs.run_ids(latest=most, since=since, uid=uid))
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


def score(jobs: Sequence[FinishedJob]) -> LiveScore:
    """Score the predictions of jobs, each of which has one."""
    pairs = [(job.predicted, job.profile) for job in jobs if job.predicted is not None]
    taken = [pair for pair in pairs if pair[0].is_answered]
    confidence, right = _verdicts(pairs)
    return LiveScore(
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
