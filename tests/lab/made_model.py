"""Valid bundles and snapshots without a history: for tests and benchmarks of the C side.

What they say means nothing.
"""

import struct
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sluice.policies import core
from sluice.policies.bundle_writer import BundleApplication, pack_bundle
from sluice.policies.snapshot import pack_snapshot

CREATED = 1_800_000_000  # UTC seconds, of every bundle here

# A job that every bundle here knows, in terms of struct sluice_request.
KNOWN_JOB: dict[str, Any] = {
    "uid": 1000,
    "name": "checkpoint_42",
    "nodes": 4,
    "tasks": 16,
    "time_limit": 60,
    "script": "#!/bin/sh\nsrun ./checkpoint\n",
    "submit_line": "sbatch run.sh",
}

SYLLABLES = ("ga", "lo", "mi", "ter", "spec", "vor", "flow", "hy", "dro", "cfd", "rna", "q")


def bundle(
    *,
    seed: int = 1,
    applications: int = 20,
    uid: int = 1000,
    job_names: Sequence[str] = (KNOWN_JOB["name"],),
    settings: str = "",
    spread: Mapping[str, float] | None = None,
) -> bytes:
    """The bytes of a bundle that knows uid's jobs of these names and so many applications.

    settings is text of a sluice.conf whose lanes and thresholds the bundle carries; spread
    is that of each known job's numbers, if any.
    """
    rng = np.random.default_rng(seed)
    submissions = [core.submission_of(job(i)) for i in range(applications)]
    own = [core.submission_of(KNOWN_JOB | {"uid": uid, "name": name}) for name in job_names]
    known = [*own, *submissions]
    table = {core.application_key(one, "user_name"): one for one in known}
    return pack_bundle(
        policy=core.parse_config("sluice.conf", settings.encode()).policy,
        interference=core.default_interference(),
        applications=[
            BundleApplication(key, "user_name", i, profile(rng) | {"spread": spread or {}})
            for i, key in enumerate(table, start=1)
        ],
        text='{"made": "for a test"}',
        created=CREATED + seed,
    )


# What makes a stream more than its lane can take.
HEAVY = {"rate": 8e9, "io_share": 0.9, "burst_seconds": 270.0, "unflushed_bytes": 2.0**30}

# Jobs whose class is sure, by name, of those who submit in tests.
USERS = (0, 5, 1000, 65534)
STREAM_JOB = "writer"
FLUSH_JOB = "flusher"


def named_bundle(settings: str = "", *, created: int = CREATED) -> bytes:
    """The bytes of a bundle that knows STREAM_JOB, also with a number, and FLUSH_JOB."""
    rng = np.random.default_rng(1)
    stream = profile(rng, "aw") | HEAVY
    profiles = {
        STREAM_JOB: stream,
        f"{STREAM_JOB}0": stream,
        FLUSH_JOB: profile(rng, "ws") | {"unflushed_bytes": 0.0},
    }
    return bundle_of_names(profiles, settings, created=created)


def bundle_of_names(
    profiles: Mapping[str, Mapping[str, Any]], settings: str, *, created: int, reviews: bytes = b""
) -> bytes:
    """The bytes of a bundle that knows a profile for each of these job names, and no model.

    Those who submit in tests have runs of their own; others know them by name.
    """
    known = list(enumerate(profiles.items(), start=1))
    return pack_bundle(
        policy=core.parse_config("sluice.conf", settings.encode()).policy,
        interference=core.default_interference(),
        applications=[
            *(own_application(name, uid, i, one) for i, (name, one) in known for uid in USERS),
            *(_application("name", {"name": name}, i, one) for i, (name, one) in known),
        ],
        text='{"made": "for a test"}',
        created=created,
        reviews=reviews,
    )


def own_application(
    name: str, uid: int, number: int, known: Mapping[str, Any]
) -> BundleApplication:
    """What a user's runs of a name did."""
    return _application("user_name", {"name": name, "uid": uid}, number, known)


def _application(
    evidence: str, job: Mapping[str, Any], number: int, known: Mapping[str, Any]
) -> BundleApplication:
    key = core.application_key(core.submission(job), evidence)
    return BundleApplication(key, evidence, number, known)


def job(i: int, *, known: bool = True) -> dict[str, Any]:
    """The i-th of many different jobs; with known unset, one that no bundle knows."""
    name = "".join(SYLLABLES[i // 12**k % 12] for k in range(4))
    return KNOWN_JOB | {
        "uid": 1000 + i % 97,
        "name": f"{name}_{i}" if known else f"unheard_of_{name}{i}",
        "account": f"project{i % 31}",
        "nodes": 1 + i % 17,
        "tasks": (1 + i % 17) * 16,
        "time_limit": 30 * (1 + i % 48),
        "script": f"#!/bin/bash\n#SBATCH --nodes={1 + i % 17}\n" + f"srun ./{name} in{i}\n" * 40,
    }


def profile(rng: np.random.Generator, pattern: str = "") -> dict[str, Any]:
    """A job that writes enough to matter, of any pattern unless told."""
    pattern = pattern or str(rng.choice(("owc", "ws", "aw")))
    written = float(rng.uniform(1e10, 1e12))
    return {
        "chunk_bytes": float(2 ** rng.integers(12, 27)),
        "nprocs": 64.0,
        "write_bytes": written,
        "read_bytes": 0.0,
        "files": 64.0,
        "rate": 2e9,
        "metadata_rate": 5.0,
        "burst_seconds": 30.0,
        "period_seconds": 300.0,
        "io_share": 0.2,
        "runtime_seconds": 3600.0,
        "bytes_per_flush": written if pattern == "aw" else 2**20,
        "creates_per_mib": 1.0 if pattern == "owc" else 0.0,
        "unflushed_bytes": 2.0**26 if pattern == "aw" else 0.0,
        "log_sd": 0.3,
        "confidence": 0.95,
        "share": {pattern: 1.0},
        "pattern": pattern,
        "runs": 12,
    }


def snapshot(
    *,
    age: float = 0,
    corunners: int = 4,
    seed: int = 1,
    holders: Sequence[Mapping[str, Any]] = (),
) -> bytes:
    """The bytes of a snapshot taken so many seconds ago."""
    rng = np.random.default_rng(seed)
    taken = int(time.time() - age)
    return pack_snapshot(
        state={"sequence": 1, "taken": taken, "running": corunners, "pending": 0},
        corunners=[
            {
                "job_id": 100 + i,
                "nodes": 4,
                "klass": "stream",
                "expected_end": taken + 3600,
                "profile": profile(rng),
            }
            for i in range(corunners)
        ],
        partitions=[{"name": "main", "flags": ("default",)}],
        users=[{"uid": 1000, "account": "physics"}],
        holders=holders,
    )


def busy_lane_snapshot(*, lane_mask: int) -> bytes:
    """A snapshot in which one heavy writer keeps to the lanes of the mask for two hours."""
    taken = int(time.time())
    return pack_snapshot(
        state={"sequence": 1, "taken": taken, "running": 1, "pending": 0},
        corunners=[
            {
                "job_id": 100,
                "nodes": 4,
                "lane_mask": lane_mask,
                "klass": "stream",
                "expected_end": taken + 7200,
                "profile": profile(np.random.default_rng(1), "aw") | HEAVY,
            }
        ],
    )


def with_version(content: bytes, version: int) -> bytes:
    """The same file as a writer of another version would have written it."""
    head, body = content[:8], bytearray(content[16:])
    body[4:8] = struct.pack("<I", version)
    return head + struct.pack("<Q", core.crc64(bytes(body))) + bytes(body)
