"""What production logs say of when a run wrote: bins, bursts, and when others were busy."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.attribution.timeline import Timeline, exposure


def brute_exposure(run: Timeline, others: list[Timeline]) -> list[float]:
    """Cut every bin wherever anybody's bin ends; ask of each piece who was busy in its middle."""
    cuts = np.unique(np.concatenate([run.edges, *(other.edges for other in others)]))
    under = [0.0] * len(run.moved)
    for begin, finish in pairwise(cuts):
        middle = (begin + finish) / 2.0
        into = [math.floor((middle - one.start) / one.bin_seconds) for one in (run, *others)]
        if not 0 <= into[0] < len(run.moved):
            continue
        if any(
            0 <= bin_ < len(other.moved) and other.busy[bin_]
            for bin_, other in zip(into[1:], others, strict=True)
        ):
            under[into[0]] += (finish - begin) / run.bin_seconds
    return under


others_of_a_run = st.lists(
    st.builds(
        lambda moved, start, width: Timeline("b", 1, start, width, np.array(moved, dtype=float)),
        st.lists(st.booleans(), min_size=1, max_size=12),
        st.floats(-15.0, 25.0),
        st.floats(0.3, 7.0),
    ),
    max_size=4,
)


@given(others=others_of_a_run)
@settings(max_examples=60)
def test_exposure_is_the_time_under_any_of_the_others_each_moment_counted_once(others):
    run = Timeline("a", 1, 0.0, 1.0, np.ones(20))
    assert exposure(run, others) == pytest.approx(brute_exposure(run, others), abs=1e-9)


def test_two_others_in_the_same_half_of_a_bin_cover_half_of_it():
    run = Timeline("a", 1, 0.0, 1.0, np.ones(1))
    half = Timeline("b", 1, 0.5, 0.5, np.array([1.0]))
    assert exposure(run, [half, half]).tolist() == [0.5]
