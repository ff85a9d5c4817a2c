"""Reads Darshan logs and measures them, and refuses what cannot be true.

The work is done in C (`classifier/reader`), with libdarshan-util: every format from 3.00 on is
read, in either byte order. DXT traces are never read: they can exhaust memory, and no counter needs
them.

Everything in a log is checked before it is used; the library itself may still crash or hang on
a damaged log, which is why `workers.py` keeps it in a process of its own.
"""

from __future__ import annotations

import bz2
import hashlib
import lzma
import os
import re
import stat
import sys
import zlib
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sluice.darshan._reader import ffi, lib
from sluice.darshan.bursts import Heatmap, find_bursts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray


PIECE = 1 << 18  # bytes of a file that are digested at once
LIBRARY = "libdarshan-util.so"
LARGEST_DIGESTED = 1 << 28  # bytes of a file that could not be read as a log
HEAD = 1 << 12  # bytes of a file that tell how it is packed
PACKED: dict[bytes, tuple[str, str, Callable[[bytes], bytes]]] = {
    b"\x1f\x8b": ("gzip", "gunzip", lambda head: zlib.decompressobj(31).decompress(head, 64)),
    b"BZh": ("bzip2", "bunzip2", lambda head: bz2.BZ2Decompressor().decompress(head, 64)),
    b"\xfd7zXZ": ("xz", "unxz", lambda head: lzma.LZMADecompressor().decompress(head, 64)),
    b"\x28\xb5\x2f\xfd": ("zstd", "unzstd", lambda _: b""),
    b"\x04\x22\x4d\x18": ("lz4", "unlz4", lambda _: b""),
}
"""By first bytes: what packed it, what unpacks it, and its first bytes as far as they are known."""
OLD = re.compile(rb"[12]\.\d\d(?=\0)")
"""What logs of Darshan 1 and 2 begin with."""
# …_id<job>-<pid>_<month>-<day>-<seconds>-…, or …/id<job>/<host>/<pid>-…: how the runtime names
# logs, as the site has it; of either the one behind the last slash or the last four parts
LOG_NAME = re.compile(
    r"_id(?P<job>\d+)-(?P=job)_\d+-\d+-\d+[^/]*$|/id(?P<id>\d+)/[^/]+/(?P=id)-[^/]*$"
)
"""Of a process that ran in no job: it stands in for one."""


class DarshanLogError(Exception):
    """A log is inconsistent; the text says where, without its name."""


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
    jobid: int | None
    """None: it ran outside of a job, and its number is that of a process."""
    nprocs: int
    start: float
    """UTC seconds."""
    end: float
    runtime: float
    """Seconds."""
    exe: str
    partial: bool
    """Some module ran out of memory for records."""
    heatmap: Heatmap | None
    targets: frozenset[int] | None
    """Lustre storage targets that its files lie on; None: not known."""
    measurement: bytes
    """What it says about storage: a struct sluice_measurement (see features.measure)."""
    not_counted: tuple[str, ...]
    """Counters that cannot be true, by module and name."""


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
    with _regular_file(path) as (handle, status):
        _refuse_packed(handle)
        log = opened(handle)
        if log.size != status.st_size:
            raise DarshanLogError(
                f"its header tells of {log.size} bytes, not of the {status.st_size} that it has"
            )
        heatmap = _heatmap(log)
        return DarshanLog(
            path=path,
            digest=_digest(handle, status.st_size),
            file=status,
            format=_text(log.format),
            uid=log.uid,
            jobid=_jobid(log, path),
            nprocs=log.nprocs,
            start=log.start,
            end=log.end,
            runtime=log.runtime,
            exe=_text(log.exe),
            partial=log.partial != 0,
            heatmap=heatmap,
            targets=_targets(log),
            measurement=_measurement(log, heatmap),
            not_counted=tuple(filter(None, _text(log.notes).split(", "))),
        )


def _jobid(log: Any, path: Path) -> int | None:
    """Return the job's number, which is a process's where the environment named no job.

    The runtime says which process it was in the file's name, and of which it was forked inside.
    """
    named = LOG_NAME.search(str(path.absolute()))
    processes = {_text(log.parent), *(named.groups() if named else ())}
    return None if str(log.jobid) in processes else int(log.jobid)


def _refuse_packed(handle: int) -> None:
    """Name what is no log before it is unpacked, or is one of long ago, which is packed so."""
    head = os.pread(handle, HEAD, 0)
    for magic, (name, remedy, unpack) in PACKED.items():
        if not head.startswith(magic):
            continue
        try:
            version = OLD.match(unpack(head))
        except (OSError, EOFError, lzma.LZMAError, zlib.error):
            version = None
        if version:
            raise DarshanLogError(
                f"a log of Darshan {version[0].decode()}, which Darshan 3 neither reads nor "
                "converts; the tools of Darshan 2 do (darshan-parser), so leave it out here"
            )
        raise DarshanLogError(f"compressed by {name}; unpack it ({remedy}) and name the result")


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


def opened(handle: int) -> Any:
    """Return the struct sluice_log of an open file: not of its name, which may change hands."""
    log = ffi.gc(ffi.new("struct sluice_log *"), lib.sluice_log_free)
    error = ffi.new("struct sluice_error *")
    if lib.sluice_log_read(load_library(), b"/proc/self/fd/%d" % handle, log, error) < 0:
        raise DarshanLogError(_text(error.text))
    return log


@cache
def load_library() -> Any:
    """Load the first libdarshan-util that is of use. Raises DarshanLibraryError."""
    failed = []
    for path in library_paths():
        error = ffi.new("struct sluice_error *")
        library = lib.sluice_library_load(os.fsencode(path), error)
        if library != ffi.NULL:
            return ffi.gc(library, lib.sluice_library_unload)
        failed.append(f"{path}: {_text(error.text)}")
    raise DarshanLibraryError(
        f"no libdarshan-util: {'; '.join(failed)}. A package of Sluice has one; see `make "
        "darshan-util` in /usr/share/doc/sluice/guide/install.md"
    )


def library_paths() -> list[str]:
    """Return where libdarshan-util may lie, the likeliest place first.

    Wheels put what they need next to the packages, and packages of Sluice do, too. A site's own
    is found as the dynamic linker finds libraries.
    """
    return [*map(str, chain.from_iterable(map(_libraries_next_to, sys.path))), LIBRARY]


def _libraries_next_to(packages: str) -> list[Path]:
    try:
        return sorted(Path(packages).glob("darshan.libs/libdarshan-util*.so*"))
    except PermissionError:  # Python may have places that this user may not enter
        return []


def _text(field: Any) -> str:
    return str(ffi.string(field).decode(errors="replace"))


def _measurement(log: Any, heatmap: Heatmap | None) -> bytes:
    found, error = ffi.new("struct sluice_measurement *"), ffi.new("struct sluice_error *")
    if lib.sluice_log_measure(log, found, error) < 0:
        raise DarshanLogError(_text(error.text))
    if heatmap is not None:
        bursts = find_bursts(heatmap)
        found.numbers.burst_seconds = np.nan if bursts.length is None else bursts.length
        found.numbers.period_seconds = np.nan if bursts.period is None else bursts.period
    return bytes(ffi.buffer(found))


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
