"""What was predicted, alongside what jobs then did: told, scored, and learned from."""

import json
from dataclasses import replace
from pathlib import Path

import core_cases as storage_models
import pytest
from click.testing import CliRunner
from finished import finished_job
from test_why import CONF, JOB, NOW, Site

from sluice.cli.main import main
from sluice.history_db import records
from sluice.history_db.store import Store
from sluice.policies import core
from sluice.policies.record import Record, decide
from sluice.prediction.applications import learn_applications
from sluice.prediction.jobs import FinishedJob
from sluice.prediction.submission_features import UNSURE, Predicted, predicted_in
from sluice.prediction.train import past_of
from sluice.slurm.records import UnknownJobError
from sluice.slurm.views import query_replies
from sluice.slurm.visibility import Viewer

MIB = 1 << 20
ENDED = replace(JOB, start=NOW + 10, end=NOW + 610, state="COMPLETED")
OF_ANN, OF_BOB = Viewer(1000, sees_all=False), Viewer(1001, sees_all=False)


def profile(pattern: str = "ws", mib: float = 100, **numbers: float) -> records.Profile:
    known = {"write_bytes": mib * MIB, "rate": 1e8, "io_share": 0.5, "runtime_seconds": 600.0}
    return records.Profile(pattern, 0.9, {pattern: 1.0}, known | numbers, 0.3)


def predicted(pattern: str = "ws", mib: float = 100, **changes: object) -> Predicted:
    values = {
        "evidence": "user_name",
        "pattern": pattern,
        "confidence": 0.95,
        "is_answered": True,
        "numbers": {"write_bytes": mib * MIB, "rate": 1e8},
    }
    return Predicted(**{**values, **changes})


@pytest.mark.parametrize(
    ("said", "did", "came_true"),
    [
        (predicted(), profile(), True),
        (predicted(), profile("aw"), False),
        (predicted(), profile(mib=190), True),
        (predicted(), profile(mib=8), False),
        (predicted(spread={"write_bytes": 2.0}), profile(mib=8), True),
        (predicted(), profile("unknown"), True),
        (predicted(), profile("unknown", mib=0), False),
        (predicted("unknown", mib=0.1), profile(mib=0.01), None),
    ],
    ids=["alike", "pattern", "twice", "volume", "spread", "unseen", "nothing", "too little"],
)
def test_a_prediction_came_true_by_pattern_and_volume(said, did, came_true):
    assert said.came_true(did) is came_true


def runs(verdicts: str) -> list[FinishedJob]:
    """Runs alike, of which each was predicted so that it came true (+) or not (-)."""
    return [
        finished_job(
            profile(), number=i, start=i * 3600, predicted=predicted(mib=100 if one == "+" else 9)
        )
        for i, one in enumerate(verdicts, start=1)
    ]


def confidence(jobs: list[FinishedJob]) -> float:
    return next(
        entry.profile.confidence
        for entry in learn_applications(jobs)
        if entry.application.evidence == "user_name"
    )


def test_a_program_whose_prediction_failed_loses_confidence_at_once():
    before = confidence(runs("++++++++++"))
    assert before > 0.7
    failed = confidence(runs("+++++++++-"))
    assert failed < 0.7
    assert confidence(runs("++++++++--")) < 0.6 * before


def test_it_gains_confidence_again_when_predictions_come_true():
    assert confidence(runs("++++++++-+")) > confidence(runs("+++++++++-"))
    assert confidence(runs("++++++-+++++")) > 0.7


def test_what_was_predicted_by_the_runs_of_others_says_nothing_of_a_programs_own():
    jobs = [replace(job, predicted=predicted(mib=9, evidence="name")) for job in runs("++++++++++")]
    assert confidence(jobs) == confidence(runs("++++++++++"))


def decided(rate_spread: float, confidence: float = 0.95) -> Record:
    """What was decided on a slow program next to its like, its rate alone known so well."""
    slow = {**storage_models.FLUSHING, "rate": 1e8, "io_share": 0.1, "confidence": confidence}
    slow["spread"] = {"rate": rate_spread}
    site = storage_models.situation(storage_models.corunner(1, slow), profile=slow)
    return decide(site, core.default_config(), storage_models.submission(), storage_models.NOW)


@pytest.mark.parametrize(
    ("rate_spread", "reason"),
    [(0.3, "harmless"), (0.8, "alone_unknown")],
)
def test_a_prediction_with_a_wide_spread_is_answered_and_not_acted_on(rate_spread, reason):
    record = decided(rate_spread)
    assert record.decision.reason == reason
    assert predicted_in(record).is_answered


def test_a_prediction_of_little_confidence_is_not_answered():
    record = decided(0.3, confidence=0.3)
    assert record.decision.reason == "low_confidence"
    assert not predicted_in(record).is_answered


def test_reasons_to_abstain_are_reasons_of_the_core():
    assert set(core.REASONS) >= UNSURE


