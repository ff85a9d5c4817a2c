"""What the jobs of a trace do, from the logs in a history."""

import json
from dataclasses import replace

import numpy as np
import pytest
from click.testing import CliRunner
from made_history import made_history

from sluice.cli.main import main
from sluice.history_db.store import Store
from sluice.prediction.jobs import finished_jobs
from sluice.prediction.solo_estimate import undisturbed
from sluice.sim.engine import TraceError
from sluice.sim.storage.mean_field import storage_for
from sluice.sim.trace.lublin import generate
from sluice.sim.trace.machine import one_pool
from sluice.sim.trace.profiles import (
    drawn_profiles,
    history_profiles,
    measured_profiles,
    no_profiles,
    where_known,
)
from sluice.sim.trace.repairs import make_replayable
from sluice.sim.trace.sources import trace_of_jobs

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
    store.runs.add_logs([(run.log, run.profile, b"") for run in made])
    if with_accounting:
        store.jobs.upsert_jobs([run.job for run in made])


@pytest.mark.parametrize("with_accounting", [True, False])
def test_each_job_gets_the_profile_of_its_own_log(store, made, with_accounting):
    fill(store, made, with_accounting=with_accounting)
    work = work_of(made)
    profiles, known = profiles_of(store, work)
    assert known.all()
    by_id = {run.job.job_id: run for run in made}
    alone = {job.start: job.profile for job in undisturbed(finished_jobs(store.runs.runs()))}
    for row in range(len(work.rows)):
        run = by_id[int(work.trace.job_id[work.rows[row]])]
        kind = profiles.kinds[profiles.kind[row]]
        assert kind["pattern"] == run.profile.pattern
        assert kind["chunk_bytes"] == run.profile.numbers["chunk_bytes"]
        assert profiles.io_share[row] == alone[run.log.start].numbers.get("io_share", 0.0)


def test_jobs_without_a_log_are_as_in_what_is_given_for_them(store, made):
    fill(store, made[::2])
    work = work_of(made)
    otherwise = drawn_profiles(work.workload, heavy=0.5, seed=4)
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


def test_profiles_of_a_history_become_loads_of_the_storage_model(store, made):
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
        store.jobs.upsert_jobs([run.job for run in made])
        store.jobs.link_logs()
        store.jobs.update_coverage()
    arguments = ["site", "replay", str(path), "--policy", "two-groups", *given]
    covered, said = CliRunner().invoke(main, arguments).stdout.splitlines()[:2]
    others = "are drawn, 50% of them I/O-heavy (mix `checkpointing`)" if given else "do no I/O"
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


def test_a_measured_mix_draws_runs_of_about_the_same_size(store, made):
    """In proportion to the nodes, the same ones for the same seed."""
    fill(store, made)
    store.jobs.link_logs()
    work = make_replayable(generate(400, slots=4096, load=0.7, seed=2), one_pool(4096))
    drawn = measured_profiles(store, work.workload, seed=1)
    alone = undisturbed(finished_jobs(store.runs.runs()))
    shares = {run.profile.numbers.get("io_share", 0.0) for run in alone}
    assert set(drawn.io_share.tolist()) <= shares
    assert len(set(drawn.kind.tolist())) > 1
    octaves = np.rint(np.log2([run.job.nodes for run in made]))
    nodes = np.array(drawn.nodes)[drawn.kind]
    for slots, of_run in zip(work.workload.jobs["slots"], nodes, strict=True):
        apart = np.abs(octaves - np.rint(np.log2(slots)))
        assert abs(np.rint(np.log2(of_run)) - np.rint(np.log2(slots))) == apart.min()
    assert drawn.times(work.workload) == pytest.approx(work.workload.jobs["slots"] / nodes)
    again, other = (measured_profiles(store, work.workload, seed=seed) for seed in (1, 2))
    assert np.array_equal(again.kind, drawn.kind)
    assert not np.array_equal(other.kind, drawn.kind)


def test_an_empty_history_measures_no_mix(store, made):
    with pytest.raises(TraceError, match="no runs"):
        measured_profiles(store, work_of(made).workload)


def test_a_replay_draws_from_the_history_that_it_is_given(tmp_path, made):
    path = tmp_path / "history.db"
    with Store(path, create=True) as store:
        fill(store, made)
        store.jobs.link_logs()
    scenario = tmp_path / "scenario.toml"
    scenario.write_text("[mix]\nname = 'measured'\n")
    arguments = ["site", "replay", "--generate", "200", "--scenario", str(scenario)]
    result = CliRunner().invoke(main, [*arguments, "--profiles", str(path)])
    assert result.exit_code == 0, result.output
    assert "all others are drawn from the history's runs." in result.stdout
    for wrong, why in (
        ([], "give --profiles"),
        (["--profiles", str(path), "--io-share", "0.3"], "leave out --io-share"),
    ):
        refused = CliRunner().invoke(main, [*arguments, *wrong])
        assert refused.exit_code == 1
        assert why in refused.stderr
