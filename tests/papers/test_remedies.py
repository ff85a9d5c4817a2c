"""The papers' remedies, in the discrete-event storage model."""

import math
from dataclasses import replace

import pytest
from papers.platforms import Scenario
from papers.remedies import (
    REMEDIES,
    NotApplicableError,
    alone_seconds,
    balanced_files,
    factors,
    order_bursts,
    outcomes,
    part_statically,
    stage,
)

from sluice.sim.engine import StorageModelError
from sluice.sim.storage.discrete_event import simulate

MIB = 1048576.0


def pair(*, buffer=8.0, later=1.0, **changed):
    """Two programs of 8 MiB a process on 4 targets of 32 MiB/s; alone each takes 1 s."""
    program = {
        "processes": 16,
        "nodes": 4,
        "operation_bytes": MIB,
        "operations": 8,
        "stripe_bytes": MIB / 4,
        "stripe_targets": 4,
        "interleaved": 1,
        **changed,
    }
    return Scenario(
        storage={
            "servers": 4,
            "targets": 4,
            "target_bandwidth": 32 * MIB,
            "unit_bytes": MIB / 4,
            "buffer_bytes": buffer * MIB,
        },
        programs=(program, {**program, "start": later}),
    )


def found(scenario, **staging):
    return outcomes(stage(scenario, **staging))


def test_who_has_the_turn_writes_as_if_alone():
    """K 1a: the first stages while the later one writes; 2a: the other way round."""
    scenario = pair(later=0.5)
    (alone, _) = alone_seconds(scenario)
    for is_first in (True, False):
        both = found(scenario, is_first=is_first, yields="block")
        holder = both[1 if is_first else 0]
        assert alone <= holder.seconds <= (1 + 1 / 8) * alone  # an eighth is under way


def test_a_buffer_that_is_large_enough_takes_everything_at_the_speed_of_memory():
    scenario = pair(buffer=64, later=0.1)
    _, later = found(scenario, is_first=False, yields="block")
    assert later.seconds < 0.1
    assert later.drained > 1.9  # the targets have two programs' bytes to write, all the same


def test_a_full_buffer_blocks_until_the_other_one_has_ended():
    scenario = pair(buffer=8, later=0.1)
    first, later = found(scenario, is_first=False, yields="block")
    assert later.end > first.end
    assert later.seconds < 0.95 * outcomes(scenario)[1].seconds


def test_who_flushes_instead_of_blocking_disturbs_the_other_one():
    """K 2b against 2a."""
    scenario = pair(buffer=8, later=0.1)
    blocked, flushed = (
        found(scenario, is_first=False, yields=yields)[0] for yields in ("block", "flush")
    )
    assert flushed.seconds > 1.2 * blocked.seconds


@pytest.mark.parametrize("yields", ["block", "flush"])
def test_every_byte_reaches_the_storage_whichever_stages(yields):
    scenario = pair(buffer=8, later=0.3, bursts=3, period=0.5)
    for is_first in (True, False):
        both = found(scenario, is_first=is_first, yields=yields)
        for one in both:
            assert one.bytes == pytest.approx(3 * 16 * 8 * MIB)
            assert math.isfinite(one.drained)
        # every target has a quarter of all bytes, those that were staged included
        assert sum(one.largest_target for one in both) == pytest.approx(3 * 2 * 16 * 2 * MIB)
        assert max(one.drained for one in both) >= 5.9  # what 4 targets need for so much


@pytest.mark.parametrize(
    ("later", "yields"), [({}, False), ({"operations": 1}, True), ({"nodes": 16}, True)]
)
def test_the_index_lets_the_newcomer_wait_or_the_writer_yield(later, yields):
    """K: strategy 2, and strategy 1 for a newcomer with less to write or with more nodes."""
    scenario = pair(later=0.5)
    first, second = scenario.programs
    scenario = replace(scenario, programs=(first, {**second, **later}), turns={"latency": 0.0})
    held = [one.held for one in outcomes(order_bursts(scenario))]
    assert (held[0] > 0, held[1] > 0) == (yields, not yields)


def test_programs_that_divide_have_all_targets_when_alone_and_their_part_when_not():
    """K 3, dynamic: as fast as sharing; static parts cost who is alone half of the targets."""
    scenario = pair(later=5)
    alone = alone_seconds(scenario)
    by_name = {remedy.name: factors(scenario, remedy, alone) for remedy in REMEDIES}
    assert by_name["3-dynamic"] == pytest.approx((1.0, 1.0), rel=0.01)
    assert by_name["3-static"] == pytest.approx((2.0, 2.0), rel=0.05)
    assert alone[0] == pytest.approx(1.0, rel=0.05)
    together = outcomes(part_statically(pair(later=0)))
    assert [one.largest_target for one in together] == pytest.approx([64 * MIB] * 2)


def test_balanced_files_leave_every_target_with_as_much():
    scenario = Scenario(
        storage={"targets": 6, "target_bandwidth": 32 * MIB},
        programs=({"processes": 16, "operations": 12, "sync": "behind"},),
    )
    (before,), (after,) = outcomes(scenario), outcomes(balanced_files(scenario))
    assert before.largest_target > before.smallest_target
    assert after.largest_target == pytest.approx(after.smallest_target)


def test_ordered_targets_serve_first_what_began_first():
    """Of two operations that queue for one target, the one that began first ends first."""
    storage = {"targets": 1, "target_bandwidth": MIB, "unit_bytes": MIB / 16, "flow_window": 2}
    early = {"operation_bytes": MIB}
    late = {"operation_bytes": MIB, "start": 0.001}
    shared, ordered = (simulate({**storage, "ordered": o}, [early, late]) for o in (0, 1))
    assert shared[0].end == pytest.approx(2.0, rel=0.1)
    assert ordered[0].end == pytest.approx(1.0, rel=0.15)
    assert ordered[1].end == pytest.approx(shared[1].end)


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"yields": "block", "sync": "behind"}, "sync"),
        ({"yields": "sometimes"}, "never or block or flush"),
        ({"yields": "flush", "dispatch": "turns", "stripe_targets": 1}, "neither yield nor"),
    ],
)
def test_a_program_that_cannot_yield_is_refused(changed, says):
    with pytest.raises(StorageModelError, match=says):
        simulate({"targets": 2}, [changed, {}])


def test_a_remedy_that_lacks_something_says_what():
    with pytest.raises(NotApplicableError, match="buffer_bytes"):
        stage(pair(buffer=0), is_first=True, yields="block")
