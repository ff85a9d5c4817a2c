"""What each lever would bring a site, and what it would cost: replays of the site's own jobs.

Turns order the bursts of running jobs; delays and lanes keep jobs apart; a plain cap lets only so
many I/O-heavy jobs run at a time, and needs no model. Each is replayed on the same jobs, in the
same storage, with and without.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from sluice.interference.calibrate.servers import FAIR, FIRST_COME, stations
from sluice.policies.structs import View, new
from sluice.sim.policies.policies import POLICIES, Policy, with_options
from sluice.sim.replay.compare import PLAIN, compare
from sluice.sim.replay.experiment import Experiment
from sluice.sim.replay.figures import fairness

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from sluice.history_db.store import Store
    from sluice.policies.core import Config
    from sluice.sim.replay.compare import Comparison, Draw, Interval

LAWS = {"fifo": FIRST_COME, "jobs": FAIR}
"""How servers may divide themselves: Storage.sharing, and what a calibration calls it."""
COSTS = 0.01
"""Of the mean wait: a rise by less is chance."""
TURNS = View(new("struct sluice_turns_settings"))
ACTS_FROM: float = TURNS.guard * TURNS.latency
"""Seconds: turns hold no burst that is shorter."""
JOBS = 10_000
"""Of a history that are replayed, the last."""

DELAYS = "delays"
LEVERS: Mapping[str, Policy] = {
    "turns": POLICIES["turns"],
    "turns, half of the jobs covered": Policy(with_options(POLICIES["turns"].plan, covered=0.5)),
    DELAYS: POLICIES["sluice-delay"],
    "lanes": POLICIES["sluice-disjoint"],
    "turns, delays and lanes": replace(
        POLICIES["sluice-auto"], plan=with_options(POLICIES["sluice-auto"].plan, turns=1.0)
    ),
    "a cap on I/O-heavy jobs": POLICIES["two-groups"],
}
"""The ways to make jobs lose less."""


@dataclass(frozen=True, slots=True)
class Worth:
    """What one lever came to under one law of the servers. Slot-hours, seconds."""

    lever: str
    """A key of LEVERS."""
    law: str
    """A key of LAWS."""
    saved: float
    """Lost less than without it."""
    saved_interval: Interval | None
    """In other draws of what is not known."""
    share: float | None
    """Of what any policy could recover; None: there is nothing."""
    held: float
    """Slot-hours of the delays that it imposed."""
    price: float
    """What these cost, at the site's WaitPrice."""
    wait: float
    """Mean wait of all jobs."""
    wait_more: float
    """By how much that is longer with it."""

    @property
    def pays(self) -> bool:
        """Whether it saves more than its waits cost, in other draws too, and waits stay."""
        least = self.saved if self.saved_interval is None else self.saved_interval.low
        return least > 0 and self.saved > self.price and self.wait_more <= COSTS * self.wait


@dataclass(frozen=True, slots=True)
class Bursts:
    """What the answer hangs on."""

    jobs: int
    """Of the replay."""
    with_io: int
    burst_median: float | None
    """Seconds of a burst alone, each job once; None: no job has any."""
    short_share: float | None
    """Of the time in bursts, in those too short for turns."""
    nodes_that_fill: float
    """Slots that fill the storage, writing as fast as they can."""


@dataclass(frozen=True, slots=True)
class Levers:
    """All of them."""

    worths: tuple[Worth, ...]
    bursts: Bursts
    lost: dict[str, float]
    """Slot-hours lost without any lever, by law."""
    slot: str
    users: tuple[dict[str, Any], ...]
    """Who gains and who pays where jobs are delayed, as `figures.fairness` has it, by the first
    law; those with most jobs first."""

    @property
    def that_pay(self) -> tuple[str, ...]:
        """Names of those that pay under each law, in the order of LEVERS."""
        return tuple(
            lever
            for lever in LEVERS
            if all(worth.pays for worth in self.worths if worth.lever == lever)
        )


def experiment_of(history: Path, settings: Config, *, bandwidth: float) -> Experiment:
    """Return the replay of a site's last jobs, on a storage of so many B/s, with its settings."""
    lanes = max(1, len(settings.policy.lanes))
    plain = Experiment(trace=str(history), latest=JOBS, lanes=max(2, lanes))
    targets = plain.draw().storage.targets
    policy = settings.policy
    return replace(
        plain,
        storage=(("target_bandwidth", f"{bandwidth / targets:g}"),),
        options=(("max_delay", f"{policy.max_delay:g}"), ("wait_price", f"{policy.wait_price:g}")),
    )


def measured_laws(store: Store) -> tuple[str, ...]:
    """Return the law that all calibrations agree on, or all laws."""
    measured = stations(store.coruns([one.id for one in store.calibrations()]))
    verdicts = {one.sharing.verdict for one in measured if one.station == "bytes"}
    return tuple(law for law, verdict in LAWS.items() if verdicts == {verdict}) or tuple(LAWS)


def replays(laws: Sequence[str], repeats: int) -> int:
    """Return how many replays `levers` makes."""
    return len(laws) * (1 + repeats) * len({PLAIN, *LEVERS})


def levers(
    experiment: Experiment,
    *,
    laws: Sequence[str] = tuple(LAWS),
    repeats: int,
    workers: int = 1,
    advance: Callable[[int], object] = lambda _: None,
) -> Levers:
    """Replay the jobs of an experiment with each lever, under each law (a key of LAWS)."""
    worths: list[Worth] = []
    lost = {}
    users: list[dict[str, Any]] = []
    for law in laws:
        found = compare(
            replace(experiment, sharing=law).draw,
            tuple(LEVERS),
            repeats=repeats,
            workers=workers,
            known={PLAIN: POLICIES[PLAIN], **LEVERS},
            advance=advance,
        )
        lost[law] = found.figures[PLAIN][0]["lost_slot_hours"] or 0.0
        users = users or fairness(found.outcomes[DELAYS], found.outcomes[PLAIN], "user")
        worths += [_worth(found, lever, law) for lever in LEVERS]
    draw = experiment.draw()
    slot = draw.replayable.trace.slot
    return Levers(tuple(worths), _bursts(draw), lost, slot, tuple(users))


def _worth(found: Comparison, lever: str, law: str) -> Worth:
    more = found.difference_interval(lever, "lost_slot_hours")
    saved = None if more is None else replace(more, low=-more.high, high=-more.low)
    figures = found.figures[lever][0]
    held = figures["held_slot_hours"] or 0.0
    return Worth(
        lever,
        law,
        saved=-(found.difference(lever, "lost_slot_hours") or 0.0),
        saved_interval=saved,
        share=figures["share_of_bound"],
        held=held,
        price=held * found.draw.options.wait_price,
        wait=found.figures[PLAIN][0]["wait_mean_s"] or 0.0,
        wait_more=found.difference(lever, "wait_mean_s") or 0.0,
    )


def _bursts(draw: Draw) -> Bursts:
    workload = draw.replayable.workload
    loads = draw.profiles.loads(workload, draw.storage.configuration())
    has = loads["bursts"] > 0
    burst, whole = loads["burst"][has], (loads["burst"] * loads["bursts"])[has]
    rate = draw.storage.number("target_bandwidth") * draw.storage.targets
    return Bursts(
        jobs=len(loads),
        with_io=int(has.sum()),
        burst_median=float(np.median(burst)) if len(burst) else None,
        short_share=float(whole[burst < ACTS_FROM].sum() / whole.sum()) if len(burst) else None,
        nodes_that_fill=rate / draw.storage.number("node_rate"),
    )
