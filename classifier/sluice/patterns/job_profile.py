"""The logs of one job -> what the job did: one profile.

Processes without MPI leave a log each, steps as well. What ran at the same time is laid over each
other: the job was in I/O while any of its processes was, at the rate of all of them together.
Steps one after the other are phases: their seconds of I/O add up. Of a program that opens many
files Darshan keeps the first 1,024; how much it wrote in all, the accounting says.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from sluice.darshan.bursts import find_bursts, io_seconds_of_all, packed, together, unpacked
from sluice.darshan.features import SIGNIFICANT_BYTES
from sluice.history_db.records import Profile
from sluice.policies.core import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sluice.darshan.bursts import MovedBytes
    from sluice.history_db.records import Job, Run

MIXED = "mixed"
DOMINANT = 0.75  # share of the bytes from which one pattern speaks for all phases
SUMMED = ("write_bytes", "read_bytes", "files")
RATES = ("rate", "metadata_rate")
OF_THE_JOB = (*SUMMED, *RATES, "nprocs", "runtime_seconds", "io_share")
"""Numbers that are no mean of those of the logs."""


@dataclass(frozen=True, slots=True)
class _Part:
    """One log of a job."""

    run: Run
    start: float
    """UTC seconds, as precise as they are known."""
    end: float
    io_seconds: float | None
    moved: MovedBytes | None

    @property
    def bytes(self) -> float:
        return self.number("write_bytes") + self.number("read_bytes")

    def number(self, name: str) -> float:
        return self.run.profile.numbers.get(name, 0.0)


def profile_of(runs: Sequence[Run]) -> Profile:
    """Return what a job did in all its logs, and in what they do not hold."""
    profile = _combined(runs)
    job = runs[0].job
    if job is None or not any(run.log.partial for run in runs):
        return profile
    return replace(profile, numbers=_completed(profile.numbers, job))


def _completed(numbers: dict[str, float], job: Job) -> dict[str, float]:
    """Return the numbers of capped logs with the bytes that the accounting counted.

    It counts the files of the program as well, so it says nothing of a direction in which the
    logs saw nothing. What was not seen is taken to be like what was.
    """
    counted = {"write_bytes": job.write_bytes or 0, "read_bytes": job.read_bytes or 0}
    grown = {
        name: max(1.0, count / numbers[name])
        for name, count in counted.items()
        if numbers.get(name, 0.0) >= SIGNIFICANT_BYTES
    }
    before = math.fsum(numbers[name] for name in grown)
    if not before:
        return numbers
    after = math.fsum(numbers[name] * factor for name, factor in grown.items())
    result = numbers | {name: numbers[name] * factor for name, factor in grown.items()}
    if "files" in numbers:
        result["files"] *= grown.get("write_bytes", 1.0)
    if "io_share" in numbers:
        result["io_share"] = min(1.0, numbers["io_share"] * after / before)
    return result


def _combined(runs: Sequence[Run]) -> Profile:
    if len(runs) == 1:
        return runs[0].profile
    parts = [_part(run) for run in runs]
    weights = _weights([part.bytes for part in parts])
    shares: dict[str, float] = defaultdict(float)
    for run, weight in zip(runs, weights, strict=True):
        for name, share in run.profile.shares.items():
            shares[name] += share * weight
    pattern, confidence = _pattern(runs, weights)
    return Profile(
        pattern=pattern,
        confidence=confidence,
        shares=dict(shares),
        numbers=_means(parts) | _numbers(parts) | _bursts(parts),
        log_sd=max(run.profile.log_sd for run in runs),
    )


def heatmap_of(runs: Sequence[Run]) -> bytes | None:
    """Return when a job moved how many bytes; None where a log does not tell."""
    if len(runs) == 1:
        return runs[0].log.heatmap
    parts = [_part(run) for run in runs]
    moved = [part.moved for part in parts if part.moved is not None]
    if not moved or len(moved) < len([part for part in parts if part.bytes > 0]):
        return None
    return packed(min(one.start for one in moved), together(moved))


def _part(run: Run) -> _Part:
    numbers, log = run.profile.numbers, run.log
    moved = unpacked(log.heatmap)
    start = moved.start if moved else float(log.start or 0)
    runtime = numbers.get("runtime_seconds", float((log.end or 0) - (log.start or 0)))
    share = numbers.get("io_share")
    return _Part(run, start, start + runtime, None if share is None else share * runtime, moved)


def _pattern(runs: Sequence[Run], weights: Sequence[float]) -> tuple[str, float]:
    """Return the pattern of most bytes, `mixed` where none has nearly all of them.

    What has no name speaks for none.
    """
    votes: dict[str, float] = defaultdict(float)
    confidence = 0.0
    for run, weight in zip(runs, weights, strict=True):
        votes[run.profile.pattern] += weight
        if run.profile.pattern != UNKNOWN:
            confidence += weight * run.profile.confidence
    unknown = votes.pop(UNKNOWN, 0.0)
    if not votes or unknown > 0.5:
        return UNKNOWN, confidence
    pattern = max(sorted(votes), key=lambda name: votes[name])
    return (pattern if votes[pattern] >= DOMINANT * sum(votes.values()) else MIXED), confidence


def _weights(moved: Sequence[float]) -> list[float]:
    weights = np.array(moved) + 1.0
    return list(map(float, weights / weights.sum()))


def _means(parts: Sequence[_Part]) -> dict[str, float]:
    """Return what describes a typical process, write or read, weighted by bytes."""
    numbers = {}
    of_all = _weights([part.bytes for part in parts])
    of_reads = _weights([part.number("read_bytes") for part in parts])
    for name in sorted({name for part in parts for name in part.run.profile.numbers}):
        if name in OF_THE_JOB:
            continue
        weights = of_reads if name.startswith("read_") else of_all
        known = [i for i, part in enumerate(parts) if name in part.run.profile.numbers]
        values = [parts[i].number(name) for i in known]
        numbers[name] = float(np.average(values, weights=[weights[i] for i in known]))
    return numbers


def _numbers(parts: Sequence[_Part]) -> dict[str, float]:
    runtime = max(part.end for part in parts) - min(part.start for part in parts)
    numbers = {
        "runtime_seconds": runtime,
        "nprocs": float(_most_at_once(parts)),
        **{name: _sum(parts, name) for name in SUMMED if _knows(parts, name)},
    }
    timed = [part for part in parts if part.io_seconds is not None]
    seconds = math.fsum(_io_seconds(phase) for phase in _phases(timed))
    if timed and runtime > 0:
        numbers["io_share"] = min(1.0, seconds / runtime)
    if seconds > 0:
        for name in RATES:
            done = math.fsum(part.number(name) * (part.io_seconds or 0.0) for part in timed)
            if _knows(timed, name):
                numbers[name] = done / seconds
    return numbers


def _sum(parts: Iterable[_Part], name: str) -> float:
    return math.fsum(part.number(name) for part in parts)


def _knows(parts: Iterable[_Part], name: str) -> bool:
    return any(name in part.run.profile.numbers for part in parts)


def _phases(parts: Sequence[_Part]) -> list[list[_Part]]:
    """Put together what ran at the same time, phase after phase."""
    phases: list[list[_Part]] = []
    end = -math.inf
    for part in sorted(parts, key=lambda part: (part.start, part.run.log_id)):
        if part.start < end:
            phases[-1].append(part)
        else:
            phases.append([part])
        end = max(end, part.end)
    return phases


def _io_seconds(parts: Sequence[_Part]) -> float:
    """Return the seconds in which any of the processes was in I/O.

    Heatmaps say when each was, its counters for how long. Without heatmaps all are taken to do I/O
    at the same time, as those of an MPI program.
    """
    own = [part.io_seconds or 0.0 for part in parts]
    moved = [part.moved for part in parts if part.moved is not None]
    if len(moved) < len(parts):
        return max(own)
    seconds = io_seconds_of_all(moved, own)
    span = max(part.end for part in parts) - min(part.start for part in parts)
    return max(*own, min(seconds, math.fsum(own), span))


def _bursts(parts: Sequence[_Part]) -> dict[str, float]:
    """Return length and period of the job's bursts, where its heatmaps together tell."""
    moved = [part.moved for part in parts if part.moved is not None]
    if not moved or len(moved) < len([part for part in parts if part.bytes > 0]):
        return {}
    found = find_bursts(together(moved))
    numbers = {"burst_seconds": found.length, "period_seconds": found.period}
    return {name: value for name, value in numbers.items() if value is not None}


def _most_at_once(parts: Sequence[_Part]) -> int:
    """Return the largest number of processes that ran at the same time."""
    events = [(part.start, 1, part.run.log.nprocs or 1) for part in parts]
    events += [(part.end, 0, -(part.run.log.nprocs or 1)) for part in parts]
    most = running = 0
    for _, _, change in sorted(events, key=lambda event: (event[0], -event[1])):
        running += change
        most = max(most, running)
    return most
