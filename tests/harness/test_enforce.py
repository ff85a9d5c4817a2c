"""`enforce` in the built plugin: tokens given, tokens taken off, and what it costs."""

import os
import re
import time
from collections.abc import Iterator
from pathlib import Path

import made_model
import numpy as np
import pytest
import slurm_licenses
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from plugin_harness import Change, Harness, build, drain, install
from test_plugin import KINDS

from sluice.policies import core
from sluice.policies.bundle import Bundle
from sluice.policies.record import Record, Situation, replay_grant, replay_place
from sluice.policies.snapshot import Snapshot

USER = 1000
STRANGER = 4321  # has no runs of these names
LANES = "Lane=sl0 Targets=4 Bandwidth=8G\nLane=sl1 Targets=4 Bandwidth=8G\n"
BOTH = "sl0_stream,sl1_stream"
PLENTY = 1_000_000
WRITER = {"uid": USER, "name": made_model.STREAM_JOB, "script": "#!/bin/sh\nsrun ./app\n"}
HELD = [
    {"job_id": 42, "klass": "stream", "lane_mask": 3},
    {"job_id": 43, "klass": "flush", "lane_mask": 1},
]


@pytest.fixture(scope="module")
def built() -> Path:
    return build()


@pytest.fixture(params=["harness"])
def harness(built: Path, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Harness]:
    """In enforce, with two lanes, and jobs 42 and 43 that hold tokens."""
    harness = Harness(built, tmp_path, program=request.param)
    install(harness.files.bundle, made_model.named_bundle(LANES))
    install(harness.files.snapshot, made_model.snapshot(holders=HELD))
    harness.files.configure(Mode="enforce")
    with harness:
        harness.files.wait_until_loaded("bundle", "snapshot")
        for lane in ("sl0", "sl1"):
            for klass in ("stream", "flush", "meta"):
                harness.set_total(f"{lane}_{klass}", PLENTY)
        yield harness


def last_record(harness: Harness) -> Record:
    return Record.parse(drain(harness.files.socket)[-1])


# Submission


def test_a_token_costs_one_allocation_alongside_the_note(harness: Harness) -> None:
    outcome = harness.submit(**WRITER)
    assert (outcome.rc, outcome.altered, outcome.licenses) == (0, False, BOTH)
    assert outcome.allocations == 2
    assert outcome.admin_comment.startswith("sluice(v=1,rec=")


@pytest.mark.parametrize("kind", sorted(KINDS.keys() - {"tokens"}))
def test_a_job_without_a_decision_costs_none(harness: Harness, kind: str) -> None:
    outcome = harness.submit(uid=USER, **{"name": "unheard of", **KINDS[kind]})
    assert (outcome.rc, outcome.altered, outcome.licenses) == (0, False, None)
    assert outcome.allocations == (0 if outcome.admin_comment == "" else 1)


@pytest.mark.parametrize(
    "kind",
    [
        "salloc", "follower", "licences", "pty", "immediate", "cron", "later", "reserved",
        "opted out",
    ],
)  # fmt: skip
def test_exempt_kinds_get_no_token(harness: Harness, kind: str) -> None:
    fields = {"uid": USER, **KINDS[kind], "name": made_model.STREAM_JOB}
    assert harness.submit(**fields).licenses is None
    assert last_record(harness).grant.outcome == "not_needed"


@pytest.mark.parametrize("kind", ["sbatch", "srun", "array", "leader", "list", "memory"])
def test_all_other_kinds_get_theirs(harness: Harness, kind: str) -> None:
    fields = {"uid": USER, **KINDS[kind], "name": made_model.STREAM_JOB}
    assert harness.submit(**fields).licenses == BOTH


@pytest.mark.parametrize("wish", ["license/tool:1", "gres/gpu:1,license/tool=2"])
def test_licences_for_each_task_exempt_a_job(harness: Harness, wish: str) -> None:
    assert harness.submit(**WRITER, tres_per_task=wish).licenses is None
    assert last_record(harness).decision.reason == "exempt_licenses"


