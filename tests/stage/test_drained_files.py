"""The ways in which programs write files, and what of that reaches the destination, and when."""

import mmap
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from drainer import Drainer, differences, wait_for


def content(path: Path) -> bytes | None:
    return path.read_bytes() if path.exists() else None


def stays(what: Callable[[], bool]) -> None:
    """This is so now and a while later; a drainer that is wrong is fast enough to show it."""
    for _ in range(30):
        assert what()
        time.sleep(0.01)


def test_a_file_appears_when_it_is_closed_with_its_mode_times_and_attributes(work):
    work.start()
    path, there = work.source / "plain", work.destination / "plain"
    path.write_bytes(b"x" * 3_000_000)
    path.chmod(0o640)
    os.setxattr(path, "user.colour", b"blue")
    os.utime(path, ns=(5, 1_500_000_000_123_456_789))
    wait_for(lambda: there.exists() and differences(work.source, work.destination) == [])
    work.drain()


def test_what_is_open_for_writing_appears_with_its_last_close(work):
    work.start()
    there = work.destination / "log"
    first, second = (work.source / "log").open("wb"), (work.source / "log").open("r+b")
    first.write(b"a" * 4096)
    first.close()
    stays(lambda: not there.exists())
    second.seek(4096)
    second.write(b"b" * 4096)
    second.close()
    wait_for(lambda: content(there) == b"a" * 4096 + b"b" * 4096)
    work.drain()


def test_a_mapped_file_appears_when_it_is_unmapped(work):
    work.start()
    path, there = work.source / "mapped", work.destination / "mapped"
    with path.open("w+b") as file:
        file.truncate(1 << 20)
        mapped = mmap.mmap(file.fileno(), 0)
    mapped[:4] = b"data"
    stays(lambda: not there.exists())
    mapped[100:104] = b"more"
    mapped.close()
    wait_for(lambda: (content(there) or b"")[:104].endswith(b"more"))
    work.drain()


def test_a_writer_never_waits_for_the_copy_of_its_file(work):
    """The copy holds a lease for hours here; without giving it back, the open would block."""
    work.options = ("--settle", "1", "--rate", "1000000")
    path = work.source / "big"
    path.write_bytes(b"x" * (64 << 20))
    work.start()
    wait_for((work.destination / ".sluice-part.big").exists)
    path.open("r+b").close()
    path.unlink()
    assert work.end(signal.SIGINT)[0] == 1


def test_readers_see_the_checkpoint_before_the_link_that_names_it(work):
    work.start()
    latest = work.destination / "latest"
    for number in range(1, 5):
        (work.source / f"ck.{number}").write_bytes(os.urandom(2_000_000))
        (work.source / "latest.new").symlink_to(f"ck.{number}")
        (work.source / "latest.new").replace(work.source / "latest")
        if number > 1:
            (work.source / f"ck.{number - 1}").unlink()
        wait_for(lambda n=number: latest.is_symlink() and latest.readlink() == Path(f"ck.{n}"))
        assert latest.exists()
    work.drain()


def test_checkpoints_that_are_gone_before_their_turn_are_not_copied(work):
    work.options = ("--settle", "100000")
    work.start()
    for number in range(20):
        (work.source / f"ck.{number}").write_bytes(b"x" * 100_000)
        (work.source / f"ck.{number - 1}").unlink(missing_ok=True)
    said = work.drain()
    assert "drained 1 files and 100000 bytes" in said


def test_a_published_file_that_is_renamed_is_not_copied_again(work):
    work.start()
    (work.source / "old").mkdir()
    (work.source / "old" / "big").write_bytes(os.urandom(5_000_000))
    wait_for((work.destination / "old" / "big").exists)
    (work.source / "old").rename(work.source / "new")
    wait_for((work.destination / "new" / "big").exists)
    wait_for(lambda: not (work.destination / "old").exists())
    assert "drained 1 files and 5000000 bytes" in work.drain()


def test_hard_links_stay_links_of_one_file(work):
    work.start()
    (work.source / "h1").write_bytes(b"first")
    wait_for((work.destination / "h1").exists)
    os.link(work.source / "h1", work.source / "h2")
    wait_for((work.destination / "h2").exists)
    (work.source / "h1").write_bytes(b"second")
    wait_for(lambda: content(work.destination / "h2") == b"second")
    work.drain()


def test_a_truncation_by_name_that_tells_no_close_is_seen_in_the_end(work):
    work.start()
    (work.source / "file").write_bytes(b"long content")
    wait_for((work.destination / "file").exists)
    os.truncate(work.source / "file", 4)
    work.drain()


def test_holes_stay_holes(work):
    work.start()
    path = work.source / "sparse"
    with path.open("wb") as file:
        file.seek(60 << 20)
        file.write(b"end")
        file.truncate(100 << 20)
    work.drain()
    assert (work.destination / "sparse").stat().st_blocks * 512 < 10 << 20


def test_a_directory_that_is_made_and_renamed_at_once_is_found(work):
    work.start()
    for number in range(50):
        made = work.source / "tmp"
        made.mkdir()
        (made / "in").write_text(str(number))
        made.rename(work.source / f"ck-{number}")
    wait_for(lambda: content(work.destination / "ck-49" / "in") == b"49")
    work.drain()


