"""Placement of jobs on blocks of targets, against brute force (policies/core/placement.h)."""

from __future__ import annotations

from collections import Counter

import pytest
from core_cases import (
    FLUSHING,
    NOW,
    STREAMING,
    TINY,
    application,
    bundle,
    corunner,
    snapshot,
    submission,
)
from hypothesis import given
from hypothesis import strategies as st

from sluice.policies import core
from sluice.policies._core import ffi, lib
from sluice.policies.record import Situation, decide, replay_place

MOST = lib.SLUICE_MAX_TARGETS


def placement(targets):
    found = ffi.new("struct sluice_placement *")
    lib.sluice_placement_init(found, targets)
    return found


def placed(duty, nodes, first=0, count=0):
    return ffi.new("struct sluice_placed *", (duty, nodes, (first, count)))


def choose(on, count, duty=0.1, nodes=4.0, turn=0):
    """The choice, or None where there is none."""
    out = ffi.new("struct sluice_placement_choice *")
    return out if lib.sluice_placement_choose(on, count, duty, nodes, turn, out) == 0 else None


def first_and_count(choice):
    return choice.block.first, choice.block.count


def reached(job, targets):
    _duty, _nodes, first, count = job
    return range(first, first + count) if count else range(targets)


def cost(jobs, block, duty, nodes, targets):
    """What a job costs on the block: over the jobs that share a target with it."""
    mine = set(block)
    return sum(
        d * duty * (n + nodes) for d, n, f, c in jobs if mine & set(reached((d, n, f, c), targets))
    )


def blocks_of(targets, count):
    return [range(first, first + count) for first in range(0, targets - count + 1, count)]


@st.composite
def situations(draw):
    targets = draw(st.integers(1, 40) | st.sampled_from([64, 100, MOST]))
    sizes = [2**i for i in range(10) if 2**i <= targets]

    def job():
        count = draw(st.sampled_from([0, *sizes]))
        first = draw(st.sampled_from(range(0, targets - count + 1, count))) if count else 0
        duty = draw(st.floats(0, 1))
        return duty, draw(st.sampled_from([0.0, 1.0, 3.0, 16.0, 1000.0])), first, count

    jobs = [job() for _ in range(draw(st.integers(0, 12)))]
    closed = draw(st.sets(st.integers(0, targets - 1), max_size=4))
    return targets, jobs, draw(st.sampled_from(sizes)), closed


@given(situations(), st.floats(0, 1), st.floats(0, 100), st.integers(0, 2**32 - 1))
def test_the_least_costly_open_block_is_chosen(situation, duty, nodes, turn):
    targets, jobs, count, closed = situation
    on = placement(targets)
    for job in jobs:
        lib.sluice_placement_add(on, placed(*job))
    for target in closed:
        lib.sluice_placement_close(on, target, 1)
    costs = [
        cost(jobs, block, duty, nodes, targets)
        for block in blocks_of(targets, count)
        if not closed & set(block)
    ]
    choice = choose(on, count, duty, nodes, turn)
    if not costs:
        assert choice is None
        return
    near = {"rel": 1e-6, "abs": 1e-5}
    assert choice.considered == len(costs)
    assert choice.cost == pytest.approx(min(costs), **near)
    assert choice.mean_cost == pytest.approx(sum(costs) / len(costs), **near)
    chosen = range(choice.block.first, choice.block.first + choice.block.count)
    assert chosen in blocks_of(targets, count)
    assert not closed & set(chosen)
    assert cost(jobs, chosen, duty, nodes, targets) == pytest.approx(choice.cost, **near)
    if len(costs) > 1:
        assert choice.next_cost == pytest.approx(sorted(costs)[1], **near)
    else:
        assert choice.next_cost == -1.0


@given(situations(), st.randoms(use_true_random=False))
def test_jobs_leave_nothing_behind_in_whatever_order_they_come_and_go(situation, drawn):
    targets, jobs, _count, closed = situation
    on, other = placement(targets), placement(targets)
    for job in jobs:
        lib.sluice_placement_add(on, placed(*job))
    shuffled = drawn.sample(jobs, len(jobs))
    for job in shuffled:
        lib.sluice_placement_add(other, placed(*job))
    assert bytes(ffi.buffer(on)) == bytes(ffi.buffer(other))
    for target in closed:
        lib.sluice_placement_close(on, target, 1)
        lib.sluice_placement_fill(on, target, 0.95, 1.0)
    for job in shuffled:
        lib.sluice_placement_remove(on, placed(*job))
    for target in closed:
        lib.sluice_placement_close(on, target, 0)
        lib.sluice_placement_fill(on, target, 0.0, 1.0)
    empty = placement(targets)
    assert [*on.duty] == [*empty.duty]
    assert [*on.waiting] == [*empty.waiting]
    assert bytes(ffi.buffer(on.closed)) == bytes(ffi.buffer(empty.closed))
    assert [*on.filled] == [*empty.filled]


