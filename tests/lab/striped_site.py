"""A history of jobs with new files on some of a file system's targets, as a replay has them.

What they lost to each other is what single targets of the mean-field storage model cost them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import starmap
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from history_rows import a_job, a_log, a_profile

from sluice.history_db.records import ServerCount
from sluice.history_db.store import Store
from sluice.sim.replay.experiment import Experiment
from sluice.sim.replay.io_replay import replay_with_io
from sluice.sim.trace.profiles import Profiles

if TYPE_CHECKING:
    from pathlib import Path

BEGIN = 1_700_000_000
TARGET_RATE = 5e8


class _Run(NamedTuple):
    program: int
    start: int
    runtime: float
    io: float
    io_alone: float
    slots: int


@dataclass(frozen=True)
class StripedSite:
    """A file system and what runs on it."""

    targets: int = 16
    widths: tuple[int, ...] = (1, 2, 4)
    """Targets that a file of each program lies on."""
    driven: float = 1.0
    """Share of its targets' rate that a program writes."""
    files: float | None = 1e6
    """That a run creates; None: logs do not tell."""
    placement: str = "chance"
    jobs: int = 300
    load: float = 0.9
    logged: int = 1
    """One of so many jobs has a log."""
    name: str = "solver"

    @property
    def bandwidth(self) -> float:
        return self.targets * TARGET_RATE

    def _kinds(self) -> list[dict[str, Any]]:
        return [
            {
                "pattern": "aw",
                "nprocs": 8.0,
                "shared_share": 1.0,
                "chunk_bytes": 4.0 * 2**20,
                "bytes_per_flush": 2.0**30,
                "rate": self.driven * width * TARGET_RATE,
                "targets": float(width),
                "burst_seconds": 60.0,
                "period_seconds": 300.0,
            }
            for width in self.widths
        ]

    def write(self, path: Path) -> None:
        """Replay the jobs, and write what accounting and Darshan would tell of them."""
        asked = Experiment(
            generate=self.jobs,
            slots=64,
            load=self.load,
            lanes=1,
            targets=self.targets,
            placement=self.placement,
            sharing="jobs",
        ).writing(self.bandwidth)
        draw = asked.draw()
        count = len(draw.replayable.rows)
        kind = np.arange(count) % len(self.widths)
        kinds = self._kinds()
        draw = replace(draw, profiles=Profiles(kinds, kind, np.full(count, 0.2)))
        found = replay_with_io(
            draw.replayable, draw.site, profiles=draw.profiles, storage=draw.storage
        )
        columns = zip(
            kind.tolist(),
            (found.results["start"] + BEGIN).astype(int).tolist(),
            found.runtime.tolist(),
            found.contention["io"].tolist(),
            found.contention["io_alone"].tolist(),
            draw.replayable.workload.jobs["slots"].tolist(),
            strict=True,
        )
        with Store(path, create=True) as store:
            for number, run in enumerate(starmap(_Run, columns), start=1):
                self._add(store, number, kinds[run.program], run)
            store.jobs.link_logs()
            store.jobs.update_coverage()

    def _add(self, store: Store, number: int, kind: dict[str, Any], run: _Run) -> None:
        when = {"start": run.start, "end": run.start + max(1, round(run.runtime))}
        job = a_job(
            job_id=number,
            submit=run.start - 1,
            nodes=run.slots,
            cpus=run.slots,
            uid=1000 + run.program,
            user=f"u{run.program}",
            name=f"{self.name}{'abcdef'[run.program]}",
            state="COMPLETED",
            time_limit=10_000,
            **when,
        )
        store.jobs.upsert_jobs([job])
        if not run.io or number % self.logged:
            return
        numbers = {name: value for name, value in kind.items() if name != "pattern"} | {
            "rate": kind["rate"] * run.io_alone / run.io,
            "io_share": min(1.0, run.io / run.runtime),
            "runtime_seconds": run.runtime,
            "write_bytes": kind["rate"] * run.io_alone,
            **({} if self.files is None else {"files": self.files}),
        }
        log = a_log(number, jobid=number, uid=job.uid, exe=job.name, **when)
        store.runs.add_logs([(log, a_profile(pattern="aw", numbers=numbers), b"")])


def count_servers(path: Path, moved: list[list[float]], *, seconds: float = 60.0) -> None:
    """Add servers' counts: bytes that each target moves in one stretch of time after the other."""
    with Store(path) as store:
        store.interference.put_server_counts(
            ServerCount(f"ost{target}", BEGIN + seconds * i, seconds, 0.0, amount)
            for i, amounts in enumerate(moved)
            for target, amount in enumerate(amounts)
        )
