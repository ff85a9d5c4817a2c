"""Which logs are of one job."""

from dataclasses import replace

from arriving_logs import JOB
from hypothesis import given
from hypothesis import strategies as st

from sluice.history_db.records import Log, Profile, Run
from sluice.ingest.trust import LONGEST_PAUSE, by_job, is_pid

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


def test_a_pid_is_no_job_id():
    """The runtime names a log …_id<job>-<pid>_…; without a job it takes the pid for both."""
    pid = "me_app_id4711-4711_11-21-7-1_1.darshan"
    job = "me_app_id4711-99_11-21-7-1_1.darshan"
    assert is_pid(a_run(1, name=pid, jobid=4711).log)
    assert not is_pid(a_run(1, name=job, jobid=4711).log)
    assert not is_pid(a_run(1, name="renamed.darshan", jobid=4711).log)
    assert not is_pid(a_run(1, name=pid, jobid=4712).log)  # somebody renamed it
    assert ids([a_run(i, name=pid, jobid=4711) for i in (1, 2)]) == [[1], [2]]
    assert ids([a_run(i, name=job, jobid=4711) for i in (1, 2)]) == [[1, 2]]


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
