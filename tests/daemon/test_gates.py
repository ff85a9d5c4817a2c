"""Leases, token audit and commands: what sluiced works out before it tells Slurm."""

from __future__ import annotations

import re

import pytest
from core_cases import NOW
from hypothesis import given
from hypothesis import strategies as st
from lease_stand_in import LeaseBook
from waiting_jobs import NAMES, TOKENS, holding, job

from sluice.slurm.gates.leases import (
    Audit,
    Lease,
    TokenCount,
    accounts,
    differences,
    exchange_of,
    holdings,
    lease_of,
    leases,
    parse_licenses,
    plan,
    release_of,
    reserved_for,
)
from sluice.slurm.records import License, Reservation

TOTAL = 1_000_000
LENGTH = 60


# Licences in words


@pytest.mark.parametrize(
    ("text", "counts"),
    [
        ("", {}),
        ("a", {"a": 1}),
        ("a:2,b;a", {"a": 3, "b": 1}),
        ("a:1 jobid=5,b", {"a": 1, "b": 1}),
    ],
)
def test_a_licence_that_is_asked_for_twice_counts_twice(text, counts):
    assert parse_licenses(text) == counts


def test_a_job_that_has_started_and_not_ended_holds_the_tokens_of_its_lanes():
    rows = [
        job(1, licenses="tool:2,sl1_stream,sl0_stream"),
        job(2, licenses="tool"),
        job(3, state="COMPLETED"),
        job(4, state="SUSPENDED", licenses="sl0_flush"),
    ]
    found = {h.job.job_id: (h.klass, h.lane_mask) for h in holdings(rows, NAMES)}
    assert found == {1: ("stream", 0b11), 4: ("flush", 0b01)}


# Leases

reserved = st.dictionaries(st.sampled_from(TOKENS), st.integers(1, TOTAL))


@st.composite
def present(draw: st.DrawFn) -> list[Lease]:
    """Leases of sluiced, old and new, of lanes that exist and one that does not."""
    tokens = draw(st.sets(st.sampled_from((*TOKENS, "gone_stream"))))
    return [
        Lease(token, draw(st.integers(1, TOTAL)), NOW + draw(st.integers(-100, 1000)))
        for token in sorted(tokens)
    ]


@given(present(), reserved)
def test_the_plan_brings_the_leases_to_what_is_wanted(actual, wanted):
    controller = LeaseBook(NOW, actual)
    for command in plan(actual, wanted, NOW, LENGTH):
        controller.run(command)
    after = controller.leases
    living = {token: lease.count for token, lease in after.items() if lease.end > NOW}
    assert living == wanted
    assert all(NOW + LENGTH / 2 < after[t].end <= NOW + 2 * LENGTH for t in living)
    assert plan(after.values(), wanted, NOW, LENGTH) == []


@given(present(), reserved)
def test_gates_close_before_others_open(actual, wanted):
    before = {lease.token: lease.count for lease in actual if lease.end > NOW}
    opens = []
    for command in plan(actual, wanted, NOW, LENGTH):
        token = re.search(r"reservationname=sluice_(\S+)", command)[1]
        if command.startswith("delete"):
            opens.append(token not in wanted)
        else:
            opens.append(wanted[token] < before.get(token, 0))
    assert opens == sorted(opens)


@given(present())
def test_no_command_where_nothing_is_wanted_and_nothing_is_there(actual):
    assert plan([], {}, NOW, LENGTH) == []
    assert len(plan(actual, {}, NOW, LENGTH)) == len(actual)


