"""Trains a history's next model: unless nothing is new, or the newest runs speak against it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from importlib.metadata import version
from typing import TYPE_CHECKING

from sluice.prediction.drift import compare
from sluice.prediction.train import TrainedModel, fit, keep, past_of

if TYPE_CHECKING:
    from sluice.history_db.records import Model
    from sluice.history_db.store import Store
    from sluice.prediction.drift import Comparison
    from sluice.prediction.train import Past

LEARNED_FROM = "learned_from"
"""Member of a model's metrics: digest of the jobs that it was fitted to."""


@dataclass(frozen=True, slots=True)
class Renewal:
    """What training came to."""

    model_id: int
    """Of the model to use from now on."""
    model: TrainedModel
    comparison: Comparison | None
    """With the model in use before; None: there was none, or too few newer runs."""
    is_new: bool
    is_known: bool = False
    """The latest model was fitted to the same jobs."""


def renew(store: Store, *, now: int, force: bool = False, past: Past | None = None) -> Renewal:
    """Fit a model to the history and keep it, unless the newest runs speak against it.

    past is what the history holds, where that was read already; now is in UTC seconds. With
    force the new model is kept whatever the newest runs say. Raises EmptyHistoryError or
    HistoryError.
    """
    past = past or past_of(store)
    digest = digest_of(past)
    latest = store.latest_model()
    if latest is not None and latest.metrics.get(LEARNED_FROM) == digest:
        return _as_it_is(latest, is_known=True)
    in_use = model_in_use(store)
    comparison = compare(in_use, past.jobs) if in_use else None
    if in_use and comparison and comparison.keeps_old and not force:
        return _as_it_is(in_use, comparison)
    model = fit(past.jobs, past.silent)
    model = replace(model, metrics=model.metrics | {LEARNED_FROM: digest})
    return Renewal(*keep(store, model, created=now), comparison, is_new=True)


def model_in_use(store: Store) -> Model | None:
    """Return the model that was published last; where none was, the latest."""
    used = store.model_in_use()
    return store.latest_model() if used is None else store.model(used)


def _as_it_is(
    model: Model, comparison: Comparison | None = None, *, is_known: bool = False
) -> Renewal:
    content = TrainedModel.from_bytes(model.content)
    return Renewal(model.id, content, comparison, is_new=False, is_known=is_known)


def digest_of(past: Past) -> str:
    """Return a digest of the jobs, and of who learns from them."""
    hashed = hashlib.blake2b(version("sluice").encode(), digest_size=16)
    for jobs in (past.jobs, past.silent):
        for job in jobs:
            hashed.update(repr(job).encode(errors="surrogateescape"))
        hashed.update(b"\n")
    return hashed.hexdigest()
