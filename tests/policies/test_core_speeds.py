"""Slow lanes: what is published of them, and how decisions keep off them."""

from __future__ import annotations

import core_calls
import pytest
from core_cases import (
    FLUSHING,
    NOW,
    PROFILES,
    STREAMING,
    application,
    bundle,
    corunner,
    corunners,
    pressures,
    snapshot,
    submission,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.policies import core
from sluice.policies.record import Situation, decide, replay

CONFIG = core.default_config()
ALIKE = "Lane=a Targets=4\nLane=b Targets=4\nLane=c Targets=4\n"
KNOWN = "Lane=a Targets=4 Bandwidth=8G\nLane=b Targets=4 Bandwidth=8G\n"
FOREVER = 10**9  # seconds
HEAVY = {**STREAMING, "io_share": 0.9, "targets": 4}


def situation(*others, speeds, profile=HEAVY, conf=ALIKE):
    return Situation(bundle(application(profile), conf=conf), snapshot(*others, lane_speeds=speeds))


def decided(*others, speeds, profile=HEAVY, conf=ALIKE, **members):
    made_ready = situation(*others, speeds=speeds, profile=profile, conf=conf)
    return decide(made_ready, CONFIG, submission(**members), NOW).decision


def by_lane(decision):
    """Alternatives by lane mask: 0 shares all lanes; those that wait are left out."""
    return {a.lane_mask: a for a in decision.alternatives if a.action != "delay"}


def test_a_job_is_kept_off_a_lane_that_is_slow_although_nobody_else_writes():
    decision = decided(speeds={"a": 1 / 3})
    assert (decision.action, decision.reason) == ("disjoint", "slow_lane")
    costs = by_lane(decision)
    assert decision.alternatives[decision.chosen].lane_mask == 0b010
    assert costs[0b010].cost == costs[0b100].cost == pytest.approx(0.0)
    assert costs[0].slowdown == costs[0b001].slowdown == pytest.approx(0.1 + 0.9 * 3)
    assert costs[0].confined == costs[0].cost


def test_the_lane_of_others_is_shared_sooner_than_one_that_is_slow_badly():
    """Alongside a neighbour half is left, on the slow lane a twentieth."""
    other = corunner(1, HEAVY, lane_mask=0b10, nodes=1)
    two = "Lane=a Targets=4\nLane=b Targets=4\nMaxDelay=0\n"
    free = decided(other, speeds={}, conf=two, nodes=8)
    slow = decided(other, speeds={"a": 0.05}, conf=two, nodes=8)
    assert free.alternatives[free.chosen].lane_mask == 0b01
    assert free.reason == "separation_pays"
    assert slow.alternatives[slow.chosen].lane_mask == 0b10
    assert slow.reason == "slow_lane"


def test_a_job_that_needs_less_than_a_slow_target_gives_stays_where_it_is():
    light = {**HEAVY, "rate": 1e9}  # of 16 GiB/s
    assert decided(speeds={"a": 0.3}, profile=light, conf=KNOWN).reason == "no_corunners"
    heavy = {**HEAVY, "rate": 8e9}
    assert decided(speeds={"a": 0.3}, profile=heavy, conf=KNOWN).reason == "slow_lane"


def test_lanes_that_all_are_slow_alike_are_no_reason_to_move():
    decision = decided(speeds=dict.fromkeys("abc", 0.5))
    assert (decision.action, decision.reason) == ("colocate", "sharing_cheapest")


def test_a_lane_that_the_bundle_does_not_know_is_passed_over():
    assert decided(speeds={"old": 0.1}).reason == "no_corunners"


def test_a_decision_about_a_slow_target_can_be_made_again_from_the_snapshot():
    made_ready = situation(speeds={"a": 0.4})
    record = decide(made_ready, CONFIG, submission(), NOW)
    assert replay(record, made_ready, CONFIG) == record.decision.bytes
    healthy = situation(speeds={})
    assert replay(record, healthy, CONFIG) != record.decision.bytes


@settings(max_examples=60)
@given(corunners(), PROFILES)
def test_at_full_speed_decisions_are_those_without_speeds(others, profile):
    full = decided(*others, speeds=dict.fromkeys("abc", 1.0), profile=profile)
    none = decided(*others, speeds={}, profile=profile)
    assert full.bytes == none.bytes


@settings(max_examples=60)
@given(corunners(), st.floats(0.01, 0.99))
def test_a_slow_lane_never_costs_less_than_its_equal(others, speed):
    """Everybody else writes to all lanes and stays, so that only the speed tells them apart."""
    spread = [other | {"lane_mask": 0, "expected_end": NOW + FOREVER} for other in others]
    costs = by_lane(decided(*spread, speeds={"b": speed}, profile=FLUSHING))
    if 0b010 in costs:
        assert costs[0b010].cost >= costs[0b001].cost * (1 - 1e-9)
        assert costs[0b001].cost == costs[0b100].cost


@settings(max_examples=60)
@given(PROFILES, st.floats(0.01, 1.0), st.floats(0.01, 1.0))
def test_a_lane_is_never_more_attractive_for_being_slower(profile, one, two):
    slow, fast = (
        by_lane(decided(speeds={"a": speed, "c": 0.01}, profile=profile))
        for speed in sorted((one, two))
    )
    for mask in slow.keys() & fast.keys():
        assert slow[mask].cost >= fast[mask].cost * (1 - 1e-9)


@given(pressures(), st.floats(0.01, 1.0), st.floats(0.01, 1.0))
def test_slower_lanes_leave_less_and_are_fuller(pressure, one, two):
    slow, fast = (core_calls.slowed_down(pressure, speed) for speed in sorted((one, two)))
    assert slow.confined <= fast.confined <= pressure.confined
    assert slow.demand >= fast.demand
    assert core_calls.slowed_down(pressure, 1.0).bytes == pressure.bytes
    for name in ("weight", "streaming", "metadata", "io_share", "burst", "period"):
        assert getattr(slow, name) == getattr(pressure, name)
