"""Watches the decision core in a replay: each decision, and what it was made from."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from typing import Any

from sluice.policies import core
from sluice.policies._core import ffi as core_ffi
from sluice.policies.bundle import Bundle
from sluice.policies.control import Loop, new_facts
from sluice.policies.snapshot import pack_snapshot
from sluice.policies.structs import View
from sluice.sim import engine
from sluice.sim._engine import ffi, lib
from sluice.sim.policies.policies import POLICIES, Options, Question
from sluice.sim.replay.io_replay import with_room_for_io
from sluice.sim.storage.mean_field import Contention

EPOCH = 1_600_000_000
JOB_SIZE = core_ffi.sizeof("struct sluice_control_job")


@dataclass(frozen=True)
class Decided:
    """One decision of a replay."""

    time: int
    """UTC seconds."""
    job: int
    request: dict[str, Any]
    """Members of struct sluice_request."""
    submission: bytes
    decision: bytes
    corunners: tuple[dict[str, Any], ...]
    """Members of struct sluice_corunner."""
    placed: tuple[dict[str, Any], ...] = ()
    """Members of struct sluice_placed_job: those that waited."""
    targets: tuple[dict[str, Any], ...] = ()
    """Members of struct sluice_target."""
    turn: int = 0
    """For how many jobs a block had been chosen."""
    block: tuple[int, int] = (0, 0)
    """That was chosen: first and count."""

    def snapshot(self, sequence: int = 1) -> bytes:
        """Return a snapshot of who ran, as sluiced would publish it."""
        return snapshot_of(
            self.time, self.corunners, sequence, placed=self.placed, targets=self.targets
        )


def snapshot_of(
    taken: int, corunners: tuple[dict[str, Any], ...], sequence: int = 1, **more: Any
) -> bytes:
    state = {"sequence": sequence, "taken": taken, "running": len(corunners)}
    return pack_snapshot(state=state, corunners=corunners, **more)


@dataclass(frozen=True)
class Polled:
    """One call of the control loop in a replay: what it was handed, and what it made of it."""

    is_bound: bool
    """sluice_control_bound, which needs neither co-runners nor submissions."""
    before: bytes
    """The jobs; facts_before is what else there was."""
    facts_before: bytes
    submissions: tuple[bytes | None, ...]
    corunners: tuple[dict[str, Any], ...]
    after: bytes = b""
    facts_after: bytes = b""
    gates: bytes = b""

    def loop(self) -> Loop[int]:
        """Return a loop of these jobs, by their places in the array."""
        loop: Loop[int] = Loop()
        for place in range(len(self.before) // JOB_SIZE):
            row = core_ffi.addressof(loop.add(place))
            core_ffi.buffer(row)[:] = self.before[place * JOB_SIZE :][:JOB_SIZE]
        return loop

    def submission(self, place: int) -> View | None:
        """Return what the job at this place was submitted with."""
        content = self.submissions[place]
        return None if content is None else view_of(content)

    def facts(self) -> Any:
        facts = new_facts()
        core_ffi.buffer(facts)[:] = self.facts_before
        return facts

    def snapshot(self) -> bytes:
        """Return a snapshot of who ran, as sluiced would publish it."""
        return snapshot_of(self.facts().now, self.corunners)


class Watched:
    """Stands between engine and policy; the same calls reach the policy in the same order."""

    def __init__(self, replayable, site, *, profiles, storage, policy, **options) -> None:
        work = with_room_for_io(replayable, profiles).workload
        question = Question(work, profiles, storage, Options(**options), EPOCH)
        plan = POLICIES[policy].plan(question)
        self.core, self.jobs = plan.decider, work.jobs
        self.bundle = Bundle.parse(self.core.site.bundle)
        self.config = core.parse_config("sluice.conf", self.core.site.config.encode())
        self.decided: list[Decided] = []
        self.running: dict[int, dict[str, Any]] = {}
        self.usual_ends: dict[int, int] = {}
        self.polled: list[Polled] = []
        self._waiting: dict[int, dict[str, Any]] = {}
        self._targets: tuple[dict[str, Any], ...] = ()
        self._looked = -math.inf
        self._turn = 0
        self._inner = self.core.table
        self._watch = ffi.callback("sluice_core_watch *", self._see)
        lib.sluice_core_policy_watch(self.core.handle, self._watch, ffi.NULL)
        config = storage.configuration()
        contention = Contention(config, profiles.loads(work, config))
        self._callbacks = self._table()
        self.results = engine.run(
            work, site.settings, storage=contention.storage, policy=self._callbacks[0]
        )

    def _see(self, _watcher, moment, queue):
        jobs = bytes(ffi.buffer(queue.jobs, queue.count * JOB_SIZE))
        facts = bytes(ffi.buffer(queue.facts))
        if moment in {lib.SLUICE_CORE_AFTER_BOUND, lib.SLUICE_CORE_AFTER_POLL}:
            gates = bytes(ffi.buffer(queue.gates))
            self.polled[-1] = replace(self.polled[-1], after=jobs, facts_after=facts, gates=gates)
            return
        is_bound = moment == lib.SLUICE_CORE_BEFORE_BOUND
        submissions = [
            bytes(ffi.buffer(one)) if one else None
            for one in queue.submissions[0 : 0 if is_bound else queue.count]
        ]
        running = self._corunners(int(queue.facts.now))
        self.polled.append(Polled(is_bound, jobs, facts, tuple(submissions), running))

    def _corunners(self, now: int) -> tuple[dict[str, Any], ...]:
        """Return those that run; one that runs for longer than usual may until its limit."""
        return tuple(
            {**self.running[job], "expected_end": self.usual_ends[job]}
            if self.usual_ends.get(job, 0) > now
            else self.running[job]
            for job in sorted(self.running)
        )

    def _table(self) -> tuple[Any, ...]:
        kind = ffi.typeof("struct sluice_replay_policy")
        calls = []
        table = ffi.new("struct sluice_replay_policy *")
        for name, field in kind.fields:
            if name == "self":
                continue
            call = ffi.callback(field.type, getattr(self, f"_{name}"))
            setattr(table, name, call)
            calls.append(call)
        return table, *calls

    def _submitted(self, _self, now, job, choice):
        before = self._corunners(EPOCH + math.floor(now))
        self._look(now)
        placed, turn = tuple(self._waiting.values()), self._turn
        self._inner.submitted(self._inner.self, now, job, choice)
        block = choice.block.first, choice.block.count
        self._note(now, before, placed=placed, targets=self._targets, turn=turn, block=block)
        if choice.block.count:
            self._turn += 1
            profile = self.bundle.predict(submission_view(self._submission(job))).profile
            self._waiting[job] = {
                "lane": 0,
                "block": {"first": block[0], "count": block[1]},
                "duty": profile.io_share,
                "nodes": float(self.jobs["slots"][job]),
            }

    def _look(self, now):
        """See how full the targets of the one lane are, once a minute as the core does."""
        if now < self._looked + 60.0:
            return
        used = (self._storage.filled(self._storage.self, i) for i in itertools.count())
        targets = enumerate(itertools.takewhile(lambda one: one >= 0, used))
        self._targets = tuple({"lane": 0, "target": i, "used": one} for i, one in targets)
        self._looked = now

    def _starting(self, _self, now, job, choice):
        before = self._corunners(EPOCH + math.floor(now))
        self._inner.starting(self._inner.self, now, job, choice)
        self._note(now, before)

    def _started(self, _self, now, job):
        self._inner.started(self._inner.self, now, job)
        prediction = self.bundle.predict(submission_view(self._submission(job)))
        if prediction.klass != "none":
            limit = float(min(self.jobs["limit"][job], 1e9))
            self.running[job] = {
                "job_id": job,
                "nodes": int(self.jobs["slots"][job]),
                "lane_mask": self._result(job).lane_mask,
                "klass": prediction.klass,
                "expected_end": EPOCH + math.floor(now + limit),
                "profile": prediction.profile,
                "block": self._waiting.pop(job, {}).get("block"),
            }
            began = EPOCH + math.floor(now)
            usual = prediction.profile.runtime_seconds
            if 0 < usual < self.running[job]["expected_end"] - began:
                self.usual_ends[job] = began + 1 + math.ceil(usual)

    def _begins(self, _self, storage):
        self._storage = storage
        self._inner.begins(self._inner.self, storage)

    def _ended(self, _self, now, job):
        self._inner.ended(self._inner.self, now, job)
        self.running.pop(job, None)

    def _result(self, job: int) -> Any:
        return lib.sluice_core_policy_results(self.core.handle)[job]

    def _submission(self, job: int) -> Any:
        out = ffi.new("struct sluice_submission *")
        lib.sluice_core_submission(self.core.setup, job, out)
        return out

    def _note(self, now: float, corunners: tuple[dict[str, Any], ...], **more: Any) -> None:
        count = ffi.new("uint32_t *")
        made = lib.sluice_core_policy_decisions(self.core.handle, count)
        for row in made[0 : count[0]]:
            submission = self._submission(row.job)
            self.decided.append(
                Decided(
                    EPOCH + math.floor(now),
                    row.job,
                    self._request(submission),
                    bytes(ffi.buffer(submission)),
                    bytes(ffi.buffer(ffi.addressof(row, "decision"))),
                    corunners,
                    **more,
                )
            )

    @staticmethod
    def _request(submission: Any) -> dict[str, Any]:
        return {
            "uid": submission.uid,
            "nodes": submission.nodes,
            "time_limit": submission.time_limit,
            "name": ffi.string(submission.name).decode(),
            "script": "#!/bin/sh\n",
            "io_dir": 1,
        }


def submission_view(struct: Any) -> View:
    """Take a struct of the engine's library over into that of the core."""
    return view_of(bytes(ffi.buffer(struct)))


def view_of(content: bytes) -> View:
    copy = core_ffi.new("struct sluice_submission *")
    core_ffi.buffer(copy)[:] = content
    return View(copy)
