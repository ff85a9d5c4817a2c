"""A million runs in the history: how long the pages of `sluice serve` take.

    python tests/bench/serve_bench.py [RUNS]
    python tests/bench/serve_bench.py in DIRECTORY [RUNS]

The history is that of `history_bench`, with a decision on every job; the second form makes it in
a directory and keeps it there for the next time. A real server is asked over loopback by users who
may see all jobs, then by one who sees his own alone. What counts is the median of ROUNDS answers
after the first, which reads the bundle; next to it stand the first, the slowest, and the
processor time of the server, which a busy machine does not change.
"""

import http.client
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import closing, suppress
from pathlib import Path

from history_bench import RUNS, SLUICE, add_decisions, fill, publish_model

from sluice.history_db.records import AuditEntry, StoredReport
from sluice.history_db.store import Store
from sluice.interference.ranking import refresh
from sluice.policies.snapshot import pack_snapshot
from sluice.slurm.status import Status

ROUNDS = 50
OF_ALL = ("/programs/", "/model", "/jobs/")
GOAL_SECONDS = 0.3
TOKEN = "0123456789abcdef0123456789abcdef"  # noqa: S105 - of nothing but benchmarks
USER = "daemon"
TICKS = os.sysconf("SC_CLK_TCK")
AUDITED = 35_000
"""Entries of the audit."""
RUNNING = 256
"""Co-runners in the snapshot: all that one holds."""


def make(place: Path, runs: int) -> None:
    """Fill a history, publish a model of it and decide on its jobs."""
    history, bundle, config = (place / name for name in ("history.db", "bundle", "sluice.conf"))
    config.write_text(
        f"Bundle={bundle}\nHistory={history}\nSnapshot={place}/snapshot\nOffFile={place}/off\n"
    )
    fill(history, runs)
    with Store(history) as store:
        refresh(store)
        store.jobs.update_coverage()
    publish_model(history, os.environ | {"SLUICE_CONF": str(config)})
    add_decisions(history, bundle, runs)


def add_what_grows(place: Path) -> None:
    """Add an audit of years, and reports of a month with many programs."""
    with Store(place / "history.db") as store:
        (run,) = store.runs.runs(store.runs.run_ids(latest=1))
        now = int(time.time())
        if len(store.administration.audit()) < AUDITED:
            store.administration.add_audit(
                AuditEntry(
                    now - 60 * (AUDITED - i), i % 50, "made", "MaxDelay", str(i), str(i + 1), "so"
                )
                for i in range(AUDITED)
            )
        row = {"user": "user", "program": "program", "for": [], "waited_node_hours": 1.5}
        table = {"caption": "Who", "titles": list(row), "rows": [["x"] * len(row)] * 10}
        section = {"heading": "What", "sentences": ["It did."] * 4, "tables": [table] * 5}
        facts = {"effects": {"by_program": [row | {"uid": i} for i in range(10_000)]}}
        if not store.administration.report_titles():
            store.administration.add_report(
                StoredReport(now, run.log.start or 0, "Stay in observe", [section] * 6, facts)
            )


def leave_word(place: Path, *, is_private: bool) -> None:
    """Publish a snapshot, as full as one can be, and whose jobs are shown to whom."""
    with Store(place / "history.db", read_only=True) as store:
        (last,) = store.runs.run_ids(latest=1)
        (run,) = store.runs.runs([last])
    profile = {"pattern": "aw", "confidence": 0.9, "rate": 1e8, "io_share": 0.2}
    first = (run.log.jobid or RUNNING) - RUNNING
    corunners = [
        {"job_id": first + i, "nodes": 4, "klass": "stream", "profile": profile}
        for i in range(RUNNING)
    ]
    now = int(time.time())
    content = pack_snapshot(state={"taken": now, "running": RUNNING}, corunners=corunners)
    (place / "snapshot").write_bytes(content)
    word = "private:0" if is_private else "open:0"
    Status(facts={"privacy": word, "cluster": "made"}).write(place / "snapshot")
    (place / "tokens").touch(0o600)
    (place / "tokens").write_text(f"{USER} {TOKEN}\n")


