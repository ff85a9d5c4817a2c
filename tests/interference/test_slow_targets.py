"""Which targets are slow: what is called a slow target, and what is not for lack of evidence."""

import math
import random
from dataclasses import replace
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.interference.target_speeds import (
    HALF_LIFE,
    KEEPS_UP,
    LONELY,
    SLOW,
    SLOW_BELOW,
    UNDECIDED,
    UNSURE,
    WINDOW,
    SpeedObservation,
    speeds_of,
)

NOW = 1_800_000_000


def seen(target, rates, *, program="aw:1M:2", age=0, **others):
    return [SpeedObservation(target, program, NOW - age, rate, **others) for rate in rates]


def judge(observed, peers=(("a", "b"),), now=NOW):
    return {speed.target: speed for speed in speeds_of(peers, observed, now)}


def around(rate, count, seed, *, spread=0.05):
    source = random.Random(seed)
    return [rate * math.exp(source.gauss(0, spread)) for _ in range(count)]


def test_a_target_of_a_third_of_its_peers_rate_is_slow_after_five_probes():
    found = judge(seen("a", around(100.0, 5, 1)) + seen("b", around(33.0, 5, 2)))
    assert found["a"].verdict == KEEPS_UP
    assert found["a"].published == 1.0
    assert found["b"].verdict == SLOW
    assert found["b"].published == pytest.approx(0.33, rel=0.1)
    assert found["b"].low <= found["b"].speed <= found["b"].high < SLOW_BELOW


@pytest.mark.parametrize("count", range(4))
def test_nothing_is_said_on_little_evidence(count):
    found = judge(seen("a", [100.0] * 9) + seen("b", [1.0] * count))
    assert found["b"].verdict == (UNSURE if count else LONELY)
    assert found["b"].published == 1.0
    assert found["b"].low is None


def test_much_evidence_here_does_not_help_where_there_is_little_elsewhere():
    found = judge(seen("a", [100.0]) + seen("b", [1.0] * 50))
    assert found["b"].evidence == pytest.approx(1.0)
    assert found["b"].verdict == UNSURE


def test_what_was_seen_long_ago_fades_until_it_says_nothing():
    for days, verdict in ((0, SLOW), (0.2, SLOW), (1, UNSURE), (8, LONELY)):
        age = int(days * HALF_LIFE)
        found = judge(seen("a", [100.0] * 5, age=age) + seen("b", [30.0] * 5, age=age))
        assert found["b"].verdict == verdict, days
    assert 8 * HALF_LIFE > WINDOW


def test_observations_of_the_future_count_for_nothing():
    assert judge(seen("a", [100.0] * 9) + seen("b", [1.0] * 9, age=-5))["b"].verdict == LONELY


def test_a_target_that_recovered_is_a_slow_target_no_longer():
    slow = seen("a", [100.0] * 5) + seen("b", [30.0] * 5)
    later = NOW + int(3 * HALF_LIFE)
    fast = [replace(one, observed=later, rate=100.0) for one in slow]
    assert judge(slow)["b"].verdict == SLOW
    assert judge([*slow, *fast], now=later)["b"].published == 1.0


def test_one_outlier_makes_no_slow_target():
    found = judge(seen("a", [100.0] * 6) + seen("b", [100.0] * 7 + [1.0]))
    assert found["b"].published == 1.0


def test_rates_that_scatter_more_than_targets_differ_are_left_undecided():
    found = judge(seen("a", [100.0] * 6) + seen("b", [20.0, 30.0, 50.0, 90.0, 150.0, 200.0]))
    assert found["b"].verdict == UNDECIDED
    assert found["b"].published == 1.0


def test_a_few_slow_target_do_not_make_each_other_look_healthy():
    names = [f"t{i}" for i in range(8)]
    rates = {name: 20.0 if name in names[:3] else 100.0 for name in names}
    found = judge([one for n in names for one in seen(n, around(rates[n], 6, n))], [names])
    assert [n for n in names if found[n].is_slow] == names[:3]


