"""sluice-probe does the published patterns exactly, and reports what it did."""

import itertools
import math
import os
import re
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import pytest
from probe_program import probe
from storage_targets import StorageTargets
from target_kinds import Limits

KIB = 1 << 10
VOLUME = ("--chunk", "64K", "--volume", "256K", "--processes", "3")

CALLS = "openat,write,lseek,fsync,close,pread64,unlinkat,newfstatat"


def kept(report) -> list[Path]:
    """Files of a run with --keep."""
    return sorted(path for name in report.run["directories"] for path in Path(name).iterdir())


def sizes(report) -> list[int]:
    return sorted(path.stat().st_size for path in kept(report))


def system_calls(program: Path, place: Path, *words: str) -> str:
    """One letter per system call of a process on its own files: o w s f c r u t."""
    if not shutil.which("strace"):
        pytest.skip("strace is not installed")
    log = place / "calls"
    subprocess.run(
        ["strace", "-f", "-y", "-o", log, "-e", f"trace={CALLS}", program, *words, place],
        check=True,
        capture_output=True,
    )
    letters = {"openat": "o", "write": "w", "lseek": "s", "fsync": "f", "close": "c"}
    letters |= {"pread64": "r", "unlinkat": "u", "newfstatat": "t"}
    name = re.escape(words[1])
    found = re.findall(rf"^\d+ +(\w+)\(.*{name}\.0\.", log.read_text(), flags=re.MULTILINE)
    return "".join(letters[call] for call in found)


# -- the patterns ----------------------------------------------------------------


def test_owc_makes_a_file_for_every_chunk(program, tmp_path):
    report = probe(program, "--pattern", "owc", *VOLUME, "--keep", tmp_path)
    assert sizes(report) == [64 * KIB] * (4 * 3)
    assert report.total["operations"] == 4 * 3
    assert report.total["bytes"] == 256 * KIB * 3


def test_ws_writes_the_same_chunk_again_and_again(program, tmp_path):
    report = probe(program, "--pattern", "ws", *VOLUME, "--keep", tmp_path)
    assert sizes(report) == [64 * KIB] * 3
    assert report.total["bytes"] == 256 * KIB * 3


def test_aw_appends_to_one_file_per_process(program, tmp_path):
    report = probe(program, "--pattern", "aw", *VOLUME, "--keep", tmp_path)
    assert sizes(report) == [256 * KIB] * 3


@pytest.mark.parametrize(
    ("words", "calls"),
    [
        (("owc",), "owfc" * 3 + "u" * 3),
        (("owc", "--sync", "none"), "owc" * 3 + "u" * 3),
        (("ws",), "o" + "wf" + "swf" * 2 + "c" + "u"),
        (("ws", "--sync", "close"), "o" + "w" + "sw" * 2 + "fc" + "u"),
        (("aw",), "owwwcu"),
        (("aw", "--sync", "each"), "owfwfwfcu"),
        (("aw", "--sync", "close"), "owwwfcu"),
    ],
)
def test_the_system_calls_are_those_of_the_pattern(program, tmp_path, words, calls):
    """Create, seek, flush and close where the paper has them, and nowhere else."""
    length = ("--chunk", "4K", "--volume", "12K")
    assert system_calls(program, tmp_path, "--pattern", *words, *length) == calls


def test_metadata_operations_are_create_stat_unlink(program, tmp_path):
    report = probe(program, "--pattern", "metadata", "--duration", "0.2", "--keep", tmp_path)
    assert report.total["bytes"] == 0
    assert report.total["operations"] > 0
    assert report.total["operations"] % 3 == 0
    assert kept(report) == []


def test_parts_of_a_mixed_pattern_are_dealt_to_the_processes(program, tmp_path):
    words = ("--pattern", "owc+aw+aw", "--chunk", "64K", "--volume", "256K", "--processes", "4")
    names = [path.name for path in kept(probe(program, *words, "--keep", tmp_path))]
    assert sum(name.startswith("owc.0.") for name in names) == 4
    assert sum(name.startswith("owc.3.") for name in names) == 4
    assert [name for name in names if name.startswith("aw")] == ["aw.1.0", "aw.2.0"]


