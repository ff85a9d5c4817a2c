"""Daemons tell systemd that they are not stuck; where one is, it restarts them."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sluice.slurm import service

COMMANDS = Path(sys.executable).parent
PATIENCE = 60.0


class Systemd:
    """Its socket: what it hears within its patience."""

    def __init__(self, name: str) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(name.replace("@", "\0", 1) if name.startswith("@") else name)

    def hears(self, seconds: float = PATIENCE) -> bytes | None:
        self._socket.settimeout(seconds)
        try:
            return self._socket.recv(100)
        except TimeoutError:
            return None

    def forget(self) -> None:
        """Of what was said before."""
        while self.hears(0.01):
            pass


@pytest.fixture(params=["path", "abstract"])
def address(request, tmp_path: Path) -> str:
    if request.param == "path":
        return str(tmp_path / "notify")
    return f"@sluice-test-{os.getpid()}-{tmp_path.name}"


def test_a_sign_of_life_is_what_systemd_expects(address, monkeypatch):
    systemd = Systemd(address)
    monkeypatch.setenv("NOTIFY_SOCKET", address)
    service.say_alive()
    assert systemd.hears() == b"WATCHDOG=1"
    monkeypatch.setenv("WATCHDOG_PID", "1")
    service.say_alive()
    assert systemd.hears(0.1) is None


@pytest.mark.parametrize("there", ["", "/nowhere/notify", "@nobody listens", "x" * 300])
def test_where_nobody_listens_nothing_happens(there, monkeypatch):
    monkeypatch.setenv("NOTIFY_SOCKET", there)
    service.say_alive()
    monkeypatch.delenv("NOTIFY_SOCKET")
    service.say_alive()
    assert "NOTIFY_SOCKET" not in os.environ


@contextmanager
def running(address: str, *command: str | Path) -> Iterator[subprocess.Popen[bytes]]:
    environment = os.environ | {"NOTIFY_SOCKET": address}
    with subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL) as process:
        try:
            yield process
        finally:
            process.kill()


def hangs_in_silence(systemd: Systemd, process: subprocess.Popen[bytes]) -> bool:
    """Whether the daemon speaks while it works, and not while it hangs."""
    assert {systemd.hears() for _ in range(3)} == {b"WATCHDOG=1"}
    process.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, process.pid, os.WSTOPPED)
    systemd.forget()
    return systemd.hears(3) is None


def test_sluice_learn_speaks_until_it_hangs(address, tmp_path):
    config = tmp_path / "sluice.conf"
    config.write_text(f"History={tmp_path}/history.db\nLearnInterval=1\nOffFile={tmp_path}/off\n")
    systemd = Systemd(address)
    with running(address, COMMANDS / "sluice-learn", "--config", config) as process:
        assert hangs_in_silence(systemd, process)


def test_sluice_serve_speaks_until_it_hangs(address, tmp_path):
    config = tmp_path / "sluice.conf"
    config.write_text(f"History={tmp_path}/history.db\nOffFile={tmp_path}/off\n")
    subprocess.run([COMMANDS / "sluice-learn", "--once", "--config", config], check=False)
    systemd = Systemd(address)
    words = ["serve", "--config", config, "--listen", f"unix:{tmp_path}/serve.sock"]
    words += ["--user-header", "X-Remote-User"]
    with running(address, COMMANDS / "sluice", *words) as process:
        assert hangs_in_silence(systemd, process)
