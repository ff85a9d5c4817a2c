"""Plays slurmctld's part with leases, in memory."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from sluice.slurm.gates.leases import PREFIX, Lease
from sluice.slurm.records import Reservation

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


class LeaseBook:
    """Does to leases what slurmctld does on scontrol's commands, and refuses what it refuses."""

    def __init__(self, now: int, actual: Iterable[Lease] = ()) -> None:
        self.now = now
        """UTC seconds."""
        self.leases = {lease.token: lease for lease in actual}

    def run(self, command: str) -> None:
        token = _found(rf"reservationname={PREFIX}(\S+)", command)
        if command.startswith("delete"):
            del self.leases[token]
            return
        end = self.now + int(_found(r"endtime=now\+(\d+)seconds", command))
        assert _found(r"licenses=(\S+):\d+", command) == token
        if command.startswith("create"):
            assert token not in self.leases
        else:
            assert self.leases[token].end > self.now  # a lease that ran out cannot be changed
        self.leases[token] = Lease(token, int(_found(r"licenses=\S+:(\d+)", command)), end)

    def control(self, commands: Sequence[str]) -> None:
        """Take the place of slurm_commands.control."""
        for command in commands:
            self.run(command)

    def reservations(self) -> list[Reservation]:
        """Return what Slurm shows of them."""
        return [
            Reservation(f"{PREFIX}{one.token}", one.end, 0, f"{one.token}:{one.count}")
            for one in self.leases.values()
        ]


def _found(pattern: str, command: str) -> str:
    found = re.search(pattern, command)
    assert found, command
    return found[1]
