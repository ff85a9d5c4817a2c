"""Reading Darshan logs: every format, and the truth about damaged ones."""

import csv
import os
import resource
import shutil
import subprocess
import sys
from pathlib import Path

import darshan
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from log_rows import rows_of
from made_logs import STANDARD_STREAMS, MadeLog

from sluice.darshan.log import (
    DarshanLibraryError,
    DarshanLogError,
    digest_file,
    library_paths,
    load_library,
    read_log,
)
from sluice.ingest.workers import Failure, read_each, read_profiles
from sluice.patterns.profile import read_profile

LOGS = Path(__file__).parents[1] / "data" / "darshan"
REAL = Path(os.environ.get("SLUICE_SHARED", Path(__file__).parents[3] / "shared"))
REAL_LOGS = sorted((REAL / "data" / "darshan" / "real").glob("*.darshan"))
INDEX = list(csv.DictReader((LOGS / "index.csv").open()))
SMALL = LOGS / "001_ior_owc_posix_2K_n1_fpp.darshan"


def read_one(path):
    return next(read_profiles([path]))


def a_posix_log(path: Path, **counters: float) -> Path:
    log = MadeLog()
    log.add("POSIX", file=1, rank=0, counters={"OPENS": 1, **counters})
    return log.write(path)


@pytest.mark.parametrize("row", INDEX, ids=lambda row: row["id"])
def test_the_header_of_our_logs_says_what_the_index_says(row):
    log = read_log(LOGS / row["file"])
    assert (log.nprocs, log.jobid) == (int(row["nprocs"]), int(row["jobid"]))
    assert log.start <= log.end
    assert log.format == "3.41"


@pytest.mark.skipif(not REAL_LOGS, reason="the collection of public logs is not here")
def test_every_format_and_byte_order_is_read():
    formats = set()
    for path in REAL_LOGS:
        log = read_log(path)
        formats.add(log.format)
        assert log.nprocs >= 1
    assert {"3.00", "3.10", "3.20", "3.21", "3.41"} <= formats


@pytest.mark.skipif(not REAL_LOGS, reason="the collection of public logs is not here")
@pytest.mark.parametrize(
    "name",
    [path.name for path in REAL_LOGS if path.name.startswith("mpi-io-test")],
)
def test_one_program_says_the_same_in_all_formats(name):
    """mpi-io-test writes 16 MiB a process to a shared file and reads it again."""
    path = next(path for path in REAL_LOGS if path.name == name)
    assert read_log(path).nprocs == 4
    rows = rows_of(path)
    assert rows["posix_bytes_written"].sum() == 64 << 20
    assert rows["posix_bytes_read"].sum() == 64 << 20
    assert rows["owner"][rows["posix_opens"] > 0].tolist() == [-1]


def test_counters_come_back_as_they_were_written(tmp_path):
    log = MadeLog(uid=1234, jobid=99, nprocs=2, exe="/apps/x --y")
    log.add("POSIX", file=5, rank=0, counters={"OPENS": 3, "F_WRITE_TIME": 0.25})
    log.add("STDIO", file=6, rank=1, counters={"WRITES": 7})
    log.add_heatmap(0.5, [1, 2, 3], [4, 5, 6])
    path = log.write(tmp_path / "a.darshan")
    read, rows = read_log(path), rows_of(path)
    assert (read.uid, read.jobid, read.nprocs, read.exe) == (1234, 99, 2, "/apps/x --y")
    assert rows["posix_opens"].tolist() == [3.0, 0.0]
    assert rows["write_time"].tolist() == [0.25, 0.0]
    assert rows["id"][rows["modules"] == 2].tolist() == [6]
    assert read.heatmap is not None
    assert read.heatmap.bin_seconds == 0.5
    assert read.heatmap.written.tolist() == [1, 2, 3]
    assert read.heatmap.read.tolist() == [4, 5, 6]
    assert not rows["mpiio_bytes_written"].any()


def test_counters_that_a_format_lacks_count_nothing(tmp_path):
    rows = rows_of(a_posix_log(tmp_path / "a.darshan", FSYNCS=-1))
    assert rows["posix_flushes"].tolist() == [0.0]


def test_more_records_than_fit_at_first_are_all_read(tmp_path):
    log = MadeLog(nprocs=5000)
    for rank in range(5000):
        log.add("POSIX", file=rank, rank=rank, counters={"OPENS": 1})
    rows = rows_of(log.write(tmp_path / "a.darshan"))
    np.testing.assert_array_equal(np.sort(rows["owner"]), np.arange(5000))


