"""Which writes are held, for how long, and which never are."""

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from turns_page import Holding, TurnsPage

PATIENCE = 60
"""Seconds after which what a test waits for does not happen."""


def wait_for_hold(page: TurnsPage, threads: int = 1) -> None:
    deadline = time.monotonic() + PATIENCE
    while sum(slot.waiting for slot in page.slots()) < threads:
        assert time.monotonic() < deadline, "nobody is held"
        time.sleep(0.01)


def quiet(page: TurnsPage, *command: str | Path, **options) -> subprocess.Popen[bytes]:
    return page.start(*command, stdout=subprocess.DEVNULL, **options)


def test_a_hold_lasts_as_long_as_it_is_renewed_and_then_goes(page, kinds, tmp_path):
    with Holding(page):
        job = quiet(page, kinds, "write", tmp_path / "file")
        wait_for_hold(page)
        time.sleep(1)  # two leases
        assert job.poll() is None
        assert (tmp_path / "file").stat().st_size == 0
    assert job.wait(PATIENCE) == 0
    assert page.sum("bytes") == 100 << 10


def test_a_word_that_nobody_renews_lapses(page, kinds, tmp_path):
    page.hold(0.5)
    assert quiet(page, kinds, "write", tmp_path / "file").wait(PATIENCE) == 0
    assert page.sum("holds") == 1


def test_a_word_further_ahead_than_two_seconds_does_not_count(page, kinds, tmp_path):
    page.hold(3600)
    assert quiet(page, kinds, "write", tmp_path / "file").wait(PATIENCE) == 0
    assert page.sum("holds") == 0


def test_between_two_writes_a_program_is_held_too(page, kinds, tmp_path):
    job = quiet(page, kinds, "handler", tmp_path / "file")  # writes for a second
    while page.sum("bytes") == 0:
        assert job.poll() is None
    with Holding(page):
        wait_for_hold(page)
    assert job.wait(PATIENCE) == 0


def test_a_trickle_writes_at_its_rate(page, kinds, tmp_path):
    """Each write of 1 KiB counts as 4 KiB; so 100 of them wait 99 times, or nearly."""
    with Holding(page, rate=4_000_000):
        assert quiet(page, kinds, "write", tmp_path / "file").wait(PATIENCE) == 0
    assert 50 <= page.sum("holds") <= 99


def test_each_thread_and_each_child_is_held_by_itself(page, kinds, tmp_path):
    with Holding(page):
        job = quiet(page, kinds, "threads", tmp_path / "file")
        wait_for_hold(page, 4)
        assert len(list(page.slots())) == 1
    assert job.wait(PATIENCE) == 0
    with Holding(page):
        job = quiet(page, kinds, "fork", tmp_path / "file")
        wait_for_hold(page, 5)
        assert len({slot.pid for slot in page.slots()}) == 5
    assert job.wait(PATIENCE) == 0


@pytest.mark.parametrize("kind", ["flock", "fcntl", "ofd", "lockf", "inherited"])
def test_a_program_with_a_file_lock_is_not_held(page, kinds, tmp_path, kind):
    with Holding(page):
        assert quiet(page, kinds, kind, tmp_path / "file").wait(PATIENCE) == 0
    assert (page.sum("holds"), page.sum("exempt_lock")) == (0, 1)


def test_a_program_that_released_its_locks_is_held_again(page, tmp_path):
    script = """
import fcntl, os, sqlite3, sys
place = sys.argv[1]
fd = os.open(place + '/lock', os.O_CREAT | os.O_RDWR)
fcntl.flock(fd, fcntl.LOCK_SH); fcntl.flock(fd, fcntl.LOCK_UN)
fcntl.lockf(fd, fcntl.LOCK_EX, 10); fcntl.lockf(fd, fcntl.LOCK_EX, 10, 50)
fcntl.lockf(fd, fcntl.LOCK_UN)
fcntl.flock(fd, fcntl.LOCK_EX); os.close(fd)
base = sqlite3.connect(place + '/db'); base.execute('create table t(a)'); base.commit()
print(flush=True); sys.stdin.readline()
os.write(os.open(place + '/file', os.O_CREAT | os.O_WRONLY), b'x')
"""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    job = page.start("python3", "-c", script, tmp_path, **pipes)
    job.stdout.readline()
    page.hold(1)
    job.communicate(b"\n", PATIENCE)
    assert job.returncode == 0
    assert page.sum("holds") == 1


def test_a_job_of_which_another_process_has_a_lock_is_not_held(page, kinds, tmp_path):
    """As a shell that took the lock for the programs that it starts."""
    script = 'exec 9> "$1/lock"; flock 9; "$2" write "$1/file"; echo done'
    with Holding(page):
        job = page.start("sh", "-c", script, "sh", tmp_path, kinds, stdout=subprocess.PIPE)
        assert job.communicate(timeout=PATIENCE)[0].endswith(b"done\n")
    assert page.sum("holds") == 0


