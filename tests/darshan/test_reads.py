"""What a log says of reads: their size, their order, and which never reached the servers."""

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_logs import MIB, MadeLog, appended

from sluice.darshan.features import measure
from sluice.darshan.log import read_log

DATA = Path(__file__).parents[1] / "data"
GIB = 1024 * MIB


def numbers_of(log: MadeLog, folder: Path, **how) -> dict[str, float]:
    return measure(read_log(log.write(folder / "made.darshan", **how))).numbers


def read(log: MadeLog, *, file=1, rank=0, module="POSIX", chunk=MIB, count=50, **more) -> None:
    """Let a file be read once from its start, in so many chunks."""
    total = chunk * count
    counters = {
        "OPENS": 1,
        "READS": count,
        "BYTES_READ": total,
        "MAX_BYTE_READ": total - 1,
        "F_READ_START_TIMESTAMP": 20.0,
        "F_READ_END_TIMESTAMP": 60.0,
    }
    if module == "POSIX":
        counters |= {
            "SEQ_READS": count - 1,
            "CONSEC_READS": count - 1,
            "ACCESS1_ACCESS": chunk,
            "ACCESS1_COUNT": count,
        }
    log.add(module, file=file, rank=rank, counters=counters | more)


@pytest.mark.parametrize(
    ("name", "chunk", "in_order", "cached"),
    [
        ("069_ior_read_mpiio_16K_n4_shared", 16384, 1.0, 0.0),
        ("072_ior_read_posix_1M_n4_fpp", MIB, 1.0, 0.0),
        # each process reads back its own file, or through MPI-IO that of another one
        ("074_ior_mixed_posix_1M_n4_fpp", MIB, 1.0, 1.0),
        ("075_ior_mixed_mpiio_1M_n2_shared", MIB, 1.0, 0.0),
        # reads each file twice
        ("139_pat_read_posix_64K_n4_fpp", 65536, 1.0, 0.5),
    ],
)
def test_real_logs_whose_reads_are_known(name, chunk, in_order, cached):
    found = measure(read_log(DATA / "darshan" / f"{name}.darshan")).numbers
    assert found["read_chunk_bytes"] == chunk
    assert found["read_sequential_share"] == pytest.approx(in_order, abs=0.01)
    assert found["read_cached_share"] == pytest.approx(cached, abs=0.01)


def test_a_program_that_reads_and_writes_has_a_size_of_each(tmp_path):
    log = MadeLog()
    appended(log, chunk=4096, count=9000)
    read(log, file=2, chunk=MIB, count=12)
    found = numbers_of(log, tmp_path)
    assert (found["chunk_bytes"], found["read_chunk_bytes"]) == (4096, MIB)


def test_of_what_a_run_does_not_read_nothing_is_known(tmp_path):
    log = MadeLog()
    appended(log)
    assert not {"read_chunk_bytes", "read_sequential_share", "read_cached_share"} & set(
        numbers_of(log, tmp_path)
    )


@pytest.mark.parametrize(
    ("more", "in_order"),
    [
        ({}, 1.0),
        ({"CONSEC_READS": 0, "SEQ_READS": 25}, 0.0),  # here and there
        ({"CONSEC_READS": 24, "SEQ_READS": 49}, 24 / 49),
        ({"OPENS": 50, "CONSEC_READS": 0, "SEQ_READS": 0}, 1.0),  # all of it, a piece an open
        ({"OPENS": 50, "CONSEC_READS": 0, "MAX_BYTE_READ": GIB}, None),  # a piece of each
    ],
)
def test_reads_in_order_are_those_that_begin_where_the_one_before_ended(tmp_path, more, in_order):
    log = MadeLog()
    read(log, **more)
    assert numbers_of(log, tmp_path).get("read_sequential_share") == in_order


@pytest.mark.parametrize(("seeks", "in_order"), [(0, 1.0), (29, 20 / 49), (500, 0.0)])
def test_a_stream_is_read_in_order_between_its_seeks(tmp_path, seeks, in_order):
    log = MadeLog()
    read(log, module="STDIO", SEEKS=seeks)
    assert numbers_of(log, tmp_path)["read_sequential_share"] == in_order


def test_files_count_by_their_bytes(tmp_path):
    log = MadeLog()
    read(log, count=30)
    read(log, file=2, chunk=4096, count=2560, CONSEC_READS=0, SEQ_READS=1000)
    assert numbers_of(log, tmp_path)["read_sequential_share"] == pytest.approx(0.75)


