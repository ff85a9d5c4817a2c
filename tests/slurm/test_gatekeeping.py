"""Gates on a real slurmctld: who waits for whom, and that nothing gets stuck when anything dies."""

import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from gated import (
    FLUSH,
    KINDS,
    LANE_TOKENS,
    LANES,
    LEASE,
    LONG,
    META,
    STREAM,
    TOKENS,
    TOTAL,
    bundle,
    configure,
    gates,
    holder_and_waiter,
    leases,
    licenses,
    reservations,
    running,
    running_sets,
    settle,
    submit,
    used,
    waits,
)
from plugin_harness import PluginFiles, drain, install
from private_slurm import PrivateSlurm
from sluiced import Sluiced, wait_for

from sluice.history_db.store import Store
from sluice.policies import core
from sluice.policies.bundle import Bundle
from sluice.policies.review import Review, Selector
from sluice.policies.structs import View

# With `make acceptance`: they wait for leases, passes and daemons by the clock for minutes.
# `make test` runs those that guard the bound: test_hostile.py.
pytestmark = [pytest.mark.slurm, pytest.mark.acceptance]

SHORT = "--wrap=sleep 2"


def linger(directory: Path) -> Path:
    """While this file is there, no epilog ends."""
    return directory / "linger"


@pytest.fixture(scope="module")
def slurm(guarded_slurm, lab_directory) -> Iterator[PrivateSlurm]:
    epilog = lab_directory / "epilog.sh"
    epilog.write_text(f"#!/bin/sh\nwhile test -e {linger(lab_directory)}; do sleep 0.1; done\n")
    epilog.chmod(0o755)
    settings = {"Licenses": licenses(), "Epilog": str(epilog)}
    with guarded_slurm("gates", settings, nodes=3) as slurm:
        yield slurm


@pytest.fixture
def sluiced(slurm: PrivateSlurm, files: PluginFiles) -> Iterator[Sluiced]:
    """Enforcing on a quiet cluster with all gates closed; the tokens balance in the end."""
    for leftover in files.directory.iterdir():
        leftover.unlink()
    daemon = Sluiced(slurm, files)
    configure(daemon)
    daemon.start()
    settle(daemon)
    drain(files.socket)
    yield daemon
    slurm.run("scancel", "--quiet", "--user=root", check=False)
    wait_for(lambda: not slurm.run("squeue", "--noheader").stdout)
    if daemon.process.poll() is None:
        assert not gates(daemon)["differences"]
        daemon.stop()
    for name in reservations(slurm):
        slurm.run("scontrol", "delete", f"reservationname={name}")


def releases(daemon: Sluiced) -> list[tuple[int, str]]:
    with Store(daemon.history, read_only=True) as store:
        return [(row.job_id, row.reason) for row in store.gates.releases()]


# What gates do


@pytest.mark.usefixtures("sluiced")
def test_classes_are_gated_together(slurm):
    holder = submit(slurm, "heavy", LONG)
    running(slurm, holder)
    waiter = submit(slurm, "flusher", LONG)
    waits(slurm, waiter)
    assert slurm.job(waiter)["Licenses"] == FLUSH
    slurm.run("scancel", str(holder))
    running(slurm, waiter)


def test_jobs_that_do_not_hurt_each_other_run_together(sluiced, slurm):
    jobs = [submit(slurm, "light", LONG) for _ in range(3)]
    running(slurm, *jobs)
    wait_for(lambda: gates(sluiced)["gates"][STREAM]["held"] == 3)
    assert_sound(sluiced, dict.fromkeys(jobs, "light"))


@pytest.mark.usefixtures("sluiced")
def test_jobs_without_tokens_never_wait(slurm):
    holder_and_waiter(slurm)
    running(slurm, submit(slurm, "unheard_of", LONG))


