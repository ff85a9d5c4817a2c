"""What programs do alone, learned from runs that were not."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
import pytest
from contended_runs import LAWS, MeanField, Program, Run, alone, contended, programs
from finished import finished_job
from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.darshan.bursts import Heatmap, packed
from sluice.history_db.records import Profile
from sluice.policies import core
from sluice.prediction.co_running import IoRun, seen_storage
from sluice.prediction.expectation import expected
from sluice.prediction.jobs import profile_members
from sluice.prediction.solo_estimate import estimate, undisturbed

if TYPE_CHECKING:
    from sluice.prediction.jobs import FinishedJob

BANDWIDTH = 60e6
FACTOR = math.log(1.5)


def job(run: Run, number: int, *, has_heatmap: bool = True) -> FinishedJob:
    """What the history holds of a run."""
    numbers = {
        "rate": run.moved / run.io_seconds,
        "io_share": run.io_seconds / run.seconds,
        "runtime_seconds": run.seconds,
        "write_bytes": run.moved,
        "bytes_per_flush": 1e6 if run.program.flushes else run.moved,
        "chunk_bytes": 1e6,
        "nprocs": 8.0,
    }
    heatmap = Heatmap(run.bin_seconds, run.bins, np.zeros(len(run.bins)))
    return finished_job(
        Profile("aw", 0.95, {"aw": 1.0}, numbers, 0.2),
        number=number,
        name=run.program.name,
        start=int(run.start),
        end=int(run.start + run.seconds) + 1,
        heatmap=packed(run.start, heatmap) if has_heatmap else None,
    )


@cache
def site(law: str, slots: int) -> tuple[list[Run], dict[str, Run]]:
    """Runs with co-runners only, and of each program one that was alone."""
    storage = MeanField(BANDWIDTH, law)
    chosen = programs(np.random.default_rng(3), 5, BANDWIDTH)
    truth = {one.name: alone(one, storage, runs=1)[0] for one in chosen}
    return contended(chosen, storage, each=8, slots=slots, seed=3), truth


def jobs_of(runs: list[Run], **how: bool) -> list[FinishedJob]:
    return [job(run, number, **how) for number, run in enumerate(runs)]


def number(job: FinishedJob, name: str) -> float:
    return job.profile.numbers[name]


@pytest.mark.parametrize("law", LAWS)
def test_what_programs_do_alone_is_learned_from_runs_with_co_runners(law):
    runs, truth = site(law, 4)
    by_name: dict[str, list[FinishedJob]] = {}
    for one in undisturbed(jobs_of(runs)):
        by_name.setdefault(one.name, []).append(one)
    near, inside, shares = [], [], []
    for name, jobs in by_name.items():
        right = truth[name].moved / truth[name].io_seconds
        error = math.log(np.median([number(one, "rate") for one in jobs]) / right)
        near.append(abs(error) < FACTOR)
        inside.append(abs(error) < core.Z90 * jobs[0].disturbance.log_sd)
        share = np.median([number(one, "io_share") for one in jobs])
        shares.append(abs(share - truth[name].io_seconds / truth[name].seconds) < 0.15)
    assert np.mean(near) >= 0.8
    assert np.mean(inside) >= 0.8
    assert np.mean(shares) >= 0.8


@pytest.mark.parametrize("law", LAWS)
def test_what_all_lost_is_what_the_clock_says(law):
    runs, truth = site(law, 4)
    lost = sum(one.disturbance.lost() for one in undisturbed(jobs_of(runs)) if one.disturbance)
    by_clock = sum(run.seconds - truth[run.program.name].seconds for run in runs)
    assert by_clock / 1.5 < lost < by_clock * 1.5


def test_runs_that_never_met_lost_nothing_and_stay_as_they_were_seen():
    storage = MeanField(BANDWIDTH, "fair", noise=0.2)
    (program,) = programs(np.random.default_rng(1), 1, BANDWIDTH)
    runs = [
        replace(run, start=run.start + 10_000 * i)
        for i, run in enumerate(alone(program, storage, runs=8))
    ]
    jobs = jobs_of(runs)
    found = undisturbed(jobs)
    assert [one.profile for one in found] == [one.profile for one in jobs]
    assert sum(one.disturbance.lost() for one in found) == 0


def test_without_heatmaps_less_is_known():
    runs, _ = site("fair", 4)
    with_them = [one.disturbance.log_sd for one in undisturbed(jobs_of(runs))]
    without = [one.disturbance.log_sd for one in undisturbed(jobs_of(runs, has_heatmap=False))]
    assert np.mean(without) > np.mean(with_them)


def test_a_program_that_was_never_undisturbed_has_a_wide_interval():
    storage = MeanField(BANDWIDTH, "fair")
    always = Program("always", 1, 20 * BANDWIDTH, 0.0, BANDWIDTH, 1.0, flushes=False)
    often = replace(always, name="often", bursts=4, burst_bytes=3 * BANDWIDTH, pause=6.0)
    together = contended([always, replace(always, name="too")], storage, each=8, slots=6)
    calm = contended([often], storage, each=8, slots=2)
    wide = undisturbed(jobs_of(together))[0].disturbance.log_sd
    narrow = undisturbed(jobs_of(calm))[0].disturbance.log_sd
    assert wide > 2 * narrow
    assert expected(undisturbed(jobs_of(together))[:8]).spread["rate"] >= wide


def test_one_wild_run_does_not_spoil_the_rest():
    runs, _ = site("fair", 4)
    jobs = jobs_of(runs)
    name = jobs[0].name
    slow = replace(jobs[0].profile, numbers=jobs[0].profile.numbers | {"rate": 2e5})
    usual, spoiled = (
        np.median([number(one, "rate") for one in undisturbed(some) if one.name == name])
        for some in (jobs, [replace(jobs[0], profile=slow), *jobs[1:]])
    )
    assert spoiled == pytest.approx(usual, rel=0.25)


def test_jobs_on_other_targets_are_no_co_runners():
    runs, _ = site("fair", 4)
    jobs = [replace(one, targets=frozenset({i})) for i, one in enumerate(jobs_of(runs))]
    assert sum(one.disturbance.lost() for one in undisturbed(jobs)) == 0


def test_a_storage_is_known_by_what_it_moved_and_what_its_cache_takes_beyond():
    runs, _ = site("cached", 4)
    io_runs = [
        IoRun(
            run.program.name, i, run.start, run.seconds, run.io_seconds, run.moved,
            run.bin_seconds, run.bins,
        )
        for i, run in enumerate(runs)
    ]  # fmt: skip
    seen = seen_storage(io_runs)
    assert seen.most == pytest.approx(BANDWIDTH, rel=0.2)
    assert seen.cache > 0.1 * BANDWIDTH
    assert set(estimate(io_runs).programs) == {run.program.name for run in runs}


@settings(max_examples=15, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["a", "b"]),
            st.integers(0, 300),
            st.floats(0.0, 1.0),
            st.floats(0.0, 1e5),
            st.floats(0.0, 1e12),
            st.booleans(),
        ),
        max_size=6,
    )
)
def test_histories_of_any_sparseness_give_profiles_that_the_core_takes(rows):
    jobs = [
        finished_job(
            Profile("aw", 0.9, {"aw": 1.0}, {
                "rate": rate, "io_share": share, "runtime_seconds": seconds,
                **({"burst_seconds": 1.0, "period_seconds": 2.0} if has_bursts else {}),
            }, 0.2),
            number=i, name=name, start=start, end=start + 60,
        )
        for i, (name, start, share, seconds, rate, has_bursts) in enumerate(rows)
    ]  # fmt: skip
    found = undisturbed(jobs)
    assert [one.logs for one in found] == [one.logs for one in jobs]
    for one in found:
        core.class_of(profile_members(one.profile), core.default_config().policy)
        assert all(math.isfinite(value) for value in one.profile.numbers.values())
        if one.disturbance:
            assert 0 <= one.disturbance.lost() <= one.disturbance.lost(2.0)
            assert one.disturbance.lost(2.0) <= one.disturbance.io_seconds
