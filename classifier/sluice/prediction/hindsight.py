"""What the past shows of predictions: how sure, how far back, and how soon they are out of date.

Each job of the past is predicted from what had ended before it was submitted. Of what was said with
confidence p, how much came true? That corrects what the votes say, for each kind of evidence apart,
and only where it was said often enough: elsewhere it stays as it is.

How far runs were off from what runs before them told, by how long ago these had ended, says by what
spreads widen as evidence ages. Nine in ten of the runs that are of one age are within them then.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from sluice.policies import core
from sluice.prediction.evidence_levels import (
    LEVELS,
    breadth,
    groups_of,
    keys_of,
    latest,
    weights_of,
)
from sluice.prediction.expectation import SPREAD, TRIED_RUNS, site_losses, told_by, vote

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from sluice.history_db.records import Profile
    from sluice.prediction.expectation import Losses
    from sluice.prediction.jobs import FinishedJob

    Array = NDArray[np.float64]


SAMPLE = 4000  # jobs predicted: the latest
MIN_PAIRS = 20
HIGHEST = 0.99  # nothing is certain
BINS = 10  # of the confidence that was said
PRIOR = 10.0  # pairs in each bin that are assumed to have come true as said


@dataclass(frozen=True, slots=True)
class Reliability:
    """A rising line through points (said, came true)."""

    said: tuple[float, ...]
    true: tuple[float, ...]
    pairs: int

    def of(self, confidence: float) -> float:
        return min(float(np.interp(confidence, self.said, self.true)), HIGHEST)


@dataclass(frozen=True, slots=True)
class Hindsight:
    """What the past shows of predictions; nothing where there is too little of it."""

    calibration: Mapping[str, Reliability] = field(default_factory=dict)
    """By kind of evidence."""
    losses: Losses = field(default_factory=dict)
    ageing: Mapping[str, Sequence[float]] = field(default_factory=dict)
    """By number, what its spread is multiplied by at each of core.AGES and beyond."""

    def calibrated(self, evidence: str, profile: Profile) -> Profile:
        known = self.calibration.get(evidence)
        return replace(profile, confidence=known.of(profile.confidence)) if known else profile

    def plain(self) -> dict[str, Any]:
        """Return it as JSON takes it."""
        return {
            "calibration": {name: asdict(one) for name, one in sorted(self.calibration.items())},
            "losses": dict(self.losses),
            "ageing": dict(self.ageing),
        }

    @classmethod
    def of(cls, plain: Mapping[str, Any]) -> Hindsight:
        """Take what `plain` returned; members that are not there are not known."""
        curves = plain.get("calibration", {}).items()
        return cls(
            {name: Reliability(**curve) for name, curve in curves},
            plain.get("losses", {}),
            plain.get("ageing", {}),
        )


def hindsight_of(jobs: Sequence[FinishedJob]) -> Hindsight:
    """Look back on jobs; deterministic.

    It is for all users alike, so it must not depend on what logs of one user claim: where fewer
    than MIN_PAIRS confirmed predictions tell of a kind of evidence, nothing corrects it.
    """
    trusted = [job for job in jobs if job.is_confirmed] or list(jobs)
    losses = site_losses(_alike(trusted))
    return Hindsight(calibrate(trusted), losses, ageing_of(trusted, losses))


def _alike(jobs: Sequence[FinishedJob]) -> Iterator[tuple[int, list[FinishedJob]]]:
    """Yield users with runs of theirs that are most alike, the oldest first."""
    groups: dict[tuple[int, int, float], list[FinishedJob]] = defaultdict(list)
    for job in sorted(jobs, key=lambda job: (job.start, job.logs)):
        _, key = next(keys_of(job), (0, 0))
        groups[job.uid, key, job.size].append(job)
    for (uid, _, _), group in groups.items():
        yield uid, group


DELAYS = (0, 3600, 86400, 7 * 86400)  # seconds by which a run is known later
AGED_OF, AGED = 20_000, 1500  # of so many of the latest jobs so many are predicted
MIN_AGED = 40
NARROWEST, WIDEST = 0.5, 32.0  # factors


def ageing_of(jobs: Sequence[FinishedJob], losses: Losses) -> dict[str, tuple[float, ...]]:
    """Return by what spreads widen with age: nine in ten jobs of the past are within them."""
    off: dict[str, list[list[float]]] = {
        name: [[] for _ in range(len(core.AGES) + 1)] for name in SPREAD
    }
    for job, age, numbers, spread in _told(jobs, losses):
        place = bisect_left(core.AGES, age)
        for name, sd in spread.items():
            was, said = job.profile.numbers.get(name), numbers.get(name)
            if was and said:
                off[name][place].append(abs(float(np.log(was / said))) / (core.Z90 * sd))
    return {
        name: factors
        for name, by_age in off.items()
        if (
            factors := _rising(
                [np.quantile(one, 0.9) if len(one) >= MIN_AGED else 0 for one in by_age]
            )
        )
    }


def _rising(factors: Sequence[float]) -> tuple[float, ...]:
    """Return factors that nothing known lowers with age; empty where none is known."""
    if not any(factors):
        return ()
    least = next(factor for factor in factors if factor)
    known = np.maximum.accumulate([factor or least for factor in factors])
    return tuple(np.clip(known, NARROWEST, WIDEST).round(3).tolist())


def _told(
    jobs: Sequence[FinishedJob], losses: Losses
) -> Iterator[tuple[FinishedJob, int, dict[str, float], dict[str, float]]]:
    """Tell jobs from those most alike that were known: age of the newest, numbers, spreads."""
    groups: dict[tuple[int, int, float | None], list[FinishedJob]] = defaultdict(list)
    for job in sorted(jobs, key=lambda job: (job.end, job.logs)):
        for number, key in keys_of(job):
            if LEVELS[number].witness is None:
                groups[number, key, job.size].append(job)
                groups[number, key, None].append(job)
    ends = {place: [job.end for job in group] for place, group in groups.items()}
    told: dict[object, tuple[dict[str, float], dict[str, float]]] = {}
    ordered = sorted(jobs, key=lambda job: (job.submit, job.logs))[-AGED_OF:]
    for job in ordered[:: len(ordered) // AGED + 1]:
        own = [place for place in keys_of(job) if LEVELS[place[0]].witness is None]
        for delay in DELAYS:
            for number, key, size in ((*place, size) for place in own for size in (job.size, None)):
                count = bisect_right(ends[number, key, size], job.submit - delay)
                if count:
                    known = groups[number, key, size][max(0, count - 2 * TRIED_RUNS) : count]
                    age, at = job.submit - known[-1].end, (number, key, size, count)
                    if at not in told:
                        known.sort(key=lambda job: (job.start, job.logs))
                        told[at] = told_by(known, losses)
                    yield job, age, *told[at]
                    break


def calibrate(jobs: Sequence[FinishedJob]) -> dict[str, Reliability]:
    """Return the correction for each kind of evidence that was asked often enough."""
    said: dict[str, list[tuple[float, bool]]] = defaultdict(list)
    for evidence, confidence, came_true in predicted(jobs):
        said[evidence].append((confidence, came_true))
    return {
        evidence: corrected(np.array(pairs, dtype=np.float64))
        for evidence, pairs in said.items()
        if len(pairs) >= MIN_PAIRS
    }


def predicted(jobs: Sequence[FinishedJob]) -> list[tuple[str, float, bool]]:
    """Predict the latest jobs one by one: kind of evidence, confidence, and whether it was so.

    The kind is the most specific one that knew anything when the job was submitted.
    """
    ended = sorted(jobs, key=lambda job: (job.end, job.logs))
    groups = groups_of(ended)
    ends = {key: [job.end for job in group] for key, group in groups.items()}
    pairs = []
    for job in sorted(jobs, key=lambda job: (job.submit, job.logs))[-SAMPLE:]:
        if job.profile.pattern == core.UNKNOWN:
            continue  # what was so is unknown
        for number, key in keys_of(job):
            count = bisect_left(ends[number, key], job.submit)
            if count:
                level = LEVELS[number]
                known = latest(level, groups[number, key][:count])
                pattern, confidence = vote(known, weights_of(level, known))
                confidence *= breadth(level, known, pattern)
                came_true = pattern == job.profile.pattern
                if pattern != core.UNKNOWN:
                    pairs.append((level.evidence, confidence, came_true))
                break
    return pairs


def corrected(pairs: Array) -> Reliability:
    """Return the correction that rows (said, whether it came true) ask for.

    The middle of each bin is corrected, and corrections rise (pool adjacent violators).
    """
    said, came_true = pairs.T
    middles = (np.arange(BINS) + 0.5) / BINS
    number = np.minimum((said * BINS).astype(int), BINS - 1)
    count = np.bincount(number, minlength=BINS)
    gain = np.bincount(number, weights=came_true - said, minlength=BINS)
    corrected = middles + gain / (count + PRIOR)
    pools: list[tuple[float, float, int]] = []  # mean, weight, bins
    for value, weight in zip(corrected.tolist(), (count + PRIOR).tolist(), strict=True):
        pools.append((value, weight, 1))
        while len(pools) > 1 and pools[-2][0] > pools[-1][0]:
            (low, w, n), (high, v, m) = pools[-2:]
            pools[-2:] = [((low * w + high * v) / (w + v), w + v, n + m)]
    rising = [mean for mean, _, bins in pools for _ in range(bins)]
    return Reliability(
        said=(0.0, *middles.tolist(), 1.0),
        true=(0.0, *(min(max(value, 0.0), 1.0) for value in rising), 1.0),
        pairs=len(pairs),
    )
