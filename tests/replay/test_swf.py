"""The Standard Workload Format, as the archive's files have it and as damage leaves it."""

import gzip
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.sim.engine import TraceError
from sluice.sim.trace.jobs import FIELDS, JobEnd, read_swf
from sluice.sim.trace.sources import read_trace

KTH = Path(__file__).resolve().parents[3] / "shared/data/traces/KTH-SP2-1996-2.1-cln.swf.gz"

HEADER = b"""\
; Version: 2.2
; Computer: IBM SP2
; UnixStartTime: 843480031
; MaxNodes: 50
; MaxProcs: 100
; Information: http://a.example/
;              http://b.example/
; Note: the first
; Note: the second
;
"""
JOB = b"7 100 20 300 4 -1 -1 8 600 -1 1 3 5 -1 2 1 6 30\n"


def test_each_field_of_a_line_is_understood():
    trace = read_swf("x", HEADER + JOB)
    assert (trace.job_id[0], trace.submit[0], trace.start[0], trace.runtime[0]) == (
        7,
        100,
        120,
        300,
    )
    assert (trace.limit[0], trace.slots[0]) == (600, 8)
    assert trace.outcome[0] == JobEnd.COMPLETED
    assert trace.users[trace.user[0]] == "3"
    assert trace.accounts[trace.account[0]] == "5"
    assert trace.partitions[trace.partition[0]] == "1"
    assert (trace.after[0], trace.think_time[0]) == (6, 30)


def test_each_field_of_the_header_is_kept():
    trace = read_swf("x", HEADER + JOB)
    assert trace.header["Note"] == ("the first", "the second")
    assert trace.header["Information"] == ("http://a.example/", "http://b.example/")
    assert (trace.epoch, trace.machine_slots) == (843480031, 100)


def test_what_is_minus_one_is_unknown():
    trace = read_swf("x", b"1 5 " + b"-1 " * 16)
    assert np.isnan([trace.start[0], trace.runtime[0], trace.limit[0]]).all()
    assert (trace.slots[0], trace.user[0], trace.after[0]) == (-1, -1, -1)
    assert trace.outcome[0] == JobEnd.UNKNOWN


def test_processors_that_were_not_asked_for_are_those_that_were_given():
    assert read_swf("x", JOB.replace(b" 8 600", b" -1 600")).slots[0] == 4


def test_further_columns_are_passed_over():
    """Alea's traces have some behind the standard's 18."""
    wide = JOB.replace(b"\n", b" -1 cluster=a,b 0.5\n")
    trace = read_swf("x", HEADER + wide + JOB + wide.replace(b"\n", b" 1 2\n"))
    assert list(trace.think_time) == [30, 30]
    assert [bad.reason for bad in trace.bad_lines] == ["has 23 fields, more than the first job"]


BROKEN = (
    (b"1 2 3\n", "has 3 fields instead of 18"),
    (JOB.replace(b"300", b"3oo"), "field 4 is no number"),
    (JOB.replace(b"\n", b" 1\n"), "has 19 fields, more than the first job"),
    (b"\x00\xff\n", "field 1 is no number"),
    (JOB.replace(b"300", b"9" * 20), "field 4 is no number"),
)


@pytest.mark.parametrize(("line", "reason"), BROKEN)
def test_a_broken_line_is_named_and_the_others_are_read(line, reason):
    trace = read_swf("x", HEADER + JOB + line + JOB)
    assert len(trace) == 2
    assert [(bad.number, bad.reason) for bad in trace.bad_lines] == [(12, reason)]


def test_decimals_windows_line_ends_and_a_missing_last_line_end_are_read():
    trace = read_swf("x", JOB.replace(b"300", b"300.25").replace(b"\n", b"\r\n") + JOB.strip())
    assert list(trace.runtime) == [300.25, 300]


@pytest.mark.parametrize("text", [b"", b"\n\n", HEADER, b"hello\n"])
def test_a_file_without_jobs_is_refused_with_its_name(text):
    with pytest.raises(TraceError, match=r"empty\.swf: no job in it"):
        read_swf("empty.swf", text)


@given(st.binary(max_size=300))
def test_no_bytes_break_the_reader(noise):
    assert len(read_swf("x", JOB + noise + b"\n" + JOB)) >= 2


@given(
    st.lists(st.lists(st.integers(-(10**12), 10**12), min_size=FIELDS, max_size=FIELDS), min_size=1)
)
def test_numbers_are_read_exactly(rows):
    text = "".join(" ".join(map(str, row)) + "\n" for row in rows).encode()
    assert list(read_swf("x", text).job_id) == [row[0] for row in rows]


def test_a_gzipped_trace_is_read_and_a_damaged_one_is_named(tmp_path):
    path = tmp_path / "trace.swf.gz"
    path.write_bytes(gzip.compress(HEADER + JOB))
    assert len(read_trace(path)) == 1
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(TraceError, match=r"trace\.swf\.gz: damaged gzip"):
        read_trace(path)


@pytest.mark.skipif(not KTH.exists(), reason="the KTH-SP2 trace is not next to the repository")
def test_the_kth_trace_is_read_whole():
    trace = read_trace(KTH)
    assert len(trace) == int(trace.header["MaxRecords"][0])
    assert trace.bad_line_count == 0
    assert trace.machine_slots == 100
