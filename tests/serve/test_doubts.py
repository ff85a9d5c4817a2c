"""The page of doubts: what is worth a look, by what it may cost, and who sees it."""

import re
import time
from contextlib import closing

import pytest
from decided_site import STREAM, WIDE, site
from served_site import ANNS, BOBS, HOSTILE, OTHER_TOKEN, TOKEN, ServedSite

from sluice.history_db.records import ObservedInterference
from sluice.history_db.store import Store
from sluice.policies import core
from sluice.serve.background import Background
from sluice.serve.doubt_ranking import computed
from sluice.serve.site import RANKINGS, Site

NOW = 1_750_000_000
SENT = ("job", "with", "user", "account", "do")
BY_ANN = {"uid": ANNS, "program": "ensemble"}
BY_BOB = {"uid": BOBS, "program": HOSTILE}
DOUBTS = [
    BY_ANN | {"kind": "wrong", "job_id": 601, "node_hours": 3.0, "came_true": 0.5, "checked": 8},
    BY_BOB
    | {
        "kind": "changed",
        "job_id": 701,
        "node_hours": 1.0,
        "before": "aw",
        "after": "metadata",
        "runs": 4,
        "since": NOW - 86400,
    },
    BY_BOB
    | {"kind": "delay", "job_id": 701, "node_hours": 9.0, "wait": 600.0, "saved_node_hours": 1.0},
    BY_ANN
    | {
        "kind": "unmeasured",
        "job_id": 601,
        "node_hours": 5.0,
        "alongside": BY_BOB | {"job_id": 701},
    },
]


def doubts_of(history, **changes):
    site(history, end=NOW, days=10, meetings=2, **changes)
    with Store(history, read_only=True) as store:
        return {
            (row["kind"], row["uid"], row["program"]): row
            for row in computed(store, core.default_config(), NOW)["doubts"]
        }


def test_programs_whose_predictions_went_wrong_come_with_what_is_at_stake(tmp_path):
    found = doubts_of(tmp_path / "history.db", wrong_from=2)
    (wrong,) = [row for (kind, *_), row in found.items() if kind == "wrong"]
    assert (wrong["uid"], wrong["program"]) == (STREAM, "stream")
    assert wrong["came_true"] < 0.8
    assert wrong["checked"] == 28
    assert wrong["node_hours"] > 0
    assert wrong["job_id"] == 80


def test_programs_that_changed_their_behaviour_come_with_what_they_did_before(tmp_path):
    found = doubts_of(tmp_path / "history.db", changed_from=8)
    (changed,) = [row for (kind, *_), row in found.items() if kind == "changed"]
    assert (changed["uid"], changed["program"]) == (STREAM, "stream")
    assert (changed["before"], changed["after"], changed["runs"]) == ("aw", "metadata", 8)
    assert changed["since"] == NOW - 2 * 86400 + 3600 + 5
    assert changed["node_hours"] > 0
    assert changed["job_id"] == 80


@pytest.mark.parametrize("changes", [{}, {"changed_from": 1}], ids=["never", "before last week"])
def test_programs_that_did_not_change_lately_are_not_in_doubt(tmp_path, changes):
    found = doubts_of(tmp_path / "history.db", **changes)
    assert "changed" not in {kind for kind, *_ in found}


def test_of_each_program_the_delay_that_costs_most_is_told(tmp_path):
    found = doubts_of(tmp_path / "history.db")
    assert [key for key in found if key[0] == "delay"] == [("delay", STREAM, "stream")]
    delay = found["delay", STREAM, "stream"]
    assert delay["node_hours"] == pytest.approx(64 * delay["wait"] / 3600)
    assert delay["saved_node_hours"] > 0
    assert not [key for key in found if key[0] == "wrong"]


def test_a_pair_that_production_showed_is_in_doubt_no_more(tmp_path):
    history = tmp_path / "history.db"
    pair = ("unmeasured", STREAM, "stream")
    found = doubts_of(history)
    assert found[pair]["alongside"]["program"] == "wide"
    assert found[pair]["node_hours"] > 0
    with Store(history) as store:
        store.interference.put_observed_interference([seen("stream", "wide")])
        rest = computed(store, core.default_config(), NOW)["doubts"]
    assert {(row["kind"], row["program"]) for row in rest} == {
        (kind, program) for kind, _, program in found
    } - {("unmeasured", "stream")}
    assert found.keys() >= {("unmeasured", WIDE, "wide")}


