"""`sluice report`: what it tells of sites whose truth is known, and what it advises."""

from __future__ import annotations

import json
import os
import re
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner
from decided_site import DAY, HOUR, STREAM, WIDE, site
from finished import finished_job
from history_rows import a_profile

from sluice.cli.main import main
from sluice.cli.report_words import sections
from sluice.history_db.records import Release
from sluice.history_db.store import Store
from sluice.interference.cost import Application
from sluice.policies import core
from sluice.slurm.views import query_replies
from sluice.slurm.views.decision_history import Choice
from sluice.slurm.views.recommendation import verdict
from sluice.slurm.views.report import units
from sluice.slurm.visibility import Viewer

if TYPE_CHECKING:
    from collections.abc import Callable

    from sluice.prediction.jobs import FinishedJob

BANDWIDTH = "600M"  # two of the runs do not fit
SLUICE = Path(sys.executable).with_name("sluice")
PLAIN = [] if os.geteuid() else ["setpriv", "--bounding-set=-all", "--inh-caps=-all"]
"""Before a command: root without its rights keeps to the modes of files."""


@dataclass(frozen=True)
class Said:
    code: int
    text: str

    @property
    def facts(self) -> dict[str, Any]:
        return json.loads(self.text)


@pytest.fixture
def ask(tmp_path: Path) -> Callable[..., Said]:
    """Write a history of so many days, and ask for a report."""

    def asked(*words: str, mode: str = "observe", days: int = 20, **changes: Any) -> Said:
        history, conf = tmp_path / "history.db", tmp_path / "sluice.conf"
        if not history.exists():
            site(history, end=int(time.time()) - 3 * HOUR, days=days, mode=mode, **changes)
        conf.write_text(f"Mode={mode}\nBundle={tmp_path}/none.bundle\n")
        words = ("report", "--bandwidth", BANDWIDTH, "--config", str(conf), *words)
        done = CliRunner().invoke(main, [*words, "--history", str(history)])
        return Said(done.exit_code, done.output)

    return asked


def test_a_site_whose_decisions_pay_may_go_one_step_up(ask):
    said = ask("--draws", "0", "--json", turns_gain=0.7)
    assert said.code == 3
    assert said.facts["verdict"]["advice"] == "up"
    assert said.facts["verdict"]["mode"] == "advise"
    assert said.facts["predictions"]["all"]["came_true"] == 1.0
    assert ask("--draws", "0", "--json", mode="advise").facts["verdict"]["mode"] == "enforce"


def test_decisions_that_pull_a_lever_that_replays_do_not_find_worth_it_speak_against_it(ask):
    said = ask("--draws", "0", "--json")
    assert (said.code, said.facts["verdict"]["advice"]) == (0, "stay")
    assert "delays" not in said.facts["levers_that_pay"]
    assert "act on 20 jobs by delays, which" in said.facts["verdict"]["because"][0]


def test_without_levers_there_is_no_advice(ask):
    said = ask("--no-levers", "--json")
    assert (said.code, said.facts["advice"]["kind"]) == (4, "unknown")
    assert "--no-levers was given" in said.facts["verdict"]["because"][0]


def test_it_tells_who_would_wait_for_whose_sake_and_who_would_be_spared(ask):
    facts = ask("--no-levers", "--json").facts
    (waits,) = [row for row in facts["effects"]["by_program"] if row["delayed"]]
    assert (waits["uid"], waits["program"], waits["delayed"]) == (STREAM, "stream", 20)
    assert waits["mean_wait"] == waits["longest_wait"] == pytest.approx(600, abs=10)
    assert waits["waited_node_hours"] == pytest.approx(20 * 64 * waits["mean_wait"] / 3600)
    (spared,) = [row for row in facts["effects"]["by_program"] if row["spared_node_hours"] > 0]
    assert (spared["uid"], spared["program"]) == (WIDE, "wide")
    assert waits["for"][0]["program"] == "wide"
    assert waits["for"][0]["node_hours"] == pytest.approx(spared["spared_node_hours"])
    whole = facts["effects"]["by_action"]["delay"]["saved_node_hours"]
    assert whole == pytest.approx(waits["saved_node_hours"] + spared["spared_node_hours"])
    users = {row["uid"]: row for row in facts["effects"]["by_user"]}
    price = facts["effects"]["wait_price"]
    assert users[STREAM]["net_node_hours"] == pytest.approx(
        waits["saved_node_hours"] - price * waits["waited_node_hours"]
    )


def test_the_text_says_the_same_in_words(ask):
    text = ask("--no-levers").text
    assert "Too little evidence; stay in observe, because:" in text
    assert "Sluice would delay 20 jobs" in text
    assert re.search(r"stream +20 +\d+ min", text)
    assert "100% came true" in text
    assert "\x1b" not in text


