"""What a calibration says, from co-runs whose outcome is known."""

import itertools
import json
import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.history_db.records import CoRun
from sluice.interference.calibrate import analysis
from sluice.interference.calibrate.analysis import (
    agreement_text,
    make_report,
    stability_text,
    to_json,
)
from sluice.interference.calibrate.grid import (
    BLOCK,
    WRITES,
    PlannedCoRun,
    blocks,
    default_grid,
    most_informative_first,
)
from sluice.interference.calibrate.protocol import Trace
from sluice.interference.observations import observations
from sluice.interference.programs import (
    KIB,
    MIB,
    SYNCS,
    CalibrationError,
    Program,
    features,
    likeness,
)

programs = st.builds(
    Program,
    pattern=st.sampled_from(["owc", "ws", "aw", "owc+aw", "read", "metadata"]),
    chunk_bytes=st.integers(1, 1 << 30),
    processes=st.integers(1, 1024),
    sync=st.sampled_from(["", *SYNCS]),
    direct=st.booleans(),
)


def corun(probe, signal, kept, *, signal_kept=None, alone=100e6, **changes):
    """A probe that kept this share of its rate; both get `alone` by themselves."""
    made = CoRun(
        started=0,
        mode="rates",
        members=(probe, signal),
        targets=("a", "a"),
        alone=(alone, alone),
        together=(kept * alone, (1 - kept if signal_kept is None else signal_kept) * alone),
        foreign_share=0.0,
        dropped="",
    )
    return replace(made, **changes)


# -- programs --------------------------------------------------------------------


@given(programs)
def test_a_program_is_read_back_from_its_text(program):
    assert Program.parse(str(program)) == program


@pytest.mark.parametrize("text", ["", "xyz", "owc:0", "owc:1M:0", "owc:1M:2:often", "owc:1M:2::x"])
def test_what_is_no_program_is_refused_by_name(text):
    with pytest.raises(CalibrationError, match="not a"):
        Program.parse(text)


# -- the plan --------------------------------------------------------------------


def test_the_default_grid_has_each_pattern_alongside_each_at_every_chunk():
    grid = default_grid((64 * KIB, MIB, 16 * MIB))
    met = {frozenset((e.probe, *e.signals)) for e in grid}
    for chunk, a, b in itertools.product((64 * KIB, MIB, 16 * MIB), WRITES, WRITES):
        assert frozenset((Program(a, chunk), Program(b, chunk))) in met
    assert len(grid) == len(set(grid))
    assert any(len(e.signals) == 2 for e in grid)  # triples
    assert any(e.probe.processes != e.signals[0].processes for e in grid)
    assert any(len(e.probe.parts) > 1 for e in grid)  # mixes
    for signal in ("owc", "ws", "aw", "read"):
        assert frozenset((Program("read", MIB), Program(signal, MIB))) in met
    assert any(e.disjoint for e in grid)
    assert not any(e.disjoint for e in default_grid(several_targets=False))


def test_the_default_grid_has_triples_with_no_one_and_two_streams():
    """Else nobody judges both rules for many: streams share one queue, flushes add up."""
    triples = [sorted((e.probe, *e.signals)) for e in default_grid() if len(e.signals) == 2]
    assert sorted([p.pattern for p in one].count("aw") for one in triples) == [0, 1, 2]


def test_every_signal_of_the_default_grid_is_measured_alone_as_a_probe():
    """Else nobody knows what it lost."""
    grid = default_grid()
    assert {signal for e in grid for signal in e.signals} <= {e.probe for e in grid}


def test_co_runs_of_one_probe_share_its_runs_alone():
    found = list(blocks(most_informative_first(default_grid())))
    assert all(len({e.probe for e in block}) == 1 for block in found)
    assert {len(block) for block in found} <= set(range(1, BLOCK + 1))
    assert sum(map(len, found)) > 2 * len(found)


def test_the_order_does_not_depend_on_how_the_grid_is_listed():
    grid = default_grid((64 * KIB, MIB))
    shuffled = random.Random(3).sample(grid, len(grid))
    assert most_informative_first(grid)[0] in most_informative_first(shuffled)[:2]
    assert sorted(map(str, most_informative_first(grid))) == sorted(map(str, grid))


def test_reads_are_another_kind_of_traffic_than_writes():
    rows = features([Program("read", MIB), Program("ws", MIB), Program("read", 2 * MIB)])
    like_writes, like_reads = likeness(rows[:1], rows[1:])[0]
    assert like_writes < 0.2
    assert like_reads > 0.9


def test_a_mix_reads_and_writes_by_its_parts():
    profile = Program("owc+read+read", MIB, 6).profile()
    assert profile["read_bytes"] == 2 * profile["write_bytes"] > 0
    assert profile["read_chunk_bytes"] == MIB
    assert Program("read", MIB).profile()["write_bytes"] == 0
    assert Program("aw", MIB).profile()["read_bytes"] == 0


def test_what_is_like_something_measured_comes_later():
    near, far = Program("aw", MIB), Program("owc", 64 * KIB)
    plan = [
        PlannedCoRun(near, (Program("ws", MIB),)),
        PlannedCoRun(replace(near, processes=3), (Program("ws", MIB),)),
        PlannedCoRun(far, (Program("ws", 16 * MIB),)),
    ]
    ordered = most_informative_first(plan)
    assert {ordered[0].probe.pattern, ordered[1].probe.pattern} == {"aw", "owc"}


