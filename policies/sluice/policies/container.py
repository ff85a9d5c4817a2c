"""Files that are read and replaced as a whole, and the format that bundle and snapshot share.

The format is described in docs/reference/bundle-format.md.
"""

from __future__ import annotations

import os
import signal
import stat
import threading
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sluice.policies._core import ffi, lib
from sluice.policies.structs import CoreError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

HEADER = ffi.sizeof("struct sluice_container_header")
SECTION = ffi.sizeof("struct sluice_section")
GUARDED = ffi.offsetof("struct sluice_container_header", "kind")
"""The checksum covers everything from here on."""
SQLITE_SUFFIXES = ("", "-journal", "-wal", "-shm")
"""What SQLite leaves behind where it had no room, next to the file itself."""


@dataclass(frozen=True, slots=True)
class Section:
    """Elements of one size, as they lie in the file."""

    id: int
    element_size: int
    content: bytes


def pack(kind: int, version: int, sections: Sequence[Section], *, created: int) -> bytes:
    """Lay out the sections behind header and table; created is UTC seconds."""
    table = ffi.new("struct sluice_section[]", len(sections))
    file = bytearray(HEADER + SECTION * len(sections))
    for row, section in zip(table, sections, strict=True):
        row.id = section.id
        row.element_size = section.element_size
        row.offset = len(file)
        row.count = len(section.content) // section.element_size
        file += section.content
        file += bytes(-len(section.content) % 8)
    file[HEADER : HEADER + SECTION * len(sections)] = ffi.buffer(table)

    header = ffi.new("struct sluice_container_header *")
    header.magic = b"SLUICE\r\n"
    header.kind = kind
    header.version = version
    header.file_size = len(file)
    header.created = created
    header.section_count = len(sections)
    header.section_table = HEADER
    file[:HEADER] = ffi.buffer(header)
    header.checksum = lib.sluice_crc64(ffi.from_buffer(file) + GUARDED, len(file) - GUARDED)
    file[:HEADER] = ffi.buffer(header)
    return bytes(file)


def read_regular(path: Path, most: int) -> bytes:
    """Read what a file holds, never of a pipe, which may be silent, or of more bytes than `most`.

    Raises OSError and CoreError.
    """
    with open(path, "rb", opener=_open_at_once) as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise CoreError(f"{path}: not a regular file")
        content = file.read(most + 1)
    if len(content) > most:
        raise CoreError(f"{path}: {status.st_size} bytes; at most {most} are possible")
    return content


def _open_at_once(path: str, flags: int) -> int:
    """Open a file without waiting for a writer, as a pipe would have it."""
    return os.open(path, flags | os.O_NONBLOCK)


def give_to_group(file: int, directory: Path) -> None:
    """Give an open file the group of a directory, as far as this user may.

    The service group is the one that the directory belongs to.
    """
    with suppress(PermissionError):
        os.fchown(file, -1, directory.stat().st_gid)


GROUP_READS = 0o640
"""Mode of files that tell of users' jobs: the service group reads them, and nobody else."""


def write_atomically(path: Path, content: bytes, *, mode: int = GROUP_READS) -> None:
    """Replace path by content as a whole; of the mode GROUP_READS, give it to the service group.

    Readers see the old file or the new one, also after a crash. Ctrl-C is heard when the file is
    there: who counts afterwards what was written counts all of it. Raises OSError.
    """
    with _ctrl_c_waits():
        with draft_of(path, mode=0o600) as draft, draft.open("wb") as file:
            file.write(content)
            file.flush()
            if mode == GROUP_READS:
                give_to_group(file.fileno(), path.parent)
            os.fchmod(file.fileno(), mode)
            os.fsync(file.fileno())
        directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)


@contextmanager
def draft_of(path: Path, *, mode: int = 0o666) -> Iterator[Path]:
    """Give an empty file to fill, which takes the place of `path` when all of it is there.

    Whatever fails leaves at `path` what was there before. The mode is narrowed by the umask.
    Raises OSError, which names `path`.
    """
    draft = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}.draft")
    try:
        draft.unlink(missing_ok=True)
        draft.touch(mode=mode, exist_ok=False)
        yield draft
        draft.replace(path)
    except OSError as error:
        why = os.strerror(error.errno) if error.errno else str(error)
        raise OSError(error.errno or 0, why, str(path)) from error
    finally:
        for suffix in SQLITE_SUFFIXES:
            draft.with_name(draft.name + suffix).unlink(missing_ok=True)


@contextmanager
def _ctrl_c_waits() -> Iterator[None]:
    """Hold Ctrl-C back in the main thread, the only one that hears it."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    heard: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: heard.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if heard:
            signal.raise_signal(signal.SIGINT)
