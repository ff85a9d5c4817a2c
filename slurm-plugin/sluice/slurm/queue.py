"""The queue as `sluice-feed` tells it: jobs that changed, licences, reservations, room.

And how Slurm is told which licences jobs have from now on.

sluice-feed (slurm-plugin/controller/feed) is a child process that speaks libslurm, which may
hang for minutes and may crash. It answers in frames whose texts have a length in front, so nothing
that a user writes can end a field. It remembers what it told and tells only what changed.
"""

from __future__ import annotations

import fcntl
import os
import re
import select
import struct
import subprocess
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self, cast

from sluice.slurm.children import FEED, REMEDY, Child, find_program
from sluice.slurm.record_matching import block_in, marks_in
from sluice.slurm.records import FeedError, License, LicenseChange, QueuedJob, Reservation, Room
from sluice.slurm.slurm_commands import PING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path
    from typing import IO

TIMEOUT = 15.0
"""Seconds to wait for an answer; libslurm itself gives up after MessageTimeout, 10 s."""
MAX_FRAME = 1 << 26
"""Bytes: a record of an array's tasks may be long, but not endless."""
CHUNK = 1 << 20
ERRORS_SHOWN = 200
"""Bytes of what the program wrote last to standard error."""
BATCH = 25
"""Changes in one request: at 1,024 bytes a text they fit into a pipe, so sending never waits."""

PROTOCOL = 4
HELLO, JOB, GONE, LICENSE, RESERVATION, ROOM, ERROR, END, CHANGE, PRIORITIES, REASON = range(1, 12)
"""Kinds of frames, slurm-plugin/controller/feed/frame.h."""
ASK_JOBS, ASK_LICENSES, ASK_RESERVATIONS, ASK_ROOM, ASK_ONE_JOB, ASK_CHANGES = 1, 2, 4, 8, 16, 32
"""Bits of a request, slurm-plugin/controller/feed/sluice_feed.c."""

HEAD = struct.Struct("=IB")
REQUEST = struct.Struct("=II")
HELLO_HEAD = struct.Struct("=II")
JOB_HEAD = struct.Struct("=10I4q8I")
"""Numbers, times, and lengths of the texts behind them."""
LICENSE_HEAD = struct.Struct("=3I")
RESERVATION_HEAD = struct.Struct("=qqQI")
ROOM_HEAD = struct.Struct("=3I")
CHANGE_HEAD = struct.Struct("=3I")
OUTCOME_HEAD = struct.Struct("=2I")
NUMBER = struct.Struct("=I")
PRIORITY = struct.Struct("=2I")
"""Job id and priority."""

NO_VAL = 0xFFFFFFFE  # slurm.h: what stands for a number that is not set


@dataclass(frozen=True, slots=True)
class Changes:
    """What is new since the poll before."""

    changed: list[QueuedJob]
    """New jobs, and those that are not as they were."""
    gone: list[QueuedJob]
    """As they were when Slurm forgot them."""
    priorities: Mapping[int, int] = field(default_factory=dict)
    """By job id, of the jobs that have another than before."""
    reasons: Mapping[int, str] = field(default_factory=dict)
    """By job id, of those that wait for something else than before."""


