"""Backup and restore of a history, and where one may lie."""

import json
import os
import sqlite3
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner
from made_history import made_history

from sluice.cli.main import main
from sluice.history_db import connection, place
from sluice.history_db.errors import NetworkedHistoryError
from sluice.history_db.records import Job
from sluice.history_db.store import Store
from sluice.slurm.status import SnapshotLock, learner_path

LAB = Path(__file__).parents[1] / "lab"
# Writes pairs of jobs, each pair in a transaction, until it is killed.
WRITER = """
import sys
sys.path.insert(0, sys.argv[2])
from dataclasses import replace
from itertools import count
from sluice.history_db.store import Store
from made_history import made_history
[run] = made_history(1, seed=1)
with Store(sys.argv[1]) as store:
    for i in count(1):
        store.jobs.upsert_jobs([replace(run.job, job_id=10**6 * half + i) for half in (1, 2)])
        if i == 50:
            print("writing", flush=True)
"""


@pytest.fixture
def history(tmp_path) -> Path:
    path = tmp_path / "history.db"
    with Store(path, create=True) as store:
        store.jobs.upsert_jobs(run.job for run in made_history(100, seed=2))
    return path


@pytest.fixture
def sluice(tmp_path, history):
    config = tmp_path / "sluice.conf"
    config.write_text(f"History={history}\nSnapshot={tmp_path}/snapshot\n")

    def run(*words, exit_code: int = 0) -> str:
        words = [*map(str, words), "--config", str(config)]
        result = CliRunner().invoke(main, ["history", *words])
        assert result.exit_code == exit_code, result.output
        return result.output

    return run


def jobs_in(path: Path) -> int:
    with Store(path, read_only=True, as_it_is=True) as store:
        return store.counts().jobs


@contextmanager
def written_to(history: Path):
    """While somebody writes as fast as he can."""
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, history, LAB], stdout=subprocess.PIPE
    ) as writer:
        assert writer.stdout.readline() == b"writing\n"
        try:
            yield
        finally:
            writer.kill()


def test_a_backup_under_load_is_of_one_moment(sluice, history, tmp_path):
    with written_to(history):
        for i in range(3):
            sluice("backup", tmp_path / f"{i}.db")
    counts = []
    for i in range(3):
        with sqlite3.connect(tmp_path / f"{i}.db") as db:
            sql = "SELECT count(*) FROM jobs WHERE job_id / 1000000 = ?"
            [one], [two] = (db.execute(sql, [half]).fetchone() for half in (1, 2))
        assert one == two >= 50
        counts.append(one)
    assert counts == sorted(counts)
    assert jobs_in(history) >= 100 + 2 * counts[-1]
    assert (tmp_path / "0.db").stat().st_mode & 0o777 == 0o640


def test_a_backup_replaces_an_earlier_one_only_when_it_is_whole(sluice, history, tmp_path):
    copy = tmp_path / "copy.db"
    sluice("backup", copy)
    before = copy.read_bytes()
    with history.open("r+b") as file:  # a page of the middle
        file.seek(8192)
        file.write(os.urandom(4096))
    sluice("backup", copy, exit_code=1)
    assert copy.read_bytes() == before
    assert [path.name for path in tmp_path.glob(".*")] == []


def test_a_backup_never_takes_the_place_of_the_history_itself(sluice, history, tmp_path):
    before = history.stat().st_ino
    link = tmp_path / "link.db"
    link.symlink_to(history)
    for file in (history, link):
        assert "the history itself" in sluice("backup", file, exit_code=1)
    assert history.stat().st_ino == before


def test_a_restored_history_is_the_one_of_the_backup_and_the_one_before_stays(
    sluice, history, tmp_path
):
    sluice("backup", tmp_path / "copy.db")
    with Store(history) as store:
        store.jobs.upsert_jobs(run.job for run in made_history(150, seed=3))
        later = store.counts().jobs
    told = sluice("restore", tmp_path / "copy.db")
    assert jobs_in(history) == 100
    [before] = tmp_path.glob("history.db.before-*")
    assert str(before) in told
    assert jobs_in(before) == later
    with Store(history) as store:  # goes on
        store.jobs.upsert_jobs([Job(**vars_of(next(iter(made_history(1, seed=9))).job))])


def vars_of(job: Job) -> dict:
    return {name: getattr(job, name) for name in job.__slots__}


def test_a_history_that_is_gone_or_damaged_is_restored(sluice, history, tmp_path):
    sluice("backup", tmp_path / "copy.db")
    history.unlink()
    sluice("restore", tmp_path / "copy.db")
    assert jobs_in(history) == 100
    content = b"no database at all" * 1000
    history.write_bytes(content)
    sluice("restore", tmp_path / "copy.db")
    assert jobs_in(history) == 100
    [before] = tmp_path.glob("history.db.before-*")
    assert before.read_bytes() == content


