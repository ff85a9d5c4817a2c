"""What is predicted at submission: sizes, confidence, change, and walking forward in time."""

import json
from dataclasses import replace

import core_calls
import numpy as np
import pytest
from click.testing import CliRunner
from finished import finished_job
from hypothesis import given, settings
from hypothesis import strategies as st
from made_backtest import by_situation
from made_history import KINDS, made_history

from sluice.cli.main import main
from sluice.history_db.records import (
    Decision,
    Job,
    Model,
    ObservedInterference,
    Profile,
    Run,
)
from sluice.history_db.store import Store
from sluice.interference.programs import MIB, Program
from sluice.interference.site_model import SiteModel
from sluice.policies import core
from sluice.policies.bundle import Bundle, name_of
from sluice.policies.record import decide
from sluice.prediction.applications import learn_applications
from sluice.prediction.backtest import walk
from sluice.prediction.expectation import expected, exponents
from sluice.prediction.hindsight import calibrate, corrected, predicted
from sluice.prediction.jobs import FinishedJob, finished_jobs, submission_of
from sluice.prediction.model_update import compare
from sluice.prediction.score import judge
from sluice.prediction.submission_features import Requested, Submissions, requested_on
from sluice.prediction.train import Past, bundle_of, fit_quickly

START = 1_700_000_000
DAY = 86400


