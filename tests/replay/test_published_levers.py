"""Levers of others in replays: each does what its paper says, and what that is worth here."""

from functools import lru_cache

import numpy as np
import pytest
from published_levers import ADAP_TBF, GIFT, LEVERS, SET_10, SET_10_FILLED, next_burst, shares

from sluice.sim.replay.experiment import Experiment
from sluice.sim.replay.io_replay import replay_with_io

SHARING = ("set-10", "set-10-filled", "gift", "adap-tbf")
DELAYING = ("planned-bandwidth", "adaptive-target")


def burst(bytes_share, *, nodes=1, period=0.0, began=0.0, **others):
    return {"bytes": bytes_share, "nodes": nodes, "period": period, "began": began} | others


def test_a_set_writes_one_after_the_other_and_sets_share_by_priority():
    """IO-Sets: priorities of 10^-set, the power of ten nearest to a job's period."""
    found = shares(
        SET_10,
        [
            burst(1.0, period=110.0, began=2.0),
            burst(1.0, period=90.0, began=1.0),
            burst(1.0, period=1000.0),
        ],
    )
    assert found == pytest.approx([0.0, 10 / 11, 1 / 11])


def test_what_the_first_of_each_set_leaves_goes_to_the_next():
    jobs = [burst(0.6, period=100.0, began=float(i)) for i in range(3)]
    assert shares(SET_10, jobs) == pytest.approx([1.0, 0.0, 0.0])
    assert shares(SET_10_FILLED, jobs) == pytest.approx([1.0, 0.4 / 0.6, 0.0])


def test_tokens_go_by_nodes_and_what_is_not_used_is_lent():
    """AdapTBF: two nodes get twice the tokens of one; a small demand lends the rest."""
    assert shares(ADAP_TBF, [burst(1.0, nodes=2), burst(1.0)]) == pytest.approx([2 / 3, 1 / 3])
    assert shares(ADAP_TBF, [burst(0.1, nodes=8), burst(1.0)]) == pytest.approx([1.0, 0.9])


def test_who_lent_tokens_gets_them_back_from_the_borrower():
    lent = shares(ADAP_TBF, [burst(1.0, balance=5.0), burst(1.0, balance=-5.0)])
    assert lent == pytest.approx([0.75, 0.25])


def test_a_job_is_throttled_where_others_gain_more_bytes_than_it_loses():
    """GIFT: one that fills the metadata server for few bytes makes way, at half its share."""
    hog = burst(0.0, metadata=1.0)
    assert shares(GIFT, [burst(1.0, metadata=0.5), hog]) == pytest.approx([1.0, 1 / 3])
    assert shares(GIFT, [burst(1.0), burst(1.0)]) == pytest.approx([0.5, 0.5])


def test_the_length_of_a_burst_by_the_frequency_of_those_before():
    regular = [(100.0 * i, 20.0) for i in range(6)]
    assert next_burst(regular) == pytest.approx(20.0)
    assert next_burst(regular[:2]) == 0.0
    noisy = [(0.0, 3.0), (7.0, 50.0), (300.0, 1.0), (301.5, 2.0), (900.0, 10.0), (905.0, 1.0)]
    assert next_burst(noisy) != pytest.approx(np.mean([length for _, length in noisy[:-1]]))


@pytest.mark.parametrize("rule", [SET_10, SET_10_FILLED, GIFT, ADAP_TBF])
def test_no_rule_overfills_a_station(rule):
    random = np.random.default_rng(rule)
    for _ in range(200):
        jobs = [
            burst(
                *random.uniform(0, 1.2, 1),
                nodes=int(random.integers(1, 9)),
                period=float(random.choice([0.0, 30.0, 400.0, 5000.0])),
                began=float(i),
                metadata=float(random.choice([0.0, 0.3, 1.0])),
                balance=float(random.normal(0, 5)),
            )
            for i in range(random.integers(1, 9))
        ]
        found = np.array(shares(rule, jobs))
        for station in ("bytes", "metadata"):
            demand = np.minimum([job.get(station, 0.0) for job in jobs], 1.0)
            assert demand @ found <= 1 + 1e-6
        assert (found >= 0).all()
        assert (found <= 1).all()
        assert found.max() > 0


@pytest.mark.parametrize("name", [*SHARING, *DELAYING])
def test_every_lever_replays_to_the_end(name, lever_outcomes):
    plain, outcomes = lever_outcomes("none"), lever_outcomes(name)
    assert (outcomes.ran == plain.ran).all()
    assert outcomes.results.tobytes() != plain.results.tobytes()
    assert bool((outcomes.delay > 0).any()) == (name in DELAYING)
    assert LEVERS[name].delays == (name in DELAYING)


@pytest.fixture(scope="module")
def lever_outcomes():
    draw = Experiment(generate=400, slots=64, load=0.9, seed=5, io_share=0.7).draw()

    @lru_cache
    def replayed(name):
        return replay_with_io(
            draw.replayable,
            draw.site,
            profiles=draw.profiles,
            storage=draw.storage,
            policy=name,
            options=draw.options,
            known=LEVERS,
        )

    return replayed
