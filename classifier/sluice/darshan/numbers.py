"""The numbers of a profile (policies/core/profile.h) that a log tells."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sluice.darshan.behaviour import REWRITTEN
from sluice.darshan.files import ratio, weighted

if TYPE_CHECKING:
    from sluice.darshan.bursts import Bursts
    from sluice.darshan.files import Files
    from sluice.darshan.log import DarshanLog
    from sluice.darshan.totals import Totals

ENOUGH = 0.5  # coverage from which the recorded files speak for the rest
SECTOR = 512  # bytes: what bypasses the cache comes in multiples of it


def profile_numbers(
    log: DarshanLog, files: Files, totals: Totals, bursts: Bursts
) -> dict[str, float]:
    """Return the fields that are known, in the profile's units."""
    written, seconds = totals.written, totals.times.slowest
    numbers = {
        "nprocs": float(log.nprocs),
        "write_bytes": written,
        "read_bytes": totals.read,
        "runtime_seconds": log.runtime,
    }
    if totals.chunk > 0:
        numbers["chunk_bytes"] = totals.chunk
    if log.targets is not None:
        numbers["targets"] = float(len(log.targets))
    if bursts.length is not None:
        numbers["burst_seconds"] = bursts.length
    if bursts.period is not None:
        numbers["period_seconds"] = bursts.period
    if totals.coverage < ENOUGH:
        return numbers
    if log.runtime > 0:
        numbers["io_share"] = min(1.0, seconds / log.runtime)
    if seconds > 0:
        numbers["rate"] = (totals.data + totals.program_read) / seconds
        numbers["metadata_rate"] = totals.operations / seconds
    return numbers | _write_numbers(files, totals)


def _write_numbers(files: Files, totals: Totals) -> dict[str, float]:
    written = float(files.written.sum())
    flushes = float(files.flushes.sum())
    numbers = {"files": float(files.wrote.sum())}
    if written == 0:
        return numbers
    each_process = written / totals.writers
    per_flush = written / flushes if flushes else written
    waits = flushes > 0 and per_flush <= totals.chunk
    overwrite = files.written / np.maximum(files.size, 1)
    creates = np.where(overwrite > REWRITTEN, np.maximum(files.opens, 1), 1)[files.wrote].sum()
    numbers |= {
        "bytes_per_flush": per_flush,
        "unflushed_bytes": 0.0 if waits else min(per_flush, each_process),
        "creates_per_mib": float(creates) / (written / 2**20),
        "shared_share": weighted(files.in_common, files.written),
        "collective_share": _collective_share(files, written),
    }
    if (files.rows["mpiio_nb_writes"] > 0).any():
        numbers["async_io"] = 1.0
    if not _may_be_direct(files):
        numbers["direct_share"] = 0.0
    return numbers


def _collective_share(files: Files, written: float) -> float:
    rows = files.rows
    if not rows["mpiio_bytes_written"].any():
        return 0.0
    collective = rows["mpiio_coll_writes"]
    others = rows["mpiio_indep_writes"] + rows["mpiio_nb_writes"]
    volume = rows["mpiio_bytes_written"] * ratio(collective, collective + others)
    return min(1.0, float(volume.sum()) / written)


def _may_be_direct(files: Files) -> bool:
    """Whether any file may have been written around the cache.

    Darshan does not keep the flag, but what goes around the cache comes in whole sectors: of
    streams and of files with odd sizes of accesses it is known that they did not.
    """
    rows = files.rows
    odd = (rows["posix_access"] % SECTOR > 0) & (rows["posix_access_count"] > 0)
    whole = ~odd.any(axis=1) & (rows["posix_bytes_written"] > 0) & ~files.streamed
    return bool(whole.any())
