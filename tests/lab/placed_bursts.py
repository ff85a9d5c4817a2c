"""Jobs with periodic bursts on single targets, the ways to place them, and a fluid model of both.

A burst writes the same bytes to each of its targets and ends with the slowest of them. The same
placers serve real targets (real_placement.py) and the model, in which the bursts on a target
share it evenly.
"""

from __future__ import annotations

import heapq
import math
import random
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sluice.policies._core import ffi, lib

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

WIDTHS = (1, 1, 2, 2, 4)
MAX_DUTY = 0.4
FOREIGN = 0.5
"""Of the bursts, those before which other creates have moved the pointer of round robin."""
LATENCY = 0.3
"""Seconds from the begin of a burst until the coordinator knows of it."""


@dataclass(frozen=True)
class Job:
    """A job on `width` targets, whose bursts take `burst` seconds where no other writes."""

    width: int
    nodes: int
    burst: float
    duty: float
    times: tuple[float, ...]
    """When its bursts begin if none is late."""


@dataclass(frozen=True)
class Took:
    """A burst of a job: when it began, and its seconds."""

    job: int
    began: float
    seconds: float


def draw_jobs(seed: int, *, load: float, targets: int, count: int, until: float) -> tuple[Job, ...]:
    """Draw jobs that keep all targets together busy for this share of the time."""
    chance = random.Random(seed)
    widths = [chance.choice(WIDTHS) for _ in range(count)]
    weights = [chance.lognormvariate(0, 0.8) for _ in range(count)]
    scale = load * targets / sum(w * d for w, d in zip(widths, weights, strict=True))
    jobs = []
    for width, weight in zip(widths, weights, strict=True):
        burst, duty = chance.uniform(2.5, 7.0), min(MAX_DUTY, weight * scale)
        period = burst / duty
        times = [period * chance.random()]
        while times[-1] <= until:
            times.append(times[-1] + period * chance.uniform(0.85, 1.15))
        jobs.append(Job(width, width * chance.choice((1, 2, 4)), burst, duty, tuple(times[:-1])))
    return tuple(jobs)


class Placer:
    """Where bursts go. Knows which are under way, as their begins and ends are said to it."""

    def __init__(self, jobs: Sequence[Job], targets: int, seed: int) -> None:
        self.jobs, self.targets = jobs, targets
        self.writers = [0] * targets
        self._at: dict[int, tuple[int, ...]] = {}
        self._prepare(random.Random(seed))

    def begin(self, job: int, clock: float) -> tuple[int, ...]:
        at = self._at[job] = self._place(job, clock)
        self._count(at, 1, clock)
        return at

    def end(self, job: int, clock: float) -> None:
        self._count(self._at.pop(job), -1, clock)

    def _prepare(self, chance: random.Random) -> None:
        raise NotImplementedError

    def _place(self, job: int, clock: float) -> tuple[int, ...]:
        raise NotImplementedError

    def _count(self, at: Iterable[int], change: int, clock: float) -> None:
        del clock
        for target in at:
            self.writers[target] += change

    def _neighbours(self, job: int, first: int) -> tuple[int, ...]:
        return tuple((first + x) % self.targets for x in range(self.jobs[job].width))


class Chance(Placer):
    """Neighbours by chance, for each burst anew."""

    def _prepare(self, chance):
        self._chances = [random.Random(chance.random()) for _ in self.jobs]

    def _place(self, job, _clock):
        return self._neighbours(job, self._chances[job].randrange(self.targets))


class RoundRobin(Placer):
    """The next targets, once a job."""

    def _prepare(self, chance):
        first = chance.randrange(self.targets)
        self._homes = []
        for i, job in enumerate(self.jobs):
            self._homes.append(self._neighbours(i, first))
            first += job.width

    def _place(self, job, _clock):
        return self._homes[job]


class DisturbedRoundRobin(Placer):
    """The next targets for each burst, by a pointer which other creates move, too."""

    def _prepare(self, chance):
        self._chance = chance
        self._next = chance.randrange(self.targets)

    def _place(self, job, _clock):
        if self._chance.random() < FOREIGN:
            self._next = self._chance.randrange(self.targets)
        at = self._neighbours(job, self._next)
        self._next += self.jobs[job].width
        return at


class CorePlacer(Placer):
    """Asks the core (policies/core/placement.h)."""

    def _prepare(self, _chance):
        self._placement = ffi.new("struct sluice_placement *")
        lib.sluice_placement_init(self._placement, self.targets)

    def _at_create(self, job: int, writers: Sequence[int], turn: int) -> tuple[int, ...]:
        out = ffi.new("uint16_t[]", self.targets)
        count = lib.sluice_placement_at_create(
            self._placement, ffi.new("uint16_t[]", writers), self.jobs[job].width, turn, out
        )
        return tuple(out[0:count])


