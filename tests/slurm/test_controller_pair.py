"""Two controllers: Sluice is where slurmctld is."""

import contextlib
import os
import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import processes
import pytest
from plugin_harness import PluginFiles
from private_slurm import PrivateSlurm
from sluiced import Sluiced, wait_for

pytestmark = [
    pytest.mark.slurm,
    pytest.mark.skipif(os.geteuid() != 0, reason="gives a second controller a host name"),
]

HELD = ("--hold", "--wrap=true")
STANDBY = "SlurmctldHost=standby(127.0.0.2)"


@pytest.fixture
def places(lab_directory) -> list[PluginFiles]:
    """What each of the two controllers has on its own disk."""
    found = []
    for name in ("first", "second"):
        directory = lab_directory / name
        directory.mkdir()
        found.append(PluginFiles(directory))
        found[-1].configure(FollowInterval=100)
    return found


@pytest.fixture
def pair(lab_directory, plugin_directory, places) -> Iterator[PrivateSlurm]:
    settings = {"JobSubmitPlugins": "sluice", "SlurmctldTimeout": "5"}
    with PrivateSlurm(
        lab_directory / "pair",
        nodes=1,
        settings=settings,
        extra=STANDBY,
        plugin_dir=plugin_directory,
        environment={"SLUICE_CONF": str(places[0].config)},
    ) as slurm:
        yield slurm


@contextlib.contextmanager
def standby(slurm: PrivateSlurm, files: PluginFiles) -> Iterator[None]:
    """A second slurmctld, on a machine that is called so, with its own log and files."""
    own = slurm.slurm_conf.with_name("standby.conf")
    own.write_text(re.sub(r"slurmctld\.(pid|log)", r"standby.\1", slurm.slurm_conf.read_text()))
    hosts = slurm.directory / "etc/hosts"
    hosts.write_text("127.0.0.1 localhost\n127.0.0.2 standby\n")
    start = 'mount --bind "$1" /etc/hosts && hostname standby && exec slurmctld -f "$0"'
    subprocess.run(
        ["unshare", "--uts", "--mount", "sh", "-c", start, own, hosts],
        env=slurm.client_environment() | {"SLUICE_CONF": str(files.config)},
        check=True,
        timeout=30,
    )
    pid = int(wait_for(lambda: pid_in(slurm.directory / "run/standby.pid")))
    try:
        yield
    finally:
        processes.kill([pid])


def pid_in(path: Path) -> str:
    return path.read_text().strip() if path.exists() else ""


def is_up(slurm: PrivateSlurm) -> bool:
    try:
        return slurm.run("squeue", "--noheader", timeout=5, check=False).returncode == 0
    except subprocess.TimeoutExpired:
        return False


def test_the_standby_decides_once_it_has_taken_over_and_nobody_notices(pair, places, capsys):
    """Each machine has its own sluiced, history and socket; one runs, where slurmctld is."""
    first, second = places
    with standby(pair, second):
        daemon = Sluiced(pair, first).start()
        before = pair.submit("-J", "before", *HELD)
        daemon.wait_until_joined(before)
        copy = pair.directory / "copy.db"
        daemon.command("history", "backup", str(copy))
        daemon.stop()
        pair.kill_controller()
        begin = time.monotonic()
        wait_for(lambda: is_up(pair))
        with capsys.disabled():
            print(f"\nthe standby took over within {time.monotonic() - begin:.0f} s")
        successor = Sluiced(pair, second)
        successor.command("history", "restore", str(copy))
        successor.start()
        after = pair.submit("-J", "after", *HELD)
        rows = successor.wait_until_joined(before, after)
        assert {rows[before]["name"], rows[after]["name"]} == {"before", "after"}
        assert successor.sluice("why", str(after))["record"]["cluster"] == "lab"
        successor.stop()
        pair.run("scancel", str(before), str(after))