@pytest.mark.parametrize("kind", KINDS)
def test_tokens_that_users_write_are_taken_off_every_kind_of_job(
    harness: Harness, kind: str
) -> None:
    fields = {**KINDS[kind], "uid": USER, "name": "unheard of"}
    written = {"licenses": "tool:1,sl0_stream:9", "tres_per_task": "license/sl1_flush:3"}
    outcome = harness.submit(**fields | written)
    assert (outcome.rc, outcome.altered) == (0, False)
    assert (outcome.licenses, outcome.tres_per_task) == ("tool:1", "")


def test_alternatives_lose_their_tokens_as_well(harness: Harness) -> None:
    assert harness.submit(uid=USER, licenses="sl0_stream|tool").licenses == "tool"
    assert harness.submit(uid=USER, licenses="sl0_stream|sl1_stream").licenses == ""


@pytest.mark.parametrize(
    ("total", "outcome"), [(100_000, "taken"), (99_999, "undefined"), (0, "undefined")]
)
def test_each_token_must_be_there_in_plenty(harness: Harness, total: int, outcome: str) -> None:
    harness.set_total("sl1_stream", total)
    assert harness.submit(**WRITER).licenses == (BOTH if outcome == "taken" else None)
    grant = last_record(harness).grant
    assert (grant.outcome, grant.totals[:3]) == (outcome, (PLENTY, total, 0))


def test_a_job_that_is_held_out_stays_as_it_was_but_for_the_note(harness: Harness) -> None:
    path = harness.files.bundle
    install(path, made_model.named_bundle(f"{LANES}Holdout=1\n"))
    wait_for_outcome(harness, "held_out")
    outcome = harness.submit(**WRITER)
    assert (outcome.rc, outcome.altered, outcome.licenses) == (0, False, None)
    assert outcome.admin_comment.startswith("sluice(v=1,rec=")
    record = last_record(harness)
    assert record.submission.lot != 0
    assert replay_grant(record, Situation(Bundle.parse(path.read_bytes()), None)) == (
        record.grant.bytes
    )


def outcome_of_next(harness: Harness) -> str:
    harness.submit(**WRITER)
    return str(last_record(harness).grant.outcome)


def wait_for_outcome(harness: Harness, outcome: str) -> None:
    deadline = time.monotonic() + 10
    while outcome_of_next(harness) != outcome:
        assert time.monotonic() < deadline
        time.sleep(0.01)


TOKENS = "sl0_stream:1000000,sl1_stream:1000000"


@pytest.mark.parametrize(
    ("text", "outcome"),
    [
        (f"Licenses={TOKENS}\n", "taken"),
        (f"  licenses = tool:9, {TOKENS} # a comment\nNodeName=n1\n", "taken"),
        ("Licenses=sl0_stream:1000000,\\\n  sl1_stream:1000000\n", "taken"),
        ("Include other.conf\n", "taken"),
        (f"Licenses=tool:9\nLicenses={TOKENS}\n", "undefined"),
        ("Licenses=sl0_stream:1000000,sl1_stream:99999\n", "undefined"),
        ("Licenses=sl0_stream:1000000,sl1_stream\n", "undefined"),
        ("Licenses=xsl0_stream:1000000,sl1_streams:1000000\n", "undefined"),
        (f"#Licenses={TOKENS}\nLicensesX={TOKENS}\n", "undefined"),
        ("", "undefined"),
        ("Licenses=sl0_stream:99999999999999999999,sl1_stream:1000000\n", "taken"),
    ],
)
def test_no_token_is_given_that_slurm_conf_does_not_define(
    harness: Harness, text: str, outcome: str
) -> None:
    """The controller has it still, until somebody reconfigures."""
    assert outcome_of_next(harness) == "taken"
    is_taken = outcome == "taken"
    opposite = b"Licenses=none\n" if is_taken else f"Licenses={TOKENS}\n".encode()
    install(harness.files.slurm_config, b"")
    wait_for_outcome(harness, "undefined")
    install(harness.files.slurm_config, opposite)
    wait_for_outcome(harness, "undefined" if is_taken else "taken")
    install(harness.files.slurm_config, text.encode())
    wait_for_outcome(harness, outcome)


def test_a_slurm_conf_that_cannot_be_read_says_nothing(harness: Harness) -> None:
    install(harness.files.slurm_config, b"")
    wait_for_outcome(harness, "undefined")
    harness.files.slurm_config.chmod(0o666)
    wait_for_outcome(harness, "taken")


