"""The delta-graph: I/O time of two programs of fixed volume against the offset of their starts.

Each point is an experiment of its own (Dorier et al.; facts, "Vocabulary").
"""

from __future__ import annotations

import random
import time
from collections import Counter
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from sluice.history_db.records import CoRun
from sluice.interference.calibrate.launch import in_time
from sluice.interference.errors import CalibrationError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sluice.interference.calibrate.launch import Launcher, Running
    from sluice.interference.calibrate.protocol import Member, Timing
    from sluice.interference.programs import Program


@dataclass(frozen=True, slots=True)
class DeltaPlan:
    """Seconds: how long each program takes alone, and the offsets to try."""

    alone: float = 2.0
    offsets: tuple[float, ...] = (-2.0, -1.0, 0.0, 1.0, 2.0)
    rounds: int = 2

    @property
    def points(self) -> int:
        return self.rounds * len(self.offsets)

    @property
    def longest(self) -> float:
        """By when both programs have long ended."""
        return max(map(abs, self.offsets)) + 10 * self.alone

    def estimate_seconds(self, start_seconds: float) -> float:
        """Estimate how long it takes where starting a run takes so long.

        Together two programs take the time of both at most, and rarely less than of one.
        """
        points = sum(abs(offset) + 1.5 * self.alone + start_seconds for offset in self.offsets)
        runs_alone = 2 * (self.alone + start_seconds)
        return runs_alone + self.rounds * (runs_alone + points)

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> DeltaPlan:
        """Read what dataclasses.asdict made, by way of JSON."""
        return cls(value["alone"], tuple(value["offsets"]), value["rounds"])


@dataclass(frozen=True, slots=True)
class _Work:
    """A member's part in every run: its role says through which client it works."""

    member: Member
    role: int
    volume: int
    """Bytes of a process."""

    def start(
        self, launcher: Launcher, *, start: float, length: Sequence[str], timing: Timing
    ) -> Running:
        program = self.member.program
        return launcher.start(
            program,
            self.member.target.directory(self.role),
            start=start,
            length=[*length, *last_flush(program)],
            slice_s=timing.slice,
        )


def last_flush(program: Program) -> list[str]:
    """Return sluice-probe's options for a flush at the end, where a cache would hide it.

    Raises CalibrationError for a program whose I/O has no such end.
    """
    if "metadata" in program.parts:
        raise CalibrationError(f"{program}: operations on metadata have no volume, so no I/O time")
    if program.sync or program.waits:
        return []
    if "ws" in program.parts:
        raise CalibrationError(
            f"{program}: a flush at the end would take the place of those that ws does after "
            f"each chunk; say when all of it flushes, e.g. {replace(program, sync='each')}"
        )
    return ["--sync", "close"]


def measure_delta(
    first: Member,
    second: Member,
    *,
    launcher: Launcher,
    timing: Timing,
    plan: DeltaPlan,
    seed: int,
    measured: Sequence[CoRun],
    keep: Callable[[CoRun], None],
) -> None:
    """Measure every offset in random order, each round alongside runs alone; keep each result.

    What was `measured` before an interruption is not measured again. The volume of each program
    takes it about `plan.alone` seconds by itself. All times include a last flush, because a
    cache would otherwise hide the end. Raises CalibrationError when a probe fails.
    """
    members = (first, second)
    works = [
        in_time(launcher, partial(_sized, _Work(member, role, 0), timing=timing, plan=plan))
        for role, member in enumerate(members)
    ]

    def times(those: Sequence[_Work], starts: Sequence[float]) -> list[float]:
        return in_time(launcher, partial(_times, those, starts, timing=timing, plan=plan))

    order = random.Random(seed)  # noqa: S311
    done = Counter(corun.offset for corun in measured)
    for number in range(plan.rounds):
        offsets = list(plan.offsets)
        order.shuffle(offsets)
        left = [offset for offset in offsets if done[offset] <= number]
        if not left:
            continue
        alone = [times([work], [0.0])[0] for work in works]
        for offset in left:
            started = int(time.time())
            starts = [max(0.0, -offset), max(0.0, offset)]
            together = times(works, starts)
            keep(
                CoRun(
                    started=started,
                    mode="delta",
                    members=tuple(str(member.program) for member in members),
                    targets=tuple(member.target.name for member in members),
                    offset=offset,
                    alone=tuple(alone),
                    together=tuple(together),
                    foreign_share=0.0,
                    dropped="",
                )
            )


def _sized(work: _Work, launcher: Launcher, *, timing: Timing, plan: DeltaPlan) -> _Work:
    """Give it a volume that takes about `plan.alone` seconds; a whole number of chunks."""
    program = work.member.program
    work.member.target.settle()
    running = work.start(
        launcher,
        start=time.time() + launcher.lead_seconds,
        length=["--duration", f"{plan.alone:g}"],
        timing=timing,
    )
    trace = running.finish(plan.longest)
    moved = sum(trace.bytes) * plan.alone / (trace.end - trace.start)
    chunks = round(moved / program.processes / program.chunk_bytes)
    return replace(work, volume=max(1, chunks) * program.chunk_bytes)


def _times(
    works: Sequence[_Work],
    offsets: Sequence[float],
    launcher: Launcher,
    *,
    timing: Timing,
    plan: DeltaPlan,
) -> list[float]:
    """Seconds of I/O of each."""
    for target in {work.member.target for work in works}:
        target.settle()
    start = time.time() + launcher.lead_seconds
    running = []
    try:
        for work, offset in zip(works, offsets, strict=True):
            length = ["--volume", str(work.volume)]
            running.append(work.start(launcher, start=start + offset, length=length, timing=timing))
        traces = [process.finish(plan.longest) for process in running]
    except BaseException:
        for process in running:
            process.kill()
        raise
    return [trace.end - trace.start for trace in traces]
