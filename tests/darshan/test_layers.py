"""Bytes that only layers above POSIX know of, and runs of which nothing is known."""

import zlib
from pathlib import Path

import pytest
from log_rows import rows_of
from made_logs import HEATMAP_OF_DAOS, HEATMAP_OF_MPIIO, HEATMAP_OF_STDIO, MIB, MadeLog, appended
from stored_logs import write_log

from sluice.darshan.features import measure
from sluice.darshan.log import DarshanLogError, read_log
from sluice.patterns.profile import evidence, read_profile

ODD = Path(__file__).parents[1] / "data" / "odd_logs"
TIMES = {"F_WRITE_START_TIMESTAMP": 1.0, "F_WRITE_END_TIMESTAMP": 9.0, "F_WRITE_TIME": 5.0}
WRITTEN = {
    "MPI-IO": {"COLL_OPENS": 4, "COLL_WRITES": 64},
    "H5D": {"OPENS": 1, "WRITES": 64},
    "PNETCDF_VAR": {"OPENS": 1, "COLL_WRITES": 64},
    "PNETCDF_FILE": {"CREATES": 1},
    "DFS": {"OPENS": 1, "WRITES": 60, "WRITEXS": 4},
    "DAOS": {"ARRAY_OPENS": 1, "ARRAY_WRITES": 64},
}
PARTS = {"H5D", "PNETCDF_VAR"}


def unwatched():
    """A log of a run without POSIX."""
    return MadeLog(nprocs=4, watched=False)


def tell(log, module, *, file=1, written=64 * MIB, rank=-1, **more):
    """Let a layer tell of a file."""
    times = {} if module == "PNETCDF_FILE" else TIMES
    counters = WRITTEN[module] | {"BYTES_WRITTEN": written} | times | more
    part = {"part_of": file} if module in PARTS else {}
    log.add(module, file=file + 1000 * len(part), rank=rank, counters=counters, **part)


def written_in(log, path):
    return measure(read_log(log.write(path))).numbers.get("write_bytes")


@pytest.mark.parametrize("module", WRITTEN)
def test_bytes_count_where_one_layer_alone_tells_of_them(tmp_path, module):
    log = unwatched()
    tell(log, module)
    reading = read_profile(log.write(tmp_path / "a.darshan"))
    assert reading.profile.numbers["write_bytes"] == 64 * MIB
    assert reading.profile.pattern == "aw"
    assert "only MPI-IO, HDF5, PnetCDF or DAOS" in "; ".join(
        evidence(reading.profile, reading.features)
    )
    if module != "PNETCDF_FILE":
        assert reading.profile.numbers["chunk_bytes"] == MIB
        assert reading.profile.numbers["io_share"] > 0


@pytest.mark.parametrize("module", WRITTEN)
def test_bytes_that_were_read_count_likewise(tmp_path, module):
    log = unwatched()
    tell(log, module, written=0, BYTES_READ=64 * MIB)
    numbers = read_profile(log.write(tmp_path / "a.darshan")).profile.numbers
    assert (numbers["write_bytes"], numbers["read_bytes"]) == (0, 64 * MIB)


@pytest.mark.parametrize("below", ["POSIX", "STDIO"])
@pytest.mark.parametrize("module", ["MPI-IO", "H5D", "PNETCDF_VAR", "PNETCDF_FILE"])
def test_bytes_of_a_file_that_a_lower_layer_tells_of_count_once(tmp_path, module, below):
    log = MadeLog(nprocs=4)
    for rank in range(2):  # two of four processes write what all four hand over
        appended(log, module=below, rank=rank, count=32)
    tell(log, module)
    assert written_in(log, tmp_path / "a.darshan") == 64 * MIB


def test_each_file_is_told_of_by_the_lowest_layer_that_has_it(tmp_path):
    log = MadeLog(nprocs=4)
    appended(log, file=1, count=10)
    tell(log, "MPI-IO", file=1, written=10 * MIB)
    tell(log, "MPI-IO", file=2, written=20 * MIB)
    tell(log, "H5D", file=2, written=21 * MIB)
    tell(log, "H5D", file=3, written=30 * MIB)
    assert written_in(log, tmp_path / "a.darshan") == 60 * MIB


