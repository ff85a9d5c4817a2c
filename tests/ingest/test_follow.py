"""`sluice history ingest --follow`: what anybody may have put there counts if it fits a job."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import pytest
from arriving_logs import END, JOB, ME, START
from click.testing import CliRunner
from made_logs import MadeLog
from sacct_stand_in import write_sacct
from test_ingest import NOBODY

from sluice.cli.main import main
from sluice.history_db.store import Store
from sluice.history_db.tables.jobs import ACCOUNTING_DELAY, NO_JOB
from sluice.ingest.ingest import EVERYTHING, UNSETTLED, Summary, Tree, ingest_checked

NOW = float(END + 3600)
OTHER = ME + 1


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path / "history.db", create=True) as store:
        yield store


def a_log(path: Path, **header) -> Path:
    log = MadeLog(**({"uid": ME, "jobid": 7, "start": START, "end": END} | header))
    log.add("POSIX", file=1, rank=0, counters={"OPENS": 1, "BYTES_WRITTEN": 1 << 20})
    return log.write(path)


def look(store: Store, *paths: Path, now: float = NOW) -> Summary:
    return ingest_checked(store, paths, now=now)


def reason(store: Store) -> str:
    (log,) = store.runs.quarantined()
    return log.reason or ""


def test_a_log_that_fits_its_job_is_believed(store, tmp_path):
    store.jobs.upsert_jobs([JOB])
    summary = look(store, a_log(tmp_path / "a.darshan"))
    assert (summary.read, summary.waiting, summary.quarantined) == (1, 0, [])
    assert store.counts().linked == 1


def test_a_job_that_still_runs_may_have_logs_of_its_first_steps(store, tmp_path):
    store.jobs.upsert_jobs([replace(JOB, end=None, state="RUNNING")])
    assert look(store, a_log(tmp_path / "a.darshan")).read == 1


@pytest.mark.parametrize(
    ("header", "words"),
    [
        ({"uid": OTHER}, f"the file is user {ME}'s, the log inside user {OTHER}'s"),
        ({"start": START - 5000}, "it says that it ran from"),
        ({"end": END + 2000}, "it says that it ran from"),
        ({"end": int(NOW) + 1000}, "which is to come"),
    ],
    ids=["user", "before the job", "after the job", "in the future"],
)
def test_a_forged_log_is_named_and_changes_nothing(store, tmp_path, header, words):
    store.jobs.upsert_jobs([JOB])
    before = store.counts()
    summary = look(store, a_log(tmp_path / "a.darshan", **header))
    (failure,) = summary.quarantined
    assert failure.reason.startswith("not believed: ")
    assert words in failure.reason
    assert (store.counts().logs, store.counts().linked) == (before.logs, before.linked)
    assert list(store.runs.runs()) == []


def test_a_log_about_another_users_job_is_refused(store, tmp_path):
    store.jobs.upsert_jobs([replace(JOB, uid=OTHER)])
    (failure,) = look(store, a_log(tmp_path / "a.darshan")).quarantined
    assert failure.reason == f"not believed: job 7 was user {OTHER}'s, the log is user {ME}'s"


@pytest.mark.skipif(ME != 0, reason="needs root to give a file away")
def test_a_file_of_another_user_is_refused(store, tmp_path):
    store.jobs.upsert_jobs([JOB])
    path = a_log(tmp_path / "a.darshan")
    os.chown(path, OTHER, -1)
    (failure,) = look(store, path).quarantined
    assert f"the file is user {OTHER}'s" in failure.reason
    assert look(store, path).known == 1


def test_a_log_waits_for_the_accounting_of_its_job(store, tmp_path):
    path = a_log(tmp_path / "a.darshan")
    assert look(store, path).waiting == 1
    assert reason(store) == "waits for the accounting of job 7"
    assert look(store, path).waiting == 0  # not read again for nothing
    store.jobs.upsert_jobs([JOB])
    assert look(store).read == 1  # although no directory tells of it
    assert store.runs.quarantined() == []
    assert store.counts().linked == 1


def test_a_log_that_no_job_has_vouched_for_in_time_waits_no_longer(store, tmp_path):
    path = a_log(tmp_path / "a.darshan")
    look(store, path)
    later = NOW + ACCOUNTING_DELAY
    look(store, now=later)
    assert reason(store) == NO_JOB
    (failure,) = look(store, a_log(tmp_path / "b.darshan", jobid=8), now=later).quarantined
    assert failure.reason == NO_JOB  # at once: there was time enough
    store.jobs.upsert_jobs([JOB])  # an older archive of the accounting
    assert look(store, now=later).read == 1


def test_a_log_of_no_job_at_all_waits_for_nothing(store, tmp_path):
    """Outside of a job Darshan takes the process id for the job's."""
    path = a_log(tmp_path / "me_a.out_id4711-4711_11-14-80000-1_1.darshan", jobid=4711)
    (failure,) = look(store, path).quarantined
    assert failure.reason.startswith("not believed: it ran outside of a job")


