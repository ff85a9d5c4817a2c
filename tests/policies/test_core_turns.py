"""Turns: who goes first on a full storage, who is held and for how long (policies/core/turns.h)."""

from __future__ import annotations

import math
import random

import core_turns as turns
import pytest
from fluid import Burst, best_priority, by_core, everybody, lost, optimum
from hypothesis import given
from hypothesis import strategies as st

from sluice.policies.structs import CoreError

SETTINGS = turns.settings()
NO_GUARD = turns.settings(guard=0.0)
"""So that short and new bursts may be held."""
FIT = SETTINGS.fit
NEAR_OPTIMUM = 1.02
"""Lost under the core's order over the least that could be, over many cases."""
NEAR_BEST_ORDER = 1.15
"""The same over the best fixed order of bursts that want several stations."""
UNKNOWN_AT_MOST = 1.5
"""Time from begin to end where nothing is known, over that of first-come servers."""

shares = st.one_of(st.just(0.0), st.floats(0.01, 1.5))
seconds = st.one_of(st.just(0.0), st.floats(0.1, 1e5))
demands = st.fixed_dictionaries(dict.fromkeys(turns.STATIONS, shares))
jobs = st.fixed_dictionaries(
    {
        "nodes": st.sampled_from([1.0, 2.0, 16.0, 1000.0]),
        "demand": demands,
        "expected": seconds,
        "done": seconds,
        "held": seconds,
        "most_held": st.sampled_from([turns.FOREVER, 0.0, 100.0]),
        "stretch": st.sampled_from([0.0, 0.0, 59.0, 60.0, 100.0]),
        "began": st.sampled_from([0.0, 1.0, 5.0]),
        "lane_mask": st.integers(0, 7),
        "flags": st.sampled_from([0, 0, turns.EXEMPT]),
    }
)
queues = st.lists(jobs, max_size=12).map(
    lambda listed: [{"key": key, **job} for key, job in enumerate(listed)]
)
lanes = st.lists(
    st.fixed_dictionaries(
        {
            "targets": st.sampled_from([1.0, 3.0]),
            **{station: st.sampled_from([0.0, 0.5, 1.0]) for station in turns.STATIONS[:3]},
        }
    ),
    min_size=1,
    max_size=3,
)


def lanes_of(job, count):
    mask = job["lane_mask"] & ((1 << count) - 1) or (1 << count) - 1
    return [lane for lane in range(count) if mask >> lane & 1]


def demands(job, listed):
    """Return the share of each station, by (lane, station), that a job asks for at full speed."""
    mine = lanes_of(job, len(listed))
    targets = sum(listed[lane]["targets"] for lane in mine)
    found = {
        (lane, station): job["demand"][station]
        * (listed[lane]["targets"] / targets)
        / listed[lane][station]
        for lane in mine
        for station in turns.STATIONS[:3]
        if listed[lane][station] > 0
    }
    found[None, "metadata"] = job["demand"]["metadata"]
    return found


def wants(job, listed):
    """Return what a job takes undisturbed: of no station more than all of it."""
    found = demands(job, listed)
    most = max(1.0, *found.values())
    return {place: share / most for place, share in found.items()}


def sums(queue, listed):
    total = {}
    for job in queue:
        for place, share in wants(job, listed).items():
            total[place] = total.get(place, 0.0) + share
    return total


def decided(queue, listed, settings=SETTINGS, clock=1e6):
    storage = turns.storage(listed, metadata=1.0)
    return turns.decide(settings, storage, turns.jobs_of(queue), clock=clock)


def budget(job, settings=SETTINGS):
    """Return for how long a job may be held."""
    first = job["expected"] or settings.quantum
    level = first
    while level <= job["done"]:
        level *= 2
    return min(settings.budget * level, job["most_held"])


def taken_by(queue, listed, verdicts):
    """Return what those who go, or go in part, take of each station."""
    total = {}
    for i, job in enumerate(queue):
        asked = demands(job, listed)
        for place, share in wants(job, listed).items():
            if verdicts[i].reason != "behind":
                takes = min(share, asked[place] * verdicts[i].share)
                total[place] = total.get(place, 0.0) + takes
    return total