WRITTEN = {"WRITES": 50, "BYTES_WRITTEN": 50 * MIB, "MAX_BYTE_WRITTEN": 50 * MIB - 1}
BEFORE = {"F_WRITE_START_TIMESTAMP": 1.0, "F_WRITE_END_TIMESTAMP": 15.0}
AFTER = {"F_WRITE_START_TIMESTAMP": 70.0, "F_WRITE_END_TIMESTAMP": 90.0}


@pytest.mark.parametrize(
    ("more", "cached"),
    [
        ({}, 0.0),
        (WRITTEN | BEFORE, 1.0),
        (WRITTEN | AFTER, 0.0),
        (WRITTEN, 0.0),  # no telling when
        (WRITTEN | BEFORE | {"MAX_BYTE_READ": 100 * MIB - 1, "BYTES_READ": 100 * MIB}, 0.5),
        ({"MAX_BYTE_READ": 10 * MIB - 1}, 0.8),  # five times the same
        ({"BYTES_READ": 2 * GIB, "MAX_BYTE_READ": GIB}, 0.0),  # more than memory surely keeps
    ],
)
def test_what_the_process_wrote_or_read_before_comes_from_the_cache(tmp_path, more, cached):
    log = MadeLog()
    read(log, **more)
    assert numbers_of(log, tmp_path)["read_cached_share"] == pytest.approx(cached, abs=1e-6)


def test_processes_may_each_run_on_a_node_of_their_own(tmp_path):
    log = MadeLog(nprocs=4)
    read(log, rank=-1, BYTES_READ=100 * MIB, MAX_BYTE_READ=25 * MIB - 1)
    assert numbers_of(log, tmp_path)["read_cached_share"] == 0
    log = MadeLog(nprocs=4)
    read(log, rank=-1, BYTES_READ=200 * MIB, MAX_BYTE_READ=25 * MIB - 1)
    assert numbers_of(log, tmp_path)["read_cached_share"] == 0.5
    log = MadeLog(nprocs=4)
    read(log, rank=-1, **WRITTEN, **BEFORE)
    assert numbers_of(log, tmp_path)["read_cached_share"] == 0


def test_the_programs_own_files_are_no_reads(tmp_path):
    log = MadeLog(names={2: "/usr/lib/python3/os.py"})
    read(log, chunk=MIB, count=5)
    read(log, file=2, chunk=2048, count=9000, CONSEC_READS=0)
    found = numbers_of(log, tmp_path)
    assert found["read_bytes"] == 5 * MIB
    assert (found["read_chunk_bytes"], found["read_sequential_share"]) == (MIB, 1.0)


def test_where_only_a_layer_above_tells_of_reads_their_places_are_unknown(tmp_path):
    log = MadeLog()
    counters = {"OPENS": 1, "READS": 50, "BYTES_READ": 50 * MIB}
    log.add("DFS", file=1, rank=0, counters=counters)
    found = numbers_of(log, tmp_path)
    assert found["read_bytes"] == 50 * MIB
    assert "read_sequential_share" not in found
    assert "read_cached_share" not in found


COUNTS = st.integers(0, 10**6)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(COUNTS, COUNTS, COUNTS, st.integers(1, 1 << 22), COUNTS, COUNTS, st.booleans()),
        min_size=1,
        max_size=5,
    )
)
def test_any_counts_give_shares(files):
    log = MadeLog(nprocs=2)
    for number, (opens, reads, consecutive, chunk, last, written, is_shared) in enumerate(files):
        log.add(
            "POSIX",
            file=number + 1,
            rank=-1 if is_shared else number % 2,
            counters={
                "OPENS": opens,
                "READS": reads,
                "CONSEC_READS": consecutive,
                "BYTES_READ": reads * chunk,
                "MAX_BYTE_READ": last,
                "WRITES": written,
                "BYTES_WRITTEN": written,
                "MAX_BYTE_WRITTEN": max(0, written - 1),
                "F_READ_START_TIMESTAMP": 2.0,
                "F_WRITE_START_TIMESTAMP": 1.0,
                "F_READ_END_TIMESTAMP": 4.0,
                "F_WRITE_END_TIMESTAMP": 3.0,
            },
        )
    with tempfile.TemporaryDirectory() as folder:
        found = numbers_of(log, Path(folder))
    for name in ("read_sequential_share", "read_cached_share"):
        assert 0 <= found.get(name, 0) <= 1
    if not found.get("read_bytes"):
        assert "read_chunk_bytes" not in found
