"""The policies that a replay compares, by name; docs/reference/replay.md states what each does.

A policy is a function from a Question to a Plan: what it changes before the replay starts, and
who decides while it runs. What it knows of a job is what was believed of it, never what the world
will make of it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from sluice.sim.errors import PolicyError
from sluice.sim.policies import classes
from sluice.sim.policies.belief import belief_of, by_chunk_alone, without_classifier
from sluice.sim.policies.engine import Core, Gates, Nobody
from sluice.sim.storage.contention import limited

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from sluice.sim.engine import Workload
    from sluice.sim.policies.engine import Decider
    from sluice.sim.storage.storage import Storage
    from sluice.sim.trace.profiles import Profiles

RANDOM_LANES = 2
"""A stream of random numbers of its own (mix.py and io_replay.py have others)."""


@dataclass(frozen=True, slots=True)
class Options:
    """What may be set of policies; each looks at its own."""

    max_delay: float = 1800.0
    """Seconds for which a job is delayed at most. `inf`: as long as it takes."""
    wrong: float = 0.0
    """Share of the predictions that are deliberately another kind's."""
    seed: int = 1
    """Of wrong predictions and random lanes."""
    bandwidth: float = 1.0
    """`license-cap`: what may be promised, as a share of the storage's bandwidth."""
    heavy: int = 2
    """`two-groups`: I/O-heavy jobs that may run at a time."""
    wait_price: float = 0.2
    """Sluice: slot-seconds that one slot-second of added wait costs (WaitPrice)."""
    source_rate: float = 0.16
    """`rate-cap`: of a node, as a share of the rate at which it can write."""


@dataclass(frozen=True, slots=True)
class Question:
    """What a policy is asked about."""

    workload: Workload
    profiles: Profiles
    """What is believed, wrong predictions included."""
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
    """What becomes of the loads (contention.LOAD) under a world's configuration."""
    label: str = ""
    """What must be said beside the figures."""


@dataclass(frozen=True, slots=True)
class Policy:
    """One that `sluice site replay --policy` knows."""

    summary: str
    """One line."""
    plan: Callable[[Question], Plan]
    options: tuple[str, ...] = ()
    """Members of Options that it looks at."""


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


def _one_at_a_time(question: Question) -> Plan:
    options = replace(question.options, heavy=1, max_delay=np.inf)
    return _two_groups(replace(question, options=options))


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


def _on_lanes(question: Question, lanes: NDArray[np.int64]) -> Plan:
    """Put I/O-heavy jobs there, and nobody else anywhere."""
    heavy = classes.is_heavy(question.profiles)
    of_heavy = np.where(heavy, lanes, 0).astype(np.uint32)
    return Plan(Nobody(len(of_heavy), of_heavy), question.storage, of_heavy)


