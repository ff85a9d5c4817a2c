"""One log -> one profile, and several profiles of a job -> the job's."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sluice.darshan.features import FEATURES, Measurement, measure
from sluice.darshan.log import read_log
from sluice.darshan.timeline import packed
from sluice.history_db.records import Log, Profile
from sluice.patterns.classifier import PatternClassifier, packaged_classifier

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

MOST_OSTS = 32  # of a run, to be kept: the more there are, the less it tells of each
LATEST_NS = (1 << 63) - 1  # in 2262; file systems hold later times
SINGLE_RUN_LOG_SD = 0.5  # of ln w: what repeated runs of one program commonly differ by


@dataclass(frozen=True, slots=True)
class Reading:
    """What `sluice history ingest` keeps of a log."""

    log: Log
    profile: Profile
    features: bytes
    """float32, little-endian, as features.FEATURES."""
    time_shares: dict[str, float]
    """Share of the seconds of I/O by pattern, as Profile.shares has them of the bytes."""
    owner: int
    """uid that owns the file."""


def path_text(path: Path) -> str:
    """Return the absolute path as text that any file can hold: names may be any bytes."""
    return os.fsencode(path.absolute()).decode(errors="backslashreplace")


def modified_ns(status: os.stat_result) -> int:
    """Return when a file was changed, as a column can hold it: its owner can set any time."""
    return max(-LATEST_NS, min(LATEST_NS, status.st_mtime_ns))


@dataclass(frozen=True, slots=True)
class Measured:
    """What one log says, before anybody gave it a name."""

    log: Log
    measurement: Measurement
    owner: int
    """uid that owns the file."""


def read_measured(path: Path) -> Measured:
    """Read one log. Raises DarshanLogError or OSError."""
    darshan = read_log(path)
    log = Log(
        digest=darshan.digest,
        path=path_text(path),
        size=darshan.file.st_size,
        mtime_ns=modified_ns(darshan.file),
        reason=None,
        jobid=darshan.jobid,
        uid=darshan.uid,
        exe=darshan.exe,
        start=int(darshan.start),
        end=int(darshan.end),
        nprocs=darshan.nprocs,
        partial=bool(darshan.partial),
        format=darshan.format,
        osts=_few(darshan.targets),
        heatmap=packed(darshan.start, darshan.heatmap),
    )
    return Measured(log, measure(darshan), darshan.file.st_uid)


def _few(osts: frozenset[int] | None) -> tuple[int, ...] | None:
    """Leave out the targets of a run that was spread so wide that it tells of none of them."""
    return tuple(sorted(osts)) if osts and len(osts) <= MOST_OSTS else None


def readings(
    measured: Sequence[Measured], classifier: PatternClassifier | None = None
) -> list[Reading]:
    """Name what several logs do; in one go, which costs little more than a single one."""
    profiles = profiles_of(
        [one.measurement for one in measured], classifier or packaged_classifier()
    )
    return [
        Reading(
            one.log,
            profile,
            one.measurement.features.astype("<f4").tobytes(),
            {name: share for name, share in one.measurement.time_shares.items() if share > 0},
            one.owner,
        )
        for one, profile in zip(measured, profiles, strict=True)
    ]


def read_profile(path: Path, classifier: PatternClassifier | None = None) -> Reading:
    """Read one log and say what it does. Raises DarshanLogError or OSError."""
    return readings([read_measured(path)], classifier)[0]


def profiles_of(
    measurements: Sequence[Measurement], classifier: PatternClassifier
) -> list[Profile]:
    """Return a profile of each."""
    return [
        Profile(
            pattern=pattern,
            confidence=confidence,
            shares={name: share for name, share in measurement.shares.items() if share > 0},
            numbers=measurement.numbers,
            log_sd=SINGLE_RUN_LOG_SD,
        )
        for measurement, (pattern, confidence) in zip(
            measurements, classifier.classify(measurements), strict=True
        )
    ]


def reclassified(profile: Profile, features: bytes, classifier: PatternClassifier) -> Profile:
    """Return the profile as another classifier names it."""
    vector = np.frombuffer(features, dtype="<f4").astype(np.float32)
    measurement = Measurement(
        features=vector,
        shares=profile.shares,
        time_shares={},
        numbers=profile.numbers,
        coverage=float(vector[FEATURES.index("coverage")]),
    )
    return profiles_of([measurement], classifier)[0]
