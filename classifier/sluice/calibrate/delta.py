"""The delta-graph: I/O time of two programs of fixed volume against the offset of their starts.

Each point is an experiment of its own (Dorier et al.; facts, "Vocabulary").
"""

from __future__ import annotations

import random
import time
from collections import Counter
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from sluice.calibrate.launch import in_time
from sluice.history_db.records import Encounter

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sluice.calibrate.launch import Launcher
    from sluice.calibrate.protocol import Member, Timing


@dataclass(frozen=True, slots=True)
class DeltaPlan:
    """Seconds: how long each program takes alone, and the offsets to try."""

    alone: float = 2.0
    offsets: tuple[float, ...] = (-2.0, -1.0, 0.0, 1.0, 2.0)
    rounds: int = 2

    @property
    def points(self) -> int:
        return self.rounds * len(self.offsets)

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


def measure_delta(
    first: Member,
    second: Member,
    *,
    launcher: Launcher,
    timing: Timing,
    plan: DeltaPlan,
    seed: int,
    measured: Sequence[Encounter],
    keep: Callable[[Encounter], None],
) -> None:
    """Measure every offset in random order, each round beside runs alone; keep each result.

    What was `measured` before an interruption is not measured again. The volume of each program
    is what it writes in `plan.alone` seconds by itself. Its I/O time includes a last flush,
    because a cache would otherwise hide the end. Raises CalibrationError when a probe fails.
    """
    members = (first, second)
    volumes = [
        in_time(launcher, partial(_volume, member, timing=timing, plan=plan)) for member in members
    ]

    def times(
        those: Sequence[Member], volumes: Sequence[int], starts: Sequence[float]
    ) -> list[float]:
        return in_time(launcher, partial(_times, those, volumes, starts, timing=timing))

    order = random.Random(seed)  # noqa: S311
    done = Counter(encounter.offset for encounter in measured)
    for number in range(plan.rounds):
        offsets = list(plan.offsets)
        order.shuffle(offsets)
        left = [offset for offset in offsets if done[offset] <= number]
        if not left:
            continue
        alone = [
            times([member], [volume], [0.0])[0]
            for member, volume in zip(members, volumes, strict=True)
        ]
        for offset in left:
            started = int(time.time())
            starts = [max(0.0, -offset), max(0.0, offset)]
            together = times(members, volumes, starts)
            keep(
                Encounter(
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


def _volume(member: Member, launcher: Launcher, *, timing: Timing, plan: DeltaPlan) -> int:
    """Bytes of a process that take it about `plan.alone` seconds; a whole number of chunks."""
    member.target.settle()
    start = time.time() + launcher.lead_seconds
    running = launcher.start(
        member.program,
        member.target.directory(0),
        start=start,
        length=["--duration", f"{plan.alone:g}"],
        slice_s=timing.slice,
    )
    trace = running.finish(plan.alone)
    chunk = member.program.chunk_bytes
    return max(1, round(sum(trace.bytes) / member.program.processes / chunk)) * chunk


def _times(
    members: Sequence[Member],
    volumes: Sequence[int],
    offsets: Sequence[float],
    launcher: Launcher,
    *,
    timing: Timing,
) -> list[float]:
    """Seconds of I/O of each member."""
    for target in {member.target for member in members}:
        target.settle()
    start = time.time() + launcher.lead_seconds
    running = []
    try:
        for role, member in enumerate(members):
            program = member.program
            flush = [] if program.sync or program.waits else ["--sync", "close"]
            running.append(
                launcher.start(
                    program,
                    member.target.directory(role),
                    start=start + offsets[role],
                    length=["--volume", str(volumes[role]), *flush],
                    slice_s=timing.slice,
                )
            )
        traces = [process.finish(0.0) for process in running]
    except BaseException:
        for process in running:
            process.kill()
        raise
    return [trace.end - trace.start for trace in traces]