@pytest.mark.parametrize("harness", ["harness-bare"], indirect=True)
def test_a_controller_that_tells_no_totals_gets_no_tokens(harness: Harness) -> None:
    """Nor does this one tell who is an operator: nobody's change is touched."""
    assert harness.submit(**WRITER).licenses is None
    assert last_record(harness).grant.outcome == "no_totals"
    assert harness.modify(uid=USER, job_id_str="7", licenses="sl0_stream").licenses is None


def test_a_lane_of_its_own_is_for_jobs_with_a_directory_of_their_own(harness: Harness) -> None:
    install(harness.files.snapshot, made_model.busy_lane_snapshot(lane_mask=1))
    checksum = harness.files.snapshot.read_bytes()[8:16][::-1].hex()
    harness.files.wait_for(lambda seen: seen["snapshot"]["checksum"] == checksum)
    assert harness.submit(**WRITER, nodes=4).licenses == BOTH
    assert harness.submit(**WRITER, nodes=4, io_dir=1).licenses == "sl1_stream"


def test_a_site_without_lanes_has_the_lane_all(harness: Harness) -> None:
    install(harness.files.bundle, made_model.named_bundle(created=made_model.CREATED + 7))
    harness.files.wait_for(lambda seen: seen["bundle"]["created"] == made_model.CREATED + 7)
    harness.set_total("all_stream", PLENTY)
    assert harness.submit(**WRITER, licenses="all_stream:2;tool").licenses == "tool,all_stream"
    assert harness.submit(**WRITER, licenses="sl0_stream").licenses == "sl0_stream,all_stream"


def test_what_is_done_is_counted(harness: Harness) -> None:
    harness.submit(**WRITER)
    harness.submit(**WRITER, licenses="sl0_stream")
    harness.submit(**WRITER, opt_out=1)
    harness.set_total("sl0_stream", 0)
    harness.submit(**WRITER)
    harness.modify(uid=USER, job_id_str="42", licenses="tool")
    harness.modify(uid=USER, job_id_str="7", licenses="tool,sl1_meta")
    seen = harness.files.stats()
    assert {name: n for name, n in seen["grants"].items() if n} == {
        "taken": 2,
        "not_needed": 1,
        "undefined": 1,
    }
    assert seen["stripped"] == 2
    assert seen["opt_outs"] == {"option": 1, "update": 1}


def test_below_enforce_nothing_is_counted_as_a_grant(harness: Harness) -> None:
    become(harness, "advise")
    assert harness.submit(**WRITER).licenses is None
    assert sum(harness.files.stats()["grants"].values()) == 0


# Tokens that users write, below enforce


def become(harness: Harness, mode: str, **settings: str) -> None:
    harness.files.configure(Mode=mode, **settings)
    checksum = f"{core.crc64(harness.files.config.read_bytes()):016x}"
    harness.files.wait_for(lambda seen: seen["config"]["checksum"] == checksum)


def become_undivided(harness: Harness) -> None:
    install(harness.files.bundle, made_model.named_bundle(created=made_model.CREATED + 7))
    harness.files.wait_for(lambda seen: seen["bundle"]["created"] == made_model.CREATED + 7)


@pytest.mark.parametrize("mode", ["observe", "advise", "enforce"])
def test_tokens_that_users_write_are_taken_off_in_every_mode(harness: Harness, mode: str) -> None:
    become(harness, mode)
    written = {"licenses": "tool:1,sl0_stream:1000000", "tres_per_task": "license/sl1_flush:3"}
    outcome = harness.submit(uid=USER, name="unheard of", **written)
    assert (outcome.altered, outcome.licenses, outcome.tres_per_task) == (False, "tool:1", "")
    change = harness.modify(uid=USER, job_id_str="7", licenses="tool,sl1_meta")
    assert change == Change(rc=0, licenses="tool")
    assert harness.files.stats()["stripped"] == 2


@pytest.mark.parametrize("mode", ["observe", "advise"])
@pytest.mark.parametrize("written", ["tool:1;sl0_streams", "xsl0_stream|tool", "sl0", ",,;"])
def test_below_enforce_all_other_licences_stay_byte_for_byte(
    harness: Harness, mode: str, written: str
) -> None:
    become(harness, mode)
    outcome = harness.submit(uid=USER, name="unheard of", licenses=written, tres_per_task=written)
    assert (outcome.altered, outcome.licenses, outcome.tres_per_task) == (False, None, None)
    assert harness.modify(uid=USER, job_id_str="7", licenses=written).licenses is None
    assert harness.files.stats()["stripped"] == 0


