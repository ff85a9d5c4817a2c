"""The pages of models: what was trained and published, how good it was, and how two differ."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sluice.serve.tables import Cell, Column, Page, Table, moment, number, words
from sluice.slurm import answers
from sluice.slurm.records import QueryError
from sluice.slurm.texts import share_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sluice.history_db.store import Store
    from sluice.serve.access import Who

Facts = dict[str, Any]

COLUMNS = (
    Column("model", "Model", is_number=True),
    Column("state", "State"),
    Column("trained", "Trained", is_number=True),
    Column("jobs", "Jobs", is_number=True),
    Column("since", "From", is_number=True),
    Column("until", "Until", is_number=True),
    Column("answered", "Certain of", is_number=True),
    Column("right", "Of those right", is_number=True),
    Column("brier", "Squared error", is_number=True),
    Column("published", "Published", is_number=True),
)


def page(store: Store, who: Who) -> Page:
    """List models, the latest first; raises QueryError for who may not see all jobs."""
    models = _models(store, who)[::-1]
    return Page(
        name="models",
        title="Models",
        facts={"models": models},
        tables=[
            Table(
                "models",
                "Models, the latest first",
                COLUMNS,
                [_row(one) for one in models],
                empty="No model yet: `sluice model train` makes one.",
                note="Certain of, right and the error: among those jobs that came after the ones "
                "it learned from.",
                is_headed=True,
            )
        ],
    )


def _models(store: Store, who: Who) -> list[Facts]:
    if not who.viewer.sees_all:
        raise QueryError("models are made of all users' jobs, which PrivateData hides from you")
    return answers.models(store)


def _row(one: Facts) -> list[Cell]:
    metrics = one["metrics"]
    later = metrics.get("later_jobs") or {}
    return [
        Cell(str(one["model"]), float(one["model"]), f"/models/{one['model']}"),
        words("in use", tone="good") if one["in_use"] else words("kept", tone="dim"),
        moment(one["trained"]),
        number(metrics.get("jobs")),
        moment(metrics.get("since")),
        moment(metrics.get("until")),
        number(later.get("answered"), share_text),
        number(later.get("accuracy_answered"), share_text),
        number(later.get("brier"), "{:.3f}".format),
        moment(max((bundle["published_at"] for bundle in one["bundles"]), default=None)),
    ]


def card(store: Store, who: Who, wanted: int) -> Page:
    """Show one model's card alongside that of the one in use; raises QueryError."""
    models = {one["model"]: one for one in _models(store, who)}
    if wanted not in models:
        raise QueryError(f"there is no model {wanted}; `sluice model list` names those kept")
    one = models[wanted]
    in_use = next((other for other in models.values() if other["in_use"]), None)
    return Page(
        name="models",
        title=f"Model {wanted}",
        facts={"model": one, "in_use": in_use},
        tables=[_comparison(one, in_use), _bundles(one)],
    )


def _comparison(one: Facts, in_use: Facts | None) -> Table:
    own, other = dict(_flat(one["metrics"])), dict(_flat(in_use["metrics"] if in_use else {}))
    return Table(
        "card",
        "Its card alongside that of the model in use",
        (
            Column("what", "What"),
            Column("model", f"Model {one['model']}", is_number=True),
            Column("in_use", f"Model {in_use['model']}, in use" if in_use else "In use"),
            Column("differs", "Differs"),
        ),
        [
            [
                words(name),
                _value(own.get(name)),
                _value(other.get(name)),
                words("differs", tone="warn") if own.get(name) != other.get(name) else words(None),
            ]
            for name in own | other
        ],
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
    return Table(
        "bundles",
        "Bundles with it, the latest last",
        (
            Column("published", "Published", is_number=True),
            Column("checksum", "Checksum"),
            Column("path", "File"),
        ),
        [
            [moment(bundle["published_at"]), words(bundle["checksum"]), words(bundle["path"])]
            for bundle in one["bundles"]
        ],
        empty="It was never published.",
    )
