"""One job's profile is what the job did, in however many logs."""

from dataclasses import replace

import numpy as np
import pytest
from arriving_logs import JOB
from hypothesis import given
from hypothesis import strategies as st

from sluice.darshan.bursts import Heatmap, packed, unpacked
from sluice.history_db.records import Job, Log, Profile, Run
from sluice.patterns.job_profile import profile_of
from sluice.prediction.jobs import finished_jobs

MIB = float(1 << 20)
START = 1_700_000_000.25


def a_run(
    number: int = 1,
    *,
    start: float = START,
    busy: tuple[tuple[int, int], ...] = ((0, 10),),
    bins: int = 20,
    pattern: str = "aw",
    has_heatmap: bool = True,
    job: Job | None = None,
    **changes,
) -> Run:
    """A process that runs for `bins` seconds and writes 10 MiB/s in those that are busy."""
    written = np.zeros(bins)
    for first, end in busy:
        written[first:end] = 10 * MIB
    numbers = {
        "nprocs": 1.0,
        "write_bytes": float(written.sum()),
        "read_bytes": 0.0,
        "files": 1.0,
        "runtime_seconds": float(bins),
        "io_share": float((written > 0).mean()),
        "rate": 10 * MIB,
        "chunk_bytes": MIB,
    }
    log = Log(
        digest=bytes([number] * 16),
        path=f"/logs/{number}.darshan",
        size=1,
        mtime_ns=1,
        reason=None,
        jobid=7,
        uid=1000,
        exe="x",
        start=int(start),
        end=int(start + bins),
        nprocs=1,
        partial=changes.pop("partial", False),
        format="3.41",
        heatmap=packed(start, Heatmap(1.0, written, np.zeros(bins))) if has_heatmap else None,
    )
    numbers |= changes.pop("numbers", {})
    return Run(number, log, Profile(pattern, 0.9, {pattern: 1.0}, numbers, 0.5), b"", job)


@pytest.mark.parametrize("has_heatmap", [True, False])
def test_processes_that_write_together_have_the_rate_of_all(has_heatmap):
    found = profile_of([a_run(i, has_heatmap=has_heatmap) for i in (1, 2)]).numbers
    assert found["write_bytes"] == pytest.approx(200 * MIB)
    assert found["rate"] == pytest.approx(20 * MIB)
    assert found["io_share"] == pytest.approx(0.5)
    assert (found["nprocs"], found["files"]) == (2, 2)
    assert found["runtime_seconds"] == pytest.approx(20)


def test_processes_that_write_in_turn_are_busy_for_longer():
    found = profile_of([a_run(1, busy=((0, 10),)), a_run(2, busy=((10, 20),))]).numbers
    assert found["rate"] == pytest.approx(10 * MIB)
    assert found["io_share"] == pytest.approx(1.0)


def test_half_of_the_time_in_common_counts_once():
    found = profile_of([a_run(1, busy=((0, 8),)), a_run(2, busy=((4, 12),))]).numbers
    assert found["io_share"] == pytest.approx(12 / 20)
    assert found["rate"] == pytest.approx(160 * MIB / 12)


def test_the_bursts_of_processes_are_those_of_the_job():
    bursts = tuple((8 * i, 8 * i + 3) for i in range(8))
    found = profile_of([a_run(i, busy=bursts, bins=64) for i in (1, 2, 3)]).numbers
    assert found["burst_seconds"] == pytest.approx(3)
    assert found["period_seconds"] == pytest.approx(8, rel=0.05)


def test_steps_one_after_the_other_are_phases():
    steps = [a_run(1), a_run(2, start=START + 40, busy=((0, 20),))]
    found = profile_of(steps)
    assert found.numbers["runtime_seconds"] == pytest.approx(60)
    assert found.numbers["io_share"] == pytest.approx(30 / 60)
    assert found.numbers["rate"] == pytest.approx(10 * MIB)
    assert found.numbers["nprocs"] == 1
    assert found.pattern == "aw"


