"""sluice-feed tells of a real controller what Slurm's own commands tell of it."""

import os
import pwd
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from compile_c import make
from private_slurm import PrivateSlurm
from sluiced import PATIENCE, wait_for

from sluice.slurm.queue import Queue, queued_job
from sluice.slurm.records import LicenseChange, QueuedJob, Room

pytestmark = pytest.mark.slurm

HELD = ("--hold", "--wrap=true")
NAMES = (
    "plain",
    "two words",
    "li\nne\r\nends",
    "\x1f\x1e,|;\x01\x7f",
    "12 RUNNING\x1f13",
    "ä€\u2028",
)
SEPARATOR = "\x1f"


@pytest.fixture(scope="module")
def slurm(lab_directory: Path) -> Iterator[PrivateSlurm]:
    make("slurm-plugin/controller/feed")
    with PrivateSlurm(
        lab_directory / "feed",
        nodes=3,
        settings={"Licenses": "tool:4,sl0_stream:1000"},
        partitions={
            "main": "Default=YES MaxTime=60",
            "shared": "OverSubscribe=YES:4",
            "whole": "OverSubscribe=EXCLUSIVE",
        },
    ) as slurm:
        yield slurm


@pytest.fixture
def seen(slurm: PrivateSlurm, monkeypatch: pytest.MonkeyPatch) -> Iterator[Queue]:
    """The queue of an empty cluster."""
    for name, value in slurm.client_environment().items():
        monkeypatch.setenv(name, value)
    slurm.run("scancel", "--user", pwd.getpwuid(os.geteuid()).pw_name)
    with Queue() as seen:
        wait_for(lambda: seen.poll(with_room=True) and not current(seen))
        wait_for(lambda: seen.poll(with_room=True) and seen.room["main"].cpus == 12)
        yield seen


def current(seen: Queue) -> list[QueuedJob]:
    return [job for job in seen.jobs.values() if not job.has_ended]


def test_only_what_changed_is_told(slurm, seen):
    job = slurm.submit("-J", "first", *HELD)
    assert [(one.job_id, one.name) for one in seen.poll().changed] == [(job, "first")]
    assert seen.poll().changed == []
    other = slurm.submit("-J", "second", *HELD)
    slurm.run("scontrol", "update", f"jobid={job}", "licenses=tool:2")
    assert {one.job_id for one in seen.poll().changed} == {job, other}
    assert seen.jobs[job].licenses == "tool:2"


def test_whatever_users_write_stays_in_its_field(slurm, seen):
    """F8: an account with the byte that once ended a field."""
    jobs = {
        slurm.submit("-J", name, "-A", name, f"--comment={name}", "-L", "tool:2", *HELD): name
        for name in NAMES
    }
    seen.poll()
    for job_id, name in jobs.items():
        job = seen.jobs[job_id]
        assert (job.name, job.licenses, seen.reasons[job_id]) == (name, "tool:2", "JobHeldUser")
        assert (job.account or "").lower() == name.lower()
        assert (job.state, job.uid, job.partition) == ("PENDING", os.geteuid(), "main")


def test_any_byte_may_stand_in_a_name(slurm, seen):
    name = bytes(range(1, 256))
    done = subprocess.run(
        [b"sbatch", b"--parsable", b"-o/dev/null", b"-L", b"tool", b"-J", name, b"--hold",
         b"--wrap=true"],
        env=slurm.client_environment(),
        cwd=slurm.directory,
        capture_output=True,
        check=True,
    )  # fmt: skip
    seen.poll()
    job = seen.jobs[int(done.stdout)]
    assert os.fsencode(job.name) == name
    assert job.licenses == "tool"


