"""Replays a workload, with or without I/O, and keeps what became of each job."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from sluice.policies.structs import ACTIONS, REASONS
from sluice.sim import engine
from sluice.sim._engine import lib
from sluice.sim.engine import PolicyError
from sluice.sim.policies.policies import POLICIES, Options, Question, placed, policy_named
from sluice.sim.storage.mean_field import AT_CREATE, BLOCKS, DISCRETE_EVENT, Contention, Requests

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from sluice.sim.engine import Workload
    from sluice.sim.policies.policies import Plan, Policy
    from sluice.sim.storage.mean_field import Storage
    from sluice.sim.trace.machine import Site
    from sluice.sim.trace.profiles import Profiles
    from sluice.sim.trace.repairs import Replayable


SHORT_JOB = 10.0
"""Seconds: shorter jobs count as so long in the bounded slowdown (Feitelson et al. 1997)."""


@dataclass(frozen=True, slots=True)
class Outcomes:
    """What became of the jobs of a replay, one element a job."""

    replayable: Replayable
    results: NDArray[Any]
    """engine.RESULT."""

    @property
    def ran(self) -> NDArray[np.bool_]:
        """Whether the job ran to an end."""
        return np.asarray(self.results["end"] >= 0) & (self.results["start"] >= 0)

    @property
    def wait(self) -> NDArray[np.float64]:
        """Seconds from when the job could have started to its last start; NaN: never."""
        jobs = self.replayable.workload.jobs
        ready = np.maximum(jobs["submit"], self.results["eligible"])
        return np.where(self.ran, self.results["start"] - ready, np.nan)

    @property
    def runtime(self) -> NDArray[np.float64]:
        return np.where(self.ran, self.results["end"] - self.results["start"], np.nan)

    @property
    def bounded_slowdown(self) -> NDArray[np.float64]:
        """(wait + run time) / run time, at least 1, short jobs counting as 10 s."""
        length = np.maximum(self.runtime, SHORT_JOB)
        return np.maximum((self.wait + self.runtime) / length, 1.0)

    @property
    def state(self) -> NDArray[np.str_]:
        words: NDArray[np.str_] = np.array(engine.STATES)
        return np.asarray(words[self.results["state"]])


def replay(
    replayable: Replayable,
    site: Site,
    *,
    progress: Callable[[int], object] | None = None,
) -> Outcomes:
    """Replay under the site's scheduler, without I/O; progress gets the jobs ended so far."""
    results = engine.run(replayable.workload, site.settings, progress=progress)
    return Outcomes(replayable, results)


@dataclass(frozen=True, slots=True)
class IoOutcomes(Outcomes):
    """One element a job."""

    policy: str
    """Its name."""
    contention: NDArray[Any]
    """contention.CONTENTION: of the last run."""
    choices: NDArray[Any]
    """policies.engine.CHOICE: what the policy did with the job."""

    @property
    def alone(self) -> NDArray[np.float64]:
        """Seconds the last run would have taken alone; NaN: never ran.

        Of a job that was killed or preempted, of what it had done by then.
        """
        nominal = self.replayable.workload.jobs["runtime"]
        return np.where(self.ran, np.minimum(self.contention["alone"], nominal), np.nan)

    @property
    def io_seconds_alone(self) -> NDArray[np.float64]:
        """Seconds inside bursts, had no other job written."""
        return np.asarray(self.contention["io_alone"])

    @property
    def job_slowdown(self) -> NDArray[np.float64]:
        """Run time over run time alone, at least 1; NaN: never ran."""
        length = np.where(self.alone > 0, self.alone, 1.0)
        return np.where(self.alone > 0, np.maximum(self.runtime / length, 1.0), self.alone + 1.0)

    @property
    def lost_slot_seconds(self) -> NDArray[np.float64]:
        """Slot-seconds lost to interference, confinement, rate caps and kills; 0: never ran."""
        lost = np.where(self.ran, self.runtime - self.alone, 0.0)
        slowed = np.maximum(lost, 0.0) * self.replayable.workload.jobs["slots"]
        return np.asarray(slowed + self.killed_slot_seconds)

    @property
    def killed_slot_seconds(self) -> NDArray[np.float64]:
        """Slot-seconds alone of what jobs had done when their limit killed them.

        Of those that alone would have ended in time: others are killed under every policy.
        """
        jobs = self.replayable.workload.jobs
        is_killed = (self.state == "timeout") & (jobs["runtime"] <= jobs["limit"])
        return np.asarray(np.where(is_killed, self.alone, 0.0) * jobs["slots"])

    @property
    def is_touched(self) -> NDArray[np.bool_]:
        """Whether the policy delayed a job or put it on lanes of its own."""
        return np.asarray((self.choices["held"] > 0) | (self.choices["lane_mask"] != 0))

    @property
    def predicted_slot_seconds(self) -> NDArray[np.float64]:
        """Slot-seconds that what was done with each job was predicted to save; NaN: no prediction.

        By the decisions of Sluice that delayed or confined the job, and by holds of its bursts.
        """
        of_bursts = self.contention["saving"] * self.replayable.workload.slots_per_node
        saving = np.where(self.is_touched, self.choices["saving"], 0.0) + of_bursts
        predicts = np.any(self.choices["decisions"] > 0) or np.any(self.contention["held"] > 0)
        return np.asarray(np.where(predicts, saving, np.nan))

    @property
    def delay(self) -> NDArray[np.float64]:
        """Seconds for which the policy itself delayed the job although it fitted; NaN: never ran.

        An upper bound: others may have taken its place meanwhile. What jobs behind lose or win
        is the difference of the waits of two replays.
        """
        return np.where(self.ran, self.choices["held"], np.nan)

    @property
    def action(self) -> NDArray[np.str_]:
        """What was decided last: a word of policies/core/vocabulary.h."""
        return np.asarray(np.array(ACTIONS)[self.choices["action"]])

    @property
    def reason(self) -> NDArray[np.str_]:
        """Why; `none`: the policy gives no reasons."""
        return np.asarray(np.array(REASONS)[self.choices["reason"]])


