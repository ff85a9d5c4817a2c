"""Records of every version, in either byte order, packed or as they are; and damaged ones."""

import re
import struct
import zlib

import numpy as np
import pytest
from log_rows import rows_of
from made_logs import counter_index, time_index
from stored_logs import BZIP2, LACKING, STORED, packed, record, write_log

from sluice.darshan.log import DarshanLogError, read_log

COUNT = 150  # records: several pieces of what is read at once
NEWEST = {"POSIX": 4, "MPI-IO": 3, "STDIO": 2}
DICE = np.random.default_rng(3)
UNTIL = {"POSIX": "MODE", "MPI-IO": "MODE", "STDIO": "MAX_BYTE_READ"}
"""Counters before this one are drawn freely: they cannot contradict each other."""


def some_counters(module: str) -> dict[str, float]:
    names = list(counter_index(module))
    counters = {name: float(DICE.integers(1 << 40)) for name in names[: names.index(UNTIL[module])]}
    counters |= {name: float(DICE.uniform(0, 50)) for name in time_index(module)}
    return counters | {"BYTES_READ": 1 << 20, "BYTES_WRITTEN": float(DICE.integers(1 << 30))}


SOME = {module: [some_counters(module) for _ in range(COUNT)] for module in NEWEST}


def records(module, version, order="<"):
    """Of two processes by turns, without what the version cannot tell."""
    return [
        record(module, version, counters, file=file + 1, rank=file % 2, order=order)
        for file, counters in enumerate(SOME[module])
    ]


def newest(module, version):
    """The same in the newest version, where what the other lacks counts nothing."""
    return [
        record(
            module,
            NEWEST[module],
            {name: x for name, x in counters.items() if name not in LACKING[module, version]},
            file=file + 1,
            rank=file % 2,
            order="<",
        )
        for file, counters in enumerate(SOME[module])
    ]


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize(("module", "version"), LACKING)
def test_records_of_every_version_and_byte_order_say_the_same(tmp_path, module, version, order):
    old = packed(records(module, version, order))
    path = write_log(tmp_path / "old.darshan", {module: (version, old)}, nprocs=2, order=order)
    whole = zlib.compress(b"".join(newest(module, version)))
    expected = write_log(tmp_path / "a.darshan", {module: (NEWEST[module], whole)}, nprocs=2)
    rows = rows_of(path)
    assert len(rows) == COUNT
    np.testing.assert_array_equal(rows, rows_of(expected))


@pytest.mark.parametrize("module", NEWEST)
def test_a_log_that_is_not_compressed_says_the_same(tmp_path, module):
    """As a job leaves it that was killed, where the runtime keeps its log in a file."""
    version, plain = NEWEST[module], b"".join(records(module, NEWEST[module]))
    stored = write_log(
        tmp_path / "a.darshan", {module: (version, plain)}, nprocs=2, compression=STORED
    )
    as_usual = {module: (version, zlib.compress(plain))}
    expected = write_log(tmp_path / "b.darshan", as_usual, nprocs=2)
    np.testing.assert_array_equal(rows_of(stored), rows_of(expected))


@pytest.mark.parametrize("order", ["<", ">"])
def test_a_log_compressed_by_bzip2_is_refused_with_the_remedy(tmp_path, order):
    path = write_log(tmp_path / "a.darshan", {}, nprocs=1, order=order, compression=BZIP2)
    with pytest.raises(DarshanLogError, match=r"bzip2; darshan-convert"):
        read_log(path)


@pytest.mark.parametrize("size", [100, 704, 5000])
def test_streams_may_end_within_a_record_or_a_name(tmp_path, size):
    plain = b"".join(records("POSIX", 4))
    names = b"".join(struct.pack("<Q", file + 1) + b"/a/x.%d\0" % file for file in range(COUNT))

    def log(name, step):
        regions = {"POSIX": (4, packed(parts(plain, step)))}
        return write_log(tmp_path / name, regions, nprocs=2, names=packed(parts(names, step)))

    rows = rows_of(log("whole.darshan", len(plain)))
    assert len(rows) == COUNT
    assert (rows["stem"] != 0).all()
    np.testing.assert_array_equal(rows_of(log("parts.darshan", size)), rows)


