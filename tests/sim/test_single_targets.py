"""Single targets in the mean-field storage model: exact where the answer is known by hand."""

import math
import random
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mean_field import MeanField

from sluice.sim._engine import ffi, lib
from sluice.sim.engine import StorageModelError

RATE = 1e8
"""B/s of a target; requests are of so many bytes that one takes a second."""
NUMBERS = {"target_bandwidth": RATE, "server_bandwidth": 1e12, "request_bytes": RATE}
SHARINGS = ("fifo", "jobs", "nodes")


def storage(targets, *, servers=1, sharing="jobs", **options):
    numbers = {**NUMBERS, **options.pop("numbers", {})}
    options = {"allocator": "chance", **options}
    return MeanField(numbers, lanes=((targets, servers),), sharing=sharing, **options)


def writer(targets, *, burst=10.0, bursts=1, compute=0.0, **changed):
    """A job that keeps its targets busy by itself; one request a target is outstanding."""
    return ffi.new(
        "struct sluice_mean_field_load *",
        {
            "outstanding": float(targets),
            "cycle": 1.0,
            "cap": float(targets),
            "target_seconds": 1.0,
            "weight": 1.0,
            "burst": burst,
            "bursts": bursts,
            "compute": compute,
            "width": targets,
            "most_held": math.inf,
            **changed,
        },
    )


def ends(model):
    return {end.tag: end for end in model.run()}


@pytest.mark.parametrize("sharing", SHARINGS)
@pytest.mark.parametrize(
    ("blocks", "lost"),
    [
        (((0, 1), (1, 1)), (0.0, 0.0)),
        (((0, 1), (0, 1)), (5.0, 5.0)),
        (((0, 2), (1, 1)), (5.0, 5.0)),
        (((0, 4), (3, 1)), (5.0, 5.0)),
        (((0, 2), (2, 2)), (0.0, 0.0)),
    ],
    ids=["apart", "on one target", "the slower of two decides", "of four", "blocks apart"],
)
def test_two_bursts_lose_what_is_computed_by_hand(sharing, blocks, lost):
    """Ten seconds each, the second five later: where they share a target, each loses five."""
    model = storage(4, sharing=sharing)
    for tag, (now, block) in enumerate(zip((0.0, 5.0), blocks, strict=True)):
        assert not list(model.run(now))
        model.start(now, writer(block[1]), tag=tag, block=block)
    found = ends(model)
    assert tuple(found[tag].runtime - 10.0 for tag in (0, 1)) == pytest.approx(lost, abs=1e-9)


def test_what_a_job_leaves_goes_to_others():
    """Progressive filling: a is held to a third by a full target, so b has two thirds of its."""
    model = storage(3, sharing="jobs")
    a = model.start(0.0, writer(2), block=(0, 2))
    b = model.start(0.0, writer(1), block=(1, 1))
    for _ in range(2):
        model.start(0.0, writer(1), block=(0, 1))
    assert model.rate(a) == pytest.approx(1 / 3)
    assert model.rate(b) == pytest.approx(2 / 3)


def test_half_of_its_targets_take_twice_as_long_and_twice_as_many_as_long():
    """Too few are dear, too many are not."""
    for block, runtime in (((0, 1), 20.0), ((0, 2), 10.0), ((0, 4), 10.0)):
        model = storage(4)
        model.start(0.0, writer(2), block=block)
        (end,) = model.run()
        assert end.runtime == pytest.approx(runtime)


def test_a_link_is_a_station_that_its_targets_share():
    """Targets 0 and 2 are behind one link, which does what one target does."""
    options = {"servers": 2, "numbers": {"server_bandwidth": RATE}}
    for other, rate in (((1, 1), 1.0), ((2, 1), 0.5)):
        model = storage(4, **options)
        load = writer(1, server_seconds=1.0)
        slot = model.start(0.0, load, block=(0, 1))
        model.start(0.0, load, block=other)
        assert model.rate(slot) == pytest.approx(rate)


@pytest.mark.parametrize("load", [0.3, 0.6])
def test_one_target_is_a_processor_sharing_queue(load):
    """Lost over alone is load / (1 - load) for any distribution of work (insensitivity)."""
    random_, model, now = random.Random(3), storage(1), 0.0
    slowdowns, alone = [], {}
    for tag in range(30_000):
        now += random_.expovariate(load / 10.0)
        slowdowns += [(end.runtime, alone.pop(end.tag)) for end in model.run(now)]
        alone[tag] = random_.expovariate(1 / 10.0)
        model.start(now, writer(1, burst=alone[tag]), tag=tag)
    lost = sum(took - one for took, one in slowdowns) / sum(one for _, one in slowdowns)
    assert lost == pytest.approx(load / (1 - load), rel=0.08)