MISTAKES = 1
"""A stream of random numbers of its own: not that by which profiles were drawn (profiles.py)."""
IO_ROOM = 5.0
"""I/O of a job may take so many times as long as alone before its limit kills it."""


def replay_with_io(
    replayable: Replayable,
    site: Site,
    *,
    profiles: Profiles,
    storage: Storage,
    policy: str = "none",
    options: Options | None = None,
    predicted: Profiles | None = None,
    known: Mapping[str, Policy] = POLICIES,
    progress: Callable[[int], object] | None = None,
) -> IoOutcomes:
    """Replay under the site's scheduler and a policy, one of those known.

    profiles: what the jobs do, for the storage model; predicted: what the policy knows of them, of
    the same kinds (None: the same but for `options.wrong`). Limits are raised to leave room for
    slower I/O (IO_ROOM), the same ones under every policy. Equal arguments give equal bytes.
    """
    chosen = policy_named(policy, known)
    options = options or Options()
    with_room = with_room_for_io(replayable, profiles)
    workload = with_room.workload
    if predicted is None:
        predicted = mistaken(profiles, share=options.wrong, seed=options.seed)
    epoch = replayable.trace.epoch
    question = Question(workload, predicted, storage, options, epoch)
    plan = chosen.plan(question)
    if storage.placement in (BLOCKS, AT_CREATE) and not plan.on_blocks:
        plan = placed(plan, question, storage.placement)
    contention = contention_under(plan, profiles, workload)
    if plan.watch is not None:
        lib.sluice_contended_watch(contention.handle, *plan.watch)
    results = engine.run(
        workload,
        site.settings,
        storage=contention.storage,
        policy=plan.decider.table,
        progress=progress,
    )
    return IoOutcomes(
        with_room,
        results,
        policy=policy,
        contention=contention.results,
        choices=plan.decider.choices,
    )


def contention_under(plan: Plan, profiles: Profiles, workload: Workload) -> Contention:
    """Return the storage of a replay of a workload under a plan."""
    config = plan.storage.configuration()
    loads = profiles.loads(workload, config)
    if plan.reshape is not None:
        loads = plan.reshape(loads, config)
    requests = None
    if plan.storage.model == DISCRETE_EVENT:
        requests = Requests(
            profiles.kinds,
            profiles.kind,
            profiles.times(workload),
            plan.storage.grain,
            plan.storage.commit_group,
        )
    return Contention(config, loads, lanes=plan.lanes, requests=requests)


def with_room_for_io(replayable: Replayable, profiles: Profiles) -> Replayable:
    """Raise limits that would kill a job because its I/O is slower than alone."""
    jobs = replayable.workload.jobs.copy()
    needed = jobs["runtime"] * (1 + (IO_ROOM - 1) * profiles.io_share)
    # A job that the trace itself killed at the limit is killed in the replay, too.
    jobs["limit"] = np.where(
        jobs["runtime"] <= jobs["limit"], np.maximum(jobs["limit"], needed), jobs["limit"]
    )
    return replace(replayable, workload=replace(replayable.workload, jobs=jobs))


def mistaken(profiles: Profiles, *, share: float, seed: int) -> Profiles:
    """Give a share of the jobs, drawn by a seed, the prediction of another job of the workload."""
    if not 0 <= share <= 1:
        raise PolicyError(f"the share of wrong predictions is {share}; give 0 to 1")
    if share == 0:
        return profiles
    random = np.random.default_rng((seed, MISTAKES))
    jobs = len(profiles.kind)
    is_wrong = random.uniform(size=jobs) < share
    other = np.where(is_wrong, random.integers(0, max(jobs, 1), jobs), np.arange(jobs))
    return replace(
        profiles,
        kind=profiles.kind[other],
        io_share=profiles.io_share[other],
        period=None if profiles.period is None else profiles.period[other],
    )
