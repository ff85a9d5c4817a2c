"""Users as production has them: inputs that switch under one name, exact sizes, drift, pauses.

For tests and benchmarks of prediction. Each user runs a few applications, each in one of HABITS, so
that it is known where the last run is the best guess and where a mean of many is. Most runs are
light, and one in a hundred moves most of the bytes. The same seed gives the same history.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING
from zlib import crc32

import numpy as np
from finished import finished_job

from sluice.history_db.records import Profile
from sluice.policies import core

if TYPE_CHECKING:
    from numpy.random import Generator

    from sluice.prediction.jobs import FinishedJob

START = 1_750_000_000  # UTC seconds
DAY = 86400
MIB = 1 << 20
SIZES = (24, 32, 48, 64, 96, 100, 128, 192, 256, 512, 768, 1000)
PATTERNS = ("aw", "owc", "ws", "read", "read", "metadata")
LIGHT = 8 * MIB  # below, a run does no I/O to speak of

HABITS = {
    "steady": 0.25,
    "keeps an input": 0.3,
    "alternates": 0.1,
    "names its input": 0.05,
    "varies": 0.1,
    "now and then a test": 0.1,
    "drifts": 0.1,
}
"""How a user runs an application, and the share of them.

steady: the same each time. keeps an input: for a dozen runs, then another one; by the last run.
alternates: each run one of two inputs, drawn; no run tells the next. names its input: the same, but
the arguments say which. varies: around a mean; by many runs. now and then a test: a run in seven
moves hardly anything; by the median of a few. drifts: further off each day; the newest run counts.
"""


@dataclass(slots=True)
class _Use:
    """An application as one user runs it."""

    habit: str
    uid: int
    program: int
    pattern: str
    sizes: tuple[int, ...]
    volume: float
    """Ln (bytes)."""
    by_size: float
    """Exponent by which bytes follow the size."""
    of_size: dict[int, float] = field(default_factory=dict)
    """Ln (factor) of a size, where sizes have inputs of their own."""
    inputs: tuple[float, float] = (0.0, 0.0)
    chosen: float = 0.0
    at: float = 0.0
    directories: str = ""
    """`input`, `run`: each of these has one of its own; empty: the user has one."""


def made_users(
    runs: int, *, seed: int = 1, days: float = 365.0, users: int = 0, directories: str = ""
) -> list[tuple[str, FinishedJob]]:
    """Return so many runs with their users' habits, by submission; users: 160 for 50,000 runs.

    directories: `input` or `run`: the working directory tells that of those that keep an input, or
    every run, as one more word would.
    """
    random = np.random.default_rng(seed)
    uses = [
        use
        for uid in range(1000, 1000 + (users or max(12, round(160 * math.sqrt(runs / 50_000)))))
        for use in _uses(random, uid)
    ]
    for use in uses:
        use.directories = directories
    sessions: list[tuple[str, FinishedJob]] = []
    share = random.lognormal(0.0, 1.2, len(uses))
    counts = np.maximum(1, np.round(runs * share / share.sum())).astype(int)
    for use, count in zip(uses, counts.tolist(), strict=True):
        sessions += _runs(random, use, count, days)
    sessions.sort(key=lambda item: (item[1].submit, item[1].uid, item[1].name))
    return [
        (habit, replace(job, logs=(number,)))
        for number, (habit, job) in enumerate(sessions[:runs], 1)
    ]


def _uses(random: Generator, uid: int) -> list[_Use]:
    names, shares = list(HABITS), np.array(list(HABITS.values()))
    found = []
    for program in random.choice(25, size=int(random.integers(1, 4)), replace=False).tolist():
        sizes = random.choice(SIZES, size=int(random.integers(1, 5)), replace=False).tolist()
        found.append(
            _Use(
                habit=str(random.choice(names, p=shares / shares.sum())),
                uid=uid,
                program=program,
                pattern=PATTERNS[program % len(PATTERNS)],
                sizes=tuple(sizes),
                volume=float(random.normal(math.log(200 * MIB), 2.5)),
                by_size=float(random.choice([0.0, 0.5, 1.0])),
                of_size={n: float(random.normal(0, 1.5)) for n in sizes}
                if random.random() < 0.4
                else {},
                inputs=(0.0, float(random.normal(0, 2.0))),
            )
        )
    return found


def _runs(random: Generator, use: _Use, count: int, days: float) -> list[tuple[str, FinishedJob]]:
    """Return the runs of a user's application: some in a session, sessions days apart."""
    made = []
    begin, end = sorted(random.uniform(0.0, days, 2).tolist())
    sessions = max(1, round(count / 12))
    starts = np.sort(random.uniform(begin, max(end, begin + 1.0), sessions)) * DAY
    before = 0.0
    for number in range(count):
        place = number * sessions // count
        if number == 0 or place != (number - 1) * sessions // count:
            now, size = max(before, float(starts[place])), int(random.choice(use.sizes))
        else:
            now += float(random.lognormal(math.log(2400.0), 1.2))
            if random.random() < 0.25:
                size = int(random.choice(use.sizes))
        made.append((use.habit, _run(random, use, size, now, now - before)))
        before = now
    return made


