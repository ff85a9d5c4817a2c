"""What the lab learns of its programs is what was measured."""

import math

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from measured_programs import STREAM, VICTIM, interference

from sluice.policies import core
from sluice.policies.structs import View, new

POLICY = core.parse_config("policy", b"Lane=all Targets=1 Bandwidth=100000000\n").policy
PROCESSES = 2.0


def pressures(model: View, demand: float) -> tuple[View, View]:
    """The two programs as the core sees them; the stream fills the targets."""
    common = {"chunk_bytes": 2.0**20, "nprocs": PROCESSES, "io_share": 1.0}
    victim = {"pattern": VICTIM.pattern, "creates_per_mib": 1.0, "bytes_per_flush": 2.0**20}
    stream = {"pattern": STREAM.pattern, "creates_per_mib": 0.0, "bytes_per_flush": 2.0**60}
    return (
        core.pressure_of(common | victim | {"rate": demand * 1e8}, model, POLICY),
        core.pressure_of(common | stream | {"rate": 1e8}, model, POLICY),
    )


@given(
    st.lists(st.floats(0.02, 0.9), min_size=1, max_size=5),
    st.floats(0.3, 1.0),
    st.floats(0.2, 1.0),
)
def test_the_model_gives_back_what_each_program_kept(kept, stream_kept, demand):
    model = View(
        new(
            "struct sluice_interference",
            interference(kept, stream_kept, victim_demand=demand),
        )
    )
    mean = math.exp(math.fsum(map(math.log, kept)) / len(kept))
    victim, stream = pressures(model, demand)
    assume(mean * demand + stream_kept >= 1)  # else something else held them up
    assert core.rate_share(victim, [stream], model) == pytest.approx(mean, rel=1e-3)
    assert core.rate_share(stream, [victim], model) == pytest.approx(stream_kept, rel=1e-3)


def test_bursts_that_differ_make_the_model_less_certain():
    steady = interference([0.05, 0.05], 1.0, victim_demand=0.6)
    unsteady = interference([0.02, 0.125], 1.0, victim_demand=0.6)
    assert steady["log_sd"] < unsteady["log_sd"]
    assert steady["stream_level"] == pytest.approx(unsteady["stream_level"])
