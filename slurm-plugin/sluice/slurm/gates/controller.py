"""Applies the verdicts of the control loop on a live cluster: releases, exchanges, leases.

The core says which jobs wait, change lanes or are released, and how large the gates are
(policies/core/control.h); here is what it needs from Slurm, and what Slurm is told.

The bound comes first. `bound` releases the jobs that have waited long enough; it needs the queue
and nothing else, so no fault of the history, the bundle, the snapshot or a lease delays it.
`poll` then renews the leases, each of which stands alone. What fails here leaves leases to run
out, and with them the gates open.
"""

from __future__ import annotations

import secrets
import time
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sluice.history_db.records import Holder, Release, RunningSet
from sluice.policies import control, core
from sluice.policies.bundle import Bundle
from sluice.policies.core import CLASSES, CoreError
from sluice.policies.record import MIN_TOTAL, Situation, token_names
from sluice.policies.snapshot import Snapshot
from sluice.policies.structs import text_of
from sluice.slurm import service, slurm_commands
from sluice.slurm.gates.gate_status import delete_leases
from sluice.slurm.gates.leases import (
    Account,
    Audit,
    Holding,
    TokenCount,
    accounts,
    exchange_of,
    holding_of,
    leases,
    plan,
    release_of,
    reserved_for,
)
from sluice.slurm.record_receiver import decision_of
from sluice.slurm.records import SlurmError
from sluice.slurm.status import LEASES, NOT_RENEWED, REFUSED, log

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from sluice.history_db.records import Decision
    from sluice.history_db.records import Snapshot as StoredSnapshot
    from sluice.history_db.store import Store
    from sluice.policies.control import Action
    from sluice.policies.core import Config, View
    from sluice.policies.record import Record
    from sluice.slurm.gates.snapshot import Publisher
    from sluice.slurm.pending_records import Known, Ledger, SubmissionKey
    from sluice.slurm.queue import Changes, Queue
    from sluice.slurm.records import License, LicenseChange, QueuedJob, Reservation, Room
    from sluice.slurm.status import Status

ROUNDS = 4
"""A lease lasts so many rounds at least, or it would run out between two of them."""
GRACE = 2
"""Polls beyond MaxDelay after which a gate is given up."""
LEAVE_TIMEOUT = 5.0
"""Seconds to delete the leases in when sluiced ends; without that they run out."""
SHOWN = 3
"""Jobs or tokens that a text names."""
NO_PRESSURE = control.no_pressure()
PRESSURES = 10_000
"""Of predictions and lanes, kept for all jobs."""
KEPT_SETS = 30 * 86400
"""Seconds for which the history keeps which jobs ran together."""

CLASS_NUMBERS = {klass: number for number, klass in enumerate(CLASSES)}

NOT_YET = frozenset(
    {"BeginTime", "Dependency", "DependencyNeverSatisfied", "JobHeldAdmin", "JobHeldUser"}
)
"""Reasons of jobs that do not start before something happens to them."""
NEXT = frozenset({"None", "Licenses", "Resources"})
"""Reasons of jobs that may start next; others wait behind them."""
QUEUES = frozenset({"None", "Priority", "Resources"})
"""Reasons of jobs that wait for nodes, and for nothing else that Slurm names."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What Slurm said at one poll."""

    jobs: Mapping[int, QueuedJob]
    """By job id."""
    priorities: Mapping[int, int]
    """By job id, as the next."""
    reasons: Mapping[int, str]
    """Why jobs wait."""
    changes: Changes
    """Since the poll before."""
    licenses: Mapping[str, License]
    reservations: Sequence[Reservation]
    room: Mapping[str, Room]
    """By partition; what is missing is unknown."""
    now: int
    """UTC seconds."""
    clock: float
    """Seconds that never go back."""

    @classmethod
    def of(cls, queue: Queue, changes: Changes, now: int) -> Seen:
        """Take what the latest poll told; now is the time before it."""
        return cls(
            queue.jobs,
            queue.priorities,
            queue.reasons,
            changes,
            queue.licenses,
            queue.reservations,
            queue.room,
            now,
            time.monotonic(),
        )