def test_more_events_than_the_kernel_keeps_lose_no_file(work):
    work.start()
    wait_for(work.journal.exists)
    work.process.send_signal(signal.SIGSTOP)
    for number in range(17_000):
        (work.source / f"f{number}").write_bytes(b"%d" % number)
    work.process.send_signal(signal.SIGCONT)
    work.drain()


def test_names_of_full_length_and_deep_directories(work):
    work.start()
    (work.source / ("n" * 255)).write_bytes(b"long")
    at = os.open(work.source, os.O_RDONLY)
    for _ in range(60):
        os.mkdir("d" * 100, dir_fd=at)
        at, before = os.open("d" * 100, os.O_RDONLY, dir_fd=at), at
        os.close(before)
    fd = os.open("deep", os.O_WRONLY | os.O_CREAT, dir_fd=at)
    os.write(fd, b"beyond PATH_MAX")
    os.close(fd)
    os.close(at)
    assert work.end()[0] == 0
    words = ("find", ".", "-name", "deep", "-size", "15c")
    found = subprocess.run(words, cwd=work.destination, capture_output=True, text=True, check=True)
    assert found.stdout.count("/") == 61
    for place in (work.source, work.destination):
        subprocess.run(["rm", "-rf", place], check=True)


@pytest.mark.parametrize("kind", ["fifo", "socket"])
def test_what_holds_no_bytes_is_left_out(work, kind):
    work.start()
    if kind == "fifo":
        os.mkfifo(work.source / "special")
    else:
        os.mknod(work.source / "special", 0o140600)
    (work.source / "file").write_bytes(b"x")
    assert work.end()[0] == 0
    assert [path.name for path in work.destination.iterdir()] == ["file"]


def test_a_file_and_a_directory_change_places(work):
    work.start()
    (work.source / "x").write_bytes(b"file")
    (work.source / "y").mkdir()
    (work.source / "y" / "in").write_bytes(b"in")
    wait_for((work.destination / "y" / "in").exists)
    (work.source / "x").rename(work.source / "t")
    (work.source / "y").rename(work.source / "x")
    (work.source / "t").rename(work.source / "y")
    work.drain()


def test_links_in_the_way_lead_nowhere_else(work, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (work.destination / "d").symlink_to(tmp_path / "elsewhere")
    work.start("--patience", "1")
    (work.source / "d").mkdir()
    (work.source / "d" / "file").write_bytes(b"x")
    status, said = work.end()
    assert (status, list((tmp_path / "elsewhere").iterdir())) == (1, [])
    assert "File exists" in said


def test_what_others_put_at_the_destination_is_not_removed(work):
    work.start()
    (work.source / "d").mkdir()
    (work.source / "d" / "mine").write_bytes(b"x")
    wait_for((work.destination / "d" / "mine").exists)
    (work.destination / "d" / "yours").write_bytes(b"y")
    (work.source / "d" / "mine").unlink()
    (work.source / "d").rmdir()
    wait_for(lambda: not (work.destination / "d" / "mine").exists())
    assert work.end()[0] == 0
    assert content(work.destination / "d" / "yours") == b"y"


def test_an_idle_drainer_uses_no_processor(work):
    work.start()
    (work.source / "file").write_bytes(b"x")
    wait_for((work.destination / "file").exists)

    def wakeups() -> str:
        status = Path(f"/proc/{work.process.pid}/status").read_text()
        return status[status.index("voluntary_ctxt_switches") :]

    def rests() -> bool:
        before = wakeups()
        time.sleep(0.3)
        return wakeups() == before

    wait_for(rests)
    before = wakeups()
    time.sleep(2)
    assert wakeups() == before
    work.drain()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be another user")
def test_a_user_without_rights_drains_what_is_read_only(work, tmp_path):
    for place in (tmp_path, work.source, work.destination):
        os.chown(place, 65534, 65534)
    for place in (tmp_path, *list(tmp_path.parents)[:-2]):
        place.chmod(0o755)
    work.words = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
    script = (
        "import os; os.mkdir('d'); open('d/f','w').write('x'); os.setxattr('d/f','user.a',b'b');"
        "os.chmod('d/f',0o444); os.chmod('d',0o555)"
    )
    subprocess.run([*work.words, sys.executable, "-c", script], cwd=work.source, check=True)
    work.start()
    work.drain()
    work.start()
    os.utime(work.source / "d" / "f")
    work.drain()


def test_options_that_cannot_be_meant_are_refused(work):
    work.start("--rate", "0")
    assert work.wait()[0] == 2
    work.journal = work.source / "journal"
    work.start()
    assert "lies in what is drained" in work.wait()[1]
    inside = Drainer(work.source, work.source, work.source.parent / "journal")
    inside.start()
    assert inside.wait()[0] == 2


def test_a_second_drainer_of_the_same_directory_ends_at_once(work):
    work.start()
    wait_for(work.journal.exists)
    other = Drainer(work.source, work.destination, work.journal)
    other.start()
    status, said = other.wait()
    assert (status, "another drainer is at work" in said) == (1, True)
    work.drain()
