"""What Sluice believes in a replay: a bundle as the runs of the trace's jobs would have taught it.

Every job is a run of an application, told by its job name. What the history knows of an
application is the mean of its runs, of each octave of sizes apart: their I/O share, and the rate
that runs without company reach. How programs disturb each other it does not know from the world
that answers, but from published figures or a calibration in another world (probing.py).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from sluice.policies import core
from sluice.policies.bundle_writer import Application, pack_bundle
from sluice.sim.policies import classes
from sluice.sim.storage.contention import rates_alone
from sluice.sim.storage.probing import calibrated
from sluice.sim.trace.mix import MIB

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from sluice.policies.structs import View
    from sluice.sim.engine import Workload
    from sluice.sim.storage.storage import Storage
    from sluice.sim.trace.profiles import Profiles

SHARE_STEP = 0.05
"""Runs of one application differ in their I/O share by less."""
PERFECT_SHARE_STEP = 0.005
RUNTIME_STEPS = 8
"""A perfect profile knows run times to one part in so many of an octave."""
CONFIDENCE = 0.95
SCRIPT = "#!/bin/sh\n"
"""Jobs come from sbatch; by its script none is known."""
UPPER_BOUND = "self-consistent upper bound"
"""What a run is labelled whose belief was measured in the very world that answers."""
CALIBRATIONS: Mapping[str, Callable[[Storage], dict[str, Any]]] = {
    "requests": calibrated,
    "same world": partial(calibrated, in_same_world=True),
    "none": lambda _: core.default_interference(),
}
"""Where a site measured how programs disturb each other: request by request, in the world that
answers, or nowhere, so that published figures must do."""


@dataclass(frozen=True, slots=True)
class Belief:
    """What engine.Core needs."""

    bundle: bytes
    config: str
    """A sluice.conf."""
    submissions: Sequence[View]
    """struct sluice_submission, one an application; of a job of no size."""
    application: NDArray[np.int64]
    """Index into submissions, one a job."""
    label: str


def belief_of(
    workload: Workload,
    profiles: Profiles,
    storage: Storage,
    *,
    max_delay: float,
    wait_price: float = 0.2,
    calibration: str = "requests",
    is_perfect: bool = False,
    is_confinable: bool = True,
    seen_as: Callable[[Profiles], Profiles] | None = None,
) -> Belief:
    """Return what runs of these profiles teach.

    calibration: where the site learned how programs disturb each other, a key of CALIBRATIONS;
    is_perfect: I/O shares and run times of the single job are known; is_confinable: jobs write
    only where Sluice puts them, so that one lane can do; seen_as: what a classifier makes of the
    profiles, rates alone apart.
    """
    rates = _rates(workload, profiles, storage)
    if seen_as is not None:
        profiles = seen_as(profiles)
    name = _applications(workload, profiles, is_perfect=is_perfect)
    names, application = np.unique(name, return_inverse=True)
    submissions = [
        core.submission_of({"name": _word(i), "script": SCRIPT, "io_dir": int(is_confinable)})
        for i in range(len(names))
    ]
    config = _config(storage, max_delay, wait_price)
    bundle = pack_bundle(
        policy=core.parse_config("sluice.conf", config.encode()).policy,
        interference=CALIBRATIONS[calibration](storage),
        patterns=None,
        numbers=None,
        applications=_table(
            workload, profiles, rates, submissions, application, is_perfect=is_perfect
        ),
        text="{}",
        created=0,
    )
    label = UPPER_BOUND if calibration == "same world" and storage.seed is None else ""
    return Belief(bundle, config, submissions, application, label)


def _applications(workload: Workload, profiles: Profiles, *, is_perfect: bool) -> NDArray[np.int64]:
    step = PERFECT_SHARE_STEP if is_perfect else SHARE_STEP
    name = profiles.kind.astype(np.int64) * 1000 + np.floor(profiles.io_share / step).astype(int)
    if is_perfect:
        runtime = np.maximum(workload.jobs["runtime"], 1.0)
        name = name * 1000 + np.floor(RUNTIME_STEPS * np.log2(runtime)).astype(int)
    return np.asarray(name)


def _rates(workload: Workload, profiles: Profiles, storage: Storage) -> NDArray[np.float64]:
    """B/s alone, on the storage as a site knows it."""
    config = replace(storage, seed=None).configuration()
    return rates_alone(profiles.loads(workload, config), config)


def _table(
    workload: Workload,
    profiles: Profiles,
    rates: NDArray[np.float64],
    submissions: Sequence[View],
    application: NDArray[np.int64],
    *,
    is_perfect: bool,
) -> list[Application]:
    jobs = workload.jobs
    octave = np.rint(np.log2(jobs["slots"])).astype(np.int64)
    groups, first, of_group = np.unique(
        application * 64 + octave, return_index=True, return_inverse=True
    )
    counts = np.bincount(of_group)

    def mean(values: NDArray[Any]) -> NDArray[np.float64]:
        return np.asarray(np.bincount(of_group, values) / counts)

    share, rate, nodes = (mean(one) for one in (profiles.io_share, rates, jobs["slots"]))
    runtime = mean(jobs["runtime"])
    users = _users_of(of_group, jobs["user"])
    table = []
    for i, job in enumerate(first.tolist()):
        profile = dict(profiles.kinds[profiles.kind[job]])
        profile |= {
            "io_share": float(share[i]),
            "nprocs": float(nodes[i]),
            "confidence": CONFIDENCE,
            "runs": int(counts[i]),
        }
        if rate[i] > 0:
            profile["rate"] = float(rate[i])
        if "period_seconds" in profile:
            profile["burst_seconds"] = float(share[i]) * profile["period_seconds"]
        if is_perfect:
            profile["runtime_seconds"] = float(runtime[i])
        name = submissions[groups[i] // 64].name
        known = _shares(profile)
        for user in users[i]:
            key = core.application_key(
                core.submission({"name": name, "uid": user + 1}), "user_name"
            )
            key = core.size_key(key, float(2 ** (groups[i] % 64)))
            table.append(Application(key=key, evidence="user_name", id=i + 1, profile=known))
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


def _config(storage: Storage, max_delay: float, wait_price: float) -> str:
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
        f"MetadataCapacity={storage.number('metadata_rate'):g}",
    ]
    return "\n".join([*settings, *lanes, ""])


def without_classifier(profiles: Profiles) -> Profiles:
    """All I/O-heavy jobs do what they do on average: only their I/O shares differ."""
    heavy = classes.is_heavy(profiles)
    weights = np.bincount(profiles.kind[heavy], minlength=len(profiles.kinds)).astype(float)
    weights /= max(weights.sum(), 1.0)
    average: dict[str, Any] = {"pattern": "mixed", "share": {}}
    for kind, weight in zip(profiles.kinds, weights, strict=True):
        if weight:
            shares = average["share"]
            shares[kind["pattern"]] = shares.get(kind["pattern"], 0.0) + float(weight)
    for name in ("chunk_bytes", "bytes_per_flush", "period_seconds"):
        known = [i for i, kind in enumerate(profiles.kinds) if weights[i] and name in kind]
        if known:
            logs = [np.log(profiles.kinds[i][name]) for i in known]
            average[name] = float(np.exp(np.average(logs, weights=weights[known])))
    kinds = (*profiles.kinds, average)
    return replace(profiles, kinds=kinds, kind=np.where(heavy, len(kinds) - 1, profiles.kind))


def by_chunk_alone(profiles: Profiles) -> Profiles:
    """Who writes in large chunks streams, whoever does not waits: nothing else is known."""
    heavy = classes.is_heavy(profiles)
    kinds = list(profiles.kinds)
    kind = profiles.kind.copy()
    for i, old in enumerate(profiles.kinds):
        chunk = old.get("chunk_bytes", MIB)
        is_large = chunk >= classes.LARGE_CHUNK
        kinds.append(
            {
                "pattern": "aw" if is_large else "ws",
                "chunk_bytes": chunk,
                "bytes_per_flush": 1024 * chunk if is_large else chunk,
            }
        )
        kind[heavy & (profiles.kind == i)] = len(kinds) - 1
    return replace(profiles, kinds=tuple(kinds), kind=kind)