@pytest.mark.parametrize("mode", ["observe", "enforce"])
@pytest.mark.parametrize("total", [0, 1, 99_999])
def test_a_licence_of_which_the_controller_has_few_is_no_token(
    harness: Harness, mode: str, total: int
) -> None:
    """It is the site's own, or unknown to Slurm, which then refuses the job itself."""
    become_undivided(harness)
    become(harness, mode)
    harness.set_total("all_stream", total)
    assert harness.submit(uid=USER, licenses="all_stream:3,tool").licenses is None
    assert harness.modify(uid=USER, job_id_str="7", licenses="all_stream:3").licenses is None
    harness.set_total("all_stream", PLENTY)
    assert harness.submit(uid=USER, licenses="all_stream:3,tool").licenses == "tool"


def test_lanes_count_from_the_moment_in_which_they_are_configured(harness: Harness) -> None:
    """Before the next bundle knows of them; those that the bundle knows go on counting."""
    become(harness, "observe", Lane="new Targets=4")
    harness.set_total("new_flush", PLENTY)
    harness.set_total("all_flush", 5)
    written = "sl1_meta,all_flush:2,new_flush:9,tool"
    assert harness.submit(uid=USER, licenses=written).licenses == "all_flush:2,tool"
    harness.files.bundle.unlink()
    harness.files.wait_for(lambda seen: not seen["bundle"]["loaded"])
    left = "sl1_meta,all_flush:2,tool"
    assert harness.submit(uid=USER, licenses=written).licenses == left


def test_tokens_of_other_lanes_do_not_shift_those_that_a_job_was_given(harness: Harness) -> None:
    become(harness, "enforce", Lane="aaa Targets=4\nLane=sl0 Targets=4")
    change = harness.modify(uid=USER, job_id_str="42", licenses="sl0_stream,sl1_stream,sl0_flush")
    assert change == Change(rc=0, licenses="sl0_stream,sl1_stream")
    assert harness.files.stats()["opt_outs"]["update"] == 0


def test_while_switched_off_no_job_is_decided_on_but_tokens_stay_reserved(
    harness: Harness,
) -> None:
    """They would count again once Sluice is switched on."""
    harness.files.off_file.touch()
    harness.files.wait_for(lambda seen: seen["mode"] == "off")
    outcome = harness.submit(**WRITER, licenses="tool:2,sl0_stream:9")
    assert (outcome.licenses, outcome.admin_comment) == ("tool:2", "")
    assert harness.submit(**WRITER, licenses="tool:2").licenses is None
    assert harness.modify(uid=USER, job_id_str="7", licenses="tool,sl1_meta").licenses == "tool"
    assert drain(harness.files.socket) == []


def test_mode_off_leaves_everything_alone(harness: Harness) -> None:
    become(harness, "off")
    assert harness.submit(**WRITER, licenses="sl0_stream:9").licenses is None
    assert harness.modify(uid=USER, job_id_str="7", licenses="sl0_stream").licenses is None
    assert harness.files.stats()["stripped"] == 0


@pytest.mark.parametrize("harness", ["harness-bare"], indirect=True)
def test_where_the_controller_tells_no_totals_the_tokens_of_named_lanes_count(
    harness: Harness,
) -> None:
    become(harness, "observe")
    assert harness.submit(uid=USER, licenses="sl0_stream,all_meta").licenses == "all_meta"


def test_the_note_says_nothing_that_sluiced_may_change_later(harness: Harness) -> None:
    """Tokens are exchanged and taken off near the start, and the note stays as it is."""
    outcome = harness.submit(**WRITER)
    assert outcome.licenses == BOTH
    assert re.fullmatch(
        r"sluice\(v=1,rec=[0-9a-f]{16}-\d+,act=\w+,why=\w+,pat=\w+,conf=[\d.]+,class=\w+,"
        r"slow=[\d.]+\)",
        outcome.admin_comment,
    )


# Any text at all

