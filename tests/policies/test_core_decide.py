"""Decisions: reproducible, explained, and abstaining whenever something is not known."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace

import core_calls
import pytest
from core_cases import (
    FLUSHING,
    NOW,
    PROFILES,
    STREAMING,
    TINY,
    application,
    bundle,
    corunner,
    corunners,
    policy,
    situation,
    snapshot,
    submission,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.policies import core
from sluice.policies.record import RECORD_SIZE, Record, Situation, decide, replay
from sluice.policies.snapshot import CLOCK_DIFFERENCE

CONFIG = core.default_config()
CHEAP_WAITS = "WaitPrice=0.05\n"
TWO_LANES = "Lane=a Targets=4 Bandwidth=8G\nLane=b Targets=4 Bandwidth=8G\n"
THREE_LANES = TWO_LANES + "Lane=c Targets=2\n"
HEAVY = {**STREAMING, "io_share": 0.9, "nprocs": 1024}


def decision_alongside(*others, profile=FLUSHING, conf="", **members):
    made_ready = situation(*others, profile=profile, conf=conf)
    return decide(made_ready, CONFIG, submission(**members), NOW).decision


# What is looked at first


def test_without_a_bundle_it_abstains():
    decision = decide(None, CONFIG, submission(), NOW).decision
    assert (decision.action, decision.reason) == ("abstain", "no_bundle")
    assert decision.prediction.profile.rate is None


def test_without_a_snapshot_it_predicts_and_abstains():
    decision = decide(Situation(bundle(application(FLUSHING)), None), CONFIG, submission(), NOW)
    assert decision.decision.reason == "no_snapshot"
    assert decision.decision.action == "abstain"
    assert decision.prediction.profile.pattern == "owc"


@pytest.mark.parametrize(
    ("age", "reason"),
    [
        (60, "no_corunners"),
        (61, "stale_snapshot"),
        (-CLOCK_DIFFERENCE, "no_corunners"),
        (-CLOCK_DIFFERENCE - 1, "stale_snapshot"),
    ],
)
def test_a_snapshot_is_believed_for_a_minute_and_never_before_its_time(age, reason):
    record = decide(situation(), CONFIG, submission(), NOW + age)
    assert record.decision.reason == reason


def test_the_kill_switch_in_the_snapshot_stops_it():
    off = Situation(bundle(application(FLUSHING)), snapshot(state={"flags": ["off"]}))
    decision = decide(off, CONFIG, submission(), NOW).decision
    assert (decision.action, decision.reason) == ("abstain", "switched_off")


@pytest.mark.parametrize(
    ("profile", "action", "reason"),
    [
        ({**FLUSHING, "pattern": "unknown"}, "abstain", "volume_only"),
        (
            {**FLUSHING, "pattern": "unknown", "write_bytes": None, "read_bytes": None},
            "abstain",
            "unknown_job",
        ),
        ({**FLUSHING, "confidence": 0.69}, "abstain", "low_confidence"),
        ({**TINY, "confidence": 0.69}, "abstain", "low_confidence"),
        (TINY, "leave", "insignificant"),
        ({**FLUSHING, "pattern": "none"}, "leave", "few_bytes"),
        ({**FLUSHING, "write_bytes": 1e6}, "leave", "few_bytes"),
        ({**FLUSHING, "write_bytes": 1e6, "io_share": 0.7}, "leave", "few_bytes"),
        ({**FLUSHING, "pattern": "read"}, "colocate", "no_corunners"),
        (
            {**FLUSHING, "pattern": "read", "read_bytes": 1e6, "write_bytes": 0},
            "leave",
            "few_bytes",
        ),
        ({**FLUSHING, "pattern": "read", "io_share": None}, "abstain", "unmeasured"),
        ({**FLUSHING, "pattern": "read", "io_share": 0.001}, "leave", "insignificant"),
        ({**FLUSHING, "io_share": None}, "abstain", "unmeasured"),
        ({"pattern": "mixed", "confidence": 0.9, "io_share": 0.5}, "abstain", "unmeasured"),
        ({**FLUSHING, "pattern": "mixed"}, "colocate", "no_corunners"),
    ],
)
def test_it_abstains_or_leaves_when_it_should(profile, action, reason):
    decision = decision_alongside(profile=profile)
    assert (decision.action, decision.reason) == (action, reason)


def test_where_any_certainty_will_do_whatever_is_known_is_used():
    unsure = {**FLUSHING, "confidence": 0.0}
    decision = decide(
        situation(profile=unsure, conf="MinConfidence=0"), CONFIG, submission(), NOW
    ).decision
    assert (decision.action, decision.reason) == ("colocate", "no_corunners")


def test_an_unknown_job_is_left_to_slurm():
    decision = decision_alongside(name="never_seen")
    assert (decision.action, decision.reason) == ("abstain", "unknown_job")


# From the specific to the general


def predicted(job, /, agreement=1.0, **profiles_by_evidence):
    learned = [
        replace(application(profile, job, evidence, number), agreement=agreement)
        for number, (evidence, profile) in enumerate(profiles_by_evidence.items(), start=1)
    ]
    return bundle(*learned).predict(job)


JOB = submission(script_signature=77, account="physics")
SURE, UNSURE = {**FLUSHING, "confidence": 0.8}, {**FLUSHING, "confidence": 0.6}
SUREST = {**FLUSHING, "confidence": 0.9}


def test_the_most_specific_evidence_that_is_sure_enough_is_taken():
    def taken(**profiles_by_evidence):
        prediction = predicted(JOB, **profiles_by_evidence)
        return prediction.evidence, prediction.application

    assert taken(user_script=SURE, user_name=SUREST) == ("user_script", 1)
    assert taken(user_script=UNSURE, user_name=SURE, name=SUREST) == ("user_name", 2)
    assert taken(user_script=UNSURE, user_name={**UNSURE, "confidence": 0.5}) == ("user_script", 1)
    assert taken(name=SURE) == ("name", 1)
    assert taken() == ("none", 0)


def test_others_make_what_the_users_own_runs_did_more_certain():
    """The numbers stay the user's: what others write under a name says nothing of them."""
    others = {**SURE, "write_bytes": 1e15, "io_share": 0.9}
    found = predicted(JOB, user_name=UNSURE, name=others)
    assert (found.evidence, found.application) == ("confirmed", 1)
    assert found.profile.to_dict() == predicted(JOB, user_name=SURE).profile.to_dict()
    assert core.counts(found)


