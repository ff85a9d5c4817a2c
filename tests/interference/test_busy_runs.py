"""Runs at busy times against quiet ones: what a made history lost is found without a model."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from click.testing import CliRunner
from finished import finished_job
from history_rows import a_job, a_log, a_profile
from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.cli.main import main
from sluice.history_db.job_stats import JobStats
from sluice.history_db.records import ServerCount
from sluice.history_db.store import Store
from sluice.interference.assess import ByLaw, Sources, scale_of
from sluice.interference.busy_runs import Moved, TimedRun, compare, moved_during

JANUARY, FEBRUARY = 1_767_225_600, 1_769_904_000  # 2026
HOUR = 3600


def a_run(seconds: float, load: float, *, program="solver", start=JANUARY, nodes=4) -> TimedRun:
    return TimedRun(program, start, seconds, nodes * seconds, load)


def runs_of(quiet, busy, *, load=0.2, **more) -> list[TimedRun]:
    return [a_run(one, 0.0, **more) for one in quiet] + [a_run(one, load, **more) for one in busy]


def test_a_known_loss_is_found():
    found = compare(runs_of([1000] * 3, [1250] * 5))
    assert found.lost_share == pytest.approx(5 * 250 / (3 * 1000 + 5 * 1250))
    assert found.kept == pytest.approx(0.8)
    assert (found.programs, found.quiet, found.busy, found.compared_share) == (1, 3, 5, 1.0)
    assert found.interval == pytest.approx((found.lost_share, found.lost_share))


def test_what_loses_nothing_is_found_to_lose_nothing():
    assert compare(runs_of([1000] * 3, [1000] * 5)).lost_share == 0


@pytest.mark.parametrize(
    "runs",
    [
        [],
        runs_of([1000] * 5, []),
        runs_of([], [1000] * 5),
        runs_of([1000], [1250] * 5),  # one run proves nothing
        runs_of([1000] * 5, [1250] * 5, load=0.02),  # too little else moved
        runs_of([1000] * 5, [], program="a") + runs_of([], [1250] * 5, program="b"),
        runs_of([1000] * 5, [], start=JANUARY) + runs_of([], [1250] * 5, start=FEBRUARY),
    ],
)
def test_only_runs_of_one_program_and_month_are_compared(runs):
    assert compare(runs) is None


def test_what_is_not_quiet_is_busy():
    found = compare(runs_of([1000] * 2, [1100] * 2, load=0.03))
    assert (found.quiet, found.busy) == (2, 2)
    assert found.kept == pytest.approx(1 / 1.1)
    assert found.lost_share == pytest.approx(200 / 4200)


def test_a_quiet_run_that_something_else_delayed_does_not_hide_a_loss():
    found = compare(runs_of([1000, 1000, 9000], [1250] * 5))
    assert found.kept == pytest.approx(0.8)


def test_months_are_told_apart():
    runs = runs_of([1000] * 2, [2000] * 2) + runs_of([1000] * 2, [1000] * 2, start=FEBRUARY)
    january, february = compare(runs).months
    assert (january.month, february.month) == ("2026-01", "2026-02")
    assert january.lost_share == pytest.approx(1 / 3)
    assert february.lost_share == 0


@pytest.mark.parametrize("lost", [0.0, 0.15, 0.3])
def test_the_interval_holds_what_was_lost_among_runs_that_differ(lost):
    held = 0
    for seed in range(40):
        random = np.random.default_rng(seed)
        runs = []
        for program in range(12):
            usual = random.uniform(300, 3000)
            times = usual * np.exp(random.normal(0, 0.1, 12))
            times[6:] /= 1 - lost
            runs += runs_of(times[:6], times[6:], program=program)
        found = compare(runs)
        disturbed = sum(run.node_seconds for run in runs if run.load > 0)
        truth = lost * disturbed / sum(run.node_seconds for run in runs)
        held += found.interval[0] <= truth <= found.interval[1]
    assert held >= 32  # of 40, at a nominal 36


TIMES = st.lists(st.floats(10, 1e5), min_size=2, max_size=6)


@settings(max_examples=60, deadline=None)
@given(quiet=TIMES, busy=TIMES, factor=st.floats(1.01, 10), share=st.floats(0.01, 1))
def test_laws_of_a_comparison(quiet, busy, factor, share):
    runs = runs_of(quiet, busy)
    found = compare(runs)
    assert found.lost_share < 1
    assert found == compare(runs[::-1])
    slower = compare(runs_of(quiet, [factor * one for one in busy]))
    assert slower.lost_share > found.lost_share
    part = compare(runs, of_all=share)
    assert part.lost_share == pytest.approx(share * found.lost_share, rel=1e-9, abs=1e-12)
    more_nodes = [replace(run, node_seconds=3 * run.node_seconds) for run in runs]
    assert compare(more_nodes).lost_share == pytest.approx(found.lost_share, rel=1e-9, abs=1e-12)


INSTANTS = st.integers(0, 10_000)
TRAFFIC = st.builds(
    lambda start, length, moved: Moved(JANUARY + start, JANUARY + start + length, moved),
    INSTANTS,
    st.integers(0, 5000),
    st.floats(0, 1e15),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(TRAFFIC, max_size=20), st.lists(st.tuples(INSTANTS, st.integers(1, 5000))))
def test_what_moved_during_a_span_is_the_sum_of_its_parts(traffic, spans):
    edges = np.array([(JANUARY + s, JANUARY + s + n) for s, n in spans], float).reshape(-1, 2)
    expected = [math.fsum(one.during(*span) for one in traffic) for span in edges]
    whole = math.fsum(one.bytes for one in traffic)
    assert moved_during(traffic, edges) == pytest.approx(expected, abs=1e-9 * whole + 1e-6)


# Where a site stands


def jobs_with(shares, *, read=0.0):
    return [
        finished_job(a_profile(numbers={"io_share": one, "read_bytes": read, "write_bytes": 1.0}))
        for one in shares
    ]


@pytest.mark.parametrize(
    ("with_io", "at_least", "below"),
    [(0, None, 0.05), (4, None, 0.05), (6, 0.05, 0.10), (10, 0.10, 0.30), (45, 0.30, None)],
)
def test_a_site_stands_between_two_heavy_shares(with_io, at_least, below):
    found = scale_of(jobs_with([0.02] * with_io + [0.019] * (100 - with_io), read=3.0))
    assert found.node_hours_share == pytest.approx(with_io / 100)
    assert (found.at_least, found.below) == (at_least, below)
    assert found.read_share == 0.75


def test_without_shares_of_io_a_site_stands_nowhere():
    assert scale_of([finished_job(a_profile(numbers={}))]) is None


def test_sources_agree_where_their_intervals_meet():
    law, other = ByLaw(5, 0.1, (0.05, 0.2)), compare(runs_of([1000] * 2, [1200] * 2))
    assert Sources(law=law).agree is None
    assert Sources(law=law, run_times=replace(other, interval=(0.19, 0.3))).agree
    assert not Sources(law=law, run_times=replace(other, interval=(0.21, 0.3))).agree


# A history

BANDWIDTH = 1 << 30
COMPUTES, WRITES = 600, 300  # seconds of a run alone
SLOW = 1.5  # times as long that its I/O takes while another program moves half of what storage can
RUNS = 10  # quiet ones, and busy ones


def made_history(path, *, counted_by_servers: bool) -> None:
    """A solver, every hour; in half of its runs a program without a log fills storage."""
    volume = 0.01 * BANDWIDTH * WRITES
    with Store(path, create=True) as store:
        served = []
        for number in range(1, 2 * RUNS + 1):
            is_busy = number % 2 == 0
            io = WRITES * (SLOW if is_busy else 1)
            start = JANUARY + HOUR * number
            times = {"start": start, "end": int(start + COMPUTES + io)}
            job = a_job(job_id=number, submit=start, name="solver", uid=1000, nodes=4, **times)
            numbers = {
                "io_share": io / (COMPUTES + io),
                "runtime_seconds": COMPUTES + io,
                "rate": volume / io,
                "read_bytes": 0.75 * volume,
                "write_bytes": 0.25 * volume,
                "chunk_bytes": 1e6,
                "nprocs": 64.0,
            }
            profile = a_profile(pattern="aw", shares={"aw": 1.0}, numbers=numbers)
            store.jobs.upsert_jobs([job])
            store.runs.add_logs([(a_log(number, jobid=number, **times), profile, b"")])
            served.append(JobStats(number, read_bytes=int(volume)))
            if is_busy:
                moved = int(0.5 * BANDWIDTH * (COMPUTES + io))
                other = a_job(job_id=500 + number, submit=start, name="copy", uid=1001, **times)
                store.jobs.upsert_jobs([replace(other, write_bytes=moved)])
                served.append(JobStats(500 + number, write_bytes=moved))
        if counted_by_servers:
            store.jobs.put_job_stats(served)
        store.jobs.link_logs()
        store.jobs.update_coverage()


LOST = RUNS * (SLOW - 1) * WRITES / (RUNS * (2 * COMPUTES + (1 + SLOW) * WRITES))


def ask(path, *words: str) -> str:
    command = ["site", "assess", "--no-levers", "--bandwidth", "1G", "--history", str(path)]
    done = CliRunner().invoke(main, [*command, *words], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


@pytest.mark.parametrize("counted_by_servers", [True, False])
def test_two_sources_find_what_a_history_lost_although_no_log_tells_of_the_other(
    tmp_path, counted_by_servers
):
    history = tmp_path / "history.db"
    made_history(history, counted_by_servers=counted_by_servers)
    found = json.loads(ask(history, "--json"))
    sources = found["sources"]
    assert sources["run_times"]["lost_share"] == pytest.approx(LOST, rel=0.01)
    assert sources["run_times"]["kept"] == pytest.approx(
        (COMPUTES + WRITES) / (COMPUTES + SLOW * WRITES), rel=0.01
    )
    (month,) = sources["run_times"]["months"]
    assert (month["month"], month["quiet"], month["busy"]) == ("2026-01", RUNS, RUNS)
    assert sources["law"]["lost_share"] == 0  # which sees no co-runner
    assert sources["agree"] is False
    counts = sources["server_counts"]
    if counted_by_servers:
        assert counts["lost_share"] == pytest.approx(LOST, rel=0.01)
        assert counts["kept"] == pytest.approx(1 / SLOW, rel=0.01)
    else:
        assert counts is None
    assert found["scale"]["node_hours_share"] == 1.0
    assert found["scale"]["read_share"] == 0.75


def test_what_servers_counted_over_time_goes_before_what_they_counted_of_jobs(tmp_path):
    history = tmp_path / "history.db"
    made_history(history, counted_by_servers=True)
    with Store(history) as store:
        counts = [
            ServerCount(
                f"OST{target}",
                JANUARY + HOUR * hour,
                HOUR,
                0.0,
                0.25 * BANDWIDTH * HOUR * (hour % 2 == 0),
            )
            for hour in range(2 * RUNS + 2)
            for target in range(2)
        ]
        store.interference.put_server_counts(counts)
    counts = json.loads(ask(history, "--json"))["sources"]["server_counts"]
    assert counts["lost_share"] == pytest.approx(LOST, rel=0.01)
    assert (counts["quiet"], counts["busy"]) == (RUNS, RUNS)


def test_the_text_says_where_the_site_stands_and_what_has_no_data(tmp_path):
    history = tmp_path / "history.db"
    made_history(history, counted_by_servers=False)
    told = ask(history)
    assert "Your site: 100% of node-hours in jobs with at least 2% of I/O; reads are 75%" in told
    assert "with heavy shares of 5%, 10% and 30%: above 30%." in told
    assert "no data: no program that the servers counted ran at quiet and busy times" in told
    assert f"{RUNS} quiet runs and {RUNS} busy ones of 1 program" in told
    assert "The sources do not agree." in told