def _run(random: Generator, use: _Use, size: int, now: float, since: float) -> FinishedJob:
    volume, noise, words = use.volume, 0.05, ""
    match use.habit:
        case "keeps an input":
            if random.random() < 1 / 12 + (0.15 if since > DAY else 0.0):
                use.chosen = float(random.normal(0, 2.0))
            volume += use.chosen
        case "alternates" | "names its input":
            which = int(random.random() < 0.5)
            volume += use.inputs[which]
            words = f" case_{'ab'[which]}.in" if use.habit == "names its input" else ""
        case "varies":
            noise = 0.6
        case "now and then a test" if random.random() < 1 / 7:
            volume = math.log(MIB)
        case "drifts":
            use.at += float(random.normal(0, 0.4 * math.sqrt(min(since, 30 * DAY) / DAY)))
            volume += use.at
    volume += use.of_size.get(size, use.by_size * math.log(size / use.sizes[0]))
    moved = min(math.exp(volume + random.normal(0, noise)), 2.0**48)
    arguments = core.arguments_of(f"x a{words}")
    directory = {"input": use.chosen, "run": now}.get(use.directories, 0.0)
    if arguments is not None and directory:
        arguments = replace(arguments, hash=arguments.hash ^ crc32(str(directory).encode()))
    return replace(_job(random, use, size, now, moved), arguments=arguments)


def _job(random: Generator, use: _Use, size: int, now: float, moved: float) -> FinishedJob:
    is_light = moved < LIGHT
    pattern = "none" if is_light else use.pattern
    rate = min(5e9, size * 2e7) * math.exp(random.normal(0, 0.3))
    seconds = float(random.lognormal(math.log(1800.0), 0.5))
    io_share = min(0.9, moved / rate / seconds)
    reads = 0.9 if use.pattern == "read" else 0.1
    numbers = {
        "chunk_bytes": 1e6,
        "nprocs": float(size),
        "write_bytes": moved * (1 - reads),
        "read_bytes": moved * reads,
        "rate": rate,
        "burst_seconds": moved / rate,
        "io_share": io_share,
        "runtime_seconds": seconds,
    }
    profile = Profile(pattern, 0.93, {pattern: 1.0}, numbers, 0.5)
    submit = START + int(now)
    start = submit + int(random.exponential(120.0))
    return finished_job(
        profile,
        uid=use.uid,
        name=f"app_{chr(97 + use.program)}",
        account=f"p{use.uid % 17}",
        nodes=max(1, size // 32),
        tasks=size,
        submit=submit,
        start=start,
        end=start + int(seconds) + 1,
    )