@pytest.mark.parametrize(
    ("others", "agreement"),
    [
        ({**STREAMING, "confidence": 0.9}, 1.0),
        (SUREST, 0.5),
        (SUREST, 0.0),
        ({**FLUSHING, "confidence": 0.5}, 1.0),
    ],
    ids=[
        "they do something else",
        "half of the runs differ",
        "not known",
        "they are less sure",
    ],
)
def test_others_do_not_count_where_the_users_own_runs_do_not_bear_them_out(others, agreement):
    found = predicted(JOB, agreement, user_name=UNSURE, name=others)
    assert found == predicted(JOB, user_name=UNSURE)


def test_what_only_others_ran_is_reported_and_left_to_slurm():
    known = bundle(application(SUREST, JOB, "name"))
    found = known.predict(JOB)
    assert (found.evidence, found.profile.pattern, found.klass) == ("name", "owc", "none")
    alongside = Situation(known, snapshot(corunner(1, STREAMING)))
    decision = decide(alongside, CONFIG, JOB, NOW).decision
    assert (decision.action, decision.reason) == ("abstain", "others_only")


@pytest.mark.parametrize("evidence", ["user_name", "user_script"])
@pytest.mark.parametrize("others", [{}, {"name": SUREST}])
def test_what_no_counter_confirms_is_reported_and_affects_nobody(evidence, others):
    own = replace(application({**STREAMING, "confidence": 0.6}, JOB, evidence), is_confirmed=False)
    known = bundle(own, *(application(profile, JOB, kind) for kind, profile in others.items()))
    found = known.predict(JOB)
    assert (found.evidence, found.application, found.klass) == ("unconfirmed", own.id, "none")
    assert not core.counts(found)
    sure = replace(own, profile={**STREAMING, "confidence": 0.9})
    alongside = Situation(bundle(sure), snapshot(corunner(1, FLUSHING)))
    record = decide(alongside, CONFIG, JOB, NOW)
    assert (record.decision.action, record.decision.reason) == ("abstain", "unconfirmed")
    tiny = Situation(bundle(replace(own, profile=TINY)), snapshot(corunner(1, FLUSHING)))
    assert decide(tiny, CONFIG, JOB, NOW).decision.action == "leave"


