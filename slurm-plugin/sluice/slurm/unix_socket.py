"""Unix sockets that answer a line of text: made so that a client can connect, with limits."""

from __future__ import annotations

import os
import socket
import struct
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

CREDENTIALS = struct.Struct("iII")  # struct ucred
PART = 1 << 18
"""Bytes that are read at a time, at most."""


def listen(path: Path, waiting: int) -> socket.socket:
    """Listen under another name, then rename: a socket that is found takes connections.

    waiting: connections that the kernel holds meanwhile. Raises OSError.
    """
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    fresh = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        fresh.unlink(missing_ok=True)
        listener.bind(str(fresh))
        fresh.chmod(0o666)
        listener.listen(waiting)
        fresh.replace(path)
    except OSError:
        listener.close()
        raise
    return listener


def peer_uid(connection: socket.socket) -> int:
    """Return the uid of the peer, as the kernel has it."""
    found = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, CREDENTIALS.size)
    return int(CREDENTIALS.unpack(found)[1])


class LineError(Exception):
    """The peer hung up before the end of its line, or the line is too long."""


def receive_line(connection: socket.socket, most: int, seconds: float) -> bytes:
    """Return a line of at most so many bytes; raises LineError, or OSError when it is late."""
    deadline = time.monotonic() + seconds
    line = bytearray()
    while not line.endswith(b"\n"):
        connection.settimeout(max(0.001, deadline - time.monotonic()))
        part = connection.recv(PART)
        line += part
        if not part or len(line) > most:
            raise LineError("hung up, or said too much")
    return bytes(line)
