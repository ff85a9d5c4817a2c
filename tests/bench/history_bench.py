"""A million runs in the history: how long the commands take, and how large the file is.

    python tests/bench/history_bench.py [RUNS]
    python tests/bench/history_bench.py report [RUNS]
    python tests/bench/history_bench.py windows HISTORY

The second times `sluice report` alone, the first and the second with and without levers. The third
only says how well the newest runs of a history are predicted, by how many are known.

The first makes the history anew (`made_history`, the same one every time), publishes a model of
it, and runs each command as a user would: a process of its own, whose start counts. Every run has
a log, a profile, a job, a decision and its share of all indices. The first tenth of the year is
written through the store, as ingest does; the other nine are the same applications' runs again,
each as much later, which SQLite copies by itself.

To take few minutes it learns from fewer runs than `sluice model train`: LEARNED instead of the
latest 50,000.

What a command takes is the fastest of ROUNDS: whatever else the machine does can only add to it.
Next to it stand median, slowest, processor time, and the same for an interpreter that does nothing.
At the end come the commands that read much, each once: seconds of clock and processor, and the most
memory it took (Linux counts no less than this bench itself has). Those goals are in processor time,
so that a busy machine does not fail them.
"""

import os
import resource
import shutil
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path

import numpy as np
from made_history import DAY, RUNS_FOR_AN_APPLICATION, made_history

from sluice.darshan.features import FEATURES
from sluice.history_db.records import Decision, Job
from sluice.history_db.store import Store
from sluice.interference.ranking import refresh
from sluice.policies import core
from sluice.policies.bundle import Bundle
from sluice.policies.record import Situation, decide
from sluice.prediction.jobs import latest_jobs
from sluice.prediction.score import ended_before, judge, predict_past
from sluice.prediction.train import (
    bundle_of,
    fit_quickly,
    keep,
    past_of,
)

RUNS = 1_000_000
BATCH = 5000
COPIES = 10  # of the first tenth, that one included
YEAR = 365 * DAY
ROUNDS = 15
LEARNED = 30_000
WINDOWS = (75_000, 50_000, 37_500, 25_000, 15_000)
GOAL_SECONDS = 0.2
GOAL_BYTES = 1024
GOAL_LONG_SECONDS = 60
GOAL_MEMORY = 1e9
ENDS_WELL = {0, 3, 4}  # `report` gives its verdict so
PRUNED_SHARE = 0.22  # of the runs
SLUICE = Path(sys.executable).parent / "sluice"