SITES_OWN = ("tool", "b@srv", "sl0", "sl0_streams")
TOKENS_OF_BOTH = tuple(
    f"{lane}_{klass}" for lane in ("sl0", "sl1") for klass in ("stream", "flush", "meta")
)
ALL = SITES_OWN + TOKENS_OF_BOTH
ANY_TEXTS = st.tuples(slurm_licenses.wishes(ALL), slurm_licenses.wishes(ALL, word="license"))
KIND_OF_JOB = st.sampled_from(["sbatch", "array", "leader", "follower", "srun", "salloc"])
slow_start = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


@slow_start
@given(texts=ANY_TEXTS, kind=KIND_OF_JOB, version=st.sampled_from(slurm_licenses.VERSIONS))
def test_no_text_brings_a_token_to_a_submission(
    harness: Harness, texts: tuple[str, str], kind: str, version: str
) -> None:
    fields = {**KINDS[kind], "uid": STRANGER, "name": "unheard of"}
    outcome = harness.submit(**fields, licenses=texts[0], tres_per_task=texts[1])
    assert outcome.rc == 0
    kept = [
        new if new is not None else old
        for old, new in zip(texts, (outcome.licenses, outcome.tres_per_task), strict=True)
    ]
    slurm_licenses.check_stripped(version, texts, (kept[0], kept[1]), ALL, TOKENS_OF_BOTH)


@slow_start
@given(
    texts=ANY_TEXTS,
    job=st.sampled_from(["7", "42", "42_3", "43"]),
    version=st.sampled_from(slurm_licenses.VERSIONS),
)
def test_no_text_brings_a_token_to_a_modification(
    harness: Harness, texts: tuple[str, str], job: str, version: str
) -> None:
    change = harness.modify(uid=USER, job_id_str=job, licenses=texts[0], tres_per_task=texts[1])
    given_before = {"42": ("sl0_stream", "sl1_stream"), "43": ("sl0_flush",)}
    granted = given_before.get(job.partition("_")[0], ())
    kept = [
        new if new is not None else old
        for old, new in zip(texts, (change.licenses, change.tres_per_task), strict=True)
    ]
    others = [token for token in TOKENS_OF_BOTH if token not in granted]
    left = slurm_licenses.licences(version, kept[0], kept[1], ALL) or {}
    assert not set(left) & set(others)
    assert all(left.get(token, 0) <= 1 for token in granted)


PLACED = "Lane=sl0 Targets=16 Bandwidth=16G Place=blocks\n"


@pytest.fixture
def placing(built: Path, tmp_path: Path) -> Iterator[Harness]:
    """In enforce, with one lane on whose targets jobs are placed."""
    harness = Harness(built, tmp_path)
    spread = {"spread": {"rate": 0.1, "targets": 0.1}}
    writer = made_model.profile(np.random.default_rng(1), "aw") | made_model.HEAVY | spread
    known = {made_model.STREAM_JOB: writer | {"targets": 4.0, "rate": 2.0**30}}
    made = made_model.bundle_of_names(known, PLACED, created=made_model.CREATED)
    install(harness.files.bundle, made)
    install(harness.files.snapshot, made_model.snapshot())
    harness.files.configure(Mode="enforce")
    with harness:
        harness.files.wait_until_loaded("bundle", "snapshot")
        harness.set_total("sl0_stream", PLENTY)
        yield harness


def place_in(note: str) -> str:
    return note.rstrip(")").partition(",place=")[2]


def test_jobs_that_come_one_after_the_other_get_targets_of_their_own(placing: Harness) -> None:
    """No snapshot has them yet; each record says which ones were counted."""
    files = placing.files
    snapshot = Snapshot.load(files.snapshot, os.geteuid())
    job = WRITER | {"io_dir": 1, "time": snapshot.state.taken + 1}
    notes = [placing.submit(**job).admin_comment for _ in range(4)]
    assert sorted(map(place_in, notes)) == ["0+4", "12+4", "4+4", "8+4"]
    records = [Record.parse(content) for content in drain(files.socket)]
    assert [len(record.place.since) for record in records] == [0, 1, 2, 3]
    situation = Situation(Bundle.load(files.bundle, os.geteuid()), snapshot)
    config = core.parse_config("sluice.conf", files.config.read_bytes())
    for record, note in zip(records, notes, strict=True):
        assert replay_place(record, situation, config) == record.place.bytes
        block = record.place.job.block
        assert place_in(note) == f"{block.first}+{block.count}"


