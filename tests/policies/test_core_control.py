"""The control loop: who is charged, released, decided on again, and how large gates are."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import core_calls
import core_cases as storage_models
import pytest
from core_cases import FLUSHING, NOW, STREAMING
from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.policies import control, core
from sluice.policies.control import ANYWHERE, ARRAY, GRANTED, NEXT, PREDICTED, QUEUES, RECORDED
from sluice.policies.record import Situation, Tokens, token_names
from sluice.policies.structs import CLASSES, RELEASES, View

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

TOTAL = 1_000_000
OURS = RECORDED | GRANTED | PREDICTED
"""The decision of the job's submission is known, and gave it tokens."""
STREAM = CLASSES.index("stream")
BOTH = 0b11
PLENTY = (100, 100)
"""Idle nodes and CPUs."""


class Queue:
    """A queue, as the loop sees it; every token is taken unless a test says otherwise."""

    def __init__(self, **facts: Any) -> None:
        self.loop: control.Loop[int] = control.Loop()
        self.facts = control.new_facts()
        self.facts.clock = 1000.0
        self.facts.now = NOW
        self.facts.max_delay = 60.0
        self.facts.grace = 2.0
        for klass in range(len(CLASSES)):
            for lane in range(len(self.facts.totals[klass])):
                self.facts.totals[klass][lane] = TOTAL
        for name, value in facts.items():
            setattr(self.facts, name, value)

    def add(self, job_id: int = 1, *, lane_mask: int = 1, klass: int = STREAM, **members: Any):
        row = self.loop.add(job_id)
        defaults = {
            "job_id": job_id,
            "state": control.WAITS,
            "flags": OURS,
            "tasks": 1,
            "nodes": 1,
            "cpus": 1,
            "priority": 1000 - job_id,
            "submit": NOW,
            "eligible": self.facts.now,
        }
        for name, value in (defaults | members).items():
            setattr(row, name, value)
        row.tokens.klass, row.tokens.lane_mask = klass, lane_mask
        return row

    def poll(
        self,
        seconds: float = 1.0,
        *,
        rooms: Sequence[tuple[int, int] | None] = (PLENTY,),
        releases: int = 50,
    ) -> dict[int, str]:
        """Charge and release a moment later; None is a partition of shared nodes."""
        self.facts.clock += seconds
        self.facts.now += int(seconds)
        self.facts.releases = releases
        table = control.new_rooms(len(rooms))
        for row, room in zip(table, rooms, strict=True):
            row.is_unlimited = room is None
            row.nodes, row.cpus = room or (0, 0)
        self.loop.find_room(table, len(rooms), self.facts)
        self.loop.bound(self.facts)
        return self.commanded()

    def commanded(self) -> dict[int, str]:
        """Return who is released and why, in the order of commanding."""
        return {a.key: a.release for a in self.loop.actions() if a.release is not None}

    def waited(self, job_id: int = 1) -> float:
        return self.loop[job_id].memory.waited

    def take_tokens_off(self, jobs: Mapping[int, Any]) -> None:
        for job_id in jobs:
            self.loop[job_id].tokens.lane_mask = 0

    def charges(self, seconds: float = 1.0, **poll: Any) -> set[int]:
        """Poll, and return who was charged for this interval."""
        before = {job_id: self.waited(job_id) for job_id in self.loop}
        self.poll(seconds, **poll)
        return {job_id for job_id in self.loop if self.waited(job_id) > before[job_id]}


def queue_of(*jobs: dict[str, Any]) -> Queue:
    """Make a queue of jobs 1, 2, … in order of falling priority, all seen once before."""
    queue = Queue(max_delay=1e9)
    for job_id, members in enumerate(jobs, start=1):
        queue.add(job_id, **members)
    queue.poll()
    return queue


# Who is charged

TAKEN: dict[str, Any] = {}
"""A job that lacks a token, because all are taken."""
NO_TOKENS: dict[str, Any] = {"lane_mask": 0, "flags": QUEUES}


def running(nodes: int, *, start: int = NOW, priority: int = 1, **members: Any) -> dict[str, Any]:
    return {"state": control.RUNS, "lane_mask": 0, "nodes": nodes, "start": start,
            "priority": priority, "eligible": NOW + 1} | members  # fmt: skip


@pytest.mark.parametrize(
    ("members", "is_charged"),
    [
        ({"flags": OURS}, True),
        ({"flags": OURS | NEXT}, True),
        ({"flags": OURS | QUEUES}, True),
        ({"flags": OURS | NEXT | QUEUES}, True),
        ({"flags": 0}, True),
        ({"state": control.LATER}, False),
        ({"state": control.RUNS}, False),
        ({"lane_mask": 0}, False),
        ({"nodes": 101}, False),
        ({"cpus": 101}, False),
        ({"nodes": 101, "partition": 7}, True),
        ({"nodes": 101, "flags": OURS | ANYWHERE}, True),
    ],
)
def test_a_job_is_charged_if_it_could_start_but_for_its_tokens(members, is_charged):
    """Whatever reason Slurm shows; in doubt (several partitions, an unknown one) it could."""
    queue = Queue()
    queue.add(**members)
    queue.poll()
    assert queue.charges() == ({1} if is_charged else set())


