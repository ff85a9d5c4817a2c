"""The storage that a site's jobs are replayed on, and what each lever would bring there.

`assess`, `report` and `site replay` ask about one storage: its bandwidth is such that the jobs lose
in a replay what their own runs lost by the clock. Where no bandwidth does that, the storage model
does not describe the site, and what levers would bring is not known.

Turns order the bursts of running jobs; delays and lanes keep jobs apart; a plain cap lets only so
many I/O-heavy jobs run at a time, and needs no model. Each is replayed on the same jobs, in the
same storage, with and without. Those of placement are replayed on single targets, which are as fast
as lets the jobs lose the same there.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from sluice.interference.calibrate.servers import FAIR, FIRST_COME, disciplines
from sluice.policies.structs import View, new
from sluice.sim.policies.policies import POLICIES, Policy, with_options
from sluice.sim.replay import site_placement
from sluice.sim.replay.compare import PLAIN, compare, in_order
from sluice.sim.replay.experiment import Experiment
from sluice.sim.replay.figures import fairness
from sluice.sim.replay.io_replay import replay_with_io

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from sluice.history_db.store import Store
    from sluice.policies.core import Config
    from sluice.sim.replay.compare import Comparison, Draw, Interval
    from sluice.sim.replay.site_placement import SitePlacement

LAWS = {"fifo": FIRST_COME, "jobs": FAIR}
"""How servers may divide themselves: Storage.sharing, and what a calibration calls it."""
COSTS = 0.01
"""Of the mean wait: a rise by less is chance."""
TURNS = View(new("struct sluice_turns_settings"))
ACTS_FROM: float = TURNS.guard * TURNS.latency
"""Seconds: turns hold no burst that is shorter."""
JOBS = 10_000
"""Of a history that are replayed, the last."""
REACH = 6
"""Doublings or halvings of the storage's speed that are tried."""
REFINEMENTS = 5
"""Halvings of the last of these steps: the speed found is known to 2 %."""
NEAR = 1.05
"""Times by which losses differ that are taken to be equal: then no other bandwidth is tried."""
FITS = 1.5
"""Times by which losses differ at most where a storage model describes a site: replays vary each
number of the storage by 20 %."""
NO_LOSS = 0.001
"""Of the slot-seconds that ran: what NOTHING of `assess` and `figures` is."""

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
NEED_SLUICE = (frozenset(LEVERS) - {"a cap on I/O-heavy jobs"}) | set(site_placement.NEED_SLUICE)
"""The others need a licence in slurm.conf, a stripe count or a pool, and no Sluice."""


@dataclass(frozen=True, slots=True)
class SiteStorage:
    """The storage of a replay of a site's jobs, and how well it describes the site. Slot-hours."""

    law: str
    """A key of LAWS."""
    experiment: Experiment
    bandwidth: float
    """B/s that all targets write together."""
    slot: str
    measured: float
    """Lost by the clock, by the runs that tell."""
    replayed: float
    """Lost in the replay, by the same runs."""
    negligible: float
    """Losses below it are none."""

    @property
    def fits(self) -> bool:
        return self.times_off <= FITS

    @property
    def exaggerates(self) -> bool:
        """Whether the jobs lose more in the replay than what can be error."""
        return not self.fits and self.replayed > self.measured

    @property
    def times_off(self) -> float:
        """How many times as large the one loss is as the other; 1: equal, or both negligible."""
        small, large = sorted((self.measured, self.replayed))
        return 1.0 if large <= self.negligible else large / max(small, self.negligible)

    def as_json(self) -> dict[str, Any]:
        """Return what names it in each output."""
        return {
            "law": self.law,
            "model": self.experiment.storage_model,
            "bandwidth": self.bandwidth,
            "measured_slot_hours": self.measured,
            "replayed_slot_hours": self.replayed,
            "fits": self.fits,
        }


class MisfitError(Exception):
    """Raised where no bandwidth lets the jobs lose what they lost."""

    def __init__(self, storages: Sequence[SiteStorage]) -> None:
        super().__init__("the storage model does not describe this site")
        self.storages = tuple(storages)


