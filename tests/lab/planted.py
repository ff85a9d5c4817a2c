"""Runs of production jobs with interference planted between some of their applications.

No Darshan runtime runs here, so what jobs do to each other is simulated burst by burst, in
steps finer than a bin, and then counted in bins as Darshan's HEATMAP does: at most 200, their
width doubling from 0.1 s until the run fits.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from history_rows import a_job, a_log, a_profile

from sluice.darshan.bursts import Heatmap, packed
from sluice.interference.timeline import Timeline

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sluice.history_db.store import Store

STEP = 0.05  # seconds
BINS = 200
NOISE = 0.15  # standard deviation of a burst's log rate


@dataclass(frozen=True)
class Program:
    """How an application writes: seconds alone, and bytes a second."""

    burst: float
    pause: float
    rate: float
    length: float


PROGRAMS = {
    "checkpointer": Program(burst=14.0, pause=20.0, rate=2e9, length=600.0),
    "logger": Program(burst=16.0, pause=22.0, rate=3e8, length=600.0),
    "streamer": Program(burst=40.0, pause=25.0, rate=1e9, length=900.0),
    "analysis": Program(burst=15.0, pause=40.0, rate=5e8, length=600.0),
}
# (victim, aggressor): share of the victim's rate that is left while both write.
PLANTED = {("logger", "streamer"): 0.35, ("analysis", "checkpointer"): 0.6}


def runs(
    seed: int,
    *,
    each: int = 12,
    planted: Mapping[tuple[str, str], float] = PLANTED,
    seconds: float = 6000.0,
) -> list[Timeline]:
    """Return `each` runs of every program, begun at random times, all on the same targets."""
    rng = np.random.default_rng(seed)
    jobs = [(name, float(start)) for name in PROGRAMS for start in rng.uniform(0.0, seconds, each)]
    steps = int((seconds + 4000.0) / STEP)
    moved = np.zeros((len(jobs), steps), dtype=np.float32)
    state = [_State(PROGRAMS[name], start, rng) for name, start in jobs]
    for step in range(steps):
        now = step * STEP
        writing = [i for i, one in enumerate(state) if one.is_writing(now)]
        active = {jobs[i][0] for i in writing}
        for i in writing:
            left = 1.0
            for aggressor in active:
                left *= planted.get((jobs[i][0], aggressor), 1.0)
            moved[i, step] = state[i].write(left, now)
    return [_timeline(name, start, moved[i]) for i, (name, start) in enumerate(jobs)]


class _State:
    """One job as it goes: in a burst, or until when it computes."""

    def __init__(self, program: Program, start: float, rng: np.random.Generator) -> None:
        self._program, self._rng = program, rng
        self._stop = start + program.length
        self._resume = start + rng.uniform(0.0, program.pause)
        self._begin()

    def _begin(self) -> None:
        self._left = self._program.burst * self._program.rate
        self._rate = self._program.rate * np.exp(NOISE * self._rng.standard_normal())

    def is_writing(self, now: float) -> bool:
        return self._resume <= now < self._stop

    def write(self, share: float, now: float) -> float:
        written = min(self._left, self._rate * share * STEP)
        self._left -= written
        if self._left <= 0.0:
            self._resume = now + self._program.pause * self._rng.uniform(0.8, 1.2)
            self._begin()
        return written


def _timeline(name: str, start: float, moved: np.ndarray) -> Timeline:
    first = int(start / STEP)
    length = int(PROGRAMS[name].length / STEP)
    width = 2  # steps: 0.1 s
    while width * BINS < length:
        width *= 2
    padded = np.zeros(width * BINS)
    padded[:length] = moved[first : first + length]
    bins = padded.reshape(BINS, width).sum(axis=1)[: -(-length // width)]
    return Timeline(name, 16, first * STEP, width * STEP, bins)


def fill(store: Store, runs: Sequence[Timeline], *, counted: float = 1.0) -> None:
    """Let a history know the runs by their logs; counters saw so much of their bytes."""
    for number, run in enumerate(runs, 1000):
        start, end = START + round(run.start), START + round(run.end)
        moved = float(run.moved.sum())
        heatmap = packed(START + run.start, Heatmap(run.bin_seconds, run.moved, 0.0 * run.moved))
        log = a_log(
            number,
            jobid=number,
            nprocs=run.processes,
            start=start,
            end=end,
            exe=f"/apps/{run.application} -v",
            heatmap=heatmap,
        )
        numbers = a_profile().numbers | {"write_bytes": moved}
        store.runs.add_logs([(log, a_profile(numbers=numbers), b"")])
        counters = {"write_bytes": round(counted * moved), "read_bytes": 0}
        store.jobs.upsert_jobs(
            [a_job(job_id=number, uid=1000, submit=start, start=start, end=end, **counters)]
        )
    store.jobs.link_logs()


START = 1_700_000_000


def shuffled(timelines: Sequence[Timeline], rng: np.random.Generator) -> list[Timeline]:
    """Give every run the start of another and turn its I/O in time: the negative control.

    Whatever coincided with others no longer does, so nothing that is found in shuffled runs is
    true.
    """
    starts = rng.permutation([one.start for one in timelines])
    return [
        replace(one, start=float(start), moved=np.roll(one.moved, rng.integers(len(one.moved))))
        for one, start in zip(timelines, starts, strict=True)
    ]
