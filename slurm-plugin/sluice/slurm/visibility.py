"""Which jobs a user may see, and how users ask sluiced."""

from __future__ import annotations

import json
import pwd
import re
import socket
import time
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sluice.slurm import slurm_commands
from sluice.slurm.records import QueryError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from sluice.history_db.store import Store
    from sluice.policies.core import Config
    from sluice.slurm.records import Controller, UserDefaults


@dataclass(frozen=True, slots=True)
class Viewer:
    """A user that asks."""

    uid: int
    sees_all: bool
    """An operator, or PrivateData does not list jobs."""

    def sees(self, uid: int | None) -> bool:
        """Whether the jobs of this user are shown to the viewer."""
        return self.sees_all or uid == self.uid


OWNER = Viewer(uid=0, sees_all=True)
"""A viewer that can read the history itself."""


@dataclass(frozen=True, slots=True)
class Privacy:
    """The jobs that Slurm shows to each user."""

    is_private: bool
    """PrivateData lists jobs."""
    operators: frozenset[int]
    """Users that see all jobs whatever PrivateData lists."""

    @classmethod
    def of(cls, controller: Controller, users: Iterable[UserDefaults]) -> Privacy:
        """Take it from the controller's settings and the accounting.

        Coordinators of an account count as users: they see their own jobs alone.
        """
        operators = {user.uid for user in users if user.is_operator}
        return cls(
            is_private="jobs" in controller.private_data,
            operators=frozenset({0, controller.slurm_uid} | operators),
        )

    @classmethod
    def parse(cls, text: str) -> Privacy:
        """Read what `str` made; anything else hides all jobs from all users but root."""
        word, _, numbers = text.partition(":")
        listed = numbers.split(",")
        known = word in {"private", "open"} and all(map(str.isdecimal, listed))
        return cls(word != "open" or not known, frozenset(map(int, listed if known else ["0"])))

    def __str__(self) -> str:
        word = "private" if self.is_private else "open"
        return f"{word}:{','.join(map(str, sorted(self.operators)))}"

    def viewer(self, uid: int) -> Viewer:
        return Viewer(uid, sees_all=not self.is_private or uid in self.operators)


def viewer(uid: int, controller: Controller, users: Iterable[UserDefaults]) -> Viewer:
    """Judge a user by the controller's settings and the accounting."""
    return Privacy.of(controller, users).viewer(uid)


def hidden(uid: int, controller: Controller, what: Iterable[str]) -> tuple[str, ...]:
    """Return what of this Slurm does not show to a user in full: jobs, reservations."""
    found = tuple(word for word in what if word in controller.private_data)
    if not found or uid in {0, controller.slurm_uid} or slurm_commands.is_operator(uid):
        return ()
    return found


MOST_UID = (1 << 32) - 1


def uid_of(name: str, store: Store | None) -> int:
    """Return the uid of a user by number, by this machine, or by the history.

    Raises QueryError where none of these knows the name.
    """
    if re.fullmatch("[0-9]{1,10}", name) and int(name) <= MOST_UID:
        return int(name)
    try:
        return pwd.getpwnam(name).pw_uid
    except KeyError:
        uid = store.jobs.uid_of(name) if store else None
    if uid is None:
        raise QueryError(f"{name}: no user of this machine or of the history has that name")
    return uid


NAMES_HOLD = 60
"""Seconds: a page names a thousand users, and each may ask a directory service."""


def user_text(uid: int) -> str:
    """Return the name of a user, or the number where this machine knows none."""
    return _user_text(uid, int(time.monotonic()) // NAMES_HOLD)


@lru_cache(maxsize=1 << 14)
def _user_text(uid: int, _moment: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except (KeyError, OverflowError):
        return str(uid)


TIMEOUT = 30.0  # seconds
MAX_REQUEST = 1 << 18  # bytes
MAX_ANSWER = 1 << 26


def socket_path(config: Config) -> Path:
    """Where sluiced answers users: next to the plugin's socket."""
    return Path(config.socket).with_name("sluiced.sock")


def ask(config: Config, command: str, arguments: Mapping[str, Any]) -> Any:
    """Return sluiced's answer; raise QueryError."""
    path = socket_path(config)
    request = json.dumps({"command": command, "arguments": dict(arguments)}).encode() + b"\n"
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(TIMEOUT)
            connection.connect(str(path))
            connection.sendall(request)
            answer = bytearray()
            while part := connection.recv(1 << 18):
                answer += part
                if len(answer) > MAX_ANSWER:
                    raise QueryError(f"{path}: sluiced's answer has no end")
    except ConnectionError as error:
        if isinstance(error, ConnectionRefusedError):
            raise _unreachable(path, error) from None
        raise QueryError(f"{path}: sluiced answers others at the moment; ask again") from None
    except OSError as error:
        raise _unreachable(path, error) from None
    return _content(path, bytes(answer))


def _unreachable(path: Path, error: OSError) -> QueryError:
    return QueryError(
        f"{path}: sluiced cannot be asked ({error.strerror or error}), and this user may not "
        "read the history; is sluiced running?"
    )


def _content(path: Path, answer: bytes) -> Any:
    try:
        found = json.loads(answer)
    except ValueError:
        found = None
    if not isinstance(found, dict) or not found.keys() & {"answer", "error"}:
        raise QueryError(f"{path}: sluiced hung up without an answer; ask again")
    if "error" in found:
        raise QueryError(str(found["error"]))
    return found["answer"]