def pages(place: Path) -> list[str]:
    with Store(place / "history.db", read_only=True) as store:
        (last,) = store.decisions.latest_decisions(1)
        known = store.models.known_applications(store.models.model_in_use())
        (report, *_) = store.administration.report_titles()
    middle = known[len(known) // 2].id
    return [
        "/now",
        "/programs",
        "/programs?find=1&sort=programs:-confidence",
        f"/programs/{middle}",
        f"/programs/{middle}/{middle}",
        "/jobs",
        "/jobs?find=no-such-word",
        f"/jobs?user={USER}",
        "/jobs?since=30+d&action=delay",
        f"/jobs/{last.job_id}",
        "/programs?find=user&sort=doubts:user",
        "/reviews",
        "/model",
        "/model/1",
        "/model/1/difference",
        f"/model/reports/{report}",
        "/reviews?find=no-such-word",
        "/reviews?since=30+d",
        "/jobs.json",
    ]


def free_port() -> int:
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        return int(listener.getsockname()[1])


def started(place: Path, port: int) -> subprocess.Popen[bytes]:
    words = ["--config", place / "sluice.conf", "--history", place / "history.db"]
    words += ["--tokens", place / "tokens"]
    words += ["--operators", USER]
    server = subprocess.Popen([SLUICE, "serve", "--listen", f"127.0.0.1:{port}", *words])
    for _ in range(300):
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return server
        time.sleep(0.1)
    raise TimeoutError("the server does not listen")


def ask(port: int, path: str) -> float:
    """Return the seconds that an answer takes, to its last byte."""
    start = time.perf_counter()
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=120)) as connection:
        connection.request("GET", path, headers={"Authorization": f"Bearer {TOKEN}"})
        answer = connection.getresponse()
        answer.read()
    if answer.status != 200:
        raise RuntimeError(f"{path}: {answer.status}")
    return time.perf_counter() - start


def processor_seconds(server: subprocess.Popen[bytes]) -> float:
    fields = Path(f"/proc/{server.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def measure(place: Path, *, is_private: bool) -> bool:
    """Say what each page takes; return whether all keep to the goal."""
    leave_word(place, is_private=is_private)
    port = free_port()
    server = started(place, port)
    is_good = True
    try:
        for path in pages(place):
            if is_private and path.startswith(OF_ALL):
                continue  # of somebody else, or of all
            first = ask(port, path)
            before = processor_seconds(server)
            times = [ask(port, path) for _ in range(ROUNDS)]
            processor = (processor_seconds(server) - before) / ROUNDS
            median = statistics.median(times)
            is_good &= median <= GOAL_SECONDS
            print(
                f"{'own jobs' if is_private else 'all jobs'} {path}: median {1000 * median:.0f} ms "
                f"(goal: {1000 * GOAL_SECONDS:.0f} ms), slowest {1000 * max(times):.0f} ms, first "
                f"{1000 * first:.0f} ms, processor {1000 * processor:.0f} ms; "
                f"load {os.getloadavg()[0]:.1f}",
                flush=True,
            )
    finally:
        server.terminate()
        server.wait()
    return is_good


def main() -> int:
    words = sys.argv[1:]
    kept = Path(words[1]) if words[:1] == ["in"] else None
    numbers = [int(word) for word in words if word.isdecimal()]
    runs = numbers[0] if numbers else RUNS
    place = kept or Path(tempfile.mkdtemp(prefix="sluice-bench-"))
    try:
        if not (place / "history.db").exists():
            place.mkdir(parents=True, exist_ok=True)
            start = time.perf_counter()
            make(place, runs)
            print(f"{runs} runs made in {time.perf_counter() - start:.0f} s", flush=True)
        add_what_grows(place)
        good = [measure(place, is_private=is_private) for is_private in (False, True)]
    finally:
        if kept is None:
            shutil.rmtree(place, ignore_errors=True)
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
