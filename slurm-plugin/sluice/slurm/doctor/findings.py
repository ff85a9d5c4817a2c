"""What `sluice doctor` finds, and what its checks know of the site."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

from sluice.policies.snapshot import CLOCK_DIFFERENCE
from sluice.slurm.errors import SlurmError
from sluice.slurm.queue import Queue
from sluice.slurm.texts import duration_text

if TYPE_CHECKING:
    from pathlib import Path

    from sluice.policies.core import Config
    from sluice.slurm.records import Controller


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
