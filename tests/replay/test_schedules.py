"""The engine makes the schedules that docs/reference/replay.md states."""

import copy

import pytest
from brute_force import BruteForce
from cases import cases, horizon, workload
from hypothesis import HealthCheck, given, settings

from sluice.sim import engine

COLUMNS = ("state", "eligible", "start", "end", "lost", "restarts")


def by_engine(case):
    rows = engine.run(workload(case), case.settings)
    return [
        (engine.STATES[row["state"]], *(float(row[name]) for name in COLUMNS[1:])) for row in rows
    ]


def by_brute_force(case):
    jobs = BruteForce(copy.deepcopy(case)).run(horizon(case))
    return [(job.state, *(float(getattr(job, name)) for name in COLUMNS[1:])) for job in jobs]


def check(case):
    assert by_engine(case) == by_brute_force(case)


@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(cases())
def test_the_engine_and_the_brute_force_scheduler_make_equal_schedules(case):
    check(case)


@pytest.mark.acceptance
@settings(max_examples=10_000, deadline=None, suppress_health_check=list(HealthCheck))
@given(cases())
def test_they_do_so_in_ten_thousand_random_cases(case):
    check(case)