class Blocks(CorePlacer):
    """Aligned blocks by predicted pairs, once a job."""

    def _prepare(self, chance):
        super()._prepare(chance)
        self._homes = []
        choice = ffi.new("struct sluice_placement_choice *")
        placed = ffi.new("struct sluice_placed *")
        for turn, job in enumerate(self.jobs):
            lib.sluice_placement_choose(
                self._placement, job.width, job.duty, job.nodes, turn, choice
            )
            placed.duty, placed.nodes, placed.block = job.duty, job.nodes, choice.block
            lib.sluice_placement_add(self._placement, placed)
            first = choice.block.first
            self._homes.append(tuple(range(first, first + choice.block.count)))

    def _place(self, job, _clock):
        return self._homes[job]


class AtCreate(CorePlacer):
    """The targets where the fewest bursts are under way when a burst begins."""

    def _prepare(self, chance):
        super()._prepare(chance)
        self._turn = chance.randrange(self.targets)

    def _place(self, job, _clock):
        self._turn += self.jobs[job].width
        return self._at_create(job, self.writers, self._turn)


class Followed(CorePlacer):
    """The same from the default layout of each job's directory, set anew once a second.

    So a burst goes where few were under way a moment before; jobs differ in their order of
    targets, so that two that begin meanwhile seldom meet.
    """

    def _prepare(self, chance):
        super()._prepare(chance)
        self._turns = [sum(job.width for job in self.jobs[:i]) for i in range(len(self.jobs))]
        self._seen = deque([(-math.inf, [0] * self.targets)])

    def _count(self, at, change, clock):
        super()._count(at, change, clock)
        self._seen.append((clock, list(self.writers)))

    def _place(self, job, clock):
        known = math.floor(clock) - LATENCY
        while len(self._seen) > 1 and self._seen[1][0] <= known:
            self._seen.popleft()
        return self._at_create(job, self._seen[0][1], self._turns[job])


class FollowedBlocks(Followed):
    """The same where a layout can name aligned blocks alone, as storage classes do."""

    def _at_create(self, job, writers, turn):
        width = self.jobs[job].width
        blocks = self.targets // width
        firsts = [(turn + i) % blocks * width for i in range(blocks)]
        first = min(firsts, key=lambda first: sum(writers[first : first + width]))
        return tuple(range(first, first + width))


class Anywhere(Placer):
    """Storage places each file by itself."""

    def _prepare(self, _chance):
        pass

    def _place(self, _job, _clock):
        return tuple(range(self.targets))


class _Model:
    """The bursts under way, each with what is left of it on its targets."""

    def __init__(self, jobs: Sequence[Job], targets: int) -> None:
        self._jobs = jobs
        self._left: list[dict[int, float]] = [{} for _ in range(targets)]
        self._streams = [0] * len(jobs)

    def begin(self, job: int, at: Sequence[int]) -> None:
        self._streams[job] = len(at)
        for target in at:
            self._left[target][job] = self._jobs[job].burst

    def next_end(self) -> float:
        """Seconds until the next stream ends."""
        return min((min(on.values()) * len(on) for on in self._left if on), default=math.inf)

    def run(self, seconds: float) -> list[int]:
        """Let time pass. Returns the jobs whose bursts are over."""
        over = []
        for on in self._left:
            share = seconds / len(on) if on else 0.0
            for job in list(on):
                on[job] -= share
                if on[job] <= 1e-9:
                    del on[job]
                    self._streams[job] -= 1
                    if self._streams[job] == 0:
                        over.append(job)
        return over


def fluid(placer: Placer, until: float) -> list[Took]:
    """Return the bursts that begin until then, in the model; one is late if its last one was."""
    jobs, model, took = placer.jobs, _Model(placer.jobs, placer.targets), []
    due = [(job.times[0], i) for i, job in enumerate(jobs) if job.times]
    heapq.heapify(due)
    began, rest = {}, [deque(job.times[1:]) for job in jobs]
    clock = 0.0
    while began or (due and due[0][0] <= until):
        begin = due[0][0] if due and due[0][0] <= until else math.inf
        end = clock + model.next_end()
        over = model.run(min(begin, end) - clock)
        clock = min(begin, end)
        for i in over:
            placer.end(i, clock)
            took.append(Took(i, began[i], clock - began.pop(i)))
            if rest[i]:
                heapq.heappush(due, (max(rest[i].popleft(), clock), i))
        if begin <= end:
            _, i = heapq.heappop(due)
            began[i] = clock
            model.begin(i, placer.begin(i, clock))
    return took


def losses(
    jobs: Sequence[Job], took: Iterable[Took], *, stretch: float = 1.0
) -> tuple[float, float]:
    """Return node-seconds by which bursts outlast the same alone, and those alone.

    stretch: time of a burst alone over that of its job, where storage has costs of its own.
    """
    pairs = [(jobs[burst.job], burst.seconds) for burst in took]
    lost = sum(job.nodes * (seconds - stretch * job.burst) for job, seconds in pairs)
    return lost, stretch * sum(job.nodes * job.burst for job, _ in pairs)