def test_the_history_keeps_what_was_said_for_the_pages(ask, tmp_path):
    text, facts = ask("--no-levers").text, ask("--no-levers", "--json").facts
    with Store(tmp_path / "history.db", read_only=True) as store:
        titles = store.administration.report_titles()
        first, second = map(store.administration.report, sorted(titles))
    assert {one.verdict for one in titles.values()} == {"Too little evidence; stay in observe"}
    assert second.facts | {"version": facts["version"]} == facts
    for section in first.sections:
        assert section["heading"] in text
        for sentence in section["sentences"]:
            assert sentence in text
        for table in section["tables"]:
            assert f"{table['caption']}:" in text


def test_who_may_only_read_the_history_keeps_nothing(ask, tmp_path):
    said = ask("--no-levers")
    history = tmp_path / "history.db"
    history.chmod(0o444)
    words = ["report", "--bandwidth", BANDWIDTH, "--no-levers", "--history", str(history)]
    done = subprocess.run(
        [*PLAIN, SLUICE, *words, "--config", tmp_path / "sluice.conf"],
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (said.code, b"")
    with Store(history, read_only=True) as store:
        assert len(store.administration.report_titles()) == 1


def test_predictions_of_a_program_that_went_wrong_keep_a_site_where_it_is_and_are_named(ask):
    said = ask("--draws", "0", "--json", wrong_from=2)
    assert said.code == 0
    assert said.facts["verdict"]["advice"] == "stay"
    (wrong,) = said.facts["predictions"]["wrong"]
    assert wrong["program"] == "stream"
    assert wrong["came_true"] == pytest.approx(0.55)
    assert wrong["pattern_right"] == 1.0
    assert "would act on: stream" in said.facts["verdict"]["because"][0]
    text = ask("--no-levers").text
    assert "lose confidence at the next training" in text


def test_a_few_days_are_too_little(ask):
    said = ask("--no-levers", "--json", days=3)
    assert (said.code, said.facts["verdict"]["advice"]) == (4, "too_little")
    _, span, checked = said.facts["verdict"]["because"]
    assert span.startswith("decisions span 2 d")
    assert checked.startswith("12 predictions could be checked")


def test_without_logs_nothing_can_be_said(ask, tmp_path):
    Store(tmp_path / "history.db", create=True).close()
    said = ask("--json")
    assert (said.code, said.facts["verdict"]["mode"]) == (4, "off")
    assert "no Darshan log" in said.facts["verdict"]["because"][0]
    assert ask().text.startswith("Verdict\n  Too little evidence; stay as it is, because:\n")


def test_how_long_conflicts_lasted_is_laid_alongside_what_was_predicted(ask):
    wait = ask("--no-levers", "--json").facts["predictions"]["wait"]
    assert wait["checked"] == 20
    assert wait["within_2"] == 1.0
    assert wait["median_factor"] == pytest.approx((0.25 * HOUR + 5) / 600)


def test_the_holdout_shows_a_gain_that_is_there(ask):
    changes = {"mode": "enforce", "holdout": 0.5, "helps": 0.9, "days": 80, "meetings": 3}
    said = ask("--no-levers", "--since", "90d", "--json", **changes)
    holdout = said.facts["holdout"]
    lost = holdout["effects"]["lost_share"]
    assert said.code == 0
    assert holdout["held_out"] == pytest.approx(0.5 * holdout["drawn"], rel=0.25)
    assert lost["low"] < lost["mean"] < lost["high"] < 0
    assert lost["mean"] == pytest.approx(lost["acted_on_mean"] - lost["held_out_mean"], abs=0.01)
    assert "less than the holdout" in said.facts["verdict"]["because"][0]
    assert (
        "no interval is wrong, however often one looks"
        in ask("--no-levers", "--since=90d", **changes).text
    )


def test_in_enforce_it_tells_what_became_of_decisions_and_whose_tokens_were_taken_off(
    ask, tmp_path
):
    ask("--no-levers", mode="enforce", holdout=0.5)
    row = Release("c1", 1, 1, int(time.time()) - DAY, "all_stream", "max_delay", 1800.0)
    with Store(tmp_path / "history.db") as store:
        store.gates.add_releases([row])
    text = ask("--no-levers", mode="enforce").text
    assert "What Sluice did" in text
    assert "Tokens were taken off 1 waiting job: 1 max_delay." in text
    assert re.search(r"^held_out +\d+$", text, re.MULTILINE)


def test_without_the_bundle_of_its_decisions_the_holdout_is_not_passed_over_in_silence(
    ask, tmp_path
):
    ask("--no-levers", mode="enforce", holdout=0.5)
    with closing(sqlite3.connect(tmp_path / "history.db")) as db, db:
        db.execute("DELETE FROM bundles")
    said = ask("--no-levers", mode="enforce", holdout=0.5)
    assert "jobs that the draw left alone cannot be compared: the bundle of" in said.text
    assert "What the holdout shows" not in said.text


def test_without_a_holdout_enforce_stays_and_is_told_to_draw_one(ask):
    said = ask("--no-levers", "--json", mode="enforce")
    assert (said.code, said.facts["holdout"]) == (0, None)
    assert "Holdout=0.1" in said.facts["verdict"]["because"][0]


def test_harm_that_the_holdout_shows_is_a_reason_to_step_down(ask):
    facts = ask("--no-levers", "--json", mode="enforce").facts
    sure = {"units": 900, "held_out": 300, "mean": 0.1, "low": 0.05, "high": 0.2}
    nothing = sure | {"mean": 0.0, "low": -0.1, "high": 0.1}
    for lost, wait, advice in (
        (sure, nothing, "down"),
        (nothing, sure, "down"),
        (nothing, nothing, "stay"),
    ):
        facts["holdout"] = {"effects": {"lost_share": lost, "wait": wait}}
        assert verdict(facts).advice == advice


def test_jobs_that_share_a_lot_are_one_unit():
    """Equal submissions in one second are drawn together, so they do not tell twice."""
    drawn = [choice(number, lot=1 + number // 2) for number in range(4)]
    runs = {one.job: [ran(one, seconds=number)] for number, one in enumerate(drawn) if number < 3}
    found = units(drawn, runs, lambda job: (job.end - job.start) / 10)
    assert [one.outcome for one in found] == [0.05, 0.2]


def choice(number: int, *, lot: int) -> Choice:
    return Choice(
        job=("c1", number),
        now=1000,
        owner=Application(STREAM, "stream"),
        nodes=1,
        grant="taken",
        lot=lot,
        bundle=0,
        shared_slowdown=1.0,
        corunners=1,
        action="delay",
    )


def ran(one: Choice, *, seconds: int) -> FinishedJob:
    profile = a_profile()
    return finished_job(profile, submit=one.now, start=one.now, end=one.now + seconds)


def test_users_are_told_of_their_own_jobs_and_not_for_whose_sake_by_name(tmp_path):
    history = tmp_path / "history.db"
    made = site(history, end=int(time.time()) - 3 * HOUR, days=10)
    config = core.parse_config("t", b"Bundle=/nowhere/bundle\n")
    with Store(history, read_only=True) as store:
        for who in (Viewer(STREAM, sees_all=False), Viewer(STREAM, sees_all=True)):
            facts = query_replies.report(store, who, config=config, since=made.end - 30 * DAY)
            assert {"stake", "coverage", "holdout", "verdict"}.isdisjoint(facts)
            assert facts["decisions"]["jobs"] == 20
            assert {row["uid"] for row in facts["effects"]["by_program"]} == {STREAM}
            (waits,) = facts["effects"]["by_program"]
            assert [one["user"] for one in waits["for"]] == ["other users"]
            assert {row["user"] for row in facts["predictions"]["by_user"]} == {str(STREAM)}
            assert "wide" not in json.dumps(facts)
            headings = [section.heading for section in sections(facts, None)]
            assert headings == [
                "What it is about",
                "What Sluice would have done",
                "How right it was",
            ]


def test_the_page_has_pictures_inside_and_asks_nobody_for_anything(ask, tmp_path):
    page = tmp_path / "report.html"
    said = ask("--no-levers", "--html", str(page))
    text = page.read_text()
    assert said.code == 4
    assert text.count("data:image/png;base64,") == 2
    assert "Too little evidence; stay in observe" in text
    assert not re.search(r"(src|href)=\"(?!data:)", text)
    assert "<script" not in text
    wrong = ask("--html", str(tmp_path / "report.pdf"))
    assert wrong.code == 2


def test_where_nothing_was_decided_replays_of_the_last_jobs_stand_in(ask, tmp_path):
    ask("--no-levers")
    with closing(sqlite3.connect(tmp_path / "history.db")) as db, db:
        db.execute("DELETE FROM decisions")
    said = ask("--draws", "1", "--json")
    facts = said.facts
    assert facts["decisions"]["jobs"] == 0
    assert {row["lever"] for row in facts["levers"]} >= {"turns", "delays"}
    assert {row["user"] for row in facts["delays_by_user"]} == {f"user{WIDE}", f"user{STREAM}"}
    assert facts["verdict"]["mode"] in {"off", "observe"}
    assert said.code == {"stay": 0, "up": 3}[facts["verdict"]["advice"]]
    text = ask("--draws", "1").text
    assert "replays of the last jobs stand in" in text
    assert "Delays by user, in the replay" in text


def test_assess_and_report_agree_on_the_same_history(ask, tmp_path):
    """The same jobs, the same losses, the same replays."""
    words = ("--draws", "0", "--json")
    told = ask(*words).facts
    history, conf = str(tmp_path / "history.db"), str(tmp_path / "sluice.conf")
    assessed = run("site", "assess", "--bandwidth", BANDWIDTH, "--config", conf, *words, at=history)
    stake = told["stake"]
    assert {name: assessed[name] for name in stake} == stake
    for name in ("advice", "levers", "levers_that_pay", "levers_hang_on", "storages"):
        assert assessed[name] == told[name]


def run(*words: str, at: str | None = None) -> dict[str, Any]:
    done = CliRunner().invoke(main, [*words, *(("--history", at) if at else ())])
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)