blocks = st.sampled_from([(0, 1), (1, 1), (2, 1), (3, 1), (0, 2), (2, 2), (0, 4), (4, 4), (0, 8)])
loads = st.fixed_dictionaries(
    {
        "outstanding": st.floats(0.5, 64.0),
        "cap": st.floats(0.1, 16.0),
        "cycle": st.floats(1.0, 3.0),
        "server_seconds": st.floats(0.1, 1.0),
        "metadata_seconds": st.sampled_from([0.0, 0.02, 0.3]),
        "weight": st.sampled_from([1.0, 4.0]),
    }
)


cases = st.lists(st.tuples(loads, blocks), min_size=1, max_size=10)


def rates_of(model, jobs):
    """Requests/s of bursts on blocks, as lanes and as targets."""
    slots = []
    for load, (first, count) in jobs:
        mask = ((1 << count) - 1) << first
        row = writer(0, burst=1e6, **load)
        slots.append((row, model.start(0.0, row, lanes=mask, block=(first, count))))
    return [
        model.rate(slot) * lib.sluice_mean_field_alone_rate(model.config, row)
        for row, slot in slots
    ]


@given(jobs=cases, sharing=st.sampled_from(SHARINGS), links=st.sampled_from([1.0, 0.3]))
def test_filling_agrees_with_the_network_of_lanes(jobs, sharing, links):
    """Eight lanes of a target and a server each, solved in turn until nothing moves.

    Where the metadata server is full as well, more than one set of rates fills all stations.
    """
    jobs = [({**load, "metadata_seconds": 0.0}, block) for load, block in jobs]
    numbers = {**NUMBERS, "server_bandwidth": RATE * links, "metadata_rate": 1.0}
    options = {"sharing": sharing, "lanes": ((1, 1),) * 8}
    lanes, targets = (MeanField(numbers, allocator=one, **options) for one in (None, "chance"))
    assert rates_of(targets, jobs) == pytest.approx(rates_of(lanes, jobs), rel=1e-6)


@given(jobs=cases, sharing=st.sampled_from(SHARINGS))
def test_a_job_is_slowed_only_where_a_target_is_full_and_none_does_more_than_it_can(jobs, sharing):
    """Work is conserved."""
    jobs = [({**load, "server_seconds": 0.0}, block) for load, block in jobs]
    model = storage(8, sharing=sharing)
    rates = rates_of(model, jobs)
    used = [0.0] * 8
    metadata = sum(
        rate * load["metadata_seconds"] for rate, (load, _) in zip(rates, jobs, strict=True)
    )
    for rate, (_, (first, count)) in zip(rates, jobs, strict=True):
        for target in range(first, first + count):
            used[target] += rate / count
    assert max(*used, metadata) <= 1 + 1e-6
    for rate, (load, (first, count)) in zip(rates, jobs, strict=True):
        alone = min(load["cap"], load["outstanding"] / load["cycle"])
        fullest = max(*used[first : first + count], metadata if load["metadata_seconds"] else 0.0)
        assert rate == pytest.approx(alone) or fullest > 1 - 1e-6


def test_round_robin_goes_on_where_it_was_and_others_move_it():
    """Undisturbed, four bursts of four fill each of 16 targets once."""
    load = writer(4, server_seconds=1e-4)
    model = storage(16, allocator="round-robin")
    for tag in range(4):
        model.start(0.0, load, tag=tag)
    list(model.run())
    assert model.written == pytest.approx([fmean(model.written)] * 16)
    model = storage(16, allocator="round-robin", foreign_creates=0.5)
    for tag in range(40):
        list(model.run(100.0 * tag))
        model.start(100.0 * tag, load, tag=tag)
    list(model.run())
    assert max(model.written) > 1.2 * min(model.written)


def test_chance_takes_other_neighbours_for_each_burst():
    """A hundred bursts of two on 16 targets are on all of them, about evenly."""
    model = storage(16)
    model.start(0.0, writer(2, bursts=400, compute=1.0, server_seconds=1e-4))
    list(model.run())
    mean = fmean(model.written)
    assert min(model.written) > 0.6 * mean
    assert max(model.written) < 1.4 * mean


def test_equal_seeds_place_alike_and_others_otherwise():
    """No clock, no addresses."""

    def written(seed):
        model = storage(64, seed=seed)
        for tag in range(5):
            model.start(0.0, writer(3, server_seconds=1e-4), tag=tag)
        list(model.run())
        return tuple(model.written)

    assert written(1) == written(1) != written(2)


def test_at_create_files_go_where_nobody_writes():
    """Four bursts of four on 16 targets lose nothing; a fifth has to share."""
    model = storage(16)
    load = writer(4, placed=1)
    slots = [model.start(0.0, load, tag=tag) for tag in range(4)]
    assert [model.rate(slot) for slot in slots] == [1.0] * 4
    assert model.rate(model.start(1.0, load, tag=4)) == pytest.approx(0.5)


