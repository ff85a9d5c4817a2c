"""Counters -> numbers, shares and pattern: ground truth, traps, laws."""

import csv
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_logs import MIB, STANDARD_STREAMS, MadeLog, appended
from synthetic.corpus import synthesise

from sluice.darshan.bursts import Heatmap, find_bursts
from sluice.darshan.features import FEATURES, PATTERNS, measure
from sluice.darshan.log import read_log
from sluice.history_db.records import NUMBERS
from sluice.patterns.classifier import packaged_classifier
from sluice.patterns.profile import evidence, profiles_of, read_profile
from sluice.policies import core
from sluice.policies._core import ffi, lib
from sluice.policies.structs import new
from sluice.prediction.jobs import profile_members

LOGS = Path(__file__).parents[1] / "data" / "darshan"
INDEX = list(csv.DictReader((LOGS / "index.csv").open()))
CERTAIN = [row for row in INDEX if row["label_quality"].startswith("clean")]


def profile(log: MadeLog, tmp_path: Path):
    return read_profile(log.write(tmp_path / "made.darshan")).profile


def series(log: MadeLog, *, module="POSIX", files=20, rank=0, chunk=MIB, **more) -> None:
    """Files written one after the other."""
    for i in range(files):
        begin = {"F_WRITE_START_TIMESTAMP": i + 1.0, "F_WRITE_END_TIMESTAMP": i + 1.5}
        appended(
            log,
            module=module,
            file=100 * rank + i + 1,
            rank=rank,
            chunk=chunk,
            count=1,
            **(begin | more),
        )


# Ground truth


@pytest.mark.parametrize("row", CERTAIN, ids=lambda row: row["file"][:30])
def test_chunk_size_and_processes_of_a_log_whose_truth_is_known(row):
    reading = read_profile(LOGS / row["file"])
    numbers = reading.profile.numbers
    assert numbers["nprocs"] == int(row["nprocs"])
    if int(row["chunk_bytes"] or 0) > 1 and row["pattern"] not in {"META", "NONE"}:
        assert numbers["chunk_bytes"] == pytest.approx(int(row["chunk_bytes"]), rel=0.05)
    if (
        row["pattern"] != "NONE"
        and row["expected_write_bytes"]
        and row["api"] in {"POSIX", "STDIO", "MPIIO"}
    ):
        assert numbers["write_bytes"] == pytest.approx(
            int(row["expected_write_bytes"]), rel=0.02, abs=4096
        )


@pytest.mark.parametrize(
    "row",
    [row for row in CERTAIN if float(row["period_s"] or 0) and row["pattern"] != "NONE"],
    ids=lambda row: row["file"][:40],
)
def test_the_period_of_a_log_whose_truth_is_known(row):
    numbers = read_profile(LOGS / row["file"]).profile.numbers
    assert numbers["period_seconds"] == pytest.approx(float(row["period_s"]), rel=0.05)


@pytest.mark.parametrize("row", CERTAIN, ids=lambda row: row["file"][:30])
def test_files_are_shared_where_the_truth_says_so(row):
    share = read_profile(LOGS / row["file"]).profile.numbers.get("shared_share")
    if share is not None and row["layout"] in {"fpp", "shared"} and int(row["nprocs"]) > 1:
        assert share == pytest.approx(1.0 if row["layout"] == "shared" else 0.0, abs=0.01)


@pytest.mark.parametrize(
    ("name", "pattern"),
    [
        ("180_app_lammps_dumpatom_n2", "aw"),
        ("182_app_lammps_dumpperstep_n2", "owc"),
        ("183_app_lammps_dumpperproc_n4", "owc"),
        ("184_app_lammps_restart_multi_n2", "owc"),
        ("185_app_lammps_restart_toggle_n2", "owc"),
        ("187_app_lammps_restart_mpiio_n4", "owc"),
        ("179_app_lammps_nodump_n2", "unknown"),  # a few stream bytes; POSIX was not at work
        ("198_app_dd_fsync_1M", "aw"),
        ("200_app_cp_tree", "metadata"),
    ],
)
def test_real_programs_that_the_classifier_was_not_trained_on(name, pattern):
    assert read_profile(LOGS / f"{name}.darshan").profile.pattern == pattern


