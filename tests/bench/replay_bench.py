"""Jobs a second in the replay engine, with and without I/O, and what a million jobs cost.

KTH-SP2 (Parallel Workloads Archive, Lars Malinowsky, KTH) from the folder next to the repository
where it is there, and generated traces of growing length: time a job must stay about the same.
With I/O, jobs meet in the mean-field storage model and Sluice decides on each as deployed; their
profiles are drawn from the mix. CPU time of the process, the best of several rounds, because
machines are noisy.
"""

import gzip
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from sluice.sim import engine
from sluice.sim.policies.policies import POLICIES, Options, Question
from sluice.sim.replay.io_replay import replay_with_io, with_room_for_io
from sluice.sim.storage.mean_field import Contention, storage_for
from sluice.sim.trace.jobs import Trace
from sluice.sim.trace.lublin import generate
from sluice.sim.trace.machine import SLURM, site_of
from sluice.sim.trace.profiles import drawn_profiles
from sluice.sim.trace.repairs import Replayable, make_replayable
from sluice.sim.trace.sources import read_trace

KTH = Path(__file__).resolve().parents[3] / "shared/data/traces/KTH-SP2-1996-2.1-cln.swf.gz"
GOAL = 1_000_000  # jobs/s, KTH-SP2 with EASY
ROUNDS = 15
MILLION = 1_000_000
LOAD = 0.8
GOAL_WITH_IO = 100_000  # jobs/s, KTH-SP2 with EASY, the mean-field storage model and Sluice
HEAVY = 0.3
MILLION_SECONDS, MILLION_GIB = 15.0, 1.0
COUNTS = (1_000, 3_000, 10_000, 30_000, 100_000, 300_000, MILLION)
FROM, LARGEST_GROWTH = 10_000, 2.0  # of the time a job, up to a million; shorter traces fill up
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


def costs() -> dict[int, float]:
    """Seconds a job, by the number of jobs of a generated trace."""
    found = {}
    for count in COUNTS:
        work = replayable(generate(count, load=LOAD)).workload
        seconds = best(lambda work=work: engine.run(work, {}), max(1, 300_000 // count))
        found[count] = seconds / count
        print(f"generated, load {LOAD}, EASY: {count:>9,} jobs {seconds:.3f} s, "
              f"{found[count] * 1e6:.2f} us a job", flush=True)  # fmt: skip
    return found


def grows_near_linearly(found: dict[int, float]) -> bool:
    growth = found[MILLION] / found[FROM]
    print(f"  from {FROM:,} jobs to {MILLION:,} the time a job grows {growth:.2f}-fold "
          f"(at most {LARGEST_GROWTH})")  # fmt: skip
    return growth <= LARGEST_GROWTH


def seconds_with_io(work: Replayable, policy: str, heavy: float, rounds: int) -> float:
    """Of engine, storage model and policy; the bundle is made beforehand."""
    profiles = drawn_profiles(work.workload, heavy=heavy)
    storage = storage_for(work.workload.machine.slots)
    workload = with_room_for_io(work, profiles).workload

    def prepare() -> tuple[Contention, object]:
        plan = POLICIES[policy].plan(Question(workload, profiles, storage, Options()))
        config = plan.storage.configuration()
        loads = profiles.loads(workload, config)
        if plan.reshape is not None:
            loads = plan.reshape(loads, config)
        return Contention(config, loads, lanes=plan.lanes), plan.decider.table

    times = []
    for _ in range(rounds):
        contention, table = prepare()
        times.append(best(lambda c=contention, t=table: engine.run(
            workload, storage=c.storage, policy=t), 1))  # fmt: skip
    return min(times)


def kth_with_io() -> bool:
    if not KTH.exists():
        return True
    work = replayable(read_trace(KTH))
    speeds = {}
    for policy in ("none", "two-groups", "class-lanes", "sluice-auto"):
        for heavy in (0.1, HEAVY, 0.6):
            speed = len(work.rows) / seconds_with_io(work, policy, heavy, 5)
            speeds[policy, heavy] = speed
            print(f"KTH-SP2, EASY, {heavy:.0%} I/O-heavy, {policy}: {speed:,.0f} jobs/s")
    print(f"  goal for Sluice at {HEAVY:.0%}: {GOAL_WITH_IO:,} jobs/s")
    return speeds["sluice-auto", HEAVY] >= GOAL_WITH_IO


def costs_with_io() -> dict[int, float]:
    """The same with contention and Sluice."""
    found = {}
    for count in COUNTS:
        work = replayable(generate(count, load=LOAD))
        rounds = max(1, min(5, 100_000 // count))
        found[count] = seconds_with_io(work, "sluice-auto", HEAVY, rounds) / count
        print(f"generated, load {LOAD}, {HEAVY:.0%} I/O-heavy, sluice-auto: {count:>9,} jobs "
              f"{found[count] * 1e6:.2f} us a job", flush=True)  # fmt: skip
    return found


def million_with_io() -> int:
    """All of it: profiles, bundle with its calibration, replay. In a process of its own."""
    work = replayable(generate(MILLION, load=LOAD))
    slots = work.workload.machine.slots
    profiles, storage = drawn_profiles(work.workload, heavy=HEAVY), storage_for(slots)
    site = site_of(work.trace)
    seconds = best(
        lambda: replay_with_io(
            work, site, profiles=profiles, storage=storage, policy="sluice-auto"
        ),
        1,
    )
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"{MILLION:,} jobs with contention under sluice-auto: {seconds:.1f} s "
          f"(at most {MILLION_SECONDS:.0f}), peak memory {peak:.2f} GiB "
          f"(at most {MILLION_GIB:.0f})", flush=True)  # fmt: skip
    return 0 if seconds <= MILLION_SECONDS and peak <= MILLION_GIB else 1


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
    is_good &= grows_near_linearly(costs())
    is_good &= kth_with_io()
    is_good &= grows_near_linearly(costs_with_io())
    million()
    child = subprocess.run([sys.executable, __file__, "million-with-io"], check=False)
    return 0 if is_good and child.returncode == 0 else 1


if __name__ == "__main__":
    sys.exit(million_with_io() if sys.argv[1:] == ["million-with-io"] else main())