class Queue:
    """What the controller knows, kept up to date by `poll`."""

    def __init__(self, command: Sequence[str | Path] | None = None) -> None:
        """Make an empty one; command is the program that answers; sluice-feed unless given."""
        self.jobs: dict[int, QueuedJob] = {}
        """By job id; the same object while a job does not change."""
        self.running: dict[int, QueuedJob] = {}
        """Those of them that run."""
        self.pending = 0
        """How many of them wait."""
        self.priorities: dict[int, int] = {}
        """By job id; 0: held. Apart from the jobs, as those of a whole queue change at once."""
        self.reasons: dict[int, str] = {}
        """Why jobs wait, by job id; apart from them likewise."""
        self.licenses: dict[str, License] = {}
        self.reservations: list[Reservation] = []
        self.room: dict[str, Room] = {}
        """By partition; as of the latest poll that asked for it."""
        self._feed = Feed(command)
        self.feed = self._feed.child
        """Says how sluice-feed fares."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        self._feed.close()

    def poll(self, *, with_room: bool = False, timeout: float = TIMEOUT) -> Changes:
        """Ask Slurm what changed. After an error everything is as it was before."""
        answer = Answer()
        is_first = self._feed.ask(
            ASK_JOBS | ASK_LICENSES | ASK_RESERVATIONS | (ASK_ROOM if with_room else 0),
            answer.take,
            timeout=timeout,
        )
        if is_first:  # it told everything: what it did not tell is gone
            answer.gone = self.jobs.keys() - {job.job_id for job in answer.jobs}
        self.licenses = {one.name: one for one in answer.licenses}
        self.reservations = answer.reservations
        if with_room:
            self.room = answer.room
        return self.take(answer)

    def change(self, wanted: Sequence[LicenseChange]) -> dict[int, str]:
        """Change jobs' licences, each unless it was changed or started since the latest poll.

        Return by job id why a change was not made, in words; empty where it was. What Slurm
        was not told before sluice-feed failed has the reason for that.
        """
        said: dict[int, str] = {}
        for start in range(0, len(wanted), BATCH):
            batch = wanted[start : start + BATCH]
            answer = Answer()
            missing = f"{FEED} said nothing of it"
            try:
                payload = b"".join(map(pack_change, batch))
                self._feed.ask(ASK_CHANGES, answer.take, payload=payload, timeout=TIMEOUT)
            except FeedError as error:
                missing = str(error)
            said |= {one.job.job_id: answer.outcomes.get(one.job.job_id, missing) for one in batch}
        return said

    def take(self, answer: Answer) -> Changes:
        """Take up what an answer told of jobs."""
        changed = [job for job in answer.jobs if self.jobs.get(job.job_id) != job]
        for job in changed:
            self.put(job)
        gone = [self.forget(job_id) for job_id in answer.gone if job_id in self.jobs]
        self.priorities |= answer.priorities
        self.reasons |= answer.reasons
        return Changes(changed, gone, answer.priorities, answer.reasons)

    def put(self, job: QueuedJob) -> None:
        """Take up a job as it is now."""
        before = self.jobs.get(job.job_id)
        self.jobs[job.job_id] = job
        self.pending += job.is_pending - (before is not None and before.is_pending)
        if job.is_running:
            self.running[job.job_id] = job
        else:
            self.running.pop(job.job_id, None)

    def forget(self, job_id: int) -> QueuedJob:
        """Drop a job; return what it was."""
        job = self.jobs.pop(job_id)
        self.pending -= job.is_pending
        self.running.pop(job_id, None)
        self.priorities.pop(job_id, None)
        self.reasons.pop(job_id, None)
        return job


def queued_job(name: str, *, timeout: float = TIMEOUT) -> tuple[QueuedJob, str] | None:
    """Ask for one job, 4711 or 4711_3, and why it waits.

    None when the controller does not know it (any more).

    For an array as a whole, any of its tasks.
    """
    number, _, task = name.partition("_")
    answer, feed = Answer(), Feed()
    try:
        feed.ask(ASK_ONE_JOB, answer.take, job_id=int(number), timeout=timeout)
    finally:
        feed.close()
    for job, tasks in zip(answer.jobs, answer.tasks, strict=True):
        if has_task(tasks, int(task)) if task else int(number) in {job.job_id, job.submission_id}:
            return job, answer.reasons[job.job_id]
    return None


# What the frames say


@dataclass(slots=True)
class Answer:
    """What the frames of one answer told."""

    jobs: list[QueuedJob] = field(default_factory=list)
    tasks: list[str] = field(default_factory=list)
    """Of each of the jobs, as an array."""
    gone: set[int] = field(default_factory=set)
    licenses: list[License] = field(default_factory=list)
    reservations: list[Reservation] = field(default_factory=list)
    room: dict[str, Room] = field(default_factory=dict)
    outcomes: dict[int, str] = field(default_factory=dict)
    """By job id, why a change was not made; empty where it was."""
    priorities: dict[int, int] = field(default_factory=dict)
    """By job id."""
    reasons: dict[int, str] = field(default_factory=dict)
    """Why jobs wait, by job id."""

    def take(self, kind: int, payload: bytes) -> None:
        """Read one frame. Raises struct.error or ValueError where it is none of ours."""
        if kind == JOB:
            job, tasks = parse_job(payload)
            self.jobs.append(job)
            self.tasks.append(tasks)
        elif kind == GONE:
            self.gone.update(number for (number,) in NUMBER.iter_unpack(payload))
        elif kind == PRIORITIES:
            self.priorities.update(PRIORITY.iter_unpack(payload))
        elif kind == REASON:
            (length,) = NUMBER.unpack_from(payload)
            begin = NUMBER.size + length
            told = (number for (number,) in NUMBER.iter_unpack(payload[begin:]))
            self.reasons |= dict.fromkeys(told, decoded(payload[NUMBER.size : begin]))
        elif kind == LICENSE:
            self.licenses.append(parse_license(payload))
        elif kind == RESERVATION:
            self.reservations.append(parse_reservation(payload))
        elif kind == ROOM:
            nodes, cpus, is_unlimited = ROOM_HEAD.unpack_from(payload)
            (name,) = texts(payload, ROOM_HEAD.size, 1)
            self.room[name] = Room(nodes, cpus, is_unlimited=bool(is_unlimited))
        elif kind == CHANGE:
            job_id, outcome = OUTCOME_HEAD.unpack_from(payload)
            (why,) = texts(payload, OUTCOME_HEAD.size, 1)
            self.outcomes[job_id] = why if outcome else ""
        else:
            raise ValueError(f"a frame of kind {kind}")


def decoded(text: bytes) -> str:
    return text.decode(errors="surrogateescape")


def parse_job(payload: bytes) -> tuple[QueuedJob, str]:
    """Return a job, and the tasks of an array that it stands for."""
    head = JOB_HEAD.unpack_from(payload)
    job_id, array, component, restarts, uid, nodes, tasks, cpus, limit, status = head[:10]
    submit, eligible, start, end = head[10:14]
    lengths = head[14:]
    at = JOB_HEAD.size
    cut = []
    for length in lengths:
        cut.append(decoded(payload[at : at + length]))
        at += length
    if at != len(payload):
        raise ValueError("a job whose texts do not fill their frame")
    state, account, partition, qos, licenses, task_ids, notes, name = cut
    job = QueuedJob(
        job_id=job_id,
        submission_id=array or job_id,
        component=number_of(component),
        is_array=bool(array),
        tasks_waiting=count_tasks(task_ids) if task_ids else 1,
        restarts=restarts,
        uid=uid,
        submit=submit,
        eligible=eligible if 0 < eligible < NO_VAL else None,
        start=start if 0 < start < NO_VAL else None,
        end=end if 0 < end < NO_VAL else None,
        state=state,
        account=account or None,
        partition=partition,
        qos=qos or None,
        nodes=nodes if nodes < NO_VAL else 0,
        tasks=tasks if tasks < NO_VAL else 0,
        cpus=cpus if cpus < NO_VAL else 0,
        time_limit=number_of(limit),
        licenses=licenses,
        exit_code=exit_code_of(status),
        name=name,
        marks=marks_in(notes) if notes else (),
        block=block_in(notes) if notes else (0, 0),
    )
    return job, task_ids


def parse_license(payload: bytes) -> License:
    total, used, reserved = LICENSE_HEAD.unpack_from(payload)
    (name,) = texts(payload, LICENSE_HEAD.size, 1)
    return License(name=name, total=total, used=used, reserved=reserved)


def parse_reservation(payload: bytes) -> Reservation:
    start, end, flags, nodes = RESERVATION_HEAD.unpack_from(payload)
    name, licenses = texts(payload, RESERVATION_HEAD.size, 2)
    return Reservation(name=name, start=start, end=end, flags=flags, nodes=nodes, licenses=licenses)


def pack_change(change: LicenseChange) -> bytes:
    job = change.job
    head = CHANGE_HEAD.pack(job.job_id, change.target, job.is_pending)
    return head + pack_text(job.licenses) + pack_text(change.licenses)


def pack_text(text: str) -> bytes:
    encoded = text.encode(errors="surrogateescape")
    return NUMBER.pack(len(encoded)) + encoded


def texts(payload: bytes, at: int, count: int) -> list[str]:
    """Return so many texts, each behind its length, which must fill the payload."""
    found = []
    for _ in range(count):
        (length,) = NUMBER.unpack_from(payload, at)
        at += NUMBER.size + length
        found.append(decoded(payload[at - length : at]))
    if at != len(payload):
        raise ValueError("texts that do not fill their frame")
    return found


def number_of(value: int) -> int | None:
    return None if value >= NO_VAL else value


def exit_code_of(status: int) -> str | None:
    """Write wait(2)'s status as sacct does, `exit:signal`."""
    return None if status >= NO_VAL else f"{status >> 8 & 0xFF}:{status & 0x7F}"


