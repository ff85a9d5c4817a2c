"""History -> what is known at submission: application table, forests, and how good they are.

The submit-time forests: what a job of this size, name, user and account will probably do. They
speak where the application table has too little, so they are judged on applications that they have
not seen. What resembles nothing in the history must stay unknown: made-up submissions, which nobody
ever ran, are learned as such.
"""

from __future__ import annotations

import io
import json
import string
import zlib
from collections import Counter
from dataclasses import asdict, dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from sluice.history_db.records import Application, Profile
from sluice.patterns.classifier import Forest
from sluice.patterns.fit import SEED, fit_classifier, fit_regressor
from sluice.policies import core
from sluice.policies.bundle import Bundle
from sluice.policies.bundle_writer import ArgumentLaw, BundleApplication, pack_bundle
from sluice.prediction.applications import Learned, learn_applications, numbered, unconfirmed
from sluice.prediction.evidence_levels import calibrate
from sluice.prediction.jobs import (
    LATEST_RUNS,
    application_of,
    profile_members,
    silent_jobs,
    submission_of,
    unlogged_jobs,
)
from sluice.prediction.score import ended_before, judge, predict_past
from sluice.prediction.solo_estimate import latest_undisturbed
from sluice.prediction.submission_features import Submissions

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from sluice.history_db.store import Store
    from sluice.prediction.jobs import FinishedJob


PATTERN_TREES, NUMBER_TREES = 120, 80  # 200 in all: what the submit path has time for
JUDGED_TREES = 40  # of each forest that is only judged: more say the same, in more time
LEAF_SIZE = 2
MAX_DEPTH = 10  # bounds the time of one evaluation
MIN_JOBS, MIN_APPLICATIONS = 20, 3  # with fewer there is nothing to generalise from
MAX_JOBS = 5000  # learned from; where there are more, as many of the newest of each application
FOLDS = 5
USUAL_THRESHOLD = 0.7  # MinConfidence, unless the site sets another
NUMBERS = (
    "chunk_bytes",
    "nprocs",
    "write_bytes",
    "read_bytes",
    "files",
    "rate",
    "metadata_rate",
    "io_share",
    "runtime_seconds",
    "bytes_per_flush",
    "creates_per_mib",
    "unflushed_bytes",
)
"""Fields of the profile that are predicted, where most jobs know them."""


@dataclass(frozen=True, slots=True)
class SubmitModel:
    """Two forests over the features of a submission; without trees when there was too little."""

    patterns: tuple[str, ...]
    pattern_forest: Forest
    """Calibrated: shares sum to less than 1 by what is not known."""
    numbers: tuple[str, ...]
    number_forest: Forest
    """log2 (1 + value)."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """How the pattern forest did on applications that it had not seen."""

    jobs: int
    accuracy: float
    """Of its best guesses, however uncertain."""
    answered: float
    """Share of the jobs for which it was as certain as a site usually asks for."""
    accuracy_answered: float | None
    scale: float
    """By which its confidence had to be lowered to be honest."""


def empty_model() -> SubmitModel:
    return SubmitModel((), _no_trees(), (), _no_trees())


def fit_submit_model(jobs: Sequence[FinishedJob]) -> tuple[SubmitModel, Judgement | None]:
    """Fit both forests; deterministic. Without enough jobs, an empty model and no judgement."""
    examples = _examples_of(jobs)
    if examples is None:
        return empty_model(), None
    judgement = _judge(examples)
    return replace(
        _fit_pattern_model(examples, judgement.scale), **_fit_numbers(examples)
    ), judgement


def fit_patterns(jobs: Sequence[FinishedJob], *, scale: float) -> SubmitModel:
    """Fit the forest of patterns alone, without judging it; scale is of another judgement."""
    examples = _examples_of(jobs)
    return empty_model() if examples is None else _fit_pattern_model(examples, scale)


def newest_of_each(jobs: Sequence[FinishedJob], *, most: int) -> list[FinishedJob]:
    """Return at most so many jobs: as many of the newest of each user's application.

    The jobs come the oldest first, and so does the result.
    """
    if len(jobs) <= most:
        return list(jobs)
    later: Counter[tuple[int, str]] = Counter()
    ranks = []  # how many of the same application came after it
    for job in reversed(jobs):
        key = job.uid, job.stem
        ranks.append(later[key])
        later[key] += 1
    # of two that are as many runs old the later one; reversed places count from the newest
    kept = sorted(range(len(jobs)), key=lambda place: (ranks[place], place))[:most]
    return [jobs[-1 - place] for place in sorted(kept, reverse=True)]


def _no_trees() -> Forest:
    none = np.zeros(0, dtype=np.int32)
    return Forest(none, none, np.zeros(0), none, none, np.zeros((0, 0)))


@dataclass(frozen=True, slots=True)
class _Examples:
    """What forests learn from."""

    jobs: Sequence[FinishedJob]
    patterns: NDArray[np.str_]
    weights: NDArray[np.float64]
    rows: NDArray[np.float32]
    """Features of the jobs' submissions,"""
    strangers: NDArray[np.float32]
    """and of as many made-up ones."""