def test_what_many_own_runs_leave_open_is_not_settled_by_others():
    for runs, evidence in ((9, "confirmed"), (10, "user_name")):
        unsure = {**FLUSHING, "confidence": 0.4, "runs": runs}
        assert predicted(JOB, user_name=unsure, name=SURE).evidence == evidence


def test_runs_that_differ_by_digits_are_one_application():
    other_run = submission(name="RUN_0042")
    assert core.name_stem("Run_0042") == "run_#"
    assert bundle(application(FLUSHING)).predict(other_run).evidence == "user_name"
    assert bundle(application(FLUSHING)).predict(submission(uid=5)).evidence == "none"


# Other sizes


def sized(profile=FLUSHING, *, key=None, number=1, **scaling):
    """What was learned of 16 processes, from runs of 8 to 32."""
    plain = application(profile, number=number)
    parts = {"size": 16.0, "sizes": (8.0, 32.0)} | scaling
    return replace(plain, key=key or plain.key, **parts)


@pytest.mark.parametrize(
    ("tasks", "written", "chunk"),
    [
        (16, 1.0, 1.0),
        (32, 2.0, 0.5),
        (8, 0.5, 2.0),
        (64, 4.0, 0.25),
        (4096, 4.0, 0.25),
        (1, 0.25, 4.0),
    ],
    ids=["as known", "double", "half", "an octave beyond", "far beyond", "far below"],
)
def test_bytes_and_chunk_follow_the_size_as_far_as_it_was_seen(tasks, written, chunk):
    known = bundle(sized(exponents={"write_bytes": 1.0, "chunk_bytes": -1.0}))
    found = known.predict(submission(tasks=tasks)).profile
    assert found.write_bytes == FLUSHING["write_bytes"] * written
    assert found.chunk_bytes == FLUSHING["chunk_bytes"] * chunk
    assert found.io_share == FLUSHING["io_share"]


def test_without_a_size_nothing_is_scaled():
    known = bundle(sized(exponents={"write_bytes": 1.0}))
    job = submission(nodes=0, tasks=0)
    assert known.predict(job).profile.write_bytes == FLUSHING["write_bytes"]


def test_nodes_stand_for_the_size_where_tasks_are_not_given():
    assert core_calls.submission_size(submission(nodes=3, tasks=0)) == 3
    assert core_calls.submission_size(submission(nodes=3, tasks=24)) == 24


def test_runs_of_this_size_come_before_those_of_all_sizes():
    key = core.application_key(submission(), "user_name")
    known = bundle(
        sized(FLUSHING),
        sized(STREAMING, key=core.size_key(key, 1000.0), number=2, size=1000.0, sizes=(1000, 1000)),
    )
    assert known.predict(submission(tasks=1000)).profile.pattern == "aw"
    assert known.predict(submission(tasks=999)).profile.pattern == "owc"
    assert core.size_key(0, 8.0) == core.size_key(key, 0.0) == 0


def test_the_runs_most_alike_tell_the_numbers_and_all_how_sure_the_pattern_is():
    """One run of this very size is the last run; that it goes on like all others, these say."""
    key = core.application_key(submission(), "user_name")
    once = {**FLUSHING, "confidence": 0.4, "write_bytes": 5e9, "runs": 1}
    known = bundle(sized(SUREST), sized(once, key=core.size_key(key, 64.0), number=2, exponents={}))
    found = known.predict(submission(tasks=64))
    assert (found.application, found.profile.write_bytes) == (2, 5e9)
    assert found.profile.confidence == SUREST["confidence"]


