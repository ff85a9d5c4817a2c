"""The queue is what sluice-feed tells, whatever bytes users write and whatever becomes of it."""

import os
import signal
import struct
import sys
from contextlib import suppress
from pathlib import Path

import feed_frames as frames
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.slurm import children, queue
from sluice.slurm.queue import Answer, FrameReader, Queue, count_tasks, has_task
from sluice.slurm.records import FeedError, LicenseChange, QueuedJob, Room

STAND_IN = Path(frames.__file__).with_name("feed_stand_in.py")
ANY_BYTES = st.binary(max_size=40).filter(lambda text: b"\0" not in text)


def parsed(**members: object) -> QueuedJob:
    return queue.parse_job(frames.job_payload(**members))[0]


def test_a_frame_is_a_job():
    job = parsed()
    assert (job.job_id, job.submission_id, job.uid, job.nodes, job.tasks) == (12, 12, 1000, 2, 8)
    assert (job.submit, job.start, job.end) == (1795251076, 1795251079, 1795251379)
    assert (job.eligible, job.licenses) == (1795251077, "tool:2,sl0_stream")
    assert (job.account, job.qos, job.time_limit, job.component) == (None, "normal", 5, None)
    assert (job.exit_code, job.marks) == ("0:0", ())
    assert job.is_running
    assert not job.is_array


def test_a_task_belongs_to_its_array_and_a_component_to_itself():
    task = parsed(array_id=9, task_ids=b"3")
    assert (task.submission_id, task.is_array, task.tasks_waiting) == (9, True, 1)
    assert parsed(array_id=9, task_ids=b"4-7%2").tasks_waiting == 4
    component = parsed(component=1)
    assert (component.submission_id, component.component) == (12, 1)


def test_what_slurm_has_no_value_for_is_unknown():
    job = parsed(start=0, end=queue.NO_VAL, time_limit=queue.NO_VAL + 1, tasks=queue.NO_VAL)
    assert (job.start, job.end, job.time_limit, job.tasks) == (None, None, None, 0)


@pytest.mark.parametrize(("status", "shown"), [(0, "0:0"), (768, "3:0"), (9, "0:9")])
def test_a_wait_status_is_written_as_sacct_does(status, shown):
    assert parsed(status=status).exit_code == shown


def test_the_marks_are_those_of_the_notes():
    notes = b"sluice(v=1,rec=a-1,klass=x) sluice(v=1,rec=b0-22,"
    assert set(parsed(notes=notes).marks) == {(0xA, 1), (0xB0, 22)}


@pytest.mark.parametrize(
    ("listed", "count"),
    [("", 1), ("3", 1), ("1-3", 3), ("0-9:3%2", 4), ("1,3,5-6", 4), ("0-4294967294", 4294967295)],
)
def test_tasks_that_wait_are_counted(listed, count):
    assert count_tasks(listed) == count


@given(st.sets(st.integers(0, 300), min_size=1))
def test_a_task_is_found_in_the_list_it_is_in(tasks):
    listed = ",".join(map(str, sorted(tasks))) + "%4"
    assert {task for task in range(301) if has_task(listed, task)} == tasks
    assert count_tasks(listed) == len(tasks)


@given(name=ANY_BYTES, account=ANY_BYTES, partition=ANY_BYTES, licenses=ANY_BYTES)
def test_no_text_shifts_a_field(name, account, partition, licenses):
    job = parsed(name=name, account=account, partition=partition, licenses=licenses)
    assert os.fsencode(job.name) == name
    assert os.fsencode(job.account or "") == account
    assert os.fsencode(job.partition) == partition
    assert os.fsencode(job.licenses) == licenses
    assert (job.state, job.uid) == ("RUNNING", 1000)


# Frames


