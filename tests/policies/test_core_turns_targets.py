"""Turns of bursts on single targets: verdicts hold those that share a full one."""

import core_turns as turns
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_core_turns import lanes, queues

SETTINGS = turns.settings(guard=0.0)
RARE_TOO = turns.settings(rare=0.0)
COUNT = 8
LANE = {"targets": float(COUNT), "bytes": float(COUNT), "operations": 2.0 * COUNT}
TARGET = {"targets": 1.0, "bytes": 1.0, "operations": 2.0}

bursts = st.lists(
    st.fixed_dictionaries(
        {
            "nodes": st.sampled_from([1.0, 2.0, 16.0, 1000.0]),
            "demand": st.fixed_dictionaries(
                {"bytes": st.floats(0.1, 3.0), "operations": st.floats(0.0, 4.0)}
            ),
            "expected": st.floats(1.0, 1e4),
            "done": st.floats(0.0, 1e4),
            "began": st.sampled_from([0.0, 1.0, 5.0]),
            "targets": st.sets(st.integers(0, COUNT - 1), min_size=1, max_size=4),
        }
    ),
    max_size=12,
).map(lambda listed: [{"key": key, **one} for key, one in enumerate(listed)])


def decide(lanes, jobs, settings=SETTINGS):
    return turns.decide(settings, turns.storage(lanes), turns.jobs_of(jobs), clock=1e5)


def on(*targets, nodes=1.0, rate=1.0, key=0, **members):
    """A burst that wants so much of each of these targets."""
    return {
        "key": key,
        "nodes": nodes,
        "demand": {"bytes": rate * len(targets)},
        "expected": 1e4,
        "began": 9e4,
        "targets": targets,
        **members,
    }


@given(bursts)
def test_targets_of_a_lane_are_as_lanes_of_one_target(jobs):
    """A lane a target is what the core could say of targets before: verdicts are the same."""
    as_lanes = [
        {**job, "targets": (), "lane_mask": sum(1 << target for target in job["targets"])}
        for job in jobs
    ]
    found, expected = decide([LANE], jobs), decide([TARGET] * COUNT, as_lanes)
    assert found.again == pytest.approx(expected.again)
    for i in range(len(jobs)):
        assert (found[i].reason, found[i].first) == (expected[i].reason, expected[i].first)
        assert found[i].share == pytest.approx(expected[i].share)


@given(queues, lanes)
def test_all_targets_are_as_none_named(queue, listed):
    plain = [{**job, "lane_mask": 1} for job in queue]
    named = [{**job, "targets": range(int(listed[0]["targets"]))} for job in plain]
    assert decide(listed, named).content() == decide(listed, plain).content()


@pytest.mark.parametrize("targets", [(COUNT,), (511,), (0, COUNT), ()])
def test_targets_that_are_not_there_are_none_named(targets):
    jobs = [on(key=1, targets=targets), on(key=2)]
    for job in jobs:
        job["demand"] = {"bytes": 2.0 * COUNT}
    assert [decide([LANE], jobs)[i].action for i in (0, 1)] == ["go", "hold"]


def test_targets_of_several_lanes_are_none_named():
    jobs = [
        on(0, rate=2.0 * COUNT, key=1, lane_mask=3),
        on(1, rate=2.0 * COUNT, key=2, lane_mask=3),
    ]
    found = decide([LANE, LANE], jobs)
    assert "hold" in {found[0].action, found[1].action}


def test_only_those_are_held_that_share_a_full_target():
    jobs = [on(0, 1, nodes=16.0, key=1), on(1, 2, key=2), on(4, 5, key=3), on(3, key=4)]
    found = decide([LANE], jobs)
    assert [found[i].action for i in range(4)] == ["go", "hold", "go", "go"]
    assert found[1].first == 0


def test_a_hold_is_for_a_burst_that_shares_a_target():
    jobs = [on(5, nodes=64.0, key=1), on(0, nodes=16.0, key=2), on(0, key=3)]
    found = decide([LANE], jobs)
    assert found[2].action == "hold"
    assert found[2].first == 1


def test_targets_of_two_lanes_do_not_meet():
    jobs = [on(3, key=1, lane_mask=1), on(3, key=2, lane_mask=2)]
    found = decide([LANE, LANE], jobs)
    assert [found[i].action for i in (0, 1)] == ["go", "go"]


def test_a_burst_that_writes_evenly_meets_the_mean_of_targets():
    even = {**on(key=2), "demand": {"bytes": 0.5 * COUNT}}
    del even["targets"]
    assert decide([LANE], [on(0, nodes=99.0, key=1), even])[1].action == "go"
    crowd = [on(target, nodes=99.0, key=10 + target) for target in range(COUNT)]
    assert decide([LANE], [*crowd, even])[COUNT].action == "hold"


def test_a_burst_on_a_target_meets_those_that_write_evenly():
    even = {**on(nodes=99.0, key=2), "demand": {"bytes": 0.95 * COUNT}}
    del even["targets"]
    assert decide([LANE], [on(0, key=1), even])[0].action == "hold"


def test_bursts_on_targets_teach_nothing_of_their_lane():
    memory = turns.Memory()
    slow = on(0, key=1, allowed=1.0, speed=0.3)
    out = None
    for clock in (0.0, 10.0, 20.0):
        out, _ = memory.learn(RARE_TOO, turns.storage([LANE]), turns.jobs_of([slow]), clock=clock)
    assert out.lanes[0].bytes == LANE["bytes"]


def test_a_lane_with_a_full_target_counts_as_full():
    """Where a lane was seldom full, no burst there is held."""
    memory = turns.Memory()
    jobs = turns.jobs_of([on(0, key=1), on(0, key=2)])
    rare = turns.settings(rare=0.004)
    for clock in (0.0, 1e5):
        out, _ = memory.learn(rare, turns.storage([LANE]), jobs, clock=clock)
    assert out.lanes[0].bytes == LANE["bytes"]
