"""One log -> one profile, and several profiles of a job -> the job's."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sluice.darshan.features import FEATURES, Measurement, Measurements, measure_all
from sluice.darshan.log import impossible_in, read_log
from sluice.darshan.rows import Rows
from sluice.darshan.timeline import packed
from sluice.history_db.records import Log, Profile
from sluice.patterns.classifier import PatternClassifier, packaged_classifier

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from sluice.darshan.log import DarshanLog

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
    """What several logs say, before anybody gave them a name: small on its way to who does."""

    logs: list[tuple[Any, ...]]
    """The values of Log."""
    measurements: Measurements
    owners: list[int]
    """Of each file: the uid that owns it."""


def measured(logs: Sequence[DarshanLog]) -> tuple[list[str | None], Measured]:
    """Return why each log cannot be believed, or None, and what those say that can be."""
    rows = Rows([log.rows for log in logs])
    reasons = impossible_in(logs, rows)
    if any(reasons):
        logs = [log for log, reason in zip(logs, reasons, strict=True) if not reason]
        rows = Rows([log.rows for log in logs])
    entries = [_entry(log) for log in logs]
    return reasons, Measured(entries, measure_all(logs, rows), [log.file.st_uid for log in logs])


def _entry(log: DarshanLog) -> tuple[Any, ...]:
    """Return the values of Log, in order."""
    return (
        log.digest,
        path_text(log.path),
        log.file.st_size,
        modified_ns(log.file),
        None,
        log.jobid,
        log.uid,
        log.exe,
        int(log.start),
        int(log.end),
        log.nprocs,
        bool(log.partial),
        log.format,
        _few(log.targets),
        packed(log.start, log.heatmap),
    )


def _few(osts: frozenset[int] | None) -> tuple[int, ...] | None:
    """Leave out the targets of a run that was spread so wide that it tells of none of them."""
    return tuple(sorted(osts)) if osts and len(osts) <= MOST_OSTS else None


def readings(measured: Measured, classifier: PatternClassifier | None = None) -> list[Reading]:
    """Name what several logs do; in one go, which costs little more than a single one."""
    measurements = measured.measurements.each()
    profiles = profiles_of(measurements, classifier or packaged_classifier())
    return [
        Reading(
            Log(*log),
            profile,
            one.features.astype("<f4").tobytes(),
            {name: share for name, share in one.time_shares.items() if share > 0},
            owner,
        )
        for log, one, profile, owner in zip(
            measured.logs, measurements, profiles, measured.owners, strict=True
        )
    ]


def read_profile(path: Path, classifier: PatternClassifier | None = None) -> Reading:
    """Read one log and say what it does. Raises DarshanLogError or OSError."""
    _, one = measured([read_log(path)])
    return readings(one, classifier)[0]


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