def test_several_files_of_a_process_are_used_in_turn(program, tmp_path):
    report = probe(program, "--pattern", "aw", *VOLUME, "--files", "2", "--keep", tmp_path)
    assert sizes(report) == [128 * KIB] * 6


@pytest.mark.parametrize(("pattern", "size"), [("aw", 3 * 256 * KIB), ("ws", 3 * 64 * KIB)])
def test_in_a_shared_file_everybody_has_chunks_of_his_own(program, tmp_path, pattern, size):
    report = probe(program, "--pattern", pattern, *VOLUME, "--shared", "--keep", tmp_path)
    (path,) = kept(report)
    assert path.stat().st_size == size
    assert path.stat().st_blocks * 512 >= size  # without a hole


def test_a_file_is_begun_anew_at_its_size(program, tmp_path):
    words = ("--pattern", "aw", *VOLUME, "--file-size", "128K", "--keep")
    report = probe(program, *words, tmp_path)
    assert sizes(report) == [128 * KIB] * 3
    assert report.total["bytes"] == 256 * KIB * 3


def test_processes_are_dealt_to_the_directories(program, tmp_path):
    directories = [tmp_path / "a", tmp_path / "b"]
    for directory in directories:
        directory.mkdir()
    report = probe(program, "--pattern", "aw", *VOLUME, "--keep", *directories)
    assert [path.relative_to(tmp_path).parts[0] for path in kept(report)] == ["a", "a", "b"]


def test_direct_io_bypasses_the_cache(program, tmp_path):
    words = ("--pattern", "aw", "--chunk", "64K", "--volume", "64K")
    calls = tmp_path / "calls"
    subprocess.run(
        ["strace", "-f", "-o", calls, "-e", "trace=openat", program, *words, "--direct", tmp_path],
        check=True,
        capture_output=True,
    )
    assert re.search(r'"aw\.0\.0", .*O_DIRECT', calls.read_text())


# -- reading ----------------------------------------------------------------------


@pytest.mark.parametrize("extra", [(), ("--direct",), ("--shared",), ("--files", "2")])
def test_read_moves_the_volume_from_files_of_its_own(program, tmp_path, extra):
    words = ("--pattern", "read", *VOLUME, "--file-size", "128K", *extra)
    report = probe(program, *words, tmp_path)
    assert report.total["bytes"] == 256 * KIB * 3
    assert report.total["operations"] == 4 * 3


@pytest.mark.parametrize(
    ("words", "how"),
    [
        (("--pattern", "read", "--chunk", "4K"), "direct"),
        (("--pattern", "aw+read", "--processes", "2", "--chunk", "4K"), "direct"),
        (("--pattern", "read", "--chunk", "1000"), "dropped"),
        (("--pattern", "aw", "--chunk", "4K"), None),
    ],
)
def test_a_report_says_how_reads_came_past_the_cache(program, tmp_path, words, how):
    length = ("--volume", words[-1], "--file-size", words[-1])
    assert probe(program, *words, *length, tmp_path).run["past_cache"] == how


LIMITS, KINDS = Limits(size=512 << 20), ["blkio", "io.max"]


@pytest.mark.storage
@pytest.mark.parametrize(("chunk", "how"), [(256 * KIB, "direct"), (250_000, "dropped")])
def test_what_is_read_again_comes_from_the_device_again(program, chunk, how):
    with (
        tempfile.TemporaryDirectory(prefix="sluice-storage-") as name,
        StorageTargets(name, lanes=["a"], limits=LIMITS, kinds=KINDS) as lab,
    ):
        device = lab.path("a").stat().st_dev
        stat = Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}/stat")
        before = int(stat.read_text().split()[2])
        words = ("--chunk", str(chunk), "--volume", str(32 * chunk), "--file-size", str(8 * chunk))
        report = probe(program, "--pattern", "read", "--processes", "2", *words, lab.path("a"))
        read = 512 * (int(stat.read_text().split()[2]) - before)
    assert report.run["past_cache"] == how
    assert report.total["bytes"] == 64 * chunk
    assert read >= report.total["bytes"]


def test_read_takes_what_another_client_has_left(program, tmp_path):
    words = ("--pattern", "aw", *VOLUME, "--keep")
    (written,) = probe(program, *words, tmp_path).run["directories"]
    before = {path: path.stat().st_mtime_ns for path in Path(written).iterdir()}
    words = ("--pattern", "read", *VOLUME, "--from", written)
    assert probe(program, *words, tmp_path).total["bytes"] == 256 * KIB * 3
    assert {path: path.stat().st_mtime_ns for path in Path(written).iterdir()} == before