def test_a_refused_copy_is_told_of_once(store, tmp_path):
    store.jobs.upsert_jobs([JOB])
    true = a_log(tmp_path / "true.darshan", end=END + 2000)
    copy = tmp_path / "copy.darshan"
    shutil.copy(true, copy)
    assert len(look(store, true, copy).quarantined) == 2
    assert look(store, true, copy).quarantined == []


def test_a_damaged_copy_is_told_of_once(store, tmp_path):
    for name in ("a.darshan", "b.darshan"):
        (tmp_path / name).write_bytes(b"no log at all")
    paths = tmp_path / "a.darshan", tmp_path / "b.darshan"
    assert len(look(store, *paths).quarantined) == 2
    assert look(store, *paths).quarantined == []


def test_a_log_from_the_future_is_read_again_when_that_is_past_and_not_before(store, tmp_path):
    """Else thousands of them would be read at each look, and keep those of others waiting."""
    store.jobs.upsert_jobs([replace(JOB, end=None, state="RUNNING")])
    look(store, a_log(tmp_path / "a.darshan", end=int(NOW) + 1000))
    assert store.jobs.believable_logs(1, now=NOW) == []
    assert look(store, now=NOW + 2000).read == 1


def test_a_file_may_bear_any_time(store, tmp_path):
    """Its owner sets it: later than 2262 overflows a column of nanoseconds."""
    store.jobs.upsert_jobs([JOB])
    path = a_log(tmp_path / "a.darshan")
    for time_of_file in (10_000_000_000, 0):
        os.utime(path, (time_of_file, time_of_file))
        assert look(store, path).quarantined == []
    assert store.counts().logs == 1


def test_accounting_without_users_proves_nothing(store, tmp_path):
    store.jobs.upsert_jobs([replace(JOB, uid=None)])
    assert look(store, a_log(tmp_path / "a.darshan")).waiting == 1
    assert "with the field UID" in reason(store)


def test_a_log_that_waits_and_goes_away_is_given_up(store, tmp_path):
    path = a_log(tmp_path / "a.darshan")
    look(store, path)
    path.unlink()
    store.jobs.upsert_jobs([JOB])
    look(store)
    assert "No such file" in reason(store)
    assert look(store).quarantined == []


def test_a_copy_that_was_refused_does_not_keep_the_true_log_out(store, tmp_path):
    true = a_log(tmp_path / "true.darshan")
    copy = tmp_path / "copy.darshan"
    shutil.copy(true, copy)
    look(store, copy)
    store.jobs.upsert_jobs([JOB])
    copy.unlink()
    assert look(store, true).read == 1
    assert store.counts().logs == 1


def test_what_was_not_believed_is_read_when_somebody_names_it_by_hand(store, tmp_path):
    path = a_log(tmp_path / "a.darshan")
    look(store, path)
    arguments = ["history", "ingest", "--history", str(store.path), str(path)]
    result = CliRunner().invoke(main, arguments)
    assert result.stdout.splitlines()[-1] == (
        "read 1, skipped 0 (already known), quarantined 0; path given explicitly; log ownership "
        "not checked"
    )


# Directories


def settled(path: Path, ago: float = 100.0) -> None:
    os.utime(path, (NOW - ago, NOW - ago))


def test_directories_are_listed_when_they_change(tmp_path):
    day = tmp_path / "2026" / "11" / "21"
    day.mkdir(parents=True)
    (day / "a.darshan").touch()
    (day / "b.darshan_partial").touch()
    for path in (day, *list(day.parents)[:3]):
        settled(path)
    tree = Tree([tmp_path])
    assert list(tree.files(NOW)) == [day / "a.darshan"]
    assert list(tree.files(NOW + 60)) == []
    (day / "b.darshan_partial").rename(day / "b.darshan")
    settled(day, 0)
    assert list(tree.files(NOW + 61)) == [day / "a.darshan", day / "b.darshan"]
    new = tmp_path / "2026" / "11" / "22"
    new.mkdir()
    (new / "c.darshan").touch()
    assert new / "c.darshan" in list(tree.files(NOW + 200))


def test_what_changes_within_a_coarse_clock_is_not_missed(tmp_path):
    tree = Tree([tmp_path])
    settled(tmp_path, 1)
    assert list(tree.files(NOW)) == []
    (tmp_path / "a.darshan").touch()
    settled(tmp_path, 1)  # the same time as before
    assert list(tree.files(NOW + UNSETTLED)) == [tmp_path / "a.darshan"]


def test_everything_is_listed_once_in_a_while(tmp_path):
    (tmp_path / "a.darshan").touch()
    settled(tmp_path)
    tree = Tree([tmp_path])
    assert list(tree.files(NOW)) == list(tree.files(NOW + EVERYTHING + 1))


def test_links_are_not_followed(tmp_path):
    """Who puts one there would vouch for a file that its owner never put there."""
    (tmp_path / "elsewhere" / "below").mkdir(parents=True)
    true = tmp_path / "elsewhere" / "below" / "a.darshan"
    true.touch()
    logs = tmp_path / "logs"
    logs.mkdir()
    (logs / "a.darshan").symlink_to(true)
    (logs / "below").symlink_to(true.parent)
    assert list(Tree([logs]).files(NOW)) == []


