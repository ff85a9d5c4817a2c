"""`report`, its table of levers, `assess` and `site replay` give one answer on one site."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner
from decided_site import DAY, HOUR, site
from history_rows import a_job, a_log, a_profile

from sluice.cli.main import main
from sluice.history_db.store import Store
from sluice.policies import core
from sluice.slurm.views.recommendation import lever_advice, verdict
from sluice.slurm.views.report import benefit

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

RATE = 1e9
NUMBERS = {
    "rate": RATE,
    "io_share": 0.6,
    "runtime_seconds": 3600.0,
    "write_bytes": 0.6 * 3600 * RATE,
    "burst_seconds": 60.0,
    "period_seconds": 100.0,
    "chunk_bytes": 1e6,
    "nprocs": 64.0,
}


def plain(path: Path, *, jobs: int, apart: int, logged: int = 1, slow: float = 1.0) -> None:
    """Write runs of one program that start so many seconds apart, without any decision.

    logged: one of so many has a log; slow: times as long that I/O takes where two runs overlap.
    """
    first = int(time.time()) // DAY * DAY - 20 * DAY
    with Store(path, create=True) as store:
        for number in range(1, jobs + 1):
            io = 2160.0 * (slow if number % 2 else 1.0)
            start, length = first + apart * number, int(1440 + io)
            times = {"start": start, "end": start + length}
            store.jobs.upsert_jobs(
                [
                    a_job(
                        job_id=number,
                        submit=start - 60,
                        nodes=4,
                        cpus=4,
                        time_limit=120,
                        uid=1000,
                        name="solver",
                        state="COMPLETED",
                        **times,
                    )
                ]
            )
            if number % logged == 0:
                numbers = NUMBERS | {
                    "rate": 0.6 * 3600 * RATE / io,
                    "io_share": io / length,
                    "runtime_seconds": float(length),
                }
                profile = a_profile(pattern="aw", numbers=numbers)
                store.runs.add_logs([(a_log(number, jobid=number, **times), profile, b"")])
        store.jobs.link_logs()
        store.jobs.update_coverage()


def decided(path: Path, **changes: Any) -> None:
    site(path, end=int(time.time()) - 3 * HOUR, **{"days": 20, **changes})


SITES: dict[str, Callable[[Path], None]] = {
    "light: runs never meet": lambda path: plain(path, jobs=30, apart=8000),
    "heavy: two runs at a time, one of them slow": lambda path: plain(
        path, jobs=60, apart=2000, slow=1.7
    ),
    "crowded, but at full speed": lambda path: plain(path, jobs=60, apart=1200),
    "no log of most jobs": lambda path: plain(path, jobs=60, apart=2000, logged=5, slow=1.7),
    "one run": lambda path: plain(path, jobs=1, apart=1),
    "decisions delay": decided,
    "decisions run in turns": lambda path: decided(path, turns_gain=0.7),
    "decisions of three days": lambda path: decided(path, days=3),
    "decisions that went wrong": lambda path: decided(path, wrong_from=2),
}


@dataclass(frozen=True)
class Answers:
    report: dict[str, Any]
    assess: dict[str, Any]
    replay: dict[str, Any]
    texts: tuple[str, str, str]


@pytest.fixture(scope="module", params=SITES, ids=lambda name: name.partition(":")[0])
def answers(request, tmp_path_factory) -> Answers:
    folder = tmp_path_factory.mktemp("site")
    history, conf = folder / "history.db", folder / "sluice.conf"
    SITES[request.param](history)
    conf.write_text(f"Mode=observe\nBundle={folder}/none.bundle\n")
    of_site = ("--config", str(conf), "--history", str(history), "--draws", "1")
    asked = (
        ("report", *of_site),
        ("site", "assess", *of_site),
        ("site", "replay", str(history), "--policy", "turns"),
    )
    report, assess, replay = (json.loads(run(*words, "--json")) for words in asked)
    return Answers(report, assess, replay, tuple(run(*words) for words in asked))


def run(*words: str) -> str:
    done = CliRunner().invoke(main, words, catch_exceptions=False)
    assert done.exit_code in {0, 3, 4, 5}, done.output
    return done.stdout


def test_assess_and_report_advise_the_same(answers):
    assert answers.report["advice"] == answers.assess["advice"]
    assert answers.report["levers_that_pay"] == answers.assess["levers_that_pay"]
    assert answers.report["placement"] == answers.assess["placement"]
    assert answers.report["stake"]["lost"] == pytest.approx(answers.assess["lost"])
    lost = answers.report["benefit"]["lost_node_hours"]
    assert lost == pytest.approx(answers.assess["lost"])
    (text,) = {answers.report["advice"]["text"], answers.assess["advice"]["text"]}
    assert text[1:] in answers.texts[1]


def test_the_page_and_prometheus_are_told_what_the_report_says_it_brings(tmp_path):
    history, conf = tmp_path / "history.db", tmp_path / "sluice.conf"
    decided(history)
    conf.write_text(f"Mode=observe\nBundle={tmp_path}/none.bundle\n")
    of_site = ("--config", str(conf), "--history", str(history), "--draws", "1")
    report = json.loads(run("report", *of_site, "--json"))
    times = {"month": report["since"], "day": report["until"]}
    with Store(history, read_only=True) as store:
        found = benefit(store, core.read_config(conf), times)
    assert found["month"] == pytest.approx(report["benefit"])
    assert report["benefit"]["predicted_node_hours"] > 0
    assert set(found["day"].values()) == {0.0}


def test_the_verdict_follows_from_what_the_levers_bring(answers):
    kind, found = answers.report["advice"]["kind"], answers.report["verdict"]
    allowed = {"unknown": {"too_little"}, "pays": {"up", "stay", "too_little"}}
    assert found["advice"] in allowed.get(kind, {"stay"})
    if found["advice"] == "up":
        paying = set(answers.report["levers_that_pay"])
        acts = answers.report["effects"]["by_action"]
        assert not ("delay" in acts and "delays" not in paying)
        assert not ("turns" in acts and "turns" not in paying)
    if kind != "pays":
        assert "Go one step up" not in answers.texts[0]
        assert "Worth it here" not in answers.texts[1]


def test_the_replay_loses_what_the_logs_show_or_says_that_it_does_not(answers):
    storage = answers.replay["site_storage"]
    lost = answers.replay["bound"]["lost_slot_hours"]
    # The jobs of the assessment without a log are in no figure of either.
    assert storage["measured_slot_hours"] == pytest.approx(answers.assess["lost"], rel=0.05)
    assert lost == pytest.approx(storage["replayed_slot_hours"], rel=0.1, abs=0.01)
    if storage["fits"]:
        small, large = sorted((lost, answers.assess["lost"]))
        assert large <= 1.5 * small or not answers.assess["is_anything_at_stake"]
        assert "by their own I/O times they lost" in answers.texts[2]
    else:
        assert "not known" in answers.texts[2]
        assert answers.report["advice"]["kind"] == "unknown"
    if not answers.assess["is_anything_at_stake"]:
        assert not answers.replay["bound"]["is_anything_to_gain"]


def test_each_output_names_the_storage_it_asked(answers):
    if answers.report["levers"] is None:
        assert answers.report["storages"] == []
        return
    named = "the mean-field storage model"
    assert all(named in text for text in answers.texts)
    assert [one["law"] for one in answers.report["storages"]] == ["fifo", "jobs"]


def test_an_empty_history_is_asked_for_logs_by_all(tmp_path):
    history = str(tmp_path / "history.db")
    Store(tmp_path / "history.db", create=True).close()
    for words in (("report",), ("site", "assess")):
        done = CliRunner().invoke(main, [*words, "--history", history])
        assert done.exit_code in {1, 4}
        assert "no Darshan log" in done.output
    done = CliRunner().invoke(main, ["site", "replay", history, "--policy", "turns"])
    assert done.exit_code == 1


def test_advice_needs_levers_of_sluice_that_pay():
    facts: dict[str, Any] = {
        "mode": "observe",
        "decisions": {"jobs": 0},
        "coverage": {"node_seconds": 100.0, "logged_node_seconds": 90.0},
        "stake": {"is_anything_at_stake": True, "lost": 10.0},
        "levers": [],
        "no_levers": None,
        "levers_that_pay": [],
        "levers_of_sluice_that_pay": [],
    }
    cap, turns = ["a cap on I/O-heavy jobs"], ["turns"]
    for changes, kind, advice in (
        ({}, "none", "stay"),
        ({"levers_that_pay": cap}, "cap", "stay"),
        ({"levers_that_pay": turns, "levers_of_sluice_that_pay": turns}, "pays", "up"),
        ({"levers": None, "no_levers": "why"}, "unknown", "too_little"),
        ({"stake": {"is_anything_at_stake": False}}, "nothing", "stay"),
        ({"coverage": {"node_seconds": 9.0, "logged_node_seconds": 1.0}}, "unknown", "too_little"),
    ):
        asked = facts | changes
        assert (lever_advice(asked).kind, verdict(asked).advice) == (kind, advice)
        assert lever_advice(asked).text in verdict(asked).because
