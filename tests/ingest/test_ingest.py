"""`sluice history ingest` and `sluice profile`: nothing is lost, everything is named."""

import json
import os
import pty
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from made_logs import MadeLog

from sluice.cli.main import main
from sluice.history_db.store import Store
from sluice.history_db.tables.jobs import Jobs

DATA = Path(__file__).parents[1] / "data" / "darshan"
SMALL = DATA / "001_ior_owc_posix_2K_n1_fpp.darshan"
NOBODY = 65534
TRUSTED = "; path given explicitly; log ownership not checked"
CALL = "from sluice.cli.main import main; main()"
OTHER = DATA / "098_pat_ws_posix_64K_n1_fpp_per0.3.darshan"


@pytest.fixture
def history(tmp_path):
    return tmp_path / "history.db"


@pytest.fixture
def sluice(history):
    def run(*arguments, stdin: str | None = None):
        return CliRunner().invoke(
            main,
            [str(argument) for argument in arguments],
            input=stdin,
            env={"SLUICE_HISTORY": str(history), "SLUICE_CONF": None},
        )

    return run


@pytest.fixture
def logs(tmp_path):
    """A directory as a site has it: two good logs and everything else."""
    top = tmp_path / "logs"
    day = top / "2026" / "11" / "21"
    day.mkdir(parents=True)
    shutil.copy(SMALL, day / "good.darshan")
    shutil.copy(OTHER, top / "also good.darshan")
    shutil.copy(SMALL, top / "copy.darshan")
    (day / "empty.darshan").write_bytes(b"")
    (day / "cut.darshan").write_bytes(SMALL.read_bytes()[:900])
    (day / "text.darshan").write_text("not a log\n" * 100)
    (day / "README").write_text("about these logs")
    (day / "running.darshan_partial").write_bytes(b"x")
    (day / "gone.darshan").symlink_to(day / "nowhere")
    os.mkfifo(day / "pipe.darshan")
    return top


def last_line(result) -> str:
    return result.stdout.strip().splitlines()[-1]


def test_a_directory_is_searched_and_everything_in_it_accounted_for(sluice, logs, history):
    result = sluice("history", "ingest", logs)
    assert result.exit_code == 1
    assert last_line(result) == f"read 2, skipped 1 (already known), quarantined 5{TRUSTED}"
    for name, reason in (
        ("empty.darshan", "empty"),
        ("cut.darshan", "damaged"),
        ("text.darshan", "not a Darshan log"),
        ("gone.darshan", "No such file"),
        ("pipe.darshan", "not a regular file"),
    ):
        (line,) = [line for line in result.stderr.splitlines() if name in line]
        assert line.startswith("quarantined ")
        assert reason in line
    assert "2 files in the directories are not named *.darshan" in result.stdout
    with Store(history) as store:
        assert store.counts().logs == 2
        assert len(store.runs.quarantined()) == 5


def test_a_directory_without_a_log_is_an_error(sluice, tmp_path):
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "README").write_text("none yet")
    result = sluice("history", "ingest", tmp_path / "logs")
    assert result.exit_code == 1
    assert f"no log in {tmp_path}/logs" in result.stderr


def test_no_reason_is_a_success(sluice, logs):
    """The library shows errno where nothing set it."""
    (logs / "short.darshan").write_bytes(SMALL.read_bytes()[:300])
    result = sluice("history", "ingest", logs)
    assert "header" in result.stderr
    assert "Success" not in result.stderr


def test_forged_lines_are_named_with_the_command_that_is_safe(sluice):
    text = "JobID|UID|JobName\n9|1666|x\n7|1000|y\n"
    result = sluice("history", "ingest", "--sacct", "-", stdin=text)
    assert result.exit_code == 1
    assert "job 7 comes after job 9" in result.stderr
    assert "--delimiter=" in result.stderr