def test_phases_with_different_patterns_are_a_mixture():
    mixed = profile_of([a_run(1), a_run(2, start=START + 40, pattern="ws")])
    assert mixed.pattern == "mixed"
    assert mixed.shares == pytest.approx({"aw": 0.5, "ws": 0.5})
    mostly = profile_of([a_run(1, busy=((0, 19),)), a_run(2, busy=((0, 1),), pattern="ws")])
    assert mostly.pattern == "aw"
    assert mostly.confidence == pytest.approx(0.9)


def test_what_has_no_name_speaks_for_none():
    unknown = [a_run(1, pattern="unknown"), a_run(2, busy=((0, 1),))]
    assert profile_of(unknown).pattern == "unknown"


@given(
    st.lists(
        st.tuples(st.integers(0, 60), st.integers(0, 19), st.integers(1, 20), st.booleans()),
        min_size=1,
        max_size=6,
    )
)
def test_no_job_is_in_io_for_longer_than_it_runs_or_its_logs_say(drawn):
    runs = [
        a_run(i, start=START + at, busy=((first, min(20, first + length)),), has_heatmap=known)
        for i, (at, first, length, known) in enumerate(drawn, start=1)
    ]
    found = profile_of(runs).numbers
    seconds = found["io_share"] * found["runtime_seconds"]
    own = [run.profile.numbers["io_share"] * 20 for run in runs]
    assert max(own) - 1e-6 <= seconds <= min(sum(own), found["runtime_seconds"]) + 1e-6
    assert found["rate"] * seconds == pytest.approx(found["write_bytes"])


def test_a_heatmap_is_kept_to_one_part_in_ten():
    moved = np.array([0.0, 1.0, 4096.0, 1e9, 0.0, 3e12])
    found = unpacked(packed(START, Heatmap(0.1, moved, np.zeros(6))))
    assert found.start == START
    assert found.bin_seconds == pytest.approx(0.1)
    assert found.moved == pytest.approx(moved, rel=0.1)
    assert found.moved.sum() == pytest.approx(moved.sum())
    assert packed(START, Heatmap(0.1, np.zeros(6), np.zeros(6))) is None


# Logs that do not hold all


def test_the_accounting_completes_logs_that_ran_out_of_records():
    job = replace(JOB, write_bytes=int(200 * MIB), read_bytes=int(50 * MIB))
    found = profile_of([a_run(partial=True, job=job)]).numbers
    assert found["write_bytes"] == 200 * MIB
    assert found["read_bytes"] == 0  # its program's files
    assert found["files"] == 2
    assert found["io_share"] == pytest.approx(1.0)
    assert found["rate"] == 10 * MIB


def test_a_whole_log_is_believed_whatever_the_accounting_says():
    job = replace(JOB, write_bytes=int(200 * MIB), read_bytes=0)
    assert profile_of([a_run(job=job)]).numbers["write_bytes"] == 100 * MIB
    assert profile_of([a_run(partial=True)]).numbers["write_bytes"] == 100 * MIB


# Which jobs count


def test_a_job_that_still_runs_is_not_learned_from():
    running = replace(JOB, start=int(START), end=None, state="RUNNING", time_limit=60)
    done = replace(running, job_id=8, end=int(START) + 30, state="COMPLETED")
    assert [job.logs for job in finished_jobs([a_run(1, job=running), a_run(2, job=done)])] == [
        (2,)
    ]
    long_ago = replace(running, start=int(START) - 7200)
    assert len(finished_jobs([a_run(1, job=long_ago)])) == 1  # nobody told of its end


def test_what_describes_reads_is_weighted_by_the_bytes_read():
    of_reader = {"read_bytes": 30 * MIB, "read_cached_share": 0.5, "read_chunk_bytes": MIB}
    of_writer = {"read_bytes": 10 * MIB, "read_cached_share": 0.1}
    found = profile_of([a_run(1, numbers=of_reader), a_run(2, numbers=of_writer)]).numbers
    assert found["read_bytes"] == 40 * MIB
    assert found["read_cached_share"] == pytest.approx(0.4)
    assert found["read_chunk_bytes"] == MIB
    assert "read_sequential_share" not in found
