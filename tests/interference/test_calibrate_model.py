"""What measurements teach the interference model, and what the core makes of it."""

import math
import random

import numpy as np
import pytest

from sluice.interference.observations import Observation
from sluice.interference.programs import KIB, MIB, Program, features, likeness
from sluice.interference.site_model import LAW, QUEUE, _Problem, fit
from sluice.policies import core
from sluice.policies.structs import CoreError, View, new

CHUNKS = (64 * KIB, MIB, 16 * MIB)
PROGRAMS = [Program(p, c, 2) for p in ("owc", "ws", "aw") for c in CHUNKS]


def truth(program):
    """A site where rewriting takes most, the more the larger the chunk."""
    level = math.log2(program.chunk_bytes / MIB)
    takes = {"owc": 0.0, "ws": 1.5, "aw": -0.5}[program.pattern] + 0.1 * level
    holds = 0.3 if program.pattern == "owc" else 0.0
    return takes, holds


def kept(victim, others):
    takes, holds = truth(victim)
    return 1 / (1 + sum(math.exp(truth(o)[0] - takes - holds) for o in others))


def mean_field(noise=0.0, seed=1):
    rng = random.Random(seed)
    return [
        Observation(a, (b,), kept(a, (b,)) * math.exp(rng.gauss(0, noise)), 1e8)
        for a in PROGRAMS
        for b in PROGRAMS
    ]


def test_without_measurements_the_published_figures_hold():
    model = fit([])
    assert model.interference == core.default_interference()


def test_a_site_that_differs_from_the_papers_is_learned():
    model = fit(mean_field())
    for item in mean_field():
        assert model.share_kept(item.victim, item.others) == pytest.approx(item.rho, rel=0.08)


def test_programs_between_the_measured_ones_are_predicted():
    model = fit(mean_field(noise=0.03))
    errors = []
    for pattern, other in [("owc", "aw"), ("ws", "owc"), ("aw", "ws")]:
        victim, alongside = Program(pattern, 4 * MIB, 2), Program(other, 256 * KIB, 2)
        found = model.share_kept(victim, [alongside])
        errors.append(abs(math.log(found / kept(victim, [alongside]))))
        low, high = model.interval(victim, [alongside])
        assert low < found < high
    assert np.median(errors) < 0.15


def test_how_streams_share_is_learned():
    """A site where all streams together weigh as one: twice as many take no more from others."""
    programs = [Program(p, MIB, n) for p in ("ws", "aw") for n in (1, 2, 4)]

    def kept_here(victim, other):
        if victim.pattern == other.pattern:  # among equals, by processes
            return victim.processes / (victim.processes + other.processes)
        flushing = victim if victim.pattern == "ws" else other
        share = flushing.processes / (flushing.processes + 12.0)
        return share if victim == flushing else 1 - share

    model = fit([Observation(a, (b,), kept_here(a, b), 1e8) for a in programs for b in programs])
    together = model.interference["pooling"] * math.exp(model.interference["stream_level"])
    assert together > 0.3
    for a in programs:
        for b in programs:
            assert model.share_kept(a, [b]) == pytest.approx(kept_here(a, b), rel=0.15)
    many = [Program("aw", MIB, 4), Program("aw", MIB, 4)]
    one, two = (model.share_kept(Program("ws", MIB, 2), many[:n]) for n in (1, 2))
    assert two == pytest.approx(one, rel=0.25)


def test_streams_take_by_processes_where_no_others_were_measured():
    """A kernel that throttles writers throttles each alike."""
    programs = [Program("aw", chunk, 2) for chunk in CHUNKS]
    model = fit([Observation(a, (b,), 0.5, 1e8) for a in programs for b in programs])
    kept_here = model.share_kept(Program("aw", MIB, 2), [Program("aw", MIB, 6)])
    assert kept_here == pytest.approx(0.25, rel=0.1)


def test_where_what_programs_take_adds_up_three_follow_from_pairs():
    """Here it does by definition; how far that holds on storage: test_predicted_losses.py."""
    model = fit(mean_field())
    owc, ws, aw = (Program(p, MIB, 2) for p in ("owc", "ws", "aw"))
    assert model.share_kept(owc, [ws, aw]) == pytest.approx(kept(owc, [ws, aw]), rel=0.1)


def law_of(interference):
    """The law with a site's coefficients, without what its measurements correct."""
    return View(new("struct sluice_interference", interference | {"points": []}))


def test_far_from_everything_measured_the_law_holds():
    small = fit([o for o in mean_field() if o.victim.pattern == "ws" == o.others[0].pattern])
    model = small.struct()
    profile = Program("aw", 1 << 34, 1 << 16).profile()
    policy = core.default_config().policy
    law = law_of(small.interference)
    here, there = (core.pressure_of(profile, m, policy) for m in (model, law))
    assert here.weight == pytest.approx(there.weight, rel=1e-3)
    assert here.log_sd == pytest.approx(model.log_sd, rel=1e-3)


def test_the_order_of_the_observations_does_not_count():
    rows = mean_field(noise=0.05)
    shuffled = random.Random(2).sample(rows, len(rows))
    assert fit(rows).interference == fit(shuffled).interference


def test_one_wild_measurement_does_not_spoil_the_rest():
    rows = mean_field(noise=0.02)
    wild = [
        Observation(r.victim, r.others, 0.9, r.rate_alone) if i == 5 else r
        for i, r in enumerate(rows)
    ]
    model = fit(wild)
    errors = [abs(math.log(model.share_kept(o.victim, o.others) / o.rho)) for o in rows]
    assert np.median(errors) < 0.05


