"""What the regressions of attribution are made of, against the long way round."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.interference.attribution import Groups, Rows, Run, attribute
from sluice.interference.timeline import Slices, Timeline, slices_of

BINS = 200


def run(under: list[float], *, name: str = "b") -> Run:
    """A run whose slices are its pairs of bins."""
    first = np.arange(0, len(under) - 1, 2)
    timeline = Timeline("a", 1, 0.0, 1.0, np.ones(len(under)))
    return Run(timeline, Slices(first, first + 2, np.zeros(len(first))), {name: np.array(under)})


@given(
    unders=st.lists(st.lists(st.floats(0.0, 1.0), min_size=2, max_size=12), min_size=1, max_size=4),
    turns=st.integers(1, 40),
)
def test_every_shuffled_history_turns_the_aggressor_in_time_by_some_bins_against_each_run(
    unders, turns
):
    runs = [run(under) for under in unders]
    blocks = Rows([*runs, run([1.0] * 6, name="c")]).turned("b", turns, np.random.default_rng(1))
    shuffles = np.concatenate(list(blocks), axis=1)
    assert shuffles.shape == (sum(len(one.slices) for one in runs), turns)
    row = 0
    for one in runs:
        under, rows = one.under["b"], slice(row, row + len(one.slices))
        row = rows.stop
        means = [one.slices.mean(np.roll(under, by)) for by in range(1, len(under))]
        possible = np.array([mean - mean.mean() for mean in means])
        for shuffle in shuffles[rows].T:
            assert np.abs(possible - shuffle).max(axis=1).min() < 1e-9


@given(st.lists(st.lists(st.floats(-9.0, 9.0), min_size=1, max_size=5), min_size=1, max_size=5))
def test_groups_are_centred_and_exchanged_each_for_itself(groups):
    of = Groups([len(group) for group in groups])
    values = np.concatenate([np.array(group) for group in groups])
    expected = np.concatenate([np.array(group) - np.mean(group) for group in groups])
    assert of.centred(values) == pytest.approx(expected, abs=1e-9)
    for block in of.exchanged(values, 5, np.random.default_rng(1)):
        for shuffle in block.T:
            for one, as_was in zip(
                np.split(shuffle, of.first[1:]), np.split(expected, of.first[1:]), strict=True
            ):
                assert np.sort(one) == pytest.approx(np.sort(as_was), abs=1e-9)


def bursts(rng: np.random.Generator, start: float, name: str, processes: int) -> Timeline:
    moved = np.where(np.arange(BINS) % 25 < rng.integers(8, 20), 100.0, 0.0)
    noise = np.exp(0.1 * rng.standard_normal(BINS))
    return Timeline(name, processes, start, 1.0, np.roll(moved, rng.integers(BINS)) * noise)


def shuffle(each: int) -> tuple[list[Timeline], list[Timeline]]:
    """Runs of one application, no two of one size or at one time, and what each of them met."""
    rng = np.random.default_rng(5)
    victims = [bursts(rng, 1000.0 * i, "victim", i + 1) for i in range(each)]
    others = [
        bursts(rng, 1000.0 * i, name, 1) for i in range(each) for name in ("writer", "reader")
    ]
    return victims, others


def test_what_is_left_of_the_rate_is_the_coefficient_of_least_squares():
    victims, others = shuffle(12)
    rates, columns = [], []
    for number, victim in enumerate(victims):
        slices = slices_of(victim)
        level = np.zeros((len(slices), len(victims)))
        level[:, number] = 1.0
        shares = [slices.mean(one.busy.astype(float)) for one in others[2 * number :][:2]]
        columns.append(np.column_stack([*shares, level]))
        rates.append(slices.log_rate)
    solution = np.linalg.lstsq(np.concatenate(columns), np.concatenate(rates), rcond=None)[0]
    found = {
        one.aggressor: one.rho
        for one in attribute([*victims, *others]).observations
        if one.victim == victims[0].application
    }
    assert found["writer"] == pytest.approx(np.exp(solution[0]))
    assert found["reader"] == pytest.approx(np.exp(solution[1]))


def test_a_thousand_shuffled_histories_need_less_memory_than_their_columns_alone_would():
    victims, others = shuffle(250)
    timelines = [*victims, *others[::2]]
    rows = sum(len(slices_of(one)) for one in timelines)
    tracemalloc.start()
    findings = attribute(timelines)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    pairs = {(one.victim, one.aggressor) for one in findings.observations}
    assert pairs == {("victim", "writer"), ("writer", "victim")}
    assert most < 8 * rows * 1000  # bytes
