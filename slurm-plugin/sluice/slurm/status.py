"""What daemons say of themselves, whether they live, and how far learning is behind.

Locks next to files: one process keeps a file up to date, and commands see whether it lives. sluiced
locks next to the snapshot, sluice-learn next to the history.

What a daemon says of itself lies in a file and is written when something of it has changed. That of
sluiced lies next to the snapshot, for `sluice doctor` and `sluice gates`; that of sluice-learn next
to the history, for `sluice status`. It needs no history: a full disk is one of the things that it
tells.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import time
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sluice.history_db.errors import HistoryError
from sluice.policies.container import GROUP_READS, read_regular, write_atomically
from sluice.policies.core import CoreError
from sluice.slurm.records import AnotherDaemonError, SlurmError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import IO, Self

    from sluice.history_db.store import Store
    from sluice.policies.core import Config


PAUSES = (0.01, 0.1, 1.0)
"""Seconds between attempts: a command that asks whether we run holds the lock for a moment."""


class SnapshotLock:
    """Held from `move` to `close`, and at the latest until the process ends."""

    def __init__(self, who: str = "sluiced", setting: str = "Snapshot") -> None:
        """Name its holder in errors, and the setting that would give each its own."""
        self._path: Path | None = None
        self._handle: IO[str] | None = None
        self._who, self._setting = who, setting

    def move(self, snapshot: Path) -> None:
        """Hold the lock of this file in place of the one held before.

        Raises AnotherDaemonError, and keeps the one held before, where another process has it.
        """
        path = lock_path(snapshot)
        if path == self._path:
            return
        handle = _lock(path)
        if handle is None:
            raise AnotherDaemonError(
                f"another {self._who} holds {path}; stop it first, or give this one its own "
                f"{self._setting}"
            )
        self.close()
        self._path, self._handle = path, handle

    def close(self) -> None:
        if self._handle:
            self._handle.close()
        self._path = self._handle = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def lock_path(snapshot: Path) -> Path:
    return snapshot.with_name(snapshot.name + ".lock")


def learner_path(history: Path) -> Path:
    """Return the name by which sluice-learn locks a history, and leaves its status."""
    return history.with_name(history.name + ".learn")


def backup_path(history: Path) -> Path:
    """Return the name by which `sluice history backup` leaves word."""
    return history.with_name(history.name + ".backup")


def turns_path(snapshot: Path) -> Path:
    """Return the name by which sluice-turns locks a cluster, and leaves its status."""
    return snapshot.with_name(snapshot.name + ".turns")


def held_path(snapshot: Path) -> Path:
    """Return the file in which sluice-turns leaves a line for each burst that it held."""
    turns = turns_path(snapshot)
    return turns.with_name(turns.name + ".held")


@contextmanager
def daemons_stopped(snapshot: Path, history: Path) -> Iterator[None]:
    """Keep sluiced and sluice-learn from starting. Raises AnotherDaemonError while one runs."""
    with ExitStack() as held:
        for who, path in (("sluiced", snapshot), ("sluice-learn", learner_path(history))):
            if lock_path(path).exists():  # made by the user who is to own it
                lock = held.enter_context(SnapshotLock(who))
                lock.move(path)
        yield


def is_locked(snapshot: Path) -> bool:
    """Whether the process that keeps this file up to date is alive.

    Raises FileNotFoundError where none was ever started, and PermissionError.
    """
    with lock_path(snapshot).open() as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def _lock(path: Path) -> IO[str] | None:
    # a user who can read the file can lock it, and so keep sluiced from starting
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
    handle = os.fdopen(os.open(path, flags, GROUP_READS), "a")
    for pause in PAUSES:
        with suppress(BlockingIOError):
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return handle
        time.sleep(pause)
    handle.close()
    return None


MAX_BYTES = 1 << 20
MOST_NAMED = 100
"""Jobs or tokens that are named for each topic; the others are counted."""

# Topics of what is named, job by job or token by token.
REFUSED = "refused releases"
"""Jobs whose tokens Slurm does not let us take off, with its own words."""
LEASES = "leases"
"""Tokens whose lease cannot be made or renewed, with Slurm's own words."""
NOT_RENEWED = "not renewed"
"""Tokens whose gate is left open because a job has waited too long, with that job."""


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
    facts: dict[str, float | str] = field(default_factory=dict)
    """What a daemon tells of its work and of the site; times are UTC seconds."""
    ran: dict[str, int] = field(default_factory=dict)
    """When each service of sluice-learn ran last, by topic; UTC seconds."""
    due: dict[str, int] = field(default_factory=dict)
    """When it runs next, at the earliest."""
    children: dict[str, dict[str, Any]] = field(default_factory=dict)
    """How the programs fare that sluiced runs, by name: `children.ChildState`."""
    rates: dict[str, list[float]] = field(default_factory=dict)
    """Of sluice-turns, by job: bytes and operations a second, and when its burst began."""
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
                "ran": self.ran,
                "due": self.due,
                "children": self.children,
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
            ran=dict(found.get("ran", {})),
            due=dict(found.get("due", {})),
            children={name: dict(row) for name, row in found.get("children", {}).items()},
            rates={job: list(map(float, row)) for job, row in found.get("rates", {}).items()},
        )
    except (OSError, CoreError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _kept(before: Trouble | None, text: str) -> Trouble:
    """Return a trouble with the time of the one before it."""
    return Trouble(text, before.since if before else int(time.time()))


def _row(trouble: Trouble) -> dict[str, Any]:
    return {"text": trouble.text, "since": trouble.since}


log = logging.getLogger("sluiced")

EXPECTED = (SlurmError, HistoryError, CoreError, OSError)
"""What may fail in operation. Anything else is a bug and ends the daemon with a traceback."""


class Troubles:
    """What fails at the moment, by topic."""

    def __init__(self, status: Status | None = None, logger: logging.Logger = log) -> None:
        self._texts: dict[str, str] = {}
        self._status = status or Status()
        self._log = logger

    def __len__(self) -> int:
        return len(self._texts)

    @contextmanager
    def about(self, topic: str, errors: tuple[type[Exception], ...] = EXPECTED) -> Iterator[None]:
        """Go on after one of these errors in this block."""
        try:
            yield
        except errors as error:
            text = str(error)
            if self._texts.get(topic) != text:
                self._log.warning("%s: %s", topic, text)
            self._texts[topic] = text
            self._status.fails(topic, text)
        else:
            self._status.works(topic)
            if self._texts.pop(topic, None) is not None:
                self._log.info("%s: works again", topic)


LEARNER = {
    "accounting": "asks sacct which jobs ended",
    "logs": "reads the Darshan logs that came",
    "totals": "adds up what rankings show",
    "learning": "learns from new runs",
    "pairs": "finds programs that slow each other",
    "model": "fits the model anew",
    "publishing": "writes the bundle",
    "scoring": "compares predictions with what jobs did",
    "retention": "forgets what is older than KeepDays",
}
"""What each service of sluice-learn does, in their order."""


def services(config: Config) -> list[dict[str, Any]]:
    """Return what runs for Sluice here: when it ran last, whether that worked, when it is due.

    Times are UTC seconds. `works` is None of what has never run, or does not say how it fares.
    """
    snapshot = Path(config.snapshot)
    found = [_daemon("sluiced", "follows the controller", snapshot, snapshot)]
    if config.turns_port:
        turns = turns_path(snapshot)
        found.append(_daemon("sluice-turns", "orders bursts", turns, status_path(turns)))
    path = learner_path(Path(config.history))
    status, is_alive = read_status(path) or Status(), _is_alive(path)
    for name, does in LEARNER.items():
        trouble, ran = status.failing.get(name), status.ran.get(name)
        if name != "retention" or config.keep_days:
            found.append(
                {
                    "service": f"sluice-learn, {name}",
                    "does": does,
                    "ran": ran,
                    "works": trouble is None if ran else None,
                    "why": trouble.text if trouble else None,
                    "due": status.due.get(name) if is_alive else None,
                    "is_running": is_alive,
                }
            )
    return [*found, *_backup(Path(config.history))]


def children_of(config: Config) -> list[dict[str, Any]]:
    """Return how the programs fare that sluiced runs here; none of them runs without it."""
    snapshot = Path(config.snapshot)
    status, is_alive = read_status(snapshot) or Status(), _is_alive(snapshot)
    return [
        {"program": name, **row, "since": row["since"] if is_alive else None}
        for name, row in status.children.items()
    ]


def _backup(history: Path) -> Iterator[dict[str, Any]]:
    """Say likewise when the history was copied last, where it ever was."""
    status = read_status(backup_path(history))
    if status is not None:
        yield {
            "service": "sluice-backup",
            "does": "copies the history",
            "ran": status.ran.get("backup"),
            "works": True,
            "why": None,
            "due": None,
            "is_running": True,
        }


def note_backup(history: Path, now: int) -> None:
    """Leave word of a backup for `sluice status`, where this user may."""
    with suppress(OSError):
        Status(ran={"backup": now}).write(backup_path(history))


def _daemon(name: str, does: str, path: Path, written: Path) -> dict[str, Any]:
    """Return likewise of a daemon that writes a file all the time."""
    status, ran, is_alive = read_status(path), None, _is_alive(path)
    with suppress(OSError):
        ran = int(written.stat().st_mtime)
    failing = status.failing if status else {}
    return {
        "service": name,
        "does": does,
        "ran": ran,
        "works": None if status is None else is_alive and not failing,
        "why": "; ".join(f"{topic}: {trouble.text}" for topic, trouble in failing.items()) or None,
        "due": ran if is_alive else None,
        "is_running": is_alive,
    }


SETTLED = 120
"""Seconds from a job's end to a model that knows it, at most, where all is well."""


def learning_state(store: Store, history: Path, now: int) -> dict[str, Any]:
    """Return what `sluice status --json` prints; now is in UTC seconds."""
    status = read_status(learner_path(history)) or Status()
    facts = status.facts
    in_use = store.models.model_in_use()
    model = next((one for one in store.models.trainings() if one.id == in_use), None)
    trained_until = model.metrics.get("until") if model else None
    until = facts.get("until", trained_until) if model else None
    first, unknown = store.runs.runs_ended_after(int(str(until or 0)))
    running = _is_alive(learner_path(history))
    begun, polled = facts.get("since"), facts.get("polled")
    seconds = int(polled) - int(begun) if begun and polled else 0
    state = {
        "now": now,
        "is_running": running,
        "polled": polled,
        "core_share": int(facts["cpu_ms"]) / 1000 / seconds if seconds > 0 else None,
        "last_log": store.runs.last_run_end(),
        "last_accounting": store.jobs.last_job_end(),
        "accounting_asked": facts.get("accounting"),
        "logs_waiting": store.runs.count_waiting_logs(),
        "model": model
        and {
            "id": model.id,
            "fitted": model.created,
            "jobs": model.metrics.get("jobs"),
            "until": until,
            "unconfirmed": facts.get("unconfirmed", model.metrics.get("unconfirmed", 0)),
        },
        "model_waiting": store.models.model_waiting(),
        "published": store.models.published_at(),
        "unknown_runs": unknown,
        "behind_seconds": now - first if first is not None else 0,
        "failing": {
            topic: {"text": trouble.text, "since": trouble.since}
            for topic, trouble in status.failing.items()
        },
    }
    return state | {"reasons": _reasons(state, status, facts.get("why"))}


def _is_alive(path: Path) -> bool:
    """Whether the daemon that locks next to this file lives, as far as this user may see."""
    with suppress(OSError):
        return is_locked(path)
    return False


def _reasons(state: dict[str, Any], status: Status, why: object) -> list[str]:
    """Say what keeps the model from knowing everything."""
    reasons = []
    if not state["is_running"]:
        reasons.append("sluice-learn does not run: sluiced starts it where DarshanLogs is set")
    reasons += [f"{topic}: {trouble.text}" for topic, trouble in status.failing.items()]
    if why:
        reasons.append(str(why))
    if state["behind_seconds"] > SETTLED and not reasons:
        reasons.append("it rests after expensive work, to stay within 1 % of a core")
    elif state["behind_seconds"] and not reasons:
        reasons.append("these runs have just come; the next poll takes them up")
    return reasons
