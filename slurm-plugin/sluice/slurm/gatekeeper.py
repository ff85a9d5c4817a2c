"""Keeps the gates in `enforce`: sizes them, renews their leases, bounds every wait.

One look at the controller a round. Whatever fails here, leases run out by themselves and the
gates are open: there is nothing that must be undone.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from sluice.history_db.records import Holder, Release, RunningSet
from sluice.policies.bundle import Bundle
from sluice.policies.tokens import MIN_TOTAL, token_names
from sluice.slurm import slurm_commands
from sluice.slurm.books import Account, Audit, accounts
from sluice.slurm.gates import Load, Sizer
from sluice.slurm.holdings import Holding, holdings
from sluice.slurm.leases import leases, plan, reserved_for
from sluice.slurm.troubles import log
from sluice.slurm.waits import Waits, release_command

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from sluice.history_db.store import Store
    from sluice.policies.core import Config, View
    from sluice.slurm.records import License, QueuedJob

    Prediction = Callable[[QueuedJob], View | None]

PATIENCE = 15.0
"""Seconds in which the record of a job with tokens should have been found."""
LEAVE_TIMEOUT = 5.0
"""Seconds to delete the leases in when sluiced ends; without that they run out."""
KEPT_SETS = 30 * 86400
"""Seconds for which the history keeps who ran together."""


@dataclass(frozen=True, slots=True)
class Round:
    """What one look found."""

    holdings: list[Holding]
    books: list[Account]


class GateKeeper:
    """What sluiced remembers of the gates from round to round."""

    def __init__(self) -> None:
        self.releases = 0
        """Jobs whose tokens were taken off since sluiced started."""
        self._sizer: Sizer | None = None
        self._bundle_stamp: tuple[int, int, int] | None = None
        self._waits = Waits()
        self._audit = Audit()
        self._commanded: dict[tuple[int, int, int], Release] = {}
        self._recorded: RunningSet | None = None
        self._may_have_leases = True  # of an earlier sluiced

    def round(
        self,
        jobs: Sequence[QueuedJob],
        prediction: Prediction,
        config: Config,
        store: Store | None,
        *,
        cluster: str,
        slurm_uid: int,
        now: int,
    ) -> list[Holding]:
        """Do what the mode asks for; return who holds and wants tokens."""
        if config.mode != "enforce":
            self.open_all()
            return []
        self._take_bundle(Path(config.bundle), slurm_uid)
        is_off = Path(config.off_file).exists()
        names = self._sizer.names if self._sizer else token_names(config.policy)
        found = holdings(jobs, names)
        if is_off or self._sizer is None:
            self.open_all()
        waiting = [holding for holding in found if holding.job.is_pending]
        licenses = slurm_commands.licenses()
        gates: dict[str, int] = {}
        if self._sizer and not is_off:
            gates = self._size(self._sizer, found, jobs, prediction)
            self._may_have_leases = True
            present = leases(slurm_commands.reservations())
            self._compare(accounts(found, licenses, present, names, now))
            wanted = reserved_for(gates, licenses, MIN_TOTAL)
            slurm_commands.control(plan(present, wanted, now, config.lease_seconds))
        self._waits.follow(waiting, now)
        self._release(
            waiting, prediction, licenses, config, is_off=is_off, cluster=cluster, now=now
        )
        if store is not None:
            self._record(store, found, jobs, prediction, gates, cluster, now)
        return found

    def open_all(self, timeout: float = slurm_commands.TIMEOUT) -> None:
        """Delete every lease, if there may be any."""
        if self._may_have_leases:
            delete_leases(timeout)
            self._may_have_leases = False

    def _take_bundle(self, path: Path, slurm_uid: int) -> None:
        """Take up a changed bundle; one with an error leaves the last good one in force.

        So does the plugin; only a bundle that is gone at the start means none.
        """
        try:
            status = path.stat()
        except FileNotFoundError:
            return
        stamp = (status.st_mtime_ns, status.st_size, status.st_ino)
        if stamp != self._bundle_stamp:
            self._sizer = Sizer(Bundle.load(path, slurm_uid))
            self._bundle_stamp = stamp

    def _size(
        self,
        sizer: Sizer,
        found: Iterable[Holding],
        jobs: Iterable[QueuedJob],
        prediction: Prediction,
    ) -> dict[str, int]:
        loads = {
            is_pending: [
                Load(
                    holding.klass,
                    holding.lane_mask,
                    _profile(prediction(holding.job)),
                    holding.job.tasks_waiting,
                )
                for holding in found
                if holding.job.is_pending == is_pending
            ]
            for is_pending in (False, True)
        }
        background = [
            Load(known.klass, 0, known.profile) for _, known in _background(found, jobs, prediction)
        ]
        return sizer.gates(loads[False], loads[True], background)

    def _compare(self, books: list[Account]) -> None:
        for text in self._audit.check(books):
            log.warning("books: %s", text)

    def _release(
        self,
        waiting: list[Holding],
        prediction: Prediction,
        licenses: dict[str, License],
        config: Config,
        *,
        is_off: bool,
        cluster: str,
        now: int,
    ) -> None:
        """Take the tokens off those who have waited long enough, or for nothing."""
        longest = (self._sizer or config).policy.max_delay if self._sizer else 0.0
        reasons: dict[tuple[int, int, int], str] = {}
        for holding in waiting:
            waited = self._waits.waited(holding)
            if is_off:
                reasons[holding.key] = "switched_off"
            elif any(
                token not in licenses or licenses[token].total < MIN_TOTAL
                for token, _ in holding.counts
            ):
                reasons[holding.key] = "undefined"
            elif waited >= longest:
                reasons[holding.key] = "max_delay"
            elif waited >= PATIENCE and prediction(holding.job) is None:
                reasons[holding.key] = "unknown"
        chosen = [h for h in self._waits.overdue(waiting, 0.0) if h.key in reasons]
        del chosen[config.releases :]
        self._commanded |= {
            h.key: Release(
                cluster=cluster,
                job_id=h.job.submission_id,
                submit=h.job.submit,
                released=now,
                tokens=",".join(token for token, _ in h.counts),
                reason=reasons[h.key],
                waited=self._waits.waited(h),
            )
            for h in chosen
        }
        slurm_commands.control([release_command(holding, licenses) for holding in chosen])

    def _record(
        self,
        store: Store,
        found: list[Holding],
        jobs: Sequence[QueuedJob],
        prediction: Prediction,
        gates: dict[str, int],
        cluster: str,
        now: int,
    ) -> None:
        """Tell the history who runs together, and whose release has come about."""
        still = {holding.key for holding in found}
        present = {(job.job_id, job.submit, job.restarts) for job in jobs}
        done = [
            release
            for key, release in self._commanded.items()
            if key not in still and key in present
        ]
        if done:
            store.add_releases(done)
            self.releases += len(done)
        self._commanded = {key: r for key, r in self._commanded.items() if key in still}

        holders = [
            Holder(h.job.job_id, h.job.submit, h.klass, h.lane_mask)
            for h in found
            if not h.job.is_pending
        ]
        holders += [
            Holder(job.job_id, job.submit, "", 0) for job, _ in _background(found, jobs, prediction)
        ]
        row = RunningSet(cluster, now, tuple(sorted(holders, key=lambda h: h.job_id)), gates)
        if self._recorded is None:
            store.prune_running_sets(before=now - KEPT_SETS)
        if self._recorded is None or (self._recorded.holders, self._recorded.gates) != (
            row.holders,
            row.gates,
        ):
            store.add_running_set(row)
            self._recorded = row


def delete_leases(timeout: float = slurm_commands.TIMEOUT) -> int:
    """Open all gates; return how many leases there were."""
    present = leases(slurm_commands.reservations())
    slurm_commands.control(plan(present, {}, now=0, length=0), timeout=timeout)
    return len(present)


def _profile(known: View | None) -> View | None:
    return None if known is None or known.evidence == "none" else known.profile


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
