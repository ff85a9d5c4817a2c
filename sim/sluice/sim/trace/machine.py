"""What a trace is replayed on: a machine and the settings of its scheduler.

Either all from the trace and the command line (one pool of slots), or groups, partitions, licences
and leases of a scenario.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from sluice.sim import engine
from sluice.sim.engine import Machine, MachineError, Partition

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from sluice.sim.trace.jobs import Trace

SLURM: Mapping[str, float | str] = {
    "backfill": "conservative",
    "interval": 30,
    "window": 86400,
    "resolution": 60,
    "end_window": 30,
    "depth": 500,
}
"""What slurmctld does with default SchedulerParameters and sched/backfill."""

PARTS = ("groups", "partitions", "licenses", "leases")
"""Tables of a scenario that tell of the machine."""


@dataclass(frozen=True, slots=True)
class Site:
    """A machine, its leases and its scheduler."""

    machine: Machine
    settings: Mapping[str, float | str] = field(default_factory=dict)
    leases: NDArray[Any] = field(default_factory=lambda: np.zeros(0, engine.LEASE))
    """LEASE; times are UTC seconds."""

    def with_settings(self, settings: Mapping[str, float | str]) -> Site:
        return replace(self, settings={**self.settings, **settings})


def one_pool(slots: int) -> Site:
    """All slots are alike. Raises MachineError where they are more than can be counted."""
    if slots > engine.MAX_SLOTS:
        raise MachineError(
            f"a machine of {slots} slots is more than the {engine.MAX_SLOTS} that a replay can "
            "count; give its size with --slots"
        )
    return Site(Machine((slots,)))


def site_of(trace: Trace) -> Site:
    """One pool, as large as the trace says, or as it was ever busy.

    Raises MachineError where the trace tells neither.
    """
    if trace.machine_slots:
        return one_pool(trace.machine_slots)
    if trace.start is None:
        raise MachineError(
            f"{trace.name} does not say how large the machine was; give it with --slots"
        )
    known = np.isfinite(trace.start) & (trace.runtime > 0) & (trace.slots > 0)
    begin, end = trace.start[known], (trace.start + trace.runtime)[known]
    change = np.concatenate([-trace.slots[known], trace.slots[known]])
    order = np.lexsort((-change, np.concatenate([begin, end])))  # ends first
    busiest = int(-np.cumsum(change[order]).min(initial=0))
    if not busiest:
        raise MachineError(f"{trace.name}: no job says when it ran; give the size with --slots")
    return one_pool(busiest)


def parse_site(table: Mapping[str, Any]) -> Site:
    """Make a site of those tables of a scenario that tell of the machine (PARTS)."""
    try:
        groups = _totals(table.get("groups", {}), "groups")
        if not groups:
            raise ValueError("no [groups]; write e.g. nodes = 100")  # noqa: TRY301 - one handler
        licenses = _totals(table.get("licenses", {}), "licenses")
        partitions = tuple(
            _partition(name, members, list(groups))
            for name, members in table.get("partitions", {}).items()
        ) or (Partition("all", tuple(range(len(groups)))),)
        return Site(
            Machine(tuple(groups.values()), partitions, licenses),
            leases=_leases(table.get("leases", []), list(groups), list(licenses)),
        )
    except (ValueError, AttributeError, TypeError) as error:
        raise MachineError(f"machine of the scenario: {error}") from error


def _only(table: Mapping[str, Any], *names: str) -> None:
    for name in table:
        if name not in names:
            raise ValueError(f"unknown {name}; there are {', '.join(names)}")


def _totals(table: Mapping[str, Any], title: str) -> dict[str, int]:
    for name, total in table.items():
        if not isinstance(total, int) or isinstance(total, bool) or total < 0:
            raise ValueError(f"{title}.{name} is {total!r}; give a whole number")
    if sum(table.values()) > engine.MAX_SLOTS:
        raise ValueError(f"{title} are more than {engine.MAX_SLOTS} in all; give fewer")
    return dict(table)


def _partition(name: str, members: Mapping[str, Any], groups: list[str]) -> Partition:
    _only(members, "groups", "tier", "factor")
    names = members.get("groups", groups)
    return Partition(
        name,
        tuple(_index(one, groups, f"partitions.{name}.groups") for one in names),
        int(members.get("tier", 0)),
        float(members.get("factor", 0.0)),
    )


def _index(name: str, known: list[str], where: str) -> int:
    if name not in known:
        raise ValueError(f"{where}: no {name}; there are {', '.join(known) or 'none'}")
    return known.index(name)


def _leases(
    tables: list[Mapping[str, Any]], groups: list[str], licenses: list[str]
) -> NDArray[Any]:
    leases = np.zeros(len(tables), engine.LEASE)
    for row, table in zip(leases, tables, strict=True):
        _only(table, "license", "group", "amount", "from", "until")
        if ("license" in table) == ("group" in table):
            raise ValueError("a lease names either a license or a group")
        if "group" in table:
            row["group"] = _index(table["group"], groups, "leases") + 1
        else:
            row["license"] = _index(table["license"], licenses, "leases")
        row["amount"] = table.get("amount", 0)
        row["from"] = table.get("from", 0)
        row["until"] = table.get("until", np.inf)
    return leases
