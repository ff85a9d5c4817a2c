"""Replays on single targets: what the file system, blocks and placement at create come to."""

from dataclasses import replace

import numpy as np
import pytest

from sluice.sim.engine import PolicyError, StorageModelError
from sluice.sim.replay.experiment import Experiment
from sluice.sim.replay.io_replay import replay_with_io
from sluice.sim.replay.scenario import parse_scenario

SCENARIO = """
[mix]
io_share = 0.5

[storage]
lanes = 1
targets = 64
servers = 8
placement = "chance"
sharing = "jobs"
"""
ASKED = Experiment.of({"generate": 600, "slots": 128, **parse_scenario(SCENARIO)})


def outcomes(policy, asked=ASKED, **options):
    draw = replace(asked, options=tuple((k, str(v)) for k, v in options.items())).draw()
    return replay_with_io(
        draw.replayable,
        draw.site,
        profiles=draw.profiles,
        storage=draw.storage,
        policy=policy,
        options=draw.options,
    )


def lost(*args, **options):
    return float(outcomes(*args, **options).lost_slot_seconds.sum())


def test_placement_loses_less_than_chance_and_least_at_create():
    """And turns take what blocks leave."""
    chance, blocks, create = lost("none"), lost("placement"), lost("placement-at-create")
    assert create < blocks < 0.8 * chance
    assert lost("placement-turns") < min(blocks, lost("turns"))


def test_no_job_waits_for_its_placement():
    """It delays no job and touches no lane."""
    found = outcomes("placement")
    assert not np.any(found.choices["held"])
    assert not np.any(found.choices["lane_mask"])


def test_a_scenario_may_place_the_files_under_any_policy():
    """`blocks` and `create` are what the policies of that name do."""
    for placement, policy in (("blocks", "placement"), ("create", "placement-at-create")):
        assert lost("none", replace(ASKED, placement=placement)) == lost(policy)


def test_of_covered_jobs_only_files_are_placed():
    """Without any, blocks are as chance."""
    assert lost("placement", covered=0.0) == lost("none")
    assert lost("placement-at-create", covered=0.0) == lost("none")
    assert lost("placement") < lost("placement", covered=0.5) < lost("none")


def test_blocks_do_nothing_where_round_robin_is_undisturbed():
    """There the file system keeps bursts apart; other creates disturb that."""
    calm = replace(ASKED, placement="round-robin")
    assert lost("placement", calm) == lost("none", calm)
    disturbed = replace(calm, foreign_creates=1000.0)
    assert lost("placement", disturbed) < lost("none", disturbed)


def test_blocks_do_nothing_for_jobs_on_all_targets():
    """Of one target there is no choice."""
    few = replace(ASKED, targets=1, servers=1)
    assert lost("placement", few) == lost("none", few)


@pytest.mark.parametrize("policy", ["placement", "placement-turns", "placement-at-create"])
def test_placement_is_refused_where_a_lane_is_one_target(policy):
    """The text says what to give."""
    with pytest.raises(PolicyError, match="give placement in"):
        outcomes(policy, replace(ASKED, placement=None))


def test_the_discrete_event_model_refuses_placement():
    """And says which model has it."""
    with pytest.raises(StorageModelError, match="use the mean-field model"):
        outcomes("none", replace(ASKED, storage_model="discrete-event"))
