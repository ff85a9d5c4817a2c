"""What one slurmctld hands over to the next: records and counters, in the built plugin."""

import os
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import made_model
import pytest
from plugin_harness import RING_RECORDS, Harness, PluginFiles, ask, build, drain, install
from test_sanitizers import fixed_addresses

from sluice.policies.record import Record

HEADS = 2 * 8192  # bytes of a spool file before its first slot
SLOT_HEAD = 16  # bytes of a slot before its record


@pytest.fixture(scope="module")
def built() -> Path:
    return build()


@pytest.fixture
def files(tmp_path: Path) -> PluginFiles:
    """Everything that a plugin needs, in observe."""
    files = PluginFiles(tmp_path)
    install(files.bundle, made_model.bundle())
    install(files.snapshot, made_model.snapshot())
    files.configure()
    return files


@pytest.fixture
def first(built: Path, files: PluginFiles) -> Iterator[Harness]:
    """A controller that another one will follow."""
    with started(built, files) as harness:
        yield harness


def started(built: Path, files: PluginFiles) -> Harness:
    harness = Harness(built, files.directory)
    harness.files = files
    return harness


def boot_of(files: PluginFiles, but: str = "") -> str:
    """Return the boot of the controller that serves, once it is another one."""
    loaded = files.wait_for(lambda seen: seen["boot"] != but and seen["bundle"]["loaded"])
    return str(loaded["boot"])


def submit(harness: Harness, count: int) -> str:
    """Submit so many jobs; returns the boot, once all of them are in the spool."""
    harness.files.wait_until_loaded("bundle", "snapshot")
    for _ in range(count):
        harness.submit(**made_model.KNOWN_JOB)
    wait_until_saved(harness.files)
    return str(harness.files.stats()["boot"])


def wait_until_saved(files: PluginFiles) -> Path:
    """Wait until what was done before this call is in the file; a kill then loses nothing."""
    seen = files.wait_for(lambda seen: seen["spool"]["path"] and not seen["spool"]["error"])
    time.sleep(0.5)  # it is looked after every 20 ms, and nothing tells when
    return Path(seen["spool"]["path"])


def wait_until_full(spool: Path) -> None:
    """Wait until the file has stopped growing."""
    before = -1
    while (size := spool.stat().st_size) != before:
        before = size
        time.sleep(0.5)


def drained(files: PluginFiles) -> list[tuple[str, int]]:
    """Boot and number of all records that wait."""
    records = [Record.parse(content) for content in drain(files.socket)]
    return [(f"{record.boot:016x}", record.number) for record in records]


def numbered(boot: str, *numbers: int) -> list[tuple[str, int]]:
    return [(boot, number) for number in numbers]


def spools(files: PluginFiles) -> list[Path]:
    return sorted(files.directory.glob("plugin.sock.spool.*"))


def test_a_restart_hands_over_what_waits_and_what_was_counted(
    built: Path, files: PluginFiles
) -> None:
    with started(built, files) as harness:
        old = submit(harness, 5)
        before = files.stats()
    with started(built, files) as harness:
        new = submit(harness, 3)
        seen = files.wait_for(lambda seen: seen["ring"]["used"] == 8)
        assert (seen["submissions"], seen["decided"], seen["ring"]["lost"]) == (8, 8, 0)
        assert seen["counting_since"] == before["counting_since"]
        # of each one's submissions the first is timed, if the earlier ones do not count yet
        assert seen["cpu_ns"]["all"]["count"] in (1, 2)
        assert seen["cpu_ns"]["all"]["max"] >= before["cpu_ns"]["all"]["max"]
        for group in ("actions", "reasons"):
            assert sum(seen[group].values()) == 8
        assert sorted(drained(files)) == sorted(
            numbered(old, 1, 2, 3, 4, 5) + numbered(new, 1, 2, 3)
        )
        assert len(spools(files)) == 1


@pytest.mark.parametrize("sanitize", ["", "address,undefined", "thread"])
def test_an_exit_without_fini_hands_over_all(files: PluginFiles, sanitize: str) -> None:
    """No slurmctld calls fini when it ends, and 26.05 ends 5 ms after SIGTERM."""
    built = build(sanitize=sanitize)
    wrapper = fixed_addresses() if sanitize else ()
    with Harness(built, files.directory, wrapper=wrapper) as harness:
        files.wait_until_loaded("bundle", "snapshot")
        for _ in range(9):
            harness.submit(**made_model.KNOWN_JOB)
        harness.exit()
    with started(build(), files):
        seen = files.wait_for(lambda seen: seen["ring"]["used"] == 9)
        assert (seen["submissions"], seen["decided"], seen["ring"]["lost"]) == (9, 9, 0)


