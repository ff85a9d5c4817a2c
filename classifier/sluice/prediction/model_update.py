"""Keeps a history's model current: trains the next one, and compares.

Whether a new model is better than the one in use: the newest runs decide. The model in use has not
seen what came after its training. Half of that is given to the new one to learn from, and both
predict the other half. The new one is worse if its squared error is larger by more than chance
would have it. Then the old one stays: runs that were read wrongly or a week of failing jobs must
not make decisions worse.

A model's application table, brought up to date with every run: what sluice-learn publishes. What
the past shows of predictions (hindsight.py) is looked at seldom, as that takes long on a large
site. The table is what knows a program after its next run, and an entry of it depends on the runs
under its key alone: so a new log costs its own few entries, however long the history is. What is no
new log (jobs without one, rows that the accounting changed) comes in when the history is read as a
whole; so does what a run with co-runners would have done alone.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from dataclasses import dataclass, replace
from importlib.metadata import version
from typing import TYPE_CHECKING

import numpy as np

from sluice.prediction.applications import GrowingTable
from sluice.prediction.jobs import finished_jobs
from sluice.prediction.score import PastPrediction, ended_before, predict_past
from sluice.prediction.submission_features import Submissions
from sluice.prediction.train import (
    MOST_TESTED,
    TrainedModel,
    bundle_of,
    fit,
    fit_quickly,
    keep,
    past_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from sluice.history_db.records import Application, Decision, Model, Run
    from sluice.history_db.store import Store
    from sluice.prediction.applications import Learned, Place
    from sluice.prediction.jobs import FinishedJob
    from sluice.prediction.train import Past


MIN_NEW = 40  # jobs since the old model's training; with fewer nothing can be told


@dataclass(frozen=True, slots=True)
class Comparison:
    """The model in use against a new one, on the newest jobs."""

    model: int
    """The one in use."""
    jobs: int
    old_brier: float
    """Mean square of confidence less outcome."""
    new_brier: float
    error: float
    """Standard error of their difference."""

    @property
    def keeps_old(self) -> bool:
        return self.new_brier - self.old_brier > self.error


def compare(in_use: Model, jobs: Sequence[FinishedJob]) -> Comparison | None:
    """Let both models predict the newest jobs; None if there are too few new ones."""
    old = TrainedModel.from_bytes(in_use.content)
    until = old.metrics.get("until", in_use.created)
    ordered = sorted(jobs, key=lambda job: (job.submit, job.logs))
    new = [job for job in ordered if job.submit > int(str(until))]
    if len(new) < MIN_NEW:
        return None
    tested = new[len(new) // 2 :][:MOST_TESTED]
    model = fit_quickly(ended_before(ordered, tested[0].submit), asked=tested)
    old_squares = _squares(predict_past(bundle_of(old), tested))
    new_squares = _squares(predict_past(bundle_of(model), tested))
    return Comparison(
        model=in_use.id,
        jobs=len(tested),
        old_brier=float(old_squares.mean()),
        new_brier=float(new_squares.mean()),
        error=float(np.std(new_squares - old_squares) / np.sqrt(len(tested))),
    )


def _squares(items: Sequence[PastPrediction]) -> NDArray[np.float64]:
    return np.array([(item.confidence - item.is_right) ** 2 for item in items])


LEARNED_FROM = "learned_from"
"""Member of a model's metrics: digest of the jobs that it was fitted to."""


@dataclass(frozen=True, slots=True)
class Renewal:
    """What training came to."""

    model_id: int
    """Of the model to use from now on."""
    model: TrainedModel
    comparison: Comparison | None
    """With the model in use before; None: there was none, or too few newer runs."""
    is_new: bool
    is_known: bool = False
    """The latest model was fitted to the same jobs."""


def renew(store: Store, *, now: int, force: bool = False, past: Past | None = None) -> Renewal:
    """Fit a model to the history and keep it, unless the newest runs speak against it.

    past is what the history holds, where that was read already; now is in UTC seconds. With
    force the new model is kept whatever the newest runs say. Raises EmptyHistoryError or
    HistoryError.
    """
    past = past or past_of(store)
    digest = digest_of(past)
    latest = store.models.latest_model()
    if latest is not None and latest.metrics.get(LEARNED_FROM) == digest:
        return _as_it_is(latest, is_known=True)
    in_use = model_in_use(store)
    comparison = compare(in_use, past.jobs) if in_use else None
    if in_use and comparison and comparison.keeps_old and not force:
        return _as_it_is(in_use, comparison)
    model = fit(past.jobs, past.silent)
    model = replace(model, metrics=model.metrics | {LEARNED_FROM: digest})
    return Renewal(*keep(store, model, created=now), comparison, is_new=True)


def model_in_use(store: Store) -> Model | None:
    """Return the model that was published last; where none was, the latest."""
    used = store.models.model_in_use()
    return store.models.latest_model() if used is None else store.models.model(used)


