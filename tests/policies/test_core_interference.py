"""How much jobs lose to each other: the formulas of the design, and their laws."""

from __future__ import annotations

import itertools
import math

import core_calls
import numpy as np
import pytest
from core_cases import (
    FLUSHING,
    MIB,
    MODEL,
    STREAMING,
    model,
    policy,
    pressure,
    pressures,
)
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from sluice.policies import core
from sluice.policies.structs import View, new

FAIR = model(capacity=1.0)
Z = st.sampled_from([0.0, 1.28])
sets = st.lists(pressures(), max_size=4)
EXACT = 5


def changed(base: View, **members: float) -> View:
    return pressure(**(base.to_dict() | members))


def weight_that_leaves(rate: float) -> float:
    """Weight of another writer alongside which a victim of weight 1 keeps this rate, when K = 1."""
    return 1 / rate - 1


# The figures of the design


def test_losing_89_percent_while_both_write_throughout_is_a_factor_of_9():
    other = pressure(weight=weight_that_leaves(0.11))
    assert core.io_factor(pressure(), [other], FAIR) == pytest.approx(1 / 0.11)


def test_equal_bursts_with_equal_periods_cost_less_than_twice():
    victim = pressure(burst=60, period=300, io_share=0.2)
    other = pressure(weight=weight_that_leaves(0.11), burst=60, period=300, io_share=0.2)
    assert core.io_factor(victim, [other], FAIR) == pytest.approx(1.89)
    drifting = changed(other, period=310)
    assert core.io_factor(victim, [drifting], FAIR) == pytest.approx(1.89)


def test_a_signal_on_for_a_fifth_of_the_time_in_short_bursts_costs_a_fifth():
    victim = pressure(burst=10_000, period=0)
    other = pressure(weight=weight_that_leaves(0.11), burst=0.2, period=1, io_share=0.2)
    expected = 1 / (1 - 0.2 * 0.89)
    assert core.io_factor(victim, [other], FAIR) == pytest.approx(expected, rel=1e-3)
    unknown_bursts = changed(other, burst=0, period=0)
    assert core.io_factor(victim, [unknown_bursts], FAIR) == pytest.approx(expected)


def test_the_slowdown_of_a_job_counts_its_io_share_alone():
    assert core.job_slowdown(pressure(io_share=0.25), 3.0) == pytest.approx(1.5)


def test_a_job_that_computes_while_it_writes_hides_what_fits():
    hidden = pressure(io_share=0.25, async_io=1)
    assert core.job_slowdown(hidden, 3.0) == 1.0
    assert core.job_slowdown(hidden, 6.0) == pytest.approx(1.5)


def test_confinement_counts_as_slowdown():
    assert core.job_slowdown(pressure(io_share=0.5, confined=0.5), 1.0) == pytest.approx(1.5)
    assert core.job_slowdown(pressure(io_share=0.5, confined=0.5), 2.0) == pytest.approx(2.5)


def test_what_the_others_leave_is_free():
    small = pressure(demand=0.3)
    other = pressure(demand=0.6, weight=100)
    assert core.rate_share(small, [other], FAIR) == 1.0
    assert core.rate_share(small, [other, other], FAIR) < 0.1


def test_a_hot_target_costs_more_the_more_others_press_up_to_what_the_job_does():
    victim = pressure(demand=0.5, hot=0.4)
    kept = [core.rate_share(victim, [pressure(demand=d)], FAIR) for d in (0.0, 0.25, 0.5)]
    assert kept == pytest.approx([1.0, 0.8, 0.6])
    assert core.rate_share(victim, [pressure(demand=0.5, hot=0.7)], FAIR) == kept[-1]