@given(st.lists(st.tuples(st.integers(0, 255), st.binary(max_size=50))), st.data())
def test_frames_are_the_same_in_whatever_pieces_they_come(sent, data):
    stream = b"".join(frames.frame(kind, payload) for kind, payload in sent)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=8)))
    pieces = [stream[a:b] for a, b in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    reader = FrameReader()
    assert [frame for piece in pieces for frame in reader.take(piece)] == sent


@given(st.integers(queue.MAX_FRAME + 1, 0xFFFFFFFF))
def test_a_frame_without_measure_is_refused(length):
    with pytest.raises(ValueError, match=f"a frame of {length} bytes"):
        FrameReader().take(queue.HEAD.pack(length, queue.JOB))


@given(st.integers(0, 12), st.binary(max_size=200))
def test_hostile_frames_are_refused_or_read_and_never_more(kind, payload):
    with suppress(struct.error, ValueError):
        Answer().take(kind, payload)


@given(st.data())
def test_a_job_cut_short_is_refused(data):
    payload = frames.job_payload()
    with pytest.raises((struct.error, ValueError)):
        queue.parse_job(payload[: data.draw(st.integers(0, len(payload) - 1))])


# A program that answers


@pytest.fixture
def feed(tmp_path):
    """A stand-in for sluice-feed: `answers` are what it sends, one a request; then it hangs."""

    def made(*answers: bytes) -> Queue:
        for number, answer in enumerate(answers):
            (tmp_path / f"{number}").write_bytes(answer)
        return Queue([sys.executable, STAND_IN, tmp_path])

    return made


def answer(*parts: bytes) -> bytes:
    return b"".join((*parts, frames.end()))


def test_jobs_stay_the_same_objects_until_they_change_or_go(feed):
    first = answer(frames.hello(), frames.job(job_id=1), frames.job(job_id=2), frames.gone())
    second = answer(frames.job(job_id=2, nodes=3), frames.job(job_id=3))
    with feed(first, second, answer(frames.gone(1))) as seen:
        assert {job.job_id for job in seen.poll().changed} == {1, 2}
        one = seen.jobs[1]
        assert [job.job_id for job in seen.poll().changed] == [2, 3]
        assert seen.jobs[1] is one
        changes = seen.poll()
        assert (changes.changed, changes.gone) == ([], [one])
        assert sorted(seen.jobs) == [2, 3]


def test_another_priority_or_reason_leaves_a_job_as_it_is(feed):
    first = answer(
        frames.hello(),
        frames.job(job_id=1),
        frames.job(job_id=2),
        frames.priorities({1: 5, 2: 9}),
        frames.reason(b"Priority", 1, 2),
    )
    second = answer(frames.priorities({1: 7}), frames.reason(b"Resources", 1))
    with feed(first, second, answer(frames.gone(2))) as seen:
        seen.poll()
        one = seen.jobs[1]
        changes = seen.poll()
        assert (changes.changed, changes.gone, changes.priorities) == ([], [], {1: 7})
        assert seen.jobs[1] is one
        assert changes.reasons == {1: "Resources"}
        assert seen.priorities == {1: 7, 2: 9}
        assert seen.reasons == {1: "Resources", 2: "Priority"}
        seen.poll()
        assert (seen.priorities, seen.reasons) == ({1: 7}, {1: "Resources"})


def test_answers_of_many_pieces_follow_each_other(feed):
    """A pipe holds 64 KiB."""
    many = [frames.job(job_id=i) for i in range(1, 3000)]
    with feed(answer(frames.hello(), *many), answer(), answer(frames.gone(7))) as seen:
        assert len(seen.poll().changed) == 2999
        assert seen.poll().changed == []
        assert [job.job_id for job in seen.poll().gone] == [7]


def test_an_answer_tells_licences_reservations_and_room(feed):
    told = answer(
        frames.hello(),
        frames.license_of(b"sl0_stream", 100, 3, 97),
        frames.reservation(b"sluice_sl0_stream", b"sl0_stream:97", end=5),
        frames.room(b"main", 2, 6),
        frames.room(b"shared", 0, 0, is_unlimited=True),
    )
    with feed(told) as seen:
        seen.poll(with_room=True)
        assert (seen.licenses["sl0_stream"].used, seen.licenses["sl0_stream"].reserved) == (3, 97)
        assert [(one.name, one.end, one.nodes) for one in seen.reservations] == [
            ("sluice_sl0_stream", 5, 0)
        ]
        assert seen.room["main"] == Room(2, 6, is_unlimited=False)
        assert seen.room["shared"].is_unlimited


def test_what_slurm_refuses_changes_nothing(feed):
    first = answer(frames.hello(), frames.job(job_id=1))
    refused = answer(frames.license_of(b"a", 1), frames.error(b"jobs: Unable to contact"))
    with feed(first, refused, answer(frames.job(job_id=2))) as seen:
        seen.poll()
        with pytest.raises(FeedError, match=r"Unable to contact; see `scontrol ping`"):
            seen.poll()
        assert (sorted(seen.jobs), seen.licenses) == ([1], {})
        assert [job.job_id for job in seen.poll().changed] == [2]


def test_each_change_has_its_own_outcome(feed):
    wanted = [LicenseChange(parsed(job_id=number), "tool:2") for number in (1, 2, 3)]
    told = answer(frames.hello(), frames.outcome(1), frames.outcome(2, b"Invalid license"))
    with feed(told, answer(frames.job(job_id=1))) as seen:
        said = seen.change(wanted)
        assert said == {1: "", 2: "Invalid license", 3: "sluice-feed said nothing of it"}
        assert [job.job_id for job in seen.poll().changed] == [1]


def test_changes_go_in_requests_that_fit_into_a_pipe(feed):
    long = "x" * 1024
    wanted = [LicenseChange(parsed(job_id=i, licenses=long.encode()), long) for i in range(60)]
    batches = (wanted[:25], wanted[25:50], wanted[50:])
    told = [answer(*(frames.outcome(one.job.job_id) for one in batch)) for batch in batches]
    with feed(frames.hello() + told[0], *told[1:]) as seen:
        assert seen.change(wanted) == dict.fromkeys(range(60), "")


def test_jobs_told_to_a_new_program_are_all_there_are_also_behind_a_change(feed):
    whole = (frames.hello(), frames.job(job_id=1), frames.job(job_id=2))
    changed = answer(frames.hello(), frames.outcome(2))
    with feed(answer(*whole), b"end", changed, answer(whole[2])) as seen:
        seen.poll()
        change = LicenseChange(seen.jobs[2], "")
        assert "out of luck" in seen.change([change])[2]
        assert seen.change([change]) == {2: ""}
        assert [job.job_id for job in seen.poll().gone] == [1]


@pytest.mark.parametrize("half", [b"end", frames.frame(99) + frames.end(), frames.hello(7)])
def test_a_program_that_fails_is_started_anew_and_nothing_is_told_twice(feed, half):
    whole = (frames.hello(), frames.job(job_id=1), frames.job(job_id=2))
    with feed(answer(*whole), half, answer(whole[0], whole[2])) as seen:
        seen.poll()
        two = seen.jobs[2]
        with pytest.raises(FeedError):
            seen.poll()
        changes = seen.poll()
        assert ([job.job_id for job in changes.gone], changes.changed) == ([1], [])
        assert seen.jobs[2] is two


def test_a_program_that_ends_is_quoted(feed):
    with feed(b"end") as seen, pytest.raises(FeedError, match=r"ended \(1\): error: out of luck"):
        seen.poll()


@pytest.mark.parametrize("stop", [None, signal.SIGSTOP])
def test_a_program_that_hangs_is_killed_in_time(feed, stop):
    with feed(answer(frames.hello(), frames.job(job_id=1))) as seen:
        seen.poll()
        process = seen._feed._pipes._process  # noqa: SLF001 # whom to stop
        if stop:
            os.kill(process.pid, stop)
        with pytest.raises(FeedError, match=r"no answer within 0\.2 s"):
            seen.poll(timeout=0.2)
        assert process.returncode == -signal.SIGKILL
        assert sorted(seen.jobs) == [1]


def test_a_program_that_fails_again_and_again_is_given_a_rest(feed):
    with feed(b"end", b"end", b"end") as seen:
        for text in ("ended", "ended", "soon"):
            with pytest.raises(FeedError, match=text):
                seen.poll()


def test_a_program_that_is_missing_is_named_with_the_remedy(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(queue, "FEED", "no-such-feed")
    monkeypatch.setitem(children.LIMITS, "no-such-feed", children.LIMITS[children.FEED])
    with Queue() as seen, pytest.raises(FeedError, match=r"no no-such-feed in PATH, nor .*install"):
        seen.poll()
    with Queue([tmp_path / "none"]) as seen, pytest.raises(FeedError, match="No such file"):
        seen.poll()


def test_a_queue_that_is_closed_leaves_no_process(feed):
    with feed(answer(frames.hello())) as seen:
        seen.poll()
        process = seen._feed._pipes._process  # noqa: SLF001 # of which nothing may stay
        assert process.poll() is None
    assert process.returncode is not None
