"""`sluice init`: the first configuration, from what a site's own commands say.

lfs and beegfs-ctl cannot run here: stand-ins print what their manuals show.
"""

import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

from sluice.policies import core
from sluice.slurm.doctor import site_discovery

SLUICE = Path(sys.executable).with_name("sluice")
LFS = """\
case "$1 $2" in
"osts /scratch") echo OBDS:; for i in 0 1 2 3 4 5; do echo "$i: s-OST000${i}_UUID ACTIVE"; done;;
"pool_list /scratch") echo "Pools from s:"; test -z "$POOLS" || printf '%s\\n' s.fast s.slow;;
"pool_list s.fast") printf 'Pool: s.fast\\ns-OST0000_UUID\\ns-OST0001_UUID\\n';;
"pool_list s.slow") printf 'Pool: s.slow\\ns-OST0002_UUID\\ns-OST0003_UUID\\ns-OST0005_UUID\\n';;
esac
"""
BEEGFS = """\
cat <<END
Pool ID   Pool Description                      Targets                 Buddy Groups
======= ================== ============================ ============================
      1            Default                      1,2,3,4
      2               fast                          5,6                          1,2
END
"""


@pytest.fixture
def command(tmp_path, monkeypatch):
    """Stand-ins for commands, by name and text, before those of the machine."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")

    def add(name: str, text: str) -> None:
        (folder / name).write_text(f"#!/bin/sh\n{text}")
        (folder / name).chmod(0o755)

    return add


def mounts(place: Path, line: str) -> Path:
    (place / "mounts").write_text(f"{line}\nproc /proc proc rw 0 0\n")
    return place / "mounts"


def test_lustre_without_pools_is_two_halves_of_its_targets(command, tmp_path):
    command("lfs", LFS)
    [found] = site_discovery.storage(mounts(tmp_path, "mgs@tcp:/s /scratch lustre rw 0 0"))
    assert [(lane.name, lane.osts) for lane in found.lanes] == [("sl0", "0-2"), ("sl1", "3-5")]
    config = core.parse_config("made", site_discovery.settings(None, found).encode())
    assert [lane.targets for lane in config.policy.lanes] == [3, 3]


def test_pools_of_lustre_are_lanes(command, tmp_path, monkeypatch):
    monkeypatch.setenv("POOLS", "1")
    command("lfs", LFS)
    [found] = site_discovery.storage(mounts(tmp_path, "mgs@tcp:/s /scratch lustre rw 0 0"))
    assert [(lane.targets, lane.osts) for lane in found.lanes] == [(2, "0-1"), (3, "2-3,5")]


def test_storage_pools_of_beegfs_are_lanes(command, tmp_path):
    command("beegfs-ctl", BEEGFS)
    [found] = site_discovery.storage(mounts(tmp_path, "beegfs_nodev /work beegfs rw 0 0"))
    assert [lane.targets for lane in found.lanes] == [4, 2]


def test_storage_classes_of_moosefs_are_lanes_but_for_those_it_ships_with(command, tmp_path):
    command("mfsscadmin", "printf '%s\\n' 1 2 9 only_a only_b")
    [found] = site_discovery.storage(mounts(tmp_path, "mfs#master:9421 /mfs fuse rw 0 0"))
    assert [(lane.name, lane.targets) for lane in found.lanes] == [("sl0", 1), ("sl1", 1)]


def test_a_command_that_fails_makes_no_lanes(command, tmp_path):
    command("lfs", "exit 1")
    assert not site_discovery.storage(mounts(tmp_path, "mgs@tcp:/s /scratch lustre rw 0 0"))


def test_pools_that_share_a_target_are_no_lanes():
    assert site_discovery.disjoint([[0, 1], [1, 2]]) == []


def run(*words: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [SLUICE, "init", *words], stdin=subprocess.DEVNULL, capture_output=True, text=True,
        check=False,
    )  # fmt: skip


def test_it_writes_a_configuration_that_observes_and_never_over_another(tmp_path):
    path, logs = tmp_path / "sluice.conf", tmp_path / "logs"
    logs.mkdir()
    done = run("--config", path, "--darshan-logs", logs)
    assert done.returncode == 0, done.stderr
    assert "JobSubmitPlugins" in done.stdout
    config = core.read_config(path)
    assert (config.mode, config.darshan_logs) == ("observe", str(logs))
    again = run("--config", path)
    assert again.returncode == 1
    assert f"{path} exists; `sluice init --check`" in again.stderr
    assert path.stat().st_mode & 0o777 == 0o644


def test_directories_of_one_device_are_no_lanes(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    done = run("--directory", tmp_path / "a", "--directory", tmp_path / "b", "--output", "-")
    assert done.returncode == 2
    assert "shares its device with another directory" in done.stderr


def test_a_terminal_is_asked_what_targets_write(tmp_path):
    """Its answers are what an administrator types; elsewhere nothing is asked."""
    controlling, terminal = pty.openpty()
    places = [Path("/dev/shm"), tmp_path]  # noqa: S108 - another device, nothing is written
    with subprocess.Popen(
        [
            *(SLUICE, "init", "--output", "-", "--darshan-logs", tmp_path),
            *(word for place in places for word in ("--directory", place)),
        ],
        stdin=terminal,
        stderr=terminal,
        stdout=subprocess.PIPE,
        text=True,
    ) as asked:
        os.close(terminal)
        os.write(controlling, b"2.5G\n")
        text, _ = asked.communicate(timeout=60)
    os.close(controlling)
    assert "Lane=sl0 Targets=1 Bandwidth=2.5G\n" in text
    assert core.parse_config("made", text.encode()).policy.lanes[1].bandwidth == 2.5 * 2**30


def test_a_check_compares_lanes_and_logs_with_the_site(tmp_path):
    path = tmp_path / "sluice.conf"
    path.write_text("DarshanLogs=/nowhere/at/all\nHistory=/scratch/history.db\n")
    done = run("--check", "--config", path)
    assert done.returncode == 1
    assert "FAIL  Darshan's logs: DarshanLogs=/nowhere/at/all is no directory" in done.stdout
    assert "ReadWritePaths=/scratch" in done.stdout
    assert "slurmctld" in done.stdout


def test_pools_of_blocks_are_made_and_removed_by_lctl():
    """All blocks of up to half of the targets, and one of all, for jobs without a block."""
    done = run("--pools", "fs.p:0,4,1,5-6")
    assert done.returncode == 0
    made, removed = done.stdout.split("# remove them:\n")
    pools = re.findall(r"(?m)^lctl pool_new fs\.(\S+)$", made)
    assert pools == ["p", "p-0-1", "p-1-1", "p-2-1", "p-3-1", "p-4-1", "p-0-2", "p-2-2"]
    assert "lctl pool_add fs.p-2-2 fs-OST0001 fs-OST0005\n" in made
    assert re.findall(r"(?m)^#lctl pool_destroy fs\.(\S+)$", removed) == pools
    assert "#lctl pool_remove fs.p-2-2 fs-OST0001 fs-OST0005\n" in removed


@pytest.mark.parametrize(
    ("told", "why"),
    [
        ("fs", "write FSNAME.NAME:OSTS"),
        ("fs.p:3-", "write FSNAME.NAME:OSTS"),
        ("fs.p:0-3,2", "each once"),
        ("fs.p:7", "name 2 to 512"),
        ("fs.p:0-99999999999", "name 2 to 512"),
        ("fs.scratchXXX:0-127", "scratchXXX-100-1 has more than 15 characters"),
    ],
)
def test_pools_that_cannot_be_are_refused(told, why):
    done = run("--pools", told)
    assert done.returncode == 2
    assert why in done.stderr
