"""The built plugin, driven as slurmctld would drive it, without daemons."""

import os
import re
import shutil
import socket
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import made_model
import pytest
from plugin_harness import (
    RING_RECORDS,
    Change,
    Harness,
    Outcome,
    PluginFiles,
    ask,
    build,
    drain,
    install,
)

from sluice.policies import core
from sluice.policies.container import write_atomically
from sluice.policies.record import Record
from sluice.policies.snapshot import Snapshot

NOBODY = 65534
KIB = 1024

# One job of every kind that job_submit sees, as fields of struct sluice_request.
KINDS: dict[str, dict[str, str | int]] = {
    "sbatch": {"script": "#!/bin/sh\nsrun ./app\n", "submit_line": "sbatch run.sh"},
    "srun": {"has_command": 1, "submit_line": "srun ./app"},
    "salloc": {"submit_line": "salloc"},
    "salloc of a program": {"has_command": 1, "submit_line": "/usr/bin/salloc -n1 srun ./app"},
    "array": {"script": "#!/bin/sh\n", "array": "0-15:4,20%2"},
    "leader": {"script": "#!/bin/sh\n", "het_component": 1},
    "follower": {"het_component": 2},
    "list": {"script": "#!/bin/sh\n", "partition": "main,long", "account": "a", "qos": "q"},
    "licences": {"script": "#!/bin/sh\n", "licenses": "tool:2|other:1"},
    "forever": {"script": "x" * 100_000, "name": "n" * 1000, "submit_line": "y" * 100_000},
    "pty": {"has_command": 1, "submit_line": "srun --pty bash"},
    "immediate": {"has_command": 1, "immediate": 1},
    "cron": {"script": "#!/bin/sh\n", "cron": 1},
    "later": {"script": "#!/bin/sh\n", "begin": 2_000_000_000, "deadline": 2_000_000_000},
    "reserved": {"script": "#!/bin/sh\n", "reservation": "r"},
    "tokens": {"script": "#!/bin/sh\n", "licenses": "tool:2,sl0_stream:3;all_stream"},
    "opted out": {"script": "#!/bin/sh\n", "opt_out": 1},
    "forged": {"io_turns": "x" * 1000},
    "memory": {"script": "#!/bin/sh\n", "memory_cpu_mib": 100, "tasks": 8, "nodes": 2},
    "numbers": {"nodes": 4_000_000_000, "tasks": 4_000_000_000, "time_limit": 4_000_000_000},
    "nothing": {},
}


@pytest.fixture(scope="session")
def built() -> Path:
    return build()


@pytest.fixture(scope="session")
def sanitized() -> Path:
    return build(sanitize="address,undefined")


@pytest.fixture(scope="module")
def bundle() -> bytes:
    return made_model.bundle()


