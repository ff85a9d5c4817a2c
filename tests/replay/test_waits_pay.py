"""What delays recover is worth at least what they cost, by the price that the core was given.

A wait here is the time for which a token kept a job that fitted. The waits of all jobs move by far
more than that whenever the order of starts changes, for any reason, so they tell nothing of it.
"""

from dataclasses import replace
from functools import partial
from math import comb

import pytest
from gains import DAY, DRAWS, KTH, PLAIN, SLUICE, TRACES

from sluice.sim.policies.policies import Options
from sluice.sim.replay.compare import compare
from sluice.sim.replay.experiment import Experiment

UNSEEN = {
    "120 nodes, load 0.8": Experiment(generate=10_000, slots=120, load=0.8, seed=500),
}
"""As large as HPC2N, whose trace is not here: nothing was tuned to it."""
CHEAP = 0.04
"""A price of waits at which the core delays jobs on these traces."""
FALSE_ALARM = 0.01
"""Where hardly a job is delayed, the order of starts changes by chance: as many draws gain as lose,
and their median is below 0 as often as not. 16 losing draws of 20 are not chance."""
SMALL = Experiment(generate=800, slots=64, load=0.9, seed=7)
BOTH = (str(Options().max_delay), DAY)


def balances(experiment, draws, *, max_delay, price):
    """Return (slot-hours saved, slot-hours of delay times their price), one a draw."""
    options = (("max_delay", max_delay), ("wait_price", str(price)))
    asked = replace(experiment, options=options)
    found = compare(partial(asked.draw), [SLUICE], repeats=draws - 1).figures
    return [
        (plain["lost_slot_hours"] - own["lost_slot_hours"], price * own["held_slot_hours"])
        for plain, own in zip(found[PLAIN], found[SLUICE], strict=True)
    ]


def net(found):
    return [saved - priced for saved, priced in found]


def chance_of(found):
    """How likely so many draws lose if as many gain as lose in the long run: a sign test."""
    losing = sum(value < 0 for value in net(found))
    count = losing + sum(value > 0 for value in net(found))
    return sum(comb(count, k) for k in range(losing, count + 1)) / 2**count


@pytest.mark.parametrize("max_delay", BOTH)
def test_delays_pay_on_a_small_trace(max_delay):
    found = balances(SMALL, 3, max_delay=max_delay, price=Options().wait_price)
    assert chance_of(found) >= FALSE_ALARM


@pytest.mark.acceptance
@pytest.mark.parametrize("price", [Options().wait_price, CHEAP])
@pytest.mark.parametrize("max_delay", BOTH)
@pytest.mark.parametrize("name", [*TRACES, *UNSEEN])
def test_delays_pay_in_as_many_draws_as_not(name, max_delay, price):
    if name == "KTH-SP2" and not KTH.exists():
        pytest.skip(f"{KTH.name} is not next to the repository")
    experiment = {**TRACES, **UNSEEN}[name]
    found = balances(experiment, DRAWS, max_delay=max_delay, price=price)
    print(f"\n{name}, MaxDelay {max_delay}, WaitPrice {price}: saved, priced "
          f"{[(round(saved), round(priced)) for saved, priced in found]}")  # fmt: skip
    assert chance_of(found) >= FALSE_ALARM
