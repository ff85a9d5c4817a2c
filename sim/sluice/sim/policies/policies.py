"""The policies that a replay compares, by name; docs/reference/replay.md states what each does.

A policy is a function from a Question to a Plan: what it changes before the replay starts, and
who decides while it runs. What it knows of a job is what is predicted of it, never what the storage
model will make of it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from sluice.sim.errors import PolicyError
from sluice.sim.policies import classes
from sluice.sim.policies.engine import Core, Gates, Nobody
from sluice.sim.policies.site_bundle import TraceHistory, site_bundle
from sluice.sim.policies.turns import Knowledge, turns
from sluice.sim.storage.contention import limited

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from sluice.sim.engine import Workload
    from sluice.sim.policies.engine import Decider
    from sluice.sim.storage.storage import Storage
    from sluice.sim.trace.profiles import Profiles


@dataclass(frozen=True, slots=True)
class Options:
    """What may be set of policies; each looks at its own."""

    max_delay: float = 1800.0
    """Seconds for which a job is delayed at most. `inf`: as long as it takes."""
    wrong: float = 0.0
    """Share of the predictions that are deliberately another kind's."""
    seed: int = 1
    """Of wrong predictions."""
    bandwidth: float = 1.0
    """`license-cap`: what may be promised, as a share of the storage's bandwidth."""
    heavy: int = 2
    """`two-groups`: I/O-heavy jobs that may run at a time."""
    wait_price: float = 0.2
    """Sluice: slot-seconds that one slot-second of added wait costs (WaitPrice)."""
    source_rate: float = 0.16
    """`rate-cap`: of a node, as a share of the rate at which it can write."""
    turns: float = 0.0
    """Sluice: 1 where bursts of running jobs take turns as well."""
    turns_gain: float = 0.7
    """Sluice: share of the best order's savings that turns get where all jobs are covered."""
    turn_latency: float = 1.0
    """Turns: seconds from what happens to a burst until a verdict on it is in effect."""
    turn_budget: float = 10.0
    """Turns: a burst is held for so many times its length at most."""
    trickle: float = 0.0
    """Turns: share of the storage that is left to all held bursts together."""
    first_burst: float = 1.0
    """Turns: 1 where a history predicts a job's first burst."""
    burst_noise: float = 0.0
    """Turns: by how much the length of a burst is mismeasured (sd of its logarithm)."""
    demand_error: float = 1.0
    """Turns: what is taken for a job's demand, over what it is."""
    covered: float = 1.0
    """Turns: share of the jobs whose bursts can be held."""
    seen: float = 1.0
    """Turns: 1 where the storage counts what each of the other jobs writes."""


@dataclass(frozen=True, slots=True)
class Question:
    """What a policy is asked about."""

    workload: Workload
    profiles: Profiles
    """What is predicted, wrong predictions included."""
    storage: Storage
    options: Options
    epoch: float = 0.0
    """UTC seconds of time 0."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What a policy does."""

    decider: Decider
    storage: Storage
    lanes: NDArray[np.uint32] | None = None
    """Of each job where nobody decides on lanes; bits, 0: all."""
    reshape: Callable[[NDArray[Any], Any], NDArray[Any]] | None = None
    """What becomes of the loads (contention.LOAD) under a configuration of the storage model."""


@dataclass(frozen=True, slots=True)
class Policy:
    """One that `sluice site replay --policy` knows."""

    plan: Callable[[Question], Plan]
    delays: bool = False
    """Whether it delays jobs, for Options.max_delay at most."""


def _none(question: Question) -> Plan:
    return Plan(Nobody(len(question.workload.jobs)), question.storage)


def _server_fair(question: Question) -> Plan:
    return replace(_none(question), storage=question.storage.shared("jobs"))


def _license_cap(question: Question) -> Plan:
    storage, slots = question.storage, question.workload.jobs["slots"]
    room = question.options.bandwidth * storage.targets * storage.number("target_bandwidth")
    return _gate(question, room, slots * storage.number("node_rate"))


def _two_groups(question: Question) -> Plan:
    return _gate(question, question.options.heavy, np.ones(len(question.workload.jobs)))


def _gate(question: Question, room: float, need: NDArray[np.float64]) -> Plan:
    """Let I/O-heavy jobs run while what they need fits the room."""
    jobs = np.flatnonzero(classes.is_heavy(question.profiles))
    decider = Gates(
        [room], [(jobs, need[jobs])], jobs=len(need), max_delay=question.options.max_delay
    )
    return Plan(decider, question.storage)


def _period_sets(question: Question) -> Plan:
    decade = classes.decades(question.profiles)
    sets = np.unique(decade, return_inverse=True)[1] + 1
    sets = np.where(classes.is_heavy(question.profiles), sets, 0)

    def reshape(loads: NDArray[Any], _config: Any) -> NDArray[Any]:
        divided = np.array(loads)
        divided["set"] = sets
        return divided

    return replace(_none(question), reshape=reshape)


