"""The pages: what stands on them, in every form, and that text stays text."""

import csv
import io
import json
import os
import re
import subprocess
import time
from contextlib import closing

import pytest
from served_site import ANN, BOB, HOSTILE, OTHER_TOKEN, TOKEN, ServedSite

from sluice.history_db.records import AuditEntry
from sluice.history_db.store import Store
from sluice.serve.access import AccessError
from sluice.serve.server import bind
from sluice.serve.tables import Column, Table, number, words

PAGES = (
    "/now",
    "/programs",
    "/programs/1",
    "/programs/2",
    "/programs/1/2",
    "/jobs",
    "/jobs/601",
    "/jobs/701",
    "/model",
    "/model/1",
    "/model/2/difference",
    "/model/reports/1",
    "/reviews",
)


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    site = ServedSite(tmp_path_factory.mktemp("served"))
    site.make_busy()
    yield site
    site.close()


@pytest.fixture
def ask(served):
    """Return a page's text, or the JSON of a page, as an operator who sees all jobs."""
    client = served.app().test_client()

    def get(path: str, status: int = 200, token: str = TOKEN):
        answer = client.get(path, headers={"Authorization": f"Bearer {token}"})
        assert answer.status_code == status, answer.text
        return json.loads(answer.data) if answer.is_json else answer.text

    return get


@pytest.mark.parametrize("path", PAGES)
def test_every_page_is_there_as_html_and_as_versioned_json(ask, path):
    assert "<h1>" in ask(path)
    assert ask(f"{path}.json")["version"] == "0"
    assert ask(f"{path}?format=json").keys() == ask(f"{path}.json").keys()


@pytest.mark.parametrize("path", PAGES)
def test_hostile_names_of_jobs_and_logs_stand_as_text(ask, path):
    page = ask(path)
    assert "<script>alert" not in page
    assert "<img" not in page
    assert "49" not in page.partition("onerror")[2][:60]  # {{7*7}} is not computed
    if path == "/jobs/701":
        assert "&lt;script&gt;alert(1)" in page


@pytest.mark.parametrize("path", PAGES)
def test_no_page_loads_anything_from_elsewhere_or_carries_script_or_style(served, path):
    client = served.app().test_client()
    answer = client.get(path, headers={"Authorization": f"Bearer {TOKEN}"})
    policy = answer.headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'")
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Referrer-Policy"] == "no-referrer"
    assert answer.headers["Cache-Control"] == "no-store"
    assert "://" not in answer.text
    assert not re.search(r"<[^>]*\s(on\w+|style)\s*=", answer.text)


def test_no_page_and_nothing_behind_one_asks_slurm(served, tmp_path, monkeypatch):
    """Whichever command of Slurm or feed of sluiced were asked would say so here."""
    asked = tmp_path / "asked"
    for name in ("sacct", "sacctmgr", "scontrol", "sdiag", "sinfo", "squeue", "sluice-feed"):
        trap = tmp_path / name
        trap.write_text(f"#!/bin/sh\necho {name} >> {asked}\n")
        trap.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    client = served.app().test_client()

    def get(path: str):
        return client.get(path, headers={"Authorization": f"Bearer {TOKEN}"})

    for path in PAGES:
        assert get(path).status_code == 200
    for is_computed in (
        lambda: get("/programs.json").json["doubts"]["computed"],
        lambda: get("/model/2/difference.json").json["computed"],
    ):
        until = time.monotonic() + 1800  # it yields to everybody else
        while is_computed() is None:
            assert time.monotonic() < until
            time.sleep(0.2)
    assert get("/jobs/99999").status_code == 404
    assert not asked.exists()
    subprocess.run(["squeue"], check=True)
    assert asked.read_text() == "squeue\n"


def test_now_says_who_writes_who_waits_and_how_much_longer_at_most(ask):
    facts = ask("/now.json")
    assert [row["job_id"] for row in facts["writing"]] == [501, 502]
    waits = {row["job_id"]: (row["waited"], row["at_most"]) for row in facts["waiting"]}
    assert waits == {601: (240, 1560.0), 701: (610, 1190.0)}
    lanes = {lane["lane"]: lane for lane in facts["lanes"]}
    assert lanes["sl0"]["load"] == pytest.approx(2e8)
    assert lanes["sl1"]["speed"] == pytest.approx(0.55)
    assert lanes["sl1"]["tokens"][1] == {
        "token": "sl1_flush",
        "class": "flush",
        "gate": None,
        "held": 0,
        "waiting": 1,
    }
    page = ask("/now")
    assert "19 min 50 s" in page
    assert "55%" in page


