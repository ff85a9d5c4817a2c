"""Policies alongside each other: fair draws, honest intervals, the same answer on any cores."""

import threading
from dataclasses import replace
from itertools import permutations
from statistics import median

import pytest

from sluice.cli.plots import replay_pictures
from sluice.cli.site.replay_words import verdict
from sluice.sim.policies.policies import Options
from sluice.sim.replay.compare import PLAIN, Draw, StoppedError, compare, in_order, interval
from sluice.sim.replay.figures import FIGURES, GROUPS, fairness
from sluice.sim.storage.mean_field import storage_for
from sluice.sim.trace.lublin import generate
from sluice.sim.trace.machine import one_pool
from sluice.sim.trace.profiles import drawn_profiles
from sluice.sim.trace.repairs import make_replayable

SLOTS = 64
SITE = one_pool(SLOTS)
WORK = make_replayable(generate(500, slots=SLOTS, load=0.9, seed=5), SITE)
POLICIES = ["two-groups", "class-lanes", "none"]


def draw(repetition):
    storage = storage_for(SLOTS)
    if repetition:
        storage = replace(storage, seed=repetition, spread=0.3)
    profiles = drawn_profiles(WORK.workload, heavy=0.5, seed=1 + repetition)
    return Draw(WORK, SITE, profiles, storage, Options(max_delay=900, seed=1 + repetition))


@pytest.fixture(scope="module")
def comparison():
    return compare(draw, POLICIES, repeats=3, workers=3)


def test_the_answer_does_not_depend_on_the_number_of_cores(comparison):
    alone = compare(draw, POLICIES, repeats=3, workers=1)
    assert alone.figures == comparison.figures
    assert alone.bounds == comparison.bounds
    assert [one.png for one in replay_pictures(alone)] == [
        one.png for one in replay_pictures(comparison)
    ]


def test_plain_slurm_comes_first_once_and_gives_nothing_back(comparison):
    assert comparison.policies == (PLAIN, "two-groups", "class-lanes")
    assert comparison.repetitions == 3
    for figures in comparison.figures[PLAIN]:
        assert figures["share_of_bound"] == 0
        assert figures["held_jobs"] == figures["behind_later_jobs"] == 0
    assert comparison.difference(PLAIN, "wait_mean_s") == 0


def test_every_policy_has_every_figure_of_every_repetition(comparison):
    for figures in comparison.figures.values():
        assert [list(one) for one in figures] == [list(FIGURES)] * 4


def test_draws_differ_from_each_other_but_not_between_policies(comparison):
    lost = [one["lost_slot_hours"] for one in comparison.figures[PLAIN]]
    assert len(set(lost)) == 4
    for bound, hours in zip(comparison.bounds, lost, strict=True):
        assert bound.lost == pytest.approx(hours * 3600)


def test_figures_agree_with_the_jobs_they_are_made_of(comparison):
    outcomes = comparison.outcomes["two-groups"]
    figures = comparison.figures["two-groups"][0]
    held = outcomes.delay[outcomes.delay > 0]
    assert figures["held_jobs"] == len(held) > 0
    assert figures["held_max_s"] == held.max() <= 900
    assert figures["lost_slot_hours"] == pytest.approx(outcomes.lost_slot_seconds.sum() / 3600)
    plain = comparison.outcomes[PLAIN].results["start"]
    later = (outcomes.results["start"] - plain)[outcomes.choices["held"] == 0]
    assert figures["behind_later_jobs"] == (later > 1).sum()
    assert figures["behind_later_max_s"] == later.max()


@pytest.mark.parametrize("what", GROUPS)
def test_groups_part_the_jobs_and_their_losses(comparison, what):
    outcomes, plain = comparison.outcomes["two-groups"], comparison.outcomes[PLAIN]
    rows = fairness(outcomes, plain, what)
    if what == "partition":
        assert rows == []  # the trace names none
    elif what == "size":
        assert sum(row["jobs"] for row in rows) == outcomes.ran.sum()
        lost = sum(row["lost_slot_hours"] for row in rows)
        assert lost == pytest.approx(outcomes.lost_slot_seconds.sum() / 3600)
    else:
        assert len(rows) == 20
        assert rows == sorted(rows, key=lambda row: -row["jobs"])


