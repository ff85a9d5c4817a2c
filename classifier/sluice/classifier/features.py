"""Darshan counters -> what a run did to storage: numbers, shares by pattern, classifier input.

The steps: one row a file (`files.py`), each file's bytes given to a pattern, sums over the run.

- Files of about the same size that a process writes one after the other: created and closed.
- More bytes written than the file is long, or writes in no order: rewritten in place. Where the
  file is opened afresh for each rewrite by fopen, or renamed over: created again.
- Everything else that is written: appended.
- Many opens and stats with few bytes behind each file: metadata.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sluice.classifier.bursts import Bursts, find_bursts
from sluice.classifier.files import SHARED, Files, join_files, sums, without_streams

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sluice.classifier.darshan_log import DarshanLog

    Array = NDArray[np.float64]

SIGNIFICANT_BYTES = 96 * 1024  # a run that moves fewer has no I/O to speak of
METADATA_OPERATIONS = 100  # opens and stats, before a run can be called metadata-heavy
METADATA_BYTES = 4096  # a file; with more the data matter more
OPERATIONS_A_FILE = 3  # create, stat, open: with more, operations count instead of files
REWRITTEN = 1.5  # bytes written over the file's size, from which it was written again
UNSEEN_COVERAGE = 0.75  # of a partial log without a heatmap, which would tell

PATTERNS = ("owc", "ws", "aw", "read", "metadata", "none")
"""Those a share can be given to."""

FEATURES = (
    "share_owc",
    "share_ws",
    "share_aw",
    "share_read",
    "share_metadata",
    "significance",
    "read_ratio",
    "log2_bytes",
    "log2_written",
    "log2_operations",
    "log2_operations_per_process",
    "log2_bytes_per_operation",
    "log2_files_per_writer",
    "log2_even_files_per_writer",
    "log2_successive_files",
    "log2_opens_per_file",
    "log2_writes_per_open",
    "log2_overwrite",
    "reopened_share",
    "renamed_share",
    "stdio_share",
    "random_share",
    "consecutive_ratio",
    "log2_chunk",
    "flushes_per_write",
    "shared_share",
    "metadata_time_ratio",
    "program_files_ratio",
    "coverage",
)
"""What the pattern classifier sees, in order."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """What one log says about storage."""

    features: NDArray[np.float32]
    """As FEATURES names them."""
    shares: dict[str, float]
    """Share of the bytes by pattern; sums to 1."""
    numbers: dict[str, float]
    """Known fields of a profile, in the units of policies/core/profile.h."""
    coverage: float
    """Share of the bytes that per-file records account for, 0..1; the rest was not recorded."""


def measure(log: DarshanLog) -> Measurement:
    """Return what a log says. Never fails on a log that `read_log` accepts."""
    log = without_streams(log)
    files = join_files(log)
    times = _times(log)
    bursts = find_bursts(log.heatmap) if log.heatmap else Bursts()
    totals = _totals(log, files, times)
    shares = _shares(files, totals)
    return Measurement(
        features=_features(files, totals, shares),
        shares=_named(shares),
        numbers=_numbers(log, files, totals, bursts),
        coverage=totals.coverage,
    )


# Sums over the run


@dataclass(frozen=True, slots=True)
class Times:
    """Seconds of I/O of the slowest process, and of all processes together."""

    slowest: float
    total: float
    metadata: float


@dataclass(frozen=True, slots=True)
class Totals:
    nprocs: int
    runtime: float
    times: Times
    written: float
    read: float
    """Without the files of programs."""
    program_read: float
    operations: float
    """Opens and stats."""
    writers: float
    chunk: float
    """0: nothing was written or read."""
    coverage: float


def _times(log: DarshanLog) -> Times:
    """Add up I/O times as darshan-parser's `agg_perf_by_slowest` does.

    Files of one process count with that process, shared files with their slowest process.
    """
    by_rank = np.zeros(1)
    shared = total = metadata = 0.0
    for records in (log.posix, log.stdio):
        if not len(records):
            continue
        meta = records.time("F_META_TIME")
        seconds = records.time("F_READ_TIME") + records.time("F_WRITE_TIME") + meta
        total += float(seconds.sum())
        metadata += float(meta.sum())
        alone = records.ranks >= 0
        ranks = np.minimum(records.ranks[alone], log.nprocs - 1)
        by_rank = _added(by_rank, sums(ranks, seconds[alone]))
        slowest = records.time("F_SLOWEST_RANK_TIME")
        spread = seconds / log.nprocs
        shared += float(np.where(slowest > 0, slowest, spread)[~alone].sum())
    return Times(slowest=float(by_rank.max()) + shared, total=total, metadata=metadata)


def _added(a: Array, b: Array) -> Array:
    result = np.zeros(max(len(a), len(b)))
    result[: len(a)] += a
    result[: len(b)] += b
    return result


def _totals(log: DarshanLog, files: Files, times: Times) -> Totals:
    written = float(files.written.sum())
    read = float(files.read[~files.program].sum())
    program_read = float(files.read[files.program].sum())
    seen = written + read + program_read
    if log.heatmap is None:
        # The first 1,024 files are recorded; how many more there were is anybody's guess.
        coverage = UNSEEN_COVERAGE if log.partial & {"POSIX", "STDIO"} else 1.0
    else:
        moved = float(log.heatmap.written.sum() + log.heatmap.read.sum())
        coverage = min(1.0, (seen + SIGNIFICANT_BYTES) / (moved + SIGNIFICANT_BYTES))
        written = max(written, float(log.heatmap.written.sum()) if coverage < 0.95 else 0.0)
    stats = float(log.posix.count("STATS").sum())
    program_opens = float(files.opens[files.program].sum())
    owners = files.owner[files.written > 0]
    writers = log.nprocs if (owners == SHARED).any() else len(np.unique(owners))
    return Totals(
        nprocs=log.nprocs,
        runtime=log.runtime,
        times=times,
        written=written,
        read=read,
        program_read=program_read,
        operations=float(files.opens.sum()) - program_opens + stats,
        writers=float(max(1, writers)),
        chunk=_chunk(log, reading=written < SIGNIFICANT_BYTES and read > written),
        coverage=coverage,
    )


def _chunk(log: DarshanLog, *, reading: bool) -> float:
    """Return the size of the operation that moves most bytes.

    That is a write, or a read where only reads matter. Darshan keeps the four commonest sizes
    of each file, reads and writes together; STDIO has only sums, so there it is bytes over
    operations.
    """
    verb, past = ("READ", "READ") if reading else ("WRITE", "WRITTEN")
    sizes: list[Array] = []
    weights: list[Array] = []
    posix, stdio = log.posix, log.stdio
    moved = posix.count(f"BYTES_{past}") > 0
    for k in range(1, 5):
        size = posix.count(f"ACCESS{k}_ACCESS")[moved]
        count = posix.count(f"ACCESS{k}_COUNT")[moved]
        fits = (count > 0) & (size <= posix.count(f"BYTES_{past}")[moved])
        sizes.append(size[fits])
        weights.append((size * count)[fits])
    operations, volume = stdio.count(f"{verb}S"), stdio.count(f"BYTES_{past}")
    used = (operations > 0) & (volume > 0)
    sizes.append(volume[used] / operations[used])
    weights.append(volume[used])
    all_sizes, all_weights = np.concatenate(sizes), np.concatenate(weights)
    if not len(all_sizes):
        return 0.0
    values, rows = np.unique(np.round(all_sizes), return_inverse=True)
    return float(values[np.bincount(rows, weights=all_weights).argmax()])


# Bytes to patterns


@dataclass(frozen=True, slots=True)
class Shares:
    """Shares of the run's bytes by pattern, and the signals behind them."""

    by_pattern: dict[str, float]
    of_data: dict[str, float]
    """owc, ws, aw, read among the bytes alone, however few and whatever the metadata."""
    significance: float
    """0: no I/O to speak of; 1: enough of it."""
    successive_files: float
    """Files that a process writes one after the other; the largest such series."""
    reopened: float
    random: float


