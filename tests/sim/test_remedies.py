"""The papers' remedies, as what-ifs of the discrete-event storage model."""

import json
import math
from dataclasses import replace

import pytest
from click.testing import CliRunner

from sluice.cli.main import main as sluice
from sluice.sim.engine import StorageModelError
from sluice.sim.papers.remedies import (
    REMEDIES,
    NotApplicableError,
    alone_seconds,
    balanced_files,
    one_writer_a_node,
    order_bursts,
    outcomes,
    part_statically,
    reroute,
    stage,
    what_if,
)
from sluice.sim.storage.discrete_event import parse_scenario, simulate

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
    return parse_scenario(
        {
            "storage": {
                "servers": 4,
                "targets": 4,
                "target_bandwidth": 32 * MIB,
                "unit_bytes": MIB / 4,
                "buffer_bytes": buffer * MIB,
            },
            "program": [program, {**program, "start": later}],
        }
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
    alone = alone_seconds(scenario)[0]
    by_name = {one.remedy: one for one in what_if(scenario)}
    assert by_name["3-dynamic"].factors == pytest.approx((1.0, 1.0), rel=0.01)
    assert by_name["3-static"].factors == pytest.approx((2.0, 2.0), rel=0.05)
    assert alone == pytest.approx(1.0, rel=0.05)
    together = outcomes(part_statically(pair(later=0)))
    assert [one.largest_target for one in together] == pytest.approx([64 * MIB] * 2)


def test_one_writer_a_node_writes_the_same_bytes():
    before, after = (outcomes(s) for s in (pair(), one_writer_a_node(pair())))
    assert [one.bytes for one in after] == pytest.approx([one.bytes for one in before])


def test_balanced_files_leave_every_target_with_as_much():
    scenario = parse_scenario(
        {
            "storage": {"targets": 6, "target_bandwidth": 32 * MIB},
            "program": [{"processes": 16, "operations": 12, "sync": "behind"}],
        }
    )
    (before,), (after,) = outcomes(scenario), outcomes(balanced_files(scenario))
    assert before.largest_target > before.smallest_target
    assert after.largest_target == pytest.approx(after.smallest_target)


def test_rerouting_gains_over_turns_and_an_inquiry_saves_messages():
    """H2: the same time with about half of the messages; the throttle of a program counts."""
    writer = {"processes": 256, "operation_bytes": MIB, "sync": "flush"}
    noise = {**writer, "processes": 16, "operations": 1e6, "target_count": 1, "noise": 1}
    storage = {"targets": 8, "servers": 8, "target_bandwidth": 32 * MIB}
    bound, free = (
        {one.remedy: one for one in what_if(parse_scenario({"storage": storage, "program": both}))}
        for both in ([{**writer, "throttle": throttle}, noise] for throttle in (0.01, 1.0))
    )
    assert free["reroute"].seconds < bound["reroute"].seconds == bound["turns"].seconds
    assert free["reroute-asked"].seconds == pytest.approx(free["reroute"].seconds, rel=0.05)
    assert 0 < free["reroute-asked"].messages < 0.8 * free["reroute"].messages


def test_ordered_targets_serve_first_what_began_first():
    """Of two operations that queue for one target, the one that began first ends first."""
    storage = {"targets": 1, "target_bandwidth": MIB, "unit_bytes": MIB / 16, "flow_window": 2}
    early = {"operation_bytes": MIB}
    late = {"operation_bytes": MIB, "start": 0.001}
    shared, ordered = (simulate({**storage, "ordered": o}, [early, late]) for o in (0, 1))
    assert shared[0].end == pytest.approx(2.0, rel=0.1)
    assert ordered[0].end == pytest.approx(1.0, rel=0.15)
    assert ordered[1].end == pytest.approx(shared[1].end)


def test_the_work_does_not_change_with_the_order_of_service():
    scenario = pair(later=0.2)
    by_name = {one.remedy: one for one in what_if(scenario)}
    assert by_name["ordered"].seconds == pytest.approx(by_name["sharing"].seconds, rel=0.02)


def test_a_remedy_that_lacks_something_says_what():
    scenario = pair(buffer=0)
    with pytest.raises(NotApplicableError, match="buffer_bytes"):
        stage(scenario, is_first=True, yields="block")
    with pytest.raises(NotApplicableError, match="stripe_targets 1"):
        reroute(scenario, inquiry=True)
    by_name = {one.remedy: one for one in what_if(scenario)}
    assert "buffer_bytes" in by_name["1a"].why_not
    assert by_name["1a"].factors == ()


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


SCENARIO = """
platform = "pvfs-8"
[[program]]
name = "A"
processes = 64
nodes = 8
operations = 8
stripe_bytes = "64 KiB"
stripe_targets = 8
[[program]]
name = "B"
start = 0.2
processes = 64
nodes = 8
operations = 8
stripe_bytes = "64 KiB"
stripe_targets = 8
"""


def test_the_command_shows_every_remedy_for_a_case_of_ones_own(tmp_path):
    path = tmp_path / "pair.toml"
    path.write_text(SCENARIO)
    table = CliRunner().invoke(sluice, ["lab", "reproduce", "--what-if", str(path)])
    shown = CliRunner().invoke(sluice, ["lab", "reproduce", "--what-if", str(path), "--json"])
    rows = json.loads(shown.stdout)["remedies"]
    assert table.exit_code == shown.exit_code == 0
    assert [row["remedy"] for row in rows] == [remedy.name for remedy in REMEDIES]
    assert "reroute was not tried: it needs files on one target each" in table.stdout
    for row in rows:
        assert row["programs"] == ["A", "B"]
        assert row["remedy"] in table.stdout
        assert (row["mean_factor"] is None) == bool(row["why_not"])


def test_a_what_if_takes_no_figures_alongside_it(tmp_path):
    path = tmp_path / "pair.toml"
    path.write_text(SCENARIO)
    both = CliRunner().invoke(sluice, ["lab", "reproduce", "Y1", "--what-if", str(path)])
    assert both.exit_code == 2
    assert "--what-if" in both.stderr