def test_a_job_without_a_block_stays_on_its_lanes():
    """Two lanes of four targets each: what is on one, is not on the other."""
    model = MeanField(NUMBERS, lanes=((4, 1), (4, 1)), allocator="chance")
    model.start(0.0, writer(4, width=0, server_seconds=1e-4), lanes=2)
    list(model.run())
    assert model.written[:4] == [0.0] * 4
    assert min(model.written[4:]) > 0


def files(count, **changed):
    """A job whose processes write a file each, as fast as they can on one target each."""
    return writer(count, files=count, server_seconds=1e-4, **changed)


def test_files_of_a_process_each_take_their_burst_alone():
    """However unevenly chance places them: the fullest target takes the burst's time."""
    for count in (2, 5, 64):
        model = storage(16, seed=count)
        model.start(0.0, files(count, bursts=3, compute=5.0))
        (end,) = model.run()
        assert end.runtime == end.alone == pytest.approx(45.0)
        assert end.io == pytest.approx(30.0)


def test_each_stream_of_a_burst_ends_by_itself():
    """Another burst on one of two targets for 10 s delays that stream only: it ends at 15 s."""
    model = storage(2)
    model.start(0.0, files(2), tag=1, block=(0, 2))
    model.start(5.0, writer(1), tag=2, block=(1, 1))
    found = ends(model)
    assert found[1].runtime == pytest.approx(15.0)
    assert found[2].runtime == pytest.approx(15.0)
    # The other target was free after 10 s.
    model = storage(2)
    model.start(0.0, files(2), tag=1, block=(0, 2))
    list(model.run(12.0))
    model.start(12.0, writer(1), tag=2, block=(0, 1))
    assert ends(model)[2].runtime == pytest.approx(10.0)


def test_a_job_that_is_stopped_takes_its_streams_along():
    """Its slots and targets are free again."""
    model = storage(4)
    for tag in range(200):
        slot = model.start(10.0 * tag, files(8, burst=100.0), tag=tag)
        list(model.run(10.0 * tag + 5.0))
        end = model.stop(10.0 * tag + 5.0, slot)
        assert end.io_alone == pytest.approx(5.0)
    assert model.rate(model.start(1e4, writer(1))) == 1.0


def test_a_profile_says_how_many_targets_and_files():
    """Known targets, else as many as its rate alone fills; a file a process if none is shared."""
    model = storage(64)
    profile = {"pattern": "aw", "nprocs": 16.0, "chunk_bytes": RATE, "io_share": 0.1}

    def load(**more):
        return model.load_of({**profile, **more}, nodes=4, runtime=1e4)

    assert load(rate=2.9 * RATE).width == 4
    assert load(rate=RATE).width == 1
    assert load(rate=RATE, targets=8.0).width == 8
    assert load(rate=1e3 * RATE).width == load(targets=64.0, rate=RATE).width == 0
    assert load(rate=RATE, shared_share=0.0).files == 16
    assert load(rate=RATE, shared_share=1.0).files == load(rate=RATE).files == 0
    lanes = MeanField(NUMBERS, lanes=((64, 1),))
    plain = lanes.load_of({**profile, "targets": 8.0, "rate": RATE}, nodes=4, runtime=1e4)
    assert (plain.width, plain.files) == (0, 0)


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"lanes": ((513, 64),)}, "513 targets; placement knows up to 512"),
        ({"lanes": ((2.5, 1),)}, "2.5 targets; placement needs whole ones"),
        ({"foreign_creates": -1.0}, "foreign_creates is -1"),
        ({"allocator": "spiral"}, "chance or round-robin"),
    ],
)
def test_targets_that_cannot_be_told_apart_are_refused(changed, says):
    """The text says why."""
    with pytest.raises(StorageModelError, match=says):
        MeanField(NUMBERS, **{"lanes": ((8, 1),), "allocator": "chance", **changed})


@given(
    rows=st.lists(
        st.tuples(st.floats(0, 500), st.integers(1, 40), st.booleans(), st.booleans()),
        min_size=1,
        max_size=30,
    ),
    allocator=st.sampled_from(["chance", "round-robin"]),
    sharing=st.sampled_from(SHARINGS),
)
def test_whatever_is_written_is_written_once_and_every_job_ends(rows, allocator, sharing):
    """Striped and by files, by the allocator and at create, with turns or without."""
    model = storage(32, servers=4, sharing=sharing, allocator=allocator, foreign_creates=0.1)
    rows = sorted(rows)
    found = []
    for tag, (now, width, by_files, placed) in enumerate(rows):
        found += model.run(now)
        make = files if by_files else writer
        load = make(width, bursts=2, compute=7.0, placed=placed, width=min(width, 31))
        load.server_seconds = 1e-4
        model.start(now, load, tag=tag)
    found += model.run()
    assert sorted(end.tag for end in found) == list(range(len(rows)))
    for end in found:
        assert end.io >= end.io_alone * (1 - 1e-9)
        assert end.io_alone == pytest.approx(20.0)
