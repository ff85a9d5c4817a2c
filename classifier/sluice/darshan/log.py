"""Reads Darshan logs, and refuses what cannot be true.

What no job can have done: a log that says so was damaged or made up. Checksums guard the compressed
parts of a log, but not its header, which says how they are to be read; and a hand that alters a log
can repair its checksums. Bounds are far from what machines do: a true log in quarantine would be a
loss, too.

The work is done in C (`classifier/reader`), with libdarshan-util: every format from 3.00 on is
read, in either byte order. DXT traces are never read: they can exhaust memory, and no counter needs
them.

Whatever a log says is checked before it is believed; the library itself may still crash or hang on
a damaged log, which is why `workers.py` keeps it in a process of its own.
"""

from __future__ import annotations

import hashlib
import os
import stat
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sluice.darshan._reader import ffi, lib
from sluice.darshan.bursts import Heatmap
from sluice.darshan.rows import ROW, Rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    Array = NDArray[np.float64]
    Check = tuple[NDArray[np.bool_], Callable[[int], str]]


BYTES_A_SECOND = 1e12  # of one process; the memory of a large node moves about as much
THREADS = 4096  # of one process that do I/O at once
LATE_SECONDS = 60.0  # after the end of the job, and a tenth of its run time
SHORTEST = 1.0  # seconds; the run time is rounded in logs before 3.41

BYTES = ("posix_bytes_read", "posix_bytes_written", "stdio_bytes_read", "stdio_bytes_written")
SECONDS = ("read_time", "write_time", "meta_time")
ENDS = ("read_end", "write_end")

KIB, MIB = 1 << 10, 1 << 20
SMALLEST = np.array(
    [0, 100, KIB, 10 * KIB, 100 * KIB, MIB, 4 * MIB, 10 * MIB, 100 * MIB, 1024 * MIB], float
)
"""Bytes that an access in each bin of Darshan's histogram has at least."""
LARGEST = np.append(SMALLEST[1:], 1 << 60)
"""And at most."""
PER_ACCESS = np.array([np.ones(len(SMALLEST)), SMALLEST, LARGEST]).T
ROUNDING = 1.001  # histograms are added up with seven digits
HISTOGRAMS = (
    ("reads", "posix_reads", "posix_bytes_read", "posix_size_read"),
    ("writes", "posix_writes", "posix_bytes_written", "posix_size_write"),
)
PARTS_OF_WRITES = (
    ("posix_consec_writes", "consecutive"),
    ("posix_seq_writes", "sequential"),
)


def impossible(
    rows: Rows, runtime: Array, nprocs: NDArray[np.int64], in_heatmap: Array
) -> list[str | None]:
    """Return of each log what is impossible in it, or None.

    runtime is in seconds, in_heatmap the bytes that the heatmap saw.
    """
    reasons: list[str | None] = [None] * rows.logs
    for found, reason in _checks(rows, runtime, nprocs, in_heatmap):
        for log in np.flatnonzero(found).tolist():
            reasons[log] = reasons[log] or reason(log)
    return reasons


def _checks(
    rows: Rows, runtime: Array, nprocs: NDArray[np.int64], in_heatmap: Array
) -> Iterator[Check]:
    """Yield for each check which logs fail it, and what to say of one."""
    longest = np.maximum(runtime, SHORTEST)
    moved = np.maximum.reduce([in_heatmap, *(rows.total(rows[name]) for name in BYTES)])
    yield (
        moved > BYTES_A_SECOND * longest * nprocs,
        lambda log: (
            f"says that {nprocs[log]} processes moved {moved[log]:.3g} bytes "
            f"in {runtime[log]:.3g} s"
        ),
    )
    late = np.maximum.reduce([rows.largest(rows[name]) for name in ENDS])
    yield (
        late > 1.1 * longest + LATE_SECONDS,
        lambda log: (
            f"says that files were used {late[log]:.3g} s after the start "
            f"of a run of {runtime[log]:.3g} s"
        ),
    )
    spent = np.maximum.reduce([rows.total(rows[name]) for name in SECONDS])
    yield (
        spent > THREADS * longest * nprocs,
        lambda log: (
            f"says that {nprocs[log]} processes did I/O for {spent[log]:.3g} s "
            f"in {runtime[log]:.3g} s"
        ),
    )
    yield _stranger(rows, nprocs)
    for wrong, what in (*_contradictions(rows), *_disorder(rows, longest)):
        yield rows.some(wrong), lambda _, what=what: what  # type: ignore[misc]


