"""A history of a site at which two programs meet day after day, decided on as the plugin would.

`wide` of one user writes on 64 nodes. `stream` of another comes while it runs, and delaying that
pays. Both are predicted as they do, or, from a day on, wrongly.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import core_cases
from history_rows import a_job, a_log, a_profile

from sluice.history_db import records
from sluice.history_db.store import Store
from sluice.policies import core
from sluice.policies.record import Situation, decide

if TYPE_CHECKING:
    from pathlib import Path

    from sluice.policies.bundle import Bundle

WIDE, STREAM = 71000, 71001
HOUR, DAY = 3600, 86400
MOVED = 1e12
ALONE = 1800.0
"""Seconds of I/O of a run that nobody disturbs, of an hour in all."""
HEAVY: dict[str, Any] = {
    **core_cases.STREAMING,
    "io_share": 0.9,
    "nprocs": 1024,
    "spread": {"write_bytes": 0.1, "rate": 0.1},
}
PLENTY = (1_000_000,)


@dataclass(slots=True)
class DecidedSite:
    """Writes a history, a day at a time."""

    store: Store
    end: int
    """The newest day ends here, UTC seconds."""
    mode: str = "observe"
    holdout: float = 0.0
    helps: float = 0.0
    """Share of what a run loses to others that it loses less where it was acted on."""
    wrong_from: int = 10**9
    """Number of the day from which on `stream` writes a tenth of what was predicted."""
    changed_from: int = 10**9
    """Number of the day from which on `stream` creates files instead of writing."""
    turns_gain: float = 0.0
    """TurnsGain; above 0 waits cost as much as losses, so `stream` runs in turns with `wide`."""
    bundle: Bundle = field(init=False)
    _number: int = 0

    def __post_init__(self) -> None:
        known = [
            core_cases.application(HEAVY, submission(name, uid), number=i)
            for i, (name, uid) in enumerate((("wide", WIDE), ("stream", STREAM)), start=1)
        ]
        price = 0.2 if self.turns_gain else 0.04
        conf = f"WaitPrice={price}\nHoldout={self.holdout}\nTurnsGain={self.turns_gain}\n"
        self.bundle = core_cases.bundle(*known, conf=conf)
        content = core_cases.bundle_bytes(*known, conf=conf)
        self.store.models.add_bundle(
            records.Bundle(self.bundle.checksum, None, "/var/lib/sluice/b", self.end, content)
        )

    def live(self, days: int, *, meetings: int = 1) -> None:
        """Let so many days go by, on each of which the two meet so many times."""
        for day in range(days):
            start = self.end - (days - day) * DAY
            for meeting in range(meetings):
                begin = start + meeting * (DAY // meetings)
                self._meet(begin, is_wrong=day >= self.wrong_from, pattern=self._pattern_of(day))
        self.store.jobs.link_logs()
        self.store.jobs.update_coverage()

    def _pattern_of(self, day: int) -> str:
        return "metadata" if day >= self.changed_from else "aw"

    def _meet(self, start: int, *, is_wrong: bool, pattern: str) -> None:
        wide = self._run("wide", WIDE, start, nodes=64, alongside=None)
        self._run(
            "stream",
            STREAM,
            start + HOUR,
            nodes=64,
            alongside=wide,
            is_wrong=is_wrong,
            pattern=pattern,
        )
        self._run("wide", WIDE, start + 3 * HOUR, nodes=64, alongside=None, met=False)
        self._run(
            "stream",
            STREAM,
            start + 5 * HOUR,
            nodes=64,
            alongside=None,
            met=False,
            pattern=pattern,
        )

    def _run(
        self,
        name: str,
        uid: int,
        start: int,
        *,
        nodes: int,
        alongside: int | None,
        is_wrong: bool = False,
        met: bool = True,
        pattern: str = "aw",
    ) -> int:
        self._number += 1
        number = self._number
        record = self._decide(name, uid, start, number=number, nodes=nodes, alongside=alongside)
        is_helped = record.grant.outcome == "taken" and self.helps > 0
        lost = (0.5 * ALONE if met else 0.0) * (1 - self.helps * is_helped)
        seconds = HOUR + lost
        job = a_job(
            job_id=number,
            submit=start,
            start=start + 5,
            end=start + 5 + int(seconds),
            name=name,
            uid=uid,
            user=f"user{uid}",
            nodes=nodes,
            tasks=1024,
            state="COMPLETED",
        )
        self.store.jobs.upsert_jobs([job])
        log = a_log(
            number,
            jobid=number,
            uid=uid,
            exe=f"/apps/{name}",
            start=job.start,
            end=job.end,
            nprocs=1024,
        )
        moved = MOVED / 10 if is_wrong else MOVED
        numbers = {
            "write_bytes": moved,
            "rate": moved / (ALONE + lost),
            "io_share": (ALONE + lost) / seconds,
            "runtime_seconds": seconds,
            "chunk_bytes": float(core_cases.MIB),
            "nprocs": 1024.0,
            "bytes_per_flush": 1e12,
            "unflushed_bytes": 1e9,
            "creates_per_mib": 0.0,
        }
        profile = a_profile(
            pattern=pattern, confidence=0.95, shares={pattern: 1.0}, numbers=numbers, log_sd=0.1
        )
        self.store.runs.add_logs([(log, profile, b"")])
        return number

    def _decide(
        self, name: str, uid: int, now: int, *, number: int, nodes: int, alongside: int | None
    ) -> Any:
        corunners = (
            [core_cases.corunner(alongside, HEAVY, nodes=64, expected_end=now + 600)]
            if alongside is not None
            else []
        )
        snapshot = core_cases.snapshot(*corunners, state={"taken": now})
        record = decide(
            Situation(self.bundle, snapshot),
            core.parse_config("sluice.conf", f"Mode={self.mode}\n".encode()),
            submission(name, uid, nodes=nodes),
            now,
            boot=1,
            number=number,
            cluster="c1",
            totals=PLENTY,
        )
        made = records.Decision(
            boot=1,
            number=number,
            now=now,
            cluster="c1",
            uid=uid,
            job_id=number,
            joined_by="key",
            record=record.bytes,
            bundle=self.bundle.checksum,
        )
        self.store.decisions.insert_decisions([made])
        return record


def submission(name: str, uid: int, *, nodes: int = 64) -> Any:
    return core_cases.submission(name=name, uid=uid, nodes=nodes, tasks=1024)


def site(history: Path, *, end: int, days: int, meetings: int = 1, **changes: Any) -> DecidedSite:
    """Write such a history."""
    with Store(history, create=True) as store:
        made = DecidedSite(store, end, **changes)
        made.live(days, meetings=meetings)
    return made
