"""Asks sluiced what a user may know: one request a connection, a line of JSON each way."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sluice.slurm.errors import QueryError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sluice.policies.core import Config

TIMEOUT = 30.0  # seconds
MAX_REQUEST = 1 << 18  # bytes
MAX_ANSWER = 1 << 26


def socket_path(config: Config) -> Path:
    """Where sluiced answers users: next to the plugin's socket."""
    return Path(config.socket).with_name("sluiced.sock")


def ask(config: Config, command: str, arguments: Mapping[str, Any]) -> Any:
    """Return sluiced's answer; raise QueryError."""
    path = socket_path(config)
    request = json.dumps({"command": command, "arguments": dict(arguments)}).encode() + b"\n"
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(TIMEOUT)
            connection.connect(str(path))
            connection.sendall(request)
            answer = bytearray()
            while part := connection.recv(1 << 18):
                answer += part
                if len(answer) > MAX_ANSWER:
                    raise QueryError(f"{path}: sluiced's answer has no end")
    except ConnectionError as error:
        if isinstance(error, ConnectionRefusedError):
            raise _unreachable(path, error) from None
        raise QueryError(f"{path}: sluiced answers others at the moment; ask again") from None
    except OSError as error:
        raise _unreachable(path, error) from None
    return _content(path, bytes(answer))


def _unreachable(path: Path, error: OSError) -> QueryError:
    return QueryError(
        f"{path}: sluiced cannot be asked ({error.strerror or error}), and this user may not "
        "read the history; is sluiced running?"
    )


def _content(path: Path, answer: bytes) -> Any:
    try:
        found = json.loads(answer)
    except ValueError:
        found = None
    if not isinstance(found, dict) or not found.keys() & {"answer", "error"}:
        raise QueryError(f"{path}: sluiced hung up without an answer; ask again")
    if "error" in found:
        raise QueryError(str(found["error"]))
    return found["answer"]