def test_a_reader_loses_more_on_a_hot_target_than_a_writer():
    lanes, law = policy(ONE_LANE), model(**core.default_interference())
    at = {"rate": 0.2 * GIB, "chunk_bytes": MIB}
    read, write = {"read": 1.0}, {"ws": 1.0}

    def hot(**numbers):
        return core.pressure_of(at | numbers, law, lanes).hot

    reads = hot(pattern="read", share=read, read_bytes=1e12, write_bytes=0.0)
    writes = hot(pattern="ws", share=write, read_bytes=0.0, write_bytes=1e12)
    assert reads == pytest.approx(law.hot_read_loss / 4)
    assert writes == pytest.approx(law.hot_write_loss / 4)
    assert hot(pattern="read", share=read, write_bytes=1e12) == reads  # by its pattern
    both = hot(pattern="ws", share=write, read_bytes=1e12, write_bytes=1e12)
    assert both == pytest.approx((reads + writes) / 2)
    assert hot(pattern="read", share=read, rate=None) == 0.0


def test_the_guaranteed_share_is_the_rate_without_its_bounds():
    """Of two that write all the time: above 1, and below what the other leaves over."""
    law = model(capacity=1.3, pooling=0.0)
    profiles = [STREAMING, {**FLUSHING, "nprocs": 1}]
    alone = [core.pressure_of(profile, law, policy()) for profile in profiles]
    writing = core.pressures(alone)
    members = np.array([0, 1, 1, 0, 0, 0, 1], np.uint32)
    strong, weak, three = np.exp(
        core.guaranteed_shares(law, writing, members, np.array([2, 2, 3], np.uint32))
    )
    assert core.rate_share(alone[0], [alone[1]], law) == 1.0 < strong
    assert core.rate_share(alone[1], [alone[0]], law) == pytest.approx(0.3)
    assert weak < 0.3
    assert strong + weak == pytest.approx(1.3)
    assert core.rate_share(alone[0], alone, law) == pytest.approx(three)


def test_streams_share_by_weight_but_alongside_a_flushing_writer_they_are_one():
    """At a large kappa; at 0 each presses with its weight."""
    stream = pressure(weight=2.0, streaming=1.0)
    flushing = pressure(weight=0.5)
    pooled, apart = (model(capacity=1.0, pooling=kappa) for kappa in (100.0, 0.0))
    for count in (1, 2, 8):
        streams = [stream] * count
        kept = 0.5 / (0.5 + 2 * count / (1 + 100 * 2 * count))
        assert core.rate_share(flushing, streams, pooled) == pytest.approx(kept)
        assert core.rate_share(flushing, streams, apart) == pytest.approx(0.5 / (0.5 + 2 * count))
        assert core.rate_share(stream, streams, pooled) == pytest.approx(1 / (1 + count))


def test_a_half_streaming_writer_counts_in_both_ways():
    mixed = pressure(weight=4.0, streaming=0.5)
    kappa = 0.7
    pool = 1 + kappa * 2.0
    kept = 1 / (1 + 2.0 + 2.0 / pool)
    assert core.rate_share(pressure(), [mixed], model(capacity=1.0, pooling=kappa)) == (
        pytest.approx(kept)
    )


def test_an_overloaded_metadata_server_stretches_everybody_alike():
    creates = pressure(demand=0, metadata=0.6)
    stats = pressure(demand=0, metadata=0.9)
    assert core.rate_share(creates, [stats], MODEL) == pytest.approx(1 / 1.5)
    assert core.rate_share(stats, [creates], MODEL) == pytest.approx(1 / 1.5)
    assert core.rate_share(pressure(), [stats], MODEL) == 1.0


# The mean over unknown offsets, against a simulation of every offset


def simulated_overlap(work: float, on: float, off: float, rho: float) -> float:
    """Walk through the other's cycle from many starts, and average."""
    met = took = 0.0
    starts = 4000
    for i in range(starts):
        phase = (i + 0.5) / starts * (on + off)
        left = work
        while left > 1e-12:
            is_on = phase < on
            span = (on if is_on else on + off) - phase
            rate = rho if is_on else 1.0
            step = min(span, left / rate)
            left -= step * rate
            met += step if is_on else 0.0
            took += step
            phase = (phase + step) % (on + off) if step == span else phase + step
            if step == span and is_on:
                phase = on
    return met / took