@pytest.mark.usefixtures("sluiced")
def test_load_without_a_token_closes_the_gate(slurm):
    """Its token was taken off while it ran, so it is background: nobody protects it."""
    loose = submit(slurm, "heavy", LONG)
    running(slurm, loose)
    slurm.run("scontrol", "update", f"jobid={loose}", "licenses=")
    wait_for(lambda: used(slurm, STREAM) == 0)
    waiter = submit(slurm, "heavy", LONG)
    waits(slurm, waiter)
    slurm.run("scancel", str(loose))
    running(slurm, waiter)


def test_an_array_goes_through_the_gate_task_by_task(sluiced, slurm):
    array = submit(slurm, "heavy", "--array=0-2", SHORT)
    ended = wait_for(lambda: states(slurm, array) == {"COMPLETED"})
    assert ended
    assert max(map(len, running_sets(sluiced.history))) == 1


def states(slurm: PrivateSlurm, array: int) -> set[str]:
    done = slurm.run("squeue", "-h", "--states=all", "-r", f"-j{array}", "-o", "%T")
    return set(done.stdout.split())


def test_a_job_whose_epilog_runs_still_holds_its_token(sluiced, slurm, lab_directory):
    holder, waiter = holder_and_waiter(slurm)
    linger(lab_directory).touch()
    try:
        slurm.run("scancel", str(holder))
        slurm.wait_for_job(holder, "COMPLETING")
        sluiced.wait_for_snapshots(3)
        seen = gates(sluiced)
        assert (seen["gates"][STREAM]["held"], seen["differences"]) == (1, [])
        assert slurm.job(waiter)["JobState"] == "PENDING"
    finally:
        linger(lab_directory).unlink()
    running(slurm, waiter)


def test_status_says_who_waits_for_which_token_and_that_all_is_well(sluiced, slurm):
    holder, waiter = holder_and_waiter(slurm)
    wait_for(lambda: sluiced.sluice("status")["is_well"])
    (row,) = sluiced.sluice("status")["waiting"]
    assert (row["job_id"], row["reason"]) == (waiter, slurm.job(waiter)["Reason"])
    assert row["tokens"]
    assert row["waits"] >= 0
    assert sluiced.sluice("status", "--user", row["user"])["waiting"]
    assert sluiced.sluice("status", "--user", "nobody")["waiting"] == []
    shown = sluiced.command("status")
    assert "all is well" in shown
    assert f"{waiter}" in shown
    assert holder != waiter
    heading = sluiced.command("gates", "--parsable2", "--format", "token,waiting").splitlines()[0]
    assert heading == "Token|Waiting"


def test_jobs_that_are_held_keep_nobody_out(sluiced, slurm):
    for _ in range(2):
        submit(slurm, "heavy", "--hold", LONG)
    wait_for(lambda: gates(sluiced)["gates"][STREAM]["waiting"] == 2)
    running(slurm, submit(slurm, "heavy", LONG))


def test_the_snapshot_says_who_holds_tokens(sluiced, slurm):
    holder, waiter = holder_and_waiter(slurm)
    snapshot = wait_for(lambda: s if (s := sluiced.snapshot()).holder(waiter) else None)
    for job in (holder, waiter):
        assert (snapshot.holder(job).klass, snapshot.holder(job).lane_mask) == ("stream", 1)


# Reviews


LIGHT, HEAVY = Selector(name="light"), Selector(name="heavy")


def rule(daemon: Sluiced, *reviews: Review) -> None:
    """Publish the model with these reviews, and wait until the plugin has it."""
    content = bundle("", *reviews)
    install(daemon.files.bundle, content)
    checksum = f"{Bundle.parse(content).checksum:016x}"
    daemon.files.wait_for(lambda seen: seen["bundle"]["checksum"] == checksum)
    daemon.wait_for_snapshots(3)


def test_jobs_that_a_review_keeps_apart_wait_for_each_other(sluiced, slurm):
    rule(sluiced, Review("apart", LIGHT, Selector(name="dripper")))
    holder = submit(slurm, "light", "-t", "10", LONG)
    running(slurm, holder, submit(slurm, "light", "-t", "10", LONG))
    sluiced.wait_for_snapshots(3)
    waiter = submit(slurm, "dripper", LONG)
    waits(slurm, waiter)
    assert sluiced.sluice("why", str(waiter))["record"]["decision"]["reason"] == "kept_apart"
    rule(sluiced)
    running(slurm, waiter)