def test_a_job_is_not_charged_while_slurm_has_its_tokens_free():
    queue = Queue()
    queue.add(lane_mask=BOTH)
    queue.poll()
    queue.facts.free[STREAM][0] = 1
    assert queue.charges() == {1}  # it lacks that of the other lane
    queue.facts.free[STREAM][1] = 1
    assert queue.charges() == set()


def test_a_job_that_is_new_may_have_waited_since_it_was_eligible():
    queue = Queue()
    queue.add(1, eligible=NOW - 500)
    queue.add(2, eligible=NOW - 500, nodes=101)
    queue.add(3, eligible=0)
    queue.poll()
    assert [queue.waited(i) for i in (1, 2, 3)] == [501, 0, 0]


def test_a_clock_of_the_wall_that_is_set_charges_nobody():
    queue = Queue(max_delay=1e9)
    queue.add()
    queue.poll()
    for step in (10**6, -(10**6)):
        before = queue.waited()
        queue.facts.now += step
        queue.poll(3)
        assert queue.waited() - before == 3


@pytest.mark.parametrize(
    ("room", "jobs", "charged"),
    [
        # one with room, behind one that takes it
        ((4, 99), [NO_TOKENS | {"nodes": 2}, TAKEN | {"nodes": 2}], {2}),
        ((4, 99), [NO_TOKENS | {"nodes": 3}, TAKEN | {"nodes": 2}], set()),
        ((99, 4), [NO_TOKENS | {"cpus": 3}, TAKEN | {"cpus": 2}], set()),
        # one in front that cannot start for want of nodes, a token or something else
        ((4, 99), [NO_TOKENS | {"nodes": 5}, TAKEN | {"nodes": 4}], {2}),
        ((4, 99), [TAKEN | {"nodes": 3}, TAKEN | {"nodes": 4}], {1, 2}),
        ((4, 99), [NO_TOKENS | {"flags": 0, "nodes": 3}, TAKEN | {"nodes": 2}], {2}),
        ((4, 99), [NO_TOKENS | {"state": control.LATER, "nodes": 3}, TAKEN | {"nodes": 2}], {2}),
        # one behind takes nothing, nor does one of another partition
        ((4, 99), [TAKEN | {"nodes": 2}, NO_TOKENS | {"nodes": 3}], {1}),
        ((4, 99), [NO_TOKENS | {"nodes": 3, "partition": 9}, TAKEN | {"nodes": 2}], {2}),
        # what overtook it, it could have had
        ((1, 99), [TAKEN | {"nodes": 4}, running(3)], {1}),
        ((1, 99), [TAKEN | {"nodes": 4}, running(2)], set()),
        ((1, 99), [TAKEN | {"nodes": 4}, running(3, start=NOW - 1)], set()),
        ((1, 99), [TAKEN | {"nodes": 4}, running(3, priority=5000)], set()),
        ((1, 99), [TAKEN | {"nodes": 4}, running(3, partition=9)], set()),
        ((1, 99), [TAKEN | {"nodes": 4}, running(3, priority=999)], {1}),
        ((1, 99), [TAKEN | {"nodes": 4}, running(3, priority=999, eligible=NOW - 1)], set()),
    ],
)
def test_what_there_is_room_for_follows_from_slurms_walk(room, jobs, charged):
    queue = queue_of(*jobs)
    assert (
        queue.charges(rooms=(room,))
        & {i for i, job in enumerate(jobs, start=1) if job.get("lane_mask", 1)}
        == charged
    )


def test_a_job_that_could_start_and_does_not_takes_room_for_ten_seconds_only():
    queue = queue_of(NO_TOKENS | {"nodes": 4}, TAKEN)
    charged = [queue.charges(rooms=((4, 4),)) for _ in range(12)]
    assert charged == [set()] * 9 + [{2}] * 3


def test_priorities_that_grow_with_age_overtake_nobody_that_runs():
    """200 jobs alike on four nodes: Slurm starts them in turn, none is overtaken."""
    queue = Queue(max_delay=1e9)
    for job_id in range(1, 201):
        queue.add(job_id, priority=1)
    for job_id in range(1, 5):
        row = queue.loop[job_id]
        row.state, row.start = control.RUNS, NOW
    for age in range(300):
        for job_id in range(5, 201):
            queue.loop[job_id].priority = 1 + age
        queue.poll(rooms=((0, 0),))
    assert not any(queue.waited(job_id) for job_id in range(5, 201))


def test_a_long_queue_on_a_full_machine_charges_nobody():
    """For five times MaxDelay; when there is room again, they wait for their tokens."""
    queue = Queue()
    for job_id in range(1, 201):
        queue.add(job_id, eligible=NOW - 100)
    for _ in range(300):
        assert queue.poll(rooms=((0, 0),)) == {}
    assert not any(queue.waited(job_id) for job_id in range(1, 201))
    assert len(queue.charges(rooms=((1, 1),))) == 200  # each could be the next


lanes = st.integers(0, 3)
job_members = st.fixed_dictionaries(
    {
        "nodes": st.integers(1, 4),
        "priority": st.integers(1, 4),
        "partition": st.integers(0, 2),
        "lane_mask": lanes,
        "flags": st.sampled_from([0, QUEUES, OURS, OURS | QUEUES, OURS | NEXT, OURS | ANYWHERE]),
    }
)
moments = st.tuples(
    st.sampled_from([0.25, 1.0, 7.0, 30.0]),
    st.lists(st.sampled_from([control.WAITS, control.WAITS, control.LATER, control.RUNS]),
             min_size=5, max_size=5),
    st.tuples(st.integers(0, 6), st.integers(0, 6)),
    st.tuples(st.integers(0, 1), st.integers(0, 1)),
)  # fmt: skip


