"""`sluice-learn`: learns from every job that ends, and publishes what it learned.

Each poll takes up accounting and logs, learns from the new runs, and publishes. That costs by what
is new. What costs by the length of the history (reading it as a whole, fitting a model) rests so
long afterwards that it stays within its share of a core; the application table learns meanwhile
(model_update.py). Everything is a transaction or a file that is replaced as a whole, so it may be
killed at any time; what fails is tried again at the next poll.
"""

from __future__ import annotations

import logging
import os
import shutil
import sys
import time
from contextlib import closing, contextmanager
from dataclasses import astuple
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sluice.darshan.log import DarshanLibraryError
from sluice.history_db.store import Store
from sluice.ingest.workers import start_from_a_clean_process
from sluice.interference.pairs import site_evidence
from sluice.interference.production import learn_pairs
from sluice.policies import core
from sluice.prediction.applications import unconfirmed
from sluice.prediction.model_update import MIN_NEW, CurrentModel, model_in_use, renew
from sluice.prediction.publication import publish, standing_reviews, tell_learned
from sluice.prediction.score import live_predictions, score
from sluice.prediction.train import EmptyHistoryError, TrainedModel, past_of
from sluice.slurm import service
from sluice.slurm.accounting_poll import Follower
from sluice.slurm.records import CommandFailedError
from sluice.slurm.status import (
    EXPECTED,
    LEARNER,
    SnapshotLock,
    Status,
    Troubles,
    learner_path,
    read_status,
)
from sluice.slurm.views.report import benefit

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sluice.interference.site_model import SiteModel
    from sluice.policies.core import Config
    from sluice.prediction.train import Past


log = logging.getLogger("sluice-learn")

POLL_SHARE = 0.004
"""Of a core, for polls; a poll that takes longer is followed by a longer rest."""
READ_SHARE = 0.002
"""For reading the history as a whole."""
FIT_SHARE = 0.003
"""For fitting models."""
SCORE_SHARE = 0.001
"""For laying predictions alongside what jobs did."""
SCORE_SECONDS, SCORED_SECONDS, MONTH = 3600.0, 7 * 86400, 30 * 86400
"""From one time to the next that it is done, how far back, and how far for what it brings."""
PAIRS_SHARE = 0.0005
"""For finding pairs of programs that slow each other."""
PAIRS_SECONDS, PAIRS_FOUND_IN = 86400.0, 30 * 86400
"""From one time to the next that they are looked for, and how far back."""
KEEP_SHARE = 0.001
"""For forgetting what is old."""
KEEP_SECONDS = 86400.0
"""From one time to the next that it is forgotten."""
GROWN = 0.1
"""By this share, and MIN_NEW jobs, the history grows until a model is fitted anew."""
INTERFERENCE_SECONDS = 3600.0
"""For so long the interference model of the site holds."""


class Ration:
    """Work that may take a share of a core in the mean; what is rationed within it counts there."""

    spent = 0.0
    """Seconds of processor time of all rationed work that is done."""

    def __init__(self, share: float) -> None:
        self._share = share
        self._before = 0.0
        self.due = 0.0
        """When it may begin again, UTC seconds."""

    def __enter__(self) -> None:
        self._before = cpu_seconds() - Ration.spent

    def __exit__(self, *_: object) -> None:
        own = cpu_seconds() - Ration.spent - self._before
        Ration.spent += own
        self.due = time.time() + own / self._share


