"""What a Darshan log says of a run: numbers, shares by pattern, classifier input.

`classifier/reader` measures (`measure.c`); this is how Python sees the result. The lists of names
are those of the C structs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sluice.darshan._reader import ffi, lib

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from sluice.darshan.log import DarshanLog


def _names(struct: str) -> tuple[str, ...]:
    return tuple(name for name, _ in ffi.typeof(f"struct {struct}").fields)


FEATURES = _names("sluice_features")
"""What the pattern classifier sees, in order."""
PATTERNS = _names("sluice_shares")
"""Those a share can be given to."""
NUMBERS = _names("sluice_log_numbers")
"""Numbers of a profile (policies/core/profile.h) that a log tells, in its units."""

MEASUREMENT = np.dtype(
    [
        ("features", "f4", len(FEATURES)),
        ("of_bytes", "f8", len(PATTERNS)),
        ("of_time", "f8", len(PATTERNS)),
        ("numbers", "f8", len(NUMBERS)),
        ("coverage", "f8"),
        ("slowest_seconds", "f8"),
    ]
)
"""struct sluice_measurement."""

SIGNIFICANT_BYTES: int = lib.SLUICE_SIGNIFICANT_BYTES
METADATA_BYTES: int = lib.SLUICE_METADATA_BYTES
METADATA_OPERATIONS: int = lib.SLUICE_METADATA_OPERATIONS
READ_MOSTLY: int = lib.SLUICE_READ_MOSTLY
REWRITTEN: float = lib.sluice_rewritten
FILLED: float = lib.sluice_filled
UNSEEN_COVERAGE: float = lib.sluice_unseen_coverage
SILENT_COVERAGE: float = lib.sluice_silent_coverage
BLIND_COVERAGE: float = lib.sluice_blind_coverage
ABOVE_COVERAGE: float = lib.sluice_above_coverage


@dataclass(frozen=True, slots=True)
class Measurement:
    """What one log says about storage."""

    features: NDArray[np.float32]
    """As FEATURES names them."""
    shares: dict[str, float]
    """Share of the bytes by pattern; sums to 1."""
    time_shares: dict[str, float]
    """Share of the seconds of I/O by pattern; sums to 1."""
    numbers: dict[str, float]
    """Those of NUMBERS that are known."""
    coverage: float
    """Share of the bytes that per-file records account for, 0..1; the rest was not recorded."""
    slowest_seconds: float = 0.0
    """Of I/O, of the slowest process."""


def measure(log: DarshanLog) -> Measurement:
    """Return what a log says."""
    return measurements_of([log.measurement])[0]


def measurements_of(contents: Iterable[bytes]) -> list[Measurement]:
    """Take apart what logs say (struct sluice_measurement)."""
    table = np.frombuffer(b"".join(contents), MEASUREMENT)
    return [
        Measurement(
            features=features,
            shares=dict(zip(PATTERNS, of_bytes, strict=True)),
            time_shares=dict(zip(PATTERNS, of_time, strict=True)),
            numbers={
                name: number
                for name, number in zip(NUMBERS, numbers, strict=True)
                if number == number  # noqa: PLR0124 - not NaN
            },
            coverage=coverage,
            slowest_seconds=seconds,
        )
        for features, of_bytes, of_time, numbers, coverage, seconds in zip(
            table["features"],
            table["of_bytes"].tolist(),
            table["of_time"].tolist(),
            table["numbers"].tolist(),
            table["coverage"].tolist(),
            table["slowest_seconds"].tolist(),
            strict=True,
        )
    ]


def values_of(features: bytes) -> dict[str, float]:
    """Return features as they are kept (float32, little-endian), by name."""
    return dict(zip(FEATURES, np.frombuffer(features, dtype="<f4").tolist(), strict=True))


def counted(log2: float) -> float:
    """Return the count of a feature that holds log2 (1 + count)."""
    return float(2**log2 - 1)
