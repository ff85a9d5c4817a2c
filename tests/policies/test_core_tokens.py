"""Tokens: what a decision takes, and what becomes of the licences a user wrote."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import slurm_licenses
from core_calls import join_lanes
from core_cases import (
    FLUSHING,
    NOW,
    PROFILES,
    STREAMING,
    TINY,
    application,
    bundle,
    corunner,
    policy,
    situation,
    snapshot,
    submission,
)
from hypothesis import given
from hypothesis import strategies as st

from sluice.policies import core, record
from sluice.policies.record import (
    MIN_TOTAL,
    TOTAL_UNKNOWN,
    Record,
    Situation,
    Tokens,
    decide,
    replay,
    replay_grant,
)

if TYPE_CHECKING:
    from collections import Counter

LANES = "Lane=sl0 Targets=4 Bandwidth=8G\nLane=sl1 Targets=4 Bandwidth=8G\n"
TWO_LANES = policy(LANES)
UNDIVIDED = policy()
PLENTY = (1_000_000, 1_000_000)
HEAVY = {**STREAMING, "io_share": 0.9, "nprocs": 1024}


def enforce(text: str = "") -> core.Config:
    return core.parse_config("sluice.conf", f"Mode=enforce\n{text}".encode())


def decided(*others, profile=FLUSHING, conf=LANES, config=None, totals=PLENTY, job=None) -> Record:
    made_ready = situation(*others, profile=profile, conf=conf)
    return decide(made_ready, config or enforce(), job or submission(), NOW, totals=totals)


# Names


def test_a_token_is_named_by_lane_and_class():
    assert record.token_name(TWO_LANES, 1, "stream") == "sl1_stream"
    assert sorted(record.token_names(TWO_LANES)) == [
        "sl0_flush", "sl0_meta", "sl0_stream", "sl1_flush", "sl1_meta", "sl1_stream",
    ]  # fmt: skip


def test_a_site_without_lanes_has_one_that_is_called_all():
    assert sorted(record.token_names(UNDIVIDED)) == ["all_flush", "all_meta", "all_stream"]


# What a decision takes


def test_a_job_that_may_write_everywhere_takes_a_token_on_every_lane():
    record = decided()
    assert record.decision.action == "colocate"
    assert record.grant.outcome == "taken"
    assert record.grant.tokens.to_dict() == {"klass": "flush", "lane_mask": 0b11}


def test_on_an_undivided_file_system_it_takes_one():
    record = decided(conf="", totals=(MIN_TOTAL,))
    assert record.grant.tokens.to_dict() == {"klass": "flush", "lane_mask": 1}
    assert record.grant.outcome == "taken"


def test_a_job_that_waits_takes_the_tokens_it_waits_for():
    busy = corunner(1, HEAVY, expected_end=NOW + 300)
    record = decided(busy, profile=HEAVY, conf=LANES + "WaitPrice=0.05\n", job=submission(nodes=64))
    assert record.decision.action == "delay"
    assert record.grant.tokens.to_dict() == {"klass": "stream", "lane_mask": 0b11}


@pytest.mark.parametrize(
    ("profile", "action"), [(TINY, "leave"), ({**FLUSHING, "confidence": 0.1}, "abstain")]
)
def test_a_job_that_is_left_to_slurm_takes_none(profile, action):
    record = decided(profile=profile)
    assert record.decision.action == action
    assert record.grant.outcome == "not_needed"
    assert record.grant.tokens.lane_mask == 0


@pytest.mark.parametrize("mode", ["observe", "advise"])
def test_below_enforce_the_record_says_what_would_be_asked_for(mode):
    config = core.parse_config("sluice.conf", f"Mode={mode}\n".encode())
    grant = decided(config=config).grant
    assert grant.outcome == "none"
    assert grant.tokens.lane_mask == 0b11
    assert set(grant.totals) == {0}


def test_a_test_only_submission_takes_none():
    assert decided(job=submission(flags=["test_only"])).grant.outcome == "test_only"


@pytest.mark.parametrize(
    ("totals", "outcome"),
    [
        (PLENTY, "taken"),
        ((MIN_TOTAL, MIN_TOTAL), "taken"),
        ((MIN_TOTAL, MIN_TOTAL - 1), "undefined"),
        ((0, 1_000_000), "undefined"),
        ((1_000_000, 0), "undefined"),
        ((0, 0), "undefined"),
        ((TOTAL_UNKNOWN, TOTAL_UNKNOWN), "no_totals"),
    ],
)
def test_all_tokens_must_be_there_in_plenty_or_none_is_taken(totals, outcome):
    grant = decided(totals=totals).grant
    assert grant.outcome == outcome
    assert grant.totals[:2] == totals
    assert grant.tokens.lane_mask == 0b11  # what it is about


# One lane alone, only for jobs under control


CONTROLLED = [
    ("", submission(flags=["io_dir"])),
    ("Controlled=Users=7,1000\n", submission()),
    ("Controlled=Accounts=physics,astro\n", submission(account="astro")),
    ("Controlled=Partitions=main,long\n", submission(partition="long,main")),
    ("Controlled=Partitions=main\nControlled=Partitions=long", submission(partition="long,main")),
    ("Controlled=Users=1000 Qos=q\n", submission(qos="q")),
]
UNCONTROLLED = [
    ("", submission()),
    ("Controlled=Users=100,10000\n", submission()),
    ("Controlled=Accounts=physics\n", submission(account="physics2")),
    ("Controlled=Accounts=physics\n", submission()),
    ("Controlled=Partitions=main\n", submission(partition="long,main")),
    ("Controlled=Partitions=main\n", submission()),
    ("Controlled=Users=1000 Qos=q\n", submission()),
]


def neighbour_on_lane_0() -> dict:
    return corunner(1, HEAVY, lane_mask=1)


@pytest.mark.parametrize(("settings", "job"), CONTROLLED)
def test_a_job_under_control_may_be_confined_and_takes_one_token(settings, job):
    record = decided(neighbour_on_lane_0(), profile=FLUSHING, config=enforce(settings), job=job)
    assert record.decision.action == "disjoint"
    assert record.grant.outcome == "taken"
    assert record.grant.tokens.to_dict() == {"klass": "flush", "lane_mask": 0b10}
    assert record.grant.totals[:2] == (0, PLENTY[1])


@pytest.mark.parametrize(("settings", "job"), UNCONTROLLED)
def test_any_other_job_is_never_confined_in_enforce(settings, job):
    record = decided(neighbour_on_lane_0(), profile=FLUSHING, config=enforce(settings), job=job)
    assert "disjoint" not in {way.action for way in record.decision.alternatives}
    assert record.grant.tokens.lane_mask == 0b11


def test_where_nothing_is_enforced_confinement_is_considered_for_every_job():
    observed = decided(neighbour_on_lane_0(), config=core.default_config())
    assert observed.decision.action == "disjoint"
    assert observed.grant.outcome == "none"


# Room for tokens


def test_licences_that_leave_no_room_are_left_alone():
    room = 1023 - len(",sl0_flush,sl1_flush")
    fits = decided(job=submission(license_length=room))
    assert fits.grant.outcome == "taken"
    full = decided(job=submission(license_length=room + 1))
    assert (full.decision.action, full.decision.reason) == ("abstain", "exempt_licenses")
    assert full.grant.outcome == "not_needed"
    assert full.decision.alternatives  # what would have been stays


def test_in_observe_the_length_of_licences_does_not_matter():
    record = decided(config=core.default_config(), job=submission(license_length=5000))
    assert record.decision.action == "colocate"


@given(st.integers(0, 1100), st.integers(0, 3), st.sampled_from(core.CLASSES[1:]))
def test_what_is_said_to_fit_fits(length, mask, klass):
    text = "x" * length
    fits = record.append(TWO_LANES, Tokens(klass, mask), text)
    names = [f",sl{lane}_{klass}" for lane in range(2) if mask >> lane & 1]
    wanted = (text + "".join(names)) if text else "".join(names)[1:]
    assert fits == (wanted if len(wanted) <= 1023 else None)


# The holdout

HOLDOUT = 0.3
DRAWN = 2000  # jobs; 5 standard deviations of the share held out of so many are 0.05


def outcomes(settings: str, *, seconds: range = range(DRAWN), mode: str = "enforce") -> list[str]:
    """What becomes of equal jobs that are submitted in these seconds."""
    config = core.parse_config("sluice.conf", f"Mode={mode}\n".encode())
    made_ready = situation(profile=FLUSHING, conf=f"{LANES}MaxSnapshotAge=86400\n{settings}")
    records = (
        decide(made_ready, config, submission(), NOW + second, totals=PLENTY) for second in seconds
    )
    return [record.grant.outcome for record in records]


def test_by_default_nobody_is_held_out():
    assert set(outcomes("")) == {"taken"}


def test_the_holdout_is_a_share_of_those_that_would_take_tokens():
    drawn = outcomes(f"Holdout={HOLDOUT}\n")
    assert set(drawn) == {"taken", "held_out"}
    assert drawn.count("held_out") / DRAWN == pytest.approx(HOLDOUT, abs=0.05)
    assert set(outcomes("Holdout=1\n", seconds=range(20))) == {"held_out"}


def test_the_same_lots_are_drawn_again():
    settings = f"Holdout={HOLDOUT}\n"
    assert outcomes(settings) == outcomes(settings)


def test_a_larger_share_holds_out_the_same_jobs_and_more():
    few, many = outcomes("Holdout=0.1\n"), outcomes("Holdout=0.4\n")
    assert {one for one, other in zip(many, few, strict=True) if other == "held_out"} == {
        "held_out"
    }


def test_a_job_that_is_held_out_takes_no_turns_but_those_its_user_asked_for():
    config = enforce("TurnsPort=1\nTurns=all\n")
    assert decided(conf=f"{LANES}Holdout=1\n", config=config).grant.in_turns == "exempt"
    asked = decided(conf=f"{LANES}Holdout=1\n", config=config, job=submission(flags=["io_turns"]))
    assert asked.grant.in_turns == "asked"


@pytest.mark.parametrize("mode", ["observe", "advise"])
def test_below_enforce_nobody_is_held_out(mode):
    assert set(outcomes("Holdout=1\n", seconds=range(3), mode=mode)) == {"none"}


def test_a_job_that_is_decided_again_keeps_its_lot():
    made_ready = situation(profile=FLUSHING, conf=f"{LANES}Holdout={HOLDOUT}\n")
    first = decide(made_ready, enforce(), submission(), NOW, totals=PLENTY)
    again = [
        decide(made_ready, enforce(), first.submission, NOW + second, totals=PLENTY)
        for second in range(50)
    ]
    assert {one.submission.lot for one in again} == {first.submission.lot}
    assert {one.grant.outcome for one in again} == {first.grant.outcome}
    assert first.submission.lot != 0


# The same again


@given(
    profile=PROFILES,
    flags=st.sets(st.sampled_from(["test_only", "io_dir", "opt_out", "or_licenses"])),
    length=st.integers(0, 1100),
    totals=st.lists(st.sampled_from([0, 99_999, 100_000, TOTAL_UNKNOWN]), max_size=2),
)
def test_a_record_replays_to_the_same_bits(profile, flags, length, totals):
    config = enforce()
    made_ready = situation(
        neighbour_on_lane_0(), profile=profile, conf=f"{LANES}Holdout={HOLDOUT}\n"
    )
    job = submission(flags=sorted(flags), license_length=length)
    record = Record.parse(decide(made_ready, config, job, NOW, totals=totals).bytes)
    assert replay(record, made_ready, config) == record.decision.bytes
    assert replay_grant(record, made_ready) == record.grant.bytes
    if record.grant.outcome == "taken":
        assert record.decision.action in {"colocate", "disjoint", "delay"}
        assert record.grant.tokens.klass == record.prediction.klass != "none"


def test_without_a_bundle_there_is_no_token():
    record = decide(None, enforce(), submission(), NOW, totals=PLENTY)
    assert record.grant.outcome == "not_needed"
    assert replay_grant(record, None) == record.grant.bytes


def test_an_old_snapshot_gives_no_token():
    made_ready = Situation(bundle(application(FLUSHING), conf=LANES), snapshot())
    record = decide(made_ready, enforce(), submission(), NOW + 61, totals=PLENTY)
    assert (record.decision.reason, record.grant.outcome) == ("stale_snapshot", "not_needed")


# What users write


@pytest.mark.parametrize(
    ("written", "kept"),
    [
        ("", ""),
        ("tool:2", "tool:2"),
        (",,tool;;b:1;", ",,tool;;b:1;"),
        ("sl0_stream", ""),
        ("sl0_stream:999999", ""),
        ("tool:2,sl0_stream:3;b", "tool:2;b"),
        ("sl0_stream;tool", "tool"),
        ("tool,sl1_meta,sl0_flush", "tool"),
        ("a,sl0_stream,,b;", "a,b"),
        ("a,,b;sl0_stream;c", "a,,b;c"),
        ("sl0_stream,sl0_stream:2,a", "a"),
        ("sl0_stream|a|sl1_stream|b", "a|b"),  # from 25.05
        ("sl0_stream=4,a=2", "a=2"),  # from 25.05
        ("a,sl0_stream(n[1-2]):1", "a"),
    ],
)
def test_lane_tokens_are_taken_off_and_nothing_else(written, kept):
    assert record.strip(TWO_LANES, written).text == kept


@pytest.mark.parametrize(
    "other",
    [
        "sl0", "sl0_", "sl0_streams", "xsl0_stream", "sl2_stream", "SL0_STREAM", "sl0_none",
        "all_stream", "sl0_stream@server:1", "licensesl0_stream", "sl0_stream :1", "stream",
    ],
)  # fmt: skip
def test_what_only_resembles_a_token_stays(other):
    assert record.strip(TWO_LANES, f"a,{other};b").text == f"a,{other};b"


@pytest.mark.parametrize(
    ("written", "kept"),
    [
        ("gres/gpu:1,license/sl0_stream:4", "gres/gpu:1"),
        ("license/sl0_stream=4,license/a=1", "license/a=1"),
        ("license:sl0_stream:4,gres:gpu:1", "gres:gpu:1"),  # 23.02
        ("gres/license/sl0_stream=4", ""),  # Slurm reads a licence there, too
        ("licensesl0_stream,cpu=1", "cpu=1"),
        ("license/a;sl0_stream=4,cpu=1", "cpu=1"),  # one item for slurmctld
        ("gres/sl0_stream:2,license/xsl0_stream", "gres/sl0_stream:2,license/xsl0_stream"),
    ],
)
def test_lane_tokens_are_taken_off_what_is_wanted_for_each_task(written, kept):
    assert record.strip(TWO_LANES, written, for_tasks=True).text == kept


@pytest.mark.parametrize("length", [1023, 1024, 1025, 100_000])
def test_no_length_keeps_a_token(length):
    own = "x" * (length - len("sl0_stream,"))
    assert record.strip(TWO_LANES, own).items == 0
    for written in (f"sl0_stream,{own}", f"{own},sl0_stream"):
        assert record.strip(TWO_LANES, written).text == own
    for_tasks = f"license/sl0_stream,{own}"
    assert record.strip(TWO_LANES, for_tasks, for_tasks=True).text == own


OWN_NAMES = tuple(record.token_names(TWO_LANES))
ITEMS = st.builds(
    "{}{}".format,
    st.one_of(st.sampled_from(OWN_NAMES), st.sampled_from(["tool", "b@srv", "sl0", "sl0_x"])),
    st.one_of(st.just(""), st.integers(0, 10_000).map(":{}".format)),
)


OF_THE_SITE = ("tool", "b@srv", "sl0", "sl0_x", "TOOL")
DEFINED = OWN_NAMES + OF_THE_SITE


def licences(text: str) -> Counter[str]:
    """What Slurm makes of a request in good form."""
    sums = slurm_licenses.licences("22.05", text, None, DEFINED)
    assert sums is not None
    return sums


@st.composite
def requests(draw: st.DrawFn, items: st.SearchStrategy[str] = ITEMS) -> str:
    parts = draw(st.lists(items, max_size=12))
    return "".join(part + draw(st.sampled_from([",", ";", ",,", ";,"])) for part in parts)


@given(requests(), st.sampled_from(core.CLASSES[1:]), st.integers(0, 3))
def test_a_request_keeps_its_own_sums_and_gains_one_token_a_lane(written, klass, mask):
    stripped = record.strip(TWO_LANES, written)
    own = {name: n for name, n in licences(written).items() if name not in OWN_NAMES}
    assert licences(stripped.text) == own
    taken = Tokens(klass, mask)
    final = record.append(TWO_LANES, taken, stripped.text)
    added = {f"sl{lane}_{klass}": 1 for lane in range(2) if mask >> lane & 1}
    assert final is not None
    assert final.startswith(stripped.text)
    assert licences(final) == own | added


@pytest.mark.parametrize("version", slurm_licenses.VERSIONS)
@given(
    text=slurm_licenses.wishes(DEFINED),
    for_tasks=slurm_licenses.wishes(DEFINED, word="license"),
)
def test_no_version_of_slurm_reads_a_token_that_a_user_wrote(version, text, for_tasks):
    kept = record.strip(TWO_LANES, text).text
    kept_for_tasks = record.strip(TWO_LANES, for_tasks, for_tasks=True).text
    slurm_licenses.check_stripped(
        version, (text, for_tasks), (kept, kept_for_tasks), DEFINED, OWN_NAMES
    )


@given(slurm_licenses.wishes(DEFINED), st.booleans())
def test_text_without_tokens_stays_byte_for_byte(written, for_tasks):
    stripped = record.strip(TWO_LANES, written, for_tasks=for_tasks)
    if stripped.items == 0:
        assert stripped.text == written
    else:
        assert any(name in written for name in OWN_NAMES)
        assert len(stripped.text) < len(written)
    assert record.strip(TWO_LANES, stripped.text, for_tasks=for_tasks).items == 0


# What a user may keep of what Sluice gave the job


GIVEN = Tokens("stream", 0b11)


@pytest.mark.parametrize(
    ("written", "kept", "lanes"),
    [
        ("sl0_stream,sl1_stream", "sl0_stream,sl1_stream", 0b11),
        ("tool:3;sl1_stream:1,sl0_stream", "tool:3;sl1_stream:1,sl0_stream", 0b11),
        ("tool:3", "tool:3", 0),
        ("", "", 0),
        ("sl0_stream,tool", "sl0_stream,tool", 0b01),
        ("sl0_stream:5,sl1_stream", "sl0_stream,sl1_stream", 0b11),
        ("sl0_stream:0", "sl0_stream", 0b01),
        ("sl0_stream,sl0_stream", "sl0_stream", 0b01),
        ("sl0_flush", "", 0),
        ("sl0_flush,sl1_stream", "sl1_stream", 0b10),
        ("a|sl0_stream:2|b", "a|sl0_stream|b", 0b01),
    ],
)
def test_granted_tokens_may_be_named_once_each(written, kept, lanes):
    stripped = record.strip(TWO_LANES, written, GIVEN)
    assert (stripped.text, stripped.lanes) == (kept, lanes)


@given(requests(), st.sampled_from(core.CLASSES[1:]), st.integers(0, 3))
def test_no_text_gets_more_than_what_was_granted(written, klass, mask):
    sums = licences(record.strip(TWO_LANES, written, Tokens(klass, mask)).text)
    held = {name: n for name, n in sums.items() if name in OWN_NAMES}
    named = licences(written)
    assert held == {
        f"sl{lane}_{klass}": 1
        for lane in range(2)
        if mask >> lane & 1 and f"sl{lane}_{klass}" in named
    }


def test_the_snapshot_says_who_holds_what():
    state = snapshot(
        holders=[
            {"job_id": 9, "klass": "meta", "lane_mask": 1},
            {"job_id": 4, "klass": "stream", "lane_mask": 3, "waited": 7},
        ]
    )
    assert state.holder(4).to_dict() == {
        "job_id": 4,
        "klass": "stream",
        "lane_mask": 3,
        "waited": 7,
    }
    assert state.holder(9).klass == "meta"
    assert state.holder(5) is None


def test_lanes_of_two_policies_are_joined_in_order_and_once_each():
    joined = join_lanes(TWO_LANES, policy("Lane=aaa Targets=1\nLane=sl1 Targets=1\n"))
    assert [lane.name for lane in joined.lanes] == ["sl0", "sl1", "aaa"]
    assert [lane.name for lane in join_lanes(UNDIVIDED, TWO_LANES).lanes] == [
        "all", "sl0", "sl1",
    ]  # fmt: skip
    assert [lane.name for lane in join_lanes(UNDIVIDED, UNDIVIDED).lanes] == ["all"]


def test_lanes_are_joined_as_far_as_there_is_room():
    many = policy("".join(f"Lane=m{i} Targets=1\n" for i in range(16)))
    assert [lane.name for lane in join_lanes(many, TWO_LANES).lanes] == [f"m{i}" for i in range(16)]


# Turns


TURNS = "TurnsPort=1\n"


@pytest.mark.parametrize(
    ("conf", "job", "in_turns"),
    [
        ("", {"flags": ["io_turns"]}, "none"),
        (f"{TURNS}Turns=off", {"flags": ["io_turns"]}, "none"),
        (TURNS, {}, "not_asked"),
        (TURNS, {"flags": ["io_turns"]}, "asked"),
        (f"{TURNS}Turns=all", {"flags": ["no_turns"]}, "refused"),
        (f"{TURNS}Turns=decided", {}, "matters"),
        (f"{TURNS}Turns=decided", {"uid": 7, "name": "never seen"}, "unknown"),
        (f"{TURNS}Turns=all", {"uid": 7, "name": "never seen"}, "all"),
        (f"{TURNS}Turns=all", {"flags": ["opt_out"]}, "exempt"),
        (f"{TURNS}ModeOf=off Users=1000", {"flags": ["io_turns"]}, "exempt"),
        (f"{TURNS}Turns=all\nMode=off\nModeOf=observe Users=7", {}, "exempt"),
    ],
)
def test_who_takes_turns(conf, job, in_turns):
    config = core.parse_config("sluice.conf", conf.encode())
    found = decided(config=config, job=submission(**job))
    assert found.grant.in_turns == in_turns
    assert replay_grant(found, situation(profile=FLUSHING, conf=LANES)) == found.grant.bytes


def test_who_would_lose_less_in_turns_takes_them():
    config = core.parse_config("sluice.conf", f"{TURNS}Turns=decided".encode())
    other = corunner(1, HEAVY, nodes=8)
    found = decided(other, profile=HEAVY, conf=f"{LANES}TurnsGain=0.7", config=config)
    assert [one.action for one in found.decision.alternatives[:2]] == ["colocate", "turns"]
    assert (found.decision.action, found.decision.reason) == ("turns", "turns_pay")
    assert found.grant.in_turns == "pays"


def test_a_scope_that_makes_no_sense_is_named():
    with pytest.raises(core.CoreError, match="Turns is off, asked, decided or all"):
        core.parse_config("sluice.conf", b"Turns=most")
