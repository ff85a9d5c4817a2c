"""Slowdowns and costs by the formulas of the design, against bursts that are walked through.

The formulas take it that who is on does not depend on who else is. That holds for bursts that
last for many cycles of the others, each with a rhythm of its own. In short ones it does not: whom
one other slows down meets the next for longer. Nor where two others keep their offset.
"""

from itertools import pairwise

import pytest
from bursts import seconds_of_bursts
from core_cases import MODEL, model, pressure
from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.policies import core

DRAWS = 400
LONGEST = 400.0  # seconds of a cycle
RHYTHMS = st.tuples(st.floats(50.0, LONGEST), st.floats(0.05, 0.6))  # s, share on
OTHERS = st.lists(st.tuples(RHYTHMS, st.floats(0.2, 8.0), st.floats(0.3, 1.0)), max_size=5)
"""A rhythm, weight and demand of each."""
MODELS = st.sampled_from([model(capacity=1.0), MODEL])


def have_rhythms_of_their_own(others) -> bool:
    cycles = sorted(cycle for (cycle, _), _, _ in others)
    return all(b > 1.1 * a for a, b in pairwise(cycles))


def predicted_and_walked(work, others, coefficients):
    """I of bursts of so many seconds by the core, and how long each draw of them takes."""
    victim = pressure(burst=work)
    pressures = [
        pressure(weight=weight, demand=demand, burst=cycle * share, period=cycle)
        for (cycle, share), weight, demand in others
    ]

    def rate(state: int) -> float:
        active = [other for i, other in enumerate(pressures) if state >> i & 1]
        return core.rate_share(victim, active, coefficients)

    rhythms = [(cycle * share, cycle * (1 - share)) for (cycle, share), _, _ in others]
    took = seconds_of_bursts(work, rhythms, rate, draws=DRAWS)
    return core.io_factor(victim, pressures, coefficients), took


@settings(max_examples=40)
@given(st.floats(20 * LONGEST, 40 * LONGEST), OTHERS.filter(have_rhythms_of_their_own), MODELS)
def test_bursts_much_longer_than_the_others_rhythms_take_as_long_as_predicted(work, others, of):
    predicted, took = predicted_and_walked(work, others, of)
    assert predicted == pytest.approx(took.mean() / work, rel=0.06)


@settings(max_examples=40)
@given(st.floats(0.1, LONGEST), OTHERS.filter(lambda others: len(others) < 2), MODELS)
def test_alongside_one_other_bursts_of_any_length_do(work, others, of):
    predicted, took = predicted_and_walked(work, others, of)
    assert predicted == pytest.approx(took.mean() / work, rel=0.06)


@settings(max_examples=40)
@given(st.floats(0.1, 10 * LONGEST), OTHERS, MODELS)
def test_alongside_several_others_any_bursts_take_half_to_twice_that(work, others, of):
    predicted, took = predicted_and_walked(work, others, of)
    assert 0.5 < predicted / (took.mean() / work) < 2


@settings(max_examples=30)
@given(
    st.floats(20 * LONGEST, 40 * LONGEST),
    st.floats(0.05, 0.95),
    OTHERS.filter(have_rhythms_of_their_own),
    MODELS,
    st.booleans(),
)
def test_a_job_loses_the_seconds_that_its_bursts_do(work, io_share, others, of, computes_meanwhile):
    """One that computes while it writes goes on when both are done."""
    predicted, took = predicted_and_walked(work, others, of)
    job = pressure(io_share=io_share, async_io=float(computes_meanwhile))
    period = work / io_share
    periods = took.clip(min=period) if computes_meanwhile else period - work + took
    lost = (periods - period).mean()
    cost = period * (core.job_slowdown(job, predicted) - 1)
    assert cost == pytest.approx(lost, rel=0.06, abs=0.03 * period)
