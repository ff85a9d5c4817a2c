"""The doctor names what is wrong on a real slurmctld, and a remedy that is right."""

import os
import shutil
import signal
import sqlite3
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import core_cases
import made_model
import numpy as np
import pytest
from plugin_harness import PluginFiles, drain, install
from private_slurm import PrivateSlurm
from sluiced import Sluiced, wait_for

from sluice.cli.gates import reported
from sluice.history_db.records import Decision
from sluice.history_db.store import Store
from sluice.policies import core
from sluice.slurm.doctor import checks, controller
from sluice.slurm.doctor.findings import Finding, Site, troubles
from sluice.slurm.queue import Queue
from sluice.slurm.slurm_commands import parse_controller
from sluice.slurm.status import LEASES, NOT_RENEWED, REFUSED, SnapshotLock, Status, read_status

pytestmark = pytest.mark.slurm
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="mounts file systems")

TOKENS = ("all_stream", "all_flush", "all_meta")
HELD = ("--hold", "--wrap=true")


@pytest.fixture(scope="module")
def slurm(guarded_slurm) -> Iterator[PrivateSlurm]:
    licenses = ",".join(["tool:9", *(f"{token}:1000000" for token in TOKENS)])
    with guarded_slurm("doctor", {"Licenses": licenses}) as slurm:
        yield slurm


@pytest.fixture
def sluiced(slurm: PrivateSlurm, files: PluginFiles) -> Iterator[Sluiced]:
    """Enforcing, on a quiet cluster."""
    for leftover in files.directory.iterdir():
        shutil.rmtree(leftover) if leftover.is_dir() else leftover.unlink()
    heavy = made_model.profile(np.random.default_rng(1), "aw")
    install(
        files.bundle, made_model.bundle_of_names({"heavy": heavy}, "", created=int(time.time()))
    )
    configure(files)
    daemon = Sluiced(slurm, files).start()
    files.wait_for(lambda seen: seen["mode"] == "enforce")
    daemon.wait_until_followed()
    drain(files.socket)
    yield daemon
    slurm.run("scancel", "--quiet", "--user=root", check=False)
    if daemon.process.poll() is None:
        daemon.process.send_signal(signal.SIGCONT)
        daemon.stop()
    for line in slurm.run("scontrol", "show", "reservation", "-o").stdout.splitlines():
        if line.startswith("ReservationName="):
            slurm.run("scontrol", "delete", line.split()[0].lower(), check=False)


def configure(files: PluginFiles, **settings: str | float) -> None:
    keys = {"Mode": "enforce", "FollowInterval": 100, "LeaseSeconds": 60}
    files.configure(**keys | settings)


@contextmanager
def small_disk(path: Path) -> Iterator[Path]:
    path.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2M", "tmpfs", path], check=True)
    try:
        yield path
    finally:
        subprocess.run(["umount", "--lazy", path], check=True)


def fill(path: Path) -> None:
    handle = os.open(path / "filler", os.O_WRONLY | os.O_CREAT)
    with suppress(OSError):
        while True:
            os.write(handle, bytes(4096))
    os.close(handle)


@needs_root
def test_a_full_disk_is_named_by_the_doctor_and_by_sluiced(sluiced, slurm):
    with small_disk(sluiced.files.directory / "disk") as disk:
        configure(sluiced.files, History=str(disk / "history.db"))
        wait_for((disk / "history.db").exists)
        fill(disk)
        slurm.submit("-J", "filled", *HELD)
        said = sluiced.wait_for_finding("history", "sluiced fails since")
        assert "the disk is full" in said["text"]
        assert "make room" in said["remedy"]
        [own] = [row for row in sluiced.diagnose("history") if row is not said][:1]
        assert "start sluiced" not in own["remedy"]
        (disk / "filler").unlink()
        wait_for(lambda: not sluiced.diagnose("history"))
        sluiced.stop()


@needs_root
def test_a_full_disk_is_found_without_sluiced(sluiced):
    sluiced.stop()
    with small_disk(sluiced.files.directory / "disk") as disk:
        shutil.copy(sluiced.history, disk / "history.db")
        configure(sluiced.files, History=str(disk / "history.db"))
        fill(disk)
        [found] = sluiced.diagnose("history")
        assert "the disk is full" in found["text"]
        assert "free some space" in found["remedy"]