def a_job(number: int, pattern: str = "owc", **changes) -> FinishedJob:
    numbers = {"chunk_bytes": 1e6, "write_bytes": 1e10, "io_share": 0.4, "rate": 1e9}
    numbers |= changes.pop("numbers", {})
    submit = changes.pop("submit", START + number * DAY // 4)
    profile = changes.pop("profile", Profile(pattern, 0.95, {pattern: 1.0}, numbers, 0.5))
    times = {"submit": submit, "start": submit + 60, "end": submit + 3600}
    return finished_job(profile, number=number, **times | changes)


def table_of(jobs):
    """The bundle of the application table alone."""
    return bundle_of(fit_quickly(jobs))


# What the user asked for


@pytest.mark.parametrize(
    ("line", "asked"),
    [
        ("sbatch -N 4 -n 128 -t 10 run.sh", Requested(4, 128)),
        ("sbatch --nodes=2-8 --ntasks=64 -c4 run.sh", Requested(2, 64, 4)),
        ("sbatch -J x -N2 --ntasks-per-node 16 run.sh -n 99", Requested(2, 32)),
        ("srun -n8 ./a.out -n 7", Requested(0, 8)),
        ("sbatch run.sh -n 4", None),
        ("sbatch -J 'cut of", None),
        ("", None),
    ],
)
def test_a_submit_line_says_what_was_asked_for(line, asked):
    assert requested_on(line) == asked


def a_run(job: Job) -> Run:
    made = next(made_history(1))
    return Run(1, made.log, made.profile, b"", job)


def test_what_the_plugin_saw_counts_more_than_line_and_accounting():
    job = replace(next(made_history(1)).job, nodes=7, tasks=7, submit_line="sbatch -n 64 x.sh")
    (by_line,) = finished_jobs([a_run(job)])
    assert (by_line.nodes, by_line.tasks) == (0, 64)
    seen = core.submission({"uid": 1, "name": "x", "nodes": 3, "script_signature": 9})
    record = decide(None, core.default_config(), seen, job.submit).bytes
    decision = Decision(1, 1, job.submit, job.cluster, 1, job.job_id, "key", record)
    (by_plugin,) = finished_jobs([a_run(job)], Submissions([decision]))
    assert (by_plugin.nodes, by_plugin.tasks, by_plugin.script_signature) == (3, 0, 9)
    later = Submissions([replace(decision, now=job.submit + 60)])
    assert finished_jobs([a_run(job)], later)[0].tasks == 64


@given(st.integers(0, 5000), st.integers(0, 5000))
def test_a_size_is_what_the_core_takes_it_for(nodes, tasks):
    job = a_job(1, nodes=nodes, tasks=tasks)
    assert job.size == core_calls.submission_size(submission_of(job))


# Scaling


def scaling_jobs(exponent: float, count: int = 24, noise: float = 0.1) -> list[FinishedJob]:
    random = np.random.default_rng(1)
    sizes = [2 ** (3 + i % 4) for i in range(count)]
    return [
        a_job(
            i,
            tasks=size,
            numbers={
                "write_bytes": 1e9 * size**exponent * 2 ** random.normal(0, noise),
                "chunk_bytes": 1e6 * 2 ** random.normal(0, noise),
            },
        )
        for i, size in enumerate(sizes, start=1)
    ]


def by_size(jobs: list[FinishedJob]) -> dict[str, float]:
    return exponents(jobs, np.ones(len(jobs)), np.array([job.size for job in jobs]))


@settings(deadline=None, max_examples=20)
@given(st.sampled_from([-1.0, -0.5, 0.5, 1.0, 2.0]))
def test_bytes_that_follow_the_size_are_found_to(exponent):
    found = by_size(scaling_jobs(exponent))
    assert found["write_bytes"] == pytest.approx(exponent, abs=0.1)
    assert "chunk_bytes" not in found


def test_a_trend_that_noise_could_have_made_is_not_believed():
    assert by_size(scaling_jobs(0.2, noise=2.0)) == {}
    assert by_size(scaling_jobs(1.0, count=5)) == {}


@pytest.mark.parametrize("tasks", [8, 24, 64, 100])
def test_the_core_scales_bytes_to_the_size_that_is_asked_for(tasks):
    found = table_of(scaling_jobs(1.0)).predict(submission_of(a_job(99, tasks=tasks)))
    assert found.profile.write_bytes == pytest.approx(1e9 * tasks, rel=0.2)
    assert found.profile.chunk_bytes == pytest.approx(1e6, rel=0.2)


def test_small_tests_and_large_production_are_told_apart():
    jobs = [a_job(i, "none" if i % 2 else "aw", tasks=4 if i % 2 else 512) for i in range(1, 41)]
    bundle = table_of(jobs)
    assert bundle.predict(submission_of(a_job(99, tasks=4))).profile.pattern == "none"
    assert bundle.predict(submission_of(a_job(99, tasks=512))).profile.pattern == "aw"
    evidence = {entry.application.label for entry in learn_applications(jobs)}
    assert "cavity of user 1000 at 4 processes" in evidence


# Change


def test_three_runs_that_do_something_new_are_a_change_and_one_is_an_accident():
    before = [a_job(i) for i in range(1, 60)]
    assert expected([*before, a_job(60, "aw")]).pattern == "owc"
    assert expected([*before, *(a_job(60 + i, "aw") for i in range(3))]).pattern == "aw"


# Confidence


def test_confidence_is_corrected_to_what_came_true():
    """An application that does one of two things at random must not be believed."""
    random = np.random.default_rng(3)
    jobs = [a_job(i, "owc" if random.random() < 0.7 else "aw") for i in range(1, 300)]
    curve = calibrate(jobs)["user_name"]
    said = [(curve.of(p), right) for kind, p, right in predicted(jobs) if kind == "user_name"]
    mean_said, share_right = np.mean(said, axis=0)
    assert mean_said == pytest.approx(share_right, abs=0.05)


def test_few_pairs_change_nothing():
    assert calibrate([a_job(i) for i in range(1, 15)]) == {}


@settings(deadline=None, max_examples=50)
@given(
    st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=20, max_size=60),
    st.floats(0, 1),
    st.floats(0, 1),
)
def test_a_correction_never_turns_the_order_and_is_never_certain(pairs, p, q):
    curve = corrected(np.array(pairs, dtype=float))
    low, high = sorted((p, q))
    assert 0 <= curve.of(low) <= curve.of(high) < 1


def test_what_was_never_said_stays_as_it_is():
    """That sure things came true is no reason to believe unsure ones."""
    curve = corrected(np.array([(0.92, 1.0)] * 500))
    assert curve.of(0.45) == pytest.approx(0.45)
    assert curve.of(0.92) > 0.95


def test_a_job_is_not_predicted_from_runs_that_had_not_ended():
    together = [a_job(i, submit=START) for i in range(1, 30)]
    assert predicted(together) == []


# Walking forward in time


