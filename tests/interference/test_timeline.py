"""What production logs say of when a run wrote: bins, bursts, and the logs of one job."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from click.testing import CliRunner
from history_rows import a_log, a_profile
from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.cli.main import main
from sluice.darshan.bursts import Heatmap, packed
from sluice.history_db.records import Run
from sluice.history_db.store import Store
from sluice.interference.attribution import attribute
from sluice.interference.timeline import (
    BINS,
    Timeline,
    exposure,
    one_run_a_job,
    slices_of,
    timeline_of,
)

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

REAL_LOGS = Path(__file__).parents[1] / "data" / "darshan"


def timeline(moved: ArrayLike, *, start: float = 0.0, name: str = "a", **more) -> Timeline:
    return Timeline(name, 1, start, 1.0, np.array(moved, dtype=float), **more)


# Logs of one job


def slowed_runs() -> list[Timeline]:
    """Six runs of a victim in turn, each alongside a run of an aggressor that halves its rate."""
    rng = np.random.default_rng(3)
    runs = []
    for number in range(6):
        under = np.roll(np.arange(150) % 40 < 25, rng.integers(40))
        rate = np.exp(0.1 * rng.standard_normal(150)) * np.where(under, 0.5, 1.0)
        writes = np.roll(np.arange(150) % 16 < 10, rng.integers(16))
        start = 1000.0 * number
        runs.append(
            timeline(6400.0 * rate * writes, start=start, name="victim", job=2 * number + 1)
        )
        runs.append(timeline(under, start=start, name="aggressor", job=2 * number + 2))
    return [replace(run, processes=64) for run in runs]


def test_a_job_that_left_a_log_for_each_process_counts_as_one_run():
    whole = slowed_runs()
    apart = [replace(run, processes=1, moved=run.moved / 64) for run in whole for _ in range(64)]
    merged = one_run_a_job(apart)
    assert [(one.job, one.processes) for one in merged] == [(one.job, 64) for one in whole]
    (found,), (expected,) = (
        [one for one in attribute(runs).observations if one.victim == "victim"]
        for runs in (merged, whole)
    )
    assert found.is_attributed
    assert expected.is_attributed
    assert (found.disturbed, found.undisturbed) == (expected.disturbed, expected.undisturbed)
    assert (found.rho, found.log_sd) == pytest.approx((expected.rho, expected.log_sd))


logs_of_jobs = st.lists(
    st.builds(
        lambda job, start, width, moved: Timeline("a", 2, start, width, np.array(moved), job=job),
        st.sampled_from([None, 1, 2]),
        st.floats(0.0, 3000.0),
        st.sampled_from([0.1, 0.8, 6.4]),
        st.lists(st.floats(0.0, 1e9), min_size=1, max_size=BINS),
    ),
    max_size=8,
)


@given(logs=logs_of_jobs)
@settings(max_examples=60)
def test_logs_put_together_keep_bytes_and_processes_in_as_few_bins_as_one_log_has(logs):
    runs = one_run_a_job(logs)
    assert sum(run.processes for run in runs) == 2 * len(logs)
    assert sum(run.moved.sum() for run in runs) == pytest.approx(
        sum(log.moved.sum() for log in logs), rel=1e-3
    )
    assert all(len(run.moved) <= BINS for run in runs)
    assert sum(run.job is None for run in runs) == sum(log.job is None for log in logs)


def test_steps_of_a_job_and_programs_of_a_job_stay_apart():
    first = timeline([1.0] * 9, job=7)
    later = replace(first, start=9.0)
    other = replace(first, application="b")
    assert len(one_run_a_job([first, later, other])) == 3
    soon = replace(first, start=8.4)  # the first need not have filled its last bin
    assert len(one_run_a_job([first, soon])) == 2
    short = timeline([1.0], job=7)
    assert len(one_run_a_job([short, short])) == 1


def test_a_burst_that_was_spread_over_bins_it_did_not_fill_keeps_more_of_its_edges_out():
    one = timeline([0, 8, 8, 8, 8, 8, 8, 0, 0, 0] * 5, job=7)
    (even,) = one_run_a_job([one, one])
    (shifted,) = one_run_a_job([one, replace(one, start=0.4)])
    assert np.exp(slices_of(even).log_rate) == pytest.approx(16.0)
    assert np.exp(slices_of(shifted).log_rate) == pytest.approx(16.0)


def test_logs_of_one_job_may_use_the_targets_of_all_of_them():
    one = timeline([1.0] * 9, job=7, targets=frozenset({1}))
    (both,) = one_run_a_job([one, replace(one, targets=frozenset({2}))])
    assert both.targets == {1, 2}
    (unknown,) = one_run_a_job([one, replace(one, targets=None)])
    assert unknown.targets is None


def read(bins: list[int], io_seconds: float | None = None, **log) -> Timeline | None:
    """Return what the history tells of a run."""
    numbers = {"runtime_seconds": 100.0}
    if io_seconds is not None:
        numbers["io_share"] = io_seconds / 100.0
    moved = np.array(bins, dtype=float)
    content = packed(1e9, Heatmap(1.0, moved, 0.0 * moved)) if bins else None
    row = a_log(heatmap=content, exe="/apps/cfd -v", osts=(3, 4), **log)
    return timeline_of(Run(1, row, a_profile(numbers=numbers), b"", None))


def test_a_run_of_the_history_is_known_by_its_heatmap():
    found = read([10**9, 0, 5 * 10**8], jobid=5, nprocs=7)
    assert (found.application, found.processes, found.job) == ("cfd", 7, 5)
    assert (found.start, found.bin_seconds, found.targets) == (1e9, 1.0, {3, 4})
    assert found.moved == pytest.approx([1e9, 0, 5e8], rel=0.05)
    assert read([]) is None


# Bins that are too wide


def test_short_bursts_in_every_bin_are_told_from_one_long_one_by_the_time_spent_in_io():
    dense, sparse, unknown = (read([10**9] * 90, seconds) for seconds in (80.0, 9.0, None))
    assert (dense.io_seconds, sparse.io_seconds, unknown.io_seconds) == (80.0, 9.0, None)
    assert slices_of(dense) is not None
    assert slices_of(sparse) is None
    assert slices_of(unknown) is not None


def test_the_time_in_io_of_a_job_is_not_the_sum_over_processes_that_wrote_together():
    one = timeline([0] + [5.0] * 20 + [0], job=7, io_seconds=4.0)
    (merged,) = one_run_a_job([one] * 16)
    assert merged.io_seconds == pytest.approx(4.0)
    assert slices_of(merged) is None


def vague(runs: list[Timeline]) -> list[Timeline]:
    """Let the aggressor have spent a tenth of its busy time in I/O."""
    return [
        replace(run, io_seconds=0.1 * run.busy_seconds) if run.application == "aggressor" else run
        for run in runs
    ]


def test_an_aggressor_whose_bins_are_too_wide_is_not_paired_but_counted():
    sharp = slowed_runs()
    assert "aggressor" in {one.aggressor for one in attribute(sharp).observations}
    findings = attribute(vague(sharp))
    assert findings.observations == ()
    assert (findings.resolved, findings.unresolved, findings.coarse) == (6, 6, 1)


def test_the_part_of_an_aggressor_with_too_wide_bins_is_still_taken_out_of_what_others_did():
    """A third that always writes with the aggressor can then not be called instead of it."""
    runs = slowed_runs()
    shadows = [
        replace(run, application="shadow", job=100 + run.job)
        for run in runs
        if run.application == "aggressor"
    ]
    findings = attribute([*vague(runs), *shadows])
    assert not [one for one in findings.observations if one.victim == "victim"]


def test_the_recorded_logs_resolve_few_runs_and_no_two_of_them_met(tmp_path):
    history = tmp_path / "history.db"
    words = ["history", "ingest", str(REAL_LOGS), "--history", str(history)]
    assert CliRunner().invoke(main, words).exit_code in {0, 1}
    with Store(history, read_only=True) as store:
        runs = [one for one in map(timeline_of, store.runs.runs()) if one is not None]
    found = attribute(one_run_a_job(runs))
    assert found.unresolved > found.resolved
    assert (found.too_few, found.coarse, found.observations) == (0, 0, ())


# When others were busy


def brute_exposure(run: Timeline, others: list[Timeline]) -> list[float]:
    """Cut every bin wherever anybody's bin ends; ask of each piece who was busy in its middle."""
    cuts = np.unique(np.concatenate([run.edges, *(other.edges for other in others)]))
    under = [0.0] * len(run.moved)
    for begin, finish in pairwise(cuts):
        middle = (begin + finish) / 2.0
        into = [math.floor((middle - one.start) / one.bin_seconds) for one in (run, *others)]
        if not 0 <= into[0] < len(run.moved):
            continue
        if any(
            0 <= bin_ < len(other.moved) and other.busy[bin_]
            for bin_, other in zip(into[1:], others, strict=True)
        ):
            under[into[0]] += (finish - begin) / run.bin_seconds
    return under


others_of_a_run = st.lists(
    st.builds(
        lambda moved, start, width: Timeline("b", 1, start, width, np.array(moved, dtype=float)),
        st.lists(st.booleans(), min_size=1, max_size=12),
        st.floats(-15.0, 25.0),
        st.floats(0.3, 7.0),
    ),
    max_size=4,
)


@given(others=others_of_a_run)
@settings(max_examples=60)
def test_exposure_is_the_time_under_any_of_the_others_each_moment_counted_once(others):
    run = timeline([1.0] * 20)
    assert exposure(run, others) == pytest.approx(brute_exposure(run, others), abs=1e-9)


def test_two_others_in_the_same_half_of_a_bin_cover_half_of_it():
    run = timeline([1.0])
    half = Timeline("b", 1, 0.5, 0.5, np.array([1.0]))
    assert exposure(run, [half, half]).tolist() == [0.5]
