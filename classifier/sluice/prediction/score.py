"""Scores of predictions, of the past (`backtest.py`) and live ones."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sluice.patterns.classifier import calibration_error, reliability
from sluice.policies import core
from sluice.prediction.jobs import application_of, finished_jobs, submission_of, unlogged_jobs
from sluice.prediction.submission_features import VOLUMES, Submissions

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


class Yardsticks:
    """What predictions have to beat: a user's last run, and the mean of the application."""

    def __init__(self, jobs: Iterable[FinishedJob] = ()) -> None:
        self._last: dict[object, FinishedJob] = {}
        self._sums: dict[str, tuple[int, float]] = {}
        for job in sorted(jobs, key=lambda job: job.end):
            self.add(job)

    def add(self, job: FinishedJob) -> None:
        """Take a job in that ended."""
        program = application_of(job.uid, job.name)
        for key in (program, (program, job.size)):
            last = self._last.get(key)
            if last is None or last.start <= job.start:
                self._last[key] = job
        count, total = self._sums.get(job.stem, (0, 0.0))
        self._sums[job.stem] = count + 1, total + job.moved

    def as_last_time(self, job: FinishedJob) -> float | None:
        """Return the bytes that its user's last run of the same name and size moved.

        Where none was of that size, that of any size; None where there was none.
        """
        program = application_of(job.uid, job.name)
        last = self._last.get((program, job.size)) or self._last.get(program)
        return last.moved if last else None

    def mean(self, job: FinishedJob) -> float | None:
        """Return what runs of its name moved in the mean; None where there was none."""
        count, total = self._sums.get(job.stem, (0, 0.0))
        return total / count if count else None


@dataclass(frozen=True, slots=True)
class PastPrediction:
    """A job of the past, and what was predicted of it."""

    job: FinishedJob
    prediction: View
    as_last_time: float | None = None
    """Bytes that the last run moved."""
    mean: float | None = None
    """Bytes that runs of the application moved in the mean."""

    @property
    def is_right(self) -> bool:
        return bool(self.prediction.profile.pattern == self.job.profile.pattern)

    @property
    def is_own(self) -> bool:
        return core.is_own(self.prediction)

    @property
    def confidence(self) -> float:
        return float(self.prediction.profile.confidence)

    @property
    def moved(self) -> float | None:
        """Bytes that it was to move; None where that is not known."""
        profile = self.prediction.profile
        known = [n for n in (profile.write_bytes, profile.read_bytes) if n is not None]
        return sum(known) if known else None

    def octaves_off(self, name: str) -> float | None:
        """|log2| of predicted over true; None where either is unknown or nothing."""
        return octaves(getattr(self.prediction.profile, name), self.job.profile.numbers.get(name))

    @property
    def volume(self) -> str:
        """Name the number that most of its bytes are."""
        profile = self.prediction.profile
        return max(VOLUMES, key=lambda name: getattr(profile, name) or 0.0)

    @property
    def is_flagged(self) -> bool:
        """Whether its spread says that the bytes may be off by more than a factor of two."""
        return float(self.prediction.profile.spread.get(self.volume, math.inf)) > core.WIDE

    @property
    def is_inside(self) -> bool | None:
        """Whether most of its bytes are in their interval; None where there is none."""
        off, spread = self.octaves_off(self.volume), self.prediction.profile.spread.get(self.volume)
        if off is None or spread is None:
            return None
        return off * math.log(2) <= core.Z90 * float(spread)


def octaves(said: float | None, was: float | None) -> float | None:
    """Return |log2| of one over the other; None where either is unknown or nothing."""
    return abs(math.log2(said / was)) if said and was else None