@needs_root
def test_a_file_system_that_is_read_only_is_named(sluiced):
    sluiced.stop()
    with small_disk(sluiced.files.directory / "disk") as disk:
        shutil.copy(sluiced.history, disk / "history.db")
        configure(sluiced.files, History=str(disk / "history.db"))
        subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
        [found] = sluiced.diagnose("history")
        assert found["level"] == "FAIL"
        assert "mounted read-only" in found["remedy"]


def test_a_history_that_is_locked_is_named(sluiced):
    sluiced.wait_for_snapshots()
    sluiced.stop()
    with closing(sqlite3.connect(sluiced.history, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        [found] = sluiced.diagnose("history")
        assert "another process has been writing" in found["text"]
        assert "fuser" in found["remedy"]


def takes_the_name(slurm: PrivateSlurm) -> bool:
    """Whether a reservation of nodes got the name before sluiced made its lease again."""
    slurm.run("scontrol", "delete", "reservationname=sluice_all_meta", check=False)
    made = slurm.run(
        *("scontrol", "create", "reservation", "reservationname=sluice_all_meta", "starttime=now"),
        *("duration=5", "users=root", "nodes=n1"),
        check=False,
    )
    return made.returncode == 0


def test_a_reservation_with_the_name_of_a_lease_is_to_be_renamed(sluiced, slurm):
    """And not "start sluiced", which runs."""
    wait_for(lambda: takes_the_name(slurm))
    found = sluiced.wait_for_finding("reservations", "sluice_all_meta has the name of a lease")
    assert "scontrol delete reservationname=sluice_all_meta" in found["remedy"]
    [open_gate] = wait_for(lambda: sluiced.diagnose("gates") and sluiced.diagnose("gates")[:1])
    assert "start sluiced" not in open_gate["remedy"]
    slurm.run("scontrol", "delete", "reservationname=sluice_all_meta")
    wait_for(lambda: not sluiced.diagnose("reservations", "gates"))


def test_a_sites_reservation_that_holds_tokens_is_named(sluiced, slurm):
    sluiced.stop()
    slurm.run("scontrol", "create", "reservation", "reservationname=course", "starttime=now",
              "duration=5", "users=root", "licenses=tool:2,all_meta:7",
              "flags=license_only")  # fmt: skip
    [found] = sluiced.diagnose("reservations")
    assert "course reserves all_meta:7" in found["text"]
    command = found["remedy"].partition("`")[2].rstrip("`")
    assert command == "scontrol update reservationname=course licenses=tool:2"
    slurm.run(*command.split())  # the remedy is right
    assert not sluiced.diagnose("reservations")


def test_tokens_that_users_wrote_are_named_with_what_takes_them_off(sluiced, slurm):
    configure(sluiced.files, Mode="off")
    sluiced.files.wait_for(lambda seen: seen["mode"] == "off")
    sluiced.stop()  # it would take them off itself
    job = slurm.submit("-L", "tool:1,all_stream:1000", *HELD)
    [found] = sluiced.diagnose("tokens of users")
    assert f"{job} (all_stream:1000)" in found["text"]
    command = found["remedy"].partition("`")[2].rstrip("`")
    assert command == f"scontrol update jobid={job} licenses=tool:1"
    slurm.run(*command.split())
    assert not sluiced.diagnose("tokens of users")
    assert slurm.job(job)["Licenses"] == "tool:1"


def test_tokens_whose_decision_was_lost_are_named(sluiced, slurm):
    sluiced.wait_for_snapshots()
    sluiced.stop()
    job = slurm.submit("-J", "heavy", *HELD)
    assert slurm.job(job)["Licenses"] == "all_stream"
    drain(sluiced.files.socket)
    [found] = sluiced.diagnose("tokens without a decision")
    assert f"1 jobs have tokens, and no decision of theirs is known: {job}" in found["text"]
    assert "records were lost" in found["remedy"]


def test_one_that_hangs_is_to_be_restarted(sluiced):
    install(sluiced.files.bundle, made_model.bundle_of_names({}, "MaxSnapshotAge=1\n", created=1))
    configure(sluiced.files, MaxSnapshotAge=1)
    sluiced.wait_for_snapshots()
    sluiced.process.send_signal(signal.SIGSTOP)
    found = sluiced.wait_for_finding("snapshot", "too old")
    assert "then restart it" in found["remedy"]


# What the files tell


@pytest.fixture
def small_site(tmp_path: Path) -> Site:
    """Of a SlurmUser who is not root."""
    tmp_path.chmod(0o750)
    keys = {"Bundle": "model.bundle", "Snapshot": "snapshot", "History": "history.db"}
    text = "".join(f"{key}={tmp_path}/{name}\n" for key, name in keys.items())
    controller = parse_controller("SlurmUser = games(5)\n")
    return Site(
        Path("sluice.conf"),
        config=core.parse_config("sluice.conf", text.encode()),
        controller=controller,
    )


def test_lanes_that_are_not_those_of_the_bundle_are_named(tmp_path):
    def found(file: str, published: str) -> list[str]:
        bundle = tmp_path / "model.bundle"
        bundle.write_bytes(core_cases.bundle_bytes(conf=published))
        bundle.chmod(0o640)
        config = core.parse_config("sluice.conf", f"Bundle={bundle}\n{file}".encode())
        site = Site(Path("sluice.conf"), config=config)
        return [one.text for one in checks.bundle(site) if one.topic == "lanes"]

    fast, slow = "Lane=fast Targets=4 Bandwidth=1G\n", "Lane=slow Targets=2 Bandwidth=1G\n"
    assert found(fast + slow, fast + slow) == found("", "") == []
    [new] = found(fast + slow, fast)
    assert "not published: slow" in new
    [gone] = found(fast, fast + slow)
    assert "published, but not in the file: slow" in gone
    [both] = found(fast, slow)
    assert "not published: fast; published, but not in the file: slow" in both
    [changed] = found(fast.replace("4", "8"), fast)
    assert "published otherwise: fast" in changed


def test_the_tokens_that_are_asked_for_are_those_of_the_file(tmp_path):
    bundle = tmp_path / "model.bundle"
    bundle.write_bytes(core_cases.bundle_bytes(conf="Lane=old Targets=4 Bandwidth=1G\n"))
    text = f"Bundle={bundle}\nMode=enforce\nLane=new Targets=4 Bandwidth=1G\n"
    site = Site(
        Path("sluice.conf"),
        config=core.parse_config("sluice.conf", text.encode()),
        stats={"furthest_mode": "enforce", "grants": {"taken": 0}, "stripped": 0}
        | {"opt_outs": {"option": 0, "update": 0}},
    )
    site._queue = Queue()  # of a Slurm without licences  # noqa: SLF001
    [missing, _] = controller.tokens(site)
    assert missing.remedy == "Licenses=" + ",".join(
        f"new_{kind}:1000000" for kind in ("flush", "meta", "stream")
    )
    assert "old" not in missing.text + missing.remedy


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
@pytest.mark.parametrize(
    ("slurm_conf", "owner", "level"),
    [
        ("SlurmUser=games\n", 5, "OK"),
        ("SlurmUser=5\n", 5, "OK"),
        ("SlurmUser=games\n", 6, "FAIL"),
        ("Include others.conf\n", 5, "OK"),
        ("Include others.conf\n", 6, "FAIL"),
        ("include absent.conf\n", 5, "OK"),
        (None, 5, "OK"),
    ],
)
def test_a_right_owner_is_no_fault_while_slurmctld_is_down(
    tmp_path, monkeypatch, slurm_conf, owner, level
):
    """Nor is one where nothing tells which is right."""
    monkeypatch.setenv("SLURM_CONF", f"{tmp_path}/slurm.conf")
    (tmp_path / "others.conf").write_text("SlurmUser=games\ninclude slurm.conf\n")
    if slurm_conf is not None:
        (tmp_path / "slurm.conf").write_text(slurm_conf)
    config = tmp_path / "sluice.conf"
    config.touch(0o644)
    os.chown(config, owner, owner)
    [found] = checks.configuration(Site(config, is_named=True))
    assert found.level == level
    assert ("chown" in found.text + found.remedy) == (level == "FAIL")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_bundle_that_slurmctld_may_not_read_is_named(small_site):
    """It would leave every job alone, and nobody would know why."""
    bundle = Path(small_site.config.bundle)
    bundle.touch(0o640)
    [found, _] = checks.files(small_site)
    assert found.level == "FAIL"
    assert "slurmctld, as games, may not read it" in found.text
    assert "usermod --append --groups root games" in found.remedy
    for uid, gid in ((5, 0), (0, 60)):
        os.chown(bundle.parent, 5, gid)
        os.chown(bundle, uid, gid)
        assert [row.level for row in checks.files(small_site)] == ["OK"]


def test_decisions_without_a_job_are_named_where_they_are_many(small_site):
    path = Path(small_site.config.history)
    then = int(time.time()) - 600
    rows = [
        Decision(boot=1, number=i, now=then, cluster="lab", uid=0, record=b"", bundle=0, snapshot=0,
                 job_id=i if i % 2 else None, joined_by="key" if i % 2 else None)
        for i in range(60)
    ]  # fmt: skip
    with Store(path, create=True) as store:
        store.decisions.insert_decisions(rows)
    found = {row.topic: row for row in checks.history(small_site)}
    assert "30 of 60 decisions of the last hour found no job" in found["decisions"].text
    with Store(path) as store:
        for row in rows:
            store.decisions.join_decisions(
                [(row.boot, row.number, None, "tie")]
            )  # those are joined as far as they can be
    assert {row.topic for row in checks.history(small_site)} == {"history"}


# What sluiced says of itself


@pytest.fixture
def site(tmp_path: Path) -> Site:
    text = f"Snapshot={tmp_path}/cluster.snapshot\n"
    return Site(
        Path("sluice.conf"),
        config=core.parse_config("sluice.conf", text.encode()),
        sluiced_runs=True,
    )


def told(site: Site, status: Status) -> dict[str, Finding]:
    status.write(Path(site.config.snapshot))
    return {finding.topic: finding for finding in troubles(site)}


def test_jobs_and_tokens_that_sluiced_names_are_passed_on(site):
    status = Status()
    status.name(REFUSED, {"17": "Invalid license specification", "18": "likewise"})
    status.name(LEASES, {"all_meta": "Requested reservation is invalid"})
    status.name(NOT_RENEWED, {"all_stream": "job 4 has waited 95 s"})
    found = told(site, status)
    assert "17 (since" in found[REFUSED].text
    assert "Invalid license specification" in found[REFUSED].text
    assert "slurm.conf" in found[REFUSED].remedy
    assert "all_meta" in found[LEASES].text
    assert "rename or delete" in found[LEASES].remedy
    assert "job 4 has waited 95 s" in found[NOT_RENEWED].text
    assert {row.level for row in found.values()} == {"FAIL"}
    for topic in (REFUSED, LEASES, NOT_RENEWED):
        status.name(topic, {})
    assert not told(site, status)


def test_the_gates_tell_what_sluiced_has_trouble_with(site):
    status = Status()
    status.name(NOT_RENEWED, {"all_stream": "job 4 has waited 95 s"})
    status.write(Path(site.config.snapshot))
    assert reported(site.config) == []  # of a sluiced that is dead nothing is to be believed
    with SnapshotLock() as lock:
        lock.move(Path(site.config.snapshot))
        [text] = reported(site.config)
    assert "job 4 has waited 95 s" in text


def test_a_trouble_keeps_the_time_since_when_it_lasts(site, monkeypatch):
    status = Status()
    monkeypatch.setattr(time, "time", lambda: 1000.0)
    status.fails("history", "the disk is full")
    status.name(REFUSED, {"17": "no"})
    monkeypatch.setattr(time, "time", lambda: 2000.0)
    status.fails("history", "the disk is still full")
    status.name(REFUSED, {"17": "no", "18": "no"})
    status.write(Path(site.config.snapshot))
    read = read_status(Path(site.config.snapshot))
    assert read.failing["history"].since == 1000
    assert read.failing["history"].text == "the disk is still full"
    assert [row.since for row in read.named[REFUSED].values()] == [1000, 2000]
    assert read.counts[REFUSED] == 2
    status.works("history")
    assert "history" not in told(site, status)


def test_many_are_counted_and_some_named(site):
    status = Status()
    status.name(REFUSED, {str(job): "no" for job in range(1000)})
    assert "and 995 more" in told(site, status)[REFUSED].text


@pytest.mark.parametrize("content", [b"", b"{}", b"[]", b'{"failing": {"x": 3}}', b"\xff"])
def test_a_status_that_cannot_be_read_asks_for_a_restart(site, content):
    Path(site.config.snapshot + ".status").write_bytes(content)
    [finding] = troubles(site)
    assert finding.level == "WARN"
    assert "restart sluiced" in finding.remedy
