"""Bursts that take turns in the discrete-event storage model, by the core's own verdicts."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mean_field import MeanField
from test_discrete_event import programs, storages, volume
from watched_turns import watcher

from sluice.sim.engine import StorageModelError
from sluice.sim.storage.discrete_event import simulate

MIB = 1048576.0
TARGETS = 16
STORAGE = {"target_bandwidth": 100 * MIB, "targets": TARGETS, "flow_window": 3}
CERTAIN = {"trial": 0.0}
"""No hold is put on trial: where bursts are few and short, a trial is much of them."""
AT_ONCE = {"latency": 0.0, **CERTAIN}
UNDER_WAY = 0.1
"""Seconds in which targets serve what was under way when a verdict came."""


def writer(seconds, *, nodes=16, share=1.0, **changed):
    """Return a program that writes bursts of so many seconds at a share of all targets."""
    rate = share * TARGETS * 100 * MIB
    written = {
        "processes": TARGETS,
        "nodes": nodes,
        "operation_bytes": 4 * MIB,
        "operations": round(seconds * rate / TARGETS / (4 * MIB)),
        "sync": "behind",
        "in_step": 1,
        "expected": seconds,
    }
    return {**written, **({"rate": rate} if share < 1 else {}), **changed}


def ends(*programs, turns=AT_ONCE, **storage):
    return [one.end for one in simulate({**STORAGE, **storage}, programs, turns=turns)]


@pytest.mark.parametrize("sync", ["behind", "ack", "flush"])
def test_the_shorter_of_two_bursts_that_fill_the_storage_goes_first(sync):
    both = writer(100, sync=sync), writer(10, sync=sync)
    assert ends(*both) == pytest.approx([110, 10], abs=UNDER_WAY)
    assert ends(*both, turns=None) == pytest.approx([110, 20], rel=0.02)


def test_a_burst_that_begins_later_interrupts_a_longer_one():
    both = writer(100), writer(10, start=5)
    assert ends(*both) == pytest.approx([110, 15], abs=4 * UNDER_WAY)


def test_a_wide_job_goes_before_a_narrow_one_that_fills_the_storage_as_well():
    assert ends(writer(10), writer(30, nodes=64)) == pytest.approx([40, 30], abs=UNDER_WAY)


def test_a_verdict_takes_effect_when_a_latency_has_passed():
    """Both write at half speed for a second; when B has ended, a second passes in vain."""
    turns = {"latency": 1.0, "guard": 0.0, **CERTAIN}
    found = ends(writer(100), writer(10, start=5), turns=turns)
    assert found == pytest.approx([111, 15.5], abs=4 * UNDER_WAY)


def test_a_burst_is_held_for_its_budget_and_no_longer():
    """50 s alone, then both at half speed: B has 40 s left, then A 60 s."""
    found = ends(writer(100), writer(90), turns={**AT_ONCE, "budget": 0.5})
    assert found == pytest.approx([190, 130], rel=0.01)


def test_a_burst_is_held_no_longer_at_a_stretch_and_then_goes_for_a_second():
    """In 11 s of the first 94, B does 10.5 s and A half a second; A is held for 10 of them."""
    both = simulate(STORAGE, [writer(100), writer(90)], turns={**AT_ONCE, "hold": 10.0})
    assert [one.end for one in both] == pytest.approx([190, 94.2], rel=0.01)
    assert both[0].held == pytest.approx(85.8, rel=0.02)


def test_two_bursts_that_fit_take_no_turns():
    both = simulate(STORAGE, [writer(100, share=0.5), writer(10, share=0.4)], turns=AT_ONCE)
    assert [one.end for one in both] == pytest.approx([100, 10], rel=0.02)
    assert [one.held for one in both] == [0, 0]


def test_a_burst_that_fits_in_part_goes_at_the_pace_that_is_left():
    """Of B a third fits alongside A: at a third of its speed it writes 3.3 s in 10."""
    a, b = writer(10, share=0.8), writer(40, share=0.6)
    found = simulate(STORAGE, [a, b], turns={**AT_ONCE, "pace": 1.0})
    assert [one.end for one in found] == pytest.approx([10, 46.7], rel=0.02)
    assert found[1].held == pytest.approx(6.7, rel=0.05)


def test_targets_that_share_equally_give_many_requests_no_more():
    """Here four times as many are under way."""
    many = {"processes": 64, "operations": 100, "sync": "behind"}
    few = {"processes": 16, "operations": 400, "sync": "behind"}
    fair, first_come = (simulate({**STORAGE, "shares": w}, [many, few]) for w in (1, 0))
    assert fair[0].end == pytest.approx(fair[1].end, rel=0.05)
    assert first_come[0].end < 0.8 * first_come[1].end


def test_targets_that_share_equally_do_not_seek():
    with pytest.raises(StorageModelError, match="neither seek nor keep order"):
        simulate({**STORAGE, "shares": 1, "seek_seconds": 0.001}, [writer(10)])


def test_a_setting_that_turns_do_not_have_is_refused_by_name():
    with pytest.raises(StorageModelError, match="turns have no temper; give latency, "):
        simulate(STORAGE, [writer(10)], turns={"temper": 1.0})


# Mixed work: programs that compute and write, of different widths, lengths and demands


def mixed(seed, jobs=8, bursts=4, **changed):
    """Return programs that together want about what the targets can do."""
    random = np.random.default_rng(seed)
    found = []
    for _ in range(jobs):
        seconds, share = random.uniform(10, 60), random.uniform(0.2, 1.2)
        processes = int(TARGETS * random.choice([1, 2, 4]))
        rate = share * TARGETS * 100 * MIB
        found.append(
            {
                "processes": processes,
                "nodes": int(random.choice([4, 16, 64])),
                "operation_bytes": 16 * MIB,
                "operations": max(1, round(seconds * min(1, share) * 100 / processes)),
                "bursts": bursts,
                "compute": seconds * random.uniform(2, 6),
                "in_step": 1,
                "sync": "behind",
                "rate": rate,
                "expected": seconds,
                **changed,
            }
        )
    return found


COARSE = {**STORAGE, "unit_bytes": 8 * MIB}
REAL = {"latency": 1.0, "guard": 5.0, "noise": 0.3, "demand_error": 1.1}


def lost(jobs, *, storage=COARSE, turns=None):
    """Return the node-seconds by which bursts take longer than alone."""
    alone = simulate(storage, jobs, turns=AT_ONCE)  # which measures each alone
    found = simulate(storage, jobs, turns=turns)
    return sum(
        (one.io - own.io_alone) * job["nodes"]
        for one, own, job in zip(found, alone, jobs, strict=True)
    )


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_turns_lose_less_than_no_order(seed):
    assert lost(mixed(seed), turns=AT_ONCE) < 0.7 * lost(mixed(seed))


def test_turns_lose_less_than_no_order_where_little_is_known():
    """First bursts unknown, bursts that vary, a latency, noise and a demand that is wrong."""
    varying = {**COARSE, "burst_spread": 0.3}
    known = [sum(lost(mixed(seed, expected=0.0), storage=varying, turns=turns)
                 for seed in (1, 2, 3)) for turns in (REAL, None)]  # fmt: skip
    assert known[0] < 0.8 * known[1]


def decided_in(jobs, storage, turns):
    """Return each call of the core."""
    watch, seen = watcher()
    simulate(storage, jobs, turns=turns, watch=watch, seed=1)
    return seen


def test_every_verdict_is_that_of_the_core():
    """The same state gives the same bytes, and the same clock at which to decide again."""
    reasons = set()
    coverage = itertools.cycle(["covered", "covered", "seen"])
    jobs = [{**job, "coverage": next(coverage)} for job in mixed(4)]
    storage = {**COARSE, "lanes": 2, "burst_spread": 0.2}
    for decided in decided_in(jobs, storage, REAL):
        reasons |= decided.reasons()
    assert reasons >= {"not_full", "behind", "exempt", "in_order"}


def test_a_burst_that_was_unknown_is_known_from_the_one_before():
    """A job's own last burst is what its next one is taken for, as it was measured."""
    job = writer(40, bursts=3, compute=100.0, expected=0.0)

    def taken_for(noise):
        return [
            decided.described[0].expected
            for decided in decided_in([job], STORAGE, {**AT_ONCE, "noise": noise})
            if decided.jobs
        ]

    exact, noisy = taken_for(0.0), taken_for(0.3)
    assert exact[0] == noisy[0] == 0.0
    assert {round(one) for one in exact} == {0, 40}
    assert len(set(noisy) - {0.0}) == 2