def seen(victim: str, aggressor: str) -> ObservedInterference:
    return ObservedInterference(
        victim=victim,
        aggressor=aggressor,
        since=NOW - 86400,
        until=NOW,
        rho=0.7,
        log_sd=0.1,
        p_value=0.001,
        disturbed=20,
        undisturbed=20,
        false_rate=0.05,
        found=NOW,
    )


def test_another_process_computes_them_once(tmp_path):
    history = tmp_path / "history.db"
    site(history, end=int(time.time()), days=3)
    background = Background()
    until = time.monotonic() + 1800  # it yields to everybody else
    while (
        found := background.latest(None, history, RANKINGS)
    ) is None and time.monotonic() < until:
        time.sleep(0.2)
    assert found is not None
    assert found["failed"] == ""
    assert {row["kind"] for row in found["doubts"]} >= {"delay"}
    assert found["pairs"]
    assert background.latest(None, history, RANKINGS) is found


def test_what_cannot_be_computed_says_why(tmp_path, monkeypatch):
    monkeypatch.setattr("sys.executable", str(tmp_path / "none"))
    background = Background()
    while not (found := background.latest(None, tmp_path / "history.db", RANKINGS)):
        time.sleep(0.01)
    assert "No such file or directory" in found["failed"]
    assert found["doubts"] == []


@pytest.fixture
def served(tmp_path, monkeypatch):
    found = {"computed": NOW, "failed": "", "pairs": [], "doubts": DOUBTS}
    monkeypatch.setattr(Site, "rankings", property(lambda _: found))
    with closing(ServedSite(tmp_path)) as made:
        made.make_busy()
        yield made


def get(served, path: str, token: str = TOKEN):
    return served.app().test_client().get(path, headers={"Authorization": f"Bearer {token}"})


def test_the_costliest_comes_first_and_leads_to_the_page_with_the_form(served):
    page = get(served, "/programs").text
    rows = get(served, "/programs.json").json["doubts"]["rows"]
    assert [row["kind"] for row in rows] == ["delay", "unmeasured", "wrong", "changed"]
    assert 'href="/jobs/701"' in page
    assert "50% of 8 predictions came true" in page
    assert "as job 701" in page
    assert "metadata in the last 4 runs" in page
    assert "Rule on such jobs" in get(served, "/jobs/701").text
    assert "<script>alert" not in page
    assert "Of the week before" in page


def forms(page: str) -> list[dict[str, list[str]]]:
    """What each form in a row of a table sends, and which buttons it has."""
    return [
        {name: re.findall(rf'name="{name}" value="([^"]*)"', form) for name in SENT}
        for form in re.findall(r'<form method="post" action="/reviews">.*?</form>', page, re.DOTALL)
    ]


def test_operators_rule_in_the_row_itself(served):
    busy = forms(get(served, "/programs").text)
    assert [(one["job"], one["with"], one["do"]) for one in busy] == [
        (["701"], [], ["approve", "reject", "never_delay"]),
        (["601"], ["701"], ["apart", "together"]),
        (["601"], [], ["approve", "reject", "never_delay"]),
        (["701"], [], ["approve", "reject", "never_delay"]),
    ]
    assert 'aria-label="Wrong: ensemble"' in get(served, "/programs").text
    assert forms(get(served, "/programs", OTHER_TOKEN).text) == []


def test_doubts_about_jobs_that_slurm_hides_are_hidden(served):
    served.tell_privacy(is_private=True)
    assert [row["kind"] for row in get(served, "/programs.json").json["doubts"]["rows"]] == [
        "wrong"
    ]
    # 701 may be a part of a form's token, too
    assert not re.search(r"(?<![\w.])701(?!\w)", get(served, "/programs").text)
    bobs = get(served, "/programs.json", OTHER_TOKEN).json["doubts"]["rows"]
    assert [(row["kind"], row["uid"]) for row in bobs] == [("delay", BOBS), ("changed", BOBS)]
