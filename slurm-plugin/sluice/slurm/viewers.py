"""Who may see whose jobs: what users may see follows Slurm's PrivateData."""

from __future__ import annotations

import pwd
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sluice.slurm import slurm_commands
from sluice.slurm.errors import QueryError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sluice.history_db.store import Store
    from sluice.slurm.records import Controller, UserDefaults


@dataclass(frozen=True, slots=True)
class Viewer:
    """A user who asks."""

    uid: int
    sees_all: bool
    """An operator, or PrivateData does not list jobs."""

    def sees(self, uid: int | None) -> bool:
        """Whether the jobs of this user are shown to the viewer."""
        return self.sees_all or uid == self.uid


OWNER = Viewer(uid=0, sees_all=True)
"""Who can read the history itself."""


def viewer(uid: int, controller: Controller, users: Iterable[UserDefaults]) -> Viewer:
    """Judge a user by the controller's settings and the accounting.

    Coordinators of an account count as users: they see their own jobs alone.
    """
    return Viewer(
        uid=uid,
        sees_all="jobs" not in controller.private_data
        or uid in {0, controller.slurm_uid}
        or any(user.uid == uid and user.is_operator for user in users),
    )


def hidden(uid: int, controller: Controller, what: Iterable[str]) -> tuple[str, ...]:
    """Return what of this Slurm does not show to a user in full: jobs, reservations."""
    found = tuple(word for word in what if word in controller.private_data)
    if not found or uid in {0, controller.slurm_uid} or slurm_commands.is_operator(uid):
        return ()
    return found


def uid_of(name: str, store: Store | None) -> int:
    """Return the uid of a user by number, by this machine, or by the history.

    Raises QueryError where none of these knows the name.
    """
    if name.isascii() and name.isdecimal():
        return int(name)
    try:
        return pwd.getpwnam(name).pw_uid
    except KeyError:
        uid = store.uid_of(name) if store else None
    if uid is None:
        raise QueryError(f"{name}: no user of this machine or of the history has that name")
    return uid


def user_text(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except (KeyError, OverflowError):
        return str(uid)