def test_a_lease_in_the_first_half_of_its_life_is_left_alone():
    fresh = Lease("sl0_stream", 5, NOW + LENGTH)
    assert plan([fresh], {"sl0_stream": 5}, NOW, LENGTH) == []
    [command] = plan([fresh], {"sl0_stream": 5}, NOW + LENGTH // 2, LENGTH)
    assert command.startswith("update")


@pytest.mark.parametrize(
    ("name", "licenses", "nodes"),
    [
        ("maintenance", "sl0_stream:5", 0),
        ("sluice_maintenance", "", 4),
        ("sluice_maintenance", "sl0_stream:5", 0),
        ("sluice_sl0_stream", "sl0_stream:5,tool:1", 0),
        ("sluice_sl0_stream", "sl0_stream:5", 1),
        ("sluice_tool", "tool:1", 0),
    ],
)
def test_an_administrators_reservation_is_never_ours(name, licenses, nodes):
    assert lease_of(Reservation(name, NOW, nodes, licenses)) is None


def test_leases_of_lanes_that_are_gone_are_ours():
    rows = [Reservation("sluice_old_lane_meta", NOW, 0, "old_lane_meta:7")]
    assert leases(rows) == [Lease("old_lane_meta", 7, NOW)]


def test_a_token_with_too_small_a_total_gets_no_lease():
    table = {
        name: License(name, total, 0, 0)
        for name, total in (("sl0_stream", TOTAL), ("sl0_flush", 99_999))
    }
    gates = {"sl0_stream": 3, "sl0_flush": 1, "sl1_stream": 1}
    assert reserved_for(gates, table, 100_000) == {"sl0_stream": TOTAL - 3}
    assert reserved_for({"sl0_stream": TOTAL}, table, 100_000) == {}  # open: nothing to reserve


# Changes


def test_a_release_keeps_the_other_licences_and_copies_nothing_that_a_user_wrote():
    table = {name: License(name, 9, 0, 0) for name in ("tool", "other", *TOKENS)}
    plain = holding(4, licenses="tool:2,sl0_stream,sl1_stream,other")
    assert release_of(plain, table).command == "update jobid=4 licenses=tool:2,other:1"
    hostile = holding(4, licenses="tool:1 jobid=5\nshutdown,sl0_stream,no such")
    assert release_of(hostile, table).command == "update jobid=4 licenses=tool:1"
    task = holding(9, submission_id=4, is_array=True)
    assert release_of(task, table).command == "update jobid=4 licenses="


def test_an_exchange_keeps_the_other_licences_and_changes_arrays_as_a_whole():
    table = {name: License(name, 9, 0, 0) for name in ("tool", *TOKENS)}
    task = holding(9, submission_id=4, is_array=True, licenses="tool:2 x,sl0_stream")
    change = exchange_of(task, table, ["sl1_stream"])
    assert (change.target, change.licenses) == (4, "tool:2,sl1_stream")


def test_an_exchange_that_slurm_would_refuse_for_its_length_is_not_commanded():
    long = "x" * 1020
    table = {long: License(long, 9, 0, 0)}
    assert exchange_of(holding(licenses=f"{long},sl0_stream"), table, ["sl1_stream"]) is None


# Token audit


def table(held: int, reserved_count: int = 0) -> dict[str, License]:
    return {"sl0_stream": License("sl0_stream", TOTAL, held, reserved_count)}


def test_the_tokens_balance_when_jobs_and_slurm_agree():
    found = holdings(
        [
            job(1, state="RUNNING"),
            job(2, state="SUSPENDED", licenses="sl0_stream:2"),
            job(3, tasks_waiting=5),
        ],
        NAMES,
    )
    lease = Lease("sl0_stream", TOTAL - 4, NOW + 10)
    balance = accounts(TokenCount(found), table(3, TOTAL - 4), [lease], NAMES, NOW)
    assert (balance[0].held, balance[0].wanted, balance[0].gate) == (3, 5, 4)
    assert not differences(balance)
    assert not balance[1].is_defined


@given(st.integers(0, 5), st.integers(0, 5), st.integers(0, 5), st.integers(0, 5))
def test_token_audit_that_disagree_are_named_and_no_others(held, used, leased, reserved_count):
    found = holdings([job(i, state="RUNNING") for i in range(held)], NAMES)
    lease = [Lease("sl0_stream", leased, NOW + 10)] if leased else []
    balance = accounts(TokenCount(found), table(used, reserved_count), lease, NAMES, NOW)
    shown = set(differences(balance))
    assert ("sl0_stream held" in shown) == (held != used)
    assert ("sl0_stream reserved" in shown) == (leased != reserved_count)


def test_a_lease_that_ran_out_closes_nothing():
    lease = Lease("sl0_stream", 7, NOW)
    balance = accounts(TokenCount(), table(0), [lease], NAMES, NOW)
    assert balance[0].gate is None
    assert not differences(balance)


def test_only_what_stays_is_reported_and_once():
    audit = Audit()
    good = accounts(TokenCount(), table(0), [], NAMES, NOW)
    bad = accounts(TokenCount(), table(1), [], NAMES, NOW)
    assert [audit.check(balance) for balance in (bad, good, bad)] == [[], [], []]
    assert len(audit.check(bad)) == 1
    assert audit.check(bad) == []
    assert audit.check(good) == []
    assert [len(audit.check(balance)) for balance in (bad, bad)] == [0, 1]
