"""Carries out the control loop of the core on a live cluster: releases, exchanges, leases.

The core says who waits, changes lanes or is released, and how large the gates are
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
from sluice.slurm.budgets import Budgets
from sluice.slurm.drainer import decision_of
from sluice.slurm.leases import (
    Account,
    Audit,
    Holding,
    Key,
    accounts,
    exchange_of,
    holding_of,
    key_of,
    leases,
    plan,
    release_of,
    reserved_for,
)
from sluice.slurm.overview import delete_leases
from sluice.slurm.records import SlurmError
from sluice.slurm.status import LEASES, NOT_RENEWED, REFUSED, log

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from sluice.history_db.records import Snapshot as StoredSnapshot
    from sluice.history_db.store import Store
    from sluice.policies.control import Action
    from sluice.policies.core import Config, View
    from sluice.slurm.ledger import Known, Ledger
    from sluice.slurm.queue import Queue
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
KEPT_SETS = 30 * 86400
"""Seconds for which the history keeps who ran together."""

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

    jobs: Sequence[QueuedJob]
    licenses: Mapping[str, License]
    reservations: Sequence[Reservation]
    room: Mapping[str, Room]
    """By partition; of what is missing nobody knows."""
    now: int
    """UTC seconds."""
    clock: float
    """Seconds that never go back."""

    @classmethod
    def of(cls, queue: Queue, now: int) -> Seen:
        """Take what the latest poll told; now is the time before it."""
        return cls(
            list(queue.jobs.values()),
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
    """What sluiced remembers of the gates from poll to poll."""

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
        self._loop: control.Loop[Key] = control.Loop()
        self._facts = control.new_facts()
        self._facts.boot = secrets.randbits(64) or 1
        self.budgets = Budgets(self._facts)
        self._rows: dict[Key, tuple[QueuedJob, Known | None]] = {}
        self._holdings: dict[Key, Holding] = {}
        self._others: dict[Key, QueuedJob] = {}
        """Running jobs that matter to storage and have no tokens."""
        self._partitions: dict[str, int] = {}
        self._bundle: Bundle | None = None
        self._bundle_stamp: service.Stamp | None = None
        self._config: Config = core.default_config()
        self._policy: View = self._config.policy
        self._names: dict[str, tuple[int, str]] = {}
        self._restored: dict[int, int] = {}
        self._restored_at = 0
        self._commanded: dict[Key, Release] = {}
        self._refusals: dict[Key, str] = {}
        """Why the latest release of a job was not made."""
        self._wanted: dict[str, int] = {}
        """Of each token, what the leases of the last poll were to reserve."""
        self._lease_error = ""
        self._audit = Audit()
        self._recorded: RunningSet | None = None
        self._may_have_leases = True  # of an earlier sluiced

    @property
    def holdings(self) -> list[Holding]:
        """The jobs that hold or want tokens."""
        return list(self._holdings.values())

    @property
    def bundle(self) -> Bundle | None:
        """The bundle in use, as the plugin has it."""
        return self._bundle

    @property
    def needs_room(self) -> bool:
        """Whether it matters which jobs could start: one waits for tokens."""
        return any(holding.job.is_pending for holding in self._holdings.values())

    def restore(self, snapshot: StoredSnapshot | None) -> None:
        """Take up the waits that an earlier sluiced had counted."""
        if snapshot is not None:
            self._restored = Snapshot.parse(snapshot.content).waited()
            self._restored_at = snapshot.taken

    def waited(self, key: Key) -> float:
        """Return the seconds for which a job's tokens may have kept it."""
        return float(self._loop[key].memory.waited) if key in self._loop else 0.0

    def waits(self) -> dict[Key, float]:
        """Return these seconds of the jobs with tokens that have any."""
        found = ((key, self.waited(key)) for key in self._holdings)
        return {key: seconds for key, seconds in found if seconds}

    def bound(self, seen: Seen, ledger: Ledger | None, config: Config, slurm_uid: int) -> None:
        """Release the jobs that have waited long enough, and those that Sluice gave no tokens."""
        self._take_settings(config, slurm_uid)
        self._follow(seen, ledger)
        self._keep_effects(seen)
        self._state_facts(seen, config, ledger)
        rooms = self._rooms(seen.room)
        self._loop.find_room(rooms, len(rooms), self._facts)
        self._loop.bound(self._facts)
        self._keep_waits(seen.now)
        self._release(self._loop.actions(), seen)
        self._restored = {}
        self._tell(REFUSED, self._refused())

    def poll(
        self,
        seen: Seen,
        config: Config,
        snapshot: StoredSnapshot | None,
    ) -> None:
        """Decide again, exchange tokens, and impose the gates; `bound` has been called."""
        is_enforcing = not self._facts.is_off
        if self._bundle is None or snapshot is None or not is_enforcing:
            self.balance = []
            self.open_all()
            return
        parsed = Snapshot.parse(snapshot.content)
        self._facts.version = parsed.version ^ config.checksum ^ self._bundle.checksum
        commanded = len(self._loop.actions())
        gates = self._loop.poll(Situation(self._bundle, parsed), config, self._facts)
        actions = self._loop.actions()[commanded:]
        self._keep_decisions(actions, snapshot)
        self._release(actions, seen)
        self._exchange(actions, seen)
        self._impose(gates, seen, config)

    def open_all(self, timeout: float = slurm_commands.TIMEOUT) -> None:
        """Delete every lease, if there may be any."""
        if self._may_have_leases:
            delete_leases(timeout)
            self._may_have_leases = False
            self._wanted = {}

    def leave(self, store: Store) -> None:
        """Tell the history what it has not heard; raises HistoryError."""
        rest = self.budgets.rest(text_of(self._facts.cluster))
        self.unstored.add(lambda store: store.add_io_waits(rest))
        self.unstored.flush(store)

    # What the loop starts from

    def _take_settings(self, config: Config, slurm_uid: int) -> None:
        """Take up changed settings and a changed bundle.

        As in the plugin, a bad bundle leaves the last good one in use.
        """
        if config is not self._config:
            self._config = config
            self._rows.clear()  # modes of jobs may be others now
        path = Path(config.bundle)
        stamp = service.stamp_of(path)
        if stamp is not None and stamp != self._bundle_stamp:
            self._bundle_stamp = stamp
            try:
                self._bundle = Bundle.load(path, slurm_uid)
                self._rows.clear()  # pressures may be others now
            except (CoreError, OSError) as error:
                log.warning("bundle: %s", error)
        policy = self._bundle.policy if self._bundle else config.policy
        if policy != self._policy or not self._names:
            self._policy, self._names = policy, token_names(policy)
            self._rows.clear()  # lanes may be others now

    def _follow(self, seen: Seen, ledger: Ledger | None) -> None:
        """Describe new and changed jobs to the loop, and forget those that ended."""
        before, self._rows = self._rows, {}
        for job in seen.jobs:
            if not (job.is_pending or job.holds_licenses):
                continue
            key = key_of(job)
            known = ledger.known(job) if ledger else None
            row = before.pop(key, None)
            if row is None or row[0] is not job or row[1] is not known:
                is_new = key not in self._loop
                self._describe(key, job, known)
                if is_new and job.submission_id in self._restored:
                    self._take_up_wait(key, job, seen)
            self._rows[key] = (job, known)
        for key in [key for key in self._loop if key not in self._rows]:
            self._loop.remove(key)
            self._holdings.pop(key, None)
            self._others.pop(key, None)

    def _take_up_wait(self, key: Key, job: QueuedJob, seen: Seen) -> None:
        """Go on with the wait that an earlier sluiced had counted."""
        if job.submit > self._restored_at:
            return  # another job with this number
        memory = self._loop[key].memory
        memory.waited = self._restored[job.submission_id]
        memory.since = seen.clock
        memory.polled = seen.clock - max(0, seen.now - self._restored_at)

    def _describe(self, key: Key, job: QueuedJob, known: Known | None) -> None:
        row = self._loop.add(key)
        holding = holding_of(job, self._names)
        prediction = known.prediction if known else None
        row.job_id = job.job_id
        row.array_id = job.submission_id if job.is_array else 0
        row.state = _state(job)
        row.flags = _flags(job, known, holding)
        if known and holding and not self._is_enforced(known, holding):
            row.flags |= control.SPARED
        row.tasks = job.tasks_waiting
        row.partition = self._partitions.setdefault(job.partition, len(self._partitions))
        row.nodes, row.cpus, row.priority = job.nodes, job.cpus, job.priority
        self.budgets.describe(row, job)
        row.submit, row.eligible, row.start = job.submit, job.eligible or 0, job.start or 0
        row.tokens.klass = CLASSES.index(prediction.klass) if prediction else 0
        row.tokens.lane_mask = 0
        if holding is None:
            self._holdings.pop(key, None)
        else:
            self._holdings[key] = holding
            row.tokens.klass = CLASSES.index(holding.klass)
            row.tokens.lane_mask = holding.lane_mask
        if prediction is not None and self._bundle is not None and row.tokens.klass:
            pressure = core.pressure_of(
                prediction.profile, self._bundle.interference, self._policy, row.tokens.lane_mask
            )
            row.pressure = pressure.struct[0]
        self._loop.describe(key, known.submission if known and holding else None)
        is_other = job.is_running and holding is None and row.tokens.klass != 0
        if is_other:
            self._others[key] = job
        else:
            self._others.pop(key, None)

    def _is_enforced(self, known: Known, holding: Holding) -> bool:
        mode = core.mode_of(self._config, self._policy, known.submission, holding.lane_mask)
        return mode == "enforce"

    def _state_facts(self, seen: Seen, config: Config, ledger: Ledger | None) -> None:
        facts = self._facts
        interval = seen.clock - facts.clock if facts.clock else 0.0
        facts.grace = GRACE * max(config.follow_ms / 1000, interval)
        facts.clock, facts.now = seen.clock, seen.now
        facts.max_delay = self._policy.max_delay
        facts.user_budget, facts.account_budget = config.user_budget, config.account_budget
        facts.is_off = core.furthest_mode(config) != "enforce" or service.is_off(config)
        facts.releases = config.releases
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

    def _release(self, actions: Iterable[Action[Key]], seen: Seen) -> None:
        """Take the tokens off; what came of it, the next poll shows."""
        wanted: dict[Key, LicenseChange] = {}
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

    def _exchange(self, actions: Iterable[Action[Key]], seen: Seen) -> None:
        wanted: dict[Key, LicenseChange] = {}
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

    def _carry_out(self, wanted: Mapping[Key, LicenseChange]) -> dict[Key, str]:
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
        self.balance = accounts(self.holdings, seen.licenses, present, self._names, seen.now)
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
                self.holdings,
                self._others.values(),
                gates.tokens(self._names),
                text_of(self._facts.cluster),
                seen.now,
            )
        )

    def _foreign_tokens(self) -> dict[str, int]:
        """Count the tokens that running jobs have and Sluice did not give them."""
        held: dict[str, int] = {}
        for key, holding in self._holdings.items():
            row = self._loop[key]
            if row.state == control.RUNS and not row.flags & control.GRANTED:
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
            str(holding.job.job_id): self._refusals.get(key) or "the release has no effect"
            for key, holding in self._holdings.items()
            if self._loop[key].memory.tries > 1
        }

    def _late(self, tokens: Sequence[str]) -> dict[str, str]:
        """Say for each token who has waited behind its gate beyond the bound."""
        latest = self._facts.max_delay + self._facts.grace
        late: dict[str, list[int]] = {token: [] for token in tokens}
        for key, holding in self._holdings.items():
            if holding.job.is_pending and self.waited(key) >= latest:
                for token, _ in holding.counts:
                    late.setdefault(token, []).append(holding.job.job_id)
        return {token: f"{_some(jobs)} waited too long" for token, jobs in late.items()}

    def _compare(self, balance: list[Account]) -> None:
        for text in self._audit.check(balance):
            log.warning("token audit: %s", text)

    # What the history is told

    def _keep_effects(self, seen: Seen) -> None:
        """Note the releases that have come about since the last poll."""
        present = {key_of(job) for job in seen.jobs} if self._commanded else set()
        done = [
            release
            for key, release in self._commanded.items()
            if key in present and key not in self._holdings
        ]
        if done:
            self.unstored.add(lambda store: store.add_releases(done))
            self.released.update(release.reason for release in done)
        self._commanded = {k: r for k, r in self._commanded.items() if k in self._holdings}
        self._refusals = {k: why for k, why in self._refusals.items() if k in self._holdings}

    def _keep_waits(self, now: int) -> None:
        """Note who waited how long since the last poll."""
        self.budgets.take(
            (
                (key, holding.job, self._loop[key].memory.paid)
                for key, holding in self._holdings.items()
                if holding.job.is_pending
            ),
            now,
        )
        if rows := self.budgets.due(text_of(self._facts.cluster), now):
            self.unstored.add(lambda store: store.add_io_waits(rows))

    def _keep_decisions(self, actions: Iterable[Action[Key]], snapshot: StoredSnapshot) -> None:
        """Keep the decisions that are acted on, with what they were made from."""
        acted = {action.key: self._holdings[action.key] for action in actions}
        made = [(acted[key], record) for key, record in self._loop.decisions() if key in acted]
        if not made:
            return
        rows = [
            replace(decision_of(record), job_id=holding.job.submission_id, is_second=True)
            for holding, record in made
        ]

        def write(store: Store) -> None:
            store.add_snapshot(snapshot)
            store.insert_decisions(rows)

        self.unstored.add(write)

    def _keep_set(self, seen: RunningSet) -> None:
        """Keep who runs together, whenever that or a gate changed."""
        latest = self._recorded
        if latest is None:
            self.unstored.add(lambda store: store.prune_running_sets(before=seen.taken - KEPT_SETS))
        if latest is None or (latest.holders, latest.gates) != (seen.holders, seen.gates):
            self.unstored.add(lambda store: store.add_running_set(seen))
            self._recorded = seen