def test_a_stale_snapshot_is_named_as_one(served, ask):
    served.now -= 3600
    try:
        served.publish_snapshot()
        assert re.search(r"The snapshot is 1 h( \d+ min)? old", ask("/now"))
    finally:
        served.now += 3600
        served.publish_busy()


def test_the_runs_behind_a_program_are_one_click_away(ask):
    assert 'href="/programs/1"' in ask("/programs")
    facts = ask("/programs/1.json")
    assert facts["program"]["label"] == "ensemble of user 1"
    assert len(facts["runs"]) == 8
    assert 'href="/jobs/101"' in ask("/programs/1")


def test_programs_are_listed_and_sorted_by_what_they_read_too(ask):
    assert "Read a run" in ask("/programs")
    assert all("read_bytes" in row for row in ask("/programs.json")["programs"])
    for order in ("read", "-read"):
        assert len(ask(f"/programs.json?sort=programs:{order}")["programs"]) == 2


def test_programs_are_found_by_name_and_by_pattern(ask):
    def found(query: str) -> list[str]:
        return [row["pattern"] for row in ask(f"/programs.json?{query}")["programs"]]

    assert sorted(found("")) == ["aw", "owc"]
    assert found("find=ensemble") == ["owc"]
    assert found("pattern=aw") == ["aw"]
    assert found("find=nobody") == []
    assert found("evidence=site") == []


def test_the_page_of_a_job_tells_the_story_of_why(ask):
    page = ask("/jobs/601")
    for heading in (
        "What was known before it ran",
        "Running jobs with I/O at the time",
        "What could be done, in lost node-seconds",
        "What Slurm did",
    ):
        assert heading in page
    assert ask("/jobs/601.json")["record"]["submission"]["name"] == "ensemble"


def test_decisions_are_found_by_name_user_and_action(ask):
    def found(query: str) -> list[int]:
        return [row["job_id"] for row in ask(f"/jobs.json?{query}")["decisions"]]

    assert found("")[:3] == [701, 608, 607]
    assert found("find=script") == [701, 501]
    assert found(f"user={BOB}") == [701, 501]
    assert found("action=abstain") == []
    assert found("since=1+h")[-1] == 501


def test_older_decisions_follow_where_a_page_ends(ask, monkeypatch):
    monkeypatch.setattr("sluice.serve.jobs.SHOWN", 4)
    monkeypatch.setattr("sluice.serve.jobs.BLOCK", 3)
    seen, before = [], ""
    while before is not None:
        facts = ask(f"/jobs.json?before={before}")
        seen += [row["job_id"] for row in facts["decisions"]]
        before = facts["before"]
    assert seen == [701, *range(608, 600, -1), 502, 501]


def test_the_number_of_a_job_leads_to_it(served):
    client = served.app().test_client()
    headers = {"Authorization": f"Bearer {TOKEN}"}
    answer = client.get("/jobs?job=601", headers=headers)
    assert answer.headers["Location"] == "/jobs/601"


def test_a_table_is_sorted_by_a_column_without_javascript(ask):
    page = ask("/now?sort=waiting:-waited")
    assert page.index(">701<") < page.index(">601<")
    assert 'aria-sort="descending"' in page
    assert ask("/now?sort=waiting:nothing")


def test_a_table_is_downloaded_as_csv_that_no_spreadsheet_computes(ask):
    rows = list(csv.DictReader(io.StringIO(ask("/jobs.csv?table=decisions"))))
    assert rows[0]["name"] == HOSTILE
    assert [row["job"] for row in rows[:2]] == ["701.0", "608.0"]
    table = Table("t", "T", (Column("a", "A"),), [[words("=1+1")], [number(None)]])
    assert table.csv().split() == ["a", "'=1+1", '""']


def test_a_job_nobody_knows_is_not_found_in_any_form(ask):
    assert "no job 99999 is known" in ask("/jobs/99999", 404)
    assert "no job 99999 is known" in ask("/jobs/99999.json", 404)["error"]
    assert ask("/jobs/nonsense.json", 400)["error"].startswith("nonsense is no job number")


def test_a_model_has_its_card_alongside_the_one_in_use(ask):
    assert [one["in_use"] for one in ask("/model.json")["models"]] == [False, True]
    card = ask("/model/1")
    assert "Patterns of those that are right" in card
    assert "later_jobs" not in card
    assert "there is no model 9" in ask("/model/9", 404)


