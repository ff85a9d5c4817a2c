"""sluiced alongside a real slurmctld: it loses and doubles nothing, whatever happens to it."""

import fcntl
import itertools
import json
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import made_model
import numpy as np
import pytest
from plugin_harness import PluginFiles, drain, install
from private_slurm import PrivateSlurm
from sluiced import BIN, PATIENCE, Sluiced, wait_for

from sluice.policies import core
from sluice.policies.bundle_writer import BundleApplication, pack_bundle
from sluice.slurm import plugin_client
from sluice.slurm.status import SnapshotLock, is_locked, status_path, turns_path

pytestmark = pytest.mark.slurm
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="mounts a file system")

COUNTER = itertools.count()
HELD = ("--hold", "--wrap=true")


def configure(files: PluginFiles, **settings: str | float) -> None:
    files.configure(**{"Mode": "observe", "FollowInterval": 100} | settings)


def bundle() -> bytes:
    """Knows this user's checkpoint jobs and nothing else."""
    known = core.submission({"uid": os.geteuid(), "name": known_name()})
    profile = made_model.profile(np.random.default_rng(1))
    return pack_bundle(
        policy=core.default_config().policy,
        interference=core.default_interference(),
        applications=[
            BundleApplication(core.application_key(known, "user_name"), "user_name", 1, profile)
        ],
        text="{}",
        created=int(time.time()),
    )


def known_name() -> str:
    """A job name the bundle knows, whatever its digits.

    Another one each time: sluiced would rightly see a tie with the job of the test before, whose
    history is gone.
    """
    return f"checkpoint_{next(COUNTER)}"


def clear(slurm: PrivateSlurm) -> None:
    """Take all jobs away."""
    slurm.run("scancel", "--quiet", f"--user={os.geteuid()}")
    wait_for(lambda: not slurm.run("squeue", "--noheader").stdout)


@pytest.fixture
def sluiced(guarded: PrivateSlurm, files: PluginFiles) -> Iterator[Sluiced]:
    """Running alongside a cluster with a bundle that knows this user's checkpoint jobs."""
    for leftover in files.directory.iterdir():
        leftover.unlink()
    install(files.bundle, bundle())
    configure(files)
    files.wait_for(lambda seen: seen["mode"] == "observe" and seen["bundle"]["loaded"])
    drain(files.socket)  # what other tests left
    daemon = Sluiced(guarded, files).start()
    daemon.wait_until_followed()
    yield daemon
    clear(guarded)
    if daemon.process.poll() is None:
        daemon.stop()


def made(files: PluginFiles) -> int:
    """Submissions that the plugin has recorded since slurmctld started."""
    return int(files.stats()["ring"]["last"])


# What it does


def test_every_way_to_submit_finds_its_job(sluiced, guarded):
    script = guarded.directory / "job.sh"
    script.write_text("#!/bin/sh\ntrue\n")
    batch = guarded.submit("-J", "batch", *HELD)
    array = guarded.submit("-J", "array", "--array=0-3", *HELD)
    leader = guarded.submit("-J", "leader", "--hold", ":", "-J", "follower", script)
    guarded.run("srun", "-J", "interactive", "true")
    rows = sluiced.wait_until_joined(batch, array, leader, leader + 1)
    names = ("batch", "array", "leader", "follower", "interactive")
    assert {row["name"]: row["joined_by"] for row in rows.values()} == dict.fromkeys(names, "key")
    assert rows[leader + 1]["reason"] == "het_component"
    assert sluiced.sluice("why", f"{array}_2")["array"] == array
    assert sluiced.sluice("why", f"{leader}+1")["record"]["submission"]["name"] == "follower"


def test_the_story_ends_with_what_slurm_did(sluiced, guarded):
    job = guarded.submit("-J", known_name(), "--wrap=exit 3")
    sluiced.wait_until_joined(job)
    guarded.wait_for_job(job, "FAILED")
    facts = wait_for(lambda: (f := sluiced.sluice("why", str(job)))["slurm"]["ended"] and f)
    assert facts["slurm"]["state"] == "FAILED"
    assert facts["slurm"]["exit_code"] == "3:0"
    assert facts["record"]["decision"]["prediction"]["evidence"] == "user_name"