# Numbers and traps


def test_flushes_and_creates_become_physical_numbers(tmp_path):
    log = MadeLog(nprocs=2)
    for rank in range(2):
        series(log, rank=rank, chunk=4 * MIB, FSYNCS=1)
    numbers = profile(log, tmp_path).numbers
    assert numbers["bytes_per_flush"] == 4 * MIB
    assert numbers["unflushed_bytes"] == 0
    assert numbers["creates_per_mib"] == pytest.approx(0.25)
    assert numbers["files"] == 40


def test_a_writer_that_never_flushes_leaves_all_it_writes_in_the_cache(tmp_path):
    log = MadeLog(nprocs=4)
    for rank in range(4):
        appended(log, file=rank + 1, rank=rank)
    numbers = profile(log, tmp_path).numbers
    assert numbers["bytes_per_flush"] == numbers["write_bytes"] == 200 * MIB
    assert numbers["unflushed_bytes"] == 50 * MIB


def test_what_was_not_measured_is_unknown_and_not_zero(tmp_path):
    log = MadeLog()
    appended(log)
    numbers = profile(log, tmp_path).numbers
    assert not {"direct_share", "targets", "async_io", "period_seconds"} & set(numbers)


def test_targets_are_those_that_hold_the_bytes_of_all_files(tmp_path):
    """Small files lie anywhere, and a program does not need the targets that they lie on."""
    log = MadeLog(nprocs=4)
    for rank, osts in enumerate(([0, 1], [2, 3], [1, 2], [7, 8])):
        appended(log, file=rank + 1, rank=rank, count=50)
        log.add_layout(file=rank + 1, osts=osts)
    for i in range(10):
        appended(log, file=100 + i, rank=0, chunk=1000, count=1)
        log.add_layout(file=100 + i, osts=[20 + i])
    reading = read_profile(log.write(tmp_path / "made.darshan"))
    assert reading.profile.numbers["targets"] == 6
    assert reading.log.osts == (0, 1, 2, 3, 7, 8, *range(20, 30))


def test_a_file_for_each_process_uses_all_targets_that_they_lie_on(tmp_path):
    log = MadeLog(nprocs=16)
    for rank in range(16):
        appended(log, file=rank + 1, rank=rank)
        log.add_layout(file=rank + 1, osts=[rank % 5])
    assert profile(log, tmp_path).numbers["targets"] == 5


def test_targets_of_files_without_bytes_are_those_that_they_lie_on(tmp_path):
    log = MadeLog()
    log.add("POSIX", file=1, rank=0, counters={"OPENS": 1})
    log.add_layout(file=1, osts=[4, 9, 11])
    log.add_layout(file=77, osts=[12])  # which no other module saw
    assert profile(log, tmp_path).numbers["targets"] == 4


def test_bytes_of_a_buffered_stream_count(tmp_path):
    log = MadeLog()
    appended(log, module="STDIO", chunk=4096, count=1000)
    found = profile(log, tmp_path)
    assert found.pattern == "aw"
    assert found.numbers["write_bytes"] == 4096 * 1000
    assert found.numbers["chunk_bytes"] == 4096


def test_files_of_c_plus_plus_streams_are_opened_once(tmp_path):
    """Opens appear as STDIO_OPENS and POSIX_FILENOS, the data in POSIX_WRITES."""
    log = MadeLog()
    series(log, files=30, chunk=8192, OPENS=1, FILENOS=1)
    for i in range(30):
        log.add("STDIO", file=i + 1, rank=0, counters={"OPENS": 1})
    path = log.write(tmp_path / "a.darshan")
    values = dict(zip(FEATURES, measure(read_log(path)).features, strict=True))
    assert values["log2_opens_per_file"] == pytest.approx(1.0)
    assert read_profile(path).profile.pattern == "owc"


