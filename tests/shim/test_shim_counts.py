"""The page says what was written: bytes and operations as the kernel saw them."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from shim_programs import Program, parameters
from turns_page import TurnsPage

KIB = 1024

# What a kind of kinds.c writes: bytes, calls of the kernel, bytes known to be durable.
# Of stdio's calls, those that libc makes at exit are not seen.
KNOWN = {
    "write": (100 * KIB, 100, 0),
    "pwrite": (2 * KIB, 2, 0),
    "vector": (10 * KIB, 5, 2 * KIB),
    "copy": (3 * KIB, 3, 0),
    "errors": (0, 5, 0),
    "direct": (4 * KIB + 100, 2, 4 * KIB),
    "sync": (14 * KIB, 3, 12 * KIB),
    "fwrite": (100 * KIB, 25, 0),
    "fwrite_large": (10 + 128 * KIB, 5, 0),
    "text": (4000, 0, 0),
    "unbuffered": (1000, 100, 0),
    "stdout": (31, 2, 0),
    "threads": (400 * KIB, 400, 0),
    "fork": (500 * KIB, 500, 0),
    "forks": (5000, 500, 0),
    "vfork": (2 * KIB, 2, 0),
    "exec": (101 * KIB, 101, 0),
    "daemon": (100 * KIB, 25, 0),
    "closeall": (2 * KIB, 2, 0),
    "launcher": (300 * KIB, 300, 0),
}


@pytest.mark.parametrize("kind", KNOWN)
def test_each_way_to_write_is_counted(page: TurnsPage, kinds: Path, tmp_path: Path, kind: str):
    assert page.start(kinds, kind, tmp_path / "file", stdout=subprocess.DEVNULL).wait() == 0
    assert (page.sum("bytes"), page.sum("operations"), page.sum("durable")) == KNOWN[kind]
    assert page.sum("uncovered") == 0


@pytest.mark.parametrize(("kind", "through"), [("write", 0), ("direct", 1), ("vector", 1)])
def test_writes_that_no_cache_takes_are_counted(page, kinds, tmp_path, kind, through):
    page.start(kinds, kind, tmp_path / "file", stdout=subprocess.DEVNULL).wait()
    assert page.sum("through") == through


def test_bytes_that_a_program_puts_into_stdios_buffer_itself_count_when_it_is_full(
    page, kinds, tmp_path
):
    """putc_unlocked is a macro; its last part of a buffer is not seen."""
    page.start(kinds, "unlocked", tmp_path / "file", stdout=subprocess.DEVNULL).wait()
    assert 3 * 4096 - 4095 <= page.sum("bytes") <= 3 * 4096
    assert page.sum("operations") == 3


def test_what_a_program_formats_and_then_puts_into_the_buffer_itself_counts_once(
    page, kinds, tmp_path
):
    page.start(kinds, "lines", tmp_path / "file", stdout=subprocess.DEVNULL).wait()
    assert page.sum("bytes") == (tmp_path / "file").stat().st_size == 100 * len("100\n")


def test_every_byte_of_a_stream_that_threads_share_counts(page, kinds, tmp_path):
    page.start(kinds, "shared_stream", tmp_path / "file", stdout=subprocess.DEVNULL).wait()
    assert page.sum("bytes") == (tmp_path / "file").stat().st_size == 400 * (10 + KIB)


@pytest.mark.parametrize(
    ("kind", "uncovered"),
    [("mapped", (1, 64 * KIB)), ("aio", (1, KIB)), ("strict", (1, 0)), ("filter", (2, 0))],
)
def test_what_is_not_seen_is_counted_as_not_covered(page, kinds, tmp_path, kind, uncovered):
    page.start(kinds, kind, tmp_path / "file", stdout=subprocess.DEVNULL).wait()
    assert (page.sum("uncovered"), page.sum("uncovered_bytes")) == uncovered
    assert page.sum("bytes") == 0


WRITES = "write,pwrite64,writev,pwritev,pwritev2,copy_file_range,sendfile,splice"


def traced(page: TurnsPage, command: list[str | Path], place: Path, logs: Path) -> tuple[int, int]:
    """Run it under strace; bytes and calls that wrote to files below `place`."""
    given = [word for pair in page.environment().items() for word in ("-E", "=".join(pair))]
    strace = ["strace", "-ff", "-qq", "-y", "-s0", "-e", f"trace={WRITES}", "-o", logs / "log"]
    logs.mkdir()
    subprocess.run(
        [*strace, *given, *command],
        check=True,
        stdout=subprocess.DEVNULL,
        pass_fds=page.descriptors,
    )
    lines = [line for log in logs.iterdir() for line in log.read_text().splitlines()]
    results = [
        int(line.rsplit("= ", 1)[1].split()[0])
        for line in lines
        if " = " in line and str(place) in _target(line)
    ]
    return sum(max(result, 0) for result in results), len(results)


def _target(line: str) -> str:
    """The descriptor that a call writes to, with its path."""
    words = line.split("(", 1)[1].split(", ")
    return words[2 if line.startswith(("copy_file_range", "splice")) else 0]


@pytest.mark.parametrize("program", parameters())
def test_a_real_programs_writes_equal_those_that_strace_sees(
    page: TurnsPage, tmp_path: Path, program: Program
):
    if missing := program.missing() or ("" if shutil.which("strace") else "strace"):
        pytest.skip(f"{missing} is not installed")
    place = tmp_path / "place"
    place.mkdir()
    total, count = traced(page, program.command(place), place, tmp_path / "logs")
    assert total > 0
    assert page.sum("bytes") == total
    if not program.is_stdio:
        assert page.sum("operations") == count


@pytest.mark.usefixtures("shim")
def test_files_on_other_devices_do_not_count(kinds, tmp_path):
    page = TurnsPage(Path("/proc"))
    page.start(kinds, "write", tmp_path / "file", stdout=subprocess.DEVNULL).wait()
    assert not any(page.sums().values())
    page.close()


@pytest.mark.usefixtures("shim")
def test_a_slot_says_on_which_devices_its_process_wrote(kinds, tmp_path):
    page = TurnsPage(Path("/proc"), tmp_path)
    page.start(kinds, "write", tmp_path / "file", stdout=subprocess.DEVNULL).wait()
    assert page.page.ended.devices == 0b10
    page.close()


def test_processes_that_end_free_their_slots_and_leave_their_sums(page, kinds, tmp_path):
    """500 children, and room for 64."""
    page.start(kinds, "forks", tmp_path / "file").wait()
    assert list(page.slots()) == []
    assert page.page.refused == 0
    assert page.page.ended.bytes == 5000


@pytest.mark.usefixtures("shim")
def test_a_process_that_finds_no_slot_is_counted_and_otherwise_left_alone(kinds, tmp_path):
    page = TurnsPage(tmp_path, slots=0)
    assert page.start(kinds, "write", tmp_path / "file", stdout=subprocess.DEVNULL).wait() == 0
    assert page.page.refused == 1
    assert (tmp_path / "file").stat().st_size == 100 * KIB
    page.close()


def test_a_cancelled_thread_leaves_nothing_under_way(page, kinds, tmp_path):
    page.start(kinds, "cancel", tmp_path / "file", stdout=subprocess.DEVNULL).wait()
    assert list(page.slots()) == []


def test_bursts_are_told_apart_by_half_a_second_of_silence(page, tmp_path):
    script = """
