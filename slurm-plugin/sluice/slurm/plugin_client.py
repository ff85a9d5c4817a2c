"""Talks to the plugin inside slurmctld over its unix socket.

One request a connection, a line of text; the plugin answers and hangs up. `drain` hands over
decision records and forgets those acknowledged before; `stats` is one line of JSON.
"""

from __future__ import annotations

import json
import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sluice.slurm.errors import PluginAnswerError, PluginUnreachableError

if TYPE_CHECKING:
    from pathlib import Path

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