@pytest.mark.parametrize("error", [0.7, 1.3])
def test_a_wrong_demand_is_what_control_decides_by(error):
    job = writer(40, share=0.5)
    first, *_ = decided_in([job], STORAGE, {**AT_ONCE, "demand_error": error})
    demand = first.described[0].demand[0]
    assert demand == pytest.approx(0.5 * error, rel=0.02)


def test_a_storage_that_is_never_full_is_left_alone():
    roomy = {**STORAGE, "targets": 400, "unit_bytes": 8 * MIB}
    plain = simulate(roomy, mixed(5, stripe_targets=400, stripe_bytes=MIB))
    ordered = simulate(roomy, mixed(5, stripe_targets=400, stripe_bytes=MIB), turns={})
    measured = {"io_alone": 0.0}
    for one, other in zip(plain, ordered, strict=True):
        assert other.held == 0.0
        rest = {name: getattr(other, name) for name in other.__slots__} | measured
        assert {name: getattr(one, name) for name in one.__slots__} == rest


@pytest.mark.parametrize("coverage", ["seen", "unseen"])
def test_programs_that_are_not_covered_are_never_held(coverage):
    held = [one.held for one in simulate(COARSE, mixed(1), turns=AT_ONCE)]
    free = [one.held for one in simulate(COARSE, mixed(1, coverage=coverage), turns=AT_ONCE)]
    assert any(held)
    assert not any(free)


