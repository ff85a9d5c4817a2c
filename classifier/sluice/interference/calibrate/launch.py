"""Starts sluice-probe, here or on nodes of a cluster, and reads its report."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from bisect import bisect_right
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from sluice.interference.errors import CalibrationError, LateStartError, TasksError
from sluice.interference.programs import DIRECT_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sluice.interference.programs import Program

T = TypeVar("T")

FULL = 3
"""Exit code of a probe that would have filled a file system."""
LATE = 4
"""Exit code of a probe that was not ready in time."""
MOST_PROCESSES = 1024
MOST_PATTERNS = 16
"""Of one probe (classifier/probe/options.h)."""
MOST_LEAD_SECONDS = 30.0
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
    """How a program is started."""

    probe: str
    prefix: tuple[str, ...] = ()
    """Words before the probe's own, e.g. srun's."""
    tasks: int = 1
    """Probes that the prefix starts; the processes of a program are dealt to them evenly."""
    lead_seconds: float = 0.15
    """From the call to the instant at which everything begins."""

    def start(
        self,
        program: Program,
        directory: Path,
        *,
        start: float,
        length: Sequence[str],
        slice_s: float,
    ) -> Running:
        """Start it; length is sluice-probe's --duration or --volume (bytes of a process)."""
        words = [*TIE, str(os.getpid()), *self.prefix, self.probe, *program.options()]
        if self.tasks > 1:
            words += ["--processes", str(program.processes // self.tasks)]
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
    """Whose reports these are, added up."""

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
