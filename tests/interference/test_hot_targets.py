"""What a site's own busy and quiet runs say of its losses below a full storage."""

from dataclasses import replace

import pytest
from finished import finished_job
from history_rows import a_profile

from sluice.history_db.records import ServerCount
from sluice.history_db.store import Store
from sluice.interference.hot_targets import Run, busy_runs, fit_losses, share_kept
from sluice.policies import core
from sluice.policies.structs import View, new

BANDWIDTH = 10e9
DEFAULTS = core.default_interference()
START, SECONDS = 1_767_225_600, 600
RUNS = 8


def a_run(pattern: str, background: float, kept: float = 1.0) -> Run:
    profile = {"pattern": pattern, "share": {pattern: 1.0}, "chunk_bytes": 1e6, "nprocs": 64.0}
    return Run(profile | {"rate": 0.5 * BANDWIDTH}, BANDWIDTH, background * BANDWIDTH, kept)


def as_by(interference: dict[str, float], run: Run) -> Run:
    return replace(run, kept=share_kept(run, View(new("struct sluice_interference", interference))))


@pytest.mark.parametrize(("pattern", "name"), [("aw", "hot_write_loss"), ("read", "hot_read_loss")])
@pytest.mark.parametrize("loss", [0.0, 0.35, 0.8])
def test_a_fit_finds_what_runs_lose(pattern, name, loss):
    law = DEFAULTS | {name: loss}
    runs = [as_by(law, a_run(pattern, 0.1 + 0.01 * i)) for i in range(40)]
    assert fit_losses(runs, DEFAULTS) == {name: pytest.approx(loss, abs=0.03)}


def test_few_runs_hardly_move_what_is_published():
    found = fit_losses([as_by(DEFAULTS | {"hot_write_loss": 0.9}, a_run("aw", 0.1))], DEFAULTS)
    assert found["hot_write_loss"] == pytest.approx(DEFAULTS["hot_write_loss"], abs=0.05)


def test_quiet_runs_tell_nothing():
    assert fit_losses([a_run("aw", 0.02, kept=0.5)], DEFAULTS) == {}


def readers(lost: float):
    """Runs of a program that reads, every hour; in every second one others move a lot."""
    for number in range(2 * RUNS):
        io = 300 / (1 - lost) if number % 2 else 300
        seconds = 300 + io
        numbers = {
            "io_share": io / seconds,
            "runtime_seconds": seconds,
            "rate": 0.5 * BANDWIDTH,
            "read_bytes": 150 * BANDWIDTH,
            "write_bytes": 0.0,
            "chunk_bytes": 1e6,
            "nprocs": 64.0,
        }
        job = finished_job(a_profile(pattern="read", shares={"read": 1.0}, numbers=numbers))
        start = START + 3600 * number
        yield replace(job, start=start, end=int(start + seconds), is_confirmed=True)


@pytest.mark.parametrize("lost", [0.0, 0.2])
def test_the_servers_counts_tell_busy_runs_from_quiet_ones(tmp_path, lost):
    jobs = list(readers(lost))
    with Store(tmp_path / "history.db", create=True) as store:
        for number, job in enumerate(jobs):
            moved = 150 * BANDWIDTH + (
                0.25 * BANDWIDTH * (job.end - job.start) if number % 2 else 0
            )
            seconds = float(job.end - job.start)
            counts = [ServerCount("a", float(job.start), seconds, moved, 0.0)]
            store.interference.put_server_counts(counts)
        runs = busy_runs(store, jobs)
        assert len(runs) == RUNS
        assert all(run.reads for run in runs)
        assert {round(run.kept, 2) for run in runs} == {round(1 - lost, 2)}
        found = fit_losses(runs, DEFAULTS)["hot_read_loss"]
        unconfirmed = [replace(job, is_confirmed=False) for job in jobs]
        assert busy_runs(store, unconfirmed) == []
    kept = share_kept(
        runs[0], View(new("struct sluice_interference", DEFAULTS | {"hot_read_loss": found}))
    )
    published = share_kept(runs[0], View(new("struct sluice_interference", DEFAULTS)))
    assert abs(kept - (1 - lost)) <= abs(published - (1 - lost))