def lacks_token(queue: Queue, row: Any) -> bool:
    return any(
        row.tokens.lane_mask >> lane & 1 and not queue.facts.free[row.tokens.klass][lane]
        for lane in (0, 1)
    )


def certainly_has_room(queue: Queue, row: Any, rooms: Sequence[tuple[int, int]]) -> bool:
    """Even if all that ranks no lower took its nodes first."""
    if row.flags & ANYWHERE or row.partition >= len(rooms):
        return True
    others = [queue.loop[i] for i in queue.loop if i != row.job_id]
    taken = sum(
        other.nodes
        for other in others
        if other.state == control.WAITS
        and other.partition == row.partition
        and other.priority >= row.priority
        and not lacks_token(queue, other)
    )
    return row.nodes <= rooms[row.partition][0] - taken


def may_have_room(queue: Queue, row: Any, rooms: Sequence[tuple[int, int]]) -> bool:
    """Even if every job that runs had overtaken it."""
    if row.flags & ANYWHERE or row.partition >= len(rooms):
        return True
    held = sum(
        queue.loop[i].nodes
        for i in queue.loop
        if queue.loop[i].state == control.RUNS and queue.loop[i].partition == row.partition
    )
    return row.nodes <= rooms[row.partition][0] + held


@settings(max_examples=150, deadline=None)
@given(
    st.lists(job_members, min_size=1, max_size=5),
    st.lists(moments, min_size=2, max_size=12),
)
def test_a_charge_lies_between_what_certainly_and_what_possibly_is_a_wait_for_tokens(jobs, polls):
    queue = Queue(max_delay=1e9)
    for job_id, members in enumerate(jobs, start=1):
        queue.add(job_id, **members)
    total = dict.fromkeys(queue.loop, 0.0)
    for seconds, states, nodes, free in polls:
        rooms = [(count, 100) for count in nodes]
        for lane in (0, 1):
            queue.facts.free[STREAM][lane] = free[lane]
        for job_id, state in zip(queue.loop, states, strict=False):
            queue.loop[job_id].state = state
        is_first = not queue.loop[1].memory.since
        charged = queue.charges(seconds, rooms=rooms)
        for job_id in queue.loop:
            row = queue.loop[job_id]
            is_waiting = row.state == control.WAITS and lacks_token(queue, row)
            if not is_waiting or not may_have_room(queue, row, rooms):
                assert job_id not in charged
            elif certainly_has_room(queue, row, rooms) and not (is_first and seconds < 1):
                assert job_id in charged
            if job_id in charged:  # all of the time since the last poll, and no more
                total[job_id] += int(seconds) if is_first else seconds
            assert row.memory.waited == pytest.approx(total[job_id])


# Who is released


@pytest.mark.parametrize(
    ("members", "facts", "reason"),
    [
        ({}, {}, None),
        ({"waited": 59.0}, {}, "max_delay"),
        ({"waited": 58.9}, {}, None),
        ({}, {"max_delay": 0.0}, "max_delay"),
        ({"nodes": 101}, {"max_delay": 0.0}, None),
        ({"waited": 1e6, "nodes": 101}, {}, "max_delay"),
        ({"waited": 1e6, "state": control.LATER}, {}, None),
        ({"waited": 1e6, "state": control.RUNS}, {}, None),
        ({"flags": RECORDED}, {}, "foreign"),
        ({"flags": RECORDED, "state": control.RUNS}, {}, "foreign"),
        ({"flags": RECORDED, "state": control.LATER}, {}, "foreign"),
        ({"flags": 0}, {}, None),
        ({}, {"is_off": 1}, "switched_off"),
        ({"state": control.LATER}, {"is_off": 1}, "switched_off"),
        ({"flags": 0}, {"is_off": 1}, "switched_off"),
        ({"state": control.RUNS}, {"is_off": 1}, None),
        ({"lane_mask": 0, "waited": 1e6}, {"is_off": 1}, None),
    ],
)
def test_why_tokens_are_taken_off(members, facts, reason):
    queue = Queue(**facts)
    row = queue.add(**{name: value for name, value in members.items() if name != "waited"})
    row.memory.since = row.memory.polled = queue.facts.clock
    row.memory.waited = members.get("waited", 0.0)
    assert queue.poll() == ({1: reason} if reason else {})


@pytest.mark.parametrize("total", [0, 99_999])
@pytest.mark.parametrize(
    ("members", "reason"),
    [
        ({}, "undefined"),
        ({"state": control.LATER}, "undefined"),
        ({"state": control.RUNS}, None),
        ({"flags": 0}, None),
        ({"flags": RECORDED}, None),
        ({"flags": RECORDED, "state": control.RUNS}, None),
    ],
)
def test_a_licence_that_is_no_token_is_the_sites_own_unless_sluice_gave_it(members, reason, total):
    """slurm.conf defines fewer than 100,000 of it, or none."""
    queue = Queue(is_off=1)
    queue.facts.totals[STREAM][0] = total
    queue.add(**members)
    for _ in range(3):
        released = queue.poll(20)
    assert released == ({1: reason} if reason else {})