def test_jobs_are_counted_until_a_snapshot_has_them(placing: Harness) -> None:
    files = placing.files
    job = WRITER | {"io_dir": 1, "time": int(time.time()) + 1}
    for _ in range(3):
        placing.submit(**job)
    install(files.snapshot, made_model.snapshot(age=-3))
    checksum = files.snapshot.read_bytes()[8:16][::-1].hex()
    files.wait_for(lambda seen: seen["snapshot"]["checksum"] == checksum)
    placing.submit(**job | {"time": job["time"] + 2})
    assert len(last_record(placing).place.since) == 0


@pytest.mark.parametrize("other", [{}, {"io_dir": 1, "array": "0-3"}])
def test_no_block_is_for_jobs_that_may_write_anywhere_or_are_many(
    placing: Harness, other: dict[str, str | int]
) -> None:
    outcome = placing.submit(**WRITER | other)
    assert outcome.licenses == "sl0_stream"
    assert place_in(outcome.admin_comment) == ""


def test_a_block_is_noted_in_enforce_alone(placing: Harness) -> None:
    placing.files.configure(Mode="advise")
    placing.files.wait_for(lambda seen: seen["mode"] == "advise")
    assert place_in(placing.submit(**WRITER, io_dir=1).admin_comment) == ""
    assert last_record(placing).place.job.block.count == 4


# Modification


@pytest.mark.parametrize("uid", [0, 555])
def test_administrators_change_what_they_like(harness: Harness, uid: int) -> None:
    harness.make_operator(555)
    for licenses in ("sl0_stream:9", "", "tool,sl1_meta"):
        change = harness.modify(uid=uid, job_id_str="42", licenses=licenses)
        assert change == Change(rc=0, licenses=None)
    assert harness.files.stats()["stripped"] == 0


@pytest.mark.parametrize("job_id", ["42", "42_3", "42_[1-5%2]", "42+0"])
def test_granted_tokens_are_known_by_every_name_of_the_job(harness: Harness, job_id: str) -> None:
    change = harness.modify(uid=USER, job_id_str=job_id, licenses="tool,sl0_stream:1;sl1_stream")
    assert change == Change(rc=0, licenses=None)


@pytest.mark.parametrize("job_id", ["4", "420", "43", "", "x", "99999999999999999999"])
def test_tokens_of_other_jobs_are_not_ones_own(harness: Harness, job_id: str) -> None:
    change = harness.modify(uid=USER, job_id_str=job_id, licenses="tool,sl0_stream")
    assert change == Change(rc=0, licenses="tool")


def test_a_wish_for_tokens_alone_changes_no_licences(harness: Harness) -> None:
    """NULL in a change: the job keeps what it has. The harness shows it as empty."""
    change = harness.modify(uid=USER, job_id_str="7", licenses="sl0_stream,,;")
    assert change == Change(rc=0, licenses="")
    change = harness.modify(uid=USER, job_id_str="42", licenses="sl0_flush")
    assert change == Change(rc=0, licenses="")
    assert harness.files.stats()["opt_outs"]["update"] == 0


def test_licences_for_each_task_bring_no_tokens(harness: Harness) -> None:
    wish = "gres/gpu:1,license/sl0_stream:5"
    change = harness.modify(uid=USER, job_id_str="42", tres_per_task=wish)
    assert change == Change(rc=0, licenses=None, tres_per_task="gres/gpu:1")


def test_a_change_without_licences_is_not_looked_at(harness: Harness) -> None:
    assert harness.modify(uid=USER, job_id_str="42", name="other") == Change(0, None)
    assert harness.files.stats()["opt_outs"]["update"] == 0


def test_a_name_that_the_user_never_ran_takes_no_token(harness: Harness) -> None:
    assert harness.submit(**WRITER).licenses == BOTH
    assert harness.submit(**WRITER | {"uid": STRANGER}).licenses is None
    record = last_record(harness)
    assert (record.decision.action, record.decision.reason) == ("abstain", "others_only")
    assert (record.prediction.evidence, record.prediction.klass) == ("name", "none")
