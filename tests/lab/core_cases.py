"""Jobs, bundles and snapshots for tests of the core: small ones, and arbitrary ones."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from sluice.policies import core
from sluice.policies.bundle import Bundle
from sluice.policies.bundle_writer import BundleApplication, pack_bundle
from sluice.policies.record import Situation
from sluice.policies.snapshot import Snapshot, pack_snapshot
from sluice.policies.structs import View, new

NOW = 1_800_000_000
MIB = 1 << 20

MODEL = View(
    new(
        "struct sluice_interference",
        {
            "stream_level": 0.9,
            "rewrite_level": 0.0,
            "create_exponent": 0.0866,
            "rewrite_exponent": 0.173,
            "process_exponent": 0.4,
            "capacity": 1.2,
            "pooling": 0.2,
            "log_sd": 0.0,
        },
    )
)

STREAMING: dict[str, Any] = {
    "pattern": "aw",
    "share": {"aw": 1.0},
    "confidence": 0.95,
    "runs": 8,
    "chunk_bytes": MIB,
    "nprocs": 64,
    "write_bytes": 1e12,
    "bytes_per_flush": 1e12,
    "unflushed_bytes": 1e9,
    "creates_per_mib": 0.0,
    "io_share": 0.5,
    "runtime_seconds": 3600.0,
}
FLUSHING: dict[str, Any] = {
    **STREAMING,
    "pattern": "owc",
    "share": {"owc": 1.0},
    "bytes_per_flush": MIB,
    "unflushed_bytes": 0.0,
    "creates_per_mib": 1.0,
}
TINY: dict[str, Any] = {**FLUSHING, "io_share": 0.001}


def model(**changes: float) -> View:
    return View(new("struct sluice_interference", {**MODEL.to_dict(), **changes}))


def policy(text: str = "") -> View:
    return core.parse_config("sluice.conf", text.encode()).policy


def submission(**members: Any) -> View:
    return core.submission(
        {"uid": 1000, "name": "run_1", "nodes": 4, "time_limit": 60, "launcher": "sbatch"} | members
    )


def application(
    profile: dict[str, Any], like: View | None = None, evidence: str = "user_name", number: int = 1
) -> BundleApplication:
    return BundleApplication(
        core.application_key(like or submission(), evidence), evidence, number, profile
    )


def bundle_bytes(*applications: BundleApplication, conf: str = "", **parts: Any) -> bytes:
    defaults = {"interference": MODEL, "text": "{}"}
    return pack_bundle(
        policy=policy(conf), applications=applications, created=NOW, **(defaults | parts)
    )


def bundle(*applications: BundleApplication, conf: str = "", **parts: Any) -> Bundle:
    return Bundle.parse(bundle_bytes(*applications, conf=conf, **parts))


def corunner(job_id: int, profile: dict[str, Any] | View, **members: Any) -> dict[str, Any]:
    return {
        "job_id": job_id,
        "nodes": 8,
        "klass": members.pop("klass", None) or core.class_of(profile, policy()),
        "expected_end": NOW + 3600,
        "profile": profile,
    } | members


def snapshot(*corunners: dict[str, Any], **parts: Any) -> Snapshot:
    state = {"sequence": 1, "taken": NOW, "running": len(corunners)} | parts.pop("state", {})
    return Snapshot.parse(pack_snapshot(state=state, corunners=corunners, **parts))


def situation(
    *corunners: dict[str, Any], profile: dict[str, Any] = FLUSHING, conf: str = ""
) -> Situation:
    """One known application alongside what runs."""
    return Situation(bundle(application(profile), conf=conf), snapshot(*corunners))


def pressure(**members: float) -> View:
    """Full load all the time, unless told otherwise."""
    defaults = {"weight": 1.0, "demand": 1.0, "io_share": 1.0, "confined": 1.0}
    return View(new("struct sluice_pressure", defaults | members))


def _numbers(low: float, high: float) -> st.SearchStrategy[float]:
    return st.floats(low, high, allow_nan=False)


# Strategies are made once and mapped: drawing must not cost more than what is tested.

_RHYTHMS = st.one_of(
    st.just((0.0, 0.0)),
    st.tuples(_numbers(1.0, 1000.0), _numbers(0.01, 0.99)).map(lambda x: (x[0] * x[1], x[0])),
)


def pressures(*, periodic: bool = True) -> st.SearchStrategy[View]:
    """Any job on a lane; periodic ones have a burst shorter than their period."""
    return st.builds(
        lambda rhythm, **members: pressure(burst=rhythm[0], period=rhythm[1], **members),
        _RHYTHMS if periodic else st.just((0.0, 0.0)),
        weight=_numbers(0.01, 50.0),
        streaming=st.sampled_from([0.0, 0.5, 1.0]),
        log_sd=st.sampled_from([0.0, 0.3]),
        demand=st.one_of(st.just(1.0), _numbers(0.0, 1.0)),
        metadata=st.one_of(st.just(0.0), _numbers(0.0, 1.0)),
        io_share=_numbers(0.01, 1.0),
        confined=st.one_of(st.just(1.0), _numbers(0.3, 1.0)),
        hot=st.sampled_from([0.0, 0.2, 0.7]),
        async_io=st.sampled_from([0.0, 0.0, 1.0]),
    )


SHARES = (None, None, 0.0, 0.01, 0.3, 0.7, 0.999, 1.0)
AMOUNTS = (None, None, 0.0, 0.5, 60.0, 4096.0, 3e7, 2e12)


def _profile(digits: int, pattern: str, confidence: float, log_sd: float) -> dict[str, Any]:
    known = {
        field.name: (SHARES if field.unit.startswith("0") else AMOUNTS)[digits >> 3 * i & 7]
        for i, field in enumerate(core.PROFILE_FIELDS)
    }
    return known | {
        "pattern": pattern,
        "share": {pattern: 1.0},
        "confidence": confidence,
        "log_sd": log_sd,
    }


PROFILES = st.builds(
    _profile,
    st.integers(0, 8 ** len(core.PROFILE_FIELDS) - 1),
    st.sampled_from(core.PATTERNS),
    _numbers(0.0, 1.0),
    _numbers(0.0, 2.0),
)
"""Any mixture of telling numbers and holes; the numbers in one draw, because that is quick."""

_NEIGHBOURS = st.tuples(
    PROFILES,
    st.sampled_from(core.CLASSES),
    st.integers(1, 100),
    st.integers(0, 7),
    st.integers(-100, 10_000),
)


def corunners(most: int = 8) -> st.SearchStrategy[list[dict[str, Any]]]:
    """Any jobs that run, numbered from 1."""
    return st.lists(_NEIGHBOURS, max_size=most).map(
        lambda neighbours: [
            corunner(
                job_id,
                profile,
                klass=klass,
                nodes=nodes,
                lane_mask=mask,
                expected_end=NOW + seconds,
            )
            for job_id, (profile, klass, nodes, mask, seconds) in enumerate(neighbours, start=1)
        ]
    )
