"""A model's application table, brought up to date with every run: what sluice-learn publishes.

Forests and calibration are fitted seldom, as that takes a minute on a large site. The table is what
knows a program after its next run, and an entry of it depends on the runs under its key alone: so
a new log costs its own few entries, however long the history is. What is no new log (jobs without
one, rows that the accounting changed) comes in when the history is read as a whole; so does what a
run with co-runners would have done alone.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

from sluice.prediction.application_keys import groups_of, keys_of
from sluice.prediction.applications import entries_under
from sluice.prediction.calibration import Reliability
from sluice.prediction.jobs import finished_jobs
from sluice.prediction.requested import Submissions

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from sluice.history_db.records import Application, Decision, Run
    from sluice.history_db.store import Store
    from sluice.prediction.applications import Learned
    from sluice.prediction.jobs import FinishedJob
    from sluice.prediction.train import Past, TrainedModel

Place = tuple[int, int]
"""Number of a level, and key of an entry and of those for its sizes."""


class CurrentModel:
    """A trained model whose application table knows what the history holds."""

    def __init__(self, model_id: int, model: TrainedModel) -> None:
        self.model_id = model_id
        self.until = 0
        """When the last job ended that it knows, UTC seconds."""
        self.version = 0
        """Rises whenever the table is made anew, or a part of it."""
        self._trained = model
        self._calibration = {
            evidence: Reliability(**curve)
            for evidence, curve in model.metrics.get("calibration", {}).items()
        }
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
        self._groups = defaultdict(list, groups_of(past.jobs))
        self._silent = groups_of(past.silent)
        self._by_log = {log: job for job in past.jobs for log in job.logs}
        self._last_log = max(self._by_log, default=0)
        self._unfinished = set()
        self.until = max((job.end for job in past.jobs), default=0)
        self._table = {}
        self._learn(store, self._groups)

    def add_new_runs(self, store: Store) -> int:
        """Learn from the logs that were read since; return how many jobs. Raises HistoryError."""
        ids = {*store.run_ids_of_jobs_since(self._last_log), *self._unfinished}
        runs = list(store.runs(sorted(ids)))
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
            for place in keys_of(before):
                self._groups[place].remove(before)
                yield place
        self._by_log |= dict.fromkeys(job.logs, job)
        for place in keys_of(job):
            self._groups[place].append(job)
            yield place

    def _learn(self, store: Store, places: Iterable[Place]) -> None:
        """Make the entries of these keys anew, and tell the history of those that changed."""
        places = list(places)
        if not places:
            return
        self.version += 1
        fresh: dict[Place, list[Learned]] = {
            place: list(
                entries_under(
                    place,
                    self._groups[place],
                    self._silent.get(place, []),
                    calibration=self._calibration,
                )
            )
            for place in places
            if self._groups[place]
        }
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
        next_id = store.reserve_applications(len(unknown)) if unknown else 0
        changed: dict[tuple[str, int], Application] = {}
        for entry in entries:
            known = self._kept.get(_identity(entry))
            number = known.id if known else next_id
            next_id += known is None
            application = replace(entry.application, id=number)
            if application != known:
                changed[_identity(entry)] = application
        if changed:
            store.update_applications(self.model_id, changed.values())
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
        for decision in store.decisions_for_jobs(ids, cluster)
    ]
