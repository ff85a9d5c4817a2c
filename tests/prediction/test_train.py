"""What is learned from finished jobs, how honest it is, and what the controller gets of it."""

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from counted import count_what_logs_claim
from finished import finished_job
from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.cli.main import main
from sluice.cli.predict import Minutes
from sluice.history_db.records import Job, Log, Profile, Run, program_name
from sluice.history_db.store import Store
from sluice.policies import core
from sluice.policies.bundle import Bundle
from sluice.prediction.applications import learn_applications
from sluice.prediction.expectation import expected
from sluice.prediction.jobs import FinishedJob, finished_jobs, submission_of
from sluice.prediction.publication import publish
from sluice.prediction.train import (
    EmptyHistoryError,
    TrainedModel,
    pack,
    past_of,
)

DATA = Path(__file__).parents[1] / "data" / "darshan"
POLICY = core.default_config().policy


def a_profile(pattern: str = "owc", confidence: float = 0.95, **numbers: float) -> Profile:
    values = {"chunk_bytes": 1e6, "nprocs": 4.0, "write_bytes": 1e10, "io_share": 0.4}
    return Profile(pattern, confidence, {pattern: 1.0}, values | numbers, 0.5)


def a_job(number: int = 1, **changes) -> FinishedJob:
    changes = {"start": 1_700_000_000 + 3600 * number, "profile": a_profile()} | changes
    return finished_job(number=number, **changes)


def model_of(jobs: list[FinishedJob]) -> TrainedModel:
    return TrainedModel(learn_applications(jobs), {})


def bundle_of(jobs: list[FinishedJob]) -> Bundle:
    return Bundle.parse(pack(model_of(jobs), policy=POLICY, created=1, text="{}"))


def many_jobs(count: int = 240) -> list[FinishedJob]:
    """Users with applications whose name says what they do."""
    random = np.random.default_rng(1)
    patterns = ["owc", "ws", "aw", "none"]
    jobs = []
    for i in range(count):
        application = int(random.integers(24))
        pattern = patterns[application % 4]
        jobs.append(
            a_job(
                i + 1,
                uid=1000 + application // 4,
                name=f"{pattern}solver{chr(97 + application)}_{i}",
                account=f"acct{application // 8}",
                nodes=1 + application % 5,
                profile=a_profile(pattern, chunk_bytes=1024.0 * 4 ** (application % 4)),
            )
        )
    return jobs


# Logs -> jobs


def a_run(log_id: int, *, start=1000, end=1100, nprocs=1, job=None, **profile) -> Run:
    log = Log(
        log_id.to_bytes(16, "big"), f"/l/{log_id}", 1, 1, None, 7, 1000, "/apps/a.out -x",
        start, end, nprocs, partial=False, format="3.41",
    )  # fmt: skip
    return Run(log_id, log, a_profile(**profile), b"", job)


def test_logs_of_one_job_are_one_run_of_it():
    """A program without MPI leaves a log for each process."""
    runs = [
        a_run(1, write_bytes=3e9, chunk_bytes=1e6),
        a_run(2, write_bytes=1e9, chunk_bytes=1e4),
        a_run(3, start=2000, end=2500, nprocs=2, write_bytes=0.0),
    ]
    (job,) = finished_jobs(runs)
    assert job.logs == (1, 2, 3)
    assert job.name == "a.out"
    assert job.profile.numbers["write_bytes"] == 4e9
    assert job.profile.numbers["chunk_bytes"] == pytest.approx(752_500, rel=1e-3)
    assert job.profile.numbers["nprocs"] == 2
    assert job.profile.numbers["runtime_seconds"] == 1500


def test_accounting_says_what_a_job_was_called():
    job = Job(
        "c", 7, 900, 0, "cavity", "alice", None, "phys", "main", None, 4, 16, 64, 90, 990, 1200,
        None, None, None, None, "sacct",
    )  # fmt: skip
    (found,) = finished_jobs([a_run(1, job=job)])
    assert (found.name, found.account, found.nodes) == ("cavity", "phys", 4)
    assert (found.tasks, found.cpus_per_task, found.time_limit) == (16, 4, 90)
    assert found.uid == 1000