def test_a_child_that_exits_ends_nothing_of_the_controllers(
    files: PluginFiles, first: Harness
) -> None:
    """One that could not execute its program, say: it has a copy of all but the threads."""
    old = submit(first, 1)
    assert first.fork() == 0
    assert submit(first, 1) == old
    assert drained(files) == numbered(old, 1, 2)


def test_a_crash_hands_over_what_was_saved(built: Path, files: PluginFiles) -> None:
    with started(built, files) as harness:
        old = submit(harness, 9)
        harness.kill()
    with started(built, files):
        boot_of(files, but=old)
        seen = files.wait_for(lambda seen: seen["ring"]["used"] == 9)
        assert (seen["submissions"], seen["decided"]) == (9, 9)
        assert drained(files) == numbered(old, *range(1, 10))


def submit_unserved(second: Harness, files: PluginFiles) -> None:
    """Submit a job to a controller that waits for the socket, and wait until it is saved."""
    deadline = time.monotonic() + 30
    while len(spools(files)) < 2:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    time.sleep(1)  # for the rest that it loads
    second.submit(**made_model.KNOWN_JOB)
    time.sleep(0.5)  # as in wait_until_saved


def test_a_reconfiguration_hands_over_once_the_old_controller_is_gone(
    built: Path, files: PluginFiles, first: Harness
) -> None:
    """From 23.11: the new one starts alongside the old one, which ends without fini."""
    old = submit(first, 9)
    with started(built, files) as second:
        submit_unserved(second, files)
        assert boot_of(files) == old
        first.submit(**made_model.KNOWN_JOB)
        time.sleep(0.2)
        first.kill()
        new = boot_of(files, but=old)
        files.wait_for(lambda seen: seen["ring"]["used"] == 11)
        submit(second, 1)
        assert files.stats()["submissions"] == 12
        assert sorted(drained(files)) == sorted(numbered(old, *range(1, 11)) + numbered(new, 1, 2))


def test_a_reconfiguration_that_fails_leaves_the_old_controller_serving(
    built: Path, files: PluginFiles, first: Harness
) -> None:
    """The new one waits for the socket and dies: the old one goes on, with its records."""
    old = submit(first, 2)
    with started(built, files) as second:
        submit_unserved(second, files)
        second.kill()
    files.wait_for(lambda seen: seen["ring"]["used"] == 3)
    assert boot_of(files) == old
    assert [row for row in drained(files) if row[0] == old] == numbered(old, 1, 2)


def test_a_stranger_does_not_take_the_socket_and_binds_it_when_it_is_free(
    built: Path, files: PluginFiles, first: Harness
) -> None:
    """A second cluster whose sluice.conf names the same one."""
    old = submit(first, 1)
    inode = files.socket.stat().st_ino
    with started(built, files) as second:
        time.sleep(1.5)  # more than a look at the socket's file
        assert (files.socket.stat().st_ino, boot_of(files)) == (inode, old)
        first.kill()
        new = boot_of(files, but=old)
        second.submit(**made_model.KNOWN_JOB)
        assert new == files.stats()["boot"]


def test_of_two_that_start_at_once_one_serves_and_the_other_after_it(
    built: Path, files: PluginFiles
) -> None:
    with started(built, files) as one, started(built, files) as other:
        served = files.wait_for(lambda seen: seen["bundle"]["loaded"])
        next(harness for harness in (one, other) if harness.pid == served["pid"]).kill()
        assert boot_of(files, but=served["boot"])


def test_what_was_acknowledged_is_not_handed_over(built: Path, files: PluginFiles) -> None:
    with started(built, files) as harness:
        old = submit(harness, 6)
        ask(files.socket, f"drain {old} 4 0\n")
        wait_until_saved(files)
        harness.kill()
    with started(built, files):
        boot_of(files, but=old)
        files.wait_for(lambda seen: seen["ring"]["used"] == 2)
        assert drained(files) == numbered(old, 5, 6)


