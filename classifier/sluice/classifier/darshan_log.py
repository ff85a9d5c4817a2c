"""Reads one Darshan log, through libdarshan-util, into numpy arrays.

The only module that imports `darshan`. It calls the library's own record loop with a buffer of
ours (PyDarshan's per-record objects are several times slower, and it ignores return codes), so
it reads every format from 3.00 on in either byte order. DXT traces are never read: they can
exhaust memory, and no counter needs them.

Whatever the library says is checked before it is believed; the library itself may still crash
or hang on a damaged log, which is why `workers.py` keeps it in a process of its own.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
import zlib
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from darshan.backend import cffi_backend

from sluice.classifier.counters import counter_index, time_index
from sluice.classifier.join import join_records
from sluice.classifier.rows import MODULES

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

ffi = cffi_backend.ffi
lib = cffi_backend.libdutil

# Ids of the records of <STDIN>, <STDOUT>, <STDERR>: hashes of these names, the same everywhere.
STANDARD_STREAMS = np.array(
    [14734109647742566553, 15920181672442173319, 7238257241479193519], dtype=np.uint64
)
MAX_PROCESSES = 1 << 26  # more than any machine has; a damaged header says anything
MAX_RECORDS = 1 << 22  # of one module: 3 GiB of POSIX records
MAX_COUNT = 1 << 60  # no counter of a real job is larger
EARLIEST_START = 946684800  # 2000: Darshan is younger
EXE_SIZE = 1 << 16  # the library writes up to 4 KiB and does not say how much
MAX_BINS = 1 << 16  # of a heatmap; Darshan makes 200
# Ids of heatmap:POSIX, heatmap:STDIO and heatmap:DFS, where each byte is seen once: what passes
# MPI-IO passes one of them too.
HEATMAPS = {16592106915301738621, 3989511027826779520, 1597927878319380788}
# What interpreters and loaders read as a program starts.
PROGRAM_FILE = re.compile(
    rb"\.(py|pyc|pyi|pth|so[.0-9]*|jar|class|jl|rb|pl|pm|mod|lua|egg-info|zip)$"
    rb"|/(site-packages|dist-packages|dist-info|__pycache__)/|/lib(32|64)?/python[0-9.]+/"
    rb"|pyvenv\.cfg$|pybuilddir\.txt$"
)
NUMBER = re.compile(rb"[0-9]+")
COUNTER_STRUCTS = {
    "POSIX": "struct darshan_posix_file",
    "MPI-IO": "struct darshan_mpiio_file",
    "STDIO": "struct darshan_stdio_file",
}
OPTIONAL_VERSIONS = {"HEATMAP": 1, "LUSTRE": 2}  # that libdarshan-util 3.5 reads
# Counters that may be any number: a record's hash, a mode, differences, ranks, and sizes of
# accesses, which old runtimes leave undefined where their count is 0.
FREE_COUNTERS = ("RENAMED_FROM", "MODE", "STRIDE", "RANK", "_ALIGNMENT", "_ACCESS")


class DarshanLogError(Exception):
    """A log cannot be believed; the text says why, without its name."""


@dataclass(frozen=True, slots=True)
class Records:
    """The records of one module: one file as one process saw it, or all processes (rank -1)."""

    module: str
    ids: NDArray[np.uint64]
    ranks: NDArray[np.int64]
    counters: NDArray[np.float64]
    """(records, counters of the module); 0 where the log's format did not have one yet."""
    times: NDArray[np.float64]
    """(records, floating-point counters of the module), seconds."""

    def count(self, name: str) -> NDArray[np.float64]:
        """Return one counter of every record."""
        return self.counters[:, counter_index(self.module)[name]]

    def time(self, name: str) -> NDArray[np.float64]:
        return self.times[:, time_index(self.module)[name]]

    def where(self, chosen: NDArray[np.bool_]) -> Records:
        return Records(
            self.module,
            self.ids[chosen],
            self.ranks[chosen],
            self.counters[chosen],
            self.times[chosen],
        )

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True, slots=True)
class Heatmap:
    """Bytes of all processes, by time bin from the job's start."""

    bin_seconds: float
    written: NDArray[np.float64]
    read: NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class DarshanLog:
    """What one log says."""

    digest: bytes
    """BLAKE2b-128 of the file."""
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
    targets: int | None
    """Distinct Lustre storage targets of its files; None without Lustre."""


@dataclass(slots=True)
class _Module:
    index: int
    version: int
    partial: bool


@dataclass(slots=True)
class _Handle:
    """An open log and what the library says is in it."""

    pointer: Any
    modules: dict[str, _Module] = field(default_factory=dict)