@settings(max_examples=60)
@given(
    work=st.floats(0.1, 300.0),
    on=st.floats(1.0, 50.0),
    off=st.floats(1.0, 50.0),
    rho=st.floats(0.05, 1.0),
)
def test_the_mean_overlap_equals_a_simulation_of_all_offsets(work, on, off, rho):
    victim = pressure(burst=work)
    other = pressure(burst=on, period=on + off, weight=weight_that_leaves(rho))
    expected = simulated_overlap(work, on, off, rho)
    assert core_calls.overlap(victim, other, FAIR) == pytest.approx(expected, abs=2e-3)


def test_short_bursts_are_the_limit_of_shorter_and_shorter_ones():
    other = pressure(burst=10, period=40, weight=3)
    unknown = core_calls.overlap(pressure(), other, FAIR)
    assert core_calls.overlap(pressure(burst=1e-6), other, FAIR) == pytest.approx(unknown, rel=1e-4)


# Laws


@settings(max_examples=300)
@given(pressures(), sets, Z)
def test_nobody_gets_faster_and_nobody_stops(victim, others, z):
    rho = core.rate_share(victim, others, MODEL, z)
    assert 0 < rho <= 1
    factor = core.io_factor(victim, others, MODEL, z)
    # on and off can be no worse than always on
    assert 1 <= factor <= 1 / rho * (1 + 1e-9)
    assert core.job_slowdown(victim, factor) >= 1


@settings(max_examples=300)
@given(pressures(), st.lists(pressures(), min_size=1, max_size=9), Z, st.data())
def test_co_runners_never_help(victim, others, z, data):
    some = others[: data.draw(st.integers(0, len(others) - 1))]
    assert core.io_factor(victim, others, MODEL, z) >= core.io_factor(victim, some, MODEL, z) * (
        1 - 1e-12
    )
    assert core.rate_share(victim, others, MODEL, z) <= core.rate_share(victim, some, MODEL, z)


@settings(max_examples=250)
@given(pressures(), st.lists(pressures(), max_size=9), Z, st.randoms())
def test_the_set_counts_and_not_its_order(victim, others, z, random):
    shuffled = random.sample(others, len(others))
    assert core.io_factor(victim, shuffled, MODEL, z) == core.io_factor(victim, others, MODEL, z)


@settings(max_examples=250)
@given(
    pressures(),
    st.lists(pressures(periodic=False), min_size=1, max_size=5),
    st.sampled_from(["weight", "demand", "metadata", "io_share"]),
    st.floats(1.0, 10.0),
    Z,
)
def test_a_job_that_presses_more_hurts_more(victim, others, member, more, z):
    """With the overlaps held: none of these has bursts."""
    first, *rest = others
    heavier = getattr(first, member) * more
    stronger = changed(first, **{member: heavier if member == "weight" else min(1.0, heavier)})
    assume(all(o.weight > 0 for o in others))
    before = core.io_factor(victim, [first, *rest], MODEL, z)
    after = core.io_factor(victim, [stronger, *rest], MODEL, z)
    assert after >= before * (1 - 1e-12)


@given(pressures(), sets, st.floats(0.0, 3.0), st.floats(0.0, 3.0))
def test_a_higher_quantile_never_promises_less(victim, others, a, b):
    steady = [changed(other, burst=0, period=0) for other in others]
    low, high = sorted((a, b))
    assert core.io_factor(victim, steady, MODEL, high) >= core.io_factor(
        victim, steady, MODEL, low
    ) * (1 - 1e-12)


def exact_factor(victim: View, others: list[View]) -> float:
    """All 2^n states, one by one."""
    overlaps = [core_calls.overlap(victim, other, MODEL) for other in others]
    mean = 0.0
    for state in itertools.product([False, True], repeat=len(others)):
        chance = math.prod(q if on else 1 - q for q, on in zip(overlaps, state, strict=True))
        active = [other for other, on in zip(others, state, strict=True) if on]
        mean += chance * core.rate_share(victim, active, MODEL)
    return 1 / mean


