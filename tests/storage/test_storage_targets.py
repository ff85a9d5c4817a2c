"""Storage targets of a limited speed: they are slow, apart, and leave nothing."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import loop_device
import pytest
from other_owner import guard_of, kill, other_owner
from storage_lab import LIMITS, Remains, report, require, start
from storage_targets import StorageTargets, StorageTargetsError
from target_kinds import LABELS, MIB

pytestmark = pytest.mark.storage

PROGRAM = Path(__file__).parents[1] / "lab" / "storage_targets.py"

OWC = ("--pattern", "owc", "--volume", "12M", "--processes", "2", "--remove")
AW = ("--pattern", "aw", "--volume", "64M", "--remove")  # goes on while OWC writes


class LostError(Exception):
    """What a test raises inside a lab."""


# -- slow, and apart ------------------------------------------------------------


def test_a_program_writes_at_the_rate_that_was_set(targets: StorageTargets, writer: Path) -> None:
    before = targets.bytes_written("sl0")
    words = ("--pattern", "aw", "--volume", "32M", "--processes", "2", "--flush", "--remove")
    answer = report(start(targets.command(writer, *words, targets.path("sl0"))))
    reached = targets.bytes_written("sl0") - before
    assert reached >= answer["bytes"]
    assert 0.4 < reached / answer["io_seconds"] / LIMITS.bandwidth < 1.3


def test_small_flushes_are_limited_by_their_number(targets: StorageTargets, writer: Path) -> None:
    words = ("--pattern", "owc", "--chunk", "4K", "--volume", "400K", "--remove")
    answer = report(start(targets.command(writer, *words, targets.path("sl0"))))
    assert 0.1 < answer["operations"] / answer["io_seconds"] / LIMITS.operations < 1.1


@pytest.mark.acceptance  # compares times, which a busy machine blurs
def test_a_stream_hurts_flushing_writers_on_its_own_target_only(
    targets: StorageTargets, writer: Path
) -> None:
    def io_seconds(alongside: str | None) -> float:
        """I/O time of the OWC program on sl0 while a stream goes to another lane, or to its own."""
        targets.settle()
        with contextlib.ExitStack() as running:
            if alongside is not None:
                stream = start(targets.command(writer, *AW, targets.path(alongside)))
                running.callback(report, stream)
            victim = start(targets.command(writer, *OWC, targets.path("sl0")))
            return float(report(victim)["io_seconds"])

    alone = io_seconds(None)
    assert io_seconds("sl0") / alone > 1.5
    assert io_seconds("sl1") / alone < 1.3


def test_a_flush_reaches_the_target_each_time_and_an_append_waits(
    targets: StorageTargets, writer: Path
) -> None:
    if targets.kind == "simulated":
        pytest.skip("the model has no write-back that could wait")

    def reached(*words: str) -> int:
        targets.settle()
        before = targets.bytes_written("sl0")
        report(start(targets.command(writer, *words, "--volume", "8M", targets.path("sl0"))))
        return targets.bytes_written("sl0") - before

    assert reached("--pattern", "ws") >= 8 * MIB  # though its file is 1 MiB
    assert reached("--pattern", "aw") < 4 * MIB


def test_reads_and_writes_share_a_queue(place: Path) -> None:
    """The kernel's throttles would let each have all of the bandwidth."""
    require("queue", place)
    with StorageTargets(place, lanes=["a"], limits=LIMITS, kinds=["queue"]) as targets:
        file = targets.path("a") / "file"
        words = ["dd", "bs=1M", "count=48"]
        subprocess.run(
            [*words, "if=/dev/zero", f"of={file}", "oflag=direct"], check=True, capture_output=True
        )
        begin = time.monotonic()
        for together in [
            start([*words, f"if={file}", "of=/dev/null", "iflag=direct"]),
            start([*words, "if=/dev/zero", f"of={file}.new", "oflag=direct"]),
        ]:
            assert together.wait() == 0
        rate = 2 * 48 * MIB / (time.monotonic() - begin)
    assert rate < 1.3 * LIMITS.bandwidth


def test_everybody_may_write_to_a_target(targets: StorageTargets) -> None:
    assert targets.path("sl1").stat().st_mode & 0o7777 == 0o1777


def test_results_of_a_model_are_called_simulated(targets: StorageTargets) -> None:
    assert ("simulated" in targets.label) == (targets.kind == "simulated")


def test_a_program_in_a_child_group_does_not_escape(place: Path) -> None:
    """cgroup v1 throttles the tasks of the root group only."""
    require("blkio", place)
    group = Path("/sys/fs/cgroup/blkio") / place.name
    group.mkdir()
    try:
        prefix = ("sh", "-c", 'echo $$ > "$0/cgroup.procs"; exec "$@"', str(group))
        shown = command("up", place, "--kind", "blkio", prefix=prefix)  # tried out by `up`
        assert "start programs behind: /bin/sh" in command("status", place, prefix=prefix)
        assert "start programs behind" not in command("status", place)
        command("down", place)
    finally:
        group.rmdir()
    assert shown.startswith("throttled loop device")


def test_a_full_target_is_an_error(place: Path, writer: Path) -> None:
    require("blkio", place)
    limits = replace(LIMITS, bandwidth=0, operations=0, size=160 * MIB)
    with StorageTargets(place, lanes=["a"], limits=limits, kinds=["blkio"]) as targets:
        process = start([writer, "--pattern", "aw", "--volume", "200M", targets.path("a")])
        output, complaint = process.communicate(timeout=60)
    assert (process.returncode, output) == (1, "")
    assert "No space left on device" in complaint