def test_records_of_each_controller_are_acknowledged_under_its_boot(
    built: Path, files: PluginFiles
) -> None:
    with started(built, files) as harness:
        old = submit(harness, 3)
    with started(built, files) as harness:
        boot_of(files, but=old)
        files.wait_for(lambda seen: seen["ring"]["used"] == 3)
        new = submit(harness, 3)
        head = ask(files.socket, f"drain {new} 3 9\n").partition(b"\n")[0].split()
        assert (head[1], head[3]) == (b"3", old.encode())
        head = ask(files.socket, f"drain {old} 3 9\n").partition(b"\n")[0].split()
        assert (head[1], head[3]) == (b"3", new.encode())
        assert files.stats()["ring"]["used"] == 3


def test_records_go_on_through_several_controllers(built: Path, files: PluginFiles) -> None:
    boots = []
    for _ in range(4):
        with started(built, files) as harness:
            boot_of(files)
            boots.append(submit(harness, 2))
    with started(built, files):
        files.wait_for(lambda seen: seen["ring"]["used"] == 8)
        assert files.stats()["submissions"] == 8
        assert sorted(drained(files)) == sorted(
            row for boot in boots for row in numbered(boot, 1, 2)
        )


def test_what_does_not_fit_or_is_damaged_counts_as_lost(built: Path, files: PluginFiles) -> None:
    with started(built, files) as harness:
        old = submit(harness, 1)
        harness.repeat(threads=1, count=RING_RECORDS + 5)
        spool = wait_until_saved(files)
        wait_until_full(spool)
        assert files.stats()["ring"]["dropped"] == 6
        harness.kill()
    size = (spool.stat().st_size - HEADS) // RING_RECORDS
    with spool.open("r+b") as damaged:
        damaged.seek(HEADS + 7 * size + SLOT_HEAD + 100)
        damaged.write(b"damage")
    with started(built, files):
        boot_of(files, but=old)
        seen = files.wait_for(lambda seen: seen["ring"]["used"] == RING_RECORDS - 1)
        assert (seen["ring"]["dropped"], seen["ring"]["lost"]) == (6, 1)
        assert drained(files) == numbered(old, *range(1, 8), *range(9, RING_RECORDS + 1))


def test_a_file_without_a_whole_head_is_tidied_up(built: Path, files: PluginFiles) -> None:
    stale = files.directory / f"plugin.sock.spool.{7:016x}"
    stale.write_bytes(b"x" * 30_000)
    with started(built, files) as harness:
        submit(harness, 1)
        assert [path for path in spools(files) if path == stale] == []
        assert files.stats()["ring"]["lost"] == 0


def test_files_that_are_none_of_a_controllers_own_are_left_alone(
    built: Path, files: PluginFiles
) -> None:
    with started(built, files) as harness:
        submit(harness, 3)
        harness.kill()
    [real] = spools(files)
    content = real.read_bytes()
    planted = [real.with_name(f"plugin.sock.spool.{i:016x}") for i in range(1, 5)]
    outside = files.directory / "elsewhere"
    outside.write_bytes(content)
    planted[0].symlink_to(outside)
    planted[1].hardlink_to(outside)
    planted[2].write_bytes(content)
    planted[2].chmod(0o622)
    os.mkfifo(planted[3])
    real.unlink()
    with started(built, files) as harness:
        submit(harness, 1)
        assert files.stats()["ring"]["used"] == 1
        assert {*planted} < {*spools(files)}
    assert outside.read_bytes() == content


def test_a_file_that_was_deleted_is_made_again(files: PluginFiles, first: Harness) -> None:
    submit(first, 2)
    [path] = spools(files)
    inode = path.stat().st_ino
    held = path.open("rb")  # else the next file may get its inode
    path.unlink()
    deadline = time.monotonic() + 30
    while not (path.exists() and path.stat().st_size > HEADS):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert path.stat().st_ino != inode
    assert path.stat().st_mode & 0o777 == 0o600
    held.close()


def test_a_file_that_was_truncated_harms_nobody(files: PluginFiles, first: Harness) -> None:
    submit(first, 2)
    [path] = spools(files)
    os.truncate(path, 0)
    assert submit(first, 2)
    assert len(drained(files)) == 4


def test_the_file_moves_with_the_socket(files: PluginFiles, first: Harness) -> None:
    submit(first, 2)
    [old] = spools(files)
    files.socket = files.directory / "elsewhere.sock"
    files.configure(Socket=str(files.socket))
    files.wait_for(lambda seen: "elsewhere" in seen["spool"]["path"])
    assert not old.exists()
    assert len(drained(files)) == 2