def test_streams_of_which_one_takes_nearly_all_do_not_spoil_the_rest():
    """Whichever wins, what others keep alongside them is still found."""
    rng = random.Random(3)

    def seen(item):
        streams = item.victim.pattern == "aw" == item.others[0].pattern
        return rng.choice((0.05, 0.93)) if streams else item.rho

    rows = mean_field(noise=0.02)
    model = fit([Observation(o.victim, o.others, seen(o), o.rate_alone) for o in rows])
    others = [o for o in rows if {o.victim.pattern, o.others[0].pattern} != {"aw"}]
    errors = [abs(math.log(model.share_kept(o.victim, o.others) / o.rho)) for o in others]
    assert np.median(errors) < 0.05


def test_an_observed_speed_up_does_not_break_the_fit():
    rows = [Observation(o.victim, o.others, 1.1, 1e8) for o in mean_field()[:3]]
    assert all(0.3 < fit(rows).share_kept(o.victim, o.others) <= 1 for o in rows)


def test_a_program_that_got_nothing_alongside_another_is_learned_from():
    owc, ws = Program("owc", MIB), Program("ws", MIB)
    starved = Observation(owc, (ws,), 0.0, 1e8)
    fair = [Observation(a, (a,), 0.5, 1e8) for a in (owc, ws)]
    assert fit([starved, *fair]).share_kept(owc, [ws]) < fit(fair).share_kept(owc, [ws])


def uneven_mean_field():
    """Programs of other speeds, processes and ways to flush, by two and by three."""
    rates = {
        Program("owc", 64 * KIB, 1): 4e6,
        Program("owc", MIB, 3): 6e7,
        Program("ws", 256 * KIB, 4): 3e7,
        Program("ws", 8 * MIB, 6): 1e8,
        Program("aw", MIB, 2, direct=True): 8e7,
        Program("owc+aw", MIB, 2): 9e7,
        Program("aw", MIB, 2): 1e8,
    }
    items = [Observation(a, (b,), 0.5, rates[a]) for a in rates for b in rates]
    slow, _, rewriting, large, *_ = rates
    return [*items, Observation(slow, (rewriting, large), 0.2, rates[slow])]


@pytest.mark.parametrize("seen", [mean_field(noise=0.1), uneven_mean_field()])
def test_the_slopes_are_those_of_the_residuals(seen):
    problem = _Problem(seen, QUEUE)
    x = np.random.default_rng(1).normal(size=problem.size) * 0.3
    step = 1e-6
    numeric = [
        (problem.residuals(x + step * e) - problem.residuals(x - step * e)) / (2 * step)
        for e in np.eye(len(x))
    ]
    assert np.abs(problem.jacobian(x) - np.array(numeric).T).max() < 1e-5


def test_the_fit_asks_the_core_for_what_the_model_says_of_single_jobs():
    seen = uneven_mean_field()
    problem = _Problem(seen, QUEUE)
    law_alone = np.zeros(problem.size)
    law_alone[: len(LAW)] = np.random.default_rng(2).normal(size=len(LAW)) * 0.3
    model = problem.model(law_alone)
    items = sorted(seen, key=lambda o: (o.victim, o.others, o.rho, o.rate_alone))
    found = [math.log(model.share_kept(item.victim, item.others)) for item in items]
    # the fit rounds features to six digits
    assert found == pytest.approx(problem.log_rho(law_alone).tolist(), abs=1e-5)


def test_the_core_evaluates_what_was_fitted():
    """ln w, ln h and the efficiency at a point, from the sums of the header."""
    model = fit(mean_field(noise=0.05))
    struct = model.struct()
    program = Program("ws", 2 * MIB, 3)
    like = likeness(features([program]), np.array([p["at"] for p in model.interference["points"]]))
    pulls = {
        name: float(like[0] @ [p[name] for p in model.interference["points"]])
        for name in ("weight", "hold", "efficiency")
    }
    policy = core.parse_config("x", b"Lane=a Targets=1 Bandwidth=100M\n").policy
    rate = 0.25 * policy.lanes[0].bandwidth
    found = core.pressure_of(program.profile(rate), struct, policy)
    base = core.pressure_of(program.profile(), law_of(model.interference), policy)
    efficiency = max(min(0.0, pulls["efficiency"]) - 0.7, math.log(0.25))
    moved = pulls["weight"] - model.interference["queueing"] * efficiency
    assert math.log(found.weight / base.weight) == pytest.approx(moved, abs=1e-9)
    endured = model.interference["endurance"] * efficiency
    assert found.log_hold == pytest.approx(pulls["hold"] - endured, abs=1e-9)
    assert found.demand == pytest.approx(min(1, 0.25 / math.exp(efficiency)))


@pytest.mark.parametrize(
    "damage",
    [
        {"scale": [0.0, 1.0, 1.0, 1.0]},
        {"scale": [float("nan"), 1.0, 1.0, 1.0]},
        {"points": [{"at": [0.0] * 4, "weight": float("nan")}]},
        {"points": [{"at": [0.0] * 4, "hold": float("inf")}]},
        {"points": [{"at": [1e9, 0, 0, 0], "weight": 0.0}]},
        {"site_log_sd": -1.0},
        {"pooling": -0.1},
        {"pooling": float("nan")},
        {"stream_exponent": -0.1},
        {"queueing": -0.1},
        {"endurance": -0.1},
        {"interleaving": 1.0},
        {"filling": 1.1},
        {"filling": float("nan")},
    ],
)
def test_a_bundle_with_a_damaged_site_is_refused(damage):
    from core_cases import bundle  # noqa: PLC0415

    good = fit(mean_field()[:5]).interference
    with pytest.raises(CoreError):
        bundle(interference=good | damage)
