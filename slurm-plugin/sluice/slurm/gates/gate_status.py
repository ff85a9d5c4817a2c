"""The gates as every user may see them, and how all are opened.

Opens all gates: deletes the leases, and takes tokens off jobs that wait. Each lease stands alone,
and the outcome is judged by what Slurm shows afterwards.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sluice.history_db.errors import HistoryError
from sluice.history_db.store import Store
from sluice.policies.bundle import Bundle
from sluice.policies.core import CoreError, furthest_mode
from sluice.policies.record import token_names
from sluice.slurm import service, slurm_commands
from sluice.slurm.gates.leases import (
    EMPTY,
    PREFIX,
    Account,
    Holding,
    Lease,
    TokenCount,
    accounts,
    differences,
    holdings,
    leases,
    plan,
    release_of,
)
from sluice.slurm.queue import Queue
from sluice.slurm.records import CommandFailedError
from sluice.slurm.visibility import user_text

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from sluice.policies.core import Config, View


TRIES = 5
PAUSE = 0.2
"""Seconds between polls: a job that starts in between makes a difference that does not stay."""
DAY = 86400


def overview(config: Config, now: int, hidden: Collection[str] = ()) -> dict[str, Any]:
    """Return gates, token audit and releases at time now (UTC seconds), ready for JSON.

    hidden is what Slurm does not show to this user in full: jobs, reservations. Then tokens
    cannot be audited.
    """
    with Queue() as queue:
        queue.poll()
        balance, found = settled_balance(queue, config, now, tries=1 if hidden else TRIES)
    return {
        "mode": config.mode,
        "furthest_mode": furthest_mode(config),
        "is_off": service.is_off(config),
        "gates": [_gate(account, found, now) for account in balance],
        "differences": [] if hidden else list(differences(balance).values()),
        "hidden": list(hidden),
        "released": _released(config, now - DAY),
    }


def held_for_io(queue: Queue, config: Config, now: int) -> list[dict[str, Any]]:
    """Return the jobs that wait and want tokens, as far as Slurm shows them to this user.

    The one that has been eligible for longest comes first.
    """
    names = token_names(policy_in_use(config))
    found = (one for one in holdings(queue.jobs.values(), names) if one.job.is_pending)
    rows = (_waiter(one, queue.reasons.get(one.job.job_id, ""), now) for one in found)
    return sorted(rows, key=lambda row: -(row["waits"] or 0))


def _waits(holding: Holding, now: int) -> int | None:
    """Return for how many seconds a job has been eligible; None where it is not."""
    eligible = holding.job.eligible
    return now - eligible if eligible and eligible <= now else None


def _waiter(holding: Holding, reason: str, now: int) -> dict[str, Any]:
    job = holding.job
    return {
        "job_id": job.job_id,
        "name": job.name,
        "uid": job.uid,
        "user": user_text(job.uid),
        "account": job.account,
        "partition": job.partition,
        "tokens": [token for token, _ in holding.counts],
        "waits": _waits(holding, now),
        "reason": reason,
    }


def settled_balance(
    queue: Queue, config: Config, now: int, tries: int = TRIES
) -> tuple[list[Account], list[Holding]]:
    """Audit the tokens of a queue; poll again, while they do not balance and may yet."""
    names = token_names(policy_in_use(config))
    for attempt in range(tries):
        if attempt:
            time.sleep(PAUSE)
            queue.poll()
        found = holdings(queue.jobs.values(), names)
        counted, present = TokenCount(found), leases(queue.reservations)
        balance = accounts(counted, queue.licenses, present, names, now)
        if not differences(balance):
            break
    return balance, found


def policy_in_use(config: Config) -> View:
    """Return the policy that decisions are made with: the bundle's, as in the plugin."""
    path = Path(config.bundle)
    policy: View = config.policy
    with suppress(CoreError, OSError):
        policy = Bundle.load(path, path.stat().st_uid).policy
    return policy


