"""`sluiced`: follows the controller, so that the plugin knows what runs, and stores its decisions.

Each round asks Slurm for its queue, releases the jobs that have waited long enough, takes up the
plugin's records, joins both, renews the gates and publishes the snapshot. The queue comes first:
then the records of all jobs in it have been made and are in the drain that follows. A round that
fails in part goes on with the rest: records stay in the plugin or in memory until the history has
them, and a snapshot that cannot be renewed grows stale, upon which the plugin abstains.
"""

from __future__ import annotations

import gc
import os
import sys
import time
from contextlib import closing
from dataclasses import asdict
from pathlib import Path

import click

from sluice.history_db.errors import HistoryError
from sluice.history_db.store import Store
from sluice.policies import core
from sluice.policies.record import RECORD_SIZE
from sluice.slurm import metrics, service
from sluice.slurm.audit import Auditor
from sluice.slurm.children import FEED, LEARN, PAGES, SERVE_DIRECTORY, TURNS, Children
from sluice.slurm.gates.controller import LEAVE_TIMEOUT, GateKeeper, Seen
from sluice.slurm.gates.snapshot import LaneSpeeds, Publisher, Settings
from sluice.slurm.gates.target_states import TargetStates
from sluice.slurm.metrics import Metrics
from sluice.slurm.pending_records import Ledger
from sluice.slurm.plugin_client import PluginClient
from sluice.slurm.query_server import QueryServer
from sluice.slurm.queue import Changes, Queue
from sluice.slurm.record_receiver import Drainer
from sluice.slurm.records import SlurmError
from sluice.slurm.status import EXPECTED, SnapshotLock, Status, Troubles, log
from sluice.slurm.turns import HeldBurstReader
from sluice.slurm.visibility import Privacy

BUSY_SECONDS = 2.0  # waiting for the history's lock must not let the snapshot grow old
DRAIN_SECONDS = 1.0  # for the records of the jobs that were just seen; else they are joined later
SUMMARY_SECONDS = 60.0
LOAD = 1  # rest this many times as long as slurmctld was busy with answering
LONGEST_REST = 10.0  # seconds
LATELY_SECONDS = 900.0  # for what servers counted: collectors deliver every few minutes