def test_the_bursts_that_were_held_become_part_of_the_story(sluiced, guarded):
    job = guarded.submit("-J", known_name(), "--wrap=sleep 60")
    sluiced.wait_until_joined(job)
    started = wait_for(lambda: sluiced.sluice("why", str(job))["slurm"]["started"])
    line = {
        "boot": "ab", "number": 1, "job_id": job, "nodes": 1, "first_job": job + 1,
        "first_nodes": 8, "lane_mask": 0, "holds": 1, "is_held": True, "ended": "turn",
        "began": started, "lasted": 9.0, "held": 4.0, "bytes": 1e9, "saving": 28.0,
    }  # fmt: skip
    snapshot = sluiced.files.snapshot
    held = snapshot.with_name(f"{snapshot.name}.turns.held")  # as sluice-turns writes it
    held.write_text(json.dumps(line) + "\n")
    [burst] = wait_for(lambda: sluiced.sluice("why", str(job))["turns"])
    assert (burst["first_job"], burst["held"], burst["saving"]) == (job + 1, 4.0, 28.0)
    counted = sluiced.sluice("status")["activity"]["turns"]["held"]
    assert (counted["bursts"], counted["node_seconds"]) == (1, 4.0)


def test_top_names_the_job_that_writes_most(sluiced, guarded):
    jobs = [guarded.submit("-J", known_name(), "--wrap=sleep 60") for _ in range(2)]
    for job in jobs:
        sluiced.wait_until_joined(job)
        wait_for(lambda job=job: sluiced.sluice("why", str(job))["slurm"]["started"])
    now = int(time.time())
    slow, fast = jobs
    status = {
        "failing": {},
        "named": {"bursts": {str(job): {"text": "writes", "since": now} for job in jobs}},
        "rates": {str(slow): [1e6, 3, now - 5], str(fast): [5e7, 40, now - 5]},
        "counts": {"bytes": 10, "uncovered_bytes": 0},
        "facts": {"mode": "observe", "agents": 1, "active": 2, "holding": 0},
    }
    turns = turns_path(sluiced.files.snapshot)
    lock = SnapshotLock("sluice-turns")
    lock.move(turns)
    with closing(lock):
        status_path(turns).write_text(json.dumps(status))  # as sluice-turns writes it
        found = sluiced.sluice("top", "--once")
    rows = {row["job_id"]: row for row in found["rows"]}
    assert [row["job_id"] for row in found["rows"] if row["by"] == "agents"] == [fast, slow]
    assert (rows[fast]["write"], rows[fast]["operations"]) == (5e7, 40)
    assert rows[fast]["action"] == sluiced.sluice("why", str(fast))["record"]["decision"]["action"]


def test_a_decision_is_made_again_from_the_history(sluiced, guarded):
    """Law 6, with the snapshot that sluiced wrote and the plugin took up."""
    guarded.submit("-J", known_name(), "--wrap=sleep 60")
    wait_for(lambda: sluiced.snapshot().corunners())
    sluiced.wait_until_loaded()
    job = guarded.submit("-J", known_name(), *HELD)
    sluiced.wait_until_joined(job)
    with sqlite3.connect(sluiced.history) as db:  # as `sluice model publish` would have
        db.execute(
            "INSERT INTO bundles (checksum, path, published_at, content) "
            "SELECT bundle, 'x', 0, ? FROM decisions WHERE job_id = ?",
            [sluiced.files.bundle.read_bytes(), job],
        )
    facts = sluiced.sluice("why", str(job), "--replay")
    assert facts["replay"]["equal"] is True
    assert facts["record"]["decision"]["corunner_count"] >= 1


def test_the_snapshot_tells_who_writes_and_what_slurm_fills_in(sluiced, guarded):
    known = guarded.submit("-J", known_name(), "-N1", "-t", "5", "--wrap=sleep 60")
    unknown = guarded.submit("-J", "unheard_of", "-N1", "--wrap=sleep 60")
    guarded.submit(*HELD)
    for job in (known, unknown):
        guarded.wait_for_job(job, "RUNNING")
    sluiced.wait_until_joined(known, unknown)
    snapshot = sluiced.wait_for_snapshots()
    assert snapshot.state.running == 2
    assert snapshot.state.flags == ()
    assert (snapshot.state.pending, snapshot.state.unknown) == (1, 1)
    [corunner] = snapshot.corunners()
    assert (corunner.job_id, corunner.nodes) == (known, 1)
    assert corunner.klass != "none"
    assert corunner.expected_end <= int(time.time()) + 300
    assert snapshot.partition("").name == "main"
    assert snapshot.partition("long").flags == ()


