"""What logs claim counts for others only as far as counters that no user can write bear it out."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from arriving_logs import ME
from click.testing import CliRunner
from finished import finished_job
from history_rows import a_job, a_log, a_profile

from sluice.cli.main import main
from sluice.history_db.records import Job, Profile
from sluice.history_db.store import Store
from sluice.ingest.trust import bears_out, doubt, is_of_job
from sluice.patterns.profile import Reading
from sluice.policies import core
from sluice.policies.bundle import Bundle
from sluice.prediction.applications import unconfirmed
from sluice.prediction.hindsight import MIN_PAIRS
from sluice.prediction.jobs import submission_of
from sluice.prediction.solo_estimate import undisturbed
from sluice.prediction.train import fit_quickly, pack, past_of

TIB = 1 << 40
CLAIM = {
    "chunk_bytes": 1e6,
    "nprocs": 8.0,
    "write_bytes": 3.4 * TIB,
    "read_bytes": 0.0,
    "rate": 3.4 * TIB / 1800,
    "burst_seconds": 1800.0,
    "period_seconds": 3600.0,
    "io_share": 0.5,
    "runtime_seconds": 3600.0,
    "bytes_per_flush": 3.4 * TIB,
    "unflushed_bytes": 1e9,
}
POLICY = core.parse_config("sluice.conf", b"Lane=all Targets=4 Bandwidth=10G").policy


def claiming(pattern: str = "aw", **numbers: float) -> Profile:
    shares = {pattern: 1.0}
    return a_profile(pattern=pattern, confidence=0.95, shares=shares, numbers=CLAIM | numbers)


def keep(store: Store, numbers: range, profile: Profile, **of_the_job) -> None:
    times = [{"start": 10_000 * n, "end": 10_000 * n + 3600} for n in numbers]
    store.jobs.upsert_jobs(
        a_job(job_id=n, uid=1000, nodes=2, name="sleep", submit=span["start"], **span, **of_the_job)
        for n, span in zip(numbers, times, strict=True)
    )
    store.runs.add_logs(
        [(a_log(n, jobid=n, **span), profile, b"") for n, span in zip(numbers, times, strict=True)]
    )
    store.jobs.link_logs()


def prediction_of(store: Store):
    past = past_of(store)
    model = fit_quickly(past.jobs, silent=past.silent)
    bundle = Bundle.parse(pack(model, policy=POLICY, created=0, text="{}"))
    return bundle.predict(submission_of(past.jobs[-1])), unconfirmed(model.table)


@pytest.fixture
def store(tmp_path: Path):
    with Store(tmp_path / "history.db", create=True) as store:
        yield store


@pytest.mark.parametrize(
    ("counts", "evidence"),
    [
        ({}, "unconfirmed"),
        ({"write_bytes": 4096, "read_bytes": 0}, "unconfirmed"),
        ({"write_bytes": 0, "read_bytes": 4 * TIB}, "unconfirmed"),
        ({"write_bytes": 3 * TIB, "read_bytes": 0}, "user_name"),
        ({"write_bytes": 90 * TIB, "read_bytes": 9 * TIB}, "user_name"),
    ],
    ids=["nothing counts", "sleeps", "the other direction", "about as much", "elsewhere too"],
)
def test_twelve_logs_count_as_far_as_slurm_counted(store, counts, evidence):
    keep(store, range(1, 13), claiming(), **counts)
    found, waiting = prediction_of(store)
    assert found.evidence == evidence
    assert found.profile.write_bytes == pytest.approx(3.4 * TIB), "it is told all the same"
    assert (found.klass == "none") == (evidence == "unconfirmed")
    assert bool(waiting) == (evidence == "unconfirmed")


def test_forged_runs_among_true_ones_are_left_out(store):
    keep(store, range(1, 5), claiming(write_bytes=2e9), write_bytes=2 * 10**9, read_bytes=0)
    keep(store, range(10, 40), claiming(), write_bytes=4096, read_bytes=0)
    found, _ = prediction_of(store)
    assert (found.evidence, found.profile.write_bytes) == ("user_name", 2e9)


def test_the_claims_of_all_logs_of_a_job_are_added_up(store):
    keep(store, range(1, 5), claiming(write_bytes=2e9), write_bytes=2 * 10**9, read_bytes=0)
    more = [
        (a_log(100 * n + k, jobid=n, start=10_000 * n, end=10_000 * n + 60), claiming(), b"")
        for n in range(1, 5)
        for k in range(3)
    ]
    store.runs.add_logs(more)
    store.jobs.link_logs()
    assert prediction_of(store)[0].evidence == "unconfirmed"


def counted(write: int | None, read: int | None = 0, **changes) -> Job:
    names = ("accounted_write_bytes", "accounted_read_bytes")
    return a_job(**dict(zip(names, (write, read), strict=True)), nodes=1, **changes)


METADATA = {"write_bytes": 1e6, "metadata_rate": 1e5, "io_share": 1.0, "runtime_seconds": 100.0}


@pytest.mark.parametrize(
    ("job", "profile", "is_borne_out"),
    [
        (counted(10**12), claiming(write_bytes=1.9e12), True),
        (counted(10**12), claiming(write_bytes=2.1e12), False),
        (counted(10**12), claiming(write_bytes=1e12, read_bytes=1e9), False),
        (counted(None, None), claiming(write_bytes=10.0), False),
        (counted(None, None, write_bytes=10**12), claiming(write_bytes=1e12), True),
        (counted(10**6, 0), claiming("metadata", **METADATA), False),
        (counted(10**6, 0), claiming("owc", **METADATA), False),
        (counted(10**6, 0, metadata_operations=10**7), claiming("metadata", **METADATA), True),
        # by no link of today, whatever the counters say
        (counted(10**15, start=0, end=60), claiming(write_bytes=1e15), False),
    ],
)
def test_counters_bear_out_what_is_not_far_above_them(job, profile, is_borne_out):
    assert bears_out(job, profile) == is_borne_out


def test_servers_figures_are_a_jobs_own_where_slurm_or_the_kernel_agrees():
    served = {"write_bytes": 10**12, "read_bytes": 0, "uid": 1000}
    assert not is_of_job(counted(None, None, **served))
    assert is_of_job(counted(None, None, **served, served_uid=1000))
    assert not is_of_job(counted(None, None, **served, served_uid=1001))
    assert is_of_job(counted(10**12, 0, **served))
    assert not is_of_job(counted(10**9, 0, **served))
    assert not is_of_job(counted(10**12, 0, **served, metadata_operations=10**7))


def test_a_log_that_claims_the_impossible_is_not_believed():
    log = a_log(uid=ME, start=1000, end=1100)
    job = a_job(uid=ME, nodes=1)
    reading = Reading(log, claiming(write_bytes=1e12), b"", {}, ME)
    assert doubt(reading, [job], now=2000) is None
    forged = replace(reading, profile=claiming(write_bytes=1e15))
    found = doubt(forged, [job], now=2000)
    assert found is not None
    assert "cannot have moved" in found.reason


def test_what_nothing_bears_out_slowed_nobody_down():
    honest = [
        finished_job(
            claiming(write_bytes=1e9, rate=1e6, io_share=0.5, runtime_seconds=2000.0),
            number=n,
            start=10_000 * n,
        )
        for n in range(1, 9)
    ]
    forged = [
        finished_job(
            claiming(rate=1e12), number=100 + n, start=10_000 * n, uid=1666, is_confirmed=False
        )
        for n in range(1, 9)
    ]
    told = [job.profile for job in undisturbed([*honest, *forged])[: len(honest)]]
    assert told == [job.profile for job in undisturbed(honest)]


@pytest.mark.parametrize("runs", [40, MIN_PAIRS // 2, 1])
def test_what_nothing_bears_out_changes_no_confidence_of_others(runs):
    """Not even where too few runs are confirmed to correct confidence by them."""
    honest = [finished_job(claiming(), number=n, start=10_000 * n) for n in range(1, runs + 1)]
    forged = [
        finished_job(
            claiming(("aw", "metadata", "owc")[n % 3]),
            number=100 + n,
            start=10_000 * n,
            uid=1666,
            is_confirmed=False,
        )
        for n in range(1, 200)
    ]
    alone = fit_quickly(honest)
    among = fit_quickly([*honest, *forged])
    assert bool(alone.metrics["hindsight"]["calibration"]) == (runs > MIN_PAIRS)
    assert among.metrics == alone.metrics


def test_ingest_and_doctor_name_what_claims_too_much(store, tmp_path, monkeypatch):
    monkeypatch.setattr("time.time", lambda: 200_000.0)
    monkeypatch.setenv("SLUICE_HISTORY", str(tmp_path / "history.db"))
    keep(store, range(1, 13), claiming(), write_bytes=4096, read_bytes=0)
    keep(store, range(13, 14), claiming(write_bytes=4096.0), write_bytes=4096, read_bytes=0)
    counts = tmp_path / "counts.csv"
    counts.write_text("time,target,read_bytes,write_bytes\n")
    done = CliRunner().invoke(main, ["history", "ingest", "--server-counts", str(counts)])
    assert "job 1 (3.4 TiB of 4 KiB)" in done.output
    assert "job 13" not in done.output
    trained = CliRunner().invoke(main, ["model", "train", "--json"])
    assert json.loads(trained.output)["metrics"]["unconfirmed"] == 1