# -- gone again -------------------------------------------------------------------


@pytest.mark.parametrize("kind", LABELS)
def test_what_came_up_goes_down(place: Path, remains: Remains, kind: str) -> None:
    require(kind, place)
    targets = StorageTargets(place, lanes=["a", "b", "c"], limits=LIMITS, kinds=[kind])
    targets.up()
    remains.note(targets)
    (targets.path("b") / "file").write_bytes(bytes(20 * MIB))  # is still in the cache
    assert remains.found() != []
    targets.down()
    assert remains.found() == []
    targets.down()


@pytest.mark.parametrize("kind", LABELS)
def test_a_failed_block_is_cleaned_up(place: Path, remains: Remains, kind: str) -> None:
    require(kind, place)

    def lose() -> None:
        with StorageTargets(place, limits=LIMITS, kinds=[kind]) as targets:
            remains.note(targets)
            raise LostError

    with pytest.raises(LostError):
        lose()
    assert remains.found() == []


def test_a_failed_start_says_why_and_leaves_nothing(place: Path, remains: Remains) -> None:
    require("blkio", place)
    targets = StorageTargets(place, lanes=["good", "not/good"], limits=LIMITS, kinds=["blkio"])
    with pytest.raises(StorageTargetsError, match=r"blkio: .*not/good"):
        targets.up()
    assert remains.found() == []


OWNER = (
    "import sys; from storage_targets import StorageTargets\n"
    "StorageTargets(sys.argv[1], kinds=[sys.argv[2]]).up()"
)


@pytest.mark.parametrize("kind", LABELS)
def test_targets_go_with_their_killed_owner(place: Path, remains: Remains, kind: str) -> None:
    require(kind, place)
    owner = other_owner(OWNER, place, kind)
    remains.note(StorageTargets.existing(place))
    assert remains.found() != []
    kill(owner)
    assert remains.left() == []


@pytest.mark.parametrize("kind", LABELS)
def test_the_next_owner_removes_what_a_killed_one_left_whose_guard_was_killed_before(
    place: Path, tmp_path: Path, remains: Remains, kind: str
) -> None:
    require(kind, place)
    owner = other_owner(OWNER, place, kind)
    remains.note(StorageTargets.existing(place))
    os.kill(guard_of(owner), signal.SIGKILL)
    kill(owner)
    assert remains.found() != []
    with StorageTargets(tmp_path, limits=LIMITS, kinds=["simulated"]):
        assert remains.found() == []


def test_targets_in_use_are_not_taken_away(place: Path) -> None:
    with StorageTargets(place, limits=LIMITS, kinds=["simulated"]) as targets:
        for action in ("up", "down"):
            other = subprocess.run(
                [sys.executable, PROGRAM, action, place],
                check=False,
                capture_output=True,
                text=True,
            )
            assert other.returncode == 1
            assert "in use by a running process" in other.stderr
        assert targets.path("sl0").is_dir()


def test_a_directory_that_is_not_ours_is_left_alone(place: Path) -> None:
    precious = place / "targets" / "precious"
    precious.mkdir(parents=True)
    with pytest.raises(StorageTargetsError, match="not ours"):
        StorageTargets(place, limits=LIMITS).up()
    assert precious.is_dir()


def test_a_program_that_will_not_leave_holds_nothing_up(place: Path, remains: Remains) -> None:
    require("blkio", place)
    with StorageTargets(place, lanes=["a"], limits=LIMITS, kinds=["blkio"]) as targets:
        remains.note(targets)
        stubborn = subprocess.Popen(["sleep", "600"], cwd=targets.path("a"))
    stubborn.kill()
    stubborn.wait()
    assert remains.left() == []  # the kernel detaches the device when its last user has gone


# -- the command --------------------------------------------------------------------


def command(*words: str | Path, prefix: tuple[str, ...] = ()) -> str:
    return subprocess.run(
        [*prefix, sys.executable, PROGRAM, *words], check=True, capture_output=True, text=True
    ).stdout


def test_the_command_brings_targets_up_until_it_takes_them_down(
    place: Path, remains: Remains
) -> None:
    lanes = ("--lane", "x", "--lane", "y", "--bandwidth", "50")
    assert "50 MB/s" in command("up", place, *lanes)
    remains.note(StorageTargets.existing(place))
    with StorageTargets(place / "other", limits=LIMITS, kinds=["simulated"]):
        shown = command("status", place)  # not taken for a leftover
    assert str(place / "targets" / "x") in shown
    assert str(place / "targets" / "y") in shown
    command("down", place)
    assert remains.found() == []


def test_without_root_the_model_is_taken_and_the_reason_given(place: Path) -> None:
    # In a user namespace of its own even root is nobody, yet may read our files.
    prefix = ("unshare", "--user") if os.geteuid() == 0 else ()
    if prefix and subprocess.run([*prefix, "true"], check=False).returncode != 0:
        pytest.skip("user namespaces are not allowed here")
    shown = command("up", place, prefix=prefix)
    command("down", place, prefix=prefix)
    assert shown.startswith("simulated target")
    assert "blkio: needs root" in shown
    assert "LD_PRELOAD=" in shown


def test_a_mount_point_with_blanks_is_found(place: Path) -> None:
    require("blkio", place)
    place = place / "with blanks and ü"
    with StorageTargets(place, lanes=["a"], limits=LIMITS, kinds=["blkio"]) as targets:
        assert loop_device.mounts(below=place) == [targets.path("a")]
    assert loop_device.mounts(below=place) == []
