"""`make install` makes the service group and the directories that belong to it."""

import os
import re
import subprocess
from pathlib import Path

import pytest

SYSTEMD = Path(__file__).parents[2] / "slurm-plugin" / "systemd"
# users and groups of its own: nothing of this machine changes
OWN_ETC = 'cp -a /etc "$0/etc" && mount --bind "$0/etc" /etc && exec "$@"'


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make groups")
def test_the_service_group_and_its_directories_are_made_once(tmp_path):
    make = [SYSTEMD / "make-group.sh", "games", tmp_path]
    for _ in range(2):
        subprocess.run(["unshare", "--mount", "sh", "-c", OWN_ETC, tmp_path, *make], check=True)
    group = (tmp_path / "etc" / "group").read_text()
    [row] = [line.split(":") for line in group.splitlines() if line.startswith("sluice:")]
    assert row[3] == "games"
    modes = {}
    for name in ("run/sluice", "var/lib/sluice"):
        status = (tmp_path / name).stat()
        assert (status.st_uid, status.st_gid) == (5, int(row[2]))
        modes[name] = status.st_mode & 0o7777
    assert modes == {"run/sluice": 0o2755, "var/lib/sluice": 0o2750}


def test_a_package_gets_files_for_systemd_and_changes_no_machine(tmp_path):
    done = subprocess.run(
        ["make", "-C", SYSTEMD, "install", f"DESTDIR={tmp_path}", "SLURM_USER=hpc"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "systemd-sysusers && systemd-tmpfiles" in done.stdout
    installed = {
        path.relative_to(tmp_path).as_posix(): path.read_text()
        for path in tmp_path.rglob("*")
        if path.is_file()
    }
    assert installed.keys() == {
        "usr/lib/sysusers.d/sluice.conf",
        "usr/lib/tmpfiles.d/sluice.conf",
        "usr/lib/systemd/system/sluiced.service",
        "usr/lib/systemd/system/sluice-learn.service",
        "usr/lib/systemd/system/sluice-agent.service",
        "usr/lib/systemd/system/sluice-turns.service",
    }
    assert not any(re.search("@[A-Z_]+@", text) for text in installed.values())
    for unit in ("sluiced", "sluice-learn"):
        assert "User=hpc" in installed[f"usr/lib/systemd/system/{unit}.service"]
