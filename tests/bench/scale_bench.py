"""What following a long queue costs sluiced, and that a burst of submissions loses nothing.

    python tests/bench/scale_bench.py [--long]
    python tests/bench/scale_bench.py everything

First a real slurmctld with the plugin in advise and a real sluiced: held jobs are submitted by
libslurm, as fast as slurmctld takes them. Then what no small machine's slurmctld holds: a
stand-in speaks sluice-feed's frames, and the same queue, ledger and publisher take them up. Last
the growth of the history, of simulated hours with a submission a second.

--long submits 50,000 jobs instead of 10,000, simulates 6 hours instead of a half, and lets a
slurmctld without and one with the plugin take 100,000 submissions that are purged again.

`everything` has all on at once in enforce, as a controller would: sluiced with its metrics and
gates, its feed, sluice-learn (which finds no accounting here) and sluice-turns without agents.
10,000 jobs wait on a full machine, every other one with a token.
"""

import contextlib
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY / "tests" / "lab"))

import feed_frames as frames  # noqa: E402  found through the line above
import followed_queue  # noqa: E402
import gated  # noqa: E402
import made_model  # noqa: E402
import numpy as np  # noqa: E402
import turns_daemons  # noqa: E402
from compile_c import compiled, make  # noqa: E402
from followed_queue import BOOT, Follower, memory_mb  # noqa: E402
from plugin_harness import PluginFiles, install  # noqa: E402
from private_slurm import PrivateSlurm, free_ports  # noqa: E402
from sluiced import Sluiced  # noqa: E402

from sluice.history_db.store import Store  # noqa: E402
from sluice.policies import core  # noqa: E402
from sluice.policies.bundle import Bundle  # noqa: E402
from sluice.slurm.queue import parse_job  # noqa: E402

BURSTS = (1_000, 10_000)
LONG_BURSTS = (1_000, 10_000, 50_000)
QUEUES = (1_000, 20_000, 100_000)
NAMES = ("writer", "flusher", "reader", "unheard")  # of jobs that a real slurmctld takes
WATCHED = 10.0  # seconds of a steady queue
SETTLE = 60.0  # seconds in which all records of a burst find their jobs
TICK = os.sysconf("SC_CLK_TCK")
DAY = 86400
ROUND, ROUNDS = 10_000, 10
EVERYTHING = 10_000  # pending jobs
EVERYTHING_WATCHED = 90.0  # seconds: sluice-learn polls every minute
PURGES = {"MinJobAge": "2", "MaxJobCount": "200000"}


# A real controller


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICK


def child_of(pid: int, name: str) -> int:
    threads = Path(f"/proc/{pid}/task").glob("*/children")
    for child in " ".join(path.read_text() for path in threads).split():
        with contextlib.suppress(OSError):
            if Path(f"/proc/{child}/comm").read_text().strip() == name:
                return int(child)
    raise LookupError(name)


@dataclass
class Watched:
    """A sluiced while it follows."""

    sluiced: Sluiced

    def line(self, label: str) -> str:
        """Watch for a while; return a row of the table."""
        pid = self.sluiced.process.pid
        feed = child_of(pid, "sluice-feed")
        begin, own, other = time.monotonic(), cpu_seconds(pid), cpu_seconds(feed)
        first = self.sluiced.sequence()
        ages = []
        while time.monotonic() < begin + WATCHED:
            time.sleep(0.1)
            ages.append(time.time() - self.sluiced.snapshot().state.taken)
        polls = max(1, self.sluiced.sequence() - first)
        seconds = time.monotonic() - begin
        return (
            f"{label:24} {(cpu_seconds(pid) - own) / polls:9.3f}"
            f" {(cpu_seconds(feed) - other) / polls:9.3f} {seconds / polls:9.2f}"
            f" {sum(ages) / len(ages):6.1f} {max(ages):5.1f}"
            f" {memory_mb(pid):6.0f} {memory_mb(feed):6.0f}"
        )


