"""What `sluice doctor` finds, and what daemons say is wrong with themselves."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from sluice.policies.snapshot import CLOCK_DIFFERENCE
from sluice.slurm.queue import Queue
from sluice.slurm.records import SlurmError
from sluice.slurm.service import may_read
from sluice.slurm.status import (
    LEASES,
    NOT_RENEWED,
    REFUSED,
    is_locked,
    learner_path,
    read_status,
    status_path,
)
from sluice.slurm.texts import duration_text, one_line, time_text
from sluice.slurm.viewers import user_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from sluice.policies.core import Config
    from sluice.slurm.records import Controller
    from sluice.slurm.status import Status, Trouble


@dataclass(frozen=True, slots=True)
class Finding:
    level: str
    """OK, WARN, FAIL, or SKIP: this user may not see what it takes to judge."""
    topic: str
    text: str
    remedy: str = ""


@dataclass(slots=True)
class Site:
    """What the checks know; the first ones fill it for the others."""

    config_path: Path
    is_named: bool = False
    """Whether somebody named the configuration, so that it must be there."""
    config: Config | None = None
    controller: Controller | None = None
    stats: dict[str, Any] = field(default_factory=dict)
    sluiced_runs: bool = False
    _queue: Queue | SlurmError | None = None
    polled: int = 0
    """When the queue was, UTC seconds."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        if isinstance(self._queue, Queue):
            self._queue.close()

    def queue(self) -> Queue:
        """Return the queue, polled once for all that ask; or raise why it could not be."""
        if self._queue is None:
            polled = Queue()
            try:
                polled.poll()
                self._queue, self.polled = polled, int(time.time())
            except SlurmError as error:
                polled.close()
                self._queue = error
        if isinstance(self._queue, SlurmError):
            raise self._queue
        return self._queue

    @property
    def is_service(self) -> bool:
        """Whether this user may ask the plugin and change Sluice's files."""
        return os.geteuid() in {0, self.slurm_uid}

    @property
    def slurm_uid(self) -> int:
        """Whose files slurmctld believes, besides root's."""
        return self.controller.slurm_uid if self.controller else os.geteuid()


def skipped(topic: str, text: str) -> Finding:
    return Finding("SKIP", topic, text, "run this as root, as SlurmUser, or in the service group")


@dataclass(frozen=True, slots=True)
class Lifetime:
    """How long a file is good for, and what to say once it is not."""

    seconds: float
    level: str
    """WARN or FAIL: of a file that is too old or from the future."""
    remedy: str
    writer: str
    """The command that writes the file."""

    def judge(self, topic: str, text: str, written: float) -> Finding:
        """Say whether a file is well, by its age.

        One from the future is not: once its time has come it would look younger than it is.
        """
        age = time.time() - written
        if age < -CLOCK_DIFFERENCE:
            ahead = f"{text}; dated {duration_text(-age)} in the future"
            return Finding(self.level, topic, ahead, self._clocks())
        text = f"{text}; {duration_text(max(0.0, age))} old"
        if age > self.seconds:
            return Finding(self.level, topic, f"{text}: too old", self.remedy)
        return Finding("OK", topic, text)

    def _clocks(self) -> str:
        return (
            f"compare `date -u` here and on the machine where {self.writer} ran, set the clock "
            f"that is wrong, then let {self.writer} write the file anew"
        )


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