@given(queues, lanes)
def test_nobody_is_held_while_a_station_of_his_has_room(queue, listed):
    verdicts = decided(queue, listed)
    taken = taken_by(queue, listed, verdicts)
    for i, job in enumerate(queue):
        if verdicts[i].reason == "behind":
            assert any(
                1 - taken.get(place, 0.0) < FIT * share
                for place, share in wants(job, listed).items()
                if share > 0
            )


@given(queues, lanes)
def test_what_fits_in_part_goes_at_no_less_than_the_speed_that_is_left(queue, listed):
    """So none of the room that others leave stays idle."""
    verdicts = decided(queue, listed)
    taken = taken_by(queue, listed, verdicts)
    for i, job in enumerate(queue):
        if verdicts[i].reason == "partly":
            full = max(taken[place] for place, share in wants(job, listed).items() if share > 0)
            undisturbed = 1 / max(1.0, *demands(job, listed).values())
            assert undisturbed * FIT * (1 - 1e-6) <= verdicts[i].share < 1
            assert full >= 1 - 1e-6
        elif verdicts[i].reason != "behind":
            assert verdicts[i].share == 1.0


@given(queues, lanes)
def test_nobody_is_held_who_touches_no_full_station(queue, listed):
    verdicts = decided(queue, listed)
    full = {place for place, share in sums(queue, listed).items() if share > 1 + 1e-8}
    for i, job in enumerate(queue):
        touched = {place for place, share in wants(job, listed).items() if share > 0}
        if not touched & full:
            assert verdicts[i].action == "go"


@given(queues, lanes)
def test_nobody_is_held_beyond_his_budget(queue, listed):
    verdicts = decided(queue, listed, clock=50.0)
    for i, job in enumerate(queue):
        if verdicts[i].action == "go":
            assert verdicts[i].until == math.inf
            continue
        assert not job["flags"] & turns.EXEMPT
        assert job["held"] < budget(job)
        assert verdicts[i].action == "slow" or job["stretch"] < SETTINGS.hold
        left = (budget(job) - job["held"]) / (1 - verdicts[i].share)
        assert verdicts[i].until == pytest.approx(50.0 + left)
        assert verdicts.again <= verdicts[i].until


@given(queues, lanes, st.randoms(use_true_random=False))
def test_the_order_in_which_jobs_are_listed_does_not_matter(queue, listed, shuffler):
    other = queue.copy()
    shuffler.shuffle(other)
    verdicts, again = decided(queue, listed), decided(other, listed)
    assert verdicts.by_key(queue) == again.by_key(other)
    assert verdicts.again == again.again


@given(jobs, lanes)
def test_a_job_alone_is_never_held(job, listed):
    verdict = decided([{"key": 1, **job}], listed)[0]
    assert (verdict.action, verdict.share, verdict.reason) == ("go", 1.0, "not_full")


@given(queues, lanes)
def test_the_first_in_the_order_goes(queue, listed):
    verdicts = decided(queue, listed)
    ordered = [i for i in range(len(queue)) if verdicts[i].reason != "not_full"]
    if ordered:
        first = max(ordered, key=lambda i: (verdicts[i].index, -queue[i]["began"], -i))
        assert verdicts[first].action == "go"


def one(**values):
    return {"key": 1, "demand": {"bytes": 1.0}, "expected": 100.0, **values}


ONE_LANE = [{"targets": 1.0, "bytes": 1.0, "operations": 1.0}]


@pytest.mark.parametrize(
    ("values", "left", "level"),
    [
        ({}, 100.0, 100.0),
        ({"done": 40.0}, 60.0, 100.0),
        ({"done": 99.0}, 5.0, 100.0),
        ({"done": 100.0}, 50.0, 200.0),
        ({"done": 250.0}, 100.0, 400.0),
        ({"expected": 0.0}, 10.0, 10.0),
        ({"expected": 0.0, "done": 9.0}, 10.0, 10.0),
        ({"expected": 0.0, "done": 10.0}, 20.0, 20.0),
        ({"expected": 0.0, "done": 39.0}, 40.0, 40.0),
    ],
)
def test_what_is_left_is_as_the_header_says(values, left, level):
    queue = [one(**values), one(key=2, began=5.0)]
    verdicts = decided(queue, ONE_LANE, NO_GUARD, clock=1000.0)
    assert verdicts[0].index == pytest.approx(1.0 / left)
    held = [i for i in range(2) if verdicts[i].action == "hold"]
    assert len(held) == 1
    if held == [0]:
        assert verdicts[0].until == pytest.approx(1000.0 + SETTINGS.budget * level)