def test_arguments_come_before_the_size_and_both_together_first():
    job = submission(tasks=64, arguments={"hash": 9})
    key, words = (core.application_key(job, kind) for kind in ("user_name", "user_arguments"))
    entries = [
        replace(sized(number=number), key=key)
        for number, key in enumerate(
            [key, core.size_key(key, 64.0), words, core.size_key(words, 64.0)], start=1
        )
    ]
    told = [bundle(*entries[:count]).predict(job).application for count in range(1, 5)]
    assert told == [1, 2, 3, 4]


def test_evidence_that_ages_says_less_of_the_next_run():
    spread = {"spread": {"write_bytes": 0.25, "rate": 0.25}}
    ageing = {"write_bytes": [1.0, 1.0, 1.5, 2.0, 3.0, 3.0, 4.0, 1e-3]}
    aged = replace(application({**FLUSHING, **spread}), newest=NOW)
    known = bundle(aged, ageing=ageing)
    for seconds, factor in ((600, 1.0), (3601, 1.5), (86400, 2.0), (86401, 3.0), (10**9, 1e-3)):
        found = known.predict(submission(), NOW + seconds).profile.spread
        assert found["write_bytes"] == pytest.approx(0.25 * factor)
        assert found["rate"] == 0.25
    ageless = bundle(replace(aged, newest=0), ageing=ageing)
    for one, now in ((ageless, NOW + 10**6), (known, 0)):
        assert one.predict(submission(), now).profile.spread["write_bytes"] == 0.25


# Alongside others


def test_nobody_else_means_no_conflict():
    decision = decision_alongside()
    assert (decision.action, decision.reason) == ("colocate", "no_corunners")
    assert decision.alternatives[0].slowdown == 1.0


def test_jobs_without_a_class_are_no_conflict():
    assert decision_alongside(corunner(1, TINY)).reason == "no_corunners"


def test_a_neighbour_that_leaves_room_is_harmless():
    rates = {"rate": 1e8}
    decision = decision_alongside(
        corunner(1, STREAMING | rates), profile=FLUSHING | rates, conf=TWO_LANES
    )
    assert (decision.action, decision.reason) == ("colocate", "harmless")
    assert decision.coruns[0].own_slowdown == pytest.approx(1.0, abs=1e-4)


def test_waiting_pays_when_the_conflict_ends_soon():
    end = NOW + 300
    decision = decision_alongside(
        corunner(1, HEAVY, expected_end=end),
        corunner(2, TINY),
        profile=HEAVY,
        nodes=64,
        conf=CHEAP_WAITS,
    )
    assert (decision.action, decision.reason) == ("delay", "delay_pays")
    assert decision.wait == 300
    sharing, delay = decision.alternatives
    assert sharing.own > 0
    assert delay.own == pytest.approx(0.8 * sharing.own)


def test_of_what_a_wait_avoids_others_replace_a_share():
    """Four fifths of the costs are lost all the same."""
    for price, action in ((0.05, "delay"), (0.2, "colocate")):
        decision = decision_alongside(
            corunner(1, HEAVY, expected_end=NOW + 300),
            profile=HEAVY,
            nodes=64,
            conf=f"WaitPrice={price}\n",
        )
        sharing, delay = decision.alternatives
        assert delay.own == pytest.approx(0.8 * sharing.own)
        assert delay.caused == pytest.approx(0.8 * sharing.caused)
        assert delay.cost == pytest.approx(delay.own + delay.caused + price * 300 * 64)
        assert decision.action == action


def test_costs_expect_the_mean_offset_also_of_equal_periods():
    """A bound has to hold against the worst one; a cost is what is to be expected."""
    equal = {**HEAVY, "io_share": 0.2, "burst_seconds": 60.0, "period_seconds": 300.0}
    other = {**equal, "period_seconds": 400.0, "burst_seconds": 80.0}
    alike, apart = (
        decision_alongside(corunner(1, one), profile=equal).alternatives[0].own
        for one in (equal, other)
    )
    assert alike == pytest.approx(apart, rel=0.1)