def test_a_job_without_a_record_keeps_its_tokens_for_fifteen_seconds():
    queue = Queue()
    queue.add(1, flags=0)
    queue.add(2, flags=0, state=control.RUNS)
    released = [queue.poll() for _ in range(17)]
    assert released[:15] == [{}] * 15
    assert released[15] == {1: "unknown", 2: "unknown"}


def test_who_was_never_tried_goes_first_and_then_who_waited_longest():
    queue = Queue(max_delay=0.0)
    for job_id, (tries, waited) in enumerate([(1, 900), (0, 5), (0, 70), (2, 999)], start=1):
        memory = queue.add(job_id).memory
        memory.since = memory.polled = queue.facts.clock
        memory.tries, memory.waited = tries, waited
    assert list(queue.poll()) == [3, 2, 1, 4]


def test_one_poll_releases_as_many_as_it_may():
    queue = Queue(max_delay=0.0)
    for job_id in range(1, 8):
        queue.add(job_id, eligible=NOW - job_id)
    released = []
    for _ in range(3):
        commanded = queue.poll(releases=3)
        queue.take_tokens_off(commanded)
        released.append(list(commanded))
    assert released == [[7, 6, 5], [4, 3, 2], [1]]


def test_a_release_in_vain_is_tried_ever_more_seldom_up_to_once_a_minute():
    queue = Queue(max_delay=0.0)
    queue.add()
    tried = [second for second in range(400) if queue.poll()]
    pauses = [after - before for before, after in itertools.pairwise(tried)]
    assert pauses[:6] == [1, 2, 4, 8, 16, 32]
    assert set(pauses[6:]) == {60}


def test_jobs_that_slurm_refuses_to_release_take_no_other_jobs_place():
    """50 of them, and at most 50 releases a poll: one that falls due goes at once."""
    queue = Queue(max_delay=10.0)
    for job_id in range(1, 51):
        queue.add(job_id, eligible=NOW - 1000)
    for i in range(200):
        queue.poll()
        normal = 100 + i
        queue.add(normal, eligible=queue.facts.now)
        queue.loop[normal].memory.since = queue.loop[normal].memory.polled = queue.facts.clock
        queue.loop[normal].memory.waited = 9.5
        commanded = queue.poll()
        assert commanded.get(normal) == "max_delay"
        queue.take_tokens_off({normal: ""})


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 40), st.booleans()), min_size=1, max_size=12),
    st.integers(1, 4),
)
def test_nobody_who_is_due_waits_while_releases_are_left(jobs, budget):
    queue = Queue(max_delay=30.0)
    refused = set()
    for job_id, (age, is_refused) in enumerate(jobs, start=1):
        queue.add(job_id, eligible=NOW - age)
        if is_refused:
            refused.add(job_id)
    for _ in range(60):
        commanded = queue.poll(releases=budget)
        due = [
            i
            for i in queue.loop
            if queue.loop[i].tokens.lane_mask and queue.waited(i) >= queue.facts.max_delay
        ]
        assert set(commanded) <= set(due)
        assert len(commanded) <= budget
        missed = [i for i in due if i not in commanded and not queue.loop[i].memory.tries]
        if missed:
            assert len(commanded) == budget
            assert all(queue.loop[i].memory.tries == 1 for i in commanded)
            longest = max(queue.waited(i) for i in missed)
            assert all(queue.waited(i) >= longest for i in commanded)
        queue.take_tokens_off({i: "" for i in commanded if i not in refused})
    assert {i for i in queue.loop if queue.loop[i].tokens.lane_mask} == refused


def test_a_job_whose_release_came_about_starts_anew():
    queue = Queue(max_delay=5.0)
    row = queue.add(eligible=NOW - 100)
    queue.take_tokens_off(queue.poll())
    queue.poll()
    assert (row.memory.tries, row.memory.retry) == (0, 0.0)


# Decided again

LANES = "Lane=sl0 Targets=1 Bandwidth=1G\nLane=sl1 Targets=1 Bandwidth=1G\n"
CONTROLLED = "Mode=enforce\nControlled=Users=1000\n"
UNCONTROLLED = "Mode=enforce\n"
HEAVY = STREAMING | {"io_share": 0.9, "runtime_seconds": 600.0}
SHARE = "WaitPrice=1000\n"
"""Lanes or not, it is cheaper to share than to wait; two lanes save nothing for two such jobs."""
NEAR = OURS | NEXT