@contextlib.contextmanager
def cluster(
    place: Path,
    settings: Mapping[str, str] | None = None,
    bundle: bytes | None = None,
    **configured: str | float,
) -> Iterator[tuple[PrivateSlurm, Sluiced]]:
    files = PluginFiles(place / "sluice")
    files.directory.mkdir(exist_ok=True)
    files.configure(**{"Mode": "advise", "FollowInterval": 1000} | configured)
    install(files.bundle, bundle or made_model.bundle(settings="", job_names=("app",)))
    with PrivateSlurm(
        place / "slurm",
        settings={"JobSubmitPlugins": "sluice", "MaxJobCount": "200000", **(settings or {})},
        plugin_dir=make("slurm-plugin/controller/job_submit") / "plugins",
        environment={"SLUICE_CONF": str(files.config)},
    ) as slurm:
        files.wait_for(lambda seen: seen["bundle"]["loaded"])
        sluiced = Sluiced(slurm, files).start()
        sluiced.wait_for_snapshots()
        sluiced.wait_until_loaded()
        try:
            yield slurm, sluiced
        finally:
            sluiced.stop()


def unjoined(history: Path) -> int:
    with Store(history, read_only=True) as store:
        return sum(row.job_id is None for row in store.decisions.latest_decisions(1_000_000))


def real(place: Path, bursts: tuple[int, ...]) -> None:
    client = compiled(REPOSITORY / "tests" / "slurm" / "bulk_submit.c", "-lslurm")
    make("slurm-plugin/controller/feed")
    print("A real slurmctld, plugin in advise; CPU in seconds a poll, memory in MB")
    print(f"{'':24} {'own CPU':>9} {'its feed':>9} {'interval':>9}  age: mean max    RSS   feed")
    with cluster(place) as (slurm, sluiced):
        watched, pending = Watched(sluiced), 0
        for count in bursts:
            done = slurm.run(client, str(count - pending), ",".join(NAMES), timeout=900)
            seconds, submitted = float(done.stdout), count - pending
            pending = count
            deadline = time.monotonic() + SETTLE
            while time.monotonic() < deadline and unjoined(sluiced.history):
                time.sleep(1)
            left = time.monotonic() + SETTLE - deadline
            print(
                f"{submitted:,} submitted in {seconds:.1f} s: "
                f"{sluiced.files.stats()['ring']['dropped']} records lost, "
                f"{unjoined(sluiced.history)} not joined after {left:.0f} s"
            )
            print(watched.line(f"{pending:,} pending"), flush=True)


# Everything at once


