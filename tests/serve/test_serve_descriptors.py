"""The pages' server rests while it has no descriptor for who connects, and then goes on."""

import os
import resource
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

SERVE = """
from sluice.serve import server

def app(environ, start_response):
    start_response("200 OK", [("Content-Length", "4")])
    return [b"page"]

listener = server.bind("127.0.0.1:0")
print(listener.getsockname()[1], flush=True)
server.serve(app, listener)
"""


@pytest.fixture
def served() -> Iterator[tuple[subprocess.Popen[str], int]]:
    words = (sys.executable, "-c", SERVE)
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process, int(process.stdout.readline())
        process.kill()


def page(port: int) -> bytes:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=60) as answer:
        found: bytes = answer.read()
    return found


def ticks_of(pid: int) -> int:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def test_out_of_descriptors_it_does_not_spin(served: tuple[subprocess.Popen[str], int]) -> None:
    process, port = served
    assert page(port) == b"page"
    before = resource.prlimit(process.pid, resource.RLIMIT_NOFILE)
    used = max(int(entry.name) for entry in Path(f"/proc/{process.pid}/fd").iterdir())
    with ExitStack() as stack:
        resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (used + 1, before[1]))
        for _ in range(5):
            address = ("127.0.0.1", port)
            stack.enter_context(socket.create_connection(address, timeout=60))
        ticks = ticks_of(process.pid)
        time.sleep(2)
        assert ticks_of(process.pid) - ticks < os.sysconf("SC_CLK_TCK") // 10
        resource.prlimit(process.pid, resource.RLIMIT_NOFILE, before)
    assert page(port) == b"page"
