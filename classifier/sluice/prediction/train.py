"""History -> what is known at submission: application table, forests, and how good they are."""

from __future__ import annotations

import io
import json
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from sluice.history_db.records import Application, Profile
from sluice.patterns.forest import Forest
from sluice.policies import core
from sluice.policies.bundle import Bundle
from sluice.policies.bundle_writer import ArgumentLaw, BundleApplication, pack_bundle
from sluice.prediction.applications import Learned, learn_applications, numbered
from sluice.prediction.backtest import ended_before, judge, predict_past
from sluice.prediction.calibration import calibrate
from sluice.prediction.jobs import LATEST_RUNS
from sluice.prediction.requested import Submissions
from sluice.prediction.submit_model import MIN_JOBS, SubmitModel, fit_submit_model
from sluice.prediction.to_core import profile_members
from sluice.prediction.undisturbed import latest_undisturbed
from sluice.prediction.unlogged import application_of, silent_jobs, unlogged_jobs

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from sluice.history_db.store import Store
    from sluice.prediction.jobs import FinishedJob
    from sluice.prediction.submit_model import Judgement

TESTED_SHARE = 0.25  # the latest jobs, which the rest must predict,
MOST_TESTED = 2000  # or so many of them


class EmptyHistoryError(Exception):
    """There is nothing to learn from."""


@dataclass(frozen=True, slots=True)
class TrainedModel:
    """All that training adds to a bundle."""

    forests: SubmitModel
    table: tuple[Learned, ...]
    metrics: dict[str, Any]

    def to_bytes(self) -> bytes:
        buffer = io.BytesIO()
        about = {
            "patterns": self.forests.patterns,
            "numbers": self.forests.numbers,
            "table": [asdict(entry) for entry in self.table],
            "metrics": self.metrics,
        }
        np.savez_compressed(
            buffer,
            about=np.array(json.dumps(about)),
            **self.forests.pattern_forest.arrays("pattern"),
            **self.forests.number_forest.arrays("number"),
        )
        return buffer.getvalue()

    @classmethod
    def from_bytes(cls, content: bytes) -> TrainedModel:
        with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
            about = json.loads(str(arrays["about"]))
            return cls(
                forests=SubmitModel(
                    patterns=tuple(about["patterns"]),
                    pattern_forest=Forest.from_arrays(arrays, "pattern"),
                    numbers=tuple(about["numbers"]),
                    number_forest=Forest.from_arrays(arrays, "number"),
                ),
                table=tuple(_learned(entry) for entry in about["table"]),
                metrics=about["metrics"],
            )


def _learned(entry: dict[str, Any]) -> Learned:
    application = entry["application"]
    return Learned(
        Application(**{**application, "logs": tuple(application["logs"])}),
        Profile(**entry["profile"]),
        # models of 0.1 had no sizes
        size=entry.get("size", 0.0),
        sizes=tuple(entry.get("sizes", (0.0, 0.0))),
        exponents=entry.get("exponents", {}),
        law=_law(entry.get("law")),
        # nor this: runs of others do not count until the next training
        agreement=entry.get("agreement", 0.0),
    )


def _law(law: dict[str, Any] | None) -> ArgumentLaw | None:
    return ArgumentLaw(**{**law, "values": tuple(law["values"])}) if law else None


def keep(store: Store, model: TrainedModel, *, created: int) -> tuple[int, TrainedModel]:
    """Keep a model in the history, its entries numbered; return its id. Raises HistoryError."""
    first_id = store.reserve_applications(len(model.table))
    model = replace(model, table=numbered(model.table, first_id))
    applications = [entry.application for entry in model.table]
    return store.add_model(model.to_bytes(), model.metrics, applications, created=created), model


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
    seen = Submissions(store.joined_decisions(latest))
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
    model, judgement = fit_quickly(jobs, silent=silent)
    return replace(
        model,
        metrics={
            "jobs": len(jobs),
            "since": min(job.submit for job in jobs),
            "until": max(job.end for job in jobs),
            "entries": len(model.table),
            "calibration": model.metrics["calibration"],
            "later_jobs": _later_jobs(jobs),
            "new_applications": asdict(judgement) if judgement else None,
        },
    )


def fit_quickly(
    jobs: Sequence[FinishedJob],
    forests: SubmitModel | None = None,
    *,
    silent: Sequence[FinishedJob] = (),
    asked: Sequence[FinishedJob] | None = None,
) -> tuple[TrainedModel, Judgement | None]:
    """Learn without looking how good it is, with forests of before where they are given.

    asked: the jobs to predict, where there are no others.
    """
    judgement = None
    if forests is None:
        forests, judgement = fit_submit_model(jobs)
    calibration = calibrate(jobs)
    table = learn_applications(jobs, calibration=calibration, silent=silent, asked=asked)
    plain = {evidence: asdict(curve) for evidence, curve in sorted(calibration.items())}
    return TrainedModel(forests, table, {"calibration": plain}), judgement


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
    model, _ = fit_quickly(earlier, asked=later)
    return asdict(judge(predict_past(bundle_of(model), later), earlier))


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
) -> bytes:
    """Return the bundle of a model, as the controller would load it."""
    return pack_bundle(
        policy=policy,
        interference=interference or core.default_interference(),
        patterns=_outputs(model.forests.pattern_forest, model.forests.patterns),
        numbers=_outputs(model.forests.number_forest, model.forests.numbers),
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
                law=entry.law,
            )
            for entry in model.table
        ],
        text=text,
        created=created,
    )


@dataclass(slots=True)
class _NamedForest:
    """A forest and what its outputs mean."""

    meaning: Sequence[str]
    roots: NDArray[Any]
    feature: NDArray[Any]
    threshold: NDArray[np.float64]
    right: NDArray[Any]
    value: NDArray[np.float64]


def _outputs(forest: Forest, meaning: Sequence[str]) -> _NamedForest | None:
    if not len(forest.roots):
        return None
    return _NamedForest(
        meaning, forest.roots, forest.feature, forest.threshold, forest.right, forest.value
    )
