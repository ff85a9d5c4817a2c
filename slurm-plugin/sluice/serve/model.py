"""The pages of models and reports: what was trained and published, how good it was, how two differ.

Operators put another model into use here, by what `sluice model publish` calls. To make a report
takes minutes, so the pages only show what `sluice report` stored.
"""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from sluice.history_db.store import Store
from sluice.serve.drawings import Curve, chart
from sluice.serve.site import BUSY_SECONDS, HiddenError
from sluice.serve.tables import SHARE, Cell, Column, Page, Table, moment, number, words
from sluice.slurm.records import UnknownJobError
from sluice.slurm.views import query_replies
from sluice.slurm.views.formatting import bytes_text, count_text, one_line, share_text, time_text
from sluice.slurm.views.job_explanation import Heading, Rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from sluice.serve.drawings import Drawing
    from sluice.serve.site import Reader, Site
    from sluice.serve.tables import Part

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
        lambda one: Cell(str(one["model"]), float(one["model"]), f"/model/{one['model']}"),
    ),
    Column("state", "State", of=_state),
    Column("trained", "Trained", moment),
    Column("jobs", "Jobs", number, lambda one: one["metrics"].get("jobs")),
    Column("since", "From", moment, lambda one: one["metrics"].get("since")),
    Column("until", "Until", moment, lambda one: one["metrics"].get("until")),
    Column("answered", "Certain of", SHARE, _later("answered")),
    Column("right", "Of those right", SHARE, _later("accuracy_answered")),
    Column("bytes", "Bytes within 2×", SHARE, _later("bytes_within_2")),
    Column("last", "As last time", SHARE, _later("last_within_2")),
    Column("mean", "As the mean", SHARE, _later("mean_within_2")),
    Column("brier", "Squared error", partial(number, text="{:.3f}".format), _later("brier")),
    Column(
        "published",
        "Published",
        moment,
        lambda one: max((bundle["published_at"] for bundle in one["bundles"]), default=None),
    ),
)


def page(site: Site, store: Store, reader: Reader) -> Page:
    """List models, and for operators reports; raises HiddenError where jobs are hidden."""
    models = _models(store, reader)[::-1]
    facts: Facts = {"models": models, "quality": site.quality}
    tables = [
        Table.of(
            "models",
            "Models, the latest first",
            COLUMNS,
            models,
            empty="No model yet: `sluice model train` makes one.",
            note="Certain of, right, bytes and the error: among jobs later than those it learned "
            "from. As last time and the mean: what bytes have to beat, the user's last run of the "
            "same name and size, and the mean of the application.",
            is_headed=True,
        ),
    ]
    tables += quality_tables(facts["quality"])
    if reader.is_operator:
        titles = store.administration.report_titles().items()
        facts["reports"] = [{"report": number} | asdict(one) for number, one in titles]
        tables.append(_reports(facts["reports"]))
    return Page(name="model", title="Model", facts=facts, tables=tables)


RELIABILITY = (
    Column("said", "Said", SHARE),
    Column("came_true", "Came true", SHARE),
    Column("jobs", "Jobs", number),
)
WEEKS = (
    Column("since", "Week from", moment),
    Column("jobs", "Jobs", number),
    Column("within_2", "Bytes within 2×", SHARE),
    Column("last_within_2", "As last time", SHARE),
)


def quality_tables(found: Facts | None) -> list[Table]:
    """Draw how far confidence kept its promise, and what predictions are better at."""
    if found is None:
        return [Table.of("reliability", CALIBRATION, RELIABILITY, [], empty=COMPUTING)]
    note = f"Computed {time_text(found['computed'])}, of predictions of the last 13 weeks."
    if found["failed"]:
        note = f"This could not be computed: {found['failed']}."
    said, weeks = found["reliability"], [one for one in found["weeks"] if one["jobs"]]
    return [
        Table.of(
            "reliability",
            CALIBRATION,
            RELIABILITY,
            said,
            empty="No job that was predicted has ended.",
            note=f"{note} On the dashed line, what was said came true as often as that.",
            drawing=_calibration(said) if said else None,
        ),
        Table.of(
            "weeks",
            "Hits, and what the last run would have said",
            WEEKS,
            weeks,
            empty="No job that was predicted has ended.",
            note="Shares of the jobs acted on with bytes as predicted, within a factor of two.",
            drawing=_hits(weeks) if len(weeks) > 1 else None,
        ),
    ]


CALIBRATION = "Confidence, and how often it came true"
COMPUTING = "Computing; come back in a minute."