@dataclass(frozen=True, slots=True)
class Worth:
    """What one lever came to under one law of the servers. Slot-hours, seconds."""

    lever: str
    """A key of LEVERS, or of the levers of a SitePlacement."""
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
    is_at_most: bool = False
    """Whether it saves that only where creates of others disturb the allocator: not known."""

    @property
    def pays(self) -> bool:
        """Whether it saves more than its waits cost, in other draws too, and waits stay."""
        least = self.saved if self.saved_interval is None else self.saved_interval.low
        is_worth_its_waits = self.saved > self.price and self.wait_more <= COSTS * self.wait
        return not self.is_at_most and least > 0 and is_worth_its_waits


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

    storages: tuple[SiteStorage, ...]
    """One a law."""
    worths: tuple[Worth, ...]
    bursts: Bursts
    lost: dict[str, float]
    """Slot-hours lost without any lever, by law."""
    slot: str
    users: tuple[dict[str, Any], ...]
    """Gains and losses where jobs are delayed, as `figures.fairness` has it, by the first law;
    those with most jobs first."""
    placement: SitePlacement
    on_targets: tuple[SiteStorage, ...]
    """Single targets, one a law. Where jobs lose less on them, what placement saves is a part of
    what they lost; where one of them exaggerates, placement is not replayed."""

    @property
    def that_pay(self) -> tuple[str, ...]:
        """Names of those that pay under each law, in their order."""
        return tuple(
            lever
            for lever in dict.fromkeys(worth.lever for worth in self.worths)
            if all(worth.pays for worth in self.worths if worth.lever == lever)
        )

    @property
    def of_sluice_that_pay(self) -> tuple[str, ...]:
        return tuple(lever for lever in self.that_pay if lever in NEED_SLUICE)


def experiment_of(history: Path, settings: Config, *, bandwidth: float) -> Experiment:
    """Return the replay of a site's last jobs, on a storage of so many B/s, with its settings."""
    lanes = max(1, len(settings.policy.lanes))
    policy = settings.policy
    plain = Experiment(
        trace=str(history),
        latest=JOBS,
        lanes=max(2, lanes),
        options=(("max_delay", f"{policy.max_delay:g}"), ("wait_price", f"{policy.wait_price:g}")),
    )
    return plain.writing(bandwidth)


def fitted(experiment: Experiment, law: str, *, bandwidth: float | None) -> SiteStorage:
    """Return the storage on which jobs lose what they lost: of so many B/s, else of more or less.

    bandwidth: None: that of the fastest job. Where no storage does it, the one that comes nearest.
    """
    experiment = replace(experiment, sharing=law)
    draw = experiment.draw()
    slots = draw.replayable.workload.jobs["slots"]
    lost = np.full(len(slots), np.nan) if draw.profiles.lost is None else draw.profiles.lost
    is_measured = ~np.isnan(lost)
    ran = float((draw.replayable.workload.jobs["runtime"] * slots).sum())
    first = bandwidth or float(np.nanmax([1.0, *draw.profiles.number("rate")]))

    def replayed(doublings: float) -> SiteStorage:
        speed = 2.0**doublings
        asked = experiment.writing(first * speed, speed)
        return SiteStorage(
            law,
            asked,
            first * speed,
            slot=draw.replayable.trace.slot,
            measured=float((lost * slots)[is_measured].sum()) / 3600,
            replayed=float(_lost_alone(asked.draw())[is_measured].sum()) / 3600,
            negligible=NO_LOSS * ran / 3600,
        )

    best = replayed(0.0)
    at, step = 0.0, 1.0 if best.replayed > best.measured else -1.0
    is_slow_at_first, is_beyond = step > 0, False
    # On single targets a job loses no more where each is slower than the site's are: it fills them.
    is_bound = experiment.placement is not None and not is_slow_at_first
    for _ in range(REACH + REFINEMENTS if is_measured.any() and not is_bound else 0):
        if best.times_off <= NEAR or abs(at + step) > REACH:
            break
        found = replayed(at + step)
        if is_slow_at_first == (found.replayed > found.measured):
            at += step
        else:
            is_beyond = True
        if is_beyond:
            step /= 2
        best = min(best, found, key=lambda one: one.times_off)
    return best