@given(pressures(), st.lists(pressures(), max_size=EXACT))
def test_few_others_are_enumerated_exactly(victim, others):
    expected = max(1.0, exact_factor(victim, others))
    assert core.io_factor(victim, others, MODEL) == pytest.approx(expected, rel=1e-9)


@settings(max_examples=30)
@given(pressures(), st.lists(pressures(), min_size=EXACT + 1, max_size=8))
def test_many_others_count_never_less_than_exactly(victim, others):
    assert core.io_factor(victim, others, MODEL) >= exact_factor(victim, others) * (1 - 1e-9)


# From profile to pressure


def of(profile: dict, conf: str = "", lane_mask: int = 0) -> View:
    return core.pressure_of(profile, MODEL, policy(conf), lane_mask)


TWO_LANES = "Lane=a Targets=3 Bandwidth=3G\nLane=b Targets=1 Bandwidth=1G\n"
GIB = 2**30
SLACK = math.e  # of rates alone, where a site measured


def test_the_weight_follows_the_formula_of_the_header():
    assert of(STREAMING).weight == pytest.approx(64**0.4 * math.exp(0.9), rel=1e-4)
    large = {**FLUSHING, "chunk_bytes": 16 * MIB, "bytes_per_flush": 16 * MIB}
    half_creating = {**large, "creates_per_mib": 0.5 / 16}
    expected = 0.5 * 0.3 + (0.5 * 0.0866 + 0.5 * 0.173) * math.log(16) + 0.4 * math.log(64)
    weight = core.pressure_of(half_creating, model(rewrite_level=0.3), policy()).weight
    assert weight == pytest.approx(math.exp(expected))


def test_a_mix_weighs_what_its_two_parts_do():
    half = {**STREAMING, "bytes_per_flush": 2.0 * MIB, "unflushed_bytes": 0.0}
    stream, rewriter = 64**0.4 * math.exp(0.9), 64**0.4
    assert of(half).weight == pytest.approx((stream + rewriter) / 2)
    assert of(half).streaming == pytest.approx(stream / (stream + rewriter))


HALF = {"create_exponent": 1.0, "create_overhead": 1.0}
"""A creating flush of 1 MiB gets half of the target's bandwidth."""
ONE_LANE = "Lane=a Targets=1 Bandwidth=1G\n"


def test_a_flushing_writer_weighs_the_time_that_its_rate_alone_says():
    """Half the rate, twice as long in the queue; but not far below what its kind could get."""
    queue, lanes = model(**HALF), policy(ONE_LANE)
    unknown, slow, fast = (
        core.pressure_of({**FLUSHING, **rate}, queue, lanes).weight
        for rate in ({}, {"rate": 0.1 * GIB}, {"rate": 0.8 * GIB})
    )
    base = of(FLUSHING).weight
    assert unknown == pytest.approx(base / 0.5)
    assert slow == pytest.approx(base / 0.5 * SLACK)
    assert fast == pytest.approx(base / 0.8)


def test_a_rate_like_that_of_its_kind_is_all_that_a_program_can_get():
    """So alongside others it leaves nothing over; a far lower one it could surpass."""
    measured, lanes = model(**HALF), policy(ONE_LANE)
    usual, less, little = (
        core.pressure_of({**FLUSHING, "rate": rate * GIB}, measured, lanes).demand
        for rate in (0.5, 0.35, 0.05)
    )
    assert usual == less == pytest.approx(1.0)
    assert little == pytest.approx(0.05 / (0.5 / SLACK))
    unmeasured = core.pressure_of({**FLUSHING, "rate": 0.35 * GIB}, MODEL, lanes)
    assert unmeasured.demand == pytest.approx(0.35)