class Cluster(Queue):
    """A queue alongside writers, with a bundle that knows every job as the same application."""

    def __init__(self, conf: str = "", rate: float = 1e9, lanes: str = LANES) -> None:
        super().__init__(max_delay=1e6)
        self.profile = HEAVY | {"rate": rate}
        self.bundle = storage_models.bundle(
            storage_models.application(self.profile), conf=lanes + conf
        )
        self.names = token_names(self.bundle.policy)
        self.gates: dict[str, int] = {}
        self.decided: list[int] = []
        self.submissions: dict[int, View] = {}

    def add(self, job_id: int = 1, *, lane_mask: int = BOTH, klass: int = STREAM, **members: Any):
        profile = members.pop("profile", self.profile)
        row = super().add(job_id, lane_mask=lane_mask, klass=klass, **{"flags": NEAR} | members)
        row.pressure = core.pressure_of(
            profile, self.bundle.interference, self.bundle.policy, lane_mask
        ).struct[0]
        self.submissions[job_id] = storage_models.submission()
        return row

    def holder(self, job_id: int = 100, **members: Any) -> None:
        """Start a job that holds its tokens."""
        self.add(job_id, state=control.RUNS, start=self.facts.now - 1, **members)

    def look(
        self,
        seconds: float = 1.0,
        *,
        writers: tuple[int, ...] = (0,),
        conf: str = UNCONTROLLED,
        age: int = 0,
        speeds: Mapping[str, float] | None = None,
        **poll: Any,
    ) -> dict[int, str]:
        """Poll alongside one writer for each of these lane masks; return the releases."""
        self.poll(seconds, **poll)
        rows = [
            storage_models.corunner(
                1000 + i, self.profile, lane_mask=mask, nodes=4, expected_end=self.facts.now + 600
            )
            for i, mask in enumerate(writers)
        ]
        snapshot = storage_models.snapshot(
            *rows, state={"taken": self.facts.now - age}, lane_speeds=speeds or {}
        )
        config = core.parse_config("sluice.conf", conf.encode())
        self.facts.version = snapshot.version ^ config.checksum
        situation = Situation(self.bundle, snapshot)
        out = self.loop.poll(situation, config, self.facts, self.submissions.get)
        self.gates = out.tokens(self.names)
        self.given_up = out.given_up(self.names)
        self.decided = [job_id for job_id, _ in self.loop.decisions()]
        return self.commanded()

    def exchanges(self) -> dict[int, int]:
        """Return who gets which lanes now, and give them to it."""
        chosen = {a.key: a.tokens for a in self.loop.actions() if a.release is None}
        for job_id, tokens in chosen.items():
            assert isinstance(tokens, Tokens)
            self.loop[job_id].tokens.lane_mask = tokens.lane_mask
        return {job_id: tokens.lane_mask for job_id, tokens in chosen.items()}


def test_a_job_that_had_better_share_is_released_where_the_gate_is_shut():
    cluster = Cluster(SHARE, rate=2e9)
    cluster.add()
    assert cluster.look() == {}  # the gate lets it in
    cluster.holder()
    assert cluster.look() == {1: "sharing"}


def test_the_next_is_released_once_the_one_before_has_started():
    cluster = Cluster(SHARE, rate=2e9)
    cluster.holder()
    cluster.add(1)
    cluster.add(2)
    assert cluster.look() == {1: "sharing"}
    cluster.take_tokens_off({1: ""})
    assert cluster.look() == {}
    cluster.loop[1].state = control.RUNS
    assert cluster.look() == {2: "sharing"}


def test_one_that_was_released_to_share_and_does_not_start_keeps_others_for_ten_seconds():
    cluster = Cluster(SHARE, rate=2e9)
    cluster.holder()
    cluster.add(1)
    cluster.add(2)
    assert cluster.look() == {1: "sharing"}
    cluster.take_tokens_off({1: ""})
    assert cluster.look(9) == {}
    assert cluster.look(1) == {2: "sharing"}


def test_a_release_to_share_that_slurm_refuses_keeps_no_other():
    cluster = Cluster(SHARE, rate=2e9)
    cluster.holder()
    cluster.add(1)
    cluster.add(2)
    assert cluster.look() == {1: "sharing"}
    assert cluster.look(10) == {2: "sharing"}


def test_a_job_whose_other_release_is_refused_keeps_none_from_sharing():
    cluster = Cluster(SHARE, rate=2e9)
    cluster.facts.max_delay = 30.0
    cluster.holder()
    cluster.add(1, eligible=NOW - 100)
    cluster.add(2)
    assert cluster.look() == {1: "max_delay", 2: "sharing"}


def test_without_a_release_left_nobody_takes_the_turn_to_share():
    cluster = Cluster(SHARE, rate=2e9)
    cluster.holder()
    cluster.add(1)
    assert cluster.look(releases=0) == {}
    assert cluster.look() == {1: "sharing"}


def test_an_array_is_never_released_to_share_for_all_of_its_tasks_would_start():
    cluster = Cluster(SHARE, rate=2e9)
    cluster.holder()
    cluster.add(flags=NEAR | ARRAY, array_id=1, tasks=1000)
    assert cluster.look() == {}
    cluster.loop[1].flags = NEAR
    assert cluster.look() == {1: "sharing"}


def test_a_job_that_had_better_wait_is_not_released():
    cluster = Cluster("WaitPrice=0.01\n", rate=2e9)
    row = cluster.add()
    cluster.holder()
    assert cluster.look() == {}
    assert row.memory.waits
    cluster.look(writers=())
    assert not row.memory.waits


@pytest.mark.parametrize(
    ("members", "rooms", "is_decided"),
    [
        ({"flags": OURS | NEXT}, (0, 0), True),
        ({"flags": OURS}, (4, 4), True),  # Slurm could start it, whatever its reason
        ({"flags": OURS}, (0, 0), False),
        ({"flags": OURS | NEXT, "state": control.LATER}, (4, 4), False),
        ({"flags": OURS | NEXT, "lane_mask": 0}, (4, 4), False),
        ({"flags": PREDICTED | NEXT}, (4, 4), False),
    ],
)
def test_jobs_near_their_start_are_decided_on_and_no_others(members, rooms, is_decided):
    cluster = Cluster(SHARE)
    cluster.add(**members)
    cluster.look(rooms=(rooms,))
    assert cluster.decided == ([1] if is_decided else [])


