"""Generated workloads and drawn I/O profiles: seeded, and with the shape they promise."""

from pathlib import Path

import numpy as np
import pytest

from sluice.policies.core import PATTERNS, PROFILE_FIELDS
from sluice.sim.engine import TraceError
from sluice.sim.replay.experiment import Experiment
from sluice.sim.replay.io_replay import replay
from sluice.sim.storage.mean_field import LOAD, loads_of, station_shares, storage_for
from sluice.sim.trace.lublin import Model, _gamma_cdf, generate
from sluice.sim.trace.machine import site_of
from sluice.sim.trace.profiles import (
    HEAVY,
    KINDS,
    LIGHT,
    MIXES,
    SHORT,
    SHORT_BURSTS,
    SHORT_SECONDS,
    SHORT_SHARE,
    draw_mix,
)
from sluice.sim.trace.repairs import make_replayable

HOURS = np.full(5000, 7200.0)
"""Run times of jobs."""
DRAWN = [mix for mix in MIXES if mix != "measured"]


def test_equal_seeds_give_equal_traces_and_others_do_not():
    one, same, other = (generate(500, seed=seed) for seed in (1, 1, 2))
    assert one.submit.tobytes() == same.submit.tobytes()
    assert one.runtime.tobytes() == same.runtime.tobytes()
    assert one.runtime.tobytes() != other.runtime.tobytes()


def test_sizes_and_run_times_follow_the_published_parameters():
    trace, model = generate(50_000, slots=128), Model()
    assert trace.slots.max() <= 128
    assert np.mean(trace.slots == 1) == pytest.approx(model.serial, abs=0.06)
    powers = np.mean((trace.slots & (trace.slots - 1)) == 0)
    assert powers > model.serial + model.power_of_2 - 0.02
    assert np.exp(12) >= trace.runtime.max()
    first = np.mean(model.run_slope * trace.slots + model.run_share)
    means = model.run_1[0] * model.run_1[1], model.run_2[0] * model.run_2[1]
    expected = first * means[0] + (1 - first) * means[1]
    assert np.mean(np.log(trace.runtime)) == pytest.approx(expected, rel=0.05)


def test_days_are_busier_than_nights():
    hour = generate(50_000).submit % 86400 // 3600
    start = generate(50_000).submit
    assert np.all(np.diff(start) >= 0)
    counts = np.bincount(hour.astype(int), minlength=24)
    assert counts.max() > 4 * counts.min()


def test_the_gamma_distribution_is_integrated_well():
    shape, scale = Model().day
    sample = np.random.default_rng(5).gamma(shape, scale, 200_000)
    at = np.array([10.0, 25.0, 32.0, 50.0])
    assert _gamma_cdf(at, shape, scale) == pytest.approx(
        [np.mean(sample <= x) for x in at], abs=0.005
    )


@pytest.mark.parametrize("load", [0.4, 0.8])
def test_the_offered_load_is_what_was_asked_for(load):
    trace = generate(5000, load=load)
    busy = np.sum(trace.slots * trace.runtime)
    assert busy / (128 * (trace.submit[-1] - trace.submit[0])) == pytest.approx(load, rel=0.01)


@pytest.mark.parametrize("slots", [1, 2, 7, 4096])
def test_a_generated_trace_can_be_replayed_on_its_machine(slots):
    trace = generate(300, slots=slots, load=0.5)
    site = site_of(trace)
    replayable = make_replayable(trace, site)
    assert replayable.repairs == ()
    assert replay(replayable, site).ran.all()


def test_a_generator_without_jobs_is_refused():
    with pytest.raises(TraceError, match="above 0"):
        generate(0)


@pytest.mark.parametrize("mix", DRAWN)
@pytest.mark.parametrize("heavy", [0.1, 0.3, 0.6])
def test_the_share_of_heavy_jobs_is_what_was_asked_for(heavy, mix):
    drawn = draw_mix(np.full(20_000, 60.0), heavy=heavy, mix=mix)
    assert drawn.is_heavy.mean() == pytest.approx(heavy, abs=0.01)


@pytest.mark.parametrize("mix", DRAWN)
def test_more_heavy_jobs_leave_those_that_were_heavy_as_they_are(mix):
    few, many = (draw_mix(HOURS, heavy=heavy, mix=mix) for heavy in (0.1, 0.6))
    assert np.all(many.is_heavy[few.is_heavy])
    for of_few, of_many in zip(
        (few.kind, few.io_share, few.period), (many.kind, many.io_share, many.period), strict=True
    ):
        assert np.array_equal(of_many[few.is_heavy], of_few[few.is_heavy])