class Daemon:
    """What sluiced remembers from round to round."""

    def __init__(self, config_path: Path) -> None:
        self.config = core.read_config(config_path)
        self.rest = 0.0
        """Seconds to leave slurmctld alone after a round."""
        self._config_path = config_path
        self._config_stamp = service.stamp_of(config_path)
        self._status = Status()
        self._troubles = Troubles(self._status)
        self._lock = SnapshotLock()
        self._lock.move(Path(self.config.snapshot))
        self._repair_modes()
        self._queue = Queue()
        self._settings = Settings()
        self._publisher = Publisher(Path(self.config.snapshot))
        self._drainer = self._new_drainer()
        self._is_drained = False
        """The records of all jobs that were seen at the last poll have arrived."""
        self._gatekeeper = GateKeeper(self._status, self._queue.change)
        self._gatekeeper.restore(self._publisher.latest)
        self._auditor = Auditor(config_path)
        self._lane_speeds = LaneSpeeds()
        self._target_states = TargetStates()
        self._held_bursts = HeldBurstReader()
        self._queries = QueryServer()
        self._metrics = Metrics()
        self._children = Children(config_path)
        self._store: Store | None = None
        self._ledger: Ledger | None = None
        self._summary_due = time.monotonic() + SUMMARY_SECONDS

    def run_children(self) -> None:
        """Run the programs that the configuration asks for; before a round, which may hang."""
        wanted: dict[str, tuple[object, ...]] = {}
        if self.config.turns_port:
            wanted[TURNS] = (self.config.turns_port, self.config.snapshot)
        if self.config.darshan_logs:
            wanted[LEARN] = ()
        if SERVE_DIRECTORY.is_dir():
            wanted[PAGES] = (self.config.socket,)
        self._children.run(wanted)

    def round(self) -> bool:
        """Do everything once; return whether all of it worked.

        What bounds the waits comes first, and needs the queue alone. Nothing renews a lease in a
        round that could not read the queue.
        """
        now, began = int(time.time()), time.monotonic()
        seen: Seen | None = None
        changes: Changes | None = None
        with self._troubles.about("configuration"):
            self._reload()
        self._drainer.start()  # not before it is sure that no other sluiced drains this plugin
        with self._troubles.about("controller"):
            begin = time.monotonic()
            changes = self._queue.poll(with_room=self._gatekeeper.needs_room)
            self.rest = min(LOAD * (time.monotonic() - begin), LONGEST_REST)
            seen = Seen.of(self._queue, changes, now)
        if seen is not None:
            self._gatekeeper.bound(seen, self._ledger, self.config, self._slurm_uid)
            with self._troubles.about("settings"):
                self._settings.refresh()
        with self._troubles.about("plugin", (SlurmError,)):
            self._take_up(changes, now)
        with self._troubles.about("queries"):
            self._queries.serve(self.config, self._settings.controller, self._settings.users)
        with self._troubles.about("turns"):
            self._take_held_bursts()
        with self._troubles.about("history"):
            self._keep(now)
        with self._troubles.about("targets"):
            self._target_states.refresh(self.config)
            if self._store:
                self._lane_speeds.refresh(self._store, self.config, now)
        if seen is not None:
            with self._troubles.about("gates"):
                self._gatekeeper.poll(seen, self.config, self._publisher)
            with self._troubles.about("snapshot"):
                self._publish(seen)
                self._decide_started(seen)
        self._summarise()
        with self._troubles.about("status"):
            self._tell()
        if seen is not None:
            self._metrics.add_waits(*self._gatekeeper.charged())
        self._metrics.add_poll(time.monotonic() - began)
        if self._metrics.is_due():
            with self._troubles.about("metrics"):
                self._metrics.write(self.config, self._situation())
        return not self._troubles

    def _situation(self) -> metrics.Situation:
        return metrics.Situation(
            status=self._status,
            running=len(self._queue.running),
            pending=self._queue.pending,
            accounts=self._gatekeeper.balance,
            releases=self._gatekeeper.released,
            plugin=self._drainer.stats,
            lost=self._drainer.lost,
            coverage=self._store.jobs.coverage() if self._store else None,
            loads=self._publisher.loads(self._gatekeeper.policy),
            targets=self._store.interference.target_rates(since=time.time() - LATELY_SECONDS)
            if self._store
            else {},
        )

    @property
    def _slurm_uid(self) -> int:
        """Whose bundle is trusted, as the plugin does."""
        return self._settings.controller.slurm_uid if self._settings.controller else os.geteuid()

    def _publish(self, seen: Seen) -> None:
        self._publisher.publish(
            self._queue.running.values(),
            self._ledger.prediction if self._ledger else lambda _job: None,
            self._ledger.submission if self._ledger else lambda _job: None,
            self._settings,
            pending=self._queue.pending,
            holders=self._gatekeeper.holders(),
            lanes=self._gatekeeper.lanes(),
            lane_speeds=self._lane_speeds.latest,
            placed=self._gatekeeper.placed(),
            targets=self._lane_speeds.with_states(self._target_states.by_number(self.config)),
            is_off=service.is_off(self.config),
            now=seen.now,
        )

    def _decide_started(self, seen: Seen) -> None:
        """Say what enforce would decide of jobs that started."""
        if core.furthest_mode(self.config) != "off" and not service.is_off(self.config):
            self._gatekeeper.decide_started(seen, self.config, self._publisher)

    def _new_drainer(self) -> Drainer:
        return Drainer(
            PluginClient(Path(self.config.socket), RECORD_SIZE),
            Path(self.config.history),
            self._publisher.kept,
        )

    def close(self) -> None:
        self._children.end()
        self._drainer.close()
        self._target_states.close()
        with self._troubles.about("gates"):
            self._gatekeeper.open_all(LEAVE_TIMEOUT)
        self._queue.close()
        self._queries.close()
        with self._troubles.about("history"):
            if self._store:
                self._gatekeeper.leave(self._store)
        self._close_history()
        self._children.close()
        self._lock.close()

    def _close_history(self) -> None:
        if self._store:
            self._store.close()
            self._store = None

    def _reload(self) -> None:
        """Take up a changed configuration; one with an error leaves the last good one in force."""
        stamp = service.stamp_of(self._config_path)
        if stamp == self._config_stamp:
            return
        config = core.read_config(self._config_path)
        self._lock.move(Path(config.snapshot))
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
        self._repair_modes()
        log.info("configuration: read %s again", self._config_path)

    def _repair_modes(self) -> None:
        for what in service.repair(self.config):
            log.warning("files: %s", what)

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
        records = self._drainer.arrived()
        self._metrics.add_records(records)
        for record in records:
            self._ledger.add(record)
        self._drainer.raise_error(SlurmError)

    def _take_held_bursts(self) -> None:
        """Let the history hear which bursts sluice-turns held, where it runs."""
        if self._ledger is None:
            return
        rows = self._held_bursts.poll(Path(self.config.snapshot), self._ledger.cluster)
        self._metrics.add_bursts(rows)
        if rows:
            self._gatekeeper.unstored.add(lambda store: store.gates.add_held_bursts(rows))

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
            self._auditor.tell(store, self._ledger.cluster, self.config, now)
        self._gatekeeper.unstored.flush(store)

    def _open_history(self) -> Store:
        if self._store and not self._store.is_in_place():
            log.warning("history: %s was moved away or replaced", self.config.history)
            self._close_history()
        if self._store is None:
            self._store = Store(self.config.history, create=True, busy_seconds=BUSY_SECONDS)
        return self._store

    def _tell(self) -> None:
        """Leave word for the doctor, and for `sluice serve`, which never asks Slurm."""
        self._status.count("records lost", self._drainer.dropped)
        if self._settings.controller is not None:
            privacy = Privacy.of(self._settings.controller, self._settings.users)
            self._status.facts |= {
                "cluster": self._settings.controller.cluster,
                "privacy": str(privacy),
            }
        self._status.children = {FEED: asdict(self._queue.feed.state), **self._children.states()}
        self._status.write(Path(self.config.snapshot))

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