@pytest.mark.parametrize("name", ["sluiced", "sluice-learn"])
def test_nothing_is_restored_while_a_daemon_runs(sluice, history, tmp_path, name):
    sluice("backup", tmp_path / "copy.db")
    path = tmp_path / "snapshot" if name == "sluiced" else learner_path(history)
    with SnapshotLock(name) as lock:
        lock.move(path)
        told = sluice("restore", tmp_path / "copy.db", exit_code=1)
    assert "systemctl stop sluiced" in told
    sluice("restore", tmp_path / "copy.db")


def test_nothing_is_restored_while_a_command_has_the_history_open(sluice, history, tmp_path):
    sluice("backup", tmp_path / "copy.db")
    identity = history.stat().st_ino
    with written_to(history):
        sluice("restore", tmp_path / "copy.db", exit_code=1)
        assert history.stat().st_ino == identity


def test_what_is_damaged_foreign_or_newer_is_not_restored(sluice, history, tmp_path):
    identity = history.stat().st_ino
    wrong = tmp_path / "wrong.db"
    wrong.touch()
    assert "empty" in sluice("restore", wrong, exit_code=1)
    with sqlite3.connect(wrong) as db:
        db.execute("CREATE TABLE other (a)")
    assert "not a history" in sluice("restore", wrong, exit_code=1)
    wrong.unlink()
    sluice("backup", wrong)
    with sqlite3.connect(wrong) as db:
        db.execute("INSERT INTO migrations VALUES ('m999_later', 0)")
    assert "newer Sluice" in sluice("restore", wrong, exit_code=1)
    wrong.unlink()
    sluice("backup", wrong)
    with sqlite3.connect(wrong) as db:
        db.execute("PRAGMA writable_schema = 1")
        db.execute("UPDATE sqlite_schema SET rootpage = 3 WHERE name = 'jobs_job_id'")
    assert "damaged" in sluice("restore", wrong, exit_code=1)
    assert history.stat().st_ino == identity
    assert not list(tmp_path.glob("*.before-*"))


def test_the_status_says_when_the_history_was_copied(sluice, tmp_path):
    begin = int(time.time())
    sluice("backup", tmp_path / "copy.db")
    words = ["status", "--config", str(tmp_path / "sluice.conf"), "--json"]
    services = json.loads(CliRunner().invoke(main, words).stdout)["services"]
    [copied] = [one for one in services if one["service"] == "sluice-backup"]
    assert copied["ran"] >= begin


# Where a history may lie


@pytest.mark.parametrize("kind", ["nfs4", "lustre", "cifs", "9p", "gpfs", "fuse.sshfs", "fuse"])
def test_a_history_on_a_network_file_system_is_refused_with_the_remedy(
    tmp_path, monkeypatch, kind, sluice, history
):
    monkeypatch.setattr(place, "MOUNTS", mounts_where(tmp_path, kind))
    with pytest.raises(
        NetworkedHistoryError, match=rf"lies on {kind}, mounted at /shared;.*local|disk"
    ):
        Store(tmp_path / "new.db", create=True)
    assert not (tmp_path / "new.db").exists()
    assert jobs_in(history) == 100  # reading harms nobody
    sluice("backup", tmp_path / "copy.db")  # nor does a copy that is nobody's yet
    assert "lies on" in sluice("restore", tmp_path / "copy.db", exit_code=1)


@pytest.mark.parametrize("kind", ["ext4", "xfs", "tmpfs", "overlay", "fuse.fuse-overlayfs", "zfs"])
def test_a_history_on_a_disk_of_the_machine_is_none_to_refuse(tmp_path, monkeypatch, kind):
    monkeypatch.setattr(place, "MOUNTS", mounts_where(tmp_path, kind))
    with Store(tmp_path / "new.db", create=True) as store:
        assert store.counts().jobs == 0


def mounts_where(folder: Path, kind: str) -> Path:
    """What mountinfo would say, if the folder's device were of this kind."""
    device = folder.stat().st_dev
    number = f"{os.major(device)}:{os.minor(device)}"
    path = folder / "mountinfo"
    path.write_text(
        f"22 27 0:5 / /proc rw - proc proc rw\n"
        f"40 27 {number} / /shared rw,relatime shared:1 - {kind} server:/export rw\n"
    )
    return path


def test_this_machine_knows_where_its_folders_are_mounted(tmp_path):
    assert place.network_file_system(tmp_path) == ""
    assert connection.check_place(tmp_path / "history.db") is None
