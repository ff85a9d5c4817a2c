"""sluice-learn: a job that ends is known by the next bundle, whatever fails meanwhile."""

import json
import os
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from random import Random

import planted
import pytest
from click.testing import CliRunner
from made_history import made_history
from made_logs import MIB, MadeLog, appended
from sacct_stand_in import write_sacct

from sluice.cli.main import main
from sluice.history_db.records import Bundle as StoredBundle
from sluice.history_db.records import Run
from sluice.history_db.store import Store
from sluice.history_db.tables.upkeep import KEPT_RUNS
from sluice.interference.pairs import pooled
from sluice.policies import core
from sluice.policies.bundle import Bundle
from sluice.policies.bundle_writer import pack_bundle
from sluice.policies.review import Review, Selector
from sluice.prediction.jobs import finished_jobs
from sluice.prediction.model_update import CurrentModel
from sluice.prediction.publication import tell_learned
from sluice.prediction.train import Past, TrainedModel, bundle_of, fit_quickly, keep
from sluice.slurm.learner import Learner
from sluice.slurm.records import AnotherDaemonError
from sluice.slurm.status import LEARNER
from sluice.slurm.views import reviews

ME = os.geteuid()
DAY = 86400
FIELDS = ("JobIDRaw", "Cluster", "JobName", "User", "UID", "Submit", "Start", "End", "State")


@dataclass
class Site:
    """A site whose sacct prints what `ran` said."""

    place: Path
    config: Path
    sacct: Path
    jobs: int = 0

    @property
    def bundle(self) -> Path:
        return self.place / "model.bundle"

    def ran(self, name: str = "cavity", *, mib: int = 400, is_accounted: bool = True) -> None:
        """A job runs, ends and leaves its log."""
        self.jobs += 1
        end = int(time.time()) - 60 + self.jobs
        log = MadeLog(uid=ME, jobid=self.jobs, start=end - 100, end=end)
        appended(log, file=self.jobs, count=mib, F_WRITE_TIME=60.0)
        log.write(self.place / "logs" / f"{self.jobs}.darshan")
        if is_accounted:
            self.account(self.jobs, name, end)

    def account(self, job: int, name: str, end: int) -> None:
        row = (job, "c", name, "me", ME, end - 110, end - 101, end + 1, "COMPLETED")
        with (self.place / "said").open("a") as said:
            said.write("|".join(map(str, row)) + "\n")

    def predicted(self, name: str = "cavity") -> core.View:
        request = {"uid": ME, "name": name}
        return Bundle.read(self.bundle).predict(core.submission_of(request))

    def history(self) -> Store:
        return Store(self.place / "history.db")

    def status(self) -> dict:
        arguments = ["status", "--config", str(self.config), "--json"]
        result = CliRunner().invoke(main, arguments)
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)


@pytest.fixture
def site(tmp_path, monkeypatch) -> Site:
    tools = tmp_path / "bin"
    tools.mkdir()
    (tmp_path / "logs").mkdir()
    (tmp_path / "said").write_text("|".join(FIELDS) + "\n")
    sacct = write_sacct(tools, tmp_path / "said")
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    monkeypatch.setenv("TZ", "UTC")
    config = tmp_path / "sluice.conf"
    config.write_text(
        f"Bundle={tmp_path}/model.bundle\nHistory={tmp_path}/history.db\n"
        f"Snapshot={tmp_path}/snapshot\nDarshanLogs={tmp_path}/logs\n"
    )
    return Site(tmp_path, config, sacct)


@pytest.fixture
def learner(site) -> Iterator[Learner]:
    learner = Learner(site.config)
    yield learner
    learner.close()


def counts(site: Site) -> tuple[int, int]:
    with site.history() as store:
        return store.counts().models, store.counts().bundles