def test_a_wide_short_burst_goes_before_a_narrow_long_one():
    queue = [one(nodes=1.0, expected=600.0), one(key=2, nodes=16.0, began=9.0, expected=60.0)]
    verdicts = decided(queue, ONE_LANE)
    assert [verdicts[i].action for i in range(2)] == ["hold", "go"]


def test_a_burst_that_fits_in_part_goes_at_the_speed_that_is_left():
    queue = [one(demand={"bytes": 0.6}, nodes=9.0), one(key=2)]
    verdict = decided(queue, ONE_LANE, clock=100.0)[1]
    assert (verdict.action, verdict.reason) == ("slow", "partly")
    assert verdict.share == pytest.approx(0.4)
    assert decided(queue, ONE_LANE, turns.settings(pace=0.0))[1].share == 1.0


def test_a_stream_and_a_flushing_program_fit_together():
    """Each fills another station, so holding either would only lose."""
    stream = one(demand={"bytes": 0.95, "operations": 0.19})
    flushing = one(key=2, demand={"bytes": 0.13, "operations": 0.9})
    verdicts = decided([stream, flushing], ONE_LANE)
    assert [verdicts[i].reason for i in range(2)] == ["partly", "in_order"]
    assert verdicts[0].share == pytest.approx(0.87 / 0.95)
    other = decided([stream, {**flushing, "demand": {"bytes": 0.04, "operations": 0.9}}], ONE_LANE)
    assert [other[i].action for i in range(2)] == ["go", "go"]


def test_equal_bursts_go_by_their_beginning_and_then_by_their_key():
    queue = [one(key=3, began=2.0), one(key=2, began=1.0), one(key=1, began=2.0)]
    verdicts = decided(queue, ONE_LANE)
    assert [verdicts[i].action for i in range(3)] == ["hold", "go", "hold"]
    verdicts = decided([queue[0], queue[2]], ONE_LANE)
    assert [verdicts[i].action for i in range(2)] == ["hold", "go"]


def test_bursts_that_control_cannot_act_on_are_not_held():
    queue = [one(nodes=100.0), one(key=2, expected=19.0, done=1.0, nodes=0.001)]
    verdicts = decided(queue, ONE_LANE)
    assert [verdicts[i].reason for i in range(2)] == ["in_order", "short"]
    queue[1]["done"] = 38.1
    assert decided(queue, ONE_LANE)[1].reason == "behind"


def test_a_burst_of_which_nothing_is_expected_is_not_held_until_it_has_lasted():
    unknown = one(key=2, expected=0.0, done=19.0, nodes=0.001, began=985.0)
    verdicts = decided([one(nodes=100.0), unknown], ONE_LANE, clock=1000.0)
    assert verdicts[1].reason == "short"
    assert verdicts.again == pytest.approx(1002.0)
    queue = [one(nodes=100.0), {**unknown, "done": 20.0}]
    assert decided(queue, ONE_LANE, clock=1000.0)[1].reason == "behind"


def test_what_others_slow_down_has_lasted_too():
    """Less what it was held."""
    slowed = one(key=2, expected=0.0, done=5.0, nodes=0.001, began=981.0)
    verdicts = decided([one(nodes=100.0), slowed], ONE_LANE, clock=1000.0)
    assert verdicts[1].reason == "short"
    assert verdicts.again == pytest.approx(1002.0)
    queue = [one(nodes=100.0), {**slowed, "began": 980.0}]
    assert decided(queue, ONE_LANE, clock=1000.0)[1].reason == "behind"
    queue[1]["held"] = 1.0
    assert decided(queue, ONE_LANE, clock=1000.0)[1].reason == "short"


@pytest.mark.parametrize(("wanted", "reason"), [(0.4, "partly"), (0.6, "in_order")])
def test_others_wait_for_short_bursts_only_while_these_take_little(wanted, reason):
    queue = [one(), one(key=2, expected=10.0, demand={"bytes": wanted}, nodes=100.0)]
    assert [decided(queue, ONE_LANE)[i].reason for i in range(2)] == [reason, "short"]


