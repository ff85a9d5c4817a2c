"""What the control loop costs a poll, for queues in which every job waits for tokens.

    python tests/bench/control_bench.py

The core's loop as sluiced calls it, on 200 kinds of jobs alongside 400 that run: CPU seconds of the
first poll after all jobs were described, and of the next ones, with room for some and for none.
No Slurm takes part: reading the queue and telling scontrol come on top (scale_bench.py).
"""

import sys
import time
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY / "tests" / "lab"))

import core_cases as storage_models  # noqa: E402  found through the line above

from sluice.policies import control, core  # noqa: E402
from sluice.policies.core import CLASSES  # noqa: E402
from sluice.policies.record import Situation  # noqa: E402
from sluice.policies.snapshot import Snapshot, pack_snapshot  # noqa: E402
from sluice.policies.structs import View, new  # noqa: E402

QUEUES = (1_000, 20_000, 100_000)
KINDS = 200
RUNNING = 400
POLLS = 3
TOTAL = 1_000_000
GRANTED = control.RECORDED | control.GRANTED | control.PREDICTED


def pressures(model: View, policy: View) -> list[View]:
    profiles = (
        storage_models.STREAMING
        | {"io_share": 0.02 + 0.004 * kind, "runtime_seconds": 600.0 + kind}
        for kind in range(KINDS)
    )
    return [
        core.pressure_of(View(new("struct sluice_profile", one)), model, policy) for one in profiles
    ]


def filled(waiting: int, kinds: list[View]) -> control.Loop[int]:
    loop: control.Loop[int] = control.Loop()
    for number in range(waiting + RUNNING):
        row = loop.add(number)
        row.job_id, row.priority, row.nodes, row.cpus, row.tasks = number, 10**6 - number, 1, 1, 1
        row.state = control.WAITS if number < waiting else control.RUNS
        row.submit = row.eligible = row.start = storage_models.NOW
        row.flags = GRANTED | control.QUEUES
        row.tokens.klass = CLASSES.index("stream")
        row.tokens.lane_mask = 1 if number < waiting + 3 else 0
        row.pressure = kinds[number % KINDS].struct[0]
    return loop


def poll_seconds(waiting: int, *, idle: int) -> float:
    """CPU seconds of a poll of a queue that does not change, alongside so many idle nodes."""
    bundle = storage_models.bundle(storage_models.application(storage_models.STREAMING))
    state = {"sequence": 1, "taken": storage_models.NOW}
    situation = Situation(bundle, Snapshot.parse(pack_snapshot(state=state)))
    config = core.parse_config("sluice.conf", b"Mode=enforce\n")
    loop = filled(waiting, pressures(bundle.interference, bundle.policy))
    submission = storage_models.submission()
    facts, rooms = control.new_facts(), control.new_rooms(1)
    rooms[0].nodes, rooms[0].cpus = idle, 4 * idle
    facts.max_delay, facts.grace = 1800.0, 2.0
    facts.totals[CLASSES.index("stream")][0] = TOTAL
    for poll in range(POLLS):
        facts.clock, facts.now, facts.releases = 100.0 + poll, storage_models.NOW + poll, 50
        begin = time.process_time()
        loop.find_room(rooms, 1, facts)
        loop.bound(facts)
        loop.poll(situation, config, facts, lambda _number: submission)
        spent = time.process_time() - begin
    return spent


def main() -> None:
    print(f"{'waiting':>8}  {'CPU s, 10 nodes idle':>20}  {'CPU s, none idle':>16}")
    for waiting in QUEUES:
        some, none = poll_seconds(waiting, idle=10), poll_seconds(waiting, idle=0)
        print(f"{waiting:>8,}  {some:>20.4f}  {none:>16.4f}")


if __name__ == "__main__":
    main()
