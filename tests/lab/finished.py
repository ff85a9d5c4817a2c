"""Jobs of the past, for tests of what is learned from them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sluice.prediction.jobs import FinishedJob

if TYPE_CHECKING:
    from sluice.history_db.records import Profile


def finished_job(profile: Profile, *, number: int = 1, **changes: Any) -> FinishedJob:
    """A job of user 1000; whatever is not said of its times follows its start or its submission."""
    submit = changes.pop("submit", changes.get("start", 0))
    start = changes.pop("start", submit)
    values = {
        "logs": (number,),
        "uid": 1000,
        "name": "cavity",
        "account": "phys",
        "partition": "main",
        "qos": "normal",
        "nodes": 2,
        "tasks": 8,
        "cpus_per_task": 1,
        "time_limit": 60,
        "script_signature": 0,
        "submit": submit,
        "start": start,
        "end": start + 600,
        "profile": profile,
        "is_confirmed": True,
    }
    return FinishedJob(**{**values, **changes})
