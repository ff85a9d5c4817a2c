"""How one co-run is measured so that the figures mean something.

A block is: the probe alone, probe and signals together, the probe alone again, in random
order; several companies of one probe share its runs alone. In each run everybody first fills
the caches; then a window opens in which all are active, and closes when the first has written
90 % of what it writes in the run. The signals outlast the probe. What counts is what reached
the target, not what write() took. Rates are compared at equal length, because a cache takes
its constant share of every run.

A block is dropped when its two alone runs differ by more than 5 %, or when others used more
than 10 % of the target (Shah et al., facts S8).
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from sluice.interference.calibrate.launch import in_time
from sluice.interference.calibrate.targets import Watch, counter_of
from sluice.interference.errors import CalibrationError, LateStartError

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Sequence

    from sluice.interference.calibrate.launch import Launcher, Running, Trace
    from sluice.interference.calibrate.targets import Target
    from sluice.interference.programs import Program

MOST_ALONE_DIFFERENCE = 0.05
MOST_FOREIGN_SHARE = 0.10
CLOSED_AT = 0.90
METADATA = ("metadata",)
ENDLESS_SECONDS = 60.0  # by which a signal outlasts its probe, unless it is stopped


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds."""

    fill: float = 0.4
    """Until the caches are full."""
    window: float = 1.5
    tail: float = 0.1
    """By which the signals outlast the probe."""
    quiet: float = 0.1
    """Before each run, when nobody should be writing."""
    slice: float = 0.05

    @property
    def run(self) -> float:
        return self.fill + self.window


@dataclass(frozen=True, slots=True)
class Member:
    """A program and the target it works on."""

    program: Program
    target: Target


@dataclass(frozen=True, slots=True)
class Rates:
    """What the members of a run got while all were active."""

    rates: tuple[float, ...]
    """B/s that reached the target; for metadata, operations a second."""
    seconds: float
    """Length of the window."""
    foreign: float
    """Others' share of the traffic, 0..1; 0 where nothing counts it."""


@dataclass(frozen=True, slots=True)
class Block:
    """One valid co-run, or the reason why it is none."""

    alone: tuple[Rates, Rates]
    together: Rates
    dropped: str
    """Empty: valid."""

    @property
    def probe_alone(self) -> float:
        return (self.alone[0].rates[0] + self.alone[1].rates[0]) / 2

    @property
    def probe_kept(self) -> float:
        """Rho of the probe; may be above 1."""
        return self.together.rates[0] / self.probe_alone


def measure_blocks(
    probe: Member,
    companies: Sequence[Sequence[Member]],
    *,
    launcher: Launcher,
    timing: Timing,
    order: random.Random,
) -> list[Block]:
    """Measure the probe alone twice and once alongside each group of others, in random order.

    Returns a block for each group; the runs alone are the same in all. Raises
    CalibrationError when a probe fails: a full target is no measurement.
    """
    runs: list[Sequence[Member]] = [(), (), *companies]
    numbers = list(range(len(runs)))
    order.shuffle(numbers)
    measured = {
        number: measure([probe, *runs[number]], launcher=launcher, timing=timing)
        for number in numbers
    }
    alone = (measured[0], measured[1])
    found = [Block(alone, measured[number], "") for number in range(2, len(runs))]
    return [replace(block, dropped=_reason_to_drop(block)) for block in found]


def _reason_to_drop(block: Block) -> str:
    first, second = (run.rates[0] for run in block.alone)
    if min(first, second, *block.together.rates) <= 0:
        return "a program did nothing in the window"
    foreign = max(run.foreign for run in (*block.alone, block.together))
    if foreign > MOST_FOREIGN_SHARE:
        return f"others had {foreign:.0%} of the traffic"
    if abs(first - second) / max(first, second) > MOST_ALONE_DIFFERENCE:
        return f"alone it got {first / 1e6:.4g} and {second / 1e6:.4g} MB/s"
    return ""


def measure(members: Sequence[Member], *, launcher: Launcher, timing: Timing) -> Rates:
    """Run the members at the same time; the first is the probe, the others outlast it.

    When one was not ready in time, or the clock was set meanwhile, all begin again with more
    time to get ready.
    """
    return in_time(launcher, partial(_measure, members, timing=timing))