def test_a_held_transaction_does_not_make_another_jobs_fail(page, tmp_path):
    script = """
import sqlite3, sys
base = sqlite3.connect(sys.argv[1], isolation_level=None)
base.execute('create table t(a)'); base.execute('begin immediate')
print(flush=True); sys.stdin.readline()
base.execute('insert into t values (1)'); base.execute('commit')
"""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    job = page.start("python3", "-c", script, tmp_path / "db", **pipes)
    job.stdout.readline()
    other = "import sqlite3, sys; sqlite3.connect(sys.argv[1], timeout=0.5).execute('select 1')"
    with Holding(page):
        assert (
            subprocess.run(["python3", "-c", other, tmp_path / "db"], check=False).returncode == 0
        )
        job.communicate(b"\n", PATIENCE)
        assert job.returncode == 0
    assert page.sum("holds") == 0


def test_a_program_told_to_end_while_held_is_not_held_again(page, kinds, tmp_path):
    with Holding(page):
        job = page.start(kinds, "term", tmp_path / "file", stdout=subprocess.PIPE)
        wait_for_hold(page)
        job.send_signal(signal.SIGTERM)
        output, _ = job.communicate(timeout=PATIENCE)
    assert job.returncode == 0
    assert output.splitlines()[-1] == b"write 2048 "
    assert page.sum("exempt_signal") == 1


def test_a_handler_that_writes_while_its_program_is_held_does_not_wait(page, kinds, tmp_path):
    with Holding(page):
        job = page.start(kinds, "interrupted", tmp_path / "file", stdout=subprocess.PIPE)
        wait_for_hold(page)
        assert job.stdout.readline() == b"handled\n"
    assert job.wait(PATIENCE) == 0
    assert page.sum("exempt_nested") == 1


def test_a_stopped_program_goes_on_where_it_was(page, kinds, tmp_path):
    with Holding(page):
        job = quiet(page, kinds, "write", tmp_path / "file")
        wait_for_hold(page)
        job.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, job.pid, os.WSTOPPED | os.WNOWAIT)
    job.send_signal(signal.SIGCONT)
    assert job.wait(PATIENCE) == 0
    assert page.sum("bytes") == 100 << 10


def test_a_descriptor_that_became_a_pipe_unseen_is_not_held(page, kinds, tmp_path):
    """Only its first write, which was to the file."""
    page.hold(0.3)
    assert quiet(page, kinds, "reused", tmp_path / "file").wait(PATIENCE) == 0
    assert page.sum("holds") == 1


@pytest.mark.parametrize("kind", ["alarm", "timer", "timer_at", "timer_thread"])
def test_a_program_that_has_set_an_alarm_is_not_held(page, kinds, tmp_path, kind):
    """It ends within a second, and not by the alarm."""
    with Holding(page):
        assert quiet(page, kinds, kind, tmp_path / "file").wait(PATIENCE) == 0
    assert (page.sum("holds"), page.sum("exempt_timer")) == (0, 10)


def test_an_alarm_that_is_set_during_a_hold_ends_it(page, kinds, tmp_path):
    with Holding(page):
        assert quiet(page, kinds, "watched_later", tmp_path / "file").wait(PATIENCE) == 0
    assert page.sum("holds") >= 1


def test_an_alarm_of_its_parent_does_not_spare_a_child(page, kinds, tmp_path):
    with Holding(page):
        job = quiet(page, kinds, "unwatched_child", tmp_path / "file")
        wait_for_hold(page)
    assert job.wait(PATIENCE) == 0


def test_no_call_waits_for_longer_than_the_words_allow(page, kinds, tmp_path):
    """Then the program writes for a second, and may be held again."""
    page.words.longest_ms = 300
    with Holding(page):
        job = quiet(page, kinds, "handler", tmp_path / "file")  # writes for a second
        wait_for_hold(page)
        while page.sum("bytes") == 0:
            assert job.poll() is None
            time.sleep(0.01)
        assert job.wait(PATIENCE) == 0
    assert page.sum("held_ns") >= 3e8
    assert page.sum("exempt_signal") == 0


def test_a_wait_at_a_rate_is_bounded_as_well(page, kinds, tmp_path):
    """At 1 B/s the second write would wait for an hour."""
    page.words.longest_ms = 300
    with Holding(page, rate=1):
        assert quiet(page, kinds, "write", tmp_path / "file").wait(PATIENCE) == 0
    assert page.sum("bytes") == 100 << 10