def _gate(account: Account, found: list[Holding], now: int) -> dict[str, Any]:
    waits = [
        waits
        for holding in found
        if holding.job.is_pending and account.token in dict(holding.counts)
        if (waits := _waits(holding, now)) is not None
    ]
    return {
        "token": account.token,
        "lane": account.lane,
        "class": account.klass,
        "total": account.total,
        "defined": account.is_defined,
        "gate": account.gate,
        "held": account.held,
        "waiting": account.wanted,
        "longest_wait": max(waits, default=None),
        "lease_seconds": account.lease.end - now if account.lease else None,
    }


def _released(config: Config, since: int) -> dict[str, int] | None:
    """Count the releases by reason; None where the history cannot be read."""
    path = Path(config.history)
    try:
        with Store(path, read_only=not os.access(path, os.W_OK)) as store:
            return dict(Counter(release.reason for release in store.gates.releases(since=since)))
    except HistoryError:
        return None


TIDY_SECONDS = 60
"""After so long Slurm deletes a lease that was emptied."""


@dataclass(slots=True)
class Opened:
    """What became of the leases, by token."""

    deleted: list[str] = field(default_factory=list)
    emptied: list[str] = field(default_factory=list)
    """Those with a job inside, which Slurm does not delete: they close no gate any more."""
    failed: dict[str, str] = field(default_factory=dict)
    """Why those that still close a gate could not be opened."""

    @property
    def tokens(self) -> list[str]:
        return [*self.deleted, *self.emptied, *self.failed]


def open_gates(timeout: float = slurm_commands.TIMEOUT) -> Opened:
    """Delete every lease; empty those that cannot be deleted.

    Raises SlurmError only where Slurm cannot be asked which leases there are.
    """

    def present() -> dict[str, Lease]:
        return {
            lease.token: lease for lease in leases(slurm_commands.reservations(timeout=timeout))
        }

    before = present()
    _attempt(plan(before.values(), {}, now=0, length=0), timeout)
    why = {
        token: _attempt([_empty_command(token)], timeout)
        for token, lease in (present() if before else {}).items()
        if lease.count > EMPTY
    }
    after = present() if before else {}
    opened = Opened(deleted=[token for token in before if token not in after])
    for token, lease in after.items():
        if lease.count <= EMPTY:
            opened.emptied.append(token)
        else:
            opened.failed[token] = why.get(token) or "another process closes it again"
    return opened


def delete_leases(timeout: float = slurm_commands.TIMEOUT) -> None:
    """Open all gates; raise CommandFailedError if one stays closed."""
    for token, why in open_gates(timeout).failed.items():
        raise CommandFailedError(f"the lease {PREFIX}{token} cannot be deleted: {why}")


def release_all(names: Mapping[str, tuple[int, str]]) -> int:
    """Take these tokens off all waiting jobs; return how many there were."""
    with Queue() as queue:

        def waiting() -> list[Holding]:
            queue.poll()
            found = holdings(queue.jobs.values(), names)
            return [holding for holding in found if holding.job.is_pending]

        chosen = waiting()
        said = queue.change([release_of(holding, queue.licenses) for holding in chosen])
        why = next(filter(None, said.values()), "")
        if why and (left := waiting()):  # otherwise one ended or started before its turn came
            raise CommandFailedError(f"{len(left)} waiting jobs still have tokens: {why}")
    return len(chosen)


def _empty_command(token: str) -> str:
    """Return the command that leaves a lease as good as empty, for Slurm to delete soon.

    Slurm ends the jobs in a reservation with it, unless that has the flag FLEX.
    """
    return (
        f"update reservationname={PREFIX}{token} licenses={token}:{EMPTY} flags+=flex "
        f"endtime=now+{TIDY_SECONDS}seconds"
    )


def _attempt(commands: list[str], timeout: float = slurm_commands.TIMEOUT) -> str:
    """Give the commands to scontrol; return why the first that failed did, or nothing."""
    try:
        slurm_commands.control(commands, timeout=timeout)
    except CommandFailedError as error:
        return str(error)
    return ""