def test_a_job_that_ended_is_known_by_the_bundle_of_the_next_poll(site, learner):
    site.ran()
    assert learner.poll()
    first = site.predicted().profile
    assert (first.runs, round(first.write_bytes / MIB)) == (1, 400)
    site.ran()
    site.ran("other", mib=200)
    assert learner.poll()
    assert site.predicted().profile.runs == 2
    assert site.predicted("other").profile.runs == 1
    assert counts(site) == (1, 2)


def test_without_anything_new_nothing_is_trained_or_published(site, learner):
    site.ran()
    learner.poll()
    before = site.bundle.stat().st_mtime_ns
    for _ in range(3):
        assert learner.poll()
    assert site.bundle.stat().st_mtime_ns == before
    assert counts(site) == (1, 1)


def test_one_that_starts_again_goes_on_with_model_and_bundle(site, learner):
    site.ran()
    learner.poll()
    learner.close()
    before = site.bundle.read_bytes()
    again = Learner(site.config)
    try:
        assert again.poll()
        assert site.bundle.read_bytes() == before
        assert counts(site) == (1, 1)
    finally:
        again.close()


def test_a_bundle_that_was_lost_is_written_again(site, learner):
    """As after a kill between the history and the file."""
    site.ran()
    learner.poll()
    before = site.bundle.read_bytes()
    site.bundle.unlink()
    assert learner.poll()
    assert site.bundle.read_bytes() == before


def test_a_changed_setting_reaches_the_bundle(site, learner):
    site.ran()
    learner.poll()
    site.config.write_text(site.config.read_text() + "MinConfidence=0.9\n")
    assert learner.poll()
    assert Bundle.read(site.bundle).policy.min_confidence == 0.9


def test_a_model_that_somebody_published_is_kept_up_to_date_from_then_on(site, learner):
    site.ran()
    learner.poll()
    site.ran("other")
    words = ("model", "train", "--publish")
    environment = {"SLUICE_CONF": str(site.config), "SLUICE_HISTORY": None}
    ingest = ("history", "ingest", str(site.place / "logs"))
    for command in (ingest, words, ("model", "publish", "--rollback")):
        result = CliRunner().invoke(main, list(command), env=environment)
        assert result.exit_code == 0, result.output
    site.ran("third")
    assert learner.poll()
    with site.history() as store:
        assert store.models.model_in_use() == 1
    assert site.predicted("third").profile.runs == 1


def made_runs(count: int) -> list[Run]:
    """Runs that ended until yesterday."""
    made = list(made_history(count, seed=4))
    shift = int(time.time()) - DAY - made[-1].log.end
    return [moved(run, shift) for run in made]


def test_the_fit_at_the_start_delays_no_later_one(site, learner):
    runs = made_runs(200)
    with Store(site.place / "history.db", create=True) as store:
        add(store, runs[:100])
        assert learner.poll()
        add(store, runs[100:])
    assert learner.poll()
    assert counts(site)[0] == 2


def test_where_a_site_wants_that_a_new_model_waits_until_somebody_publishes_it(site, learner):
    site.config.write_text(site.config.read_text() + "ReviewModels=1\n")
    runs = made_runs(300)
    with Store(site.place / "history.db", create=True) as store:
        add(store, runs[:100])
    assert learner.poll()
    with site.history() as store:
        assert (store.models.model_in_use(), store.models.model_waiting()) == (1, None)
        add(store, runs[100:])
    learner.close()
    again = Learner(site.config)  # its ration of fits is new
    assert again.poll()
    with site.history() as store:
        assert (store.models.model_in_use(), store.models.model_waiting()) == (1, 2)
    environment = {"SLUICE_CONF": str(site.config), "SLUICE_HISTORY": None}
    told = CliRunner().invoke(main, ["status"], env=environment).stdout
    assert "model 2 waits to be put into use: `sluice model publish 2`" in told
    shown = CliRunner().invoke(main, ["model", "publish", "2"], env=environment)
    assert shown.exit_code == 0, shown.output
    assert again.poll()
    again.close()
    with site.history() as store:
        assert (store.models.model_in_use(), store.models.model_waiting()) == (2, None)
    assert "waits until" not in CliRunner().invoke(main, ["status"], env=environment).stdout


