"""What the jobs of a trace do, from the logs in a history."""

import json
from dataclasses import replace

import pytest
from click.testing import CliRunner

from sluice.cli.main import main
from sluice.history_db.store import Store
from sluice.prediction.made_history import made_history
from sluice.sim.storage.storage import storage_for
from sluice.sim.trace.accounting import trace_of_jobs
from sluice.sim.trace.history_profiles import history_profiles, where_known
from sluice.sim.trace.machine import one_pool
from sluice.sim.trace.profiles import drawn_profiles, no_profiles
from sluice.sim.trace.repairs import make_replayable

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


@pytest.mark.parametrize("given", [[], ["--io-share", "0.5"]])
def test_a_history_is_replayed_with_the_profiles_that_it_holds(tmp_path, made, given):
    """The command says how many jobs the logs tell of, and what the others are taken to do."""
    path = tmp_path / "history.db"
    with Store(path, create=True) as store:
        fill(store, made[::2])
        store.upsert_jobs([run.job for run in made])
        store.link_logs()
        store.update_coverage()
    arguments = ["site", "replay", str(path), "--policy", "two-groups", *given]
    covered, said = CliRunner().invoke(main, arguments).stdout.splitlines()[:2]
    others = "are drawn, 50% of them I/O-heavy" if given else "do no I/O"
    assert covered.startswith("coverage: logs of 50% of the jobs, ")
    assert CliRunner().invoke(main, ["site", "replay", str(path)]).stdout.startswith(covered)
    assert said == f"Logs tell the I/O of 50.0% of the jobs; all others {others}."
    document = json.loads(CliRunner().invoke(main, [*arguments, "--json"]).stdout)
    assert list(document["inputs"]) == [str(path)]
    assert list(document)[:2] == ["version", "coverage"]
    assert document["coverage"]["logged_jobs"] == len(made[::2])


def test_another_trace_takes_its_profiles_from_a_history_by_name(tmp_path, made):
    path, trace = tmp_path / "history.db", tmp_path / "jobs.csv"
    with Store(path, create=True) as store:
        fill(store, made)
    rows = [f"{j.job_id},{j.submit},{j.start},{j.end},{j.nodes}" for j in (r.job for r in made)]
    trace.write_text("job,submit,start,end,slots\n" + "\n".join(rows))
    arguments = ["site", "replay", str(trace), "--profiles", str(path), "--policy", "two-groups"]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines()[1].startswith("Logs tell the I/O of 100.0% of the jobs;")
