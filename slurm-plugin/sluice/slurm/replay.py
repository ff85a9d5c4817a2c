"""Makes a stored decision again, from the bundle and snapshot that it was made with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sluice.policies.bundle import Bundle
from sluice.policies.record import Record, Situation, replay
from sluice.policies.snapshot import Snapshot

if TYPE_CHECKING:
    from sluice.history_db.store import Store
    from sluice.policies.core import Config


def replay_decision(store: Store, record: Record, config: Config) -> dict[str, Any]:
    """Decide again and compare: `equal` is None where an input is no longer there.

    Exemptions come from sluice.conf, which is not kept: where it has changed since, that is said.
    """
    situation = None
    if record.bundle_checksum:
        bundle = store.bundle(record.bundle_checksum)
        if bundle is None:
            return _impossible(f"the history has no bundle {record.bundle_checksum:016x}")
        snapshot = None
        if record.snapshot_checksum:
            stored = store.snapshot(record.snapshot_checksum)
            if stored is None:
                return _impossible(f"the history has no snapshot {record.snapshot_checksum:016x}")
            snapshot = Snapshot.parse(stored.content)
        situation = Situation(Bundle.parse(bundle.content), snapshot)
    is_equal = replay(record, situation, config) == record.decision.bytes
    is_same_config = record.config_checksum == config.checksum
    verdict = (
        "Bundle and snapshot from the history give the same bits."
        if is_equal
        else "The decision made again is NOT the same."
    )
    caution = "" if is_same_config else " sluice.conf has changed since the decision."
    return {"equal": is_equal, "same_config": is_same_config, "text": verdict + caution}


def _impossible(why: str) -> dict[str, Any]:
    return {"equal": None, "same_config": None, "text": f"It cannot be made again: {why}."}