@pytest.fixture(scope="module")
def walked():
    """A made-up history of a year, predicted from its middle on."""
    made = list(enumerate(made_history(1600, seed=7), start=1))
    jobs = finished_jobs(Run(i, run.log, run.profile, b"", run.job) for i, run in made)
    items, _ = walk(Past(jobs, []), skip=0.5)
    return jobs, items, {i: run.situation for i, run in made}


def test_every_job_after_the_first_ones_is_predicted_once(walked):
    jobs, items, _ = walked
    assert len(items) == len(jobs) // 2
    assert len({item.job.logs for item in items}) == len(items)


def test_a_site_is_predicted_well_and_honestly(walked):
    jobs, items, _ = walked
    score = judge(items, jobs)
    assert score.accuracy > score.baseline_accuracy + 0.3
    assert score.accuracy_answered > 0.9
    assert score.answered > 0.5
    assert score.calibration_error < 0.1
    assert score.chunk_within_2 > 0.85


def test_what_nobody_ever_ran_is_left_alone(walked):
    jobs, items, situation = walked
    new = [item for item in items if situation[item.job.logs[0]] == "new: run 1"]
    any_ = [item for item in items if situation[item.job.logs[0]] == "one name, many programs"]
    assert new
    assert any_
    assert judge([*new, *any_], jobs).answered < 0.2


def test_a_made_history_has_every_kind_and_is_the_same_again():
    first = [(run.situation, run.job, run.profile) for run in made_history(3000, seed=5)]
    assert first == [(run.situation, run.job, run.profile) for run in made_history(3000, seed=5)]
    situations = {situation for situation, _, _ in first}
    assert {"steady", "scaling", "growing", "renamed: later", "new: run 1"} <= situations
    assert sum(KINDS.values()) == pytest.approx(1)


def test_backtest_shows_where_prediction_breaks():
    found = by_situation(400)
    assert sum(score.jobs for score in found.values()) == 280


# A new model against the one in use


def model_in_use(jobs: list[FinishedJob]) -> Model:
    model = fit_quickly(jobs)
    until = max(job.end for job in jobs)
    return Model(1, until, {}, replace(model, metrics={"until": until}).to_bytes())


def test_a_model_that_learned_of_a_change_replaces_the_old_one():
    old = [a_job(i) for i in range(1, 60)]
    new = [a_job(i, "aw") for i in range(60, 140)]
    comparison = compare(model_in_use(old), [*old, *new])
    assert comparison is not None
    assert comparison.new_brier < comparison.old_brier
    assert not comparison.keeps_old


def test_a_model_that_learned_rubbish_is_dropped():
    """A stretch of wrongly read runs between good ones."""
    old = [a_job(i) for i in range(1, 60)]
    rubbish = [a_job(i, "aw", numbers={"chunk_bytes": 1.0}) for i in range(60, 100)]
    comparison = compare(model_in_use(old), [*old, *rubbish, *(a_job(i) for i in range(100, 140))])
    assert comparison is not None
    assert comparison.keeps_old


def test_with_few_new_runs_nothing_is_compared():
    old = [a_job(i) for i in range(1, 60)]
    assert compare(model_in_use(old), [*old, *(a_job(i) for i in range(60, 70))]) is None


@pytest.fixture
def site(tmp_path):
    """A history of 60 runs with a model in use, and how to run sluice there."""
    with Store(tmp_path / "history.db", create=True) as store:
        add(store, made_history(60, seed=3))
    (tmp_path / "sluice.conf").write_text(
        f"Bundle={tmp_path}/model.bundle\nHistory={tmp_path}/history.db\n"
    )

    def run(*arguments: str):
        environment = {"SLUICE_CONF": f"{tmp_path}/sluice.conf", "SLUICE_HISTORY": None}
        result = CliRunner().invoke(main, arguments, env=environment)
        assert result.exit_code == 0, result.output
        return result.stdout

    run("model", "train", "--publish")
    run.history = tmp_path / "history.db"
    return run


def add(store: Store, made) -> None:
    made = list(made)
    store.jobs.upsert_jobs(run.job for run in made)
    store.runs.add_logs([(run.log, run.profile, b"") for run in made])
    store.jobs.link_logs()


