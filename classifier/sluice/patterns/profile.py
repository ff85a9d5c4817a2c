"""One log -> one profile, and why it is called what it is called."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sluice.darshan.bursts import packed
from sluice.darshan.features import (
    ABOVE_COVERAGE,
    BLIND_COVERAGE,
    FILLED,
    METADATA_OPERATIONS,
    REWRITTEN,
    SILENT_COVERAGE,
    UNSEEN_COVERAGE,
    Measurement,
    counted,
    measurements_of,
    values_of,
)
from sluice.darshan.log import read_log
from sluice.history_db.records import Log, Profile
from sluice.patterns.classifier import packaged_classifier
from sluice.policies.core import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


MOST_OSTS = 32  # of a run, to be kept: the more there are, the less it tells of each
LATEST_NS = (1 << 63) - 1  # in 2262; file systems hold later times
SINGLE_RUN_LOG_SD = 0.5  # of ln w: what repeated runs of one program commonly differ by


MISSING = {
    BLIND_COVERAGE: "Darshan did not see its files: POSIX was off, or a module full or unknown",
    ABOVE_COVERAGE: "only MPI-IO, HDF5, PnetCDF or DAOS tell of it, so it may rewrite its files",
    SILENT_COVERAGE: "opens streams of whose data Darshan saw nothing, so that it may write much",
    UNSEEN_COVERAGE: "Darshan ran out of records: of the files after the first ones it saw nothing",
}
"""What a log does not tell, by its coverage."""


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
    not_counted: tuple[str, ...] = ()
    """Counters that cannot be true, by module and name."""


def path_text(path: Path) -> str:
    """Return the absolute path as text that any file can hold: names may be any bytes."""
    return os.fsencode(path.absolute()).decode(errors="backslashreplace")


def modified_ns(status: os.stat_result) -> int:
    """Return when a file was changed, as a column can hold it: its owner can set any time."""
    return max(-LATEST_NS, min(LATEST_NS, status.st_mtime_ns))


Measured = tuple[tuple[Any, ...], bytes, int, tuple[str, ...]]
"""What a log says before anybody gave it a name, small on its way to who does: the values of Log,
its measurement (features.MEASUREMENT), the uid that owns the file, and what was not counted."""


def measured(path: Path) -> Measured:
    """Read one log. Raises DarshanLogError or OSError."""
    log = read_log(path)
    about = (
        log.digest,
        path_text(path),
        log.file.st_size,
        modified_ns(log.file),
        None,
        log.jobid,
        log.uid,
        log.exe,
        int(log.start),
        int(log.end),
        log.nprocs,
        log.partial,
        log.format,
        _few(log.targets),
        packed(log.start, log.heatmap),
    )
    return about, log.measurement, log.file.st_uid, log.not_counted


def _few(osts: frozenset[int] | None) -> tuple[int, ...] | None:
    """Leave out the targets of a run that was spread so wide that it tells of none of them."""
    return tuple(sorted(osts)) if osts and len(osts) <= MOST_OSTS else None


def readings(measured: Sequence[Measured]) -> list[Reading]:
    """Name what several logs do; in one go, which costs little more than a single one."""
    measurements = measurements_of(content for _, content, *_ in measured)
    profiles = profiles_of(measurements)
    return [
        Reading(
            Log(*about),
            profile,
            one.features.astype("<f4").tobytes(),
            {name: share for name, share in one.time_shares.items() if share > 0},
            owner,
            not_counted,
        )
        for (about, _, owner, not_counted), one, profile in zip(
            measured, measurements, profiles, strict=True
        )
    ]


def read_profile(path: Path) -> Reading:
    """Read one log and say what it does. Raises DarshanLogError or OSError."""
    return readings([measured(path)])[0]


def profiles_of(measurements: Sequence[Measurement]) -> list[Profile]:
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
            measurements, packaged_classifier().classify(measurements), strict=True
        )
    ]


def evidence(profile: Profile, features: bytes) -> list[str]:
    """Return the signals in a log that speak for its pattern, each a clause."""
    values = values_of(features)
    signals = [
        *_volume(values),
        *_writing(values, profile),
        *_flushing(values, profile.numbers),
    ]
    if values["coverage"] < 0.95:
        signals.append(_what_is_missing(values))
    if profile.pattern == UNKNOWN:
        signals.append("none of this is certain enough to name a pattern")
    return signals


def _what_is_missing(values: dict[str, float]) -> str:
    """Say why the confidence is lower than the classifier's."""
    if values["mapped"]:
        return "writes a file through memory, where Darshan cannot see it"
    if values["coverage"] in MISSING:
        return MISSING[values["coverage"]]
    if not values["log2_bytes"] and values["log2_operations"]:
        return "opens files of whose data Darshan saw nothing"
    return f"Darshan kept records for only {values['coverage']:.0%} of the bytes"


def _volume(values: dict[str, float]) -> list[str]:
    signals = []
    if values["significance"] == 0 and values["coverage"] != BLIND_COVERAGE:
        signals.append("moves too few bytes to matter")
    elif values["read_ratio"] > 0.05:
        fed = ", most of them its input" if values["supplied_share"] > 0.5 else ""
        signals.append(f"{values['read_ratio']:.0%} of its bytes are reads{fed}")
    operations = counted(values["log2_operations"])
    if operations >= METADATA_OPERATIONS:
        each = counted(values["log2_bytes_per_operation"])
        signals.append(f"opens and looks at files {operations:.0f} times, {each:.0f} B each")
    return signals


def _writing(values: dict[str, float], profile: Profile) -> list[str]:
    if not profile.numbers.get("write_bytes"):
        return []
    signals = []
    successive = counted(values["log2_successive_files"])
    overwrite = counted(values["log2_overwrite"])
    if overwrite > REWRITTEN:
        how = "emptying it each time" if values["truncated_share"] > 0.5 else "in place"
        signals.append(f"writes the same bytes of a file {overwrite:.1f} times, {how}")
    if successive >= 2.5:
        signals.append(f"writes {successive:.0f} files alike one after the other")
    if values["random_share"] > 0.5:
        signals.append("writes in no order")
    elif overwrite < FILLED and profile.shares.get("ws", 0) > 0.5:
        signals.append("leaves gaps in a file, which was there before")
    elif overwrite <= REWRITTEN and successive < 2.5:
        writes = counted(values["log2_writes_per_open"])
        signals.append(f"appends to a file, {max(1.0, writes):.0f} writes for each open")
    if values["stdio_share"] > 0.5:
        signals.append("through buffered streams (STDIO)")
    elif values["streamed_share"] > 0.5:
        signals.append("through C++ streams")
    if values["mpiio_share"] > 0.5:
        signals.append("through MPI-IO")
    return signals


def _flushing(values: dict[str, float], numbers: dict[str, float]) -> list[str]:
    if not numbers.get("write_bytes") or "bytes_per_flush" not in numbers:
        return []
    if values["flushes_per_write"] == 0:
        return ["never flushes"]
    if values["flushes_per_write"] >= 0.9:
        return ["flushes every write"]
    return [f"flushes once in {1 / values['flushes_per_write']:.0f} writes"]