def files_read(program: Path, place: Path, *words: str | Path) -> dict[str, set[str]]:
    """Which files each process that reads has read, by process."""
    if not shutil.which("strace"):
        pytest.skip("strace is not installed")
    log = place / "calls"
    subprocess.run(
        ["strace", "-f", "-y", "-o", log, "-e", "trace=pread64", program, *words],
        check=True,
        capture_output=True,
    )
    files: dict[str, set[str]] = {}
    line = re.compile(rf"^(\d+) +pread64\(\d+<({re.escape(str(place))}/[^>]*)>", re.MULTILINE)
    for process, path in line.findall(log.read_text()):
        files.setdefault(process, set()).add(path)
    return files


@pytest.mark.parametrize("directories", [1, 2])
@pytest.mark.parametrize("pattern", ["read", "owc+read", "owc+read+read"])
def test_no_two_processes_read_the_same_of_their_own_files(program, tmp_path, pattern, directories):
    """Else the cache of this machine would answer one of them, and not the storage."""
    places = [tmp_path / str(number) for number in range(directories)]
    for place in places:
        place.mkdir()
    words = ("--pattern", pattern, "--processes", "12", "--chunk", "4K", "--file-size", "8K")
    read = files_read(program, tmp_path, *words, "--volume", "16K", *places)
    parts = pattern.split("+")
    assert len(read) == 12 * parts.count("read") // len(parts)
    assert [len(files) for files in read.values()] == [1] * len(read)
    assert len(set.union(*read.values())) == len(read)


def test_files_of_another_client_are_dealt_to_those_who_read(program, tmp_path):
    source, *places = (tmp_path / name for name in ("source", "a", "b"))
    for place in (source, *places):
        place.mkdir()
    for name in "abcd":
        (source / name).write_bytes(bytes(4096))
    words = ("--pattern", "owc+read", "--processes", "4", "--chunk", "4K", "--volume", "8K")
    read = files_read(program, tmp_path, *words, "--from", source, *places)
    assert sorted(sorted(Path(path).name for path in files) for files in read.values()) == [
        ["a", "c"],
        ["b", "d"],
    ]


@pytest.mark.parametrize("pattern", ["ws+aw", "aw+read"])
def test_a_shared_file_of_a_mix_has_no_holes(program, tmp_path, pattern):
    words = ("--pattern", pattern, "--shared", "--processes", "4", "--file-size", "16K")
    length = ("--chunk", "8K", "--volume", "16K", "--keep")
    report = probe(program, *words, *length, tmp_path)
    sizes = {path.name: path.stat().st_size for path in kept(report)}
    assert sizes == {
        f"{part}.shared": (2 if part == "ws" else 4) * 8 * KIB for part in pattern.split("+")
    }


def test_only_files_to_read_have_a_size_unless_one_is_asked_for(program, tmp_path):
    source = tmp_path / "source"
    source.mkdir()
    (source / "small").write_bytes(bytes(1 << 20))
    words = ("--pattern", "aw+read", "--processes", "2", "--volume", "65M", "--from", source)
    report = probe(program, *words, "--keep", tmp_path)
    assert sizes(report) == [65 << 20]


def test_fewer_chunks_than_processes_is_an_error(program, tmp_path):
    source = tmp_path / "source"
    source.mkdir()
    (source / "small").write_bytes(bytes(100))
    words = ("--pattern", "read", "--shared", *VOLUME, "--from", source, tmp_path)
    done = subprocess.run([program, *words], check=False, capture_output=True, text=True)
    assert done.returncode == 1
    assert "fewer chunks than processes" in done.stderr


# -- the report --------------------------------------------------------------------