def on_lanes(question: Question, lanes: NDArray[np.int64]) -> Plan:
    """Put I/O-heavy jobs on these lanes (bit masks), and no other job anywhere."""
    heavy = classes.is_heavy(question.profiles)
    of_heavy = np.where(heavy, lanes, 0).astype(np.uint32)
    return Plan(Nobody(len(of_heavy), of_heavy), question.storage, of_heavy)


def static_lanes(question: Question, is_first: NDArray[np.bool_]) -> Plan:
    """Give half of the lanes to those and the other half to other I/O-heavy jobs."""
    count = lane_count(question)
    first = (1 << (count + 1) // 2) - 1
    return on_lanes(question, np.where(is_first, first, ((1 << count) - 1) ^ first))


def _class_lanes(question: Question) -> Plan:
    return static_lanes(question, classes.streams(question.profiles))


def lane_count(question: Question) -> int:
    count = len(question.storage.lanes)
    if count < 2:
        raise PolicyError("this policy puts jobs on lanes; give the storage two at least (--lanes)")
    return count


def _rate_cap(question: Question) -> Plan:
    most = question.options.source_rate * question.storage.number("node_rate")

    def reshape(loads: NDArray[Any], config: Any) -> NDArray[Any]:
        return limited(loads, config, node_rate=most)

    return replace(_none(question), reshape=reshape)


def _turns(question: Question) -> Plan:
    return _with_turns(_none(question), question)


def _weights(question: Question) -> Plan:
    plan = replace(_none(question), storage=question.storage.shared("weights"))
    return _with_turns(plan, question, weigh=1.0)


def _with_turns(plan: Plan, question: Question, **settings: float) -> Plan:
    """Let bursts take turns under a plan that changes no loads."""
    options = question.options
    knowledge = Knowledge(
        {
            "latency": options.turn_latency,
            "budget": options.turn_budget,
            "trickle": options.trickle,
            **settings,
        },
        predicted=options.first_burst > 0,
        noise=options.burst_noise,
        demand_error=options.demand_error,
        covered=options.covered,
        seen=options.seen > 0,
        seed=options.seed,
    )
    return replace(plan, reshape=turns(knowledge, question.workload, question.profiles))


def sluice(
    *, delay: bool = True, lanes: bool = True, history: type[TraceHistory] = TraceHistory
) -> Callable[[Question], Plan]:
    """Return the policy of Sluice with some of its remedies, and what it learned from a trace."""

    def plan(question: Question) -> Plan:
        options = question.options
        site = site_bundle(
            history(question.workload, question.profiles, question.storage),
            max_delay=options.max_delay if delay else 0.0,
            wait_price=options.wait_price,
            turns_gain=options.turns_gain * options.covered if options.turns > 0 else 0.0,
            is_confinable=lanes,
        )
        decider = Core(site, question.workload.jobs, epoch=question.epoch)
        plan = Plan(decider, question.storage)
        return _with_turns(plan, question) if options.turns > 0 else plan

    return plan


def with_options(plan: Callable[[Question], Plan], **instead: Any) -> Callable[[Question], Plan]:
    """Return the plan with some options that it does not leave to the question."""

    def changed(question: Question) -> Plan:
        return plan(replace(question, options=replace(question.options, **instead)))

    return changed


POLICIES: Mapping[str, Policy] = {
    "none": Policy(_none),
    "server-fair": Policy(_server_fair),
    "license-cap": Policy(_license_cap, delays=True),
    "two-groups": Policy(_two_groups, delays=True),
    "period-sets": Policy(_period_sets),
    "class-lanes": Policy(_class_lanes),
    "rate-cap": Policy(_rate_cap),
    "turns": Policy(_turns),
    "weights": Policy(_weights),
    "sluice-auto": Policy(sluice(), delays=True),
    "sluice-delay": Policy(sluice(lanes=False), delays=True),
    "sluice-disjoint": Policy(sluice(delay=False)),
}
ABLATIONS = (
    *("chunk-lanes", "random-lanes", "one-at-a-time", "sluice-colocate", "sluice-published"),
    *("sluice-same-world", "sluice-perfect", "sluice-oracle", "sluice-oracle-free-waits"),
    *("sluice-oracle-patient", "sluice-no-classifier", "sluice-chunk-only"),
)
"""Policies of 0.1.0 that say what one part of Sluice is worth; tests/lab/ablations.py has them."""


def policy_named(name: str, known: Mapping[str, Policy] = POLICIES) -> Policy:
    """Return the policy of that name, or say which there are."""
    if name in known:
        return known[name]
    if name in ABLATIONS:
        raise PolicyError(
            f"{name} is an ablation, which only `make figures` replays, from a source tree; "
            f"for a plan, choose one of {', '.join(known)}"
        )
    raise PolicyError(f"no policy {name!r}; there are {', '.join(known)}")
