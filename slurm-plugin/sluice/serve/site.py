"""What the pages read: configuration, history, bundle, snapshot, and what sluiced left word of."""

from __future__ import annotations

import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sluice.history_db.store import Store
from sluice.policies import core
from sluice.policies.bundle import Bundle
from sluice.policies.core import CoreError
from sluice.policies.snapshot import Snapshot
from sluice.serve.background import Background, Task
from sluice.slurm import service
from sluice.slurm.status import Status, is_locked, read_status
from sluice.slurm.visibility import Privacy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import TypeVar

    from sluice.policies.core import Config, View

    Made = TypeVar("Made")

BUSY_SECONDS = 2.0
"""A page must not wait for long on somebody who writes the history."""

RANKINGS = Task("rankings", stale_seconds=6 * 3600)
DIFFERENCE_SECONDS = 7 * 86400
"""The jobs of so long a time are decided on again."""
DIFFERENCE_STALE_SECONDS = 600


class Latest:
    """Something made of a file, and made anew when the file has changed."""

    def __init__(self) -> None:
        self._made: dict[object, tuple[object, object]] = {}

    def of(self, path: Path, kind: object, make: Callable[[], Made]) -> Made:
        """Return what make returns; what it returned before, while the file is the same."""
        stamp = service.stamp_of(path)
        known = self._made.get(kind)
        if known is not None and known[0] == (path, stamp):
            return known[1]  # type: ignore[return-value] # made by the same kind's make
        made = make()
        self._made[kind] = ((path, stamp), made)
        return made

    def for_seconds(self, seconds: float, kind: object, make: Callable[[], Made]) -> Made:
        """Return what make returns; what it returned before, for so long."""
        known, now = self._made.get(kind), time.monotonic()
        if isinstance(known, tuple) and isinstance(known[0], float) and known[0] > now:
            return known[1]  # type: ignore[return-value] # made by the same kind's make
        made = make()
        self._made[kind] = (now + seconds, made)
        return made


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
        """Whose jobs Slurm shows to whom, as sluiced was told last."""
        return Privacy.parse(str(self.status.facts.get("privacy", "")))

    @property
    def cluster(self) -> str | None:
        """The name of the cluster that sluiced follows."""
        name = self.status.facts.get("cluster")
        return None if name is None else str(name)