def small_files(count: int, size: int, **more: float) -> MadeLog:
    log = MadeLog()
    for i in range(count):
        counters = {
            "OPENS": 1,
            "WRITES": 1,
            "BYTES_WRITTEN": size,
            "MAX_BYTE_WRITTEN": size - 1,
            "F_WRITE_START_TIMESTAMP": i / 10,
            "F_WRITE_END_TIMESTAMP": i / 10 + 0.01,
        }
        log.add("POSIX", file=i + 1, rank=0, counters=counters | more)
    return log


def test_many_small_files_are_metadata_unless_their_bytes_are_meant(tmp_path):
    """An archive unpacks like that, and OpenFOAM writes its fields like that."""
    unpacked = small_files(600, 2000)
    flushed = small_files(600, 2000, FSYNCS=1)
    streamed = small_files(600, 2000, FILENOS=1)
    for i in range(600):
        streamed.add("STDIO", file=i + 1, rank=0, counters={"OPENS": 1})
    assert profile(unpacked, tmp_path).pattern == "metadata"
    assert profile(flushed, tmp_path).pattern == "owc"
    assert profile(streamed, tmp_path).pattern == "owc"


def test_standard_output_is_a_file_of_the_job_only_where_it_carries_the_result(tmp_path):
    messages, errors, result = MadeLog(), MadeLog(), MadeLog()
    appended(messages, module="STDIO", file=STANDARD_STREAMS[1], chunk=1024)
    appended(errors, module="STDIO", file=STANDARD_STREAMS[2], chunk=MIB)
    appended(result, module="STDIO", file=STANDARD_STREAMS[1], chunk=MIB)
    assert profile(messages, tmp_path).numbers["write_bytes"] == 0
    assert profile(errors, tmp_path).numbers["write_bytes"] == 0
    found = profile(result, tmp_path)
    assert (found.pattern, found.numbers["write_bytes"]) == ("aw", 50 * MIB)


def test_streams_side_by_side_are_no_series(tmp_path):
    log = MadeLog()
    for file in range(1, 7):
        appended(log, file=file)
    assert profile(log, tmp_path).pattern == "aw"


@pytest.mark.parametrize("files", [1, 2, 5])
def test_the_series_of_a_process_do_not_depend_on_what_others_write(tmp_path, files):
    lengths = []
    for others in ((), (0, 1)):
        log = MadeLog(nprocs=3)
        for rank in others:
            appended(log, file=1000 + rank, rank=rank)
        series(log, rank=2, files=files)
        found = measure(read_log(log.write(tmp_path / f"{len(others)}.darshan")))
        lengths.append(found.features[FEATURES.index("log2_successive_files")])
    assert lengths == pytest.approx([np.log2(1 + files)] * 2)


def test_a_file_of_several_processes_is_in_common_however_it_is_recorded(tmp_path):
    log = MadeLog(nprocs=3)
    for file, rank in ((1, 0), (2, 0), (2, 1), (3, -1), (4, 2), (2, 2)):
        appended(log, file=file, rank=rank)
    assert profile(log, tmp_path).numbers["shared_share"] == pytest.approx(4 / 6)


def test_a_file_written_over_and_over_is_rewritten(tmp_path):
    log = MadeLog()
    appended(log, MAX_BYTE_WRITTEN=MIB - 1, SEQ_WRITES=0, CONSEC_WRITES=0)
    assert profile(log, tmp_path).pattern == "ws"


def test_a_file_truncated_by_fopen_for_each_rewrite_is_created_again(tmp_path):
    log = MadeLog()
    appended(log, module="STDIO", OPENS=50, MAX_BYTE_WRITTEN=MIB - 1)
    assert profile(log, tmp_path).pattern == "owc"


