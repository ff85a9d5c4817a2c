"""Publishing: the bundle of a model, its copy in the history, and the audit of it."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any

from sluice.history_db.errors import HistoryError
from sluice.history_db.records import AuditEntry, Bundle
from sluice.policies import review
from sluice.policies.bundle import Bundle as LoadedBundle
from sluice.policies.container import write_atomically
from sluice.policies.review import Review
from sluice.policies.structs import CoreError
from sluice.prediction.train import TrainedModel, pack

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from sluice.history_db.records import Model, Publication
    from sluice.history_db.store import Store
    from sluice.policies import core


class NothingToPublishError(HistoryError):
    """The history has no such model, or the directory of the bundle is not there."""


def standing_reviews(store: Store) -> list[Review]:
    """Return the reviews that stand."""
    return [
        Review.from_json(one.content)
        for one in store.administration.reviews()
        if one.undone_at is None
    ]


KEPT_MODELS = 10  # besides those that decisions refer to


def packer(
    store: Store,
    model: Model,
    *,
    policy: core.View,
    now: int,
    interference: Mapping[str, Any] | None = None,
    interference_from: Mapping[str, Any] | None = None,
    content_of: TrainedModel | None = None,
    reviews: Sequence[Review] = (),
) -> Callable[..., bytes]:
    """Return what packs the bundle of a model, `created` at any time (UTC seconds).

    interference: members of struct sluice_interference; without, the published figures.
    interference_from: what these rest on, as JSON takes it.
    content_of: the model as it knows later runs, too; without, as it was trained.
    reviews: all that stand, see `standing_reviews`; those that ended by now are left out.
    """
    text = {"model": model.id, "trained": model.created, "metrics": model.metrics}
    return partial(
        pack,
        content_of or TrainedModel.from_bytes(model.content),
        policy=policy,
        text=json.dumps(text | {"interference": interference_from or {}}),
        interference=interference,
        reviews=review.packed(reviews, now, store.runs.runs_of_program),
    )


def publish(
    store: Store,
    model: Model,
    *,
    policy: core.View,
    path: Path,
    now: int,
    reviews: Sequence[Review] = (),
    **parts: Any,
) -> Bundle:
    """Write a bundle atomically and keep a copy in the history, so that decisions can be replayed.

    reviews, parts: as `packer` takes them. Where nothing of it differs from the bundle that was
    published last, that one stays.

    Raises CoreError when the core would refuse it, OSError, or HistoryError.
    """
    packed = packer(store, model, policy=policy, now=now, reviews=reviews, **parts)
    latest = store.models.latest_bundle()
    if latest is not None:
        now = max(now, latest.published_at + 1)  # its name tells bundles of one second apart
    if latest is not None and latest.path == str(path.absolute()):
        created = _created(latest.content)
        if created is not None and packed(created=created) == latest.content:
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
    store.models.add_bundle(bundle)  # first: a bundle in use without an explanation would be worse
    write_atomically(path, content)
    store.models.prune_models(KEPT_MODELS)
    return bundle


def _created(content: bytes) -> int | None:
    """Return when a bundle was made; None: it is of another version, as after an upgrade."""
    try:
        return LoadedBundle.parse(content).created
    except CoreError:
        return None


def _write_where_it_differs(path: Path, content: bytes) -> None:
    try:
        is_there = path.read_bytes() == content
    except FileNotFoundError:
        is_there = False
    if not is_there:
        write_atomically(path, content)


def publish_model(
    store: Store,
    path: Path,
    *,
    now: int,
    uid: int,
    version: int | None = None,
    rollback: bool = False,
    reason: str = "",
    **parts: Any,
) -> Bundle:
    """Publish the latest model, the one with this number, or the one in use before.

    uid, reason: of the user that publishes, for the audit. parts: as `packer` takes them.
    """
    model = _chosen(store, version, rollback=rollback)
    if not path.parent.is_dir():
        raise NothingToPublishError(
            f"{path.parent}: no such directory; create it, or name another file with --bundle"
        )
    before = store.models.latest_publication()
    ruled = standing_reviews(store)
    bundle = publish(store, model, path=path, now=now, reviews=ruled, **parts)
    tell_publication(store, before, bundle, uid=uid, reason=reason)
    return bundle


def candidate(store: Store, *, now: int, version: int | None = None, **parts: Any) -> bytes:
    """Return the bundle that `publish_model` would write."""
    model = _chosen(store, version, rollback=False)
    ruled = standing_reviews(store)
    return packer(store, model, now=now, reviews=ruled, **parts)(created=now)


def _chosen(store: Store, version: int | None, *, rollback: bool) -> Model:
    if rollback:
        version = store.models.model_before()
        if version is None:
            raise NothingToPublishError(
                f"{store.path}: no other model was published before; `sluice model list` lists them"
            )
    model = store.models.latest_model() if version is None else store.models.model(version)
    if model is None and version is None:
        raise NothingToPublishError(f"{store.path}: no model yet; run `sluice model train` first")
    if model is None:
        raise NothingToPublishError(
            f"{store.path}: no model {version} (any more); `sluice model list` lists them"
        )
    return model


def tell_publication(
    store: Store, before: Publication | None, after: Publication, *, uid: int, reason: str
) -> None:
    """Say in the audit which bundle replaced which, if another did."""
    if before is not None and before.checksum == after.checksum and before.path == after.path:
        return
    entry = AuditEntry(
        after.published_at,
        uid,
        "",
        after.path,
        _described(before) if before is not None else "",
        _described(after),
        reason,
    )
    store.administration.add_audit([entry])


def tell_learned(store: Store, before: Publication | None, after: Bundle, *, uid: int) -> None:
    """Say in the audit what sluice-learn published, if that is more than new runs of one model."""
    replaced = None if before is None else store.models.bundle(before.checksum)
    changes = ["the first"] if replaced is None else list(_changes(replaced, after))
    if changes:
        reason = f"sluice-learn: {', '.join(changes)}"
        tell_publication(store, before, after, uid=uid, reason=reason)


def _changes(before: Bundle, after: Bundle) -> Iterator[str]:
    """Name what differs between two bundles, but for the runs that they know."""
    if before.path != after.path:
        yield "another file"
    if before.model != after.model:
        yield "another model"
    try:
        old, new = LoadedBundle.parse(before.content), LoadedBundle.parse(after.content)
    except CoreError:
        yield "another version of Sluice"
        return
    if old.policy != new.policy:
        yield "settings"
    if old.interference != new.interference:
        yield "interference model"
    # numbers, as a review of a program has more rows once more users ran it
    was, becomes = ({one.number for one in bundle.reviews()} for bundle in (old, new))
    yield from (f"review {number:08x}" for number in sorted(becomes - was))
    yield from (f"without review {number:08x}" for number in sorted(was - becomes))


def _described(bundle: Publication) -> str:
    return f"model {bundle.model}, {bundle.checksum:016x}"