def test_a_job_whose_submission_is_unknown_is_left_alone():
    cluster = Cluster(SHARE)
    cluster.holder()
    cluster.add()
    del cluster.submissions[1]
    assert cluster.look() == {}
    assert cluster.decided == []


def test_a_job_that_the_site_exempts_by_now_needs_no_token():
    cluster = Cluster()
    cluster.add()
    assert cluster.look(conf=CONTROLLED + "ModeOf=off Users=1000\n") == {1: "left"}


def test_a_snapshot_that_is_too_old_says_nothing_of_a_job():
    cluster = Cluster(SHARE)
    cluster.holder()
    cluster.add()
    assert cluster.look(age=100) == {}
    assert cluster.decided == [1]


def test_a_decision_stands_for_a_minute_while_the_same_jobs_run():
    cluster = Cluster()
    cluster.add(flags=NEAR | ARRAY)
    decided = []
    for second in range(130):
        cluster.look(writers=())
        decided += [second] if cluster.decided else []
    assert decided == [0, 60, 120]
    cluster.look(writers=(0,))
    assert cluster.decided == [1]


def test_64_jobs_are_decided_on_in_a_poll_those_first_that_waited_longest_for_it():
    cluster = Cluster(SHARE)
    for job_id in range(1, 101):
        cluster.add(job_id, lane_mask=1)
    cluster.look(writers=())
    assert cluster.decided == list(range(1, 65))
    cluster.look(writers=())
    assert cluster.decided == list(range(65, 101))


def test_a_job_takes_the_lane_that_is_free_now():
    cluster = Cluster("MaxDelay=0\n")
    cluster.add(lane_mask=1)
    cluster.look(writers=(1,), conf=CONTROLLED)
    assert cluster.exchanges() == {1: 2}
    cluster.look(writers=(1,), conf=CONTROLLED)
    assert cluster.exchanges() == {}


@pytest.mark.parametrize(("setting", "is_exchanged"), [("", True), ("MinSaving=1000000", False)])
def test_a_lane_that_is_hardly_better_keeps_a_job_where_it_is(setting, is_exchanged):
    cluster = Cluster(f"MaxDelay=0\n{setting}\n")
    cluster.add(lane_mask=1)
    cluster.look(writers=(1, 1, 2), conf=CONTROLLED)
    assert bool(cluster.exchanges()) is is_exchanged


def test_a_job_is_confined_no_longer_than_somebody_is_there_to_be_kept_from():
    cluster = Cluster()
    cluster.add(lane_mask=1)
    cluster.look(writers=(), conf=CONTROLLED)
    assert cluster.exchanges() == {1: 3}


def test_a_job_changes_lanes_three_times_at_most():
    cluster = Cluster("MaxDelay=0\n")
    cluster.add(lane_mask=1)
    moves = 0
    for i in range(8):
        cluster.look(writers=(1 << i % 2,), conf=CONTROLLED)
        moves += len(cluster.exchanges())
    assert moves == 3


def test_an_array_whose_tasks_run_keeps_the_lane_on_which_they_write():
    cluster = Cluster("MaxDelay=0\n")
    cluster.add(1, lane_mask=1, array_id=7, flags=NEAR | ARRAY)
    cluster.holder(2, lane_mask=1, array_id=7)
    cluster.look(writers=(1,), conf=CONTROLLED)
    assert cluster.exchanges() == {}
    cluster.loop.remove(2)
    cluster.look(61, writers=(1,), conf=CONTROLLED)
    assert cluster.exchanges() == {1: 2}


def test_a_job_that_is_released_is_not_exchanged_too():
    cluster = Cluster("MaxDelay=0\n")
    cluster.facts.max_delay = 10.0
    cluster.add(lane_mask=1, eligible=NOW - 100)
    assert cluster.look(writers=(1,), conf=CONTROLLED) == {1: "max_delay"}
    assert len(cluster.loop.actions()) == 1


def test_a_job_that_its_lane_alone_slows_too_much_can_never_be_let_in():
    cluster = Cluster(rate=2e9)
    cluster.add(1, lane_mask=1, flags=OURS)
    cluster.add(2, lane_mask=3, flags=OURS)
    cluster.add(3, lane_mask=1, flags=OURS, profile=HEAVY | {"rate": 1e8})
    assert cluster.look(rooms=((0, 0),)) == {1: "confined"}


def test_the_record_of_a_decision_can_be_made_again():
    cluster = Cluster(SHARE)
    cluster.facts.boot, cluster.facts.number = 7, 40
    cluster.add()
    cluster.look()
    [(key, record)] = list(cluster.loop.decisions())
    assert (key, record.key) == (1, (7, 41))
    assert record.submission.lot != 0
    record.struct.submission.lot = 0
    assert record.submission.bytes == storage_models.submission().bytes
    assert record.bundle_checksum == cluster.bundle.checksum


# The gates

ONE_LANE = ""
ALWAYS = {"io_share": 0.9}
SELDOM = {"io_share": 0.02}


def gates_of(
    waiting: Sequence[dict[str, Any]] = (),
    running: Sequence[dict[str, Any]] = (),
    conf: str = "",
    lanes: str = ONE_LANE,
    speeds: Mapping[str, float] | None = None,
) -> dict[str, int]:
    """Size the gates for jobs of which nobody is near its start, so nothing is decided."""
    cluster = Cluster(conf, lanes=lanes)
    for job_id, members in enumerate([*waiting, *running], start=1):
        state = control.WAITS if job_id <= len(waiting) else control.RUNS
        cluster.add(job_id, **{"lane_mask": 1, "flags": OURS, "state": state} | members)
    cluster.look(rooms=((0, 0),), speeds=speeds)
    return cluster.gates


