"""The snapshot: the running jobs and their I/O, for the plugin's next decisions.

It is written anew each round even if nothing changed, because its age tells the plugin whether
somebody still looks. Those written lately are kept in memory: decisions refer to them, and the
history keeps the ones that do, so that a decision can be made again from the same bytes.
"""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from sluice.history_db.records import Snapshot as StoredSnapshot
from sluice.interference.target_speeds import Lanes, slow_targets, speeds_of_lanes
from sluice.policies import core
from sluice.policies.container import write_atomically
from sluice.policies.core import CoreError
from sluice.policies.snapshot import Snapshot, pack_snapshot, packed
from sluice.slurm import slurm_commands
from sluice.slurm.gates.target_states import TargetState
from sluice.slurm.status import log

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
    from pathlib import Path

    from sluice.history_db.store import Store
    from sluice.policies.core import View
    from sluice.slurm.records import Controller, Partition, QueuedJob, UserDefaults


INTERVAL = 60.0  # seconds
CONTROLLER_INTERVAL = 1.0
"""Of the controller's settings: what PrivateData hides must not lag behind slurm.conf."""
BY_PARTITION = "preempt/partition_prio"
BY_QOS = "preempt/qos"


class Settings:
    """The controller's settings, its partitions and its users' defaults."""

    def __init__(self) -> None:
        self.controller: Controller | None = None
        self.partitions: list[Partition] = []
        self.users: list[UserDefaults] = []
        self.preempting_qos: list[str] = []
        """Names of the QoS whose jobs may preempt those of others."""
        self._due = 0.0
        self._controller_due = 0.0

    def refresh(self) -> Controller:
        """Ask Slurm again when the last answers are old; return the controller's settings."""
        now = time.monotonic()
        if self.controller is None or now >= self._controller_due:
            self.controller = slurm_commands.controller()
            self._controller_due = now + CONTROLLER_INTERVAL
        if now >= self._due:
            self.partitions = slurm_commands.partitions()
            self.users = slurm_commands.user_defaults(self.controller.cluster)
            self.preempting_qos = (
                slurm_commands.preempting_qos() if self.controller.preempt_type == BY_QOS else []
            )
            self._due = now + INTERVAL
        return self.controller


def preempting(settings: Settings) -> set[str]:
    """Names of the partitions whose jobs may preempt those of others, by slurm.conf(5)."""
    if settings.controller is None or settings.controller.preempt_type != BY_PARTITION:
        return set()
    return {
        partition.name
        for partition in settings.partitions
        if any(
            other.tier < partition.tier and other.preempt_mode != "OFF"
            for other in settings.partitions
        )
    }


REFRESH_SECONDS = 60


class LaneSpeeds:
    """Speeds of the slow lanes, by name; all others go at full speed."""

    def __init__(self) -> None:
        self.latest: dict[str, float] = {}
        self.targets: dict[tuple[int, int], float] = {}
        """Speeds of slow targets of lanes with blocks, by lane and number."""
        self._asked: int | None = None

    def refresh(self, store: Store, config: View, now: int) -> None:
        """Ask the history again, if that was long ago. If that fails, nothing is slow."""
        if self._asked is not None and 0 <= now - self._asked < REFRESH_SECONDS:
            return
        before, self.latest = self.latest, {}
        slow_before, self.targets = self.targets, {}
        self._asked = now
        lanes = Lanes.of(config)
        found = speeds_of_lanes(store, lanes, now, was_slow=before.keys())
        speeds = {one.target: one.published_after(was_slow=one.target in before) for one in found}
        self.latest = {lane: speed for lane, speed in speeds.items() if speed < 1}
        for lane in sorted(self.latest.keys() - before.keys()):
            log.info("lane %s is slow: %.0f %% of its peers", lane, 100 * self.latest[lane])
        for lane in sorted(before.keys() - self.latest.keys()):
            log.info("lane %s is slow no longer", lane)
        self.targets = slow_targets(store, lanes, now, was_slow=slow_before.keys())

    def with_states(self, states: Mapping[tuple[int, int], TargetState]) -> list[dict[str, float]]:
        """Return what is seen of targets (struct sluice_target)."""
        unknown = TargetState(0.0, 0.0, is_down=False)
        return [
            {
                "lane": number[0],
                "target": number[1],
                "missing": 1 - self.targets.get(number, 1.0),
                "used": states.get(number, unknown).used,
                "capacity": states.get(number, unknown).capacity,
                "is_closed": int(states.get(number, unknown).is_down),
            }
            for number in sorted(self.targets.keys() | states.keys())
        ]