def _as_it_is(
    model: Model, comparison: Comparison | None = None, *, is_known: bool = False
) -> Renewal:
    content = TrainedModel.from_bytes(model.content)
    return Renewal(model.id, content, comparison, is_new=False, is_known=is_known)


def digest_of(past: Past) -> str:
    """Return a digest of the jobs, and of the code that learns from them."""
    hashed = hashlib.blake2b(version("sluice").encode(), digest_size=16)
    for jobs in (past.jobs, past.silent):
        for job in jobs:
            hashed.update(repr(job).encode(errors="surrogateescape"))
        hashed.update(b"\n")
    return hashed.hexdigest()


class CurrentModel:
    """A trained model whose application table knows what the history holds."""

    def __init__(self, model_id: int, model: TrainedModel) -> None:
        self.model_id = model_id
        self.until = 0
        """When the last job ended that it knows, UTC seconds."""
        self.version = 0
        """Rises whenever the table is made anew, or a part of it."""
        self._trained = model
        self._kept = {_identity(entry): entry.application for entry in model.table}
        """The applications as the history has them, with their ids."""
        self._table: dict[Place, list[Learned]] = {}
        self._last_log = 0
        self._unfinished: set[int] = set()
        """Logs of jobs that have not ended."""

    @property
    def model(self) -> TrainedModel:
        """The model with its table as it is now, in the order of a trained one."""
        entries = [entry for _, group in sorted(self._table.items()) for entry in group]
        return replace(self._trained, table=tuple(entries))

    def take(self, store: Store, past: Past) -> None:
        """Start again from what was just read of the history. Raises HistoryError."""
        self._jobs = GrowingTable(past.jobs, past.silent, self._trained.hindsight)
        self._by_log = {log: job for job in past.jobs for log in job.logs}
        self._last_log = max(self._by_log, default=0)
        self._unfinished = set()
        self.until = max((job.end for job in past.jobs), default=0)
        self._table = {}
        self._learn(store, self._jobs.places)

    def add_new_runs(self, store: Store) -> int:
        """Learn from the logs that were read since; return how many jobs. Raises HistoryError."""
        ids = {*store.runs.run_ids_of_jobs_since(self._last_log), *self._unfinished}
        runs = list(store.runs.runs(sorted(ids)))
        self._last_log = max(self._last_log, *(run.log_id for run in runs), 0)
        self._unfinished = {run.log_id for run in runs if run.job and run.job.end is None}
        runs = [run for run in runs if run.log_id not in self._unfinished]
        jobs = finished_jobs(runs, Submissions(_decisions_about(store, runs)))
        places = {place for job in jobs for place in self._put(job)}
        self.until = max(self.until, *(job.end for job in jobs), 0)
        self._learn(store, places)
        return len(jobs)

    def _put(self, job: FinishedJob) -> Iterator[Place]:
        """Take a job in, in place of what fewer of its logs told; yield where that matters."""
        for before in {id(old): old for log in job.logs if (old := self._by_log.get(log))}.values():
            yield from self._jobs.remove(before)
        self._by_log |= dict.fromkeys(job.logs, job)
        yield from self._jobs.add(job)

    def _learn(self, store: Store, places: Iterable[Place]) -> None:
        """Make the entries of these keys anew, and tell the history of those that changed."""
        places = list(places)
        if not places:
            return
        self.version += 1
        fresh = {place: self._jobs.entries(place) for place in places}
        self._keep(store, [entry for group in fresh.values() for entry in group])
        for place in places:
            self._table.pop(place, None)
        for place, group in fresh.items():
            self._table[place] = [
                replace(entry, application=self._kept[_identity(entry)]) for entry in group
            ]

    def _keep(self, store: Store, entries: Sequence[Learned]) -> None:
        """Give new entries ids; those of others stay, so that bundles differ by little."""
        unknown = [entry for entry in entries if _identity(entry) not in self._kept]
        next_id = store.models.reserve_applications(len(unknown)) if unknown else 0
        changed: dict[tuple[str, int], Application] = {}
        for entry in entries:
            known = self._kept.get(_identity(entry))
            number = known.id if known else next_id
            next_id += known is None
            application = replace(entry.application, id=number)
            if application != known:
                changed[_identity(entry)] = application
        if changed:
            store.models.update_applications(self.model_id, changed.values())
            self._kept |= changed


def _identity(entry: Learned) -> tuple[str, int]:
    return entry.application.evidence, entry.application.key


def _decisions_about(store: Store, runs: Sequence[Run]) -> list[Decision]:
    numbers: dict[str, set[int]] = defaultdict(set)
    for run in runs:
        if run.job is not None:
            numbers[run.job.cluster].add(run.job.submission_id)
    return [
        decision
        for cluster, ids in numbers.items()
        for decision in store.decisions.decisions_for_jobs(ids, cluster)
    ]
