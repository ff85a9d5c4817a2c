"""`sluiced`: follows the controller, so that the plugin knows who runs, and keeps its decisions.

Each round asks Slurm for its queue, takes the plugin's records into the history, joins both and
publishes the snapshot. The queue comes first: then the records of all jobs in it have been made
and are in the drain that follows. A round that fails in part goes on with the rest: records stay
in the plugin until the history has them, and a snapshot that cannot be renewed grows stale, upon
which the plugin abstains.
"""

from __future__ import annotations

import fcntl
import logging
import signal
import sys
import time
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sluice.history_db.errors import HistoryError
from sluice.history_db.store import Store
from sluice.policies import core
from sluice.policies.record import RECORD_SIZE
from sluice.slurm.drainer import Drainer
from sluice.slurm.errors import SlurmError
from sluice.slurm.gatekeeper import LEAVE_TIMEOUT, GateKeeper
from sluice.slurm.ledger import Ledger
from sluice.slurm.plugin_client import PluginClient
from sluice.slurm.queue import Changes, Queue
from sluice.slurm.settings import Settings
from sluice.slurm.snapshot import Publisher
from sluice.slurm.speeds import LaneSpeeds
from sluice.slurm.troubles import EXPECTED, Troubles, log

if TYPE_CHECKING:
    from types import FrameType
    from typing import IO

    from sluice.slurm.holdings import Holding
    from sluice.slurm.records import QueuedJob

BUSY_SECONDS = 2.0  # waiting for the history's lock must not let the snapshot grow old
DRAIN_SECONDS = 1.0  # for the records of the jobs that were just seen; else they are joined later
SUMMARY_SECONDS = 60.0
LOAD = 1  # rest this many times as long as slurmctld was busy with answering
LONGEST_REST = 10.0  # seconds


class Daemon:
    """What sluiced remembers from round to round."""

    def __init__(self, config_path: Path) -> None:
        self.config = core.read_config(config_path)
        self.rest = 0.0
        """Seconds to leave slurmctld alone after a round."""
        self._config_path = config_path
        self._config_stamp = _stamp(config_path)
        self._troubles = Troubles()
        self._queue = Queue()
        self._settings = Settings()
        self._publisher = Publisher(Path(self.config.snapshot))
        self._drainer = self._new_drainer()
        self._is_drained = False
        """The records of all jobs that were seen at the last poll have arrived."""
        self._gatekeeper = GateKeeper()
        self._lane_speeds = LaneSpeeds()
        self._store: Store | None = None
        self._ledger: Ledger | None = None
        self._summary_due = time.monotonic() + SUMMARY_SECONDS

    def round(self) -> bool:
        """Do everything once; return whether all of it worked."""
        now = int(time.time())
        changes: Changes | None = None
        jobs: list[QueuedJob] | None = None
        with self._troubles.about("configuration"):
            self._reload()
        self._drainer.start()  # not before it is sure that no other sluiced drains this plugin
        with self._troubles.about("controller"):
            self._settings.refresh()
            begin = time.monotonic()
            changes = self._queue.poll()
            jobs = list(self._queue.jobs.values())
            self.rest = min(LOAD * (time.monotonic() - begin), LONGEST_REST)
        with self._troubles.about("plugin", (SlurmError,)):
            self._take_up(changes, now)
        with self._troubles.about("history"):
            self._keep(now)
        with self._troubles.about("targets"):
            if self._store:
                self._lane_speeds.refresh(self._store, self.config, now)
        if jobs is not None:
            holdings: list[Holding] = []
            with self._troubles.about("gates"):
                holdings = self._gate(jobs, now)
            with self._troubles.about("snapshot"):
                self._publisher.publish(
                    jobs,
                    self._ledger.prediction if self._ledger else lambda _job: None,
                    self._settings,
                    holdings=holdings,
                    lane_speeds=self._lane_speeds.latest,
                    is_off=Path(self.config.off_file).exists(),
                    now=now,
                )
        self._summarise()
        return not self._troubles

    def _new_drainer(self) -> Drainer:
        return Drainer(
            PluginClient(Path(self.config.socket), RECORD_SIZE),
            Path(self.config.history),
            self._publisher.kept,
        )

    def close(self) -> None:
        self._drainer.close()
        with self._troubles.about("gates"):
            self._gatekeeper.open_all(LEAVE_TIMEOUT)
        self._queue.close()
        self._close_history()

    def _close_history(self) -> None:
        if self._store:
            self._store.close()
            self._store = None

    def _reload(self) -> None:
        """Take up a changed configuration; one with an error leaves the last good one in force."""
        stamp = _stamp(self._config_path)
        if stamp == self._config_stamp:
            return
        config = core.read_config(self._config_path)
        self._config_stamp = stamp
        if config.history != self.config.history:
            self._close_history()
        if config.snapshot != self.config.snapshot:
            self._publisher = Publisher(Path(config.snapshot))
        before, self.config = self.config, config
        if any(
            getattr(before, name) != getattr(config, name)
            for name in ("history", "socket", "snapshot")
        ):
            self._drainer.close()
            self._drainer = self._new_drainer()
        log.info("configuration: read %s again", self._config_path)

    def _take_up(self, changes: Changes | None, now: int) -> None:
        """Tell the ledger which jobs and records are new."""
        if self._ledger is None:
            if self._settings.controller is None:
                return  # the cluster's name is not known yet
            self._ledger = Ledger(self._settings.controller.cluster, started=now)
            changes = Changes(list(self._queue.jobs.values()), [])
        if changes is not None:
            self._ledger.take(changes)
        self._is_drained = self._drainer.wait(DRAIN_SECONDS)
        for record in self._drainer.arrived():
            self._ledger.add(record)
        self._drainer.raise_error(SlurmError)

    def _keep(self, now: int) -> None:
        """Join jobs and records, with what the history knows of those before, and tell it."""
        try:
            store = self._open_history()
            if self._ledger is not None:
                self._ledger.look_up(store, now)
        finally:  # what is known of jobs must not hang on a disk
            if self._ledger is not None:
                self._ledger.join(now, is_drained=self._is_drained)
        self._drainer.raise_error(HistoryError)
        if self._ledger is not None:
            self._ledger.write(store)

    def _open_history(self) -> Store:
        if self._store and not self._store.is_in_place():
            log.warning("history: %s was moved away or replaced", self.config.history)
            self._close_history()
        if self._store is None:
            self._store = Store(self.config.history, create=True, busy_seconds=BUSY_SECONDS)
        return self._store

    def _gate(self, jobs: list[QueuedJob], now: int) -> list[Holding]:
        """Keep the gates; without a ledger nothing is known of any job, and they stay open."""
        if self._ledger is None or self._settings.controller is None:
            return []
        return self._gatekeeper.round(
            jobs,
            self._ledger,
            self.config,
            self._store,
            licenses=self._queue.licenses,
            reservations=self._queue.reservations,
            snapshot=self._publisher.latest,
            lane_speeds=self._lane_speeds.latest,
            slurm_uid=self._settings.controller.slurm_uid,
            now=now,
        )

    def _summarise(self) -> None:
        if self._ledger is None or time.monotonic() < self._summary_due:
            return
        self._summary_due = time.monotonic() + SUMMARY_SECONDS
        log.info(
            "%d records stored, %d joined, %d in ties, %d dropped by the plugin, %d lost; %s",
            self._drainer.stored,
            self._ledger.joined,
            self._ledger.tied,
            self._drainer.dropped,
            self._drainer.lost,
            self._publisher.summary,
        )