def _shares(files: Files, totals: Totals) -> Shares:
    successive = _successive(files)
    once = np.clip((successive - 1.5) / 1.5, 0, 1)  # two files may be chance, three are a series
    overwrite = files.written / np.maximum(files.size, 1)
    again = np.clip((overwrite - 1) / (REWRITTEN - 1), 0, 1)
    owners = np.where(files.owner == SHARED, totals.nprocs, 1)
    # Opened afresh for each rewrite: by fopen or under a new name that truncates the file, so
    # it is created again; a bare open keeps the blocks.
    reopened = (files.opens / owners >= 0.5 * overwrite) & (files.opens / owners >= 2)
    truncated = (files.stdio_written > 0.5 * files.written) | (files.renames > 0)
    truncated |= files.stdio_opens > 0
    recreated = reopened & truncated
    random = _ratio(files.out_of_order, files.large_writes)
    random = np.where(files.large_writes >= 4, np.clip((random - 0.2) / 0.3, 0, 1), 0)
    ws = np.where(recreated, 0, np.maximum(again, random))
    owc = np.where(recreated, again, (1 - ws) * once)
    aw = 1 - ws - owc
    weights = {
        "owc": float((files.written * owc).sum()),
        "ws": float((files.written * ws).sum()),
        "aw": float((files.written * aw).sum()),
        "read": totals.read,
    }
    data = totals.written + totals.read
    significance = float(np.clip(np.log2((data + 1) / (SIGNIFICANT_BYTES / 2)), 0, 1))
    seen = sum(weights.values())
    of_data = {name: weight / seen if seen else 0.0 for name, weight in weights.items()}
    metadata = _metadata_share(files, totals)
    by_pattern = {name: (1 - metadata) * significance * share for name, share in of_data.items()}
    by_pattern["metadata"] = metadata
    by_pattern["none"] = max(0.0, 1 - sum(by_pattern.values()))
    return Shares(
        by_pattern=by_pattern,
        of_data=of_data,
        significance=significance,
        successive_files=float(successive.max(initial=0)),
        reopened=_weighted(reopened & (again > 0.5), files.written),
        random=_weighted(random, files.written),
    )