def test_slices_add_up_and_are_aligned_to_the_clock(program, tmp_path):
    words = ("--pattern", "ws", "--chunk", "64K", "--duration", "0.7", "--slice", "0.05")
    report = probe(program, *words, "--processes", "2", tmp_path)
    assert sum(item["bytes"] for item in report.slices) == report.total["bytes"]
    assert sum(item["operations"] for item in report.slices) == report.total["operations"]
    for before, after in itertools.pairwise(report.slices):
        assert after["time"] - before["time"] == pytest.approx(0.05, abs=1e-5)
    for item in report.slices:
        number = item["time"] / 0.05
        assert abs(number - round(number)) < 1e-3
    start, end = report.total["start"], report.total["end"]
    assert report.slices[0]["time"] <= start < report.slices[0]["time"] + 0.05
    assert report.slices[-1]["time"] < end
    assert end - start >= 0.7


def test_latency_quantiles_are_in_order(program, tmp_path):
    report = probe(program, "--pattern", "owc", "--duration", "0.5", "--chunk", "4K", tmp_path)
    for item in [*report.slices, report.total]:
        if item["operations"]:
            assert 0 < item["p50"] <= item["p90"] <= item["p99"] <= item["max"] < 5


def test_nine_tenths_are_written_between_start_and_end(program, tmp_path):
    total = probe(program, "--pattern", "aw", "--volume", "8M", tmp_path).total
    assert total["start"] < total["reached_90_percent"] <= total["end"] + 0.1


def test_two_probes_begin_at_the_same_instant(program, tmp_path):
    start = time.time() + 3  # for a machine that is busy with something else
    words = ("--pattern", "aw", "--volume", "1M", "--start", f"{start:.6f}", tmp_path)
    both = [subprocess.Popen([program, *map(str, words)], stdout=-1, text=True) for _ in range(2)]
    outputs = [process.communicate(timeout=60)[0] for process in both]
    assert [process.returncode for process in both] == [0, 0]
    for output in outputs:
        assert f'"start": {start:.6f}' in output


def test_an_instant_in_the_past_is_told_from_failed_io(program, tmp_path):
    words = ("--pattern", "aw", "--volume", "1M", "--start", f"{time.time() - 1:.3f}", tmp_path)
    done = subprocess.run([program, *map(str, words)], check=False, capture_output=True, text=True)
    assert done.returncode == 4
    assert "--start: the instant was" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_periodic_program_rests_in_between(program, tmp_path):
    start = math.ceil(time.time() + 1)
    words = ("--pattern", "ws", "--chunk", "4K", "--duration", "2", "--on", "0.3", "--off", "0.7")
    report = probe(program, *words, "--start", str(start), tmp_path)
    operations = {"working": 0, "resting": 0}
    for item in report.slices:
        tenth = round(10 * (item["time"] - start)) % 10
        operations["working" if tenth < 3 else "resting"] += item["operations"]
    assert operations["resting"] <= 2  # the last of each burst may end late
    assert operations["working"] > operations["resting"]


def test_a_pause_ends_with_the_duration(program, tmp_path):
    words = ("--pattern", "ws", "--chunk", "4K", "--duration", "0.4", "--on", "0.1", "--off", "99")
    total = probe(program, *words, tmp_path).total
    assert total["end"] - total["start"] < 90


def test_the_report_names_what_was_asked_for(program, tmp_path):
    odd = tmp_path / 'with "quotes"\n'
    odd.mkdir()
    run = probe(program, "--pattern", "owc+aw", "--volume", "1M", odd).run
    assert run["pattern"] == "owc+aw"
    assert run["sync"] == "each+none"
    assert run["directories"] == [str(odd)]
    assert run["host"] == os.uname().nodename
    assert run["volume_bytes"] == 1 << 20
    assert (run["duration_seconds"], run["file_size_bytes"], run["from"]) == (None, None, None)
    assert run["leave_percent"] == 10


def test_the_report_names_also_what_is_seldom_asked_for(program, tmp_path):
    source = tmp_path / "source"
    source.mkdir()
    (source / "small").write_bytes(bytes(4096))
    words = ("--pattern", "read", "--sync", "close", "--chunk", "4K", "--file-size", "8K")
    length = ("--volume", "16T", "--duration", "0.1", "--leave", "2.5", "--from", source)
    run = probe(program, *words, *length, tmp_path).run
    assert run["sync"] == "close"
    assert run["volume_bytes"] == 16 << 40
    assert run["duration_seconds"] == 0.1
    assert run["file_size_bytes"] == 8 * KIB
    assert run["leave_percent"] == 2.5
    assert run["from"] == str(source)
