"""Whether holds help: trials, and what stops where they lose (policies/core/turns_check.h)."""

from __future__ import annotations

import random
from collections import Counter

import core_turns as turns
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_core_turns import lanes, queues

from sluice.policies._core import ffi, lib

SETTINGS = turns.settings(guard=0.0)
LANE = turns.storage([{"bytes": 1.0}], metadata=1.0)
TRIAL = SETTINGS.trial * SETTINGS.latency
HOUR = 3600.0


def conserved(going):
    """All want the whole station, and share it."""
    return dict.fromkeys(going, 1 / len(going))


def undisturbed(going):
    """Nobody disturbs anybody: flushes that share commits."""
    return dict.fromkeys(going, 1.0)


def taken_by_others(going):
    """Somebody whom nobody sees takes what a hold leaves."""
    return dict.fromkeys(going, 0.3)


class Storage:
    """Bursts without end on one station, whose speeds are a law of who goes."""

    def __init__(
        self, law, *, nodes=(4.0, 4.0), noise=0.0, seed=0, lag=0.0, alike=None, rules=SETTINGS
    ):
        self.law, self.noise, self.random = law, noise, random.Random(seed)
        self.nodes, self.programs = nodes, alike or range(1, len(nodes) + 1)
        self.check, self.lag, self.rules = turns.Check(lag), lag, rules
        self.clock, self.moved, self.behind = 0.0, [0.0] * len(nodes), [[0.0] * len(nodes)]
        self.reasons = Counter()

    def jobs(self):
        """Each longer than the one before it; what was done is known `lag` later."""
        reported = self.behind[0] if self.lag else self.moved
        return turns.jobs_of(
            [
                {
                    "key": key,
                    "nodes": nodes,
                    "demand": {"bytes": 1.0},
                    "expected": 1000.0 * (key + 1),
                    "done": 30.0,
                    "program": self.programs[key],
                    "moved": reported[key],
                }
                for key, nodes in enumerate(self.nodes)
            ]
        )

    def run(self, seconds):
        """Decide each second; return for how long each burst was held, s."""
        held = [0.0] * len(self.nodes)
        for _ in range(int(seconds)):
            jobs = self.jobs()
            before = turns.decide(self.rules, LANE, jobs, clock=self.clock)
            after = self.check.check(self.rules, LANE, jobs, before, clock=self.clock)
            going = [key for key in range(len(jobs)) if after[key].action == "go"]
            self.reasons.update(after[key].reason for key in range(len(jobs)))
            for key, speed in self.law(going).items():
                self.moved[key] += speed * self.random.gauss(1.0, self.noise)
            for key in set(range(len(jobs))) - set(going):
                held[key] += 1.0
            self.behind = [*self.behind, list(self.moved)][-max(1, int(self.lag)) - 1 :]
            self.clock += 1.0
        return held


@pytest.mark.parametrize("lag", [0.0, 2.0])
def test_holds_that_gain_nothing_stop_after_two_trials(lag):
    storage = Storage(undisturbed, lag=lag)
    _, held = storage.run(HOUR)
    assert held < 4 * (TRIAL + 4)
    assert storage.reasons["no_help"] > 0.9 * HOUR


def test_holds_that_leave_room_to_others_stop():
    assert Storage(taken_by_others).run(HOUR)[1] < 0.1 * HOUR


@pytest.mark.parametrize("lag", [0.0, 2.0])
def test_holds_that_help_go_on_but_for_few_trials(lag):
    storage = Storage(conserved, lag=lag)
    assert storage.run(2 * HOUR)[1] > 0.98 * 2 * HOUR
    assert 0 < storage.reasons["trial"] < 100
    assert not storage.reasons["no_help"]


def test_without_trials_holds_never_stop():
    storage = Storage(undisturbed, rules=turns.settings(guard=0.0, trial=0.0))
    assert storage.run(HOUR)[1] == HOUR


def test_holds_that_stopped_are_tried_again_when_the_evidence_has_faded():
    storage = Storage(undisturbed)
    storage.run(HOUR)
    storage.law, stopped = conserved, storage.reasons["no_help"]
    for _ in range(6):
        storage.clock += 8 * HOUR
        storage.run(HOUR / 12)
    assert stopped > 0
    assert storage.run(HOUR / 3)[1] > 0.8 * HOUR / 3