def published(site: Site) -> list[tuple[int | None, str]]:
    """Who published what else than new runs, by the audit: uid and reason."""
    with site.history() as store:
        return [
            (one.uid, one.reason)
            for one in store.administration.audit()
            if one.subject == str(site.bundle)
        ]


def test_the_audit_has_each_bundle_but_those_that_only_know_more_runs(site, learner):
    site.ran()
    learner.poll()
    assert published(site) == [(ME, "sluice-learn: the first")]
    site.ran()
    learner.poll()
    assert len(published(site)) == 1
    assert counts(site) == (1, 2)

    site.config.write_text(site.config.read_text() + "MinConfidence=0.9\n")
    learner.poll()
    assert published(site)[1:] == [(ME, "sluice-learn: settings")]
    ruled = Review("ignore", Selector(name="cavity"))
    with site.history() as store:
        reviews.make(store, ruled, source="command", by="root", now=int(time.time()))
    learner.poll()
    name = f"{Bundle.read(site.bundle).reviews()[0].number:08x}"
    with site.history() as store:
        reviews.undo(store, name, by="root", now=int(time.time()))
    learner.close()
    again = Learner(site.config)  # what it published before is in the history
    again.poll()
    again.close()
    assert [reason for _, reason in published(site)[2:]] == [
        f"sluice-learn: review {name}",
        f"sluice-learn: without review {name}",
    ]


def test_the_audit_says_why_bundles_differ(tmp_path):
    def kept(store: Store, at: int, *, model: int = 1, path: str = "/b", **parts) -> StoredBundle:
        content = pack_bundle(
            **{
                "policy": core.default_config().policy,
                "interference": core.default_interference(),
                "applications": [],
                "text": "{}",
                "created": at,
            }
            | parts
        )
        found = StoredBundle(Bundle.parse(content).checksum, model, path, at, content)
        store.models.add_bundle(found)
        return found

    other_interference = core.default_interference() | {"log_sd": 0.5}
    with Store(tmp_path / "history.db", create=True) as store:
        for content in (b"x", b"y"):
            store.models.add_model(content, {}, [], created=1)
        steps = [
            kept(store, 1),
            kept(store, 2, text='{"runs": 2}'),
            kept(store, 3, interference=other_interference),
            kept(store, 4, interference=other_interference, model=2, path="/c"),
            StoredBundle(5, 2, "/c", 5, b"what another version wrote"),
        ]
        store.models.add_bundle(steps[-1])
        for before, after in pairwise(steps):
            tell_learned(store, before, after, uid=7)
        assert [one.reason for one in store.administration.audit()] == [
            "sluice-learn: interference model",
            "sluice-learn: another file, another model",
            "sluice-learn: another version of Sluice",
        ]


def test_without_the_database_logs_wait_and_come_in_when_it_is_back(site, learner):
    works = site.sacct.read_text()
    site.ran()
    site.sacct.write_text("#!/bin/sh\necho slurmdbd is away >&2\nexit 1\n")
    assert not learner.poll()
    state = site.status()
    assert "slurmdbd is away" in state["failing"]["accounting"]["text"]
    assert (state["logs_waiting"], state["model"]) == (1, None)
    site.sacct.write_text(works)
    assert learner.poll()
    assert site.predicted().profile.runs == 1
    assert site.status()["failing"] == {}


def test_a_damaged_log_is_quarantined_and_holds_nothing_up(site, learner):
    (site.place / "logs" / "damaged.darshan").write_bytes(b"no log" * 100)
    site.ran()
    assert learner.poll()
    assert site.predicted().profile.runs == 1
    with site.history() as store:
        assert len(store.runs.quarantined()) == 1


