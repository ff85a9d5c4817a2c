"""The pages of models: what was trained and published, how good it was, and how two differ.

Operators put another one into use here, by what `sluice model publish` calls.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sluice.history_db.store import Store
from sluice.serve.access import HiddenError
from sluice.serve.site import BUSY_SECONDS
from sluice.serve.tables import SHARE, Cell, Column, Page, Table, moment, number, words
from sluice.slurm import query_replies
from sluice.slurm.formatting import bytes_text, count_text, one_line, share_text, time_text
from sluice.slurm.records import UnknownJobError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sluice.serve.access import Who
    from sluice.serve.site import Site

Facts = dict[str, Any]


def _later(name: str) -> Callable[[Facts], Any]:
    """Return what tells a figure of the jobs after those that a model learned from."""
    return lambda one: (one["metrics"].get("later_jobs") or {}).get(name)


def _state(one: Facts) -> Cell:
    if one["in_use"]:
        return words("in use", tone="good")
    return words("waits", tone="warn") if one["waits"] else words("kept", tone="dim")


COLUMNS = (
    Column(
        "model",
        "Model",
        number,
        lambda one: Cell(str(one["model"]), float(one["model"]), f"/models/{one['model']}"),
    ),
    Column("state", "State", of=_state),
    Column("trained", "Trained", moment),
    Column("jobs", "Jobs", number, lambda one: one["metrics"].get("jobs")),
    Column("since", "From", moment, lambda one: one["metrics"].get("since")),
    Column("until", "Until", moment, lambda one: one["metrics"].get("until")),
    Column("answered", "Certain of", SHARE, _later("answered")),
    Column("right", "Of those right", SHARE, _later("accuracy_answered")),
    Column("brier", "Squared error", partial(number, text="{:.3f}".format), _later("brier")),
    Column(
        "published",
        "Published",
        moment,
        lambda one: max((bundle["published_at"] for bundle in one["bundles"]), default=None),
    ),
)


def page(store: Store, who: Who) -> Page:
    """List models, the latest first; raises HiddenError for who may not see all jobs."""
    models = _models(store, who)[::-1]
    return Page(
        name="models",
        title="Models",
        facts={"models": models},
        tables=[
            Table.of(
                "models",
                "Models, the latest first",
                COLUMNS,
                models,
                empty="No model yet: `sluice model train` makes one.",
                note="Certain of, right and the error: among those jobs that came after the ones "
                "it learned from.",
                is_headed=True,
            )
        ],
    )


def _models(store: Store, who: Who) -> list[Facts]:
    if not who.viewer.sees_all:
        raise HiddenError("models are made of all users' jobs, which PrivateData hides from you")
    return query_replies.models(store)


def card(store: Store, who: Who, wanted: int) -> Page:
    """Show a model's card alongside that of the one in use; raises HiddenError, UnknownJobError."""
    models = {one["model"]: one for one in _models(store, who)}
    one = _chosen(models, wanted)
    in_use = next((other for other in models.values() if other["in_use"]), None)
    return Page(
        name="models",
        title=f"Model {wanted}",
        facts={"model": one, "in_use": in_use},
        sentences=["It is in use."] if one["in_use"] else [],
        ways=[("What publishing it now would change", f"/models/{wanted}/difference")]
        if who.is_operator
        else [],
        model=0 if one["in_use"] else wanted,
        tables=[_comparison(one, in_use), _bundles(one)],
    )


def _chosen(models: dict[int, Facts], wanted: int) -> Facts:
    if wanted not in models:
        raise UnknownJobError(f"there is no model {wanted}; `sluice model list` names those kept")
    return models[wanted]


