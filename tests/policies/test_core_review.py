"""Reviews: what an administrator ruled holds in the core, until its end, and for nobody else."""

from __future__ import annotations

import itertools
from contextlib import suppress

import pytest
from core_cases import (
    FLUSHING,
    NOW,
    STREAMING,
    application,
    bundle,
    bundle_bytes,
    corunner,
    snapshot,
    submission,
)
from hypothesis import given
from hypothesis import strategies as st

from sluice.policies import core, review
from sluice.policies.bundle import Bundle
from sluice.policies.core import CoreError
from sluice.policies.record import Situation, decide
from sluice.policies.review import MAX_REVIEWS, Review, ReviewError, Selector

CONFIG = core.default_config()
ENFORCE = core.parse_config("sluice.conf", b"Mode=enforce\n")
TWO_LANES = "Lane=a Targets=4 Bandwidth=8G\nLane=b Targets=4 Bandwidth=8G\n"
HEAVY = {**STREAMING, "io_share": 0.9, "nprocs": 1024}
ME = Selector(uid=1000, name="run_1")
OTHER_JOB = submission(uid=2000, name="other")
OTHER = Selector(uid=2000)


def packed(*reviews, now=NOW):
    return review.packed(reviews, now, lambda _program: [])


def made(*reviews, alongside=(), profile=FLUSHING, conf="", config=CONFIG, now=NOW, **members):
    """Decide under reviews; the co-runners are jobs of OTHER_JOB."""
    known = bundle(application(profile), conf=conf, reviews=packed(*reviews))
    others = [one | {"identity": core.identity_of(OTHER_JOB)} for one in alongside]
    return decide(Situation(known, snapshot(*others)), config, submission(**members), now)


def test_ignored_predictions_do_not_count():
    record = made(Review("ignore", ME))
    assert (record.decision.action, record.decision.reason) == ("abstain", "ignored")
    assert record.prediction.klass == "none"
    assert record.prediction.profile.pattern == "owc"  # still told


@pytest.mark.parametrize(
    ("pattern", "klass"), [("aw", "stream"), ("ws", "flush"), ("metadata", "meta")]
)
def test_a_job_is_treated_as_the_pattern_that_was_named(pattern, klass):
    prediction = made(Review("treat", ME, treat_as=pattern)).prediction
    assert (prediction.profile.pattern, prediction.klass) == (pattern, klass)
    assert (prediction.evidence, prediction.profile.confidence) == ("review", 1.0)
    assert prediction.profile.write_bytes == FLUSHING["write_bytes"]


def test_an_unsure_prediction_counts_once_it_is_approved():
    unsure = {**FLUSHING, "confidence": 0.3}
    assert made(profile=unsure).decision.reason == "low_confidence"
    approved = Review("treat", ME, treat_as="owc")
    assert made(approved, profile=unsure).decision.reason == "no_corunners"


def test_who_is_never_delayed_takes_no_token_and_still_presses_on_others():
    before = made(alongside=[corunner(1, HEAVY)])
    after = made(Review("never_delay", ME), alongside=[corunner(1, HEAVY)])
    assert after.decision.reason == "never_delayed"
    assert after.decision.action == "abstain"
    assert after.prediction.klass == before.prediction.klass != "none"
    assert after.decision.alternatives == before.decision.alternatives


@pytest.mark.parametrize("sides", [(ME, OTHER), (OTHER, ME)])
def test_a_pair_is_kept_apart_on_another_lane_or_until_the_other_ends(sides):
    harmless = {**FLUSHING, "io_share": 0.05}
    there = corunner(1, harmless, nodes=1, lane_mask=1, expected_end=NOW + 1700)
    assert made(alongside=[there], profile=harmless, conf=TWO_LANES).decision.reason == "harmless"
    kept = made(Review("apart", *sides), alongside=[there], profile=harmless, conf=TWO_LANES)
    assert kept.decision.reason == "kept_apart"
    chosen = kept.decision.alternatives[kept.decision.chosen]
    assert (chosen.action, chosen.lane_mask) == ("disjoint", 2)
    waits = made(Review("apart", *sides), alongside=[there], profile=harmless).decision
    assert (waits.action, waits.reason, waits.wait) == ("delay", "kept_apart", 1700)


def test_nobody_waits_beyond_max_delay_for_a_pair():
    there = corunner(1, HEAVY, expected_end=NOW + 1801)
    decision = made(Review("apart", ME, OTHER), alongside=[there]).decision
    assert decision.reason != "kept_apart"
    assert decision.wait <= 1800


def test_a_pair_that_may_run_together_takes_no_token_for_it():
    there = corunner(1, HEAVY, nodes=64)
    before = made(alongside=[there], config=ENFORCE)
    assert before.decision.reason not in {"harmless", "let_together"}
    after = made(Review("together", ME, OTHER), alongside=[there], config=ENFORCE)
    assert (after.decision.action, after.decision.reason) == ("colocate", "let_together")
    assert after.grant.tokens.lane_mask == 0


