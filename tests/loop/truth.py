#!/usr/bin/env python3
"""What is so: each program alone, pairs of them, and what co-runners cost, by clock and logs.

    tests/loop/truth.py /tmp/loop > truth.json

Run times are those that scripts stamped; rates and the like are read from the logs of runs of
which Sluice has learned nothing, by Sluice's own definitions.
"""

import json
import math
import pwd
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

from sluice.history_db.store import Store
from sluice.prediction.jobs import FinishedJob, latest_jobs

SLUICE = Path(sys.executable).parent / "sluice"
SIGNIFICANT = 4 << 20  # bytes: programs that move fewer are not judged by their rate


@dataclass(frozen=True)
class Run:
    """One job as the clock saw it; `loop.py` keeps a line of each."""

    phase: str  # contended, filler, alone, pair or partner
    program: str
    user: str
    job_id: int
    lane: str
    size: int | None  # the argument, where there is one
    alongside: str  # the other of a pair
    started: float
    ended: float
    state: str
    has_log: bool

    @property
    def seconds(self) -> float:
        return self.ended - self.started

    @property
    def name(self) -> str:
        return self.program if self.size is None else f"{self.program} {self.size}"


@dataclass(frozen=True)
class Alone:
    """A program on a lane that nobody else used."""

    submission: Mapping[str, Any]  # as the core takes it
    submit_line: str
    seconds: float
    middle: Mapping[str, float]  # of the numbers of its logs
    pattern: str

    @property
    def matters(self) -> bool:
        moved = self.middle.get("write_bytes", 0.0) + self.middle.get("read_bytes", 0.0)
        return moved >= SIGNIFICANT


@dataclass(frozen=True)
class Pair:
    """A program while another ran on its lane."""

    program: str
    alongside: str
    slowdown: float  # of the whole run
    io_factor: float | None  # rate alone over rate


@dataclass(frozen=True)
class Truth:
    programs: Mapping[str, Alone]
    pairs: Sequence[Pair]
    contended: Sequence[Run]
    logged: Mapping[int, FinishedJob]  # what Sluice read of the runs with co-runners, by job
    node_seconds: float  # of runs with co-runners that left a log
    lost: Mapping[str, float]  # seconds of them by program, against their run time alone

    @property
    def lost_seconds(self) -> float:
        return math.fsum(self.lost.values())


def read_truth(place: Path) -> Truth:
    """Return what is so, of all that was kept below the place."""
    lines = (place / "runs.jsonl").read_text().splitlines()
    runs = [
        run for run in (Run(**json.loads(line)) for line in lines) if math.isfinite(run.seconds)
    ]
    logged = _ingested(place)
    lines_of = _submit_lines(place)
    groups: dict[str, list[Run]] = defaultdict(list)
    for run in runs:
        if run.phase == "alone":
            groups[run.name].append(run)
    programs = {
        name: _alone(place, group, logged, lines_of[group[0].job_id])
        for name, group in sorted(groups.items())
    }
    contended = [
        run for run in runs if run.phase in {"contended", "filler"} and run.name in programs
    ]
    of_logs = [run for run in contended if run.has_log]
    lost: dict[str, float] = defaultdict(float)
    for run in of_logs:
        lost[run.program] += run.seconds - programs[run.name].seconds
    paired = [run for run in runs if run.phase == "pair" and run.name in programs]
    return Truth(
        programs,
        [_pair(run, programs[run.name], logged) for run in paired],
        contended,
        _jobs_by_id(place / "sluice" / "history.db"),
        sum(run.seconds for run in of_logs),
        lost,
    )


def _alone(
    place: Path, runs: Sequence[Run], logged: Mapping[int, FinishedJob], submit_line: str
) -> Alone:
    jobs = [logged[run.job_id] for run in runs if run.job_id in logged]
    patterns = Counter(job.profile.pattern for job in jobs)
    first = runs[0]
    submission = {
        "uid": pwd.getpwnam(first.user).pw_uid,
        "name": first.program,
        "partition": "main",
        "script": (place / "scripts" / first.program).read_text(),
    }
    return Alone(
        submission,
        submit_line,
        median(run.seconds for run in runs),
        _middle([job.profile.numbers for job in jobs]),
        patterns.most_common(1)[0][0] if patterns else "unknown",
    )


def _middle(rows: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """Return the medians of what is known."""
    known: dict[str, list[float]] = defaultdict(list)
    for row in rows:
        for name, value in row.items():
            known[name].append(value)
    return {name: median(values) for name, values in known.items()}


def _pair(run: Run, alone: Alone, logged: Mapping[int, FinishedJob]) -> Pair:
    job = logged.get(run.job_id)
    rate, usual = job.profile.numbers.get("rate") if job else None, alone.middle.get("rate")
    return Pair(
        run.name,
        run.alongside,
        run.seconds / alone.seconds,
        usual / rate if rate and usual else None,
    )


def _ingested(place: Path) -> dict[int, FinishedJob]:
    """Read the logs of the truth into a history of their own."""
    history = place / "truth.db"
    words = [SLUICE, "history", "ingest", place / "truth-logs", "--sacct", place / "sacct.txt"]
    subprocess.run(
        [*words, "--workers", "1", "--history", history], check=False, capture_output=True
    )
    return _jobs_by_id(history)


def _jobs_by_id(history: Path) -> dict[int, FinishedJob]:
    """Return the jobs of a history that have logs."""
    with Store(history, read_only=True) as store:
        of_log = {
            run.log_id: run.log.jobid for run in store.runs.runs(store.runs.run_ids(latest=100_000))
        }
        return {of_log[job.logs[0]] or 0: job for job in latest_jobs(store) if job.logs}


def _submit_lines(place: Path) -> dict[int, str]:
    with Store(place / "truth.db", read_only=True) as store:
        return {job.job_id: job.submit_line or "" for job in store.jobs.all_jobs()}


if __name__ == "__main__":
    found = read_truth(Path(sys.argv[1]))
    shown = {"programs": {k: asdict(v) for k, v in found.programs.items()}}
    shown |= {"pairs": [asdict(pair) for pair in found.pairs]}
    shown |= {"node_seconds": found.node_seconds, "lost_seconds": found.lost_seconds}
    print(json.dumps(shown, indent=1, default=dict))