def load(klass: str = "stream", profile: dict[str, Any] | None = None, **members: Any):
    base = FLUSHING if klass == "flush" else STREAMING
    return {"klass": CLASSES.index(klass), "profile": base | (profile or ALWAYS)} | members


def test_with_nobody_there_the_gates_are_closed():
    assert gates_of() == {"all_stream": 0, "all_flush": 0, "all_meta": 0}


def test_one_heavy_job_at_a_time():
    assert gates_of([load()] * 3)["all_stream"] == 1
    assert gates_of([load()] * 3, [load()])["all_stream"] == 1


def test_no_token_is_let_out_for_a_job_that_should_wait():
    """Were Tolerance never so high: waiting costs less."""
    cluster = Cluster("Tolerance=100\nWaitPrice=0.01\n", rate=2e9)
    cluster.holder()
    first, second = cluster.add(1), cluster.add(2, flags=OURS)
    cluster.look(rooms=((0, 0),))
    assert (first.memory.waits, second.memory.waits) == (1, 0)
    assert cluster.gates["sl0_stream"] == 2


def test_an_array_counts_with_all_its_tasks_up_to_16():
    one = gates_of([load(profile=SELDOM)], conf="Tolerance=100")
    many = gates_of([load(profile=SELDOM, tasks=1000)], conf="Tolerance=100")
    assert (one["all_stream"], many["all_stream"]) == (1, 16)


def test_a_slow_lane_has_room_for_fewer_and_is_not_closed():
    """Three that take a fifth of a lane each have room; at a third of its rate one has."""
    quiet = {"io_share": 0.9, "rate": 0.2 * 2**30}
    jobs = [load(profile=quiet)] * 3
    full = gates_of(jobs, lanes=LANES)
    assert gates_of(jobs, lanes=LANES, speeds={"sl1": 1 / 3}) == full
    slow = gates_of(jobs, lanes=LANES, speeds={"sl0": 1 / 3})
    assert 0 < slow["sl0_stream"] < full["sl0_stream"] == 3


@pytest.mark.parametrize("flags", [0, RECORDED, PREDICTED, GRANTED | RECORDED])
@pytest.mark.parametrize("state", [control.RUNS, control.WAITS])
def test_jobs_that_sluice_did_not_grant_or_knows_nothing_of_shut_no_gate(flags, state):
    """Neither as holders nor as jobs that wait; what is known of their load counts as load."""
    quiet = load(profile=SELDOM)
    strange = load(profile=SELDOM, flags=flags, state=state)
    alone = gates_of([quiet], conf="Tolerance=4")
    assert alone["all_stream"] == 1
    assert gates_of([quiet], [strange] * 100, conf="Tolerance=4") == alone


def test_the_rest_of_the_background_counts_too():
    """Of writers that flush: 500 streams would press as few do (interference.h)."""
    member = load("flush", SELDOM)
    other = load("flush", SELDOM, lane_mask=0)
    assert gates_of([member], [other])["all_flush"] == 1
    assert gates_of([member], [other] * 500)["all_flush"] == 0


def test_lanes_are_sized_apart():
    here, there = (load(profile=ALWAYS | {"rate": 1e9}, lane_mask=mask) for mask in (1, 2))
    gates = gates_of([here, there], [here], lanes=LANES)
    assert (gates["sl0_stream"], gates["sl1_stream"]) == (1, 1)


def test_held_and_later_jobs_keep_nobody_out():
    assert gates_of([load(), load("flush", state=control.LATER)]) == gates_of([load()])


members_of_gates = st.lists(
    st.tuples(st.sampled_from(CLASSES[1:]), storage_models.pressures()), max_size=4
)


@settings(max_examples=150, deadline=None)
@given(members_of_gates, members_of_gates, st.lists(storage_models.pressures(), max_size=3))
def test_gates_are_those_of_the_core_for_the_same_members(running_jobs, waiting, background):
    """What core_calls.gates finds sound (test_core_gates.py), and no more than is needed."""
    cluster = Cluster("Tolerance=2", lanes=ONE_LANE)
    kinds = [
        *((klass, pressure, control.RUNS, 1, OURS) for klass, pressure in running_jobs),
        *((klass, pressure, control.WAITS, 1, OURS) for klass, pressure in waiting),
        *(("stream", pressure, control.RUNS, 0, PREDICTED) for pressure in background),
    ]
    for job_id, (klass, pressure, state, mask, flags) in enumerate(kinds, start=1):
        row = cluster.add(
            job_id, klass=CLASSES.index(klass), state=state, lane_mask=mask, flags=flags
        )
        row.pressure = pressure.struct[0]
    cluster.look(rooms=((0, 0),))
    sound = core_calls.gates(
        running_jobs,
        waiting,
        background,
        model=cluster.bundle.interference,
        policy=cluster.bundle.policy,
        limit=16,
    )
    for klass in CLASSES[1:]:
        need = sum(k == klass for k, _ in [*running_jobs, *waiting])
        assert cluster.gates[f"all_{klass}"] == min(sound.tokens[klass], need)


# A gate is given up


