"""What pages draw: the same as their tables, readable without colour, and text stays text."""

import csv
import io
import re
from contextlib import closing
from dataclasses import replace

import numpy as np
import pytest
from history_rows import a_job, a_log, a_profile
from served_site import ANNS, CLUSTER, OTHER_TOKEN, TOKEN, ServedSite

from sluice.darshan.bursts import Heatmap, packed
from sluice.history_db.records import CoRun, HeldBurst, ServerCount
from sluice.history_db.store import Store
from sluice.interference.programs import Program
from sluice.serve.model import quality_tables
from sluice.slurm.status import Status, learner_path

BURST = HeldBurst(
    cluster=CLUSTER,
    source="a",
    number=1,
    job_id=901,
    nodes=4,
    first_job=501,
    first_nodes=4,
    lane_mask=1,
    began=0,
    lasted=40.0,
    held=10.0,
    holds=2,
    bytes=1e9,
    saving=90.0,
    is_held=True,
    ended="turn",
)


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    with closing(ServedSite(tmp_path_factory.mktemp("drawn"))) as site:
        site.make_busy()
        yield site


@pytest.fixture
def ask(served):
    """Return a page's text, or the JSON of a page, as an operator who sees all jobs."""
    client = served.app().test_client()

    def get(path: str):
        answer = client.get(path, headers={"Authorization": f"Bearer {TOKEN}"})
        assert answer.status_code == 200, answer.text
        return answer.json if answer.is_json else answer.text

    return get


def section(page: str, name: str) -> str:
    """Return what stands below the heading of a table."""
    return page.partition(f'id="title-{name}"')[2].partition("</section>")[0]


def test_measured_cells_of_the_matrix_are_framed_and_the_others_hatched(tmp_path):
    with closing(ServedSite(tmp_path)) as site:
        members = tuple(str(Program(pattern, 1 << 20)) for pattern in ("owc", "aw"))
        with Store(site.history) as store:
            number = store.interference.add_calibration(created=1, site="here", settings={})
            corun = CoRun(1, "rates", members, ("a", "a"), (100.0, 100.0), (77.0, 90.0), 0.0, "")
            store.interference.add_corun(number, corun)
        client = site.app().test_client()
        headers = {"Authorization": f"Bearer {TOKEN}"}
        matrix = section(client.get("/programs", headers=headers).text, "matrix")
        facts = client.get("/programs.json", headers=headers).json["matrix"]
    loses, alongside = (facts["programs"].index(f"{one} 1M") for one in ("owc", "aw"))
    assert facts["measured"][loses][alongside] == pytest.approx(0.23)
    titled = re.findall(r'class="heat( measured)?"[^>]*><title>([^<]*)', matrix)
    assert len(titled) == len(facts["programs"]) ** 2
    (framed,) = [title for kind, title in titled if kind]
    assert framed.startswith("owc 1M alongside aw 1M loses 23%: measured here 1 time")
    assert matrix.count('class="hatch"') == len(titled)  # one of them in the scale


def test_each_cell_of_the_matrix_has_its_interval_on_the_drawing_and_in_the_table(ask):
    facts, matrix = ask("/programs.json")["matrix"], section(ask("/programs"), "matrix")
    for losses, intervals in zip(facts["loss"], facts["intervals"], strict=True):
        for loss, (low, high) in zip(losses, intervals, strict=True):
            assert low <= loss <= high
            assert f"{loss:.0%}, nine in ten from {low:.0%} to {high:.0%}" in matrix
    assert "<details><summary>Table</summary>" in matrix
    rows = ask("/programs.csv?table=matrix").splitlines()
    assert rows[0] == "loses,alongside,loss,low,high,measured,times"
    assert len(rows) == 1 + len(facts["programs"]) ** 2


def test_a_table_behind_a_drawing_stays_open_once_it_is_sorted(ask):
    matrix = section(ask("/programs?sort=matrix:-loss"), "matrix")
    assert "<details open><summary>Table</summary>" in matrix


def test_a_job_has_one_timeline_of_what_was_predicted_decided_and_done(tmp_path):
    with closing(ServedSite(tmp_path)) as site:
        site.make_busy()
        began = site.now
        site.decide(901, *site.running)
        ran = a_job(
            cluster=CLUSTER,
            job_id=901,
            submit=began,
            uid=ANNS,
            start=began + 60,
            end=began + 3660,
            state="COMPLETED",
        )
        moved = Heatmap(60.0, np.array([0.0, 6e9, 0.0]), np.zeros(3))
        with Store(site.history) as store:
            store.jobs.upsert_jobs([ran])
            store.gates.add_held_bursts([replace(BURST, began=began + 120)])
            log = a_log(9, uid=ANNS, jobid=901, start=began + 60, end=began + 240)
            log = replace(log, heatmap=packed(began + 60, moved))
            store.runs.add_logs([(log, a_profile(), b"")])
            store.jobs.link_logs()
        client = site.app().test_client()
        headers = {"Authorization": f"Bearer {TOKEN}"}
        drawn = section(client.get("/jobs/901", headers=headers).text, "timeline")
        table = client.get("/jobs/901.csv?table=timeline", headers=headers).text
    rows = [row["row"] for row in csv.DictReader(io.StringIO(table))]
    assert set(rows) == {"I/O", "Slurm", "Sluice", "predicted"}
    for kind, title in (
        ("bar-wait", "waits in the queue"),
        ("bar-job", "runs; completed"),
        ("bar-held", "a burst, held 10 s in 2 holds"),
        ("bar-predicted", "runs 1 h"),
    ):
        assert re.search(f'class="{kind}"[^>]*><title>[^<]*{re.escape(title)}', drawn), kind
    assert ">decided: colocate<" in drawn
    assert "at most 95.4 MiB/s" in drawn  # 6 GB within a minute
    assert drawn.count("<polyline") == 1