def test_phases_of_different_patterns_are_a_mixture(tmp_path):
    log = MadeLog()
    series(log, files=50)
    appended(log, file=999)
    found = profile(log, tmp_path)
    assert found.pattern == "mixed"
    assert found.shares["owc"] == pytest.approx(0.5, abs=0.05)
    assert found.shares["aw"] == pytest.approx(0.5, abs=0.05)


def test_what_was_not_recorded_lowers_the_confidence(tmp_path):
    whole, partial = MadeLog(), MadeLog()
    for log in (whole, partial):
        appended(log)
    certain = profile(whole, tmp_path)
    path = partial.write(tmp_path / "partial.darshan", partial=("POSIX",))
    assert read_profile(path).profile.confidence < certain.confidence


def test_a_log_whose_files_are_not_recorded_is_unknown(tmp_path):
    """The heatmap tells how much was written, nothing tells how."""
    log = MadeLog()
    log.add("POSIX", file=1, rank=0, counters={"OPENS": 1})
    log.add_heatmap(1.0, [MIB * 100] * 10, [0] * 10)
    found = profile(log, tmp_path)
    assert found.pattern == "unknown"
    assert found.numbers["write_bytes"] == 1000 * MIB
    assert "bytes_per_flush" not in found.numbers
    assert "rate" not in found.numbers


def test_a_shared_file_counts_its_slowest_process(tmp_path):
    log = MadeLog(nprocs=4, end=1_700_000_100)
    appended(log, rank=-1, F_WRITE_TIME=40.0, F_SLOWEST_RANK_TIME=20.0)
    numbers = profile(log, tmp_path).numbers
    assert numbers["io_share"] == pytest.approx(0.2, abs=0.01)
    assert numbers["shared_share"] == 1.0
    assert numbers["rate"] == pytest.approx(50 * MIB / 20)


# Bursts


def heatmap(bursts: list[tuple[int, int]], bins: int = 100, seconds: float = 0.1) -> Heatmap:
    written = np.zeros(bins)
    for start, length in bursts:
        written[start : start + length] = 1e6
    return Heatmap(seconds, written, np.zeros(bins))


def test_bursts_of_several_bins_have_a_length_and_a_period():
    found = find_bursts(heatmap([(i, 4) for i in range(0, 100, 20)]))
    assert found.length == pytest.approx(0.4)
    assert found.period == pytest.approx(2.0)


def test_a_burst_shorter_than_two_bins_has_no_length():
    found = find_bursts(heatmap([(i, 1) for i in range(0, 100, 10)]))
    assert found.length is None
    assert found.period == pytest.approx(1.0)


@pytest.mark.parametrize(
    "bursts",
    [[], [(0, 100)], [(5, 3), (50, 3)], [(0, 3), (10, 3), (70, 3), (75, 3)]],
    ids=["nothing", "always", "twice", "irregular"],
)
def test_no_period_is_made_up(bursts):
    assert find_bursts(heatmap(bursts)).period is None


@given(
    period=st.integers(3, 30), length=st.integers(1, 2), seconds=st.sampled_from([0.1, 1.6, 25.6])
)
def test_a_regular_signal_has_its_period(period, length, seconds):
    bursts = [(i, length) for i in range(0, 200 - length, period)]
    found = find_bursts(heatmap(bursts, 200, seconds))
    assert found.period == pytest.approx(period * seconds)


# Laws


def test_every_profile_is_one_that_the_core_accepts():
    error = ffi.new("struct sluice_error *")
    for row in INDEX:
        found = read_profile(LOGS / row["file"]).profile
        struct = new("struct sluice_profile", profile_members(found))
        assert lib.sluice_profile_check(struct, error) == 0, ffi.string(error.text)