def _successive(files: Files) -> Array:
    """For each file: how many alike its process wrote one after the other, itself included.

    Alike: in the order of size, none is twice as large as the one before. Written at the same
    time, they are streams side by side and not a series.
    """
    result = np.zeros(len(files))
    wrote = np.flatnonzero(files.written > 0)
    if not len(wrote):
        return result
    order = wrote[np.lexsort((files.size[wrote], files.owner[wrote]))]
    owner, size = files.owner[order], files.size[order]
    breaks = (np.diff(owner) != 0) | (size[1:] > 2 * size[:-1])
    group = np.concatenate([[0], np.cumsum(breaks)])
    count = np.bincount(group)
    begin, end = np.full(len(count), np.inf), np.zeros(len(count))
    np.minimum.at(begin, group, files.first_write[order])
    np.maximum.at(end, group, files.last_write[order])
    busy = sums(group, files.last_write[order] - files.first_write[order])
    abreast = _ratio(busy, end - begin)
    result[order] = (count / np.clip(abreast, 1, count))[group]
    return result


def _metadata_share(files: Files, totals: Totals) -> float:
    """1: opens and stats are all there is; fades as the bytes behind each file grow.

    Who flushes what he writes, or formats it through streams, means the data, however small.
    """
    if totals.operations < METADATA_OPERATIONS:
        return 0.0
    touched = max(1.0, float((~files.program).sum()))
    each = max(totals.written, totals.read) / max(touched, totals.operations / OPERATIONS_A_FILE)
    flushed = min(1.0, float(files.flushes.sum()) / max(1.0, float(files.writes.sum())))
    streamed = float(((files.written > 0) & (files.stdio_opens > 0)).sum()) / touched
    few_bytes = np.clip(np.log2(4 * METADATA_BYTES / max(each, 1)) / 2, 0, 1)
    return float(few_bytes) * (1 - max(flushed, min(1.0, streamed)))


def _named(shares: Shares) -> dict[str, float]:
    return {name: shares.by_pattern[name] for name in PATTERNS}


def _features(files: Files, totals: Totals, shares: Shares) -> NDArray[np.float32]:
    wrote = files.written > 0
    count = float(wrote.sum())
    opens = float(files.opens[wrote].sum())
    writes = float(files.writes[wrote].sum())
    data = totals.written + totals.read
    owners = np.where(files.owner == SHARED, 1, totals.writers)[wrote]
    values: dict[str, float] = {
        **{f"share_{name}": share for name, share in shares.of_data.items()},
        "share_metadata": shares.by_pattern["metadata"],
        "significance": shares.significance,
        "read_ratio": totals.read / data if data else 0,
        "log2_bytes": _log2(data),
        "log2_written": _log2(totals.written),
        "log2_operations": _log2(totals.operations),
        "log2_operations_per_process": _log2(totals.operations / totals.nprocs),
        "log2_bytes_per_operation": _log2(data / max(1.0, totals.operations)),
        "log2_files_per_writer": _log2(float((1 / owners).sum())),
        "log2_even_files_per_writer": _log2(_even_count(files.written[wrote]) / _mean(owners)),
        "log2_successive_files": _log2(shares.successive_files),
        "log2_opens_per_file": _log2(opens / max(1.0, count)),
        "log2_writes_per_open": _log2(writes / max(1.0, opens)),
        "log2_overwrite": _log2(
            float(files.written.sum()) / max(1.0, float(files.size[wrote].sum()))
        ),
        "reopened_share": shares.reopened,
        "renamed_share": _weighted(files.renames > 0, files.written),
        "stdio_share": float(files.stdio_written.sum()) / max(1.0, float(files.written.sum())),
        "random_share": shares.random,
        "consecutive_ratio": float(files.consecutive.sum()) / max(1.0, writes),
        "log2_chunk": _log2(totals.chunk),
        "flushes_per_write": min(4.0, float(files.flushes.sum()) / max(1.0, writes)),
        "shared_share": _weighted(files.owner == SHARED, files.written),
        "metadata_time_ratio": totals.times.metadata / max(1e-9, totals.times.total),
        "program_files_ratio": totals.program_read / max(1.0, data + totals.program_read),
        "coverage": totals.coverage,
    }
    return np.array([values[name] for name in FEATURES], dtype=np.float32)