def test_two_of_them_do_not_learn_at_once(site, learner):
    with pytest.raises(AnotherDaemonError, match="another sluice-learn holds"):
        Learner(site.config)
    learner.close()
    Learner(site.config).close()


@pytest.mark.skipif(ME != 0, reason="mounts a small file system")
def test_on_a_full_disk_the_old_bundle_stays_until_there_is_room(site, learner):
    small = site.place / "small"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", small], check=True)
    try:
        bundle = small / "model.bundle"
        site.config.write_text(site.config.read_text().replace(str(site.bundle), str(bundle)))
        site.ran()
        learner.poll()
        before = bundle.read_bytes()
        filler = small / "filler"
        filler.write_bytes(bytes(os.statvfs(small).f_bavail * os.statvfs(small).f_bsize))
        site.ran("other")
        assert not learner.poll()
        assert bundle.read_bytes() == before
        assert "No space left" in site.status()["failing"]["publishing"]["text"]
        filler.unlink()
        assert learner.poll()
        assert bundle.read_bytes() != before
    finally:
        subprocess.run(["umount", "--lazy", small], check=True)


@pytest.mark.acceptance
def test_killed_at_any_moment_it_loses_nothing(site):
    random = Random(1)
    for _ in range(8):
        site.ran()
        with subprocess.Popen(
            [Path(sys.executable).parent / "sluice-learn", "--config", site.config],
            stderr=subprocess.DEVNULL,
        ) as process:
            time.sleep(random.uniform(1.0, 5.0))
            process.kill()
    learner = Learner(site.config)
    try:
        assert learner.poll()
        assert site.predicted().profile.runs == 8
        assert site.status()["behind_seconds"] == 0
        assert counts(site)[0] == 1
    finally:
        learner.close()


def test_a_site_without_any_run_says_so(site, learner):
    assert learner.poll()
    state = site.status()
    assert state["model"] is None
    assert state["reasons"] == ["no job with known I/O has ended yet"]


def test_the_status_says_how_far_behind_it_is_and_why(site, learner):
    site.ran()
    learner.poll()
    assert site.status()["behind_seconds"] == 0
    site.ran(is_accounted=True)
    words = [
        "history",
        "ingest",
        "--history",
        str(site.place / "history.db"),
        str(site.place / "logs"),
    ]
    assert CliRunner().invoke(main, words).exit_code == 0
    state = site.status()
    assert (state["is_running"], state["unknown_runs"]) == (True, 1)
    assert state["reasons"] == ["these runs have just come; the next poll takes them up"]
    learner.close()
    told = CliRunner().invoke(main, ["status", "--config", str(site.config)]).stdout
    assert "does not run; polled last" in told
    assert "1 runs that the model does not know" in told
    assert "sluiced starts it where DarshanLogs is set" in told
    words = ["doctor", "--config", str(site.config), "--json"]
    found = json.loads(CliRunner().invoke(main, words).stdout)["findings"]
    (finding,) = (row for row in found if row["topic"] == "sluice-learn")
    assert (finding["level"], "does not run" in finding["text"]) == ("WARN", True)


def services_of(site: Site) -> dict[str, dict]:
    return {one["service"].removeprefix("sluice-learn, "): one for one in site.status()["services"]}


def test_the_status_says_of_each_service_when_it_ran_whether_that_worked_and_when_it_is_due(
    site, learner
):
    site.ran()
    said = site.sacct.read_text()
    site.sacct.write_text("#!/bin/sh\nexit 1\n")
    before = int(time.time())
    learner.poll()
    found = services_of(site)
    assert set(found) == {"sluiced", *LEARNER} - {"retention"}
    accounting, logs = found["accounting"], found["logs"]
    assert (accounting["works"], logs["works"]) == (False, True)
    assert "sacct" in accounting["why"]
    assert logs["ran"] >= before
    assert logs["due"] > logs["ran"]
    assert (found["sluiced"]["works"], found["sluiced"]["is_running"]) == (None, False)
    site.sacct.write_text(said)
    learner.poll()
    assert services_of(site)["accounting"]["works"]
    learner.close()
    shown = CliRunner().invoke(main, ["status", "--config", str(site.config)]).stdout
    assert "does not run" in re.search(r"sluice-learn, logs.*", shown)[0]