@pytest.mark.parametrize("name", ["r11_fio_direct", "r11_maria"])
def test_no_byte_is_shared_out_twice(name):
    """Their files are reopened to be written anew, at places that were there before."""
    found = measure(read_log(LOGS.parent / "programs" / f"{name}.darshan"))
    for shares in (found.shares, found.time_shares):
        assert sum(shares.values()) == pytest.approx(1.0)
        assert min(shares.values()) >= 0


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 1 << 30))
def test_any_run_gives_finite_features_and_shares_that_sum_to_one(seed):
    with tempfile.TemporaryDirectory() as folder:
        for truth in synthesise(Path(folder), 3, seed=seed, first=seed % 7):
            found = measure(read_log(Path(folder) / truth.file))
            assert np.isfinite(found.features).all()
            for shares in (found.shares, found.time_shares):
                assert set(shares) == set(PATTERNS)
                assert sum(shares.values()) == pytest.approx(1.0)
                assert min(shares.values()) >= 0
            assert set(found.numbers) <= set(NUMBERS)
            assert all(np.isfinite(value) and value >= 0 for value in found.numbers.values())


def test_the_evidence_names_what_decided():
    reading = read_profile(LOGS / "183_app_lammps_dumpperproc_n4.darshan")
    words = "; ".join(evidence(reading.profile, reading.features))
    assert "files alike one after the other" in words
    assert "never flushes" in words
    rewritten = read_profile(LOGS / "098_pat_ws_posix_64K_n1_fpp_per0.3.darshan")
    assert "50.0 times, in place" in "; ".join(evidence(rewritten.profile, rewritten.features))
    patched = read_profile(LOGS.parent / "programs" / "r11_sp_counters.darshan")
    assert "leaves gaps" in "; ".join(evidence(patched.profile, patched.features))


def test_patterns_have_the_names_of_the_core():
    classifier = packaged_classifier()
    assert set(PATTERNS) | {"mixed", "unknown"} == set(core.PATTERNS)
    assert set(classifier.patterns) <= set(core.PATTERNS)
    log = read_log(LOGS / CERTAIN[0]["file"])
    (found,) = profiles_of([measure(log)])
    assert found.pattern in core.PATTERNS


# What programs are fed with, order and names


def test_the_input_of_a_compressor_is_no_phase_of_its_own(tmp_path):
    log = MadeLog()
    appended(log, count=20)
    source = {"OPENS": 1, "READS": 40, "BYTES_READ": 40 * MIB, "F_READ_START_TIMESTAMP": 2.0}
    log.add("POSIX", file=2, rank=0, counters=source | {"F_READ_END_TIMESTAMP": 88.0})
    found = profile(log, tmp_path)
    assert found.pattern == "aw"
    assert found.numbers["read_bytes"] == 40 * MIB


@pytest.mark.parametrize(("seconds", "pattern"), [(0.2, "aw"), (20.0, "mixed")])
def test_an_input_that_is_soon_read_before_the_output_is_no_phase(tmp_path, seconds, pattern):
    log = MadeLog()
    appended(log, F_WRITE_START_TIMESTAMP=30.0)
    source = {"OPENS": 1, "READS": 40, "BYTES_READ": 80 * MIB, "F_READ_START_TIMESTAMP": 1.0}
    times = {"F_READ_TIME": seconds, "F_READ_END_TIMESTAMP": 25.0}
    log.add("POSIX", file=2, rank=0, counters=source | times)
    assert profile(log, tmp_path).pattern == pattern


def test_a_file_that_is_written_and_then_read_has_two_phases(tmp_path):
    log = MadeLog()
    again = {"READS": 50, "BYTES_READ": 50 * MIB, "MAX_BYTE_READ": 50 * MIB - 1}
    appended(log, F_READ_START_TIMESTAMP=91.0, F_READ_END_TIMESTAMP=99.0, **again)
    found = profile(log, tmp_path)
    assert found.pattern == "mixed"
    assert found.shares["read"] == pytest.approx(0.5)


def test_a_glance_at_what_is_being_written_is_no_phase(tmp_path):
    """GROMACS reads the end of its output for a checksum before it writes on."""
    log = MadeLog()
    glance = {"READS": 1, "BYTES_READ": 50 * MIB, "MAX_BYTE_READ": 50 * MIB - 1}
    appended(log, F_READ_START_TIMESTAMP=89.0, F_READ_END_TIMESTAMP=89.01, **glance)
    assert profile(log, tmp_path).pattern == "aw"