def test_nobody_waits_longer_than_the_site_allows():
    decision = decision_alongside(
        corunner(1, HEAVY, expected_end=NOW + 1801), profile=HEAVY, conf="MaxDelay=1800"
    )
    assert all(a.action != "delay" for a in decision.alternatives)


def test_a_lane_of_its_own_pays_when_the_neighbours_keep_to_another():
    conf = "Lane=a Targets=4\nLane=b Targets=4\nMaxDelay=0\n"
    fragile = {**FLUSHING, "io_share": 0.9, "targets": 4, "runtime_seconds": 36000.0}
    decision = decision_alongside(
        corunner(1, HEAVY, lane_mask=1, expected_end=NOW + 36000),
        profile=fragile,
        conf=conf,
    )
    assert (decision.action, decision.reason) == ("disjoint", "separation_pays")
    chosen = decision.alternatives[decision.chosen]
    assert chosen.lane_mask == 2
    assert chosen.own == 0.0
    assert chosen.confined == 0.0


def test_a_saving_below_the_margin_changes_nothing():
    conf = "Lane=a Targets=4\nLane=b Targets=4\nMaxDelay=0\n"
    fragile = {**FLUSHING, "io_share": 0.9, "targets": 4, "runtime_seconds": 36000.0}
    others = [corunner(1, HEAVY, lane_mask=1, expected_end=NOW + 36000)]
    assert decision_alongside(*others, profile=fragile, conf=conf).action == "disjoint"
    decision = decision_alongside(*others, profile=fragile, conf=f"{conf}MinSaving=1000000000\n")
    assert (decision.action, decision.reason) == ("colocate", "margin")


def test_confining_a_wide_job_costs_more_than_it_saves():
    conf = "Lane=a Targets=1\nLane=b Targets=9\nMaxDelay=0\n"
    decision = decision_alongside(
        corunner(1, HEAVY, lane_mask=2, nodes=1), profile={**HEAVY, "io_share": 0.9}, conf=conf
    )
    assert (decision.action, decision.reason) == ("colocate", "sharing_cheapest")
    narrow = decision.alternatives[1]
    assert narrow.confined > narrow.own


def test_metadata_reach_every_lane():
    storm = {
        "pattern": "metadata",
        "share": {"metadata": 1.0},
        "confidence": 0.9,
        "metadata_rate": 20_000.0,
        "io_share": 0.8,
        "runtime_seconds": 3600.0,
        "runs": 3,
    }
    decision = decision_alongside(corunner(1, storm, lane_mask=1), profile=storm, conf=TWO_LANES)
    assert decision.alternatives[0].own > 0
    elsewhere = next(a for a in decision.alternatives if a.lane_mask == 2)
    assert elsewhere.own == pytest.approx(decision.alternatives[0].own)
    assert elsewhere.caused == pytest.approx(decision.alternatives[0].caused)


def test_the_worst_neighbours_are_reported_first():
    others = [corunner(i, {**HEAVY, "nprocs": 2.0**i}, nodes=2**i) for i in range(1, 6)]
    decision = decision_alongside(*others, profile=HEAVY)
    assert [e.job_id for e in decision.coruns] == [5, 4, 3, 2, 1]
    assert decision.corunner_count == 5
    assert all(e.together == 3600 for e in decision.coruns)


def test_those_who_are_not_looked_at_singly_lose_too():
    few = decision_alongside(*(corunner(i, STREAMING) for i in range(1, 6)), profile=HEAVY)
    many = decision_alongside(*(corunner(i, STREAMING) for i in range(1, 41)), profile=HEAVY)
    assert many.corunner_count == 40
    assert many.alternatives[0].own > few.alternatives[0].own
    assert many.alternatives[0].caused > few.alternatives[0].caused


