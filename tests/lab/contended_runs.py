"""Runs of programs that share storage, alongside what each does alone, which no run shows.

Storage in fixed steps: programs compute and write in turns, and a law says what each of those
that write at once gets. The laws differ on purpose, so that an estimator is not judged by its
own: `core`, weighted sharing as the decision core has it; `fair`, equal shares of a bandwidth,
what one leaves going to the others; `cached`, the same behind a cache that takes bytes faster
than the storage until it is full, which is what throttled devices of one kernel do.
"""

from __future__ import annotations

from dataclasses import dataclass
from string import ascii_lowercase
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Array = NDArray[np.float64]

STEP = 0.05  # seconds
BINS = 200  # of Darshan's heatmap
LAWS = ("core", "fair", "cached")
CACHE_RATE = 8.0  # a cache takes bytes so many times as fast as the storage,
CACHE_SECONDS = 0.6  # and holds so many seconds of the storage's bandwidth


@dataclass(frozen=True, slots=True)
class Program:
    """What a program does undisturbed."""

    name: str
    bursts: int
    burst_bytes: float
    pause: float
    """Seconds of computing before each burst."""
    rate: float
    """B/s that it asks for while it writes."""
    weight: float
    """How heavily it presses, for the law of the core."""
    flushes: bool
    """Whether it waits until its bytes are out of the cache."""


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """What a log and the accounting would show of one run."""

    program: Program
    lane: int
    start: float
    seconds: float
    io_seconds: float
    moved: float
    bin_seconds: float
    bins: Array


@dataclass(frozen=True, slots=True)
class MeanField:
    bandwidth: float
    law: str
    capacity: float = 1.0
    noise: float = 0.05
    """sd of the logarithm of a run's own speed, and of each pause."""


def programs(rng: np.random.Generator, count: int, bandwidth: float) -> list[Program]:
    """Draw programs that between them fill storage: streams, checkpoints, small flushes."""
    found = []
    for number in range(count):
        demand = float(rng.choice([0.25, 0.5, 0.8, 1.0, 1.0]))
        bursts = int(rng.integers(1, 9))
        io_seconds = float(rng.uniform(2.0, 14.0))
        io_share = float(rng.uniform(0.15, 0.9))
        rate = demand * bandwidth
        found.append(
            Program(
                name="program " + ascii_lowercase[number],  # digits tell no programs apart
                bursts=bursts,
                burst_bytes=rate * io_seconds / bursts,
                pause=io_seconds * (1 / io_share - 1) / bursts,
                rate=rate,
                weight=float(np.exp(rng.normal(0.0, 0.8))),
                flushes=bool(rng.random() < 0.5),
            )
        )
    return found


class _State:
    def __init__(self, program: Program, start: float, storage: MeanField, rng: object) -> None:
        self.program, self.start, self._mean_field, self._rng = program, start, storage, rng
        self.speed = float(np.exp(rng.normal(0.0, storage.noise)))  # type: ignore[attr-defined]
        self.left_bursts = program.bursts
        self.io_seconds = 0.0
        self.moved: list[float] = []
        self.end: float | None = None
        self.owed = 0.0  # of its bytes, still in the cache
        self._pause(start)

    def _pause(self, now: float) -> None:
        factor = np.exp(self._rng.normal(0.0, self._mean_field.noise))  # type: ignore[attr-defined]
        self.resume = now + self.program.pause * float(factor)
        self.left = self.program.burst_bytes
        self.left_bursts -= 1

    def is_writing(self, now: float) -> bool:
        return self.end is None and now >= self.resume

    def finish_burst(self, now: float) -> None:
        if self.left_bursts > 0:
            self._pause(now)
        else:
            self.end = now


def shares(law: str, active: Sequence[_State], storage: MeanField) -> Array:
    """Return B/s of each that is active, without a cache."""
    wanted = np.array([one.program.rate * one.speed for one in active])
    wanted = np.minimum(wanted, storage.bandwidth)
    total = storage.bandwidth * (storage.capacity if len(active) > 1 else 1.0)
    if law == "core":
        weights = np.array([one.program.weight for one in active])
        guaranteed = total * weights / weights.sum()
        left = np.maximum(0.0, total - (wanted.sum() - wanted))
        return np.minimum(wanted, np.maximum(guaranteed, left))
    return _fair(wanted, total)


def _fair(wanted: Array, total: float) -> Array:
    given = np.zeros(len(wanted))
    order = np.argsort(wanted)
    for place, i in enumerate(order):
        given[i] = min(wanted[i], total / (len(order) - place))
        total -= given[i]
    return given