def jumping(tmp_path, strides: int):
    """A file of which every second write jumps back, the others forward."""
    log = MadeLog()
    appended(
        log,
        count=400,
        SEQ_WRITES=200,
        CONSEC_WRITES=0,
        STRIDE1_STRIDE=MIB,
        STRIDE1_COUNT=strides,
        SIZE_WRITE_100K_1M=400,
    )
    return profile(log, tmp_path).pattern


def test_several_variables_in_one_file_are_not_written_in_disorder(tmp_path):
    assert jumping(tmp_path, strides=200) == "aw"
    assert jumping(tmp_path, strides=10) == "ws"


def test_a_file_written_under_one_name_and_renamed_is_created_each_time(tmp_path):
    log = MadeLog()
    appended(log, MAX_BYTE_WRITTEN=MIB - 1, SEQ_WRITES=0, OPENS=50, RENAME_SOURCES=50)
    assert profile(log, tmp_path).pattern == "owc"


def test_a_c_plus_plus_stream_opened_for_each_large_piece_is_a_series(tmp_path):
    """Its offsets count on through all opens, so that nothing looks rewritten."""
    log = MadeLog()
    appended(log, OPENS=10, FILENOS=10)
    log.add("STDIO", file=1, rank=0, counters={"OPENS": 10})
    assert profile(log, tmp_path).pattern == "owc"


def test_two_files_whose_names_differ_in_a_number_are_a_series(tmp_path):
    log = MadeLog(names={1: "/scratch/restart.100", 2: "/scratch/restart.200"})
    series(log, files=2)
    found = measure(read_log(log.write(tmp_path / "a.darshan")))
    assert found.shares["owc"] == pytest.approx(1.0)


def test_what_passes_unseen_lowers_the_confidence_and_is_named(tmp_path):
    opened, mapped = MadeLog(), MadeLog()
    opened.add("POSIX", file=1, rank=0, counters={"OPENS": 2})
    stretched = {"OPENS": 1, "WRITES": 1, "BYTES_WRITTEN": 1, "MAX_BYTE_WRITTEN": 8 * MIB}
    mapped.add("POSIX", file=1, rank=0, counters=stretched)
    for log, words in ((opened, "saw nothing"), (mapped, "through memory")):
        reading = read_profile(log.write(tmp_path / "a.darshan"))
        assert reading.profile.pattern == "unknown"
        assert words in "; ".join(evidence(reading.profile, reading.features))


def test_a_stream_of_which_nothing_was_recorded_leaves_half_a_confidence_in_reads(tmp_path):
    """Fortified stdio passes Darshan; who writes besides what it reads was seen to write."""
    log = MadeLog()
    reads = {"OPENS": 1, "READS": 40, "BYTES_READ": 40 * MIB, "F_READ_END_TIMESTAMP": 25.0}
    log.add("POSIX", file=1, rank=0, counters=reads)
    sure = read_profile(log.write(tmp_path / "a.darshan"))
    log.add("STDIO", file=2, rank=0, counters={"OPENS": 1})
    unsure = read_profile(log.write(tmp_path / "b.darshan"))
    assert unsure.profile.confidence < 0.6 < sure.profile.confidence
    assert "streams of whose data" in "; ".join(evidence(unsure.profile, unsure.features))
    appended(log, file=3)
    assert read_profile(log.write(tmp_path / "c.darshan")).profile.confidence > 0.6


def test_odd_sizes_prove_that_nothing_bypassed_the_cache(tmp_path):
    odd, whole = MadeLog(), MadeLog()
    appended(odd, chunk=1000)
    appended(whole, chunk=4096)
    assert profile(odd, tmp_path).numbers["direct_share"] == 0
    assert "direct_share" not in profile(whole, tmp_path).numbers