def test_the_snapshot_is_renewed_though_nothing_happens(sluiced):
    before = sluiced.snapshot().state
    after = sluiced.wait_for_snapshots(15).state
    assert after.taken > before.taken
    assert after.running == before.running


def test_the_switch_reaches_the_snapshot(sluiced):
    sluiced.files.off_file.touch()
    wait_for(lambda: sluiced.snapshot().state.flags == ("off",))
    sluiced.files.off_file.unlink()
    wait_for(lambda: sluiced.snapshot().state.flags == ())


# Which job a record is about


def submit_equals(slurm: PrivateSlurm) -> tuple[str, list[int]]:
    """Submit three jobs of one name in one second: on a busy machine that takes several tries."""
    while True:
        name = known_name()
        one = f"sbatch --parsable --output=/dev/null --job-name={name} {' '.join(HELD)}"
        answers = slurm.run("sh", "-c", f"{one} & {one} & {one} & wait").stdout
        jobs = [int(line) for line in answers.split()]
        if len({slurm.job(job)["SubmitTime"] for job in jobs}) == 1:
            return name, jobs


def tied_equals(
    sluiced: Sluiced, slurm: PrivateSlurm
) -> tuple[str, list[int], list[dict[str, Any]]]:
    """Submit equals between two polls: name, jobs and rows of their decisions."""
    while True:
        name, jobs = submit_equals(slurm)

        def joined(name: str = name, count: int = len(jobs)) -> list[dict[str, Any]]:
            rows = [row for row in sluiced.decisions() if row["name"] == name and row["joined_by"]]
            return rows if len(rows) == count else []

        rows = wait_for(joined)
        if all(row["joined_by"] == "tie" for row in rows):
            return name, jobs, rows


def test_equal_submissions_are_a_tie_in_observe_and_certain_in_advise(sluiced, guarded):
    name, tied, rows = tied_equals(sluiced, guarded)
    assert [row["job_id"] for row in rows] == [None] * 3
    assert sluiced.sluice("why", str(tied[1]))["tied_with"] == 3

    configure(sluiced.files, Mode="advise")
    sluiced.files.wait_for(lambda seen: seen["mode"] == "advise")
    marked = [guarded.submit("-J", name, *HELD) for _ in range(3)]
    rows = sluiced.wait_until_joined(*marked)
    assert [rows[job]["joined_by"] for job in marked] == ["mark"] * 3
    numbers = [int(rows[job]["record"].split("-")[1]) for job in marked]
    assert numbers == sorted(numbers)


def test_tied_jobs_of_one_prediction_still_count_as_known(sluiced, guarded):
    name = known_name()
    jobs = [guarded.submit("-J", name, "-N1", "-n1", "--wrap=sleep 60") for _ in range(2)]
    wait_for(lambda: {c.job_id for c in sluiced.snapshot().corunners()} == set(jobs))
    sluiced.stop(signal.SIGKILL)  # and a new one finds that in the history
    sluiced.start()
    sluiced.wait_for_snapshots(3)
    assert {c.job_id for c in sluiced.snapshot().corunners()} == set(jobs)


def test_a_rejected_submission_stays_without_a_job(sluiced, guarded):
    guarded.run("sbatch", "-J", "rejected", "-p", "none", *HELD, check=False)
    job = guarded.submit("-J", "accepted", *HELD)
    sluiced.wait_until_joined(job)
    rows = {row["name"]: row["job_id"] for row in sluiced.decisions()}
    assert rows == {"accepted": job, "rejected": None}


def test_a_number_that_slurmctld_uses_again_after_a_crash_is_another_job(sluiced, guarded):
    state = guarded.directory / "state"
    guarded.restart_controller()  # saves its state
    saved = shutil.copytree(state, sluiced.files.directory / "state")
    sluiced.files.wait_until_loaded("bundle")
    old = guarded.submit("-J", "before", *HELD)
    sluiced.wait_until_joined(old)
    guarded.kill_controller()
    shutil.copytree(saved, state, dirs_exist_ok=True)  # as if the job had not been saved yet
    shutil.rmtree(saved)
    guarded.start_controller()
    sluiced.files.wait_until_loaded("bundle")
    new = guarded.submit("-J", "after", *HELD)
    assert new == old
    both = {"before": old, "after": new}
    wait_for(lambda: {row["name"]: row["job_id"] for row in sluiced.decisions()} == both)


