"""Rows of many logs at once: one a file, what POSIX, STDIO and MPI-IO counted for it side by side.

A row stands for one (file, process), or for one file that several processes share. Its fields
and what they mean: struct sluice_file_row in `classifier/reader/reader.h`, where they are filled.

What is computed of a log has the same bits whichever logs are computed with it: sums are added
log by log, in the order in which numpy adds up one array.

`Files` tells what jobs did to each file. Traps, all of them seen in real logs: a file has bytes
in its POSIX record, its STDIO record or both; C++ streams open through STDIO and write through
POSIX; stream opens and duplicates of a descriptor count as POSIX opens too; processes that share
a file may have one common record.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from sluice.darshan._reader import ffi, lib

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Array = NDArray[np.float64]
    Mask = NDArray[np.bool_]


SHARED = -1
"""Owner of a file that several processes share."""

STANDARD_STREAMS = (14734109647742566553, 15920181672442173319, 7238257241479193519)
"""Ids of <STDIN>, <STDOUT> and <STDERR>; no row is of one, but of an output of 96 KiB and more."""

BUCKETS = tuple(
    f"{low}_{high}"
    for low, high in zip(
        ("0", "100", "1K", "10K", "100K", "1M", "4M", "10M", "100M", "1G"),
        ("100", "1K", "10K", "100K", "1M", "4M", "10M", "100M", "1G", "PLUS"),
        strict=True,
    )
)
"""Darshan's classes of access sizes."""

AT_ONCE = 1 << 14
"""Rows of several logs at the most; those of a larger log are never copied."""

_FORMATS = {"uint64_t": "u8", "int64_t": "i8", "double": "f8", "float": "f4"}


def _dtype(struct: Any) -> np.dtype[Any]:
    """Return a C struct of numbers and arrays of them as numpy sees it."""
    names, formats, offsets = [], [], []
    for name, field in struct.fields:
        is_array = field.type.kind == "array"
        number = _FORMATS[(field.type.item if is_array else field.type).cname]
        names.append(name)
        formats.append(f"{field.type.length}{number}" if is_array else number)
        offsets.append(field.offset)
    return np.dtype({"names": names, "formats": formats, "offsets": offsets})


ROW = _dtype(ffi.typeof("struct sluice_file_row"))


class Rows:
    """The rows of several logs, one log's after another's."""

    def __init__(self, parts: Sequence[NDArray[Any]]) -> None:
        """Put rows (ROW) together: an array for each log."""
        self.logs = len(parts)
        self.bounds = np.concatenate([[0], np.cumsum([len(part) for part in parts])])
        """Where each log begins, and where the last one ends."""
        self.log = np.repeat(np.arange(self.logs), np.diff(self.bounds))
        """Of each row."""
        self._all = parts[0] if self.logs == 1 else _joined(parts)
        self._columns: dict[str, NDArray[Any]] = {}

    def __len__(self) -> int:
        return len(self._all)

    def __getitem__(self, name: str) -> NDArray[Any]:
        """Return a field of all rows, side by side in memory where that is worth the copy."""
        if len(self) > AT_ONCE:
            return self._all[name]
        if name not in self._columns:
            # of a histogram each of its classes side by side, for sums over them
            order: Any = "F" if name.startswith("posix_size") else "C"
            self._columns[name] = np.array(self._all[name], order=order)
        return self._columns[name]

    @cached_property
    def process(self) -> NDArray[np.intp]:
        """Of each row: which of the processes of all logs it is of, numbered log by log."""
        return self.numbered(self["owner"])

    @cached_property
    def file(self) -> NDArray[np.intp]:
        """Of each row: which of the files of all logs it is of."""
        return self.numbered(self["id"])

    def numbered(self, *keys: NDArray[Any], where: Mask | None = None) -> NDArray[np.intp]:
        """Return numbers that differ where log or a key does, in order of log and keys."""
        sorted_by = (self.log if where is None else self.log[where], *keys)
        order = np.lexsort(sorted_by[::-1])
        numbers = np.empty(len(order), dtype=np.intp)
        numbers[order] = differs(*(key[order] for key in sorted_by)).cumsum() - 1
        return numbers

    # For each log

    def total(self, values: NDArray[Any], where: Mask | None = None) -> Array:
        """Sum the values of each log's rows."""
        return sums(*self._part(values, where))

    def count(self, where: Mask) -> Array:
        return np.diff(self._bounds(where)).astype(np.float64)

    def some(self, where: Mask) -> Mask:
        """Whether it holds for any row of a log."""
        if not where.any():
            return np.zeros(self.logs, dtype=np.bool_)
        return self.count(where) > 0

    def largest(
        self, values: NDArray[Any], where: Mask | None = None, *, least: float = 0.0
    ) -> Array:
        """Return the largest value of each log, `least` where it has no larger one."""
        return -self.smallest(-values, where, most=-least)

    def smallest(
        self, values: NDArray[Any], where: Mask | None = None, *, most: float = np.inf
    ) -> Array:
        """Return the smallest value of each log, `most` where it has no smaller one."""
        values, bounds = self._part(values, where)
        result = np.full(self.logs, most)
        some = np.diff(bounds) > 0
        if len(values):
            result[some] = np.minimum(most, np.minimum.reduceat(values, bounds[:-1][some]))
        return result

    def weighted(self, values: NDArray[Any], weights: Array, where: Mask | None = None) -> Array:
        """Return each log's mean by weight; 0 without any."""
        return ratio(self.total(values * weights, where), self.total(weights, where))

    def _part(self, values: NDArray[Any], where: Mask | None) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return the values of some rows, and the bounds of the logs among them."""
        if where is None:
            return values, self.bounds
        bounds = self._bounds(where)
        return (values if bounds is self.bounds else values[where]), bounds

    def _bounds(self, where: Mask) -> NDArray[np.int64]:
        if where.all():
            return self.bounds
        before = np.zeros(len(where) + 1, dtype=np.int64)
        where.cumsum(out=before[1:])
        return np.asarray(before[self.bounds])


def _joined(parts: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Concatenate as bytes: numpy would copy field by field."""
    everything = [np.zeros(0, np.uint8), *(part.view(np.uint8) for part in parts)]
    return np.concatenate(everything).view(ROW)


