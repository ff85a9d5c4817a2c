"""What another bundle would change: predictions and decisions of the latest jobs."""

from __future__ import annotations

import math
from collections import OrderedDict
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sluice.history_db.records import Selection
from sluice.interference.pairs import site_evidence
from sluice.policies import core
from sluice.policies.bundle import Bundle
from sluice.policies.core import CoreError
from sluice.policies.record import Record, Situation, decide
from sluice.policies.snapshot import Snapshot
from sluice.prediction.publication import candidate
from sluice.slurm.visibility import user_text

if TYPE_CHECKING:
    from sluice.history_db.store import Store
    from sluice.policies.core import Config, View

MOST = 5000
"""Decisions that are made again, the latest."""
SNAPSHOTS_KEPT = 16
"""In memory: decisions of one time refer to one of them."""
NOTABLE = math.log(1.25)
"""Bytes that differ by less are no change: each run moves them a little."""


@dataclass(slots=True)
class Change:
    """What changes for the jobs of one user and name."""

    user: str
    name: str
    jobs: int = 0
    predictions: int = 0
    """Jobs of which something else is predicted."""
    decisions: int = 0
    """Jobs on which something else is decided."""
    before: dict[str, Any] = field(default_factory=dict)
    after: dict[str, Any] = field(default_factory=dict)
    """Of the latest job for which one of them changes."""

    def to_json(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__}


def difference_to(
    store: Store, settings: Config, *, version: int | None, since: int, now: int
) -> dict[str, Any]:
    """Say what publishing a model now would change, the latest or the one with this number.

    since, now: UTC seconds. Raises NothingToPublishError, CoreError, OSError or HistoryError.
    """
    new = candidate(
        store,
        policy=settings.policy,
        now=now,
        version=version,
        **site_evidence(store).model().for_bundle(),
    )
    old = Bundle.read(Path(settings.bundle))
    return difference(store, old, Bundle.parse(new), settings, since=since)


def difference(
    store: Store, old: Bundle, new: Bundle, config: Config, *, since: int
) -> dict[str, Any]:
    """Predict and decide again, by both bundles, on what was submitted since (UTC seconds)."""
    changes: dict[tuple[int, str], Change] = {}
    sides = (_Side(store, old, config), _Side(store, new, config))
    records = _records(store, since)
    for record in reversed(records):
        asked = record.submission
        key = (asked.uid, core.name_stem(asked.name))
        change = changes.setdefault(key, Change(user_text(asked.uid), key[1]))
        change.jobs += 1
        before, after = (side.decide(record) for side in sides)
        differs = _is_other_prediction(before.prediction, after.prediction)
        is_other = before.decision.action != after.decision.action
        change.predictions += differs
        change.decisions += is_other
        if differs or is_other:
            change.before, change.after = _shown(before), _shown(after)
    found = [one for one in changes.values() if one.before]
    found.sort(key=lambda one: (one.decisions, one.predictions), reverse=True)
    return {
        "since": since,
        "jobs": len(records),
        "has_more": len(records) == MOST,
        "predictions": sum(one.predictions for one in found),
        "decisions": sum(one.decisions for one in found),
        "changes": [one.to_json() for one in found],
    }


def _records(store: Store, since: int) -> list[Record]:
    """Return the latest decisions that this version can read, the latest first."""
    found = []
    for decision in store.decisions.latest_decisions(MOST, Selection(since=since)):
        try:
            found.append(Record.parse(decision.record))
        except CoreError:
            continue
    return found


class _Side:
    """One of the bundles, and the clusters that it was last asked about."""

    def __init__(self, store: Store, bundle: Bundle, config: Config) -> None:
        self._store = store
        self._bundle = bundle
        self._config = config
        self._situations: OrderedDict[int, Situation] = OrderedDict()

    def decide(self, record: Record) -> Record:
        situation = self._situation(record.snapshot_checksum)
        return decide(situation, self._config, record.submission, record.now)

    def _situation(self, checksum: int) -> Situation:
        found = self._situations.pop(checksum, None)
        if found is None:
            stored = self._store.decisions.snapshot(checksum) if checksum else None
            snapshot = Snapshot.parse(stored.content) if stored else None
            found = Situation(self._bundle, snapshot)
        self._situations[checksum] = found
        if len(self._situations) > SNAPSHOTS_KEPT:
            self._situations.popitem(last=False)
        return found


def _is_other_prediction(before: View, after: View) -> bool:
    if (before.profile.pattern, before.klass) != (after.profile.pattern, after.klass):
        return True
    return any(
        _is_notable(getattr(before.profile, name), getattr(after.profile, name))
        for name in ("write_bytes", "read_bytes")
    )


def _is_notable(was: float | None, becomes: float | None) -> bool:
    if not was or not becomes:
        return bool(was) != bool(becomes)
    return abs(math.log(becomes / was)) > NOTABLE


def _shown(record: Record) -> dict[str, Any]:
    prediction = record.prediction
    return {
        "pattern": prediction.profile.pattern,
        "confidence": prediction.profile.confidence,
        "klass": prediction.klass,
        "write_bytes": prediction.profile.write_bytes,
        "read_bytes": prediction.profile.read_bytes,
        "evidence": prediction.evidence,
        "action": record.decision.action,
        "reason": record.decision.reason,
    }
