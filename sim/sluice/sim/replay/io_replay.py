"""Replays a workload with I/O: a policy decides by what is predicted, a storage model answers."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from sluice.sim import engine
from sluice.sim.errors import PolicyError
from sluice.sim.policies.policies import POLICIES, Options, Question, policy_named
from sluice.sim.replay.io_outcomes import IoOutcomes
from sluice.sim.storage.contention import Contention

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sluice.sim.policies.policies import Policy
    from sluice.sim.storage.storage import Storage
    from sluice.sim.trace.machine import Site
    from sluice.sim.trace.profiles import Profiles
    from sluice.sim.trace.repairs import Replayable

MISTAKES = 1
"""A stream of random numbers of its own: not that by which profiles were drawn (mix.py)."""
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
    plan = chosen.plan(Question(workload, predicted, storage, options, epoch))
    config = plan.storage.configuration()
    loads = profiles.loads(workload, config)
    if plan.reshape is not None:
        loads = plan.reshape(loads, config)
    contention = Contention(config, loads, lanes=plan.lanes)
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
