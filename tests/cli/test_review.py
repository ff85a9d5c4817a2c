"""`sluice review`: what is ruled is in the next bundle, shows in `why`, and can be undone."""

import json
import shutil
import time
from pathlib import Path
from typing import Any

import core_cases
import pytest
from click.testing import CliRunner
from made_history import made_history

from sluice.cli.main import main as sluice
from sluice.history_db.store import Store
from sluice.policies import core
from sluice.policies.bundle import Bundle
from sluice.policies.record import Record, Situation, decide
from sluice.slurm.model_diff import difference_to
from sluice.slurm.record_receiver import decision_of

NOW = core_cases.NOW


class Site:
    """A history with a model, and the commands of its administrators."""

    def __init__(self, place: Path, trained: Path) -> None:
        self.place = place
        self.conf = place / "sluice.conf"
        self.history = place / "history.db"
        self.bundle = place / "model.bundle"
        self.conf.write_text(f"Bundle={self.bundle}\nHistory={self.history}\n")
        shutil.copy(trained, self.history)
        self.run("model", "publish")

    def run(self, *arguments: str, code: int = 0) -> str:
        result = CliRunner().invoke(sluice, [*arguments, "--config", str(self.conf)])
        assert result.exit_code == code, result.output
        return result.output

    def decided(self, job_id: int, **submission: object) -> Record:
        """Decide by the bundle that is published, and let the decision be this job's."""
        record = decide(
            Situation(Bundle.read(self.bundle), core_cases.snapshot()),
            core.read_config(self.conf),
            core_cases.submission(**submission),
            NOW,
            boot=1,
            number=job_id,
            cluster="made",
        )
        with Store(self.history) as store:
            store.decisions.insert_decisions([decision_of(record)])
            store.decisions.join_decisions([(record.boot, record.number, job_id, "key")])
        return record

    def difference(self) -> dict[str, Any]:
        """Say what publishing the model now would change."""
        with Store(self.history) as store:
            settings = core.read_config(self.conf)
            return difference_to(store, settings, version=None, since=0, now=int(time.time()))

    def evidence(self, **submission: object) -> str:
        return str(Bundle.read(self.bundle).predict(core_cases.submission(**submission)).evidence)


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Path:
    """A history with a model."""
    history = tmp_path_factory.mktemp("trained") / "history.db"
    with Store(history, create=True) as store:
        made = list(made_history(60, seed=3))
        store.jobs.upsert_jobs(run.job for run in made)
        store.runs.add_logs([(run.log, run.profile, b"") for run in made])
        store.jobs.link_logs()
    result = CliRunner().invoke(sluice, ["model", "train", "--history", str(history)])
    assert result.exit_code == 0, result.output
    return history


@pytest.fixture
def site(tmp_path, trained) -> Site:
    return Site(tmp_path, trained)


def test_a_prediction_is_rejected_seen_in_why_and_taken_back(site):
    site.decided(4711)
    said = site.run("review", "reject", "4711", "--comment", "wrong log", "--publish")
    name = said.split()[0]
    assert site.evidence() == "ignored"
    assert site.evidence(uid=1) != "ignored"

    site.decided(4712)
    told = site.run("why", "4712")
    assert "Review: jobs of user" in told
    assert name in told
    assert "wrong log" in told
    assert "Review:" not in site.run("why", "4711")

    site.run("review", "undo", name[:5], "--publish")
    assert site.evidence() != "ignored"
    assert "no review" in site.run("review", "list")
    listed = json.loads(site.run("review", "list", "--all", "--json"))["reviews"]
    assert [(one["id"], one["state"]) for one in listed] == [(name, "undone")]
    told = site.run("audit", "--parsable2", "--noheader").splitlines()
    assert [name in line and "ignore" in line for line in told].count(True) == 2


@pytest.mark.parametrize(("word", "pattern"), [("stream", "aw"), ("flush", "ws"), ("owc", "owc")])
def test_what_jobs_are_treated_as_is_shown_by_the_word_that_was_said(site, word, pattern):
    site.run("review", "pin", "treat", "--as", word, "--user", "1000", "--publish")
    [listed] = json.loads(site.run("review", "list", "--json"))["reviews"]
    assert listed["treat_as"] == word
    for said in (site.run("review", "list"), site.run("review", "show", listed["id"])):
        assert f"({word})" in said
    assert f"treat {word}: uid 1000" in site.run("audit")
    decided = site.decided(1, uid=1000, name="any").decision.prediction
    assert decided.profile.pattern == pattern


def test_a_later_review_of_the_same_jobs_takes_the_place_of_the_earlier(site):
    site.run("review", "reject", "--user", "1000")
    site.run("review", "pin", "treat", "--as", "aw", "--user", "1000", "--publish")
    listed = json.loads(site.run("review", "list", "--json"))["reviews"]
    assert [one["ruling"] for one in listed] == ["treat"]
    assert site.evidence() == "review"


def test_pairs_are_kept_apart_or_let_together(site):
    site.run("review", "approve", "--user", "1000", "--with-account", "bio", "--publish")
    site.run("review", "reject", "--name", "a", "--with-program", "ior")
    rulings = [one["ruling"] for one in json.loads(site.run("review", "list", "--json"))["reviews"]]
    assert rulings == ["apart", "together"]


def test_the_difference_of_a_review_is_shown_before_it_is_published(site):
    site.decided(1)
    site.decided(2, uid=1)
    nothing = site.difference()
    assert (nothing["predictions"], nothing["decisions"], nothing["changes"]) == (0, 0, [])
    site.run("review", "pin", "treat", "--as", "aw", "--user", "1000")
    found = site.difference()
    (change,) = found["changes"]
    assert (found["jobs"], found["predictions"], change["jobs"]) == (2, 1, 1)
    assert (change["before"]["evidence"], change["after"]["evidence"]) != ("review", "review")
    assert change["after"]["pattern"] == "aw"
    assert site.evidence() != "review"  # nothing was published


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (("reject",), "say which jobs"),
        (("reject", "99"), "no decision on job 99"),
        (("approve", "--user", "1000"), "no pattern was predicted"),
        (("reject", "--user", "nobody-has-this-name"), "give the uid"),
        (("reject", "--user", "1000", "--until", "soon"), "write 2027-03-01"),
        (("pin", "apart", "--user", "1000"), "of which two"),
        (("undo", "12345678"), "no review that stands"),
    ],
)
def test_what_makes_no_sense_is_refused_and_nothing_is_kept(site, arguments, what):
    assert what in site.run("review", *arguments, code=1)
    assert json.loads(site.run("review", "list", "--all", "--json"))["reviews"] == []