def test_a_model_is_compared_in_words(tmp_path):
    with closing(ServedSite(tmp_path)) as site:
        with Store(site.history) as store:
            later = {"answered": 0.7, "accuracy_answered": 0.97, "brier": 0.041}
            metrics = {"jobs": 400, "until": site.now, "later_jobs": later}
            store.models.add_model(b"", metrics, [], created=site.now + 86400)
        client = site.app().test_client()
        headers = {"Authorization": f"Bearer {TOKEN}"}
        table = client.get("/model/3.csv?table=card", headers=headers).text
        page = client.get("/model/3", headers=headers).text
    rows = {row["what"]: row["differs"] for row in csv.DictReader(io.StringIO(table))}
    assert rows == {
        "Trained": "later",
        "Jobs that it learned from": "more",
        "Jobs that it is certain enough of to act": "worse",
        "Patterns of those that are right": "better",
        "Squared error of confidence": "the same",
    }
    assert str(site.now) not in page


def test_calibration_and_hits_are_drawn_next_to_what_the_last_run_would_have_said():
    weeks = [
        {"since": 1e9 + week * 604800, "jobs": 9, "within_2": 0.9, "last_within_2": last}
        for week, last in enumerate((0.7, None, 0.8))
    ]
    said = [{"said": 0.95, "came_true": 0.9, "jobs": 40}]
    found = {"computed": 1, "failed": "", "reliability": said, "weeks": weeks}
    reliability, hits = quality_tables(found)
    assert "said 95%, came true 90%, 40 jobs" in reliability.drawing.alt
    lines = [shape for shape in hits.drawing.shapes if shape.tag == "polyline"]
    assert len({shape.attributes["stroke-dasharray"] for shape in lines}) == 2
    points = [shape.title for shape in hits.drawing.shapes if shape.tag == "circle"]
    assert [title.partition(":")[0] for title in points] == ["predictions"] * 3 + [
        "as last time"
    ] * 2
    assert [row[3].text for row in hits.rows] == ["70%", "–", "80%"]
    assert quality_tables(None)[0].drawing is None


def test_the_page_of_models_has_their_calibration_once_it_is_computed(ask):
    assert 'id="title-reliability"' in ask("/model")


def test_an_operator_sees_what_a_ruling_would_have_changed(ask, served):
    decided = [
        row["action"] for row in ask("/jobs.json?find=ensemble")["decisions"] if row["job_id"]
    ]
    page = ask("/jobs/601")
    assert f"In the last 30 days: {len(decided)} decisions on such jobs" in page
    left = sum(action != "abstain" for action in decided)
    assert f"Wrong {left}; Right {len(decided) - left}, on which Sluice abstained." in page
    assert f"In the last 30 days: {len(decided)} decisions on such jobs" in ask("/programs/1")
    met = sum(row["job_id"] > 600 for row in ask("/jobs.json?find=ensemble")["decisions"])
    assert f"{met} of them while the second ran" in ask("/programs/1/2")
    client = served.app().test_client()
    theirs = client.get("/jobs/601", headers={"Authorization": f"Bearer {OTHER_TOKEN}"})
    assert "decisions on such jobs" not in theirs.text  # no operator


def test_a_name_from_a_user_stands_as_text_on_a_drawing(ask):
    assert "<script>" not in section(ask("/jobs/701"), "timeline")


def test_now_draws_what_lanes_and_targets_did_and_says_what_it_brings(tmp_path):
    with closing(ServedSite(tmp_path)) as site:
        site.make_busy()
        with Store(site.history) as store:
            store.interference.put_server_counts(
                [ServerCount("OST0007", site.now - 600.0, 60.0, 0.0, 6e9)]
            )
            store.gates.add_held_bursts([replace(BURST, began=site.now - 300, lane_mask=2)])
        spans, names = ("day", "month"), ("lost", "predicted", "saved")
        told = {f"{a}_{b}_node_hours": 10.0 * i for i, a in enumerate(spans, 1) for b in names}
        Status(facts=told).write(learner_path(site.history))
        client = site.app().test_client()

        def get(path: str, token: str = TOKEN):
            return client.get(path, headers={"Authorization": f"Bearer {token}"})

        page, hour = get("/now").text, section(get("/now").text, "hour")
        rows = list(csv.DictReader(io.StringIO(get("/now.csv?table=hour").text)))
        facts = get("/now.json").json
        site.tell_privacy(is_private=True)
        theirs = get("/now.json", OTHER_TOKEN).json, get("/now", OTHER_TOKEN).text
    assert [row["target"] for row in rows] == ["sl0", "sl1", "OST0007"]
    by_name = {row["target"]: row for row in rows}
    assert float(by_name["sl1"]["bursts"]) == 1
    assert float(by_name["sl0"]["bursts"]) == 0
    assert float(by_name["OST0007"]["mean"]) == pytest.approx(6e9 / 3600)
    assert hour.count("<polyline") == 3
    assert "a burst of 40 s, held 10 s" in hour
    assert "job 701 waits for 10 min 10 s" in hour
    for span, hours in (("today", "10"), ("in 30 days", "20")):
        for name in ("lost", "predicted to be lost", "saved"):
            assert f"<dt>Node-hours {name} {span}</dt><dd>{hours}" in page
    assert facts["benefit"]["day_saved_node_hours"] == 10
    assert theirs[0]["benefit"] is None
    assert 'id="title-hour"' not in theirs[1]