def test_a_level_is_asked_about_as_soon_as_its_crossing_can_be_seen():
    queue, settings = [one(done=40.0), one(key=2, began=1.0)], turns.settings(hold=1e6)
    verdicts = decided(queue, ONE_LANE, settings, clock=1000.0)
    assert verdicts.again == pytest.approx(1061.0)


@pytest.mark.parametrize("name", ["fit", "hold", "quantum"])
def test_settings_out_of_their_bounds_are_refused_by_name(name):
    with pytest.raises(CoreError, match=f"{name} of turns is"):
        turns.settings(**{name: -1.0})


def learned(*clocks, queue, memory=None, settings=None, said=1.0):
    """Return the storage as it is learned to be, when bursts go like this at each clock."""
    memory = memory or turns.Memory()
    storage = turns.storage([{"bytes": said}])
    for clock in clocks:
        found, again = memory.learn(
            settings or turns.settings(rare=0.0), storage, turns.jobs_of(queue), clock=clock
        )
    return found.lanes[0].bytes, again


def going(speed, share=1.0, key=1, **values):
    return one(key=key, allowed=share, speed=speed, **values)


def test_a_station_that_slows_bursts_that_were_to_go_can_do_no_more():
    assert learned(10.0, queue=[going(0.7)]) == (pytest.approx(0.7), math.inf)


def test_a_burst_that_wants_more_than_a_station_can_do_is_not_slowed_by_others():
    memory = turns.Memory()
    assert learned(10.0, 20.0, 30.0, queue=[going(0.7)], memory=memory)[0] == pytest.approx(0.7)


def test_a_station_that_does_more_than_it_is_said_to_can_do_that():
    """Also where more is planned than it is said to do, because bursts may not be held."""
    fast = {"demand": {"bytes": 1.5}, "flags": turns.EXEMPT}
    assert learned(10.0, queue=[going(1.0, **fast)]) == (pytest.approx(1.5), math.inf)
    both = [going(1.0, key=key, **fast) for key in (1, 2)]
    assert learned(10.0, queue=both)[0] == pytest.approx(3.0)


def test_a_station_is_judged_though_speeds_are_not_known_at_others():
    memory = turns.Memory()
    storage = turns.storage([{"bytes": 1.0}, {"bytes": 1.0}])
    queue = turns.jobs_of([going(0.5, lane_mask=1), going(-1.0, key=2, lane_mask=2)])
    found, _ = memory.learn(turns.settings(rare=0.0), storage, queue, clock=10.0)
    assert [lane.bytes for lane in found.lanes[0:2]] == [pytest.approx(0.5), 1.0]


def test_a_burst_that_is_slowed_by_less_than_the_tolerance_tells_nothing():
    assert learned(10.0, queue=[going(0.95)])[0] == 1.0


def test_a_station_that_slows_nobody_while_others_are_held_is_tried_for_more():
    queue = [going(1.0), going(0.0, share=0.0, key=2)]
    found, again = learned(10.0, queue=queue)
    assert (found, again) == (pytest.approx(1.1), 11.0)
    assert learned(10.0, 10.5, queue=queue)[0] == pytest.approx(1.1)
    assert learned(10.0, queue=queue[:1])[0] == 1.0


def test_a_station_that_slowed_one_is_not_tried_again_until_patience_is_over():
    memory = turns.Memory()
    assert learned(10.0, queue=[going(0.7)], memory=memory)[0] == pytest.approx(0.7)
    queue = [going(0.7), going(0.0, share=0.0, key=2)]
    assert learned(20.0, queue=queue, memory=memory) == (pytest.approx(0.7), 70.0)
    assert learned(70.0, queue=queue, memory=memory)[0] == pytest.approx(0.77)


def test_a_station_that_more_is_planned_for_than_it_can_do_is_not_judged():
    """Bursts that nobody may hold overfill it."""
    queue = [going(0.5, flags=turns.EXEMPT), going(0.5, key=2, flags=turns.EXEMPT)]
    assert learned(10.0, queue=queue) == (1.0, math.inf)