def test_jobs_that_a_review_never_delays_or_lets_together_start_at_once(sluiced, slurm):
    rule(sluiced, Review("together", HEAVY, HEAVY))
    running(slurm, submit(slurm, "heavy", LONG))
    sluiced.wait_for_snapshots(3)
    running(slurm, submit(slurm, "heavy", LONG))
    flusher = submit(slurm, "flusher", LONG)
    waits(slurm, flusher)
    rule(sluiced, Review("never_delay", Selector(name="flusher")))
    running(slurm, flusher)


# Law 5 on the real controller


def assert_sound(daemon: Sluiced, kinds: dict[int, str], policy: str = "") -> int:
    """In no set that the gates let run together has a member a slowdown beyond its tolerance.

    Jobs that were released past the gate, because sharing costs less, are not the gates'.
    """
    model = Bundle.parse(bundle(policy))
    pressures = {
        kind: core.pressure_of(known, model.interference, model.policy)
        for kind, known in KINDS.items()
    }
    largest = 0
    let_go = {job for job, reason in releases(daemon) if reason == "sharing"}
    for together in running_sets(daemon.history):
        holders = [holder for holder in together if holder.job_id not in let_go]
        members = [pressures[kinds[holder.job_id]] for holder in holders]
        for i, victim in enumerate(members):
            if holders[i].klass:
                others = members[:i] + members[i + 1 :]
                assert slowdown(victim, others, model) <= model.policy.tolerance * (1 + 1e-9)
        largest = max(largest, len(members))
    return largest


def slowdown(victim: View, others: list[View], model: Bundle) -> float:
    z = core.normal_quantile(core.QUANTILE)
    factor = core.io_factor(victim, others, model.interference, z)
    return core.job_slowdown(victim, factor)


@pytest.mark.parametrize("count", [10, pytest.param(60, marks=pytest.mark.acceptance)])
def test_no_set_that_runs_together_exceeds_the_tolerance(sluiced, slurm, count):
    rng = random.Random(count)
    # two that the gates do admit together: what they release for sharing counts for no law
    kinds = dict.fromkeys([submit(slurm, "light", LONG) for _ in range(2)], "light")
    running(slurm, *kinds)
    wait_for(lambda: gates(sluiced)["gates"][STREAM]["held"] == 2)
    slurm.run("scancel", *map(str, kinds))
    for _ in range(count):
        kind = rng.choice((*KINDS, "light", "dripper"))
        job = submit(slurm, kind, f"--wrap=sleep {rng.choice((1, 2, 4))}")
        kinds[job] = kind
        time.sleep(rng.choice((0, 0, 0.3)))
    while slurm.run("squeue", "-h").stdout:
        time.sleep(0.2)
    assert assert_sound(sluiced, kinds) >= 2
    assert {reason for _, reason in releases(sluiced)} <= {"sharing"}


def test_where_waiting_costs_nothing_no_set_at_all_exceeds_the_tolerance(sluiced, slurm):
    """Then cost lets nobody past the gates, and they alone decide."""
    policy = "WaitPrice=0\nMinSaving=0\n"
    configure(sluiced, policy)
    sluiced.wait_for_snapshots(3)
    rng = random.Random(5)
    jobs = {}
    for _ in range(20):
        kind = rng.choice(("heavy", "flusher", "light", "dripper"))
        jobs[submit(slurm, kind, SHORT)] = kind
    wait_for(lambda: not slurm.run("squeue", "-h").stdout)
    assert_sound(sluiced, jobs, policy)
    assert not releases(sluiced)


# Deciding again near the start