def difference_page(site: Site, store: Store, who: Who, wanted: int) -> Page:
    """Say what publishing a model now would change; raises as `card` does."""
    one = _chosen({one["model"]: one for one in _models(store, who)}, wanted)
    found = site.difference(wanted)
    return Page(
        name="models",
        title=f"What publishing model {wanted} would change",
        facts={"model": wanted} | (found or {"computed": None, "failed": "", "changes": []}),
        sentences=[_told(found)],
        ways=[(f"Model {wanted}", f"/models/{wanted}")],
        model=0 if one["in_use"] else wanted,
        tables=[
            Table.of(
                "changes",
                "Users and names for whose jobs something changes",
                CHANGES,
                (found or {"changes": []})["changes"],
                empty="Nothing that is known.",
                note="In use and then: what is predicted of the latest of these jobs, and decided "
                "on it, by either model with the settings and reviews as they stand.",
            )
        ],
        refresh=0 if found else COMPUTING_SECONDS,
    )


COMPUTING_SECONDS = 5
"""After which it is worth looking whether something is computed."""
CHANGES = (
    Column("user", "User"),
    Column("name", "Name"),
    Column("jobs", "Jobs", number),
    Column("predictions", "Predicted differently", number),
    Column("decisions", "Decided differently", number),
    Column("before", "In use", of=lambda row: _side(row["before"])),
    Column("after", "Then", of=lambda row: _side(row["after"])),
)


def _told(found: Facts | None) -> str:
    if found is None:
        return "This is being computed; come back in a minute."
    if found["failed"]:
        return f"This could not be computed: {found['failed']}."
    return (
        f"Computed {time_text(found['computed'])}: of {count_text(found['jobs'], 'job')} since "
        f"{time_text(found['since'])}, {found['predictions']} would be predicted and "
        f"{found['decisions']} decided differently."
    )


def _side(side: Facts) -> str:
    written = bytes_text(side["write_bytes"])
    return f"{side['pattern']}, {written}, {share_text(side['confidence'])}: {side['action']}"


def publish(site: Site, who: Who, wanted: int, reason: str) -> None:
    """Put a model into use; raises HiddenError, UnknownJobError, or as `publish_model` does."""
    from sluice.slurm.learner import publish_model  # noqa: PLC0415 - scikit-learn

    config = site.config
    with Store(site.history, busy_seconds=BUSY_SECONDS) as store:
        _chosen({one["model"]: one for one in _models(store, who)}, wanted)
        publish_model(
            store,
            Path(config.bundle),
            policy=config.policy,
            now=site.now,
            reviews=Path(config.reviews),
            version=wanted,
            reason=one_line(reason),
            uid=who.viewer.uid,
        )


def _comparison(one: Facts, in_use: Facts | None) -> Table:
    own, other = dict(_flat(one["metrics"])), dict(_flat(in_use["metrics"] if in_use else {}))
    return Table.of(
        "card",
        "Its card alongside that of the model in use",
        (
            Column("what", "What", of=str),
            Column("model", f"Model {one['model']}", number, lambda name: _value(own.get(name))),
            Column(
                "in_use",
                f"Model {in_use['model']}, in use" if in_use else "In use",
                of=lambda name: _value(other.get(name)),
            ),
            Column(
                "differs",
                "Differs",
                of=lambda name: (
                    words("differs", tone="warn") if own.get(name) != other.get(name) else None
                ),
            ),
        ),
        own | other,
        is_headed=True,
    )


def _flat(metrics: Any, path: str = "") -> Iterator[tuple[str, object]]:
    """Yield the leaves of a card by their path: `later_jobs.answered`."""
    if not isinstance(metrics, dict):
        yield path, metrics
        return
    for name, value in metrics.items():
        yield from _flat(value, f"{path}.{name}" if path else str(name))


def _value(value: object) -> Cell:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return number(value, "{:.6g}".format)
    return words(None if value is None else str(value))


def _bundles(one: Facts) -> Table:
    return Table.of(
        "bundles",
        "Bundles with it, the latest last",
        (
            Column("published", "Published", moment, "published_at"),
            Column("checksum", "Checksum"),
            Column("path", "File"),
        ),
        one["bundles"],
        empty="It was never published.",
    )