def test_a_partial_log_says_so(tmp_path):
    log = MadeLog()
    log.add("POSIX", file=1, rank=0, counters={"OPENS": 1})
    assert read_log(log.write(tmp_path / "a.darshan", partial=("POSIX",))).partial
    assert not read_log(log.write(tmp_path / "b.darshan")).partial


def test_a_log_without_mounts_is_read(tmp_path):
    log = MadeLog(mounts=False)
    log.add("POSIX", file=1, rank=0, counters={"OPENS": 1})
    assert len(rows_of(log.write(tmp_path / "a.darshan"))) == 1


def test_modules_of_python_are_known_for_parts_of_a_program():
    nothing = rows_of(LOGS / "178_py_nothing.darshan")
    data = rows_of(LOGS / "176_numpy_read_1M.darshan")
    read = data["posix_bytes_read"] + data["stdio_bytes_read"]
    assert nothing["program"].sum() > 0
    assert read[data["program"] == 0].sum() == pytest.approx(10 << 20, rel=0.01)


# What cannot be believed


@pytest.mark.parametrize(
    ("made", "reason"),
    [
        (MadeLog(nprocs=0), "0 processes"),
        (MadeLog(nprocs=-5), "-5 processes"),
        (MadeLog(start=1_700_000_100, end=1_700_000_000), "ran from 1700000100 to 1700000000"),
        (MadeLog(start=0, end=0), "ran from 0 to 0"),
        (MadeLog(jobid=-1), "as job -1"),
        (MadeLog(uid=-1), "user -1"),
    ],
)
def test_an_impossible_header_is_named(made, reason, tmp_path):
    path = made.write(tmp_path / "a.darshan")
    with pytest.raises(DarshanLogError, match=reason):
        read_log(path)


@pytest.mark.parametrize(("counter", "value"), [("BYTES_WRITTEN", -5), ("WRITES", 1 << 61)])
def test_an_impossible_counter_is_named(counter, value, tmp_path):
    path = a_posix_log(tmp_path / "a.darshan", **{counter: value})
    with pytest.raises(DarshanLogError, match=f"{value} POSIX {counter}"):
        read_log(path)


@pytest.mark.parametrize(
    ("writes", "moved", "sizes", "words"),
    [
        (1, 1 << 20, {"100K_1M": 1 << 40}, "more writes than there were"),
        (10, 4096, {"1G_PLUS": 10}, "more bytes than were moved"),
        (10, 1 << 33, {"0_100": 10}, "fewer bytes than were moved"),
    ],
)
def test_sizes_that_contradict_what_was_moved_are_named(writes, moved, sizes, words, tmp_path):
    counters = {f"SIZE_WRITE_{name}": count for name, count in sizes.items()}
    path = a_posix_log(tmp_path / "a.darshan", WRITES=writes, BYTES_WRITTEN=moved, **counters)
    with pytest.raises(DarshanLogError, match=f"sizes of writes tell of {words}"):
        read_log(path)


@pytest.mark.parametrize(
    ("counters", "words"),
    [
        ({"F_READ_START_TIMESTAMP": 90.0, "F_READ_END_TIMESTAMP": 1.0}, "after the last"),
        ({"F_WRITE_START_TIMESTAMP": 90.0, "F_WRITE_END_TIMESTAMP": 1.0}, "after the last"),
    ],
)
def test_accesses_that_contradict_each_other_are_named(counters, words, tmp_path):
    with pytest.raises(DarshanLogError, match=words):
        read_log(a_posix_log(tmp_path / "a.darshan", **counters))


@pytest.mark.parametrize("rank", [2, 1 << 40])
def test_a_record_of_a_process_that_there_was_not_is_named(rank, tmp_path):
    log = MadeLog(nprocs=2)
    log.add("POSIX", file=1, rank=rank, counters={"OPENS": 1})
    with pytest.raises(DarshanLogError, match=f"record of process {rank}, and had 2 processes"):
        read_log(log.write(tmp_path / "a.darshan"))


@pytest.mark.skipif(not REAL_LOGS, reason="the collection of public logs is not here")
def test_no_genuine_log_is_suspected():
    for path in [*REAL_LOGS, *sorted(LOGS.glob("*.darshan"))]:
        assert read_log(path).nprocs