def start_files(files: PluginFiles, bundle: bytes, **settings: str | float) -> None:
    install(files.bundle, bundle)
    install(files.snapshot, made_model.snapshot())
    files.configure(**settings)


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory that other users can enter, unlike pytest's own."""
    path = Path(tempfile.mkdtemp(prefix="sluice-harness-"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


@pytest.fixture
def harness(built: Path, place: Path, bundle: bytes) -> Iterator[Harness]:
    """In observe, with everything loaded."""
    harness = Harness(built, place)
    start_files(harness.files, bundle)
    with harness:
        harness.files.wait_until_loaded("bundle", "snapshot")
        yield harness


def submit_known(harness: Harness) -> Outcome:
    """Submit a job that the bundle knows."""
    return harness.submit(**made_model.KNOWN_JOB)


@pytest.mark.parametrize("kind", KINDS)
def test_observe_leaves_every_kind_of_job_alone_and_allocates_nothing(
    harness: Harness, kind: str
) -> None:
    outcome = harness.submit(uid=1000, **{"name": "job", **KINDS[kind]})
    assert outcome == Outcome(rc=0, altered=False, allocations=0, admin_comment="")
    assert len(drain(harness.files.socket)) == 1


@pytest.mark.parametrize("kind", ["sbatch", "srun", "salloc", "salloc of a program", "pty"])
def test_the_launcher_is_told_whatever_a_version_of_slurm_sends(
    harness: Harness, kind: str
) -> None:
    harness.submit(uid=1000, name="job", **KINDS[kind])
    [content] = drain(harness.files.socket)
    expected = "srun" if kind == "pty" else kind.split(maxsplit=1)[0]
    assert Record.parse(content).submission.launcher == expected


def test_advise_allocates_its_note_and_nothing_else(harness: Harness) -> None:
    harness.files.configure(Mode="advise")
    harness.files.wait_for(lambda seen: seen["mode"] == "advise")
    outcome = submit_known(harness)
    assert not outcome.altered
    assert outcome.allocations == 1
    assert outcome.admin_comment.startswith("sluice(v=1,rec=")


def test_a_submission_takes_little_of_a_stack(harness: Harness) -> None:
    """The C library keeps 16 KiB of an ended thread's stack, and slurmctld needs half."""
    harness.files.configure(Mode="enforce")
    harness.files.wait_for(lambda seen: seen["mode"] == "enforce")
    submit_known(harness)
    harness.submit(uid=4711, name="never_seen", nodes=3, script="#!/bin/sh\n\n./run\n" * 999)
    assert harness.stack_bytes() <= 8 * KIB


@pytest.mark.parametrize("comment", ["approved by ops", "JS1:H4sIAAAA", " "])
def test_a_foreign_comment_stays_as_it_is(harness: Harness, comment: str) -> None:
    harness.files.configure(Mode="advise")
    harness.files.wait_for(lambda seen: seen["mode"] == "advise")
    outcome = harness.submit(**made_model.KNOWN_JOB, admin_comment=comment)
    assert (outcome.altered, outcome.allocations) == (False, 0)
    assert outcome.admin_comment == comment


@pytest.mark.parametrize("mode", ["advise", "enforce"])
def test_an_empty_admin_comment_is_left_alone_by_default(harness: Harness, mode: str) -> None:
    """Other tools look for empty ones."""
    harness.files.configure(Mode=mode)
    harness.files.wait_for(lambda seen: seen["mode"] == mode)
    assert submit_known(harness).admin_comment != ""
    own = harness.files.config.read_text().replace("AdminComment=1\n", "")
    install(harness.files.config, own.encode())
    checksum = f"{core.crc64(own.encode()):016x}"
    harness.files.wait_for(lambda seen: seen["config"]["checksum"] == checksum)
    outcome = submit_known(harness)
    assert (outcome.altered, outcome.admin_comment) == (False, "")


@pytest.mark.parametrize("kind", ["follower", "opted out", "pty", "cron", "licences"])
def test_exempt_jobs_get_no_note_but_a_record(harness: Harness, kind: str) -> None:
    harness.files.configure(Mode="advise")
    harness.files.wait_for(lambda seen: seen["mode"] == "advise")
    assert harness.submit(uid=1000, name="job", **KINDS[kind]).admin_comment == ""
    assert len(drain(harness.files.socket)) == 1


@pytest.mark.parametrize(
    ("settings", "job", "turns"),
    [
        ({}, {"io_turns": "(null)"}, None),
        ({"TurnsPort": 6822}, {"io_turns": "(null)"}, None),
        ({"TurnsPort": 6822, "Turns": "off"}, {"io_turns": "(null)"}, "no"),
        ({"TurnsPort": 6822, "Turns": "all"}, {}, "yes"),
        ({"TurnsPort": 6822, "Turns": "all"}, {"io_turns": "no"}, None),
        ({"TurnsPort": 6822, "Turns": "all", "ModeOf": "off Users=1000"}, {}, "no"),
        ({"TurnsPort": 6822, "ModeOf": "off Users=1000"}, {"io_turns": "(null)"}, "no"),
    ],
)
@pytest.mark.parametrize("admin_comment", [0, 1])
def test_the_nodes_are_told_of_turns_that_nobody_asked_for(
    harness: Harness,
    settings: dict[str, str | int],
    job: dict[str, str],
    turns: str | None,
    admin_comment: int,
) -> None:
    """Also in observe, where jobs get no other note; by a variable where there is none."""
    for mode, others in (("advise", {}), ("observe", settings | {"AdminComment": admin_comment})):
        harness.files.configure(Mode=mode, **others)
        harness.files.wait_for(lambda seen, mode=mode: seen["mode"] == mode)
    fields = {"uid": 1000, "name": "job", "script": "#!/bin/sh\n", **job}
    for environment in ("HOME=/home/ann", "SLUICE_TURNS_DECIDED=forged"):
        outcome = harness.submit(**fields, environment=environment)
        assert not outcome.altered
        told = turns or ("forged" if "forged" in environment else None)
        assert outcome.turns == told
        found = re.search(r",turns=(\w+)\)$", outcome.admin_comment)
        assert (found and found[1]) == (turns if admin_comment else None)
        assert (outcome.admin_comment == "") == (turns is None or not admin_comment)
    assert harness.submit(**fields).turns is None  # srun and salloc send no environment


def test_job_modify_succeeds_and_is_counted(harness: Harness) -> None:
    submit_known(harness)
    assert harness.modify(uid=1000, licenses="tool:2") == Change(rc=0, licenses=None)
    assert harness.files.stats()["modifications"] == 1


def test_one_submission_in_eight_is_timed_from_the_first_on(harness: Harness) -> None:
    for submitted, timed in ((1, 1), (8, 1), (9, 2)):
        while harness.files.stats()["submissions"] < submitted:
            submit_known(harness)
        seen = harness.files.stats()
        assert seen["decided"] == submitted
        assert (seen["cpu_ns"]["all"]["count"], seen["cpu_ns"]["known"]["count"]) == (timed, timed)


def test_the_last_answer_is_given_again_only_while_nothing_has_changed(harness: Harness) -> None:
    """Not in another second, to another job, alongside others, in another mode."""
    files, second = harness.files, int(time.time())
    known = made_model.KNOWN_JOB | {"time": second}

    def repeated(**job: str | int) -> int:
        before = files.stats()["repeated"]
        harness.submit(**known | job)
        return files.stats()["repeated"] - before

    assert [repeated(), repeated(), repeated(name="checkpoint_43")] == [0, 1, 1]
    assert [repeated(time=second + 1), repeated(), repeated(nodes=5), repeated()] == [0] * 4
    snapshot = made_model.snapshot(corunners=7)
    install(files.snapshot, snapshot)
    checksum = f"{Snapshot.parse(snapshot).checksum:016x}"
    files.wait_for(lambda seen: seen["snapshot"]["checksum"] == checksum)
    assert [repeated(), repeated()] == [0, 1]
    files.configure(Mode="advise")
    files.wait_for(lambda seen: seen["mode"] == "advise")
    assert [repeated(), repeated()] == [0, 1]
    records = [Record.parse(content) for content in drain(files.socket)]
    assert {record.decision.corunner_count for record in records} == {4, 7}


def test_the_off_file_stops_everything_within_a_second(harness: Harness) -> None:
    harness.files.configure(Mode="advise")
    harness.files.wait_for(lambda seen: seen["mode"] == "advise")
    harness.files.off_file.touch()
    harness.files.wait_for(lambda seen: seen["mode"] == "off", timeout=1.5)
    assert submit_known(harness).admin_comment == ""
    assert drain(harness.files.socket) == []
    harness.files.off_file.unlink()
    harness.files.wait_for(lambda seen: seen["mode"] == "advise", timeout=1.5)
    assert submit_known(harness).admin_comment != ""


# -- what is loaded; the table in loader.h ---------------------------------------


def test_a_configuration_that_goes_missing_or_wrong_means_off(harness: Harness) -> None:
    install(harness.files.config, b"Mode=advise\nFollowInterval=abc\n")
    seen = harness.files.wait_for(lambda seen: seen["mode"] == "off")
    assert "sluice.conf:2" in seen["config"]["error"]
    harness.files.configure()
    harness.files.wait_for(lambda seen: seen["mode"] == "observe")
    harness.files.config.unlink()
    seen = harness.files.wait_for(lambda seen: seen["mode"] == "off")
    assert not seen["bundle"]["loaded"]


@pytest.mark.parametrize("file", ["bundle", "snapshot"])
def test_a_damaged_file_leaves_the_one_in_memory_and_a_missing_one_unloads_it(
    harness: Harness, file: str
) -> None:
    path: Path = getattr(harness.files, file)
    good = path.read_bytes()
    before = harness.files.stats()[file]["checksum"]
    install(path, good[:-1])
    seen = harness.files.wait_for(lambda seen: bool(seen[file]["error"]))
    assert seen[file]["loaded"]
    assert seen[file]["checksum"] == before
    path.unlink()
    seen = harness.files.wait_for(lambda seen: not seen[file]["loaded"])
    assert "No such file" in seen[file]["error"]
    install(path, good)
    assert harness.files.wait_until_loaded(file)[file]["error"] == ""


def test_a_new_bundle_is_taken_up_without_a_restart(harness: Harness) -> None:
    before = harness.files.stats()["bundle"]["checksum"]
    install(harness.files.bundle, made_model.bundle(seed=2))
    harness.files.wait_for(lambda seen: seen["bundle"]["checksum"] != before)


# -- ring and socket ---------------------------------------------------------------


def number_of(record: bytes) -> int:
    return int.from_bytes(record[16:24], "little")


def test_a_full_ring_drops_new_records_and_counts_them(harness: Harness) -> None:
    submit_known(harness)
    harness.repeat(threads=1, count=RING_RECORDS + 5)
    ring = harness.files.stats()["ring"]
    assert (ring["size"], ring["used"]) == (RING_RECORDS, RING_RECORDS)
    assert (ring["dropped"], ring["last"]) == (6, RING_RECORDS + 6)
    waiting = [number_of(record) for record in drain(harness.files.socket)]
    assert waiting == [*range(1, RING_RECORDS + 1)]
    submit_known(harness)
    [record] = drain(harness.files.socket)
    assert number_of(record) == RING_RECORDS + 7


def test_records_wait_until_they_are_acknowledged_for_this_boot(harness: Harness) -> None:
    for _ in range(3):
        submit_known(harness)
    path = harness.files.socket
    boot = harness.files.stats()["boot"]
    other = f"{int(boot, 16) ^ 1:016x}"
    for request in ("drain 0 3 0\n", f"drain {other} 3 0\n", f"drain {boot} 0 9\n"):
        ask(path, request)
        assert harness.files.stats()["ring"]["used"] == 3
    ask(path, f"drain {boot} 2 0\n")
    assert harness.files.stats()["ring"]["used"] == 1


@pytest.mark.parametrize("request_line", ["hello\n", "drain\n", "drain x y z\n", "\n"])
def test_an_unknown_request_is_answered_by_an_error(harness: Harness, request_line: str) -> None:
    assert ask(harness.files.socket, request_line) == b"error unknown request\n"


def test_clients_that_hang_keep_others_waiting_for_seconds_only(harness: Harness) -> None:
    with socket.socket(socket.AF_UNIX) as silent:
        silent.connect(str(harness.files.socket))
        assert ask(harness.files.socket, "stats\n").endswith(b"}\n")


@pytest.mark.skipif(os.geteuid() != 0, reason="becomes another user")
def test_other_users_get_nothing(harness: Harness) -> None:
    harness.files.socket.chmod(0o666)
    child = os.fork()
    if child == 0:
        os.setuid(NOBODY)
        with suppress(OSError):  # hung up on before the request is read
            os._exit(len(ask(harness.files.socket, "stats\n")) > 0)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_newer_controller_has_the_socket_once_the_older_is_gone(
    built: Path, place: Path, bundle: bytes
) -> None:
    """From 23.11 on, two slurmctld overlap for a moment at each reconfigure."""
    with ExitStack() as stack:
        with Harness(built, place) as older:
            start_files(older.files, bundle)
            older.files.wait_until_loaded("bundle", "snapshot")
            old = older.files.stats()["boot"]
            newer = stack.enter_context(Harness(built, place))
            time.sleep(1.5)  # each looks at the socket every second
            assert newer.files.stats()["boot"] == old
        newer.files.wait_for(lambda seen: seen["boot"] != old)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become somebody else")
@pytest.mark.parametrize("is_member", [True, False])
def test_slurm_user_reads_bundle_and_snapshot_by_the_service_group(built, place, bundle, is_member):
    """Root's files of mode 0640, in a directory of the group, as `sluice model publish` leaves."""
    service_group = 1
    groups = f"--groups={service_group}" if is_member else "--clear-groups"
    wrapper = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", groups)
    os.chown(place, NOBODY, service_group)
    (place / "harness.log").touch()
    with Harness(built, place, wrapper=wrapper) as harness:
        files = harness.files
        files.configure()
        write_atomically(files.bundle, bundle)
        write_atomically(files.snapshot, made_model.snapshot())
        assert files.bundle.stat().st_gid == service_group
        assert files.bundle.stat().st_mode & 0o777 == 0o640
        files.wait_for(
            lambda seen: (
                seen["bundle"]["loaded"] and seen["snapshot"]["loaded"]
                if is_member
                else "Permission denied" in seen["bundle"]["error"]
            )
        )
