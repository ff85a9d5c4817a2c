"""What a real slurmdbd keeps of jobs and sacct prints: by that, records find their jobs late."""

import os
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from accounted_slurm import AccountedSlurm
from plugin_harness import PluginFiles, drain
from sluiced import Sluiced, wait_for

from sluice.history_db.intake import add_accounting
from sluice.history_db.store import Store
from sluice.policies import core
from sluice.policies.bundle import Bundle
from sluice.policies.record import Record
from sluice.slurm.accounting_poll import Follower, join_late
from sluice.slurm.pending_records import HOPE
from sluice.slurm.record_receiver import decision_of
from sluice.slurm.records import ENDED

pytest.importorskip("darshan.backend", reason="there is no wheel for this Python")
from made_logs import MadeLog

pytestmark = [
    pytest.mark.slurm,
    pytest.mark.acceptance,  # a database comes up for it
    pytest.mark.skipif(os.geteuid() != 0, reason="slurmdbd and MariaDB run as root here"),
]

WRITTEN = 64 << 20  # bytes; slurmstepd looks once a second
LINES = (
    ("--job-name=sweep", "--wrap=true a"),
    ("--job-name=sweep", "--wrap=true b | cat; echo 'c|d'"),
    ("--job-name=sweep", "--wrap=true e\n\ntrue f | cat\n"),
    ("--job-name=sweep", "--comment=one|two", "--wrap=true g"),
    ("--job-name=sweep", "--array=1-3%2", "--wrap=true h"),
    ("--job-name=sweep", "--array=7", "--time=2", "--wrap=true i"),
    ("--job-name=söme|näme\nof it", "--wrap=true j"),
    ("--job-name=sweep", f"--wrap=srun sh -c 'head -c {WRITTEN} /dev/zero >written; sleep 3'"),
)
"""Of one user, most of one name, and submitted as fast as can be."""


@pytest.fixture(scope="module")
def slurm(
    lab_directory: Path, plugin_directory: Path, files: PluginFiles
) -> Iterator[AccountedSlurm]:
    files.configure()
    with AccountedSlurm(
        lab_directory / "accounted",
        plugin_dir=plugin_directory,
        settings={"JobSubmitPlugins": "sluice"},
        environment={"SLUICE_CONF": str(files.config)},
    ) as slurm:
        files.wait_for(lambda stats: stats["mode"] == "observe")
        yield slurm


def wait_until_accounted(slurm: AccountedSlurm, job_ids: list[int]) -> None:
    """Wait until sacct lists the ends of these jobs, and of all tasks and steps that it knows."""

    def is_accounted() -> bool:
        rows = slurm.run("sacct", "--noheader", "--parsable2", "--format=JobID,State").stdout
        states = dict(row.split("|") for row in rows.splitlines())
        listed = {name.partition("_")[0] for name in states}
        return {state.split()[0] for state in states.values()} <= ENDED and listed >= {
            str(job_id) for job_id in job_ids
        }

    wait_for(lambda: not slurm.run("squeue", "--noheader", "--format=%i").stdout)
    wait_for(is_accounted)


def test_records_of_a_real_controller_find_their_jobs_by_what_sacct_prints(slurm, files, tmp_path):
    submitted = [slurm.submit(*words) for words in LINES]
    wait_until_accounted(slurm, submitted)
    rows = slurm.run("sacct", "--parsable2", "--allusers", "--format=ALL").stdout
    broken: list[tuple[int, str]] = []
    with Store(tmp_path / "history.db", create=True) as store:
        records = [Record.parse(record) for record in drain(files.socket)]
        store.decisions.insert_decisions([decision_of(record) for record in records])
        summary = add_accounting(
            store,
            rows.splitlines(keepends=True),
            name="sacct",
            zone=None,
            cluster="",
            report=lambda number, reason: broken.append((number, reason)),
            join=partial(join_late, store, now=time.time() + 2 * HOPE),
        )
        found = [store.decisions.decision(*record.key).job_id for record in records]
        jobs = store.jobs.all_jobs()
    assert not broken
    assert (summary.joined, found) == (len(LINES), submitted)
    assert [job.array_job for job in jobs].count(submitted[4]) == 3
    assert [job.array_job for job in jobs].count(submitted[5]) == 1
    writer = next(job for job in jobs if job.job_id == submitted[-1])
    assert writer.write_bytes >= WRITTEN
    assert {job.name for job in jobs} == {"sweep", "söme|näme\nof it"}


