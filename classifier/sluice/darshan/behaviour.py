"""Which pattern each file of a job follows, and which shares that makes.

- Files that a process writes one after the other, and streams that are opened again and again
  for large pieces: created and closed (owc).
- More bytes written than the file is long, writes in no order, or gaps that nobody fills, as the
  file was there before: rewritten in place (ws). Where the file is truncated for each rewrite, or
  renamed over: created again (owc).
- The journal of a file that is rewritten in place, made anew for each transaction of a database:
  rewritten as well (ws).
- Everything else that is written: appended (aw).
- Many opens and stats with few bytes behind each file: metadata.
- Reads: read, but for what a program is fed with (supply.py). Such a run is named by its writes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sluice.darshan.files import ratio, sums, weighted
from sluice.darshan.series import Series, find_series
from sluice.darshan.supply import Supply, alternating, find_supply
from sluice.darshan.totals import METADATA_OPERATIONS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sluice.darshan.files import Files
    from sluice.darshan.totals import Totals

    Array = NDArray[np.float64]

SIGNIFICANT_BYTES = 96 * 1024  # a run that moves fewer has no I/O to speak of
OPERATION_BYTES = 6 * 1024  # that take as long as to make or flush a file
METADATA_BYTES = 4096  # a file; with more the data matter more
OPERATIONS_A_FILE = 3  # create, stat, open: with more, operations count instead of files
REWRITTEN = 1.5  # bytes written over the file's size, from which it was written again;
REWRITTEN_BAND = 0.5  # unsure so far around it: libraries write their headers several times
FILLED_FIRST = 1.5  # more of it for files of a series: fill values or moved variables, then data
FILLED, FILLED_BAND = 0.75, 0.1  # share of the file that was written: below, there are gaps
SCATTERED = 4  # writes, from which gaps speak
TRANSACTIONS = 5  # flushes, from which a file may be one of a database,
IN_TURN = 0.3  # which is flushed as often for each time that its journal is made
PIECE = 16 * 1024  # bytes: streams opened again to add fewer are logs

PATTERNS = ("owc", "ws", "aw", "read", "metadata", "none")
"""Those a share can be given to."""


@dataclass(frozen=True, slots=True)
class Behaviour:
    """Shares of a run by pattern, and the signals behind them."""

    of_bytes: dict[str, float]
    """PATTERNS; sums to 1."""
    of_time: dict[str, float]
    """Likewise, of the seconds spent in I/O."""
    of_data: dict[str, float]
    """owc, ws, aw, read among the bytes alone, however few and whatever the metadata."""
    significance: float
    """0: no I/O to speak of; 1: enough of it."""
    successive_files: float
    """Files that a process writes one after the other; the largest such series."""
    named_files: float
    """Likewise, with names that differ in numbers only."""
    reopened: float
    """Shares of the bytes written: in files that are opened for each rewrite,"""
    truncated: float
    """whose rewrites begin with an empty file,"""
    random: float
    """that are written in no order."""
    supplied: float
    """Share of the bytes read that feed writes."""


def find_behaviour(files: Files, totals: Totals) -> Behaviour:
    series = find_series(files)
    overwrite = files.written / np.maximum(files.size, 1)
    opens = files.opens / np.where(files.shared, totals.nprocs, 1)
    again = ((overwrite - REWRITTEN) / REWRITTEN_BAND + 0.5).clip(0, 1)
    reopened = (opens >= 0.5 * overwrite) & (opens >= 2)
    truncated = _truncated(files, reopened)
    random = _random(files)
    once = np.maximum(_once(series), _pieces(files, opens))
    existed = np.maximum(random, _gaps(files) * (1 - once))
    later = ((overwrite - FILLED_FIRST * once - REWRITTEN) / REWRITTEN_BAND + 0.5).clip(0, 1)
    ws = np.maximum(later * (1 - truncated), existed)
    owc = np.maximum(again * truncated, (1 - ws) * once)
    journal = _journal(files, owc, ws)
    owc, ws, truncated = owc * (1 - journal), np.maximum(ws, journal), truncated * (1 - journal)
    by_pattern = {"owc": owc, "ws": ws, "aw": 1 - ws - owc}
    supply = find_supply(files, totals, np.maximum(again * (1 - truncated), existed))
    of_data = _data_shares(by_pattern, files.written, supply.others)
    significance = _significance(files, totals)
    metadata = metadata_share(files, totals)
    return Behaviour(
        of_bytes=_whole(of_data, metadata, significance),
        of_time=_time_shares(files, by_pattern, supply, metadata, significance),
        of_data=of_data,
        significance=significance,
        successive_files=float(series.length.max(initial=0)),
        named_files=float(series.named.max(initial=0)),
        reopened=weighted(reopened & (again > 0.5), files.written),
        truncated=weighted(truncated * again, files.written),
        random=weighted(random, files.written),
        supplied=supply.share,
    )


def _significance(files: Files, totals: Totals) -> float:
    """0: no I/O to speak of; 1: enough of it.

    What makes a file or waits for storage weighs like some KiB, however few bytes it moves.
    """
    waits = float((files.opens + files.flushes)[files.wrote].sum())
    felt = totals.data + OPERATION_BYTES * waits
    return min(1.0, max(0.0, float(np.log2((felt + 1) / SIGNIFICANT_BYTES)) + 0.5))


def _once(series: Series) -> Array:
    """How surely files are made one by one: two may be chance, three are a series.

    Two whose names differ in a number are no chance.
    """
    by_size: Array = ((series.length - 1.5) / 1.5).clip(0, 1)
    by_name: Array = ((np.minimum(series.length, series.named) - 1.2) / 0.8).clip(0, 1)
    return np.maximum(by_size, by_name)


def _truncated(files: Files, reopened: NDArray[np.bool_]) -> Array:
    """How surely a reopened file is empty when its rewrite begins.

    fopen and C++ streams truncate what they open for writing, and so does who renames a new file
    over the old one. Of a bare open nothing is recorded: who then writes without seeking has most
    likely truncated it; a place sought for each write is a rewrite in place, and what is read and
    written in turns was not empty. MPI-IO opens never truncate: only several writes from the start
    on speak for a file that was removed before.
    """
    if not reopened.any():
        return np.zeros(len(files))
    sure = (files.stdio_written > 0.5 * files.written) | files.streamed
    sure |= files.rows["posix_renames"] > 0
    per_open = ratio(files.writes, files.opens)
    several = (np.log2(np.maximum(per_open, 1)) / 2).clip(0, 1)
    seeks = ratio(files.rows["posix_seeks"], files.writes)
    likely = np.where(files.rows["mpiio_bytes_written"] > 0, several, 1.0) * (seeks < 0.9)
    full = np.where(files.reads > 0.5 * files.writes, alternating(files), 0)
    return np.where(reopened, np.where(sure, 1.0, likely * (1 - full)), 0)


def _journal(files: Files, owc: Array, ws: Array) -> Array:
    """How surely a file that is emptied again and again is the journal of another.

    A database saves what it is about to rewrite, flushes that, rewrites, and flushes again: both
    files are flushed for each transaction, by one process, over the same time.
    """
    emptied = (owc > 0.5) & (files.flushes >= 0.5 * files.opens) & (files.opens >= TRANSACTIONS)
    database = (ws > 0.5) & (files.flushes >= TRANSACTIONS)
    if not emptied.any() or not database.any():
        return np.zeros(len(files))
    owners, owner = np.unique(files.owner, return_inverse=True)
    begin, end = np.full(len(owners), np.inf), np.zeros(len(owners))
    flushes = np.zeros(len(owners))
    np.minimum.at(begin, owner[database], files.first_write[database])
    np.maximum.at(end, owner[database], files.last_write[database])
    np.maximum.at(flushes, owner[database], files.flushes[database])
    with_it = (files.first_write < end[owner]) & (files.last_write > begin[owner])
    in_turn = flushes[owner] >= IN_TURN * files.opens
    return np.where(emptied & with_it & in_turn, 1.0, 0.0)


def _gaps(files: Files) -> Array:
    """How surely a file has places that nobody wrote, so that it was there before.

    Of processes that share a file each fills a part. Offsets of streams count on through all opens.
    """
    _, place = np.unique(files.rows["id"], return_inverse=True)
    size = np.zeros(len(files))
    np.maximum.at(size, place, files.size)
    filled = ratio(sums(place, files.written, len(files)), size)[place]
    scattered = ~files.streamed & (files.writes >= SCATTERED)
    return np.where(scattered, ((FILLED - filled) / FILLED_BAND + 0.5).clip(0, 1), 0)


def _pieces(files: Files, opens: Array) -> Array:
    """How surely a C++ stream is opened anew for each of several large pieces.

    Its offsets go on counting through all opens, so that a file rewritten from the start looks
    as if appended to.
    """
    through_posix = files.streamed & (files.stdio_written == 0)
    if not through_posix.any():
        return np.zeros(len(files))
    each = np.maximum(ratio(files.written, files.opens), 1)
    large = (np.log2(each / PIECE) / 2).clip(0, 1)
    return np.where(through_posix, (opens - 2).clip(0, 1) * large, 0)


def _random(files: Files) -> Array:
    """How much a file is written in no order.

    Several variables in one file, a slice of each at a time, jump too, but always over the same
    few distances.
    """
    if not files.out_of_order.any():
        return np.zeros(len(files))
    disorder = ratio(files.out_of_order, files.large_writes)
    disorder = np.where(files.large_writes >= 4, ((disorder - 0.2) / 0.3).clip(0, 1), 0)
    result: Array = disorder * (1 - ((files.regular - 0.6) / 0.3).clip(0, 1))
    return result


def _data_shares(by_pattern: dict[str, Array], written: Array, read: Array) -> dict[str, float]:
    weights = {name: float((written * share).sum()) for name, share in by_pattern.items()}
    return _normal(weights | {"read": float(read.sum())})


def _time_shares(
    files: Files,
    by_pattern: dict[str, Array],
    supply: Supply,
    metadata: float,
    significance: float,
) -> dict[str, float]:
    """Share out the seconds of each file by what was done in them."""
    rows = files.rows
    reading = np.where(files.program, 0, rows["read_time"]) * ratio(supply.others, files.read)
    # of the seconds spent on metadata, the pattern's own: where there is data
    moving = ratio(files.written, files.written + files.read)
    looking = rows["meta_time"]
    writing = rows["write_time"] + moving * looking
    shares = _data_shares(by_pattern, writing, reading)
    idle = float(looking[(files.written + files.read) == 0].sum())
    spent = float(writing.sum() + reading.sum()) + idle
    opening = metadata if not spent else max(metadata, idle / spent * (metadata > 0))
    return _whole(shares, opening, significance)


def _whole(data: dict[str, float], metadata: float, significance: float) -> dict[str, float]:
    """Add metadata and nothing-to-speak-of, so that all sums to 1."""
    shares = {name: (1 - metadata) * significance * share for name, share in data.items()}
    shares["metadata"] = metadata
    shares["none"] = max(0.0, 1 - sum(shares.values()))
    return {name: shares[name] for name in PATTERNS}


def _normal(weights: dict[str, float]) -> dict[str, float]:
    total = sum(weights.values())
    return {name: weight / total if total else 0.0 for name, weight in weights.items()}


def metadata_share(files: Files, totals: Totals) -> float:
    """1: opens and stats are all there is; fades as the bytes behind each file grow.

    Who flushes what he writes, or formats it through streams, means the data, however small.
    """
    if totals.operations < METADATA_OPERATIONS:
        return 0.0
    touched = max(1.0, float((~files.program).sum()))
    each = max(totals.written, totals.read) / max(touched, totals.operations / OPERATIONS_A_FILE)
    flushed = min(1.0, float(files.flushes.sum()) / max(1.0, float(files.writes.sum())))
    streamed = float((files.wrote & files.streamed).sum()) / touched
    few_bytes = min(1.0, max(0.0, float(np.log2(4 * METADATA_BYTES / max(each, 1))) / 2))
    return few_bytes * (1 - max(flushed, min(1.0, streamed)))
