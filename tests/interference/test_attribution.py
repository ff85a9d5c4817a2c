"""Interference between production jobs: found where it was planted, and nowhere else."""

from __future__ import annotations

import json
from dataclasses import fields, replace

import numpy as np
import planted
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import false_discovery_control

from sluice.cli.main import main
from sluice.history_db.records import Job
from sluice.history_db.store import Store
from sluice.interference import attribution
from sluice.interference.attribution import CLEAR, UNDER, Findings, attribute
from sluice.interference.pairs import false_discovery_rates, pooled
from sluice.interference.timeline import (
    Timeline,
    exposure,
    load_of_jobs,
    slices_of,
)


@pytest.fixture(scope="module")
def runs() -> list[Timeline]:
    return planted.runs(1)


def attributed(findings: Findings) -> set[tuple[str, str]]:
    return {(one.victim, one.aggressor) for one in findings.observations if one.is_attributed}


def timeline(moved: list[float], *, start: float = 0.0, name: str = "a", **more) -> Timeline:
    return Timeline(name, 1, start, 1.0, np.array(moved, dtype=float), **more)


def test_planted_interference_is_found_with_its_size_and_nothing_else_is(runs):
    findings = attribute(runs)
    assert findings.unresolved == 0
    assert attributed(findings) == set(planted.PLANTED)
    for one in findings.observations:
        if one.is_attributed:
            low, high = one.interval
            assert low <= planted.PLANTED[one.victim, one.aggressor] <= high


def test_a_speed_up_is_kept_and_not_called_interference():
    faster = planted.runs(2, planted={("logger", "streamer"): 1.8})
    findings = attribute(faster)
    (seen,) = [
        one
        for one in findings.observations
        if (one.victim, one.aggressor) == ("logger", "streamer")
    ]
    assert seen.rho > 1.2
    assert attributed(findings) == set()


def control(runs: list[Timeline], shuffles: int, false_rate: float) -> int:
    """In how many shuffled histories something is attributed."""
    rng = np.random.default_rng(7)
    return sum(
        bool(attributed(attribute(planted.shuffled(runs, rng), seed=seed, false_rate=false_rate)))
        for seed in range(shuffles)
    )


# With every pair innocent, the rate of false attributions is the share of shuffles that have one.
# The bounds are what a true rate of 5 % (20 %) exceeds once in a thousand times.


def test_shuffled_time_gives_no_more_than_the_stated_rate(runs):
    few = [one for one in runs if one.application in ("logger", "streamer")]
    assert control(few, 20, 0.05) <= 5


@pytest.mark.acceptance
def test_shuffled_time_gives_no_more_than_the_stated_rate_in_many_storage_models(runs):
    for false_rate, most in ((0.05, 19), (0.2, 50)):
        false = control(runs, 150, false_rate)
        print(
            f"stated rate {false_rate}: something attributed in {false} of 150 shuffled histories"
        )
        assert false <= most


APPLICATIONS = 12  # 144 pairs: one alone among them needs a p-value below 0.0004
EACH = 6


def many(seed: int) -> list[Timeline]:
    """Runs of many applications, no two of one size; the first halves the rate of the second."""
    rng = np.random.default_rng(seed)
    jobs = [(number, int(rng.integers(400))) for number in range(APPLICATIONS) for _ in range(EACH)]
    busy = np.zeros((len(jobs), 600), dtype=bool)
    for i, (_, start) in enumerate(jobs):
        burst, pause = int(rng.integers(8, 16)), int(rng.integers(15, 30))
        turned = np.arange(200) + rng.integers(200)
        busy[i, start : start + 200] = turned % (burst + pause) < burst
    under_first = busy[:EACH].any(axis=0)
    runs = []
    for i, (number, start) in enumerate(jobs):
        rates = 100.0 * np.exp(0.15 * rng.standard_normal(600)) * busy[i]
        if number == 1:
            rates[under_first] *= 0.5
        moved = rates[start : start + 200]
        runs.append(Timeline(f"app{number:02}", i + 1, float(start), 1.0, moved))
    return runs


def test_one_pair_that_interferes_is_found_among_many_that_do_not():
    runs = many(1)
    findings = attribute(runs)
    assert len(findings.observations) > 50
    assert attributed(findings) == {("app01", "app00")}
    assert findings.out_of_reach == 0


