"""Darshan counters -> what a run did to storage: numbers, shares by pattern, classifier input.

The steps: one row a file (`files.py`), sums over the run (`totals.py`), each file's bytes given
to a pattern (`behaviour.py`), and what the classifier sees of all that.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sluice.darshan.behaviour import PATTERNS, Behaviour, find_behaviour
from sluice.darshan.bursts import Bursts, find_bursts
from sluice.darshan.files import Files, files_of, weighted
from sluice.darshan.numbers import profile_numbers
from sluice.darshan.totals import Totals, totals_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sluice.darshan.log import DarshanLog

    Array = NDArray[np.float64]

FEATURES = (
    "share_owc",
    "share_ws",
    "share_aw",
    "share_read",
    "share_metadata",
    "significance",
    "read_ratio",
    "supplied_share",
    "log2_bytes",
    "log2_written",
    "log2_operations",
    "log2_operations_per_process",
    "log2_bytes_per_operation",
    "log2_files_per_writer",
    "log2_even_files_per_writer",
    "log2_successive_files",
    "log2_named_files",
    "log2_opens_per_file",
    "log2_writes_per_open",
    "log2_overwrite",
    "reopened_share",
    "truncated_share",
    "stdio_share",
    "streamed_share",
    "mpiio_share",
    "random_share",
    "consecutive_ratio",
    "log2_chunk",
    "flushes_per_write",
    "shared_share",
    "metadata_time_ratio",
    "program_files_ratio",
    "coverage",
    "mapped",
)
"""What the pattern classifier sees, in order."""


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
    """Known fields of a profile, in the units of policies/core/profile.h."""
    coverage: float
    """Share of the bytes that per-file records account for, 0..1; the rest was not recorded."""


def measure(log: DarshanLog) -> Measurement:
    """Return what a log says. Never fails on a log that `read_log` accepts."""
    files = files_of(log.rows)
    bursts = find_bursts(log.heatmap) if log.heatmap else Bursts()
    totals = totals_of(log, files)
    behaviour = find_behaviour(files, totals)
    return Measurement(
        features=_features(files, totals, behaviour),
        shares=behaviour.of_bytes,
        time_shares=behaviour.of_time,
        numbers=profile_numbers(log, files, totals, bursts),
        coverage=totals.coverage,
    )


def _features(files: Files, totals: Totals, behaviour: Behaviour) -> NDArray[np.float32]:
    values = {
        **_shares(behaviour),
        **_volumes(files, totals, behaviour),
        **_files(files, totals, behaviour),
        **_writes(files, totals, behaviour),
    }
    return np.array([values[name] for name in FEATURES], dtype=np.float32)


def _shares(behaviour: Behaviour) -> dict[str, float]:
    return {
        **{f"share_{name}": share for name, share in behaviour.of_data.items()},
        "share_metadata": behaviour.of_bytes["metadata"],
        "significance": behaviour.significance,
    }


def _volumes(files: Files, totals: Totals, behaviour: Behaviour) -> dict[str, float]:
    data = totals.data
    return {
        "read_ratio": totals.read / data if data else 0,
        "supplied_share": behaviour.supplied,
        "log2_bytes": _log2(data),
        "log2_written": _log2(totals.written),
        "log2_operations": _log2(totals.operations),
        "log2_operations_per_process": _log2(totals.operations / totals.nprocs),
        "log2_bytes_per_operation": _log2(data / max(1.0, totals.operations)),
        "metadata_time_ratio": totals.times.metadata / max(1e-9, totals.times.total),
        "program_files_ratio": totals.program_read / max(1.0, data + totals.program_read),
        "coverage": totals.coverage,
        "mapped": float(totals.mapped),
        "shared_share": weighted(files.in_common, files.written),
    }


def _files(files: Files, totals: Totals, behaviour: Behaviour) -> dict[str, float]:
    wrote = files.wrote
    owners = np.where(files.shared, 1, totals.writers)[wrote]
    opens = float(files.opens[wrote].sum())
    return {
        "log2_files_per_writer": _log2(float((1 / owners).sum())),
        "log2_even_files_per_writer": _log2(_even_count(files.written[wrote]) / _mean(owners)),
        "log2_successive_files": _log2(behaviour.successive_files),
        "log2_named_files": _log2(behaviour.named_files),
        "log2_opens_per_file": _log2(opens / max(1.0, float(wrote.sum()))),
        "log2_overwrite": _log2(
            float(files.written.sum()) / max(1.0, float(files.size[wrote].sum()))
        ),
        "reopened_share": behaviour.reopened,
        "truncated_share": behaviour.truncated,
    }


def _writes(files: Files, totals: Totals, behaviour: Behaviour) -> dict[str, float]:
    wrote = files.wrote
    opens = float(files.opens[wrote].sum())
    writes = float(files.writes[wrote].sum())
    written = max(1.0, float(files.written.sum()))
    return {
        "log2_writes_per_open": _log2(writes / max(1.0, opens)),
        "stdio_share": float(files.stdio_written.sum()) / written,
        "streamed_share": weighted(files.streamed, files.written),
        "mpiio_share": min(1.0, float(files.rows["mpiio_bytes_written"].sum()) / written),
        "random_share": behaviour.random,
        "consecutive_ratio": float(files.rows["posix_consec_writes"].sum()) / max(1.0, writes),
        "log2_chunk": _log2(totals.chunk),
        "flushes_per_write": min(4.0, float(files.flushes.sum()) / max(1.0, writes)),
    }


def _mean(values: NDArray[Any]) -> float:
    return float(values.mean()) if len(values) else 1.0


def _even_count(weights: Array) -> float:
    """How many equal weights would be as evenly spread: exp of the entropy."""
    shares = weights[weights > 0] / max(1.0, float(weights.sum()))
    return float(np.exp(-(shares * np.log(shares)).sum())) if len(shares) else 0.0


def _log2(value: float) -> float:
    return float(np.log2(1 + value))


__all__ = ["FEATURES", "PATTERNS", "Measurement", "measure"]