def test_it_tells_what_squeue_tells(slurm, seen):
    slurm.submit("-J", "runs", "-N2", "-n4", "-t5", "-L", "tool:2", "--wrap=sleep 60")
    slurm.submit("-J", "array", "--array=1-9:2%1", *HELD)
    slurm.submit(
        "-J", "later", "--begin=now+1hour", "-t", "2-00:00:00", "-p", "shared", "--wrap=true"
    )
    slurm.submit("-J", "fails", "--wrap=exit 3")
    slurm.submit("-J", "dies", "--wrap=kill -9 $$")
    slurm.submit("-J", "wants", "-N3", "--exclusive", "--wrap=true")
    fields = ("JobID", "State", "Reason", "NumNodes", "NumTasks", "UserID", "Partition", "Name")
    form = ",".join(f"{field}:{SEPARATOR}" for field in fields)
    names = {"runs", "array", "later", "fails", "dies", "wants"}

    def as_squeue_has_it() -> set[tuple[str, ...]]:
        rows = slurm.run(
            "squeue", "-h", "--all", "--states=all", f"--name={','.join(names)}", "-O", form
        ).stdout.splitlines()
        # 24.11 and later add which signal it was
        return {tuple(row.replace(":9(Killed)", "").split(SEPARATOR)[:-1]) for row in rows}

    def as_it_tells() -> set[tuple[str, ...]]:
        seen.poll()
        return {
            tuple(
                map(str, (one.job_id, one.state, seen.reasons[one.job_id], one.nodes, one.tasks,
                          one.uid, one.partition, one.name))
            )
            for one in seen.jobs.values()
            if one.name in names
        }  # fmt: skip

    wait_for(lambda: {"fails", "dies"} <= {one.name for one in seen.jobs.values() if one.has_ended}
             or not seen.poll())  # fmt: skip
    wait_for(lambda: as_it_tells() == as_squeue_has_it())
    ended = {one.name: one.exit_code for one in seen.jobs.values() if one.has_ended}
    assert (ended["fails"], ended["dies"]) == ("3:0", "0:9")


def test_an_array_is_counted_and_its_tasks_are_found(slurm, seen):
    array = slurm.submit("--array=0-400:2", *HELD)
    seen.poll()
    assert seen.jobs[array].tasks_waiting == 201
    told = (seen.jobs[array], "JobHeldUser")
    assert queued_job(str(array)) == queued_job(f"{array}_398") == told
    assert queued_job(f"{array}_399") is None
    assert queued_job("999999") is None


def test_the_marks_on_jobs_come_with_them(slurm, seen):
    job = slurm.submit(*HELD)
    note = "x" * 5000 + " sluice(v=1,rec=b0-22,klass=stream)"
    slurm.run("scontrol", "update", f"jobid={job}", f"admincomment={note}")
    seen.poll()
    assert seen.jobs[job].marks == ((0xB0, 22),)


def test_licences_change_only_of_jobs_that_are_as_they_were_seen(slurm, seen):
    jobs = [slurm.submit("-L", "tool:2,sl0_stream", *HELD) for _ in range(4)]
    done, changed, started, refused = jobs
    seen.poll()
    before = {job: seen.jobs[job] for job in jobs}
    slurm.run("scontrol", "update", f"jobid={changed}", "licenses=tool:1,sl0_stream")
    slurm.run("scontrol", "release", str(started))
    slurm.wait_for_job(started, "COMPLETED")
    said = seen.change(
        [LicenseChange(before[job], "tool:999" if job == refused else "tool:2") for job in jobs]
    )
    assert said == {
        done: "",
        changed: "the job was changed or started meanwhile",
        started: "the job was changed or started meanwhile",
        refused: "Invalid license specification",
    }
    assert {job: slurm.job(job)["Licenses"] for job in (done, changed, refused)} == {
        done: "tool:2",
        changed: "tool:1,sl0_stream",
        refused: "tool:2,sl0_stream",
    }
    slurm.run("scancel", *map(str, jobs))
    assert seen.change([LicenseChange(before[done], "")]) == {
        done: "the job was changed or started meanwhile"
    }


