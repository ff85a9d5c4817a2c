"""A made-up history: applications that scale, drift, are renamed, and appear.

For tests and benchmarks, with any number of runs. What each is an
example of is known (`MadeRun.situation`), so that it can be told where prediction breaks.
Numbers vary from run to run as measured ones do; the same seed gives the same history.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from sluice.history_db.records import NUMBERS, Job, Log, Profile

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.random import Generator

START = 1_750_000_000  # UTC seconds
DAY = 86400
CLUSTER = "made"
RUNS_FOR_AN_APPLICATION = 120  # on average
JUST_CHANGED = 5  # runs after a change that count as such
PROCESSES_A_NODE = 32
PATTERNS = ("aw", "owc", "ws", "read", "metadata", "none")
HOW_COMMON = (0.25, 0.2, 0.1, 0.1, 0.05, 0.3)
PROGRAMS = ("lmp", "gmx", "wrf", "vasp", "namd", "cp2k", "icon", "xgc", "enzo", "train", "post")

KINDS = {
    "steady": 0.2,
    "scaling": 0.2,
    "by size": 0.1,
    "changing": 0.08,
    "growing": 0.08,
    "renamed": 0.06,
    "rewritten": 0.06,
    "moved": 0.04,
    "shared": 0.1,
    "any": 0.08,
}
"""Kinds of application, and their share.

steady: always the same. scaling: bytes and chunk follow powers of the size. by size: small runs
are tests that write nothing. changing: another pattern from some day on. growing: chunk and
bytes double every 60 days. renamed: another name, same script. rewritten: another script, same
name. moved: another name and another script, and does something else. shared: a program that
several users run under its own name. any: one name and one script for whatever its user tries
that day.
"""


@dataclass(frozen=True, slots=True)
class MadeRun:
    """One run, as accounting and Darshan would have seen it."""

    situation: str
    job: Job
    log: Log
    profile: Profile


@dataclass(slots=True)
class _Application:
    kind: str
    uid: int
    account: str
    name: str
    script: int
    pattern: str
    chunk: float
    written: float
    sizes: tuple[int, ...]
    bytes_exponent: float
    chunk_exponent: float
    appears: float
    changes: float
    """Both as shares of the history's length."""
    other: str
    """Pattern after a change."""
    runs: int = 0
    runs_since_change: int = 0


