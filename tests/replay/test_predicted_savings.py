"""Predicted savings come true: of decisions that delay jobs, and of holds of bursts.

A prediction is the expected difference in lost node-seconds, net, counted once for what it is
made of: the first time that a job is delayed, or that a burst is held. All draws are pooled: what
one of them saves is chance, as any delay changes which jobs start next.
"""

from dataclasses import replace
from functools import lru_cache

import pytest
from gains import CHEAP, DRAWS, KTH, PATIENT, TRACES, TURNS

from sluice.sim.replay.io_replay import replay_with_io

GENERATED = [name for name in TRACES if name != "KTH-SP2"]
FEW = 5
POLICIES = {
    TURNS: ("turns", {}),
    PATIENT: ("sluice-auto", {name: float(value) for name, value in CHEAP.items()}),
}
NOTHING = 0.02
"""Share of what is lost. Where no more is saved, it cannot be told from nothing."""


def lost_and_predicted(draw, policy, options):
    outcomes = replay_with_io(
        draw.replayable,
        draw.site,
        profiles=draw.profiles,
        storage=draw.storage,
        policy=policy,
        options=replace(draw.options, **options),
    )
    predicted = outcomes.predicted_slot_seconds.sum() if policy != "none" else 0.0
    return float(outcomes.lost_slot_seconds.sum()), float(predicted)


@lru_cache
def pooled(name, what, draws):
    """Return the slot-seconds lost without a policy, saved and predicted, over all draws."""
    total, saved, predicted = 0.0, 0.0, 0.0
    for repetition in range(draws):
        draw = TRACES[name].draw(repetition)
        plain, _ = lost_and_predicted(draw, "none", {})
        lost, said = lost_and_predicted(draw, *POLICIES[what])
        total, saved, predicted = total + plain, saved + plain - lost, predicted + said
    print(f"\n{name}, {what}: lost {total / 3600:.0f}, saved {saved / 3600:.0f}, "
          f"predicted {predicted / 3600:.0f}")  # fmt: skip
    return total, saved, predicted


def test_what_holds_are_predicted_to_save_comes_true():
    sums = [pooled(name, TURNS, FEW) for name in GENERATED]
    saved, predicted = (sum(one[i] for one in sums) for i in (1, 2))
    assert saved / 2 <= predicted <= 2 * saved


@pytest.mark.parametrize("name", GENERATED)
def test_where_delays_save_nothing_hardly_anything_is_predicted(name):
    """On these traces what they save changes its sign from draw to draw."""
    lost, _, predicted = pooled(name, PATIENT, FEW)
    assert predicted <= NOTHING * lost


@pytest.mark.acceptance
@pytest.mark.parametrize("what", POLICIES)
def test_what_is_predicted_comes_true_on_a_real_trace(what):
    if not KTH.exists():
        pytest.skip(f"{KTH.name} is not next to the repository")
    _, saved, predicted = pooled("KTH-SP2", what, DRAWS)
    assert saved / 2 <= predicted <= 2 * saved
