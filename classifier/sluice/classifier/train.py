"""History -> what is known at submission: application table, forests, and how good they are."""

from __future__ import annotations

import io
import json
import math
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from sluice.classifier.applications import Learned, learn_applications
from sluice.classifier.forest import Forest
from sluice.classifier.jobs import finished_jobs
from sluice.classifier.submit_model import MIN_JOBS, SubmitModel, fit_submit_model
from sluice.classifier.to_core import profile_members, submission_of
from sluice.history_db.records import Application, Profile
from sluice.policies import core
from sluice.policies.bundle import Bundle
from sluice.policies.bundle_writer import Application as BundleApplication
from sluice.policies.bundle_writer import pack_bundle
from sluice.policies.published import published_interference

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from sluice.classifier.jobs import FinishedJob
    from sluice.classifier.submit_model import Judgement
    from sluice.history_db.store import Store

TESTED_SHARE = 0.25  # the latest jobs, which the rest must foretell


class EmptyHistoryError(Exception):
    """There is nothing to learn from."""


@dataclass(frozen=True, slots=True)
class TrainedModel:
    """All that training adds to a bundle."""

    forests: SubmitModel
    table: tuple[Learned, ...]
    metrics: dict[str, object]

    def to_bytes(self) -> bytes:
        buffer = io.BytesIO()
        about = {
            "patterns": self.forests.patterns,
            "numbers": self.forests.numbers,
            "table": [_plain(entry) for entry in self.table],
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


def _plain(entry: Learned) -> dict[str, object]:
    return {"application": asdict(entry.application), "profile": asdict(entry.profile)}


def _learned(entry: dict[str, dict[str, Any]]) -> Learned:
    application = entry["application"]
    return Learned(
        Application(**{**application, "logs": tuple(application["logs"])}),
        Profile(**entry["profile"]),
    )


def train(store: Store, *, created: int) -> tuple[int, TrainedModel]:
    """Learn from all runs of the history and keep the result there; return its id.

    The same history gives the same model. Raises EmptyHistoryError or HistoryError.
    """
    jobs = finished_jobs(store.runs())
    if not jobs:
        raise EmptyHistoryError(
            f"{store.path}: the history holds no runs; read some with `sluice ingest PATH…`"
        )
    table, forests, judgement = _fit(jobs)
    metrics: dict[str, object] = {
        "jobs": len(jobs),
        "entries": len(table),
        "later_jobs": _foretold(jobs),
        "new_applications": asdict(judgement) if judgement else None,
    }
    first_id = store.reserve_applications(len(table))
    model = TrainedModel(forests, tuple(_numbered(table, first_id)), metrics)
    applications = [entry.application for entry in model.table]
    return store.add_model(model.to_bytes(), metrics, applications, created=created), model


def _fit(jobs: Sequence[FinishedJob]) -> tuple[list[Learned], SubmitModel, Judgement | None]:
    forests, judgement = fit_submit_model(jobs)
    return learn_applications(jobs), forests, judgement


def _numbered(table: Sequence[Learned], first_id: int) -> list[Learned]:
    return [
        replace(entry, application=replace(entry.application, id=first_id + i))
        for i, entry in enumerate(table)
    ]


def pack(model: TrainedModel, *, policy: core.View, created: int, text: str) -> bytes:
    """Return the bundle of a model, as the controller would load it."""
    return pack_bundle(
        policy=policy,
        interference=published_interference(),
        patterns=_outputs(model.forests.pattern_forest, model.forests.patterns),
        numbers=_outputs(model.forests.number_forest, model.forests.numbers),
        applications=[
            BundleApplication(
                key=entry.application.key,
                evidence=entry.application.evidence,
                id=entry.application.id,
                profile=profile_members(entry.profile),
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


def _foretold(jobs: Sequence[FinishedJob]) -> dict[str, object] | None:
    """Learn from the earlier jobs and let the core foretell the later ones."""
    split = int(len(jobs) * (1 - TESTED_SHARE))
    earlier, later = jobs[:split], jobs[split:]
    if len(earlier) < MIN_JOBS or not later:
        return None
    table, forests, _ = _fit(earlier)
    model = TrainedModel(forests, tuple(_numbered(table, 1)), {})
    policy = core.default_config().policy
    bundle = Bundle.parse(pack(model, policy=policy, created=0, text="{}"))
    predictions = [bundle.predict(submission_of(job)) for job in later]
    truths = [job.profile.pattern for job in later]
    correct = np.array(
        [item.profile.pattern == truth for item, truth in zip(predictions, truths, strict=True)]
    )
    confidence = np.array([item.profile.confidence for item in predictions])
    answered = confidence >= policy.min_confidence
    patterns = [job.profile.pattern for job in earlier]
    commonest = max(sorted(set(patterns)), key=patterns.count)
    return {
        "jobs": len(later),
        "accuracy": float(correct.mean()),
        "answered": float(answered.mean()),
        "accuracy_answered": float(correct[answered].mean()) if answered.any() else None,
        "brier": float(((confidence - correct) ** 2).mean()),
        "baseline": commonest,
        "baseline_accuracy": truths.count(commonest) / len(truths),
        "chunk_error_log2": _chunk_error(later, predictions),
    }


def _chunk_error(jobs: Sequence[FinishedJob], predictions: Sequence[core.View]) -> float | None:
    """Return the median of |log2 (foretold / true chunk)|."""
    errors = [
        abs(math.log2(item.profile.chunk_bytes / job.profile.numbers["chunk_bytes"]))
        for job, item in zip(jobs, predictions, strict=True)
        if item.profile.chunk_bytes and job.profile.numbers.get("chunk_bytes")
    ]
    return float(np.median(errors)) if errors else None
