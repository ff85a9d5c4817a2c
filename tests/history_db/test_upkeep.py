"""Keeping the history: rankings, forgetting, exporting, sharing without names."""

import csv
import json
import resource
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import product
from random import Random

import pytest
from click.testing import CliRunner
from made_history import MadeRun, made_history
from pyarrow import parquet

from sluice.cli.main import main
from sluice.history_db.records import Application, Run, StoredReport, Total
from sluice.history_db.store import Store
from sluice.history_db.tables import administration, rankings, upkeep
from sluice.history_db.tables.rankings import SORTED_BY
from sluice.interference.ranking import application_name, refresh
from sluice.policies.core import NAME_SIZE

DAY = 86400


def recent_history(runs: int = 300) -> list[MadeRun]:
    """A made-up year that ends now."""
    made = list(made_history(runs, seed=4))
    shift = int(time.time()) - (made[-1].job.end or 0) - DAY
    return [shifted(run, shift) for run in made]


def shifted(run: MadeRun, seconds: int) -> MadeRun:
    start, end = (run.job.start or 0) + seconds, (run.job.end or 0) + seconds
    return replace(
        run,
        job=replace(run.job, submit=run.job.submit + seconds, start=start, end=end),
        log=replace(run.log, start=start, end=end),
    )


def add(store: Store, made: list[MadeRun]) -> None:
    store.jobs.upsert_jobs(run.job for run in made)
    store.runs.add_logs([(run.log, run.profile, b"abcd") for run in made])
    store.jobs.link_logs()


@pytest.fixture
def made(tmp_path):
    runs = recent_history()
    with Store(tmp_path / "history.db", create=True) as store:
        add(store, runs)
    return runs


@pytest.fixture
def sluice(tmp_path, made):
    assert made

    def run(*arguments, exit_code: int = 0) -> str:
        result = CliRunner().invoke(
            main,
            ["history", *map(str, arguments)],
            env={"SLUICE_HISTORY": str(tmp_path / "history.db")},
        )
        assert result.exit_code == exit_code, result.output
        return result.output

    return run


# Who stands out


def written(made: list[MadeRun]) -> dict[str, float]:
    totals: dict[str, float] = {}
    for run in made:
        name = (run.job.name or "").rstrip("0123456789") + "#"
        totals[f"{run.job.user} {name}"] = (
            totals.get(f"{run.job.user} {name}", 0.0) + run.profile.numbers["write_bytes"]
        )
    return totals


def test_the_top_writers_are_those_that_wrote_most(sluice, made):
    rows = json.loads(sluice("top", "writers", "-n", 3, "--json"))["applications"]
    expected = sorted(written(made).items(), key=lambda item: -item[1])[:3]
    assert [f"{row['user']} {row['application']}" for row in rows] == [name for name, _ in expected]
    assert [row["write_bytes"] for row in rows] == pytest.approx([sum_ for _, sum_ in expected])
    assert rows[0]["application"] in sluice("top", "writers")


def test_the_top_of_one_user_are_his_applications_and_no_others(sluice):
    every = json.loads(sluice("top", "writers", "--json", "-n", 1000))["applications"]
    user = every[0]["uid"]
    words = ("top", "writers", "--user", user, "-n", 1000)
    assert json.loads(sluice(*words, "--json"))["applications"] == [
        row for row in every if row["uid"] == user
    ]
    shown = sluice(*words, "--noheader", "--parsable2", "--format", "application").splitlines()
    assert shown == [row["application"] for row in every if row["uid"] == user]


def test_since_leaves_out_what_was_before(sluice):
    every = json.loads(sluice("top", "readers", "--json", "-n", 1000))["applications"]
    recent = json.loads(sluice("top", "readers", "--json", "-n", 1000, "--since", "8w"))
    assert sum(row["runs"] for row in recent["applications"]) < sum(row["runs"] for row in every)


def test_totals_follow_what_is_added_and_forgotten(tmp_path, made):
    with Store(tmp_path / "history.db") as store:
        refresh(store)
        assert store.rankings.stale_weeks() == []
        assert (
            sum(row.runs for row in store.rankings.ranking("write_bytes", since_week=0, most=999))
            == 300
        )
        again = [
            replace(
                run,
                job=replace(run.job, job_id=900_000 + i),
                log=replace(run.log, digest=bytes([i] * 16), path=f"/n/{i}", jobid=900_000 + i),
            )
            for i, run in enumerate(made[-5:])
        ]
        add(store, again)
        assert 1 <= len(store.rankings.stale_weeks()) <= 5
        refresh(store)
        assert (
            sum(row.runs for row in store.rankings.ranking("write_bytes", since_week=0, most=999))
            == 305
        )
        store.upkeep.prune(before=int(time.time()))
        refresh(store)
        assert store.rankings.ranking("write_bytes", since_week=0, most=999) == []


