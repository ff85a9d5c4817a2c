"""What sluiced keeps of the queue between polls is what it would make of it from scratch."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import feed_frames as frames
import made_model
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lease_stand_in import LeaseBook

from sluice.policies import core
from sluice.policies.bundle import Bundle
from sluice.policies.record import MIN_TOTAL, Situation, decide, token_names
from sluice.policies.snapshot import Snapshot, pack_snapshot
from sluice.slurm import slurm_commands
from sluice.slurm.gates.controller import GateKeeper, Seen
from sluice.slurm.gates.snapshot import Publisher, Settings
from sluice.slurm.pending_records import Ledger
from sluice.slurm.queue import Answer, FrameReader, Queue
from sluice.slurm.records import License
from sluice.slurm.status import Status

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sluice.policies.core import View
    from sluice.slurm.pending_records import Known, SubmissionKey
    from sluice.slurm.records import LicenseChange, QueuedJob

NOW = made_model.CREATED
SETTINGS = "Mode=enforce\nLane=sl0 Targets=4 Bandwidth=8G\nLane=sl1 Targets=4 Bandwidth=8G\n"
TOTAL = 1_000_000
BOOT = 0xB0
STEP = 10
"""Seconds between two polls."""
FIRST, LAST = 1, 5
ARRAY = 3
"""Jobs from this one on are tasks of one array."""


class Untold:
    """A ledger that never says what it has learned: who asks it starts from scratch."""

    def __init__(self, ledger: Ledger) -> None:
        self.cluster = ledger.cluster
        self._ledger = ledger

    def known(self, job: QueuedJob) -> Known | None:
        return self._ledger.known(job)

    def submission(self, job: QueuedJob) -> View | None:
        return self._ledger.submission(job)

    def learned(self) -> set[SubmissionKey]:
        return set()


@dataclass
class Keeper:
    """A gatekeeper, with leases of its own."""

    starts_over: bool
    told: list[tuple[int, str]] = field(default_factory=list)
    """Which licences jobs were to have, in order."""
    book: LeaseBook = field(default_factory=lambda: LeaseBook(NOW))

    def __post_init__(self) -> None:
        self.gates = GateKeeper(Status(), self._change)

    def _change(self, changes: Sequence[LicenseChange]) -> dict[int, str]:
        self.told += [(one.target, one.licenses) for one in changes]
        return {one.job.job_id: "" for one in changes}

    def bound(self, seen: Seen, ledger: Ledger, config: View) -> None:
        known: Any = Untold(ledger) if self.starts_over else ledger
        mine = replace(seen, reservations=self.book.reservations())
        self.gates.bound(mine, known, config, os.geteuid())

    def poll(self, seen: Seen, config: View, publisher: Publisher) -> None:
        self.book.now = seen.now
        slurm_commands.control = self.book.control
        mine = replace(seen, reservations=self.book.reservations())
        self.gates.poll(mine, config, publisher)

    def view(self) -> dict[str, Any]:
        """Return all that it makes of the queue."""
        loop = self.gates._loop  # noqa: SLF001 # every byte of it
        return {
            "jobs": {job_id: core.View(loop[job_id]).bytes for job_id in sorted(loop)},
            "holders": self.gates.holders(),
            "lanes": self.gates.lanes(),
            "needs room": self.gates.needs_room,
            "releases": dict(self.gates.released),
            "told": self.told,
            "leases": self.book.leases,
        }


class Cluster:
    """A queue, what is known of its jobs, and gatekeepers that follow both."""

    def __init__(self, place, *keepers: Keeper) -> None:
        self.path = place / "model.bundle"
        self.keepers = keepers
        self.queue = Queue(["true"])
        self.ledger = Ledger("lab", started=0)
        self.publisher = Publisher(place / "cluster.snapshot")
        self.now = NOW
        self.told: dict[int, int] = {}
        self.renew_bundle("MaxDelay=30\n")
        self._publish()

    def renew_bundle(self, line: str) -> None:
        text = SETTINGS + line
        self.path.unlink(missing_ok=True)  # another inode: another stamp within the second
        self.path.write_bytes(made_model.named_bundle(text))
        self.config = core.parse_config("sluice.conf", f"{text}Bundle={self.path}\n".encode())
        self.names = token_names(Bundle.load(self.path, os.geteuid()).policy)

    def add_record(self, number: int, *, name: str, is_granted: bool) -> None:
        """Let a record of this number arrive; jobs carry it in their notes."""
        job = core.submission({"name": name, "uid": 1000, "nodes": 1})
        snapshot = Snapshot.parse(pack_snapshot(state={"taken": NOW}))
        situation = Situation(Bundle.load(self.path, os.geteuid()), snapshot)
        made = decide(
            situation, self.config, job, NOW, boot=BOOT, number=number, totals=[MIN_TOTAL] * 2
        )
        if not is_granted:
            made.struct.grant.outcome = core.GRANTS.index("not_needed")
        self.ledger.add(made)

    def poll(self, told: Sequence[bytes], *, idle: int, free: int) -> None:
        """Let Slurm say this, and everybody follow it."""
        self.now += STEP
        answer = Answer()
        for kind, payload in FrameReader().take(b"".join(told) + frames.room(b"main", idle, idle)):
            answer.take(kind, payload)
        changes = self.queue.take(answer)
        seen = Seen(
            self.queue.jobs,
            self.queue.priorities,
            self.queue.reasons,
            changes,
            {token: License(token, TOTAL, 0, TOTAL - free) for token in self.names},
            [],
            answer.room,
            self.now,
            float(self.now),
        )
        for one in self.keepers:
            one.bound(seen, self.ledger, self.config)
        self.ledger.take(changes)
        self.ledger.join(self.now)
        for one in self.keepers:
            one.poll(seen, self.config, self.publisher)
        self._publish()

    def _publish(self) -> None:
        self.publisher.publish(
            self.queue.running.values(),
            self.ledger.prediction,
            self.ledger.submission,
            Settings(),
            pending=self.queue.pending,
            holders=self.keepers[0].gates.holders(),
            lanes=self.keepers[0].gates.lanes(),
            lane_speeds={},
            is_off=False,
            now=self.now,
        )


@pytest.fixture(autouse=True)
def _scontrol(monkeypatch):
    """Put back afterwards what keepers put in its place."""
    monkeypatch.setattr(slurm_commands, "control", None)


STATES = ("PENDING", "PENDING", "PENDING", "RUNNING", "SUSPENDED", "COMPLETED")
REASONS = ("None", "Priority", "Resources", "Licenses", "BeginTime", "Dependency")
LICENSES = ("", "sl0_stream", "sl0_stream,sl1_stream", "sl1_flush,tool", "sl0_stream:2", "tool")


@st.composite
def a_job(draw: st.DrawFn) -> dict[str, Any]:
    """Draw what changes about a job, or makes another of its number."""
    return {
        "submit": NOW + draw(st.integers(0, 1)),
        "restarts": draw(st.integers(0, 1)),
        "state": draw(st.sampled_from(STATES)).encode(),
        "licenses": draw(st.sampled_from(LICENSES)).encode(),
        "nodes": draw(st.integers(1, 2)),
        "eligible": NOW,
    }


@st.composite
def a_step(draw: st.DrawFn) -> dict[str, Any]:
    """Draw what comes about between two polls."""
    numbers = st.integers(FIRST, LAST)
    return {
        "jobs": draw(st.dictionaries(numbers, a_job(), max_size=3)),
        "reasons": draw(st.dictionaries(numbers, st.sampled_from(REASONS), max_size=3)),
        "gone": draw(st.sets(numbers, max_size=2)),
        "priorities": draw(st.dictionaries(numbers, st.integers(0, 3), max_size=2)),
        "records": draw(st.dictionaries(numbers, st.booleans(), max_size=2)),
        "idle": draw(st.integers(0, 2)),
        "free": draw(st.sampled_from((0, 0, 1))),
        "max_delay": draw(st.sampled_from((0, 0, 0, 20, 40))),
    }


def frames_of(step: dict[str, Any]) -> list[bytes]:
    told = [frames.gone(*step["gone"])]
    for job_id, members in step["jobs"].items():
        submission = min(ARRAY, job_id)
        notes = b"sluice(v=1,rec=%x-%d," % (BOOT, submission + 100 * (members["submit"] - NOW))
        told.append(
            frames.job(
                job_id=job_id,
                array_id=ARRAY if job_id >= ARRAY else 0,
                task_ids=b"%d" % job_id if job_id >= ARRAY else b"",
                cpus=members["nodes"],
                start=NOW,
                notes=notes,
                **members,
            )
        )
    for job_id, why in step["reasons"].items():
        told.append(frames.reason(why.encode(), job_id))
    priorities = step["priorities"] | dict.fromkeys(step["jobs"].keys() - step["priorities"], 1)
    return [*told, frames.priorities(priorities)]


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60
)
@given(st.lists(a_step(), min_size=2, max_size=12))
def test_a_view_that_follows_changes_equals_one_made_from_scratch(tmp_path, steps):
    """Jobs come, go, change, are requeued and leave their numbers to others."""
    following, anew = Keeper(starts_over=False), Keeper(starts_over=True)
    cluster = Cluster(tmp_path, following, anew)
    known: set[int] = set()
    for step in steps:
        if step["max_delay"]:
            cluster.renew_bundle(f"MaxDelay={step['max_delay']}\n")
        for job_id, is_granted in step["records"].items():
            for number in {min(job_id, ARRAY), min(job_id, ARRAY) + 100} - known:
                names = (made_model.STREAM_JOB, made_model.FLUSH_JOB)
                cluster.add_record(number, name=names[number % 2], is_granted=is_granted)
                known.add(number)
        cluster.poll(frames_of(step), idle=step["idle"], free=step["free"])
        assert following.view() == anew.view()


WAITING = {
    "submit": NOW,
    "restarts": 0,
    "state": b"PENDING",
    "licenses": b"sl0_stream",
    "nodes": 1,
    "eligible": NOW,
}


def step_of(**members: Any) -> list[bytes]:
    step = {"gone": set(), "priorities": {}, "reasons": {1: "Licenses"}}
    return frames_of(step | {"jobs": {1: WAITING | members}})


@pytest.fixture
def keeper() -> Keeper:
    return Keeper(starts_over=False)


@pytest.fixture
def cluster(tmp_path, keeper) -> Cluster:
    """A queue whose first job has a token that Sluice gave it, and waits for it."""
    made = Cluster(tmp_path, keeper)
    made.renew_bundle("MaxDelay=3600\n")
    made.add_record(1, name=made_model.STREAM_JOB, is_granted=True)
    for _ in range(2):
        made.poll(step_of(eligible=NOW + STEP), idle=2, free=0)
    return made


@pytest.mark.parametrize("other", [{"submit": NOW + 1}, {"restarts": 1}])
def test_who_gets_a_number_again_has_not_waited(keeper, cluster, other):
    cluster.poll([], idle=2, free=0)
    assert keeper.gates.waited(1) == 2 * STEP
    cluster.poll(step_of(eligible=cluster.now + STEP, **other), idle=2, free=0)
    assert keeper.gates.waited(1) == 0


def test_another_reason_or_priority_leaves_a_job_what_it_has_waited(keeper, cluster):
    cluster.poll([frames.reason(b"Priority", 1), frames.priorities({1: 9})], idle=2, free=0)
    assert keeper.gates.waited(1) == 2 * STEP


def test_what_a_failure_kept_from_being_described_is_made_up_for(keeper, cluster, monkeypatch):
    """A change is told once; whatever fails in taking it up, the next poll knows of it."""
    with monkeypatch.context() as patch:
        patch.setattr(cluster.ledger, "known", lambda _job: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            cluster.poll(step_of(licenses=b"tool"), idle=2, free=0)
    assert keeper.gates.holders()
    cluster.poll([], idle=2, free=0)
    assert not keeper.gates.holders()