MAX_CORUNNERS = 256  # policies/files/snapshot.h, as the next ones; QoS share MAX_PARTITIONS
MAX_PARTITIONS = 1024
MAX_PLACED = 65536
KEPT_BYTES = 4 << 20
KEPT_AT_LEAST = 2  # the one the plugin has, and the one it is about to load


UNLIMITED = 86400  # seconds: how long a job without any limit is taken to go on


class Publisher:
    """Writes snapshots to one path and remembers the latest."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.summary = "nothing published yet"
        self._sequence = 0
        self._refused: frozenset[int] = frozenset()
        self._rows: dict[int, Row] = {}
        self._users: list[UserDefaults] = []
        self._user_bytes = b""
        self._partitions: list[Partition] = []
        self._partition_bytes = b""
        self._corunners: dict[int, bytes] = {}
        self._placed: dict[int, tuple[QueuedJob, int, View, bytes]] = {}
        self._parts: dict[str, Any] = {}
        """All else of the latest snapshot."""
        self._kept: OrderedDict[int, StoredSnapshot] = OrderedDict()
        self.parsed: Snapshot | None = None
        """The latest one, as the core reads it."""
        self._take_up()

    def kept(self, checksum: int) -> StoredSnapshot | None:
        """Return a snapshot written lately, by its checksum."""
        return self._kept.get(checksum)

    @property
    def latest(self) -> StoredSnapshot | None:
        """The one that the plugin has, or is about to load."""
        return next(reversed(self._kept.values()), None)

    def loads(self, policy: View) -> list[LaneLoad]:
        """Return what the latest snapshot's jobs are expected to write."""
        latest = self.latest
        return lane_loads(policy, Snapshot.parse(latest.content).corunners()) if latest else []

    @property
    def corunners(self) -> Collection[int]:
        """The jobs that the latest snapshot has as co-runners."""
        return self._corunners.keys()

    def alongside(self, job_ids: Collection[int]) -> StoredSnapshot:
        """Return the latest snapshot as it would be if no others of its co-runners ran."""
        corunners = [content for job_id, content in self._corunners.items() if job_id in job_ids]
        content = pack_snapshot(corunners=corunners, **self._parts)
        return _stored(content, Snapshot.parse(content))

    def publish(
        self,
        jobs: Iterable[QueuedJob],
        prediction: Callable[[QueuedJob], View | None],
        submission: Callable[[QueuedJob], View | None],
        settings: Settings,
        *,
        pending: int,
        holders: bytes,
        lanes: Mapping[int, int],
        lane_speeds: Mapping[str, float],
        placed: Iterable[tuple[QueuedJob, int]] = (),
        targets: Sequence[Mapping[str, float]] = (),
        is_off: bool,
        now: int,
    ) -> None:
        """Write the state of the cluster at time now (UTC seconds).

        jobs are those that run, and pending is how many wait; holders is packed, of those that
        have tokens; lanes is a mask by job id, of those of them that run; placed are jobs with a
        block, and its lane; targets is what is seen of those that blocks consist of.
        """
        running = self._follow(jobs, prediction, submission)
        unknown = sum(row.is_unknown for row in running)
        matter = self._acceptable(running, lanes, now)
        self._sequence += 1
        self._save_previous()
        state = {
            "sequence": self._sequence,
            "taken": now,
            "flags": ["off"] if is_off else [],
            "running": len(running),
            "pending": pending,
            "unknown": unknown + len(self._refused),
        }
        self._corunners = matter
        self._parts = {
            "state": state,
            "partitions": self._packed_partitions(settings),
            "users": self._packed_users(settings.users),
            "holders": [holders],
            "preempting_qos": settings.preempting_qos[:MAX_PARTITIONS],
            "lane_speeds": dict(lane_speeds),
            "placed": self._packed_placed(placed, prediction),
            "targets": targets,
        }
        content = pack_snapshot(corunners=list(matter.values()), **self._parts)
        parsed = Snapshot.parse(content)  # what the core refuses is never written
        write_atomically(self.path, content)
        self._keep(content, parsed)
        self.summary = (
            f"{len(running)} jobs run, {len(matter)} of them with I/O that matters, "
            f"{state['unknown']} unknown, {state['pending']} wait"
        )

    def _follow(
        self,
        jobs: Iterable[QueuedJob],
        prediction: Callable[[QueuedJob], View | None],
        submission: Callable[[QueuedJob], View | None],
    ) -> list[Row]:
        """Return the running jobs; of those that are as they were, as they were."""
        before, self._rows = self._rows, {}
        for job in jobs:
            known = prediction(job)
            row = before.get(job.job_id)
            if row is None or row.job is not job or row.known is not known:
                row = Row(job, known, submission(job))
            self._rows[job.job_id] = row
        return list(self._rows.values())

    def _acceptable(
        self, running: Iterable[Row], lanes: Mapping[int, int], now: int
    ) -> dict[int, bytes]:
        """Describe the co-runners by job id, without those whose profile the core refuses.

        One bad record must not leave the plugin without any snapshot.
        """
        found: dict[int, bytes] = {}
        refused = set()
        for row in heaviest(row for row in running if row.matters):
            try:
                found[row.job.job_id] = row.corunner(lanes.get(row.job.job_id, 0), now)
            except CoreError as error:
                refused.add(row.job.job_id)
                if row.job.job_id not in self._refused:
                    log.warning("job %d is left out of the snapshot: %s", row.job.job_id, error)
        self._refused = frozenset(refused)
        return found

    def _packed_placed(
        self,
        placed: Iterable[tuple[QueuedJob, int]],
        prediction: Callable[[QueuedJob], View | None],
    ) -> list[bytes]:
        """Pack those that are no co-runners; of those that are as they were, as they were."""
        before, self._placed = self._placed, {}
        for job, lane in placed:
            known = prediction(job)
            if job.job_id in self._corunners or known is None or not core.counts(known):
                continue
            row = before.get(job.job_id)
            if row is None or row[:3] != (job, lane, known):
                row = (job, lane, known, _packed_place(job, lane, known))
            self._placed[job.job_id] = row
        return [row[3] for row in list(self._placed.values())[:MAX_PLACED]]

    def _packed_users(self, users: list[UserDefaults]) -> list[bytes]:
        """Pack users once, not each round: there may be tens of thousands."""
        if users is not self._users:
            self._users = users
            self._user_bytes = b"".join(
                packed(
                    "struct sluice_user",
                    {"uid": user.uid, "account": user.account, "qos": user.qos},
                )
                for user in sorted(users, key=lambda user: user.uid)
            )
        return [self._user_bytes]

    def _packed_partitions(self, settings: Settings) -> list[bytes]:
        if settings.partitions is not self._partitions:
            self._partitions = settings.partitions
            self._partition_bytes = b"".join(
                packed("struct sluice_partition", row) for row in _partitions(settings)
            )
        return [self._partition_bytes]

    @property
    def _previous(self) -> Path:
        return self.path.with_name(f"{self.path.name}.previous")

    def _take_up(self) -> None:
        """Go on where an earlier sluiced stopped: records may refer to its last snapshots."""
        for path in (self._previous, self.path):
            with suppress(OSError, CoreError):
                content = path.read_bytes()
                self._keep(content, Snapshot.parse(content))
        self._sequence = max((kept.sequence for kept in self._kept.values()), default=0)

    def _save_previous(self) -> None:
        """Leave the last snapshot to the next sluiced after a crash.

        That may be impossible: the kernel lets no user link to a file that another one left.
        """
        with suppress(FileNotFoundError):
            self._previous.unlink()
        with suppress(OSError):
            self._previous.hardlink_to(self.path)

    def _keep(self, content: bytes, parsed: Snapshot) -> None:
        self.parsed = parsed
        snapshot = _stored(content, parsed)
        self._kept[snapshot.checksum] = snapshot
        while len(self._kept) > KEPT_AT_LEAST and len(self._kept) * len(content) > KEPT_BYTES:
            self._kept.popitem(last=False)


