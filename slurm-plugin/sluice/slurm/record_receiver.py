"""Receives decision records from the plugin into the history, losing and doubling none.

A thread of its own does it: the plugin's ring fills within seconds when thousands of jobs are
submitted, however long a poll takes. Records are acknowledged after they were stored, so whatever
ends sluiced, the plugin hands them over again, and the history knows them by (boot, number). While
the history takes nothing, they stay with the plugin as long as they are few, then in memory up to
a limit; beyond that the oldest are lost and counted.
"""

from __future__ import annotations

import threading
import time
import zlib
from collections import deque
from typing import TYPE_CHECKING, Any

from sluice.history_db.errors import HistoryError
from sluice.history_db.records import Decision
from sluice.history_db.store import Store
from sluice.policies.core import CoreError
from sluice.policies.record import Record
from sluice.slurm.records import PluginAnswerError, SlurmError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from sluice.history_db.records import Snapshot
    from sluice.slurm.plugin_client import PluginClient

BATCH = 1024
"""Records asked for at once: so many stay with the plugin while the history takes nothing."""
KEPT = 50_000
"""Records in memory that the history has not taken."""
PAUSE = 0.2
"""Seconds between two polls of an empty ring."""
STATS_SECONDS = 15.0
"""Seconds between two looks at what the plugin counts."""
LONG_PAUSE = 1.0
"""Seconds until the next try after a failure."""
BUSY_SECONDS = 2.0
"""How long to wait while another process writes into the history."""