def _examples_of(jobs: Sequence[FinishedJob]) -> _Examples | None:
    """Return what forests learn from these jobs; None: too little."""
    latest = newest_of_each(jobs, most=MAX_JOBS)
    if len(latest) < MIN_JOBS or len({job.stem for job in latest}) < MIN_APPLICATIONS:
        return None
    return _Examples(
        latest,
        np.array([job.profile.pattern for job in latest]),
        _weights(latest),
        _features(latest),
        _features(_strangers(latest)),
    )


def _features(jobs: Sequence[FinishedJob]) -> NDArray[np.float32]:
    return core.features([submission_of(job) for job in jobs])


def _weights(jobs: Sequence[FinishedJob]) -> NDArray[np.float64]:
    """Weigh jobs so that a program that ran a thousand times does not outweigh all others."""
    runs = Counter((job.uid, job.stem) for job in jobs)
    return np.array([runs[job.uid, job.stem] ** -0.5 for job in jobs])


def _fit_pattern_model(examples: _Examples, scale: float) -> SubmitModel:
    every = np.ones(len(examples.jobs), dtype=bool)
    patterns, forest = _fit_patterns(examples, every, trees=PATTERN_TREES)
    return replace(
        empty_model(),
        patterns=patterns,
        pattern_forest=replace(forest, value=forest.value * scale),
    )


def _fit_patterns(
    examples: _Examples, chosen: NDArray[np.bool_], *, trees: int
) -> tuple[tuple[str, ...], Forest]:
    """Return the patterns that chosen jobs are known to have, and what tells them.

    Nothing of none.
    """
    labels, weights = examples.patterns[chosen], examples.weights[chosen]
    if (labels == core.UNKNOWN).all():
        return (), _no_trees()
    forest, patterns = fit_classifier(
        np.concatenate([examples.rows[chosen], examples.strangers[chosen]]),
        np.concatenate([labels, np.full(len(labels), core.UNKNOWN)]),
        weights=np.concatenate([weights, np.full(len(labels), weights.mean())]),
        trees=trees,
        leaf_size=LEAF_SIZE,
        max_depth=MAX_DEPTH,
    )
    known = [i for i, name in enumerate(patterns) if name != core.UNKNOWN]
    return tuple(patterns[i] for i in known), replace(forest, value=forest.value[:, known])


def _strangers(jobs: Sequence[FinishedJob]) -> list[FinishedJob]:
    """Make up as many submissions as there are jobs.

    Names, users and accounts are such as nobody has, or nobody together; sizes are other jobs'.
    """
    random = np.random.default_rng(SEED)
    letters = string.ascii_lowercase + "_-"

    def word() -> str:
        chosen = random.integers(0, len(letters), size=int(random.integers(2, 14)))
        return "".join(map(letters.__getitem__, chosen.tolist()))

    def stranger(job: FinishedJob) -> FinishedJob:
        sizes = jobs[int(random.integers(len(jobs)))]
        return replace(
            sizes,
            name=word(),
            uid=job.uid if random.random() < 0.3 else int(random.integers(1 << 31)),
            account=job.account if random.random() < 0.3 else word(),
            script_signature=job.script_signature,
        )

    return [stranger(job) for job in jobs]


def _fit_numbers(examples: _Examples) -> dict[str, Any]:
    """Return the members of a model that tell numbers."""
    jobs = examples.jobs
    names = tuple(
        name for name in NUMBERS if sum(name in job.profile.numbers for job in jobs) > len(jobs) / 2
    )
    if not names:
        return {}
    targets = np.array([[job.profile.numbers.get(name, np.nan) for name in names] for job in jobs])
    targets = np.log2(1 + targets)
    unknown = np.isnan(targets)
    targets[unknown] = np.broadcast_to(np.nanmedian(targets, axis=0), targets.shape)[unknown]
    forest = fit_regressor(
        examples.rows,
        targets,
        weights=examples.weights,
        trees=NUMBER_TREES,
        leaf_size=LEAF_SIZE,
        max_depth=MAX_DEPTH,
    )
    return {"numbers": names, "number_forest": forest}


