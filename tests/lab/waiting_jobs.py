"""Jobs with tokens, as sluiced sees them in the queue."""

from __future__ import annotations

from typing import Any

from core_cases import NOW

from sluice.slurm.gates.leases import Holding, holdings
from sluice.slurm.records import QueuedJob

TOKENS = ("sl0_stream", "sl0_flush", "sl1_stream")
NAMES = {"sl0_stream": (0, "stream"), "sl0_flush": (0, "flush"), "sl1_stream": (1, "stream")}


def job(job_id: int = 1, **members: Any) -> QueuedJob:
    defaults: dict[str, Any] = {
        "job_id": job_id,
        "submission_id": job_id,
        "component": None,
        "is_array": False,
        "tasks_waiting": 1,
        "restarts": 0,
        "uid": 1000,
        "submit": NOW,
        "eligible": NOW,
        "start": None,
        "end": None,
        "state": "PENDING",
        "account": None,
        "partition": "main",
        "qos": None,
        "nodes": 1,
        "tasks": 1,
        "cpus": 1,
        "time_limit": 60,
        "licenses": "sl0_stream",
        "exit_code": None,
        "name": "run",
    }
    return QueuedJob(**defaults | members)


def holding(job_id: int = 1, **members: Any) -> Holding:
    return holdings([job(job_id, **members)], NAMES)[0]