@dataclass(frozen=True, slots=True)
class Score:
    """How well jobs were predicted. Shares are None where there is nothing to share.

    What follows `brier` is of the answered ones; bytes are those written and read.
    """

    jobs: int
    accuracy: float
    """Of the best guesses, however uncertain."""
    answered: float
    """Share of the jobs for which it was certain enough not to abstain, by the user's own runs."""
    accuracy_answered: float | None
    calibration_error: float
    """Expected calibration error, in ten bins of equal width."""
    brier: float
    """Mean square of confidence less outcome."""
    bytes_within_2: float | None
    """Share whose bytes are right within a factor of two."""
    last_within_2: float | None
    """Likewise, had it been said that they are those of the user's last run."""
    mean_within_2: float | None
    """Likewise, of the mean of the application."""
    bytes_inside: float | None
    """Share whose bytes are in their interval, which nine in ten should."""
    chunk_within_2: float | None
    rate_within_2: float | None
    burst_within_2: float | None
    bytes_flagged: float | None
    """Of those whose bytes are off by more: share whose spread had said so."""
    flagged: float | None
    """Share whose spread says so of the bytes."""
    baseline: str
    """The pattern that was commonest before."""
    baseline_accuracy: float


def ended_before(jobs: Sequence[FinishedJob], time: int) -> list[FinishedJob]:
    return [job for job in jobs if job.end <= time]


def predict_past(
    bundle: Bundle, jobs: Sequence[FinishedJob], earlier: Iterable[FinishedJob] = ()
) -> list[PastPrediction]:
    """Predict jobs; earlier: those by which last runs and means are told."""
    known = Yardsticks(earlier)
    return [predict_one(bundle, job, known) for job in jobs]


