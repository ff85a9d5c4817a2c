"""Model and settings -> the bundle that the controller loads."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any

from sluice.history_db.records import Bundle
from sluice.policies.bundle import Bundle as LoadedBundle
from sluice.policies.container import write_atomically
from sluice.prediction.train import TrainedModel, pack

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from sluice.history_db.records import Model
    from sluice.history_db.store import Store
    from sluice.policies import core

KEPT_MODELS = 10  # besides those that decisions refer to


def publish(
    store: Store,
    model: Model,
    *,
    policy: core.View,
    path: Path,
    now: int,
    interference: Mapping[str, Any] | None = None,
    interference_from: Mapping[str, Any] | None = None,
    content_of: TrainedModel | None = None,
) -> Bundle:
    """Write a bundle atomically and keep a copy in the history, so that decisions can be replayed.

    interference: members of struct sluice_interference; without, the published figures.
    interference_from: what these rest on, as JSON takes it.
    content_of: the model as it knows later runs, too; without, as it was trained. Where nothing
    of it differs from the bundle that was published last, that one stays.

    Raises CoreError when the core would refuse it, OSError, or HistoryError.
    """
    text = {"model": model.id, "trained": model.created, "metrics": model.metrics}
    packed = partial(
        pack,
        content_of or TrainedModel.from_bytes(model.content),
        policy=policy,
        text=json.dumps(text | {"interference": interference_from or {}}),
        interference=interference,
    )
    latest = store.latest_bundle()
    if latest is not None:
        now = max(now, latest.published_at + 1)  # its name tells bundles of one second apart
    if latest is not None and latest.path == str(path.absolute()):
        created = LoadedBundle.parse(latest.content).created
        if packed(created=created) == latest.content:
            _write_where_it_differs(path, latest.content)
            return latest
    content = packed(created=now)
    bundle = Bundle(
        checksum=LoadedBundle.parse(content).checksum,
        model=model.id,
        path=str(path.absolute()),
        published_at=now,
        content=content,
    )
    store.add_bundle(bundle)  # first: a bundle in use that nobody can explain would be worse
    write_atomically(path, content)
    store.prune_models(KEPT_MODELS)
    return bundle


def _write_where_it_differs(path: Path, content: bytes) -> None:
    try:
        is_there = path.read_bytes() == content
    except FileNotFoundError:
        is_there = False
    if not is_there:
        write_atomically(path, content)
