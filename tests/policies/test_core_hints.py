"""Law 8: what users say of their jobs counts within half and double of their own history."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from core_cases import NOW, PROFILES, STREAMING, application, bundle, snapshot, submission
from hypothesis import given
from hypothesis import strategies as st

from sluice.policies import core
from sluice.policies.record import Situation, decide

if TYPE_CHECKING:
    from sluice.policies.structs import View

ALLOWED = core.parse_config("sluice.conf", b"UserHints=1\n")
FORBIDDEN = core.default_config()
HINTS = st.fixed_dictionaries(
    {},
    optional={
        "pattern": st.sampled_from(core.PATTERNS),
        "chunk_bytes": st.integers(0, 2**60),
        "total_bytes": st.integers(0, 2**60),
    },
)


def prediction(
    profile: dict[str, Any],
    hints: dict[str, Any],
    *,
    config: core.Config = ALLOWED,
    evidence: str = "user_name",
) -> View:
    """What is predicted of a job with this history whose user says this."""
    known = bundle(application(profile, evidence=evidence))
    job = submission(hints=hints)
    return decide(Situation(known, snapshot()), config, job, NOW).prediction


@given(PROFILES, HINTS)
def test_no_number_leaves_half_and_double_of_its_history(profile, hints):
    history = prediction(profile, {}).profile
    hinted = prediction(profile, hints).profile
    for field in core.PROFILE_FIELDS:
        before, after = getattr(history, field.name), getattr(hinted, field.name)
        if before is None:
            assert after is None
        else:
            assert before / 2 * (1 - 1e-9) <= after <= before * 2 * (1 + 1e-9)
    for pattern, share in history.share.items():
        assert share / 2 * (1 - 1e-6) <= hinted.share[pattern] <= share * 2 * (1 + 1e-6)
    assert sum(hinted.share.values()) == pytest.approx(1.0)


@given(PROFILES, HINTS)
def test_a_hint_changes_neither_name_nor_certainty(profile, hints):
    history, hinted = prediction(profile, {}).profile, prediction(profile, hints).profile
    for member in ("pattern", "confidence", "runs", "log_sd"):
        assert getattr(hinted, member) == getattr(history, member)


@given(PROFILES, HINTS)
def test_the_history_of_others_is_not_the_users_to_change(profile, hints):
    known = bundle(application(profile, evidence="name"))
    situation = Situation(known, snapshot())
    plain, hinted = (
        decide(situation, ALLOWED, submission(hints=said), NOW).prediction for said in ({}, hints)
    )
    assert hinted == plain
    assert not hinted.hinted


@given(PROFILES, HINTS)
def test_hints_count_only_where_the_site_lets_them(profile, hints):
    assert prediction(profile, hints, config=FORBIDDEN) == prediction(profile, {})


def test_more_bytes_mean_longer_bursts_at_the_same_rate():
    history = STREAMING | {"io_share": 0.5, "burst_seconds": 10.0, "period_seconds": 20.0}
    history |= {"rate": 1e9, "read_bytes": 0.0}
    hinted = prediction(history, {"total_bytes": 2 * int(STREAMING["write_bytes"])})
    assert hinted.hinted == ("total",)
    profile = hinted.profile
    assert (profile.write_bytes, profile.rate) == (2 * STREAMING["write_bytes"], 1e9)
    assert (profile.burst_seconds, profile.period_seconds) == (20.0, 30.0)
    assert profile.runtime_seconds == 1.5 * STREAMING["runtime_seconds"]
    assert profile.io_share == pytest.approx(2 / 3)


def test_a_pattern_that_was_never_seen_is_not_believed():
    assert not prediction(STREAMING, {"pattern": "none"}).hinted
    mixed = STREAMING | {"share": {"aw": 0.8, "owc": 0.2}}
    hinted = prediction(mixed, {"pattern": "owc"})
    assert hinted.hinted == ("pattern",)
    assert hinted.profile.share["owc"] == pytest.approx(0.4)
    assert hinted.profile.pattern == "aw"


def test_a_request_without_sense_has_no_hints():
    job = core.submission_of({"io_pattern": "mixed", "io_chunk": "0" * 100, "io_bytes": "1P"})
    assert job.hints == core.submission({}).hints
    job = core.submission_of({"io_pattern": "ws", "io_chunk": "64k", "io_bytes": "2T"})
    assert job.hints.to_dict() == {
        "pattern": "ws",
        "chunk_bytes": 64 << 10,
        "total_bytes": 2 << 40,
    }
