"""History -> what is known at submission: the application table, and how good it is."""

from __future__ import annotations

import json
import zlib
from dataclasses import asdict, dataclass, fields, replace
from typing import TYPE_CHECKING, Any

from sluice.history_db.records import Application, Profile
from sluice.policies import core
from sluice.policies.bundle import Bundle
from sluice.policies.bundle_writer import ArgumentLaw, BundleApplication, pack_bundle
from sluice.prediction.applications import Learned, learn_applications, numbered, unconfirmed
from sluice.prediction.hindsight import Hindsight, hindsight_of
from sluice.prediction.jobs import (
    LATEST_RUNS,
    application_of,
    profile_members,
    silent_jobs,
    unlogged_jobs,
)
from sluice.prediction.score import ended_before, judge, predict_past
from sluice.prediction.solo_estimate import latest_undisturbed
from sluice.prediction.submission_features import Submissions

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sluice.history_db.store import Store
    from sluice.prediction.jobs import FinishedJob


MIN_JOBS = 20  # with fewer nothing is said of how good a model is
TESTED_SHARE = 0.25  # the latest jobs, which the rest must predict,
MOST_TESTED = 2000  # or so many of them


class EmptyHistoryError(Exception):
    """There is nothing to learn from."""


@dataclass(frozen=True, slots=True)
class TrainedModel:
    """All that training adds to a bundle."""

    table: tuple[Learned, ...]
    metrics: dict[str, Any]

    @property
    def hindsight(self) -> Hindsight:
        return Hindsight.of(self.metrics.get("hindsight", {}))

    def to_bytes(self) -> bytes:
        about = {"table": self.table, "metrics": self.metrics}
        return zlib.compress(json.dumps(about, default=_members).encode())

    @classmethod
    def from_bytes(cls, content: bytes) -> TrainedModel:
        about = json.loads(zlib.decompress(content))
        return cls(tuple(_learned(entry) for entry in about["table"]), about["metrics"])


def _members(value: Any) -> dict[str, Any]:
    """Return a dataclass as JSON takes it; asdict copies all that is below, which takes longest."""
    return {field.name: getattr(value, field.name) for field in fields(value)}


def _learned(entry: dict[str, Any]) -> Learned:
    application = entry["application"]
    parts = {
        "application": Application(**{**application, "logs": tuple(application["logs"])}),
        "profile": Profile(**entry["profile"]),
        "sizes": tuple(entry["sizes"]),
        "law": _law(entry["law"]),
    }
    return Learned(**entry | parts)


def _law(law: dict[str, Any] | None) -> ArgumentLaw | None:
    return ArgumentLaw(**{**law, "values": tuple(law["values"])}) if law else None


def keep(store: Store, model: TrainedModel, *, created: int) -> tuple[int, TrainedModel]:
    """Keep a model in the history, its entries numbered; return its id. Raises HistoryError."""
    first_id = store.models.reserve_applications(len(model.table))
    model = replace(model, table=numbered(model.table, first_id))
    applications = [entry.application for entry in model.table]
    return store.models.add_model(
        model.to_bytes(), model.metrics, applications, created=created
    ), model


@dataclass(frozen=True, slots=True)
class Past:
    """The finished jobs of a history, the oldest first."""

    jobs: list[FinishedJob]
    silent: list[FinishedJob]
    """Those that left no trace of I/O, where others of their user and name did."""


def past_of(store: Store, *, latest: int = LATEST_RUNS) -> Past:
    """Return the jobs of the latest runs, with what the plugin saw of them.

    A job without a log counts where no run of its user and name has one.
    Raises EmptyHistoryError or HistoryError.
    """
    seen = Submissions(store.decisions.joined_decisions(latest))
    jobs = latest_undisturbed(store, seen, latest=latest)
    silent = silent_jobs(store, seen, jobs, latest=latest)
    logged = {application_of(job.uid, job.name) for job in jobs}
    jobs += [
        job
        for job in unlogged_jobs(store, seen, latest=latest)
        if application_of(job.uid, job.name) not in logged
    ]
    jobs.sort(key=lambda job: (job.start, job.logs))
    if not jobs:
        raise EmptyHistoryError(
            f"{store.path}: the history holds no runs; read some with `sluice history ingest PATH…`"
        )
    return Past(jobs, silent)


def fit(jobs: Sequence[FinishedJob], silent: Sequence[FinishedJob] = ()) -> TrainedModel:
    """Learn all that is learned from jobs, and how good it is on those that came last.

    The same jobs give the same model.
    """
    model = fit_quickly(jobs, silent=silent)
    return replace(
        model,
        metrics={
            "jobs": len(jobs),
            "since": min(job.submit for job in jobs),
            "until": max(job.end for job in jobs),
            "entries": len(model.table),
            "unconfirmed": unconfirmed(model.table),
            "hindsight": model.metrics["hindsight"],
            "later_jobs": _later_jobs(jobs),
        },
    )


def fit_quickly(
    jobs: Sequence[FinishedJob],
    *,
    silent: Sequence[FinishedJob] = (),
    asked: Sequence[FinishedJob] | None = None,
) -> TrainedModel:
    """Learn without looking how good it is; asked: the jobs to predict, if there are no others."""
    hindsight = hindsight_of(jobs)
    table = learn_applications(jobs, hindsight=hindsight, silent=silent, asked=asked)
    return TrainedModel(table, {"hindsight": hindsight.plain()})


def _later_jobs(jobs: Sequence[FinishedJob]) -> dict[str, object] | None:
    """Learn from the earlier jobs and let the core predict the later ones.

    Where there are many later ones, as many lie between two of those that are predicted.
    """
    ordered = sorted(jobs, key=lambda job: (job.submit, job.logs))
    split = int(len(ordered) * (1 - TESTED_SHARE))
    if split < MIN_JOBS or split == len(ordered):
        return None
    earlier = ended_before(ordered, ordered[split].submit)
    if not earlier:
        return None
    later = ordered[split :: -(-(len(ordered) - split) // MOST_TESTED)]
    model = fit_quickly(earlier, asked=later)
    return asdict(judge(predict_past(bundle_of(model), later, earlier), earlier))


def bundle_of(model: TrainedModel) -> Bundle:
    """Return the model as the core sees it, under the default settings."""
    policy = core.default_config().policy
    return Bundle.parse(pack(model, policy=policy, created=0, text="{}"))


def pack(
    model: TrainedModel,
    *,
    policy: core.View,
    created: int,
    text: str,
    interference: Mapping[str, Any] | None = None,
    reviews: bytes = b"",
) -> bytes:
    """Return the bundle of a model, as the controller would load it."""
    return pack_bundle(
        policy=policy,
        interference=interference or core.default_interference(),
        applications=[
            BundleApplication(
                key=entry.application.key,
                evidence=entry.application.evidence,
                id=entry.application.id,
                profile=profile_members(entry.profile),
                size=entry.size,
                sizes=entry.sizes,
                exponents=entry.exponents,
                agreement=entry.agreement,
                is_confirmed=entry.is_confirmed,
                law=entry.law,
                newest=entry.newest,
            )
            for entry in model.table
        ],
        text=text,
        created=created,
        reviews=reviews,
        ageing=model.hindsight.ageing,
    )