def _static_lanes(
    is_first: Callable[[Profiles], NDArray[np.bool_]],
) -> Callable[[Question], Plan]:
    """Return the policy of half of the lanes for those and the other half for other heavy jobs."""

    def plan(question: Question) -> Plan:
        count = _lane_count(question)
        first = (1 << (count + 1) // 2) - 1
        lanes = np.where(is_first(question.profiles), first, ((1 << count) - 1) ^ first)
        return _on_lanes(question, lanes)

    return plan


def _random_lanes(question: Question) -> Plan:
    random = np.random.default_rng((question.options.seed, RANDOM_LANES))
    lanes = 1 << random.integers(0, _lane_count(question), len(question.workload.jobs))
    return _on_lanes(question, lanes)


def _lane_count(question: Question) -> int:
    count = len(question.storage.lanes)
    if count < 2:
        raise PolicyError("this policy puts jobs on lanes; give the storage two at least (--lanes)")
    return count


def _rate_cap(question: Question) -> Plan:
    most = question.options.source_rate * question.storage.number("node_rate")

    def reshape(loads: NDArray[Any], config: Any) -> NDArray[Any]:
        return limited(loads, config, node_rate=most)

    return replace(_none(question), reshape=reshape)


def _sluice(
    *,
    delay: bool = True,
    lanes: bool = True,
    is_perfect: bool = False,
    calibration: str = "requests",
    seen_as: Callable[[Profiles], Profiles] | None = None,
    **instead: Any,
) -> Callable[[Question], Plan]:
    """Return the policy of Sluice with some of its remedies, or with less or more known.

    instead: members of Options that it does not leave to the question.
    """

    def plan(question: Question) -> Plan:
        options = replace(question.options, **instead)
        belief = belief_of(
            question.workload,
            question.profiles,
            question.storage,
            max_delay=options.max_delay if delay else 0.0,
            wait_price=options.wait_price,
            calibration=calibration,
            is_perfect=is_perfect,
            is_confinable=lanes,
            seen_as=seen_as,
        )
        decider = Core(belief, question.workload.jobs, epoch=question.epoch)
        return Plan(decider, question.storage, label=belief.label)

    return plan


SLUICE = ("max_delay", "wait_price", "wrong")
AT_ONCE = ("wait_price", "wrong")
"""Of Sluice where nobody waits."""
ORACLE: Mapping[str, Any] = {"is_perfect": True, "calibration": "same world"}
WEEK = 7 * 86400.0
"""The longest MaxDelay that Sluice takes."""

POLICIES: Mapping[str, Policy] = {
    "none": Policy("Slurm alone", _none),
    "server-fair": Policy(
        "the file system's servers share fairly among jobs, as ThemisIO or Lustre's TBF do",
        _server_fair,
    ),
    "license-cap": Policy(
        "one licence for the storage's bandwidth, of which I/O-heavy jobs take their peak rate",
        _license_cap,
        ("max_delay", "bandwidth", "wrong"),
    ),
    "two-groups": Policy(
        "few I/O-heavy jobs at a time, all others beside them",
        _two_groups,
        ("max_delay", "heavy", "wrong"),
    ),
    "period-sets": Policy(
        "of I/O-heavy jobs with periods of the same decade one writes at a time",
        _period_sets,
        ("wrong",),
    ),
    "class-lanes": Policy(
        "streaming writers on one half of the lanes, synchronous ones on the other",
        _static_lanes(classes.streams),
        ("wrong",),
    ),
    "chunk-lanes": Policy(
        "the same, told apart by the size of their writes alone",
        _static_lanes(classes.has_large_chunks),
        ("wrong",),
    ),
    "random-lanes": Policy("each I/O-heavy job on a random lane", _random_lanes, ("seed",)),
    "rate-cap": Policy(
        "each job held at its source to an equal rate a node", _rate_cap, ("source_rate",)
    ),
    "sluice-auto": Policy(
        "Sluice as deployed: share, wait or take a lane, whichever loses least", _sluice(), SLUICE
    ),
    "sluice-delay": Policy(
        "Sluice, but nobody is confined to a lane", _sluice(lanes=False), SLUICE
    ),
    "sluice-disjoint": Policy("Sluice, but nobody waits", _sluice(delay=False), AT_ONCE),
    "sluice-colocate": Policy(
        "Sluice, but nobody waits or is confined: it decides and changes nothing",
        _sluice(delay=False, lanes=False),
        AT_ONCE,
    ),
    "sluice-published": Policy(
        "Sluice that never measured how programs disturb each other here",
        _sluice(calibration="none"),
        SLUICE,
    ),
    "sluice-same-world": Policy(
        "Sluice that measured how programs disturb each other in the very world that answers",
        _sluice(calibration="same world"),
        SLUICE,
    ),
    "sluice-perfect": Policy(
        "Sluice that knows I/O share and run time of each single job",
        _sluice(is_perfect=True),
        SLUICE,
    ),
    "sluice-oracle": Policy(
        "Sluice that knows single jobs, and measured in the very world that answers",
        _sluice(**ORACLE),
        SLUICE,
    ),
    "sluice-oracle-free-waits": Policy(
        "the same where waits cost nothing",
        _sluice(**ORACLE, wait_price=0.0),
        ("max_delay", "wrong"),
    ),
    "sluice-oracle-patient": Policy(
        "the same where waits cost nothing and may last a week",
        _sluice(**ORACLE, wait_price=0.0, max_delay=WEEK),
        ("wrong",),
    ),
    "one-at-a-time": Policy(
        "one I/O-heavy job at a time, however long the others wait",
        _one_at_a_time,
        ("wrong",),
    ),
    "sluice-no-classifier": Policy(
        "Sluice that knows how much I/O a job does, but not how",
        _sluice(seen_as=without_classifier),
        SLUICE,
    ),
    "sluice-chunk-only": Policy(
        "Sluice that knows how much I/O a job does, and the size of its writes",
        _sluice(seen_as=by_chunk_alone),
        SLUICE,
    ),
}
