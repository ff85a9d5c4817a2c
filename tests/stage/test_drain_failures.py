"""A destination that is full, read-only, gone or slow, a damaged journal: no byte is lost."""

import os
import re
import shutil
import signal
import subprocess
from pathlib import Path

import pytest
from drainer import Drainer, differences, wait_for

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to mount")


@pytest.fixture
def mounted(work):
    """The destination is a file system of 8 MiB of its own, which a test may spoil."""
    mount(work.destination)
    yield work
    subprocess.run(["umount", "--lazy", work.destination], check=False)


def mount(place: Path) -> None:
    words = ["mount", "-t", "tmpfs", "-o", "size=8M", "tmpfs", place]
    if subprocess.run(words, check=False, capture_output=True).returncode != 0:
        pytest.skip("this machine does not let us mount a tmpfs")


def remount(place: Path, option: str) -> None:
    subprocess.run(["mount", "-o", f"remount,{option}", place], check=True)


@needs_root
def test_a_full_destination_is_tried_again_until_there_is_room(mounted):
    mounted.start()
    (mounted.source / "small").write_bytes(b"x" * 1000)
    (mounted.source / "big").write_bytes(b"x" * (20 << 20))
    wait_for((mounted.destination / "small").exists)
    assert not (mounted.destination / "big").exists()
    remount(mounted.destination, "size=64M")
    wait_for((mounted.destination / "big").exists)
    mounted.drain()


@needs_root
def test_what_does_not_fit_stays_and_is_told_once_a_reason(mounted):
    mounted.options = ("--settle", "1", "--patience", "1")
    for number in range(4):
        (mounted.source / f"big{number}").write_bytes(b"x" * (20 << 20))
    (mounted.source / "small").write_bytes(b"x")
    mounted.start()
    status, said = mounted.end()
    assert status == 1
    assert said.count("No space left on device") == 1
    counts = re.findall(rf"(\d+) names? (?:is|are) only in {mounted.source}", said)
    assert sum(map(int, counts)) >= 4
    assert len(list(mounted.source.iterdir())) == 5
    names = {path.name for path in mounted.destination.iterdir()}
    assert not names & {f"big{number}" for number in range(4)}
    remount(mounted.destination, "size=200M")
    mounted.start("--once")
    assert mounted.wait()[0] == 0
    assert differences(mounted.source, mounted.destination) == []


@needs_root
def test_a_read_only_destination_is_written_to_once_it_can_be(mounted):
    mounted.start()
    (mounted.source / "before").write_bytes(b"x")
    wait_for((mounted.destination / "before").exists)
    remount(mounted.destination, "ro")
    (mounted.source / "after").write_bytes(b"x")
    (mounted.source / "before").unlink()
    mounted.process.send_signal(signal.SIGTERM)
    remount(mounted.destination, "rw")
    assert mounted.wait()[0] == 0
    assert differences(mounted.source, mounted.destination) == []


@needs_root
def test_what_the_destination_took_and_could_not_store_is_not_made_visible(mounted, tmp_path):
    """A file system in a file on a full one: writes are taken, and fail when they are synced."""
    image, disk = mounted.destination / "image", tmp_path / "disk"
    disk.mkdir()
    with image.open("wb") as file:
        file.truncate(64 << 20)
    subprocess.run(["mkfs.ext4", "-q", "-F", "-O", "^has_journal", image], check=True)
    if subprocess.run(["mount", "-o", "loop", image, disk], check=False).returncode != 0:
        pytest.skip("this machine does not let us mount a loop device")
    try:
        (disk / "job").mkdir()
        work = Drainer(mounted.source, disk / "job", mounted.journal)
        for number in range(6):
            (work.source / f"f{number}").write_bytes(os.urandom(3 << 20))
        work.start("--patience", "1")
        assert work.end()[0] == 1
        seen = list(work.destination.iterdir())
        assert len(seen) < 6
        assert all(path.read_bytes() == (work.source / path.name).read_bytes() for path in seen)
    finally:
        subprocess.run(["umount", "--lazy", disk], check=True)


@needs_root
def test_nothing_goes_below_a_mount_point_whose_file_system_is_gone(mounted):
    (mounted.destination / "job").mkdir()
    work = Drainer(mounted.source, mounted.destination / "job", mounted.journal)
    work.options = ("--settle", "1", "--patience", "1")
    work.start()
    (work.source / "a").write_bytes(b"a")
    wait_for((work.destination / "a").exists)
    work.kill()
    subprocess.run(["umount", mounted.destination], check=True)
    work.start()
    status, said = work.wait()
    assert (status, "No such file or directory" in said) == (1, True)
    work.destination.mkdir()
    work.start()
    status, said = work.wait()
    assert (status, list(work.destination.iterdir())) == (1, [])
    assert "is not what it was" in said


def test_a_destination_that_was_removed_is_not_called_drained(work):
    work.options = ("--settle", "1", "--patience", "1")
    work.start()
    wait_for(work.journal.exists)
    work.destination.rmdir()
    work.destination.mkdir()
    (work.source / "file").write_bytes(b"x")
    status, said = work.end()
    assert (status, (work.source / "file").read_bytes()) == (1, b"x")
    assert f"1 name is only in {work.source}" in said


