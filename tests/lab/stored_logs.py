"""Darshan logs byte by byte: of any version of their records, in either byte order.

libdarshan-util writes only the newest version and the byte order of the machine.
"""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING

from made_logs import MODULES, counter_index, time_index

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

HEADER = 1328  # bytes, of format 3.41
PARTS = 64  # modules that its header has room for
MAGIC = 6567223
JOB = 4096  # bytes, with the command line
ZLIB, BZIP2, STORED = 0, 1, 2  # kinds of compression

DUPS = {"FILENOS", "DUPS"}
RENAMES = {"RENAME_SOURCES", "RENAME_TARGETS", "RENAMED_FROM"}
CLOSES = {"F_CLOSE_START_TIMESTAMP", "F_OPEN_END_TIMESTAMP"}
LACKING = {
    ("POSIX", 4): set(),
    ("POSIX", 3): DUPS | RENAMES,
    ("POSIX", 2): DUPS | RENAMES | CLOSES,
    ("POSIX", 1): DUPS | RENAMES | CLOSES,
    ("MPI-IO", 3): set(),
    ("MPI-IO", 2): CLOSES,
    ("MPI-IO", 1): CLOSES,
    ("STDIO", 2): set(),
    ("STDIO", 1): {"FDOPENS"},
}
"""Counters that a version of a module does not have yet."""
STREAMS = ("FOPENS", "FREADS", "FWRITES", "FSEEKS")
"""Counters of POSIX version 1 that went to STDIO later; they stood behind MMAPS."""


def record(
    module: str, version: int, counters: Mapping[str, float], *, file: int, rank: int, order: str
) -> bytes:
    """Return a record as that version stores it; order is < or >. Others are 0."""
    lacking = LACKING[module, version]
    names = [name for name in counter_index(module) if name not in lacking]
    if (module, version) == ("POSIX", 1):
        place = names.index("MMAPS") + 1
        names[place:place] = STREAMS
    times = [name for name in time_index(module) if name not in lacking]
    return struct.pack(
        f"{order}Qq{len(names)}q{len(times)}d",
        *(file, rank),
        *(int(counters.get(name, 0)) for name in names),
        *(float(counters.get(name, 0)) for name in times),
    )


def packed(records: Iterable[bytes]) -> bytes:
    """Return a region as a runtime leaves it: a zlib stream for what each process wrote."""
    return b"".join(zlib.compress(each) for each in records)


def write_log(
    path: Path,
    regions: Mapping[str, tuple[int, bytes]],
    *,
    nprocs: int,
    order: str = "<",
    compression: int = ZLIB,
    names: bytes = b"",
) -> Path:
    """Write a log with these regions: version and bytes by module, and names of files."""
    job = struct.pack(
        f"{order}7q{JOB - 56}s", *(1000, 1_700_000_000, 0, 1_700_000_100, 0, nprocs, 7), b""
    )
    parts = [zlib.compress(job) if compression == ZLIB else job, names]
    maps, versions = [(0, 0)] * PARTS, [0] * PARTS
    for module in sorted(regions, key=lambda name: MODULES[name][0]):
        number = MODULES[module][0]
        versions[number], region = regions[module]
        maps[number] = HEADER + sum(map(len, parts)), len(region)
        parts.append(region)
    header = struct.pack(
        f"{order}8sqB7xQ2Q{2 * PARTS}Q{PARTS}I",
        *(b"3.41", MAGIC, compression, 0),
        *((HEADER + len(parts[0]) if names else 0), len(names)),
        *(number for place in maps for number in place),
        *versions,
    )
    path.write_bytes(header + b"".join(parts))
    return path