def _measure(members: Sequence[Member], launcher: Launcher, *, timing: Timing) -> Rates:
    targets = list(dict.fromkeys(member.target for member in members))
    for target in targets:
        target.settle()
    counters = {target.name: counter_of(target) for target in targets}
    clock = _clock()
    before = {t.name: _quiet(t, counters[t.name], timing.quiet) for t in targets}
    with ExitStack() as stack:
        watches = {name: stack.enter_context(Watch(counters[name])) for name in counters}
        start = time.time() + launcher.lead_seconds
        traces = _run(members, start, launcher, timing)
    if abs(_clock() - clock) > timing.slice:
        raise LateStartError("the clock was set while programs ran")
    opened = start + timing.fill
    closed = min(_ninety_percent(trace, opened, traces[0].end) for trace in traces)
    rates = [_rate(m, t, opened, closed) for m, t in zip(members, traces, strict=True)]
    foreign = 0.0
    for target in targets:
        reached = watches[target.name].rate(opened, closed)
        if reached is None:
            continue
        rates = _at_the_target(rates, members, target, reached)
        traffic = max(reached, _moved(rates, members, target))
        foreign = max(foreign, before[target.name] / traffic if traffic > 0 else 0.0)
    return Rates(tuple(rates), closed - opened, foreign)


def _clock() -> float:
    """How far the wall clock is ahead of the machine's own, which nobody sets; seconds."""
    return time.time() - time.monotonic()


def _run(
    members: Sequence[Member], start: float, launcher: Launcher, timing: Timing
) -> list[Trace]:
    running: list[Running] = []
    try:
        for role, member in enumerate(members):
            seconds = timing.run if role == 0 else timing.run + ENDLESS_SECONDS
            running.append(
                launcher.start(
                    member.program,
                    member.target.directory(role),
                    start=start,
                    length=["--duration", f"{seconds:.3f}"],
                    slice_s=timing.slice,
                )
            )
        first = running[0].finish(timing.run)
        time.sleep(timing.tail)
        for signal in running[1:]:
            signal.stop()
        traces = [first, *(signal.finish(0.0) for signal in running[1:])]
    except BaseException:
        for process in running:
            process.kill()
        raise
    if any(trace.end < first.end for trace in traces[1:]):
        raise CalibrationError("a signal ended before its probe")
    return traces


def _quiet(target: Target, counter: Callable[[], int] | None, seconds: float) -> float:
    """Bytes a second that others write while nobody of ours does.

    What a cache of this machine took from them in that time counts as written. The time is
    what really went by from count to count: a command that counts takes its own.
    """
    if counter is None:
        return 0.0
    count, begin = counter(), time.monotonic()
    time.sleep(seconds)
    target.settle()
    written = counter() - count
    return written / (time.monotonic() - begin)


def _ninety_percent(trace: Trace, opened: float, probe_end: float) -> float:
    """When the program had moved 90 % of what it moves until the probe ends."""
    moved = trace.between(opened, probe_end)
    if moved <= 0:
        return opened + CLOSED_AT * (probe_end - opened)
    return trace.when(CLOSED_AT * moved, opened)


def _rate(member: Member, trace: Trace, opened: float, closed: float) -> float:
    if member.program.parts == METADATA:
        return trace.operations_between(opened, closed) / (closed - opened)
    return trace.between(opened, closed) / (closed - opened)


def _moved(rates: Sequence[float], members: Sequence[Member], target: Target) -> float:
    """Bytes a second of all programs on a target; operations on metadata move none."""
    return sum(
        rate
        for rate, member in zip(rates, members, strict=True)
        if member.target == target and member.program.parts != METADATA
    )


def _at_the_target(
    rates: list[float], members: Sequence[Member], target: Target, reached: float
) -> list[float]:
    """Take from those who do not wait for the storage what went into a cache instead.

    Only writes are counted there, so nothing is known where a program reads and writes.
    """
    there = [i for i, m in enumerate(members) if m.target == target and m.program.writes]
    if any(members[i].program.writes < 1 for i in there):
        return rates
    streaming = [i for i in there if not members[i].program.waits and rates[i] > 0]
    cached = sum(rates[i] for i in there) - reached
    accepted = sum(rates[i] for i in streaming)
    if cached <= 0 or accepted <= 0:
        return rates
    left = max(0.0, 1 - cached / accepted)
    return [rate * left if i in streaming else rate for i, rate in enumerate(rates)]
