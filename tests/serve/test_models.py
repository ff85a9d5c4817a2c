"""Models on the pages: what publishing another would change, and putting it into use."""

import re
import sqlite3
import time
from contextlib import closing
from dataclasses import replace

import pytest
from click.testing import CliRunner
from history_rows import a_job
from served_site import ANN, BOBS, CLUSTER, HOSTILE, OTHER_TOKEN, TOKEN, ServedSite

from sluice.cli.main import main as sluice
from sluice.history_db.records import StoredReview
from sluice.history_db.store import Store
from sluice.policies.bundle import Bundle
from sluice.policies.review import MAX_REVIEWS, Review, Selector


@pytest.fixture
def served(tmp_path):
    """A site with models 3 and 4, of which 4 is in use."""
    with closing(ServedSite(tmp_path)) as site:
        with sqlite3.connect(site.history) as db:  # its model is none that could be trained on
            db.execute("DELETE FROM bundles")
            db.execute("DELETE FROM models")
        command(site, "train", "--force", "--publish")
        site.bundle = Bundle.read(tmp_path / "model.bundle")
        site.make_busy()
        with Store(site.history) as store:
            runs = list(store.runs.runs(store.runs.run_ids(uid=BOBS)))
            store.jobs.upsert_jobs(
                a_job(
                    cluster=CLUSTER,
                    job_id=9000 + number,
                    uid=BOBS,
                    name=HOSTILE,
                    submit=site.now - 700,
                    start=site.now - 600,
                    end=site.now - 60,
                    nodes=4,
                )
                for number, _ in enumerate(runs)
            )
            store.runs.add_logs(
                [
                    (
                        replace(
                            run.log,
                            digest=bytes(15) + bytes([number]),
                            path=f"/logs/later/{number}",
                            jobid=9000 + number,
                            start=site.now - 600,
                            end=site.now - 60,
                        ),
                        replace(run.profile, pattern="metadata", numbers={"write_bytes": 1e9}),
                        b"",
                    )
                    for number, run in enumerate(runs)
                ]
            )
            store.jobs.link_logs()
        command(site, "train", "--force", "--publish")
        yield site


def command(site, *words: str) -> str:
    done = CliRunner().invoke(sluice, ["model", *words, "--config", str(site.conf)])
    assert done.exit_code == 0, done.output
    return done.output


class Visitor:
    """Somebody with a token at one server."""

    def __init__(self, site, token: str = TOKEN) -> None:
        self._client = site.app().test_client()
        self._headers = {"Authorization": f"Bearer {token}"}

    def get(self, path: str):
        return self._client.get(path, headers=self._headers)

    def publish(self, model: int, *, form_of: str, **form: str):
        """Press the button for a model with the word that is in the forms of a page."""
        word = re.search(r'name="form_token" value="(\w+)"', form_of)
        form |= {"form_token": word[1]} if word else {}
        return self._client.post(f"/model/{model}", data=form, headers=self._headers)

    def in_use(self) -> list[int]:
        return [one["model"] for one in self.get("/model.json").json["models"] if one["in_use"]]


def test_an_operator_rolls_a_model_back_and_the_audit_tells_of_it(served):
    ann, path = Visitor(served), served.folder / "model.bundle"
    assert ann.in_use() == [4]
    page = ann.get("/model/3").text
    assert "Put model 3 into use" in page
    assert "Put model" not in ann.get("/model/4").text
    answer = ann.publish(3, form_of=page, reason="4 is wrong about bob")
    assert (answer.status_code, answer.headers["Location"]) == (303, "/model")
    assert ann.in_use() == [3]
    of_page = Bundle.read(path)
    entry = ann.get("/reviews.json").json["entries"][0]
    assert (entry["user"], entry["subject"]) == (ANN, str(path))
    assert entry["before"].startswith("model 4, ")
    assert entry["after"] == f"model 3, {of_page.checksum:016x}"
    assert entry["reason"] == "4 is wrong about bob"
    command(served, "publish", "3")  # has nothing to change
    assert Bundle.read(path).checksum == of_page.checksum


def test_nobody_else_rolls_a_model_back(served):
    ann, bob = Visitor(served), Visitor(served, OTHER_TOKEN)
    page = ann.get("/model/3").text
    for form in (page, bob.get("/login").text, bob.get("/model/3").text):
        assert bob.publish(3, form_of=form).status_code == 403
    assert "<form method=" not in bob.get("/model/3").text
    assert ann.publish(3, form_of="").status_code == 403
    assert ann.publish(77, form_of=page).status_code == 404
    assert ann.in_use() == [4]
    served.tell_privacy(is_private=True)
    assert ann.publish(3, form_of=page).status_code == 403
    served.tell_privacy(is_private=False)
    assert ann.in_use() == [4]


def test_what_cannot_be_published_changes_nothing(served):
    ann, path = Visitor(served), served.folder / "model.bundle"
    before = path.read_bytes()
    with Store(served.history) as store:
        for number in range(MAX_REVIEWS + 1):
            one = Review("ignore", Selector(uid=number))
            store.administration.add_review(StoredReview(one.name, "command", 1, one.to_json()))
    answer = ann.publish(3, form_of=ann.get("/model/3").text)
    assert answer.status_code == 400
    assert f"a bundle holds {MAX_REVIEWS}" in answer.text
    assert (path.read_bytes(), ann.in_use()) == (before, [4])


def test_the_difference_is_computed_elsewhere(served):
    ann = Visitor(served)
    assert 'href="/model/3/difference"' in ann.get("/model/3").text
    first = ann.get("/model/3/difference").text
    assert "come back in a minute" in first
    assert 'data-refresh="5"' in first
    until = time.monotonic() + 1800  # it yields to everybody else
    while (found := ann.get("/model/3/difference.json").json)["computed"] is None:
        assert time.monotonic() < until
        time.sleep(0.2)
    assert found["failed"] == ""
    assert 1 <= found["predictions"] <= found["jobs"]
    assert any("script" in row["name"] for row in found["changes"])
    page = ann.get("/model/3/difference").text
    assert "&lt;script&gt;" in page
    assert "data-refresh" not in page
    assert ann.get("/model/9/difference").status_code == 404
    served.tell_privacy(is_private=True)
    hidden = ann.get("/model/3/difference.json")
    assert hidden.status_code == 403
    assert "script" not in hidden.text