def _stranger(rows: Rows, nprocs: NDArray[np.int64]) -> Check:
    """Tell of records that are not of one of the log's processes."""
    owner = rows["owner"]
    strange = owner >= nprocs[rows.log]
    return (
        rows.some(strange),
        lambda log: (
            f"has a record of process {owner[strange & (rows.log == log)][0]}, "
            f"and had {nprocs[log]} processes"
        ),
    )


def _contradictions(rows: Rows) -> Iterator[tuple[NDArray[np.bool_], str]]:
    """Yield the rows whose details of accesses contradict their number or their bytes."""
    for what, number, moved, sizes in HISTOGRAMS:
        count, volume = rows[number], rows[moved]
        told = count > 0  # runtimes may leave counters out
        if not told.any():
            continue
        accesses, least, most = (rows[sizes].astype(float) @ PER_ACCESS).T
        yield (
            told & (accesses > ROUNDING * count),
            f"its sizes of {what} tell of more {what} than there were",
        )
        yield (
            told & (least > ROUNDING * volume + 1),
            f"its sizes of {what} tell of more bytes than were moved",
        )
        is_whole = told & (ROUNDING * accesses >= count)
        yield (
            is_whole & (volume > ROUNDING * most),
            f"its sizes of {what} tell of fewer bytes than were moved",
        )
    writes = rows["posix_writes"]
    for name, what in PARTS_OF_WRITES:
        more = (rows[name] > writes) & (writes > 0)
        yield more, f"it tells of more {what} writes than there were"
    accesses = rows["posix_reads"] + writes
    commonest = rows["posix_access_count"].sum(axis=1, dtype=float)
    more = (commonest > ROUNDING * accesses) & (accesses > 0)
    yield more, "its commonest sizes tell of more accesses than there were"


def _disorder(rows: Rows, longest: Array) -> Iterator[tuple[NDArray[np.bool_], str]]:
    """Yield what ended before it began, by more than a clock that was put back."""
    slack = (0.1 * longest + LATE_SECONDS)[rows.log]
    for what in ("read", "write"):
        start, end = rows[f"{what}_start"], rows[f"{what}_end"]
        late = np.isfinite(start) & (start > end + slack)
        yield late, f"its first {what} of a file comes after the last"


MODULES = {
    1: "POSIX",
    2: "MPI-IO",
    3: "H5F",
    4: "H5D",
    5: "PNETCDF_FILE",
    6: "PNETCDF_VAR",
    7: "BG/Q",
    8: "LUSTRE",
    9: "STDIO",
    10: "DXT_POSIX",
    11: "DXT_MPIIO",
    12: "MDHIM",
    13: "APXC",
    14: "APMPI",
    15: "HEATMAP",
    16: "DFS",
    17: "DAOS",
}
"""Darshan's modules by their numbers."""


PIECE = 1 << 18  # bytes of a file that are digested at once
LARGEST_DIGESTED = 1 << 28  # bytes of a file that could not be read as a log


class DarshanLogError(Exception):
    """A log cannot be believed; the text says why, without its name."""


class DarshanLibraryError(Exception):
    """libdarshan-util cannot be used; the text says what to install."""


@dataclass(frozen=True, slots=True)
class DarshanLog:
    """What one log says."""

    path: Path
    """As it was named."""
    digest: bytes
    """BLAKE2b-128 of the file."""
    file: os.stat_result
    """Of the bytes that were read, whatever has happened to the name since."""
    format: str
    uid: int
    jobid: int
    nprocs: int
    start: float
    """UTC seconds."""
    end: float
    runtime: float
    """Seconds."""
    exe: str
    modules: frozenset[str]
    partial: frozenset[str]
    """Modules that ran out of memory for records."""
    rows: NDArray[Any]
    """One a file and process, as rows.ROW."""
    heatmap: Heatmap | None
    targets: frozenset[int] | None
    """Lustre storage targets that its files lie on; None: not known."""


def digest_file(path: Path) -> bytes:
    """Return the BLAKE2b-128 of a file. Raises DarshanLogError if it is no such file, OSError."""
    with _regular_file(path) as (handle, status):
        if status.st_size > LARGEST_DIGESTED:
            raise DarshanLogError("the file is too large")
        return _digest(handle, status.st_size)


def _digest(handle: int, size: int) -> bytes:
    """Digest what there was when the file was opened: it may grow faster than it is read."""
    digest = hashlib.blake2b(digest_size=16)
    for place in range(0, size, PIECE):
        digest.update(os.pread(handle, min(PIECE, size - place), place))
    return digest.digest()


