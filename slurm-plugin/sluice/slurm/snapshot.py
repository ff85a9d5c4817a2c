"""The snapshot: who runs with which I/O, for the plugin's next decisions.

It is written anew each round even if nothing changed, because its age tells the plugin whether
somebody still looks. Those written lately are kept in memory: decisions refer to them, and the
history keeps the ones that do, so that a decision can be made again from the same bytes.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from sluice.history_db.records import Snapshot as StoredSnapshot
from sluice.policies.core import CoreError
from sluice.policies.snapshot import Snapshot, pack_snapshot, write_snapshot
from sluice.policies.structs import View, new
from sluice.slurm.settings import preempting
from sluice.slurm.troubles import log

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from sluice.slurm.holdings import Holding, Key
    from sluice.slurm.records import QueuedJob, UserDefaults
    from sluice.slurm.settings import Settings

MAX_CORUNNERS = 256  # policies/core/snapshot.h, as MAX_PARTITIONS, which QoS share
MAX_PARTITIONS = 1024
KEPT_BYTES = 16 << 20
KEPT_AT_LEAST = 2  # the one the plugin has, and the one it is about to load

UNLIMITED = 86400  # seconds: how long a job without any limit is taken to go on


class Publisher:
    """Writes snapshots to one path and remembers the latest."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.summary = "nothing published yet"
        self._sequence = 0
        self._refused: frozenset[int] = frozenset()
        self._users: list[UserDefaults] = []
        self._views: list[View] = []
        self._kept: OrderedDict[int, StoredSnapshot] = OrderedDict()
        self._take_up()

    def kept(self, checksum: int) -> StoredSnapshot | None:
        """Return a snapshot written lately, by its checksum."""
        return self._kept.get(checksum)

    @property
    def latest(self) -> StoredSnapshot | None:
        """The one that the plugin has, or is about to load."""
        return next(reversed(self._kept.values()), None)

    def publish(
        self,
        jobs: Sequence[QueuedJob],
        prediction: Callable[[QueuedJob], View | None],
        settings: Settings,
        *,
        holdings: list[Holding],
        waited: Callable[[Key], float],
        lane_speeds: Mapping[str, float],
        is_off: bool,
        now: int,
    ) -> None:
        """Write the state of the cluster at time now (UTC seconds)."""
        lanes = {holding.job.job_id: holding.lane_mask for holding in holdings}
        running = [(job, prediction(job)) for job in jobs if job.is_running]
        unknown = sum(known is None or known.evidence == "none" for _, known in running)
        matter = self._acceptable(
            heaviest((job, known) for job, known in running if known and known.klass != "none"),
            lanes,
            now,
        )
        self._sequence += 1
        self._save_previous()
        state = {
            "sequence": self._sequence,
            "taken": now,
            "flags": ["off"] if is_off else [],
            "running": len(running),
            "pending": sum(job.is_pending for job in jobs),
            "unknown": unknown + len(self._refused),
        }
        content = write_snapshot(
            self.path,
            state=state,
            corunners=matter,
            partitions=_partitions(settings),
            users=self._user_views(settings.users),
            holders=_holders(holdings, waited),
            preempting_qos=settings.preempting_qos[:MAX_PARTITIONS],
            lane_speeds=lane_speeds,
        )
        self._keep(content)
        self.summary = (
            f"{len(running)} jobs run, {len(matter)} of them with I/O that matters, "
            f"{state['unknown']} unknown, {state['pending']} wait"
        )

    def _acceptable(
        self, jobs: list[tuple[QueuedJob, View]], lanes: dict[int, int], now: int
    ) -> list[dict[str, Any]]:
        """Describe the co-runners, without those whose profile the core refuses.

        One bad record must not leave the plugin without any snapshot.
        """
        described = [corunner(job, known, lanes.get(job.job_id, 0), now) for job, known in jobs]
        refused = {row["job_id"]: why for row in described if (why := _refusal(row))}
        for job_id, why in refused.items():
            if job_id not in self._refused:
                log.warning("job %d is left out of the snapshot: %s", job_id, why)
        self._refused = frozenset(refused)
        return [row for row in described if row["job_id"] not in refused]

    def _user_views(self, users: list[UserDefaults]) -> list[View]:
        """Make users ready once, not each round: there may be tens of thousands."""
        if users is not self._users:
            self._users = users
            self._views = [
                View(
                    new(
                        "struct sluice_user",
                        {"uid": user.uid, "account": user.account, "qos": user.qos},
                    )
                )
                for user in users
            ]
        return self._views

    @property
    def _previous(self) -> Path:
        return self.path.with_name(f"{self.path.name}.previous")

    def _take_up(self) -> None:
        """Go on where an earlier sluiced stopped: records may refer to its last snapshots."""
        for path in (self._previous, self.path):
            with suppress(OSError, CoreError):
                self._keep(path.read_bytes())
        self._sequence = max((kept.sequence for kept in self._kept.values()), default=0)

    def _save_previous(self) -> None:
        """Leave the last snapshot to whoever goes on after a crash.

        That may be impossible: the kernel lets nobody link to a file that another user left.
        """
        with suppress(FileNotFoundError):
            self._previous.unlink()
        with suppress(OSError):
            self._previous.hardlink_to(self.path)

    def _keep(self, content: bytes) -> None:
        snapshot = Snapshot.parse(content)
        self._kept[snapshot.checksum] = StoredSnapshot(
            checksum=snapshot.checksum,
            sequence=snapshot.state.sequence,
            taken=snapshot.state.taken,
            content=content,
        )
        while len(self._kept) > KEPT_AT_LEAST and len(self._kept) * len(content) > KEPT_BYTES:
            self._kept.popitem(last=False)