def _judge(examples: _Examples) -> Judgement:
    """Hold out every application once, in FOLDS groups."""
    fold = np.array([zlib.crc32(job.stem.encode()) % FOLDS for job in examples.jobs])
    groups = np.unique(fold)
    if len(groups) == 1:
        return Judgement(0, 0.0, 0.0, None, 0.5)
    confidence, correct = np.zeros(len(fold)), np.zeros(len(fold), dtype=bool)
    for tested in (fold == group for group in groups):
        patterns, forest = _fit_patterns(examples, ~tested, trees=JUDGED_TREES)
        if patterns:  # else it says nothing of the others
            shares = forest.evaluate(examples.rows[tested])
            answers = np.array(patterns)[shares.argmax(axis=1)]
            confidence[tested] = shares.max(axis=1)
            correct[tested] = answers == examples.patterns[tested]
    return _judgement(confidence, correct)


def _judgement(confidence: NDArray[np.float64], correct: NDArray[np.bool_]) -> Judgement:
    """Lower the confidence until it promises no more than it keeps."""
    scale = min(1.0, float(correct.sum() / max(confidence.sum(), 1e-9)))
    while scale > 0.01:
        said = confidence * scale >= USUAL_THRESHOLD
        if not said.any() or correct[said].mean() >= USUAL_THRESHOLD:
            break
        scale *= 0.95
    said = confidence * scale >= USUAL_THRESHOLD
    return Judgement(
        jobs=len(correct),
        accuracy=float(correct.mean()),
        answered=float(said.mean()),
        accuracy_answered=float(correct[said].mean()) if said.any() else None,
        scale=scale,
    )


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
            "table": self.table,
            "metrics": self.metrics,
        }
        np.savez_compressed(
            buffer,
            about=np.frombuffer(json.dumps(about, default=_members).encode(), dtype=np.uint8),
            **self.forests.pattern_forest.arrays("pattern"),
            **self.forests.number_forest.arrays("number"),
        )
        return buffer.getvalue()

    @classmethod
    def from_bytes(cls, content: bytes) -> TrainedModel:
        with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
            about = json.loads(arrays["about"].tobytes())
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
    model, judgement = fit_quickly(jobs, silent=silent)
    return replace(
        model,
        metrics={
            "jobs": len(jobs),
            "since": min(job.submit for job in jobs),
            "until": max(job.end for job in jobs),
            "entries": len(model.table),
            "unconfirmed": unconfirmed(model.table),
            "calibration": model.metrics["calibration"],
            "later_jobs": _later_jobs(jobs, judgement),
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
    # For all users alike, so it must not depend on what logs of one user claim: where fewer than
    # MIN_PAIRS confirmed predictions tell of a kind of evidence, nothing corrects it.
    calibration = calibrate([job for job in jobs if job.is_confirmed] or jobs)
    table = learn_applications(jobs, calibration=calibration, silent=silent, asked=asked)
    plain = {evidence: asdict(curve) for evidence, curve in sorted(calibration.items())}
    return TrainedModel(forests, table, {"calibration": plain}), judgement


def fit_to_predict(
    asked: Sequence[FinishedJob], jobs: Sequence[FinishedJob], *, scale: float
) -> TrainedModel:
    """Learn from jobs no more than what their score over those that are asked about takes.

    No score asks for the numbers of a job that only resembles earlier ones.
    """
    return fit_quickly(jobs, fit_patterns(jobs, scale=scale), asked=asked)[0]


def _later_jobs(
    jobs: Sequence[FinishedJob], judgement: Judgement | None
) -> dict[str, object] | None:
    """Learn from the earlier jobs and let the core predict the later ones.

    Where there are many later ones, as many lie between two of those that are predicted.
    judgement: of a forest of all jobs.
    """
    ordered = sorted(jobs, key=lambda job: (job.submit, job.logs))
    split = int(len(ordered) * (1 - TESTED_SHARE))
    if split < MIN_JOBS or split == len(ordered):
        return None
    earlier = ended_before(ordered, ordered[split].submit)
    if not earlier:
        return None
    later = ordered[split :: -(-(len(ordered) - split) // MOST_TESTED)]
    model = fit_to_predict(later, earlier, scale=judgement.scale if judgement else 1.0)
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
    reviews: bytes = b"",
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
                is_confirmed=entry.is_confirmed,
                law=entry.law,
            )
            for entry in model.table
        ],
        text=text,
        created=created,
        reviews=reviews,
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