def test_large_writes_of_odd_sizes_are_not_averaged_with_many_small_ones(tmp_path):
    """Darshan keeps four common sizes; of the others it counts how many are of which class."""
    log = MadeLog()
    classes = {"SIZE_WRITE_0_100": 40, "SIZE_WRITE_100K_1M": 3}
    volume = 40 * 50 + 450_000 + 500_000 + 550_000
    appended(log, count=43, ACCESS1_COUNT=0, BYTES_WRITTEN=volume, **classes)
    assert profile(log, tmp_path).numbers["chunk_bytes"] == pytest.approx(500_000, rel=0.05)


def test_a_run_of_varied_sizes_has_the_chunk_that_halves_its_bytes(tmp_path):
    log = MadeLog()
    for power in range(12, 23):
        appended(log, file=power, chunk=1 << power, count=(1 << 26) >> power)
    assert profile(log, tmp_path).numbers["chunk_bytes"] == pytest.approx(1 << 17, rel=0.01)


def test_phases_are_shared_out_by_time_too(tmp_path):
    log = MadeLog()
    series(log, files=50, F_WRITE_TIME=0.06)
    appended(log, file=999, F_WRITE_TIME=1.0)
    found = measure(read_log(log.write(tmp_path / "a.darshan")))
    assert found.shares["owc"] == pytest.approx(0.5, abs=0.05)
    assert found.time_shares["owc"] == pytest.approx(0.75, abs=0.01)


def test_bursts_in_groups_have_the_period_of_the_group():
    groups = [(start + gap, 1) for start in range(0, 180, 30) for gap in (0, 4)]
    assert find_bursts(heatmap(groups, 180)).period == pytest.approx(3.0)


# What feeds the writes


def aside(log: MadeLog, *, read_begin: float, read_end: float) -> None:
    """A file of 20 MiB, written between 1 s and 5 s and read back later."""
    back = {"READS": 20, "BYTES_READ": 20 * MIB, "RW_SWITCHES": 1, "F_WRITE_END_TIMESTAMP": 5.0}
    span = {"F_READ_START_TIMESTAMP": read_begin, "F_READ_END_TIMESTAMP": read_end}
    appended(log, file=2, count=20, **(back | span))


def test_scratch_read_back_while_something_else_is_written_is_no_phase(tmp_path):
    log = MadeLog()
    appended(log, count=20, F_WRITE_START_TIMESTAMP=6.0)
    aside(log, read_begin=6.0, read_end=88.0)
    found = profile(log, tmp_path)
    assert found.pattern == "aw"
    assert "read" not in found.shares


def test_scratch_read_after_everything_is_written_is_a_phase(tmp_path):
    log = MadeLog()
    appended(log, count=5, F_WRITE_START_TIMESTAMP=6.0)
    aside(log, read_begin=91.0, read_end=95.0)
    assert profile(log, tmp_path).shares["read"] == pytest.approx(20 / 45)


def test_who_reads_back_each_of_its_files_is_not_fed_by_them(tmp_path):
    """A benchmark that checks every file before it writes the next one."""
    log = MadeLog()
    for i in range(10):
        back = {"READS": 1, "BYTES_READ": MIB, "F_READ_START_TIMESTAMP": i + 1.5}
        times = {"F_WRITE_START_TIMESTAMP": i + 1.0, "F_WRITE_END_TIMESTAMP": i + 1.4}
        end = {"F_READ_END_TIMESTAMP": i + 1.9}
        appended(log, file=i + 1, count=1, **(back | times | end))
    assert profile(log, tmp_path).shares["read"] == pytest.approx(0.5)


def rewritten_by_block(log: MadeLog, turns: int) -> None:
    """Each of 50 blocks of a file is read and written ten times over."""
    back = {"READS": 500, "BYTES_READ": 500 * MIB, "RW_SWITCHES": turns}
    span = {"F_READ_START_TIMESTAMP": 1.0, "F_READ_END_TIMESTAMP": 89.9}
    appended(log, count=500, MAX_BYTE_WRITTEN=50 * MIB - 1, SEEKS=500, **(back | span))


