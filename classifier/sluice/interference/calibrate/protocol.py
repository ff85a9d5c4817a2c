"""Measurement of one co-run by sluice-probe.

A block is: the probe alone, probe and signals together, the probe alone again, in random order;
several sets of co-runners of one probe share its runs alone. In each run everybody first fills the
caches; then a window opens in which all are active, and closes when the first has written 90 % of
what it writes in the run. The signals outlast the probe. What counts is what reached the target,
not what write() took. Rates are compared at equal length, because a cache takes its constant share
of every run.

A block is dropped when its two alone runs differ by more than 5 %, or when others used more than 10
% of the target (Shah et al., facts S8).
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from bisect import bisect_right
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from sluice.history_db.records import TargetProbe
from sluice.interference.calibrate.targets import Watch, claimed, counter_of
from sluice.interference.observations import MOST_FOREIGN_SHARE
from sluice.interference.programs import (
    DIRECT_BYTES,
    MIB,
    READ,
    CalibrationError,
    LateStartError,
    Program,
    TasksError,
)

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterator, Sequence
    from types import TracebackType
    from typing import Self

    from sluice.interference.calibrate.targets import Target


T = TypeVar("T")

FULL = 3
"""Exit code of a probe that would have filled a file system."""
LATE = 4
"""Exit code of a probe that was not ready in time."""
MOST_PROCESSES = 1024
MOST_PATTERNS = 16
"""Of one probe (classifier/probe/options.h)."""
MOST_LEAD_SECONDS = 30.0
FILE_BYTES = 32 * MIB
"""Of a file that a program reads, again and again past this machine's cache."""
HOLDER = Program(READ, MIB)
ENDLESS_START = 1e9
"""Seconds from now: a start that never comes."""
HOLD_STEP = 0.05
PLACES = "sluice-probe.*"
"""Directories that probes make for themselves."""
PATIENCE_SECONDS = 300.0
"""How long a probe may take beyond its time: a last operation on a busy target."""
OWN = '{"type": '
"""In every line that a probe prints."""
STOP = signal.SIGUSR2
"""Has a probe remove its files and end. srun passes it on, but answers SIGTERM by SIGKILL."""
TIE = ("setpriv", "--pdeathsig", STOP.name, "sh", "-c", '[ "$PPID" = "$0" ] && exec "$@"')
"""Before a process's number and a command: STOP is sent to the command when that process, its
parent, has ended, even by SIGKILL. The shell looks whether it had before that was arranged."""


def find_probe(named: str | None = None) -> str:
    """Return the path of sluice-probe. Raises CalibrationError when there is none."""
    built = Path(__file__).resolve().parents[4] / "build" / "bin" / "sluice-probe"
    found = shutil.which(named or "sluice-probe") or (
        str(built) if not named and built.exists() else None
    )
    if not found:
        raise CalibrationError(
            f"{named or 'sluice-probe'}: not found; `make build install`, or name it with --probe"
        )
    return found


def check(program: Program, tasks: int) -> None:
    """Raise CalibrationError for what a probe would refuse, and for what tasks cannot share.

    Each task is a probe, which deals the patterns of a mix to its own processes.
    """
    patterns = len(program.parts)
    least = tasks * patterns
    if program.processes % least:
        shares = [f"{tasks} tasks"] * (tasks > 1) + [f"{patterns} patterns"] * (patterns > 1)
        raise CalibrationError(
            f"{program}: its processes cannot be dealt to {' of '.join(shares)} evenly; "
            f"give it a multiple of {least} of them"
        )
    if program.processes > MOST_PROCESSES * tasks:
        raise CalibrationError(
            f"{program}: a probe starts at most {MOST_PROCESSES} processes; "
            "give it fewer, or --srun more --tasks"
        )
    if patterns > MOST_PATTERNS:
        raise CalibrationError(f"{program}: a mix has at most {MOST_PATTERNS} patterns")
    if program.direct and program.chunk_bytes % DIRECT_BYTES:
        raise CalibrationError(f"{program}: the chunk of direct I/O is a multiple of 4K")


