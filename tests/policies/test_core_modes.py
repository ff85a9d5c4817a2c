"""How far Sluice goes with a job: Mode, and the rules of ModeOf by user, account, QoS and place."""

from __future__ import annotations

import pytest
from core_cases import (
    FLUSHING,
    NOW,
    STREAMING,
    application,
    bundle,
    corunner,
    situation,
    snapshot,
    submission,
)
from hypothesis import given
from hypothesis import strategies as st

from sluice.policies import core
from sluice.policies.record import Situation, decide, replay, replay_grant

LANES = "Lane=sl0 Targets=4\nLane=sl1 Targets=4\nLane=sl2 Targets=4\n"
MODES = ("observe", "advise", "enforce")


def parse(conf: str) -> core.Config:
    return core.parse_config("sluice.conf", conf.encode())


def mode(conf: str, lane_mask: int = 0, **members) -> str:
    config = parse(LANES + conf)
    return core.mode_of(config, config.policy, submission(**members), lane_mask)


@pytest.mark.parametrize(
    ("conf", "members", "expected"),
    [
        ("", {}, "observe"),
        ("Mode=enforce", {}, "enforce"),
        ("ModeOf=enforce Users=7", {}, "observe"),
        ("ModeOf=enforce Users=1000", {}, "enforce"),
        ("ModeOf=advise Users=7,1000", {}, "advise"),
        ("ModeOf=enforce Accounts=phys", {"account": "phys"}, "enforce"),
        ("ModeOf=enforce Accounts=phys", {"account": "physics"}, "observe"),
        ("ModeOf=enforce Accounts=phys", {}, "observe"),
        ("ModeOf=enforce Qos=bulk", {"qos": "bulk"}, "enforce"),
        ("ModeOf=enforce Partitions=a", {"partition": "a"}, "enforce"),
        ("ModeOf=enforce Partitions=a", {"partition": "a,b"}, "observe"),
        ("ModeOf=enforce Partitions=a,b", {"partition": "a,b"}, "enforce"),
        ("Mode=enforce\nModeOf=observe Partitions=b", {"partition": "a,b"}, "observe"),
        ("Mode=enforce\nModeOf=observe Users=1000", {}, "observe"),
        ("ModeOf=enforce Accounts=p Partitions=a", {"account": "p", "partition": "b"}, "observe"),
        ("ModeOf=enforce Accounts=p Partitions=a", {"account": "p", "partition": "a"}, "enforce"),
        ("ModeOf=enforce Accounts=p\nModeOf=advise Users=1000", {"account": "p"}, "advise"),
        ("ModeOf=advise Users=1000\nModeOf=enforce Accounts=p", {"account": "p"}, "advise"),
        ("Mode=off\nModeOf=enforce Users=1000", {}, "enforce"),
        ("Mode=off\nModeOf=enforce Users=7", {}, "off"),
        ("Mode=enforce\nModeOf=off Users=1000\nModeOf=observe Users=1000", {}, "off"),
    ],
)
def test_the_most_careful_rule_that_fits_a_job_gives_its_mode(conf, members, expected):
    assert mode(conf, **members) == expected


@pytest.mark.parametrize(
    ("conf", "lane_mask", "expected"),
    [
        ("ModeOf=enforce Lanes=sl0", 0b001, "enforce"),
        ("ModeOf=enforce Lanes=sl0", 0b011, "observe"),
        ("ModeOf=enforce Lanes=sl0,sl1", 0b011, "enforce"),
        ("ModeOf=enforce Lanes=sl0", 0b110, "observe"),
        ("Mode=enforce\nModeOf=advise Lanes=sl2", 0b111, "advise"),
        ("Mode=enforce\nModeOf=advise Lanes=sl2", 0b011, "enforce"),
        ("ModeOf=enforce Lanes=sl0", 0, "enforce"),
    ],
)
def test_of_several_lanes_the_most_careful_counts_and_the_boldest_before_they_are_known(
    conf, lane_mask, expected
):
    assert mode(conf, lane_mask) == expected


def test_an_undivided_file_system_is_the_lane_called_all():
    config = parse("ModeOf=enforce Lanes=all")
    assert core.mode_of(config, config.policy, submission(), 1) == "enforce"


RULES = st.lists(
    st.tuples(
        st.sampled_from(MODES),
        st.sampled_from(["Users=1000", "Accounts=p", "Qos=q", "Partitions=a", "Lanes=sl0"]),
    ),
    max_size=6,
)


@given(
    rules=RULES,
    site=st.sampled_from(MODES),
    job=st.tuples(st.sampled_from(["", "p"]), st.sampled_from(["", "a", "b", "a,b"])),
    lane_mask=st.integers(0, 7),
    order=st.randoms(),
)
def test_the_order_of_rules_says_nothing_and_more_places_never_mean_a_bolder_mode(
    rules, site, job, lane_mask, order
):
    account, partition = job

    def found(lines, *, lanes=lane_mask, where=partition) -> int:
        conf = "\n".join([f"Mode={site}", *(f"ModeOf={a} {b}" for a, b in lines), ""])
        return MODES.index(mode(conf, lanes, account=account, partition=where))

    shuffled = list(rules)
    order.shuffle(shuffled)
    assert found(rules) == found(shuffled)
    if lane_mask:
        assert found(rules, lanes=lane_mask | 1) <= found(rules)
        assert found(rules) <= found(rules, lanes=0)
    if partition:
        assert found(rules, where=f"{partition},c") <= found(rules)
    fits = {MODES.index(a) for a, b in rules if b == "Users=1000"}
    assert found(rules) <= min(fits, default=2)


