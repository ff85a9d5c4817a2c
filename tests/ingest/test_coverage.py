"""Jobs without logs, and what share of everything the logs tell of."""

import io
import json
from dataclasses import replace

import pytest
from arriving_logs import END, JOB, ME, START
from click.testing import CliRunner
from core_cases import bundle_bytes
from test_follow import a_log, look

from sluice.cli.main import main
from sluice.history_db.intake import add_accounting, add_job_stats
from sluice.history_db.job_stats import JobStatsError, parse_job_stats
from sluice.history_db.store import Store
from sluice.prediction.jobs import coarse_profile, unlogged_jobs
from sluice.prediction.submission_features import Submissions

STEPS = f"""\
JobIDRaw|JobName|UID|Start|End|NNodes|State|NTasks|TRESUsageInTot|TRESUsageOutTot
7|made|{ME}|{START}|{END}|2|COMPLETED|||
7.batch|batch||{START}|{END}|1|COMPLETED|1|cpu=00:00:00,fs/disk=100,mem=1M|fs/disk=1.5K
7.0|made||{START}|{END}|2|COMPLETED|8|fs/disk=1000|fs/disk=5000,fs/lustre=4096
"""
JOB_STATS = """\
obdfilter.scratch-OST0000.job_stats=
job_stats:
- job_id:          7
  snapshot_time:   1700000050.000000000 secs.nsecs
  start_time:      1699999990.000000000 secs.nsecs
  read_bytes:      { samples: 2, unit: bytes, min: 4096, max: 4096, sum: 8192, sumsq: 3 }
  write_bytes:     { samples: 256, unit: bytes, min: 4096, max: 1048576, sum: 268435456 }
  punch:           { samples: 1, unit: usecs, min: 1, max: 1, sum: 1 }
- job_id:          cp.1000
  write_bytes:     { samples: 256, unit: bytes, min: 4096, max: 1048576, sum: 268435456 }
obdfilter.scratch-OST0001.job_stats=
job_stats:
- job_id:          7
  write_bytes:     { samples: 256, unit: bytes, min: 4096, max: 1048576, sum: 268435456 }
mdt.scratch-MDT0000.job_stats=
job_stats:
- job_id:          7
  open:            { samples:          12, unit:  reqs }
  close:           { samples:          10, unit:  reqs }
  statfs:          { samples:          99, unit:  reqs }
- job_id:          8
  open:            { samples:          1, unit:  reqs }
"""


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path / "history.db", create=True) as store:
        yield store


def account(store: Store, text: str) -> None:
    add_accounting(
        store, io.StringIO(text), name="x", zone=None, cluster="", report=lambda *_: None
    )


def stats(store: Store, text: str):
    return add_job_stats(store, text.splitlines(), name="x")


def test_the_bytes_of_the_steps_are_those_of_the_job(store):
    account(store, STEPS)
    job = store.jobs.job(7)
    assert job is not None
    assert (job.write_bytes, job.read_bytes, job.tasks) == (1536 + 4096, 1100, 8)


def test_accounting_without_steps_says_nothing_of_bytes(store):
    account(store, "\n".join(STEPS.splitlines()[:2]))
    job = store.jobs.job(7)
    assert job is not None
    assert job.write_bytes is None


def test_servers_count_what_each_job_did_to_all_targets():
    parsed = parse_job_stats(JOB_STATS.splitlines(), name="x")
    found = {job.job_id: job for job in parsed.jobs}
    assert (parsed.others, parsed.example) == (1, "cp.1000")
    assert set(found) == {7, 8}
    assert found[7].write_bytes == 2 * 268435456
    assert found[7].read_bytes == 8192
    assert found[7].metadata_operations == 22


@pytest.mark.parametrize(
    ("text", "job"),
    [
        ("123", 123),
        ('"123"', 123),
        ("123.0", 123),
        ("node7:123", 123),
        ("cp.1000", None),
        ("kworker/u8:0.0", None),
        ("", None),
    ],
)
def test_a_job_id_of_lustre_names_a_job_or_none(text, job):
    found = parse_job_stats(["job_stats:", f"- job_id: {text}"], name="x").jobs
    assert [one.job_id for one in found] == ([] if job is None else [job])


def test_a_text_that_is_no_statistics_says_what_to_print():
    with pytest.raises(JobStatsError, match="lctl get_param"):
        parse_job_stats(["hello"], name="x")