def fill(history: Path, runs: int) -> None:
    """Write runs of as many applications as a year has with so many runs."""
    span = YEAR // COPIES
    first = made_history(
        runs // COPIES, days=span / DAY, applications=max(12, runs // RUNS_FOR_AN_APPLICATION)
    )
    random = np.random.default_rng(1)
    with Store(history, create=True) as store:
        while batch := list(islice(first, BATCH)):
            store.jobs.upsert_jobs(run.job for run in batch)
            features = random.normal(size=(len(batch), len(FEATURES))).astype("<f4")
            store.runs.add_logs(
                [
                    (run.log, run.profile, row.tobytes())
                    for run, row in zip(batch, features, strict=True)
                ]
            )
            store.jobs.link_logs()
    with closing(sqlite3.connect(history, isolation_level=None)) as db:
        for copy in range(1, COPIES):
            copy_runs(db, count=runs // COPIES, copy=copy, later=copy * span)


def copy_runs(db: sqlite3.Connection, *, count: int, copy: int, later: int) -> None:
    """Copy the first `count` runs under ids and numbers of their own, `later` seconds later."""
    ids = count * copy
    changes = {
        "jobs": {
            "id": f"id + {ids}",
            "job_id": f"job_id + {ids}",
            "submit": f"submit + {later}",
            "start": f"start + {later}",
            "end": f"end + {later}",
        },
        "logs": {
            "id": f"id + {ids}",
            "digest": "randomblob(16)",
            "mtime_ns": f"mtime_ns + {later} * 1000000000",
            "jobid": f"jobid + {ids}",
            "start": f"start + {later}",
            "end": f"end + {later}",
            "job": f"job + {ids}",
        },
        "profiles": {"log": f"log + {ids}"},
    }
    db.execute("BEGIN")
    for table, changed in changes.items():
        names = [row[1] for row in db.execute(f"PRAGMA table_info({table})")]
        selected = ", ".join(changed.get(name, name) for name in names)
        key = "log" if table == "profiles" else "id"
        rows = f"SELECT {selected} FROM {table} WHERE {key} <= {count}"  # noqa: S608 - our own words
        db.execute(f"INSERT INTO {table} {rows}")
    db.execute("COMMIT")


def add_decisions(history: Path, bundle: Path, runs: int) -> Job:
    """Decide on the jobs of the last copy, as the plugin would have; return the last of them.

    Those on the others are the same, as much earlier.
    """
    known = Situation(Bundle.parse(bundle.read_bytes()), None)
    config = core.default_config()
    with Store(history) as store:
        ids = store.runs.run_ids(latest=runs // COPIES)
        for start in range(0, len(ids), BATCH):
            jobs = [run.job for run in store.runs.runs(ids[start : start + BATCH]) if run.job]
            store.decisions.insert_decisions(
                [decision(known, config, job, checksum=known.bundle.checksum) for job in jobs]
            )
    with closing(sqlite3.connect(history)) as db, db:
        for copy in range(1, COPIES):
            copy_decisions(db, count=runs // COPIES, copy=copy, earlier=copy * YEAR // COPIES)
    return jobs[-1]


def copy_decisions(db: sqlite3.Connection, *, count: int, copy: int, earlier: int) -> None:
    changed = {
        "boot": f"boot + {copy}",
        "now": f"now - {earlier}",
        "job_id": f"job_id - {count * copy}",
    }
    names = [row[1] for row in db.execute("PRAGMA table_info(decisions)")]
    selected = ", ".join(changed.get(name, name) for name in names)
    db.execute(
        f"INSERT INTO decisions SELECT {selected} FROM decisions WHERE boot = 1"  # noqa: S608
    )


def decision(known: Situation, config: core.Config, job: Job, *, checksum: int) -> Decision:
    submission = core.submission(
        {
            "uid": job.uid,
            "nodes": job.nodes,
            "tasks": job.tasks,
            "name": job.name,
            "account": job.account,
            "script_signature": job.script_signature,
        }
    )
    record = decide(known, config, submission, job.submit)
    return Decision(
        boot=1,
        number=job.job_id,
        now=job.submit,
        cluster=job.cluster,
        uid=job.uid or 0,
        job_id=job.job_id,
        joined_by="key",
        record=record.bytes,
        bundle=checksum,
    )


def publish_model(history: Path, environment: dict[str, str]) -> None:
    with Store(history) as store:
        past = past_of(store, latest=LEARNED)
        model = fit_quickly(past.jobs, silent=past.silent)
        model = replace(model, metrics=model.metrics | {"jobs": len(past.jobs)})
        keep(store, model, created=int(time.time()))
    subprocess.run([SLUICE, "model", "publish"], check=True, capture_output=True, env=environment)


def show_windows(history: Path) -> None:
    """Say how well the newest runs are predicted, by how many of the runs before are known."""
    with Store(history, read_only=True) as store:
        jobs = latest_jobs(store, latest=WINDOWS[0] * 4 // 3)
    ordered = sorted(jobs, key=lambda job: (job.submit, job.logs))
    later = ordered[WINDOWS[0] :: 13]
    earlier = ended_before(ordered, later[0].submit)
    print(f"{len(later)} of the newest {len(ordered) - WINDOWS[0]} runs are predicted", flush=True)
    for count in WINDOWS:
        model = fit_quickly(earlier[-count:], asked=later)
        score = judge(predict_past(bundle_of(model), later), earlier)
        days = (later[0].submit - earlier[-count:][0].submit) / DAY
        print(
            f"from {count} runs, of {days:.0f} days: {score.accuracy:.1%} right, certain enough of "
            f"{score.answered:.1%}, {score.accuracy_answered or 0:.1%} of these right, "
            f"Brier score {score.brier:.3f}",
            flush=True,
        )


@dataclass(frozen=True, slots=True)
class Times:
    """Seconds from start to end, and of the processor, of some runs of one command."""

    wall: list[float]
    processor: list[float]

    def __str__(self) -> str:
        figures = {
            "fastest": min(self.wall),
            "median": statistics.median(self.wall),
            "slowest": max(self.wall),
            "processor": min(self.processor),
        }
        return ", ".join(f"{name} {value * 1000:.0f} ms" for name, value in figures.items())


def times_of(command: list[Path | str], environment: dict[str, str]) -> Times:
    run = partial(subprocess.run, command, check=True, capture_output=True, env=environment)
    run()  # compiles what was not, adds up what changed
    times = Times([], [])
    for _ in range(ROUNDS):
        start, before = time.perf_counter(), processor_seconds()
        run()
        times.wall.append(time.perf_counter() - start)
        times.processor.append(processor_seconds() - before)
    return times


def show_long_command(command: list[str], environment: dict[str, str]) -> bool:
    """Run a command that reads much, once; say what it took and return whether that is good."""
    start = time.perf_counter()
    process = subprocess.Popen([SLUICE, *command], stdout=subprocess.DEVNULL, env=environment)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    processor, memory = usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024
    print(
        f"sluice {' '.join(command)}: {time.perf_counter() - start:.1f} s, "
        f"processor {processor:.1f} s, {memory / 1e6:.0f} MB "
        f"(goal: {GOAL_LONG_SECONDS} s of processor, {GOAL_MEMORY / 1e6:.0f} MB; "
        f"load {os.getloadavg()[0]:.1f})",
        flush=True,
    )
    return (
        process.returncode in ENDS_WELL and processor <= GOAL_LONG_SECONDS and memory <= GOAL_MEMORY
    )


def age_of_oldest(history: Path, share: float) -> str:
    """Return the age by which this share of the runs is older, as `prune` takes it."""
    with Store(history, read_only=True) as store:
        ids = store.runs.run_ids()
        (run,) = store.runs.runs([ids[int(len(ids) * share)]])
    return f"{int(time.time() - (run.log.start or 0)) // DAY}d"


def processor_seconds() -> float:
    """Of all commands so far."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def main() -> int:
    if sys.argv[1:2] == ["windows"]:
        show_windows(Path(sys.argv[2]))
        return 0
    words = sys.argv[1:]
    of_report_alone = words[:1] == ["report"]
    runs = next((int(word) for word in words if word != "report"), RUNS)
    place = Path(tempfile.mkdtemp(prefix="sluice-bench-"))
    history, bundle, config = (place / name for name in ("history.db", "bundle", "sluice.conf"))
    config.write_text(f"Bundle={bundle}\nHistory={history}\n")
    environment = os.environ | {"SLUICE_CONF": str(config)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # installed modules are compiled
    try:
        start = time.perf_counter()
        fill(history, runs)
        print(f"{runs} runs written in {time.perf_counter() - start:.0f} s", flush=True)
        start = time.perf_counter()
        with Store(history) as store:
            refresh(store)
            store.jobs.update_coverage()
        print(f"added up by week in {time.perf_counter() - start:.0f} s", flush=True)
        size = history.stat().st_size / runs
        print(f"{size:.0f} bytes a run (goal: under {GOAL_BYTES})", flush=True)
        start = time.perf_counter()
        publish_model(history, environment)
        print(
            f"learned from {LEARNED} runs in "
            f"{time.perf_counter() - start:.0f} s; the bundle has "
            f"{bundle.stat().st_size / 1e6:.1f} MB",
            flush=True,
        )
        last = add_decisions(history, bundle, runs)
        reports = [["report", "--since", "2y", *words] for words in (["--no-levers"], [])]
        if of_report_alone:
            done = [show_long_command(one, environment) for one in reports]
            return 0 if all(done) else 1
        show_windows(history)
        is_good = size < GOAL_BYTES
        nothing = times_of([sys.executable, "-c", "pass"], environment)
        print(f"an interpreter that does nothing: {nothing}")
        for command in (
            ["why", str(last.job_id)],
            ["predict", "--job-name", str(last.name), "--user", str(last.user), "-n", "64"],
            ["history"],
            ["history", "--json"],
            ["history", "--quarantined"],
            ["history", "top", "writers"],
            *(["history", "top", "writers", "--since", age] for age in ("1y", "26w", "4w", "1w")),
            ["history", "top", "readers", "--since", "1y", "-n", "100", "--json"],
            ["model", "list"],
            ["decisions"],
        ):
            times = times_of([SLUICE, *command], environment)
            is_good &= min(times.wall) < GOAL_SECONDS
            goal = f"goal: under {GOAL_SECONDS * 1000:.0f} ms"
            print(f"sluice {' '.join(command)}: {times} ({goal})", flush=True)
        for command in (
            ["decisions"],
            ["why", str(last.job_id)],
            ["site", "assess"],
            *reports,
            ["site", "interference"],
            ["history", "top", "harmful"],
            ["model", "train"],
            ["history", "prune", "--older-than", age_of_oldest(history, PRUNED_SHARE)],
        ):
            is_good &= show_long_command(command, environment)
    finally:
        shutil.rmtree(place, ignore_errors=True)
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
