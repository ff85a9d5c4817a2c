"""Reads logs in processes of their own, because a damaged log may crash or hang the library.

A worker is handed several logs, and first says that it has them. If it dies, hangs or needs too
much memory afterwards, the logs that it has not answered for are read again one by one, and the
one that does it again is given up; a new worker takes its place. A worker that dies before has met
no log: the same ones are handed to the next. Results come in the order in which they are ready.
"""

from __future__ import annotations

import contextlib
import faulthandler
import multiprocessing
import os
import resource
import signal
import sys
import tempfile
import time
from collections import deque
from dataclasses import dataclass, field
from itertools import islice
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeVar

from sluice.darshan.log import DarshanLibraryError, DarshanLogError, digest_file
from sluice.patterns.profile import Reading, measured, readings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator


T = TypeVar("T")

SECONDS = 60.0  # for one log; the largest known takes less than one
MEMORY = 8 << 30  # of address space, which is more than a log may need: 1 KiB a record
SHARE = 0.5  # of the machine's memory, for all workers alongside what they have when they start
BATCH = 128  # logs handed to a worker at once
PAUSE = 1.0  # seconds after which a worker answers for what it has read
MOST_STILLBORN = 8  # workers in a row that die before they have their logs
START_SECONDS = 60.0  # until a worker has its logs
DYING_SECONDS = 1.0  # for a worker without a pipe to end by itself

# A child must not inherit threads or locks; workers are started from one thread, before any other.
context: Any = multiprocessing.get_context("fork")


def start_from_a_clean_process() -> None:
    """Start workers from a small process from now on, not from this one.

    For a process that also learns: its libraries have threads, and a fork of it may hang.
    """
    global context  # noqa: PLW0603 - of the process, as its threads are
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["sluice.patterns.profile"])
    # else each worker would import what this program does
    vars(sys.modules["__main__"])["__file__"] = None


@dataclass(frozen=True, slots=True)
class Failure:
    """A log that could not be read."""

    path: Path
    reason: str
    digest: bytes | None = None
    """None where the bytes could not be read, or are too many."""


class WorkersDieError(DarshanLibraryError):
    """No worker lives until it has its logs."""


@dataclass(frozen=True, slots=True)
class _Death:
    """The end of a worker."""

    how: str
    is_late: bool
    """It was killed for taking too long."""


@dataclass(slots=True)
class _Worker:
    process: Any
    pipe: Connection
    todo: deque[Path] = field(default_factory=deque)
    has_logs: bool = False
    since: float = 0.0
    """When it was handed todo[0], or answered for the log before it; monotonic."""

    def hand(self, paths: Iterable[Path]) -> None:
        self.todo.extend(paths)
        self.has_logs = False
        self.since = time.monotonic()
        # A worker that died in the meantime is noticed when its answer is awaited.
        with contextlib.suppress(OSError):
            self.pipe.send(list(self.todo))

    def answered(self, count: int) -> None:
        self.has_logs = True
        for _ in range(count):
            self.todo.popleft()
        self.since = time.monotonic()

    def deadline(self, seconds: float) -> float:
        """Return when it takes too long, with so many seconds for a log."""
        return self.since + (seconds if self.has_logs else max(seconds, START_SECONDS))

    def last_word(self) -> str:
        """Say how it ended. join() may wait for good where a log made it close all it had."""
        until = time.monotonic() + DYING_SECONDS
        while self.process.exitcode is None and time.monotonic() < until:
            time.sleep(0.001)
        code = self.process.exitcode
        return "it closed its pipe" if code is None else _how_it_ended(code)

    def stop(self) -> None:
        self.process.kill()
        self.process.join()
        self.pipe.close()