def task_ranges(listed: str) -> list[tuple[int, int, int]]:
    """Return first, last and step of the tasks in `1-3,7,10-20:5%4`; at most 4 run at once."""
    found = re.findall(r"(\d+)(?:-(\d+))?(?::(\d+))?", listed.partition("%")[0])
    return [(int(first), int(last or first), int(step or 1) or 1) for first, last, step in found]


def count_tasks(listed: str) -> int:
    """Count the tasks that a record stands for; 1 where it is no array."""
    return sum((last - first) // step + 1 for first, last, step in task_ranges(listed)) or 1


def has_task(listed: str, task: int) -> bool:
    return any(
        first <= task <= last and (task - first) % step == 0
        for first, last, step in task_ranges(listed)
    )


# The program that answers


class FrameReader:
    """Cuts what arrives into frames."""

    def __init__(self) -> None:
        self._rest = b""

    def take(self, data: bytes) -> list[tuple[int, bytes]]:
        """Return kind and payload of the frames that are whole now."""
        data = self._rest + data
        found = []
        begin = 0
        while len(data) - begin >= HEAD.size:
            length, kind = HEAD.unpack_from(data, begin)
            if length > MAX_FRAME:
                raise ValueError(f"a frame of {length} bytes")
            end = begin + HEAD.size + length
            if end > len(data):
                break
            found.append((kind, data[begin + HEAD.size : end]))
            begin = end
        self._rest = data[begin:]
        return found


class Pipes:
    """A sluice-feed that runs, with its input, output and errors."""

    def __init__(self, child: Child, command: Sequence[str | Path]) -> None:
        self._errors = os.memfd_create(child.name)
        fcntl.fcntl(self._errors, fcntl.F_SETFL, os.O_APPEND)
        environment = {k: v for k, v in os.environ.items() if k != "SLURM_CLUSTERS"}
        try:
            self._process = child.start(
                command,
                bufsize=0,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                env=environment,
            )
        except OSError as error:
            os.close(self._errors)
            raise FeedError(f"{command[0]}: {error.strerror}; {REMEDY}") from error

    def kill(self) -> None:
        self._process.kill()
        self._process.communicate()
        os.close(self._errors)

    def send(self, request: bytes) -> None:
        os.ftruncate(self._errors, 0)
        with suppress(BrokenPipeError):  # it ended: read() tells
            cast("IO[bytes]", self._process.stdin).write(request)

    def read(self, seconds: float) -> bytes:
        """Return what it sent, empty when that takes too long."""
        handle = cast("IO[bytes]", self._process.stdout).fileno()
        if seconds <= 0 or not select.select([handle], [], [], seconds)[0]:
            return b""
        data = os.read(handle, CHUNK)
        if not data:
            code = self._process.wait()
            raise FeedError(f"{FEED} ended ({code}): {self._last_words()}")
        return data

    def _last_words(self) -> str:
        size = os.fstat(self._errors).st_size
        text = os.pread(self._errors, ERRORS_SHOWN, max(0, size - ERRORS_SHOWN))
        lines = decoded(text).strip().splitlines()
        return lines[-1] if lines else "it said nothing"


class Feed:
    """One sluice-feed at a time: started when it is needed, killed when it hangs."""

    def __init__(self, command: Sequence[str | Path] | None = None) -> None:
        self.child = Child(FEED)
        self._command = command
        self._pipes: Pipes | None = None
        self._reader = FrameReader()
        self._is_first = True

    def close(self) -> None:
        """End the program, whatever it is doing."""
        if self._pipes is not None:
            self._pipes.kill()
            self._pipes = None

    def ask(
        self,
        what: int,
        take: Callable[[int, bytes], None],
        *,
        job_id: int = 0,
        payload: bytes = b"",
        timeout: float,
    ) -> bool:
        """Hand the frames of the answer to `take`; return whether it tells all jobs there are.

        Raises SlurmError; what was told before is to be forgotten then.
        """
        PING.check()
        pipes = self._pipes or self._start()
        try:
            pipes.send(REQUEST.pack(what, len(payload) if payload else job_id) + payload)
            refusal = self._receive(pipes, take, timeout)
        except FeedError as error:
            self._give_up(str(error))
            raise
        except (struct.error, ValueError) as error:
            text = f"{FEED} sent {error}; build and install it and Sluice from one version"
            self._give_up(text)
            raise FeedError(text) from error
        except BaseException:  # such as a signal: the rest of the answer is still to come
            self.close()
            raise
        self.child.works()
        if refusal is not None:
            raise FeedError(f"Slurm does not tell its {refusal}; see `scontrol ping`")
        is_first = self._is_first
        self._is_first = is_first and not what & ASK_JOBS
        return is_first

    def _start(self) -> Pipes:
        if not self.child.is_due:
            raise FeedError(f"{self.child.state.last_exit}; it is started again soon")
        try:
            command = self._command or [find_program(FEED)]
        except FileNotFoundError as error:
            raise FeedError(str(error)) from error
        self._pipes = Pipes(self.child, command)
        self._reader = FrameReader()
        self._is_first = True
        return self._pipes

    def _receive(
        self, pipes: Pipes, take: Callable[[int, bytes], None], timeout: float
    ) -> str | None:
        """Read an answer to its end; return what Slurm refused, if it did."""
        deadline = time.monotonic() + timeout
        refusal = None
        while data := pipes.read(deadline - time.monotonic()):
            for kind, payload in self._reader.take(data):
                if kind == END:
                    return refusal
                if kind == HELLO:
                    check_hello(payload)
                elif kind == ERROR:
                    (refusal,) = texts(payload, NUMBER.size, 1)
                else:
                    take(kind, payload)
        raise FeedError(
            f"{FEED} gave no answer within {timeout:g} s; is slurmctld up? See `scontrol ping`"
        )

    def _give_up(self, why: str) -> None:
        """Kill it, and start it again after a while."""
        self.close()
        self.child.has_ended(why)


def check_hello(payload: bytes) -> None:
    protocol, _slurm_version = HELLO_HEAD.unpack(payload)
    if protocol != PROTOCOL:
        raise ValueError(f"protocol {protocol} where {PROTOCOL} is expected")