def test_a_directory_that_is_gone_is_named_and_the_rest_is_read(tmp_path):
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "a.darshan").touch()
    tree = Tree([tmp_path / "gone", tmp_path / "here"])
    assert list(tree.files(NOW)) == [tmp_path / "here" / "a.darshan"]
    assert tree.unlisted == {tmp_path / "gone": "No such file or directory"}


# The command


@pytest.fixture
def site(tmp_path, monkeypatch):
    """A log directory, and a stand-in of sacct that tells of job 7 once `tell` was called."""
    logs, tools, said = tmp_path / "logs", tmp_path / "bin", tmp_path / "said"
    logs.mkdir()
    tools.mkdir()
    fields = ("JobIDRaw", "Cluster", "JobName", "User", "UID", "Start", "End", "State", "NNodes")
    said.write_text("|".join(fields) + "\n")
    write_sacct(tools, said)
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    monkeypatch.setenv("SLUICE_HISTORY", str(tmp_path / "h.db"))

    def tell() -> None:
        with said.open("a") as file:
            file.write(f"7|c|made|me|{ME}|{START - 10}|{END + 10}|COMPLETED|1\n")

    return logs, tell


def test_one_look_for_cron(site):
    logs, tell = site
    a_log(logs / "a.darshan")
    run = ["history", "ingest", "--follow", "--once", str(logs)]
    first = CliRunner().invoke(main, run)
    assert first.exit_code == 0
    assert "quarantined 1" in first.stdout  # it is years old, and the accounting knows no such job
    tell()
    assert "read 1, waiting for their accounting 0" in CliRunner().invoke(main, run).stdout
    assert CliRunner().invoke(main, run).stdout == ""


def test_following_goes_on_until_it_is_told_to_stop(site, tmp_path):
    logs, tell = site
    tell()
    call = "from sluice.cli.main import main; main()"
    command = [
        sys.executable,
        "-c",
        call,
        "history",
        "ingest",
        "--follow",
        "--every",
        "1",
        str(logs),
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        time.sleep(1)
        a_log(tmp_path / "partial").rename(logs / "a.darshan")
        assert process.stdout.readline().startswith("read 1,")
        process.send_signal(signal.SIGTERM)
        assert process.stdout.read() == "stopped\n"
    assert process.returncode == 0


def test_without_sacct_logs_wait_and_the_reason_is_said(site, tmp_path):
    logs, _ = site
    now = int(time.time())
    a_log(logs / "a.darshan", start=now - 200, end=now - 100)
    (tmp_path / "bin" / "sacct").write_text("#!/bin/sh\necho no database >&2\nexit 1\n")
    result = CliRunner().invoke(main, ["history", "ingest", "--follow", "--once", str(logs)])
    assert result.exit_code == 0
    assert "no accounting this time" in result.stderr
    assert "no database" in result.stderr
    assert "waiting for their accounting 1" in result.stdout


@pytest.mark.parametrize("paths", [[], ["a file"]])
def test_only_directories_can_be_followed(tmp_path, paths):
    (tmp_path / "a file").touch()
    history = str(tmp_path / "h.db")
    run = [
        "history",
        "ingest",
        "--history",
        history,
        "--follow",
        *(str(tmp_path / path) for path in paths),
    ]
    result = CliRunner().invoke(main, run)
    assert result.exit_code == 2
    assert "directories" in result.stderr


@pytest.fixture
def open_place():
    """A directory that everybody may enter, as pytest's own are not."""
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        place.chmod(0o755)
        yield place


@pytest.mark.skipif(ME != 0, reason="needs root to become somebody who may only read")
def test_following_needs_no_right_but_to_read(store, tmp_path, open_place):
    """Directory and logs are of others, and open to the reader's group alone."""
    store.jobs.upsert_jobs([replace(JOB, uid=1234)])
    store.close()
    logs, home = open_place / "logs", open_place / "home"
    logs.mkdir()
    path = a_log(logs / "a.darshan", uid=1234)
    home.mkdir()
    shutil.copy(tmp_path / "history.db", home)
    for place, owner, mode in ((path, 1234, 0o440), (logs, 0, 0o750)):
        os.chown(place, owner, NOBODY)
        place.chmod(mode)
    for place in (home, home / "history.db"):
        os.chown(place, NOBODY, NOBODY)

    def follow(history: Path) -> tuple[str, str]:
        words = ("--history", str(history), "--follow", "--once", "--no-ask-sacct", str(logs))
        result = CliRunner().invoke(main, ["history", "ingest", *words])
        return result.stdout, result.stderr

    follow(tmp_path / "history.db")  # imports all that nobody may not from root's interpreter
    stdout, stderr = as_nobody(lambda: follow(home / "history.db"))
    assert stdout.startswith("read 1,")
    assert "root" not in stderr


def as_nobody(function):
    """Return what a function returns in a process of a user without rights."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setresgid(NOBODY, NOBODY, NOBODY)
            os.setresuid(NOBODY, NOBODY, NOBODY)
            os.write(writer, json.dumps(function()).encode())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as file:
        result = json.load(file)
    os.waitpid(child, 0)
    return result
