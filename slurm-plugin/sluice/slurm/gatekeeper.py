"""Keeps the gates in `enforce`: sizes them, renews their leases, bounds every wait.

One look at the controller a round. Whatever fails here, leases run out by themselves and the
gates are open: there is nothing that must be undone.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from sluice.history_db.records import Holder, Release, RunningSet
from sluice.policies.bundle import Bundle
from sluice.policies.core import CoreError
from sluice.policies.tokens import MIN_TOTAL, token_names
from sluice.slurm import slurm_commands, switch
from sluice.slurm.books import Account, Audit, accounts
from sluice.slurm.gates import Load, Sizer
from sluice.slurm.holdings import Holding, Key, holdings
from sluice.slurm.leases import Lease, leases, plan, reserved_for
from sluice.slurm.opening import delete_leases
from sluice.slurm.second import SecondDecisions
from sluice.slurm.troubles import log
from sluice.slurm.waits import NOT_YET, Waits, exchange_command, release_command

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from sluice.history_db.records import Snapshot as StoredSnapshot
    from sluice.history_db.store import Store
    from sluice.policies.core import Config, View
    from sluice.slurm.ledger import Ledger
    from sluice.slurm.records import License, QueuedJob

    Prediction = Callable[[QueuedJob], View | None]

ROUNDS = 4
"""A lease lasts so many rounds at least, or it would run out between two of them."""
PATIENCE = 15.0
"""Seconds in which the record of a job with tokens should have been found."""
LEAVE_TIMEOUT = 5.0
"""Seconds to delete the leases in when sluiced ends; without that they run out."""
KEPT_SETS = 30 * 86400
"""Seconds for which the history keeps who ran together."""


class GateKeeper:
    """What sluiced remembers of the gates from round to round."""

    def __init__(self) -> None:
        self.releases = 0
        """Jobs whose tokens were taken off since sluiced started."""
        self._sizer: Sizer | None = None
        self._bundle_stamp: tuple[int, int, int] | None = None
        self._waits = Waits()
        self._second = SecondDecisions()
        self._audit = Audit()
        self._commanded: dict[Key, Release] = {}
        self._recorded: RunningSet | None = None
        self._may_have_leases = True  # of an earlier sluiced

    def round(
        self,
        jobs: Sequence[QueuedJob],
        ledger: Ledger,
        config: Config,
        store: Store | None,
        *,
        snapshot: StoredSnapshot | None,
        lane_speeds: Mapping[str, float],
        slurm_uid: int,
        now: int,
    ) -> list[Holding]:
        """Do what the mode asks for; return who holds and wants tokens.

        snapshot is the one that the plugin has, for second decisions.
        """
        prediction, cluster = ledger.prediction, ledger.cluster
        if config.mode != "enforce":
            self.open_all()
            return []
        self._take_bundle(Path(config.bundle), slurm_uid)
        is_off = switch.is_off(config)
        sizer = None if is_off else self._sizer
        policy = self._sizer.policy if self._sizer else config.policy
        names = token_names(policy)
        found = holdings(jobs, names)
        if sizer is None:
            self.open_all()
        waiting = [holding for holding in found if holding.job.is_pending]
        licenses = slurm_commands.licenses()
        gates: dict[str, int] = {}
        reasons: dict[Key, str] = {}
        if sizer is not None:
            if snapshot is not None:
                self._second.look(
                    waiting,
                    ledger,
                    sizer.bundle,
                    snapshot,
                    config=config,
                    licenses=licenses,
                    now=now,
                )
            sizer.take_speeds(lane_speeds)
            gates = self._size(sizer, found, jobs, prediction)
            self._may_have_leases = True
            present = leases(slurm_commands.reservations())
            self._compare(accounts(found, licenses, present, names, now))
            _impose(gates, present, licenses, config, now)
        self._waits.follow(waiting, now)
        if store is not None:
            self._keep_releases(store, found, jobs)
            others = [job for job, _ in _background(found, jobs, prediction)]
            self._keep_set(store, running_set(found, others, gates, cluster, now))
            if sizer is not None:
                reasons = self._second.releases(found, jobs, gates, now)
                self._act_on_seconds(store, found, reasons, licenses, names)
        reasons |= self._reasons(waiting, prediction, licenses, policy.max_delay, is_off=is_off)
        self._release(waiting, reasons, licenses, most=config.releases, cluster=cluster, now=now)
        return found

    def open_all(self, timeout: float = slurm_commands.TIMEOUT) -> None:
        """Delete every lease, if there may be any."""
        if self._may_have_leases:
            delete_leases(timeout)
            self._may_have_leases = False

    def _take_bundle(self, path: Path, slurm_uid: int) -> None:
        """Take up a changed bundle; as in the plugin, a bad one leaves the last good one in use."""
        try:
            status = path.stat()
        except FileNotFoundError:
            return
        stamp = (status.st_mtime_ns, status.st_size, status.st_ino)
        if stamp == self._bundle_stamp:
            return
        self._bundle_stamp = stamp
        try:
            self._sizer = Sizer(Bundle.load(path, slurm_uid))
        except CoreError as error:
            log.warning("gates: %s", error)

    def _size(
        self,
        sizer: Sizer,
        found: Iterable[Holding],
        jobs: Iterable[QueuedJob],
        prediction: Prediction,
    ) -> dict[str, int]:
        running = [_load(holding, prediction) for holding in found if not holding.job.is_pending]
        waiting = [
            replace(_load(holding, prediction), should_wait=self._second.should_wait(holding))
            for holding in found
            if holding.job.is_pending and holding.job.reason not in NOT_YET
        ]
        background = [
            Load(known.klass, 0, known.profile) for _, known in _background(found, jobs, prediction)
        ]
        return sizer.gates(running, waiting, background)

    def _compare(self, books: list[Account]) -> None:
        for text in self._audit.check(books):
            log.warning("books: %s", text)

    def _reasons(
        self,
        waiting: Iterable[Holding],
        prediction: Prediction,
        licenses: dict[str, License],
        max_delay: float,
        *,
        is_off: bool,
    ) -> dict[Key, str]:
        """Say who should wait for tokens no longer, and why."""
        reasons: dict[Key, str] = {}
        for holding in waiting:
            waited = self._waits.waited(holding)
            totals = [licenses[token].total for token, _ in holding.counts if token in licenses]
            if is_off:
                reasons[holding.key] = "switched_off"
            elif min(totals, default=0) < MIN_TOTAL:
                reasons[holding.key] = "undefined"
            elif waited >= max_delay:
                reasons[holding.key] = "max_delay"
            elif waited >= PATIENCE and _load(holding, prediction).profile is None:
                reasons[holding.key] = "unknown"
            elif self._sizer and not self._sizer.is_admissible(_load(holding, prediction)):
                reasons[holding.key] = "confined"
        return reasons

    def _release(
        self,
        waiting: Iterable[Holding],
        reasons: dict[Key, str],
        licenses: dict[str, License],
        *,
        most: int,
        cluster: str,
        now: int,
    ) -> None:
        """Take the tokens off them, those first who have waited longest."""
        chosen = [holding for holding in waiting if holding.key in reasons]
        chosen.sort(key=self._waits.waited, reverse=True)
        del chosen[most:]
        for holding in chosen:
            self._commanded[holding.key] = Release(
                cluster=cluster,
                job_id=holding.job.submission_id,
                submit=holding.job.submit,
                released=now,
                tokens=",".join(token for token, _ in holding.counts),
                reason=reasons[holding.key],
                waited=self._waits.waited(holding),
            )
        slurm_commands.control([release_command(holding, licenses) for holding in chosen])

    def _act_on_seconds(
        self,
        store: Store,
        found: Sequence[Holding],
        reasons: Mapping[Key, str],
        licenses: dict[str, License],
        names: Mapping[str, tuple[int, str]],
    ) -> None:
        """Exchange the tokens of those that are better off with others; record what was decided."""
        commands = []
        acted = {holding.key: holding for holding in found if holding.key in reasons}
        for holding, wanted in self._second.exchanges(found):
            tokens = [
                token
                for token, (lane, klass) in names.items()
                if klass == wanted.klass and wanted.lane_mask >> lane & 1
            ]
            command = exchange_command(holding, licenses, tokens)
            if command and holding.key not in reasons:
                commands.append(command)
                acted[holding.key] = holding
        if acted:
            self._second.keep(store, acted.values())
        slurm_commands.control(commands)

    def _keep_releases(
        self, store: Store, found: Iterable[Holding], jobs: Iterable[QueuedJob]
    ) -> None:
        """Tell the history which releases have come about since the last look."""
        still = {holding.key for holding in found}
        present = {(job.job_id, job.submit, job.restarts) for job in jobs}
        done = [r for key, r in self._commanded.items() if key in present - still]
        if done:
            store.add_releases(done)
            self.releases += len(done)
        self._commanded = {key: r for key, r in self._commanded.items() if key in still}

    def _keep_set(self, store: Store, seen: RunningSet) -> None:
        """Tell the history who runs together, whenever that or a gate changed."""
        latest = self._recorded
        if latest is None:
            store.prune_running_sets(before=seen.taken - KEPT_SETS)
        if latest is None or (latest.holders, latest.gates) != (seen.holders, seen.gates):
            store.add_running_set(seen)
            self._recorded = seen


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


def _impose(
    gates: Mapping[str, int],
    present: Iterable[Lease],
    licenses: Mapping[str, License],
    config: Config,
    now: int,
) -> None:
    """Renew the leases that hold back what the gates do not let out."""
    wanted = reserved_for(gates, licenses, MIN_TOTAL)
    length = max(config.lease_seconds, ROUNDS * config.follow_ms // 1000)
    slurm_commands.control(plan(present, wanted, now, length))


def _load(holding: Holding, prediction: Prediction) -> Load:
    known = prediction(holding.job)
    profile = None if known is None or known.evidence == "none" else known.profile
    return Load(holding.klass, holding.lane_mask, profile, holding.job.tasks_waiting)


def _background(
    found: Iterable[Holding], jobs: Iterable[QueuedJob], prediction: Prediction
) -> list[tuple[QueuedJob, View]]:
    """Return who runs without a token and matters to storage, as far as it is known."""
    holders = {holding.job.job_id for holding in found}
    rows = [
        (job, known)
        for job in jobs
        if job.is_running and job.job_id not in holders
        for known in (prediction(job),)
        if known is not None and known.klass != "none"
    ]
    return sorted(rows, key=lambda row: row[0].job_id)
