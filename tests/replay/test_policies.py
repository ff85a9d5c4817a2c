"""Policies of a replay with I/O: what each does, and what none of them may do."""

from dataclasses import replace

import numpy as np
import pytest
from ablations import EVERY, PLACING

from sluice.sim.engine import Machine, Partition, PolicyError
from sluice.sim.policies.policies import Options
from sluice.sim.replay.io_replay import IO_ROOM, mistaken, replay, replay_with_io
from sluice.sim.storage.mean_field import storage_for
from sluice.sim.trace.lublin import generate
from sluice.sim.trace.machine import Site, one_pool
from sluice.sim.trace.profiles import Profiles, drawn_profiles, no_profiles
from sluice.sim.trace.repairs import make_replayable

SLOTS = 64
SITE = one_pool(SLOTS)
STORAGE = storage_for(SLOTS)
JOBS = 600
WORK = make_replayable(generate(JOBS, slots=SLOTS, load=0.8, seed=5), SITE)
PROFILES = drawn_profiles(WORK.workload, heavy=0.5, seed=2)
DELAYING = [name for name, policy in EVERY.items() if policy.delays]


def run(policy="none", *, profiles=PROFILES, storage=STORAGE, site=SITE, **options):
    if policy in PLACING:
        storage = replace(storage, placement="chance")
    return replay_with_io(
        WORK,
        site,
        profiles=profiles,
        storage=storage,
        policy=policy,
        options=Options(**options),
        known=EVERY,
    )


@pytest.mark.parametrize("policy", EVERY)
def test_every_job_ends_and_the_same_arguments_give_the_same_bytes(policy):
    one, same = run(policy), run(policy)
    assert one.ran.all()
    assert one.results.tobytes() == same.results.tobytes()
    assert one.contention.tobytes() == same.contention.tobytes()
    assert one.choices.tobytes() == same.choices.tobytes()


@pytest.mark.parametrize("policy", EVERY)
def test_jobs_without_io_are_scheduled_as_without_storage(policy):
    silent = run(policy, profiles=no_profiles(len(WORK.rows)))
    assert silent.results["start"].tolist() == replay(WORK, SITE).results["start"].tolist()
    assert not np.any(silent.lost_slot_seconds > 1e-6)


def test_what_a_kill_at_the_limit_destroys_is_lost():
    """All of the run of a job that alone would have ended in time."""
    narrow = run(storage=storage_for(SLOTS, lanes=1, targets=1))
    jobs = narrow.replayable.workload.jobs
    killed = narrow.state == "timeout"
    assert killed.any()
    in_time = killed & (jobs["runtime"] <= jobs["limit"])
    whole = narrow.runtime * jobs["slots"]
    assert narrow.lost_slot_seconds[in_time] == pytest.approx(whole[in_time])
    assert narrow.killed_slot_seconds[in_time].sum() > 0
    assert not narrow.killed_slot_seconds[~in_time].any()


@pytest.mark.parametrize("policy", DELAYING)
@pytest.mark.parametrize("most", [0.0, 600.0])
def test_no_job_is_delayed_longer_than_allowed(policy, most):
    outcomes = run(policy, max_delay=most)
    assert outcomes.delay.max() <= most
    if most == 0:
        assert outcomes.results.tobytes() == run("none").results.tobytes()


def test_delay_is_counted_for_the_jobs_that_were_delayed():
    outcomes = run("two-groups", heavy=1, max_delay=1e9)
    assert outcomes.delay.max() > 0
    assert np.all(outcomes.wait + 1e-6 >= outcomes.delay)


def test_two_groups_let_so_many_heavy_jobs_run_and_no_more():
    outcomes = run("two-groups", heavy=2, max_delay=np.inf)
    heavy = PROFILES.io_share >= 0.02
    times = np.concatenate([outcomes.results["start"][heavy], outcomes.results["end"][heavy]])
    change = np.concatenate([np.ones(heavy.sum()), -np.ones(heavy.sum())])
    order = np.lexsort((change, times))
    assert np.cumsum(change[order]).max() == 2