# Numbers of the profile


def _numbers(log: DarshanLog, files: Files, totals: Totals, bursts: Bursts) -> dict[str, float]:
    """Return the fields of policies/core/profile.h that the log tells."""
    written, seconds = totals.written, totals.times.slowest
    data = written + totals.read + totals.program_read
    numbers = {
        "nprocs": float(log.nprocs),
        "write_bytes": written,
        "read_bytes": totals.read,
        "runtime_seconds": log.runtime,
    }
    if totals.chunk > 0:
        numbers["chunk_bytes"] = totals.chunk
    if log.targets is not None:
        numbers["targets"] = float(log.targets)
    if bursts.length is not None:
        numbers["burst_seconds"] = bursts.length
    if bursts.period is not None:
        numbers["period_seconds"] = bursts.period
    if totals.coverage < 0.5:  # too few files were recorded to speak for the rest
        return numbers
    if log.runtime > 0:
        numbers["io_share"] = min(1.0, seconds / log.runtime)
    if seconds > 0:
        numbers["rate"] = data / seconds
        numbers["metadata_rate"] = totals.operations / seconds
    numbers |= _write_numbers(log, files, totals)
    return numbers


def _write_numbers(log: DarshanLog, files: Files, totals: Totals) -> dict[str, float]:
    wrote = files.written > 0
    written = float(files.written.sum())
    flushes = float(files.flushes.sum())
    numbers = {"files": float(wrote.sum())}
    if written == 0:
        return numbers
    each_process = written / totals.writers
    per_flush = written / flushes if flushes else written
    waits = flushes > 0 and per_flush <= totals.chunk
    overwrite = files.written / np.maximum(files.size, 1)
    creates = np.where(overwrite > REWRITTEN, np.maximum(files.opens, 1), 1)[wrote].sum()
    numbers |= {
        "bytes_per_flush": per_flush,
        "unflushed_bytes": 0.0 if waits else min(per_flush, each_process),
        "creates_per_mib": float(creates) / (written / 2**20),
        "shared_share": _weighted(files.owner == SHARED, files.written),
        "collective_share": _collective_share(log, written),
    }
    if len(log.mpiio) and log.mpiio.count("NB_WRITES").sum() > 0:
        numbers["async_io"] = 1.0
    return numbers


def _collective_share(log: DarshanLog, written: float) -> float:
    mpiio = log.mpiio
    collective = mpiio.count("COLL_WRITES") + mpiio.count("SPLIT_WRITES")
    others = mpiio.count("INDEP_WRITES") + mpiio.count("NB_WRITES")
    volume = mpiio.count("BYTES_WRITTEN") * _ratio(collective, collective + others)
    return min(1.0, float(volume.sum()) / written)


# Arithmetic


def _ratio(a: Array, b: Array) -> Array:
    """Return a / b, 0 where b is 0."""
    return np.divide(a, b, out=np.zeros(len(a)), where=b > 0)


def _weighted(values: NDArray[Any], weights: Array) -> float:
    total = float(weights.sum())
    return float((values * weights).sum()) / total if total else 0.0


def _mean(values: NDArray[Any]) -> float:
    return float(values.mean()) if len(values) else 1.0


def _even_count(weights: Array) -> float:
    """How many equal weights would be as evenly spread: exp of the entropy."""
    shares = weights[weights > 0] / max(1.0, float(weights.sum()))
    return float(np.exp(-(shares * np.log(shares)).sum())) if len(shares) else 0.0


def _log2(value: float) -> float:
    return float(np.log2(1 + value))
