"""`sluice-pages`: answers `sluice serve` from the history; a child of sluiced.

It runs as SlurmUser. `sluice serve` runs as a user of its own, which can read nothing of this: it
asks over a unix socket, and the kernel says which user asks (SO_PEERCRED). Root, SlurmUser and
that user are answered. They may speak for any user: they name the user that has logged in and
whether `--operators` has it; roles and PrivateData are applied here.
"""

from __future__ import annotations

import json
import os
import pwd
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from sluice.policies import core
from sluice.policies.core import CoreError
from sluice.serve.pages import answer
from sluice.serve.site import Site
from sluice.serve.wire import (
    MOST_REQUEST_BYTES,
    SECONDS,
    SERVE_USER,
    Asked,
    socket_path,
)
from sluice.slurm.records import QueryError
from sluice.slurm.service import end_with_sluiced, leave_at_signals, say_alive
from sluice.slurm.unix_socket import LineError, listen, peer_uid, receive_line

if TYPE_CHECKING:
    import socket

THREADS = 4
"""As many as `sluice serve` has."""
WAITING = 64
"""Connections that the kernel holds meanwhile."""
ACCEPT_SECONDS = 1.0


def serve(site: Site) -> None:
    """Answer until SystemExit."""
    allowed = {0, os.geteuid(), *_uids(SERVE_USER)}
    listener = listen(socket_path(site.config), WAITING)
    listener.settimeout(ACCEPT_SECONDS)
    with listener, ThreadPoolExecutor(THREADS) as pool:
        while True:
            say_alive()
            try:
                connection, _ = listener.accept()
            except TimeoutError:
                continue
            except OSError:
                time.sleep(0.1)  # out of descriptors, say
                continue
            if peer_uid(connection) in allowed:
                pool.submit(_serve, connection, site)
            else:
                connection.close()


def _uids(user: str) -> list[int]:
    try:
        return [pwd.getpwnam(user).pw_uid]
    except KeyError:
        return []


def _serve(connection: socket.socket, site: Site) -> None:
    with connection, suppress(LineError, OSError):
        try:
            asked = Asked.parse(receive_line(connection, MOST_REQUEST_BYTES, SECONDS))
            reply = answer(site, asked)
        except QueryError as error:
            reply = {"error": str(error), "status": 400}
        connection.settimeout(SECONDS)
        connection.sendall(json.dumps(reply).encode() + b"\n")


def main() -> None:
    """Run `sluice-pages --config FILE`, as sluiced does."""
    end_with_sluiced()
    leave_at_signals()
    if len(sys.argv) != 3 or sys.argv[1] != "--config":
        sys.exit("usage: sluice-pages --config FILE; sluiced runs it for `sluice serve`")
    config = Path(sys.argv[2])
    try:
        core.read_config(config)
        serve(Site(config, None))
    except (CoreError, OSError) as error:
        sys.exit(f"sluice-pages: {error}")


if __name__ == "__main__":
    main()
