"""The discrete-event storage model keeps the laws of a closed queueing network."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.sim.engine import StorageModelError
from sluice.sim.storage.discrete_event import PROGRAM_FIELDS, STORAGE_FIELDS, simulate

KIB, MIB = 1024, 1 << 20
DISK = {"target_bandwidth": 100e6}

storages = st.fixed_dictionaries(
    {
        "servers": st.integers(1, 3).map(float),
        "targets": st.integers(3, 6).map(float),
        "node_bandwidth": st.sampled_from([50e6, 1e9]),
        "server_bandwidth": st.sampled_from([200e6, 2e9]),
        "target_bandwidth": st.sampled_from([50e6, 300e6]),
        "seek_seconds": st.sampled_from([0.0, 0.004]),
        "commit_seconds": st.sampled_from([0.0, 0.002]),
        "create_seconds": st.sampled_from([0.0, 0.001]),
        "setup_seconds": st.sampled_from([0.0, 0.003]),
        "cache_bytes": st.sampled_from([0.0, 16.0 * MIB]),
        "flow_limit": st.sampled_from([0.0, 4.0]),
        "process_window": st.sampled_from([0.0, 3.0]),
        "stall_seconds": st.sampled_from([0.0, 0.01]),
        "create_contention": st.sampled_from([0.0, 0.01]),
    }
)
programs = st.fixed_dictionaries(
    {
        "processes": st.integers(1, 8),
        "nodes": st.integers(1, 3),
        "operation_bytes": st.sampled_from([4 * KIB, MIB, 5 * MIB]),
        "operations": st.integers(1, 6),
        "bursts": st.integers(1, 2),
        "stripe_bytes": st.sampled_from([64 * KIB, MIB]),
        "stripe_targets": st.sampled_from([1, 2, 6]),
        "sync": st.sampled_from(["behind", "ack", "flush"]),
        "creates": st.integers(0, 1),
        "rewrites": st.integers(0, 1),
        "interleaved": st.integers(0, 1),
    }
)


def volume(program):
    counts = ("processes", "bursts", "operations", "operation_bytes")
    return math.prod(program[name] for name in counts)


@given(storage=storages, jobs=st.lists(programs, min_size=1, max_size=3))
def test_every_byte_arrives_and_every_program_ends(storage, jobs):
    """No request is lost, whichever mechanisms are on."""
    for job, outcome in zip(jobs, simulate(storage, jobs), strict=True):
        assert outcome.bytes == pytest.approx(volume(job))
        assert math.isfinite(outcome.end)


@given(storage=storages, jobs=st.lists(programs, min_size=1, max_size=3))
def test_equal_calls_give_equal_bits(storage, jobs):
    """Events at one time keep their order."""
    assert simulate(storage, jobs, seed=3) == simulate(storage, jobs, seed=3)


@given(storage=storages, jobs=st.lists(programs, min_size=1, max_size=3))
def test_nothing_is_faster_than_the_links_and_targets(storage, jobs):
    """A lower bound of the time, from the bytes alone."""
    outcomes = simulate({**storage, "cache_bytes": 0.0}, jobs)
    total = sum(map(volume, jobs))
    last = max(outcome.end for outcome in outcomes)
    bound = max(
        total / (storage["targets"] * storage["target_bandwidth"]),
        total / (storage["servers"] * storage["server_bandwidth"]),
    )
    assert last >= bound * (1 - 1e-9)


@given(processes=st.integers(1, 12), units=st.integers(1, 30))
def test_one_target_with_a_full_queue_is_never_idle(processes, units):
    """Work conservation: the time of the whole is its bytes over the bandwidth."""
    program = {"processes": processes, "operation_bytes": units * MIB, "sync": "behind"}
    (outcome,) = simulate(DISK, [program])
    assert outcome.end == pytest.approx(processes * units * MIB / 100e6)


@given(count=st.integers(2, 5), processes=st.integers(1, 6))
def test_symmetric_programs_share_equally(count, processes):
    """Equal programs lose equally, up to the last request."""
    program = {"processes": processes, "operation_bytes": MIB, "operations": 40, "sync": "flush"}
    ends = [outcome.end for outcome in simulate(DISK, [program] * count)]
    alone = simulate(DISK, [program])[0].end
    assert max(ends) == pytest.approx(count * alone, rel=1e-6)
    assert min(ends) > max(ends) * (1 - 1.5 / 40)


@settings(max_examples=40)
@given(job=programs, storage=storages, factor=st.floats(1.0, 8.0))
def test_a_program_alone_is_not_slower_on_a_faster_target(job, storage, factor):
    """Monotone in capacity for one process (queues of many may reorder)."""
    one = {**job, "processes": 1, "nodes": 1}
    faster = {**storage, "target_bandwidth": storage["target_bandwidth"] * factor}
    before, after = (simulate(s, [one])[0].end for s in (storage, faster))
    assert after <= before * (1 + 1e-9)


def test_an_operation_ends_with_its_slowest_target():
    """Fork-join (Yildiz Y6): one busy server holds up a striped write."""
    storage = {**DISK, "servers": 4, "targets": 4}
    striped = {"operation_bytes": 4 * MIB, "stripe_bytes": MIB, "stripe_targets": 4}
    busy = {"operation_bytes": 64 * MIB, "target_count": 1, "sync": "behind", "noise": 1}
    alone = simulate(storage, [striped])[0].end
    assert alone == pytest.approx(MIB / 100e6)
    assert simulate(storage, [busy, striped])[1].end > 2 * alone


def test_an_operation_waits_for_the_longest_of_its_connections_stalls():
    """Yildiz Y6: fewer servers a request are a shorter wait, though the bytes are the same."""
    storage = {"targets": 8, "servers": 8, "target_bandwidth": 1e12, "stall_seconds": 0.04}
    program = {"operation_bytes": 8 * 64 * KIB, "operations": 200, "stripe_targets": 8}
    one, eight = (
        simulate(storage, [{**program, "stripe_bytes": stripe * 64 * KIB}])[0].end / 200
        for stripe in (8, 1)
    )
    assert one == pytest.approx(0.04 / 2, rel=0.1)
    assert eight == pytest.approx(0.04 * 8 / 9, rel=0.05)


def test_an_operation_is_striped_by_whole_stripes():
    """Of five stripes on three targets the first two have two each."""
    storage = {**DISK, "targets": 3}
    program = {"operation_bytes": 4.5 * MIB, "stripe_bytes": MIB, "stripe_targets": 3}
    outcome = simulate(storage, [program])[0]
    assert outcome.bytes == 4.5 * MIB
    assert outcome.largest_target == 2 * MIB
    assert outcome.smallest_target == MIB


@given(stripe=st.floats(1e3, 1e6), stripes=st.integers(1, 40), rest=st.floats(0, 1))
def test_an_operation_ends_whatever_its_stripes_are(stripe, stripes, rest):
    """Sizes that no double divides evenly leave no target with nothing to wait for."""
    size = stripes * stripe + rest
    program = {"operation_bytes": size, "stripe_bytes": stripe, "stripe_targets": 7}
    (outcome,) = simulate({**DISK, "targets": 7}, [program])
    assert math.isfinite(outcome.end)
    assert outcome.bytes == pytest.approx(size)


def test_creates_of_many_programs_take_longer():
    """Two programs of creators get less than one alone in all (Shah S7)."""
    creator = {"processes": 64, "operations": 50, "operation_bytes": 1, "creates": 1, "sync": "ack"}
    storage = {"targets": 64, "create_seconds": 1e-4, "create_contention": 0.001}
    alone = simulate(storage, [creator])[0].rate
    both = sum(outcome.rate for outcome in simulate(storage, [creator] * 2))
    assert both == pytest.approx(alone * (1 + 0.064) / (1 + 0.128), rel=0.01)


def test_two_streams_on_a_disk_take_longer_than_one_after_the_other():
    """Yildiz Y1: seeks between streams; memory has none."""
    disk = {**DISK, "seek_seconds": 0.005, "slice_bytes": MIB}
    program = {"operation_bytes": 64 * MIB, "sync": "behind"}
    for storage, more in ((disk, 1.3), (DISK, 1.0)):
        alone = simulate(storage, [program])[0].end
        together = max(outcome.end for outcome in simulate(storage, [program] * 2))
        assert together >= 2 * more * alone * (1 - 1e-9)


def test_one_commit_serves_all_that_wait_for_it():
    """Group commit: with the limit of one flow each pays for its own."""
    program = {"processes": 16, "operation_bytes": KIB, "operations": 10, "sync": "flush"}
    ends = {
        group: simulate({**DISK, "commit_seconds": 0.01, "commit_group": group}, [program])[0].end
        for group in (1, 1e9)
    }
    assert ends[1] == pytest.approx(16 * 10 * 0.01, rel=0.05)
    assert ends[1e9] < ends[1] / 4


def test_a_cache_absorbs_until_it_is_full():
    """Write-back: memory's speed up to its size, the device's after that."""
    storage = {**DISK, "cache_bytes": 64 * MIB, "cache_bandwidth": 1e9}
    program = {"operation_bytes": MIB, "sync": "ack"}
    small = simulate(storage, [{**program, "operations": 32}])[0]
    large = simulate(storage, [{**program, "operations": 1024}])[0]
    assert small.rate == pytest.approx(1e9, rel=0.05)
    assert large.rate == pytest.approx(100e6, rel=0.1)


def test_a_full_cache_that_drains_in_order_holds_up_writes_to_quiet_targets():
    """Without a window they go through; with one they wait behind what the slow target has."""
    storage = {"servers": 1, "targets": 2, "target_bandwidth": 100e6, "cache_bytes": 4e6}
    quiet = {"processes": 8, "operations": 50, "first_target": 1, "target_count": 1}
    busy = {"processes": 8, "operations": 50, "target_count": 1}
    noise = {**busy, "operations": 1e6, "sync": "flush", "noise": 1}
    free, ordered = (
        simulate({**storage, "drain_window": window}, [quiet, busy, noise]) for window in (0, 2)
    )
    assert ordered[0].seconds > 1.3 * free[0].seconds
    assert ordered[0].bytes == free[0].bytes


def test_flows_above_the_limit_are_refused_only_where_sources_outrun_the_port():
    """Incast (Yildiz Y8), and how slow links prevent it (Y4)."""
    storage = {**DISK, "flow_limit": 4, "server_bandwidth": 1e9}
    program = {"processes": 8, "nodes": 8, "operation_bytes": MIB, "sync": "flush"}
    refused = {
        link: simulate({**storage, "node_bandwidth": link}, [program])[0].collapses
        for link in (1e9, 100e6)
    }
    assert refused[1e9] > 0
    assert refused[100e6] == 0


def test_rerouting_takes_from_the_busy_and_the_throttle_limits_it():
    """Huang H2: an idle target takes over; with a throttle of 0 nothing moves."""
    storage = {**DISK, "targets": 4, "servers": 4}
    program = {"processes": 64, "operation_bytes": MIB, "sync": "flush"}
    noise = {"processes": 8, "operations": 1000, "target_count": 1, "sync": "flush", "noise": 1}
    ends = {}
    for throttle in (0.0, 0.1, 5.0):
        rerouted = {**program, "dispatch": "reroute", "throttle": throttle}
        outcome = simulate(storage, [rerouted, noise])[0]
        ends[throttle] = outcome.end
        assert outcome.bytes == 64 * MIB
        if throttle == 0:
            assert outcome.largest_target == outcome.smallest_target == 16 * MIB
    assert ends[5.0] < ends[0.1] < ends[0.0]


def test_the_simulation_stops_when_the_first_has_written_its_share():
    """Shah S8: both are counted until then."""
    small, large = ({"operations": n, "sync": "flush"} for n in (10, 100))
    outcomes = simulate(DISK, [small, large], stop_share=0.9)
    assert outcomes[0].bytes == 9 * MIB
    assert outcomes[0].share_time == outcomes[0].stopped == outcomes[1].stopped
    assert outcomes[1].end == math.inf


def test_bursts_begin_by_their_period():
    """A periodic signal pauses between its bursts (Shah S5)."""
    program = {"operations": 10, "bursts": 3, "period": 10.0, "sync": "ack"}
    assert simulate(DISK, [program])[0].end == pytest.approx(20 + 10 * MIB / 100e6)


@pytest.mark.parametrize("field", STORAGE_FIELDS + PROGRAM_FIELDS, ids=lambda field: field.name)
def test_every_number_says_its_unit_meaning_and_limits(field):
    """The documentation's table is made from these."""
    assert field.unit
    assert field.text
    assert field.low <= field.value <= field.high


@pytest.mark.parametrize(
    ("storage", "program", "says"),
    [
        ({"targets": 0}, {}, "storage targets is 0"),
        ({"servers": 2}, {}, "1 targets on 2 servers"),
        ({"bandwidth": 1}, {}, "there is no bandwidth"),
        ({}, {"processes": 0}, "program processes is 0"),
        ({}, {"sync": "sometimes"}, "behind or ack or flush"),
        ({}, {"operations": "many"}, "operations is 'many'"),
        ({}, {"creates": -1}, "creates is -1"),
        ({}, {"target_count": 2}, "uses targets 0 to 1 of 1"),
        ({"targets": 2}, {"dispatch": "turns", "stripe_targets": 2}, "one target each"),
        ({"targets": 1e5}, {"processes": 1e6, "stripe_bytes": 1, "stripe_targets": 1e5}, "memory"),
    ],
)
def test_an_impossible_scenario_is_refused_by_name(storage, program, says):
    """The text says which number is wrong and what to give."""
    with pytest.raises(StorageModelError, match=says):
        simulate(storage, [program])