def test_undefined_sizes_of_accesses_that_never_happened_do_no_harm(tmp_path):
    """Runtime 3.2.0 leaves them so."""
    path = a_posix_log(tmp_path / "a.darshan", ACCESS2_ACCESS=1 << 61, ACCESS2_COUNT=0)
    assert read_log(path).nprocs == 1


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "empty"),
        (b"some text\n" * 50, "not a Darshan log"),
        (b"\x89HDF\r\n\x1a\n" + bytes(4096), "not a Darshan log"),
        (bytes(4096), "not a Darshan log"),
    ],
    ids=["empty", "text", "hdf5", "zeros"],
)
def test_other_files_are_refused_with_the_reason(content, reason, tmp_path):
    path = tmp_path / "a.darshan"
    path.write_bytes(content)
    failure = read_one(path)
    assert isinstance(failure, Failure)
    assert reason in failure.reason


def test_a_directory_or_pipe_is_no_log(tmp_path):
    os.mkfifo(tmp_path / "pipe.darshan")
    for path in (tmp_path, tmp_path / "pipe.darshan"):
        with pytest.raises(DarshanLogError, match="regular file"):
            read_log(path)


def test_no_file_can_keep_who_digests_it(tmp_path):
    """The process that waits for a worker digests what the worker could not read."""
    os.mkfifo(tmp_path / "pipe")
    with (tmp_path / "sparse").open("wb") as file:
        file.truncate(1 << 40)
    for name in ("pipe", "sparse"):
        with pytest.raises(DarshanLogError):
            digest_file(tmp_path / name)


def test_a_header_that_does_not_tell_of_the_whole_file_is_refused(tmp_path):
    """A module whose place in the header was lost would be missed without a word."""
    content = SMALL.read_bytes()
    path = tmp_path / "a.darshan"
    path.write_bytes(content + b"more")
    with pytest.raises(DarshanLogError, match=f"tells of {len(content)} bytes"):
        read_log(path)


@pytest.mark.parametrize(
    ("counters", "reason"),
    [
        ({"BYTES_WRITTEN": 1 << 59}, "moved 5.76e.17 bytes"),
        ({"F_WRITE_END_TIMESTAMP": 1e4}, "used 1e.04 s after"),
        ({"F_READ_TIME": 1e7}, "did I/O for 1e.07 s"),
    ],
)
def test_what_no_job_can_have_done_is_refused(tmp_path, counters, reason):
    path = a_posix_log(tmp_path / "a.darshan", **counters)
    with pytest.raises(DarshanLogError, match=reason):
        read_log(path)


def test_no_truncation_of_a_log_passes_for_the_log(tmp_path):
    """Every length up to the last records is refused; so nothing is half believed."""
    whole = SMALL.read_bytes()
    paths = []
    for size in range(0, len(whole), 37):
        paths.append(tmp_path / f"{size:05}.darshan")
        paths[-1].write_bytes(whole[:size])
    results = list(read_profiles(paths, workers=2))
    assert len(results) == len(paths)
    assert all(isinstance(result, Failure) for result in results)


def test_flipped_bits_are_noticed_or_change_nothing_that_counts(tmp_path):
    whole, truth = SMALL.read_bytes(), read_one(SMALL)
    random = np.random.default_rng(1)
    paths = []
    for i, place in enumerate(random.integers(0, len(whole), 150)):
        damaged = bytearray(whole)
        damaged[place] ^= 1 << int(random.integers(8))
        paths.append(tmp_path / f"{i}.darshan")
        paths[-1].write_bytes(damaged)
    results = list(read_profiles(paths, workers=2))
    assert len(results) == len(paths)
    failures = [result for result in results if isinstance(result, Failure)]
    assert failures
    for result in results:
        if not isinstance(result, Failure):
            assert result.profile.numbers == truth.profile.numbers
            assert result.profile.pattern == truth.profile.pattern


def test_a_log_that_crashes_its_reader_costs_only_itself(tmp_path):
    """As libdarshan-util's assertions do on some damaged logs."""
    crashing = tmp_path / "crashing.darshan"
    shutil.copy(SMALL, crashing)

    def read(path: Path):
        if path == crashing:
            os.abort()
        return read_profile(path)

    results = list(read_each([SMALL, crashing, SMALL, crashing, SMALL], read))
    failures = [result for result in results if isinstance(result, Failure)]
    assert [failure.path for failure in failures] == [crashing, crashing]
    assert all("crashed on it (SIGABRT)" in failure.reason for failure in failures)
    assert len(results) == 5


@pytest.fixture
def place_of_packages(tmp_path, monkeypatch):
    """The one folder in which Python finds packages, and so libdarshan-util."""
    load_library.cache_clear()
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    (tmp_path / "darshan.libs").mkdir()
    yield tmp_path
    load_library.cache_clear()


