"""Publishes a model with what the site knows of interference: what `model publish` does by hand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sluice.slurm.errors import SlurmError

if TYPE_CHECKING:
    from pathlib import Path

    from sluice.history_db.records import Bundle, Model
    from sluice.history_db.store import Store
    from sluice.interference.site_model import Basis
    from sluice.policies.core import View


class NothingToPublishError(SlurmError):
    """The history has no such model, or the directory of the bundle is not there."""


@dataclass(frozen=True, slots=True)
class Published:
    """A bundle, and what its interference model rests on."""

    bundle: Bundle
    basis: Basis


def publish_model(
    store: Store,
    path: Path,
    *,
    policy: View,
    now: int,
    version: int | None = None,
    rollback: bool = False,
) -> Published:
    """Publish the latest model, the one with this number, or the one in use before."""
    from sluice.interference.production.site import site_evidence  # noqa: PLC0415 - numpy
    from sluice.prediction.publish import publish  # noqa: PLC0415 - likewise

    model = _chosen(store, version, rollback=rollback)
    if not path.parent.is_dir():
        raise NothingToPublishError(
            f"{path.parent}: no such directory; create it, or name another file with --bundle"
        )
    interference = site_evidence(store).model()
    bundle = publish(
        store,
        model,
        policy=policy,
        path=path,
        now=now,
        interference=interference.interference,
        interference_from=interference.for_bundle(),
    )
    return Published(bundle, interference.basis)


def _chosen(store: Store, version: int | None, *, rollback: bool) -> Model:
    if rollback:
        version = store.model_before()
        if version is None:
            raise NothingToPublishError(
                f"{store.path}: no other model was published before; `sluice model list` lists them"
            )
    model = store.latest_model() if version is None else store.model(version)
    if model is None and version is None:
        raise NothingToPublishError(f"{store.path}: no model yet; run `sluice model train` first")
    if model is None:
        raise NothingToPublishError(
            f"{store.path}: no model {version} (any more); `sluice model list` lists them"
        )
    return model