def test_the_time_limit_stands_in_for_an_unknown_run_time():
    unknown = {**HEAVY, "runtime_seconds": None}
    decision = decision_alongside(corunner(1, HEAVY), profile=unknown, time_limit=10)
    assert decision.coruns[0].together == 600
    without = decision_alongside(corunner(1, HEAVY), profile=unknown, time_limit=0)
    assert without.coruns[0].together == 3600


# Laws over arbitrary situations


KNOWN = st.one_of(
    PROFILES,
    st.builds(
        lambda base, io, runtime: {**base, "io_share": io, "runtime_seconds": runtime},
        st.sampled_from([STREAMING, FLUSHING, HEAVY]),
        st.floats(0.03, 1.0),
        st.floats(60, 1e5),
    ),
)
SITUATIONS = st.builds(
    lambda others, profile, conf: situation(*others, profile=profile, conf=conf),
    corunners(),
    KNOWN,
    st.sampled_from(["", TWO_LANES, THREE_LANES]),
)
JOBS = st.builds(submission, nodes=st.integers(0, 1000), time_limit=st.integers(0, 3000))


@settings(max_examples=200)
@given(corunners(most=5), st.sampled_from(["", TWO_LANES, THREE_LANES]))
def test_a_job_that_has_ended_counts_for_nothing_to_the_last_bit(others, conf):
    still = [other for other in others if other["expected_end"] > NOW]
    shared = decision_alongside(*others, profile=HEAVY, conf=conf)
    known_better = decision_alongside(*still, profile=HEAVY, conf=conf)
    assert shared.alternatives == known_better.alternatives
    assert shared.coruns == known_better.coruns


@settings(max_examples=500)
@given(SITUATIONS, JOBS)
def test_every_decision_is_reproducible_and_adds_up(made_ready, job):
    record = decide(made_ready, CONFIG, job, NOW, boot=3, number=4, cluster="c")
    decision = record.decision
    rules = made_ready.bundle.policy

    again = Situation(made_ready.bundle, made_ready.snapshot)
    assert replay(Record.parse(record.bytes), again, CONFIG) == decision.bytes
    json.dumps(record.to_dict(), allow_nan=False)

    if decision.action in ("abstain", "leave"):
        assert decision.alternatives == ()
        assert decision.reason not in ("none", "harmless", "no_corunners")
        return
    assert decision.prediction.profile.confidence >= rules.min_confidence
    sharing, *others = decision.alternatives
    chosen = decision.alternatives[decision.chosen]
    assert sharing.action == "colocate"
    assert decision.action == chosen.action
    assert decision.wait == chosen.wait <= rules.max_delay
    for a in decision.alternatives:
        assert a.slowdown >= 1
        assert min(a.own, a.caused, a.confined, a.wait) >= 0
        waiting = rules.wait_price * a.wait * max(1, job.nodes)
        assert a.cost == pytest.approx(a.own + a.caused + a.confined + waiting)
    if decision.chosen != 0:
        assert chosen.cost == min(a.cost for a in decision.alternatives)
        assert sharing.cost - chosen.cost > 0.1 * sharing.cost
        assert sharing.cost - chosen.cost >= rules.min_saving
        assert decision.reason in ("separation_pays", "delay_pays")
    lanes = [a.lane_mask for a in others if a.action == "disjoint"]
    assert lanes in ([], [1 << lane for lane in range(rules.lane_count)])


@settings(max_examples=300)
@given(KNOWN, KNOWN, st.integers(1, 10_000), st.integers(1, 100))
def test_a_co_run_costs_nobody_more_than_its_length(profile, other, left, nodes):
    """They meet until the first of them ends, each as slow as the other makes it."""
    running = corunner(1, other, klass="stream", nodes=8, expected_end=NOW + left)
    decision = decision_alongside(running, profile=profile, nodes=nodes)
    if not decision.coruns:
        return
    (met,) = decision.coruns
    runtime = decision.prediction.profile.runtime_seconds or 3600.0
    sharing = decision.alternatives[0]
    assert sharing.caused <= 8 * runtime * met.own_slowdown * (1 + 1e-9)
    assert sharing.own <= nodes * left * met.other_slowdown * (1 + 1e-9)