def test_the_library_is_found_next_to_packages_without_pydarshan(place_of_packages):
    """A useless one does not keep the next from being found."""
    [wheel, *_] = library_paths_of_this_python()
    libs = place_of_packages / "darshan.libs"
    (libs / "libdarshan-util-0.so").write_text("no library")
    shutil.copy(wheel, libs / "libdarshan-util-1.so")
    assert library_paths()[:2] == [str(libs / f"libdarshan-util-{i}.so") for i in (0, 1)]
    assert read_log(SMALL).format == "3.41"


def library_paths_of_this_python() -> list[Path]:
    return sorted(Path(darshan.__file__).parents[1].glob("darshan.libs/libdarshan-util*"))


@pytest.mark.usefixtures("place_of_packages")
def test_no_log_is_blamed_where_the_library_is_missing():
    with pytest.raises(DarshanLibraryError, match="make darshan-util"):
        list(read_profiles([SMALL, SMALL]))


def test_no_flipped_bit_of_a_header_crashes_the_reader(tmp_path):
    """One in the length of a region ended in abort() while the library read the names."""
    content = (LOGS / "180_app_lammps_dumpatom_n2.darshan").read_bytes()
    paths = []
    for place in range(0, 360, 4):
        damaged = bytearray(content)
        damaged[place] ^= 1
        paths.append(tmp_path / f"{place}.darshan")
        paths[-1].write_bytes(damaged)
    results = list(read_profiles(paths, workers=2))
    reasons = [result.reason for result in results if isinstance(result, Failure)]
    assert reasons
    assert not [reason for reason in reasons if "crashed" in reason]


def test_a_log_that_takes_too_long_is_given_up(tmp_path):
    log = MadeLog(nprocs=40_000)
    for rank in range(40_000):
        log.add("POSIX", file=rank, rank=rank, counters={"OPENS": 1})
    slow = log.write(tmp_path / "slow.darshan")
    results = list(read_profiles([slow, SMALL], seconds=0.02))
    failures = [result for result in results if isinstance(result, Failure)]
    assert failures
    assert "took longer" in failures[0].reason
    assert failures[0].digest == digest_file(slow)


def test_a_log_that_needs_too_much_memory_is_given_up(tmp_path):
    files = 300_000
    log = MadeLog(nprocs=files)
    log.add("POSIX", file=0, rank=0, counters={"OPENS": 1})
    (record,) = log.rows["POSIX"]
    log.rows["POSIX"] = [number.to_bytes(8, "little") + record[8:] for number in range(files)]
    large = log.write(tmp_path / "large.darshan")
    # workers are forked: the heap of a long test run may have more than that free
    fresh = [sys.executable, "-c", READ_IN_LITTLE_MEMORY, str(40 << 20), large, SMALL]
    done = subprocess.run(fresh, capture_output=True, text=True, check=True)
    large_reason, small_reason = done.stdout.splitlines()
    assert "memory" in large_reason
    assert small_reason == "-"


def test_workers_together_may_take_half_of_the_machine_at_the_most():
    """Alongside what they share when they start: logs that any user leaves may be of any size."""

    def spare(_: Path) -> int:
        limit, _ = resource.getrlimit(resource.RLIMIT_AS)
        in_use = int(Path("/proc/self/statm").read_text().split()[0])
        return limit - in_use * resource.getpagesize()

    machine = os.sysconf("SC_PHYS_PAGES") * resource.getpagesize()
    (spared,) = read_each([SMALL], spare, workers=16)
    assert isinstance(spared, int)
    assert 0 < spared <= machine / 2 / 16


READ_IN_LITTLE_MEMORY = """
import resource, sys
from pathlib import Path
from sluice.ingest.workers import read_profiles
in_use = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
logs = [Path(name) for name in sys.argv[2:]]
for result in read_profiles(logs, memory=in_use + int(sys.argv[1])):
    print(getattr(result, "reason", "-"))
"""


def test_65536_processes_are_read_like_any_other_log(tmp_path):
    log = MadeLog(nprocs=65_536)
    each = {
        "OPENS": 1,
        "WRITES": 4,
        "BYTES_WRITTEN": 4 << 20,
        "MAX_BYTE_WRITTEN": (4 << 20) - 1,
        "SEQ_WRITES": 3,
        "ACCESS1_ACCESS": 1 << 20,
        "ACCESS1_COUNT": 4,
        "F_WRITE_START_TIMESTAMP": 1.0,
        "F_WRITE_END_TIMESTAMP": 2.0,
        "F_WRITE_TIME": 0.5,
    }
    for rank in range(65_536):
        log.add("POSIX", file=rank + 1, rank=rank, counters=each)
    reading = read_one(log.write(tmp_path / "a.darshan"))
    assert not isinstance(reading, Failure)
    assert reading.profile.pattern == "aw"
    assert reading.profile.numbers["nprocs"] == 65_536
    assert reading.profile.numbers["files"] == 65_536
    assert reading.profile.numbers["write_bytes"] == 65_536 * (4 << 20)
    assert reading.profile.numbers["chunk_bytes"] == 1 << 20


