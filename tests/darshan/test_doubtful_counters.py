"""Counters that cannot be true: not counted, and named; the log is read all the same."""

from pathlib import Path

import pytest
from log_rows import rows_of
from made_logs import MIB, MadeLog, appended, counter_index, time_index

from sluice.darshan.features import measure
from sluice.darshan.log import DarshanLogError, read_log
from sluice.history_db.store import Store
from sluice.ingest.ingest import ingest
from sluice.patterns.profile import read_profile

ODD = Path(__file__).parents[1] / "data" / "odd_logs"
NEEDED = {"READS", "WRITES", "BYTES_READ", "BYTES_WRITTEN"}
"""Without which nothing is known of a file."""
RANKS_AND_KINDS = ("RANK", "STRIDE", "ACCESS", "MODE", "RENAMED_FROM", "ALIGNMENT")
"""Parts of the names of what counts nothing: it may be anything."""


def counts_of(module):
    return [name for name in counter_index(module) if not any(p in name for p in RANKS_AND_KINDS)]


@pytest.mark.parametrize("value", [-4, -(1 << 31), 1 << 61])
@pytest.mark.parametrize("module", ["POSIX", "STDIO"])
def test_any_other_counter_of_a_file_costs_itself_alone(tmp_path, module, value):
    assert counts_of(module)
    for name in set(counts_of(module)) - NEEDED:
        log = MadeLog(nprocs=4)
        appended(log, module=module, rank=-1, **{name: value})
        read = read_log(log.write(tmp_path / f"{name}.darshan"))
        assert read.not_counted == (f"{module} {name}",)
        numbers = measure(read).numbers
        assert numbers["write_bytes"] == 50 * MIB
        reading = read_profile(tmp_path / f"{name}.darshan")
        assert reading.profile.pattern == "aw", name
        assert reading.not_counted == read.not_counted


@pytest.mark.parametrize("module", ["POSIX", "STDIO"])
@pytest.mark.parametrize("name", sorted(NEEDED))
def test_a_log_that_cannot_tell_what_was_moved_is_refused(tmp_path, module, name):
    log = MadeLog()
    appended(log, module=module, **{name: -4})
    with pytest.raises(DarshanLogError, match=f"counts -4 {module} {name}"):
        read_log(log.write(tmp_path / "a.darshan"))


def test_no_counter_of_mpi_io_costs_a_log_that_posix_tells_of(tmp_path):
    for name in counts_of("MPI-IO"):
        log = MadeLog(nprocs=4)
        appended(log, rank=-1)
        log.add("MPI-IO", file=1, rank=-1, counters={name: -4})
        read = read_log(log.write(tmp_path / f"{name}.darshan"))
        assert read.not_counted == (f"MPI-IO {name}",)
        assert measure(read).numbers["write_bytes"] == 50 * MIB


@pytest.mark.parametrize("name", ["SEQ_WRITES", "CONSEC_WRITES", "ACCESS1_COUNT"])
def test_detail_that_contradicts_the_writes_is_not_counted(tmp_path, name):
    log = MadeLog()
    appended(log, **{name: 51})
    reading = read_profile(log.write(tmp_path / "a.darshan"))
    assert reading.not_counted == (f"POSIX {name}",)
    assert reading.profile.pattern == "aw"


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_times_that_are_no_numbers_cost_the_log_only_where_they_say_when_it_wrote(tmp_path, value):
    when = {"F_READ_TIME", "F_WRITE_TIME"} | {
        f"F_{verb}_{end}_TIMESTAMP" for verb in ("READ", "WRITE") for end in ("START", "END")
    }
    for name in time_index("POSIX"):
        log = MadeLog()
        appended(log, **{name: value})
        path = log.write(tmp_path / f"{name}.darshan")
        if name in when:
            with pytest.raises(DarshanLogError, match="POSIX times that are not numbers"):
                read_log(path)
        else:
            assert read_log(path).not_counted == ("POSIX times",)


@pytest.mark.parametrize("seconds", [-1.0, -4.0])
def test_times_that_were_not_measured_count_nothing(tmp_path, seconds):
    log = MadeLog()
    appended(log, F_READ_TIME=seconds, F_META_TIME=seconds)
    path = log.write(tmp_path / "a.darshan")
    assert rows_of(path)["read_time"].tolist() == [0]
    assert read_log(path).not_counted == ()


def test_a_file_without_its_length_is_taken_to_be_written_once(tmp_path):
    log = MadeLog()
    appended(log, MAX_BYTE_WRITTEN=-4)
    assert rows_of(log.write(tmp_path / "a.darshan"))["max_byte_written"].tolist() == [50 * MIB - 1]


def test_each_counter_is_named_once_and_all_of_them(tmp_path):
    log = MadeLog(nprocs=4)
    for file in range(20):
        appended(log, file=file, MMAPS=-4, DUPS=-4)
    read = read_log(log.write(tmp_path / "a.darshan"))
    assert read.not_counted == ("POSIX DUPS", "POSIX MMAPS")


def test_a_real_log_of_such_a_runtime_is_read():
    reading = read_profile(ODD / "mmaps.darshan")
    assert reading.not_counted == ("POSIX MMAPS",)
    assert reading.profile.numbers["write_bytes"] == 256 * MIB


def test_what_was_not_counted_is_said_of_many_logs(tmp_path):
    for number in range(3):
        log = MadeLog(jobid=number + 1)
        appended(log, MMAPS=-4, **({"DUPS": -4} if number else {}))
        log.write(tmp_path / f"{number}.darshan")
    with Store(tmp_path / "history.db", create=True) as store:
        summary = ingest(store, [tmp_path])
    assert summary.read == 3
    assert summary.not_counted == {"POSIX MMAPS": 3, "POSIX DUPS": 2}