def test_who_ingests_adds_up_what_changed(tmp_path, made):
    assert made
    words = ["history", "ingest", "--history", str(tmp_path / "history.db"), "--sacct", "-"]
    result = CliRunner().invoke(main, words, input="JobID|State\n999999|COMPLETED\n")
    assert result.exit_code == 0, result.output
    with Store(tmp_path / "history.db") as store:
        assert store.rankings.stale_weeks() == []
        assert (
            sum(row.runs for row in store.rankings.ranking("write_bytes", since_week=0, most=999))
            == 300
        )


def test_totals_of_all_time_are_those_of_the_weeks(tmp_path, made):
    with Store(tmp_path / "history.db") as store:
        refresh(store)
        first = min(run.log.start or 0 for run in made) // 604800
        for order in SORTED_BY:
            ever = store.rankings.ranking(order, since_week=0, most=7)
            assert ever == store.rankings.ranking(order, since_week=first, most=7)
        store.rankings.put_week(first, [])  # interrupted before all were added up again
        assert store.rankings.ranking(
            "write_bytes", since_week=0, most=7
        ) == store.rankings.ranking("write_bytes", since_week=first + 1, most=7)


@pytest.mark.parametrize("is_added_up", [True, False])
def test_a_ranking_since_a_week_is_that_of_its_weeks_however_few_it_looks_at(
    tmp_path, monkeypatch, is_added_up
):
    monkeypatch.setattr(rankings, "FIRST_ASKED", 1)
    random = Random(1)
    weeks = {  # who wrote most once, seldom does later
        week: [
            Total(
                uid, f"app{uid}", None, 1, *(float(random.randrange(0, 9) ** 3) for _ in range(3))
            )
            for uid in random.sample(range(60), 40)
        ]
        for week in range(5)
    }
    with Store(tmp_path / "other.db", create=True) as store:
        for week, totals in weeks.items():
            store.rankings.put_week(week, totals)
        if is_added_up:
            store.rankings.put_totals()
        for order, since, most in product(SORTED_BY, range(6), (1, 3, 99)):
            sums: Counter[int] = Counter()
            for week in range(since, 5):
                sums.update({one.uid: getattr(one, order) for one in weeks[week]})
            largest = sorted((-value, uid) for uid, value in sums.items() if value > 0)[:most]
            found = store.rankings.ranking(order, since_week=since, most=most)
            assert [(-getattr(one, order), one.uid) for one in found] == largest


def writer(number: int, start: int, end: int, **numbers: float) -> Run:
    made = next(run for run in made_history(50, seed=4) if run.profile.pattern == "aw")
    profile = replace(
        made.profile,
        numbers=made.profile.numbers
        | {"rate": 5e9, "io_share": 0.8, "burst_seconds": 60.0, "period_seconds": 75.0}
        | numbers,
    )
    name, times = f"job{'abc'[number]}", {"start": start, "end": end}
    job = replace(made.job, job_id=start + number, name=name, nodes=4, submit_line=None, **times)
    return Run(number, replace(made.log, start=start, end=end), profile, b"", job)


def by_itself(number: int, start: int) -> Run:
    return writer(number, start, start + 3600, rate=5e9, io_share=0.8, runtime_seconds=3600.0)


def test_a_job_of_many_logs_is_one_job_in_a_ranking(tmp_path):
    with Store(tmp_path / "h.db", create=True) as store:
        runs = [by_itself(0, 0), by_itself(0, 0), by_itself(1, 9000)]
        for number, run in enumerate(runs):
            log = replace(
                run.log, digest=bytes([number]) * 16, path=f"/{number}", jobid=run.log.start
            )
            store.runs.add_logs([(log, run.profile, b"")])
        refresh(store)
        assert (
            sum(total.runs for total in store.rankings.ranking("write_bytes", since_week=0, most=9))
            == 2
        )


def test_a_name_that_is_cut_within_a_character_is_still_text():
    for before in ("", "a", "ab", "abc"):
        name = application_name(before + "\N{FIRE}" * 30, None)
        assert NAME_SIZE - 4 <= len(name.encode()) < NAME_SIZE


# Forgetting


def test_pruning_forgets_what_is_old(sluice, tmp_path, made):
    limit = time.time() - 100 * DAY
    recent = sum((run.log.start or 0) >= limit for run in made)
    said = json.loads(sluice("prune", "--older-than", "100d", "--vacuum", "--json"))
    assert said["logs"] == 300 - recent
    assert said["bytes_after"] < said["bytes_before"]
    with Store(tmp_path / "history.db") as store:
        assert store.counts().logs == recent