def test_each_program_is_compared_with_itself_alone():
    """A target that only slow programs use is not slow."""
    observed = (
        seen("a", [100.0] * 6, program="fast")
        + seen("a", [10.0] * 3, program="slow")
        + seen("b", [10.0] * 9, program="slow")
        + seen("b", [1.0] * 9, program="only here")
        + seen("b", [1.0] * 9, program="fast", uid=1000)  # and a's were probes
    )
    found = judge(observed)
    assert found["b"].speed == pytest.approx(1.0)
    assert not found["b"].is_slow


def runs(slow, *, uid, there=9):
    """What a user's runs say of two targets, of which the second seems slow, or does not."""
    here = seen("a", [100.0] * 9, uid=uid, program="app")
    return here + seen("b", [1.0 if slow else 100.0] * there, uid=uid, program="app")


@pytest.mark.parametrize(
    ("others", "is_slow"),
    [
        ([], False),
        (runs(slow=False, uid=1001), False),
        (runs(slow=False, uid=1001) + runs(slow=False, uid=1002), False),
        (seen("a", [100.0] * 6) + seen("b", [100.0] * 6), False),
        (runs(slow=True, uid=1001), True),
        (seen("a", [100.0] * 6) + seen("b", [1.0] * 6), True),
    ],
    ids=["no other", "another", "two others", "probes", "another agrees", "probes agree"],
)
@pytest.mark.parametrize("there", [9, 500])
def test_no_user_alone_makes_a_target_slow(others, is_slow, there):
    """A log may claim any rate, and a program may write as slowly as it likes."""
    claimed = [
        one
        for name in ("p", "q", "r")
        for one in map(partial(replace, program=name), runs(slow=True, uid=666, there=there))
    ]
    found = judge(claimed + others)
    assert found["b"].is_slow == is_slow
    assert (found["b"].published < 1) == is_slow


def test_no_user_alone_hides_a_slow_target_that_others_met():
    met = [one for uid in (1001, 1002) for one in runs(slow=True, uid=uid)]
    assert judge(met + runs(slow=False, uid=666, there=5))["b"].is_slow


def test_targets_of_different_size_are_not_compared():
    found = judge(seen("a", [100.0] * 9) + seen("b", [10.0] * 9), [["a"], ["b"]])
    assert {speed.verdict for speed in found.values()} == {LONELY}


def test_targets_that_are_alike_are_hardly_ever_called_slow_target():
    """Runs that differ by a factor of 1.6 (one sd), a handful of each program."""
    wrong = 0
    for seed in range(200):
        observed = [
            one
            for target in ("a", "b", "c", "d")
            for uid, program in enumerate(("p", "q"))
            for one in seen(
                target,
                around(100.0, 3, f"{seed}{target}{program}", spread=0.5),
                program=program,
                uid=uid,
            )
        ]
        wrong += sum(s.is_slow for s in judge(observed, [("a", "b", "c", "d")]).values())
    assert wrong <= 0.02 * 200 * 4


observations = st.lists(
    st.builds(
        SpeedObservation,
        target=st.sampled_from("abc"),
        program=st.sampled_from("pq"),
        observed=st.integers(NOW - WINDOW - 9, NOW + 9),
        rate=st.floats(1e-3, 1e12),
        weight=st.floats(0.01, 1.0),
        uid=st.sampled_from((None, 1000, 1001)),
    ),
    max_size=20,
)


@given(observations, st.randoms(use_true_random=False))
def test_the_order_of_observations_means_nothing(observed, source):
    shuffled = list(observed)
    source.shuffle(shuffled)
    assert judge(shuffled, [("a", "b", "c")]) == judge(observed, [("a", "b", "c")])


@given(observations)
def test_what_is_published_is_a_share_and_never_of_a_target_without_a_verdict(observed):
    for speed in judge(observed, [("a", "b", "c")]).values():
        assert 0.01 <= speed.published <= 1.0
        assert speed.published == 1.0 or (speed.verdict == SLOW and speed.evidence > 3.8)
