"""What the engine promises next to its schedules: refusals, determinism, order of ties."""

import threading

import numpy as np
import pytest

from sluice.sim import engine
from sluice.sim.engine import EngineError, Machine, Partition, Workload


def jobs(*rows):
    """Make jobs of (submit, runtime, limit, slots)."""
    made = np.zeros(len(rows), engine.JOB)
    for job, (submit, runtime, limit, slots) in zip(made, rows, strict=True):
        job["submit"], job["runtime"], job["limit"], job["slots"] = submit, runtime, limit, slots
    return made


def random_jobs(count, seed=1):
    rng = np.random.default_rng(seed)
    made = np.zeros(count, engine.JOB)
    made["submit"] = np.sort(rng.integers(0, count * 700, count))
    made["runtime"] = rng.integers(0, 4000, count)
    made["limit"] = made["runtime"] + rng.integers(1, 4000, count)
    made["slots"] = rng.integers(1, 60, count)
    return made


BACKFILLED = (
    ("none", [0, 10, 20]),
    ("easy", [0, 10, 0]),
    ("conservative", [0, 10, 0]),
)


@pytest.mark.parametrize(("backfill", "starts"), BACKFILLED)
def test_a_short_job_is_backfilled_only_by_backfill(backfill, starts):
    workload = Workload(Machine((4,)), jobs((0, 10, 10, 3), (0, 10, 10, 4), (0, 10, 10, 1)))
    assert list(engine.run(workload, {"backfill": backfill})["start"]) == starts


def test_easy_does_not_delay_the_first_blocked_job():
    workload = Workload(Machine((4,)), jobs((0, 10, 10, 3), (0, 10, 10, 4), (0, 10, 11, 1)))
    assert list(engine.run(workload)["start"]) == [0, 10, 20]


def test_a_job_is_killed_at_its_limit():
    result = engine.run(Workload(Machine((4,)), jobs((0, 100, 10, 1))))[0]
    assert (result["end"], engine.STATES[result["state"]]) == (10, "timeout")


def test_a_job_larger_than_the_machine_is_refused_and_the_others_run():
    results = engine.run(Workload(Machine((4,)), jobs((0, 1, 1, 5), (0, 1, 1, 4))))
    assert [engine.STATES[state] for state in results["state"]] == ["impossible", "completed"]


def test_a_job_without_limit_is_planned_for_ever():
    endless = (0, 100, np.inf, 3)
    workload = Workload(Machine((4,)), jobs(endless, (0, 1, 1, 4), (0, 1, np.inf, 1)))
    assert list(engine.run(workload)["start"]) == [0, 100, 0]


def test_the_end_that_preemption_took_from_a_job_starts_nobody():
    partitions = (Partition("low", (0,), 0, 0.0), Partition("high", (0,), 1, 0.0))
    made = jobs((0, 10, np.inf, 2), (1, 20, np.inf, 2), (2, 3, np.inf, 4))
    made["partition"] = [0, 0, 1]
    workload = Workload(Machine((4,), partitions), made)
    results = engine.run(workload, {"preemption": "requeue", "depth": 1})
    # the first would have ended at 10; it does at 15, and only then is the second looked at
    assert list(results["start"]) == [5, 15, 2]


WRONG = (
    ({"slots": 0}, "job 0: wants 0 slots"),
    ({"limit": 0}, "with a limit of 0 s"),
    ({"runtime": -1}, "runs for -1 s"),
    ({"submit": np.nan}, "submitted at nan"),
    ({"partition": 7}, "no partition 7"),
    ({"array": 1}, "no array 1"),
    ({"license_count": 1}, "its licences are not there"),
    ({"dependency_count": 1}, "its dependencies are not there"),
)


@pytest.mark.parametrize(("members", "text"), WRONG)
def test_a_job_that_makes_no_sense_is_named(members, text):
    made = jobs((0, 1, 1, 1))
    for name, value in members.items():
        made[0][name] = value
    with pytest.raises(EngineError, match=text):
        engine.run(Workload(Machine((4,)), made))


def test_jobs_out_of_order_are_refused():
    with pytest.raises(EngineError, match="job 1: submitted before the one in front of it"):
        engine.run(Workload(Machine((4,)), jobs((5, 1, 1, 1), (4, 1, 1, 1))))


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"window": 0}, "window is 0, not within 1..inf s"),
        ({"backfill": "magic"}, "backfill is one of none, easy, conservative, not magic"),
        ({"wndow": 1}, "no setting wndow; there are interval, window"),
    ],
)
def test_a_setting_that_makes_no_sense_is_named(settings, text):
    with pytest.raises(EngineError, match=text):
        engine.run(Workload(Machine((4,)), jobs((0, 1, 1, 1))), settings)


def test_a_replay_without_jobs_ends_at_once():
    assert len(engine.run(Workload(Machine((4,)), jobs()))) == 0


def test_equal_bytes_on_any_number_of_threads():
    workload = Workload(Machine((100,)), random_jobs(3000))
    alone = engine.run(workload).tobytes()
    found = []
    threads = [
        threading.Thread(target=lambda: found.append(engine.run(workload).tobytes()))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [alone] * 8


def test_passing_over_blocks_of_waiting_jobs_changes_no_schedule():
    """With a depth each waiting job is looked at; without, only those that may fit."""
    made = random_jobs(9000)
    made["submit"] //= 100  # far more than the machine can take: thousands wait
    made["slots"] = np.random.default_rng(2).zipf(1.5, len(made)) % 60 + 1
    workload = Workload(Machine((100,)), made)
    assert engine.run(workload).tobytes() == engine.run(workload, {"depth": len(made)}).tobytes()


def test_no_more_slots_are_taken_than_there_are():
    made = random_jobs(3000)
    results = engine.run(Workload(Machine((100,)), made))
    times = np.concatenate([results["start"], results["end"]])
    change = np.concatenate([made["slots"], -made["slots"]])
    order = np.lexsort((change, times))  # ends before starts of the same second
    assert np.cumsum(change[order]).max() <= 100


def test_progress_tells_how_many_jobs_have_ended():
    seen = []
    engine.run(Workload(Machine((100,)), random_jobs(300_000)), progress=seen.append)
    assert seen
    assert seen == sorted(seen)