def test_what_was_seen_of_two_programs_holds_for_other_jobs_that_run_them():
    storage = Storage(undisturbed, alike=(7, 7))
    storage.run(HOUR)
    storage.nodes, storage.moved, storage.programs = (4.0,) * 4, [0.0] * 4, (7, 7, 7, 7)
    assert not any(storage.run(60.0))


def test_a_pair_that_disturbs_itself_is_held_where_another_pair_is_not():
    """The second program shares commits with the first, the third disturbs both."""

    def law(going):
        if 2 not in going:
            return undisturbed(going)
        return {key: 0.5 if len(going) > 1 else 1.0 for key in going}

    storage = Storage(law, nodes=(4.0, 4.0, 1.0))
    storage.run(HOUR / 3)
    held = storage.run(HOUR / 3)
    assert held[1] < 0.1 * HOUR / 3
    assert held[2] > 0.8 * HOUR / 3


@pytest.mark.parametrize("nodes", [(4.0, 4.0), (4.0, 7.0), (16.0, 4.0)])
def test_noise_alone_seldom_stops_holds_that_help(nodes):
    """A speed over a trial is off by 10 % (sd): of 40 storages, none stops holds within 20 min."""
    for seed in range(40):
        storage = Storage(conserved, nodes=nodes, noise=0.1 * TRIAL**0.5, seed=seed)
        assert sum(storage.run(HOUR / 3)) > 0.9 * HOUR / 3


@given(queues, lanes, st.integers(0, 3), st.randoms(use_true_random=False))
@settings(max_examples=20)
def test_a_check_only_ever_lets_go_and_the_same_in_any_order(queue, listed, programs, shuffler):
    """A trial judges the burst that the verdict names."""
    storage = turns.storage(listed, metadata=1.0)
    found = []
    moved = [shuffler.uniform(0, 5) for _ in queue]
    for order in (queue, shuffler.sample(queue, len(queue))):
        check, verdicts = turns.Check(), []
        for step in range(40):
            known = [
                {"program": job["key"] % (programs + 1), "moved": step * moved[job["key"]]}
                for job in order
            ]
            jobs = turns.jobs_of([job | more for job, more in zip(order, known, strict=True)])
            before = turns.decide(SETTINGS, storage, jobs, clock=1e6 + step)
            after = check.check(SETTINGS, storage, jobs, before, clock=1e6 + step)
            for i in range(len(order)):
                if after[i].reason in ("trial", "no_help"):
                    assert before[i].first is not None
                    assert (after[i].action, after[i].share) == ("go", 1.0)
                else:
                    assert after[i] == before[i]
            trial = check.struct.trial
            if trial.is_on and trial.began == 1e6 + step:
                [held] = [i for i, job in enumerate(order) if job["key"] == trial.held]
                assert order[before[held].first]["key"] == trial.first
            verdicts.append(after.by_key(order))
        found.append(verdicts)
    assert found[0] == found[1]


@given(st.lists(st.floats(0.0, 1.0), min_size=60, max_size=60))
@settings(max_examples=20)
def test_equal_states_give_equal_bytes(speeds):
    first, second = (Storage(lambda going: dict.fromkeys(going, 0.5)) for _ in range(2))
    for speed in speeds:
        for storage in (first, second):
            storage.law = lambda going, speed=speed: dict.fromkeys(going, speed)
            storage.run(1)
    assert first.check.content() == second.check.content()


def test_programs_are_alike_by_the_sizes_of_what_they_write():
    def program(**numbers):
        profile = ffi.new("struct sluice_profile *")
        lib.sluice_profile_init(profile)
        for name, value in numbers.items():
            setattr(profile, name, value)
        return lib.sluice_turns_program(profile)

    stream = program(chunk_bytes=4.0 * 2**20, bytes_per_flush=2.0**30)
    assert stream == program(chunk_bytes=4.2 * 2**20, bytes_per_flush=2.0**30, rate=1e9)
    assert stream != program(chunk_bytes=65536.0, bytes_per_flush=65536.0)
    assert program() != 0