@pytest.mark.parametrize(
    ("profile", "share"),
    [
        (FLUSHING, 1 / (1 + 1.5)),
        ({**FLUSHING, "creates_per_mib": 0.0}, 1 / (1 + 0.5)),
        ({**FLUSHING, "chunk_bytes": 4 * MIB, "creates_per_mib": 0.25}, 1 / (1 + 1.5 / 4)),
        (STREAMING, 1.0),
    ],
    ids=["creates", "rewrites", "larger chunks", "streams"],
)
def test_the_rate_alone_follows_from_what_a_flush_costs(profile, share):
    law = model(create_overhead=1.5, rewrite_overhead=0.5)
    kind = View(new("struct sluice_profile", profile))
    assert math.exp(core.log_efficiency(kind, law)) == pytest.approx(share, rel=1e-5)


def test_unmeasured_numbers_fall_back_to_what_the_pattern_stands_for():
    vague = {"chunk_bytes": MIB, "nprocs": 64, "io_share": 0.5}
    for measured, pattern in [(STREAMING, "aw"), (FLUSHING, "owc")]:
        by_name = of({**vague, "pattern": pattern, "share": {pattern: 1.0}})
        assert by_name.weight == pytest.approx(of(measured).weight, rel=1e-4)


def test_bypassing_the_cache_makes_a_streaming_writer_a_waiting_one():
    direct = of({**STREAMING, "direct_share": 1.0})
    assert direct.weight == pytest.approx(64**0.4, rel=1e-4)


def test_demand_is_the_rate_over_what_the_lanes_have():
    profile = {**STREAMING, "rate": 2.0 * GIB}
    assert of(profile, TWO_LANES).demand == pytest.approx(0.5)
    assert of(profile, TWO_LANES, 0b01).demand == pytest.approx(2 / 3)
    assert of(profile, TWO_LANES, 0b10).demand == 1.0
    assert of(profile).demand == 1.0
    assert of(STREAMING, TWO_LANES).demand == 1.0


def test_confinement_is_what_the_lanes_leave_of_the_rate():
    profile = {**STREAMING, "rate": 2.0 * GIB}
    assert of(profile, TWO_LANES).confined == 1.0
    assert of(profile, TWO_LANES, 0b11).confined == 1.0
    assert of(profile, TWO_LANES, 0b01).confined == 1.0
    assert of(profile, TWO_LANES, 0b10).confined == pytest.approx(0.5)
    unknown_rate = of(STREAMING, TWO_LANES, 0b10)
    assert unknown_rate.confined == pytest.approx(0.25)
    assert of({**STREAMING, "targets": 1}, TWO_LANES, 0b10).confined == 1.0


@given(st.floats(0.01, 0.99), st.floats(1.0, 100.0), st.floats(0.0, 600.0))
def test_a_rate_above_that_of_all_lanes_is_a_caches_and_takes_longer(share, times, burst):
    profile = {**STREAMING, "io_share": share, "burst_seconds": burst, "period_seconds": 1000.0}
    measured = of({**profile, "rate": 4.0 * GIB}, TWO_LANES)
    assert (measured.demand, measured.burst, measured.period) == (1.0, burst, 1000.0)
    assert measured.io_share == pytest.approx(share)

    cached = of({**profile, "rate": 4.0 * GIB * times}, TWO_LANES)
    assert cached.demand == 1.0
    assert cached.confined == 1.0
    # the computing takes as long as before, the I/O as much longer as it was too fast
    assert cached.io_share / (1 - cached.io_share) == pytest.approx(times * share / (1 - share))
    assert cached.burst == pytest.approx(times * burst)
    assert cached.period - cached.burst == pytest.approx(1000.0 - burst)
    assert of({**profile, "rate": 4.0 * GIB * times}, TWO_LANES, 0b10).confined == 0.25


def test_metadata_come_from_their_rate_or_else_from_the_files_made():
    assert of({**FLUSHING, "metadata_rate": 5000.0}).metadata == pytest.approx(0.25)
    assert of({**FLUSHING, "rate": 1000.0 * MIB}).metadata == pytest.approx(0.05)
    assert of({"pattern": "metadata", "share": {"metadata": 1.0}}).metadata == 1.0
    assert of({"pattern": "metadata", "share": {"metadata": 1.0}}).demand == 0.0


