"""What turns cost: one decision on many bursts, and a replay in which bursts take turns.

    python tests/bench/turns_bench.py

CPU time of the process, the best of several rounds, because machines are noisy.
"""

import random
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1] / "lab"))

import core_turns as turns
from replay_bench import HEAVY, KTH, replayable, seconds_with_io

from sluice.policies._core import ffi, lib
from sluice.sim.trace.sources import read_trace

ACTIVE = (100, 1_000, 10_000)
LANES = (1, 4, 16)
GOAL_BURSTS, GOAL_SECONDS = 1_000, 1e-3
"""One decision on so many bursts takes at most so long, on four lanes."""
GOAL_JOBS = 50_000
"""A second, KTH-SP2 with EASY, the mean-field model and turns."""
ROUNDS = 30


def bursts(count: int, lanes: int) -> list[dict[str, object]]:
    drawn = random.Random(1)
    return [
        {
            "key": key,
            "nodes": drawn.choice([1, 4, 16, 64]),
            "demand": {"bytes": lanes * drawn.random(), "operations": lanes * drawn.random()},
            "expected": drawn.uniform(0, 600),
            "done": drawn.uniform(0, 300),
            "began": float(key),
        }
        for key in range(count)
    ]


def seconds_a_decision(count: int, lanes: int) -> float:
    lane = {"bytes": 1.0, "operations": 1.0, "links": 1.0}
    storage = turns.storage([lane] * lanes, metadata=1.0)
    settings, jobs = turns.settings(), turns.jobs_of(bursts(count, lanes))
    scratch, out = ffi.new("uint32_t[]", count), ffi.new("struct sluice_turn[]", count)
    times = []
    for _ in range(ROUNDS):
        begin = time.process_time()
        lib.sluice_turns_decide(settings, storage, jobs, count, 1e4, scratch, out)
        times.append(time.process_time() - begin)
    return min(times)


def decisions() -> bool:
    print(f"{'bursts':>8}  " + "  ".join(f"{f'{lanes} lanes':>10}" for lanes in LANES))
    found = {}
    for count in ACTIVE:
        for lanes in LANES:
            found[count, lanes] = seconds_a_decision(count, lanes)
        row = "  ".join(f"{found[count, lanes] * 1e3:>7.3f} ms" for lanes in LANES)
        print(f"{count:>8,}  {row}")
    print(f"  goal: {GOAL_BURSTS:,} bursts on 4 lanes in {GOAL_SECONDS * 1e3:g} ms")
    return found[GOAL_BURSTS, 4] <= GOAL_SECONDS


def replays() -> bool:
    if not KTH.exists():
        return True
    work = replayable(read_trace(KTH))
    speeds = {}
    for policy in ("none", "turns", "weights"):
        speeds[policy] = len(work.rows) / seconds_with_io(work, policy, HEAVY, 3)
        print(f"KTH-SP2, EASY, {HEAVY:.0%} I/O-heavy, {policy}: {speeds[policy]:,.0f} jobs/s")
    print(f"  goal with turns: {GOAL_JOBS:,} jobs/s")
    return speeds["turns"] >= GOAL_JOBS


if __name__ == "__main__":
    sys.exit(0 if decisions() & replays() else 1)