def simulate(
    queue: Sequence[tuple[Program, float, int]], storage: MeanField, seed: int, *, slots: int = 64
) -> list[Run]:
    """Run programs on their lanes, each from its second on or when a slot is free."""
    rng = np.random.default_rng(seed)
    lanes = sorted({lane for _, _, lane in queue})
    cached = dict.fromkeys(lanes, 0.0)
    now, waiting = 0.0, list(queue)[::-1]
    states: list[tuple[_State, int]] = []
    running: list[tuple[_State, int]] = []
    while waiting or running:
        while waiting and waiting[-1][1] <= now and len(running) < slots:
            program, _, lane = waiting.pop()
            begun = now + float(rng.exponential(2.0)) * (slots < 64)
            states.append((_State(program, begun, storage, rng), lane))
            running.append(states[-1])
        for lane in lanes:
            present = [s for s, own in running if own == lane and s.start <= now]
            active = [s for s in present if s.is_writing(now)]
            cached[lane] = _step(active, present, cached[lane], storage, now)
        now += STEP
        running = [one for one in running if one[0].end is None]
    return [_run(state, lane) for state, lane in states]


def _step(
    active: list[_State], present: list[_State], held: float, storage: MeanField, now: float
) -> float:
    """Move bytes for one step; returns what the cache holds."""
    if storage.law == "cached":
        return _cached_step(active, present, held, storage, now)
    given = shares(storage.law, active, storage) if active else np.zeros(0)
    rate = dict(zip(map(id, active), given, strict=True))
    for one in present:
        if id(one) not in rate:
            one.moved.append(0.0)
            continue
        step = min(one.left, rate[id(one)] * STEP)
        one.left -= step
        one.moved.append(step)
        one.io_seconds += STEP
        if one.left <= 1e-6:
            one.finish_burst(now + STEP)
    return 0.0


def _cached_step(
    active: list[_State], present: list[_State], held: float, storage: MeanField, now: float
) -> float:
    """Fill a cache that all share and that the storage empties; who flushes waits for it."""
    size = CACHE_SECONDS * storage.bandwidth
    entering = [one for one in active if one.left > 1e-6]
    wanted = np.array(
        [
            one.program.rate
            * one.speed
            * (CACHE_RATE if one.program.rate >= 0.8 * storage.bandwidth else 1.0)
            for one in entering
        ]
    )
    room = max(0.0, size - held) / STEP + storage.bandwidth
    given = _fair(wanted, room) if entering else np.zeros(0)
    rate = dict(zip(map(id, entering), given, strict=True))
    for one in present:
        step = min(one.left, rate.get(id(one), 0.0) * STEP)
        if id(one) in rate:
            one.left -= step
            one.owed = held + step
            held += step
        one.moved.append(step)
    drained = storage.bandwidth * STEP
    held = max(0.0, held - drained)
    for one in active:
        one.owed -= drained
        one.io_seconds += STEP
        if one.left <= 1e-6 and (not one.program.flushes or one.owed <= 0.0):
            one.finish_burst(now + STEP)
    return held


def _run(state: _State, lane: int) -> Run:
    assert state.end is not None
    moved = np.array(state.moved)
    seconds = len(moved) * STEP
    width = 0.1
    while width * BINS < seconds:
        width *= 2.0
    places = (np.arange(len(moved)) * STEP / width + 1e-9).astype(int)
    bins = np.bincount(places, moved)
    return Run(
        state.program, lane, state.start, seconds, state.io_seconds, float(moved.sum()), width, bins
    )


def alone(program: Program, storage: MeanField, *, runs: int = 5) -> list[Run]:
    """Run a program by itself, the truth that contended runs do not show."""
    return [run for seed in range(runs) for run in simulate([(program, 0.0, 0)], storage, seed)]


def contended(
    chosen: Sequence[Program],
    storage: MeanField,
    *,
    each: int,
    slots: int,
    lanes: int = 1,
    seed: int = 0,
) -> list[Run]:
    """Run each program so often, in any order, `slots` at a time, none of them ever alone."""
    rng = np.random.default_rng(seed)
    order = [program for program in chosen for _ in range(each)]
    rng.shuffle(order)  # type: ignore[arg-type]
    queue = [(p, 0.0, int(rng.integers(lanes))) for p in order]
    return simulate(queue, storage, seed, slots=slots)
