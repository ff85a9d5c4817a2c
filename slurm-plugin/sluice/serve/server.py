"""Where the pages are served: on loopback or on a unix socket, and nowhere else."""

from __future__ import annotations

import grp
import ipaddress
import os
import socket
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from waitress import create_server

from sluice.serve.access import AccessError

if TYPE_CHECKING:
    from collections.abc import Callable
    from wsgiref.types import WSGIApplication

THREADS = 4
BACKLOG = 128
SOCKET_MODE = 0o660


def is_unix(listen: str) -> bool:
    return listen.startswith("unix:")


def bind(listen: str, group: str | None = None) -> socket.socket:
    """Listen at unix:PATH or at ADDRESS:PORT of loopback; raise AccessError for anything else.

    group: who besides the owner may connect to the socket, which is the proxy's group.
    """
    if is_unix(listen):
        return _bind_unix(Path(listen.removeprefix("unix:")), group)
    host, _, port = listen.rpartition(":")
    address = _loopback(host.strip("[]"), listen)
    if not (port.isascii() and port.isdecimal() and int(port) < 1 << 16):
        raise AccessError(f"{listen}: say ADDRESS:PORT, as in 127.0.0.1:8642")
    family = socket.AF_INET6 if address.version == 6 else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((str(address), int(port)))
    return listener


def _loopback(host: str, listen: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    with suppress(ValueError):
        address = ipaddress.ip_address("127.0.0.1" if host == "localhost" else host)
        if address.is_loopback:
            return address
    raise AccessError(
        f"{listen}: served are loopback and unix sockets alone; let the site's own web server "
        "(nginx, Apache) stand in front, with its TLS and its login: see docs/guide/serve.md"
    )


def _bind_unix(path: Path, group: str | None) -> socket.socket:
    """Take the place of the socket that an earlier server left; one that answers is left alone."""
    if _answers(path):
        raise AccessError(f"{path}: another `sluice serve` listens there; stop it first")
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    fresh = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        fresh.unlink(missing_ok=True)
        listener.bind(str(fresh))
        if group is not None:
            os.chown(fresh, -1, grp.getgrnam(group).gr_gid)
        fresh.chmod(SOCKET_MODE)
        fresh.replace(path)
    except KeyError:
        listener.close()
        fresh.unlink(missing_ok=True)
        raise AccessError(f"{group}: this machine has no such group") from None
    except BaseException:
        listener.close()
        fresh.unlink(missing_ok=True)
        raise
    return listener


def _answers(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as other, suppress(OSError):
        other.connect(str(path))
        return True
    return False


def serve(app: WSGIApplication, listener: socket.socket, *, prefix: str = "") -> None:
    """Answer until SystemExit; prefix is the path below which the proxy has the pages."""
    listener.listen(BACKLOG)
    server = create_server(app, sockets=[listener], threads=THREADS, ident=None, url_prefix=prefix)
    try:
        server.accept = _patient(server.accept)
        server.run()
    finally:
        server.close()


def _patient(accept: Callable[[], Any]) -> Callable[[], Any]:
    """Accept, but out of descriptors rest: waitress would try again at once, for ever."""

    def wait_or_accept() -> Any:
        try:
            return accept()
        except OSError:
            time.sleep(0.1)
            return None

    return wait_or_accept