def test_no_station_is_judged_while_the_speed_of_a_burst_is_not_known():
    assert learned(10.0, queue=[going(0.5), going(-1.0, share=0.0, key=2)])[0] == 1.0


def test_a_station_that_is_rarely_full_is_none_to_be_held_for():
    memory, rare = turns.Memory(), turns.settings()
    queue = [going(0.5), going(0.5, key=2)]
    assert learned(0.0, queue=queue, memory=memory, settings=rare)[0] == 0.0
    assert learned(2000.0, queue=queue, memory=memory, settings=rare)[0] == 0.0
    assert learned(2500.0, queue=queue, memory=memory, settings=rare)[0] > 0.0
    assert learned(2500.0 + 4e6, queue=[], memory=memory, settings=rare)[0] > 0.0
    assert learned(2600.0 + 8e6, queue=[], memory=memory, settings=rare)[0] == 0.0


@given(queues, lanes, st.lists(st.tuples(shares, shares), min_size=12, max_size=12))
def test_what_is_learned_stays_within_its_bounds(queue, listed, speeds):
    memory = turns.Memory()
    storage = turns.storage(listed, metadata=1.0)
    went = [
        {**job, "allowed": min(1.0, allowed), "speed": min(1.0, speed)}
        for job, (allowed, speed) in zip(queue, speeds, strict=False)
    ]
    for clock in range(0, 600, 60):
        found, again = memory.learn(SETTINGS, storage, turns.jobs_of(went), clock=float(clock))
        assert again > clock
    for lane, said in zip(found.lanes, listed, strict=False):
        for station in turns.STATIONS[:3]:
            learned_to_do = getattr(lane, station)
            assert learned_to_do == 0 or 0.2 <= learned_to_do / said[station] <= 5.0


def drawn(seed, count, draw):
    """Return lists of bursts, the same in every run."""
    shuffler = random.Random(seed)
    return [[draw(shuffler) for _ in range(shuffler.randint(2, 6))] for _ in range(count)]


def filling(shuffler, *, is_known=True):
    begin = shuffler.choice([0.0, shuffler.uniform(0, 100)])
    nodes = shuffler.choice([1, 2, 4, 8, 16])
    return Burst(begin, shuffler.lognormvariate(3, 1), nodes, is_known=is_known)


def of_two_stations(shuffler):
    operations = shuffler.choice([0.0, shuffler.uniform(0.1, 1)])
    nodes = shuffler.choice([1, 2, 4, 8, 16])
    return Burst(0.0, shuffler.lognormvariate(3, 1), nodes, shuffler.uniform(0.1, 1), operations)


def test_the_order_is_next_to_the_optimum_of_one_station():
    """Branch and bound over who writes; bursts begin at different times and may be interrupted."""
    ours = least = 0.0
    for bursts in drawn(1, 60, filling):
        found = lost(bursts, by_core(guard=0.0))
        ours, least = ours + found, least + optimum(bursts, found)
    assert least > 0
    assert ours <= NEAR_OPTIMUM * least


def test_the_order_is_near_the_best_one_where_bursts_want_several_stations():
    ours = best = shared = 0.0
    for bursts in drawn(2, 25, of_two_stations):
        if len(bursts) <= 5:
            ours += lost(bursts, by_core(guard=0.0))
            best += min(best_priority(bursts, FIT), lost(bursts, everybody))
            shared += lost(bursts, everybody)
    assert ours <= NEAR_BEST_ORDER * best
    assert best < 0.7 * shared


unknown_bursts = st.lists(
    st.builds(
        Burst,
        begin=st.sampled_from([0.0, 10.0, 70.0]),
        length=st.sampled_from([3.0, 10.0, 11.0, 39.0, 41.0, 300.0]),
        nodes=st.sampled_from([1.0, 4.0, 16.0]),
        is_known=st.just(value=False),
    ),
    min_size=1,
    max_size=5,
)


@given(unknown_bursts)
def test_where_nothing_is_known_the_order_is_hardly_worse_than_first_come_servers(bursts):
    alone = sum(burst.nodes * burst.length for burst in bursts)
    assert lost(bursts, by_core(guard=0.0)) + alone <= UNKNOWN_AT_MOST * (
        lost(bursts, everybody) + alone
    )


