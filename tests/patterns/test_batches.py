"""What a log says does not depend on the logs that it is named with."""

from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.patterns.profile import measured, read_profile, readings

DATA = Path(__file__).parents[1] / "data"
LOGS = sorted(DATA.glob("darshan/*.darshan")) + sorted(DATA.glob("programs/*.darshan"))[::8]


@settings(max_examples=10, deadline=None)
@given(st.lists(st.sampled_from(LOGS), min_size=2, max_size=40))
def test_a_log_has_the_same_profile_in_a_batch_as_alone(paths):
    """Bit for bit: every float has to be equal."""
    assert readings([measured(path) for path in paths]) == [read_profile(path) for path in paths]


def test_all_logs_together_say_what_each_says():
    together = readings([measured(path) for path in LOGS])
    assert together == [read_profile(path) for path in LOGS]