def test_pairs_that_slow_each_other_are_learned_once_a_day(site, learner, monkeypatch):
    monkeypatch.setattr(planted, "START", int(time.time()) - DAY)
    with Store(site.place / "history.db", create=True) as store:
        planted.fill(store, planted.runs(1))
    assert learner.poll()
    with site.history() as store:
        found = pooled(store.interference.observed_interference())
    attributed = {(one.victim, one.aggressor) for one in found if one.is_attributed}
    assert attributed == set(planted.PLANTED)
    pairs = services_of(site)["pairs"]
    assert pairs["works"]
    assert pairs["due"] >= pairs["ran"] + DAY - 1


def test_what_is_older_than_keep_days_goes_once_a_day_but_the_newest_runs_of_an_application(
    site, learner
):
    with site.config.open("a") as config:
        config.write("KeepDays=100\n")
    shift = int(time.time()) - 200 * DAY - list(made_history(200, seed=4))[-1].log.end
    old = [moved(run, shift) for run in made_history(200, seed=4)]
    with Store(site.place / "history.db", create=True) as store:
        add(store, old)
        assert store.counts().logs == 200
    assert learner.poll()
    kept = Counter((run.log.uid, core.name_stem(run.job.name)) for run in old)
    with site.history() as store:
        assert store.counts().logs == sum(min(KEPT_RUNS, runs) for runs in kept.values()) < 200
    add_old = [replace(run, log=replace(run.log, digest=b"x" + run.log.digest[1:])) for run in old]
    with site.history() as store:
        add(store, add_old)
        more = store.counts().logs
    learner.poll()
    with site.history() as store:
        assert store.counts().logs == more  # not before a day is over
    retention = services_of(site)["retention"]
    assert retention["works"]
    assert retention["due"] >= retention["ran"] + DAY - 1
    learner.close()
    again = Learner(site.config)  # nor at its next start
    again.poll()
    again.close()
    with site.history() as store:
        assert store.counts().logs == more


def moved(run, seconds: int):
    """The same run, at another time."""
    job, log = run.job, run.log
    times = {name: getattr(job, name) + seconds for name in ("submit", "start", "end")}
    return replace(
        run,
        job=replace(job, **times),
        log=replace(log, start=log.start + seconds, end=log.end + seconds),
    )


# What was learned one by one


def as_seen(store: Store) -> Past:
    """The jobs of a history as their logs saw them: what co-runners cost comes in with all."""
    return Past(finished_jobs(store.runs.runs()), [])


def table_of(model: TrainedModel) -> list[object]:
    return [
        replace(entry, application=replace(entry.application, id=0))
        for entry in sorted(model.table, key=lambda e: (e.application.evidence, e.application.key))
    ]


def test_a_table_brought_up_to_date_equals_one_that_is_learned_at_once(tmp_path):
    made = list(made_history(80, seed=5))
    with Store(tmp_path / "history.db", create=True) as store:
        add(store, made[:50])
        model_id, trained = keep(store, fit_quickly(as_seen(store).jobs), created=1)
        current = CurrentModel(model_id, trained)
        current.take(store, as_seen(store))
        for number in range(50, 80, 10):
            add(store, made[number : number + 10])
            assert current.add_new_runs(store) == 10
        whole = CurrentModel(model_id, trained)
        whole.take(store, as_seen(store))
        assert table_of(current.model) == table_of(whole.model)
        assert bundle_of(current.model).application_count == len(current.model.table)


def add(store: Store, made: list) -> None:
    store.jobs.upsert_jobs(run.job for run in made)
    store.runs.add_logs([(run.log, run.profile, b"") for run in made])
    store.jobs.link_logs()