@dataclass(frozen=True, slots=True)
class Launcher:
    """Start of a program."""

    probe: str
    prefix: tuple[str, ...] = ()
    """Words before the probe's own, e.g. srun's."""
    tasks: int = 1
    """Probes that the prefix starts; the processes of a program are dealt to them evenly."""
    lead_seconds: float = 0.15
    """From the call to the instant at which everything begins."""
    inputs: Inputs | None = None
    """What programs read; None: each makes its own files before it begins."""

    def input_of(self, member: Member, role: int) -> Path | None:
        """Return the files that a member reads, made when they are first needed."""
        if not self.inputs or READ not in member.program.parts:
            return None
        return self.inputs.directory(
            self, member.target.directory(role), role, member.program.processes
        )

    def start(
        self,
        program: Program,
        directory: Path,
        *,
        source: Path | None = None,
        start: float,
        length: Sequence[str],
        slice_s: float,
    ) -> Running:
        """Start it; length is sluice-probe's --duration or --volume (bytes of a process)."""
        words = [*TIE, str(os.getpid()), *self.prefix, self.probe, *program.options()]
        if self.tasks > 1:
            words += ["--processes", str(program.processes // self.tasks)]
        if source:
            words += ["--from", str(source)]
        words += ["--start", f"{start:.6f}", *length, "--slice", f"{slice_s:g}", str(directory)]
        process = subprocess.Popen(
            words,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",  # a banner may be in any encoding
        )
        return Running(process, directory, self.tasks)


def in_time(launcher: Launcher, run: Callable[[Launcher], T]) -> T:
    """Run programs; when one was not ready in time, again with more time to get ready."""
    while True:
        try:
            return run(launcher)
        except LateStartError:
            if launcher.lead_seconds > MOST_LEAD_SECONDS:
                raise
            launcher = replace(launcher, lead_seconds=2 * launcher.lead_seconds)


class Running:
    """A probe that has been started in a directory, or as many as there are tasks."""

    def __init__(self, process: subprocess.Popen[str], directory: Path, tasks: int) -> None:
        self._process = process
        self._directory = directory
        self._tasks = tasks

    def stop(self) -> None:
        """End it in good order before its time."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGUSR1)

    @property
    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def kill(self) -> None:
        """End it without a report; the probe removes its files."""
        if self._process.poll() is None:
            self._process.send_signal(STOP)
        self._process.communicate()

    def finish(self, seconds: float) -> Trace:
        """Wait for its end; raise CalibrationError with its complaint when that is no good one."""
        try:
            output, complaint = self._process.communicate(timeout=seconds + PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
            raise CalibrationError(f"{self._process.args!r} does not end") from None
        if self._process.returncode == LATE:
            raise LateStartError(complaint.strip())
        if self._process.returncode == FULL:
            raise CalibrationError(
                f"{self._directory}: the file system is nearly full; make room there, "
                "or wait some minutes where it keeps deleted data for a time"
            )
        if self._process.returncode != 0:
            raise CalibrationError(complaint.strip() or f"{self._process.args!r} failed")
        trace = Trace.parse(output)
        if trace.probes != self._tasks:
            raise TasksError(
                f"--srun started {trace.probes} probes, but --tasks is {self._tasks}; "
                f"begin another calibration with --tasks {trace.probes}"
            )
        return trace


@dataclass(slots=True)
class Inputs:
    """Files to read, held for a whole calibration: made in each run they would take most of it.

    A probe that never begins makes and holds them, so they go when it ends, whatever ends it.
    """

    held: dict[tuple[Path, int, int], tuple[Running, Path]] = field(default_factory=dict)
    """By directory, role and processes: two programs that read share no file, or the cache would
    answer one of them."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, _: object, __: TracebackType | None
    ) -> None:
        for running, _place in self.held.values():
            running.kill()

    def directory(self, launcher: Launcher, within: Path, role: int, processes: int) -> Path:
        key = within, role, processes
        if key not in self.held:
            self.held[key] = _hold(launcher, within, processes)
        return self.held[key][1]


def _hold(launcher: Launcher, within: Path, processes: int) -> tuple[Running, Path]:
    """Have a probe make a file for each process; return it and its directory once all are whole."""
    before = set(within.glob(PLACES))
    running = replace(launcher, inputs=None).start(
        replace(HOLDER, processes=processes),
        within,
        start=time.time() + ENDLESS_START,
        length=["--duration", "1", "--file-size", str(FILE_BYTES)],
        slice_s=1.0,
    )
    try:
        while not (place := _filled(set(within.glob(PLACES)) - before, processes)):
            if running.has_ended:
                running.finish(0.0)
            time.sleep(HOLD_STEP)
    except BaseException:
        running.kill()
        raise
    return running, place


def _filled(places: set[Path], processes: int) -> Path | None:
    """Return the directory that has all files, each in its full length."""
    for place in places:
        sizes = [path.stat().st_size for path in place.glob(f"{READ}.*")]
        if sizes == [FILE_BYTES] * processes:
            return place
    return None


@dataclass(frozen=True, slots=True)
class Trace:
    """Bytes and operations of one program over wall-clock time."""

    start: float
    end: float
    slice_seconds: float
    first: float
    """Start of the first slice, seconds since the epoch."""
    bytes: tuple[int, ...]
    operations: tuple[int, ...]
    probes: int
    """Number of reports that are added up."""

    @classmethod
    def parse(cls, text: str) -> Trace:
        """Read the report of one probe, or of several (the tasks of one srun).

        There are no slices where a program did nothing before it was stopped. What a site's
        prolog or banner prints alongside is passed over.
        """
        lines = [_own_line(line) for line in text.split("\n") if OWN in line]
        runs = [line for line in lines if line["type"] == "run"]
        totals = [line for line in lines if line["type"] == "total"]
        slices = [line for line in lines if line["type"] == "slice"]
        if not runs or len(runs) != len(totals):
            raise CalibrationError("sluice-probe gave no whole report")
        length = float(runs[0]["slice_seconds"])
        first = min(item["time"] for item in slices) if slices else totals[0]["start"]
        moved = [0] * (1 + max((_number(item, first, length) for item in slices), default=0))
        operations = list(moved)
        for item in slices:
            moved[_number(item, first, length)] += item["bytes"]
            operations[_number(item, first, length)] += item["operations"]
        return cls(
            start=min(item["start"] for item in totals),
            end=max(item["end"] for item in totals),
            slice_seconds=length,
            first=first,
            bytes=tuple(moved),
            operations=tuple(operations),
            probes=len(runs),
        )

    def until(self, instant: float) -> float:
        """Bytes moved before an instant; evenly within a slice."""
        return _until(self.bytes, (instant - self.first) / self.slice_seconds)

    def between(self, start: float, end: float) -> float:
        return self.until(end) - self.until(start)

    def operations_between(self, start: float, end: float) -> float:
        position = [(at - self.first) / self.slice_seconds for at in (start, end)]
        return _until(self.operations, position[1]) - _until(self.operations, position[0])

    def when(self, moved: float, start: float) -> float:
        """Return the instant at which so many bytes had been moved since `start`."""
        wanted = self.until(start) + moved
        sums = [0]
        for count in self.bytes:
            sums.append(sums[-1] + count)
        i = bisect_right(sums, wanted) - 1
        if i >= len(self.bytes):
            return self.first + len(self.bytes) * self.slice_seconds
        inside = (wanted - sums[i]) / self.bytes[i] if self.bytes[i] else 0.0
        return self.first + (i + inside) * self.slice_seconds


def _own_line(text: str) -> dict[str, Any]:
    try:
        line: dict[str, Any] = json.loads(text)
    except ValueError:
        raise CalibrationError(f"sluice-probe gave no whole report: {text!r}") from None
    return line


def _number(item: dict[str, Any], first: float, length: float) -> int:
    return round((float(item["time"]) - first) / length)


def _until(counts: Sequence[int], position: float) -> float:
    if position <= 0:
        return 0.0
    whole = int(position)
    if whole >= len(counts):
        return float(sum(counts))
    return sum(counts[:whole]) + (position - whole) * counts[whole]


MOST_ALONE_DIFFERENCE = 0.05
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
    """Before each run, while no program writes."""
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
    """Rates of the members of a run while all were active."""

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


def measure_blocks(
    probe: Member,
    corunners: Sequence[Sequence[Member]],
    *,
    launcher: Launcher,
    timing: Timing,
    order: random.Random,
) -> list[Block]:
    """Measure the probe alone twice and once alongside each group of others, in random order.

    Returns a block for each group; the runs alone are the same in all. Raises
    CalibrationError when a probe fails: a full target is no measurement.
    """
    runs: list[Sequence[Member]] = [(), (), *corunners]
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
    sources = [launcher.input_of(member, role) for role, member in enumerate(members)]
    for target in targets:
        target.settle()
    counters = {target.name: counter_of(target) for target in targets}
    clock = _clock()
    before = {t.name: _quiet(t, counters[t.name], timing.quiet) for t in targets}
    with ExitStack() as stack:
        watches = {name: stack.enter_context(Watch(counters[name])) for name in counters}
        start = time.time() + launcher.lead_seconds
        traces = _run(members, sources, start, launcher, timing)
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
    """Return the wall clock less the monotonic clock, which cannot be set; seconds."""
    return time.time() - time.monotonic()


def _run(
    members: Sequence[Member],
    sources: Sequence[Path | None],
    start: float,
    launcher: Launcher,
    timing: Timing,
) -> list[Trace]:
    running: list[Running] = []
    try:
        for role, (member, source) in enumerate(zip(members, sources, strict=True)):
            seconds = timing.run if role == 0 else timing.run + ENDLESS_SECONDS
            running.append(
                launcher.start(
                    member.program,
                    member.target.directory(role),
                    source=source,
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
    """Return the bytes a second that others write while no program of ours does.

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
    """Subtract from streaming programs what went into a cache.

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


def probe_targets(
    targets: Sequence[Target],
    program: Program,
    *,
    rounds: int,
    launcher: Launcher,
    timing: Timing,
) -> Iterator[tuple[TargetProbe, str]]:
    """Run the program alone on each target in turn; yield what it got, and why it does not count.

    Each round begins with another target, so that none is always the first. Raises
    CalibrationError when a probe fails, or when another process measures there.
    """
    with claimed(targets):
        for number in range(rounds):
            first = number % len(targets)
            for target in (*targets[first:], *targets[:first]):
                run = measure([Member(program, target)], launcher=launcher, timing=timing)
                probe = TargetProbe(target.name, str(program), int(time.time()), run.rates[0])
                yield probe, _reason_to_drop_probe(probe.rate, run.foreign)


def _reason_to_drop_probe(rate: float, foreign: float) -> str:
    if rate <= 0:
        return "nothing reached it in the window"
    if foreign > MOST_FOREIGN_SHARE:
        return f"others had {foreign:.0%} of the traffic"
    return ""