def test_the_audit_says_who_changed_what_and_is_searched(served, ask, monkeypatch):
    now = served.now
    with Store(served.history) as store:
        store.administration.add_audit(
            [
                AuditEntry(now - 90000, 1, "lab", "Mode", "observe", "advise", HOSTILE),
                AuditEntry(now - 60, None, "lab", "switch", "on", "off", "found /run/off"),
            ]
        )

    def found(query: str) -> list[str]:
        return [row["subject"] for row in ask(f"/reviews.json?{query}")["entries"]]

    assert found("") == ["switch", "Mode"]
    assert found("since=1+d") == ["switch"]
    assert found("find=daemon+advise") == ["Mode"]
    assert "&lt;script&gt;alert(1)" in ask("/reviews")
    (row,) = csv.DictReader(io.StringIO(ask("/reviews.csv?table=audit&find=off")))
    assert (row["before"], row["after"]) == ("on", "off")
    monkeypatch.setattr("sluice.serve.reviews.SHOWN", 1)
    rest = ask("/reviews.json")["before"]
    assert f'href="/reviews?before={rest}"' in ask("/reviews")
    assert found(f"before={rest}") == ["Mode"]
    monkeypatch.setattr("sluice.serve.reviews.BLOCK", 1)
    monkeypatch.setattr("sluice.serve.reviews.SEARCHED", 1)
    assert found("find=advise") == []
    assert found(f"find=advise&before={ask('/reviews.json?find=advise')['before']}") == ["Mode"]


def test_a_long_table_comes_in_parts_but_is_downloaded_as_a_whole(ask, monkeypatch):
    def numbers(text: str) -> list[str]:
        return re.findall(r'href="/model/(\d)"', text)

    monkeypatch.setattr("sluice.serve.tables.SHOWN", 1)
    assert numbers(ask("/model")) == ["2"]
    assert 'href="/model?from=models%3A1"' in ask("/model")
    assert numbers(ask("/model?from=models:1")) == ["1"]
    assert numbers(ask("/model?sort=models:model")) == ["1"]
    assert numbers(ask("/model?find=in+use")) == ["1"]
    assert len(list(csv.DictReader(io.StringIO(ask("/model.csv"))))) == 2
    assert len(ask("/model.json")["models"]) == 2


def test_jobs_that_the_lot_left_alone_are_found(tmp_path):
    with closing(ServedSite(tmp_path)) as site:
        site.make_busy()
        acted_on = site.decide(801, *site.running).grant.outcome
        site.policy += "Holdout=1\n"
        with Store(site.history) as store:
            site.publish(store)
        site.decide(802, *site.running)
        client = site.app().test_client()

        def found(query: str) -> list[tuple[int, str]]:
            headers = {"Authorization": f"Bearer {TOKEN}"}
            rows = client.get(f"/jobs.json?{query}", headers=headers).json["decisions"]
            return [(row["job_id"], row["grant"]) for row in rows]

        assert found("grant=held_out") == [(802, "held_out")]
        assert (801, acted_on) in found("")
        assert 802 not in dict(found(f"grant={acted_on}"))


def test_the_matrix_is_that_of_the_bundle(ask):
    facts = ask("/programs.json")["matrix"]
    assert facts["interference_model"]["source"] == "bundle"
    assert len(facts["loss"]) == len(facts["programs"]) == 12
    assert all(0 <= loss <= 1 for row in facts["loss"] for loss in row)


@pytest.mark.parametrize("listen", ["0.0.0.0:80", "10.0.0.1:8080", "[::]:80", "host:80", "1:2:3"])
def test_nothing_but_loopback_and_unix_sockets_is_listened_on(listen):
    with pytest.raises(AccessError, match="the site's own web server"):
        bind(listen)


def test_the_socket_is_for_the_service_and_the_proxy_alone(tmp_path):
    path = tmp_path / "serve.sock"
    listener = bind(f"unix:{path}")
    try:
        assert path.stat().st_mode & 0o777 == 0o660
        listener.listen()
        with pytest.raises(AccessError, match="another `sluice serve`"):
            bind(f"unix:{path}")
    finally:
        listener.close()
    bind(f"unix:{path}").close()


def test_ann_is_an_operator_and_bob_is_not(ask):
    assert f"{ANN} <span" in ask("/now")
    assert "operator" in ask("/now")
    assert "viewer" in ask("/now", token=OTHER_TOKEN)


def test_reports_are_shown_as_they_were_told(ask):
    [title] = ask("/model.json")["reports"]
    assert (title["report"], title["verdict"]) == (1, "Stay in observe")
    assert 'href="/model/reports/1"' in ask("/model")
    page = ask("/model/reports/1")
    assert "<h2>What Sluice did</h2>" in page
    assert '<td class="num">299</td>' in page
    assert ask("/model/reports/1.json")["verdict"] == {"advice": "stay"}
    assert "no report 9" in ask("/model/reports/9", 404)
