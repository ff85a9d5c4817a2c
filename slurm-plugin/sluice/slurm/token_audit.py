"""The token audit: what jobs, licences and leases say about tokens, and whether they agree.

Tokens are counted from the jobs themselves and compared with what Slurm counts. Both are asked one
after the other, so a difference counts only if it stays.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sluice.policies.tokens import MIN_TOTAL

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from sluice.slurm.holdings import Holding
    from sluice.slurm.leases import Lease
    from sluice.slurm.records import License


@dataclass(frozen=True, slots=True)
class Account:
    """One token's page."""

    token: str
    lane: int
    klass: str
    total: int
    """In slurm.conf; 0: not defined there."""
    held: int
    """By jobs that run or are suspended."""
    wanted: int
    """By jobs that wait."""
    used: int
    """What Slurm counts as used."""
    reserved: int
    """What Slurm counts as reserved, by any reservation."""
    lease: Lease | None
    """While it lives."""

    @property
    def is_defined(self) -> bool:
        return self.total >= MIN_TOTAL

    @property
    def gate(self) -> int | None:
        """Tokens that the lease lets out; None: it is open."""
        return None if self.lease is None else self.total - self.lease.count


def accounts(
    holdings: Iterable[Holding],
    licenses: Mapping[str, License],
    leases: Iterable[Lease],
    names: Mapping[str, tuple[int, str]],
    now: int,
) -> list[Account]:
    """Audit the tokens at time now (UTC seconds)."""
    held = dict.fromkeys(names, 0)
    wanted = dict.fromkeys(names, 0)
    for holding in holdings:
        for token, count in holding.counts:
            if holding.job.is_pending:
                wanted[token] += count * holding.job.tasks_waiting
            else:
                held[token] += count
    living = {lease.token: lease for lease in leases if lease.end > now}
    return [
        Account(
            token=token,
            lane=lane,
            klass=klass,
            total=licenses[token].total if token in licenses else 0,
            held=held[token],
            wanted=wanted[token],
            used=licenses[token].used if token in licenses else 0,
            reserved=licenses[token].reserved if token in licenses else 0,
            lease=living.get(token),
        )
        for token, (lane, klass) in names.items()
    ]


def differences(balance: Iterable[Account]) -> dict[str, str]:
    """Say what does not agree, by token and kind."""
    found: dict[str, str] = {}
    for account in balance:
        token = account.token
        if account.held != account.used:
            found[f"{token} held"] = (
                f"{token}: the jobs hold {account.held}, Slurm counts {account.used} as used"
            )
        leased = account.lease.count if account.lease else 0
        if leased != account.reserved:
            found[f"{token} reserved"] = (
                f"{token}: the lease reserves {leased}, Slurm counts {account.reserved}"
            )
    return found


class Audit:
    """Finds differences that stay."""

    def __init__(self) -> None:
        self._before: dict[str, str] = {}
        self._reported: dict[str, str] = {}

    def check(self, balance: Iterable[Account]) -> list[str]:
        """Return the differences that were there the last time, too, and are new."""
        found = differences(balance)
        stay = {kind: text for kind, text in found.items() if self._before.get(kind) == text}
        self._before = found
        new = [text for kind, text in stay.items() if self._reported.get(kind) != text]
        self._reported = stay
        return new
