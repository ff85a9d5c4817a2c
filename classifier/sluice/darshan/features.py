"""Darshan counters -> what runs did to storage: numbers, shares by pattern, classifier input.

The steps: one row a file (`rows.py`), sums over each run (`totals.py`), each file's bytes given
to a pattern (`behaviour.py`), and what profile and classifier see of all that. All of it is done
for many logs at once, as numpy costs little more for many than for one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sluice.darshan.behaviour import PATTERNS, REWRITTEN, Behaviour, find_behaviour
from sluice.darshan.bursts import Bursts, find_bursts
from sluice.darshan.rows import Files, Rows, files_of, ratio, sums
from sluice.darshan.totals import Totals, totals_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

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

NUMBERS = (
    "nprocs",
    "write_bytes",
    "read_bytes",
    "runtime_seconds",
    "chunk_bytes",
    "targets",
    "burst_seconds",
    "period_seconds",
    "io_share",
    "rate",
    "metadata_rate",
    "files",
    "bytes_per_flush",
    "unflushed_bytes",
    "creates_per_mib",
    "shared_share",
    "collective_share",
    "async_io",
    "direct_share",
)
"""Numbers of a profile (policies/core/profile.h) that a log tells, in its units."""

ENOUGH = 0.5  # coverage from which the recorded files speak for the rest
SECTOR = 512  # bytes: what bypasses the cache comes in multiples of it


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


@dataclass(frozen=True, slots=True)
class Measurements:
    """Those of several logs, a row each: small on its way from process to process."""

    features: NDArray[np.float32]
    shares: Array
    time_shares: Array
    numbers: Array
    """NUMBERS; NaN: not known."""
    coverage: Array

    def __len__(self) -> int:
        return len(self.coverage)

    def each(self) -> list[Measurement]:
        parts = (self.shares, self.time_shares, self.numbers, self.coverage)
        return [
            Measurement(
                features=features,
                shares=dict(zip(PATTERNS, shares, strict=True)),
                time_shares=dict(zip(PATTERNS, time_shares, strict=True)),
                numbers={
                    name: number
                    for name, number in zip(NUMBERS, numbers, strict=True)
                    if number == number  # noqa: PLR0124 - not NaN
                },
                coverage=coverage,
            )
            for features, shares, time_shares, numbers, coverage in zip(
                self.features, *(part.tolist() for part in parts), strict=True
            )
        ]


def measure(log: DarshanLog) -> Measurement:
    """Return what a log says. Never fails on a log that `read_log` accepts."""
    return measure_all([log], Rows([log.rows])).each()[0]


def measure_all(logs: Sequence[DarshanLog], rows: Rows) -> Measurements:
    """Return what each of some logs says, whose rows these are."""
    files = files_of(rows)
    totals = totals_of(logs, files)
    behaviour = find_behaviour(files, totals)
    features = _features(files, totals, behaviour)
    numbers = _numbers(logs, files, totals)
    return Measurements(
        features=np.array([features[name] for name in FEATURES], dtype=np.float32).T,
        shares=_columns(behaviour.of_bytes, PATTERNS),
        time_shares=_columns(behaviour.of_time, PATTERNS),
        numbers=_columns(numbers, NUMBERS),
        coverage=totals.coverage,
    )


def _columns(values: Mapping[str, Array], names: Sequence[str]) -> Array:
    return np.array([values[name] for name in names]).T


# What the classifier sees


def _features(files: Files, totals: Totals, behaviour: Behaviour) -> dict[str, Array]:
    return {
        **_shares(behaviour),
        **_volumes(files, totals, behaviour),
        **_files(files, totals, behaviour),
        **_writes(files, totals, behaviour),
    }


def _shares(behaviour: Behaviour) -> dict[str, Array]:
    return {
        **{f"share_{name}": share for name, share in behaviour.of_data.items()},
        "share_metadata": behaviour.of_bytes["metadata"],
        "significance": behaviour.significance,
    }


def _volumes(files: Files, totals: Totals, behaviour: Behaviour) -> dict[str, Array]:
    data, times = totals.data, totals.times
    return {
        "read_ratio": ratio(totals.read, data),
        "supplied_share": behaviour.supplied,
        "log2_bytes": _log2(data),
        "log2_written": _log2(totals.written),
        "log2_operations": _log2(totals.operations),
        "log2_operations_per_process": _log2(totals.operations / totals.nprocs),
        "log2_bytes_per_operation": _log2(data / np.maximum(1.0, totals.operations)),
        "metadata_time_ratio": times.metadata / np.maximum(1e-9, times.total),
        "program_files_ratio": totals.program_read / np.maximum(1.0, data + totals.program_read),
        "coverage": totals.coverage,
        "mapped": totals.mapped.astype(np.float64),
        "shared_share": files.rows.weighted(files.in_common, files.written),
    }


def _files(files: Files, totals: Totals, behaviour: Behaviour) -> dict[str, Array]:
    rows, wrote = files.rows, files.wrote
    count = rows.count(wrote)
    owners = np.where(files.shared, 1, totals.writers[rows.log])
    mean = np.where(count > 0, rows.total(owners, wrote) / np.maximum(count, 1), 1.0)
    opens = rows.total(files.opens, wrote)
    size = rows.total(files.size, wrote)
    return {
        "log2_files_per_writer": _log2(rows.total(1 / owners, wrote)),
        "log2_even_files_per_writer": _log2(_even_counts(rows, files.written, wrote) / mean),
        "log2_successive_files": _log2(behaviour.successive_files),
        "log2_named_files": _log2(behaviour.named_files),
        "log2_opens_per_file": _log2(opens / np.maximum(1.0, count)),
        "log2_overwrite": _log2(rows.total(files.written) / np.maximum(1.0, size)),
        "reopened_share": behaviour.reopened,
        "truncated_share": behaviour.truncated,
    }


def _writes(files: Files, totals: Totals, behaviour: Behaviour) -> dict[str, Array]:
    rows, wrote = files.rows, files.wrote
    opens = rows.total(files.opens, wrote)
    writes = rows.total(files.writes, wrote)
    some_writes = np.maximum(1.0, writes)
    written = np.maximum(1.0, rows.total(files.written))
    return {
        "log2_writes_per_open": _log2(writes / np.maximum(1.0, opens)),
        "stdio_share": rows.total(files.stdio_written) / written,
        "streamed_share": rows.weighted(files.streamed, files.written),
        "mpiio_share": np.minimum(1.0, rows.total(rows["mpiio_bytes_written"]) / written),
        "random_share": behaviour.random,
        "consecutive_ratio": rows.total(rows["posix_consec_writes"]) / some_writes,
        "log2_chunk": _log2(totals.chunk),
        "flushes_per_write": np.minimum(4.0, rows.total(files.flushes) / some_writes),
    }


def _even_counts(rows: Rows, weights: Array, some: NDArray[np.bool_]) -> Array:
    """How many equal weights would be as evenly spread: exp of the entropy, 0 without any.

    `some`: where there is a weight.
    """
    total = np.maximum(1.0, rows.total(weights, some))
    shares = weights[some] / total[rows.log[some]]
    bounds = np.append(0, some.cumsum())[rows.bounds]
    entropy = -sums(shares * np.log(shares), bounds)
    return np.where(np.diff(bounds) > 0, np.exp(entropy), 0.0)


def _log2(values: Array) -> Array:
    return np.log2(1 + values)


# What a profile says


def _numbers(logs: Sequence[DarshanLog], files: Files, totals: Totals) -> dict[str, Array]:
    """Return NUMBERS, NaN where they are not known."""
    seconds, runtime = totals.times.slowest, totals.runtime
    bursts = [find_bursts(log.heatmap) if log.heatmap else Bursts() for log in logs]
    targets = [None if log.targets is None else len(log.targets) for log in logs]
    some, enough = np.where(seconds > 0, seconds, 1), totals.coverage >= ENOUGH
    rate = (totals.data + totals.program_read) / some
    share = np.minimum(1.0, seconds / np.where(runtime > 0, runtime, 1))
    of_writes = _write_numbers(files, totals)
    return {
        "nprocs": totals.nprocs,
        "write_bytes": totals.written,
        "read_bytes": totals.read,
        "runtime_seconds": runtime,
        "chunk_bytes": _where(totals.chunk > 0, totals.chunk),
        "targets": np.array(targets, dtype=np.float64),
        "burst_seconds": np.array([found.length for found in bursts], dtype=np.float64),
        "period_seconds": np.array([found.period for found in bursts], dtype=np.float64),
        "io_share": _where(enough & (runtime > 0), share),
        "rate": _where(enough & (seconds > 0), rate),
        "metadata_rate": _where(enough & (seconds > 0), totals.operations / some),
        **{name: _where(enough, values) for name, values in of_writes.items()},
    }


def _where(known: NDArray[np.bool_], values: Array) -> Array:
    return np.where(known, values, np.nan)


def _write_numbers(files: Files, totals: Totals) -> dict[str, Array]:
    rows, wrote = files.rows, files.wrote
    written = rows.total(files.written)
    flushes = rows.total(files.flushes)
    per_flush = written / np.where(flushes > 0, flushes, 1)
    waits = (flushes > 0) & (per_flush <= totals.chunk)
    overwrite = files.written / np.maximum(files.size, 1)
    creates = np.where(overwrite > REWRITTEN, np.maximum(files.opens, 1), 1)
    mib = np.where(written > 0, written, 1) / 2**20
    known = {
        "bytes_per_flush": per_flush,
        "unflushed_bytes": np.where(waits, 0.0, np.minimum(per_flush, written / totals.writers)),
        "creates_per_mib": rows.total(creates, wrote) / mib,
        "shared_share": rows.weighted(files.in_common, files.written),
        "collective_share": _collective_shares(rows, written),
        "async_io": _where(rows.some(rows["mpiio_nb_writes"] > 0), np.ones(rows.logs)),
        "direct_share": _where(~_may_be_direct(files), np.zeros(rows.logs)),
    }
    return {
        "files": rows.count(wrote),
        **{name: _where(written > 0, values) for name, values in known.items()},
    }


def _collective_shares(rows: Rows, written: Array) -> Array:
    collective, volume = rows["mpiio_coll_writes"], rows["mpiio_bytes_written"]
    if not volume.any():
        return np.zeros(rows.logs)
    others = rows["mpiio_indep_writes"] + rows["mpiio_nb_writes"]
    moved = rows.total(volume * ratio(collective, collective + others))
    return np.minimum(1.0, ratio(moved, written))


def _may_be_direct(files: Files) -> NDArray[np.bool_]:
    """Whether any file of a log may have been written around the cache.

    Darshan does not keep the flag, but what goes around the cache comes in whole sectors: of
    streams and of files with odd sizes of accesses it is known that they did not.
    """
    rows = files.rows
    sectors = rows["posix_access"] / SECTOR
    odd = (sectors != np.floor(sectors)) & (rows["posix_access_count"] > 0)
    whole = ~odd.any(axis=1) & (rows["posix_bytes_written"] > 0) & ~files.streamed
    return rows.some(whole)


__all__ = ["FEATURES", "NUMBERS", "PATTERNS", "Measurement", "Measurements", "measure"]
