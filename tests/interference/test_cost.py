"""What jobs cost each other: one answer and one model for all who ask."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

import made_model
import pytest
import recorded
from click.testing import CliRunner
from core_calls import write_bundle
from counted import count_what_logs_claim
from history_rows import a_job

from sluice.cli.main import main
from sluice.history_db.records import Log, ObservedInterference, Profile
from sluice.history_db.store import Store
from sluice.interference.cost import (
    INSTANTS,
    Application,
    application_of,
    costs,
    default_model,
    grounds_of,
    one_lane,
    programs_of,
)
from sluice.interference.observations import observations
from sluice.interference.site_model import Basis, SiteModel, fit
from sluice.policies import core
from sluice.policies.bundle import name_of
from sluice.policies.structs import View, new

if TYPE_CHECKING:
    from pathlib import Path

DAY = 86400
NOW = int(time.time())
MODEL = View(new("struct sluice_interference"))
POLICY = one_lane("1T")
NAMES = ("logger", "streamer")
ALONE = 3240.0  # seconds of I/O
SEEN = ObservedInterference("logger", "streamer", NOW, 0.5, 0.05, 0.001, 40, 80, 1, 2)


def heavy_run(number: int, start: int, *, times_as_long: int = 1) -> tuple[Log, Profile, bytes]:
    """Run for an hour, of a program that writes all that storage takes; with others it is more."""
    io_seconds = ALONE * times_as_long
    seconds = 360.0 + io_seconds
    numbers = {"rate": 1e12 / times_as_long, "io_share": io_seconds / seconds}
    numbers |= {"runtime_seconds": seconds, "write_bytes": 3.24e15}
    numbers |= {"chunk_bytes": 1e6, "nprocs": 64.0, "burst_seconds": 30.0, "period_seconds": 33.0}
    pattern = ("owc", "aw")[number % 2]
    log = Log(
        digest=number.to_bytes(16, "big"),
        path=f"/logs/{number}.darshan",
        size=1,
        mtime_ns=1,
        reason=None,
        jobid=number,
        uid=1000,
        exe=f"/apps/{NAMES[number % 2]}",
        start=start,
        end=start + int(seconds),
        nprocs=64,
        partial=False,
        format="3.41",
    )
    return log, Profile(pattern, 0.95, {pattern: 1.0}, numbers, 0.2), b""


@pytest.fixture
def history(tmp_path):
    """Two programs that met a hundred days ago, and again lately, and ran alone in between."""
    path = tmp_path / "history.db"
    runs = [heavy_run(number, NOW - 60 * DAY + 10_000 * number) for number in range(10, 20)]
    for number, ago in ((0, 100), (2, 10)):
        start = NOW - ago * DAY
        runs += [heavy_run(number, start, times_as_long=2)]
        runs += [heavy_run(number + 1, start, times_as_long=2)]
    with Store(path, create=True) as store:
        store.runs.add_logs(runs)
    return path


@pytest.fixture
def conf(tmp_path, history):
    path = tmp_path / "sluice.conf"
    bundle = tmp_path / "model.bundle"
    path.write_text(f"History={history}\nBundle={bundle}\nLane=all Targets=1 Bandwidth=1T\n")
    return path


def published(store: Store, bundle: Path) -> str:
    del store, bundle
    return "published figures of other file systems"


def count(store: Store) -> None:
    """Let the accounting know the jobs, and Slurm count what their logs claim."""
    for run in store.runs.runs():
        times = {"submit": run.log.start, "start": run.log.start, "end": run.log.end}
        store.jobs.upsert_jobs([a_job(job_id=run.log.jobid, uid=1000, nodes=64, **times)])
    store.jobs.link_logs()
    count_what_logs_claim(store.path)


def of_history(store: Store, bundle: Path) -> str:
    del bundle
    count(store)
    store.interference.put_observed_interference([SEEN])
    return f"a fit to the history {store.path}: published figures and 1 pair of applications"


def of_bundle(store: Store, bundle: Path) -> str:
    """The bundle's, whatever else the history teaches."""
    of_history(store, bundle)
    pack(
        bundle,
        SiteModel(core.default_interference() | {"stream_level": 2.0}, 0.0, Basis(7, 1)),
    )
    return f"the bundle {bundle}, published "


def pack(path: Path, site: SiteModel, **text: object) -> None:
    write_bundle(
        path,
        policy=POLICY,
        interference=site.interference,
        applications=[],
        text=json.dumps({"interference": site.for_bundle()["interference_from"]} | text),
        created=NOW,
    )