def test_a_file_of_which_posix_saw_no_byte_is_told_of_above(tmp_path):
    log = MadeLog(nprocs=4)
    log.add("POSIX", file=1, rank=0, counters={"OPENS": 1, "STATS": 1})
    tell(log, "MPI-IO")
    assert written_in(log, tmp_path / "a.darshan") == 64 * MIB


def test_datasets_and_variables_of_a_file_add_up(tmp_path):
    log = MadeLog(nprocs=4)
    for dataset in range(3):
        counters = {"WRITES": 1, "BYTES_WRITTEN": MIB}
        log.add("H5D", file=dataset + 10, rank=0, counters=counters, part_of=7)
    rows = rows_of(log.write(tmp_path / "a.darshan"))
    assert rows["id"].tolist() == [7]
    assert rows["posix_bytes_written"].tolist() == [3 * MIB]
    assert rows["max_byte_written"].tolist() == [3 * MIB - 1]


def test_what_passes_daos_counts_once_though_its_objects_have_other_names(tmp_path):
    log = MadeLog(nprocs=4)
    tell(log, "MPI-IO", file=1)
    tell(log, "DFS", file=2)
    tell(log, "DAOS", file=3)
    assert written_in(log, tmp_path / "a.darshan") == 64 * MIB


@pytest.mark.parametrize("order", ["<", ">"])
def test_datasets_that_do_not_tell_their_file_count_where_nothing_else_does(tmp_path, order):
    """Version 1 of H5D; of either byte order."""
    words = [9, 0, 1, 0, 4, 0, 0, 4 * MIB, *[0] * 105]
    plain = b"".join(word.to_bytes(8, "little" if order == "<" else "big") for word in words)
    path = write_log(
        tmp_path / "a.darshan", {"H5D": (1, zlib.compress(plain))}, nprocs=1, order=order
    )
    assert rows_of(path)["posix_bytes_written"].tolist() == [4 * MIB]


def test_a_real_log_without_posix_tells_what_mpi_io_wrote():
    reading = read_profile(ODD / "without_posix.darshan")
    assert reading.profile.numbers["write_bytes"] == 256 * MIB
    assert reading.profile.numbers["burst_seconds"] > 1
    assert reading.profile.pattern == "aw"


# Heatmaps


def test_what_mpi_io_moved_fills_the_heatmap_where_posix_has_none(tmp_path):
    log = MadeLog(nprocs=4)
    tell(log, "MPI-IO", written=5)
    log.add_heatmap(1.0, [2, 3, 0], [0, 0, 1], HEATMAP_OF_MPIIO)
    log.add_heatmap(1.0, [1, 0, 0], [0, 0, 0], HEATMAP_OF_STDIO)
    heatmap = read_log(log.write(tmp_path / "a.darshan")).heatmap
    assert heatmap is not None
    assert (heatmap.written.tolist(), heatmap.read.tolist()) == ([3, 3, 0], [0, 0, 1])


@pytest.mark.parametrize("above", [HEATMAP_OF_MPIIO, HEATMAP_OF_DAOS])
def test_each_byte_of_the_heatmap_is_seen_once(tmp_path, above):
    log = MadeLog()
    appended(log)
    log.add_heatmap(1.0, [2, 3], [0, 0])
    log.add_heatmap(1.0, [2, 3], [0, 0], above)
    heatmap = read_log(log.write(tmp_path / "a.darshan")).heatmap
    assert heatmap is not None
    assert heatmap.written.tolist() == [2, 3]


# What is not known


def says_unknown(path):
    reading = read_profile(path)
    assert "write_bytes" not in reading.profile.numbers
    assert "Darshan did not see its files" in "; ".join(evidence(reading.profile, reading.features))
    return reading.profile.pattern == "unknown"


def test_a_log_of_nothing_does_not_say_that_the_run_did_nothing(tmp_path):
    """So do logs of `DARSHAN_MOD_DISABLE=POSIX`, whatever the program did."""
    assert says_unknown(unwatched().write(tmp_path / "a.darshan"))