def test_what_nobody_sees_is_waited_for_by_nobody():
    """A covered program waits for what the storage counts, and not for what it does not."""
    held = {}
    for coverage in ("seen", "unseen"):
        both = writer(40), writer(10, coverage=coverage)
        held[coverage] = simulate(STORAGE, both, turns=AT_ONCE)[0].held
    assert held["seen"] == pytest.approx(10, abs=UNDER_WAY)
    assert held["unseen"] == 0


def test_equal_calls_with_turns_give_equal_bits():
    storage = {**COARSE, "burst_spread": 0.3, "jitter_seconds": 0.1}
    first, second, other = (
        simulate(storage, mixed(6), turns=REAL, seed=seed) for seed in (1, 1, 2)
    )
    assert first == second != other


@settings(max_examples=60)
@given(
    storage=storages,
    jobs=st.lists(programs, min_size=1, max_size=3),
    spread=st.sampled_from([0.0, 0.5]),
    latency=st.sampled_from([0.0, 0.01]),
)
def test_every_byte_arrives_whoever_is_held(storage, jobs, spread, latency):
    """No request is lost, whichever mechanisms are on; bursts that vary keep their mean."""
    turns = {"latency": latency, "guard": 0.0, "quantum": 0.01}
    found = simulate({**storage, "burst_spread": spread}, jobs, turns=turns)
    for job, outcome in zip(jobs, found, strict=True):
        assert math.isfinite(outcome.end)
        if not spread:
            assert outcome.bytes == pytest.approx(volume(job))


def mean_field_ends(jobs, turns):
    """Return how the same jobs end in the mean-field storage model."""
    model = MeanField(
        {"target_bandwidth": 100 * MIB, "server_bandwidth": 1e15, "stream_window": 3.0},
        lanes=((TARGETS, 1),),
        turns=turns and {"rare": 0.0, "probe": 0.0, **turns},
    )
    for tag, job in enumerate(jobs):
        profile = {"pattern": "aw", "io_share": 1.0, "chunk_bytes": 2.0**22}
        profile |= {"bytes_per_flush": 2.0**30, "period_seconds": 1e9}
        profile |= {"nprocs": float(job["processes"]), "rate": job["rate"]}
        load = model.load_of(profile, nodes=job["nodes"], runtime=job["expected"])
        load.bursts, load.compute = job["bursts"], job["compute"]
        load.expected = job["expected"]
        model.start(0.0, load, tag=tag)
    found = {end.tag: end for end in model.run()}
    return [found[tag] for tag in range(len(jobs))]


TOLERANCE = 0.1
"""By which what streams lose may differ in the two storage models, in sum over five sets."""


@pytest.mark.parametrize("turns", [None, AT_ONCE, {"latency": 1.0, "guard": 0.0, **CERTAIN}])
def test_both_storage_models_agree_on_what_streams_lose(turns):
    """With turns and without: the same jobs, in requests and in rates."""
    by_request = by_rate = 0.0
    for seed in range(1, 6):
        jobs = mixed(seed)
        model = mean_field_ends(jobs, turns)
        by_request += lost(jobs, turns=turns)
        by_rate += sum((end.io - end.io_alone) * job["nodes"]
                       for end, job in zip(model, jobs, strict=True))  # fmt: skip
    assert by_request == pytest.approx(by_rate, rel=TOLERANCE)
