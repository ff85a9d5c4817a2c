"""The plugin inside slurmctld: talks to it, and reads for which Slurm it was built.

One request a connection, a line of text; the plugin answers and hangs up. `drain` hands over
decision records and forgets those acknowledged before; `stats` is one line of JSON.

Reads from a built plugin for which Slurm it was built, and whether slurmctld runs this file.
slurmctld compares the same symbol, `plugin_version`, and refuses to start on a difference in x.y.z.
The file cannot be opened with dlopen outside slurmctld, which defines what it needs, so its ELF
symbol table is read (elf(5); 64-bit little-endian, as all machines Slurm runs on here).
"""

from __future__ import annotations

import json
import socket
import struct
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sluice.slurm.records import PluginAnswerError, PluginUnreachableError, SlurmError

if TYPE_CHECKING:
    from collections.abc import Mapping


TIMEOUT = 5.0  # seconds; the plugin's thread answers from memory
MAX_ANSWER = 1 << 28  # bytes: the largest ring, and some


@dataclass(frozen=True, slots=True)
class Drained:
    """The plugin's answer to `drain`."""

    records: tuple[bytes, ...]
    """Each the bytes of struct sluice_record, the oldest first."""
    boot: int
    """Drawn when the plugin was loaded; numbers count from 1 in each."""
    dropped: int
    """Records lost in this boot because the ring was full."""


@dataclass(frozen=True, slots=True)
class PluginClient:
    path: Path
    record_size: int
    """Bytes of a record in this build; a plugin of another build is refused."""

    def drain(self, boot: int, after: int, count: int) -> Drained:
        """Acknowledge the records of `boot` up to number `after` and fetch up to `count` more.

        boot 0 acknowledges nothing, nor does the boot of a slurmctld that is gone.
        """
        acknowledged = f"{boot:016x} {after}" if boot else "0 0"
        head, body = self._ask(f"drain {acknowledged} {count}")
        words = head.split()
        if len(words) != 5 or words[0] != "records":
            raise PluginAnswerError(f"{self.path}: the plugin answered {head[:200]!r} to `drain`")
        rows, size = int(words[1]), int(words[2])
        if rows and size != self.record_size:
            raise PluginAnswerError(
                f"{self.path}: the plugin's records have {size} bytes, this Sluice's "
                f"{self.record_size}; build and install plugin and daemon from one version"
            )
        if len(body) != rows * size:
            raise PluginAnswerError(f"{self.path}: the plugin's answer was cut short")
        records = tuple(body[i : i + size] for i in range(0, len(body), size or 1))
        return Drained(records=records, boot=int(words[3], 16), dropped=int(words[4]))

    def stats(self) -> dict[str, Any]:
        head, _ = self._ask("stats")
        try:
            answer = json.loads(head)
        except ValueError:
            answer = None
        if not isinstance(answer, dict):
            raise PluginAnswerError(f"{self.path}: the plugin answered {head[:200]!r} to `stats`")
        return answer

    def _ask(self, request: str) -> tuple[str, bytes]:
        """Return the first line of the answer and what follows it."""
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
                connection.settimeout(TIMEOUT)
                connection.connect(str(self.path))
                connection.sendall(f"{request}\n".encode())
                answer = bytearray()
                while part := connection.recv(1 << 18):
                    answer += part
                    if len(answer) > MAX_ANSWER:
                        raise PluginAnswerError(f"{self.path}: the plugin's answer has no end")
        except TimeoutError:
            raise PluginUnreachableError(
                f"{self.path}: the plugin gave no answer within {TIMEOUT:g} s; is slurmctld alive?"
            ) from None
        except OSError as error:
            raise PluginUnreachableError(
                f"{self.path}: {error.strerror or error}; is slurmctld running with "
                "JobSubmitPlugins=…,sluice and this Socket, and is this user root or SlurmUser?"
            ) from None
        head, _, body = bytes(answer).partition(b"\n")
        return head.decode(errors="replace"), body


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
