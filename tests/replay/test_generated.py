"""Generated workloads and drawn I/O profiles: seeded, and with the shape they promise."""

from pathlib import Path

import numpy as np
import pytest

from sluice.policies.core import PATTERNS, PROFILE_FIELDS
from sluice.sim.errors import TraceError
from sluice.sim.replay.outcomes import replay
from sluice.sim.trace.lublin import Model, _gamma_cdf, generate
from sluice.sim.trace.machine import site_of
from sluice.sim.trace.mix import HEAVY, KINDS, LIGHT, draw_mix
from sluice.sim.trace.repairs import make_replayable


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


@pytest.mark.parametrize("heavy", [0.1, 0.3, 0.6])
def test_the_share_of_heavy_jobs_is_what_was_asked_for(heavy):
    assert draw_mix(20_000, heavy=heavy).is_heavy.mean() == pytest.approx(heavy, abs=0.01)


def test_more_heavy_jobs_leave_those_that_were_heavy_as_they_are():
    few, many = draw_mix(5000, heavy=0.1), draw_mix(5000, heavy=0.6)
    assert np.all(many.is_heavy[few.is_heavy])
    assert np.array_equal(many.kind[few.is_heavy], few.kind[few.is_heavy])
    assert np.array_equal(many.io_share[few.is_heavy], few.io_share[few.is_heavy])


def test_profiles_use_the_core_s_own_names():
    mix = draw_mix(1000, heavy=0.5, seed=4)
    names = {field.name for field in PROFILE_FIELDS} | {"pattern"}
    for job in range(1000):
        profile = mix.profile(job)
        assert profile.keys() <= names
        assert profile["pattern"] in PATTERNS
        low, high = KINDS[mix.kind[job]].io_share
        assert low <= profile["io_share"] <= high
    assert {kind.pattern for kind in KINDS} <= set(PATTERNS)
    for kinds in (HEAVY, LIGHT):
        assert sum(kind.weight for kind in kinds) == pytest.approx(1)


def test_a_share_above_one_is_refused():
    with pytest.raises(TraceError, match="give 0 to 1"):
        draw_mix(10, heavy=30)


def test_the_manual_states_the_mix():
    page = (Path(__file__).resolve().parents[2] / "docs" / "reference" / "replay.md").read_text()
    for kind in KINDS:
        low, high = (f"{share * 100:g}" for share in kind.io_share)
        span = low if low == high else f"{low}–{high}"
        assert f"| {kind.name} | {kind.weight * 100:g} % | `{kind.pattern}` | {span} % |" in page