def _stored(content: bytes, snapshot: Snapshot) -> StoredSnapshot:
    state = snapshot.state
    return StoredSnapshot(snapshot.checksum, state.sequence, state.taken, content)


class Row:
    """What a running job is in a snapshot; made again only when job or prediction change."""

    __slots__ = (
        *("_packed", "is_unknown", "job", "known", "matters", "runtime", "submission", "weight"),
    )

    def __init__(self, job: QueuedJob, known: View | None, submission: View | None) -> None:
        self.job = job
        self.known = known
        self.submission = submission
        self.is_unknown = known is None or known.evidence == "none"
        self.matters = known is not None and known.klass != "none"
        self.weight = _weight(known) if known is not None and self.matters else (0.0, 0.0)
        self.runtime = known.profile.runtime_seconds if known is not None else None
        self._packed: tuple[int, int, bytes] | None = None
        """Lanes, expected end, and the bytes made of them."""

    def corunner(self, lane_mask: int, now: int) -> bytes:
        """Pack it. Raises CoreError where the core refuses it."""
        end = expected_end(self.job, self.runtime, now)
        if self._packed is None or self._packed[:2] != (lane_mask, end):
            content = packed("struct sluice_corunner", self._described(lane_mask, end))
            if self._packed is None:
                Snapshot.parse(pack_snapshot(state={"taken": 0}, corunners=[content]))
            self._packed = (lane_mask, end, content)
        return self._packed[2]

    def _described(self, lane_mask: int, end: int) -> dict[str, Any]:
        known = self.known
        return {
            "job_id": self.job.job_id,
            "nodes": max(self.job.nodes, 1),
            "lane_mask": lane_mask,  # 0: it holds no token and may write anywhere
            "klass": known.klass if known else "none",
            "expected_end": end,
            "block": _block(self.job) if lane_mask.bit_count() == 1 else None,
            "identity": core.identity_of(self.submission) if self.submission else None,
            # turns go by what jobs are predicted to write, too
            "profile": known.profile if known and core.counts(known) else None,
        }


