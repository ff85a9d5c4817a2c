"""What sluice-turns tells: its status of now, and a line for each burst that it held.

It must not wait for a disk or a database, so it writes lines (`controller/turns/journal.c`), and
sluiced keeps them in the history. A full file becomes PATH.1: that one is read to its end first.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sluice.history_db.records import HeldBurst
from sluice.slurm.status import held_path, is_locked, read_status, turns_path

if TYPE_CHECKING:
    from sluice.history_db.store import Store
    from sluice.policies.core import Config
    from sluice.slurm.status import Status

BURSTS, LANES, LOST, UNSEEN = "bursts", "lanes", "lost", "unseen"
"""Topics of what its status names: jobs in a burst, lanes that do other than their Bandwidth says,
nodes not heard of, jobs without a write."""

MOST_BYTES = 1 << 20
"""That are read in one poll."""


def turns_now(config: Config) -> dict[str, Any] | None:
    """Return what sluice-turns says; None where it does not run, or this user may not see it."""
    path = turns_path(Path(config.snapshot))
    try:
        status = read_status(path) if is_locked(path) else None
    except OSError:
        status = None
    if status is None:
        return None
    rows = sorted(status.named.get(BURSTS, {}).items(), key=lambda row: row[1].since)
    return {
        **status.facts,
        **status.counts,
        "covered": covered(status),
        "lanes": {lane: row.text for lane, row in status.named.get(LANES, {}).items()},
        "bursts": [
            {"job_id": int(job), "state": row.text, "since": row.since} | _rate(status, job)
            for job, row in rows
        ],
    }


def _rate(status: Status, job: str) -> dict[str, Any]:
    """Return what a job writes a second in its burst, and since when."""
    rate = status.rates.get(job)
    if rate is None or len(rate) != 3:
        return {"bytes": None, "operations": None, "began": None}
    return {"bytes": rate[0], "operations": rate[1], "began": int(rate[2])}


def covered(status: Status) -> float | None:
    """Return the share of the bytes that were written in ways that can be held."""
    seen, others = status.counts.get("bytes", 0), status.counts.get("uncovered_bytes", 0)
    return seen / (seen + others) if seen + others else None


def turns_since(store: Store, since: int) -> dict[str, Any]:
    """Add up what was held, and would have been in observe, since a time (UTC seconds)."""
    return {
        name: asdict(store.gates.held_totals(since=since, is_held=is_held))
        for name, is_held in (("held", True), ("in_thought", False))
    }


@dataclass(slots=True)
class HeldBurstReader:
    """Remembers how far it has read; after a restart it begins anew, and the history sorts out."""

    _inode: int = 0
    _offset: int = 0

    def poll(self, snapshot: Path, cluster: str) -> list[HeldBurst]:
        """Return what was written since the last poll, at most MOST_BYTES of it; raises OSError."""
        path = held_path(snapshot)
        before = path.with_name(path.name + ".1")
        if self._inode == 0 or self._inode == _inode(before):
            rows = self._read(before, cluster)
            if rows:
                return rows
        if _inode(path) != self._inode:
            self._inode, self._offset = 0, 0
        return self._read(path, cluster)

    def _read(self, path: Path, cluster: str) -> list[HeldBurst]:
        """Read whole lines of a file from where the last one ended."""
        try:
            handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except FileNotFoundError:
            return []
        try:
            inode = os.fstat(handle).st_ino
            if inode != self._inode:
                self._inode, self._offset = inode, 0
            content = os.pread(handle, MOST_BYTES, self._offset)
        finally:
            os.close(handle)
        whole = content[: content.rfind(b"\n") + 1]
        self._offset += len(whole)
        found = (_burst(line, cluster) for line in whole.splitlines())
        return [burst for burst in found if burst is not None]


def _inode(path: Path) -> int:
    try:
        return path.stat().st_ino
    except OSError:
        return 0


def _burst(line: bytes, cluster: str) -> HeldBurst | None:
    """Parse a line; None for one of another version, or cut off by a full disk."""
    try:
        found: dict[str, Any] = json.loads(line)
        return HeldBurst(
            cluster=cluster,
            source=str(found["boot"]),
            number=int(found["number"]),
            job_id=int(found["job_id"]),
            nodes=int(found["nodes"]),
            first_job=int(found["first_job"]) or None,
            first_nodes=int(found["first_nodes"]),
            lane_mask=int(found["lane_mask"]),
            began=int(found["began"]),
            lasted=float(found["lasted"]),
            held=float(found["held"]),
            holds=int(found["holds"]),
            bytes=float(found["bytes"]),
            saving=None if found["saving"] is None else float(found["saving"]),
            is_held=bool(found["is_held"]),
            ended=str(found["ended"]),
        )
    except (ValueError, KeyError, TypeError):
        return None