def test_a_history_that_is_named_before_the_verb_is_not_mistaken_for_another(sluice, tmp_path):
    said = sluice("--history", tmp_path / "other.db", "prune", "--older-than", "0d", exit_code=2)
    assert "sluice history prune --history" in said
    assert json.loads(sluice("--json"))["logs"] == 300


def test_the_coverage_is_of_what_was_not_forgotten(sluice):
    sluice("prune", "--older-than", "0d")
    assert json.loads(sluice("--json"))["coverage"]["jobs"] == 0


def test_others_write_while_much_is_forgotten(tmp_path, monkeypatch, made):
    monkeypatch.setattr(upkeep, "FORGOTTEN_AT_ONCE", 100)
    path = tmp_path / "history.db"

    def write_in_between(_seconds: float) -> None:
        with Store(path, busy_seconds=0) as other:
            other.jobs.upsert_jobs(
                [replace(made[0].job, job_id=1, start=None, end=None, submit=1 << 40)]
            )

    monkeypatch.setattr(upkeep.time, "sleep", write_in_between)
    with Store(path) as store:
        pruned = store.upkeep.prune(before=int(time.time()))
        assert (pruned.logs, pruned.jobs, store.counts().jobs) == (300, 300, 1)


def test_a_model_is_kept_whose_runs_were_forgotten_meanwhile(tmp_path, made):
    assert made
    with Store(tmp_path / "history.db") as store:
        known, first = store.runs.run_ids()[0], store.models.reserve_applications(1)
        learned = Application("user_name", 1, "run of 1000", 2, (known, 1 << 40), first)
        model = store.models.add_model(b"npz", {}, [learned], created=5)
        assert [one.logs for one in store.models.applications(model)] == [(known,)]


@pytest.mark.parametrize("age", ["90", "3m", "-1d", ""])
def test_an_age_needs_its_unit(sluice, age):
    assert "no age" in sluice("prune", "--older-than", age, exit_code=2)


# Exporting


def test_csv_and_parquet_hold_the_same_runs(sluice, tmp_path, made):
    assert "300 runs" in sluice("export", tmp_path / "runs.csv")
    sluice("export", tmp_path / "runs.parquet")
    with (tmp_path / "runs.csv").open() as file:
        rows = list(csv.DictReader(file))
    table = parquet.read_table(tmp_path / "runs.parquet")
    assert table.column_names == list(rows[0])
    assert table.num_rows == len(rows) == 300
    assert str(table.schema.field("write_bytes").type) == "double"
    assert str(table.schema.field("job_id").type) == "int64"
    by_id = {run.job.job_id: run for run in made}
    for row, plain in zip(rows, table.to_pylist(), strict=True):
        run = by_id[plain["job_id"]]
        assert row["name"] == plain["name"] == run.job.name
        assert float(row["write_bytes"]) == plain["write_bytes"]
        assert plain["write_bytes"] == run.profile.numbers["write_bytes"]


def test_an_empty_ranking_says_so(sluice):
    sluice("prune", "--older-than", "1d")
    assert "none: no run" in sluice("top", "harmful")


def test_another_format_is_refused(sluice, tmp_path):
    assert ".csv or .parquet" in sluice("export", tmp_path / "runs.xlsx", exit_code=2)


@pytest.mark.parametrize("name", ["x.csv", "x.parquet"])
def test_without_room_the_file_of_before_stays(sluice, tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).write_text("before")
    with no_file_larger_than(40_000):
        said = sluice("export", name, exit_code=1)
    assert name in said
    assert "Traceback" not in said
    assert (tmp_path / name).read_text() == "before"
    assert [path.name for path in tmp_path.iterdir() if "draft" in path.name] == []


@contextmanager
def no_file_larger_than(size: int) -> Iterator[None]:
    """What writes more fails, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


# Reports


def test_the_last_reports_are_kept_until_they_are_old(tmp_path, monkeypatch):
    monkeypatch.setattr(administration, "KEPT_REPORTS", 3)
    with Store(tmp_path / "history.db", create=True) as store:
        for made_at in (100, 200, 300, 400):
            store.administration.add_report(
                StoredReport(made_at, 0, "Stay", [{"heading": "A"}], {"x": made_at})
            )
        assert [one.made_at for one in store.administration.report_titles().values()] == [
            400,
            300,
            200,
        ]
        assert store.administration.report(1) is None
        assert store.administration.report(2) == StoredReport(
            200, 0, "Stay", [{"heading": "A"}], {"x": 200}
        )
        store.upkeep.prune(before=350)
        assert list(store.administration.report_titles()) == [4]