# What may happen to it


def test_killed_at_any_time_it_loses_and_doubles_nothing(sluiced, guarded):
    before = made(sluiced.files)
    submitter = subprocess.Popen(
        [sys.executable, "-c", SUBMIT, "100"],
        env=guarded.client_environment(),
        cwd=guarded.directory,
    )
    while submitter.poll() is None:
        time.sleep(random.uniform(0.1, 0.8))  # now and then in the middle of a round
        sluiced.stop(signal.SIGKILL)
        sluiced.start()
    wait_for(lambda: len(sluiced.decisions()) == made(sluiced.files) - before == 100)
    numbers = sorted(int(row["record"].split("-")[1]) for row in sluiced.decisions())
    assert numbers == list(range(before + 1, before + 101))
    assert sluiced.files.stats()["ring"]["dropped"] == 0
    sluiced.wait_until_joined(*(job for job, _ in queue(guarded)))
    assert {job: row["name"] for job, row in sluiced.joined().items()} == dict(queue(guarded))


SUBMIT = """
import subprocess, sys
for i in range(int(sys.argv[1])):
    subprocess.run(["sbatch", "-J", f"job{i}", "--hold", "--output=/dev/null", "--wrap=true"],
                   check=True, stdout=subprocess.DEVNULL)
"""


def queue(slurm: PrivateSlurm) -> list[tuple[int, str]]:
    lines = slurm.run("squeue", "-h", "-o", "%A %j").stdout.splitlines()
    return [(int(line.split()[0]), line.split()[1]) for line in lines]


def test_a_hung_one_takes_everything_up_when_it_wakes(sluiced, guarded):
    sluiced.process.send_signal(signal.SIGSTOP)
    jobs = [guarded.submit("-J", f"hung{i}", *HELD) for i in range(5)]
    sluiced.process.send_signal(signal.SIGCONT)
    sluiced.wait_until_joined(*jobs)
    assert len(sluiced.decisions()) == 5


def test_it_outlives_slurmctld_and_says_so_once(sluiced, guarded):
    first = guarded.submit("-J", "first", *HELD)
    sluiced.wait_until_joined(first)
    guarded.stop_controller()
    wait_for(lambda: "controller: " in sluiced.log.read_text())
    sequence = sluiced.sequence()
    time.sleep(0.5)
    assert sluiced.sequence() == sequence  # nobody vouches for what it does not see
    guarded.start_controller()
    sluiced.files.wait_until_loaded("bundle")
    second = guarded.submit("-J", "second", *HELD)
    sluiced.wait_until_joined(first, second)
    assert sluiced.log.read_text().count("WARNING: controller: ") <= 2
    assert "controller: works again" in sluiced.log.read_text()


def feed_of(sluiced: Sluiced) -> int:
    """Pid of the sluice-feed that it asks."""
    children = Path(f"/proc/{sluiced.process.pid}/task/{sluiced.process.pid}/children")
    (pid,) = [
        int(pid)
        for pid in children.read_text().split()
        if Path(f"/proc/{pid}/comm").read_text() == "sluice-feed\n"
    ]
    return pid


@pytest.mark.parametrize(
    "number",
    [signal.SIGKILL, pytest.param(signal.SIGSTOP, marks=pytest.mark.acceptance)],
)
def test_it_outlives_what_reads_the_queue(sluiced, guarded, number):
    first = guarded.submit("-J", "before", *HELD)
    sluiced.wait_until_joined(first)
    feed = wait_for(lambda: feed_of(sluiced))
    os.kill(feed, number)
    second = guarded.submit("-J", "behind", *HELD)
    sluiced.wait_until_joined(first, second)
    assert feed_of(sluiced) != feed
    assert len(sluiced.decisions()) == 2


