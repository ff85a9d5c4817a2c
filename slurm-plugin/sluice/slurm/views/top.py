"""The jobs with I/O at this moment: what they write, for how long, and what Sluice does about it.

Rates are what the nodes' agents count, of writes, flushes and closes of jobs in a burst. Of other
running jobs stands what is expected. Nothing of it asks Slurm.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sluice.policies import core
from sluice.policies.core import CoreError
from sluice.policies.record import Record
from sluice.policies.snapshot import Snapshot
from sluice.slurm import service
from sluice.slurm.gates.snapshot import mean_of
from sluice.slurm.status import read_status
from sluice.slurm.turns import turns_now
from sluice.slurm.visibility import user_text

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sluice.history_db.store import Store
    from sluice.policies.core import Config
    from sluice.slurm.visibility import Viewer

Facts = dict[str, Any]

AGENTS, SERVERS, EXPECTED = "agents", "servers", "expected"
"""By what a rate is known."""
FREE = "free"
"""What Sluice does about a job that it neither holds nor slows."""


def top(
    store: Store, viewer: Viewer, config: Config, now: int, counted: Iterable[int] = ()
) -> Facts:
    """Return the jobs with I/O that the viewer may see; rates are bytes and calls a second.

    counted: jobs that servers count; the caller knows their rates.
    """
    status = read_status(Path(config.snapshot))
    told = status.facts.get("cluster") if status else None
    cluster = None if told is None else str(told)
    turns = turns_now(config)
    rows = {
        burst["job_id"]: _row(
            burst["job_id"],
            AGENTS,
            burst["bytes"],
            burst["operations"],
            began=burst["began"],
            state=burst["state"],
        )
        for burst in (turns or {"bursts": []})["bursts"]
    }
    for row in (*_expected(config), *(_row(job, SERVERS, None, None) for job in counted)):
        rows.setdefault(row["job_id"], row)
    named = (_named(store, viewer, row, cluster, now) for row in rows.values())
    return {
        "time": now,
        "mode": config.mode,
        "is_off": service.is_off(config),
        "agents": turns and turns["agents"],
        "covered": turns and turns["covered"],
        "jobs": sorted(filter(None, named), key=order),
    }


def order(row: Facts) -> tuple[bool, float, float]:
    """Put what was measured first, and what moves most."""
    moved = (row["write"] or 0.0) + (row["read"] or 0.0)
    return row["by"] == EXPECTED, -moved, -(row["operations"] or 0.0)


def _expected(config: Config) -> Iterable[Facts]:
    """Yield running jobs that matter to storage, by the snapshot."""
    path = Path(config.snapshot)
    with suppress(CoreError, OSError):
        for one in Snapshot.load(path, path.stat().st_uid).corunners():
            profile = one.profile
            write, metadata = mean_of(profile, "rate"), mean_of(profile, "metadata_rate")
            yield _row(one.job_id, EXPECTED, write, metadata)


def _row(
    job_id: int,
    by: str,
    write: float | None,
    operations: float | None,
    *,
    began: int | None = None,
    state: str = FREE,
) -> Facts:
    return {
        "job_id": job_id,
        "by": by,
        "write": write,
        "read": None,
        "operations": operations,
        "began": began,
        "state": state,
    }


def _named(store: Store, viewer: Viewer, row: Facts, cluster: str | None, now: int) -> Facts | None:
    """Return the row with the job's owner and what was decided; None: it is hidden."""
    job = store.jobs.job(row["job_id"], cluster)
    if not viewer.sees(job.uid if job else None):
        return None
    began = row["began"] or (job.start if job else None)
    made = store.decisions.decisions_for_job(row["job_id"], cluster)
    decided = None
    with suppress(CoreError):  # of another version
        decided = Record.parse(made[0].record).decision if made else None
    return row | {
        "name": job.name if job else None,
        "program": core.name_stem(job.name or "") if job else None,
        "user": user_text(job.uid) if job and job.uid is not None else None,
        "nodes": job.nodes if job else None,
        "seconds": None if began is None else max(0, now - began),
        "action": decided.action if decided else None,
        "reason": core.sentence("reason", decided.reason) if decided else None,
    }
