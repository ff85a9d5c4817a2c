"""Capacity leases: short reservations of licences that keep the gates closed.

slurm.conf gives each token a huge total. A lease reserves all of them but as many as the gate lets
out, for some seconds; sluiced renews it. Without sluiced it runs out, and the gate is open.

Pure functions: what the controller has and what it should have in, commands out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sluice.policies.core import CLASSES
from sluice.slurm.holdings import parse_licenses

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from sluice.slurm.records import License, Reservation

PREFIX = "sluice_"
CLASS_ENDS = tuple(f"_{klass}" for klass in CLASSES if klass != "none")
EMPTY = 1  # token of very many; Slurm 26.05 knows no reservation of none at all
ENDLESS = 2  # times its length: a lease that ends later was not made with this setting


@dataclass(frozen=True, slots=True)
class Lease:
    token: str
    count: int
    """Of the token, that nobody gets."""
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
