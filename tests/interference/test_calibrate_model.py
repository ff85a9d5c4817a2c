"""The fit of the interference law to measurements, and what the core makes of it."""

import math
import random
from collections.abc import Mapping

import numpy as np
import pytest
from recorded import coruns

from sluice.interference.observations import Observation, observations
from sluice.interference.programs import KIB, MIB, Program
from sluice.interference.site_model import SiteModel, fit
from sluice.policies import core
from sluice.policies.structs import CoreError

CHUNKS = (64 * KIB, MIB, 16 * MIB)
PROGRAMS = [Program(p, c, 2) for p in ("owc", "ws", "aw") for c in CHUNKS]
BANDWIDTH = 1e8
SITE = SiteModel(
    core.default_interference()
    | {
        "stream_level": math.log(60.0),
        "rewrite_level": 0.3,
        "create_exponent": 0.7,
        "rewrite_exponent": 1.2,
        "process_exponent": 1.0,
        "create_overhead": 0.8,
        "rewrite_overhead": 0.3,
        "capacity": 1.0,
        "pooling": 0.05,
    },
    BANDWIDTH,
)
"""A site where rewriting takes most, the more the larger the chunk."""


def overhead(program: Program, costs: Mapping[str, float]) -> float:
    cost = {"owc": costs["create_overhead"], "ws": costs["rewrite_overhead"], "aw": 0.0}
    return cost[program.pattern]


def rate_alone(program: Program) -> float:
    """B/s: each flush takes as long as some more MiB would."""
    return BANDWIDTH / (1 + overhead(program, SITE.interference) * MIB / program.chunk_bytes)


def kept(victim, others):
    return SITE.share_kept(victim, others)


def mean_field(noise=0.0, seed=1):
    rng = random.Random(seed)
    return [
        Observation(a, (b,), kept(a, (b,)) * math.exp(rng.gauss(0, noise)), rate_alone(a))
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


def test_what_a_flush_costs_is_learned_from_rates_alone():
    found = fit(mean_field()).interference
    for name in ("create_overhead", "rewrite_overhead"):
        assert found[name] == pytest.approx(SITE.interference[name], rel=0.05)


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


@pytest.mark.parametrize("level", [-1.0, 0.0, 2.0])
@pytest.mark.parametrize("reads_faster", [1.0, 3.0])
def test_what_reads_take_and_keep_is_learned_and_moves_nothing_of_writes(level, reads_faster):
    """Readers as victims and as aggressors, on targets that read faster than they write."""
    site = SiteModel(SITE.interference | {"read_level": level}, BANDWIDTH)
    readers = [Program("read", chunk, 2) for chunk in CHUNKS]
    alone = dict.fromkeys(readers, reads_faster * BANDWIDTH)
    alone |= {one: rate_alone(one) for one in PROGRAMS}
    pairs = [pair for one in PROGRAMS for r in readers for pair in ((one, r), (r, one))]
    pairs += [(one, other) for one in readers for other in readers]
    reads = [Observation(a, (b,), site.share_kept(a, [b]), alone[a]) for a, b in pairs]
    of_writes, model = fit(mean_field()), fit(mean_field() + reads)
    assert model.interference["read_level"] == pytest.approx(level, abs=0.3)
    for item in reads:
        assert model.share_kept(item.victim, item.others) == pytest.approx(item.rho, rel=0.2)
    for item in mean_field():
        found = model.share_kept(item.victim, item.others)
        assert found == of_writes.share_kept(item.victim, item.others)
    assert model.basis.reads == len(reads)


def test_measured_reads_are_predicted_at_chunks_that_the_fit_has_not_seen(capsys):
    """On storage that serves reads and writes from one queue; the kernel lets reads in early."""
    seen = observations(coruns("calibration-reads"))
    errors: dict[str, list[float]] = {"learned": [], "as rewriting": []}
    for chunk in {program.chunk_bytes for item in seen for program in item.members}:
        known = [item for item in seen if all(p.chunk_bytes != chunk for p in item.members)]
        left_out = [item for item in seen if item not in known and item.is_of_readers]
        writers = [item for item in known if item.is_of_writers]
        for name, model in (("learned", fit(known)), ("as rewriting", fit(writers))):
            off = [abs(math.log(model.predict(item) / item.rho)) for item in left_out]
            errors[name] += off
    found = {name: float(np.median(off)) for name, off in errors.items()}
    with capsys.disabled():
        print(f"\n{len(errors['learned'])} losses with reads, median error of log I: {found}")
    assert found["learned"] < 0.2
    assert found["learned"] < 0.3 * found["as rewriting"]


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
    rows = [Observation(program, (program,), 1.1, 1e8) for program in PROGRAMS[:3]]
    assert all(0.3 < fit(rows).share_kept(o.victim, o.others) <= 1 for o in rows)


def test_a_program_that_got_nothing_alongside_another_is_learned_from():
    owc, ws = Program("owc", MIB), Program("ws", MIB)
    starved = Observation(owc, (ws,), 0.0, 1e8)
    fair = [Observation(a, (a,), 0.5, 1e8) for a in (owc, ws)]
    assert fit([starved, *fair]).share_kept(owc, [ws]) < fit(fair).share_kept(owc, [ws])


@pytest.mark.parametrize(
    "damage",
    [
        {"stream_level": float("nan")},
        {"create_exponent": float("inf")},
        {"create_overhead": -0.1},
        {"rewrite_overhead": float("nan")},
        {"capacity": 0.9},
        {"pooling": -0.1},
        {"pooling": float("nan")},
        {"log_sd": -1.0},
    ],
)
def test_a_bundle_with_a_damaged_site_is_refused(damage):
    from core_cases import bundle  # noqa: PLC0415

    good = fit(mean_field()[:5]).interference
    with pytest.raises(CoreError):
        bundle(interference=good | damage)