@pytest.mark.parametrize("mix", DRAWN)
def test_profiles_use_the_core_s_own_names(mix):
    drawn = draw_mix(HOURS[:1000], heavy=0.5, seed=4, mix=mix)
    names = {field.name for field in PROFILE_FIELDS} | {"pattern"}
    for job in range(1000):
        profile = drawn.profile(job)
        assert profile.keys() <= names
        assert profile["pattern"] in PATTERNS
        low, high = KINDS[drawn.kind[job]].io_share
        assert low <= profile["io_share"] <= high or (mix == SHORT and drawn.is_heavy[job])
    assert {kind.pattern for kind in KINDS} <= set(PATTERNS)
    for kinds in (HEAVY, LIGHT):
        assert sum(kind.weight for kind in kinds) == pytest.approx(1)


def loads_of_nodes(kind, nodes, config):
    """Return a LOAD for jobs of a kind of the mix, one a number of nodes."""
    nodes = np.asarray(nodes, float)
    return loads_of(
        [{"pattern": kind.pattern, **kind.numbers}],
        kind=np.zeros(len(nodes), int),
        io_share=np.full(len(nodes), 0.2),
        nodes=nodes,
        runtime=np.full(len(nodes), 7200.0),
        config=config,
        times=nodes,
    )


@pytest.mark.parametrize("slots", [64, 100, 256, 1024])
@pytest.mark.parametrize("kind", HEAVY, ids=lambda kind: kind.name)
def test_no_kind_fills_the_storage_with_a_few_nodes(kind, slots):
    """It takes a sixteenth of the machine at least, and a seventh for the metadata server."""
    config = storage_for(slots).configuration()
    ((targets, links, metadata),) = station_shares(loads_of_nodes(kind, [1], config), config)
    assert max(targets, links) <= 16 / slots
    assert metadata <= 7 / slots


def test_metadata_programs_fill_the_metadata_server_and_not_the_targets():
    config = storage_for(100).configuration()
    (kind,) = (kind for kind in HEAVY if kind.pattern == "metadata")
    for nodes in (1, 4, 16, 64):
        ((targets, links, metadata),) = station_shares(
            loads_of_nodes(kind, [nodes], config), config
        )
        assert targets < 0.02
        assert links < 0.02
        assert metadata == pytest.approx(min(1.0, nodes * 2000 / config.metadata_rate))


def test_the_metadata_server_grows_with_the_machine_unless_its_size_is_given():
    small, large = (storage_for(slots).number("metadata_rate") for slots in (100, 2000))
    assert large == 20 * small
    asked = Experiment(generate=10, slots=2000, storage=(("metadata_rate", "31000"),))
    assert asked.draw().storage.number("metadata_rate") == 31000


def test_twice_the_nodes_of_a_program_press_twice_as_hard_until_the_storage_is_full():
    config = storage_for(256).configuration()
    for kind in HEAVY:
        one, two = station_shares(loads_of_nodes(kind, [1, 2], config), config)
        assert two == pytest.approx(2 * one)


def test_a_program_that_streams_fills_the_storage_with_a_sixth_of_the_machine():
    config = storage_for(300).configuration()
    stream = HEAVY[0]
    below, above = station_shares(loads_of_nodes(stream, [40, 50], config), config)
    assert below[0] < 1
    assert above[0] == pytest.approx(1)


def test_short_jobs_write_a_few_short_bursts():
    """As many bursts, and as long, as the mix says, unless a job is too brief for them."""
    runtime = np.geomspace(5, 100_000, 3000)
    drawn = draw_mix(runtime, heavy=1.0, mix=SHORT)
    loads = np.zeros(len(runtime), LOAD)
    for kind in range(len(HEAVY)):
        own = drawn.kind == kind
        loads[own] = loads_of(
            [dict(KINDS[kind].numbers)],
            kind=np.zeros(own.sum(), int),
            io_share=drawn.io_share[own],
            nodes=np.ones(own.sum()),
            runtime=runtime[own],
            config=storage_for(100).configuration(),
            period=drawn.period[own],
        )
    low, high = SHORT_SECONDS
    fewest, most = SHORT_BURSTS
    assert np.all((loads["bursts"] >= fewest) & (loads["bursts"] <= most))
    roomy = runtime >= most * high / SHORT_SHARE
    assert np.all((loads["burst"][roomy] >= low) & (loads["burst"][roomy] <= high))
    assert set(loads["bursts"][roomy].tolist()) == set(range(fewest, most + 1))
    assert np.all(loads["bursts"] * loads["burst"] <= SHORT_SHARE * runtime * (1 + 1e-9))


def test_a_share_above_one_is_refused():
    with pytest.raises(TraceError, match="give 0 to 1"):
        draw_mix(HOURS, heavy=30)


def test_the_manual_states_the_mix():
    page = (Path(__file__).resolve().parents[2] / "docs" / "reference" / "replay.md").read_text()
    for kind in KINDS:
        low, high = (f"{share * 100:g}" for share in kind.io_share)
        span = low if low == high else f"{low}–{high}"
        assert f"| {kind.name} | {kind.weight * 100:g} % | `{kind.pattern}` | {span} % |" in page
