"""What the replay's discrete-event storage model says of a draw, before it is run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from target_kinds import Limits
from turns_cases import LANES, Draw, Job
from turns_lab import LATENCY

from sluice.sim.storage.discrete_event import PATTERNS, simulate

STORAGE = {
    "targets": len(LANES),
    "lanes": len(LANES),
    "burst_spread": 0.3,
    # of a lone program: a flush takes 27 ms on 20 MB/s and 100 operations/s, a new file 90
    "commit_seconds": 0.024,
    "commit_group": 1,
    "create_delay": 0.03,
}
TURNS = {"latency": LATENCY / 1e3}
LATER = 100.0  # seconds by which all begin later: each computes before its first burst, too


@dataclass(frozen=True)
class Predicted:
    """Node-seconds lost without turns, and the share of them that turns recover."""

    lost: float
    recovered: float


def predict(
    draw: Draw, limits: Limits, alone: Mapping[str, Sequence[float]], seed: int
) -> Predicted:
    """alone: seconds of the bursts of each program with nobody else there."""
    storage = STORAGE | {"target_bandwidth": float(limits.bandwidth)}
    programs = [_program(job, alone[job.program.name]) for job in draw.jobs]
    ends = [simulate(storage, [one], seed=seed)[0].end for one in programs]

    def lost(turns: Mapping[str, float] | None) -> float:
        found = simulate(storage, programs, seed=seed, turns=turns)
        return sum(
            job.nodes * (one.end - end)
            for job, one, end in zip(draw.jobs, found, ends, strict=True)
        )

    without = lost(None)
    return Predicted(without, 1.0 - lost(TURNS) / without)


def _program(job: Job, alone: Sequence[float]) -> dict[str, Any]:
    one = job.program
    operations = sum(one.volumes) / len(one.volumes) / one.chunk
    return {
        **PATTERNS[one.pattern],
        "processes": len(one.lanes),
        "nodes": job.nodes,
        "operation_bytes": one.chunk,
        "operations": round(operations),
        "bursts": len(one.volumes),
        "compute": one.pause,
        "start": job.offset + LATER - one.pause,
        "stripe_targets": 1,
        "first_target": LANES.index(one.lanes[0]),
        "target_count": len(one.lanes),
        "in_step": 1,
        "expected": sum(alone) / len(alone),
    }
