"""What `sluice site assess` says of turns, delays, lanes and a cap at a site."""

import json

import pytest
from click.testing import CliRunner
from history_rows import a_job, a_log, a_profile

from sluice.cli.main import main
from sluice.history_db.store import Store
from sluice.sim.replay.levers import LAWS, LEVERS

JOBS = 60
NUMBERS = {
    "rate": 1e9,
    "io_share": 0.6,
    "runtime_seconds": 3600.0,
    "write_bytes": 0.6 * 3600 * 1e9,
    "burst_seconds": 60.0,
    "period_seconds": 100.0,
    "chunk_bytes": 1e6,
    "nprocs": 64.0,
}


@pytest.fixture(scope="module")
def history(tmp_path_factory):
    """Three jobs at a time that each ask for 60 % of 1 GB/s."""
    starts = {number: 1_000_000 + 1200 * number for number in range(1, JOBS + 1)}
    return filled(tmp_path_factory.mktemp("levers") / "history.db", starts)


def filled(path, starts):
    times = {number: {"start": start, "end": start + 3600} for number, start in starts.items()}
    with Store(path, create=True) as store:
        store.jobs.upsert_jobs([job(number, **when) for number, when in times.items()])
        profile = a_profile(pattern="aw", numbers=NUMBERS)
        logs = [a_log(number, jobid=number, **when) for number, when in times.items()]
        store.runs.add_logs([(log, profile, b"") for log in logs])
    return path


def job(number, *, start, end, cluster="c1"):
    when = {"submit": start - 60, "start": start, "end": end}
    return a_job(job_id=number, cluster=cluster, nodes=4, cpus=4, time_limit=120, **when)


def ask(history, *options):
    arguments = ["site", "assess", "--history", str(history), *options]
    result = CliRunner().invoke(main, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def told(history, *options):
    return json.loads(ask(history, "--json", *options))


def test_each_lever_is_replayed_under_each_law_and_pays_only_if_it_saves_in_every_draw(history):
    found = told(history, "--bandwidth", "1G", "--draws", "1")
    names = [(worth["law"], worth["lever"]) for worth in found["levers"]]
    assert names == [(law, lever) for law in LAWS for lever in LEVERS]
    for worth in found["levers"]:
        least = (worth["saved_interval"] or {"low": worth["saved"]})["low"]
        assert worth["price"] == pytest.approx(0.2 * worth["held"])
        if worth["pays"]:
            assert least > 0
            assert worth["saved"] > worth["price"]
    paying = {name for _, name in names} - {
        worth["lever"] for worth in found["levers"] if not worth["pays"]
    }
    assert set(found["levers_that_pay"]) == paying
    assert found["levers_hang_on"]["jobs"] == JOBS


def test_the_report_says_what_is_worth_it_right_after_what_is_at_stake(history):
    lines = ask(history, "--bandwidth", "1G", "--draws", "0").splitlines()
    (at,) = [i for i, line in enumerate(lines) if line.startswith("At stake")]
    assert lines[at + 1].startswith(("Worth it here", "No lever is worth it here"))
    assert any(line.startswith("Replayed: ") for line in lines)


def test_where_nothing_is_at_stake_or_wanted_nothing_is_replayed(history, tmp_path):
    lone = filled(tmp_path / "lone.db", {1: 1_000_000, 2: 1_010_000})
    assert told(lone, "--bandwidth", "1G")["levers"] is None
    assert told(history, "--bandwidth", "1G", "--no-levers")["levers"] is None


def test_jobs_of_several_clusters_are_not_replayed_and_that_is_said(history, tmp_path):
    other = tmp_path / "other.db"
    other.write_bytes(history.read_bytes())
    with Store(other) as store:
        store.jobs.upsert_jobs([job(1, start=1_000_000, end=1_000_600, cluster="second")])
    said = ask(other, "--bandwidth", "1G", "--draws", "0")
    assert "What levers would bring is not known" in said
