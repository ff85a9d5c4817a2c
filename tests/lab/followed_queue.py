"""Follows a queue that a stand-in for sluice-feed plays, as sluiced does.

    python tests/lab/followed_queue.py PLACE COUNT

prints the CPU seconds of each poll in enforce and the memory at the end; PLACE has the answers and
the bundle, and COUNT jobs have records. A process of its own, whose memory is nobody else's.
"""

import gc
import os
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

from lease_stand_in import LeaseBook

from sluice.history_db.store import Store
from sluice.policies import core
from sluice.policies.bundle import Bundle
from sluice.policies.core import Config
from sluice.policies.record import MIN_TOTAL, Record, Situation, decide
from sluice.policies.snapshot import Snapshot, pack_snapshot, packed
from sluice.slurm import slurm_commands
from sluice.slurm.daemon import GARBAGE
from sluice.slurm.gates.controller import GateKeeper, Seen
from sluice.slurm.gates.leases import Holding, holdings
from sluice.slurm.gates.snapshot import Publisher, Settings
from sluice.slurm.pending_records import Ledger
from sluice.slurm.queue import Changes, Queue
from sluice.slurm.record_receiver import decision_of
from sluice.slurm.records import QueuedJob
from sluice.slurm.status import Status

NOW = 1_800_000_000
BOOT = 0x9E3779B97F4A7C15  # random, as the plugin draws it
TOKENS = {"sl0_stream": (0, "stream"), "sl0_flush": (0, "flush")}
SYLLABLES = ("ga", "lo", "mi", "ter", "spec", "vor", "flow", "hy", "dro", "cfd", "rna", "q")
APPLICATIONS = ["".join(words) for words in product(SYLLABLES, repeat=2)]
"""Names of jobs whose I/O the model knows, each of them heavy, and each in its own way."""
USERS = 20
SETTINGS = "Mode=enforce\nLane=sl0 Targets=4 Bandwidth=8G\nMaxDelay=36000\n"
STAND_IN = Path(__file__).with_name("feed_stand_in.py")


def application_of(number: int) -> str:
    return APPLICATIONS[number % len(APPLICATIONS)]


def has_tokens(number: int) -> bool:
    """Whether this job is one of those, every other one, that Sluice gave tokens."""
    return number // len(APPLICATIONS) % 2 == 0


def records(count: int, bundle: Bundle, config: Config) -> Iterator[Record]:
    """Return a record for each of these jobs, whose submissions all differ."""
    situation = Situation(bundle, Snapshot.parse(pack_snapshot(state={"taken": NOW})))
    made = []
    for name in APPLICATIONS:
        job = core.submission(
            {"name": name, "nodes": 1, "account": "project", "launcher": "sbatch"}
        )
        made.append(
            decide(situation, config, job, NOW, boot=0xB0, cluster="lab", totals=[MIN_TOTAL])
        )
    for number in range(1, count + 1):
        record = Record(made[number % len(made)].struct)
        record.struct.number = number
        record.struct.submission.uid = 2000 + number % USERS
        record.struct.submission.submit_line_hash = record.struct.submission.script_signature = (
            number * 0x9E3779B97F4A7C15 % 2**64
        )
        if not has_tokens(number):
            record.struct.grant.outcome = core.GRANTS.index("not_needed")
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

    def take(self, changed: list[QueuedJob], now: int) -> None:
        """Take up these changes in place of a poll."""
        gone = [job for job in changed if job.has_ended]
        for job in changed:
            self.queue.put(job)
        self.follow(Changes(changed, []), now)
        for job in gone:
            self.ledger.take(Changes([], [self.queue.forget(job.job_id)]))

    def follow(self, changes: Changes, now: int) -> None:
        self.keep(changes, now)
        for job in changes.changed:
            self.known.pop(job.job_id, None)
        for holding in holdings(changes.changed, TOKENS):
            self.known[holding.job.job_id] = holding
        self.publish(packed_holders(self.known.values()), now)

    def keep(self, changes: Changes, now: int) -> None:
        self.ledger.take(changes)
        self.ledger.look_up(self.store, now)
        self.ledger.join(now)
        self.ledger.write(self.store)

    def publish(self, holders: bytes, now: int, lanes: Mapping[int, int] | None = None) -> None:
        self.publisher.publish(
            self.queue.running.values(),
            self.ledger.prediction,
            self.ledger.submission,
            Settings(),
            pending=self.queue.pending,
            holders=holders,
            lanes=lanes or {},
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
            self.store.decisions.add_snapshot(latest)
        self.store.decisions.insert_decisions([decision_of(record)])
        self.ledger.add(record)


class Keeper(Follower):
    """Does what sluiced does at a poll in enforce, gates and all."""

    def __init__(self, place: Path, count: int) -> None:
        """Make one that knows the records of so many jobs."""
        super().__init__(place)
        bundle = place / "model.bundle"
        self.config = core.parse_config("sluice.conf", f"{SETTINGS}Bundle={bundle}\n".encode())
        for record in records(count, Bundle.load(bundle, os.geteuid()), self.config):
            self.ledger.add(record)
        self.gatekeeper = GateKeeper(
            Status(), lambda changes: {one.job.job_id: "" for one in changes}
        )
        self.book = LeaseBook(NOW)
        slurm_commands.control = self.book.control
        self.publish(b"", NOW)

    def poll(self) -> None:
        changes = self.queue.poll(with_room=True, timeout=120)
        self.book.now += 1
        self.queue.reservations = self.book.reservations()
        for lease in self.book.leases.values():
            token = self.queue.licenses[lease.token]
            self.queue.licenses[lease.token] = replace(token, reserved=lease.count)
        seen = Seen.of(self.queue, changes, self.book.now)
        self.gatekeeper.bound(seen, self.ledger, self.config, os.geteuid())
        self.keep(changes, seen.now)
        self.gatekeeper.poll(seen, self.config, self.publisher)
        self.gatekeeper.unstored.flush(self.store)
        self.publish(self.gatekeeper.holders(), seen.now, self.gatekeeper.lanes())


def packed_holders(found: Iterable[Holding]) -> bytes:
    """Pack holders as the gatekeeper does, of jobs that are no arrays and never waited."""
    rows = sorted((one.job.job_id, one.klass, one.lane_mask) for one in found)
    return b"".join(
        packed("struct sluice_holder", {"job_id": job_id, "klass": klass, "lane_mask": lanes})
        for job_id, klass, lanes in rows
    )


def memory_mb(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) / 1024


def main() -> None:
    place, count = Path(sys.argv[1]), int(sys.argv[2])
    gc.set_threshold(GARBAGE)
    keeper = Keeper(place, count)
    for _ in list(place.glob("[0-9]*")):
        begin = time.process_time()
        keeper.poll()
        print(time.process_time() - begin)
    print(memory_mb(os.getpid()))
    assert keeper.ledger.joined == count
    keeper.queue.close()


if __name__ == "__main__":
    main()