def test_a_second_run_adds_nothing_and_says_so(sluice, logs, history):
    sluice("history", "ingest", logs)
    with Store(history) as store:
        before = store.counts()
    result = sluice("history", "ingest", logs)
    assert result.exit_code == 0
    assert last_line(result) == f"read 0, skipped 8 (already known), quarantined 0{TRUSTED}"
    assert "5 of the known ones are in quarantine" in result.stdout
    with Store(history) as store:
        assert store.counts() == before


def test_a_quarantined_log_is_read_when_it_has_changed(sluice, logs):
    sluice("history", "ingest", logs)
    shutil.copy(DATA / "116_pat_aw_stdio_1M_n1_fpp.darshan", logs / "2026/11/21/cut.darshan")
    result = sluice("history", "ingest", logs)
    assert last_line(result) == f"read 1, skipped 7 (already known), quarantined 0{TRUSTED}"
    assert "4 of the known ones" in result.stdout


def test_quarantined_logs_are_looked_at_again_when_asked(sluice, logs):
    sluice("history", "ingest", logs)
    result = sluice("history", "ingest", "--retry", logs)
    assert result.exit_code == 1
    assert last_line(result) == f"read 0, skipped 3 (already known), quarantined 5{TRUSTED}"


def test_programs_get_the_same_as_json(sluice, logs):
    result = sluice("history", "ingest", "--json", logs)
    found = json.loads(result.stdout)
    assert (found["read"], found["skipped"], found["other_files"]) == (2, 1, 2)
    assert {Path(item["path"]).name for item in found["quarantined"]} == {
        "empty.darshan",
        "cut.darshan",
        "text.darshan",
        "gone.darshan",
        "pipe.darshan",
    }


def test_quarantine_can_be_listed_later(sluice, logs):
    sluice("history", "ingest", logs)
    result = sluice("history", "--quarantined", "--json")
    assert {Path(item["path"]).name for item in json.loads(result.stdout)["quarantined"]} >= {
        "empty.darshan"
    }


def test_a_file_named_by_hand_is_read_whatever_it_is_called(sluice, tmp_path):
    shutil.copy(SMALL, tmp_path / "run.log")
    assert last_line(sluice("history", "ingest", tmp_path / "run.log")).startswith("read 1,")


def test_a_path_that_does_not_exist_is_a_usage_error(sluice, tmp_path):
    result = sluice("history", "ingest", tmp_path / "nowhere")
    assert result.exit_code == 2
    assert "nowhere" in result.stderr
    assert "does not exist" in result.stderr


def test_nothing_to_read_is_a_usage_error(sluice):
    result = sluice("history", "ingest")
    assert result.exit_code == 2
    assert "--sacct" in result.stderr


def test_names_of_any_bytes_are_kept(sluice, tmp_path):
    directory = tmp_path / "d"
    directory.mkdir()
    shutil.copy(SMALL, directory / os.fsdecode(b"caf\xe9\n[bold].darshan"))
    assert last_line(sluice("history", "ingest", directory)).startswith("read 1,")
    assert last_line(sluice("history", "ingest", directory)).startswith("read 0, skipped 1")


