"""Policies that nobody would deploy: each says what one part of Sluice, or of a policy, is worth.

`replay_with_io` and `compare` take them as `known=EVERY`. Some take something from Sluice; others
let it know or wait more than a site can, up to the bound, which takes waits for free.
"""

from dataclasses import replace

import numpy as np
from mean_field import MeanField

from sluice.policies import core
from sluice.sim._engine import ffi
from sluice.sim.policies import policies
from sluice.sim.policies.policies import (
    POLICIES,
    Policy,
    lane_count,
    on_lanes,
    sluice,
    static_lanes,
    with_options,
)
from sluice.sim.policies.site_bundle import ENDLESS, TraceHistory, calibrated
from sluice.sim.storage.mean_field import LOAD, TARGETS_A_SERVER, rates_alone
from sluice.sim.trace.profiles import MIB

RANDOM_LANES = 2
"""A stream of random numbers of its own (profiles.py and io_replay.py have others)."""
PERFECT_SHARE_STEP = 0.005
RUNTIME_STEPS = 8
"""A perfect profile knows run times to one part in so many of an octave."""
LARGE_CHUNK = MIB
WEEK = 7 * 86400.0
"""The longest MaxDelay that Sluice takes."""


class Published(TraceHistory):
    """Of a site that never measured how programs disturb each other there."""

    def interference(self):
        return core.default_interference()


class SameModel(TraceHistory):
    """Of a site that measured this in the very storage model that answers: an upper bound."""

    def interference(self):
        return calibrated(self.storage, rates_in_mean_field)


class Perfect(TraceHistory):
    """Which knows I/O share and run time of each single job."""

    def applications(self):
        runtime = np.maximum(self.workload.jobs["runtime"], 1.0)
        octaves = np.floor(RUNTIME_STEPS * np.log2(runtime)).astype(int)
        name = self.profiles.kind.astype(np.int64) * 1000 + self.steps_of_share(PERFECT_SHARE_STEP)
        return name * 1000 + octaves


class Oracle(SameModel, Perfect):
    """Both."""


class WithoutClassifier(TraceHistory):
    """Which knows how much I/O a job does, but not how: all do what they do on average."""

    def __init__(self, *given):
        super().__init__(*given)
        self.profiles = averaged(self.profiles)


class ByChunkAlone(TraceHistory):
    """Which knows how much, and the size of writes."""

    def __init__(self, *given):
        super().__init__(*given)
        self.profiles = by_chunk_alone(self.profiles)


def averaged(profiles):
    """Let all I/O-heavy jobs do what they do on average: only their I/O shares differ."""
    heavy = policies.is_heavy(profiles)
    weights = np.bincount(profiles.kind[heavy], minlength=len(profiles.kinds)).astype(float)
    weights /= max(weights.sum(), 1.0)
    average = {"pattern": "mixed", "share": {}}
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


def by_chunk_alone(profiles):
    """Let jobs that write in large chunks stream, and all others wait for their writes."""
    heavy = policies.is_heavy(profiles)
    kinds = list(profiles.kinds)
    kind = profiles.kind.copy()
    for i, old in enumerate(profiles.kinds):
        chunk = old.get("chunk_bytes", MIB)
        is_large = chunk >= LARGE_CHUNK
        kinds.append(
            {
                "pattern": "aw" if is_large else "ws",
                "chunk_bytes": chunk,
                "bytes_per_flush": 1024 * chunk if is_large else chunk,
            }
        )
        kind[heavy & (profiles.kind == i)] = len(kinds) - 1
    return replace(profiles, kinds=tuple(kinds), kind=kind)


def rates_in_mean_field(numbers, programs):
    """Return the B/s of each while all of them write in the mean-field storage model."""
    model = MeanField(numbers, lanes=((1, 1 / TARGETS_A_SERVER),))
    loads = [
        model.load_of(program.profile(), nodes=program.processes, runtime=ENDLESS, max_bursts=1)
        for program in programs
    ]
    slots = [model.start(0.0, load) for load in loads]
    return [
        model.rate(slot) * rate_alone(load, model.config)
        for slot, load in zip(slots, loads, strict=True)
    ]


def rate_alone(load, config):
    row = np.frombuffer(ffi.buffer(load), LOAD)
    return float(rates_alone(row, config)[0])


def chunk_lanes(question):
    kinds = question.profiles.kinds
    large = np.array([kind.get("chunk_bytes", 0.0) >= LARGE_CHUNK for kind in kinds])
    return static_lanes(question, large[question.profiles.kind])


def random_lanes(question):
    random = np.random.default_rng((question.options.seed, RANDOM_LANES))
    lanes = 1 << random.integers(0, lane_count(question), len(question.workload.jobs))
    return on_lanes(question, lanes)


class WithoutPeriods(TraceHistory):
    """Which knows how much I/O a job does and how, but not when: no period was found."""

    def numbers(self):
        return super().numbers() | {"period_seconds": np.zeros(len(self.profiles.kind))}


def turns_without_classifier(question):
    return POLICIES["turns"].plan(replace(question, profiles=averaged(question.profiles)))


PLANS = {
    "chunk-lanes": chunk_lanes,
    "random-lanes": random_lanes,
    "one-at-a-time": with_options(POLICIES["two-groups"].plan, heavy=1, max_delay=np.inf),
    "sluice-colocate": sluice(delay=False, lanes=False),
    "sluice-published": sluice(history=Published),
    "sluice-same-world": sluice(history=SameModel),
    "sluice-perfect": sluice(history=Perfect),
    "sluice-oracle": sluice(history=Oracle),
    "sluice-oracle-free-waits": with_options(sluice(history=Oracle), wait_price=0.0),
    "sluice-oracle-patient": with_options(sluice(history=Oracle), wait_price=0.0, max_delay=WEEK),
    "sluice-no-classifier": sluice(history=WithoutClassifier),
    "sluice-chunk-only": sluice(history=ByChunkAlone),
    "sluice-no-periods": sluice(history=WithoutPeriods),
    "turns-no-classifier": turns_without_classifier,
}
DELAY = set(PLANS) - {"chunk-lanes", "random-lanes", "sluice-colocate", "turns-no-classifier"}
BEYOND = {"one-at-a-time", "sluice-oracle-patient"}
"""Those that delay for longer than the option max_delay allows."""
PLACING = {name for name in POLICIES if name.startswith("placement")}
"""Those that ask for a storage of single targets."""
EVERY = {
    **POLICIES,
    **{name: Policy(plan, delays=name in DELAY - BEYOND) for name, plan in PLANS.items()},
}
"""What `known` takes."""