@pytest.mark.parametrize(
    ("exe", "name"),
    [
        ("/apps/ior/bin/ior -a POSIX", "ior"),
        ("/usr/bin/python3 -u /home/x/md.py 7", "md.py"),
        ("python3.11 train.py", "train.py"),
        ("python3", "python3"),
        ("", ""),
    ],
)
def test_without_accounting_the_program_gives_the_name(exe, name):
    assert program_name(exe) == name


# The application table


def entry(jobs: list[FinishedJob], evidence: str):
    (found,) = [
        learned for learned in learn_applications(jobs) if learned.application.evidence == evidence
    ]
    return found


@pytest.mark.parametrize("runs", [1, 2, 3, 5, 20])
def test_confidence_grows_with_the_runs_and_is_never_certain(runs):
    jobs = [a_job(i + 1) for i in range(runs)]
    confidence = entry(jobs, "user_name").profile.confidence
    assert confidence < runs / (runs + 1)
    if runs > 1:
        assert confidence > entry(jobs[1:], "user_name").profile.confidence


def test_one_run_is_not_enough_to_act_on_and_five_are():
    assert entry([a_job()], "user_name").profile.confidence < POLICY.min_confidence
    five = [a_job(i) for i in range(1, 6)]
    assert entry(five, "user_name").profile.confidence > POLICY.min_confidence


def test_runs_that_disagree_are_not_believed():
    jobs = [a_job(i, profile=a_profile("owc" if i % 2 else "aw")) for i in range(1, 21)]
    assert entry(jobs, "user_name").profile.confidence < 0.5


def test_recent_runs_count_more():
    old = [a_job(i, profile=a_profile("owc", chunk_bytes=1e3)) for i in range(1, 8)]
    year = 365 * 86400
    new = [
        a_job(i, start=a_job(i).start + year, profile=a_profile("aw", chunk_bytes=1e6))
        for i in range(8, 14)
    ]
    found = expected([*old, *new])
    assert found.pattern == "aw"
    assert found.numbers["chunk_bytes"] == 1e6


def test_a_number_that_few_runs_know_is_not_told():
    jobs = [a_job(i) for i in range(1, 6)]
    jobs[0] = replace(jobs[0], profile=a_profile(period_seconds=5.0))
    assert "period_seconds" not in expected(jobs).numbers


def test_a_name_that_one_user_uses_says_less_about_others():
    alone = [a_job(i) for i in range(1, 13)]
    several = [a_job(i, uid=1000 + i % 3) for i in range(1, 13)]
    assert entry(alone, "name").profile.confidence < POLICY.min_confidence
    assert entry(several, "name").profile.confidence > POLICY.min_confidence


def test_numbers_in_a_name_make_no_other_application():
    jobs = [a_job(i, name=f"run_{i:04}") for i in range(1, 6)]
    assert entry(jobs, "user_name").application.runs == 5


def test_a_script_is_known_whatever_the_job_is_called():
    jobs = [a_job(i, name="abcde"[i % 5], script_signature=99) for i in range(1, 7)]
    assert entry(jobs, "user_script").application.runs == 6


def test_runs_that_differ_widen_the_uncertainty():
    alike = [a_job(i) for i in range(1, 11)]
    apart = [a_job(i, profile=a_profile(chunk_bytes=1e4 * 4.0**i)) for i in range(1, 11)]
    assert entry(alike, "user_name").profile.log_sd < entry(apart, "user_name").profile.log_sd


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["owc", "ws", "aw", "unknown"]),
            st.floats(0, 1),
            st.integers(0, 10**8),
            st.sampled_from(["a", "b", "c"]),
            st.integers(1, 3),
        ),
        min_size=1,
        max_size=25,
    )
)
def test_every_table_is_one_that_the_core_accepts(rows):
    jobs = [
        a_job(i + 1, start=start, name=name, uid=uid, profile=a_profile(pattern, confidence))
        for i, (pattern, confidence, start, name, uid) in enumerate(rows)
    ]
    table = learn_applications(jobs)
    bundle = bundle_of(jobs[:5])
    assert bundle.application_count <= len(table)
    for learned in table:
        assert 0 <= learned.profile.confidence < 1
        assert learned.profile.pattern != "unknown" or learned.profile.confidence == 0


# Through the core


def test_the_core_knows_a_job_that_ran_before():
    bundle = bundle_of(many_jobs())
    job = many_jobs()[0]
    found = bundle.predict(submission_of(job))
    assert found.evidence == "user_name"
    assert found.profile.pattern == job.profile.pattern
    assert found.profile.confidence > POLICY.min_confidence


