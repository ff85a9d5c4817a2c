"""Follows a queue that a stand-in for sluice-feed plays, as sluiced does but for the gates.

    python tests/lab/followed_queue.py PLACE COUNT

prints the CPU seconds of each poll and the memory at the end; PLACE holds the answers. A process of
its own, whose memory is nobody else's.
"""

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sluice.history_db.store import Store
from sluice.policies import core
from sluice.policies.bundle import Bundle
from sluice.policies.core import Config
from sluice.policies.record import Record, Situation, decide
from sluice.policies.snapshot import Snapshot
from sluice.slurm.drainer import decision_of
from sluice.slurm.leases import Holding, holdings
from sluice.slurm.ledger import Ledger
from sluice.slurm.queue import Changes, Queue
from sluice.slurm.records import QueuedJob
from sluice.slurm.snapshot import Publisher, Settings

NOW = 1_800_000_000
BOOT = 0x9E3779B97F4A7C15  # random, as the plugin draws it
NAMES = ("writer", "flusher", "reader", "unheard")
TOKENS = {"sl0_stream": (0, "stream"), "sl0_flush": (0, "flush")}
STAND_IN = Path(__file__).with_name("feed_stand_in.py")


def records(count: int) -> Iterator[Record]:
    """Return a record for each of these jobs."""
    config = core.default_config()
    submissions = [core.submission({"name": name}) for name in NAMES]
    made = [decide(None, config, one, NOW, boot=0xB0, cluster="lab") for one in submissions]
    for number in range(1, count + 1):
        record = Record(made[number % len(made)].struct)
        record.struct.number = number
        record.struct.submission.uid = 2000 + number % 20
        yield record


class Follower:
    """What sluiced does with a queue at a poll, but for the gates."""

    def __init__(self, place: Path) -> None:
        """Make one that hears the answers in a directory (feed_stand_in.py)."""
        self.queue = Queue([sys.executable, STAND_IN, place])
        self.ledger = Ledger("lab", started=0)
        self.publisher = Publisher(place / "cluster.snapshot")
        self.store = Store(place / "history.db", create=True)
        self.known: dict[int, Holding] = {}

    def poll(self) -> None:
        self.follow(self.queue.poll(timeout=120), NOW)

    def take(self, changed: list[QueuedJob], now: int) -> None:
        """Take up these changes in place of a poll."""
        gone = [job for job in changed if job.has_ended]
        for job in changed:
            self.queue.put(job)
        self.follow(Changes(changed, []), now)
        for job in gone:
            self.ledger.take(Changes([], [self.queue.forget(job.job_id)]))

    def follow(self, changes: Changes, now: int) -> None:
        self.ledger.take(changes)
        self.ledger.look_up(self.store, now)
        self.ledger.join(now)
        self.ledger.write(self.store)
        for job in changes.changed:
            self.known.pop(job.job_id, None)
        for holding in holdings(changes.changed, TOKENS):
            self.known[holding.job.job_id] = holding
        self.publisher.publish(
            self.queue.running.values(),
            self.ledger.prediction,
            Settings(),
            pending=self.queue.pending,
            holdings=list(self.known.values()),
            waits={},
            lane_speeds={},
            is_off=False,
            now=now,
        )

    def decide(
        self, request: dict[str, Any], bundle: Bundle, config: Config, number: int, now: int
    ) -> None:
        """Decide on a submission, and store what the plugin's record would be."""
        latest = self.publisher.latest
        snapshot = Snapshot.parse(latest.content) if latest else None
        record = decide(
            Situation(bundle, snapshot),
            config,
            core.submission_of(request),
            now,
            boot=BOOT,
            number=number,
            cluster="lab",
        )
        if latest:
            self.store.add_snapshot(latest)
        self.store.insert_decisions([decision_of(record)])
        self.ledger.add(record)


def memory_mb(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) / 1024


def main() -> None:
    place, count = Path(sys.argv[1]), int(sys.argv[2])
    follower = Follower(place)
    for record in records(count):
        follower.ledger.add(record)
    for _ in list(place.glob("[0-9]*")):
        begin = time.process_time()
        follower.poll()
        print(time.process_time() - begin)
    print(memory_mb(os.getpid()))
    assert follower.ledger.joined == count
    follower.queue.close()


if __name__ == "__main__":
    main()
