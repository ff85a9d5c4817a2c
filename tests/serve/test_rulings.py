"""Reviews on the pages: operators make and undo them, and nobody else does."""

import re
from contextlib import closing

import pytest
from click.testing import CliRunner
from served_site import ANN, HOSTILE, OTHER_TOKEN, TOKEN, ServedSite

from sluice.cli.main import main as sluice
from sluice.history_db.store import Store


@pytest.fixture
def served(tmp_path):
    with closing(ServedSite(tmp_path)) as site:
        site.make_busy()
        yield site


class Visitor:
    def __init__(self, site, token: str = TOKEN) -> None:
        self._client = site.app().test_client()
        self._headers = {"Authorization": f"Bearer {token}"}

    def get(self, path: str):
        return self._client.get(path, headers=self._headers)

    def rule(self, **form: str):
        page = self.get("/reviews").text + self.get("/jobs/601").text
        word = re.search(r'name="form_token" value="(\w+)"', page)
        form["form_token"] = word[1] if word else ""
        return self._client.post("/reviews", data=form, headers=self._headers)

    def reviews(self) -> list[dict]:
        return self.get("/reviews.json").json["reviews"]


def test_a_rejected_prediction_changes_the_next_decision_until_it_is_undone(served):
    ann = Visitor(served)

    def decided(job: int) -> tuple[str, str]:
        record = served.decide(job, *served.running)
        return record.decision.action, ann.get(f"/jobs/{job}").text

    before, page = decided(801)
    assert "Rule on such jobs" in page
    answer = ann.rule(job="801", do="reject", comment="<b>read the wrong log</b>")
    assert (answer.status_code, answer.headers["Location"]) == (303, "/reviews")
    [review] = ann.reviews()
    assert (review["ruling"], review["by"], review["source"]) == ("ignore", ANN, "page")
    with Store(served.history) as store:
        served.publish(store)
    after, page = decided(802)
    assert after != before
    assert review["id"] in page
    assert "&lt;b&gt;read the wrong log" in page

    assert f'value="{review["id"]}"' in ann.get("/reviews").text
    assert ann.rule(do="undo", id=review["id"]).status_code == 303
    assert ann.reviews()[0]["state"] == "undone"
    with Store(served.history) as store:
        served.publish(store)
    assert decided(803)[0] == before


OF_ANN = ["--user", "1", "--name", "ensemble"]
OF_BOB = ["--with-user", "2", "--with-name", HOSTILE]
WAYS = [  # the form, and the command
    ({"job": "601", "do": "approve"}, ["approve", "601"]),
    ({"job": "601", "do": "reject"}, ["reject", "601"]),
    (
        {"job": "601", "do": "never_delay", "until": "2100-01-01"},
        ["pin", "never-delay", "601", "--until", "2100-01-01"],
    ),
    (
        {"job": "601", "do": "treat", "treat_as": "flush"},
        ["pin", "treat", "601", "--as", "flush"],
    ),
    ({"program": "1", "do": "approve"}, ["pin", "treat", "--as", "owc", *OF_ANN]),
    ({"program": "1", "do": "reject"}, ["reject", *OF_ANN]),
    (
        {"program": "1", "do": "apart", "with": "701", "until": "2100-01-01"},
        ["approve", *OF_ANN, *OF_BOB, "--until", "2100-01-01"],
    ),
    (
        {"program": "1", "with_program": "2", "do": "apart"},
        ["pin", "apart", *OF_ANN, *OF_BOB],
    ),
    (
        {"program": "2", "with_program": "1", "do": "together"},
        ["reject", *OF_ANN, *OF_BOB],
    ),
]


@pytest.mark.parametrize(("form", "words"), WAYS)
def test_page_and_command_give_the_same_bundle_byte_for_byte(served, form, words):
    def published() -> bytes:
        with Store(served.history) as store:
            return served.publish(store)

    ann, nothing = Visitor(served), published()
    assert ann.rule(**form).status_code == 303
    of_page = published()
    assert of_page != nothing
    [review] = ann.reviews()
    ann.rule(do="undo", id=review["id"])
    assert published() == nothing
    made = CliRunner().invoke(sluice, ["review", *words, "--config", str(served.conf)])
    assert made.exit_code == 0, made.output
    assert published() == of_page
    ann.rule(do="undo", id=review["id"])
    assert published() == nothing


