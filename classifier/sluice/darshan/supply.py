"""What a program is fed with: reads that serve its writes and are no phase of their own.

- The input of a stream: a file read while others are written (a copy, a compressor, a solver
  that reads its boundary values), or one before most of the writes that is small or soon read.
  It may be replaced at once.
- Scratch: a file of its own that it reads back while it writes others (a merge of sorted runs, an
  archiver's temporary file).
- What is changed in place: the blocks that it reads to write them again (a matrix out of core,
  the pages of a database).
- A glance at a file that is being written, as for a checksum.

Who reads back all that it has written, or reads much more than it writes, is named by its reads.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sluice.darshan.files import ratio, weighted
from sluice.darshan.totals import READ_MOSTLY

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sluice.darshan.files import Files
    from sluice.darshan.totals import Totals

    Array = NDArray[np.float64]

GLANCE = 0.1  # of the time or the number of the writes: reads below are no phase
INPUT_DECK = 8 << 20  # bytes read before most are written: no phase of their own,
SOON_READ = 0.01  # nor when that takes so little of the run, however many


@dataclass(frozen=True, slots=True)
class Supply:
    share: float
    """Of the bytes read."""
    others: Array
    """Bytes read of each file that feed no write."""


def find_supply(files: Files, totals: Totals, in_place: Array) -> Supply:
    """Tell what the program is fed with from other reads.

    in_place is how surely each file is written in place, 0..1.
    """
    read = np.where(files.program, 0, files.read)
    if not files.wrote.any() or totals.read == 0 or totals.read > READ_MOSTLY * totals.written:
        return Supply(0.0, read)
    own = files.wrote & ~_replaced(files)
    stream = _beside_writes(files, read) * (~own | _written_on(files, read, own))
    deck = _deck(files, totals, read, ~own)
    parts = (stream, deck, _glanced(files), in_place * alternating(files))
    supply = read * np.maximum.reduce(parts)
    return Supply(float(supply.sum()) / max(1.0, float(read.sum())), read - supply)


def _beside_writes(files: Files, read: Array) -> Array:
    """How surely a file is read while others are written: for most of what lasts less."""
    begin, end = _span_of_others(files)
    some = read > 0
    reading = np.where(some, files.last_read - files.first_read, 0)
    common = np.minimum(files.last_read, end) - np.maximum(files.first_read, begin)
    shorter = np.minimum(reading, np.maximum(end - begin, 0))
    inside = ratio(np.where(some, np.maximum(common, 0), 0), shorter)
    return np.where(some, ((inside - 0.5) / 0.3).clip(0, 1), 0)


def _span_of_others(files: Files) -> tuple[Array, Array]:
    """Return for each file when the others begin and end to be written."""
    return _least_of_others(files.first_write), -_least_of_others(
        np.where(files.wrote, -files.last_write, np.inf)
    )


def _least_of_others(values: Array) -> Array:
    """Return for each value the least of all but itself."""
    least, second = np.partition(np.append(values, [np.inf, np.inf]), 1)[:2]
    result = np.full(len(values), least)
    result[values.argmin()] = second
    return result


def _written_on(files: Files, read: Array, own: NDArray[np.bool_]) -> bool:
    """Whether what is read back goes into something else that is written.

    Who checks, restarts from or reduces its own output leaves nothing that was not read.
    """
    back = float(read[own].sum())
    onward = float(files.written[files.wrote & (files.read <= GLANCE * files.written)].sum())
    return back <= READ_MOSTLY * onward


def _deck(files: Files, totals: Totals, read: Array, given: NDArray[np.bool_]) -> Array:
    """How surely a given file is an input that is no phase: read before most is written."""
    wrote = files.wrote
    before = given & (read > 0)
    before &= files.last_read <= weighted(_middle_written(files)[wrote], files.written[wrote])
    volume = float(read[before].sum()) / INPUT_DECK
    seconds = float(files.rows["read_time"][before].sum()) / totals.nprocs
    took = seconds / max(totals.runtime, seconds, 1e-9) / SOON_READ
    small, soon = 1 - np.log2(max(1.0, volume)) / 3, 1 - np.log2(max(1.0, took))
    return np.where(before, max(0.0, float(small), float(soon)), 0)


def _middle_written(files: Files) -> Array:
    return (files.first_write + files.last_write) / 2


def _replaced(files: Files) -> NDArray[np.bool_]:
    """Whether a file is read and then, at once, written anew: an image that is rotated.

    At once: after no longer than it was read, or in a small part of the time of all writes.
    """
    wrote = files.wrote
    took = np.where(files.read > 0, files.last_read - files.first_read, 0)
    lasted = float(files.last_write[wrote].max() - files.first_write[wrote].min())
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


def alternating(files: Files) -> Array:
    """How surely each block is read and then written: a file's reads and writes take turns.

    Where they come at random, in equal numbers, half as often.
    """
    pairs = np.minimum(files.reads, files.writes)
    turns = ratio(files.rows["posix_turns"], 2 * pairs)
    return ((turns - 0.65) / 0.2).clip(0, 1)