@dataclass(slots=True)
class _Todo:
    """Readings that were not handed on yet."""

    paths: Iterator[Path]
    again: deque[list[Path]] = field(default_factory=deque)
    """Of workers that died: their logs together, or one by one."""
    suspects: set[Path] = field(default_factory=set)
    """Logs that a worker had when it died."""
    stillborn: int = 0
    """Workers that died before they had their logs, since one lived."""

    def batch(self) -> list[Path]:
        return self.again.popleft() if self.again else list(islice(self.paths, BATCH))

    def take_back(self, worker: _Worker, death: _Death) -> list[Failure]:
        """See to the logs of a worker that died; return the one that it died of, if it is known.

        Raises WorkersDieError.
        """
        logs = list(worker.todo)
        if not worker.has_logs:
            self.stillborn += 1
            if self.stillborn > MOST_STILLBORN:
                raise WorkersDieError(
                    f"{self.stillborn} processes that should read logs died at once ({death.how}); "
                    "is memory short, or the number of processes limited?"
                )
            self.again.append(logs)
            return []
        if len(logs) == 1 and (death.is_late or logs[0] in self.suspects):
            self.suspects.discard(logs[0])
            return [_failure(logs[0], death.how)]
        self.suspects.update(logs)
        self.again.extend([log] for log in logs)
        return []


def read_profiles(
    paths: Iterable[Path],
    *,
    workers: int = 1,
    seconds: float = SECONDS,
    memory: int = MEMORY,
) -> Iterator[Reading | Failure]:
    """Read the profiles of logs, in processes that may die of them. Raises DarshanLibraryError."""
    for answers in _answers(paths, measured, workers, seconds, memory):
        read = [answer for answer in answers if not isinstance(answer, Failure)]
        named = iter(readings(read))
        for answer in answers:
            yield answer if isinstance(answer, Failure) else next(named)


def read_each(
    paths: Iterable[Path],
    read: Callable[[Path], T],
    *,
    workers: int = 1,
    seconds: float = SECONDS,
    memory: int = MEMORY,
) -> Iterator[T | Failure]:
    """Yield read(path) of every log, in processes that may die of them.

    Raises DarshanLibraryError.
    """
    for answers in _answers(paths, read, workers, seconds, memory):
        yield from answers


def _answers(
    paths: Iterable[Path], read: Callable[[Path], T], workers: int, seconds: float, memory: int
) -> Iterator[list[T | Failure]]:
    """Yield what workers answer, several at a time; a log that one of them dies of is a Failure."""
    todo = _Todo(iter(paths))
    crew: list[_Worker] = []
    try:
        while True:
            while len(crew) < workers and (paths_to_read := todo.batch()):
                crew.append(_hire(min(memory, _fair_memory(workers)), read, crew))
                crew[-1].hand(paths_to_read)
            if not crew:
                return
            for worker in _ready(crew, seconds):
                answers = _take_answers(worker, seconds)
                if isinstance(answers, _Death):
                    failed = todo.take_back(worker, answers)
                    worker.stop()
                    crew.remove(worker)
                    yield [*failed]
                    continue
                todo.stillborn = 0
                todo.suspects.difference_update(islice(worker.todo, len(answers)))
                worker.answered(len(answers))
                yield answers
                if not worker.todo:
                    worker.hand(todo.batch())
                if not worker.todo:
                    worker.stop()
                    crew.remove(worker)
    finally:
        for worker in crew:
            worker.stop()


def _ready(crew: list[_Worker], seconds: float) -> list[_Worker]:
    """Wait for workers that have an answer, died, or have been at one log for too long."""
    patience = max(0.0, min(worker.deadline(seconds) for worker in crew) - time.monotonic())
    pipes = wait([worker.pipe for worker in crew], timeout=patience)
    now = time.monotonic()
    return [worker for worker in crew if worker.pipe in pipes or worker.deadline(seconds) <= now]


