"""Jobs a second in the replay engine, and what a million jobs cost.

KTH-SP2 (Parallel Workloads Archive, Lars Malinowsky, KTH) from the folder beside the repository
where it is there, and generated traces of growing length: time a job must stay about the same.
CPU time of the process, the best of several rounds, because machines are noisy.
"""

import gzip
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from sluice.sim import engine
from sluice.sim.lublin import generate
from sluice.sim.machine import SLURM, site_of
from sluice.sim.repairs import Replayable, make_replayable
from sluice.sim.sources import read_trace
from sluice.sim.trace import Trace

KTH = Path(__file__).resolve().parents[3] / "shared/data/traces/KTH-SP2-1996-2.1-cln.swf.gz"
GOAL = 1_000_000  # jobs/s, KTH-SP2 with EASY
ROUNDS = 15
MILLION = 1_000_000
LOAD = 0.8
LARGEST_GROWTH = 2.0  # of the time a job, from 10,000 jobs to a million
SETTINGS = {
    "FCFS": {"backfill": "none"},
    "EASY": {},
    "conservative": {"backfill": "conservative"},
    "EASY, multifactor": {
        "priority": "multifactor",
        "weight_age": 1000,
        "weight_fair_share": 1000,
    },
    "as slurmctld": SLURM,
}


def best(action: Callable[[], object], rounds: int) -> float:
    """CPU seconds of the quickest round."""
    times = []
    for _ in range(rounds):
        began = time.process_time()
        action()
        times.append(time.process_time() - began)
    return min(times)


def replayable(trace: Trace) -> Replayable:
    return make_replayable(trace, site_of(trace))


def kth() -> bool:
    if not KTH.exists():
        print(f"KTH-SP2: skipped, there is no {KTH}")
        return True
    trace = read_trace(KTH)
    work = replayable(trace).workload
    speeds = {}
    for name, settings in SETTINGS.items():
        rounds = ROUNDS if name in ("FCFS", "EASY", "conservative") else 2
        seconds = best(lambda settings=settings: engine.run(work, settings), rounds)
        speeds[name] = len(work.jobs) / seconds
        print(f"KTH-SP2, {name}: {speeds[name]:,.0f} jobs/s")
    print(f"  goal for EASY: {GOAL:,} jobs/s")
    return speeds["EASY"] >= GOAL


def growth() -> bool:
    costs = []
    for count in (10_000, 30_000, 100_000, 300_000, MILLION):
        work = replayable(generate(count, load=LOAD)).workload
        seconds = best(lambda work=work: engine.run(work, {}), max(1, 300_000 // count))
        costs.append(seconds / count)
        print(f"generated, load {LOAD}, EASY: {count:>9,} jobs {seconds:.3f} s, "
              f"{costs[-1] * 1e6:.2f} us a job")  # fmt: skip
    print(f"  time a job grows {costs[-1] / costs[0]:.2f}-fold (at most {LARGEST_GROWTH})")
    return costs[-1] / costs[0] <= LARGEST_GROWTH


def write_swf(trace: Trace, path: Path) -> None:
    columns = (trace.job_id, trace.submit, trace.runtime, trace.slots, trace.limit, trace.user)
    with gzip.open(path, "wt", compresslevel=1) as file:
        file.write(f"; MaxProcs: {trace.machine_slots}\n")
        for job, submit, run, size, limit, user in zip(*columns, strict=True):
            file.write(
                f"{job} {submit:.0f} -1 {run:.0f} {size} -1 -1 {size} {limit:.0f} -1 1 "
                f"{user} 1 -1 -1 1 -1 -1\n"
            )


def million() -> None:
    """From a gzipped file to results."""
    with tempfile.TemporaryDirectory(prefix="sluice-bench-") as place:
        path = Path(place) / "million.swf.gz"
        write_swf(generate(MILLION, load=LOAD), path)
        read = best(lambda: read_trace(path), 1)
        work = replayable(read_trace(path)).workload
    run = best(lambda: engine.run(work, {}), 1)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"{MILLION:,} lines of SWF, gzipped: {read:.1f} s to read, {run:.1f} s to replay; "
          f"peak memory of this process {peak:.2f} GiB")  # fmt: skip


def main() -> int:
    is_good = kth()
    is_good &= growth()
    million()
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
