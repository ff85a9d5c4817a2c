"""Records of the history as the C core knows them."""

from __future__ import annotations

import math
from dataclasses import asdict
from functools import cache
from typing import TYPE_CHECKING, Any

from sluice.policies import core
from sluice.policies.published import published_interference
from sluice.policies.structs import View, new

if TYPE_CHECKING:
    from sluice.classifier.jobs import FinishedJob
    from sluice.history_db.records import Profile

MOST = (1 << 32) - 1  # members of 32 bits


def submission_of(job: FinishedJob) -> core.View:
    """Return what the controller saw when the job was submitted, as far as that is known."""
    return core.submission(
        {
            "uid": min(job.uid, MOST),
            "nodes": min(job.nodes, MOST),
            "tasks": min(job.tasks, MOST),
            "cpus_per_task": min(job.cpus_per_task, MOST),
            "time_limit": min(job.time_limit, MOST),
            "script_signature": job.script_signature,
            "name": job.name,
            "account": job.account,
            "partition": job.partition,
            "qos": job.qos,
            **({"arguments": asdict(job.arguments)} if job.arguments else {}),
        }
    )


def profile_members(profile: Profile) -> dict[str, Any]:
    """Return the members of struct sluice_profile."""
    total = math.fsum(profile.shares.values())
    shares = {name: share / total for name, share in profile.shares.items()} if total else None
    return {
        **profile.numbers,
        "pattern": profile.pattern,
        "confidence": profile.confidence,
        "log_sd": profile.log_sd,
        "runs": min(profile.runs, MOST),
        "share": shares or {"unknown": 1.0},
        "spread": profile.spread,
    }


@cache
def _published() -> tuple[core.View, core.View]:
    interference = View(new("struct sluice_interference", published_interference()))
    return interference, core.default_config().policy


def log_weight(profile: Profile) -> float:
    """Return ln w, how heavily a run presses on a target (policies/core/interference.h)."""
    model, policy = _published()
    return math.log(core.pressure_of(profile_members(profile), model, policy).weight)