@pytest.mark.acceptance
def test_shuffled_time_gives_no_more_than_the_stated_rate_among_many_pairs():
    false = control(many(1), 40, 0.05)
    print(f"stated rate 0.05, 144 pairs: something attributed in {false} of 40 shuffled histories")
    assert false <= 7


def test_findings_are_the_same_whenever_they_are_asked_for(runs):
    assert attribute(runs[::4]) == attribute(runs[::4])


def test_bursts_shorter_than_two_bins_are_unresolved():
    short = timeline([0, 5, 5, 0, 0, 5, 5, 0] * 10)
    long = timeline([0, 5, 9, 9, 5, 0, 0, 0] * 10, start=3.0, name="b")
    assert slices_of(short) is None
    findings = attribute([short, long])
    assert (findings.resolved, findings.unresolved) == (1, 1)


def test_a_run_of_which_only_some_bursts_are_long_enough_is_unresolved():
    assert slices_of(timeline([0, 5, 5, 0, 0, 5, 9, 9, 5, 0] * 5)) is None


def test_a_run_that_moves_nothing_is_unresolved():
    assert slices_of(timeline([0.0] * 10)) is None


@given(
    moved=st.lists(st.sampled_from([0.0, 1.0, 100.0, 200.0]), min_size=1, max_size=60),
    width=st.floats(0.1, 100.0),
)
def test_slices_lie_inside_bursts_and_tell_the_rate_between_their_slowest_and_fastest_bin(
    moved, width
):
    run = replace(timeline(moved), bin_seconds=width)
    slices = slices_of(run)
    if slices is None:
        return
    for first, end, log_rate in zip(slices.first, slices.end, slices.log_rate, strict=True):
        assert run.busy[first - 1 : end + 1].all()
        inside = run.moved[first:end] / width
        assert inside.min() * 0.999 <= np.exp(log_rate) <= inside.max() * 1.001


@given(
    moved=st.lists(st.booleans(), min_size=3, max_size=40),
    shift=st.floats(-50.0, 50.0),
    width=st.floats(0.3, 7.0),
)
@settings(max_examples=200)
def test_exposure_is_the_time_under_the_other_however_their_bins_lie(moved, shift, width):
    run = timeline([1.0] * 30)
    other = Timeline("b", 1, shift, width, np.array(moved, dtype=float))
    expected = sum(
        max(0.0, min(30.0, shift + width * (i + 1)) - max(0.0, shift + width * i))
        for i, busy in enumerate(moved)
        if busy
    )
    assert exposure(run, [other]).sum() == pytest.approx(expected, abs=1e-6)


def test_logs_of_one_job_are_not_each_others_aggressors():
    one, two = timeline([1.0] * 9, job=7), timeline([1.0] * 9, job=7)
    assert not one.shares_with(two)
    assert one.shares_with(replace(two, job=8))


def test_runs_on_disjoint_targets_cannot_meet():
    one = timeline([1.0] * 9, targets=frozenset({1, 2}))
    assert not one.shares_with(timeline([1.0] * 9, targets=frozenset({3})))
    assert one.shares_with(timeline([1.0] * 9, targets=frozenset({2, 3})))
    assert one.shares_with(timeline([1.0] * 9))


def unlogged(start: float, end: float, *, number: int = 77, moved: int = 10**12) -> Job:
    nothing = dict.fromkeys(field.name for field in fields(Job))
    known = {"cluster": "c", "job_id": number, "submit": 0, "restarts": 0, "source": "sacct"}
    did = {"start": round(start), "end": round(end), "write_bytes": moved, "array_task": -1}
    return Job(**nothing | known | did)


def test_a_job_without_a_log_is_busy_from_its_start_to_its_end():
    load = load_of_jobs(
        [unlogged(100, 130), unlogged(400, 600, moved=10), unlogged(-50, 10)], 0, 505
    )
    busy = np.flatnonzero(load.busy) * load.bin_seconds
    assert busy.tolist() == [0.0, 100.0, 110.0, 120.0]


