"""What daemons that run say is wrong."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from sluice.slurm.doctor.findings import Finding, Site, skipped
from sluice.slurm.lock import is_locked, learner_path
from sluice.slurm.permissions import may_read
from sluice.slurm.status import LEASES, NOT_RENEWED, REFUSED, read_status, status_path
from sluice.slurm.texts import one_line, time_text
from sluice.slurm.viewers import user_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from sluice.slurm.status import Status, Trouble

SHOWN = 5
"""Jobs or tokens that a finding names."""
HISTORY = (
    "make room, or let the user of sluiced write there; until then nothing is learned, and "
    "slurmctld keeps decisions as far as RingRecords reaches"
)
TOPICS = {
    "configuration": "repair it, then `sluice config check`; the last good one is in use",
    "controller": "`scontrol ping`; sluiced runs as SlurmUser, as root, or as an operator",
    "plugin": "see slurmctld's log for `sluice`, and compare Socket with sluice.conf",
    "history": HISTORY,
    "targets": HISTORY,
    "gates": "do what the text says; `sluice off` opens all gates meanwhile",
    "releases": "do what the text says; `sluice off` opens all gates meanwhile",
    "snapshot": "let the user of sluiced write the directory of Snapshot; jobs are left alone",
    "status": "let the user of sluiced write the directory of Snapshot",
    "queries": "let the user of sluiced write the directory of Socket; users cannot ask until then",
}
"""What to do where sluiced fails, by topic."""
SEE_LOG = "see the log of sluiced"
NAMED = {
    REFUSED: (
        "Slurm does not let sluiced take the tokens off these jobs",
        (
            "put back into slurm.conf what the text misses, or `scontrol update jobid=… licenses=` "
            "with the job's other licences; `sluice off` opens all gates meanwhile"
        ),
    ),
    LEASES: (
        "these leases cannot be kept, so their gates are open",
        (
            "`scontrol show reservation`: take the token out of other reservations, and rename or "
            "delete one that has the lease's name"
        ),
    ),
    NOT_RENEWED: (
        "these gates are left open, because somebody behind them has waited for too long",
        (
            "see why the jobs do not start: `scontrol show job`, `sluice why`; the gates close "
            "again once they run"
        ),
    ),
}
"""What is the matter with those that sluiced names, and what to do."""


def troubles(site: Site) -> Iterator[Finding]:
    """Say what fails in a sluiced that runs: to start it would repair nothing."""
    if site.config is None or not site.sluiced_runs:
        return
    path = status_path(Path(site.config.snapshot))
    if not may_read(path):
        yield skipped("sluiced", f"{path} is not readable for {user_text(os.geteuid())}")
        return
    status = read_status(Path(site.config.snapshot))
    if status is None:
        yield Finding(
            "WARN",
            "sluiced",
            f"{path} does not say how it fares",
            "restart sluiced, which may be of another version; its log says if it cannot write",
        )
        return
    for topic, trouble in status.failing.items():
        text = f"sluiced fails since {time_text(trouble.since)}: {one_line(trouble.text)}"
        yield Finding("FAIL", topic, text, TOPICS.get(topic, SEE_LOG))
    yield from named(status)


def learning(site: Site) -> Iterator[Finding]:
    """Say what fails in a sluice-learn that runs here, or did."""
    if site.config is None:
        return
    path = learner_path(Path(site.config.history))
    if not may_read(status_path(path)) or (status := read_status(path)) is None:
        return  # a site may train by hand
    with suppress(OSError):
        if not is_locked(path):
            yield Finding(
                "WARN",
                "sluice-learn",
                "does not run, so nothing is learned from the jobs that end",
                "`systemctl start sluice-learn`",
            )
            return
    for topic, trouble in status.failing.items():
        yield Finding(
            "WARN",
            f"sluice-learn, {topic}",
            f"fails since {time_text(trouble.since)}: {one_line(trouble.text)}",
            "see `sluice status`, and the log of sluice-learn",
        )
    if not status.failing:
        yield Finding("OK", "sluice-learn", "runs; `sluice status` says how far it is")


def named(status: Status) -> Iterator[Finding]:
    """Say which jobs and gates sluiced has trouble with."""
    for topic, (what, remedy) in NAMED.items():
        rows = status.named.get(topic)
        if rows:
            text = f"{what}: {_listed(rows, status.counts.get(topic, 0))}"
            yield Finding("FAIL", topic, text, remedy)


def _listed(rows: Mapping[str, Trouble], count: int) -> str:
    shown = [
        f"{name} (since {time_text(row.since)}: {one_line(row.text)})"
        for name, row in list(rows.items())[:SHOWN]
    ]
    more = max(count, len(rows)) - len(shown)
    return "; ".join(shown) + (f"; and {more} more" if more else "")
