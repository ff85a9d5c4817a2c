"""The mean-field storage model keeps the laws of a queueing network, whatever the jobs."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mean_field import MeanField
from papers.shah import program

from sluice.sim.engine import StorageModelError
from sluice.sim.storage.discrete_event import LUSTRE as PLATFORM
from sluice.sim.storage.discrete_event import simulate

MIB = 1048576.0
TARGETS, SERVERS = 8, 2
LANES = ((4, 1), (4, 1))
BASE = {"target_bandwidth": 500e6, "server_bandwidth": 4e9, "commit_seconds": 1e-3}

programs = st.fixed_dictionaries(
    {
        "pattern": st.sampled_from(["owc", "ws", "aw"]),
        "chunk_bytes": st.sampled_from([4096.0, MIB, 16 * MIB, 256 * MIB]),
        "nprocs": st.integers(1, 256).map(float),
        "rate": st.floats(1e8, 8e9),
        "io_share": st.floats(0.05, 1.0),
        "period_seconds": st.floats(20.0, 500.0),
        "async_io": st.sampled_from([0.0, 1.0]),
    }
)
"""Profiles as the classifier gives them, with the numbers that the storage model reads."""

sharings = st.sampled_from(["fifo", "jobs", "nodes"])


def numbers_of(program):
    """The physical numbers that belong to a pattern."""
    chunk = program["chunk_bytes"]
    is_stream = program["pattern"] == "aw"
    return {
        **program,
        "bytes_per_flush": 1e13 if is_stream else chunk,
        "unflushed_bytes": 1e12 if is_stream else 0.0,
        "creates_per_mib": MIB / chunk if program["pattern"] == "owc" else 0.0,
    }


def load(mean_field, program, *, runtime=600.0, nodes=4.0):
    return mean_field.load_of(numbers_of(program), nodes=nodes, runtime=runtime)


def writer(**changed):
    """A program that does nothing but write, in one burst."""
    return {
        "pattern": "ws",
        "chunk_bytes": MIB,
        "nprocs": 64.0,
        "rate": 3e9,
        "io_share": 1.0,
        "period_seconds": 1e9,
        "async_io": 0.0,
        **changed,
    }


@given(program=programs, sharing=sharings)
def test_a_job_alone_takes_exactly_its_nominal_time(program, sharing):
    """Whatever its rate: the trace's run time alone is the storage model's."""
    mean_field = MeanField(BASE, lanes=LANES, sharing=sharing)
    mean_field.start(10.0, load(mean_field, program))
    (end,) = mean_field.run()
    assert end.runtime == pytest.approx(600.0, rel=1e-9)
    assert end.alone == pytest.approx(600.0, rel=1e-9)
    assert end.io == pytest.approx(end.io_alone, rel=1e-9)


@given(program=programs, count=st.integers(2, 12), sharing=sharings)
def test_symmetric_jobs_share_equally_and_end_together(program, count, sharing):
    """Equal jobs that start together are never told apart."""
    mean_field = MeanField(BASE, lanes=LANES, sharing=sharing)
    slots = [mean_field.start(0.0, load(mean_field, program), tag=i) for i in range(count)]
    assert len({mean_field.rate(slot) for slot in slots}) == 1
    ends = list(mean_field.run())
    assert [end.tag for end in ends] == list(range(count))
    assert {end.time for end in ends} == {ends[0].time}


@given(jobs=st.lists(programs, min_size=1, max_size=6), sharing=sharings)
def test_no_job_gains_from_co_runners(jobs, sharing):
    """Rates are shares of the rate alone: in (0, 1]."""
    mean_field = MeanField(BASE, lanes=LANES, sharing=sharing)
    for job in jobs:
        mean_field.start(0.0, load(mean_field, job))
    ends = list(mean_field.run())
    assert len(ends) == len(jobs)
    for end in ends:
        assert end.runtime >= end.alone * (1 - 1e-9)
        assert end.io >= end.io_alone * (1 - 1e-9)


@given(jobs=st.lists(programs, min_size=2, max_size=6), more=programs, sharing=sharings)
def test_one_more_writer_slows_somebody_or_nobody_but_never_all_faster(jobs, more, sharing):
    """A full station stays full: what one more takes, others lose."""
    mean_field = MeanField(BASE, lanes=((8, 2),), sharing=sharing)
    writers = [{**job, "io_share": 1.0, "period_seconds": 1e9} for job in jobs]
    slots = [mean_field.start(0.0, load(mean_field, job)) for job in writers]
    before = [mean_field.rate(slot) for slot in slots]
    mean_field.start(0.0, load(mean_field, {**more, "io_share": 1.0, "period_seconds": 1e9}))
    after = [mean_field.rate(slot) for slot in slots]
    assert min(a / b for a, b in zip(after, before, strict=True)) <= 1 + 1e-6


@given(count=st.integers(1, 20), chunk=st.sampled_from([MIB, 16 * MIB]), sharing=sharings)
def test_work_is_conserved_when_the_targets_are_full(count, chunk, sharing):
    """Full targets serve exactly their capacity, however many share them."""
    mean_field = MeanField(BASE, lanes=((TARGETS, SERVERS),), sharing=sharing)
    program = writer(chunk_bytes=chunk, rate=TARGETS * 500e6)
    one = load(mean_field, program)
    slots = [mean_field.start(0.0, one) for _ in range(count)]
    seconds_each = one.target_seconds / TARGETS
    alone = min(one.cap, one.outstanding / one.cycle, 1 / seconds_each)
    used = sum(mean_field.rate(slot) * alone * seconds_each for slot in slots)
    assert used == pytest.approx(1.0 if count > 1 else alone * seconds_each, rel=1e-6)


@given(
    jobs=st.lists(programs, min_size=2, max_size=5),
    factor=st.floats(1.0, 4.0),
    sharing=sharings,
)
def test_more_bandwidth_never_ends_the_last_job_later(jobs, factor, sharing):
    """Monotone in capacity, where every job writes in one burst."""

    def last(scale):
        mean_field = MeanField(
            {**BASE, "target_bandwidth": 500e6 * scale}, lanes=((8, 2),), sharing=sharing
        )
        for job in jobs:
            slow = {**job, "io_share": 1.0, "period_seconds": 1e9, "rate": min(job["rate"], 2e9)}
            mean_field.start(0.0, load(mean_field, slow))
        return max(end.time for end in mean_field.run())

    assert last(factor) <= last(1.0) * (1 + 1e-6)


@given(jobs=st.lists(programs, min_size=1, max_size=8), sharing=sharings)
def test_equal_calls_give_equal_bits(jobs, sharing):
    """No clock, no addresses, no order of hashing."""

    def ends():
        mean_field = MeanField(BASE, lanes=LANES, sharing=sharing, seed=7, spread=0.3)
        for i, job in enumerate(jobs):
            list(mean_field.run(10.0 * i))
            mean_field.start(10.0 * i, load(mean_field, job), lanes=i % 4, tag=i)
        return list(mean_field.run())

    assert ends() == ends()


def test_disjoint_lanes_do_not_disturb_each_other():
    """Apart from the metadata server, lanes share nothing (Yildiz Y5)."""
    mean_field = MeanField(BASE, lanes=LANES)
    victim, other = writer(rate=1e9), writer(pattern="aw", rate=8e9)
    slot = mean_field.start(0.0, load(mean_field, victim), lanes=1)
    before = mean_field.rate(slot)
    mean_field.start(0.0, load(mean_field, other), lanes=2)
    assert mean_field.rate(slot) == before == 1.0
    mean_field.start(0.0, load(mean_field, other), lanes=3)
    assert mean_field.rate(slot) < 0.95


def test_lanes_share_the_metadata_server():
    """Creators on different lanes still meet there."""
    mean_field = MeanField({**BASE, "metadata_rate": 1000.0}, lanes=LANES)
    creator = writer(pattern="owc", chunk_bytes=4096.0, rate=4096 * 900.0)
    slot = mean_field.start(0.0, load(mean_field, creator), lanes=1)
    assert mean_field.rate(slot) == 1.0
    mean_field.start(0.0, load(mean_field, creator), lanes=2)
    assert mean_field.rate(slot) == pytest.approx(1000 / 1800, rel=1e-6)


def test_a_streaming_writer_takes_from_one_that_waits_for_every_write():
    """Shah S1: the ordering, from requests outstanding alone."""
    mean_field = MeanField(lanes=((104, 8),))
    rates = {"owc": 28.4e9, "aw": 42.2e9}
    slots = {
        name: mean_field.start(0.0, load(mean_field, writer(pattern=name, rate=rate, nprocs=256.0)))
        for name, rate in rates.items()
    }
    assert mean_field.rate(slots["owc"]) < 0.5
    assert mean_field.rate(slots["aw"]) > 0.8


def test_fair_servers_protect_a_job_that_waits_for_every_write():
    """What server-side fair sharing would give alone: equal shares of the targets."""
    shares = {}
    for sharing in ("fifo", "jobs"):
        mean_field = MeanField(BASE, lanes=((8, 2),), sharing=sharing)
        victim = mean_field.start(0.0, load(mean_field, writer(rate=2.0e9)))
        mean_field.start(0.0, load(mean_field, writer(pattern="aw", rate=4e9)))
        shares[sharing] = mean_field.rate(victim)
    assert shares["fifo"] < 0.5 < shares["jobs"]


def test_asynchronous_io_is_hidden_behind_computing():
    """max (C, A I): a slowed burst costs nothing while computing lasts longer."""
    mean_field = MeanField(BASE, lanes=((8, 2),))
    hidden = writer(async_io=1.0, io_share=0.3, period_seconds=100.0, rate=4e9)
    mean_field.start(0.0, load(mean_field, hidden), tag=1)
    mean_field.start(0.0, load(mean_field, hidden), tag=2)
    assert [end.runtime for end in mean_field.run()] == [pytest.approx(600.0)] * 2


def test_a_job_that_is_stopped_leaves_its_share_to_the_others():
    """A kill at the time limit is an end like any other."""
    mean_field = MeanField(BASE, lanes=((8, 2),))
    full = writer(rate=4e9)
    staying = mean_field.start(0.0, load(mean_field, full))
    leaving = mean_field.start(0.0, load(mean_field, full))
    assert not list(mean_field.run(100.0))
    end = mean_field.stop(100.0, leaving)
    assert end.runtime == 100.0
    assert end.io_alone == pytest.approx(50.0, rel=0.05)
    assert mean_field.rate(staying) == 1.0


def test_the_end_of_an_hour_without_io_is_exact():
    """Jobs without I/O never meet the storage."""
    mean_field = MeanField()
    mean_field.start(
        5.0, mean_field.load_of({"pattern": "none", "io_share": 0.0}, nodes=1, runtime=3600.0)
    )
    assert [end.time for end in mean_field.run()] == [3605.0]


def test_perturbed_storage_models_differ_by_seed_and_come_back_with_it():
    """Sensitivity of an answer: the same seed is the same storage model."""
    one, again, other = (MeanField(seed=seed, spread=0.2).numbers for seed in (1, 1, 2))
    assert one == again != other
    assert MeanField(seed=3, spread=0.0).numbers == MeanField().numbers


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"numbers": {"target_bandwidth": 0.0}}, "target_bandwidth is 0"),
        ({"numbers": {"target_bandwidth": math.nan}}, "target_bandwidth is"),
        ({"numbers": {"bandwith": 1.0}}, "no bandwith"),
        ({"lanes": ()}, "0 lanes"),
        ({"lanes": ((0, 1),)}, "lane 0 has 0 targets"),
        ({"lanes": ((1, 1),) * 17}, "17 lanes"),
        ({"sharing": "unfair"}, "fifo or jobs or nodes"),
    ],
)
def test_an_impossible_storage_model_is_refused_by_name(changed, says):
    """The text says which number is wrong."""
    with pytest.raises(StorageModelError, match=says):
        MeanField(**changed)


LUSTRE = PLATFORM.storage()
PATTERNS = ("owc", "ws", "aw")
MEAN, WORST = 0.03, 0.10
"""Of the share of the rate alone: how far the two storage models may be from each other."""


def test_the_defaults_are_the_lustre_of_the_request_level_storage_model():
    """One set of numbers, at two resolutions; creates as two programs of 256 get them."""
    numbers = MeanField().numbers
    same = ("target_bandwidth", "server_bandwidth", "commit_seconds", "rewrite_window")
    assert {name: numbers[name] for name in same} == {name: LUSTRE[name] for name in same}
    assert numbers["stream_window"] == LUSTRE["flow_window"]
    assert numbers["request_bytes"] == LUSTRE["unit_bytes"]
    slower = 1 + 512 * LUSTRE["create_contention"]
    assert 1 / numbers["metadata_rate"] == pytest.approx(
        LUSTRE["create_seconds"] * slower, rel=0.01
    )


def shares_in_both_models(members, processes=256.0):
    """Return (pattern, request-level, fast): what each program keeps among all members."""
    programs = [program(pattern, mib * MIB, processes) for pattern, mib in members]
    alone = [simulate(LUSTRE, [one], stop_share=0.9)[0].rate for one in programs]
    both = [outcome.rate for outcome in simulate(LUSTRE, programs, stop_share=0.9)]
    mean_field = MeanField()
    jobs = [
        writer(pattern=pattern, chunk_bytes=mib * MIB, nprocs=processes, rate=rate)
        for (pattern, mib), rate in zip(members, alone, strict=True)
    ]
    slots = [mean_field.start(0.0, load(mean_field, job)) for job in jobs]
    rates = map(mean_field.rate, slots)
    return [
        (member, rate / one, fast)
        for member, rate, one, fast in zip(members, both, alone, rates, strict=True)
    ]


def test_the_mean_field_storage_model_agrees_with_the_request_level_one_on_pairs():
    """27 cases: each pattern alongside each at 1, 16 and 256 MiB."""
    errors = [
        abs(slow - fast)
        for mib in (1, 16, 256)
        for probe in PATTERNS
        for signal in PATTERNS
        for _, slow, fast in shares_in_both_models([(probe, mib), (signal, mib)])[:1]
    ]
    print(f"pairs: mean {sum(errors) / len(errors):.3f}, worst {max(errors):.3f}")
    assert sum(errors) / len(errors) < MEAN
    assert max(errors) < WORST


@pytest.mark.parametrize(
    "members",
    [
        [("owc", 1), ("aw", 1), ("ws", 16)],
        [("ws", 1), ("ws", 1), ("ws", 1)],
        [("aw", 1), ("aw", 256), ("owc", 256)],
        [("owc", 1), ("aw", 1), ("ws", 1), ("aw", 1)],
    ],
    ids=str,
)
@pytest.mark.parametrize(("processes", "worst"), [(256.0, WORST), (64.0, 0.27)])
def test_the_mean_field_storage_model_agrees_with_the_request_level_one_on_sets(
    members, processes, worst
):
    """Three and four programs; less exact with fewer processes than targets."""
    for member, slow, fast in shares_in_both_models(members, processes):
        print(f"{member}: requests {slow:.3f}, fast {fast:.3f}")
        assert fast == pytest.approx(slow, abs=worst)
