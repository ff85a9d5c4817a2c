"""Sluice in a replay: the deployed decision core, by the state of the simulated cluster."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from ablations import EVERY, ByChunkAlone, Perfect, WithoutClassifier
from hypothesis import given, settings
from hypothesis import strategies as st
from watched_core import Watched

from sluice.policies import core
from sluice.policies.bundle import Bundle
from sluice.policies.record import Situation, decide
from sluice.policies.snapshot import Snapshot
from sluice.policies.structs import View
from sluice.sim.policies.policies import Options
from sluice.sim.policies.site_bundle import TraceHistory, site_bundle
from sluice.sim.replay.io_replay import replay_with_io
from sluice.sim.storage.mean_field import storage_for
from sluice.sim.trace.lublin import generate
from sluice.sim.trace.machine import one_pool
from sluice.sim.trace.profiles import drawn_profiles
from sluice.sim.trace.repairs import make_replayable

SLOTS = 64
SITE = one_pool(SLOTS)
STORAGE = storage_for(SLOTS, targets=8)


def work(jobs=300, seed=5):
    replayable = make_replayable(generate(jobs, slots=SLOTS, load=0.9, seed=seed), SITE)
    return replayable, drawn_profiles(replayable.workload, heavy=0.7, seed=seed)


CHEAP = {"max_delay": 86400.0, "wait_price": 0.01}
"""Options under which delays pay."""


@pytest.fixture(scope="module")
def watched():
    replayable, profiles = work()
    return Watched(
        replayable, SITE, profiles=profiles, storage=STORAGE, policy="sluice-auto", **CHEAP
    )


def test_watching_changes_nothing(watched):
    replayable, profiles = work()
    plain = replay_with_io(
        replayable,
        SITE,
        profiles=profiles,
        storage=STORAGE,
        policy="sluice-auto",
        options=Options(**CHEAP),
    )
    assert plain.results.tobytes() == watched.results.tobytes()


def test_every_decision_is_the_one_that_a_snapshot_of_the_cluster_leads_to(watched):
    """As the plugin would: a published snapshot, a situation of its own, the same bytes."""
    reasons = set()
    for decided in watched.decided:
        request = core.submission_of(decided.request)
        situation = Situation(watched.bundle, Snapshot.parse(decided.snapshot()))
        record = decide(situation, watched.config, request, decided.time)
        assert request.bytes == decided.submission
        assert record.decision.bytes == decided.decision
        reasons.add(record.decision.reason)
    assert max(len(decided.corunners) for decided in watched.decided) > 3
    assert {"insignificant", "harmless", "sharing_cheapest", "delay_pays"} <= reasons


def repeated(watched, polled):
    """Do what sluiced does with these jobs, facts and co-runners; return (jobs, facts, gates)."""
    loop, facts = polled.loop(), polled.facts()
    if polled.is_bound:
        loop.bound(facts)
        return loop, facts, b""
    situation = Situation(watched.bundle, Snapshot.parse(polled.snapshot()))
    gates = loop.poll(situation, watched.config, facts, polled.submission)
    return loop, facts, View(gates.struct).bytes


def test_the_control_loop_of_sluiced_makes_the_same_of_every_queue():
    """Jobs, facts and gates, byte for byte, from a published snapshot and a new loop."""
    replayable, profiles = work()
    watched = Watched(
        replayable,
        SITE,
        profiles=profiles,
        storage=STORAGE,
        policy="sluice-delay",
        max_delay=86400,
        wait_price=0.0,  # so that some wait
    )
    releases, charged, decided, let_out = set(), 0, 0, 0
    for polled in watched.polled:
        loop, facts, gates = repeated(watched, polled)
        assert loop.content() == polled.after
        assert View(facts).bytes == polled.facts_after
        assert polled.is_bound or gates == polled.gates
        releases |= {action.release for action in loop.actions()}
        charged += any(loop[place].memory.waited for place in loop)
        decided += sum(1 for _ in loop.decisions())
        let_out += any(gates)
    assert releases == {"sharing"}
    assert min(charged, decided, let_out) > 10


def test_jobs_near_their_start_are_decided_on_again(watched):
    counts = np.bincount([decided.job for decided in watched.decided])
    assert counts.min() == 1
    assert counts.max() > 2


@settings(max_examples=10, deadline=None)
@given(
    st.sampled_from(["sluice-auto", "sluice-delay", "sluice-perfect"]),
    st.integers(0, 1000),
    st.sampled_from([0.0, 60.0, 1800.0, 86400.0]),
    st.sampled_from([0.0, 0.3]),
)
def test_sluice_delays_no_job_longer_than_max_delay(policy, seed, most, wrong):
    replayable, profiles = work(120, seed)
    outcomes = replay_with_io(
        replayable,
        SITE,
        profiles=profiles,
        storage=STORAGE,
        policy=policy,
        options=Options(max_delay=most, wait_price=0.0, wrong=wrong, seed=seed),
        known=EVERY,
    )
    assert outcomes.ran.all()
    assert outcomes.delay.max() <= most
    assert np.all(outcomes.wait + 1e-6 >= outcomes.delay)


def test_a_replay_is_the_same_on_any_number_of_threads():
    replayable, profiles = work()

    def run(policy):
        outcomes = replay_with_io(
            replayable, SITE, profiles=profiles, storage=STORAGE, policy=policy
        )
        return outcomes.results.tobytes() + outcomes.choices.tobytes()

    policies = ["sluice-auto", "sluice-disjoint", "two-groups", "none"] * 2
    alone = [run(policy) for policy in policies]
    for threads in (2, 8):
        with ThreadPoolExecutor(threads) as pool:
            assert list(pool.map(run, policies)) == alone


@pytest.mark.parametrize("policy", ["sluice-colocate", "sluice-disjoint"])
def test_without_delay_no_job_is_delayed(policy):
    replayable, profiles = work()
    outcomes = replay_with_io(
        replayable, SITE, profiles=profiles, storage=STORAGE, policy=policy, known=EVERY
    )
    assert not outcomes.delay.any()
    assert not np.any(outcomes.action == "delay")


def test_what_was_learned_does_not_depend_on_the_storage_model_that_answers():
    """Other numbers answer otherwise, and are predicted by what the site measured before."""
    replayable, profiles = work(50)
    learned = [
        site_bundle(TraceHistory(replayable.workload, profiles, storage), max_delay=60).bundle
        for storage in (STORAGE, replace(STORAGE, seed=3, spread=0.5))
    ]
    assert learned[0] == learned[1]


def test_a_perfect_profile_knows_each_job_and_no_classifier_knows_no_kinds():
    replayable, profiles = work()
    heavy = profiles.io_share >= 0.02

    def predicted(history):
        learned = history(replayable.workload, profiles, STORAGE)
        site = site_bundle(learned, max_delay=60)
        bundle = Bundle.parse(site.bundle)
        return [bundle.predict(submission_of_job(site, replayable, job)).profile
                for job in np.flatnonzero(heavy)[:40]]  # fmt: skip

    runtime = replayable.workload.jobs["runtime"][heavy][:40]
    perfect = predicted(Perfect)
    assert [p.runtime_seconds for p in perfect] == pytest.approx(runtime, rel=0.1)
    assert [p.io_share for p in perfect] == pytest.approx(profiles.io_share[heavy][:40], abs=0.01)
    assert {p.pattern for p in predicted(WithoutClassifier)} == {"mixed"}
    assert {p.pattern for p in predicted(ByChunkAlone)} == {"aw", "ws"}


def submission_of_job(site, replayable, job):
    submission = View(site.submissions[site.application[job]].struct)
    submission.struct.nodes = int(replayable.workload.jobs["slots"][job])
    submission.struct.uid = int(replayable.workload.jobs["user"][job]) + 1
    return submission