class Unstored:
    """What the history is still to be told: a disk that is full must not delay a release."""

    LIMIT = 10_000

    def __init__(self) -> None:
        self.lost = 0
        self._writes: list[Callable[[Store], object]] = []

    def add(self, write: Callable[[Store], object]) -> None:
        if len(self._writes) == self.LIMIT:
            del self._writes[0]
            self.lost += 1
        self._writes.append(write)

    def flush(self, store: Store) -> None:
        """Tell the history, in order; raise HistoryError and keep what it did not take."""
        while self._writes:
            self._writes[0](store)
            del self._writes[0]


class GateKeeper:
    """What sluiced remembers of the gates from poll to poll.

    Jobs are described to the loop when they change. After any failure in doing so all of them are,
    so that no job's wait is forgotten.
    """

    def __init__(
        self, status: Status, change: Callable[[Sequence[LicenseChange]], Mapping[int, str]]
    ) -> None:
        """Change is what tells Slurm jobs' licences (queue.py)."""
        self.released: Counter[str] = Counter()
        """Jobs whose tokens were taken off since sluiced started, by reason."""
        self.balance: list[Account] = []
        """The tokens as audited at the last poll; empty where nothing is enforced."""
        self.unstored = Unstored()
        self._status = status
        self._change = change
        self._loop: control.Loop[int] = control.Loop()
        self._is_whole = False
        """The loop has every job of the last poll as it was."""
        self._facts = control.new_facts()
        self._facts.boot = secrets.randbits(64) or 1
        self._ledger: Ledger | None = None
        """The one that they were described by."""
        self._restarts: dict[int, int] = {}
        """By job id, of those that were requeued."""
        self._holdings: dict[int, Holding] = {}
        """By job id, as everything here: the jobs that hold or want tokens."""
        self._running: dict[int, Holding] = {}
        """Those of them that hold tokens."""
        self._others: dict[int, QueuedJob] = {}
        """Running jobs that matter to storage and have no tokens."""
        self._counted = TokenCount()
        """What all of them hold and want."""
        self._holders: bytes | None = None
        """What the snapshot has of them; None where that has changed."""
        self._pressures: dict[tuple[View, int], Any] = {}
        """By prediction and lanes: many jobs are alike."""
        self._partitions: dict[str, int] = {}
        self._bundle: Bundle | None = None
        self._bundle_stamp: service.Stamp | None = None
        self._config: Config = core.default_config()
        self._policy: View = self._config.policy
        self._names: dict[str, tuple[int, str]] = {}
        self._restored: dict[int, int] = {}
        self._restored_at = 0
        self._commanded: dict[int, Release] = {}
        self._refusals: dict[int, str] = {}
        """Why the latest release of a job was not made."""
        self._wanted: dict[str, int] = {}
        """Of each token, what the leases of the last poll were to reserve."""
        self._lease_error = ""
        self._audit = Audit()
        self._recorded: RunningSet | None = None
        self._may_have_leases = True  # of an earlier sluiced

    def holders(self) -> bytes:
        """Return the jobs with tokens, packed for a snapshot."""
        if self._holders is None or self._facts.charged:
            self._holders = self._loop.holders()
        return self._holders

    def lanes(self) -> dict[int, int]:
        """Return the mask of the lanes of each job that holds tokens."""
        return {job_id: holding.lane_mask for job_id, holding in self._running.items()}

    def placed(self) -> list[tuple[QueuedJob, int]]:
        """Return the jobs that hold or want tokens of one lane and have a block there, and it."""
        if not any(lane.has_blocks for lane in self._policy.lanes):
            return []
        return [
            (holding.job, holding.lane_mask.bit_length() - 1)
            for holding in self._holdings.values()
            if holding.job.block[1] and holding.lane_mask.bit_count() == 1
        ]

    @property
    def needs_room(self) -> bool:
        """Whether it matters which jobs could start: one waits for tokens."""
        return len(self._holdings) > len(self._running)

    def restore(self, snapshot: StoredSnapshot | None) -> None:
        """Take up the waits that an earlier sluiced had counted."""
        if snapshot is not None:
            self._restored = Snapshot.parse(snapshot.content).waited()
            self._restored_at = snapshot.taken

    def waited(self, job_id: int) -> float:
        """Return the seconds for which a job's tokens may have kept it."""
        return float(self._loop[job_id].memory.waited) if job_id in self._loop else 0.0

    def charged(self) -> tuple[float, float]:
        """Return what the latest poll charged all jobs, and the longest wait of one, in seconds."""
        return float(self._facts.charged), float(self._facts.longest)

    def bound(self, seen: Seen, ledger: Ledger | None, config: Config, slurm_uid: int) -> None:
        """Release the jobs that have waited long enough, and those that Sluice gave no tokens."""
        self._take_settings(config, slurm_uid)
        self._follow(seen, ledger)
        self._keep_effects(seen)
        self._state_facts(seen, config, ledger)
        rooms = self._rooms(seen.room)
        self._loop.find_room(rooms, len(rooms), self._facts)
        self._loop.bound(self._facts)
        self._release(self._loop.actions(), seen)
        self._restored = {}
        self._tell(REFUSED, self._refused())

    def poll(self, seen: Seen, config: Config, publisher: Publisher) -> None:
        """Decide again, exchange tokens, and impose the gates; `bound` has been called."""
        is_enforcing = not self._facts.is_off
        snapshot, parsed = publisher.latest, publisher.parsed
        if self._bundle is None or snapshot is None or parsed is None or not is_enforcing:
            self.balance = []
            self.open_all()
            return
        self._facts.version = parsed.version ^ config.checksum ^ self._bundle.checksum
        commanded = len(self._loop.actions())
        situation = Situation(self._bundle, parsed)
        gates = self._loop.poll(situation, config, self._facts, self._submission_of)
        actions = self._loop.actions()[commanded:]
        self._keep_decisions(actions, snapshot)
        self._release(actions, seen)
        self._exchange(actions, seen)
        self._impose(gates, seen, config)

    def decide_started(self, seen: Seen, config: Config, publisher: Publisher) -> None:
        """Decide again on jobs that have just started and that no token kept until then.

        publisher has published the snapshot of these jobs. The history hears of it next.
        """
        if self._bundle is None or self._ledger is None:
            return
        self._take_learned(seen, self._ledger)
        rows: list[tuple[StoredSnapshot, Decision]] = []
        for job_id, before in self._loop.starts(self._facts):
            job = seen.jobs[job_id]
            submission = self._ledger.submission(job)
            if submission is None or job_id not in publisher.corunners:
                continue
            snapshot = publisher.alongside(set(before))
            situation = Situation(self._bundle, Snapshot.parse(snapshot.content))
            record = self._loop.decide(job_id, submission, situation, config, self._facts)
            rows.append((snapshot, _again(record, job)))
        self._keep_rows(rows)

    def open_all(self, timeout: float = slurm_commands.TIMEOUT) -> None:
        """Delete every lease, if there may be any."""
        if self._may_have_leases:
            delete_leases(timeout)
            self._may_have_leases = False
            self._wanted = {}

    def leave(self, store: Store) -> None:
        """Tell the history what it has not heard; raises HistoryError."""
        self.unstored.flush(store)

    # What the loop starts from

    def _take_settings(self, config: Config, slurm_uid: int) -> None:
        """Take up changed settings and a changed bundle.

        As in the plugin, a bad bundle leaves the last good one in use.
        """
        if config is not self._config:
            self._config = config
            self._forget_descriptions()  # modes of jobs may be others now
        path = Path(config.bundle)
        stamp = service.stamp_of(path)
        if stamp is not None and stamp != self._bundle_stamp:
            self._bundle_stamp = stamp
            try:
                self._bundle = Bundle.load(path, slurm_uid)
                self._forget_descriptions()  # pressures may be others now
            except (CoreError, OSError) as error:
                log.warning("bundle: %s", error)
        policy = self._bundle.policy if self._bundle else config.policy
        if policy != self._policy or not self._names:
            self._policy, self._names = policy, token_names(policy)
            self._forget_descriptions()  # lanes may be others now

    def _forget_descriptions(self) -> None:
        self._pressures.clear()
        self._is_whole = False

    @property
    def policy(self) -> View:
        """The bundle's, as in the plugin; without one that of the configuration."""
        return self._policy

    def _follow(self, seen: Seen, ledger: Ledger | None) -> None:
        """Describe new and changed jobs to the loop, and forget those that ended."""
        is_whole = self._is_whole and ledger is self._ledger
        self._is_whole, self._ledger = False, ledger
        learned = ledger.learned() if ledger else set()
        if is_whole:
            self._follow_changes(seen, learned)
        else:
            self._follow_all(seen)
        self._is_whole = True

    def _follow_changes(self, seen: Seen, learned: Collection[SubmissionKey]) -> None:
        for job in seen.changes.changed:
            self._meet(job, seen)
        for job in seen.changes.gone:
            self._forget(job.job_id)
        self._loop.reorder(seen.changes.priorities)
        for job_id, reason in seen.changes.reasons.items():
            if job_id in self._loop:
                self._take_reason(job_id, reason)
        for job in _jobs_of(learned, seen):
            self._meet(job, seen)

    def _take_learned(self, seen: Seen, ledger: Ledger) -> None:
        """Describe the jobs anew whose records have come since `bound`."""
        for job in _jobs_of(ledger.learned(), seen):
            self._meet(job, seen)

    def _follow_all(self, seen: Seen) -> None:
        for job_id in [job_id for job_id in self._loop if job_id not in seen.jobs]:
            self._forget(job_id)
        for job in seen.jobs.values():
            self._meet(job, seen)

    def _meet(self, job: QueuedJob, seen: Seen) -> None:
        """Take up a job as it is now."""
        if not (job.is_pending or job.holds_licenses):
            self._forget(job.job_id)
            return
        if job.job_id in self._loop and self._is_another(job):
            self._forget(job.job_id)
        is_new = job.job_id not in self._loop
        self._describe(job, seen.priorities.get(job.job_id, 0))
        self._take_reason(job.job_id, seen.reasons.get(job.job_id, ""))
        if is_new and job.submission_id in self._restored:
            self._take_up_wait(job, seen)

    def _take_reason(self, job_id: int, reason: str) -> None:
        """Take up why a job waits; all else is as it was."""
        row = self._loop[job_id]
        if row.state != control.RUNS:
            row.state = control.LATER if reason in NOT_YET else control.WAITS
        row.flags = row.flags & ~FOR_REASON | _flags_of_reason(
            reason, has_tokens=job_id in self._holdings
        )

    def _is_another(self, job: QueuedJob) -> bool:
        """Whether the number stands for another job, or another attempt, than before."""
        before = (self._loop[job.job_id].submit, self._restarts.get(job.job_id, 0))
        return before != (job.submit, job.restarts)

    def _forget(self, job_id: int) -> None:
        if job_id not in self._loop:
            return
        self._loop.remove(job_id)
        self._restarts.pop(job_id, None)
        self._others.pop(job_id, None)
        self._hold(job_id, None)

    def _hold(self, job_id: int, holding: Holding | None) -> None:
        """Note which tokens a job holds or wants."""
        before = self._holdings.pop(job_id, None)
        self._running.pop(job_id, None)
        if before is not None:
            self._counted.add(before, -1)
        if holding is not None:
            self._holdings[job_id] = holding
            self._counted.add(holding)
            if not holding.job.is_pending:
                self._running[job_id] = holding
        if before is not None or holding is not None:
            self._holders = None

    def _take_up_wait(self, job: QueuedJob, seen: Seen) -> None:
        """Go on with the wait that an earlier sluiced had counted."""
        if job.submit > self._restored_at:
            return  # another job with this number
        memory = self._loop[job.job_id].memory
        memory.waited = self._restored[job.submission_id]
        memory.since = seen.clock
        memory.polled = seen.clock - max(0, seen.now - self._restored_at)

    def _describe(self, job: QueuedJob, priority: int) -> None:
        known = self._ledger.known(job) if self._ledger else None
        row = self._loop.add(job.job_id)
        holding = holding_of(job, self._names)
        prediction = known.prediction if known else None
        if job.restarts:
            self._restarts[job.job_id] = job.restarts
        row.job_id = job.job_id
        row.array_id = job.submission_id if job.is_array else 0
        row.state = control.WAITS if job.is_pending else control.RUNS
        row.flags = _flags(job, known, holding)
        if known and not self._is_enforced(known, holding):
            row.flags |= control.SPARED
        row.tasks = job.tasks_waiting
        row.partition = self._partitions.setdefault(job.partition, len(self._partitions))
        row.nodes, row.cpus, row.priority = job.nodes, job.cpus, priority
        row.submit, row.eligible, row.start = job.submit, job.eligible or 0, job.start or 0
        row.tokens.klass = CLASS_NUMBERS[prediction.klass] if prediction else 0
        row.tokens.lane_mask = 0
        self._hold(job.job_id, holding)
        if holding is not None:
            row.tokens.klass = CLASS_NUMBERS[holding.klass]
            row.tokens.lane_mask = holding.lane_mask
        row.pressure = NO_PRESSURE
        if prediction is not None and self._bundle is not None and row.tokens.klass:
            row.pressure = self._pressure(self._bundle, prediction, row.tokens.lane_mask)
        is_other = job.is_running and holding is None and row.tokens.klass != 0
        if is_other:
            self._others[job.job_id] = job
        else:
            self._others.pop(job.job_id, None)

    def _submission_of(self, job_id: int) -> View | None:
        return self._ledger.submission(self._holdings[job_id].job) if self._ledger else None

    def _pressure(self, bundle: Bundle, prediction: View, lane_mask: int) -> Any:
        found = self._pressures.get((prediction, lane_mask))
        if found is None:
            if len(self._pressures) >= PRESSURES:
                self._pressures.clear()
            found = core.pressure_of(
                prediction.profile, bundle.interference, self._policy, lane_mask
            ).struct[0]
            self._pressures[prediction, lane_mask] = found
        return found

    def _is_enforced(self, known: Known, holding: Holding | None) -> bool:
        if holding is None:
            return known.mode == "enforce"
        mode = core.mode_of(self._config, self._policy, known.submission, holding.lane_mask)
        return mode == "enforce"

    def _state_facts(self, seen: Seen, config: Config, ledger: Ledger | None) -> None:
        facts = self._facts
        interval = seen.clock - facts.clock if facts.clock else 0.0
        facts.grace = GRACE * max(config.follow_ms / 1000, interval)
        facts.clock, facts.now = seen.clock, seen.now
        facts.max_delay = self._policy.max_delay
        facts.is_off = core.furthest_mode(config) != "enforce" or service.is_off(config)
        facts.releases = control.MOST_RELEASES
        facts.config_checksum = config.checksum
        facts.cluster = (ledger.cluster if ledger else "").encode()[: core.NAME_SIZE - 1]
        for token, (lane, klass) in self._names.items():
            total, free = _counts(seen.licenses, token)
            facts.totals[CLASSES.index(klass)][lane] = total
            facts.free[CLASSES.index(klass)][lane] = free

    def _rooms(self, rooms: Mapping[str, Room]) -> Any:
        table = control.new_rooms(len(self._partitions))
        for name, index in self._partitions.items():
            room = rooms.get(name)
            if room is None:
                table[index].is_unlimited = 1
            else:
                table[index].nodes, table[index].cpus = room.nodes, room.cpus
                table[index].is_unlimited = room.is_unlimited
        return table

    # What Slurm is told

    def _release(self, actions: Iterable[Action[int]], seen: Seen) -> None:
        """Take the tokens off; what came of it, the next poll shows."""
        wanted: dict[int, LicenseChange] = {}
        for action in actions:
            if action.release is None:
                continue
            holding = self._holdings[action.key]
            wanted[action.key] = release_of(holding, seen.licenses)
            self._commanded[action.key] = Release(
                cluster=text_of(self._facts.cluster),
                job_id=holding.job.submission_id,
                submit=holding.job.submit,
                released=seen.now,
                tokens=",".join(token for token, _ in holding.counts),
                reason=action.release,
                waited=self.waited(action.key),
            )
        self._refusals |= self._carry_out(wanted)

    def _exchange(self, actions: Iterable[Action[int]], seen: Seen) -> None:
        wanted: dict[int, LicenseChange] = {}
        for action in actions:
            if action.release is not None:
                continue
            tokens = [
                token
                for token, (lane, klass) in self._names.items()
                if klass == action.tokens.klass and action.tokens.lane_mask >> lane & 1
            ]
            change = exchange_of(self._holdings[action.key], seen.licenses, tokens)
            if change is not None:
                wanted[action.key] = change
        self._carry_out(wanted)

    def _carry_out(self, wanted: Mapping[int, LicenseChange]) -> dict[int, str]:
        """Have these changes made; return why one was not, empty where it was."""
        said = self._change(list(wanted.values()))
        for one in wanted.values():
            if why := said[one.job.job_id]:
                log.debug("%s: %s", one.command, why)
        return {key: said[one.job.job_id] for key, one in wanted.items()}

    def _impose(self, gates: control.Gates, seen: Seen, config: Config) -> None:
        """Renew the leases that hold back what the gates do not let out."""
        present = leases(seen.reservations)
        self._may_have_leases = True
        self.balance = accounts(self._counted, seen.licenses, present, self._names, seen.now)
        self._compare(self.balance)
        self._tell(NOT_RENEWED, self._late(gates.given_up(self._names)))
        held = self._foreign_tokens()
        sizes = {
            token: count + held.get(token, 0) for token, count in gates.tokens(self._names).items()
        }
        living = {lease.token: lease.count for lease in present if lease.end > seen.now}
        failed = [token for token, n in self._wanted.items() if n and living.get(token) != n]
        self._tell(LEASES, dict.fromkeys(failed, self._lease_error or "it disappeared"))
        self._wanted = reserved_for(sizes, seen.licenses, MIN_TOTAL)
        length = max(config.lease_seconds, ROUNDS * config.follow_ms // 1000)
        self._lease_error = _said_against(plan(present, self._wanted, seen.now, length))
        self._keep_set(
            running_set(
                self._running.values(),
                self._others.values(),
                gates.tokens(self._names),
                text_of(self._facts.cluster),
                seen.now,
            )
        )

    def _foreign_tokens(self) -> dict[str, int]:
        """Count the tokens that running jobs have and Sluice did not give them."""
        held: dict[str, int] = {}
        for job_id, holding in self._running.items():
            if not self._loop[job_id].flags & control.GRANTED:
                for token, count in holding.counts:
                    held[token] = held.get(token, 0) + count
        return held

    # What is wrong

    def _tell(self, topic: str, texts: Mapping[str, str]) -> None:
        """Name jobs or tokens in sluiced's status; log those that are new."""
        before = self._status.named.get(topic, {})
        for name in [name for name in texts if name not in before][:SHOWN]:
            log.warning("%s: %s: %s", topic, name, texts[name])
        self._status.name(topic, texts)

    def _refused(self) -> dict[str, str]:
        """Return the jobs whose tokens Slurm did not let us take off, with its own words."""
        return {
            str(job_id): self._refusals.get(job_id) or "the release has no effect"
            for job_id in self._commanded
            if self._loop[job_id].memory.tries > 1
        }

    def _late(self, tokens: Sequence[str]) -> dict[str, str]:
        """Say for each of these tokens which job has waited behind its gate beyond the bound."""
        latest = self._facts.max_delay + self._facts.grace
        late: dict[str, list[int]] = {token: [] for token in tokens}
        for job_id, holding in self._holdings.items() if tokens else ():
            if holding.job.is_pending and self.waited(job_id) >= latest:
                for token, _ in holding.counts:
                    if token in late:
                        late[token].append(job_id)
        return {token: f"{_some(jobs)} waited too long" for token, jobs in late.items()}

    def _compare(self, balance: list[Account]) -> None:
        for text in self._audit.check(balance):
            log.warning("token audit: %s", text)

    # What the history is told

    def _keep_effects(self, seen: Seen) -> None:
        """Note the releases that have come about since the last poll."""
        left = {job_id: r for job_id, r in self._commanded.items() if self._has_tokens(job_id, r)}
        done = [
            release
            for job_id, release in self._commanded.items()
            if job_id not in left and job_id in seen.jobs
            if seen.jobs[job_id].submit == release.submit
        ]
        if done:
            self.unstored.add(lambda store: store.gates.add_releases(done))
            self.released.update(release.reason for release in done)
        self._commanded = left
        self._refusals = {k: why for k, why in self._refusals.items() if k in left}

    def _has_tokens(self, job_id: int, release: Release) -> bool:
        """Whether a job that is to be released is still there with its tokens."""
        holding = self._holdings.get(job_id)
        return holding is not None and holding.job.submit == release.submit

    def _keep_decisions(self, actions: Iterable[Action[int]], snapshot: StoredSnapshot) -> None:
        """Keep the decisions that are acted on, with what they were made from."""
        acted = {action.key: self._holdings[action.key] for action in actions}
        made = [(acted[key], record) for key, record in self._loop.decisions() if key in acted]
        self._keep_rows([(snapshot, _again(record, holding.job)) for holding, record in made])

    def _keep_rows(self, rows: Sequence[tuple[StoredSnapshot, Decision]]) -> None:
        def write(store: Store) -> None:
            for snapshot in {snapshot.checksum: snapshot for snapshot, _ in rows}.values():
                store.decisions.add_snapshot(snapshot)
            store.decisions.insert_decisions(decision for _, decision in rows)

        if rows:
            self.unstored.add(write)

    def _keep_set(self, seen: RunningSet) -> None:
        """Store the jobs that run together, whenever they or a gate changed."""
        latest = self._recorded
        if latest is None:
            self.unstored.add(
                lambda store: store.gates.prune_running_sets(before=seen.taken - KEPT_SETS)
            )
        if latest is None or (latest.holders, latest.gates) != (seen.holders, seen.gates):
            self.unstored.add(lambda store: store.gates.add_running_set(seen))
            self._recorded = seen


def _again(record: Record, job: QueuedJob) -> Decision:
    """Return a decision that was made again, as the history has it."""
    return replace(decision_of(record), job_id=job.submission_id, is_second=True)


def _jobs_of(submissions: Iterable[SubmissionKey], seen: Seen) -> Iterator[QueuedJob]:
    """Yield the jobs of these submissions: one each, and of an array all its tasks."""
    arrays = set()
    for submission_id, uid in submissions:
        job = seen.jobs.get(submission_id)
        if job is not None and not job.is_array and job.uid == uid:
            yield job
        else:
            arrays.add(submission_id)
    if arrays:
        yield from (job for job in seen.jobs.values() if job.submission_id in arrays)


def _flags(job: QueuedJob, known: Known | None, holding: Holding | None) -> int:
    flags = 0
    if job.is_array:
        flags |= control.ARRAY
    if holding is not None and any(count > 1 for _, count in holding.counts):
        flags |= control.RECORDED  # Sluice gives one of each: a user wrote these
    elif known is not None:
        flags |= control.RECORDED
        if known.is_granted:
            flags |= control.GRANTED
    if known is not None and known.prediction is not None and known.prediction.evidence != "none":
        flags |= control.PREDICTED
    if "," in job.partition:
        flags |= control.ANYWHERE
    return flags


FOR_REASON = control.NEXT | control.QUEUES


def _flags_of_reason(reason: str, *, has_tokens: bool) -> int:
    """Return those of FOR_REASON that are set."""
    flags = 0
    if reason in NEXT:
        flags |= control.NEXT
    if reason in QUEUES or (has_tokens and reason == "Licenses"):
        flags |= control.QUEUES
    return flags


def _counts(licenses: Mapping[str, License], token: str) -> tuple[int, int]:
    """Return a token's total, and how many Slurm has free."""
    if token not in licenses:
        return 0, 0
    license_ = licenses[token]
    return license_.total, max(0, license_.total - license_.used - license_.reserved)


def _said_against(commands: Sequence[str]) -> str:
    """Give scontrol these commands; return what it said against one of them."""
    try:
        slurm_commands.control(commands)
    except SlurmError as error:
        log.debug("%s", error)
        return str(error)
    return ""


def _some(jobs: Sequence[int]) -> str:
    """`job 4`, `jobs 4, 5, 6 and 17 more`."""
    shown = ", ".join(str(job) for job in jobs[:SHOWN])
    more = f" and {len(jobs) - SHOWN} more" if len(jobs) > SHOWN else ""
    return f"job{'s' if len(jobs) != 1 else ''} {shown}{more}"


def running_set(
    found: Iterable[Holding],
    others: Iterable[QueuedJob],
    gates: dict[str, int],
    cluster: str,
    now: int,
) -> RunningSet:
    """Describe the jobs that run together: those with tokens, and others that matter to storage."""
    holders = [
        Holder(holding.job.job_id, holding.job.submit, holding.klass, holding.lane_mask)
        for holding in found
        if not holding.job.is_pending
    ]
    holders += [Holder(job.job_id, job.submit, "", 0) for job in others]
    holders.sort(key=lambda holder: holder.job_id)
    return RunningSet(cluster, now, tuple(holders), gates)
