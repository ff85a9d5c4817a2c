"""Against a year of Edison: what the law says that a background costs, and what jobs kept."""

import numpy as np
import pytest
from production_bench import EDISON, error, halves, law, own_fit, published, ratio, read

from sluice.interference.hot_targets import LOSSES
from sluice.policies import core

READS = pytest.mark.parametrize("reads", [False, True], ids=["writes", "reads"])
POINTS = 0.10


@pytest.fixture(scope="module")
def jobs():
    return read(EDISON)


@READS
def test_the_law_is_nearer_to_what_loaded_jobs_keep_than_no_effect(jobs, reads):
    loaded = jobs[(jobs.reads == reads) & jobs.loaded]
    said = published(loaded)
    _, _, highest = ratio(loaded, said)
    assert highest < 1
    kept = np.exp(np.median(loaded.kept))
    assert np.exp(np.median(said)) == pytest.approx(kept, abs=POINTS)


@READS
def test_a_fit_to_the_first_half_is_better_on_the_second(jobs, reads):
    first, second = halves(jobs)
    loaded = second[(second.reads == reads) & second.loaded]
    own = law(**own_fit(first))(loaded)
    assert error(loaded, own) < error(loaded, published(loaded))


@pytest.mark.parametrize("name", LOSSES)
def test_the_published_losses_are_what_the_milder_half_gives(jobs, name):
    milder = min(own_fit(half)[name] for half in halves(jobs))
    assert milder - 0.1 <= core.default_interference()[name] <= milder


@READS
def test_quiet_jobs_lose_nothing(jobs, reads):
    quiet = jobs[(jobs.reads == reads) & (jobs.load < 0.01)]
    assert np.median(published(quiet)) == pytest.approx(0.0, abs=0.01)


def test_without_busy_runs_the_published_losses_hold(jobs):
    quiet = jobs[jobs.load < 0.01]
    assert own_fit(quiet) == {name: core.default_interference()[name] for name in LOSSES}
