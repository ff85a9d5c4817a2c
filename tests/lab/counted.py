"""Counts of Slurm for histories whose logs come without any."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

from sluice.history_db.store import Store

if TYPE_CHECKING:
    from pathlib import Path

    from sluice.history_db.records import Job, Profile


def count_what_logs_claim(history: Path) -> None:
    """Let Slurm and the servers have counted of each job what its logs say."""
    claims: defaultdict[Job, list[Profile]] = defaultdict(list)
    with Store(history) as store:
        for run in store.runs.runs():
            if run.job is not None:
                claims[run.job].append(run.profile)
        store.jobs.upsert_jobs(_counted(job, profiles) for job, profiles in claims.items())


def _counted(job: Job, profiles: list[Profile]) -> Job:
    def total(*names: str) -> int:
        return sum(
            math.ceil(math.prod(one.numbers.get(name, 0.0) for name in names)) for one in profiles
        )

    return replace(
        job,
        write_bytes=total("write_bytes"),
        read_bytes=total("read_bytes"),
        metadata_operations=total("metadata_rate", "io_share", "runtime_seconds"),
    )
