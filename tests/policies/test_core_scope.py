"""Which jobs Sluice keeps its hands off, and why."""

from __future__ import annotations

import pytest
from core_cases import FLUSHING, NOW, application, bundle, situation, snapshot, submission

from sluice.policies import core
from sluice.policies.record import Situation, decide

PARTITIONS = [
    {"name": "batch", "flags": ["default"]},
    {"name": "urgent", "flags": ["preempts"]},
    {"name": "paid", "qos": "gold"},
    {"name": "first", "qos": "platinum"},
]
USERS = [{"uid": 1000, "account": "physics", "qos": "normal"}]


def reason(conf: str, **members) -> str:
    config = core.parse_config("sluice.conf", conf.encode())
    published = snapshot(partitions=PARTITIONS, users=USERS, preempting_qos=["urgent", "platinum"])
    known = bundle(application(FLUSHING))
    return decide(Situation(known, published), config, submission(**members), NOW).decision.reason


def test_a_plain_job_is_in_scope():
    assert reason("") == "no_corunners"


@pytest.mark.parametrize(
    ("conf", "members", "expected"),
    [
        ("Mode=off", {}, "mode_off"),
        ("Mode=off\nModeOf=off Users=1000", {}, "mode_off"),
        ("", {"flags": ["opt_out"]}, "opted_out"),
        ("", {"flags": ["het", "het_later"]}, "het_component"),
        ("ModeOf=off Users=5,1000", {}, "mode_off"),
        ("ModeOf=off Users=100,10000", {}, None),
        ("ModeOf=off Accounts=chemistry", {"account": "chemistry"}, "mode_off"),
        ("ModeOf=off Accounts=physics", {}, "mode_off"),
        ("ModeOf=off Accounts=physics", {"account": "chemistry"}, None),
        ("ModeOf=off Accounts=phys", {}, None),
        ("ModeOf=off Qos=normal", {}, "mode_off"),
        ("ModeOf=off Partitions=a,batch", {}, "mode_off"),
        ("ModeOf=off Partitions=batch", {"partition": "fast,batch"}, "mode_off"),
        ("ModeOf=off Partitions=batch", {"partition": "batch2"}, None),
        ("Mode=enforce\nModeOf=enforce Users=1000\nModeOf=off Partitions=batch", {}, "mode_off"),
        ("Mode=off\nModeOf=enforce Users=7", {}, "mode_off"),
        ("Mode=off\nModeOf=enforce Users=1000", {}, None),
        ("Mode=off\nModeOf=observe Accounts=chemistry", {}, "mode_off"),
        ("Mode=off\nModeOf=observe Accounts=physics", {}, None),
        ("Mode=off\nModeOf=advise Partitions=batch", {}, None),
        ("Mode=off\nModeOf=advise Partitions=batch", {"partition": "batch,other"}, "mode_off"),
        ("Mode=off\nModeOf=enforce Lanes=all", {}, None),
        ("", {"partition": "urgent"}, "exempt_preempt"),
        ("Include=preempt", {"partition": "urgent"}, None),
        ("", {"qos": "urgent"}, "exempt_preempt"),
        ("", {"partition": "first"}, "exempt_preempt"),
        ("", {"qos": "normal", "partition": "batch,first"}, "exempt_preempt"),
        ("Include=preempt", {"qos": "urgent", "partition": "first"}, None),
        ("", {"qos": "urgent2"}, None),
        ("", {"flags": ["reservation"]}, "exempt_reservation"),
        ("Include=reservation", {"flags": ["reservation"]}, None),
        ("", {"flags": ["deadline"]}, "exempt_deadline"),
        ("Include=deadline", {"flags": ["deadline"]}, None),
        ("", {"launcher": "salloc"}, "exempt_interactive"),
        ("Include=salloc", {"launcher": "salloc"}, None),
        ("", {"launcher": "srun", "flags": ["pty"]}, "exempt_interactive"),
        ("Include=interactive", {"launcher": "srun", "flags": ["pty"]}, None),
        ("", {"flags": ["immediate"]}, "exempt_interactive"),
        ("Include=immediate", {"flags": ["immediate"]}, None),
        ("", {"flags": ["cron"]}, "exempt_cron"),
        ("Include=cron", {"flags": ["cron"]}, None),
        ("", {"flags": ["or_licenses"]}, "exempt_licenses"),
        ("", {"launcher": "srun"}, None),
        ("", {"flags": ["array", "het"]}, None),
    ],
)
def test_a_job_is_left_alone_for_the_reason_it_is_told(conf, members, expected):
    assert reason(conf, **members) == (expected or "no_corunners")


def test_defaults_that_nobody_published_count_as_unknown():
    known = bundle(application(FLUSHING))
    for conf, expected in [
        ("ModeOf=off Accounts=physics", "no_snapshot"),
        ("Mode=off\nModeOf=observe Accounts=physics", "mode_off"),
        ("Mode=off\nModeOf=observe Partitions=batch", "mode_off"),
    ]:
        config = core.parse_config("sluice.conf", conf.encode())
        record = decide(Situation(known, None), config, submission(), NOW)
        assert record.decision.reason == expected


def test_a_job_that_is_left_alone_gets_neither_prediction_nor_alternatives():
    config = core.parse_config("sluice.conf", b"ModeOf=off Users=1000")
    decision = decide(situation(), config, submission(), NOW).decision
    assert decision.action == "abstain"
    assert decision.prediction.evidence == "none"
    assert decision.alternatives == ()


def test_the_users_default_account_is_filled_in():
    known = bundle(application(FLUSHING))
    published = snapshot(users=USERS)
    record = decide(Situation(known, published), core.default_config(), submission(), NOW)
    assert record.submission.account == "physics"