def _lost_alone(draw: Draw) -> NDArray[np.float64]:
    """Return the slot-seconds that each job loses without a lever."""
    return replay_with_io(
        draw.replayable,
        draw.site,
        profiles=draw.profiles,
        storage=draw.storage,
        options=draw.options,
    ).lost_slot_seconds


def measured_laws(store: Store) -> tuple[str, ...]:
    """Return the law that all calibrations agree on, or all laws."""
    measured = disciplines(
        store.interference.coruns([one.id for one in store.interference.calibrations()])
    )
    verdicts = {one.verdict for one in measured}
    return tuple(law for law, verdict in LAWS.items() if verdicts == {verdict}) or tuple(LAWS)


def replays(laws: Sequence[str], repeats: int, placement: SitePlacement) -> int:
    """Return how many replays `levers` makes at most."""
    of_placement = 0 if placement.experiment is None else len({PLAIN, *placement.levers})
    return len(laws) * (1 + repeats) * (len({PLAIN, *LEVERS}) + of_placement)


def levers(
    experiment: Experiment,
    placement: SitePlacement,
    *,
    bandwidth: float,
    laws: Sequence[str] = tuple(LAWS),
    repeats: int,
    workers: int = 1,
    advance: Callable[[int], object] = lambda _: None,
) -> Levers:
    """Replay the jobs of an experiment with each lever, under each law (a key of LAWS).

    bandwidth: B/s, the first that `fitted` tries. Raises MisfitError.
    """

    def fitted_to(asked: Experiment) -> tuple[SiteStorage, ...]:
        asked.draw()  # what the laws have in common is kept
        found = in_order(
            laws, lambda law, _watch: fitted(asked, law, bandwidth=bandwidth), workers=workers
        )
        return tuple(found)

    def compared(storage: SiteStorage, some: Mapping[str, Policy]) -> Comparison:
        return compare(
            storage.experiment.draw,
            tuple(some),
            repeats=repeats,
            workers=workers,
            known={PLAIN: POLICIES[PLAIN], **some},
            advance=advance,
        )

    storages = fitted_to(experiment)
    if not all(one.fits for one in storages):
        raise MisfitError(storages)
    worths: list[Worth] = []
    lost = {}
    users: list[dict[str, Any]] = []
    for storage in storages:
        found = compared(storage, LEVERS)
        lost[storage.law] = found.value(PLAIN, "lost_slot_hours") or 0.0
        users = users or fairness(found.outcomes[DELAYS], found.outcomes[PLAIN], "user")
        worths += [_worth(found, lever, storage.law) for lever in LEVERS]
    on_targets = () if placement.experiment is None else fitted_to(placement.experiment)
    for storage in () if any(one.exaggerates for one in on_targets) else on_targets:
        found = compared(storage, placement.levers)
        of_law = [_worth(found, lever, storage.law) for lever in placement.levers]
        worths += [replace(one, is_at_most=placement.is_at_most) for one in of_law]
    bursts = _bursts(storages[0].experiment.draw())
    return Levers(
        storages,
        tuple(worths),
        bursts,
        lost,
        storages[0].slot,
        tuple(users),
        placement,
        on_targets,
    )


def _worth(found: Comparison, lever: str, law: str) -> Worth:
    more = found.difference_interval(lever, "lost_slot_hours")
    saved = None if more is None else replace(more, low=-more.high, high=-more.low)
    held = found.value(lever, "held_slot_hours") or 0.0
    return Worth(
        lever,
        law,
        saved=-(found.difference(lever, "lost_slot_hours") or 0.0),
        saved_interval=saved,
        share=found.value(lever, "share_of_bound"),
        held=held,
        price=held * found.draw.options.wait_price,
        wait=found.value(PLAIN, "wait_mean_s") or 0.0,
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