def test_blocks_read_to_be_rewritten_are_no_phase(tmp_path):
    log = MadeLog()
    rewritten_by_block(log, turns=999)
    assert profile(log, tmp_path).pattern == "ws"


def test_reads_and_rewrites_that_do_not_take_turns_are_two_phases(tmp_path):
    log = MadeLog()
    rewritten_by_block(log, turns=19)
    assert profile(log, tmp_path).pattern == "mixed"


def test_files_that_are_read_and_then_replaced_are_an_input(tmp_path):
    log = MadeLog()
    for i in range(12):
        given = {"READS": 8, "BYTES_READ": MIB, "F_READ_START_TIMESTAMP": i + 1.0}
        times = {"F_WRITE_START_TIMESTAMP": i + 1.4, "F_WRITE_END_TIMESTAMP": i + 1.9}
        end = {"F_READ_END_TIMESTAMP": i + 1.4, "OPENS": 2}
        appended(log, file=i + 1, count=1, **(given | times | end))
    found = profile(log, tmp_path)
    assert found.pattern == "owc"
    assert found.shares.get("read", 0) < 0.1  # the first one's


# Created again, or rewritten in place


def test_a_file_opened_for_each_rewrite_was_emptied_unless_each_write_is_placed(tmp_path):
    log, placed = MadeLog(), MadeLog()
    appended(log, OPENS=50, MAX_BYTE_WRITTEN=MIB - 1, SEQ_WRITES=0, CONSEC_WRITES=0)
    assert profile(log, tmp_path).pattern == "owc"
    appended(placed, OPENS=50, SEEKS=50, MAX_BYTE_WRITTEN=MIB - 1, SEQ_WRITES=0, CONSEC_WRITES=0)
    assert profile(placed, tmp_path).pattern == "ws"


def test_headers_that_a_library_writes_again_do_not_make_a_file_rewritten(tmp_path):
    log = MadeLog()
    appended(log, MAX_BYTE_WRITTEN=40 * MIB - 1)  # 50 MiB in all
    found = profile(log, tmp_path)
    assert found.pattern == "aw"
    assert "ws" not in found.shares


def test_a_file_with_gaps_that_nobody_writes_was_there_before(tmp_path):
    log, sparse = MadeLog(), MadeLog()
    appended(log, MAX_BYTE_WRITTEN=80 * MIB - 1, CONSEC_WRITES=0)  # 50 MiB in all
    assert profile(log, tmp_path).pattern == "ws"
    appended(sparse, module="STDIO", MAX_BYTE_WRITTEN=80 * MIB - 1)  # offsets of streams count on
    assert profile(sparse, tmp_path).pattern == "aw"


def test_processes_that_fill_one_file_together_leave_no_gaps(tmp_path):
    log = MadeLog(nprocs=4)
    for rank in range(4):
        appended(log, rank=rank, MAX_BYTE_WRITTEN=(150 + 50 * (rank == 3)) * MIB - 1)
    assert profile(log, tmp_path).pattern == "aw"


def test_files_of_a_series_may_be_filled_before_they_are_written(tmp_path):
    log = MadeLog()
    series(log, MAX_BYTE_WRITTEN=MIB // 2 - 1)
    assert profile(log, tmp_path).pattern == "owc"


def test_a_file_read_and_written_in_turns_was_not_emptied_by_its_opens(tmp_path):
    log = MadeLog()
    turns = {"READS": 500, "BYTES_READ": 500 * MIB, "RW_SWITCHES": 999, "OPENS": 10}
    span = {"F_READ_START_TIMESTAMP": 1.0, "F_READ_END_TIMESTAMP": 89.9}
    appended(log, count=500, MAX_BYTE_WRITTEN=50 * MIB - 1, **(turns | span))
    assert profile(log, tmp_path).pattern == "ws"
