"""Heatmaps: each process has its own bins, all from the start of the job."""

import struct
import zlib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_logs import HEATMAP_OF_POSIX, MIB, MadeLog, appended
from stored_logs import write_log

from sluice.darshan.log import DarshanLogError, read_log
from sluice.patterns.profile import read_profile

ODD = Path(__file__).parents[1] / "data" / "odd_logs"


def heatmap_of(path, *records):
    """Of processes that each have bins of a width, and bytes in them."""
    log = MadeLog(nprocs=len(records))
    appended(log)
    for seconds, written in records:
        log.add_heatmap(seconds, list(written), [0] * len(written))
    heatmap = read_log(log.write(path)).heatmap
    assert heatmap is not None
    return heatmap.bin_seconds, heatmap.written.tolist()


@pytest.mark.parametrize("longest", [0, 1, 2])
def test_processes_that_lived_for_longer_have_more_bins(tmp_path, longest):
    records = [(0.1, [1, 1])] * 3
    records[longest] = (0.1, [1, 1, 5, 0, 7])
    assert heatmap_of(tmp_path / "a.darshan", *records) == (0.1, [3, 3, 5, 0, 7])


def test_one_bin_more_is_no_mistake(tmp_path):
    assert heatmap_of(tmp_path / "a.darshan", (0.1, [1, 2]), (0.1, [1, 2, 9])) == (0.1, [2, 4, 9])


@pytest.mark.parametrize("wide_first", [True, False])
def test_bins_of_other_widths_are_laid_over_each_other(tmp_path, wide_first):
    records = [(0.4, [100, 200]), (0.1, [1, 2, 3, 4, 5, 6, 7, 8, 9])]
    if not wide_first:
        records.reverse()
    assert heatmap_of(tmp_path / "a.darshan", *records) == (0.4, [110, 226, 9])


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from([0.1, 0.2, 0.4, 0.8]),
            st.lists(st.integers(0, MIB), min_size=1, max_size=30),
        ),
        min_size=1,
        max_size=6,
    )
)
def test_no_byte_is_lost(tmp_path_factory, records):
    seconds, written = heatmap_of(tmp_path_factory.mktemp("heatmaps") / "a.darshan", *records)
    assert sum(written) == sum(sum(one) for _, one in records)
    assert seconds == max(width for width, _ in records)
    assert len(written) == max(
        -(-round(w * len(b) * 10) // round(seconds * 10)) for w, b in records
    )


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("bins", [1, 200, 8192])
def test_bins_are_read_in_either_byte_order(tmp_path, order, bins):
    record = struct.pack(
        f"{order}Qqdq16x{2 * bins}q", HEATMAP_OF_POSIX, 0, 0.1, bins, *range(2 * bins)
    )
    regions = {"HEATMAP": (1, zlib.compress(record * 3))}
    heatmap = read_log(write_log(tmp_path / "a.darshan", regions, nprocs=3, order=order)).heatmap
    assert heatmap is not None
    assert heatmap.written.tolist() == [3 * i for i in range(bins)]
    assert heatmap.read.tolist() == [3 * (bins + i) for i in range(bins)]


@pytest.mark.parametrize(("bins", "seconds"), [(0, 0.1), (-1, 0.1), (1 << 40, 0.1), (2, 0.0)])
def test_impossible_bins_are_named(tmp_path, bins, seconds):
    record = struct.pack("<Qqdq16x4q", HEATMAP_OF_POSIX, 0, seconds, bins, 1, 2, 3, 4)
    path = write_log(tmp_path / "a.darshan", {"HEATMAP": (1, zlib.compress(record))}, nprocs=1)
    with pytest.raises(DarshanLogError, match=f"a heatmap of {bins} bins of {seconds:g} s"):
        read_log(path)


def test_a_cut_heatmap_is_named(tmp_path):
    record = struct.pack("<Qqdq16x4q", HEATMAP_OF_POSIX, 0, 0.1, 2, 1, 2, 3, 4)
    path = write_log(tmp_path / "a.darshan", {"HEATMAP": (1, zlib.compress(record[:-8]))}, nprocs=1)
    with pytest.raises(DarshanLogError, match="the HEATMAP records are damaged"):
        read_log(path)


def test_a_real_log_whose_first_process_has_more_bins_tells_the_whole_burst():
    numbers = read_profile(ODD / "longer_heatmap.darshan").profile.numbers
    assert numbers["burst_seconds"] == pytest.approx(2.3)