def test_a_destination_that_was_renamed_is_not_called_drained(work):
    work.start()
    wait_for(work.journal.exists)
    work.destination.rename(work.destination.with_name("away"))
    (work.source / "file").write_bytes(b"x")
    assert work.end()[0] == 1
    assert (work.source / "file").read_bytes() == b"x"


def test_a_file_that_stays_open_is_told_and_stays(work):
    work.start("--patience", "1")
    with (work.source / "open").open("wb") as file:
        file.write(b"unfinished")
        file.flush()
        (work.source / "closed").write_bytes(b"x")
        status, said = work.end()
    assert (status, [path.name for path in work.destination.iterdir()]) == (1, ["closed"])
    assert "a process has it open for writing (open)" in said


def test_copies_stay_where_the_whole_local_directory_is_removed(work):
    work.options = ("--settle", "1000")
    work.start()
    (work.source / "result").write_bytes(b"x")
    wait_for((work.destination / "result").exists)
    work.process.send_signal(signal.SIGSTOP)
    shutil.rmtree(work.source)
    work.process.send_signal(signal.SIGCONT)
    status, said = work.end()
    assert (status, "the copies stay" in said) == (1, True)
    assert (work.destination / "result").read_bytes() == b"x"


@needs_root
def test_a_directory_that_cannot_be_read_is_not_called_drained(work, tmp_path):
    for place in (tmp_path, work.source, work.destination):
        os.chown(place, 65534, 65534)
    for place in (tmp_path, *list(tmp_path.parents)[:-2]):
        place.chmod(0o755)
    (work.source / "closed").mkdir(mode=0o700)
    (work.source / "closed" / "file").write_bytes(b"x")
    work.words = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
    work.start()
    status, said = work.end()
    assert (status, "closed cannot be read: Permission denied" in said) == (1, True)


def test_names_that_are_the_drainers_own_are_told_and_stay(work):
    work.start()
    (work.source / ".sluice-part.x").write_bytes(b"mine")
    (work.source / "x").write_bytes(b"x")
    status, said = work.end()
    assert (status, "are the drainer's own" in said) == (1, True)
    assert (work.destination / "x").read_bytes() == b"x"
    assert not (work.destination / ".sluice-part.x").exists()


def test_a_stopped_drainer_goes_on_where_it_was(work):
    work.options = ("--settle", "1", "--rate", "1000000")
    work.start()
    (work.source / "first").write_bytes(b"x" * 1_000_000)
    wait_for((work.destination / "first").exists)
    (work.source / "second").write_bytes(b"x" * (50 << 20))
    wait_for((work.destination / ".sluice-part.second").exists)
    status, said = work.end(signal.SIGINT)
    assert status == 1
    assert "drained 1 files" in said
    work.options = ("--settle", "1")
    work.start("--once")
    status, said = work.wait()
    assert (status, differences(work.source, work.destination)) == (0, [])
    assert f"drained 1 files and {50 << 20} bytes" in said


def test_a_killed_drainer_leaves_no_temporary_file_in_the_end(work):
    work.options = ("--settle", "1", "--rate", "1000000")
    work.start()
    (work.source / "big").write_bytes(b"x" * (50 << 20))
    wait_for((work.destination / ".sluice-part.big").exists)
    work.kill()
    (work.source / "big").unlink()
    work.start()
    work.drain()


@pytest.mark.parametrize("damage", ["cut", "flipped", "empty", "garbage", "doubled"])
def test_a_damaged_journal_means_that_all_is_copied_again(work, damage):
    for number in range(10):
        (work.source / f"f{number}").write_bytes(b"%d" % number * 1000)
    work.start("--once")
    assert work.wait()[0] == 0
    journal = bytearray(work.journal.read_bytes())
    if damage == "flipped":
        journal[len(journal) // 2] ^= 1
    work.journal.write_bytes(
        {"cut": journal[:-3], "empty": b"", "garbage": os.urandom(5000)}.get(damage, bytes(journal))
        + (b"x" * 20 if damage == "doubled" else b"")
    )
    (work.source / "f3").unlink()
    (work.source / "f4").write_bytes(b"changed")
    work.start("--once")
    status, said = work.wait()
    assert status == 0, said
    assert "drained 9 files" in said
    for path in work.source.iterdir():
        assert (work.destination / path.name).read_bytes() == path.read_bytes()


def test_the_journal_of_other_directories_is_refused(work, tmp_path):
    work.start("--once")
    assert work.wait()[0] == 0
    (tmp_path / "other").mkdir()
    other = Drainer(work.source, tmp_path / "other", work.journal)
    other.start("--once")
    status, said = other.wait()
    assert (status, "is of other directories" in said) == (1, True)


@needs_root
def test_a_journal_that_cannot_be_written_stops_no_drain(work, tmp_path):
    (tmp_path / "full").mkdir()
    words = ["mount", "-t", "tmpfs", "-o", "size=4k", "tmpfs", tmp_path / "full"]
    if subprocess.run(words, check=False, capture_output=True).returncode != 0:
        pytest.skip("this machine does not let us mount a tmpfs")
    try:
        work.journal = tmp_path / "full" / "journal"
        for number in range(300):
            (work.source / f"f{number}").write_bytes(b"%d" % number)
        work.start()
        said = work.drain()
        assert said.count("may copy files twice") == 1
        work.start()
        work.drain()
    finally:
        subprocess.run(["umount", "--lazy", tmp_path / "full"], check=False)