def _block(job: QueuedJob) -> dict[str, int]:
    return dict(zip(("first", "count"), job.block, strict=True))


def _packed_place(job: QueuedJob, lane: int, known: View) -> bytes:
    place = {
        "lane": lane,
        "block": _block(job),
        "duty": known.profile.io_share or 0.0,
        "nodes": float(max(job.nodes, 1)),
    }
    return packed("struct sluice_placed_job", place)


def heaviest(rows: Iterable[Row]) -> list[Row]:
    """Return the jobs that press most on storage, as many as a snapshot holds."""
    return sorted(rows, key=lambda row: row.weight, reverse=True)[:MAX_CORUNNERS]


def _weight(prediction: View) -> tuple[float, float]:
    profile = prediction.profile
    share = 1.0 if profile.io_share is None else profile.io_share
    moved = (profile.write_bytes or 0.0) + (profile.read_bytes or 0.0)
    return (profile.rate or 0.0) * share, moved


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


class LaneLoad(NamedTuple):
    """What running jobs are expected to write to a lane, on the average."""

    lane: str
    """`all` where the policy has no lanes."""
    jobs: int
    rate: float
    """B/s."""
    bandwidth: float | None

    @property
    def share(self) -> float | None:
        return self.rate / self.bandwidth if self.bandwidth else None


def mean_of(profile: View, name: str) -> float | None:
    """Return a rate of a job's I/O (`rate`, `metadata_rate`) in the mean of its run; None: unknown.

    The rate itself is that while it has I/O.
    """
    rate = getattr(profile, name)
    if rate is None:
        return None
    return float(rate * (1.0 if profile.io_share is None else profile.io_share))


def lane_loads(policy: View, corunners: Sequence[View]) -> list[LaneLoad]:
    """Add up what a snapshot's jobs write, in the order of the policy's lanes."""
    lanes = policy.lanes or (None,)
    found = []
    for bit, lane in enumerate(lanes):
        here = [one for one in corunners if not one.lane_mask or one.lane_mask >> bit & 1]
        rate = sum(
            (mean_of(one.profile, "rate") or 0.0) / (one.lane_mask.bit_count() or len(lanes))
            for one in here
        )
        bandwidth = (lane.bandwidth or None) if lane else None
        found.append(LaneLoad(lane.name if lane else "all", len(here), rate, bandwidth))
    return found
