"""Tokens: the jobs that hold them, the leases that keep gates closed, and whether all agree.

slurm.conf gives each token a huge total. A lease reserves all of them but as many as the gate lets
out, for some seconds; sluiced renews it. Without sluiced it runs out, and the gate is open.

Pure functions: what the controller has and what it should have in, commands out.

The token audit: what jobs, licences and leases say about tokens, and whether they agree. Tokens are
counted from the jobs themselves and compared with what Slurm counts. Both are asked one after the
other, so a difference counts only if it stays.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from sluice.policies.core import CLASSES
from sluice.policies.record import LICENSES_SIZE, MIN_TOTAL
from sluice.slurm.records import LicenseChange

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from sluice.slurm.records import License, QueuedJob, Reservation


LICENSE = re.compile(r"([^:,;|]+)(?::(\d+))?")


@dataclass(frozen=True, slots=True)
class Holding:
    """A job with tokens of ours: it holds them if it runs, and wants them while it waits."""

    job: QueuedJob
    klass: str
    lane_mask: int
    counts: tuple[tuple[str, int], ...]
    """Token and how many of it: 1, unless an administrator gave the job more."""


def holdings(jobs: Iterable[QueuedJob], names: Mapping[str, tuple[int, str]]) -> list[Holding]:
    """Return the jobs that hold or want tokens."""
    found = (holding_of(job, names) for job in jobs)
    return [holding for holding in found if holding is not None]


def holding_of(job: QueuedJob, names: Mapping[str, tuple[int, str]]) -> Holding | None:
    """Return what a job holds or wants; None: no token."""
    if not job.licenses or not (job.is_pending or job.holds_licenses):
        return None
    counts = {name: count for name, count in parse_licenses(job.licenses).items() if name in names}
    if not counts:
        return None
    lanes = {names[token][0] for token in counts}
    return Holding(
        job=job,
        klass=names[min(counts)][1],
        lane_mask=sum(1 << lane for lane in lanes),
        counts=shared(tuple(sorted(counts.items()))),
    )


@lru_cache(maxsize=4096)
def shared(counts: tuple[tuple[str, int], ...]) -> tuple[tuple[str, int], ...]:
    """Return the same object for all jobs with these tokens."""
    return counts


@lru_cache(maxsize=4096)  # many jobs ask for the same
def parse_licenses(text: str) -> Mapping[str, int]:
    """Count the licences in `a:2,b;a`: what is named twice adds up.

    As Slurm does, whatever follows the number is not looked at: users may write there.
    """
    counts: dict[str, int] = {}
    for item in re.split("[,;|]", text):
        if found := LICENSE.match(item):
            counts[found[1]] = counts.get(found[1], 0) + int(found[2] or 1)
    return counts


def release_of(holding: Holding, licenses: Mapping[str, object]) -> LicenseChange:
    """Return the change that leaves a job all licences but our tokens.

    The text is put together from names that the controller has, never copied: users may write
    behind a number whatever they like.
    """
    return LicenseChange(holding.job, ",".join(_own(holding, licenses)))


def exchange_of(
    holding: Holding, licenses: Mapping[str, object], tokens: Iterable[str]
) -> LicenseChange | None:
    """Return the change that gives a waiting job these tokens for its own; None: no room."""
    text = ",".join([*_own(holding, licenses), *tokens])
    return LicenseChange(holding.job, text) if len(text) < LICENSES_SIZE else None


def _own(holding: Holding, licenses: Mapping[str, object]) -> list[str]:
    """Return the licences that are not ours."""
    tokens = dict(holding.counts)
    return [
        f"{name}:{count}"
        for name, count in parse_licenses(holding.job.licenses).items()
        if name in licenses and name not in tokens
    ]


PREFIX = "sluice_"
CLASS_ENDS = tuple(f"_{klass}" for klass in CLASSES if klass != "none")
EMPTY = 1  # token of very many; Slurm 26.05 knows no reservation of none at all
ENDLESS = 2  # times its length: a lease that ends later was not made with this setting


@dataclass(frozen=True, slots=True)
class Lease:
    token: str
    count: int
    """Of the token, which no job gets."""
    end: int
    """UTC seconds."""


def leases(reservations: Iterable[Reservation]) -> list[Lease]:
    """Return those reservations that are leases of any sluiced, of this or of an earlier one."""
    found = (lease_of(reservation) for reservation in reservations)
    return [lease for lease in found if lease is not None]


def lease_of(reservation: Reservation) -> Lease | None:
    """Return the lease, or None for anything that sluiced would not have made.

    `sluice_<token>` reserves that token, no other licence and no node. So an administrator's
    reservation is never taken for ours, whatever it is called.
    """
    token = reservation.name.removeprefix(PREFIX)
    counts = parse_licenses(reservation.licenses)
    if (
        token == reservation.name
        or not token.endswith(CLASS_ENDS)
        or set(counts) != {token}
        or reservation.nodes > 0
    ):
        return None
    return Lease(token=token, count=counts[token], end=reservation.end)


def reserved_for(
    gates: Mapping[str, int], licenses: Mapping[str, License], least: int
) -> dict[str, int]:
    """Return how many of each token to reserve, where the controller has at least `least`."""
    return {
        token: licenses[token].total - gate
        for token, gate in gates.items()
        if token in licenses and licenses[token].total >= max(least, gate + 1)
    }


def plan(actual: Iterable[Lease], wanted: Mapping[str, int], now: int, length: int) -> list[str]:
    """Return the commands of scontrol that bring the leases to what is wanted.

    wanted is how many of each token to reserve for the next `length` seconds. Gates that close
    come before gates that open. A lease is renewed in the second half of its life.
    """
    present = {lease.token: lease for lease in actual}
    close: list[str] = []
    open_ = [f"delete reservationname={PREFIX}{token}" for token in present if token not in wanted]
    for token, count in wanted.items():
        lease = present.get(token)
        if lease is not None and lease.end > now:
            if _is_good(lease, count, now, length):
                continue
            line = (
                f"update reservationname={PREFIX}{token} endtime=now+{length}seconds "
                f"licenses={token}:{count}"
            )
            (open_ if count < lease.count else close).append(line)
            continue
        if lease is not None:  # it ran out, and Slurm has not tidied it away
            close.append(f"delete reservationname={PREFIX}{token}")
        close.append(
            f"create reservation reservationname={PREFIX}{token} starttime=now "
            f"endtime=now+{length}seconds users=root licenses={token}:{count} "
            "flags=license_only,ignore_jobs,flex"
        )
    return close + open_


def _is_good(lease: Lease, count: int, now: int, length: int) -> bool:
    left = lease.end - now
    return lease.count == count and length / 2 < left <= ENDLESS * length


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


class TokenCount:
    """How many of each token jobs hold, and want."""

    def __init__(self, holdings: Iterable[Holding] = ()) -> None:
        self.held: Counter[str] = Counter()
        self.wanted: Counter[str] = Counter()
        for holding in holdings:
            self.add(holding)

    def add(self, holding: Holding, times: int = 1) -> None:
        """Count a job; with -1, count it no longer."""
        job = holding.job
        for token, count in holding.counts:
            if job.is_pending:
                self.wanted[token] += times * count * job.tasks_waiting
            else:
                self.held[token] += times * count


def accounts(
    counted: TokenCount,
    licenses: Mapping[str, License],
    leases: Iterable[Lease],
    names: Mapping[str, tuple[int, str]],
    now: int,
) -> list[Account]:
    """Audit the tokens at time now (UTC seconds)."""
    living = {lease.token: lease for lease in leases if lease.end > now}
    return [
        Account(
            token=token,
            lane=lane,
            klass=klass,
            total=licenses[token].total if token in licenses else 0,
            held=counted.held[token],
            wanted=counted.wanted[token],
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