def test_a_stream_that_is_larger_than_any_process_writes_says_the_same_as_many(tmp_path):
    any_file = record("POSIX", 4, {"READS": 5}, file=0, rank=0, order="<")
    plain = b"".join(
        struct.pack("<Qqq", file + 1, file % 2, file % 100) + any_file[24:]
        for file in range(24_000)  # 17 MB, for which room is made twice
    )
    one, many = ({"POSIX": (4, packed(parts(plain, size)))} for size in (len(plain), 500 * 704))
    rows = rows_of(write_log(tmp_path / "one.darshan", one, nprocs=2))
    assert rows["posix_opens"].sum() == 240 * sum(range(100))
    expected = rows_of(write_log(tmp_path / "many.darshan", many, nprocs=2))
    np.testing.assert_array_equal(rows, expected)


def parts(plain: bytes, size: int) -> list[bytes]:
    return [plain[start : start + size] for start in range(0, len(plain), size)]


@pytest.mark.parametrize("order", ["<", ">"])
def test_records_that_count_streams_and_files_together_are_left_out(tmp_path, order):
    """Version 1 of POSIX; nobody can tell which of its bytes went through streams."""
    region = packed(
        record("POSIX", 1, {"OPENS": 1, "FOPENS": opened}, file=file, rank=0, order=order)
        for file, opened in ((1, 0), (2, 1), (3, 200))
    )
    path = write_log(tmp_path / "a.darshan", {"POSIX": (1, region)}, nprocs=1, order=order)
    assert rows_of(path)["id"].tolist() == [1]


# Damage

WHOLE = packed(records("POSIX", 4))
LONG = zlib.compress(b"".join(records("POSIX", 4)))


def damaged_in_the(middle: bytes) -> bytes:
    place = len(middle) // 2
    return middle[:place] + bytes([middle[place] ^ 0x55]) + middle[place + 1 :]


@pytest.mark.parametrize(
    ("version", "region", "reason"),
    [
        (4, damaged_in_the(LONG), "POSIX"),
        (4, LONG[:-4] + b"0000", "the POSIX records are damaged"),
        (4, LONG[:-4], "the POSIX records are damaged"),
        (4, WHOLE[:-1], "the POSIX records are damaged"),
        (4, WHOLE + b"more", "the POSIX records are damaged"),
        (4, packed([b"half a record"]), "the POSIX records are damaged"),
        (3, WHOLE, "POSIX"),
        (5, WHOLE, "has POSIX records of version 5"),
    ],
    ids=["bytes", "checksum", "no checksum", "cut", "more", "half", "other version", "unknown"],
)
def test_damaged_records_are_named(tmp_path, version, region, reason):
    path = write_log(tmp_path / "a.darshan", {"POSIX": (version, region)}, nprocs=2)
    with pytest.raises(DarshanLogError, match=re.escape(reason)):
        read_log(path)


@pytest.mark.parametrize("name", [b"x" * (1 << 20) + b"\0", b"without an end"])
def test_damaged_names_are_named(tmp_path, name):
    """No name is as long as a piece of a region, which would have to be kept for it."""
    region = packed(
        record("POSIX", 4, {"BYTES_READ": 9}, file=file, rank=0, order="<") for file in (1, 2)
    )
    names = zlib.compress(struct.pack("<Q", 1) + name)
    path = write_log(tmp_path / "a.darshan", {"POSIX": (4, region)}, nprocs=1, names=names)
    with pytest.raises(DarshanLogError, match="the names of its files are damaged"):
        read_log(path)


@pytest.mark.parametrize("length", [1, 690, 703, 704, 705, 5504, 32000])
def test_a_name_of_bytes_that_add_up_fastest_passes_its_checksum(tmp_path, length):
    names = struct.pack("<Q", 1) + b"\xff" * length + b".py\0" + struct.pack("<Q", 2) + b"b\0"
    region = packed(
        record("POSIX", 4, {"BYTES_READ": 9}, file=file, rank=0, order="<") for file in (1, 2)
    )
    path = write_log(
        tmp_path / "a.darshan", {"POSIX": (4, region)}, nprocs=1, names=zlib.compress(names)
    )
    assert rows_of(path)["program"].tolist() == [1, 0]
