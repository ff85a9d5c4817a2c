"""What is at stake at a site, from finished jobs alone."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from click.testing import CliRunner
from finished import finished_job
from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.cli.main import main
from sluice.history_db.records import Profile
from sluice.interference.assess import Assessment, assess
from sluice.interference.cost import costs
from sluice.policies import core
from sluice.policies.structs import View, new
from sluice.prediction.jobs import profile_members

MODEL = View(new("struct sluice_interference"))
POLICY = core.parse_config("t", b"Lane=all Targets=1 Bandwidth=1G\n").policy
DAY = 86400


def job(name: str, start: float, *, pattern: str = "owc", hours: float = 1.0, nodes: int = 4):
    """A job that writes for 60 % of its time, at what storage can take."""
    seconds = hours * 3600
    numbers = {
        "rate": 1e9,
        "io_share": 0.6,
        "runtime_seconds": seconds,
        "write_bytes": 0.6 * seconds * 1e9,
        "burst_seconds": 30.0,
        "period_seconds": 50.0,
        "chunk_bytes": 1e6,
        "nprocs": 64.0,
    }
    profile = Profile(pattern, 0.95, {pattern: 1.0}, numbers, 0.2)
    times = {"start": int(start), "end": int(start + seconds)}
    return finished_job(profile, name=name, nodes=nodes, tasks=64, time_limit=120, **times)


def ask(jobs, policy=POLICY) -> Assessment:
    return assess(jobs, costs(jobs, model=MODEL, policy=policy), MODEL)


def test_jobs_that_never_meet_lose_nothing_and_that_is_said_plainly():
    found = ask([job("a", 0), job("b", 2 * 3600), job("a", 4 * 3600)])
    assert found.lost == 0.0
    assert found.interval == (0.0, 0.0)
    assert not found.is_anything_at_stake
    assert found.matters_from is None
    assert found.slowdowns["max"] == 1.0


def test_two_jobs_side_by_side_lose_what_the_core_says():
    jobs = [job("small files", 0), job("stream", 0, pattern="aw", nodes=1)]
    pressures = [core.pressure_of(profile_members(one.profile), MODEL, POLICY) for one in jobs]
    expected = {}
    for i, one in enumerate(jobs):
        factor = core.io_factor(pressures[i], [pressures[1 - i]], MODEL)
        expected[one.name] = one.nodes * (1 - 1 / core.job_slowdown(pressures[i], factor))
    found = ask(jobs)
    suffered = {party.name: party.suffered for party in found.parties}
    assert suffered == pytest.approx(expected)
    assert found.parties[0].name == "stream"  # the most harmful first
    worst, other = found.worst_pairs
    assert (worst.victim, worst.aggressor) == ("small files", "stream")
    assert (worst.lost, other.lost) == pytest.approx((expected["small files"], expected["stream"]))
    assert found.is_anything_at_stake


def test_the_interval_holds_the_estimate_and_widens_where_one_day_made_it():
    days = [DAY * day for day in range(20)]
    daily = ask([job("a", t) for t in days] + [job("b", t, pattern="aw") for t in days])
    low, high = daily.interval
    assert 0 < low < daily.lost < high
    once = ask([job("a", t) for t in days] + [job("b", days[3], pattern="aw")])
    low_once, high_once = once.interval
    assert low_once == 0.0  # that day might as well not have been
    assert (high_once - low_once) / once.lost > (high - low) / daily.lost


def test_who_is_mostly_idle_does_not_matter():
    busy = job("busy", 0)
    numbers = {**busy.profile.numbers, "io_share": 0.001}
    idle = replace(busy, name="idle", profile=replace(busy.profile, numbers=numbers))
    found = ask([busy, idle])
    assert (found.jobs, found.heavy) == (2, 1)
    assert found.lost == 0.0
    assert found.node_hours == pytest.approx(8.0)


@settings(max_examples=30, deadline=None)
@given(
    starts=st.lists(st.integers(0, 4 * 3600), min_size=1, max_size=8),
    patterns=st.lists(st.sampled_from(["owc", "ws", "aw"]), min_size=8, max_size=8),
)
def test_what_is_caused_is_what_is_suffered_and_no_more_than_was_used(starts, patterns):
    jobs = [job(p, s, pattern=p) for s, p in zip(starts, patterns, strict=False)]
    found = ask(jobs)
    caused = sum(party.caused for party in found.parties)
    suffered = sum(party.suffered for party in found.parties)
    assert caused == pytest.approx(suffered, abs=1e-9)
    assert suffered == pytest.approx(found.lost, abs=1e-9)
    assert sum(one.lost for one in found.loads) == pytest.approx(found.lost, abs=1e-9)
    assert 0.0 <= found.lost <= found.heavy_node_hours
    assert sum(one.node_hours for one in found.loads) == pytest.approx(found.heavy_node_hours)
    assert found == ask(jobs)


def test_more_storage_costs_less():
    jobs = [job("a", 0), job("b", 0, pattern="aw")]
    large = core.parse_config("t", b"Lane=all Targets=1 Bandwidth=50G\n").policy
    assert ask(jobs, large).lost < 0.2 * ask(jobs).lost


def test_the_load_from_which_on_it_matters_is_that_of_the_jobs_that_met():
    alone = [job("a", DAY * day) for day in range(10)]
    together = [job(f"c{i}", DAY * 20) for i in range(5)]
    found = ask([*alone, *together])
    assert found.matters_from == 2.0  # five of 0.6 each
    assert [one.load for one in found.loads if one.lost] == [4.0]


def test_the_command_says_so_for_a_real_history(tmp_path, monkeypatch):
    history = tmp_path / "history.db"
    monkeypatch.setenv("SLUICE_HISTORY", str(history))
    runner = CliRunner()
    empty = runner.invoke(main, ["site", "assess"])
    assert empty.exit_code == 1
    assert "sluice history ingest" in empty.stderr
    logs = "tests/data/darshan"
    assert runner.invoke(main, ["history", "ingest", logs]).exit_code == 0
    said = runner.invoke(main, ["site", "assess", "--bandwidth", "100G"])
    assert said.exit_code == 0, said.output
    assert said.stdout.startswith("coverage: ")
    assert "Nothing is at stake here" in said.stdout
    answer = json.loads(runner.invoke(main, ["site", "assess", "--json"]).stdout)
    assert answer["jobs"] > 100
    assert answer["bandwidth_from"] == "the fastest run of the history"
    wrong = runner.invoke(main, ["site", "assess", "--bandwidth", "fast"])
    assert wrong.exit_code == 2
    assert "--bandwidth" in wrong.stderr


def test_of_many_jobs_those_that_are_drawn_stand_for_all(monkeypatch):
    jobs = [job(f"a{i % 7}", 900 * i, nodes=1 + i % 5) for i in range(400)]
    whole = ask(jobs)
    monkeypatch.setattr("sluice.interference.cost.VICTIMS", 100)
    some = ask(jobs)
    assert (whole.drawn, some.drawn, some.heavy) == (400, 100, whole.heavy)
    assert some.heavy_node_hours == whole.heavy_node_hours
    assert some.lost == pytest.approx(whole.lost, rel=0.1)
    assert some.slowdowns["p50"] == pytest.approx(whole.slowdowns["p50"], rel=0.1)
    assert sum(one.node_hours for one in some.loads) == pytest.approx(some.heavy_node_hours)