def _take_answers(worker: _Worker, seconds: float) -> list[Any] | _Death:
    """Return what became of the first logs of a worker; none: it says that it has them."""
    try:
        if not worker.pipe.poll():
            return _Death(f"reading it took longer than {seconds:.0f} s", is_late=True)
        answers = worker.pipe.recv()
    except (EOFError, OSError):  # nothing, half an answer, or logs that it had not taken
        return _Death(f"libdarshan-util crashed on it ({worker.last_word()})", is_late=False)
    if isinstance(answers, DarshanLibraryError):
        raise answers
    return list(answers)


def _how_it_ended(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    number = -code
    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time signal
        return f"signal {number}"


def _failure(path: Path, reason: str) -> Failure:
    """Name the file by its bytes where there are some, and not too many."""
    try:
        return Failure(path, reason, digest_file(path))
    except (OSError, DarshanLogError):
        return Failure(path, reason)


def _fair_memory(workers: int) -> int:
    """Return the bytes of address space that each of so many workers may have.

    Where logs are followed any user may leave giant ones: they must not fill the machine.
    """
    page = os.sysconf("SC_PAGE_SIZE")
    in_use = int(Path("/proc/self/statm").read_text().split()[0]) * page
    return in_use + int(SHARE * os.sysconf("SC_PHYS_PAGES") * page / workers)


# In the worker


def _hire(memory: int, read: Callable[[Path], Any], crew: Iterable[_Worker]) -> _Worker:
    ours, theirs = context.Pipe()
    others = [worker.pipe for worker in crew]
    process = context.Process(
        target=_work, args=(theirs, [ours, *others], memory, read), daemon=True
    )
    try:
        process.start()
    except (OSError, EOFError) as error:
        raise WorkersDieError(f"cannot start a process that reads logs: {error}") from error
    theirs.close()
    return _Worker(process, ours)


def _work(
    pipe: Connection, inherited: list[Connection], memory: int, read: Callable[[Path], Any]
) -> None:
    for other in inherited:  # else a worker would not notice that its parent is gone
        other.close()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides
    faulthandler.disable()  # a crash is expected, and its cause known
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    with tempfile.TemporaryFile() as words:
        os.dup2(words.fileno(), 1)
        os.dup2(words.fileno(), 2)
        with contextlib.suppress(EOFError, BrokenPipeError):
            while True:
                try:
                    for answers in _read_batch(pipe.recv(), read, words):
                        pipe.send(answers)
                except DarshanLibraryError as error:  # no fault of any log
                    pipe.send(error)


def _read_batch(
    paths: list[Path], read: Callable[[Path], T], words: IO[bytes]
) -> Iterator[list[T | Failure]]:
    """Read logs, and answer for those of a pause together; first, that they are here."""
    yield []
    answers: list[T | Failure] = []
    since = time.monotonic()
    for path in paths:
        answers.append(_attempt(path, read, words))
        if time.monotonic() - since > PAUSE:
            yield answers
            answers, since = [], time.monotonic()
    if answers:
        yield answers


def _attempt(path: Path, read: Callable[[Path], T], words: IO[bytes]) -> T | Failure:
    if os.lseek(words.fileno(), 0, os.SEEK_CUR):  # a log before made the library say something
        words.seek(0)
        words.truncate()
    try:
        return read(path)
    except DarshanLogError as error:
        said = _last_line(words)
        return _failure(path, f"{error} (libdarshan-util: {said})" if said else str(error))
    except OSError as error:
        return _failure(path, f"cannot be read: {error.strerror or error}")
    except DarshanLibraryError:
        raise
    except MemoryError:
        return _failure(path, "reading it needs too much memory")
    except Exception as error:  # noqa: BLE001 - whatever a log provokes costs that log alone
        return _failure(path, f"cannot be understood: {error!r}")


def _last_line(words: IO[bytes]) -> str:
    words.seek(0)
    lines = words.read(1 << 16).decode(errors="replace").strip().splitlines()
    said = lines[-1].removeprefix("Error:").strip().rstrip(".") if lines else ""
    return said.removesuffix(f": {os.strerror(0)}")  # it shows errno, set or not
