"""What a daemon says of itself: what fails and since when, whom that concerns, and counts.

It lies in a file and is written when something of it has changed. That of sluiced lies next to the
snapshot, for `sluice doctor` and `sluice gates`; that of sluice-learn next to the history, for
`sluice status`. It needs no history: a full disk is one of the things that it tells.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sluice.policies.container import read_regular, write_atomically
from sluice.policies.core import CoreError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

MAX_BYTES = 1 << 20
MOST_NAMED = 100
"""Jobs or tokens that are named for each topic; the others are counted."""

# Topics of what is named, job by job or token by token.
REFUSED = "refused releases"
"""Jobs whose tokens Slurm does not let us take off, with its own words."""
LEASES = "leases"
"""Tokens whose lease cannot be made or renewed, with Slurm's own words."""
NOT_RENEWED = "not renewed"
"""Tokens whose gate is left open because somebody has waited too long, with who that is."""


@dataclass(frozen=True, slots=True)
class Trouble:
    text: str
    since: int
    """UTC seconds."""


@dataclass(slots=True)
class Status:
    """Filled by sluiced from poll to poll, or read from its file."""

    failing: dict[str, Trouble] = field(default_factory=dict)
    """By topic: history, controller, gates, …"""
    named: dict[str, dict[str, Trouble]] = field(default_factory=dict)
    """By topic, and job or token."""
    counts: dict[str, int] = field(default_factory=dict)
    """Since sluiced started."""
    facts: dict[str, int | str] = field(default_factory=dict)
    """What sluice-learn tells of its work; times are UTC seconds."""
    _written: str = ""

    def fails(self, topic: str, text: str) -> None:
        self.failing[topic] = _kept(self.failing.get(topic), text)

    def works(self, topic: str) -> None:
        self.failing.pop(topic, None)

    def name(self, topic: str, texts: Mapping[str, str]) -> None:
        """Say which jobs or tokens a topic concerns now; those named before keep their time."""
        before = self.named.get(topic, {})
        chosen = list(texts.items())[:MOST_NAMED]
        self.named[topic] = {name: _kept(before.get(name), text) for name, text in chosen}
        self.counts[topic] = len(texts)

    def count(self, what: str, number: int) -> None:
        self.counts[what] = number

    def write(self, snapshot: Path) -> None:
        """Write it next to the snapshot, if it has changed; raises OSError."""
        text = json.dumps(
            {
                "failing": {topic: _row(trouble) for topic, trouble in self.failing.items()},
                "named": {
                    topic: {name: _row(trouble) for name, trouble in rows.items()}
                    for topic, rows in self.named.items()
                },
                "counts": self.counts,
                "facts": self.facts,
            }
        )
        path = status_path(snapshot)
        if text != self._written or not path.exists():
            write_atomically(path, text.encode())
            self._written = text


def status_path(snapshot: Path) -> Path:
    return snapshot.with_name(snapshot.name + ".status")


def read_status(snapshot: Path) -> Status | None:
    """Read what sluiced wrote; None where there is nothing that this version understands."""
    try:
        found = json.loads(read_regular(status_path(snapshot), MAX_BYTES))
        return Status(
            failing={topic: Trouble(**row) for topic, row in found["failing"].items()},
            named={
                topic: {name: Trouble(**row) for name, row in rows.items()}
                for topic, rows in found["named"].items()
            },
            counts=dict(found["counts"]),
            facts=dict(found.get("facts", {})),
        )
    except (OSError, CoreError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _kept(before: Trouble | None, text: str) -> Trouble:
    """Return a trouble with the time of the one before it."""
    return Trouble(text, before.since if before else int(time.time()))


def _row(trouble: Trouble) -> dict[str, Any]:
    return {"text": trouble.text, "since": trouble.since}