def test_what_profile_and_model_leave_unexplained_adds_up():
    uncertain = core.pressure_of({**STREAMING, "log_sd": 0.4}, model(log_sd=0.3), policy())
    assert uncertain.log_sd == pytest.approx(0.5)


READING = {
    "pattern": "read",
    "share": {"read": 1.0},
    "chunk_bytes": None,
    "write_bytes": 0.0,
    "read_bytes": 1e12,
    "read_chunk_bytes": 4.0 * MIB,
}


def test_a_reader_weighs_as_a_program_that_waits_for_each_chunk():
    reader = of({**STREAMING, **READING})
    rewriter = {"pattern": "ws", "share": {"ws": 1.0}, "chunk_bytes": 4.0 * MIB}
    waiting = of({**STREAMING, **rewriter, "bytes_per_flush": 4.0 * MIB, "unflushed_bytes": 0.0})
    assert reader.streaming == 0.0
    assert reader.weight == pytest.approx(waiting.weight)


def test_what_caches_serve_is_no_load():
    def demand(**numbers):
        return of({**STREAMING, "rate": 0.4 * GIB, **numbers}, ONE_LANE).demand

    whole = demand(**READING)
    assert demand(**READING, read_cached_share=0.75) == pytest.approx(whole / 4)
    assert demand(**READING, read_cached_share=1.0) == 0.0
    half = {"read_bytes": STREAMING["write_bytes"], "read_cached_share": 1.0}
    assert demand(**half) == pytest.approx(whole / 2)
    assert of({**STREAMING, **READING, "read_cached_share": 1.0}).demand == 0.0


@pytest.mark.parametrize(
    ("changes", "klass"),
    [
        ({}, "stream"),
        ({"bytes_per_flush": MIB, "unflushed_bytes": 0.0}, "flush"),
        ({"direct_share": 0.9}, "flush"),
        (
            {"chunk_bytes": 0.25 * MIB, "bytes_per_flush": 2 * MIB, "unflushed_bytes": 2 * MIB},
            "flush",
        ),
        ({"chunk_bytes": 4096.0, "bytes_per_flush": 0.25 * MIB, "unflushed_bytes": 1e5}, "flush"),
        ({"chunk_bytes": MIB, "bytes_per_flush": 64 * MIB, "unflushed_bytes": 64 * MIB}, "stream"),
        ({"pattern": "none"}, "none"),
        ({"pattern": "unknown"}, "none"),
        ({"pattern": "read"}, "flush"),
        ({"read_bytes": 2e12}, "flush"),
        ({"read_bytes": 2e12, "read_cached_share": 1.0}, "stream"),
        ({**READING, "read_bytes": 1e6}, "none"),
        ({**READING, "read_cached_share": 1.0}, "none"),
        ({"pattern": "metadata"}, "meta"),
        ({"io_share": 0.01}, "none"),
        ({"io_share": None}, "stream"),
        ({"write_bytes": 1e6}, "none"),
        ({"write_bytes": 1e6, "metadata_rate": 10_000.0}, "meta"),
    ],
)
def test_the_class_follows_from_the_numbers(changes, klass):
    assert core.class_of({**STREAMING, **changes}, policy()) == klass


@pytest.mark.parametrize("quantile", [0.5, 0.6, 0.9, 0.99, 0.999])
def test_the_normal_quantile_inverts_the_distribution(quantile):
    z = core.normal_quantile(quantile)
    assert 0.5 * math.erfc(-z / math.sqrt(2)) == pytest.approx(quantile, abs=1e-15)


def test_extreme_numbers_stay_finite():
    most = {field.name: 1e30 for field in core.PROFILE_FIELDS if field.unit[0] != "0"}
    pressed = of({**STREAMING, **most, "log_sd": 1e30, "period_seconds": 2e30}, TWO_LANES)
    factor = core.io_factor(pressure(), [pressed] * 64, MODEL, 3.0)
    assert np.isfinite(factor)
    assert np.isfinite(core.io_factor(pressed, [pressed] * 64, MODEL, 3.0))