def read_log(path: Path) -> DarshanLog:
    """Read one log. Raises DarshanLogError with the reason, OSError, or DarshanLibraryError."""
    log = read_unchecked(path)
    (reason,) = impossible_in([log], Rows([log.rows]))
    if reason:
        raise DarshanLogError(reason)
    return log


def impossible_in(logs: Sequence[DarshanLog], rows: Rows) -> list[str | None]:
    """Return why each of some logs, whose rows these are, cannot be believed; None: it can."""
    return impossible(
        rows,
        runtime=np.array([log.runtime for log in logs]),
        nprocs=np.array([log.nprocs for log in logs]),
        in_heatmap=np.array([log.heatmap.moved if log.heatmap else 0.0 for log in logs]),
    )


def read_unchecked(path: Path) -> DarshanLog:
    """Read one log that may tell of what is impossible; raises what read_log does."""
    with _regular_file(path) as (handle, status), _read(handle) as log:
        if log.size != status.st_size:
            raise DarshanLogError(
                f"its header tells of {log.size} bytes, not of the {status.st_size} that it has"
            )
        return DarshanLog(
            path=path,
            digest=_digest(handle, status.st_size),
            file=status,
            format=_text(log.format),
            uid=log.uid,
            jobid=log.jobid,
            nprocs=log.nprocs,
            start=log.start,
            end=log.end,
            runtime=log.runtime,
            exe=_text(log.exe),
            modules=_names(log.modules),
            partial=_names(log.partial),
            rows=_rows(log),
            heatmap=_heatmap(log),
            targets=_targets(log),
        )


@contextmanager
def _regular_file(path: Path) -> Iterator[tuple[int, os.stat_result]]:
    """Open a file that may be anything: a pipe must not block."""
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            raise DarshanLogError("not a regular file")
        if status.st_size == 0:
            raise DarshanLogError("the file is empty")
        yield handle, status
    finally:
        os.close(handle)


@contextmanager
def _read(handle: int) -> Iterator[Any]:
    """Yield the struct sluice_log of an open file: not of its name, which may change hands."""
    log, error = ffi.new("struct sluice_log *"), ffi.new("struct sluice_error *")
    name = f"/proc/self/fd/{handle}".encode()
    try:
        if lib.sluice_log_read(load_library(), name, log, error) < 0:
            raise DarshanLogError(_text(error.text))
        yield log
    finally:
        lib.sluice_log_free(log)


@cache
def load_library() -> Any:
    """Load the libdarshan-util of the installed `darshan` package, which need not be imported."""
    error = ffi.new("struct sluice_error *")
    path = library_path()
    library = lib.sluice_library_load(os.fsencode(path), error)
    if library == ffi.NULL:
        raise DarshanLibraryError(f"{path}: {_text(error.text)}")
    return ffi.gc(library, lib.sluice_library_unload)


def library_path() -> Path:
    spec = find_spec("darshan")
    if spec is None or spec.origin is None:
        raise DarshanLibraryError("no package darshan; install it with `pip install darshan`")
    folder = Path(spec.origin).parents[1] / "darshan.libs"
    found = sorted(folder.glob("libdarshan-util*.so*"))
    if not found:
        raise DarshanLibraryError(f"{folder}: no libdarshan-util in it; install darshan's wheel")
    return found[0]


def _text(field: Any) -> str:
    return str(ffi.string(field).decode(errors="replace"))


@cache
def _names(bits: int) -> frozenset[str]:
    return frozenset(name for number, name in MODULES.items() if bits >> number & 1)


def _rows(log: Any) -> NDArray[Any]:
    """Take the rows over: they live as long as the array."""
    if log.rows == ffi.NULL:
        return np.zeros(0, dtype=ROW)
    rows = ffi.gc(log.rows, lib.sluice_rows_free)
    log.rows = ffi.NULL
    return np.frombuffer(ffi.buffer(rows, log.row_count * ROW.itemsize), dtype=ROW)


def _heatmap(log: Any) -> Heatmap | None:
    if log.bins == 0:
        return None
    written, read = _doubles(log.bins_written, log.bins), _doubles(log.bins_read, log.bins)
    return Heatmap(log.bin_seconds, written, read)


def _targets(log: Any) -> frozenset[int] | None:
    if log.targets == ffi.NULL:
        return None
    words = np.frombuffer(ffi.buffer(log.targets, 8 * lib.SLUICE_TARGET_WORDS), dtype="<u8")
    bits = np.unpackbits(words.view(np.uint8), bitorder="little")
    return frozenset(np.flatnonzero(bits).tolist()) or None


def _doubles(pointer: Any, count: int) -> NDArray[np.float64]:
    return np.frombuffer(ffi.buffer(pointer, 8 * count), dtype=np.float64).copy()