# Records to rows


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["POSIX", "STDIO"]),
            st.integers(1, 3),  # file
            st.integers(-1, 2),  # rank
            st.integers(-1, 1000),  # writes
            st.integers(0, 1 << 40),  # bytes
            st.floats(0, 100),  # end of the last write
        ),
        max_size=20,
    )
)
@settings(max_examples=60, deadline=None)
def test_a_row_is_the_sum_of_the_records_of_its_file_and_owner(tmp_path_factory, records):
    log = MadeLog(nprocs=3)
    expected: dict[tuple[int, int], list[float]] = {}
    for module, file, rank, writes, written, end in records:
        counters = {"WRITES": writes, "BYTES_WRITTEN": written, "F_WRITE_END_TIMESTAMP": end}
        log.add(module, file=file, rank=rank, counters=counters)
        sums = expected.setdefault((file, rank), [0.0, 0.0, 0.0])
        sums[0] += max(0, writes)
        sums[1] += written
        sums[2] = max(sums[2], end)
    rows = rows_of(log.write(tmp_path_factory.mktemp("made") / "a.darshan"))
    found = {
        (int(row["id"]), int(row["owner"])): [
            row["posix_writes"] + row["stdio_writes"],
            row["posix_bytes_written"] + row["stdio_bytes_written"],
            row["write_end"],
        ]
        for row in rows
    }
    assert found == expected


@pytest.mark.skipif(not REAL_LOGS, reason="the collection of public logs is not here")
def test_times_of_logs_of_the_other_byte_order_are_seconds():
    """libdarshan-util 3.5 leaves F_META_TIME of format 3.0 to 3.1 unswapped."""
    for path in REAL_LOGS:
        if "ppc64" in path.name:
            (row,) = rows_of(path)
            assert 1e-3 < row["meta_time"] < 10


def test_standard_streams_are_no_files(tmp_path):
    log = MadeLog()
    for file in (*STANDARD_STREAMS, 1):
        log.add("STDIO", file=file, rank=0, counters={"WRITES": 1})
    assert rows_of(log.write(tmp_path / "a.darshan"))["id"].tolist() == [1]


def test_a_standard_output_that_carries_the_result_is_a_file(tmp_path):
    log = MadeLog()
    for file in STANDARD_STREAMS:
        for module in ("POSIX", "STDIO"):
            log.add(module, file=file, rank=0, counters={"WRITES": 9, "BYTES_WRITTEN": 96 << 10})
    (row,) = rows_of(log.write(tmp_path / "a.darshan"))
    assert row["id"] == STANDARD_STREAMS[1]
    assert row["posix_bytes_written"] == row["stdio_bytes_written"] == 96 << 10


def test_names_tell_programs_and_series(tmp_path):
    log = MadeLog(names={1: "/s/dump.100", 2: "/s/dump.2000", 3: "/s/log", 4: "/usr/lib/x.so.6"})
    for file in (1, 2, 3):
        log.add("POSIX", file=file, rank=0, counters={"BYTES_WRITTEN": 1})
    log.add("POSIX", file=4, rank=0, counters={"BYTES_READ": 1})
    rows = {int(row["id"]): row for row in rows_of(log.write(tmp_path / "a.darshan"))}
    assert rows[1]["stem"] == rows[2]["stem"] != rows[3]["stem"]
    assert [rows[file]["program"] for file in (1, 2, 3, 4)] == [0, 0, 0, 1]


@pytest.mark.skipif(not REAL_LOGS, reason="the collection of public logs is not here")
def test_the_targets_of_files_on_lustre_are_known():
    for path in REAL_LOGS:
        if path.name.startswith("snyder_ior-POSIX"):
            log = read_log(path)
            assert log.targets
            assert rows_of(path)["stripe_count"].max() == len(log.targets)
            assert read_profile(path).log.osts == tuple(sorted(log.targets))


def test_a_trace_of_single_operations_is_never_read(tmp_path):
    """Its records cannot even be parsed here, and the log is read all the same."""
    log = MadeLog()
    log.add("POSIX", file=1, rank=0, counters={"OPENS": 1})
    log.rows["DXT_POSIX"] = [os.urandom(1 << 20)]
    rows = rows_of(log.write(tmp_path / "a.darshan"))
    assert rows["posix_opens"].tolist() == [1.0]
