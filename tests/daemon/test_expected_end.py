"""When a running job is expected to end."""

from __future__ import annotations

from core_cases import NOW
from hypothesis import given
from hypothesis import strategies as st
from waiting_jobs import job

from sluice.slurm.gates.snapshot import expected_end

DAY = 86400  # seconds: so long a job without any limit is taken to go on


@given(st.floats(0.0, 0.999), st.floats(0.1, 1e6))
def test_a_job_is_not_taken_for_ended_before_it_can_be(fraction, usual):
    """Slurm tells the second in which it started; it may have been at that second's end."""
    running = job(state="RUNNING", start=NOW)
    end = expected_end(running, usual, NOW + 1)
    assert NOW + fraction + usual <= end or end == NOW + 1 + DAY


def test_no_job_is_expected_beyond_its_limit():
    assert expected_end(job(start=NOW, end=NOW + 60), 100.0, NOW) == NOW + 60
    assert expected_end(job(start=NOW, end=NOW + 600), 100.0, NOW) == NOW + 101


def test_a_job_that_outlives_its_earlier_runs_may_go_on_to_its_limit():
    late = NOW + 200
    assert expected_end(job(start=NOW, end=NOW + 600), 100.0, late) == NOW + 600
    assert expected_end(job(start=NOW, end=None), 100.0, late) == late + DAY
    assert expected_end(job(start=NOW, end=NOW + 600), None, late) == NOW + 600
