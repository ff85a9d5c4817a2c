"""What a log says does not depend on the logs that it is measured with."""

import itertools
from pathlib import Path

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.darshan.log import read_log
from sluice.darshan.rows import sums
from sluice.patterns.profile import measured, read_profile, readings

DATA = Path(__file__).parents[1] / "data"
LOGS = sorted(DATA.glob("darshan/*.darshan")) + sorted(DATA.glob("programs/*.darshan"))[::8]


@settings(max_examples=10, deadline=None)
@given(st.lists(st.sampled_from(LOGS), min_size=2, max_size=40))
def test_a_log_has_the_same_profile_in_a_batch_as_alone(paths):
    """Bit for bit: with what it is compared below, every float has to be equal."""
    _, together = measured([read_log(path) for path in paths])
    assert readings(together) == [read_profile(path) for path in paths]


def test_all_logs_together_say_what_each_says():
    _, together = measured([read_log(path) for path in LOGS])
    alone = [read_profile(path) for path in LOGS]
    assert [one.profile for one in readings(together)] == [one.profile for one in alone]


@given(st.lists(st.integers(0, 400), max_size=6), st.integers(0, 1 << 30))
def test_the_sum_of_a_part_is_numpys_sum_of_it_alone(sizes, seed):
    random = np.random.default_rng(seed)
    bounds = np.append(0, np.cumsum(sizes)).astype(np.int64)
    values = random.random(bounds[-1]) * 10.0 ** random.integers(-9, 9, bounds[-1])
    alone = [values[begin:end].sum() for begin, end in itertools.pairwise(bounds)]
    assert sums(values, bounds).tolist() == alone
