"""The program that writes real files in the three patterns."""

import itertools
import resource
import subprocess
import time
from pathlib import Path

import pytest
from storage_lab import report, start

KIB = 1 << 10


def sizes(directory: Path) -> list[int]:
    return sorted(path.stat().st_size for path in directory.iterdir())


def test_owc_makes_a_file_for_every_chunk(writer: Path, tmp_path: Path) -> None:
    words = ("--pattern", "owc", "--chunk", "64K", "--volume", "256K", "--processes", "3")
    answer = report(start([writer, *words, "--bursts", "2", tmp_path]))
    assert sizes(tmp_path) == [64 * KIB] * (4 * 3 * 2)
    assert answer["operations"] == 4 * 3 * 2
    assert answer["bytes"] == sum(sizes(tmp_path))


def test_ws_writes_the_same_chunk_again_and_again(writer: Path, tmp_path: Path) -> None:
    words = ("--pattern", "ws", "--chunk", "64K", "--volume", "256K", "--processes", "3")
    answer = report(start([writer, *words, "--bursts", "2", tmp_path]))
    assert sizes(tmp_path) == [64 * KIB] * 3
    assert answer["operations"] == 4 * 3 * 2
    assert answer["bytes"] == 256 * KIB * 3 * 2


def test_aw_appends_to_one_file_per_process(writer: Path, tmp_path: Path) -> None:
    words = ("--pattern", "aw", "--chunk", "64K", "--volume", "256K", "--processes", "3")
    answer = report(start([writer, *words, "--bursts", "2", tmp_path]))
    assert sizes(tmp_path) == [2 * 256 * KIB] * 3
    assert answer["bytes"] == sum(sizes(tmp_path))


def test_processes_spread_over_several_directories(writer: Path, tmp_path: Path) -> None:
    directories = [tmp_path / "a", tmp_path / "b"]
    for directory in directories:
        directory.mkdir()
    words = ("--pattern", "aw", "--volume", "1M", "--processes", "3")
    report(start([writer, *words, *directories]))
    assert [len(sizes(directory)) for directory in directories] == [2, 1]


def test_bursts_are_told_apart_from_the_computing_between(writer: Path, tmp_path: Path) -> None:
    words = ("--pattern", "ws", "--volume", "1M", "--bursts", "3", "--pause", "0.1")
    answer = report(start([writer, *words, "--processes", "2", tmp_path]))
    bursts = answer["bursts"]
    assert [burst["bytes"] for burst in bursts] == [2 << 20] * 3
    assert answer["io_seconds"] == pytest.approx(sum(b["seconds"] for b in bursts), abs=0.001)
    assert answer["wall_seconds"] - answer["io_seconds"] >= 0.199  # two pauses, rounded
    for before, after in itertools.pairwise(bursts):
        assert after["offset_seconds"] >= before["offset_seconds"] + before["seconds"] + 0.099


@pytest.mark.parametrize("pattern", ["owc", "ws", "aw"])
def test_files_can_be_removed_afterwards(writer: Path, tmp_path: Path, pattern: str) -> None:
    words = ("--pattern", pattern, "--volume", "2M", "--processes", "2", "--remove")
    report(start([writer, *words, tmp_path]))
    assert sizes(tmp_path) == []


def test_a_failed_write_names_the_file_and_ends_all_processes(writer: Path, tmp_path: Path) -> None:
    # One process may go on where the others stop at the barrier for ever.
    done = subprocess.run(
        [writer, "--pattern", "aw", "--volume", "2M", "--processes", "3", tmp_path],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
        restore_signals=False,  # Python ignores SIGXFSZ, so the limit is an error
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20)),
    )
    assert done.returncode == 1
    assert done.stdout == ""
    assert f"writer: {tmp_path}/aw." in done.stderr
    assert "write: File too large" in done.stderr


def test_a_missing_directory_is_an_error(writer: Path, tmp_path: Path) -> None:
    process = start([writer, "--pattern", "ws", "--volume", "1M", tmp_path / "missing"])
    output, complaint = process.communicate(timeout=60)
    assert (process.returncode, output) == (1, "")
    assert "create: No such file or directory" in complaint


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--volume", "1M", "."], "--pattern: not valid: missing"),
        (["--pattern", "xyz", "--volume", "1M", "."], "--pattern: not valid: xyz"),
        (["--pattern", "aw", "."], "--volume: not valid: missing"),
        (["--pattern", "aw", "--volume", "1M"], "DIRECTORY: not valid: missing"),
        (["--pattern", "aw", "--volume", "1500K", "."], "no multiple of the chunk"),
        (["--pattern", "aw", "--volume", "-1M", "."], "--volume: not valid: -1M"),
        (["--pattern", "aw", "--volume", "1MB", "."], "--volume: not valid: 1MB"),
        (["--pattern", "aw", "--volume", "99999999999G", "."], "--volume: not valid"),
        (["--pattern", "aw", "--volume", "1M", "--processes", "0", "."], "--processes"),
        (["--pattern", "aw", "--volume", "1M", "--pause", "nan", "."], "--pause: not valid: nan"),
        (["--pattern", "ws", "--volume", "1M", "--flush", "."], "--flush"),
    ],
)
def test_wrong_usage_is_told_from_failed_io(writer: Path, words: list[str], reason: str) -> None:
    process = start([writer, *words])
    output, complaint = process.communicate(timeout=60)
    assert (process.returncode, output) == (2, "")
    assert reason in complaint


def test_bursts_take_their_volumes_in_turn(writer: Path, tmp_path: Path) -> None:
    words = ("--pattern", "ws", "--chunk", "64K", "--volume", "128K,64K", "--bursts", "3")
    answer = report(start([writer, *words, tmp_path]))
    assert [burst["bytes"] for burst in answer["bursts"]] == [128 * KIB, 64 * KIB, 128 * KIB]
    assert answer["operations"] == 5


def test_a_stream_writes_over_its_ring(writer: Path, tmp_path: Path) -> None:
    words = ("--pattern", "aw", "--chunk", "64K", "--volume", "320K", "--ring", "128K", "--flush")
    answer = report(start([writer, *words, tmp_path]))
    assert sizes(tmp_path) == [128 * KIB]
    assert answer["bytes"] == 320 * KIB


def test_the_first_burst_waits_for_its_moment(writer: Path, tmp_path: Path) -> None:
    at = time.time() + 0.5
    words = ("--pattern", "ws", "--volume", "1M", "--at", f"{at:.3f}", "--processes", "2")
    assert report(start([writer, *words, tmp_path]))["started"] >= at - 0.001


def test_a_rate_is_not_exceeded(writer: Path, tmp_path: Path) -> None:
    words = ("--pattern", "aw", "--chunk", "64K", "--volume", "256K", "--rate", "1M")
    answer = report(start([writer, *words, tmp_path]))
    assert answer["io_seconds"] >= 3 / 16  # before the last of four chunks