def test_a_delayed_job_preempts_nobody():
    """It would, for ever: its victims start again in its place."""
    tiers = (Partition("low"), Partition("high", tier=1))
    machine = Machine((SLOTS,), tiers)
    jobs = WORK.workload.jobs.copy()
    jobs["partition"] = np.arange(len(jobs)) % 7 == 0
    work = replace(WORK, workload=replace(WORK.workload, machine=machine, jobs=jobs))
    site = Site(machine, {"preemption": "requeue"})
    outcomes = replay_with_io(
        work,
        site,
        profiles=PROFILES,
        storage=STORAGE,
        policy="two-groups",
        options=Options(heavy=1, max_delay=600.0),
    )
    assert outcomes.ran.all()
    assert outcomes.results["restarts"].any()
    assert outcomes.delay.max() == 600


def test_static_lanes_put_streams_and_synchronous_writers_apart():
    outcomes = run("class-lanes")
    streams = PROFILES.kind == 0
    synchronous = PROFILES.kind == 1
    assert np.unique(outcomes.choices["lane_mask"][streams]).tolist() == [0b0011]
    assert np.unique(outcomes.choices["lane_mask"][synchronous]).tolist() == [0b1100]


def test_a_policy_of_lanes_refuses_storage_without_any():
    with pytest.raises(PolicyError, match="lanes = 2"):
        run("class-lanes", storage=storage_for(SLOTS, lanes=1))


def test_a_rate_cap_slows_jobs_that_are_alone_and_counts_that_as_lost():
    alone = replace(PROFILES, kind=np.full(len(PROFILES.kind), 4), io_share=PROFILES.io_share * 0)
    alone.kind[0], alone.io_share[0] = 0, 0.5
    free, capped = run("none", profiles=alone), run("rate-cap", profiles=alone)
    assert free.lost_slot_seconds[0] == pytest.approx(0, abs=1e-3)
    assert capped.lost_slot_seconds[0] > 0
    assert capped.job_slowdown[0] > 1.1


def test_fair_servers_are_a_property_of_the_storage():
    fair = run("none", storage=STORAGE.shared("jobs"))
    assert run("server-fair").results.tobytes() == fair.results.tobytes()


def test_limits_leave_room_for_slower_io_unless_the_trace_killed_the_job():
    jobs = WORK.workload.jobs.copy()
    jobs["limit"] = jobs["runtime"]
    jobs["limit"][0] /= 2
    work = replace(WORK, workload=replace(WORK.workload, jobs=jobs))
    profiles = replace(PROFILES, io_share=np.full(len(jobs), 0.5))
    outcomes = replay_with_io(work, SITE, profiles=profiles, storage=STORAGE)
    limit = outcomes.replayable.workload.jobs["limit"]
    assert limit[0] == jobs["limit"][0]
    assert limit[1:] == pytest.approx(jobs["runtime"][1:] * (1 + 0.5 * (IO_ROOM - 1)))


def test_wrong_predictions_are_so_many_and_seeded():
    profiles = Profiles(PROFILES.kinds, np.arange(10_000) % 6, np.linspace(0, 1, 10_000))
    wrong = mistaken(profiles, share=0.3, seed=4)
    assert np.mean(wrong.io_share != profiles.io_share) == pytest.approx(0.3, abs=0.02)
    assert wrong.kind.tobytes() == mistaken(profiles, share=0.3, seed=4).kind.tobytes()
    assert wrong.kind.tobytes() != mistaken(profiles, share=0.3, seed=5).kind.tobytes()
    with pytest.raises(PolicyError, match="0 to 1"):
        mistaken(profiles, share=1.5, seed=4)


def test_which_prediction_is_wrong_has_nothing_to_do_with_what_the_job_does():
    """Also where one seed draws the profiles and the mistakes."""
    many = make_replayable(generate(20_000, slots=SLOTS, load=0.8, seed=1), SITE)
    profiles = drawn_profiles(many.workload, heavy=0.3, seed=1)
    wrong = mistaken(profiles, share=0.3, seed=1).io_share != profiles.io_share
    heavy = profiles.io_share >= 0.02
    assert wrong[heavy].mean() == pytest.approx(0.3, abs=0.02)
    predicted = mistaken(profiles, share=0.3, seed=1)
    assert (predicted.io_share >= 0.02).mean() == pytest.approx(heavy.mean(), abs=0.01)


def test_an_unknown_policy_is_refused_by_name():
    with pytest.raises(PolicyError, match="class-lanes"):
        run("magic")