@cache
def _checked_counters(module: str) -> NDArray[np.intp]:
    """Return the places of the counters that are never less than -1."""
    return np.array(
        [
            place
            for name, place in counter_index(module).items()
            if not any(word in name for word in FREE_COUNTERS)
        ]
    )


def digest_file(path: Path) -> bytes:
    """Return the BLAKE2b-128 of a file. Raises OSError."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).digest()


def read_log(path: Path) -> DarshanLog:
    """Read one log. Raises DarshanLogError with the reason, or OSError."""
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        raise DarshanLogError("not a regular file")
    if status.st_size == 0:
        raise DarshanLogError("the file is empty")
    with path.open("rb"):
        pass  # raises what the library would not tell apart from damage
    with _opened(path) as handle:
        job = _job(handle)
        records = {module: _records(handle, name) for module, name in MODULES.items()}
        rows = join_records(records, nprocs=job["nprocs"])
        _name_rows(handle, rows)
        return DarshanLog(
            digest=digest_file(path),
            **job,
            exe=_exe(handle),
            modules=frozenset(handle.modules),
            partial=frozenset(name for name, module in handle.modules.items() if module.partial),
            rows=rows,
            heatmap=_heatmap(handle),
            targets=_targets(handle),
        )


@contextmanager
def _opened(path: Path) -> Iterator[_Handle]:
    pointer = lib.darshan_log_open(os.fsencode(path))
    if pointer == ffi.NULL:
        raise DarshanLogError("not a Darshan log, or its header is damaged")
    try:
        handle = _Handle(pointer)
        modules, count = ffi.new("struct darshan_mod_info **"), ffi.new("int *")
        lib.darshan_log_get_modules(pointer, modules, count)
        for i in range(count[0]):
            info = modules[0][i]
            if info.name == ffi.NULL:  # younger than the library
                continue
            name = ffi.string(info.name).decode(errors="replace")
            handle.modules[name] = _Module(info.idx, info.ver, bool(info.partial_flag))
        lib.darshan_free(modules[0])
        yield handle
    finally:
        lib.darshan_log_close(pointer)


def _job(handle: _Handle) -> dict[str, Any]:
    job = ffi.new("struct darshan_job *")
    if lib.darshan_log_get_job(handle.pointer, job) < 0:
        raise DarshanLogError("the job region is damaged")
    runtime = ffi.new("double *")
    if lib.darshan_log_get_job_runtime(handle.pointer, job[0], runtime) < 0:
        raise DarshanLogError("the job's times are damaged")
    if not 1 <= job.nprocs <= MAX_PROCESSES:
        raise DarshanLogError(f"says that it had {job.nprocs} processes")
    start = job.start_time_sec + job.start_time_nsec * 1e-9
    end = job.end_time_sec + job.end_time_nsec * 1e-9
    if start < EARLIEST_START or not start <= end or not 0 <= runtime[0] < MAX_COUNT:
        raise DarshanLogError(
            f"says that it ran from {job.start_time_sec} to {job.end_time_sec} (UTC seconds)"
        )
    if job.uid < 0 or job.uid >= 1 << 32 or job.jobid < 0:
        raise DarshanLogError(f"says that user {job.uid} ran it as job {job.jobid}")
    return {
        # the handle begins with the version as text; the library has no call for it
        "format": ffi.string(ffi.cast("char *", handle.pointer), 8).decode(errors="replace"),
        "uid": job.uid,
        "jobid": job.jobid,
        "nprocs": job.nprocs,
        "start": start,
        "end": end,
        "runtime": runtime[0],
    }


def _exe(handle: _Handle) -> str:
    text = ffi.new(f"char[{EXE_SIZE}]")
    if lib.darshan_log_get_exe(handle.pointer, text) < 0:
        raise DarshanLogError("the name of the program is damaged")
    return str(ffi.string(text).decode(errors="replace"))


def _records(handle: _Handle, name: str) -> Records:
    """Read all records of a module; the library writes them straight into our array."""
    size = ffi.sizeof(COUNTER_STRUCTS[name])
    counters, times = len(counter_index(name)), len(time_index(name))
    layout = np.dtype(
        [("id", "<u8"), ("rank", "<i8"), ("counters", "<i8", counters), ("times", "<f8", times)]
    )
    if layout.itemsize != size:
        raise DarshanLogError(f"this libdarshan-util has other {name} records than its header")
    rows = np.zeros(0, dtype=layout)
    count = 0
    if name in handle.modules:
        index = handle.modules[name].index
        cursor = ffi.new("void **")
        while True:
            if count == len(rows):
                rows = _grown(rows, name)
                start = ffi.cast("char *", ffi.from_buffer(rows))
            cursor[0] = start + count * size
            result = lib.darshan_log_get_record(handle.pointer, index, cursor)
            if result <= 0:
                break
            count += 1
        if result < 0:
            raise DarshanLogError(f"the {name} records are damaged after {count} of them")
    rows = rows[:count]
    _check(name, rows)
    counters_seen = np.maximum(rows["counters"], 0).astype(np.float64)
    return Records(name, rows["id"], rows["rank"], counters_seen, rows["times"])


def _grown(rows: NDArray[Any], name: str) -> NDArray[Any]:
    if len(rows) >= MAX_RECORDS:
        raise DarshanLogError(f"has more than {MAX_RECORDS} {name} records")
    larger = np.zeros(max(64, 4 * len(rows)), dtype=rows.dtype)
    larger[: len(rows)] = rows
    return larger


def _check(module: str, rows: NDArray[Any]) -> None:
    checked = rows["counters"][:, _checked_counters(module)]
    wrong = np.argwhere((checked < -1) | (checked > MAX_COUNT))
    if len(wrong):
        record, column = wrong[0]
        place = _checked_counters(module)[column]
        name = next(name for name, at in counter_index(module).items() if at == place)
        raise DarshanLogError(f"counts {checked[record, column]} {module} {name}")
    if not np.isfinite(rows["times"]).all():
        raise DarshanLogError(f"has {module} times that are not numbers")


def _name_rows(handle: _Handle, rows: NDArray[Any]) -> None:
    """Fill in what the names of the files say: parts of a program, and series."""
    ids = np.unique(rows["id"])
    if not len(ids):
        return
    names, count = ffi.new("struct darshan_name_record **"), ffi.new("int *")
    wanted = ffi.cast("darshan_record_id *", ffi.from_buffer(ids))
    lib.darshan_log_get_filtered_name_records(handle.pointer, names, count, wanted, len(ids))
    program: dict[int, bool] = {}
    stem: dict[int, int] = {}
    for i in range(count[0]):
        record = names[0][i]
        name = ffi.string(record.name)
        program[record.id] = bool(PROGRAM_FILE.search(name))
        stem[record.id] = zlib.crc32(NUMBER.sub(b"#", name)) + 1
        lib.darshan_free(record.name)
    lib.darshan_free(names[0])
    written = rows["posix_bytes_written"] + rows["stdio_bytes_written"] > 0
    read = rows["posix_bytes_read"] + rows["stdio_bytes_read"] > 0
    rows["program"] = [program.get(int(id_), False) for id_ in rows["id"]] & read & ~written
    rows["stem"] = [stem.get(int(id_), 0) for id_ in rows["id"]]


def _heatmap(handle: _Handle) -> Heatmap | None:
    """Sum the heatmaps of all processes, at the level where each byte is seen once."""
    total: Heatmap | None = None
    for buffer in _library_records(handle, "HEATMAP"):
        record = ffi.cast("struct darshan_heatmap_record *", buffer)
        bins, width = record.nbins, record.bin_width_seconds
        if record.base_rec.id not in HEATMAPS:
            continue
        if not (1 <= bins <= MAX_BINS and 0 < width < MAX_COUNT):
            raise DarshanLogError(f"has a heatmap of {bins} bins of {width} s")
        if total is None:
            total = Heatmap(width, np.zeros(bins), np.zeros(bins))
        if (width, bins) != (total.bin_seconds, len(total.written)):
            continue  # the runtime gives all processes the same bins
        total.written[:] += _bins(record.write_bins, bins)
        total.read[:] += _bins(record.read_bins, bins)
    return total


def _bins(pointer: Any, count: int) -> NDArray[np.int64]:
    return np.maximum(np.frombuffer(ffi.buffer(pointer, 8 * count), dtype=np.int64), 0)


def _targets(handle: _Handle) -> int | None:
    found: set[int] = set()
    for buffer in _library_records(handle, "LUSTRE"):
        record = ffi.cast("struct darshan_lustre_record *", buffer)
        found.update(ffi.unpack(record.ost_ids, record.num_stripes))
    found.discard(-1)
    return len(found) or None


def _library_records(handle: _Handle, name: str) -> Iterator[Any]:
    """Yield the records of a module whose size varies; each is the library's, until the next.

    A younger runtime may have written a version that the library cannot read: then none, since
    the rest of the log can do without.
    """
    if name not in handle.modules:
        return
    buffer = ffi.new("void **")
    while True:
        buffer[0] = ffi.NULL
        result = lib.darshan_log_get_record(handle.pointer, handle.modules[name].index, buffer)
        if result < 0 and handle.modules[name].version <= OPTIONAL_VERSIONS[name]:
            raise DarshanLogError(f"the {name} records are damaged")
        if result <= 0:
            return
        try:
            yield buffer[0]
        finally:
            lib.darshan_free(buffer[0])
