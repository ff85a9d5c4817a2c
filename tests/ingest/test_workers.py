"""Processes that read logs may die at any moment, of a log or of anything else."""

import multiprocessing
import os
import resource
import signal
import sys
import threading
import time
from pathlib import Path

import pytest

from sluice.ingest import workers
from sluice.ingest.workers import BATCH, Failure, WorkersDieError, read_each

KILLER = "killer"
WAYS = {
    "SIGKILL": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "SIGSEGV": lambda: os.kill(os.getpid(), signal.SIGSEGV),
    "signal 40": lambda: os.kill(os.getpid(), 40),
    "exit code 0": lambda: os._exit(0),
    "exit code 3": lambda: os._exit(3),
    "exit code 1": lambda: sys.exit(1),
}


def logs(count: int) -> list[Path]:
    return [Path(f"/nowhere/{number}.darshan") for number in range(count)]


def close_all_descriptors() -> None:
    os.closerange(3, 1 << 10)


@pytest.mark.parametrize("how", WAYS)
@pytest.mark.parametrize("place", [0, BATCH + 5])
def test_a_log_that_kills_is_named_alone_and_the_others_are_read(how, place):
    paths = logs(2 * BATCH + 10)
    killer = paths[place]

    def read(path: Path) -> Path:
        if path == killer:
            WAYS[how]()
        return path

    results = list(read_each(paths, read, workers=2))
    failed = [result for result in results if isinstance(result, Failure)]
    assert [failure.path for failure in failed] == [killer]
    assert how in failed[0].reason
    assert sorted(map(str, set(results) - set(failed))) == sorted(map(str, set(paths) - {killer}))


def test_a_log_that_takes_the_workers_pipe_away_is_named(monkeypatch):
    monkeypatch.setattr(workers, "DYING_SECONDS", 0.1)
    paths = logs(3)

    def read(path: Path) -> Path:
        if path == paths[1]:
            close_all_descriptors()
            time.sleep(60)
        return path

    results = list(read_each(paths, read))
    assert [result.path for result in results if isinstance(result, Failure)] == [paths[1]]


@pytest.mark.parametrize("count", [1, 3 * BATCH])
def test_a_worker_that_dies_before_it_has_its_logs_costs_none(monkeypatch, tmp_path, count):
    """As where the machine's memory is short for a moment."""
    marks = tmp_path / "started"

    def dies_at_first(*_: object) -> None:
        with marks.open("a") as file:
            file.write("x")
        if marks.stat().st_size <= 5:
            os.kill(os.getpid(), signal.SIGKILL)

    monkeypatch.setattr(resource, "setrlimit", dies_at_first)
    paths = logs(count)
    assert sorted(read_each(paths, lambda path: path, workers=2)) == sorted(paths)


def test_where_every_worker_dies_at_once_it_is_said(monkeypatch):
    monkeypatch.setattr(resource, "setrlimit", lambda *_: os._exit(9))
    with pytest.raises(WorkersDieError, match=r"exit code 9.*memory"):
        list(read_each(logs(BATCH + 1), lambda path: path, workers=2))


def test_workers_that_are_killed_from_outside_cost_no_log():
    paths = logs(4 * BATCH)

    def kill() -> None:
        for child in multiprocessing.active_children():
            child.kill()

    def read(path: Path) -> Path:
        time.sleep(0.001)
        return path

    killer = threading.Thread(target=kill)
    results = read_each(paths, read, workers=2)
    found = [next(results)]
    killer.start()
    found += results
    killer.join()
    assert sorted(found) == sorted(paths)
