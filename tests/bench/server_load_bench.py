"""How much server load adds to predicting run time, over what Darshan counts.

NERSC's year of benchmark jobs on Edison (tokio-abcutils, BSD-3-Clause-LBNL): each with its
Darshan totals and what the Lustre servers did while it ran. Models of one kind predict the
logarithm of the run time: one from what Darshan counts of the job (never a time), the others
also from the load meanwhile (bytes and opens a second beyond the job's own, how many nodes ran
jobs), and from how full the targets were. What the servers did in all is not used: it holds the
job's own rate, and so the answer. All learn from the first part of the year and are judged on
the rest; the interval is a bootstrap over weeks.
"""

from __future__ import annotations

import csv
import gzip
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor

DATA = (
    Path(__file__).resolve().parents[3]
    / "shared/data/traces/edison-summaries_2017-02-14-2018-02-15.csv.gz"
)
TRAINED_ON = 0.7  # of the jobs, the earliest
WEEK = 7 * 86400  # seconds
SAMPLES = 2000  # of the bootstrap
OF_THE_JOB = (
    "darshan_nprocs",
    "darshan_tot_bytes_read_posix",
    "darshan_tot_bytes_written_posix",
    "darshan_tot_opens_posix",
    "darshan_tot_reads_posix",
    "darshan_tot_writes_posix",
    "darshan_tot_stats_posix",
)
# What the servers count, and how much of it was the job's own.
FOREIGN = (
    ("fs_tot_bytes_read", "darshan_tot_bytes_read_posix"),
    ("fs_tot_bytes_written", "darshan_tot_bytes_written_posix"),
    ("fs_tot_open_ops", "darshan_tot_opens_posix"),
)
FULLNESS = ("fshealth_ost_avg_full_pct", "fshealth_ost_most_full_pct")


@dataclass(frozen=True)
class Jobs:
    """In the order of their starts."""

    start: np.ndarray
    """UTC seconds."""
    seconds: np.ndarray
    """Logarithm of the run time."""
    own: np.ndarray
    """(jobs, features): the program, its file system and what Darshan counts."""
    load: np.ndarray
    """(jobs, features): what others did."""
    fullness: np.ndarray
    """(jobs, features): of the targets."""


def number(row: dict[str, str], name: str) -> float:
    return float(row[name]) if row[name] else np.nan


def busy_nodes(row: dict[str, str]) -> float:
    """Return how many nodes ran jobs meanwhile, on average.

    Not how many ran any job of those that it overlapped: these grow with the time that it took.
    """
    seconds = number(row, "_datetime_end") - number(row, "_datetime_start")
    return number(row, "jobsdb_concurrent_nodehrs") * 3600.0 / seconds


def read() -> Jobs:
    start, seconds, own, load, fullness = [], [], [], [], []
    programs: dict[tuple[str, str], int] = {}
    with gzip.open(DATA, "rt", newline="") as file:
        header = ["", *next(csv.reader(file))]  # it does not name the first column
        for row in csv.DictReader(file, header):
            took = number(row, "darshan_walltime")
            if not took > 0:
                continue
            program = Path(row["darshan_app"]).name, row["_file_system"]
            start.append(number(row, "_datetime_start"))
            seconds.append(np.log(took))
            own.append(
                [
                    programs.setdefault(program, len(programs)),
                    *(number(row, name) for name in OF_THE_JOB),
                ]
            )
            load.append(
                [
                    *(
                        max(0.0, number(row, all_) - number(row, mine)) / took
                        for all_, mine in FOREIGN
                    ),
                    busy_nodes(row),
                ]
            )
            fullness.append([number(row, name) for name in FULLNESS])
    order = np.argsort(start, kind="stable")
    return Jobs(*(np.array(one)[order] for one in (start, seconds, own, load, fullness)))


def errors(jobs: Jobs, rows: np.ndarray, split: int) -> np.ndarray:
    """Absolute errors of the logarithm, of the jobs behind the split."""
    model = HistGradientBoostingRegressor(
        loss="absolute_error", categorical_features=[0], random_state=0
    )
    model.fit(rows[:split], jobs.seconds[:split])
    return np.abs(model.predict(rows[split:]) - jobs.seconds[split:])


def interval(jobs: Jobs, split: int, without: np.ndarray, alongside: np.ndarray) -> np.ndarray:
    """95 % of how much smaller the median error becomes, weeks drawn anew."""
    rng = np.random.default_rng(0)
    week = (jobs.start[split:] // WEEK).astype(int)
    members = [np.flatnonzero(week == one) for one in np.unique(week)]
    falls = []
    for _ in range(SAMPLES):
        drawn = np.concatenate([members[i] for i in rng.integers(0, len(members), len(members))])
        falls.append(1.0 - np.median(alongside[drawn]) / np.median(without[drawn]))
    return np.quantile(falls, [0.025, 0.975])


def show(name: str, error: np.ndarray) -> None:
    print(
        f"  {name:29s} median |log error| {np.median(error):.3f}, "
        f"90th percentile {np.quantile(error, 0.9):.3f}"
    )


def main() -> int:
    if not DATA.exists():
        print(f"skipped: {DATA.name} is not alongside this repository")
        return 0
    jobs = read()
    split = int(TRAINED_ON * len(jobs.start))
    without = errors(jobs, jobs.own, split)
    print(f"{split} jobs to learn from, the {len(without)} after them to be judged on")
    show("Darshan alone", without)
    for name, rows in (
        ("and server load", [jobs.own, jobs.load]),
        ("and how full the targets were", [jobs.own, jobs.load, jobs.fullness]),
    ):
        alongside = errors(jobs, np.hstack(rows), split)
        low, high = interval(jobs, split, without, alongside)
        show(name, alongside)
        fall = 1.0 - np.median(alongside) / np.median(without)
        print(f"    median error smaller by {fall:.0%} (95 %: {low:.0%} to {high:.0%})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
