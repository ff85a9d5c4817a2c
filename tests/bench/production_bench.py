#!/usr/bin/env python3
"""Does the interference law see what a year's background load cost benchmark jobs?

    tests/bench/production_bench.py [SUMMARIES.csv.gz]    (make production)

Summaries as tokio-abcutils makes them: a row a benchmark job, with its Darshan totals and with
what the servers of its file system did while it ran. Without an argument: Edison, 2017 to 2018
(tests/data/production).

Each job is compared with quiet runs (background below 3 % of the file system's highest rate) of
the same program, file system, size, layout and direction in the same 28 days. The law is the
core's, with the published coefficients, for the job's own numbers alongside a background of more
of the same. It is never told the job's own time or rate while it ran. Intervals: weeks redrawn.
"""

from __future__ import annotations

import csv
import gzip
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sluice.interference.busy_runs import QUIET
from sluice.interference.hot_targets import LOSSES, Run, fit_losses, share_kept
from sluice.policies import core
from sluice.policies.structs import View, new

EDISON = Path(__file__).parents[1] / "data" / "production" / "edison.csv.gz"
MIB = 2.0**20
WEEK = 7 * 86400  # seconds
LEAST_BYTES = 2.0**33
LEAST_SERVED = 0.5  # of what a job moved, by the servers' counts
MOST_MISSING = 0.1  # of the servers' counts
LEAST_RUNS, LEAST_QUIET = 40, 4  # of a kind; of those in the same 28 days
LOADED = 0.1
BACKGROUNDS = ((0.0, 0.01), (0.01, 0.03), (0.03, 0.1), (0.1, 9.0))
SAMPLES = 1000
OTHER_H = (1.0, 1.5, 5.0)
READS = {False: "writes", True: "reads"}

Array = np.ndarray
Law = Callable[["Jobs"], Array]


@dataclass(frozen=True)
class Jobs:
    """Jobs with quiet ones to compare with; arrays in the same order."""

    runs: list[Run]
    week: Array
    kept: Array
    """Logarithm of the share of the rate kept."""
    reads: Array
    load: Array
    """Background, of the file system's rate."""
    own: Array
    """The rate alone, likewise."""

    def __getitem__(self, which: Array) -> Jobs:
        at = np.flatnonzero(which) if which.dtype == bool else which
        arrays = (self.week, self.kept, self.reads, self.load, self.own)
        return Jobs([self.runs[i] for i in at], *(array[at] for array in arrays))

    @property
    def loaded(self) -> Array:
        return self.load >= LOADED


def rows(path: Path) -> Iterator[dict[str, str]]:
    with gzip.open(path, "rt", newline="") as file:
        names = next(csv.reader(file))
        # the summaries do not name their first column
        yield from csv.DictReader(
            file, names if names[0] in {"", "_datetime_start"} else ["", *names]
        )


@dataclass(frozen=True)
class Row:
    """A job as its summary has it."""

    kind: tuple[object, ...]
    file_system: str
    reads: bool
    bytes: float
    chunk: float
    processes: float
    rate: float
    background: float
    served: float
    start: float


def number(row: dict[str, str], name: str) -> float:
    try:
        return float(row[name])
    except (KeyError, ValueError):
        return np.nan


def job(row: dict[str, str]) -> Row | None:
    """Return a job, or None where the summary does not say what it moved, or the servers."""
    seconds = number(row, "darshan_walltime")
    written, read = (number(row, f"darshan_tot_bytes_{way}_posix") for way in ("written", "read"))
    by_servers = [number(row, f"fs_tot_bytes_{way}") for way in ("written", "read")]
    reads, own = read >= written, max(written, read)
    way, served = ("read", by_servers[1]) if reads else ("write", by_servers[0])
    rate = number(row, "darshan_agg_perf_by_slowest_posix") * MIB
    is_told = seconds > 0 and own > LEAST_BYTES and rate > 0 and row["_file_system"] != ""
    if (
        not is_told
        or not served >= LEAST_SERVED * own
        or number(row, "fs_frac_missing") > MOST_MISSING
    ):
        return None
    processes = number(row, "darshan_nprocs")
    own_files = number(row, f"darshan_biggest_{way}_api_files") >= processes / 2
    others = sum(
        max(0.0, all_ - mine) for all_, mine in zip(by_servers, (written, read), strict=True)
    )
    program, place = Path(row["darshan_app"]).name, row["_file_system"]
    return Row(
        kind=(program, place, processes, own_files, reads, round(np.log2(own))),
        file_system=place,
        reads=reads,
        bytes=own,
        chunk=own / max(1.0, number(row, f"darshan_tot_{way}s_posix")),
        processes=processes,
        rate=rate,
        background=others / seconds,
        served=sum(by_servers) / seconds,
        start=number(row, "_datetime_start"),
    )


