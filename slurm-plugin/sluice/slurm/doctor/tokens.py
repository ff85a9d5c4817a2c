"""Who holds or reserves tokens that Sluice did not give."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from sluice.history_db.errors import HistoryError
from sluice.history_db.store import Store
from sluice.policies.core import CoreError
from sluice.policies.record import Record
from sluice.policies.tokens import token_names
from sluice.slurm import slurm_commands
from sluice.slurm.doctor.findings import Finding, Site
from sluice.slurm.errors import SlurmError
from sluice.slurm.holdings import Holding, holdings, parse_licenses, release_of
from sluice.slurm.leases import PREFIX, lease_of
from sluice.slurm.overview import policy_in_use
from sluice.slurm.permissions import may_read
from sluice.slurm.viewers import hidden

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from sluice.slurm.records import Reservation

SHOWN = 3
"""Jobs for which the command is given."""

Names = dict[str, tuple[int, str]]


def reservations(site: Site) -> Iterator[Finding]:
    """Find reservations that are in the way of a lease."""
    if site.config is None or site.controller is None or site.config.mode != "enforce":
        return
    names = token_names(policy_in_use(site.config))
    try:
        found = slurm_commands.reservations()
    except SlurmError:
        return  # `gates` says so
    for reservation in found:
        if lease_of(reservation) is None:
            yield from _in_the_way(reservation, names)


def _in_the_way(reservation: Reservation, names: Names) -> Iterator[Finding]:
    name = reservation.name
    if name.startswith(PREFIX) and name.removeprefix(PREFIX) in names:
        yield Finding(
            "FAIL",
            "reservations",
            f"{name} has the name of a lease and is none, so its gate cannot be closed",
            f"`scontrol delete reservationname={name}`, or make it under another name",
        )
        return
    licenses = parse_licenses(reservation.licenses)
    ours = [f"{token}:{count}" for token, count in licenses.items() if token in names and count]
    if not ours:
        return
    rest = ",".join(f"{token}:{count}" for token, count in licenses.items() if token not in names)
    remedy = (
        f"`scontrol update reservationname={name} licenses={rest}`"
        if rest
        else f"`scontrol delete reservationname={name}`"
    )
    text = f"{name} reserves {', '.join(ours)}, so the gate lets out fewer, or cannot be closed"
    yield Finding("FAIL", "reservations", text, f"leave Sluice's tokens out of it: {remedy}")


def strangers(site: Site) -> Iterator[Finding]:
    """Find jobs with tokens that Sluice never gave them: other jobs wait for these."""
    if site.config is None or site.controller is None:
        return
    if hidden(os.geteuid(), site.controller, ("jobs",)):
        return  # `gates` says so
    names = token_names(policy_in_use(site.config))
    try:
        queue = site.queue()
    except SlurmError:
        return
    found, licenses = holdings(queue.jobs.values(), names), queue.licenses
    taken = [holding for holding in found if any(count > 1 for _, count in holding.counts)]
    others = [holding for holding in found if holding not in taken]
    history, cluster = Path(site.config.history), site.controller.cluster
    unknown, ungranted = _by_history(history, cluster, others)
    taken += ungranted
    if taken:
        yield Finding(
            "FAIL",
            "tokens of users",
            f"{len(taken)} jobs have tokens that Sluice did not give them: {_jobs(taken)}",
            _commands(taken, licenses),
        )
    if unknown:
        yield Finding(
            "WARN",
            "tokens without a decision",
            f"{len(unknown)} jobs have tokens, and no decision of theirs is known: "
            f"{_jobs(unknown)}",
            "nothing, if they were submitted just now; else their records were lost, and "
            f"{_commands(unknown, licenses)}",
        )


def _by_history(
    path: Path, cluster: str, found: list[Holding]
) -> tuple[list[Holding], list[Holding]]:
    """Return those of which no decision is known, and those whose decisions gave no tokens."""
    unknown: list[Holding] = []
    ungranted: list[Holding] = []
    if not found or not may_read(path):
        return unknown, ungranted
    try:
        with Store(path, read_only=True) as store:
            for holding in found:
                given = _given(store, holding, cluster)
                if given is None:
                    unknown.append(holding)
                elif not given:
                    ungranted.append(holding)
    except HistoryError:
        return [], []  # `history` says so
    return unknown, ungranted


def _given(store: Store, holding: Holding, cluster: str) -> bool | None:
    """Whether a decision gave the job tokens of its class; None: none is known."""
    decisions = store.decisions_for_job(holding.job.submission_id, cluster)
    decisions += store.second_decisions(holding.job.submission_id, since=0)
    classes = set()
    for decision in decisions:
        try:
            classes.add(Record.parse(decision.record).to_dict()["grant"]["tokens"]["klass"])
        except CoreError:
            return True  # of another version: who knows
    return holding.klass in classes if classes else None


def _jobs(found: list[Holding]) -> str:
    shown = [
        f"{one.job.submission_id} ({', '.join(f'{name}:{count}' for name, count in one.counts)})"
        for one in found[:SHOWN]
    ]
    return ", ".join(shown) + (", …" if len(found) > SHOWN else "")


def _commands(found: list[Holding], licenses: Mapping[str, object]) -> str:
    """Return what takes the tokens off, job by job."""
    commands = dict.fromkeys(release_of(one, licenses).command for one in found[:SHOWN])
    return "take them off: " + ", ".join(f"`scontrol {command}`" for command in commands)