class Drainer:
    """A thread that drains the plugin's ring."""

    def __init__(
        self,
        client: PluginClient,
        history: Path,
        kept_snapshot: Callable[[int], Snapshot | None],
    ) -> None:
        """kept_snapshot gives a snapshot published lately, by checksum."""
        self.stored = 0
        self.lost = 0
        """Records that neither the history nor memory had room for."""
        self.dropped = 0
        """Records that the plugin lost in its present life because they were not read in time."""
        self.stats: dict[str, Any] = {}
        """What the plugin counts; empty while it does not answer."""
        self._stats_due = 0.0
        self._client = client
        self._history = history
        self._kept_snapshot = kept_snapshot
        self._store: Store | None = None
        self._boot = 0
        self._acknowledged = 0
        self._seen = 0
        """Number of the last record that was handed to the rest of sluiced."""
        self._unstored: deque[bytes] = deque()
        """Compressed records that were acknowledged and not stored."""
        self._unreported = 0
        """Of the lost ones, those that the history was not told of."""
        self._errors: dict[type[Exception], Exception] = {}
        self._arrived: list[Record] = []
        self._wanted = self._drained = -1.0
        """Monotonic times: since when a command waits, and when the ring was seen to be empty."""
        self._is_leaving = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="drainer", daemon=True)

    def start(self) -> None:
        """Begin to drain, if it has not begun yet."""
        if self._thread.ident is None:
            self._thread.start()

    def close(self) -> None:
        """End the thread; what it could not store stays with the plugin."""
        with self._changed:
            self._is_leaving = True
            self._changed.notify_all()
        if self._thread.ident is not None:
            self._thread.join(2 * BUSY_SECONDS)

    def wait(self, seconds: float) -> bool:
        """Wait until all records that were made before this call have arrived, or give up."""
        with self._changed:
            asked = self._wanted = time.monotonic()
            self._changed.notify_all()
            self._changed.wait_for(
                lambda: self._drained > asked or SlurmError in self._errors, seconds
            )
            return self._drained > asked

    def arrived(self) -> list[Record]:
        """Return the records that have arrived since the last call."""
        with self._changed:
            arrived, self._arrived = self._arrived, []
        return arrived

    @property
    def is_behind(self) -> bool:
        """Whether records have arrived that the history does not have."""
        return HistoryError in self._errors

    def raise_error(self, kind: type[SlurmError | HistoryError]) -> None:
        """Raise what keeps records from being fetched, or from being stored."""
        error = self._errors.get(kind)
        if error is not None:
            raise error

    # In the thread

    def _run(self) -> None:
        pause = 0.0
        while not self._rest(pause):
            pause = self._drain()
        if self._store is not None:
            self._store.close()

    def _rest(self, seconds: float) -> bool:
        """Wait, unless a command waits for records; return whether it is time to leave."""
        with self._changed:
            is_wanted = seconds <= PAUSE and self._wanted > self._drained
            if seconds > 0 and not is_wanted and not self._is_leaving:
                self._changed.wait(seconds)
            return self._is_leaving

    def _drain(self) -> float:
        """Take what the ring has; return how long to rest after that."""
        begin = time.monotonic()
        try:
            records = self._fetch()
        except SlurmError as error:
            self.stats = {}
            with self._changed:
                self._errors[SlurmError] = error
                self._changed.notify_all()
            return LONG_PAUSE
        self._errors.pop(SlurmError, None)
        self._look_at_counts(begin)
        is_all = len(records) < BATCH
        try:
            self._put(records)
        except HistoryError as error:
            self._errors[HistoryError] = error
            if not is_all:  # more wait behind them, and the ring is small
                self._keep(records)
        else:
            self._errors.pop(HistoryError, None)
            self._acknowledged = records[-1].number if records else self._acknowledged
        self._hand_over(records, begin if is_all else None)
        if not is_all:
            return 0.0
        return LONG_PAUSE if self.is_behind else PAUSE

    def _fetch(self) -> list[Record]:
        answer = self._client.drain(self._boot, self._acknowledged, BATCH)
        self.dropped = answer.dropped
        if answer.boot != self._boot:
            self._boot, self._acknowledged, self._seen = answer.boot, 0, 0
        try:
            return [Record.parse(row) for row in answer.records]
        except CoreError as error:
            raise PluginAnswerError(f"{self._client.path}: {error}") from error

    def _look_at_counts(self, now: float) -> None:
        """Now and then; records do not wait for what the plugin says of itself."""
        if now >= self._stats_due:
            self._stats_due = now + STATS_SECONDS
            try:
                self.stats = self._client.stats()
            except SlurmError:
                self.stats = {}

    def _hand_over(self, records: list[Record], drained: float | None) -> None:
        with self._changed:
            self._arrived += [record for record in records if record.number > self._seen]
            if records:
                self._seen = max(self._seen, records[-1].number)
            if drained is not None:
                self._drained = drained
            self._changed.notify_all()

    def _keep(self, records: list[Record]) -> None:
        """Keep in memory what the ring has no room for."""
        self._unstored.extend(zlib.compress(record.bytes) for record in records)
        self._acknowledged = records[-1].number
        over = max(0, len(self._unstored) - KEPT)
        for _ in range(over):
            self._unstored.popleft()
        self.lost += over
        self._unreported += over

    def _put(self, records: list[Record]) -> None:
        store = self._open()
        while self._unstored:
            some = [self._unstored[i] for i in range(min(BATCH, len(self._unstored)))]
            self._insert(store, [Record.parse(zlib.decompress(packed)) for packed in some])
            for _ in some:
                self._unstored.popleft()
        if self._unreported:
            store.decisions.add_loss(int(time.time()), self._unreported)
            self._unreported = 0
        self._insert(store, records)

    def _insert(self, store: Store, records: Iterable[Record]) -> None:
        # The snapshot first: a decision is replayed from it.
        for checksum in {record.snapshot_checksum for record in records}:
            snapshot = self._kept_snapshot(checksum)
            if snapshot is not None:
                store.decisions.add_snapshot(snapshot)
        decisions = [decision_of(record) for record in records]
        if decisions:
            self.stored += store.decisions.insert_decisions(decisions)

    def _open(self) -> Store:
        if self._store is not None and not self._store.is_in_place():
            self._store.close()
            self._store = None
        if self._store is None:
            self._store = Store(self._history, create=True, busy_seconds=BUSY_SECONDS)
        return self._store


def decision_of(record: Record) -> Decision:
    """Make the history's row for a record."""
    return Decision(
        boot=record.boot,
        number=record.number,
        now=record.now,
        cluster=record.cluster,
        uid=record.submission.uid,
        job_id=None,
        joined_by=None,
        record=record.bytes,
        bundle=record.bundle_checksum,
        snapshot=record.snapshot_checksum,
    )