def test_operators_rule_where_a_program_and_a_pair_are_shown(served):
    ann, bob = Visitor(served), Visitor(served, OTHER_TOKEN)
    program, pair = "/programs/1", "/programs/1/2"
    assert "Rule on such jobs" in ann.get(program).text
    assert "Jobs of user daemon, name ensemble, from the next bundle on" in ann.get(program).text
    page = ann.get(pair).text
    assert "Rule on these two" in page
    assert "<script>alert" not in page
    first, second = ann.get(f"{pair}.json").json["programs"]
    assert (first["application"], second["application"]) == (1, 2)
    assert 0 < first["loses"] < 1
    for path in (program, pair):
        assert "Rule on" not in bob.get(path).text
        assert "form_token" not in bob.get(path).text
    assert ann.get("/programs/1/9").status_code == 404


def test_nobody_rules_on_a_program_that_slurm_hides(served):
    served.tell_privacy(is_private=True)
    ann = Visitor(served)
    for form in (
        {"program": "2", "do": "reject"},
        {"program": "1", "with_program": "2", "do": "apart"},
        {"program": "1", "with": "701", "do": "apart"},
    ):
        answer = ann.rule(**form)
        assert answer.status_code == 404
        assert "alert" not in answer.text
    unknown = ann.rule(job="777", do="reject").text
    assert ann.rule(job="701", do="reject").text == unknown.replace("777", "701")
    assert ann.reviews() == []
    assert ann.get("/programs/1/2").status_code == 404


def test_a_pair_is_kept_apart(served):
    assert Visitor(served).rule(**{"job": "601", "with": "701", "do": "apart"}).status_code == 303
    [review] = Visitor(served).reviews()
    assert review["ruling"] == "apart"
    assert {review["of"]["uid"], review["with"]["uid"]} == {1, 2}


def test_a_viewer_can_change_nothing(served):
    ann, bob = Visitor(served), Visitor(served, OTHER_TOKEN)
    ann.rule(job="601", do="reject")
    [review] = ann.reviews()
    assert "<form method=" not in bob.get("/reviews").text
    assert "Rule on" not in bob.get("/jobs/701").text
    client = served.app().test_client()

    def word() -> str:
        return re.search(r'name="form_token" value="(\w+)"', client.get("/login").text)[1]

    client.post("/login", data={"token": OTHER_TOKEN, "form_token": word()})
    for form in ({"job": "701", "do": "reject"}, {"do": "undo", "id": review["id"]}):
        answer = client.post("/reviews", data=form | {"form_token": word()})
        assert answer.status_code == 403
        assert "Only operators" in answer.text
    assert [row["state"] for row in ann.reviews()] == ["stands"]


def test_a_form_of_another_site_rules_nothing(served):
    client = served.app().test_client()
    headers = {"Authorization": f"Bearer {TOKEN}"}
    form = {"job": "601", "do": "reject"}
    assert client.post("/reviews", data=form, headers=headers).status_code == 403
    assert Visitor(served).reviews() == []


def test_what_makes_no_sense_is_said_and_not_kept(served):
    ann = Visitor(served)
    for form in (
        {"job": "99999", "do": "reject"},
        {"job": "601", "do": "dance"},
        {"job": "601", "do": "apart"},
        {"job": "601", "do": "reject", "until": "tomorrow"},
        {"do": "undo", "id": "ffffffff"},
        {"program": "9", "do": "reject"},
        {"program": "-1", "do": "reject"},
        {"do": "reject"},
        {"program": "1", "do": "together"},
    ):
        assert ann.rule(**form).status_code in {400, 404}
    assert ann.reviews() == []


def test_an_operator_rules_only_on_jobs_that_slurm_shows(served):
    served.tell_privacy(is_private=True)
    ann = Visitor(served)
    assert ann.rule(job="701", do="reject").status_code == 404
    assert ann.rule(job="601", do="reject").status_code == 303
    assert [row["of"]["uid"] for row in ann.reviews()] == [1]
    assert Visitor(served, OTHER_TOKEN).reviews() == []
