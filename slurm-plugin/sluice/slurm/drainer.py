"""Takes decision records out of the plugin and into the history, losing and doubling none.

Records are acknowledged only after they were stored, with the next request. Whatever ends
sluiced in between, the plugin hands them over again, and the history knows them by
(boot, number).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluice.history_db.records import Decision
from sluice.policies.record import Record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sluice.history_db.records import Snapshot
    from sluice.history_db.store import Store
    from sluice.slurm.plugin_client import PluginClient

BATCH = 256  # records a transaction


class Drainer:
    """Remembers how far the plugin's records were stored."""

    def __init__(self, kept_snapshot: Callable[[int], Snapshot | None]) -> None:
        """kept_snapshot gives a snapshot published lately, by checksum."""
        self.stored = 0
        self.dropped = 0
        """Records that the plugin lost in its present life because nobody took them in time."""
        self._kept_snapshot = kept_snapshot
        self._boot = 0
        self._last = 0

    def drain(self, client: PluginClient, store: Store) -> Iterator[Record]:
        """Store all records the plugin has; yield each once it is stored."""
        while True:
            answer = client.drain(self._boot, self._last, BATCH)
            self.dropped = answer.dropped
            records = [Record.parse(row) for row in answer.records]
            self._store(records, store)
            if records or answer.boot != self._boot:
                self._boot = answer.boot
                self._last = records[-1].number if records else 0
            yield from records
            if len(records) < BATCH:
                return

    def _store(self, records: list[Record], store: Store) -> None:
        # The snapshot first: a decision is replayed from it.
        for checksum in {record.snapshot_checksum for record in records}:
            snapshot = self._kept_snapshot(checksum)
            if snapshot is not None:
                store.add_snapshot(snapshot)
        if records:
            self.stored += store.insert_decisions([decision_of(record) for record in records])


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
