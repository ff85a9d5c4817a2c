"""Which pattern each file of a run follows, and which shares that makes.

- Files that a process writes one after the other, and streams that are opened again and again
  for large pieces: created and closed (owc).
- More bytes written than the file is long, writes in no order, or gaps that nobody fills, as the
  file was there before: rewritten in place (ws). Where the file is truncated for each rewrite, or
  renamed over: created again (owc).
- The journal of a file that is rewritten in place, made anew for each transaction of a database:
  rewritten as well (ws).
- Everything else that is written: appended (aw).
- Many opens and stats with few bytes behind each file: metadata.
- Reads: read, but for what a program is fed with. Such a run is named by its writes.

What a program is fed with, reads that serve its writes and are no phase of their own:

- The input of a stream: a file read while others are written (a copy, a compressor, a solver
  that reads its boundary values), or one before most of the writes that is small or soon read.
  It may be replaced at once.
- Scratch: a file of its own that it reads back while it writes others (a merge of sorted runs, an
  archiver's temporary file).
- What is changed in place: the blocks that it reads to write them again (a matrix out of core,
  the pages of a database).
- A glance at a file that is being written, as for a checksum.

A run that reads back all that it has written, or reads much more than it writes, is named by its
reads.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sluice.darshan.rows import differs, ratio
from sluice.darshan.totals import METADATA_OPERATIONS, READ_MOSTLY

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sluice.darshan.rows import Files, Rows
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
COMPARABLE = 4.0  # times: a file's series are those at least this fraction of its size
GLANCE = 0.1  # of the time or the number of the writes: reads below are no phase
INPUT_DECK = 8 << 20  # bytes read before most are written: no phase of their own,
SOON_READ = 0.01  # nor when that takes so little of the run, however many

PATTERNS = ("owc", "ws", "aw", "read", "metadata", "none")
"""Those a share can be given to."""


@dataclass(frozen=True, slots=True)
class Behaviour:
    """Shares of runs by pattern, and the signals behind them: a value for each log."""

    of_bytes: dict[str, Array]
    """PATTERNS; sums to 1."""
    of_time: dict[str, Array]
    """Likewise, of the seconds spent in I/O."""
    of_data: dict[str, Array]
    """owc, ws, aw, read among the bytes alone, however few and whatever the metadata."""
    significance: Array
    """0: no I/O to speak of; 1: enough of it."""
    successive_files: Array
    """Files that a process writes one after the other; the largest such series."""
    named_files: Array
    """Likewise, with names that differ in numbers only."""
    reopened: Array
    """Shares of the bytes written: in files that are opened for each rewrite,"""
    truncated: Array
    """whose rewrites begin with an empty file,"""
    random: Array
    """that are written in no order."""
    supplied: Array
    """Share of the bytes read that feed writes."""


def find_behaviour(files: Files, totals: Totals) -> Behaviour:
    rows = files.rows
    series = find_series(files)
    overwrite = files.written / np.maximum(files.size, 1)
    opens = files.opens / np.where(files.shared, totals.nprocs[rows.log], 1)
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
    of_data = _data_shares(files, by_pattern, files.written, supply.others)
    significance = _significance(files, totals)
    metadata = metadata_share(files, totals)
    return Behaviour(
        of_bytes=_whole(of_data, metadata, significance),
        of_time=_time_shares(files, by_pattern, supply, metadata, significance),
        of_data=of_data,
        significance=significance,
        successive_files=rows.largest(series.length),
        named_files=rows.largest(series.named),
        reopened=rows.weighted(reopened & (again > 0.5), files.written),
        truncated=rows.weighted(truncated * again, files.written),
        random=rows.weighted(random, files.written),
        supplied=supply.share,
    )


def _significance(files: Files, totals: Totals) -> Array:
    """0: no I/O to speak of; 1: enough of it.

    What makes a file or waits for storage weighs like some KiB, however few bytes it moves.
    """
    waits = files.rows.total(files.opens + files.flushes, files.wrote)
    felt = totals.data + OPERATION_BYTES * waits
    return (np.log2((felt + 1) / SIGNIFICANT_BYTES) + 0.5).clip(0, 1)


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
    full = np.where(files.reads > 0.5 * files.writes, _alternating(files), 0)
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
    owner = files.rows.process
    begin, end = np.full(len(files), np.inf), np.zeros(len(files))
    flushes = np.zeros(len(files))
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
    scattered = ~files.streamed & (files.writes >= SCATTERED)
    if not scattered.any():
        return np.zeros(len(files))
    place = files.rows.file
    size = np.zeros(len(files))
    np.maximum.at(size, place, files.size)
    written = np.bincount(place, weights=files.written, minlength=len(files))
    filled = ratio(written, size)[place]
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


def _data_shares(
    files: Files, by_pattern: dict[str, Array], written: Array, read: Array
) -> dict[str, Array]:
    total = files.rows.total
    weights = {name: total(written * share) for name, share in by_pattern.items()}
    return _normal(weights | {"read": total(read)})


def _time_shares(
    files: Files,
    by_pattern: dict[str, Array],
    supply: Supply,
    metadata: Array,
    significance: Array,
) -> dict[str, Array]:
    """Share out the seconds of each file by what was done in them."""
    rows = files.rows
    reading = np.where(files.program, 0, rows["read_time"]) * ratio(supply.others, files.read)
    # of the seconds spent on metadata, the pattern's own: where there is data
    moving = ratio(files.written, files.written + files.read)
    looking = rows["meta_time"]
    writing = rows["write_time"] + moving * looking
    shares = _data_shares(files, by_pattern, writing, reading)
    idle = rows.total(looking, (files.written + files.read) == 0)
    spent = rows.total(writing) + rows.total(reading) + idle
    opening = np.maximum(metadata, ratio(idle, spent) * (metadata > 0))
    return _whole(shares, opening, significance)


def _whole(data: dict[str, Array], metadata: Array, significance: Array) -> dict[str, Array]:
    """Add metadata and nothing-to-speak-of, so that all sums to 1."""
    shares = {name: (1 - metadata) * significance * share for name, share in data.items()}
    shares["metadata"] = metadata
    shares["none"] = np.maximum(0.0, 1 - sum(shares.values()))
    return {name: shares[name] for name in PATTERNS}


def _normal(weights: dict[str, Array]) -> dict[str, Array]:
    total = np.asarray(sum(weights.values()))
    return {name: ratio(weight, total) for name, weight in weights.items()}


def metadata_share(files: Files, totals: Totals) -> Array:
    """1: opens and stats are all there is; fades as the bytes behind each file grow.

    A program that flushes what it writes, or formats it, means the data, however small.
    """
    rows = files.rows
    touched = np.maximum(1.0, rows.count(~files.program))
    most = np.maximum(totals.written, totals.read)
    each = most / np.maximum(touched, totals.operations / OPERATIONS_A_FILE)
    flushed = rows.total(files.flushes) / np.maximum(1.0, rows.total(files.writes))
    streamed = rows.count(files.wrote & files.streamed) / touched
    few_bytes = (np.log2(4 * METADATA_BYTES / np.maximum(each, 1)) / 2).clip(0, 1)
    meant = np.maximum(np.minimum(1.0, flushed), np.minimum(1.0, streamed))
    return np.where(totals.operations < METADATA_OPERATIONS, 0.0, few_bytes * (1 - meant))


# Files that a process writes one after the other


@dataclass(frozen=True, slots=True)
class Series:
    """Of each file."""

    length: Array
    """Files of comparable size or larger that its process writes one after the other, itself
    included. Files written at the same time are streams side by side and count as one."""
    named: Array
    """Likewise, files whose names differ in numbers only."""


def find_series(files: Files) -> Series:
    wrote, rows = files.wrote, files.rows
    length = wrote.astype(np.float64)
    named = (wrote & (files.stem != 0)).astype(np.float64)
    by_process = np.bincount(rows.process[wrote], minlength=len(files))
    several = wrote & rows.some(wrote & (by_process[rows.process] > 1))[rows.log]
    if several.any():
        length[several] = _by_size(files, np.flatnonzero(several))
    several &= files.stem != 0
    if several.any():
        named[several] = _by_name(files, several)
    return Series(length, named)


def _by_size(files: Files, wrote: NDArray[np.intp]) -> Array:
    """For each file: those of its process that are not much smaller."""
    log, process = files.rows.log[wrote], files.rows.process[wrote]
    size = np.maximum(files.size[wrote], 1)
    order = np.lexsort((-size, process))
    wrote, log, process, size = wrote[order], log[order], process[order], size[order]
    result = np.empty(len(wrote))
    logs = np.append(np.flatnonzero(differs(log)), len(log))
    for begin, end in itertools.pairwise(logs.tolist()):
        own = slice(begin, end)
        times = files.first_write[wrote[own]], files.last_write[wrote[own]]
        result[order[own]] = _successive(size[own], differs(process[own]), *times)
    return result


def _successive(size: Array, begins: NDArray[np.bool_], first: Array, last: Array) -> Array:
    """Return the length of the series of each file of a log.

    Sorted by process, whose largest file `begins`; first and last: seconds of the writes.
    """
    owner, start = begins.cumsum() - 1, np.flatnonzero(begins)
    stop = np.append(start[1:], len(size))
    # running sums and extremes from each process's largest file on: steps apart, so that one
    # pass over all processes starts anew with each
    step = 2 * max(1.0, float(last.max()))
    begin = np.minimum.accumulate(first - owner * step) + owner * step
    end = np.maximum.accumulate(last + owner * step) - owner * step
    busy = np.cumsum(last - first)
    before = np.concatenate([[0.0], busy])[start]
    # the last file of the process that is at least size / COMPARABLE
    key = owner * 128 - np.log2(size)
    until = key.searchsorted(key + np.log2(COMPARABLE), side="right") - 1
    until = np.minimum(until, stop[owner] - 1)
    count = until - start[owner] + 1.0
    abreast = ratio(busy[until] - before[owner], end[until] - begin[until])
    result: Array = count / abreast.clip(1, count)
    return result


def _by_name(files: Files, wrote: NDArray[np.bool_]) -> Array:
    """For each file: those of its process with the same stem."""
    group = files.rows.numbered(files.owner[wrote], files.stem[wrote], where=wrote)
    first, last = files.first_write[wrote], files.last_write[wrote]
    count = np.bincount(group).astype(np.float64)
    begin, end = np.full(len(count), np.inf), np.zeros(len(count))
    np.minimum.at(begin, group, first)
    np.maximum.at(end, group, last)
    busy = np.bincount(group, weights=last - first)
    abreast = ratio(busy, end - begin)
    result: Array = (count / abreast.clip(1, count))[group]
    return result


# What a program is fed with


@dataclass(frozen=True, slots=True)
class Supply:
    share: Array
    """Of the bytes that each log read."""
    others: Array
    """Bytes read of each file that feed no write."""


def find_supply(files: Files, totals: Totals, in_place: Array) -> Supply:
    """Tell what programs are fed with from other reads.

    in_place is how surely each file is written in place, 0..1.
    """
    rows = files.rows
    read = np.where(files.program, 0, files.read)
    fed = rows.some(files.wrote) & (totals.read != 0)
    fed &= ~(totals.read > READ_MOSTLY * totals.written)
    if not fed.any():
        return Supply(np.zeros(rows.logs), read)
    own = files.wrote & ~_replaced(files)
    stream = _alongside_writes(files, read) * (~own | _written_on(files, read, own)[rows.log])
    deck = _deck(files, totals, read, ~own)
    parts = (stream, deck, _glanced(files), in_place * _alternating(files))
    supply = read * np.maximum.reduce(parts) * fed[rows.log]
    return Supply(rows.total(supply) / np.maximum(1.0, rows.total(read)), read - supply)


def _alongside_writes(files: Files, read: Array) -> Array:
    """How surely a file is read while others are written: for most of what lasts less."""
    begin, end = _span_of_others(files)
    some = read > 0
    reading = np.where(some, files.last_read - files.first_read, 0)
    common = np.minimum(files.last_read, end) - np.maximum(files.first_read, begin)
    shorter = np.minimum(reading, np.maximum(end - begin, 0))
    inside = ratio(np.where(some, np.maximum(common, 0), 0), shorter)
    return np.where(some, ((inside - 0.5) / 0.3).clip(0, 1), 0)


def _span_of_others(files: Files) -> tuple[Array, Array]:
    """Return for each file when the log's others begin and end to be written."""
    last = np.where(files.wrote, -files.last_write, np.inf)
    return _least_of_others(files.rows, files.first_write), -_least_of_others(files.rows, last)