def _stamp(path: Path) -> tuple[int, int, int]:
    """Return what changes when a file does."""
    status = path.stat()
    return status.st_mtime_ns, status.st_size, status.st_ino


def lock_snapshot(snapshot: Path) -> IO[str]:
    """Make sure that one sluiced writes this snapshot; the lock ends with the process."""
    path = snapshot.with_name(snapshot.name + ".lock")
    handle = path.open("a")
    for pause in (0.01, 0.1, 1.0):
        with suppress(BlockingIOError):
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return handle
        time.sleep(pause)  # a command that asks whether we run holds it for a moment
    handle.close()
    raise click.ClickException(
        f"another sluiced holds {path}; stop it first, or give this one its own Snapshot"
    )


def _follow(daemon: Daemon) -> None:
    """Go round after round until SIGTERM or SIGINT.

    A signal ends a round at once, wherever it is: whatever is half done is a transaction that
    rolls back, or a temporary file.
    """

    def leave(number: int, _frame: FrameType | None) -> None:
        raise SystemExit(0 if number == signal.SIGTERM else 130)

    signal.signal(signal.SIGTERM, leave)
    signal.signal(signal.SIGINT, leave)
    while True:
        begin = time.monotonic()
        daemon.round()
        took = time.monotonic() - begin
        time.sleep(max(daemon.config.follow_ms / 1000 - took, daemon.rest))


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--config",
    type=click.Path(dir_okay=False, path_type=Path),
    envvar="SLUICE_CONF",
    show_envvar=True,
    default=Path("/etc/slurm/sluice.conf"),
    show_default=True,
    help="The configuration of the site.",
)
@click.option("--once", is_flag=True, help="Do one round and exit: 0 if all of it worked, else 1.")
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    default="info",
    show_default=True,
    help="What to write to standard error.",
)
def main(config: Path, log_level: str, *, once: bool) -> None:
    """Follow the Slurm controller for Sluice.

    \b
    Every FollowInterval sluiced
      asks Slurm who runs and waits,
      takes the plugin's decisions into the history,
      finds the job of each decision,
      and publishes the snapshot for the plugin's next decisions.

    It stays in the foreground and logs to standard error, for systemd or any other supervisor.
    It runs as SlurmUser, or as root. Stop it with SIGTERM; it may be killed at any time, and
    nothing is lost. A changed configuration is taken up by itself.

    \b
    Examples:
        sluiced --config /etc/slurm/sluice.conf
        sluiced --once && sluice decisions
    """
    logging.basicConfig(
        format="%(asctime)s %(name)s: %(levelname)s: %(message)s", level=log_level.upper()
    )
    try:
        daemon = Daemon(config)
        lock = lock_snapshot(Path(daemon.config.snapshot))
    except EXPECTED as error:
        raise click.ClickException(str(error)) from error
    with lock, closing(daemon):
        if once:
            sys.exit(0 if daemon.round() else 1)
        log.info("following; configuration %s", config)
        _follow(daemon)
