"""Gates on a private Slurm: kinds of job whose tokens are sure, and what Slurm says of both."""

import json
import time
from pathlib import Path
from typing import Any

import made_model
import numpy as np
from plugin_harness import install
from private_slurm import PrivateSlurm
from sluiced import Sluiced, wait_for

from sluice.history_db.records import Holder
from sluice.history_db.store import Store
from sluice.policies import review
from sluice.policies.review import Review

STREAM, FLUSH, META = "all_stream", "all_flush", "all_meta"
TOKENS = (STREAM, FLUSH, META)
LANES = "Lane=sl0 Targets=4 Bandwidth=8G\nLane=sl1 Targets=4 Bandwidth=8G\n"
LANE_TOKENS = tuple(f"sl{i}_{klass}" for i in (0, 1) for klass in ("stream", "flush", "meta"))
TOTAL = 1_000_000
LEASE = 5  # seconds, the shortest there is
LONG = "--wrap=sleep 600"

# A conflict that ends within MaxDelay: waiting for that costs less than sharing.
SOON = {"runtime_seconds": 600.0}
PROFILE = made_model.profile(np.random.default_rng(1), "aw") | SOON
FLUSHING = made_model.profile(np.random.default_rng(1), "ws") | SOON | {"unflushed_bytes": 0.0}
ALWAYS = {"io_share": 0.9, "burst_seconds": 0.0, "period_seconds": 0.0}
SELDOM = {"io_share": 0.03, "burst_seconds": 1.0, "period_seconds": 33.0}
KINDS: dict[str, dict[str, Any]] = {
    "heavy": PROFILE | ALWAYS,  # nobody may write alongside it
    "light": PROFILE | SELDOM,  # several may
    "flusher": FLUSHING | ALWAYS,
    "dripper": FLUSHING | SELDOM,
    "flood": PROFILE | ALWAYS | {"rate": 8e9},  # fills a lane of LANES alone
}


def bundle(settings: str = "", *reviews: Review) -> bytes:
    """Knows jobs by the names of KINDS, under these settings and reviews."""
    now = int(time.time())
    section = review.packed(reviews, now, lambda _program: [])
    return made_model.bundle_of_names(KINDS, settings, created=now, reviews=section)


def licenses(total: int = TOTAL, tokens: tuple[str, ...] = TOKENS + LANE_TOKENS) -> str:
    return ",".join(["tool:9", *(f"{token}:{total}" for token in tokens)])


def configure(daemon: Sluiced, policy: str = "", **settings: str | float) -> None:
    install(daemon.files.bundle, bundle(policy))
    keys = {"Mode": "enforce", "FollowInterval": 100, "LeaseSeconds": LEASE}
    daemon.files.configure(**keys | settings)


def settle(daemon: Sluiced, tokens: tuple[str, ...] = TOKENS) -> None:
    """Wait until the plugin enforces by a snapshot of this daemon and every gate has its lease."""
    daemon.files.wait_for(lambda seen: seen["mode"] == "enforce" and seen["bundle"]["loaded"])
    wait_for(daemon.files.snapshot.exists)
    daemon.wait_until_loaded()
    wait_for(lambda: set(leases(daemon.slurm)) == set(tokens))


def gates(daemon: Sluiced) -> dict[str, Any]:
    """What `sluice gates` says, with the gates by token."""
    facts: dict[str, Any] = daemon.sluice("gates")
    return facts | {"gates": {gate["token"]: gate for gate in facts["gates"]}}


def reservations(slurm: PrivateSlurm) -> dict[str, dict[str, str]]:
    lines = slurm.run("scontrol", "show", "reservation", "-o").stdout.splitlines()
    rows = [
        dict(word.partition("=")[::2] for word in line.split()) for line in lines if "=" in line
    ]
    return {row["ReservationName"]: row for row in rows}


def leases(slurm: PrivateSlurm) -> dict[str, str]:
    """Licences of each lease, by token."""
    return {
        name.removeprefix("sluice_"): row["Licenses"]
        for name, row in reservations(slurm).items()
        if name.removeprefix("sluice_") in TOKENS + LANE_TOKENS
    }


def used(slurm: PrivateSlurm, token: str) -> int:
    return used_licenses(slurm).get(token, 0)


def used_licenses(slurm: PrivateSlurm) -> dict[str, int]:
    """How many of each licence Slurm counts as taken."""
    lines = slurm.run("scontrol", "show", "lic", "-o").stdout.splitlines()
    rows = [dict(word.split("=", 1) for word in line.split()) for line in lines]
    return {row["LicenseName"]: int(row["Used"]) for row in rows if "LicenseName" in row}


def submit(slurm: PrivateSlurm, kind: str, *arguments: str) -> int:
    return slurm.submit("-J", kind, "-n1", *arguments)


def running(slurm: PrivateSlurm, *jobs: int) -> None:
    for job in jobs:
        slurm.wait_for_job(job, "RUNNING")


def waits(slurm: PrivateSlurm, *jobs: int) -> None:
    """Wait until Slurm says that these jobs wait for licences."""
    for job in jobs:
        # until then other reasons may stand: nodes that are not ready after a restart, for one
        wait_for(lambda job=job: slurm.job(job)["Reason"] == "Licenses")
        assert slurm.job(job)["JobState"] == "PENDING"


def holder_and_waiter(slurm: PrivateSlurm) -> tuple[int, int]:
    holder = submit(slurm, "heavy", LONG)
    running(slurm, holder)
    waiter = submit(slurm, "heavy", LONG)
    waits(slurm, waiter)
    return holder, waiter


def running_sets(history: Path) -> list[tuple[Holder, ...]]:
    """Return the jobs that ran together, each time that sluiced wrote them down."""
    with Store(history, read_only=True) as store:
        rows = store.rows("SELECT content FROM running_sets ORDER BY taken, rowid")
    return [tuple(Holder(*one) for one in json.loads(content)["holders"]) for (content,) in rows]