def test_a_record_says_which_rule_gave_the_mode():
    config = parse("ModeOf=advise Users=7\nModeOf=enforce Users=1000 Partitions=a\n")
    record = decide(situation(), config, submission(partition="a"), NOW)
    assert (record.mode, record.mode_rule) == ("enforce", 2)
    assert record.mode_by == ("user", "partition")
    other = decide(situation(), config, submission(partition="b"), NOW)
    assert (other.mode, other.mode_rule, other.mode_by) == ("observe", 0, ())


def decided(conf: str, **members):
    """Decide on a job that had better keep to a lane of its own, in a site with three."""
    config = parse(LANES + conf)
    known = bundle(application(FLUSHING), conf=LANES)
    state = Situation(known, snapshot(corunner(7, STREAMING, lane_mask=0b110)))
    record = decide(state, config, submission(**members), NOW, totals=[10**6] * 3)
    return record, state, config


def test_only_a_job_with_which_sluice_goes_that_far_gets_tokens():
    for conf, outcome in [
        ("Mode=enforce", "taken"),
        ("Mode=observe\nModeOf=enforce Users=1000", "taken"),
        ("Mode=observe\nModeOf=enforce Users=7", "none"),
        ("Mode=enforce\nModeOf=advise Users=1000", "none"),
        ("Mode=enforce\nModeOf=observe Lanes=sl0,sl1,sl2", "none"),
    ]:
        record, state, config = decided(conf)
        assert record.grant.outcome == outcome, conf
        assert replay(record, state, config) == record.decision.bytes
        assert replay_grant(record, state) == record.grant.bytes


@pytest.mark.parametrize("conf", ["Mode=observe", "Mode=enforce", "ModeOf=enforce Lanes=sl1"])
def test_a_decision_is_made_again_whatever_the_rules_are_by_then(conf):
    record, state, _ = decided(conf, flags=["io_dir"])
    later = parse(LANES + "Mode=observe\nModeOf=enforce Users=1000 Lanes=sl2")
    assert replay(record, state, later) == record.decision.bytes


@pytest.mark.parametrize(
    ("conf", "in_turns"),
    [
        ("Mode=observe", "asked"),
        ("Mode=enforce", "asked"),
        ("Mode=observe\nModeOf=enforce Users=1000", "asked"),
        ("Mode=observe\nModeOf=enforce Users=7", "none"),
        ("Mode=enforce\nModeOf=observe Users=1000", "none"),
    ],
)
def test_where_some_jobs_are_held_in_turns_the_others_take_none(conf, in_turns):
    record, *_ = decided(f"TurnsPort=6820\n{conf}", flags=["io_turns"])
    assert record.grant.in_turns == in_turns


@pytest.mark.parametrize(
    ("line", "remedy"),
    [
        ("ModeOf=off Lanes=sl0", "use ModeOf=observe"),
        ("ModeOf=off", "names no jobs"),
        ("Controlled=", "names no jobs"),
        ("Controlled=Lanes=sl0", "cannot name Lanes"),
        ("Controlled=root", "one each"),
        ("Controlled=Users=1\n" * 17, "more than 16 lines of Controlled"),
        ("ModeOf=enforce", "names no jobs"),
        ("ModeOf=bold Users=1000", "no such mode"),
        ("ModeOf=enforce Users=", "with a list"),
        ("ModeOf=enforce Users=1 Users=2", "one each"),
        ("ModeOf=enforce Nodes=1", "one each"),
        ("ModeOf=enforce Accounts=a,,b", "empty item"),
        ("ModeOf=enforce Accounts=" + "a" * 300, "longer than 255"),
        ("ModeOf=enforce Users=no-such-user", "no user no-such-user"),
        ("ModeOf=enforce Users=1\n" * 17, "more than 16"),
    ],
)
def test_a_rule_that_makes_no_sense_is_refused_by_name(line, remedy):
    with pytest.raises(core.CoreError, match=remedy):
        parse(line)


def test_the_furthest_mode_is_that_of_the_boldest_rule():
    assert core.furthest_mode(parse("ModeOf=enforce Users=1")) == "enforce"
    assert core.furthest_mode(parse("Mode=advise\nModeOf=observe Users=1")) == "advise"
    assert core.furthest_mode(parse("Mode=off\nModeOf=enforce Users=1")) == "enforce"
    assert core.furthest_mode(parse("Mode=off\nModeOf=off Users=1")) == "off"
    assert core.mode_text(parse("ModeOf=enforce Users=1")) == "observe, for some enforce"