def _least_of_others(rows: Rows, values: Array) -> Array:
    """Return for each row the least value of all rows of its log but itself."""
    least = rows.smallest(values)
    places = np.flatnonzero(values == least[rows.log])[::-1]
    first = np.zeros(rows.logs, dtype=np.intp)
    first[rows.log[places]] = places  # the first of each log comes last
    first = first[np.diff(rows.bounds) > 0]
    others = np.array(values)
    others[first] = np.inf
    result = least[rows.log]
    result[first] = rows.smallest(others)[rows.log[first]]
    return result


def _written_on(files: Files, read: Array, own: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Whether what is read back goes into something else that is written.

    Who checks, restarts from or reduces its own output leaves nothing that was not read.
    """
    back = files.rows.total(read, own)
    onward = files.rows.total(files.written, files.wrote & (files.read <= GLANCE * files.written))
    return back <= READ_MOSTLY * onward


def _deck(files: Files, totals: Totals, read: Array, given: NDArray[np.bool_]) -> Array:
    """How surely a given file is an input that is no phase: read before most is written."""
    rows, wrote = files.rows, files.wrote
    middle = (files.first_write + files.last_write) / 2
    most_written = rows.weighted(np.where(wrote, middle, 0), files.written, wrote)
    before = given & (read > 0) & (files.last_read <= most_written[rows.log])
    volume = rows.total(read, before) / INPUT_DECK
    seconds = rows.total(rows["read_time"], before) / totals.nprocs
    longest = np.maximum(np.maximum(totals.runtime, seconds), 1e-9)
    took = seconds / longest / SOON_READ
    small = 1 - np.log2(np.maximum(1.0, volume)) / 3
    soon = 1 - np.log2(np.maximum(1.0, took))
    return np.where(before, np.maximum(0.0, np.maximum(small, soon))[rows.log], 0)


def _replaced(files: Files) -> NDArray[np.bool_]:
    """Whether a file is read and then, at once, written anew: an image that is rotated.

    At once: after no longer than it was read, or in a small part of the time of all writes.
    """
    rows, wrote = files.rows, files.wrote
    took = np.where(files.read > 0, files.last_read - files.first_read, 0)
    last = rows.largest(files.last_write, wrote, least=-np.inf)
    lasted = (last - rows.smallest(files.first_write, wrote))[rows.log]
    before = files.first_read + files.last_read < files.first_write + files.last_write
    return before & (files.first_write - files.last_read <= np.maximum(took, GLANCE * lasted))


def _glanced(files: Files) -> NDArray[np.bool_]:
    """Whether a file is looked at while it is being written, as for a checksum.

    That lasts for a moment, or takes few reads among many writes.
    """
    inside = (files.first_read >= files.first_write) & (files.last_read <= files.last_write)
    lasted, glance = files.last_write - files.first_write, files.last_read - files.first_read
    rarely = (glance < GLANCE * lasted) | (files.reads < GLANCE * files.writes)
    result: NDArray[np.bool_] = inside & (files.read > 0) & rarely
    return result


def _alternating(files: Files) -> Array:
    """How surely each block is read and then written: a file's reads and writes take turns.

    Where they come at random, in equal numbers, half as often.
    """
    pairs = np.minimum(files.reads, files.writes)
    turns = ratio(files.rows["posix_turns"], 2 * pairs)
    return ((turns - 0.65) / 0.2).clip(0, 1)