WITHOUT_OVERRIDE = "-dac_override,-dac_read_search"
"""Capabilities without which root reads no more than its owner lets it."""


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to give files to somebody else")
def test_files_and_directories_that_may_not_be_read_are_named(logs, tmp_path):
    secret = logs / "secret.darshan"
    shutil.copy(OTHER, secret)
    closed = logs / "closed"
    closed.mkdir()
    for path, mode in ((secret, 0o600), (closed, 0o700)):
        path.chmod(mode)
        os.chown(path, NOBODY, NOBODY)
    bound = ("setpriv", f"--inh-caps={WITHOUT_OVERRIDE}", f"--bounding-set={WITHOUT_OVERRIDE}")
    words = ("history", "ingest", "--history", tmp_path / "history.db", logs)
    result = subprocess.run(
        [*bound, sys.executable, "-c", CALL, *words],
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 1
    assert f"quarantined {secret}: cannot be read: Permission denied" in result.stderr
    assert f"cannot list {closed}: Permission denied" in result.stderr


def test_an_unreadable_log_is_tried_again_once_it_can_be_read(sluice, logs, history, monkeypatch):
    """Permissions change without touching size or time of a file."""
    path = logs / "also good.darshan"
    with monkeypatch.context() as patch:

        def refuse(path):
            raise PermissionError(13, "Permission denied", str(path))

        patch.setattr("sluice.ingest.workers.measured", refuse)
        patch.setattr("sluice.ingest.workers.digest_file", refuse)
        assert last_line(sluice("history", "ingest", path)).endswith(f"quarantined 1{TRUSTED}")
    assert (
        last_line(sluice("history", "ingest", path))
        == f"read 1, skipped 0 (already known), quarantined 0{TRUSTED}"
    )
    with Store(history) as store:
        assert store.runs.quarantined() == []


def test_a_log_of_65536_processes_is_read(sluice, tmp_path):
    log = MadeLog(nprocs=65_536)
    log.add("POSIX", file=1, rank=-1, counters={"OPENS": 65_536, "BYTES_WRITTEN": 1 << 40})
    assert last_line(sluice("history", "ingest", log.write(tmp_path / "a.darshan"))).startswith(
        "read 1,"
    )


def test_an_interrupted_run_keeps_what_was_read(sluice, history, tmp_path, monkeypatch):
    monkeypatch.setattr("sluice.ingest.ingest.BATCH", 4)
    directory = tmp_path / "d"
    directory.mkdir()
    for path in sorted(DATA.glob("0*.darshan"))[:10]:
        shutil.copy(path, directory)
    calls = []

    def interrupted(self):
        calls.append(self)
        raise KeyboardInterrupt

    monkeypatch.setattr(Jobs, "link_logs", interrupted)
    assert sluice("history", "ingest", directory).exit_code == 1
    assert calls
    with Store(history) as store:
        assert store.counts().logs == 10


def test_a_bar_is_shown_on_a_terminal_only(history):
    def run(stderr: int) -> int:
        return subprocess.run(
            [sys.executable, "-c", CALL, "history", "ingest", str(SMALL)],
            env={**os.environ, "SLUICE_HISTORY": str(history), "TERM": "xterm"},
            stdout=subprocess.DEVNULL,
            stderr=stderr,
            check=True,
        ).returncode

    terminal, end = pty.openpty()
    run(end)
    os.close(end)
    assert b"1/1" in os.read(terminal, 1 << 16)
    os.close(terminal)
    reader, writer = os.pipe()
    run(writer)
    os.close(writer)
    assert os.read(reader, 1 << 16) == b""
    os.close(reader)


# Accounting


def test_accounting_is_joined_with_the_logs_of_its_jobs(sluice, history):
    result = sluice(
        "history", "ingest", DATA, "--sacct", DATA / "sacct-parsable2.txt", "--time-zone", "UTC"
    )
    assert result.exit_code == 0
    assert "147 jobs added" in result.stdout
    with Store(history) as store:
        assert store.counts().linked == 147
        run = next(run for run in store.runs.runs() if run.log.jobid == 500001)
        assert (run.job.name, run.job.account) == ("ior_owc", "bench")


def test_accounting_read_twice_adds_nothing(sluice):
    text = (DATA / "sacct-parsable2.txt").read_text()
    sluice("history", "ingest", "--sacct", "-", stdin=text)
    result = sluice("history", "ingest", "--sacct", "-", stdin=text)
    assert "0 jobs added, 0 completed, 147 already known" in result.stdout


def test_broken_lines_of_accounting_are_named_and_the_rest_is_read(sluice):
    result = sluice("history", "ingest", "--sacct", "-", stdin="JobID|JobName\n7|a\nbroken\n8|b\n")
    assert result.exit_code == 1
    assert ":3: skipped: has 1 fields" in result.stderr
    assert "2 jobs added" in result.stdout
    assert "1 lines skipped" in result.stdout


def test_a_file_that_is_no_accounting_says_what_to_print(sluice):
    result = sluice("history", "ingest", "--sacct", "-", stdin="hello\n")
    assert result.exit_code == 1
    assert "sacct --parsable2" in result.stderr


def test_accounting_that_cannot_be_read_on_is_named(sluice):
    result = sluice("history", "ingest", "--sacct", "/proc/self/mem")
    assert result.exit_code == 1
    assert result.stderr == "sluice: /proc/self/mem: Input/output error\n"


@pytest.mark.parametrize("option", ["--sacct", "--job-stats"])
def test_a_line_without_an_end_fills_no_memory_and_is_named(sluice, option):
    result = sluice("history", "ingest", option, "/dev/zero")
    assert result.exit_code == 1
    assert result.stderr.startswith("sluice: /dev/zero:1: a line of more than 4 MiB; ")


def test_the_wrong_time_zone_is_noticed(sluice):
    heading, line = (DATA / "sacct-parsable2.txt").read_text().splitlines()[:2]
    text = f"{heading}|UID\n{line}|0\n"
    wrong = sluice(
        "history", "ingest", SMALL, "--sacct", "-", "--time-zone", "America/New_York", stdin=text
    )
    assert "-5 h apart" in wrong.stderr
    assert "--time-zone" in wrong.stderr


def test_a_time_zone_that_does_not_exist_is_a_usage_error(sluice):
    assert sluice("history", "ingest", SMALL, "--time-zone", "Mars/Base").exit_code == 2


# sluice profile


def test_profile_needs_no_history(sluice, history):
    result = sluice("profile", "--json", SMALL)
    found = json.loads(result.stdout)
    assert found["pattern"] == "owc"
    assert found["chunk_bytes"] == 2048
    assert found["nprocs"] == 1
    assert 0.5 < found["confidence"] <= 1
    assert found["targets"] is None
    assert not history.exists()


def test_profile_explains_itself_to_people(sluice):
    result = sluice("profile", OTHER)
    assert "ws, confidence" in result.stdout
    assert "writes the same bytes of a file 50.0 times, in place" in result.stdout
    assert "64 KiB" in result.stdout


def test_profile_says_of_reads_what_it_says_of_writes(sluice):
    log = DATA / "139_pat_read_posix_64K_n4_fpp.darshan"
    told = sluice("profile", log).stdout
    assert re.search(r"bytes a read +64 KiB\nread in order +99%\nread from the cache +50%", told)
    found = json.loads(sluice("profile", "--json", log).stdout)
    assert found["read_chunk_bytes"] == 65536
    assert found["read_cached_share"] == 0.5
    unread = json.loads(sluice("profile", "--json", OTHER).stdout)
    assert unread["read_sequential_share"] is None


def test_profile_says_what_its_owner_could_change(sluice):
    log = DATA.parent / "programs/sqlite.darshan"
    told = sluice("profile", log).stdout
    assert "It flushes to disk after every 5,245 bytes. Flush (fsync, O_SYNC) once" in told
    found = json.loads(sluice("profile", "--json", log).stdout)
    assert "flushes" in {remark["kind"] for remark in found["advice"]}


def test_profile_of_several_logs_is_a_list(sluice):
    found = json.loads(sluice("profile", "--json", SMALL, OTHER).stdout)["profiles"]
    assert [item["pattern"] for item in found] == ["owc", "ws"]


def test_profile_of_a_damaged_log_fails_and_says_why(sluice, tmp_path):
    path = tmp_path / "cut.darshan"
    path.write_bytes(SMALL.read_bytes()[:900])
    result = sluice("profile", path)
    assert result.exit_code == 1
    assert str(path) in result.stderr
    assert "damaged" in result.stderr
    assert result.stdout == ""