def profile(one: Row, alone: float) -> dict[str, object]:
    pattern = "read" if one.reads else "aw"
    return {
        "pattern": pattern,
        "share": {pattern: 1.0},
        "chunk_bytes": one.chunk,
        "nprocs": one.processes,
        "write_bytes": 0.0 if one.reads else one.bytes,
        "read_bytes": one.bytes if one.reads else 0.0,
        "rate": alone,
        "bytes_per_flush": one.bytes,
        "unflushed_bytes": one.bytes / one.processes,
        **dict.fromkeys(("creates_per_mib", "direct_share", "metadata_rate"), 0.0),
        "io_share": 1.0,
    }


def read(path: Path) -> Jobs:
    found = [one for one in map(job, rows(path)) if one]
    rates = defaultdict(list)
    for one in found:
        rates[one.kind].append(one.rate)
    alone = {
        kind: float(np.quantile(of, 0.95)) for kind, of in rates.items() if len(of) >= LEAST_RUNS
    }
    found = [one for one in found if one.kind in alone]
    places: dict[str, list[Row]] = defaultdict(list)
    for one in found:
        places[one.file_system].append(one)
    highest = {
        place: max(
            float(np.quantile([one.served for one in of], 0.995)), *(alone[one.kind] for one in of)
        )
        for place, of in places.items()
    }

    def month(one: Row) -> tuple[object, ...]:
        return one.kind, one.start // (4 * WEEK)

    quiet = defaultdict(list)
    for one in found:
        if one.background < QUIET * highest[one.file_system]:
            quiet[month(one)].append(one.rate)
    found = [one for one in found if len(quiet[month(one)]) >= LEAST_QUIET]
    runs = [
        Run(
            profile=profile(one, alone[one.kind]),
            bandwidth=highest[one.file_system],
            background=one.background,
            kept=one.rate / float(np.median(quiet[month(one)])),
        )
        for one in found
    ]
    return Jobs(
        runs,
        week=np.array([one.start // WEEK for one in found]),
        kept=np.log([run.kept for run in runs]),
        reads=np.array([one.reads for one in found]),
        load=np.array([run.background / run.bandwidth for run in runs]),
        own=np.array([run.profile["rate"] / run.bandwidth for run in runs]),
    )


def law(**coefficients: float) -> Law:
    """Return the core's law with these coefficients, and published ones for the rest."""
    model = View(new("struct sluice_interference", core.default_interference() | coefficients))
    return lambda jobs: np.log([share_kept(run, model) for run in jobs.runs])


def published(jobs: Jobs) -> Array:
    return law()(jobs)


LAWS: dict[str, Law] = {
    "no effect": lambda jobs: np.zeros(len(jobs.load)),
    "the law": published,
    "the law without hot targets": law(hot_write_loss=0.0, hot_read_loss=0.0),
    "fair share of rates": lambda jobs: -np.log1p(jobs.load / jobs.own),
    "capacity, 1 / (1 + B / 2C)": lambda jobs: -np.log1p(jobs.load / 2),
}


def error(jobs: Jobs, said: Array) -> float:
    return float(np.median(np.abs(jobs.kept - said)))


def ratio(jobs: Jobs, said: Array) -> tuple[float, float, float]:
    """Return the median error over that of no effect, and its 95 % interval, weeks redrawn."""
    rng = np.random.default_rng(0)
    weeks = [np.flatnonzero(jobs.week == week) for week in np.unique(jobs.week)]
    wrong, none = np.abs(jobs.kept - said), np.abs(jobs.kept)
    drawn = []
    for _ in range(SAMPLES):
        at = np.concatenate([weeks[i] for i in rng.integers(0, len(weeks), len(weeks))])
        drawn.append(np.median(wrong[at]) / np.median(none[at]))
    low, high = np.quantile(drawn, [0.025, 0.975])
    return float(np.median(wrong) / np.median(none)), float(low), float(high)


def halves(jobs: Jobs) -> tuple[Jobs, Jobs]:
    """Return the earlier and the later half of the weeks."""
    weeks = np.unique(jobs.week)
    is_first = jobs.week < weeks[len(weeks) // 2]
    return jobs[is_first], jobs[~is_first]


def share(logarithm: float) -> str:
    return f"{np.exp(logarithm):.2f}"


def print_kept(jobs: Jobs) -> None:
    names = [name for name in LAWS if name != "no effect"]
    print(f"\n| direction | background | jobs | kept | {' | '.join(names)} |")
    print("|" + "---|" * (4 + len(names)))
    for reads, name in READS.items():
        for low, high in BACKGROUNDS:
            some = jobs[(jobs.reads == reads) & (jobs.load >= low) & (jobs.load < high)]
            if not some.runs:
                continue
            said = [share(float(np.median(LAWS[one](some)))) for one in names]
            kept = share(float(np.median(some.kept)))
            print(
                f"| {name} | {low:.0%} to {min(high, 1):.0%} | {len(some.runs)} "
                f"| {kept} | {' | '.join(said)} |"
            )


def print_errors(title: str, jobs: Jobs, laws: dict[str, Law]) -> None:
    print(f"\n| {title} | writes | of no effect (95 %) | reads | of no effect (95 %) |")
    print("|" + "---|" * 5)
    for name, one in laws.items():
        cells = []
        for reads in READS:
            some = jobs[(jobs.reads == reads) & jobs.loaded]
            said = one(some)
            middle, low, high = ratio(some, said)
            cells.append(f"{error(some, said):.3f} | {middle:.2f} ({low:.2f} to {high:.2f})")
        print(f"| {name} | {' | '.join(cells)} |")


def forms(jobs: Jobs) -> dict[str, Law]:
    """Return other forms of the same loss, each with a number a direction that this half gives."""

    def fitted(shape: Callable[[Jobs], Array]) -> Law:
        def said(others: Jobs) -> Array:
            result = np.zeros(len(others.load))
            for reads in READS:
                some = jobs[(jobs.reads == reads) & jobs.loaded]
                tried = np.geomspace(0.05, 50.0, 120)
                wrong = [np.mean(np.abs(some.kept + np.log1p(a * shape(some)))) for a in tried]
                at = others.reads == reads
                result[at] = -np.log1p(tried[int(np.argmin(wrong))] * shape(others)[at])
            return result

        return said

    return {
        "1 / (1 + a u)": fitted(lambda of: np.minimum(1, of.load)),
        "1 / (1 + a d u)": fitted(lambda of: of.own * np.minimum(1, of.load)),
        "1 / (1 + a u / d)": fitted(lambda of: of.load / of.own),
        "1 / (1 + a (1 - exp (-6 u)))": fitted(lambda of: 1 - np.exp(-6 * of.load)),
    }


def own_fit(jobs: Jobs, **coefficients: float) -> dict[str, float]:
    known = core.default_interference() | coefficients
    return {name: known[name] for name in LOSSES} | fit_losses(jobs.runs, known)


def main() -> int:
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else EDISON
    jobs = read(path)
    print(f"{path.name}: {len(jobs.runs)} jobs, {sum(jobs.loaded)} at a background above 10 %")
    print_kept(jobs)
    print_errors("loaded jobs, median error of the logarithm", jobs, LAWS)
    first, second = halves(jobs)
    print("\n| fitted to | L of writes | L of reads |\n|---|---|---|")
    for name, some in (("all weeks", jobs), ("first half", first), ("second half", second)):
        found = own_fit(some)
        print(f"| {name} | {found['hot_write_loss']:.2f} | {found['hot_read_loss']:.2f} |")
    of_first = {"the law": published, "the law, fitted to the first half": law(**own_fit(first))}
    of_first |= {
        f"likewise with h = {h}": law(hot_load=h, **own_fit(first, hot_load=h)) for h in OTHER_H
    }
    print_errors("loaded jobs of the second half", second, of_first | forms(first))
    return 0


if __name__ == "__main__":
    sys.exit(main())