@pytest.mark.parametrize(
    ("module", "opened"),
    [("H5F", "OPENS"), ("PNETCDF_FILE", "OPENS"), ("MPI-IO", "COLL_OPENS"), ("STDIO", "OPENS")],
)
def test_files_that_were_opened_and_not_watched_do_not_say_so_either(tmp_path, module, opened):
    log = unwatched()
    log.add(module, file=1, rank=-1, counters={opened: 4})
    assert says_unknown(log.write(tmp_path / "a.darshan"))


def test_traces_alone_say_nothing(tmp_path):
    path = write_log(tmp_path / "a.darshan", {"DXT_POSIX": (2, b"never read")}, nprocs=1)
    assert says_unknown(path)


def test_a_program_that_posix_watched_and_found_idle_did_nothing(tmp_path):
    assert read_profile(MadeLog().write(tmp_path / "a.darshan")).profile.pattern == "none"
    log = MadeLog()
    log.add("POSIX", file=1, rank=0, counters={"OPENS": 1, "BYTES_READ": 100, "READS": 1})
    assert read_profile(log.write(tmp_path / "a.darshan")).profile.pattern == "none"


def test_a_full_module_with_few_bytes_says_nothing(tmp_path):
    log = MadeLog()
    log.add("POSIX", file=1, rank=0, counters={"OPENS": 1, "BYTES_READ": 100, "READS": 1})
    assert says_unknown(log.write(tmp_path / "a.darshan", partial=("POSIX",)))


@pytest.mark.parametrize("module", ["MPI-IO", "H5D", "DFS", "MDHIM", "OF_TOMORROW"])
def test_a_module_that_cannot_be_read_says_nothing(tmp_path, module, monkeypatch):
    monkeypatch.setitem(write_log.__globals__["MODULES"], "MDHIM", (12, 1))
    monkeypatch.setitem(write_log.__globals__["MODULES"], "OF_TOMORROW", (23, 1))
    log = MadeLog()
    log.add("POSIX", file=1, rank=0, counters={"OPENS": 1, "BYTES_READ": 100, "READS": 1})
    regions = {"POSIX": (4, zlib.compress(log.rows["POSIX"][0])), module: (9, b"unknown")}
    assert says_unknown(write_log(tmp_path / "a.darshan", regions, nprocs=1))


def test_a_module_that_cannot_be_read_is_no_loss_where_posix_tells_enough(tmp_path):
    log = MadeLog()
    appended(log)
    regions = {"POSIX": (4, zlib.compress(log.rows["POSIX"][0])), "MPI-IO": (9, b"unknown")}
    reading = read_profile(write_log(tmp_path / "a.darshan", regions, nprocs=1))
    assert reading.profile.pattern == "aw"


@pytest.mark.parametrize("module", ["H5D", "DFS"])
def test_damaged_records_of_a_layer_are_named(tmp_path, module):
    version = 2 if module == "H5D" else 1
    path = write_log(tmp_path / "a.darshan", {module: (version, zlib.compress(b"half"))}, nprocs=1)
    with pytest.raises(DarshanLogError, match=f"the {module} records are damaged"):
        read_log(path)


# Counters of layers that cannot be true


def test_wrapped_bytes_of_mpi_io_do_not_matter_where_posix_tells_of_the_file(tmp_path):
    log = MadeLog(nprocs=4)
    appended(log, count=64)
    tell(log, "MPI-IO", written=-(1 << 31))
    read = read_log(log.write(tmp_path / "a.darshan"))
    assert read.not_counted == ("MPI-IO BYTES_WRITTEN",)
    assert measure(read).numbers["write_bytes"] == 64 * MIB


@pytest.mark.parametrize("module", ["MPI-IO", "H5D", "DFS"])
def test_wrapped_bytes_of_the_only_layer_say_nothing(tmp_path, module):
    log = MadeLog(nprocs=4)
    tell(log, module, written=-(1 << 31))
    path = log.write(tmp_path / "a.darshan")
    assert says_unknown(path)
    assert f"{module} BYTES_WRITTEN" in read_log(path).not_counted