def test_a_job_that_had_better_share_does_not_wait_at_the_gate(sluiced, slurm):
    """Equal widths, and waiting is dear: whatever Tolerance says, it starts."""
    configure(sluiced, "WaitPrice=100")
    holder = submit(slurm, "heavy", LONG)
    running(slurm, holder)
    sharer = submit(slurm, "heavy", "--licenses=tool:2", LONG)
    running(slurm, sharer)
    assert slurm.job(sharer)["Licenses"] == "tool:2"
    assert slurm.job(holder)["Licenses"] == STREAM
    wait_for(lambda: releases(sluiced) == [(sharer, "sharing")])
    again = sluiced.sluice("why", str(sharer), "--replay")["decided_again"]
    assert [row["decision"]["reason"] for row in again] == ["sharing_cheapest"]
    with Store(sluiced.history, read_only=True) as store:
        [second] = store.decisions.second_decisions(sharer, since=0)
        assert store.decisions.snapshot(second.snapshot) is not None
    story = sluiced.command("why", str(sharer))
    assert "Near its start" in story
    assert f"tokens taken off ({STREAM})" in story
    # the released one is load like any other
    waits(slurm, submit(slurm, "heavy", "--array=0", LONG))


def test_several_that_had_better_share_go_one_after_the_other(sluiced, slurm):
    configure(sluiced, "WaitPrice=1000")
    jobs = [submit(slurm, "heavy", LONG) for _ in range(5)]
    running(slurm, *jobs)
    with Store(sluiced.history, read_only=True) as store:
        rows = store.gates.releases()
    assert {row.reason for row in rows} == {"sharing"}
    assert len(rows) >= 3


def test_a_waiting_job_follows_the_lane_that_became_free(sluiced, slurm):
    configure(sluiced, LANES, Controlled="Users=root")
    settle(sluiced, LANE_TOKENS)
    writer = submit(slurm, "flood", LONG)
    running(slurm, writer)
    slurm.run("scontrol", "update", f"jobid={writer}", "licenses=sl0_stream")
    wait_for(lambda: [row.lane_mask for row in sluiced.snapshot().corunners()] == [1])
    sluiced.wait_for_snapshots(3)
    waiter = submit(slurm, "flood", "-N3", "--exclusive", "--licenses=tool:2", LONG)
    assert slurm.job(waiter)["Licenses"] == "tool:2,sl1_stream"
    slurm.run("scontrol", "update", f"jobid={writer}", "licenses=sl1_stream")
    wait_for(lambda: slurm.job(waiter)["Licenses"] == "tool:2,sl0_stream")
    [again] = sluiced.sluice("why", str(waiter))["decided_again"]
    assert (again["decision"]["action"], again["grant"]["tokens"]["lane_mask"]) == ("disjoint", 1)
    wait_for(lambda: sluiced.snapshot().holder(waiter).lane_mask == 1)
    assert not gates(sluiced)["differences"]


# The bound on waiting


def test_an_array_is_released_as_a_whole(sluiced, slurm):
    configure(sluiced, "MaxDelay=3")
    holder = submit(slurm, "heavy", LONG)
    running(slurm, holder)
    array = submit(slurm, "heavy", "--array=0-999", "-N3", "--exclusive", LONG)
    waits(slurm, array)

    def released() -> list[str] | None:
        rows = slurm.run("squeue", "-h", f"-j{array}", "-o", "%i:%W").stdout.splitlines()
        return None if any(STREAM in row for row in rows) else rows

    # one record still, but for tasks that Slurm has started meanwhile
    assert sum("-999]" in row for row in wait_for(released)) == 1
    wait_for(lambda: releases(sluiced) == [(array, "max_delay")])


def test_whom_a_round_had_no_release_for_starts_all_the_same(sluiced, slurm):
    """By a later round, or as the gate behind which it waits too long is given up."""
    holder = submit(slurm, "heavy", LONG)
    running(slurm, holder)
    jobs = [submit(slurm, "heavy", LONG) for _ in range(8)]
    waits(slurm, *jobs)
    configure(sluiced, "MaxDelay=0")
    running(slurm, *jobs)
    done = wait_for(lambda: [job for job, _ in releases(sluiced)])
    assert len(set(done)) == len(done) <= len(jobs)
    assert set(done) <= set(jobs)


