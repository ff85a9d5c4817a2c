"""How far sluice-learn is behind, from the history and from what it says of itself."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from sluice.slurm.lock import is_locked, learner_path
from sluice.slurm.status import Status, read_status

if TYPE_CHECKING:
    from pathlib import Path

    from sluice.history_db.store import Store

SETTLED = 120
"""Seconds from a job's end to a model that knows it, at most, where all is well."""


def learning_state(store: Store, history: Path, now: int) -> dict[str, Any]:
    """Return what `sluice status --json` prints; now is in UTC seconds."""
    status = read_status(learner_path(history)) or Status()
    facts = status.facts
    in_use = store.model_in_use()
    model = next((one for one in store.trainings() if one.id == in_use), None)
    trained_until = model.metrics.get("until") if model else None
    until = facts.get("until", trained_until) if model else None
    first, unknown = store.runs_ended_after(int(str(until or 0)))
    running = _is_running(history)
    begun, polled = facts.get("since"), facts.get("polled")
    seconds = int(polled) - int(begun) if begun and polled else 0
    state = {
        "now": now,
        "is_running": running,
        "polled": polled,
        "core_share": int(facts["cpu_ms"]) / 1000 / seconds if seconds > 0 else None,
        "last_log": store.last_run_end(),
        "last_accounting": store.last_job_end(),
        "accounting_asked": facts.get("accounting"),
        "logs_waiting": store.count_waiting_logs(),
        "model": model
        and {
            "id": model.id,
            "fitted": model.created,
            "jobs": model.metrics.get("jobs"),
            "until": until,
        },
        "published": store.published_at(),
        "unknown_runs": unknown,
        "behind_seconds": now - first if first is not None else 0,
        "failing": {
            topic: {"text": trouble.text, "since": trouble.since}
            for topic, trouble in status.failing.items()
        },
    }
    return state | {"reasons": _reasons(state, status, facts.get("why"))}


def _is_running(history: Path) -> bool:
    with suppress(OSError):
        return is_locked(learner_path(history))
    return False


def _reasons(state: dict[str, Any], status: Status, why: object) -> list[str]:
    """Say what keeps the model from knowing everything."""
    reasons = []
    if not state["is_running"]:
        reasons.append("sluice-learn does not run: `systemctl start sluice-learn`")
    reasons += [f"{topic}: {trouble.text}" for topic, trouble in status.failing.items()]
    if why:
        reasons.append(str(why))
    if state["behind_seconds"] > SETTLED and not reasons:
        reasons.append("it rests after expensive work, to stay within 1 % of a core")
    elif state["behind_seconds"] and not reasons:
        reasons.append("these runs have just come; the next poll takes them up")
    return reasons