def test_an_array_changes_as_a_whole_whatever_tasks_have_ended(slurm, seen):
    array = slurm.submit("--array=1-4%1", "-L", "tool,sl0_stream", "--wrap=exit 0")
    slurm.wait_for_job(f"{array}_1", "COMPLETED")
    slurm.run("scontrol", "hold", str(array), check=False)  # the first task has ended
    wait_for(lambda: seen.poll() and not [job for job in current(seen) if job.is_running])
    record = seen.jobs[array]
    assert record.is_pending
    assert record.tasks_waiting > 1
    assert seen.change([LicenseChange(record, "tool:3")]) == {array: ""}
    seen.poll()
    after = seen.jobs[array]
    assert (after.licenses, after.tasks_waiting) == ("tool:3", record.tasks_waiting)


def test_licences_and_reservations_of_them_are_told(slurm, seen):
    create = "scontrol create reservation reservationname=sluice_sl0_stream starttime=now"
    options = "duration=5 users=root licenses=sl0_stream:997 flags=license_only,ignore_jobs"
    slurm.run(*create.split(), *options.split())
    try:
        slurm.submit("-L", "sl0_stream:2,tool", "--wrap=sleep 60")
        wait_for(lambda: seen.poll() and seen.licenses["tool"].used == 1)
        token = seen.licenses["sl0_stream"]
        assert (token.total, token.used, token.reserved) == (1000, 2, 997)
        (lease,) = seen.reservations
        assert (lease.name, lease.licenses, lease.nodes) == (
            "sluice_sl0_stream",
            "sl0_stream:997",
            0,
        )
        assert lease.end - lease.start == 300
    finally:
        slurm.run("scontrol", "delete", "reservationname=sluice_sl0_stream")


def test_room_is_what_partitions_could_start(slurm, seen):
    slurm.submit("-N1", "-n3", "-w", "n1", "--wrap=sleep 60")
    slurm.run("scontrol", "update", "nodename=n2", "state=drain", "reason=test")
    try:
        wait_for(lambda: seen.poll(with_room=True) and seen.room["main"].cpus == 5)
        assert seen.room["main"] == Room(2, 5, is_unlimited=False)
        assert seen.room["shared"] == Room(2, 5, is_unlimited=True)
        assert seen.room["whole"] == Room(1, 4, is_unlimited=False)
        slurm.run("scontrol", "update", "partitionname=main", "state=down")
        wait_for(lambda: seen.poll(with_room=True) and seen.room["main"].nodes == 0)
    finally:
        slurm.run("scontrol", "update", "partitionname=main", "state=up")
        slurm.run("scontrol", "update", "nodename=n2", "state=resume")


@pytest.mark.usefixtures("seen")
@pytest.mark.skipif(os.geteuid() != 0, reason="becomes another user")
def test_an_ordinary_user_sees_what_slurm_shows_him(slurm):
    job = slurm.submit("-J", "somebody else's", *HELD)
    script = (
        "import sys; from sluice.slurm.queue import queued_job;"
        "job, reason = queued_job(sys.argv[1]); print(job.name)"
    )
    done = subprocess.run(
        ["setpriv", "--reuid=65534", "--clear-groups", sys.executable, "-c", script, str(job)],
        env=slurm.client_environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    assert done.stdout == "somebody else's\n", done.stderr


def test_a_queue_of_a_controller_that_came_back_is_the_same(slurm, seen):
    job = slurm.submit("-J", "stays", *HELD)
    seen.poll()
    before = seen.jobs[job]
    slurm.restart_controller()

    def is_back() -> bool:
        with suppress(Exception):
            seen.poll()
            return True
        return False

    wait_for(is_back)
    assert seen.jobs[job] == before
    slurm.wait_for_nodes()


def test_one_that_is_stopped_is_replaced(slurm, seen):
    job = slurm.submit("-J", "stays", *HELD)
    seen.poll()
    before = seen.jobs[job]
    stopped = seen._feed._pipes._process  # noqa: SLF001 # whom to stop
    stopped.send_signal(signal.SIGSTOP)
    with pytest.raises(Exception, match="no answer"):
        seen.poll(timeout=0.3)
    assert stopped.returncode == -signal.SIGKILL
    other = slurm.submit("-J", "new", *HELD)
    assert [one.job_id for one in seen.poll().changed] == [other]
    assert seen.jobs[job] is before
