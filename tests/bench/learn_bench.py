"""What sluice-learn costs: processor time a poll, and its share of a core at the default interval.

    python tests/bench/learn_bench.py [RUNS] [JOBS_A_POLL]

A history of RUNS runs (`made_history`), a model of it, and then polls, in each of which JOBS_A_POLL
jobs of some of its users have ended and left their logs: the accounting is taken up, the logs are
read in a process of their own, their entries learned, a bundle published. A stand-in prints what
sacct would. Printed are the first poll, which reads the history as a whole, and the median of the
others; one more poll without anything new; the bundle, and what a publication adds to the history.
How long a job waits to be known is the interval and that poll.
"""

import os
import random
import statistics
import sys
import tempfile
import time
from itertools import islice
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "lab"))

from made_history import made_history
from made_logs import MIB, MadeLog, appended
from sacct_stand_in import write_sacct

from sluice.history_db.store import Store
from sluice.ingest.workers import start_from_a_clean_process
from sluice.policies.bundle import Bundle
from sluice.prediction.train import fit_quickly, keep, past_of
from sluice.slurm.learner import Learner, cpu_seconds

RUNS, JOBS_A_POLL, POLLS = 10_000, 10, 8
BATCH = 5000
GOAL_SHARE = 0.01
FIELDS = ("JobIDRaw", "Cluster", "JobName", "User", "UID", "Submit", "Start", "End", "State")
FIRST_JOB = 5_000_000


def fill(history: Path, runs: int) -> None:
    """Write a year of runs, and keep a model of some of them."""
    made = made_history(runs)
    with Store(history, create=True) as store:
        while batch := list(islice(made, BATCH)):
            store.jobs.upsert_jobs(run.job for run in batch)
            store.runs.add_logs([(run.log, run.profile, b"") for run in batch])
        store.jobs.link_logs()
        past = past_of(store)
        model = fit_quickly(past.jobs[-500:])
        model_id, _ = keep(store, model, created=int(time.time()))
        print(f"{runs} runs, model {model_id} of the last 500")


def run_jobs(place: Path, first: int, count: int) -> None:
    """Let jobs of this user end: their logs, and their lines of sacct."""
    end = int(time.time())
    lines = []
    for number in range(first, first + count):
        mib = random.randint(100, 400)
        log = MadeLog(uid=os.geteuid(), jobid=number, start=end - 100, end=end - 1)
        appended(log, file=number, count=mib, F_WRITE_TIME=60.0)
        log.write(place / "logs" / f"{number}.darshan")
        name = f"solver_{number % 7}"
        row = (number, "c", name, "me", os.geteuid(), end - 110, end - 101, end, "COMPLETED")
        lines.append("|".join(map(str, row)) + "\n")
    (place / "said").write_text("|".join(FIELDS) + "\n" + "".join(lines))


def site(place: Path) -> Path:
    (place / "bin").mkdir()
    (place / "logs").mkdir()
    write_sacct(place / "bin", place / "said")
    os.environ["PATH"] = f"{place}/bin:{os.environ['PATH']}"
    config = place / "sluice.conf"
    config.write_text(
        f"Bundle={place}/model.bundle\nHistory={place}/history.db\n"
        f"Snapshot={place}/snapshot\nDarshanLogs={place}/logs\n"
    )
    return config


def polled(learner: Learner) -> float:
    before = cpu_seconds()
    assert learner.poll()
    return cpu_seconds() - before


def size_of(history: Path) -> int:
    """Return the bytes of a history without free pages."""
    with Store(history) as store:
        store.upkeep.vacuum()
    return history.stat().st_size


def main() -> int:
    runs, jobs = (int(word) for word in (*sys.argv[1:3], RUNS, JOBS_A_POLL)[:2])
    start_from_a_clean_process()
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        config = site(place)
        fill(place / "history.db", runs)
        run_jobs(place, FIRST_JOB, 1)
        learner = Learner(config)
        print(f"first poll, with the whole history: {polled(learner):.2f} s of processor")
        size = size_of(place / "history.db")
        costs = []
        for poll in range(1, POLLS + 1):
            run_jobs(place, FIRST_JOB + 1000 * poll, jobs)
            costs.append(polled(learner))
        cost, quiet = statistics.median(costs), polled(learner)
        bundle = Bundle.read(place / "model.bundle")
        assert bundle.application_count > 0
        share = cost / learner.config.learn_seconds
        learner.close()
        grown = size_of(place / "history.db") - size
        print(
            f"a poll with {jobs} jobs: {cost:.3f} s (least {min(costs):.3f}, most {max(costs):.3f})"
            f" = {100 * share:.2g} % of a core; without any: {quiet:.3f} s"
        )
        print(
            f"bundle: {bundle.application_count} applications, "
            f"{(place / 'model.bundle').stat().st_size / MIB:.2f} MiB; the history has grown by "
            f"{grown / POLLS / 1024:.0f} KiB a publication"
        )
        print(f"goal: below {100 * GOAL_SHARE:.0f} %: {'met' if share < GOAL_SHARE else 'MISSED'}")
    return share >= GOAL_SHARE


if __name__ == "__main__":
    sys.exit(main())