# The switch


def test_off_takes_the_tokens_off_jobs_that_cannot_start_yet(sluiced, slurm):
    holder_and_waiter(slurm)
    stuck = submit(slurm, "heavy", "-N3", "--exclusive", LONG)
    wait_for(lambda: slurm.job(stuck)["Licenses"] == STREAM)
    sluiced.command("off")
    wait_for(lambda: slurm.job(stuck)["Licenses"] in {"", "(null)"})
    wait_for(lambda: (stuck, "switched_off") in releases(sluiced))


def test_off_works_without_sluiced(sluiced, slurm):
    _, waiter = holder_and_waiter(slurm)
    sluiced.stop(signal.SIGKILL)
    said = sluiced.command("off")
    assert "All gates are open" in said
    assert "tokens taken off" in said
    assert not leases(slurm)
    running(slurm, waiter)


def test_leaving_enforce_opens_the_gates(sluiced, slurm):
    _, waiter = holder_and_waiter(slurm)
    sluiced.files.configure(Mode="advise", FollowInterval=100)
    running(slurm, waiter)
    assert not leases(slurm)


def test_other_modes_never_make_a_lease(sluiced, slurm):
    sluiced.files.configure(Mode="advise", FollowInterval=100)
    wait_for(lambda: not leases(slurm))
    submit(slurm, "heavy", LONG)
    sluiced.wait_for_snapshots(5)
    assert not leases(slurm)


def test_sigterm_leaves_no_lease_behind(sluiced, slurm):
    _, waiter = holder_and_waiter(slurm)
    assert sluiced.stop() == 0
    assert not leases(slurm)
    running(slurm, waiter)


# What may happen


@pytest.mark.acceptance
@pytest.mark.usefixtures("sluiced")
def test_it_keeps_the_gates_closed_far_beyond_one_lease(slurm):
    _, waiter = holder_and_waiter(slurm)
    ends = {row["EndTime"] for row in reservations(slurm).values()}
    wait_for(lambda: not ends & {row["EndTime"] for row in reservations(slurm).values()})
    time.sleep(LEASE)
    assert slurm.job(waiter)["JobState"] == "PENDING"


@pytest.mark.acceptance
def test_both_dead_nobody_waits_beyond_the_lease(sluiced, slurm):
    _, waiter = holder_and_waiter(slurm)
    time.sleep(6)
    sluiced.stop(signal.SIGKILL)
    slurm.kill_controller()
    slurm.start_controller()
    running(slurm, waiter)


def test_a_lease_deleted_by_hand_is_made_again(sluiced, slurm):
    _, waiter = holder_and_waiter(slurm)
    for token in TOKENS:
        slurm.run("scontrol", "delete", f"reservationname=sluice_{token}")
    settle(sluiced)
    assert slurm.job(waiter)["JobState"] in {"PENDING", "RUNNING"}
    waits(slurm, submit(slurm, "flusher", LONG))


def test_an_earlier_lease_is_adopted_and_an_administrators_reservation_left_alone(sluiced, slurm):
    sluiced.stop()
    create = ("scontrol", "create", "reservation", "starttime=now", "users=root")
    slurm.run(*create, "reservationname=sluice_maintenance", "nodes=n3", "duration=60")
    slurm.run(*create, "reservationname=sluice_tool", "licenses=tool:1", "duration=60",
              "flags=license_only")  # fmt: skip
    slurm.run(*create, f"reservationname=sluice_{STREAM}", f"licenses={STREAM}:{TOTAL}",
              "endtime=now+7days", "flags=license_only,ignore_jobs")  # fmt: skip
    before = reservations(slurm)
    sluiced.start()
    settle(sluiced)
    wait_for(lambda: reservations(slurm)[f"sluice_{STREAM}"] != before[f"sluice_{STREAM}"])
    after = reservations(slurm)
    assert after[f"sluice_{STREAM}"]["EndTime"] < before[f"sluice_{STREAM}"]["EndTime"]
    running(slurm, submit(slurm, "heavy", "-N1", LONG))
    sluiced.stop()
    after = reservations(slurm)
    assert set(after) == {"sluice_maintenance", "sluice_tool"}
    assert all(after[name] == before[name] for name in after)


