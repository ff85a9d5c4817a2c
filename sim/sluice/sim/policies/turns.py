"""Turns in a replay: what is known of bursts that are ordered (engine/storage/mean_field.h)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from sluice.sim._engine import lib
from sluice.sim.errors import PolicyError
from sluice.sim.storage.contention import station_shares
from sluice.sim.storage.mean_field import take_turns

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from sluice.sim.engine import Workload
    from sluice.sim.trace.profiles import Profiles

COVERED = 3
"""A stream of random numbers of its own (mix.py, io_replay.py and ablations.py have others)."""


@dataclass(frozen=True, slots=True)
class Knowledge:
    """What is known of bursts, and what can be done about them."""

    settings: Mapping[str, float] = field(default_factory=dict)
    """Of struct sluice_turns_settings; others keep their defaults."""
    predicted: bool = True
    """Whether a history predicts a job's first burst."""
    noise: float = 0.0
    """Standard deviation of the logarithm of a burst's length as it is measured."""
    covered: float = 1.0
    """Share of the jobs whose bursts can be held."""
    seen: bool = True
    """Whether the storage counts what each of the others writes."""
    demand_error: float = 1.0
    """What is taken for a job's demand, over what it is."""
    seed: int = 1
    """Of which jobs are covered."""


def turns(
    knowledge: Knowledge, workload: Workload, predicted: Profiles
) -> Callable[[NDArray[Any], Any], NDArray[Any]]:
    """Return what makes the loads of a replay take turns (policies.Plan.reshape).

    predicted: the first burst of a job is as its kind's period and mean I/O share say.
    """
    if not 0 <= knowledge.covered <= 1:
        raise PolicyError(f"the share of covered jobs is {knowledge.covered}; give 0 to 1")

    def reshape(loads: NDArray[Any], config: Any) -> NDArray[Any]:
        take_turns(config, knowledge.settings)
        config.turns.noise, config.turns.demand_error = knowledge.noise, knowledge.demand_error
        known = np.array(loads)
        usual = _of_its_kind(predicted).loads(workload, config)
        shares = station_shares(usual, config)
        if knowledge.predicted:
            known["expected"] = np.where(usual["bursts"] > 0, usual["burst"], 0.0)
        known["target_share"], known["link_share"], known["metadata_share"] = shares.T
        random = np.random.default_rng((knowledge.seed, COVERED))
        is_covered = random.uniform(size=len(known)) < knowledge.covered
        other = lib.SLUICE_MEAN_FIELD_SEEN if knowledge.seen else lib.SLUICE_MEAN_FIELD_UNSEEN
        known["coverage"] = np.where(is_covered, lib.SLUICE_MEAN_FIELD_COVERED, other)
        return known

    return reshape


def _of_its_kind(profiles: Profiles) -> Profiles:
    """Give each job the mean I/O share of its kind."""
    kinds = len(profiles.kinds)
    count = np.maximum(np.bincount(profiles.kind, minlength=kinds), 1)
    mean = np.bincount(profiles.kind, profiles.io_share, minlength=kinds) / count
    return replace(profiles, io_share=mean[profiles.kind])