def made_history(
    runs: int, *, seed: int = 1, days: float = 365, applications: int | None = None
) -> Iterator[MadeRun]:
    """Yield so many runs in the order of their submission, over so many days.

    applications: how many run at all; without, RUNS_FOR_AN_APPLICATION decides.
    """
    random = np.random.default_rng(seed)
    count = applications or max(12, runs // RUNS_FOR_AN_APPLICATION)
    made = [_application(random, number, count) for number in range(count)]
    common = np.cumsum(random.lognormal(0.0, 1.0, count))
    for number in range(runs):
        now = number / runs
        application = _drawn(random, made, common, now)
        yield _run(random, application, number, now, days)


def _application(random: Generator, number: int, count: int) -> _Application:
    kind = str(random.choice(list(KINDS), p=list(KINDS.values())))
    uid = 1000 + int(random.integers(max(3, count // 4)))
    program = int(random.integers(len(PROGRAMS)))
    pattern = str(random.choice(PATTERNS, p=HOW_COMMON))
    if kind == "shared":
        pattern = PATTERNS[program % len(PATTERNS)]
    size = int(2 ** random.integers(3, 9))
    return _Application(
        kind=kind,
        uid=uid,
        account=f"p{uid % 17:02}",
        name=PROGRAMS[program] + ("" if kind == "shared" else f"_{_letters(number)}"),
        script=int(random.integers(1, 1 << 63)),
        pattern=pattern,
        chunk=float(2 ** random.uniform(12, 24)),
        written=float(2 ** random.uniform(30, 40)) if pattern != "none" else 1e6,
        sizes=tuple(size * 2**i for i in range(int(random.integers(3, 6)))),
        bytes_exponent=float(random.choice([0.5, 1.0])),
        chunk_exponent=float(random.choice([-1.0, -0.5, 0.0])),
        appears=0.0 if random.random() < 0.7 else float(random.uniform(0.1, 0.95)),
        changes=float(random.uniform(0.3, 0.9)),
        other=str(random.choice([name for name in PATTERNS if name != pattern])),
    )


def _letters(number: int) -> str:
    """Write a number without digits: those would be taken for a counter."""
    text = ""
    while number or not text:
        number, digit = divmod(number, 26)
        text = chr(ord("a") + digit) + text
    return text


def _drawn(
    random: Generator, applications: list[_Application], common: np.ndarray, now: float
) -> _Application:
    while True:
        drawn = applications[int(np.searchsorted(common, random.random() * common[-1]))]
        if drawn.appears <= now:
            return drawn


def _run(
    random: Generator, application: _Application, number: int, now: float, days: float
) -> MadeRun:
    changed = now >= application.changes
    size = application.sizes[int(random.integers(len(application.sizes)))]
    if application.kind == "scaling" and application.runs % 40 == 39:
        size *= 4  # a large run now and then
    situation = _situation(application, size, changed=changed)
    application.runs += 1
    application.runs_since_change += changed
    pattern, chunk, written = _behaviour(random, application, size, now * days, changed=changed)
    submit = START + int(now * days * DAY)
    profile = _profile(random, pattern, chunk, written, size)
    start = submit + int(random.integers(5, 3600))
    end = start + int(profile.numbers["runtime_seconds"]) + 1
    job = _job(application, number, size, changed=changed)
    numbers = profile.numbers
    io_seconds = numbers["io_share"] * numbers["runtime_seconds"]
    job = replace(
        job,
        submit=submit,
        start=start,
        end=end,
        write_bytes=int(numbers["write_bytes"]),
        read_bytes=int(numbers["read_bytes"]),
        metadata_operations=int(numbers["metadata_rate"] * io_seconds),
    )
    return MadeRun(situation, job, _log(job, number, size), profile)


def _situation(application: _Application, size: int, *, changed: bool) -> str:
    """Name what the run is an example of, before it is run."""
    kind = application.kind
    if application.runs < 3:
        what = "new, but known of others" if kind == "shared" else "new"
        return f"{what}: run {application.runs + 1}"
    if kind in ("changing", "renamed", "rewritten", "moved"):
        if not changed:
            return "steady"
        soon = application.runs_since_change < JUST_CHANGED
        what = "changed behaviour" if kind == "changing" else kind
        return f"{what}: first {JUST_CHANGED} runs" if soon else f"{what}: later"
    if kind == "scaling" and size > max(application.sizes):
        return "scaling, beyond the usual sizes"
    return {"any": "one name, many programs", "by size": "tests small, production large"}.get(
        kind, kind
    )


def _behaviour(
    random: Generator, application: _Application, size: int, day: float, *, changed: bool
) -> tuple[str, float, float]:
    pattern, chunk, written = application.pattern, application.chunk, application.written
    octaves = np.log2(size / application.sizes[0])
    match application.kind:
        case "scaling":
            written *= 2 ** (octaves * application.bytes_exponent)
            chunk *= 2 ** (octaves * application.chunk_exponent)
        case "by size" if size == application.sizes[0]:
            pattern, written = "none", 1e6
        case "changing" | "moved" if changed:
            pattern, written = application.other, 2.0**33
        case "growing":
            chunk *= 2 ** (day / 60)
            written *= 2 ** (day / 60)
        case "any":
            pattern = str(random.choice(PATTERNS, p=HOW_COMMON))
            chunk, written = 2 ** random.uniform(12, 24), 2 ** random.uniform(30, 40)
    return pattern, chunk * 2 ** random.normal(0, 0.1), written * 2 ** random.normal(0, 0.2)


def _profile(random: Generator, pattern: str, chunk: float, written: float, size: int) -> Profile:
    rate = min(5e9, size * 5e7) * 2 ** random.normal(0, 0.3)
    io_share = 0.001 if pattern == "none" else random.uniform(0.05, 0.4)
    moved = max(written, 1.0)
    seconds = moved / rate
    is_read = pattern == "read"
    numbers = dict.fromkeys(NUMBERS, 0.0) | {
        "chunk_bytes": chunk,
        "nprocs": float(size),
        "write_bytes": moved / 100 if is_read else moved,
        "read_bytes": moved if is_read else moved / 100,
        "files": moved / chunk if pattern == "owc" else float(size),
        "rate": rate,
        "metadata_rate": 5000.0 if pattern == "metadata" else 10.0,
        "burst_seconds": min(seconds, 60.0),
        "period_seconds": min(seconds, 60.0) / io_share,
        "io_share": io_share,
        "runtime_seconds": seconds / io_share,
        "bytes_per_flush": chunk if pattern in ("owc", "ws") else moved,
        "creates_per_mib": 2.0**20 / chunk if pattern == "owc" else 0.0,
        "unflushed_bytes": moved / size if pattern == "aw" else 0.0,
        "targets": 4.0,
    }
    confidence = float(random.uniform(0.85, 0.99))
    return Profile(pattern, confidence, {pattern: 1.0}, numbers, 0.5)


def _job(application: _Application, number: int, size: int, *, changed: bool) -> Job:
    """Return the job as it was asked for; its times are still to come."""
    has_new_name = changed and application.kind in ("renamed", "moved")
    has_new_script = changed and application.kind in ("rewritten", "moved")
    name = application.name + ("_next" if has_new_name else "")
    nodes = max(1, size // PROCESSES_A_NODE)
    return Job(
        cluster=CLUSTER,
        job_id=100_000 + number,
        submit=0,
        restarts=0,
        name=f"{name}_{number % 1000}",
        user=f"u{application.uid}",
        uid=application.uid,
        account=application.account,
        partition="batch",
        qos="normal",
        nodes=nodes,
        tasks=size,
        cpus=nodes * PROCESSES_A_NODE,
        time_limit=720,
        start=None,
        end=None,
        state="COMPLETED",
        exit_code="0:0",
        submit_line=f"sbatch --nodes={nodes} --ntasks={size} -J {name}_{number % 1000} {name}.sh",
        script_signature=application.script ^ 1 if has_new_script else application.script,
        source="sacct",
    )


def _log(job: Job, number: int, size: int) -> Log:
    program = (job.name or "").split("_")[0]
    return Log(
        digest=hashlib.blake2b(number.to_bytes(8, "big"), digest_size=16).digest(),
        path=(
            f"/var/log/darshan/{number // 2000 // 365 + 2025}/{number // 60000 % 12 + 1}/"
            f"{number // 2000 % 28 + 1}/{job.user}_{program}_id{job.job_id}-{number % 32768}_"
            f"{number // 60000 % 12 + 1}-{number // 2000 % 28 + 1}-{number % 86400}-"
            f"{number * 7919 % 1_000_000}_1.darshan"
        ),
        size=4096,
        mtime_ns=(job.end or 0) * 10**9 + number % 10**9,
        reason=None,
        jobid=job.job_id,
        uid=job.uid,
        exe=f"/opt/apps/{program}/bin/{program} -in case{number % 1000}.inp -log run.log",
        start=job.start,
        end=job.end,
        nprocs=size,
        partial=False,
        format="3.41",
    )