@pytest.mark.parametrize(
    "line",
    [
        licenses(2),
        licenses(tokens=(FLUSH, META)),
        pytest.param(licenses(0), marks=pytest.mark.acceptance),
        pytest.param("tool:9", marks=pytest.mark.acceptance),
    ],
)
def test_lanes_that_slurm_conf_no_longer_has_hold_nobody(sluiced, slurm, line):
    """Undefined, none of them, too few, one removed: with a job that holds and one that waits."""
    _, waiter = holder_and_waiter(slurm)
    try:
        reconfigure(slurm, line)
        running(slurm, waiter)
        free = submit(slurm, "heavy", LONG)
        assert slurm.job(free)["Licenses"] == "(null)"
        running(slurm, free)
        assert STREAM not in leases(slurm)
    finally:
        slurm.run("scancel", "--quiet", "--user=root")
        reconfigure(slurm, licenses())
    settle(sluiced)
    wait_for(lambda: not gates(sluiced)["differences"])
    holder_and_waiter(slurm)


def reconfigure(slurm: PrivateSlurm, line: str) -> None:
    slurm.settings["Licenses"] = line
    slurm.write_config()
    slurm.reconfigure()


def test_without_a_bundle_nobody_waits(sluiced, slurm):
    sluiced.stop()
    sluiced.files.bundle.unlink()
    sluiced.start()
    sluiced.wait_for_snapshots(3)
    jobs = [submit(slurm, "heavy", LONG) for _ in range(2)]
    running(slurm, *jobs)
    assert not leases(slurm)


def test_a_damaged_bundle_leaves_the_gates_as_they_are(sluiced, slurm):
    _, waiter = holder_and_waiter(slurm)
    install(sluiced.files.bundle, b"nonsense")
    wait_for(lambda: "bundle: " in sluiced.log.read_text())
    sluiced.wait_for_snapshots(3)
    assert set(leases(slurm)) == set(TOKENS)
    assert slurm.job(waiter)["JobState"] == "PENDING"


def test_doctor_finds_gates_that_are_open_and_tokens_that_do_not_balance(sluiced, slurm):
    assert findings(sluiced, "token audit") == ["OK"]
    sluiced.stop(signal.SIGKILL)
    for name in reservations(slurm):
        slurm.run("scontrol", "delete", f"reservationname={name}")
    assert findings(sluiced, "gates") == ["FAIL"]
    slurm.run("scontrol", "create", "reservation", "reservationname=mine", "starttime=now",
              "duration=5", "users=root", f"licenses={META}:7", "flags=license_only")  # fmt: skip
    assert findings(sluiced, "token audit") == ["FAIL"]


def findings(daemon: Sluiced, topic: str) -> list[str]:
    return [row["level"] for row in daemon.findings() if row["topic"] == topic]


@pytest.mark.parametrize(("is_seen", "reason"), [(True, "foreign"), (False, "unknown")])
def test_a_job_with_a_token_but_no_decision_is_released(sluiced, slurm, is_seen, reason):
    """By an administrator, to a job of which Sluice knows nothing, or that it never saw."""
    files = sluiced.files
    if not is_seen:
        files.off_file.touch()
        files.wait_for(lambda seen: seen["mode"] == "off")
    stranger = submit(slurm, "unheard_of", "--hold", LONG)
    files.off_file.unlink(missing_ok=True)
    settle(sluiced)
    holder_and_waiter(slurm)
    slurm.run("scontrol", "update", f"jobid={stranger}", f"licenses={STREAM}")
    slurm.run("scontrol", "release", str(stranger))
    running(slurm, stranger)
    wait_for(lambda: (stranger, reason) in releases(sluiced))
