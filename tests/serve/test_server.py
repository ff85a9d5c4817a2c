"""The server in front of the pages: whoever may connect cannot silence it."""

import http.client
import socket
import threading
import time
from contextlib import ExitStack, closing

import pytest
from click.testing import CliRunner
from served_site import TOKEN, ServedSite

from sluice.cli.main import main as sluice
from sluice.serve.server import MOST_CONNECTIONS, bind, serve

PATIENCE = 60
"""Seconds until a run has failed."""


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    with closing(ServedSite(tmp_path_factory.mktemp("served"))) as site:
        listener = bind("127.0.0.1:0")
        threading.Thread(target=serve, args=[site.app(), listener], daemon=True).start()
        yield listener.getsockname()


def is_answered(address) -> bool:
    with closing(http.client.HTTPConnection(*address, timeout=PATIENCE)) as asked:
        asked.request("GET", "/now.json", headers={"Authorization": f"Bearer {TOKEN}"})
        return asked.getresponse().status == 200


def spoken(address, said: bytes) -> bytes:
    """Return the answer to some bytes, to its end."""
    with socket.create_connection(address, timeout=PATIENCE) as client:
        client.sendall(said)
        return b"".join(iter(lambda: client.recv(1 << 16), b""))


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"GET /now.json HTTP/1.1\r\nHost: a\r\n",
        b"POST /login HTTP/1.1\r\nHost: a\r\nContent-Length: 60000\r\n\r\nx",
        b"POST /login HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n",
    ],
    ids=["silent", "half a header", "half a body", "half of chunks"],
)
def test_viewers_get_answers_while_others_keep_connections_open(address, said):
    with ExitStack() as kept:
        for _ in range(3 * MOST_CONNECTIONS):
            client = socket.create_connection(address, timeout=PATIENCE)
            kept.enter_context(client)
            client.sendall(said)
        assert is_answered(address)


def test_a_byte_now_and_then_keeps_no_connection_open(address):
    """The end comes although bytes come: what is waited for is a whole request."""
    with socket.create_connection(address, timeout=PATIENCE) as client:
        client.sendall(b"GET /now.json HTTP/1.1\r\nX-Slow: ")
        client.settimeout(0.2)
        ended = time.monotonic() + PATIENCE
        while time.monotonic() < ended:
            try:
                client.sendall(b"a")
                assert client.recv(1) == b""
                break
            except TimeoutError:
                continue  # it is open still
            except ConnectionError:
                break
        else:
            pytest.fail("it was open to the end")


def test_a_connection_carries_one_request_however_many_are_sent(address):
    one = b"GET /login HTTP/1.1\r\nHost: a\r\n\r\n"
    answer = spoken(address, 50 * one)
    assert answer.count(b"HTTP/1.1 200 ") == 1
    assert b"\r\nConnection: close\r\n" in answer


@pytest.mark.parametrize(
    "said",
    [
        b"GET /now HTTP/1.1\r\nX-Long: " + b"a" * 100_000 + b"\r\n\r\n",
        b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\n\r\n",
        b"GET /now HTTP/1.1\r\n" + b"".join(b"X-%d: a\r\n" % i for i in range(20_000)) + b"\r\n",
        b"POST /login HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n\r\n",
        b"POST /login HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
        b"POST /login HTTP/1.1\r\nContent-Length: 1000000\r\n\r\n" + b"a" * 1_000_000,
        b"GET /now HTTP/1.1\r\nAuthorization: Bearer \x00\xff\r\n\r\n",
        b"GET /now?find=\x00\xff HTTP/1.1\r\n\r\n",
        b"GET /%ff%fe%00 HTTP/1.1\r\nCookie: sluice=\xff\x00\r\n\r\n",
        b"GET http://[::1 HTTP/1.1\r\n\r\n",
        b"\x00\xff\r\n\r\n",
        b"GET /now HTTP/9.9\r\n\r\n",
    ],
)
def test_what_is_no_request_is_refused_as_the_senders_fault(address, said):
    with socket.create_connection(address, timeout=PATIENCE) as client:
        try:
            client.sendall(said)
            answer = client.recv(1 << 16)
        except ConnectionError:
            answer = b""  # refused before all of it was sent
    assert answer == b"" or answer.split()[1][:1] in {b"3", b"4"}
    assert is_answered(address)


def refused(tmp_path, listen: str) -> str:
    """Return what `sluice serve` says where it cannot listen."""
    with closing(ServedSite(tmp_path / "site")) as site:
        words = ["serve", "--listen", listen, "--tokens", str(site.tokens)]
        found = CliRunner().invoke(sluice, [*words, "--config", str(site.conf)])
    assert (found.exit_code, found.output.count(listen)) == (1, 1)
    return found.output


def test_an_address_in_use_is_named_with_the_remedy(address, tmp_path):
    said = refused(tmp_path, f"{address[0]}:{address[1]}")
    assert "Address already in use" in said
    assert "another port" in said


def test_a_socket_that_cannot_be_made_is_named_with_the_remedy(tmp_path):
    assert "make its directory" in refused(tmp_path, f"unix:{tmp_path}/absent/serve.sock")
    assert "too long" in refused(tmp_path, f"unix:{tmp_path}/{'a' * 200}")