def test_a_gate_is_given_up_behind_which_a_job_waited_two_polls_beyond_the_bound():
    cluster = Cluster()
    cluster.facts.max_delay = 10.0
    cluster.add(1, lane_mask=1, klass=STREAM, eligible=NOW)
    cluster.add(2, lane_mask=2, klass=CLASSES.index("flush"), nodes=101)
    given_up = []
    for _ in range(13):
        cluster.look(conf=CONTROLLED)
        given_up.append(cluster.given_up)
    assert given_up == [[]] * 11 + [["sl0_stream"]] * 2
    cluster.loop[1].state = control.RUNS  # it started at last
    cluster.look(conf=CONTROLLED)
    assert cluster.given_up == []


def test_a_gate_that_is_given_up_is_not_imposed():
    cluster = Cluster()
    cluster.facts.max_delay = 0.0
    cluster.add(lane_mask=1, eligible=NOW - 100)
    cluster.look(conf=CONTROLLED)
    assert "sl0_stream" not in cluster.gates
    assert set(cluster.gates) == set(cluster.names) - {"sl0_stream"}


# The same state, the same bytes


def cluster_of(order: Sequence[int]) -> Cluster:
    """Twelve jobs of all kinds, put into the array in this order, and polled five times."""
    cluster = Cluster(SHARE + "MaxDelay=0\n")
    cluster.facts.max_delay = 3.0
    for i in order:
        kind = (0, i % 3)[i > 2]
        cluster.add(
            i,
            state=(control.WAITS, control.RUNS, control.LATER)[kind],
            lane_mask=1 + i % 3,
            flags=NEAR if i % 5 else RECORDED,
            nodes=1 + i % 2,
            priority=100 + i % 4,
            start=NOW if kind == 1 else 0,
        )
    for _ in range(5):
        cluster.look(writers=(1, 2), conf=CONTROLLED, rooms=((3, 9),))
        cluster.exchanges()
    return cluster


def state_of(cluster: Cluster) -> tuple[Any, ...]:
    jobs = {i: View(cluster.loop[i]).bytes for i in cluster.loop}
    return jobs, cluster.commanded(), cluster.decided, cluster.gates, cluster.given_up


def test_the_same_state_gives_the_same_bytes():
    first, second = cluster_of(range(1, 13)), cluster_of(range(1, 13))
    assert first.loop.content() == second.loop.content()
    assert state_of(first) == state_of(second)


@settings(max_examples=20, deadline=None)
@given(st.permutations(range(1, 13)))
def test_verdicts_do_not_depend_on_the_order_of_the_array(order):
    assert state_of(cluster_of(order)) == state_of(cluster_of(range(1, 13)))


def test_every_release_has_a_sentence():
    assert {release: control.release_text(release) for release in RELEASES}.keys() == set(RELEASES)
    assert control.release_text("max_delay") == "it has waited for MaxDelay seconds"


# Modes


def test_a_waiting_job_that_the_site_enforces_no_more_for_is_released():
    queue = Queue()
    queue.add(1, flags=OURS | control.SPARED)
    queue.add(2)
    queue.add(3, state=control.RUNS, flags=OURS | control.SPARED)
    assert queue.poll() == {1: "mode"}


# Decided again as they started

FREE = control.RECORDED | control.PREDICTED | control.SPARED


def starts(*jobs: dict[str, Any]) -> list[tuple[int, list[int]]]:
    """Return which of jobs 1, 2, … are due at their start, each with those in front."""
    queue = Queue()
    for job_id, members in enumerate(jobs, start=1):
        queue.add(job_id, **running(1) | {"flags": FREE, "submit": NOW} | members)
    found = queue.loop.starts(queue.facts)
    assert queue.loop.starts(queue.facts) == []
    return found


def test_jobs_that_start_together_are_decided_on_alongside_those_in_front():
    assert starts({"priority": 5}, {"priority": 9}, {"priority": 5}) == [(1, [2]), (3, [2, 1])]


@pytest.mark.parametrize(
    ("members", "is_due"),
    [
        ({}, True),
        ({"flags": FREE & ~control.SPARED}, False),
        ({"flags": FREE & ~control.PREDICTED}, False),
        ({"klass": 0}, False),
        ({"state": control.WAITS}, False),
        ({"submit": NOW - 100, "start": NOW - 30}, True),
        ({"submit": NOW - 100, "start": NOW - 31}, False),
    ],
)
def test_a_job_is_decided_on_as_it_started_where_nothing_is_enforced(members, is_due):
    assert bool(starts({"start": NOW - 60, "priority": 9}, {"submit": NOW - 100} | members)) is (
        is_due
    )


@pytest.mark.parametrize(
    ("other_start", "submit", "is_due"),
    [(NOW - 3, NOW, True), (NOW - 4, NOW, False), (NOW - 4, NOW - 60, True), (0, NOW - 61, True)],
)
def test_what_its_submission_saw_is_not_decided_again(other_start, submit, is_due):
    assert bool(starts({"start": other_start, "submit": other_start}, {"submit": submit})) is is_due


def test_a_poll_decides_on_sixteen_that_started_and_the_next_on_others():
    queue = Queue()
    for job_id in range(1, 31):
        queue.add(job_id, **running(1) | {"flags": FREE, "submit": NOW - 100})
    assert [job for job, _ in queue.loop.starts(queue.facts)] == list(range(1, 17))
    assert [job for job, _ in queue.loop.starts(queue.facts)] == list(range(17, 31))