FORGED = (
    "|0||\n"
    "4711|4711|lab|cfd|alice|1000|proj|main|normal|1764000000|1764000010|1764003610|COMPLETED|0:0|"
    "64||256|120|sbatch cfd.sh|0||\n"
    "4711.0|4711.0|lab|cfd|||proj|||1764000000|1764000010|1764003610|COMPLETED|0:0|64|256|256||"
    "srun ./cfd|0|fs/disk=1|fs/disk=900000000000000\n"
    "4712|4712|lab|cfd|alice|1000|proj|main|normal|1764000000|1764000010|1764003610|COMPLETED|0:0|"
    "64||256|120|sbatch cfd.sh"
)
"""Rows of another user's jobs, in the order of the fields in which Sluice asked once."""
WRITTEN_BY_USERS = (
    *("comment", "job-name", "wckey", "account", "chdir", "output", "error", "input", "export"),
    *("mail-user", "container", "mcs-label", "extra", "nodelist", "constraint", "licenses", "gres"),
)


def test_no_text_that_users_write_makes_a_job(slurm, tmp_path, monkeypatch):
    """With each option that takes a text: Slurm stores some, and refuses others."""
    submitted = []
    for option in WRITTEN_BY_USERS:
        words = (
            "sbatch",
            "--parsable",
            "--output=/dev/null",
            f"--{option}={FORGED}",
            "--wrap=true",
        )
        done = slurm.run(*words, check=False)
        submitted += [int(done.stdout)] if done.returncode == 0 else []
    for job in submitted:  # those that cannot start
        slurm.run("scontrol", "update", f"jobid={job}", f"comment={FORGED}", check=False)
        slurm.run("scancel", "--state=PENDING", str(job), check=False)
    wait_until_accounted(slurm, submitted)
    for name, value in slurm.client_environment().items():
        monkeypatch.setenv(name, value)
    said: list[str] = []
    follower = Follower((), workers=1, now=time.time(), report=said.append)
    with Store(tmp_path / "history.db", create=True) as store:
        follower.ask_sacct(store, time.time())
        jobs = {job.job_id: job for job in store.jobs.all_jobs()}
    assert len(submitted) > len(WRITTEN_BY_USERS) / 2
    assert jobs.keys() >= set(submitted)
    assert not jobs.keys() & {4711, 4712}
    assert {job.uid for job in jobs.values()} == {os.geteuid()}
    assert any(job.name.startswith(FORGED[1:200]) for job in jobs.values())
    assert sum(FORGED in job.submit_line for job in jobs.values()) == len(submitted)
    assert not said


def test_the_controller_lives_when_users_are_added(slurm: AccountedSlurm) -> None:
    """It died of users without a default QoS, with and without the plugin (22.05.8)."""
    pid = slurm.controller_pid()
    for user in ("nobody", "daemon", "bin"):
        for account in ("one", "two"):
            slurm.add_user(user, account)
    assert slurm.responds()
    assert slurm.controller_pid() == pid


def test_a_job_that_ended_is_known_without_any_command(
    slurm: AccountedSlurm, files: PluginFiles
) -> None:
    """sluiced sees it, sacct accounts for it, its log comes, its sluice-learn publishes."""
    logs = files.directory / "logs"
    logs.mkdir()
    files.configure(DarshanLogs=str(logs), LearnInterval=1)
    sluiced = Sluiced(slurm, files).start()
    try:
        words = ("sbatch", "--parsable", "--output=/dev/null", "-J", "learned", "--wrap=sleep 4")
        job = int(slurm.run(*words).stdout)
        ended = wait_for(lambda: [j for j in sluiced.ended() if j.job_id == job])[0]
        log = MadeLog(uid=os.geteuid(), jobid=job, start=ended.start, end=ended.end)
        counters = {"OPENS": 1, "WRITES": 400, "BYTES_WRITTEN": 400 << 20}
        log.add("POSIX", file=1, rank=0, counters=counters)
        log.write(logs / "log.darshan")

        def is_known() -> bool:
            request = {"uid": os.geteuid(), "name": "learned"}
            if not files.bundle.exists():
                return False
            found = Bundle.read(files.bundle).predict(core.submission_of(request))
            return found.evidence == "user_name" and found.profile.runs == 1

        wait_for(is_known)
        files.wait_until_loaded("bundle")
        assert sluiced.sluice("status")["behind_seconds"] == 0
    finally:
        sluiced.stop()
