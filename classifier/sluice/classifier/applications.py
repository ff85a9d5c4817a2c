"""The application table: what earlier runs of a script, a name or an account did.

An entry says how certain it is that the next run is alike. One run proves little, and the more
general the key, the more it takes: runs of several users for a name, several applications for
an account.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from sluice.classifier.profile import SINGLE_RUN_LOG_SD
from sluice.classifier.to_core import log_weight, submission_of
from sluice.history_db.records import Application, Profile
from sluice.policies import core

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from sluice.classifier.jobs import FinishedJob

    Array = NDArray[np.float64]

HALF_LIFE = 90 * 86400  # seconds: a program of a quarter ago counts half
KEPT_LOGS = 20  # listed behind an entry; the newest
LATEST_JOBS = 200  # looked at for an entry; older ones weigh little
DOUBT = 1.0  # runs that are assumed to have gone differently

UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Learned:
    """An entry of the table: who it is for, and what is expected."""

    application: Application
    profile: Profile


@dataclass(frozen=True, slots=True)
class _Level:
    evidence: str
    label: Callable[[FinishedJob], str]
    witness: Callable[[FinishedJob], object] | None
    """What must vary for the entry to hold for others too; None: the runs themselves do."""
    doubt: float
    """Witnesses that are assumed to disagree."""


def _stem(job: FinishedJob) -> str:
    return core.name_stem(job.name)


LEVELS = (
    _Level(
        "user_script",
        lambda job: f"script {job.script_signature:016x} ({_stem(job)}) of user {job.uid}",
        None,
        0,
    ),
    _Level("user_name", lambda job: f"{_stem(job)} of user {job.uid}", None, 0),
    _Level("name", _stem, lambda job: job.uid, 0.5),
    _Level("account", lambda job: f"account {job.account}", _stem, 2.0),
)


def learn_applications(jobs: Sequence[FinishedJob], *, first_id: int = 1) -> list[Learned]:
    """Return the table's entries, numbered from `first_id`; deterministic."""
    groups: dict[tuple[int, int], list[FinishedJob]] = defaultdict(list)
    for job in jobs:
        submission = submission_of(job)
        for number, level in enumerate(LEVELS):
            key = core.application_key(submission, level.evidence)
            if key:
                groups[number, key].append(job)
    return [
        _entry(LEVELS[number], key, group, first_id + i)
        for i, ((number, key), group) in enumerate(sorted(groups.items()))
    ]


def _entry(level: _Level, key: int, jobs: list[FinishedJob], entry_id: int) -> Learned:
    latest = sorted(jobs, key=lambda job: job.start)[-LATEST_JOBS:]
    logs = [log for job in latest for log in job.logs][-KEPT_LOGS:]
    application = Application(
        evidence=level.evidence,
        key=key,
        label=level.label(latest[-1]),
        runs=len(jobs),
        logs=tuple(sorted(logs)),
        id=entry_id,
    )
    profile = expected(latest)
    if level.witness is not None:
        profile = replace(profile, confidence=profile.confidence * _breadth(level, latest))
    return Learned(application, replace(profile, runs=len(jobs)))


def _breadth(level: _Level, jobs: Sequence[FinishedJob]) -> float:
    """Return how far the witnesses carry: w / (w + doubt), and for accounts their agreement."""
    if level.witness is None:
        return 1.0
    by_witness: dict[object, list[FinishedJob]] = defaultdict(list)
    for job in jobs:
        by_witness[level.witness(job)].append(job)
    pattern = expected(jobs).pattern
    agreeing = sum(expected(group).pattern == pattern for group in by_witness.values())
    return agreeing / (len(by_witness) + level.doubt)


def expected(jobs: Sequence[FinishedJob]) -> Profile:
    """Return the profile that the next run is expected to have.

    The pattern by vote, each run's as strong as it is recent and certain; confidence is the
    share of the votes, of those assumed to disagree too. Numbers are weighted medians.
    """
    newest = max(job.start for job in jobs)
    weights = np.array([0.5 ** ((newest - job.start) / HALF_LIFE) for job in jobs])
    votes: dict[str, float] = defaultdict(float)
    shares: dict[str, float] = defaultdict(float)
    for job, weight in zip(jobs, weights, strict=True):
        votes[job.profile.pattern] += float(weight) * job.profile.confidence
        for name, share in job.profile.shares.items():
            shares[name] += float(weight / weights.sum()) * share
    known = sorted(name for name in votes if name != UNKNOWN)
    pattern = max(known, key=lambda name: votes[name]) if known else UNKNOWN
    confidence = votes[pattern] / (float(weights.sum()) + DOUBT) if known else 0.0
    return Profile(
        pattern=pattern,
        confidence=confidence,
        shares=dict(shares),
        numbers=_medians([job.profile for job in jobs], weights),
        log_sd=_log_sd([job.profile for job in jobs]),
        runs=len(jobs),
    )


def _medians(profiles: Sequence[Profile], weights: Array) -> dict[str, float]:
    """Return the medians of what most runs know: a number of a few does not speak for all."""
    numbers = {}
    for name in sorted({name for profile in profiles for name in profile.numbers}):
        known = [i for i, profile in enumerate(profiles) if name in profile.numbers]
        if weights[known].sum() >= weights.sum() / 2:
            values = np.array([profiles[i].numbers[name] for i in known])
            numbers[name] = _weighted_median(values, weights[known])
    return numbers


def _weighted_median(values: Array, weights: Array) -> float:
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(weights[order])
    return float(values[order][np.searchsorted(reached, reached[-1] / 2)])


def _log_sd(profiles: Sequence[Profile]) -> float:
    """Return the sd of ln w among the runs, drawn towards that of a single one."""
    logs = [log_weight(profile) for profile in profiles]
    mean = math.fsum(logs) / len(logs)
    squares = math.fsum((log - mean) ** 2 for log in logs)
    return math.sqrt((SINGLE_RUN_LOG_SD**2 + squares) / len(logs))