def test_a_worse_model_is_dropped_unless_it_is_forced(site):
    """Between runs like those before, the pattern of forty was read wrongly."""
    more = list(made_history(200, seed=3))
    shift = 400 * DAY
    steady = more[0]
    later = []
    for i in range(120):
        submit = steady.job.submit + shift + i * 7200
        times = {"submit": submit, "start": submit + 60, "end": submit + 600}
        job = replace(steady.job, job_id=900_000 + i, **times)
        log = replace(
            steady.log,
            digest=f"{i:016}".encode(),
            path=f"/l/{i}",
            jobid=job.job_id,
            start=job.start,
            end=job.end,
        )
        pattern = "metadata" if 30 <= i < 60 else steady.profile.pattern
        later.append(
            replace(steady, job=job, log=log, profile=replace(steady.profile, pattern=pattern))
        )
    with Store(site.history) as store:
        add(store, later[:30])
    site("model", "train", "--publish")
    with Store(site.history) as store:
        add(store, later[30:])
    found = json.loads(site("model", "train", "--publish", "--json"))
    assert found["comparison"]["new_brier"] > found["comparison"]["old_brier"]
    assert (found["is_new"], found["model"], found["bundle"]["model"]) == (False, 2, 2)
    assert "kept model 2, the new one is worse" in site("model", "train")
    assert json.loads(site("model", "train", "--force", "--json"))["is_new"]


def test_without_a_new_run_there_is_no_new_model_and_no_new_bundle(site):
    bundle = site.history.parent / "model.bundle"
    before = bundle.read_bytes()
    found = json.loads(site("model", "train", "--publish", "--json"))
    assert (found["is_new"], found["model"]) == (False, 1)
    assert "no run is new since it was trained" in site("model", "train")
    bundle.unlink()
    site("model", "publish")
    assert bundle.read_bytes() == before
    with Store(site.history) as store:
        assert (store.counts().models, store.counts().bundles) == (1, 1)


def test_one_command_goes_back_to_the_model_before(site):
    def in_use() -> list[bool]:
        return [model["in_use"] for model in json.loads(site("model", "list", "--json"))["models"]]

    with Store(site.history) as store:
        add(store, list(made_history(61, seed=3))[60:])
    site("model", "train", "--publish")
    assert in_use() == [False, True]
    metrics = json.loads(site("model", "list", "--json"))["models"][1]["metrics"]
    assert metrics["since"] < metrics["until"]
    site("model", "publish", "--rollback")
    assert in_use() == [True, False]
    assert "→ 1" in site("model", "list")
    site("model", "publish", "2")
    assert in_use() == [False, True]


def test_publishing_says_what_the_interference_model_rests_on(site):
    site("model", "train")
    assert "interference: from published figures" in site("model", "publish")
    nothing = dict.fromkeys(("measurements", "production", "busy_runs", "busy_reads", "reads"), 0)
    assert json.loads(site("model", "publish", "--json"))["interference_from"] == nothing


def test_what_production_showed_reaches_the_bundle(site):
    """`post` flushes alongside `namd`, which streams, and hardly loses, unlike in the papers."""
    bundle = site.history.parent / "model.bundle"

    def kept() -> float:
        model = SiteModel(Bundle.read(bundle).interference.to_dict(), 0.0)
        return model.share_kept(Program("owc", MIB, 16), [Program("aw", MIB, 16)])

    published = kept()
    with Store(site.history) as store:
        store.interference.put_observed_interference(
            [ObservedInterference("post", "namd", 1, 0.95, 0.05, 0.3, 40, 80, 1, 2)]
        )
    said = site("model", "publish")
    assert "from published figures and 1 pair of applications seen in production" in said
    assert kept() > 1.2 * published
    named = json.loads(site("site", "assess", "--json"))["interference_model"]
    with Store(site.history) as store:
        latest = store.models.publications()[-1]
    assert named["name"] == name_of(latest.path, latest.published_at)
    assert {name: count for name, count in named["basis"].items() if count} == {"production": 1}


def test_there_may_be_nothing_to_go_back_to(site):
    for arguments, says in (
        (["model", "publish", "--rollback"], "no other model"),
        (["model", "publish", "77"], "no model 77"),
    ):
        environment = {"SLUICE_CONF": str(site.history.parent / "sluice.conf")}
        result = CliRunner().invoke(main, arguments, env=environment)
        assert result.exit_code == 1
        assert says in result.output
