"""What pages read: configuration, history, bundle, snapshot and status; and for which user."""

from __future__ import annotations

import pwd
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sluice.history_db.store import Store
from sluice.policies import core
from sluice.policies.bundle import Bundle
from sluice.policies.core import CoreError
from sluice.policies.snapshot import Snapshot
from sluice.serve.access import Latest
from sluice.serve.background import Background, Task
from sluice.slurm import service
from sluice.slurm.status import Status, is_locked, read_status
from sluice.slurm.visibility import Privacy

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sluice.policies.core import Config, View
    from sluice.slurm.visibility import Viewer

BUSY_SECONDS = 2.0
"""A page must not wait for long on a writer of the history."""

RANKINGS = Task("rankings", stale_seconds=6 * 3600)
QUALITY = Task("quality", stale_seconds=6 * 3600)
DIFFERENCE_SECONDS = 7 * 86400
"""The jobs of so long a time are decided on again."""
DIFFERENCE_STALE_SECONDS = 600


class HiddenError(Exception):
    """The user may not see this page; the text says why."""


@dataclass(frozen=True, slots=True)
class Reader:
    """The user that a page is made for."""

    name: str
    viewer: Viewer
    is_operator: bool

    def told(self, failed: str) -> str:
        """Return why nothing about all users' jobs was computed, without names for some readers."""
        return failed if self.viewer.sees_all or not failed else "see the log of the pages"

    def check_operator(self) -> None:
        """Raise HiddenError for all but operators of the pages."""
        if not self.is_operator:
            raise HiddenError("This page is for operators, as named by `sluice serve --operators`.")


class Site:
    """A site as it is at the moment of a request."""

    def __init__(self, config: Path | None, history: Path | None) -> None:
        """Take the files of the commands' --config and --history; None: the defaults."""
        self._config_path, self._history = config, history
        self.latest = Latest()
        self._background = Background()

    @property
    def rankings(self) -> dict[str, Any] | None:
        """The worst pairs and what is in doubt, as computed last; None: not yet."""
        return self._background.latest(self._config_path, self.history, RANKINGS)

    @property
    def quality(self) -> dict[str, Any] | None:
        """How right predictions were in the last weeks, as computed last; None: not yet."""
        return self._background.latest(self._config_path, self.history, QUALITY)

    def difference(self, model: int) -> dict[str, Any] | None:
        """Return what publishing a model would change, as computed last; None: not yet."""
        bundle = self.bundle
        words = (str(model), str(DIFFERENCE_SECONDS))
        in_use = f"{bundle.checksum:x}" if bundle else ""
        task = Task("difference", words, DIFFERENCE_STALE_SECONDS, in_use)
        return self._background.latest(self._config_path, self.history, task)

    @property
    def config(self) -> Config:
        path = self._config_path
        if path is None:
            return core.default_config()
        return self.latest.of(path, "config", lambda: core.read_config(path))

    @property
    def history(self) -> Path:
        return self._history or Path(self.config.history)

    @contextmanager
    def store(self) -> Iterator[Store]:
        """Open the history to read it: a connection belongs to one thread."""
        with Store(self.history, read_only=True, busy_seconds=BUSY_SECONDS) as store:
            yield store

    @property
    def now(self) -> int:
        """UTC seconds."""
        return int(time.time())

    @property
    def bundle(self) -> Bundle | None:
        """The published bundle; None where there is none that this version reads."""
        path = Path(self.config.bundle)

        def read() -> Bundle | None:
            with suppress(CoreError, OSError):
                return Bundle.read(path)
            return None

        return self.latest.of(path, "bundle", read)

    @property
    def policy(self) -> View:
        """The policy that decisions are made with: the bundle's, as in the plugin."""
        bundle = self.bundle
        return bundle.policy if bundle else self.config.policy

    @property
    def snapshot(self) -> Snapshot | None:
        """The state of the cluster that sluiced published last."""
        path = Path(self.config.snapshot)
        with suppress(CoreError, OSError):
            return Snapshot.load(path, path.stat().st_uid)
        return None

    @property
    def status(self) -> Status:
        """What sluiced left word of."""
        return read_status(Path(self.config.snapshot)) or Status()

    @property
    def is_followed(self) -> bool:
        """Whether sluiced lives."""
        with suppress(OSError):
            return is_locked(Path(self.config.snapshot))
        return False

    @property
    def is_off(self) -> bool:
        return service.is_off(self.config)

    @property
    def privacy(self) -> Privacy:
        """Which users see all jobs, by PrivateData as sluiced was told last."""
        return Privacy.parse(str(self.status.facts.get("privacy", "")))

    @property
    def cluster(self) -> str | None:
        """The name of the cluster that sluiced follows."""
        name = self.status.facts.get("cluster")
        return None if name is None else str(name)

    def reader(self, name: str, *, is_operator: bool) -> Reader:
        """Return what a user may see; raises HiddenError for one unknown to this machine."""
        try:
            uid = pwd.getpwnam(name).pw_uid
        except (KeyError, ValueError):
            raise HiddenError(f"this machine has no user {name}") from None
        return Reader(name, self.privacy.viewer(uid), is_operator)