def everything(place: Path) -> None:
    """Print the processor time of each daemon by poll of sluiced, and its memory."""
    client = compiled(REPOSITORY / "tests" / "slurm" / "bulk_submit.c", "-lslurm")
    turns_daemons.build()
    make("slurm-plugin/controller/feed")
    kinds = {f"{name}0": gated.KINDS["heavy"] for name in ("writer", "flusher")}
    content = made_model.bundle_of_names(kinds, "", created=int(time.time()))
    licenses = {"Licenses": gated.licenses()}
    settings = {"Mode": "enforce", "Turns": "all", "TurnsPort": free_ports(1)[0]}
    (place / "logs").mkdir()
    with cluster(place, licenses, content, **settings, DarshanLogs=str(place / "logs")) as found:
        slurm, sluiced = found
        pid = sluiced.process.pid
        children = ("sluice-feed", "sluice-turns", "sluice-learn")
        pids = {"sluiced": pid} | {name: child_of(pid, name) for name in children}
        slurm.submit(
            "--job-name=full", "--exclusive", f"-N{len(slurm.node_names)}", "--wrap=sleep 9999"
        )
        slurm.run(client, str(EVERYTHING), ",".join(NAMES), timeout=900)
        jobs = slurm.run("squeue", "-h", "-t", "PD", "-o", "%A").stdout.split()
        for first in range(0, len(jobs), ROUND // 10):
            slurm.run(
                "scontrol", "release", ",".join(jobs[first : first + ROUND // 10]), timeout=900
            )
        deadline = time.monotonic() + SETTLE
        while time.monotonic() < deadline and unjoined(sluiced.history):
            time.sleep(1)
        waiting = slurm.run("squeue", "-h", "-t", "PD", "-o", "%W").stdout.split()
        tokens = sum("_" in one for one in waiting)
        print(f"Everything on, enforce, {len(jobs):,} pending, {tokens:,} of them with tokens")
        print(rows(pids, sluiced))


def rows(pids: Mapping[str, int], sluiced: Sluiced) -> str:
    """Watch for as long as sluice-learn takes to poll again; a row for each daemon."""
    before = {name: cpu_seconds(pid) for name, pid in pids.items()}
    begin, first = time.monotonic(), sluiced.sequence()
    time.sleep(EVERYTHING_WATCHED)
    seconds, polls = time.monotonic() - begin, max(1, sluiced.sequence() - first)
    lines = [f"{'':14} {'CPU a poll':>11} {'of a core':>10} {'RSS, MB':>8}"]
    total = 0.0
    for name, pid in pids.items():
        spent = cpu_seconds(pid) - before[name]
        total += spent
        lines.append(
            f"{name:14} {spent / polls:11.3f} {spent / seconds:10.2%} {memory_mb(pid):8.0f}"
        )
    lines.append(f"{'all':14} {total / polls:11.3f} {total / seconds:10.2%}")
    lines.append(f"{polls} polls of sluiced in {seconds:.0f} s; load {os.getloadavg()[0]:.1f}")
    return "\n".join(lines)


# What is left of jobs that are gone


def purged(place: Path) -> None:
    """Memory of slurmctld after rounds of submissions that were cancelled and purged."""
    client = compiled(REPOSITORY / "tests" / "slurm" / "bulk_submit.c", "-lslurm")
    print(f"\nslurmctld after rounds of {ROUND:,} submissions, cancelled and purged; MB")
    with PrivateSlurm(place / "plain", settings=PURGES) as slurm:
        print(rounds_of(slurm, client, "without the plugin"))
    with cluster(place, PURGES) as (slurm, _):
        print(rounds_of(slurm, client, "with it, and sluiced"))


def rounds_of(slurm: PrivateSlurm, client: Path, label: str) -> str:
    memory = [memory_mb(slurm.controller_pid())]
    for _ in range(ROUNDS):
        slurm.run(client, str(ROUND), ",".join(NAMES), timeout=900)
        asked = ("squeue", "--noheader", "--states=all", "--format=%i")
        while (seen := slurm.run(*asked, check=False)).stdout or seen.returncode:
            slurm.run("scancel", "--quiet", "--user=root", timeout=900, check=False)
            time.sleep(5)
        memory.append(memory_mb(slurm.controller_pid()))
    return f"{label:24}" + " ".join(f"{one:6.0f}" for one in memory)


# A queue of any length


def write_answers(place: Path, answers: list[bytes]) -> None:
    """Write what feed_stand_in.py answers, one a request."""
    place.mkdir()
    for number, answer in enumerate(answers):
        (place / f"{number:04}").write_bytes(answer + frames.end())


def bundle_bytes() -> bytes:
    """A bundle that knows the applications of the queue, by their names."""
    rng = np.random.default_rng(1)
    profiles = {
        name: made_model.profile(rng, "aw") | made_model.HEAVY
        for name in followed_queue.APPLICATIONS
    }
    settings = followed_queue.SETTINGS
    return made_model.bundle_of_names(profiles, settings, created=followed_queue.NOW)


def pending_job(number: int, **members: Any) -> bytes:
    """Return the record of a job; every other one has a token."""
    return frames.job(
        **{
            "job_id": number,
            "submit": followed_queue.NOW,
            "eligible": followed_queue.NOW,
            "start": 0,
            "end": 0,
            "state": b"PENDING",
            "licenses": b"sl0_stream" if followed_queue.has_tokens(number) else b"",
            "notes": b"sluice(v=1,rec=b0-%d,klass=stream)" % number,
            "uid": 2000 + number % followed_queue.USERS,
            "name": followed_queue.application_of(number).encode(),
            "nodes": 1 + number % 4,
        }
        | members
    )


def priorities_of(numbers: range, factor: int) -> bytes:
    """Return priorities in an order that is not that of submission, and differs by the factor."""
    return frames.priorities({number: 1 + number * factor % 2**31 for number in numbers})


def tokens_and_room(nodes: int) -> bytes:
    """Licences, all reserved, and a partition with so many idle nodes."""
    return frames.license_of(b"sl0_stream", 1_000_000, 0, 1_000_000) + frames.room(
        b"main", nodes, 16 * nodes
    )


FACTOR = 2654435761
POLLS = (
    *("first", "unchanged", "unchanged, 10 nodes idle", "1 % new"),
    *("all priorities changed", "all reasons changed", "all jobs changed"),
)
"""What is printed of each queue."""


def answers_about(count: int) -> list[bytes]:
    """Return what slurmctld says at each poll of a queue of so many jobs."""
    everyone, some = range(1, count + 1), range(1, count + 1, 100)
    new = range(count + 1, count + 1 + len(some))
    full, idle = tokens_and_room(0), tokens_and_room(10)

    def jobs(numbers: range, **members: Any) -> bytes:
        return b"".join(pending_job(number, **members) for number in numbers)

    def reason(numbers: range, why: bytes = b"Priority") -> bytes:
        return frames.reason(why, *numbers)

    return [
        frames.hello() + full + jobs(everyone) + priorities_of(everyone, FACTOR) + reason(everyone),
        full,  # knows what records said
        full,
        idle,  # whose jobs wait for tokens alone
        idle,
        full,
        full + frames.gone(*some) + jobs(new) + priorities_of(new, FACTOR) + reason(new),
        full + priorities_of(everyone, FACTOR + 2),
        full + reason(everyone, b"Resources"),
        full + jobs(everyone, start=followed_queue.NOW + 3600),
    ]


SHOWN = (0, 2, 4, 6, 7, 8, 9)
"""The polls of these answers that POLLS names."""


def simulated(place: Path) -> None:
    print("\nA stand-in for slurmctld; CPU seconds of a poll of sluiced in enforce, memory in MB")
    print(f"{'pending':>9}  " + "  ".join(POLLS) + "  RSS")
    for count in QUEUES:
        write_answers(place / str(count), answers_about(count))
        (place / str(count) / "model.bundle").write_bytes(bundle_bytes())
        done = subprocess.run(
            [sys.executable, followed_queue.__file__, place / str(count), str(count)],
            check=True,
            stdout=subprocess.PIPE,
            text=True,
        )
        *seconds, memory = map(float, done.stdout.split())
        shown = (f"{seconds[at]:>{len(name)}.4f}" for name, at in zip(POLLS, SHOWN, strict=True))
        print(f"{count:>9,}  " + "  ".join(shown) + f"  {memory:.0f}", flush=True)


# What it leaves on the disk


def growth(place: Path, hours: float) -> None:
    """One submission a second alongside 1,000 pending jobs, of which as many run and end."""
    pending, running = 1000, 200
    place.mkdir()
    follower = Follower(place)
    config = core.parse_config("sluice.conf", b"")
    bundle = Bundle.parse(made_model.bundle(applications=200))
    settled, size = pending + 2 * running, 0
    seconds = settled + int(hours * 3600)
    for number in range(1, seconds + 1):
        now = made_model.CREATED + number
        if number == settled:
            size = size_of(place / "history.db")
        request = made_model.job(number % 200)
        follower.decide(request, bundle, config, number, now)
        stages = ((0, "PENDING"), (pending, "RUNNING"), (pending + running, "COMPLETED"))
        changed = [
            parse_job(
                told(old, made_model.job(old % 200), now - after, state, now if after else 0)
            )[0]
            for after, state in stages
            if (old := number - after) > 0
        ]
        follower.take(changed, now)
    grown = size_of(place / "history.db") - size
    print(
        f"\n{grown / (seconds - settled) * DAY / 1e6:.0f} MB a day at {pending:,} pending jobs, "
        f"{running} running, a submission a second ({hours:g} hours simulated)"
    )


def told(number: int, request: dict[str, Any], submit: int, state: str, start: int = 0) -> bytes:
    return frames.job_payload(
        job_id=number,
        submit=submit,
        eligible=submit,
        start=start,
        end=start,
        state=state.encode(),
        uid=request["uid"],
        nodes=request["nodes"],
        tasks=request["tasks"],
        time_limit=request["time_limit"],
        account=request["account"].encode(),
        licenses=b"sl0_stream" if number % 2 else b"",
        notes=b"sluice(v=1,rec=%x-%d," % (BOOT, number),
        name=request["name"].encode(),
    )


def size_of(path: Path) -> int:
    """Bytes in use, without what waits in the log."""
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return path.stat().st_size


def main() -> None:
    is_long, is_everything = (sys.argv[1:] == [word] for word in ("--long", "everything"))
    place = Path(tempfile.mkdtemp(prefix="sluice-scale-"))
    place.chmod(0o755)
    try:
        if is_everything:
            everything(place)
            return
        real(place, LONG_BURSTS if is_long else BURSTS)
        simulated(place)
        growth(place / "growth", 6 if is_long else 0.75)
        if is_long:
            purged(place)
    finally:
        shutil.rmtree(place, ignore_errors=True)


if __name__ == "__main__":
    main()