def test_a_short_stream_costs_a_long_victim_at_most_its_own_length():
    """Measured on throttled targets: a stream of 9 s takes 6 s from a program that is
    busy writing for an eighth of its time, however long that still runs."""
    stream = {**HEAVY, "io_share": 1.0, "runtime_seconds": 9.0}
    victim = {**FLUSHING, "io_share": 0.13, "burst_seconds": None, "period_seconds": None}

    def caused(left):
        running = corunner(1, victim, nodes=1, expected_end=NOW + left)
        return decision_alongside(running, profile=stream).alternatives[0].caused

    assert 0 < caused(100) <= 9
    assert caused(1000) == pytest.approx(caused(100))


@settings(max_examples=300)
@given(corunners(most=5), st.randoms())
def test_the_order_of_the_snapshot_does_not_matter(others, random):
    shuffled = random.sample(others, len(others))
    first, second = (
        decision_alongside(*order, profile=HEAVY, conf=TWO_LANES) for order in (others, shuffled)
    )
    assert second.action == first.action
    for a, b in itertools.zip_longest(first.alternatives, second.alternatives):
        assert a.cost == pytest.approx(b.cost)


@settings(max_examples=300)
@given(corunners(most=4), PROFILES, st.integers(1, 100))
def test_one_more_neighbour_never_makes_sharing_cheaper_for_the_job(others, profile, nodes):
    more = corunner(99, {**profile, "share": {"aw": 1.0}}, klass="stream", nodes=nodes)
    fewer = decision_alongside(*others, profile=HEAVY)
    shared = decision_alongside(*others, more, profile=HEAVY)
    assert shared.alternatives[0].slowdown >= fewer.alternatives[0].slowdown * (1 - 1e-12)


# Records


def test_a_record_shows_its_names_in_json():
    others = [corunner(7, HEAVY)]
    made_ready = situation(*others, profile=HEAVY)
    config = core.parse_config("sluice.conf", b"Mode=advise")
    job = submission(flags=["array"], script_signature=0xABC)
    record = decide(made_ready, config, job, NOW, boot=0x1234, number=5, cluster="alpha")
    shown = record.to_dict()
    assert shown["boot"] == "0000000000001234"
    assert shown["mode"] == "advise"
    assert shown["cluster"] == "alpha"
    assert shown["bundle_checksum"] == f"{made_ready.bundle.checksum:016x}"
    assert shown["snapshot_checksum"] == f"{made_ready.snapshot.checksum:016x}"
    assert shown["config_checksum"] == f"{core.crc64(b'Mode=advise'):016x}"
    assert shown["submission"]["flags"] == ["array"]
    assert shown["submission"]["launcher"] == "sbatch"
    assert shown["submission"]["script_signature"] == "0000000000000abc"
    assert shown["decision"]["prediction"]["klass"] == "stream"
    assert shown["decision"]["prediction"]["profile"]["rate"] is None
    assert [e["job_id"] for e in shown["decision"]["coruns"]] == [7]
    assert core.sentence("reason", shown["decision"]["reason"])
    assert record.key == (0x1234, 5)


@pytest.mark.parametrize("content", [b"", bytes(RECORD_SIZE), bytes(RECORD_SIZE + 1)])
def test_bytes_that_are_no_record_of_this_version_are_refused(content):
    with pytest.raises(core.CoreError, match="record"):
        Record.parse(content)


def test_two_records_with_equal_bytes_are_equal():
    first = decide(None, CONFIG, submission(), NOW)
    assert first == Record.parse(first.bytes)
    assert hash(first) == hash(Record.parse(first.bytes))
    assert first != decide(None, CONFIG, submission(), NOW + 1)


def test_a_member_that_does_not_exist_is_an_error():
    with pytest.raises(core.CoreError, match="no member 'colour'"):
        submission(colour="red")
    with pytest.raises(core.CoreError, match="launcher cannot be 'qsub'; use one of"):
        submission(launcher="qsub")
    assert policy().lanes == ()


