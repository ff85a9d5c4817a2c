"""Records of the history as the C core knows them."""

from __future__ import annotations

import math
from functools import cache
from typing import TYPE_CHECKING, Any

from sluice.policies import core
from sluice.policies.structs import View, new

if TYPE_CHECKING:
    from sluice.history_db.records import Profile

MOST = (1 << 32) - 1  # members of 32 bits


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
        "share": shares or {core.UNKNOWN: 1.0},
        "spread": profile.spread,
    }


@cache
def _published() -> tuple[core.View, core.View]:
    interference = View(new("struct sluice_interference"))
    return interference, core.default_config().policy


def log_weight(profile: Profile) -> float:
    """Return ln w, how heavily a run presses on a target (policies/core/interference.h)."""
    model, policy = _published()
    return math.log(core.pressure_of(profile_members(profile), model, policy).weight)