def by_brute_force(a, b, steps=2000):
    """Return lost in order over lost by equal shares, of bursts that meet at any instant."""
    ordered = shared = 0.0
    for (n, late), (m, early) in ((a, b), (b, a)):
        for i in range(steps):
            rest = early * (i + 0.5) / steps
            weight = early / steps  # as often as one begins during the other
            ordered += weight * min(n * rest, m * late)
            shared += weight * (n + m) * min(rest, late)
    return ordered / shared


parties = st.tuples(st.floats(1, 1e3), st.floats(1, 1e3))


@given(parties, parties)
def test_what_an_order_leaves_of_a_pairs_loss_is_what_all_their_meetings_say(a, b):
    found = turns.pair_share(a, b)
    assert found == pytest.approx(by_brute_force(a, b), rel=1e-2)
    assert found == pytest.approx(turns.pair_share(b, a))
    assert 0 < found < 1


def test_equal_programs_lose_half_as_much_in_turns_and_unequal_ones_less():
    assert turns.pair_share((4, 60), (4, 60)) == pytest.approx(0.5)
    assert turns.pair_share((64, 60), (4, 60)) < 0.1
    assert turns.pair_share((64, 0), (4, 60)) == turns.pair_share((64, 60), (4, 60))


def test_a_stretch_of_a_hold_ends_where_no_hold_lasts_longer():
    queue = [one(nodes=100.0, expected=1e4), one(key=2, expected=1e4, stretch=59.0)]
    verdicts = decided(queue, ONE_LANE, clock=1000.0)
    assert (verdicts[1].reason, verdicts.again) == ("behind", pytest.approx(1001.0))
    queue[1] |= {"stretch": 60.0, "went": 1.0}
    verdicts = decided(queue, ONE_LANE, clock=1000.0)
    assert (verdicts[1].action, verdicts[1].reason) == ("go", "stretch")
    assert verdicts.again == pytest.approx(1002.0)  # a latency each way, and a call


@pytest.mark.parametrize("hold", [5.0, 60.0])
@pytest.mark.parametrize("step", [0.05, 0.7])
def test_a_burst_is_silent_for_no_longer_than_a_hold_lasts(hold, step):
    """Whatever becomes of the burst before it, which comes and goes: less than a respite does
    not count as going."""
    settings, drawn = turns.settings(hold=hold, guard=0.0), random.Random(1)
    clock, state, goes, silent, longest = 0.0, (0.0, 100.0), 0.0, 0.0, 0.0
    respite = turns.respite(settings)
    while clock < 1000.0:
        held = one(key=2, expected=1e4, stretch=state[0], went=state[1], nodes=0.01)
        is_alone = drawn.random() < 0.1 * step
        queue = [held] if is_alone else [held, one(nodes=100.0, expected=1e4)]
        verdicts = decided(queue, ONE_LANE, settings, clock)
        passed = min(step, max(verdicts.again - clock, 1e-3))
        state = turns.passed(respite, verdicts[0].share, passed, state)
        clock += passed
        goes = goes + passed if verdicts[0].share > 0 else 0.0
        if goes == 0.0:
            silent += passed
        elif goes >= 0.999 * respite:
            silent = 0.0
        longest = max(longest, silent)
    assert hold * 0.9 < longest <= hold * (1 + 1e-6)


def test_a_hold_is_for_the_burst_that_takes_most_and_saves_what_sharing_would_lose():
    """The first in the order takes less. Sharing, all lose 60 s; held, one loses 80 s."""
    listed = [
        {"key": 1, "nodes": 9.0, "demand": {"bytes": 0.2}, "expected": 100.0},
        {"key": 2, "nodes": 8.0, "demand": {"bytes": 0.8}, "expected": 100.0, "done": 20.0},
        {"key": 3, "nodes": 2.0, "demand": {"bytes": 1.0}, "expected": 60.0},
    ]
    verdicts = decided(listed, [{"bytes": 1.0}], NO_GUARD)
    assert verdicts[0].index > verdicts[1].index > verdicts[2].index
    assert [verdicts[i].first for i in range(3)] == [None, None, 1]
    assert verdicts[2].saving == pytest.approx((2 + 8 + 9) * 60 - 2 * 80)


