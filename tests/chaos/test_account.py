"""The account of who waits, asked about recorded and made-up timelines."""

from dataclasses import replace

import pytest
from account import Account, Limits, Poll, Seen, could_start, merge_components
from sampler import parse_row, tasks

LIMITS = Limits(max_delay=10, lease=5, poll=1, pass_seconds=3, slack=2)
WAITER = Seen((7, 0), 0, "Licenses", 1.0, (1, 100), 1, 1, ("all_stream",))
FREE = {"tool": 9}


def poll(at: float, *pending: Seen, idle: int = 1, **changed: object) -> Poll:
    """Sluiced has been alive for long, unless told."""
    usual = Poll(at, 1000.0 + at, idle, FREE, pending or (WAITER,), -100.0, None)
    return replace(usual, **changed)


def complaints(*polls: Poll) -> list[str]:
    account = Account(LIMITS)
    return [text for one in polls for text in account.take(one)]


def charged(*polls: Poll) -> float:
    account = Account(LIMITS)
    for one in polls:
        account.take(one)
    return account.charged(WAITER.key)


def seconds(count: int, **changed: object) -> list[Poll]:
    return [poll(at, **changed) for at in range(count + 1)]


def test_who_could_start_is_charged_but_for_slurms_own_pass():
    assert charged(*seconds(10)) == 10 - LIMITS.pass_seconds


def test_the_limit_is_the_bound_and_two_polls_and_the_slack():
    longest = int(LIMITS.alive + LIMITS.pass_seconds)
    assert not complaints(*seconds(longest))
    [complaint] = complaints(*seconds(longest + 1))
    assert "job 7 with all_stream" in complaint


@pytest.mark.parametrize("reason", ["Licenses", "Priority", "Resources", "None"])
def test_the_reason_that_slurm_shows_changes_nothing(reason):
    row = replace(WAITER, reason=reason)
    assert charged(*(poll(at, row) for at in range(11))) == 7


@pytest.mark.parametrize(
    "changed",
    [
        {"reason": "Dependency"},
        {"reason": "BeginTime"},
        {"reason": "JobHeldAdmin"},
        {"rank": (1, 0)},
        {"eligible": 2000.0},
        {"eligible": 0.0},
        {"tokens": ()},
        {"nodes": 2},
        {"licenses": {"tool": 10}},
        {"licenses": {"unknown": 1}},
    ],
    ids=str,
)
def test_who_could_not_start_is_not_charged(changed):
    row = replace(WAITER, **changed)
    assert charged(*(poll(at, row) for at in range(40))) == 0


def test_nodes_that_go_to_others_first_are_not_his():
    first = replace(WAITER, key=(3, 0), rank=(1, 200), tokens=())
    assert list(could_start(poll(0, WAITER, first, idle=1))) == []
    assert list(could_start(poll(0, WAITER, first, idle=2))) == [WAITER.key]
    array = replace(first, tasks=3)
    assert list(could_start(poll(0, WAITER, array, idle=3))) == []


def test_a_partition_of_a_higher_tier_goes_first_and_among_equals_the_older_job():
    urgent = replace(WAITER, key=(9, 0), rank=(10, 1))
    assert list(could_start(poll(0, WAITER, urgent, idle=1))) == [urgent.key]
    older = replace(WAITER, key=(3, 0))
    assert list(could_start(poll(0, WAITER, older, idle=1))) == [older.key]


def test_each_time_that_nodes_become_free_slurms_pass_is_free_again():
    full = [poll(at, idle=0) for at in (11, 12)]
    again = [poll(at) for at in range(13, 24)]
    assert charged(*seconds(10), *full, *again) == 7 + 7


def test_of_a_gap_between_polls_nothing_is_known():
    assert charged(poll(0), poll(50), poll(51)) == 0


def test_a_requeued_job_waits_anew():
    account = Account(LIMITS)
    for one in seconds(10):
        account.take(one)
    again = replace(WAITER, key=(7, 1))
    account.take(poll(11, again))
    assert account.charged(again.key) == account.charged(WAITER.key) == 0


def test_sluiced_that_has_just_started_has_a_leases_time():
    assert charged(*seconds(10, alive_since=4.0)) == 1
    assert charged(*seconds(10, alive_since=-1.0)) == 6


def test_without_sluiced_the_limit_is_its_lease():
    dead = {"alive_since": None, "dead_since": -60.0}
    longest = int(LIMITS.dead + LIMITS.pass_seconds)
    assert not complaints(*seconds(longest, **dead))
    assert "sluiced dead" in complaints(*seconds(longest + 1, **dead))[0]


def test_time_before_its_death_does_not_count_as_without_it():
    alive = [poll(at) for at in range(8)]
    dead = [poll(at, alive_since=None, dead_since=7.5) for at in range(8, 13)]
    assert not complaints(*alive, *dead)


def test_components_of_a_heterogeneous_job_need_nodes_together():
    leader = replace(WAITER, leader=7)
    second = replace(WAITER, key=(8, 0), leader=7, nodes=2, tokens=(), eligible=5.0)
    [merged] = merge_components([leader, second])
    assert (merged.key, merged.nodes, merged.eligible) == ((7, 0), 3, 5.0)
    assert merged.tokens == ("all_stream",)
    assert len(merge_components([WAITER, replace(WAITER, key=(8, 0))])) == 2


def test_a_row_of_squeue_is_read():
    row = parse_row("12|0|12_[1-3,7%2]|1|PD|Priority|1795393426|4294901755|main,urgent|2|"
                    "all_stream:1,tool:3|")  # fmt: skip
    assert row == Seen(
        (12, 1), 0, "Priority", 1795393426.0, (1, 4294901755), 2, 4, ("all_stream",), {"tool": 3}
    )


@pytest.mark.parametrize(
    ("shown", "count"),
    [("12", 1), ("12_3", 1), ("12_[3]", 1), ("12_[0-2]", 3), ("12_[1,4-5%1]", 3)],
)
def test_tasks_of_an_array_are_counted(shown, count):
    assert tasks(shown) == count


# Recorded at 599a47d: `make chaos SEED=3`, at its end. Six jobs wait behind one that is blocked,
# ten of twelve nodes are idle, and sluiced's clock stands still: it counts only Reason=Licenses.
RECORDED = [
    ((45, 0), "Resources", 1, 4294901723, ("all_flush",)),
    ((57, 0), "Resources", 1, 4294901711, ("all_flush",)),
    ((60, 0), "Priority", 1, 4294901708, ("all_flush",)),
    ((61, 0), "Priority", 2, 4294901707, ()),
    ((66, 0), "Priority", 1, 4294901702, ("all_flush",)),
]


def test_recorded_jobs_behind_a_blocked_one_are_found():
    rows = [
        Seen(key, 0, reason, 1.0, (1, priority), nodes, 1, tokens)
        for key, reason, nodes, priority, tokens in RECORDED
    ]
    found = complaints(*(poll(0.7 * i, *rows, idle=10) for i in range(40)))
    assert {text.split()[1] for text in found} == {"45", "57", "60", "66"}