def predict_one(bundle: Bundle, job: FinishedJob, known: Yardsticks) -> PastPrediction:
    prediction = bundle.predict(submission_of(job), job.submit)
    return PastPrediction(job, prediction, known.as_last_time(job), known.mean(job))


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
    moved = [item for item in taken if item.job.moved]
    off = [item for item in moved if (octaves(item.moved, item.job.moved) or 0.0) > 1.0]
    return Score(
        jobs=len(items),
        accuracy=float(right.mean()),
        answered=float(answered.mean()),
        accuracy_answered=float(right[answered].mean()) if answered.any() else None,
        calibration_error=_calibration_error(confidence, right),
        brier=float(((confidence - right) ** 2).mean()),
        bytes_within_2=_within_2(octaves(item.moved, item.job.moved) for item in taken),
        last_within_2=_within_2(octaves(item.as_last_time, item.job.moved) for item in taken),
        mean_within_2=_within_2(octaves(item.mean, item.job.moved) for item in taken),
        bytes_inside=_share(item.is_inside for item in taken),
        chunk_within_2=_within_2(item.octaves_off("chunk_bytes") for item in taken),
        rate_within_2=_within_2(item.octaves_off("rate") for item in taken),
        burst_within_2=_within_2(item.octaves_off("burst_seconds") for item in taken),
        bytes_flagged=_share(item.is_flagged for item in off),
        flagged=_share(item.is_flagged for item in moved),
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


def _within_2(off: Iterable[float | None]) -> float | None:
    return _share(None if one is None else one <= 1.0 for one in off)


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
    """By number: share within a factor of two; `moved` are bytes written and read."""
    last_within_2: float | None
    """Share whose bytes moved are within a factor of two of those of the user's last run."""
    mean_within_2: float | None
    """Likewise, of the mean of the application."""
    in_interval: dict[str, float]
    """By number: share within the interval for nine in ten; only where the model tells a spread."""
    brier: float | None
    """Mean square of confidence less outcome of the pattern, of all predictions."""
    calibration_error: float | None


@dataclass(frozen=True, slots=True)
class LivePrediction:
    """A job of which something was predicted, and by what it might have been instead."""

    job: FinishedJob
    predicted: Predicted
    as_last_time: float | None
    """Bytes that its user's last run of the same name and size had moved, else of any size."""
    mean: float | None
    """Bytes that runs of its name had moved in the mean."""

    @property
    def did(self) -> Profile:
        return self.job.profile


def live_predictions(
    store: Store, *, since: int, uid: int | None = None, most: int = MOST
) -> list[LivePrediction]:
    """Return the jobs of which something was predicted, and that started since and ended.

    uid: of this user alone. Last runs and means are of runs in that time. Raises HistoryError.
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
    return sorted(with_yardsticks(jobs), key=lambda one: (one.job.start, one.job.logs))


def with_yardsticks(jobs: Sequence[FinishedJob]) -> list[LivePrediction]:
    """Return what was predicted of jobs, with what jobs that ended before would have said."""
    ended = sorted(jobs, key=lambda job: job.end)
    known, count = Yardsticks(), 0
    found = []
    for job in sorted(jobs, key=lambda job: (job.submit, job.logs)):
        while count < len(ended) and ended[count].end <= job.submit:
            known.add(ended[count])
            count += 1
        if job.predicted is not None:
            last, mean = known.as_last_time(job), known.mean(job)
            found.append(LivePrediction(job, job.predicted, last, mean))
    return found


def score(items: Sequence[LivePrediction]) -> LiveScore:
    pairs = [(item.predicted, item.did) for item in items]
    answered = [item for item in items if item.predicted.is_answered]
    taken = [(item.predicted, item.did) for item in answered]
    confidence, right = _verdicts(pairs)
    within = _shares(taken, WITHIN, _is_within_2)
    moved = _within_2(octaves(item.predicted.moved, item.job.moved) for item in answered)
    return LiveScore(
        jobs=len(pairs),
        answered=len(taken) / len(pairs) if pairs else 0.0,
        came_true=_share(p.came_true(did) for p, did in taken),
        pattern_right=_share(p.is_right(did) for p, did in taken),
        within_2=within if moved is None else {"moved": moved} | within,
        last_within_2=_within_2(octaves(item.as_last_time, item.job.moved) for item in answered),
        mean_within_2=_within_2(octaves(item.mean, item.job.moved) for item in answered),
        in_interval=_shares(taken, INTERVALS, lambda p, did, name: p.is_within(did, name)),
        brier=float(((confidence - right) ** 2).mean()) if len(right) else None,
        calibration_error=calibration_error(confidence, right) if len(right) else None,
    )


def report(items: Sequence[LivePrediction], names: Callable[[int], str]) -> dict[str, Any]:
    """Return what `sluice model score --json` prints; names gives a user's name."""
    return {
        "all": asdict(score(items)),
        "reliability": _reliability(items),
        "by_program": [
            {"user": names(uid), "program": program, **asdict(score(group))}
            for (uid, program), group in _grouped(
                items, lambda item: application_of(item.job.uid, item.job.name)
            )
        ],
        "by_user": [
            {"user": names(uid), **asdict(score(group))}
            for uid, group in _grouped(items, lambda item: item.job.uid)
        ],
    }


QUALITY_WEEKS, WEEK = 13, 7 * 86400


def quality(store: Store, now: int) -> dict[str, Any]:
    """Return how predictions of the last weeks kept the promise of their confidence, by week too.

    What a user's last run would have said stands alongside.
    """
    since = now - QUALITY_WEEKS * WEEK
    items = live_predictions(store, since=since)
    weeks = []
    for begin in range(since, now, WEEK):
        found = score([one for one in items if begin <= one.job.start < begin + WEEK])
        weeks.append(
            {
                "since": begin,
                "jobs": found.jobs,
                "within_2": found.within_2.get("moved"),
                "last_within_2": found.last_within_2,
            }
        )
    return {"reliability": _reliability(items), "weeks": weeks}


def _reliability(items: Sequence[LivePrediction]) -> list[dict[str, Any]]:
    confidence, right = _verdicts([(item.predicted, item.did) for item in items])
    return [
        {"said": said, "came_true": true, "jobs": count}
        for said, true, count in reliability(confidence, right)
    ]


def _verdicts(
    pairs: Sequence[tuple[Predicted, Profile]],
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return confidences, and whether the pattern was right, where that is known."""
    known = [(p.confidence, v) for p, did in pairs if (v := p.is_right(did)) is not None]
    return np.array([c for c, _ in known], dtype=float), np.array([v for _, v in known], dtype=bool)


def _grouped(
    items: Sequence[LivePrediction], key: Callable[[LivePrediction], Any]
) -> list[tuple[Any, list[LivePrediction]]]:
    """Group predictions by a key, those of which most failed first."""
    groups: dict[Hashable, list[LivePrediction]] = defaultdict(list)
    for item in items:
        groups[key(item)].append(item)
    return sorted(groups.items(), key=lambda item: (-_failed(item[1]), -len(item[1]), item[0]))


def _failed(items: Sequence[LivePrediction]) -> int:
    return sum(
        item.predicted.is_answered and item.predicted.came_true(item.did) is False for item in items
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