def test_what_jobs_without_a_log_did_is_not_laid_to_a_job_that_writes_at_the_same_time():
    rng = np.random.default_rng(3)
    victims, writers, jobs = [], [], []
    for i in range(12):
        start, spell = 1000.0 * i, slice(*(np.array([60, 120]) + rng.integers(-40, 60)))
        rate = 100.0 * np.exp(0.1 * rng.standard_normal(200))
        rate[spell] *= 0.5
        victims.append(Timeline("victim", i + 1, start, 1.0, rate))
        wrote = np.zeros(200)
        wrote[spell.start + 20 : spell.stop + 15] = 1.0
        writers.append(Timeline("writer", 1, start, 1.0, wrote))
        jobs.append(unlogged(start + spell.start, start + spell.stop))
    alongside = load_of_jobs(jobs, 0.0, 12_000.0)
    assert attributed(attribute([*victims, *writers])) == {("victim", "writer")}
    told = attribute([*victims, *writers], alongside=[alongside])
    assert attributed(told) == set()
    assert {one.aggressor for one in told.observations} == {"writer"}
    assert told.coarse == 0


@pytest.fixture(scope="module")
def history(runs, tmp_path_factory):
    """A history that knows the planted runs."""
    path = tmp_path_factory.mktemp("history") / "history.db"
    with Store(path, create=True) as store:
        planted.fill(store, runs)
    return path


def learn(history, *words: str):
    words = ["site", "interference", "--learn", "2023-11-01", "--history", str(history), *words]
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 0, done.output
    return done


def test_pairs_are_learned_from_the_history_kept_and_shown(history):
    done = learn(history, "--json")
    shown = json.loads(done.stdout)["production"]
    assert {(o["victim"], o["aggressor"]) for o in shown if o["is_attributed"]} == set(
        planted.PLANTED
    )
    assert "48 logs with a heatmap, 0 without; 48 runs resolved" in done.stderr
    with Store(history, read_only=True) as store:
        kept = pooled(store.interference.observed_interference())
    assert [(o.victim, o.rho) for o in kept] == [(o["victim"], o["rho"]) for o in shown]
    for one in kept:
        if one.is_attributed:
            assert one.rho == pytest.approx(planted.PLANTED[one.victim, one.aggressor], rel=0.2)
    done = CliRunner().invoke(main, ["site", "interference", "--history", str(history)])
    assert "Learned from production:" in done.stdout
    assert "may be chance" in done.stdout


def test_nothing_is_learned_from_runs_that_no_counter_confirms(runs, tmp_path):
    with Store(tmp_path / "history.db", create=True) as store:
        planted.fill(store, runs, counted=0.001)
    done = learn(tmp_path / "history.db", "--json")
    assert "0 logs with a heatmap" in done.stderr
    assert json.loads(done.stdout)["production"] == []


def test_jobs_without_a_log_are_known_by_the_history(runs, tmp_path):
    with Store(tmp_path / "history.db", create=True) as store:
        planted.fill(store, runs[:3])
        meanwhile = unlogged(planted.START, planted.START + 10_000)
        before = unlogged(planted.START - 99, planted.START - 9, number=78)
        store.jobs.upsert_jobs([meanwhile, before])
    assert "1 job without a log ran meanwhile" in learn(tmp_path / "history.db").stderr


def test_it_says_when_it_cannot_try_as_many_shuffles_as_so_many_pairs_need(history, monkeypatch):
    monkeypatch.setattr(attribution, "MOST_NUMBERS", 0)
    monkeypatch.setattr(attribution.attribute, "__kwdefaults__", FEW_FALSE)
    said = learn(history).stderr
    assert "2 pairs fell further than in every shuffled history" in said
    assert "16 pairs need a p of 1e-05" in said


FEW_FALSE = {"alongside": (), "false_rate": 0.00016, "seed": 0}


def test_shares_between_clear_and_under_count_on_neither_side(runs):
    assert 0 < CLEAR < UNDER < 1
    findings = attribute(runs)
    for one in findings.observations:
        victims = [run for run in runs if run.application == one.victim]
        slices = sum(len(slices_of(run)) for run in victims)
        assert one.disturbed + one.undisturbed <= slices


@given(st.lists(st.floats(0, 1), min_size=1, max_size=30))
@settings(max_examples=50, deadline=None)
def test_rates_of_false_discovery_are_those_of_newer_releases_of_scipy(p_values):
    np.testing.assert_allclose(false_discovery_rates(p_values), false_discovery_control(p_values))
