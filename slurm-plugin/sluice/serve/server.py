"""Where the pages are served: on loopback or on a unix socket, and nowhere else.

Each user who can connect can also keep connections open: so a connection carries one request, has
seconds to say it, and gives way to newer ones where there are too many.
"""

from __future__ import annotations

import errno
import grp
import ipaddress
import os
import socket
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from waitress import create_server
from waitress.channel import HTTPChannel
from waitress.task import WSGITask

from sluice.serve.access import MOST_BYTES, AccessError
from sluice.slurm.service import say_alive

if TYPE_CHECKING:
    from collections.abc import Callable
    from wsgiref.types import WSGIApplication

THREADS = 4
BACKLOG = 128
MOST_CONNECTIONS = 200
REQUEST_SECONDS = 10
"""In which a connection says its request, and in which it takes some of the answer."""
MOST_HEADER_BYTES = 1 << 15
SOCKET_MODE = 0o660


def is_unix(listen: str) -> bool:
    return listen.startswith("unix:")


def bind(listen: str, group: str | None = None) -> socket.socket:
    """Listen at unix:PATH or at ADDRESS:PORT of loopback; raise AccessError for anything else.

    group: who besides the owner may connect to the socket, which is the proxy's group.
    """
    try:
        if is_unix(listen):
            listener = _bind_unix(Path(listen.removeprefix("unix:")), group)
        else:
            listener = _bind_loopback(listen)
        listener.listen(BACKLOG)
    except OSError as error:
        remedy = REMEDIES.get(error.errno or 0, "name another one with --listen")
        raise AccessError(
            f"{listen}: nothing can listen there ({error.strerror or error}); {remedy}"
        ) from error
    return listener


REMEDIES = {
    errno.EADDRINUSE: "stop what listens there (`ss -ltnp` names it), or name another port",
    errno.EACCES: "ports below 1024 and sockets in others' directories are only for root",
    errno.ENOENT: "make its directory first",
}


def _bind_loopback(listen: str) -> socket.socket:
    host, _, port = listen.rpartition(":")
    address = _loopback(host.strip("[]"), listen)
    if not (port.isascii() and port.isdecimal() and int(port) < 1 << 16):
        raise AccessError(f"{listen}: say ADDRESS:PORT, as in 127.0.0.1:8642")
    family = socket.AF_INET6 if address.version == 6 else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((str(address), int(port)))
    except OSError:
        listener.close()
        raise
    return listener


def _loopback(host: str, listen: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    with suppress(ValueError):
        address = ipaddress.ip_address("127.0.0.1" if host == "localhost" else host)
        if address.is_loopback:
            return address
    raise AccessError(
        f"{listen}: listens only on loopback or a Unix socket; let the site's own web server "
        "(nginx, Apache) stand in front, with its TLS and its login: see "
        "/usr/share/doc/sluice/guide/serve.md"
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


class LastTask(WSGITask):  # type: ignore[misc] # waitress has no types
    """Answers the only request of a connection: more at once would fill buffers without end."""

    def build_response_header(self) -> bytes:
        self.set_close_on_finish()
        return bytes(super().build_response_header())


class Channel(HTTPChannel):  # type: ignore[misc] # waitress has no types
    """A connection that has REQUEST_SECONDS for its request, however it spreads the bytes."""

    task_class = LastTask

    def add_channel(self, map: dict[int, Any] | None = None) -> None:  # noqa: A002 - waitress's
        super().add_channel(map)
        others = [one for one in self.server.active_channels.values() if one is not self]
        idle = [one for one in others if not (one.requests or one.will_close)]
        if idle and len(others) >= MOST_CONNECTIONS:
            min(idle, key=lambda one: one.last_activity).will_close = True

    def handle_read(self) -> None:
        super().handle_read()
        self.last_activity = self.creation_time  # a byte a second is no activity


def serve(app: WSGIApplication, listener: socket.socket, *, prefix: str = "") -> None:
    """Answer until SystemExit; prefix is the path below which the proxy has the pages."""
    server = create_server(
        app,
        sockets=[listener],
        threads=THREADS,
        ident=None,
        url_prefix=prefix,
        backlog=BACKLOG,
        connection_limit=2 * MOST_CONNECTIONS,  # the rest waits while all these are answered
        channel_timeout=REQUEST_SECONDS,
        cleanup_interval=1,
        max_request_header_size=MOST_HEADER_BYTES,
        max_request_body_size=MOST_BYTES,
        asyncore_use_poll=True,  # select takes no descriptor from 1024 on
    )
    server.channel_class = Channel
    try:
        server.accept = _patient(server.accept)
        server.readable = _said_alive(server.readable)
        server.run()
    finally:
        server.close()


def _said_alive(readable: Callable[[], bool]) -> Callable[[], bool]:
    """Say so whenever waitress asks, which its loop does once a second or more often."""

    def say_and_ask() -> bool:
        say_alive()
        return readable()

    return say_and_ask


def _patient(accept: Callable[[], Any]) -> Callable[[], Any]:
    """Accept, but out of descriptors rest: waitress would try again at once, for ever."""

    def wait_or_accept() -> Any:
        try:
            return accept()
        except OSError:
            time.sleep(0.1)
            return None

    return wait_or_accept