# How far volumes may be off


def test_it_abstains_where_a_small_and_a_large_run_would_be_treated_differently():
    """Alike runs wait for a neighbour; those that may write next to nothing do not."""
    alongside = corunner(1, HEAVY, expected_end=NOW + 300)
    narrow = {**HEAVY, "spread": {"io_share": 0.3, "runtime_seconds": 0.3}}
    decision = decision_alongside(alongside, profile=narrow, nodes=64, conf=CHEAP_WAITS)
    assert decision.reason == "delay_pays"
    wide = {**HEAVY, "spread": {"io_share": 2.5, "runtime_seconds": 2.5}}
    decision = decision_alongside(alongside, profile=wide, nodes=64, conf=CHEAP_WAITS)
    assert (decision.action, decision.reason, decision.wait) == ("abstain", "wide_spread", 0.0)
    assert decision.alternatives  # what it would have been


def test_a_wide_spread_that_changes_nothing_is_no_reason_to_abstain():
    unsure = {**FLUSHING, "spread": {"write_bytes": 1.5, "io_share": 1.5}}
    decision = decision_alongside(profile=unsure)
    assert (decision.action, decision.reason) == ("colocate", "no_corunners")


def test_a_job_that_may_matter_is_not_called_insignificant():
    assert decision_alongside(profile=TINY).reason == "insignificant"
    unsure = {**HEAVY, "io_share": 0.01, "spread": {"io_share": 4.0}}
    decision = decision_alongside(profile=unsure)
    assert (decision.action, decision.reason) == ("leave", "no_corunners")
    alongside = corunner(1, HEAVY, expected_end=NOW + 300)
    decision = decision_alongside(alongside, profile=unsure, nodes=64, conf=CHEAP_WAITS)
    assert (decision.action, decision.reason) == ("abstain", "wide_spread")


@pytest.mark.parametrize(
    ("spread", "expected"),
    [(1.0, ("leave", "little_io")), (4.0, ("abstain", "low_confidence"))],
)
def test_what_is_little_in_any_pattern_is_left_alone_however_uncertain_that_is(spread, expected):
    unsure = {**TINY, "confidence": 0.3, "spread": {"io_share": spread}}
    decision = decision_alongside(corunner(1, HEAVY), profile=unsure)
    assert (decision.action, decision.reason) == expected


def test_who_hardly_ever_ran_undisturbed_is_not_called_harmless():
    """What is slow with co-runners seems to want little, and so to lose nothing."""
    slow = {**FLUSHING, "rate": 1e8, "io_share": 0.1, "spread": {"rate": 0.3}}
    alongside = corunner(1, slow)
    assert decision_alongside(alongside, profile=slow).reason == "harmless"
    unknown = {**slow, "spread": {"rate": 0.8}}
    decision = decision_alongside(alongside, profile=unknown)
    assert (decision.action, decision.reason) == ("abstain", "alone_unknown")


@settings(max_examples=300)
@given(corunners(most=5), st.sampled_from([0.25, 1.0]))
def test_where_turns_are_on_sharing_costs_less_and_nobody_is_delayed_who_was_not(others, gain):
    without = decide_at(others, "")
    turned = decide_at(others, f"TurnsGain={gain}")
    if not without.alternatives:
        assert turned.alternatives == ()
        return
    sharing = without.alternatives[0]
    assert turned.alternatives[0] == sharing
    now = next((one for one in turned.alternatives if one.action == "turns"), sharing)
    lost = sharing.own + sharing.caused
    assert lost * (1 - gain) * (1 - 1e-9) <= now.own + now.caused <= lost * (1 + 1e-9)
    assert now.confined == sharing.confined
    assert turned.action in ("colocate", "turns", without.action)
    assert (turned.action == "turns") <= (turned.reason in ("turns_pay", "harmless"))


def decide_at(others, conf):
    return decision_alongside(*others, profile=HEAVY, conf=conf)
