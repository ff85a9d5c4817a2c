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
import socket
import struct
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from sluice.policies import core
from sluice.policies.core import CoreError
from sluice.serve.pages import answer
from sluice.serve.site import Site
from sluice.serve.wire import (
    MOST_REQUEST_BYTES,
    SECONDS,
    SERVE_USER,
    Asked,
    receive,
    socket_path,
)
from sluice.slurm.records import QueryError
from sluice.slurm.service import end_with_sluiced, leave_at_signals, say_alive

THREADS = 4
"""As many as `sluice serve` has."""
WAITING = 64
"""Connections that the kernel holds meanwhile."""
ACCEPT_SECONDS = 1.0
CREDENTIALS = struct.Struct("iII")  # struct ucred


def serve(site: Site) -> None:
    """Answer until SystemExit."""
    allowed = {0, os.geteuid(), *_uids(SERVE_USER)}
    with _bound(socket_path(site.config)) as listener, ThreadPoolExecutor(THREADS) as pool:
        while True:
            say_alive()
            try:
                connection, _ = listener.accept()
            except TimeoutError:
                continue
            except OSError:
                time.sleep(0.1)  # out of descriptors, say
                continue
            if _peer(connection) in allowed:
                pool.submit(_serve, connection, site)
            else:
                connection.close()


def _bound(path: Path) -> socket.socket:
    """Listen under another name, then rename: who finds the socket can connect."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    fresh = path.with_name(f"{path.name}.{os.getpid()}")
    fresh.unlink(missing_ok=True)
    listener.bind(str(fresh))
    fresh.chmod(0o666)
    listener.listen(WAITING)
    listener.settimeout(ACCEPT_SECONDS)
    fresh.replace(path)
    return listener


def _uids(user: str) -> list[int]:
    try:
        return [pwd.getpwnam(user).pw_uid]
    except KeyError:
        return []


def _peer(connection: socket.socket) -> int:
    """Return the uid of the client, as the kernel has it."""
    found = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, CREDENTIALS.size)
    return int(CREDENTIALS.unpack(found)[1])


def _serve(connection: socket.socket, site: Site) -> None:
    with connection, suppress(OSError):
        try:
            asked = Asked.parse(receive(connection, MOST_REQUEST_BYTES, SECONDS))
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
