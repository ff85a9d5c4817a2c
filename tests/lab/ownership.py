"""What a lab has made outside its directory stays known, also when its owner dies.

Mounts, loop devices and throttles outlive the process that made them. So everything
of one lab is written down in a directory of its own in /dev/shm, which its owner
keeps locked. The kernel gives the lock back when the owner ends, even by kill -9;
what is then found unlocked, and was not meant to stay, is anybody's to take down.
"""

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

MEMORY = Path("/dev/shm")  # noqa: S108 - gone after a reboot, as are mounts
PREFIX = "sluice-lab-"


class OwnershipError(Exception):
    """Somebody else's, or in use."""


class Hold:
    """The locked record of the lab at a place; `facts` is what it says."""

    def __init__(self, place: Path, lock: int) -> None:
        self.directory = directory_of(place)
        self.place = place
        self._lock = lock

    @classmethod
    def take(cls, place: Path) -> Self:
        """Lock the record of a place, made if missing.

        Raises OwnershipError when a living process holds it or it is not ours.
        """
        directory = directory_of(place)
        while True:
            directory.mkdir(mode=0o700, exist_ok=True)
            if directory.lstat().st_uid != os.geteuid():
                raise OwnershipError(f"{directory} belongs to somebody else")
            try:
                lock = os.open(directory / "lock", os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW, 0o600)
            except FileNotFoundError:
                continue  # its last owner has just removed it
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(lock)
                raise OwnershipError(f"{place} is in use by a running process") from None
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(lock), (directory / "lock").stat()):
                    return cls(place, lock)
            os.close(lock)

    def facts(self) -> dict[str, Any]:
        return read_facts(self.place)

    def record(self, **facts: Any) -> None:
        """Write facts down; before they become true, so that nothing is ever unknown."""
        fresh = self.directory / "facts.new"
        fresh.write_text(json.dumps(self.facts() | facts | {"place": str(self.place)}))
        fresh.rename(self.directory / "facts.json")

    def leave(self) -> None:
        """Unlock, and keep the record: the lab outlives this process."""
        self.record(kept=True)
        os.close(self._lock)

    def end(self) -> None:
        """Remove the record: nothing is left that it could tell of."""
        gone = self.directory.with_name(f".{self.directory.name}.{os.getpid()}")
        self.directory.rename(gone)  # at once: a new lab may come to the same place
        shutil.rmtree(gone)
        os.close(self._lock)


def read_facts(place: Path) -> dict[str, Any]:
    """Facts about the lab at a place; empty where there is none."""
    try:
        facts: dict[str, Any] = json.loads((directory_of(place) / "facts.json").read_text())
    except FileNotFoundError:
        return {}
    return facts


def abandoned() -> Iterator[Hold]:
    """Labs of ours whose owner has died; locked, to be taken down."""
    for directory in MEMORY.glob(f"{PREFIX}*"):
        try:
            facts = json.loads((directory / "facts.json").read_text())
        except OSError:
            continue  # just being made or removed, or another user's
        if facts.get("kept"):
            continue
        with contextlib.suppress(OwnershipError):
            yield Hold.take(Path(facts["place"]))


def directory_of(place: Path) -> Path:
    """Where the record of the lab at a place lies, and whatever else it needs in memory."""
    return MEMORY / f"{PREFIX}{hashlib.sha256(os.fsencode(place)).hexdigest()[:12]}"
