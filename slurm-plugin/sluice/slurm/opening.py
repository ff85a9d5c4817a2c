"""Opens all gates: deletes the leases, and takes tokens off jobs that wait.

Each lease stands alone, and the outcome is judged by what Slurm shows afterwards.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sluice.slurm import slurm_commands
from sluice.slurm.errors import CommandFailedError
from sluice.slurm.holdings import Holding, holdings, release_of
from sluice.slurm.leases import EMPTY, PREFIX, Lease, leases, plan
from sluice.slurm.queue import Queue

if TYPE_CHECKING:
    from collections.abc import Mapping

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
            opened.failed[token] = why.get(token) or "somebody closes it again"
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