def _calibration(said: Sequence[Facts]) -> Drawing:
    points = []
    for one in said:
        share, jobs = share_text(one["came_true"]), count_text(one["jobs"], "job")
        points.append(
            (
                one["said"],
                one["came_true"],
                f"said {share_text(one['said'])}, came true {share}, {jobs}",
            )
        )
    promise = Curve("as promised", [(0.0, 0.0, ""), (1.0, 1.0, "")])
    return chart(
        "; ".join(title for _, _, title in points),
        [Curve("predictions", points, is_joined=False), promise],
        "confidence",
        "share that came true",
    )


def _hits(weeks: Sequence[Facts]) -> Drawing:
    curves = []
    for key, name in (("within_2", "predictions"), ("last_within_2", "as last time")):
        known = [one for one in weeks if one[key] is not None]
        titles = [
            f"{name}: {share_text(one[key])}, {time_text(one['since'])[:10]}" for one in known
        ]
        points = [(one["since"], one[key], t) for one, t in zip(known, titles, strict=True)]
        curves.append(Curve(name, points))
    alt = "; ".join(title for curve in curves for _, _, title in curve.points)
    since, until = weeks[0]["since"], weeks[-1]["since"]
    return chart(alt, curves, "week", "share right within 2×", since=since, until=until)


def _models(store: Store, reader: Reader) -> list[Facts]:
    if not reader.viewer.sees_all:
        raise HiddenError("models are made of all users' jobs, which PrivateData hides from you")
    return query_replies.models(store)


def card(store: Store, reader: Reader, wanted: int) -> Page:
    """Show a model's card alongside that of the one in use; raises HiddenError, UnknownJobError."""
    models = {one["model"]: one for one in _models(store, reader)}
    one = _chosen(models, wanted)
    in_use = next((other for other in models.values() if other["in_use"]), None)
    return Page(
        name="model",
        title=f"Model {wanted}",
        facts={"model": one, "in_use": in_use},
        sentences=["It is in use."] if one["in_use"] else [],
        ways=[("What publishing it now would change", f"/model/{wanted}/difference")]
        if reader.is_operator
        else [],
        model=0 if one["in_use"] else wanted,
        tables=[_comparison(one, in_use), _bundles(one)],
    )


def _chosen(models: dict[int, Facts], wanted: int) -> Facts:
    if wanted not in models:
        raise UnknownJobError(f"there is no model {wanted}; `sluice model list` names those kept")
    return models[wanted]