@pytest.mark.parametrize("told", [None, "measured here", 7, ["x"]])
def test_a_bundle_may_tell_anything_of_its_model(conf, history, told):
    """Others may write bundles, too: their text is for people."""
    with Store(history) as store:
        published(store, conf)
    pack(
        conf.parent / "model.bundle",
        SiteModel(core.default_interference(), 0.0, Basis()),
        interference=told,
    )
    done = CliRunner().invoke(main, ["site", "assess", "--config", str(conf), "--json"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["interference_model"]["source"] == "bundle"


@pytest.mark.parametrize("source", [published, of_history, of_bundle])
def test_every_command_gives_the_same_node_hours_by_the_same_model(conf, history, source):
    with Store(history) as store:
        name = source(store, conf.parent / "model.bundle")

    def ask(*words: str) -> dict:
        done = CliRunner().invoke(main, [*words, "--config", str(conf), "--json"])
        assert done.exit_code == 0, done.output
        return json.loads(done.stdout)

    assessed = ask("site", "assess")
    answers = [assessed, ask("site", "interference")]
    answers += [ask("history", "top", order) for order in ("harmful", "harmed")]
    grounds = {"since", "until", "bandwidth", "bandwidth_from", "interference_model"}
    assert assessed["interference_model"]["name"].startswith(name)
    assert all(
        {key: answer[key] for key in grounds} == {key: assessed[key] for key in grounds}
        for answer in answers
    )
    pairs = {(one["victim"], one["aggressor"]): one["lost"] for one in assessed["worst_pairs"]}
    assert set(pairs) == {NAMES, NAMES[::-1]}
    assert answers[1]["worst_pairs"] == assessed["worst_pairs"]
    for answer in answers[2:]:
        parties = {one["name"]: one for one in answer["applications"]}
        assert parties == {one["name"]: one for one in assessed["parties"]}
        for (victim, aggressor), lost in pairs.items():
            assert parties[victim]["suffered"] == pytest.approx(lost)
            assert parties[aggressor]["caused"] == pytest.approx(lost)
    assert assessed["lost"] == pytest.approx(sum(pairs.values()))


@pytest.mark.parametrize("source", [published, of_history, of_bundle])
def test_every_table_names_the_model(conf, history, source):
    with Store(history) as store:
        name = source(store, conf.parent / "model.bundle")
    for words in (
        ("site", "assess"),
        ("site", "interference"),
        ("site", "interference", "app:logger", "app:streamer"),
        ("history", "top", "harmful"),
    ):
        done = CliRunner().invoke(main, [*words, "--config", str(conf)])
        assert f"by {name}" in done.stdout.replace("By", "by"), words


def test_a_loss_is_the_time_in_io_beyond_that_alone_in_the_time_that_is_asked_for(history):
    with Store(history, read_only=True) as store:
        grounds = grounds_of(store, core.default_config())
        programs = programs_of(store)
    told: list[int] = []
    found = costs(grounds.jobs, model=MODEL, policy=POLICY, advance=told.append)
    assert sum(told) == INSTANTS * len(grounds.jobs) == grounds.instants
    pair = tuple(Application(1000, name) for name in NAMES)
    for since, meetings in ((0, 2), (NOW - 50 * DAY, 1), (NOW, 0)):
        lost = found.between(application_of, since=since)
        assert lost.get(pair, 0.0) == pytest.approx(meetings * ALONE / 3600, rel=0.2)
        by_program = found.between(lambda job: programs[job.logs[0]], since=since)
        assert by_program.get(NAMES, 0.0) == lost.get(pair, 0.0)
        parties = {one.name: one for one in found.parties(since=since)}
        assert sum(one.suffered for one in parties.values()) == pytest.approx(sum(lost.values()))
        assert sum(one.caused for one in parties.values()) == pytest.approx(sum(lost.values()))


def test_what_is_ranked_is_of_these_users_and_no_longer_than_asked_for(history):
    with Store(history, read_only=True) as store:
        found = grounds_of(store, core.default_config()).costs()
    for by in ("caused", "suffered"):
        every = found.ranked(by, since=0, most=9)
        assert [getattr(one, by) for one in every] == sorted(
            (getattr(one, by) for one in found.parties()), reverse=True
        )
        assert found.ranked(by, since=0, most=1) == every[:1]
        assert found.ranked(by, since=0, most=9, uids=[1]) == []
    assert found.ranked("caused", since=NOW, most=9) == []


def test_a_bundle_gives_the_model_back_as_it_was_fitted(conf, history):
    site = fit(observations(recorded.coruns("calibration")[:12]))
    assert site.interference["create_overhead"] > 0
    bundle = conf.parent / "model.bundle"
    pack(bundle, site)
    with Store(history, read_only=True) as store:
        named = default_model(store, core.read_config(conf))
    assert named.struct.bytes == site.struct().bytes
    assert (named.basis, named.site.bandwidth) == (site.basis, site.bandwidth)
    assert str(named).endswith(f", from {site.basis}")


def test_a_bundle_that_does_not_say_what_its_model_rests_on_is_named_all_the_same(conf, history):
    (conf.parent / "model.bundle").write_bytes(made_model.named_bundle())
    with Store(history, read_only=True) as store:
        named = default_model(store, core.read_config(conf))
    assert str(named) == named.name == name_of(conf.parent / "model.bundle", made_model.CREATED)
    assert named.as_json()["basis"] is None