def test_a_third_job_still_counts_where_two_may_run_together():
    there = corunner(1, HEAVY, nodes=64)
    third = corunner(2, HEAVY, nodes=64)
    known = bundle(application(FLUSHING), reviews=packed(Review("together", ME, OTHER)))
    others = [there | {"identity": core.identity_of(OTHER_JOB)}, third]
    decision = decide(Situation(known, snapshot(*others)), CONFIG, submission(), NOW).decision
    alone = made(alongside=[third]).decision
    assert decision.reason == alone.reason
    assert {c.job_id: c.own_slowdown > 1.01 for c in decision.coruns} == {1: False, 2: True}


def test_a_review_ends_by_itself():
    ending = Review("ignore", ME, until=NOW + 10)
    assert made(ending, now=NOW + 9).decision.reason == "ignored"
    assert made(ending, now=NOW + 10).decision.reason == "no_corunners"
    assert packed(ending, now=NOW + 10) == b""


@pytest.mark.parametrize(
    "other",
    [{"uid": 1001}, {"name": "another"}],
)
def test_a_review_is_about_nobody_else(other):
    like = submission(**other)
    known = bundle(application(FLUSHING, like), reviews=packed(Review("ignore", ME)))
    assert decide(Situation(known, snapshot()), CONFIG, like, NOW).decision.reason != "ignored"


TERMS = {
    "uid": 1000,
    "account": "physics",
    "partition": "batch",
    "name": "run_1",
    "script": 77,
}


@pytest.mark.parametrize("terms", list(itertools.combinations(TERMS, 2)))
def test_all_conditions_have_to_hold(terms):
    said = Selector(**{term: TERMS[term] for term in terms})
    members = {
        "uid": 1000,
        "account": "physics",
        "partition": "batch",
        "name": "run_7",
        "script_signature": 77,
    }
    others = {"uid": 1, "account": "bio", "partition": "gpu", "name": "x", "script_signature": 1}
    known = bundle(reviews=packed(Review("ignore", said)))
    assert known.predict(submission(**members)).evidence == "ignored"
    for term in terms:
        member = "script_signature" if term == "script" else term
        strange = submission(**{**members, member: others[member]})
        assert known.predict(strange).evidence != "ignored"


def test_the_review_with_more_conditions_counts():
    general, special = Review("ignore", Selector(uid=1000)), Review("treat", ME, treat_as="aw")
    for order in ((general, special), (special, general)):
        assert made(*order).prediction.evidence == "review"


def test_a_job_that_names_several_partitions_has_none_for_a_review():
    known = bundle(reviews=packed(Review("ignore", Selector(partition="a"))))
    assert known.predict(submission(partition="a")).evidence == "ignored"
    assert known.predict(submission(partition="a,b")).evidence == "none"


def test_a_program_stands_for_the_users_and_names_that_ran_it():
    by_program = review.packed(
        [Review("ignore", Selector(program="ior"))], NOW, lambda _: [(1000, "run_5"), (2, "x")]
    )
    known = bundle(reviews=by_program)
    assert known.predict(submission()).evidence == "ignored"
    assert known.predict(submission(uid=2)).evidence == "none"
    assert len(known.reviews()) == 2


def test_who_rules_and_when_makes_no_difference_to_the_bundle():
    one = Review("ignore", ME, comment="wrong log", by="alice", made_at=5)
    other = Review("ignore", Selector(uid=1000, name="RUN_99"), by="file")
    assert bundle_bytes(reviews=packed(one)) == bundle_bytes(reviews=packed(other))


@pytest.mark.parametrize(
    ("members", "what"),
    [
        ({"ruling": "sometimes", "of": ME}, "no ruling"),
        ({"ruling": "ignore", "of": Selector()}, "say which jobs"),
        ({"ruling": "apart", "of": ME}, "of which two"),
        ({"ruling": "ignore", "of": ME, "other": OTHER}, "not about a pair"),
        ({"ruling": "treat", "of": ME}, "needs a pattern"),
        ({"ruling": "ignore", "of": ME, "treat_as": "aw"}, "nothing else does"),
        ({"ruling": "treat", "of": ME, "treat_as": "loud"}, "is none of"),
    ],
)
def test_a_review_that_makes_no_sense_is_refused(members, what):
    with pytest.raises(ReviewError, match=what):
        Review(**members)


def test_a_bundle_holds_so_many():
    many = [Review("ignore", Selector(uid=uid)) for uid in range(MAX_REVIEWS)]
    assert len(bundle(reviews=packed(*many)).reviews()) == MAX_REVIEWS
    with pytest.raises(ReviewError, match="undo some"):
        packed(*many, Review("ignore", Selector(uid=MAX_REVIEWS)))


@given(st.binary(min_size=104, max_size=104))
def test_a_bundle_with_a_damaged_review_is_refused_or_harmless(noise):
    with suppress(CoreError):
        known = Bundle.parse(bundle_bytes(application(FLUSHING), reviews=noise))
        assert known.reviews()[0].ruling != "none"
        decide(Situation(known, snapshot(corunner(1, HEAVY))), CONFIG, submission(), NOW)
