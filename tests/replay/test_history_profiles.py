"""What the jobs of a trace do, from the logs in a history."""

from dataclasses import replace

import pytest

from sluice.classifier.made_history import made_history
from sluice.history_db.store import Store
from sluice.sim.accounting import trace_of_jobs
from sluice.sim.history_profiles import history_profiles, where_known
from sluice.sim.machine import one_pool
from sluice.sim.profiles import drawn_profiles, no_profiles
from sluice.sim.repairs import make_replayable
from sluice.sim.storage import storage_for

RUNS = 40


@pytest.fixture(scope="module")
def made():
    return list(made_history(RUNS, seed=3))


def work_of(made):
    return make_replayable(trace_of_jobs("made", [run.job for run in made]), one_pool(4096))


def profiles_of(store, work, otherwise=None):
    told, known = history_profiles(store, work)
    return where_known(known, told, otherwise or no_profiles(len(work.rows))), known


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path / "history.db", create=True) as store:
        yield store


def fill(store, made, *, with_accounting=True):
    store.add_logs([(run.log, run.profile, b"") for run in made])
    if with_accounting:
        store.upsert_jobs([run.job for run in made])


@pytest.mark.parametrize("with_accounting", [True, False])
def test_each_job_gets_the_profile_of_its_own_log(store, made, with_accounting):
    fill(store, made, with_accounting=with_accounting)
    work = work_of(made)
    profiles, known = profiles_of(store, work)
    assert known.all()
    by_id = {run.job.job_id: run for run in made}
    for row in range(len(work.rows)):
        run = by_id[int(work.trace.job_id[work.rows[row]])]
        kind = profiles.kinds[profiles.kind[row]]
        assert kind["pattern"] == run.profile.pattern
        assert kind["chunk_bytes"] == run.profile.numbers["chunk_bytes"]
        assert profiles.io_share[row] == run.profile.numbers.get("io_share", 0.0)


def test_jobs_without_a_log_are_as_in_what_is_given_for_them(store, made):
    fill(store, made[::2])
    work = work_of(made)
    otherwise = drawn_profiles(len(work.rows), heavy=0.5, seed=4)
    profiles, known = profiles_of(store, work, otherwise)
    assert known.sum() == RUNS / 2
    assert (profiles.kind[~known] == otherwise.kind[~known]).all()
    assert (profiles.io_share[~known] == otherwise.io_share[~known]).all()


def test_a_log_of_a_number_that_was_used_again_belongs_to_nobody(store, made):
    """Its job ran a year earlier than the one in the trace."""
    fill(store, made, with_accounting=False)
    year = 365 * 86400
    later = [
        replace(
            run,
            job=replace(
                run.job,
                submit=run.job.submit + year,
                start=run.job.start + year,
                end=run.job.end + year,
            ),
        )
        for run in made
    ]
    _, known = profiles_of(store, work_of(later))
    assert not known.any()


def test_profiles_of_a_history_become_loads_of_the_world(store, made):
    fill(store, made)
    work = work_of(made)
    profiles, _ = profiles_of(store, work)
    loads = profiles.loads(work.workload, storage_for(4096).configuration())
    busy = profiles.io_share > 0
    assert (loads["bursts"] > 0).tolist() == busy.tolist()
