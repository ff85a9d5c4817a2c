"""What Sluice knows in a replay: a bundle, as the runs of the trace's jobs would have taught it.

Every job is a run of an application, told by its job name. What the history knows of an
application is the mean of its runs, of each octave of sizes apart: their I/O share, and the rate
of a run alone. How programs disturb each other it does not know from the storage model that
answers, but from a calibration in another one (probing.py).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from sluice.policies import core
from sluice.policies.bundle_writer import BundleApplication, pack_bundle
from sluice.sim.storage.contention import rates_alone
from sluice.sim.storage.probing import calibrated

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from sluice.policies.structs import View
    from sluice.sim.engine import Workload
    from sluice.sim.storage.storage import Storage
    from sluice.sim.trace.profiles import Profiles

SHARE_STEP = 0.05
"""Runs of one application differ in their I/O share by less."""
CONFIDENCE = 0.95
SCRIPT = "#!/bin/sh\n"
"""Jobs come from sbatch; by its script none is known."""


@dataclass(frozen=True, slots=True)
class SiteBundle:
    """What engine.Core needs."""

    bundle: bytes
    config: str
    """A sluice.conf."""
    submissions: Sequence[View]
    """struct sluice_submission, one an application; of a job of no size."""
    application: NDArray[np.int64]
    """Index into submissions, one a job."""


class TraceHistory:
    """What the runs of a trace's jobs teach a site. Ablations (tests/lab) override a method."""

    def __init__(self, workload: Workload, profiles: Profiles, storage: Storage) -> None:
        self.workload = workload
        self.profiles = profiles
        self.storage = storage
        config = replace(storage, seed=None).configuration()  # as the site knows its storage
        self.rates = rates_alone(profiles.loads(workload, config), config)
        processes = profiles.number("nprocs") * profiles.times(workload)
        self.processes = np.where(processes > 0, processes, workload.jobs["slots"])

    def applications(self) -> NDArray[np.int64]:
        """Return a number for each job: equal numbers are runs of one application."""
        profiles = self.profiles
        return profiles.kind.astype(np.int64) * 1000 + self.steps_of_share(SHARE_STEP)

    def steps_of_share(self, step: float) -> NDArray[np.int64]:
        return np.asarray(np.floor(self.profiles.io_share / step).astype(int))

    def numbers(self) -> dict[str, NDArray[Any]]:
        """Return members of a profile, one element a job: a bundle has the means over the runs.

        NaN, and a rate or period of 0: unknown.
        """
        profiles = self.profiles
        return {
            "io_share": profiles.io_share,
            "nprocs": self.processes,
            "rate": self.rates,
            "metadata_rate": profiles.number("metadata_rate") * profiles.times(self.workload),
            "period_seconds": profiles.periods,
        }

    def interference(self) -> dict[str, Any]:
        """Return the interference model that the site has measured."""
        return calibrated(self.storage)


def site_bundle(
    history: TraceHistory,
    *,
    max_delay: float,
    wait_price: float = 0.2,
    turns_gain: float = 0.0,
    is_confinable: bool = True,
) -> SiteBundle:
    """Return what a site publishes that has this history.

    is_confinable: jobs write only where Sluice puts them, so that one lane can do.
    """
    names, application = np.unique(history.applications(), return_inverse=True)
    submissions = [
        core.submission_of({"name": _word(i), "script": SCRIPT, "io_dir": int(is_confinable)})
        for i in range(len(names))
    ]
    config = _config(history.storage, max_delay, wait_price, turns_gain)
    bundle = pack_bundle(
        policy=core.parse_config("sluice.conf", config.encode()).policy,
        interference=history.interference(),
        patterns=None,
        numbers=None,
        applications=_table(history, submissions, application),
        text="{}",
        created=0,
    )
    return SiteBundle(bundle, config, submissions, application)


def _table(
    history: TraceHistory, submissions: Sequence[View], application: NDArray[np.int64]
) -> list[BundleApplication]:
    jobs, profiles = history.workload.jobs, history.profiles
    octave = np.rint(np.log2(jobs["slots"])).astype(np.int64)
    groups, first, of_group = np.unique(
        application * 64 + octave, return_index=True, return_inverse=True
    )
    counts = np.bincount(of_group)
    means = {
        name: np.bincount(of_group, values) / counts for name, values in history.numbers().items()
    }
    users = _users_of(of_group, jobs["user"])
    table = []
    for i, job in enumerate(first.tolist()):
        profile = dict(profiles.kinds[profiles.kind[job]])
        profile |= {"confidence": CONFIDENCE, "runs": int(counts[i])}
        profile |= {
            name: float(mean[i])
            for name, mean in means.items()
            if name == "io_share" or mean[i] > 0
        }
        if "period_seconds" in profile:
            profile["burst_seconds"] = profile["io_share"] * profile["period_seconds"]
        name = submissions[groups[i] // 64].name
        known = _shares(profile)
        for user in users[i]:
            key = core.application_key(
                core.submission({"name": name, "uid": user + 1}), "user_name"
            )
            key = core.size_key(key, float(2 ** (groups[i] % 64)))
            table.append(BundleApplication(key=key, evidence="user_name", id=i + 1, profile=known))
    return table


def _users_of(of_group: NDArray[np.int64], users: NDArray[Any]) -> list[list[int]]:
    """Return who ran the jobs of each group: what others did is not evidence of theirs."""
    found: list[list[int]] = [[] for _ in range(int(of_group.max(initial=-1)) + 1)]
    for group, user in np.unique(np.column_stack([of_group, users]), axis=0).tolist():
        found[group].append(user)
    return found


def _shares(profile: Mapping[str, Any]) -> dict[str, Any]:
    return {"share": {profile["pattern"]: 1.0}, **profile}


def _word(number: int) -> str:
    """Return a name for an application; digits would be the same to Sluice."""
    letters = "abcdefghij"
    return "app_" + "".join(letters[int(digit)] for digit in str(number))


def _config(storage: Storage, max_delay: float, wait_price: float, turns_gain: float) -> str:
    bandwidth = storage.number("target_bandwidth")
    lanes = [
        f"Lane=sl{'abcdefghijklmnopqrstuvwxyz'[i]} Targets={int(targets)} "
        f"Bandwidth={targets * bandwidth:.0f}"
        for i, (targets, _) in enumerate(storage.lanes)
        if len(storage.lanes) > 1
    ]
    settings = [
        "Mode=enforce",
        f"MaxDelay={min(max_delay, 604800.0):.0f}",
        f"WaitPrice={wait_price:g}",
        f"TurnsGain={turns_gain:g}",
        f"MetadataCapacity={storage.number('metadata_rate'):g}",
    ]
    return "\n".join([*settings, *lanes, ""])
