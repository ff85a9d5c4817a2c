"""Predictions as deployed: each run is learned from when it ended, and the last run is to beat."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from decided_users import matters, share_decided, walk_deciding
from finished import finished_job
from made_users import HABITS, made_users

from sluice.history_db.records import Profile
from sluice.policies import core
from sluice.prediction.backtest import NothingToPredictError, walk
from sluice.prediction.expectation import MEMORIES, site_losses
from sluice.prediction.hindsight import ageing_of
from sluice.prediction.score import Yardsticks, judge, score, with_yardsticks
from sluice.prediction.submission_features import Predicted
from sluice.prediction.train import Past

DAY = 86400
MIB = float(1 << 20)


def a_job(number, mib, *, start, **changes):
    numbers = {"write_bytes": mib * MIB, "read_bytes": 0.0, "io_share": 0.1}
    profile = Profile("aw", 0.95, {"aw": 1.0}, numbers, 0.5)
    return finished_job(profile, number=number, start=start, submit=start - 10, **changes)


# Against the last run


@pytest.fixture(scope="module")
def users():
    made = made_users(1500, seed=4, users=20)
    assert {habit for habit, _ in made} == set(HABITS)
    return Past([job for _, job in made], [])


@pytest.mark.parametrize("known_after", [120, 3600, DAY], ids=["2 minutes", "1 hour", "1 day"])
def test_bytes_are_right_as_often_as_the_last_runs_and_intervals_hold(users, known_after):
    found = judge(*walk(users, skip=0.3, known_after=known_after))
    assert found.bytes_within_2 >= found.last_within_2 > found.mean_within_2 + 0.2
    assert 0.85 <= found.bytes_inside <= 0.95
    assert found.accuracy_answered > 0.9
    assert found.answered > 0.65


def test_most_submissions_are_decided_on_and_most_of_those_that_matter(users):
    items, records = walk_deciding(users, skip=0.5, known_after=120)
    made = [(item.job, records[item.job.logs]) for item in items]
    those = [(job, record) for job, record in made if matters(job)]
    assert share_decided(made) >= 0.65
    assert share_decided(those) >= 0.75
    left = [job for job, record in made if record.decision.action == "leave"]
    assert sum(map(matters, left)) < 0.1 * len(left)
    assert {record.decision.reason for _, record in made} > {"insignificant", "little_io"}


def test_made_up_users_are_as_production_has_them():
    """Many light runs, few that move most of the bytes, many that read, sizes that repeat."""
    made = [job for _, job in made_users(5000, seed=1)]
    assert made == [job for _, job in made_users(5000, seed=1)]
    moved = np.sort([job.moved for job in made])
    assert moved[-len(moved) // 100 :].sum() > 0.4 * moved.sum()
    assert np.median([job.profile.numbers["io_share"] for job in made]) < 0.02
    assert np.mean([job.profile.numbers["read_bytes"] > job.moved / 2 for job in made]) > 0.2
    assert len({(job.uid, job.name, job.size) for job in made}) < len(made) / 10


# When a run is known


def test_a_run_is_known_as_long_after_its_end_as_deployment_takes():
    first = a_job(1, 64, start=0)
    for wait, is_known in ((59, False), (60, True)):
        second = a_job(2, 64, start=first.end + wait + 10)
        later = a_job(3, 64, start=second.start + 100_000)
        items, known = walk(Past([first, second, later], []), skip=0.05, known_after=60)
        told = {item.job.logs: item.prediction.evidence for item in items}
        assert told.get((2,)) == ("user_name" if is_known else None)
        assert told[3,] == "user_name"
        assert len(known) == 2
    with pytest.raises(NothingToPredictError):
        walk(Past([first], []), skip=0.05)


# The lines to beat


def test_as_last_time_is_the_last_run_of_that_size_else_of_any_and_the_mean_is_the_names():
    jobs = [
        a_job(1, 1, start=0, tasks=8),
        a_job(2, 2, start=10, tasks=16),
        a_job(3, 4, start=20, tasks=16),
        a_job(4, 9, start=30, tasks=8, uid=7),
    ]
    known = Yardsticks(jobs)
    for tasks, mib in ((8, 1), (16, 4), (32, 4)):
        asked = a_job(9, 0, start=99, tasks=tasks)
        assert known.as_last_time(asked) == mib * MIB
        assert known.mean(asked) == 4 * MIB
    assert known.as_last_time(a_job(9, 0, start=99, uid=8)) is None
    assert known.mean(a_job(9, 0, start=99, name="other")) is None


def test_live_predictions_stand_beside_what_the_last_run_would_have_said():
    told = Predicted("user_name", "aw", 0.9, is_answered=True, numbers={"write_bytes": 64 * MIB})
    jobs = [a_job(n, 64 if n != 3 else 640, start=n * 10_000) for n in range(1, 6)]
    found = score(with_yardsticks([replace(job, predicted=told) for job in jobs]))
    assert found.within_2["moved"] == 4 / 5
    assert found.last_within_2 == 2 / 4
    assert found.mean_within_2 == pytest.approx(1 / 4)


# How evidence ages, and how many runs count


def drifting(user: int, a_day: float) -> list:
    """Runs a few hours apart that are further off each day, at random."""
    random = np.random.default_rng(user)
    steps = np.cumsum(random.normal(0, a_day / 2, 400))
    return [
        a_job(1000 * user + i, 64 * math.exp(steps[i]), start=i * DAY // 4, uid=user)
        for i in range(400)
    ]


def test_spreads_widen_by_what_the_runs_of_a_site_changed_in_that_time():
    calm, restless = (ageing_of(drifting(1, a_day), {})["write_bytes"] for a_day in (1e-3, 0.5))
    for factors in (calm, restless):
        assert len(factors) == len(core.AGES) + 1
        assert list(factors) == sorted(factors)
    assert calm[-1] <= 1
    assert restless[-1] > 2 * restless[0]
    assert ageing_of([], {}) == {}


def test_each_user_counts_once_for_how_many_runs_are_best():
    """One user's thousand runs do not decide for ten that keep what they ran."""
    keep = [(uid, [a_job(i, 2.0 ** (i // 6), start=i) for i in range(12)]) for uid in range(10)]
    random = np.random.default_rng(1)
    noise = [a_job(i, float(random.lognormal(4, 0.5)), start=i) for i in range(16)]
    alone = site_losses([(99, noise)] * 60)["write_bytes"]
    assert MEMORIES[int(np.argmin(alone))] > 1
    among = site_losses([*keep, *[(99, noise)] * 60])["write_bytes"]
    assert MEMORIES[int(np.argmin(among))] == 1
    assert site_losses(keep[:1]) == {}