def test_what_is_said_is_the_median_of_the_draws_and_each_of_them_is_told(comparison):
    for policy in comparison.policies:
        lost = [one["lost_slot_hours"] for one in comparison.figures[policy]]
        answer = comparison.answer(policy, "lost_slot_hours")
        assert answer["draws"] == lost
        assert answer["value"] == comparison.value(policy, "lost_slot_hours") == median(lost)
        fewer = comparison.values(policy, "saved_slot_hours")
        assert [-one for one in comparison.differences(policy, "lost_slot_hours")] == pytest.approx(
            fewer
        )
    assert comparison.bound.lost == median(bound.lost for bound in comparison.bounds)


def test_predicted_savings_stand_next_to_those_that_came_true(comparison):
    """A policy that predicts nothing has none."""
    assert comparison.value("two-groups", "predicted_slot_hours") is None
    found = compare(draw, ["turns", "sluice-auto"], repeats=1)
    assert found.value("turns", "predicted_slot_hours") > 0
    assert found.value("turns", "saved_slot_hours") > 0
    assert found.value("sluice-auto", "predicted_slot_hours") >= 0


def test_a_policy_under_which_streams_lose_more_says_so(comparison):
    """Lanes of their own leave them a half of the storage."""
    assert comparison.difference("class-lanes", "stream_lost_slot_hours") > 0
    said = {name: text for text in verdict(comparison, None) for name in POLICIES if name in text}
    assert "Jobs that stream lose" in said["class-lanes"]


def test_an_interval_holds_the_figure_that_it_belongs_to(comparison):
    for policy in comparison.policies:
        found = comparison.interval(policy, "lost_slot_hours")
        assert found.low <= comparison.value(policy, "lost_slot_hours") <= found.high
        assert found.coverage == 0.5  # of three draws


def test_pictures_say_in_words_what_they_show(comparison):
    for one in replay_pictures(comparison):
        assert one.png.startswith(b"\x89PNG")
        assert all(name in one.alt for name in comparison.policies)


@pytest.mark.parametrize("count", [3, 5])
def test_an_interval_covers_as_often_as_it_says(count):
    """Over all orders of n + 1 values, the last one lies within so often, exactly."""
    orders = list(permutations(range(count + 1)))
    inside = 0
    for *drawn, last in orders:
        found = interval([float(value) for value in drawn])
        inside += found.low <= last <= found.high
    assert inside / len(orders) == pytest.approx(found.coverage)


def test_intervals_narrow_to_nine_tenths_with_enough_draws():
    assert interval([1.0]) is None
    assert interval([1.0, None]) is None
    assert interval(map(float, range(19))).coverage == pytest.approx(0.9)
    many = interval(map(float, range(99)))
    assert (many.low, many.high, many.coverage) == (4.0, 94.0, pytest.approx(0.9))


def test_results_come_in_order_however_long_each_takes():
    """The first task waits for the second."""
    second_ran = threading.Event()

    def work(task, _watch):
        if task == 0:
            assert second_ran.wait(60)
        elif task == 1:
            second_ran.set()
        return task

    assert list(in_order(range(9), work, workers=2)) == list(range(9))


def test_giving_up_ends_the_work_that_is_under_way():
    """As Ctrl-C does: the loop is left, and no thread goes on."""
    ended, before = [], set(threading.enumerate())

    def work(task, watch):
        if task == 0:
            return task
        try:
            while True:
                watch(0)
        except StoppedError:
            ended.append(task)
            raise

    results = in_order(range(3), work, workers=2)
    assert next(results) == 0
    results.close()
    assert set(ended) <= {1, 2}
    assert set(threading.enumerate()) <= before


def test_an_error_in_a_replay_is_told_and_ends_the_others():
    def work(task, watch):
        if task == 1:
            raise ValueError("broken")
        while task == 2:
            watch(0)
        return task

    with pytest.raises(ValueError, match="broken"):
        list(in_order(range(3), work, workers=3))