def test_the_servers_figures_outlast_those_of_sacct(store):
    steps = STEPS.replace("fs/lustre=4096", "fs/lustre=500000000")
    account(store, steps)
    summary = stats(store, JOB_STATS)
    assert (summary.jobs, summary.unmatched, summary.others) == (1, 1, 1)
    account(store, steps)
    job = store.jobs.job(7)
    assert job is not None
    assert (job.write_bytes, job.read_bytes) == (536870912, 8192)
    assert job.metadata_operations == 22


@pytest.mark.parametrize(
    ("figures", "pattern"),
    [
        ({"write_bytes": 1000, "read_bytes": 1000}, "none"),
        ({"write_bytes": 1 << 30, "read_bytes": 1 << 33}, "read"),
        ({"write_bytes": 1 << 30, "read_bytes": 0}, "unknown"),
        ({"write_bytes": 1 << 20, "metadata_operations": 100_000}, "metadata"),
    ],
)
def test_figures_say_how_much_and_not_how_it_is_written(figures, pattern):
    profile = coarse_profile(replace(JOB, **figures))
    assert profile.pattern == pattern
    assert profile.numbers["write_bytes"] == figures["write_bytes"]
    assert "chunk_bytes" not in profile.numbers


def test_a_job_without_a_log_gets_a_coarse_profile(store):
    account(store, STEPS)
    (job,) = unlogged_jobs(store, Submissions(()), latest=10)
    assert (job.name, job.uid, job.nodes, job.logs) == ("made", ME, 2, ())
    assert job.profile.numbers["write_bytes"] == 5632


def test_a_job_with_a_log_has_no_coarse_profile(store, tmp_path):
    account(store, STEPS)
    look(store, a_log(tmp_path / "a.darshan"))
    assert unlogged_jobs(store, Submissions(()), latest=10) == []
    assert store.jobs.unlogged_jobs_during(0, 4e9) == []


def test_jobs_without_a_log_are_found_by_when_they_ran(store):
    account(store, STEPS)
    (job,) = store.jobs.unlogged_jobs_during(0, 4e9)
    assert store.jobs.unlogged_jobs_during(job.start - 9, job.start + 1) == [job]
    assert store.jobs.unlogged_jobs_during(job.end - 1, job.end + 9) == [job]
    assert store.jobs.unlogged_jobs_during(job.start - 9, job.start) == []
    assert store.jobs.unlogged_jobs_during(job.end, job.end + 9) == []


def test_coverage_is_a_share_of_jobs_node_hours_and_bytes(store, tmp_path):
    store.jobs.upsert_jobs(
        [
            replace(JOB, start=START, end=END, nodes=3),
            replace(JOB, job_id=8, start=START, end=END, nodes=1, write_bytes=3 << 20),
        ]
    )
    look(store, a_log(tmp_path / "a.darshan"))
    coverage = store.jobs.coverage()
    assert (coverage.jobs, coverage.logged_jobs) == (2, 1)
    assert (coverage.node_seconds, coverage.logged_node_seconds) == (400.0, 300.0)
    assert (coverage.bytes, coverage.logged_bytes) == (float(4 << 20), float(1 << 20))


def test_coverage_follows_what_is_learned_later(store, tmp_path):
    look(store, a_log(tmp_path / "a.darshan"))
    assert store.jobs.coverage().jobs == 0
    account(store, STEPS)
    assert store.jobs.coverage().logged_jobs == 0  # it waits, and was not believed yet
    look(store)
    assert store.jobs.coverage().logged_jobs == 1


REPORTS = (
    "history ingest --sacct sacct .",
    "history",
    "history top writers",
    "model list",
    "why 7",
    "predict --job-name made --bundle model.bundle",
    "site targets",
    "site interference",
    "site interference owc:1M:4 aw:1M:4",
    "site assess",
    "site interference --learn 2y",
)
"""Those that a history of one run is enough for; so are `train` and `score --backtest`."""


@pytest.mark.parametrize("report", REPORTS)
def test_reports_open_with_the_coverage(tmp_path, monkeypatch, report):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SLUICE_HISTORY", "history.db")
    monkeypatch.setenv("PATH", "")  # no Slurm to be asked
    (tmp_path / "sacct").write_text(STEPS)
    (tmp_path / "model.bundle").write_bytes(bundle_bytes())
    a_log(tmp_path / "a.darshan")
    for words in (REPORTS[0], report):
        shown = CliRunner().invoke(main, words.split())
    assert shown.stdout.splitlines()[0] == (
        "coverage: logs of 100% of the jobs, 100% of the node-hours, "
        "100% of the bytes that were counted"
    )
    found = json.loads(CliRunner().invoke(main, [*report.split(), "--json"]).stdout)
    assert list(found)[:2] == ["version", "coverage"]
    assert found["coverage"]["logged_jobs"] == 1