# A history of decisions and what became of them


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def end(
    site: Site, job: records.Job, did: records.Profile, number: int, *, partial: bool = False
) -> None:
    """A job with a decision ends and leaves a log."""
    log = records.Log(
        digest=bytes([number]) * 16,
        path=f"/logs/{number}.darshan",
        size=1,
        mtime_ns=number,
        reason=None,
        jobid=job.job_id,
        uid=job.uid,
        exe="./run",
        start=job.start,
        end=job.end,
        nprocs=4,
        partial=partial,
        format="3.41",
    )
    site.add_jobs(job)
    with Store(site.history) as store:
        store.runs.add_logs([(log, did, b"")])
        store.jobs.link_logs()


def decided_and_ended(site: Site, did: records.Profile, number: int = 1) -> records.Job:
    now = NOW + 1000 * number
    record = site.decide(now=now)
    job = replace(ENDED, job_id=4710 + number, submit=now, start=now + 10, end=now + 610)
    end(site, job, did, number)
    site.join(record, job.job_id)
    return job


def test_the_story_ends_with_what_the_job_did_alongside_what_was_predicted(site):
    expected = storage_models.FLUSHING | {"rate": 1e9, "runtime_seconds": 300.0}
    content = storage_models.bundle_bytes(storage_models.application(expected, number=1), conf=CONF)
    site.bundle = storage_models.Bundle.parse(content)
    mib = expected["write_bytes"] / MIB
    decided_and_ended(site, profile(expected["pattern"], mib, rate=5e8))
    found = site.facts("4711")["outcome"]
    assert (found["source"], found["logs"]) == ("logs", ["/logs/1.darshan"])
    assert found["predicted"]["came_true"] is True
    assert found["predicted"]["factors"]["rate"] == pytest.approx(0.5)
    assert found["predicted"]["io_slowdown"] == pytest.approx(2.0)
    assert found["predicted"]["slowdown"] == pytest.approx(2.0)
    told = site.run("why", "4711")
    assert "What it did to storage" in told
    assert "By /logs/1.darshan:" in told
    assert "came true." in told
    assert "Alone its I/O was estimated at" in told


def test_a_prediction_that_failed_is_told_as_one(site):
    decided_and_ended(site, profile("metadata", 1))
    told = site.run("why", "4711")
    assert "failed in its pattern: the next training lowers the confidence" in told


def test_without_a_log_the_accounting_tells_or_nobody(site):
    site.join(site.decide(), 4711)
    site.add_jobs(ENDED)
    assert "left no log (yet)" in site.run("why", "4711")
    site.add_jobs(replace(ENDED, write_bytes=300 * MIB, read_bytes=0))
    assert "By the accounting, as it left no log:" in site.run("why", "4711")


def test_what_a_capped_log_does_not_hold_the_accounting_adds_to_the_story(site):
    site.join(site.decide(), 4711)
    end(site, replace(ENDED, write_bytes=300 * MIB), profile(mib=100), 1, partial=True)
    assert site.facts("4711")["outcome"]["write_bytes"] == 300 * MIB


def test_a_job_that_runs_has_no_outcome_yet(site):
    site.join(site.decide(), 4711)
    site.add_jobs(replace(ENDED, end=None, state="RUNNING"))
    assert site.facts("4711")["outcome"] is None


def test_what_decisions_predicted_reaches_the_next_training(site):
    decided_and_ended(site, profile("metadata", 1))
    with Store(site.history) as store:
        (job,) = past_of(store).jobs
    assert job.predicted is not None
    assert job.predicted.came_true(job.profile) is False


def scored(site: Site, *words: str) -> dict:
    arguments = ["model", "score", "--history", str(site.history), "--since", "99y", *words]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0, result.output
    return json.loads(result.output) if "--json" in words else {"text": result.output}


def test_live_predictions_are_scored_by_program_and_user(site):
    expected = storage_models.FLUSHING
    mib = expected["write_bytes"] / MIB
    for number in range(1, 4):
        decided_and_ended(site, profile(expected["pattern"], mib), number)
    decided_and_ended(site, profile("metadata", 1), 4)
    found = scored(site, "--json")
    assert (found["all"]["jobs"], found["all"]["pattern_right"]) == (4, 0.75)
    assert found["all"]["came_true"] == 0.75
    assert found["all"]["within_2"]["write_bytes"] == 0.75
    assert [row["program"] for row in found["by_program"]] == ["run_#"]
    assert sum(row["jobs"] for row in found["reliability"]) == 4
    text = scored(site)["text"]
    assert "4 jobs ended of which something was predicted" in text
    assert "calibration error:" in text


def test_users_see_the_outcome_and_the_score_of_their_own_jobs_alone(site):
    job = decided_and_ended(site, profile())
    with Store(site.history, read_only=True) as store:
        assert query_replies.why(store, OF_ANN, job=str(job.job_id))["outcome"] is not None
        with pytest.raises(UnknownJobError):
            query_replies.why(store, OF_BOB, job=str(job.job_id))
        assert query_replies.model_score(store, OF_ANN, since=0)["all"]["jobs"] == 1
        others = query_replies.model_score(store, OF_BOB, since=0)
        assert (others["all"]["jobs"], others["by_program"], others["by_user"]) == (0, [], [])
        assert others["coverage"] is None


def test_a_history_without_decisions_has_nothing_to_score(site):
    assert scored(site, "--json")["all"]["jobs"] == 0
    assert "0 jobs ended" in scored(site)["text"]
