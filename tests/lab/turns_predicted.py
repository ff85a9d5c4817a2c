"""What the replay's discrete-event storage model says of a draw, before it is run."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from target_kinds import Limits
from turns_cases import LANES, Alone, Draw, Job
from turns_lab import LATENCY

from sluice.sim.storage.discrete_event import simulate

PATTERNS = {
    "owc": {"sync": "flush", "creates": 1},
    "ws": {"sync": "flush", "rewrites": 1},
    "aw": {"sync": "behind"},
}
"""What the patterns of Shah et al. mean in the numbers of a program."""

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


def predict(draw: Draw, limits: Limits, alone: Mapping[str, Alone], seed: int) -> Predicted:
    """alone: what is known of each program."""
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


def _program(job: Job, alone: Alone) -> dict[str, Any]:
    one, profile = job.program, alone.profile
    bursts = len(alone.bursts)
    operations = alone.bytes / one.processes / bursts / profile["chunk_bytes"]
    return {
        **PATTERNS.get(profile["pattern"], PATTERNS["aw"]),
        "processes": one.processes,
        "nodes": job.nodes,
        "operation_bytes": profile["chunk_bytes"],
        "operations": max(1, round(operations)),
        "bursts": bursts,
        "compute": one.pause,
        "start": job.offset + LATER - one.pause,
        "stripe_targets": 1,
        "first_target": LANES.index(one.lanes[0]),
        "target_count": len(one.lanes),
        "in_step": 1,
        "expected": sum(alone.bursts) / bursts,
    }
