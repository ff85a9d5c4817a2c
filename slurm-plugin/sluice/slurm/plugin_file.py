"""Reads from a built plugin for which Slurm it was built, and whether slurmctld runs this file.

slurmctld compares the same symbol, `plugin_version`, and refuses to start on a difference in
x.y.z. The file cannot be opened with dlopen outside slurmctld, which defines what it needs, so
its ELF symbol table is read (elf(5); 64-bit little-endian, as all machines Slurm runs on here).
"""

from __future__ import annotations

import struct
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sluice.slurm.errors import SlurmError

if TYPE_CHECKING:
    from collections.abc import Mapping

NAME = "job_submit_sluice.so"

# Offsets and layouts of elf(5).
HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
SECTION = struct.Struct("<IIQQQQIIQQ")
SYMBOL = struct.Struct("<IBBHQQ")
DYNAMIC_SYMBOLS = 11  # SHT_DYNSYM


def find(directories: tuple[str, ...]) -> Path | None:
    """Return the plugin that slurmctld would load from its PluginDir."""
    paths = (Path(directory) / NAME for directory in directories)
    return next((path for path in paths if path.exists()), None)


class State(Enum):
    """What has become of the file that the plugin was loaded from."""

    SAME = "same"
    REPLACED = "replaced"
    OVERWRITTEN = "overwritten"
    GONE = "gone"


def state_since(loaded: Mapping[str, Any]) -> State:
    """Compare the file with what the plugin says of it as it was when it was loaded."""
    try:
        now = Path(loaded["path"]).stat()
    except FileNotFoundError:
        return State.GONE
    if (now.st_dev, now.st_ino) != (loaded["device"], loaded["inode"]):
        return State.REPLACED
    if (now.st_size, now.st_mtime_ns) != (loaded["size"], loaded["mtime_ns"]):
        return State.OVERWRITTEN
    return State.SAME


def built_for(path: Path) -> str:
    """Return the version of Slurm, x.y.z, that the plugin was built for."""
    image = path.read_bytes()
    try:
        number = _uint32(image, b"plugin_version")
    except (struct.error, IndexError, ValueError) as error:
        raise SlurmError(
            f"{path}: no Slurm plugin ({error}); build it with `make build` and install it again"
        ) from error
    return f"{number >> 16}.{number >> 8 & 0xFF:02d}.{number & 0xFF}"


def _uint32(image: bytes, wanted: bytes) -> int:
    """Value of an exported constant."""
    header = HEADER.unpack_from(image)
    ident, table, entry_size, entries = header[0], header[6], header[11], header[12]
    if ident[:6] != b"\x7fELF\x02\x01":
        raise ValueError("not a 64-bit little-endian ELF file")
    sections = [SECTION.unpack_from(image, table + i * entry_size) for i in range(entries)]
    for _, kind, _, _, offset, size, link, *_ in sections:
        if kind != DYNAMIC_SYMBOLS:
            continue
        strings = sections[link][4]
        for at in range(offset, offset + size, SYMBOL.size):
            name, _, _, section, value, _ = SYMBOL.unpack_from(image, at)
            begin = strings + name
            if image[begin : image.index(b"\0", begin)] == wanted:
                home = sections[section]
                return int(struct.unpack_from("<I", image, home[4] + value - home[3])[0])
    raise ValueError(f"it has no {wanted.decode()}")