import os, sys, time
fd = os.open(sys.argv[1], os.O_CREAT | os.O_WRONLY)
for burst in range(3):
    for i in range(10): os.write(fd, bytes(1000)); time.sleep(0.01)
    print(flush=True)
    time.sleep(0.7)
    sys.stdin.readline()
"""
    job = page.start(
        "python3", "-c", script, tmp_path / "f", stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    begun = []
    for burst in range(3):
        job.stdout.readline()
        (slot,) = page.slots()
        assert slot.bursts == burst + 1
        assert slot.bytes - slot.burst_bytes == 10_000
        assert slot.operations - slot.burst_operations == 10
        begun.append(slot.burst_began)
        job.stdin.write(b"\n")
        job.stdin.flush()
    assert job.wait() == 0
    assert begun == sorted(set(begun))


def run_as(uid: int, page: TurnsPage, program: Path, place: Path) -> int:
    """Write 100 KiB to a file of this directory; those above it are closed to others."""
    place.chmod(0o777)
    held = [os.open(path, os.O_RDONLY) for path in (place, program)]
    words = ("setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups")
    job = subprocess.run(
        [*words, f"/proc/self/fd/{held[1]}", "write", f"/proc/self/fd/{held[0]}/file"],
        check=False,
        stdout=subprocess.DEVNULL,
        env={**os.environ, **page.environment()},
        pass_fds=(*page.descriptors, *held),
    )
    for fd in held:
        os.close(fd)
    return job.returncode


USER, OTHER_USER = 65534, 65533
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="becomes other users")


@needs_root
def test_roots_processes_are_left_alone_and_those_of_users_are_not(page, kinds, tmp_path):
    page.words.flags = 0
    assert run_as(0, page, kinds, tmp_path) == 0
    assert not any(page.sums().values())
    (tmp_path / "file").unlink()
    assert run_as(USER, page, kinds, tmp_path) == 0
    assert page.sum("bytes") == 100 * KIB


@needs_root
def test_a_setuid_program_is_left_alone(page, kinds, tmp_path):
    program = Path(shutil.copy(kinds, tmp_path))
    os.chown(program, OTHER_USER, OTHER_USER)
    program.chmod(0o4755)
    assert run_as(USER, page, program, tmp_path) == 0
    assert (tmp_path / "file").stat().st_uid == OTHER_USER
    assert not any(page.sums().values())
