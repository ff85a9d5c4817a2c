"""Which logs are of one job."""

from dataclasses import replace

import pytest
from arriving_logs import JOB
from hypothesis import given
from hypothesis import strategies as st
from made_logs import MadeLog

from sluice.darshan.log import read_log
from sluice.history_db.records import Log, Profile, Run
from sluice.ingest.trust import LONGEST_PAUSE, by_job

PROFILE = Profile(pattern="aw", confidence=1.0, shares={}, numbers={}, log_sd=0.5)


def a_run(log_id: int, *, name: str = "a.darshan", start: int = 0, job=None, **header) -> Run:
    log = Log(
        digest=bytes([log_id % 256] * 16),
        path=f"/logs/{name}",
        size=1,
        mtime_ns=1,
        reason=None,
        jobid=header.get("jobid", 7),
        uid=header.get("uid", 1000),
        exe="x",
        start=start,
        end=start + 10,
        nprocs=1,
        partial=False,
        format="3.41",
    )
    return Run(log_id, log, PROFILE, b"", job)


def ids(runs) -> list[list[int]]:
    return sorted([run.log_id for run in group] for group in by_job(runs))


def test_the_processes_of_a_program_without_mpi_are_one_job():
    assert ids([a_run(1), a_run(2), a_run(3)]) == [[1, 2, 3]]


def test_the_steps_of_a_job_are_one_job_even_after_a_pause():
    steps = [a_run(1), a_run(2, start=LONGEST_PAUSE)]
    assert ids(steps) == [[1, 2]]


def test_an_id_that_comes_again_much_later_is_another_job():
    assert ids([a_run(1), a_run(2, start=LONGEST_PAUSE + 11)]) == [[1], [2]]


def test_users_do_not_share_jobs():
    assert ids([a_run(1), a_run(2, uid=1001)]) == [[1], [2]]


def test_the_accounting_settles_what_belongs_together():
    late = a_run(2, start=100 * LONGEST_PAUSE, job=JOB)
    requeued = a_run(3, job=replace(JOB, restarts=1))
    assert ids([a_run(1, job=JOB), late, requeued]) == [[1, 2], [3]]


def test_logs_of_no_job_are_not_of_one():
    assert ids([a_run(i, jobid=None) for i in (1, 2)]) == [[1], [2]]


@pytest.mark.parametrize(
    ("name", "jobid"),
    [
        ("me_app_id4711-4711_11-21-7-1_1.darshan", None),
        ("me_app_id4711-99_11-21-7-1_1.darshan", 4711),
        ("me_app_id47-47_11-21-7-1_1.darshan", 4711),  # somebody renamed it
        ("renamed.darshan", 4711),
        ("me/app/id4711/n1/4711-11-21-7-1_1.darshan", None),
        ("me/app/id4711/n1/99-11-21-7-1_1.darshan", 4711),
        ("me/app/id4711/n1/4711/99-11-21-7-1_1.darshan", 4711),
        ("me/app_id4711-4711_1-1-1/id4711/n1/99-11-21-7-1_1.darshan", 4711),
    ],
)
def test_a_pid_is_no_job_id(tmp_path, name, jobid):
    """The runtime names job and process in the path; without a job it takes the pid for both."""
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    assert read_log(MadeLog(jobid=4711).write(path)).jobid == jobid


@pytest.mark.parametrize(
    ("parent", "jobid"), [("4711", None), ("47110", 4711), ("", 4711), ("9" * 900, 4711)]
)
def test_the_pid_of_which_a_process_was_forked_is_no_job_id(tmp_path, parent, jobid):
    made = MadeLog(jobid=4711, metadata=f"lib_ver=3.5.0\nfork_parent={parent}\n")
    assert read_log(made.write(tmp_path / "a.darshan")).jobid == jobid


@given(
    st.lists(
        st.tuples(st.integers(1, 3), st.integers(1000, 1001), st.integers(0, 20000)), max_size=12
    ),
    st.randoms(),
)
def test_every_log_is_in_one_job_whatever_the_order(drawn, random):
    runs = [
        a_run(i, jobid=jobid, uid=uid, start=start) for i, (jobid, uid, start) in enumerate(drawn)
    ]
    shuffled = list(runs)
    random.shuffle(shuffled)
    assert ids(runs) == ids(shuffled)
    assert sorted(i for group in ids(runs) for i in group) == list(range(len(runs)))