def sums(values: NDArray[Any], bounds: NDArray[np.int64]) -> Array:
    """Sum each part of an array, one from each bound to the next."""
    result = np.empty(len(bounds) - 1)
    lib.sluice_sums(
        ffi.from_buffer("double[]", np.ascontiguousarray(values, dtype=np.float64)),
        ffi.from_buffer("int64_t[]", bounds),
        len(result),
        ffi.from_buffer("double[]", result, require_writable=True),
    )
    return result


def differs(*keys: NDArray[Any]) -> Mask:
    """Whether any of the keys differs from the one before it; the first ones do."""
    result = np.ones(len(keys[0]), dtype=np.bool_)
    result[1:] = np.logical_or.reduce([key[1:] != key[:-1] for key in keys])
    return result


def ratio(a: NDArray[Any], b: NDArray[Any]) -> Array:
    """Return a / b, 0 where b is 0."""
    return np.asarray(np.divide(a, b, out=np.zeros(len(a)), where=b > 0))


DISTANCES = 4  # that Darshan keeps of a file, the commonest ones
LARGE = 2  # first class of access sizes that is data: smaller ones may be HDF5's own


@dataclass(frozen=True, slots=True)
class Files:
    """One row for each file (and its process, unless processes share it), of several logs."""

    rows: Rows
    """All counters, and what is summed up for each log."""
    owner: NDArray[np.int64]
    """Rank, or SHARED."""
    stem: NDArray[np.uint64]
    """Hash of the name with each number as one sign; 0: no name."""
    program: NDArray[np.bool_]
    """Part of a program, read as it starts."""
    written: Array
    read: Array
    size: Array
    """Highest byte written + 1."""
    opens: Array
    """True ones: streams on top of descriptors and duplicates are not counted."""
    writes: Array
    reads: Array
    stdio_written: Array
    streamed: NDArray[np.bool_]
    """Opened through streams: fopen, or C++ streams whose data POSIX counts."""
    flushes: Array
    """fsync and fdatasync."""
    out_of_order: Array
    """Writes of 1 KiB and more that start before the end of the one before."""
    large_writes: Array
    """Writes of 1 KiB and more."""
    regular: Array
    """Share of the forward jumps that are over one of few distances, 0..1."""
    first_write: Array
    """Seconds from the job's start; infinite when never written."""
    last_write: Array
    first_read: Array
    last_read: Array
    seconds: Array
    """Of reads, writes and metadata, summed over the processes."""
    wrote: NDArray[np.bool_]
    """Anything was written to it."""
    shared: NDArray[np.bool_]
    """Several processes have one record of it."""
    in_common: NDArray[np.bool_]
    """Of several processes: in one record, or in one each, as aggregators have them."""

    def __len__(self) -> int:
        return len(self.owner)


def files_of(logs: Sequence[NDArray[Any]] | Rows) -> Files:
    """Look at the rows of logs as files."""
    rows = logs if isinstance(logs, Rows) else Rows(logs)

    def both(name: str) -> Array:
        return np.asarray(rows[f"posix_{name}"] + rows[f"stdio_{name}"])

    posix_opens = np.maximum(rows["posix_opens"] - rows["posix_opens_on_top"], 0)
    stdio_opens = np.maximum(rows["stdio_opens"] - rows["stdio_fdopens"], 0)
    large = rows["posix_size_write"][:, LARGE:].sum(axis=1, dtype=np.float64)
    in_order = np.minimum(rows["posix_seq_writes"] + rows["posix_opens"], rows["posix_writes"])
    # any four jumps have at most four distances: only more of them can show an order
    jumps = rows["posix_seq_writes"] - rows["posix_consec_writes"] - DISTANCES
    written = both("bytes_written")
    shared = rows["owner"] == SHARED
    return Files(
        rows=rows,
        owner=rows["owner"],
        stem=rows["stem"],
        program=rows["program"] > 0,
        written=written,
        read=both("bytes_read"),
        size=rows["max_byte_written"] + 1,
        opens=posix_opens + stdio_opens,
        writes=both("writes"),
        reads=both("reads"),
        stdio_written=rows["stdio_bytes_written"],
        streamed=rows["stdio_opens"] > 0,
        flushes=rows["posix_flushes"],
        out_of_order=np.maximum(large - in_order, 0),
        large_writes=large,
        regular=ratio(rows["posix_strides"] - DISTANCES, jumps).clip(0, 1),
        first_write=rows["write_start"],
        last_write=rows["write_end"],
        first_read=rows["read_start"],
        last_read=rows["read_end"],
        seconds=rows["read_time"] + rows["write_time"] + rows["meta_time"],
        wrote=written > 0,
        shared=shared,
        in_common=shared | (np.bincount(rows.file)[rows.file] > 1),
    )