class Learner:
    """What sluice-learn remembers from poll to poll."""

    def __init__(self, config_path: Path, directories: tuple[Path, ...] = ()) -> None:
        """Follow these directories, else DarshanLogs. Raises one of EXPECTED."""
        self._config_path = config_path
        self._named = directories
        self._status = Status()
        self._troubles = Troubles(self._status, log)
        self._lock = SnapshotLock("sluice-learn", "History")
        self._store: Store | None = None
        self._current: CurrentModel | None = None
        shares = (POLL_SHARE, READ_SHARE, FIT_SHARE, SCORE_SHARE, KEEP_SHARE)
        self._polls, self._reads, self._fits, self._scores, self._keeps = map(Ration, shares)
        self._pairs = Ration(PAIRS_SHARE)
        self._published: tuple[object, ...] = ()
        """What the bundle was made of, and how its file was left."""
        self._interference: tuple[float, SiteModel | None] = (0.0, None)
        self._began = time.time()
        self._take_config()
        before = read_status(learner_path(Path(self.config.history)))
        if before is not None:  # what is done once a day is not done again at each start
            self._status.ran = before.ran
            self._keeps.due = before.ran.get("retention", 0) + KEEP_SECONDS
            self._pairs.due = before.ran.get("pairs", 0) + PAIRS_SECONDS

    @property
    def pause(self) -> float:
        """Seconds from one poll to the next."""
        return max(float(self.config.learn_seconds), self._polls.due - time.time())

    def close(self) -> None:
        self._close_history()
        self._lock.close()

    def poll(self) -> bool:
        """Do everything once; return whether all of it worked."""
        now = time.time()
        is_first = not self._polls.due
        with self._polls:
            with self._troubles.about("configuration"):
                self._take_config()
            with self._troubles.about("history"):
                store = self._open_history()
                self._follow(store, now)
                self._learn(store, int(now))
                self._score(store, now)
                self._forget(store, now)
        if is_first:  # what it took to start, as loading libraries, is no later work's cost
            self._polls.due = self._reads.due = self._fits.due = int(now)  # as learning has it
        with self._troubles.about("status"):
            self._tell(now)
        return not self._troubles

    # Settings and files

    def _take_config(self) -> None:
        """Take up a changed configuration; one with an error leaves the last good one in force."""
        config = core.read_config(self._config_path)
        before: Config | None = getattr(self, "config", None)
        if before is not None and before.checksum == config.checksum:
            return
        self._lock.move(learner_path(Path(config.history)))
        if before is not None and before.history != config.history:
            self._close_history()
        self.config = config
        if before is None or before.darshan_logs != config.darshan_logs:
            self._begin_following()

    def _begin_following(self) -> None:
        config = self.config
        directories = self._named or tuple(map(Path, filter(None, config.darshan_logs.split(","))))
        if not directories:
            log.warning("no DarshanLogs in %s: only accounting is read", self._config_path)
        self._follower = Follower(
            directories, workers=1, now=time.time(), report=lambda text: log.warning("%s", text)
        )

    def _open_history(self) -> Store:
        if self._store and not self._store.is_in_place():
            log.warning("history: %s was moved away or replaced", self.config.history)
            self._close_history()
        if self._store is None:
            self._store = Store(self.config.history, create=True)
        return self._store

    def _close_history(self) -> None:
        if self._store:
            self._store.close()
        self._store = self._current = None

    # What a poll does

    def _follow(self, store: Store, now: float) -> None:
        """Take up accounting first: a log counts only if it fits a job."""
        with self._service("accounting"):
            if shutil.which("sacct") is None:
                raise CommandFailedError("`sacct` is not installed here; install Slurm's commands")
            self._follower.ask_sacct(store, now)
            self._status.facts["accounting"] = int(now)
        with self._service("logs", DarshanLibraryError):
            summary = self._follower.read_logs(store, now)
            if summary.read:
                self._status.facts["log"] = int(now)
        with self._service("totals"):
            self._follower.add_up(store, now)

    @contextmanager
    def _service(self, name: str, *errors: type[Exception]) -> Iterator[None]:
        """Do what `sluice status` lists by this name; go on where it fails as expected."""
        with self._troubles.about(name, (*EXPECTED, *errors)):
            try:
                yield
            finally:
                service.say_alive()
                self._status.ran[name] = int(time.time())

    def _score(self, store: Store, now: float) -> None:
        """Once an hour, say how good the predictions of the last week were, and what it brings."""
        if now < self._scores.due:
            return
        with self._service("scoring"), self._scores:
            found = score(live_predictions(store, since=int(now) - SCORED_SECONDS))
            told = {
                "scored": found.jobs,
                "came_true": found.came_true,
                "within_2": found.within_2.get("moved"),
                "last_within_2": found.last_within_2,
            }
            for name, value in told.items():
                self._status.facts.pop(name, None)
                if value is not None:
                    self._status.facts[name] = value
            times = {"day": midnight(now), "month": int(now) - MONTH}
            for span, brought in benefit(store, self.config, times).items():
                self._status.facts |= {f"{span}_{name}": n for name, n in brought.items()}
        self._scores.due = max(self._scores.due, now + SCORE_SECONDS)

    def _forget(self, store: Store, now: float) -> None:
        """Once a day, forget what is older than KeepDays."""
        if not self.config.keep_days or now < self._keeps.due:
            return
        with self._service("retention"), self._keeps:
            pruned = store.upkeep.prune(
                before=int(now) - 86400 * self.config.keep_days, application=core.name_stem
            )
            store.jobs.update_coverage()
            log.info("forgot %d runs, %d jobs, %d decisions", *astuple(pruned))
        if "retention" not in self._status.failing:
            self._keeps.due = max(self._keeps.due, time.time() + KEEP_SECONDS)

    def _learn(self, store: Store, now: int) -> None:
        with self._service("learning"):
            self._learn_new(store, now)
        with self._service("publishing"):
            if self._current is not None:
                self._publish(store, self._current, now)

    def _learn_new(self, store: Store, now: int) -> None:
        """Learn from the new logs; read all anew where that is due, and fit where that is, too."""
        in_use = store.models.model_in_use()
        current, self._current = self._current, None  # what fails half-way starts again
        if current is not None and in_use in {None, current.model_id}:
            jobs = current.add_new_runs(store)
            if jobs:
                log.info("learned from %d jobs", jobs)
                self._status.facts["learned"] = now
            self._current = current
        # else it is the first poll, or another model was published
        is_first = self._current is None and "learning" not in self._status.failing
        if is_first or now >= self._reads.due:
            with self._reads:
                self._read_all(store, now)

    def _read_all(self, store: Store, now: int) -> None:
        try:
            past = past_of(store)
        except EmptyHistoryError:
            self._status.facts["why"] = "no job with known I/O has ended yet"
            return
        self._status.facts.pop("why", None)
        if now >= self._pairs.due:
            self._learn_pairs(store, past, now)
        if self._needs_fit(store, past, now):
            with self._fits:
                self._fit(store, past, now)
        if self._current is None:
            model = model_in_use(store)
            if model is None:
                return
            self._current = CurrentModel(model.id, TrainedModel.from_bytes(model.content))
        self._current.take(store, past)
        self._status.facts["learned"] = now

    def _learn_pairs(self, store: Store, past: Past, now: int) -> None:
        """Once a day, compare the runs of a month; the next interference model rests on it."""
        with self._service("pairs"), self._pairs:
            found = learn_pairs(store, past.jobs, since=now - PAIRS_FOUND_IN, now=now)
            log.info("%d pairs compared in %d logs", len(found.findings.observations), found.logs)
        self._pairs.due = max(self._pairs.due, now + PAIRS_SECONDS)

    def _needs_fit(self, store: Store, past: Past, now: int) -> bool:
        model = store.models.latest_model()
        if model is None:
            return True
        until = int(str(model.metrics.get("until", model.created)))
        new = sum(job.end > until for job in past.jobs)
        return now >= self._fits.due and new >= max(MIN_NEW, GROWN * len(past.jobs))

    def _fit(self, store: Store, past: Past, now: int) -> None:
        renewal = renew(store, now=now, past=past)
        self._status.facts["fitted"] = now
        self._status.ran["model"] = now
        if renewal.is_new:
            log.info("fitted model %d to %d jobs", renewal.model_id, len(past.jobs))
            if self.config.review_models and store.models.model_in_use() is not None:
                return  # the one in use goes on learning
            self._current = CurrentModel(renewal.model_id, renewal.model)
        elif renewal.comparison is not None:
            why = "a new model was worse on the newest runs"
            log.warning("kept model %d: %s", renewal.model_id, why)
            self._status.facts["why"] = why

    def _publish(self, store: Store, current: CurrentModel, now: int) -> None:
        """Publish what is known now; where nothing of it is new, the bundle stays."""
        interference = self._interference_model(store, now)
        path = Path(self.config.bundle)
        reviews = standing_reviews(store)
        in_force = tuple(one for one in reviews if one.is_in_force(now))
        key = (
            *(current.version, self.config.checksum, id(interference), in_force),
            service.stamp_of(path),
        )
        if key == self._published:
            return
        model = store.models.model(current.model_id)
        if model is None:
            self._current = None  # forgotten: the next poll starts again
            return
        before = store.models.latest_publication()
        bundle = publish(
            store,
            model,
            policy=self.config.policy,
            path=path,
            now=now,
            content_of=current.model,
            reviews=reviews,
            **interference.for_bundle(),
        )
        tell_learned(store, before, bundle, uid=os.geteuid())
        self._published = (*key[:-1], service.stamp_of(path))
        self._status.facts["published"] = bundle.published_at
        self._status.facts["until"] = current.until
        self._status.facts["unconfirmed"] = unconfirmed(current.model.table)

    def _interference_model(self, store: Store, now: int) -> SiteModel:
        made, model = self._interference
        if model is None or now >= made + INTERFERENCE_SECONDS:
            model = site_evidence(store).model()
            self._interference = (now, model)
        return model

    def _tell(self, now: float) -> None:
        """Leave word for `sluice status`."""
        self._status.facts["polled"] = int(now)
        self._status.facts["since"] = int(self._began)
        self._status.facts["cpu_ms"] = round(1000 * cpu_seconds())
        due = dict.fromkeys(LEARNER, now + self.pause)
        due["model"] = max(self._fits.due, due["model"])
        due["scoring"] = max(self._scores.due, due["scoring"])
        due["pairs"] = max(self._pairs.due, due["pairs"])
        due["retention"] = max(self._keeps.due, due["retention"])
        self._status.due = {name: int(moment) for name, moment in due.items()}
        self._status.write(learner_path(Path(self.config.history)))