@pytest.fixture
def disk(files: PluginFiles) -> Iterator[Path]:
    """A small file system for the socket and what lies next to it."""
    if os.geteuid() != 0:
        pytest.skip("mounts a small file system")
    small = files.directory / "small"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=160k", "tmpfs", small], check=True)
    files.socket = small / "plugin.sock"
    files.configure(Socket=str(files.socket))
    yield small
    subprocess.run(["umount", "--lazy", small], check=True)


def submit_onto_a_full_disk(harness: Harness, disk: Path) -> Path:
    """Fill the disk, submit 40 jobs, and wait until that is told; returns what fills it."""
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as full, suppress(OSError):
        while True:
            full.write(bytes(4096))
    refused = {harness.submit(**made_model.KNOWN_JOB).rc for _ in range(40)} - {0}
    assert not refused
    seen = harness.files.wait_for(lambda seen: bool(seen["spool"]["error"]))
    assert "No space left" in seen["spool"]["error"]
    assert seen["ring"]["used"] == 41
    return filler


def test_a_full_disk_costs_no_job_and_is_told(built: Path, files: PluginFiles, disk: Path) -> None:
    with started(built, files) as harness:
        old = submit(harness, 1)
        submit_onto_a_full_disk(harness, disk).unlink()
        files.wait_for(lambda seen: not seen["spool"]["error"])
        harness.kill()
    with started(built, files):
        boot_of(files, but=old)
        files.wait_for(lambda seen: seen["ring"]["used"] == 41)
        assert drained(files) == numbered(old, *range(1, 42))


def test_what_a_full_disk_takes_from_the_next_controller_counts_as_lost(
    built: Path, files: PluginFiles, disk: Path
) -> None:
    with started(built, files) as harness:
        old = submit(harness, 1)
        filler = submit_onto_a_full_disk(harness, disk)
        time.sleep(2.5)  # it tries again each second, and nothing tells when
        harness.kill()
    filler.unlink()
    with started(built, files):
        boot_of(files, but=old)
        seen = files.wait_for(lambda seen: seen["submissions"] == 41)
        assert seen["ring"]["lost"] == 41 - seen["ring"]["used"] > 0


# Waiting for a record


def waiter(files: PluginFiles, request: str) -> socket.socket:
    client = socket.socket(socket.AF_UNIX)
    client.settimeout(30)
    client.connect(str(files.socket))
    client.sendall(request.encode())
    return client


def answer_of(client: socket.socket) -> bytes:
    answer = bytearray()
    with client:
        while part := client.recv(1 << 20):
            answer += part
    return bytes(answer)


def test_a_client_that_waits_is_answered_by_the_first_record(
    files: PluginFiles, first: Harness
) -> None:
    files.wait_until_loaded("bundle", "snapshot")
    client = waiter(files, "wait 0 0 9 60000\n")
    for _ in range(3):  # others are served meanwhile
        assert files.stats()["ring"]["used"] == 0
    first.submit(**made_model.KNOWN_JOB)
    assert answer_of(client).startswith(b"records 1 ")
    boot = files.stats()["boot"]
    assert ask(files.socket, f"wait {boot} 0 9 60000\n").startswith(b"records 1 ")
    assert ask(files.socket, f"wait {boot} 1 9 10\n").startswith(b"records 0 ")
    assert files.stats()["ring"]["used"] == 0


def test_of_clients_that_wait_the_last_one_waits_on(files: PluginFiles, first: Harness) -> None:
    files.wait_until_loaded("bundle", "snapshot")
    clients = [waiter(files, "wait 0 0 9 60000\n") for _ in range(3)]
    assert answer_of(clients[0]).startswith(b"records 0 ")
    assert answer_of(clients[1]).startswith(b"records 0 ")
    first.submit(**made_model.KNOWN_JOB)
    assert answer_of(clients[2]).startswith(b"records 1 ")


def test_a_client_that_waits_and_hangs_up_holds_nobody_up(
    files: PluginFiles, first: Harness
) -> None:
    files.wait_until_loaded("bundle", "snapshot")
    waiter(files, "wait 0 0 9 60000\n").close()
    first.submit(**made_model.KNOWN_JOB)
    assert len(drained(files)) == 1