GARBAGE = 50_000
"""Objects after which Python looks for cycles among them: a queue has millions, and no cycle."""


def _follow(daemon: Daemon) -> None:
    """Go round after round until SIGTERM or SIGINT."""
    service.leave_at_signals()
    gc.set_threshold(GARBAGE)
    while True:
        begin = time.monotonic()
        daemon.run_children()
        daemon.round()
        service.say_alive()
        took = time.monotonic() - begin
        time.sleep(max(daemon.config.follow_ms / 1000 - took, daemon.rest))


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@service.config_option
@click.option("--once", is_flag=True, help="Do one round and exit: 0 if all of it worked, else 1.")
@service.log_level_option
def main(config: Path, log_level: str, *, once: bool) -> None:
    """Follow the Slurm controller for Sluice.

    \b
    Every FollowInterval sluiced
      asks Slurm which jobs run and wait,
      takes the plugin's decisions into the history,
      finds the job of each decision,
      and publishes the snapshot for the plugin's next decisions.
    Meanwhile it answers users at sluiced.sock, next to the plugin's Socket.

    It runs sluice-feed, sluice-learn where DarshanLogs is set, sluice-turns where TurnsPort is,
    and sluice-pages while sluice-serve runs.
    Each has limits of its own and is started again where it ends; `sluice status` lists them.

    It stays in the foreground and logs to standard error, for systemd or any other supervisor.
    It runs as SlurmUser, or as root. Stop it with SIGTERM; it may be killed at any time, and
    nothing is lost. A changed configuration is taken up by itself.

    \b
    Examples:
        sluiced --config /etc/slurm/sluice.conf
        sluiced --once && sluice decisions
    """
    service.begin(log_level)
    try:
        daemon = Daemon(config)
    except EXPECTED as error:
        raise click.ClickException(str(error)) from error
    with closing(daemon):
        if once:
            sys.exit(0 if daemon.round() else 1)
        log.info("following; configuration %s", config)
        _follow(daemon)