def lost_by_two(first, second, speed_of_second):
    """Return the node-seconds that two lose; once one has ended, the other goes at full speed.

    speed_of_second: of the second while the first goes at full speed; None: they share.
    """
    speeds = (1.0, speed_of_second)
    if speed_of_second is None:
        speeds = (1.0 / max(1.0, first["demand"]["bytes"] + second["demand"]["bytes"]),) * 2
    both, pairs = math.inf, tuple(zip((first, second), speeds, strict=True))
    for one, speed in pairs:
        both = min(both, one["expected"] / speed) if speed else both
    return sum(one["nodes"] * both * (1.0 - speed) for one, speed in pairs)


@pytest.mark.parametrize("wanted", [0.15, 0.5, 0.8, 1.0])
@pytest.mark.parametrize("of_first", [0.6, 0.8, 0.95, 1.0])
@pytest.mark.parametrize("length", [20.0, 90.0, 400.0])
def test_a_hold_saves_what_two_lose_less_in_order_than_by_sharing(wanted, of_first, length):
    """Where both fit, there is none; one that would save nothing is none either."""
    first = {"key": 1, "nodes": 900.0, "demand": {"bytes": of_first}, "expected": 100.0}
    second = {"key": 2, "nodes": 3.0, "demand": {"bytes": wanted}, "expected": length}
    held = decided([first, second], [{"bytes": 1.0}], NO_GUARD)[1]
    if held.share == 1.0:
        assert wanted + of_first <= 1.0 or held.reason == "no_gain"
        return
    saved = lost_by_two(first, second, None) - lost_by_two(first, second, held.share)
    assert held.saving == pytest.approx(saved)
    assert held.saving > 0.0


def test_a_burst_is_not_held_where_that_saves_nothing():
    """For a burst of few nodes that leaves a twentieth idle, and lasts as long."""
    first = {"key": 1, "nodes": 1.0, "demand": {"bytes": 0.95}, "expected": 100.0}
    large = {"key": 2, "nodes": 80.0, "demand": {"bytes": 1.0}, "expected": 9000.0}
    verdicts = decided([first, large], [{"bytes": 1.0}], NO_GUARD)
    assert verdicts[0].reason == "in_order"
    assert (verdicts[1].action, verdicts[1].reason) == ("go", "no_gain")
    assert (verdicts[1].first, verdicts[1].saving) == (None, None)
    assert math.isinf(verdicts[1].until)


def test_what_a_hold_saves_is_unknown_where_a_length_is():
    listed = [
        {"key": 1, "nodes": 800.0, "demand": {"bytes": 1.0}, "expected": 100.0},
        {"key": 2, "nodes": 1.0, "demand": {"bytes": 1.0}},
    ]
    held = decided(listed, [{"bytes": 1.0}], NO_GUARD)[1]
    assert (held.reason, held.first, held.saving) == ("behind", 0, None)


MIB = 2.0**20


@pytest.mark.parametrize(
    ("profile", "operations"),
    [
        ({"chunk_bytes": 64 * 1024.0, "bytes_per_flush": 64 * 1024.0}, 16 + 16),
        ({"chunk_bytes": 4 * MIB, "bytes_per_flush": 1024 * MIB}, 1 / 4 + 1 / 1024),
        ({"chunk_bytes": 4096.0}, 1),
        ({"chunk_bytes": 4096.0, "direct_share": 1.0}, 256),
        ({"chunk_bytes": MIB, "creates_per_mib": 3.0}, 3 + 1),
        ({}, 0),
    ],
    ids=["flushed at once", "stream", "caches join", "direct", "a file each", "unknown"],
)
def test_the_demand_of_a_profile_is_what_agents_count(profile, operations):
    found = turns.demand(rate=10 * MIB, metadata_rate=7.0, **profile)
    assert found["bytes"] == found["links"] == 10 * MIB
    assert found["operations"] == pytest.approx(10 * operations)
    assert found["metadata"] == pytest.approx(max(7.0, 10 * profile.get("creates_per_mib", 0.0)))


def test_of_a_profile_without_rates_no_demand_is_known():
    assert not any(turns.demand(chunk_bytes=MIB, creates_per_mib=1.0).values())
