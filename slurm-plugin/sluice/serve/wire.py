"""Requests of `sluice serve` to `sluice-pages`: a line of JSON each way, over a unix socket."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from sluice.slurm.records import QueryError
from sluice.slurm.unix_socket import LineError, receive_line

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sluice.policies.core import Config

SERVE_USER = "sluice-serve"
"""The user that `sluice serve` runs as."""
MOST_REQUEST_BYTES = 1 << 18
MOST_REPLY_BYTES = 1 << 26
SECONDS = 5.0
"""For the front to say what it wants."""
REPLY_SECONDS = 60.0


class Asked(NamedTuple):
    """A request as the front passes it on, after it has checked the login."""

    page: str
    """Of PAGES or CHANGES of `pages.py`."""
    user: str
    is_operator: bool
    words: Mapping[str, str] = {}
    """Of the path."""
    query: Mapping[str, str] = {}
    """Of the address, or of a form that changes something."""
    form: str = "html"
    """html, json or csv."""

    @classmethod
    def parse(cls, line: bytes) -> Asked:
        """Read what `ask` sent; raises QueryError."""
        try:
            found = cls(*json.loads(line))
        except (ValueError, TypeError, RecursionError):
            raise QueryError("This is no request for a page.") from None
        texts = [found.page, found.user, found.form]
        for words in (found.words, found.query):
            if not isinstance(words, dict):
                raise QueryError("This is no request for a page.")
            texts += [*words.keys(), *words.values()]
        if not all(isinstance(text, str) for text in texts):
            raise QueryError("This is no request for a page.")
        return found._replace(is_operator=found.is_operator is True)


def socket_path(config: Config) -> Path:
    """Where pages are answered: next to the plugin's socket."""
    return Path(config.socket).with_name("pages.sock")


def ask(path: Path, asked: Asked) -> dict[str, Any]:
    """Return the reply of `sluice-pages`; raises QueryError where there is none."""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(REPLY_SECONDS)
            connection.connect(str(path))
            connection.sendall(json.dumps(asked).encode() + b"\n")
            found = json.loads(receive_line(connection, MOST_REPLY_BYTES, REPLY_SECONDS))
    except (LineError, OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "no answer"
        raise QueryError(
            f"{path}: sluiced does not answer pages ({reason}); `sluice doctor` says why"
        ) from error
    if not isinstance(found, dict):
        raise QueryError(f"{path}: no answer that this version reads")
    return found