@contextmanager
def full_disk(path: Path) -> Iterator[Path]:
    """A small file system; who enters finds room, fill() takes it."""
    path.mkdir(exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2M", "tmpfs", path], check=True)
    try:
        yield path
    finally:
        subprocess.run(["umount", "--lazy", path], check=True)
        path.rmdir()


def fill(path: Path) -> Path:
    """Take all room, to the last page."""
    filler = path / "filler"
    handle = os.open(filler, os.O_WRONLY | os.O_CREAT)
    with suppress(OSError):
        while True:
            os.write(handle, bytes(4096))
    os.close(handle)
    return filler


@needs_root
def test_with_a_full_disk_the_plugin_keeps_the_records(sluiced, guarded):
    with full_disk(sluiced.files.directory / "disk") as disk:
        configure(sluiced.files, History=str(disk / "history.db"))
        sluiced.history = disk / "history.db"
        wait_for(sluiced.history.exists)  # a poll with the old settings would join it elsewhere
        first = guarded.submit("-J", "filled", *HELD)
        sluiced.wait_until_joined(first)
        filler = fill(disk)
        before = made(sluiced.files)
        jobs = [guarded.submit("-J", f"more{i}", *HELD) for i in range(5)]
        wait_for(lambda: "the disk is full" in sluiced.log.read_text())
        sluiced.wait_for_snapshots()  # the plugin still knows who runs
        assert sluiced.files.stats()["ring"]["used"] >= 5
        filler.unlink()
        sluiced.wait_until_joined(*jobs)
        assert len(sluiced.decisions()) == 6
        assert made(sluiced.files) == before + 5
        assert sluiced.log.read_text().count("the disk is full") <= 3
        sluiced.stop()


def test_with_a_locked_history_the_snapshot_stays_fresh(sluiced, guarded):
    first = guarded.submit("-J", "free", *HELD)
    sluiced.wait_until_joined(first)
    with closing(sqlite3.connect(sluiced.history)) as db:
        db.execute("BEGIN IMMEDIATE")
        job = guarded.submit("-J", "locked", *HELD)
        wait_for(lambda: "has been writing" in sluiced.log.read_text())
        sluiced.wait_for_snapshots()
        assert job not in sluiced.joined()
        db.rollback()
    sluiced.wait_until_joined(job)


def test_a_history_that_is_deleted_is_begun_anew(sluiced, guarded):
    sluiced.wait_until_joined(guarded.submit("-J", "before", *HELD))
    sluiced.history.unlink()
    sluiced.wait_for_snapshots()
    sluiced.wait_until_joined(guarded.submit("-J", "after", *HELD))
    assert len(sluiced.decisions()) == 1
    assert sluiced.log.read_text().count("was moved away or replaced") == 1


# Publishes a snapshot of a quiet cluster.
PUBLISH = """
import pathlib, sys
from sluice.slurm.gates.snapshot import Settings
from sluice.slurm.gates.snapshot import Publisher
Publisher(pathlib.Path(sys.argv[1])).publish(
    [], lambda _: None, lambda _: None, Settings(), pending=0, holders=b"", lanes={},
    lane_speeds={}, is_off=False, now=1_600_000_000
)
"""


@needs_root
def test_a_snapshot_that_another_user_left_is_replaced(tmp_path):
    """The kernel does not let a user link to it, as sluiced would to keep the one before."""
    tmp_path.chmod(0o777)
    path = tmp_path / "cluster.snapshot"
    path.write_bytes(made_model.snapshot())
    bound = "-dac_override,-dac_read_search,-fowner"
    os.chown(path, 65534, 65534)
    done = subprocess.run(
        ["setpriv", f"--inh-caps={bound}", f"--bounding-set={bound}", sys.executable, "-c",
         PUBLISH, path],
        capture_output=True,
        text=True,
        check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert path.stat().st_uid == 0


def test_only_one_follows_a_cluster(sluiced):
    second = subprocess.run(
        [BIN / "sluiced", "--config", sluiced.files.config],
        env=sluiced.slurm.client_environment(),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert second.returncode == 1
    assert "another sluiced holds" in second.stderr


def test_a_command_that_asks_whether_it_runs_does_not_keep_it_from_starting(tmp_path, monkeypatch):
    with (tmp_path / "snapshot.lock").open("w") as asking:
        fcntl.flock(asking, fcntl.LOCK_SH)
        monkeypatch.setattr(time, "sleep", lambda _: fcntl.flock(asking, fcntl.LOCK_UN))
        with SnapshotLock() as held:
            held.move(tmp_path / "snapshot")
            with pytest.raises(BlockingIOError):  # until it ends, nobody else has it
                fcntl.flock(asking, fcntl.LOCK_SH | fcntl.LOCK_NB)


def test_the_lock_follows_the_configuration(sluiced):
    """Or a second one could write the snapshot, and the doctor would say that none was started."""
    before, after = sluiced.files.snapshot, sluiced.files.directory / "moved.snapshot"
    configure(sluiced.files, Snapshot=str(after))
    wait_for(lambda: after.exists() and not is_locked(before))
    assert is_locked(after)
    assert diagnose(sluiced)["sluiced"] == "OK"


def test_another_ones_snapshot_is_never_taken_over(sluiced):
    taken = sluiced.files.directory / "taken.snapshot"
    with SnapshotLock() as others:
        others.move(taken)
        configure(sluiced.files, Snapshot=str(taken))
        wait_for(lambda: "another sluiced holds" in sluiced.log.read_text())
        assert is_locked(sluiced.files.snapshot)  # the last good configuration is in force
    wait_for(taken.exists)


def test_it_leaves_at_once_and_cleanly(sluiced):
    assert sluiced.stop() == 0
    assert "Traceback" not in sluiced.log.read_text()
    again = sluiced.start("--once")
    assert again.process.wait(PATIENCE) == 0


def test_a_wrong_configuration_leaves_the_last_good_one_in_force(sluiced, guarded):
    install(sluiced.files.config, b"Bundel=/x\n")
    wait_for(lambda: "Bundel" in sluiced.log.read_text())
    sluiced.wait_for_snapshots(5)
    assert sluiced.log.read_text().count("Bundel") == 1
    configure(sluiced.files, FollowInterval=150)
    wait_for(lambda: "again" in sluiced.log.read_text())
    sluiced.files.wait_for(lambda seen: not seen["config"]["error"])
    job = guarded.submit("-J", "later", *HELD)
    sluiced.wait_until_joined(job)


def test_without_a_configuration_it_does_not_start(tmp_path):
    done = subprocess.run(
        [BIN / "sluiced", "--config", tmp_path / "none.conf"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "none.conf" in done.stderr


# The doctor


def test_the_doctor_finds_a_healthy_site_healthy(sluiced, guarded):
    guarded.submit("-J", known_name(), *HELD)
    findings = sluiced.sluice("doctor")["findings"]
    assert {finding["level"] for finding in findings} <= {"OK"}, findings
    topics = {finding["topic"] for finding in findings}
    assert {"configuration", "bundle", "snapshot", "plugin", "sluiced", "version"} <= topics


def diagnose(sluiced: Sluiced) -> dict[str, str]:
    return {finding["topic"]: finding["level"] for finding in sluiced.findings()}


def test_the_doctor_names_what_is_wrong(sluiced):
    sluiced.files.off_file.touch()
    install(sluiced.files.bundle, b"not a bundle")
    sluiced.files.wait_for(lambda seen: bool(seen["bundle"]["error"]))
    sluiced.stop()
    install(sluiced.files.snapshot, made_model.snapshot(age=3600))
    levels = diagnose(sluiced)
    assert levels["switch"] == "WARN"
    assert levels["bundle"] == "FAIL"
    assert levels["plugin's bundle"] == "WARN"  # the good one is still in memory
    assert levels["sluiced"] == "FAIL"
    assert levels["snapshot"] == "FAIL"
    assert levels["configuration"] == "OK"


def test_the_preflight_compares_plugin_and_slurmctld(sluiced, plugin_directory, tmp_path):
    plugin = plugin_directory / "job_submit_sluice.so"
    [finding] = sluiced.sluice("doctor", "--preflight")["findings"]
    assert finding["level"] == "OK"
    assert str(plugin) in finding["text"]

    major, minor, micro = map(int, plugin_client.built_for(plugin).split("."))
    its_own, next_one = (bytes((number, minor, major, 0)) for number in (micro, micro + 1))
    other = tmp_path / "other.so"
    other.write_bytes(plugin.read_bytes().replace(its_own, next_one))
    done = subprocess.run(
        [BIN / "sluice", "doctor", "--preflight", "--plugin", other],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert f"was built for Slurm {major}.{minor:02d}.{micro + 1}" in done.stdout
