"""What the commands say while slurmctld is down or stopped: at once, and once."""

import os
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from private_slurm import PrivateSlurm
from sluiced import BIN, wait_for

from sluice.history_db.store import Store

pytestmark = pytest.mark.slurm

COMMANDS = {
    "off": ["off", "--reason", "test"],
    "on": ["on"],
    "status": ["status"],
    "doctor": ["doctor"],
    "gates": ["gates"],
    "config check": ["config", "check"],
    "why": ["why", "4711"],
    "decisions": ["decisions"],
    "audit": ["audit"],
    "review": ["review", "list"],
}
ASKS_SLURM = frozenset(COMMANDS) - {"decisions", "audit", "review"}
SILENT = frozenset({"config check", "on", "decisions", "audit", "review"})
"""Those that have their answer without Slurm."""
FAILURE = re.compile(r"slurmctld is down|no sign of life|Unable to contact|gave no answer")


@pytest.fixture(scope="module", params=["killed", "stopped"])
def down(plain: PrivateSlurm, request) -> Iterator[PrivateSlurm]:
    pid = plain.controller_pid()
    if request.param == "stopped":
        os.kill(pid, signal.SIGSTOP)
        yield plain
        os.kill(pid, signal.SIGCONT)
    else:
        plain.kill_controller()
        yield plain
        plain.start_controller()
    wait_for(plain.responds)


@pytest.fixture
def config(plain: PrivateSlurm) -> Path:
    folder = plain.directory.parent / "site"
    folder.mkdir(exist_ok=True)
    files = {
        key: folder / key.lower() for key in ("History", "Bundle", "Snapshot", "Socket", "OffFile")
    }
    Store(files["History"], create=True).close()
    path = folder / "sluice.conf"
    path.write_text("Mode=enforce\n" + "".join(f"{k}={v}\n" for k, v in files.items()))
    return path


@pytest.fixture
def asked(tmp_path) -> Path:
    """A list of how scontrol is called by what finds this directory in PATH first."""
    listed, wrapper = tmp_path / "asked", tmp_path / "scontrol"
    real = subprocess.check_output(["sh", "-c", "command -v scontrol"], text=True).strip()
    wrapper.write_text(f'#!/bin/sh\necho "$*" >> {listed}\nexec {real} "$@"\n')
    wrapper.chmod(0o755)
    listed.touch()
    return listed


@pytest.mark.parametrize("name", COMMANDS)
def test_a_controller_that_is_down_is_asked_once_and_named_once(down, config, asked, name):
    done = subprocess.run(
        [BIN / "sluice", *COMMANDS[name], "--config", config],
        env=down.client_environment() | {"PATH": f"{asked.parent}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    said = done.stdout + done.stderr
    assert asked.read_text().splitlines() == ["ping"] * (name in ASKS_SLURM)
    assert len(FAILURE.findall(said)) == (name not in SILENT), said
    assert "chown" not in said