def midnight(now: float) -> int:
    """Return when the day began here, UTC seconds."""
    day = time.localtime(now)
    return int(time.mktime((*day[:3], 0, 0, 0, 0, 0, -1)))


def cpu_seconds() -> float:
    """Return the processor time of this process and of those that it waited for."""
    times = os.times()
    return sum(times[:4])


def _run(learner: Learner) -> None:
    """Poll until SIGTERM or SIGINT."""
    service.leave_at_signals()
    while True:
        learner.poll()
        service.say_alive()
        time.sleep(learner.pause)


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("directories", nargs=-1, type=click.Path(path_type=Path), metavar="[DIRECTORY…]")
@service.config_option
@click.option("--once", is_flag=True, help="Poll once and exit: 0 if all of it worked, else 1.")
@service.log_level_option
def main(config: Path, log_level: str, directories: tuple[Path, ...], *, once: bool) -> None:
    """Learn from every job that ends, and publish what was learned.

    \b
    Every LearnInterval sluice-learn
      asks sacct which jobs ended,
      reads the Darshan logs that came in DIRECTORY (else in DarshanLogs),
      learns from the new runs,
      publishes the bundle that slurmctld loads,
      compares once a day which programs slowed each other in the last month,
      forgets once a day what is older than KeepDays,
      and prunes models and bundles that no decision refers to.
    A model is fitted anew when the history has grown by a tenth; a new one that does worse on the
    newest runs is dropped. `sluice status` says how far behind it is, and why.

    sluiced starts it where DarshanLogs is set, and starts it again where it ends. Its user must be
    able to read the logs. It may be killed at any time, and nothing is lost. It takes less than 1 %
    of a core in the mean: after expensive work it rests.

    \b
    Examples:
        sluice-learn --config /etc/slurm/sluice.conf
        sluice-learn --once /var/log/darshan && sluice status
    """
    service.end_with_sluiced()
    service.begin(log_level)
    start_from_a_clean_process()
    try:
        learner = Learner(config, directories)
    except EXPECTED as error:
        raise click.ClickException(str(error)) from error
    with closing(learner):
        if once:
            sys.exit(0 if learner.poll() else 1)
        log.info("learning; configuration %s", config)
        _run(learner)