# -- reports of the probe -----------------------------------------------------------


def trace(counts, start=1000.0, length=0.5):
    lines = [{"type": "run", "slice_seconds": length}]
    lines += [
        {"type": "slice", "time": start + i * length, "bytes": n, "operations": n}
        for i, n in enumerate(counts)
    ]
    lines.append({"type": "total", "start": start, "end": start + len(counts) * length})
    return "\n".join(map(json.dumps, lines))


@given(st.lists(st.integers(0, 1000), min_size=1, max_size=20), st.floats(0, 1))
def test_bytes_until_an_instant_rise_from_nothing_to_all(counts, share):
    read = Trace.parse(trace(counts))
    assert read.until(read.start) == 0
    assert read.until(read.end) == sum(counts)
    moved = share * sum(counts)
    assert read.until(read.when(moved, read.start)) == pytest.approx(moved, abs=1e-3)


def test_tasks_of_one_program_are_added_up():
    both = Trace.parse(trace([1, 2, 3]) + "\n" + trace([10, 20], start=1000.5))
    assert both.bytes == (1, 12, 23)


def test_half_a_report_is_an_error():
    with pytest.raises(CalibrationError, match="no whole report"):
        Trace.parse('{"type": "run", "slice_seconds": 0.1}')
    with pytest.raises(CalibrationError, match="no whole report"):
        Trace.parse("no end of line" + trace([1]))


# -- figures -----------------------------------------------------------------------


def test_the_loss_is_the_median_of_what_was_not_dropped():
    rows = [corun("owc:1M:2", "aw:1M:2", kept) for kept in (0.1, 0.2, 0.6)]
    rows.append(corun("owc:1M:2", "aw:1M:2", 0.9, dropped="alone it got 1 and 2 MB/s"))
    cell = analysis.Cell(Program("owc", MIB), (Program("aw", MIB),))
    assert analysis.losses(rows)[cell] == analysis.Loss(pytest.approx(0.8), 3)


def test_a_signal_counts_when_its_rate_alone_is_known():
    one = [corun("owc:1M:2", "aw:1M:2", 0.2, signal_kept=0.9)]
    assert [o.victim.pattern for o in observations(one)] == ["owc"]
    both = [*one, corun("aw:1M:2", "owc:1M:2", 0.9, signal_kept=0.2)]
    assert sorted(o.victim.pattern for o in observations(both)) == ["aw", "aw", "owc", "owc"]


def test_an_observed_speed_up_is_kept_as_it_was_seen():
    (seen,) = observations([corun("ws:1M:2", "owc:1M:2", 1.2)])
    assert seen.rho == pytest.approx(1.2)
    assert analysis.losses([corun("ws:1M:2", "owc:1M:2", 1.2)]) == {
        analysis.Cell(seen.victim, seen.others): analysis.Loss(pytest.approx(-0.2), 1)
    }


def published(*rows):
    """Co-runs from degradations in %: (chunk, probe, signal, probe's, signal's)."""
    return [
        corun(f"{probe}:{chunk}:256", f"{signal}:{chunk}:256", 1 - p / 100, signal_kept=1 - s / 100)
        for chunk, probe, signal, p, s in rows
        for probe, signal, p, s in ((probe, signal, p, s), (signal, probe, s, p))
    ]


def grid_of(noise, seed):
    rng = random.Random(seed)
    rows = []
    for a, b in itertools.product(("owc", "ws", "aw"), repeat=2):
        for chunk in ("64K", "1M", "16M"):
            true = 0.1 + 0.8 * random.Random(a + b + chunk).random()
            rows.append(corun(f"{a}:{chunk}:2", f"{b}:{chunk}:2", true + rng.gauss(0, noise)))
    return rows


def test_two_calibrations_that_differ_by_noise_agree():
    found = analysis.agreement(grid_of(0.02, 1), grid_of(0.02, 2))
    assert found.cells == 27
    assert found.rank_correlation > 0.9
    assert found.mean_difference < 0.06


def test_agreement_is_held_against_the_bound_that_the_first_one_states():
    first, second = grid_of(0.02, 1), grid_of(0.02, 2)
    found = analysis.agreement(first, second)
    bound = analysis.stability(first).bound
    assert found.bound == bound
    assert f"which states at most {100 * bound:.1f}" in agreement_text(found)
    assert to_json(make_report("here", second, first))["agreement"]["bound"] == bound
    measured_once = [e for e in first if e.members[0] < e.members[1]]
    assert "which states no bound" in agreement_text(analysis.agreement(measured_once, second))


def test_two_calibrations_of_other_storage_do_not_agree():
    rows = grid_of(0.0, 1)
    rng = random.Random(5)
    other = [replace(e, together=(rng.random() * 1e8, 1e7)) for e in rows]
    assert analysis.agreement(rows, other).rank_correlation < 0.6


def test_a_calibration_of_which_nothing_counts_says_so():
    nothing = [replace(one, dropped="noise") for one in grid_of(0.01, 1)]
    assert stability_text(analysis.stability(nothing)) == (
        f"no co-run counts; {len(nothing)} were dropped"
    )
