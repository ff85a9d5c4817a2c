"""The default interference model says what the papers say (Shah et al., S1 to S7)."""

import math

import pytest
from published_figures import LUSTRE, MIB, Program, fitted_interference

from sluice.policies import core
from sluice.policies.structs import View, new

MODEL = View(new("struct sluice_interference"))
POLICY = core.default_config().policy
POINTS = 0.10  # of rho: reading a plot costs +-0.05, a fit of five numbers as much again


def pressure(program, model=MODEL):
    """A program of the paper as the core sees it: by its physical numbers alone."""
    chunk = program.chunk_bytes
    creates, flushes = program.pattern == "owc", program.pattern != "aw"
    profile = {
        "pattern": program.pattern,
        "share": {program.pattern: 1.0},
        "chunk_bytes": chunk,
        "nprocs": program.processes,
        "write_bytes": 1e13,
        "bytes_per_flush": chunk if flushes else 1e13,
        "unflushed_bytes": 0.0 if flushes else 1e13 / program.processes,
        "creates_per_mib": MIB / chunk if creates else 0.0,
        "metadata_rate": 0.0,
        "io_share": 1.0,
    }
    return core.pressure_of(profile, model, POLICY)


def kept(probe, signal, model=MODEL):
    """What the probe keeps of its rate alongside the signal."""
    return core.rate_share(pressure(probe, model), [pressure(signal, model)], model)


def test_the_defaults_of_the_core_are_those_that_the_figures_give():
    fitted = fitted_interference()
    assert fitted == pytest.approx({name: core.default_interference()[name] for name in fitted})
    of_no_figure = {"read_level", "hot_load", "hot_write_loss", "hot_read_loss"}
    assert set(core.default_interference()) - set(fitted) == of_no_figure


@pytest.mark.parametrize("figure", LUSTRE, ids=lambda figure: figure.source)
def test_the_core_reproduces_the_published_rates(figure):
    """Through the C core, from physical numbers, not from the pattern's name."""
    assert kept(figure.probe, figure.signal) == pytest.approx(figure.probe_rho, abs=POINTS)
    if figure.signal_rho is not None:
        assert kept(figure.signal, figure.probe) == pytest.approx(figure.signal_rho, abs=POINTS)


def test_at_1_mib_appending_hurts_most_and_suffers_least():
    """S1: the ordering that the whole idea rests on."""
    owc, ws, aw = (Program(name, MIB) for name in ("owc", "ws", "aw"))
    assert kept(owc, aw) < kept(owc, ws)
    assert kept(owc, aw) < kept(owc, owc)
    assert kept(aw, owc) > kept(ws, owc)
    assert kept(aw, owc) > 0.8


def test_the_power_of_appending_falls_with_the_chunk():
    """S3: at 256 MiB rewriting takes most from both others."""
    kept_alongside_aw = [
        kept(Program("owc", c), Program("aw", c)) for c in (MIB, 16 * MIB, 256 * MIB)
    ]
    assert kept_alongside_aw == sorted(kept_alongside_aw)
    for victim in ("owc", "aw"):
        big = Program(victim, 256 * MIB)
        assert kept(big, Program("ws", 256 * MIB)) < 0.5
        assert kept(Program("ws", 256 * MIB), big) > 0.5


def test_rewriting_and_appending_break_even_near_16_mib():
    """S4: below it appending wins, above it rewriting does."""

    def lead(chunk):
        ws, aw = Program("ws", chunk), Program("aw", chunk)
        return kept(ws, aw) - kept(aw, ws)

    assert lead(2 * MIB) < 0 < lead(128 * MIB)


@pytest.mark.parametrize(("victim", "published"), [("owc", 256), ("ws", 16)])
def test_break_even_chunks_follow_from_figures_of_other_co_runs(victim, published):
    """S4 from S1 to S3 alone: 1 MiB, and what WS takes at 256 MiB; to one doubling."""
    others = [figure for figure in LUSTRE if figure.source[:2] in {"S1", "S2", "S3"}]
    model = View(new("struct sluice_interference", fitted_interference(others)))

    def lead(level):
        """How much more the victim keeps alongside AW than AW alongside it."""
        one, aw = (Program(name, MIB * 2**level) for name in (victim, "aw"))
        return kept(one, aw, model) - kept(aw, one, model)

    even = math.log2(published)
    assert lead(even - 1) < 0 < lead(even + 1)


def test_pattern_weighs_more_than_the_number_of_processes():
    """S6: 256 creating processes lose more to 64 appending ones than to 256 like them."""
    owc = Program("owc", MIB)
    assert kept(owc, Program("aw", MIB, 64)) < kept(owc, owc)


@pytest.mark.parametrize("burst", [6.0, 12.0, 18.0])
def test_a_periodic_signal_gives_the_same_ordering_weaker(burst):
    """S5: of a period of 24 s, active for a part of it; every probe alongside every signal."""
    programs = [Program(name, MIB) for name in ("owc", "ws", "aw")]

    def slowed(probe, signal):
        steady = pressure(signal)
        parts = {"burst": burst, "period": 24.0, "io_share": burst / 24.0}
        periodic = View(new("struct sluice_pressure", steady.to_dict() | parts))
        alone = pressure(probe)
        return tuple(core.io_factor(alone, [other], MODEL) for other in (steady, periodic))

    pairs = [(probe, signal) for probe in programs for signal in programs]
    found = {pair: slowed(*pair) for pair in pairs}
    assert all(1 < weaker < steady for steady, weaker in found.values())
    by_steady = sorted(pairs, key=lambda pair: round(found[pair][0], 9))
    assert by_steady == sorted(pairs, key=lambda pair: round(found[pair][1], 9))