def difference_page(site: Site, store: Store, reader: Reader, wanted: int) -> Page:
    """Say what publishing a model now would change; raises as `card` does."""
    reader.check_operator()
    one = _chosen({one["model"]: one for one in _models(store, reader)}, wanted)
    found = site.difference(wanted)
    return Page(
        name="model",
        title=f"What publishing model {wanted} would change",
        facts={"model": wanted} | (found or {"computed": None, "failed": "", "changes": []}),
        sentences=[_difference_text(found)],
        ways=[(f"Model {wanted}", f"/model/{wanted}")],
        model=0 if one["in_use"] else wanted,
        tables=[
            Table.of(
                "changes",
                "Jobs that change, by user and name",
                CHANGES,
                (found or {"changes": []})["changes"],
                empty="None known.",
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


def _difference_text(found: Facts | None) -> str:
    if found is None:
        return COMPUTING
    if found["failed"]:
        return f"This could not be computed: {found['failed']}."
    return (
        f"Computed {time_text(found['computed'])}: of {count_text(found['jobs'], 'job')} since "
        f"{time_text(found['since'])}, {found['predictions']} would be predicted and "
        f"{found['decisions']} decided differently."
    )


def _side(side: Facts) -> str:
    moved = f"{bytes_text(side['write_bytes'])} written, {bytes_text(side['read_bytes'])} read"
    return f"{side['pattern']}, {moved}, {share_text(side['confidence'])}: {side['action']}"


def publish(site: Site, reader: Reader, wanted: int, reason: str) -> None:
    """Put a model into use; raises HiddenError, UnknownJobError, or as `publish_model` does."""
    from sluice.interference.pairs import site_evidence  # noqa: PLC0415 - SciPy
    from sluice.prediction.publication import publish_model  # noqa: PLC0415 - scikit-learn

    config = site.config
    with Store(site.history, busy_seconds=BUSY_SECONDS) as store:
        _chosen({one["model"]: one for one in _models(store, reader)}, wanted)
        publish_model(
            store,
            Path(config.bundle),
            policy=config.policy,
            now=site.now,
            version=wanted,
            reason=one_line(reason),
            uid=reader.viewer.uid,
            **site_evidence(store).model().for_bundle(),
        )


def _comparison(one: Facts, in_use: Facts | None) -> Table:
    own, other = (
        row["metrics"] | {"trained": row["trained"]} if row else {} for row in (one, in_use)
    )
    return Table.of(
        "card",
        "What it is, next to the model in use",
        (
            Column("what", "What", of=lambda row: row.title),
            Column("model", f"Model {one['model']}", number, lambda row: row.cell(own)),
            Column(
                "in_use",
                f"Model {in_use['model']}, in use" if in_use else "In use",
                number,
                lambda row: row.cell(other),
            ),
            Column("differs", "Compared", of=lambda row: row.verdict(own, other)),
        ),
        [row for row in CARD if row.value(own) is not None or row.value(other) is not None],
        is_headed=True,
        note="Of jobs later than those that each learned from.",
    )


class Figure(NamedTuple):
    """A figure of a model's card."""

    name: str
    title: str
    show: Callable[[Any], Cell] = SHARE
    better: int = 0
    """1: more is better; -1: less is; 0: neither."""

    def value(self, metrics: Facts) -> float | None:
        found: float | None = metrics.get(
            self.name, (metrics.get("later_jobs") or {}).get(self.name)
        )
        return found

    def cell(self, metrics: Facts) -> Cell:
        return self.show(self.value(metrics))

    def verdict(self, own: Facts, other: Facts) -> Cell:
        one, two = self.value(own), self.value(other)
        if one is None or two is None or self.cell(own).text == self.cell(other).text:
            return words(None if one is None or two is None else "the same")
        if not self.better:
            pair = ("later", "earlier") if self.show is moment else ("more", "fewer")
            return words(pair[one < two])
        is_better = (one - two) * self.better > 0
        return words("better" if is_better else "worse", tone="good" if is_better else "warn")


_ERROR = partial(number, text="{:.3f}".format)
CARD = (
    Figure("trained", "Trained", moment),
    Figure("jobs", "Jobs that it learned from", number),
    Figure("entries", "Programs that it knows", number),
    Figure("unconfirmed", "Predictions that no counter confirms", number),
    Figure("answered", "Jobs that it is certain enough of to act", SHARE, 1),
    Figure("accuracy_answered", "Patterns of those that are right", SHARE, 1),
    Figure("accuracy", "Patterns of all that are right", SHARE, 1),
    Figure("bytes_within_2", "Bytes right within 2×", SHARE, 1),
    Figure("last_within_2", "Bytes right within 2×, had the last run been told"),
    Figure("mean_within_2", "Bytes right within 2×, had the mean been told"),
    Figure("bytes_inside", "Bytes in their interval, which nine in ten should be"),
    Figure("chunk_within_2", "Chunks right within 2×", SHARE, 1),
    Figure("rate_within_2", "Rates right within 2×", SHARE, 1),
    Figure("burst_within_2", "Bursts right within 2×", SHARE, 1),
    Figure("brier", "Squared error of confidence", _ERROR, -1),
    Figure("calibration_error", "Confidence off what came true, on average", SHARE, -1),
)


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


# Reports

REPORT_COLUMNS = (
    Column(
        "made",
        "Made",
        moment,
        lambda row: Cell(
            time_text(row["made_at"])[:16], row["made_at"], f"/model/reports/{row['report']}"
        ),
    ),
    Column("since", "Of jobs from", moment),
    Column("verdict", "Verdict"),
)


def _reports(titles: Sequence[Facts]) -> Table:
    return Table.of(
        "reports",
        "Reports, the latest first",
        REPORT_COLUMNS,
        titles,
        empty="No report yet: `sluice report` makes one.",
        is_headed=True,
    )


def report_page(store: Store, reader: Reader, number: int) -> Page:
    """Show one report as it was printed; raises HiddenError, UnknownJobError."""
    reader.check_operator()
    if not reader.viewer.sees_all:
        raise HiddenError(
            "reports are made of all users' jobs, which PrivateData hides from you; `sluice "
            "report` makes one of your own"
        )
    found = store.administration.report(number)
    if found is None:
        raise UnknownJobError(f"no report {number} is kept")
    return Page(
        name="model",
        title=f"Report of {time_text(found.made_at)[:16]}",
        facts=found.facts,
        story=list(report_story(found.sections)),
    )


def report_story(
    sections: Iterable[Mapping[str, Any]], pictures: Mapping[str, Sequence[Part]] | None = None
) -> Iterator[Part]:
    """Lay out a report as the history stores it, with pictures by the heading above them."""
    for section in sections:
        yield Heading(section["heading"])
        yield from section["sentences"]
        yield from (pictures or {}).get(section["heading"], ())
        for table in section["tables"]:
            yield Rows(table["titles"], table["rows"], caption=table["caption"])