def heaviest(jobs: Iterable[tuple[QueuedJob, View]]) -> list[tuple[QueuedJob, View]]:
    """Return the jobs that press most on storage, as many as a snapshot holds."""
    return sorted(jobs, key=lambda item: _weight(item[1]), reverse=True)[:MAX_CORUNNERS]


def _weight(prediction: View) -> tuple[float, float]:
    profile = prediction.profile
    share = 1.0 if profile.io_share is None else profile.io_share
    return (profile.rate or 0.0) * share, profile.write_bytes or 0.0


def corunner(job: QueuedJob, prediction: View, lane_mask: int, now: int) -> dict[str, Any]:
    return {
        "job_id": job.job_id,
        "nodes": max(job.nodes, 1),
        "lane_mask": lane_mask,  # 0: it holds no token and may write anywhere
        "klass": prediction.klass,
        "expected_end": expected_end(job, prediction.profile.runtime_seconds, now),
        "profile": prediction.profile,
    }


def _refusal(row: dict[str, Any]) -> str | None:
    """Say why the core refuses a co-runner, or None."""
    try:
        Snapshot.parse(pack_snapshot(state={"taken": 0}, corunners=[row]))
    except CoreError as error:
        return str(error)
    return None


def expected_end(job: QueuedJob, usual_runtime: float | None, now: int) -> int:
    """When a running job ends: as its earlier runs did, or at its time limit.

    One that runs longer than its earlier runs may end at any moment until its limit. Slurm's
    seconds are whole ones, rounded down, so one that started in a second ends as late as one
    that started at its end.
    """
    limit = job.end if job.end is not None and job.end > now else None
    if usual_runtime is not None:
        usual = (job.start or now) + 1 + math.ceil(usual_runtime)
        if usual > now:
            return usual if limit is None else min(usual, limit)
    return limit if limit is not None else now + UNLIMITED


def _holders(holdings: list[Holding], waited: Callable[[Key], float]) -> list[dict[str, Any]]:
    """Describe who has tokens, an array once: as the task that has waited longest."""
    rows: dict[int, dict[str, Any]] = {}
    for holding in holdings:
        job_id = holding.job.submission_id
        seconds = math.ceil(waited(holding.key))
        before = rows[job_id]["waited"] if job_id in rows else 0
        rows[job_id] = {
            "job_id": job_id,
            "klass": holding.klass,
            "lane_mask": holding.lane_mask,
            "waited": max(seconds, before),
        }
    return list(rows.values())


def _partitions(settings: Settings) -> list[dict[str, Any]]:
    preempt = preempting(settings)
    return [
        {
            "name": partition.name,
            "qos": partition.qos or "",
            "flags": [
                *(["default"] if partition.is_default else []),
                *(["preempts"] if partition.name in preempt else []),
            ],
        }
        for partition in settings.partitions[:MAX_PARTITIONS]
    ]