def _state(job: QueuedJob) -> int:
    if not job.is_pending:
        return control.RUNS
    return control.LATER if job.reason in NOT_YET else control.WAITS


def _flags(job: QueuedJob, known: Known | None, holding: Holding | None) -> int:
    flags = 0
    if job.is_array:
        flags |= control.ARRAY
    if holding is not None and any(count > 1 for _, count in holding.counts):
        flags |= control.RECORDED  # Sluice gives one of each: somebody wrote these
    elif known is not None:
        flags |= control.RECORDED
        if known.is_granted:
            flags |= control.GRANTED
    if known is not None and known.prediction is not None and known.prediction.evidence != "none":
        flags |= control.PREDICTED
    if job.reason in NEXT:
        flags |= control.NEXT
    if job.reason in QUEUES or (holding is not None and job.reason == "Licenses"):
        flags |= control.QUEUES
    if "," in job.partition:
        flags |= control.ANYWHERE
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
    """Describe who runs together: those with tokens, and others that matter to storage."""
    holders = [
        Holder(holding.job.job_id, holding.job.submit, holding.klass, holding.lane_mask)
        for holding in found
        if not holding.job.is_pending
    ]
    holders += [Holder(job.job_id, job.submit, "", 0) for job in others]
    holders.sort(key=lambda holder: holder.job_id)
    return RunningSet(cluster, now, tuple(holders), gates)