@pytest.mark.parametrize("targets", [16, 100, MOST])
def test_equal_blocks_are_taken_in_turn(targets):
    on = placement(targets)
    counted = Counter(choose(on, 4, turn=turn).block.first for turn in range(10 * (targets // 4)))
    assert set(counted.values()) == {10}
    assert len(counted) == targets // 4
    lib.sluice_placement_add(on, placed(0.1, 1.0, 4, 4))
    lib.sluice_placement_add(on, placed(0.1, 1.0, 0, 4))
    others = targets // 4 - 2
    counted = Counter(choose(on, 4, turn=turn).block.first for turn in range(10 * others))
    assert set(counted.values()) == {10}


def test_a_slow_target_is_avoided_as_far_as_it_is_slow():
    on = placement(8)
    lib.sluice_placement_add(on, placed(0.3, 0.0, 0, 1))  # a third of its rate is missing
    lib.sluice_placement_add(on, placed(0.5, 0.0, 4, 4))
    choice = choose(on, 4, duty=0.5, nodes=10.0)
    assert first_and_count(choice) == (0, 4)
    assert choice.cost == pytest.approx(0.5 * 10 * 0.3)


def test_a_full_target_closes_and_opens_again():
    on = placement(4)
    for target in (0, 1):
        lib.sluice_placement_fill(on, target, 91.0, 100.0)
        lib.sluice_placement_fill(on, target + 2, 80.0, 100.0)
    assert {choose(on, 1, turn=turn).block.first for turn in range(8)} == {2, 3}
    assert choose(on, 4) is None
    lib.sluice_placement_fill(on, 0, 89.0, 100.0)
    assert {choose(on, 1, turn=turn).block.first for turn in range(8)} == {0, 2, 3}
    lib.sluice_placement_close(on, 0, 1)  # by hand, whatever it holds
    lib.sluice_placement_fill(on, 0, 10.0, 100.0)
    assert {choose(on, 1, turn=turn).block.first for turn in range(8)} == {2, 3}


def test_fuller_blocks_are_taken_only_where_there_are_no_others():
    on = placement(4)
    lib.sluice_placement_add(on, placed(0.5, 4.0, 1, 1))
    for target, used in enumerate((130.0, 100.0, 130.0, 40.0)):
        lib.sluice_placement_fill(on, target, used, 0.0)  # more than 1.2 times the mean of 100
    assert {choose(on, 1, turn=turn).block.first for turn in range(8)} == {3}
    lib.sluice_placement_close(on, 3, 1)
    assert choose(on, 1).block.first == 1  # it costs, yet the others are too full
    lib.sluice_placement_close(on, 1, 1)
    assert {choose(on, 1, turn=turn).block.first for turn in range(8)} == {0, 2}


@pytest.mark.parametrize(
    ("targets", "rate", "spread_of_rate", "spread_of_targets", "needed"),
    [
        (4.0, 3e8, 0.1, 0.1, 4),  # those of earlier runs
        (3.0, 1e8, 0.1, 0.1, 4),  # up to a power of two
        (2.0, 7e8, 0.1, 0.1, 8),  # its rate alone needs more
        (2.0, 7e8, 0.9, 0.1, 16),  # and nobody knows how many more
        (4.0, 3e8, 0.9, 0.1, 4),  # where the rate asks for fewer, its spread does not matter
        (4.0, 3e8, 0.1, 0.9, 8),  # runs that differ
        (-1.0, 3e8, 0.1, -1.0, 8),  # targets were never seen: as many as its rate, doubled
        (4.0, -1.0, -1.0, 0.1, 4),
        (-1.0, -1.0, -1.0, -1.0, 0),  # unknown
        (17.0, 1e8, 0.1, 0.1, 0),  # half of all: only one other block
        (32.0, 1e8, 0.1, 0.1, 0),  # all
        (1e30, 1e30, 0.1, 0.1, 0),
    ],
)
def test_a_job_needs_the_targets_that_it_had_and_those_that_its_rate_fills(
    targets, rate, spread_of_rate, spread_of_targets, needed
):
    profile = ffi.new("struct sluice_profile *")
    lib.sluice_profile_init(profile)
    names = []
    while (name := lib.sluice_profile_field_name(len(names))) != ffi.NULL:
        names.append(ffi.string(name).decode())
    profile.targets, profile.rate = targets, rate
    profile.spread[names.index("rate")] = spread_of_rate
    profile.spread[names.index("targets")] = spread_of_targets
    assert lib.sluice_placement_need(profile, 1e8, 32) == needed


@given(situations(), st.data())
def test_new_files_go_where_the_fewest_write(situation, data):
    targets, _jobs, count, closed = situation
    on = placement(targets)
    for target in closed:
        lib.sluice_placement_close(on, target, 1)
    writers = data.draw(st.lists(st.integers(0, 3), min_size=targets, max_size=targets))
    turn = data.draw(st.integers(0, 2**32 - 1))
    out = ffi.new("uint16_t[]", targets)
    found = list(out[0 : lib.sluice_placement_at_create(on, writers, count, turn, out)])
    is_open = [target for target in range(targets) if target not in closed]
    assert found == sorted(set(found))
    assert set(found) <= set(is_open)
    assert sorted(writers[t] for t in found) == sorted(writers[t] for t in is_open)[:count]


def test_new_files_go_to_equal_targets_in_turn():
    on = placement(6)
    out = ffi.new("uint16_t[]", 6)
    counted = Counter()
    for turn in range(50):
        assert lib.sluice_placement_at_create(on, [0, 0, 2, 0, 0, 0], 2, turn, out) == 2
        counted.update(out[0:2])
    assert counted == dict.fromkeys((0, 1, 3, 4, 5), 20)


def test_new_files_go_to_emptier_ones_of_equal_targets():
    on = placement(4)
    for target, used in enumerate((10.0, 4.0, 4.0, 2.0)):
        lib.sluice_placement_fill(on, target, used, 0.0)
    out = ffi.new("uint16_t[]", 4)
    assert lib.sluice_placement_at_create(on, [0, 0, 0, 1], 2, 0, out) == 2
    assert list(out[0:2]) == [1, 2]


# Decisions

LANE = "Lane=a Targets=16 Bandwidth=16G Place=blocks\n"
GIB = float(1 << 30)
WIDE = {**STREAMING, "targets": 4.0, "rate": 2 * GIB, "spread": {"rate": 0.1, "targets": 0.1}}
OWN_DIRECTORY = {"flags": ["io_dir"]}


def placed_alongside(
    *others, conf=LANE, profile=WIDE, waiting=(), mode="observe", turn=0, **members
):
    """The record of a job alongside these, and its situation and configuration."""
    config = core.parse_config("sluice.conf", f"Mode={mode}\n{conf}".encode())
    made_ready = Situation(
        bundle(application(profile), conf=conf), snapshot(*others, placed=waiting)
    )
    made = decide(made_ready, config, submission(**members), NOW, totals=[10**6] * 2, turn=turn)
    assert replay_place(made, made_ready, config) == made.place.bytes
    return made


def on_block(job_id, first, count, lane_mask=1):
    return corunner(job_id, WIDE, lane_mask=lane_mask, block={"first": first, "count": count})


def block_of(record):
    return record.place.job.block.first, record.place.job.block.count


def test_a_job_goes_where_no_other_is():
    others = [on_block(i, 4 * i, 4) for i in (0, 1, 3)]
    made = placed_alongside(*others)
    assert block_of(made) == (8, 4)
    assert (made.place.need, made.place.choice.considered) == (4, 4)
    assert made.place.choice.cost == 0.0
    assert made.place.choice.mean_cost > 0.0


def test_jobs_that_wait_count_with_those_that_run():
    waiting = {"lane": 0, "block": {"first": 8, "count": 4}, "duty": 0.01, "nodes": 1.0}
    others = [on_block(i, 4 * i, 4) for i in (0, 1, 3)]
    made = placed_alongside(*others, waiting=[waiting])
    assert block_of(made) == (8, 4)  # still the least
    assert made.place.choice.cost == pytest.approx(0.5 * 0.01 * (1 + 4))
    others = [on_block(i, 4 * i, 4) for i in (0, 1)]
    assert block_of(placed_alongside(*others, waiting=[waiting])) == (12, 4)


def test_jobs_without_a_block_count_everywhere():
    """And so change no choice: those with tokens of all lanes, and those without any."""
    others = [on_block(i, 4 * i, 4) for i in (0, 1, 3)]
    for anywhere in (corunner(9, WIDE), corunner(9, WIDE, lane_mask=1)):
        made = placed_alongside(*others, anywhere)
        assert block_of(made) == (8, 4)
        assert made.place.choice.cost == pytest.approx(0.5 * 0.5 * (8 + 4))


@pytest.mark.parametrize(
    "job",
    [
        {"conf": LANE.replace(" Place=blocks", "")},
        {"conf": LANE + "Lane=b Targets=16 Bandwidth=16G Place=blocks\n"},  # shares both lanes
        {"conf": ""},
        {"mode": "enforce"},  # it may write anywhere
        {"profile": TINY},
        {"profile": {**WIDE, "confidence": 0.1}},
    ],
)
def test_other_jobs_are_not_placed(job):
    made = placed_alongside(on_block(1, 0, 4), **job)
    assert made.place.bytes == bytes(len(made.place.bytes))


@pytest.mark.parametrize(
    "job",
    [
        {"profile": {**WIDE, "targets": None, "rate": None}},
        {"profile": {**WIDE, "targets": 9.0}},  # more than half of all
        {"flags": ["array"]},  # its tasks would collide with each other
    ],
)
def test_jobs_whose_need_is_not_known_get_the_lane_as_a_whole(job):
    made = placed_alongside(on_block(1, 0, 4), **job)
    assert (made.place.is_asked, made.place.need, block_of(made)) == (1, 0, (0, 0))


def test_in_enforce_a_controlled_job_is_placed():
    made = placed_alongside(mode="enforce", **OWN_DIRECTORY)
    assert made.grant.outcome == "taken"
    assert made.place.job.block.count == 4


def test_a_lane_of_its_own_has_blocks_too():
    conf = "Lane=b Targets=16\nLane=a Targets=16 Place=blocks\nMaxDelay=0\n"
    busy = {**STREAMING, "io_share": 0.9, "nprocs": 1024}
    fragile = {**FLUSHING, "io_share": 0.9, "targets": 4, "runtime_seconds": 36000.0}
    made = placed_alongside(
        corunner(1, busy, lane_mask=1, expected_end=NOW + 36000), conf=conf, profile=fragile
    )
    assert made.decision.action == "disjoint"
    assert (made.place.job.lane, made.place.job.block.count) == (1, 4)


def test_idle_blocks_are_taken_in_turn():
    firsts = [block_of(placed_alongside(turn=turn))[0] for turn in range(5)]
    assert firsts == [0, 4, 8, 12, 0]


@pytest.mark.parametrize(
    "bad",
    [
        {"block": {"first": 2, "count": 4}},
        {"block": {"first": 0, "count": 3}},
        {"block": {"first": 0, "count": 0}},
        {"block": {"first": 512, "count": 1}},
        {"lane": 16},
        {"duty": 1.5},
        {"duty": float("nan")},
        {"nodes": -1.0},
        {"nodes": float("inf")},
    ],
)
def test_a_snapshot_with_a_job_on_no_block_is_refused(bad):
    good = {"lane": 0, "block": {"first": 8, "count": 4}, "duty": 0.5, "nodes": 1.0}
    assert snapshot(placed=[good])
    with pytest.raises(core.CoreError, match="placed job 0 makes no sense"):
        snapshot(placed=[good | bad])


def test_a_snapshot_with_a_co_runner_on_no_block_is_refused():
    with pytest.raises(core.CoreError, match="job 1 has a block of 3 targets at 0"):
        snapshot(on_block(1, 0, 3))


@pytest.mark.parametrize("word", ["Place=", "Place=pairs", "Place=blocks=1"])
def test_blocks_are_the_only_place(word):
    with pytest.raises(core.CoreError, match="Place=blocks may follow"):
        core.parse_config("sluice.conf", f"Lane=a Targets=4 {word}\n".encode())


def test_only_so_many_targets_can_be_placed_on():
    with pytest.raises(core.CoreError, match="at most 512"):
        core.parse_config("sluice.conf", b"Lane=a Targets=513 Place=blocks\n")


def test_on_a_sites_only_lane_a_block_is_of_that_lane():
    """Its jobs are published as writing to all lanes."""
    others = [on_block(i, 4 * i, 4, lane_mask=0) for i in (0, 1, 3)]
    assert block_of(placed_alongside(*others)) == (8, 4)