@pytest.mark.parametrize(
    "stranger",
    [
        {"name": "qzxv-unheard-of", "uid": 424242, "account": "nowhere", "nodes": 3},
        {"name": "", "uid": 424242},
        {"name": "train_llm", "uid": 999999, "account": "ml", "nodes": 64, "tasks": 512},
    ],
    ids=["nothing known", "nothing given", "large"],
)
def test_the_core_abstains_on_what_resembles_nothing(stranger):
    found = bundle_of(many_jobs()).predict(core.submission(stranger))
    assert found.profile.confidence < POLICY.min_confidence


def test_the_same_history_gives_the_same_bundle():
    first = pack(model_of(many_jobs()), policy=POLICY, created=1, text="{}")
    again = pack(model_of(many_jobs()), policy=POLICY, created=1, text="{}")
    assert first == again


def test_a_model_survives_being_kept():
    model = model_of(many_jobs(60))
    again = TrainedModel.from_bytes(model.to_bytes())
    assert again.table == model.table
    assert pack(again, policy=POLICY, created=1, text="") == pack(
        model, policy=POLICY, created=1, text=""
    )


# The commands


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A history of our own logs, trained and published."""
    place = tmp_path_factory.mktemp("trained")
    (place / "sluice.conf").write_text(
        f"Bundle={place}/model.bundle\nHistory={place}/history.db\nMinConfidence=0.8\n"
    )
    run = runner(place)
    assert (
        run(
            "history", "ingest", DATA, "--sacct", DATA / "sacct-parsable2.txt", "--time-zone", "UTC"
        ).exit_code
        == 0
    )
    count_what_logs_claim(place / "history.db")
    result = run("model", "train", "--publish")
    assert result.exit_code == 0, result.output
    return place


def runner(place: Path):
    def run(*arguments):
        return CliRunner().invoke(
            main,
            [str(argument) for argument in arguments],
            env={"SLUICE_CONF": f"{place}/sluice.conf", "SLUICE_HISTORY": None},
        )

    return run


def test_training_says_what_it_learned_and_how_good_it_is(trained):
    result = runner(trained)("model", "train", "--all")
    assert "ior_owc of user 0" in result.stdout
    assert "predicted from the earlier runs" in result.stdout
    assert "always saying" in result.stdout
    assert "sluice model publish" in result.stdout


def test_programs_are_told_the_applications_and_how_well_later_jobs_are_predicted(trained):
    found = json.loads(runner(trained)("model", "train", "--json").stdout)
    ior = next(
        item
        for item in found["applications"]
        if item["application"] == "ior_owc of user 0" and item["evidence"] == "user_name"
    )
    assert (ior["pattern"], ior["runs"]) == ("owc", 12)
    later = found["metrics"]["later_jobs"]
    assert later["accuracy_answered"] > 0.9


def test_the_published_bundle_carries_settings_and_the_way_back(trained):
    bundle = Bundle.load(trained / "model.bundle", 0)
    assert bundle.policy.min_confidence == 0.8
    assert bundle.interference.capacity > 1
    assert json.loads(bundle.text)["metrics"]["jobs"] == 143
    found = bundle.predict(core.submission({"name": "ior_ws", "uid": 0}))
    with Store(trained / "history.db") as store:
        kept = store.models.bundle(bundle.checksum)
        assert kept is not None
        assert kept.content == (trained / "model.bundle").read_bytes()
        runs = store.models.runs_behind(found.application)
        assert {run.job.name for run in runs if run.job} == {"ior_ws"}
        assert (trained / "model.bundle").stat().st_mode & 0o777 == 0o640


def test_a_model_is_published_over_a_bundle_of_another_version(trained, tmp_path):
    """After an upgrade the latest bundle is one that this version does not read."""
    path = tmp_path / "model.bundle"
    with Store(trained / "history.db") as store:
        model = store.models.latest_model()
        latest = store.models.latest_bundle()
        store.models.add_bundle(replace(latest, checksum=1, path=str(path), content=b"of before"))
        made = publish(store, model, policy=POLICY, path=path, now=latest.published_at)
    assert path.read_bytes() == made.content != b"of before"


def test_predict_asks_the_core_and_shows_the_runs(trained):
    result = runner(trained)("predict", "--job-name", "ior_owc", "--user", "root", "--nodes", "1")
    assert result.exit_code == 0
    assert "\nowc: creates, writes and closes one file after the other" in result.stdout
    assert "earlier runs of this very size by this user" in result.stdout
    assert "_ior_owc_" in result.stdout


def test_programs_are_told_the_prediction_and_the_evidence_behind_it(trained):
    found = json.loads(
        runner(trained)("predict", "--job-name", "ior_owc", "--user", "0", "--json").stdout
    )
    with Store(trained / "history.db") as store:
        application = store.models.application(found["application"])
    assert (found["pattern"], found["abstains"], found["evidence"]) == ("owc", False, "user_name")
    assert application.label == "ior_owc of user 0"
    assert found["runs"] == 12
    assert found["targets"] is None


def test_what_a_program_reads_is_predicted_as_what_it_writes(trained):
    asked = ("predict", "--job-name", "ior_mixed", "--user", "0")
    found = json.loads(runner(trained)(*asked, "--json").stdout)
    told = runner(trained)(*asked).stdout
    assert found["read_bytes"] > 0
    assert found["read_chunk_bytes"] == 1 << 20
    assert found["read_sequential_share"] == 1
    assert re.search(r"bytes a read +1 MiB\nread in order +100%\nread from the cache +", told)


def test_predict_finds_the_uid_of_a_user_of_the_cluster_in_the_history(trained):
    found = json.loads(
        runner(trained)("predict", "--job-name", "ior_owc", "--user", "user1", "--json").stdout
    )
    assert found["evidence"] == "user_name"


def test_predict_abstains_and_says_so(trained):
    result = runner(trained)("predict", "--job-name", "unheard", "--user", "nobody-at-all")
    assert result.exit_code == 0
    assert "\nabstains" in result.stdout
    assert "taken for a new user" in result.stderr


def test_predict_without_a_bundle_says_how_to_make_one(tmp_path):
    result = CliRunner().invoke(main, ["predict", "--bundle", str(tmp_path / "none")])
    assert result.exit_code == 2
    (tmp_path / "sluice.conf").write_text(f"Bundle={tmp_path}/none\n")
    result = runner(tmp_path)("predict", "--job-name", "x")
    assert result.exit_code == 1
    assert "sluice model train --publish" in result.stderr


def test_predict_refuses_a_damaged_bundle(trained, tmp_path):
    content = bytearray((trained / "model.bundle").read_bytes())
    content[5000] ^= 1
    (tmp_path / "damaged").write_bytes(content)
    result = runner(trained)("predict", "--bundle", tmp_path / "damaged", "--job-name", "x")
    assert result.exit_code == 1
    assert "checksum" in result.stderr


@pytest.mark.parametrize(
    ("text", "minutes"),
    [("90", 90), ("1:30", 2), ("2:00:00", 120), ("1-0", 1440), ("1-02:30", 1590), ("0:10:30", 11)],
)
def test_time_limits_are_what_sbatch_takes_them_for(text, minutes):
    assert Minutes().convert(text, None, None) == minutes


def test_models_are_listed_with_their_quality(trained):
    result = runner(trained)("model", "list", "--json")
    models = json.loads(result.stdout)["models"]
    assert models[0]["bundles"][0]["path"] == str(trained / "model.bundle")
    assert models[0]["metrics"]["jobs"] == 143


def test_an_empty_history_cannot_be_learned_from(tmp_path):
    with Store(tmp_path / "history.db", create=True) as store, pytest.raises(EmptyHistoryError):
        past_of(store)
    result = CliRunner().invoke(main, ["model", "train", "--history", str(tmp_path / "history.db")])
    assert result.exit_code == 1
    assert "sluice history ingest" in result.stderr
    result = CliRunner().invoke(main, ["model", "train", "--history", str(tmp_path / "none.db")])
    assert result.exit_code == 1
    assert "sluice history ingest" in result.stderr


def test_publishing_without_a_model_says_to_train(tmp_path):
    Store(tmp_path / "history.db", create=True).close()
    result = CliRunner().invoke(
        main,
        [
            "model",
            "publish",
            "--history",
            str(tmp_path / "history.db"),
            "--bundle",
            str(tmp_path / "b"),
        ],
    )
    assert result.exit_code == 1
    assert "sluice model train" in result.stderr
