"""Jobs as they would have been without others' I/O: where "alone" comes from, for everybody.

What is predicted, assessed, ranked and decided starts from these. A program's rate alone is
estimated from all of its runs together (`alone.py`); of each run, the time in I/O that it lost is
what its rate fell short of that, but no more than the time that others were in I/O meanwhile:
who was by himself lost nothing.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from sluice.darshan.timeline import unpacked
from sluice.policies import core
from sluice.prediction.alone import estimate
from sluice.prediction.background import IoRun
from sluice.prediction.jobs import Disturbance, latest_jobs

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from sluice.history_db.records import Profile
    from sluice.history_db.store import Store
    from sluice.prediction.alone import Estimates
    from sluice.prediction.jobs import FinishedJob
    from sluice.prediction.requested import Submissions

LEAST_BYTES = 1 << 20  # that a job moves, for its rate to tell of storage
LEAST_SECONDS = 0.01  # in I/O
GAP = 1.5  # octaves between volumes of a program, from which its runs are of two kinds
EXPOSED = (
    0.2  # share of its time in I/O with co-runners, from which a run is no evidence against others
)
FLUSHES = 0.5  # bytes between two flushes over those of the run, from which it waits for them


def latest_undisturbed(
    store: Store, submissions: Submissions | None = None, *, latest: int | None = None
) -> list[FinishedJob]:
    """Return the jobs of the newest logs as they would have been alone, the oldest first."""
    chosen = {} if latest is None else {"latest": latest}
    return undisturbed(latest_jobs(store, submissions, **chosen))


def undisturbed(jobs: Sequence[FinishedJob]) -> list[FinishedJob]:
    """Return jobs with what they would have done alone; they come and go in the same order.

    All that may have met have to be among them.
    """
    kinds = _kinds(jobs)
    runs = {i: run for i, job in enumerate(jobs) if (run := _io_run(i, job, kinds.get(i)))}
    estimates = estimate(list(runs.values()))
    return [
        _alone(job, runs[i], estimates, place)
        if (place := estimates.place.get(i)) is not None
        else job
        for i, job in enumerate(jobs)
    ]


def _kinds(jobs: Sequence[FinishedJob]) -> dict[int, Hashable]:
    """Tell which jobs are alike: of one user, name, octave of sizes, and about one volume."""
    alike: dict[tuple[Hashable, ...], list[int]] = defaultdict(list)
    for i, job in enumerate(jobs):
        octave = round(math.log2(job.size)) if job.size > 0 else -1
        alike[job.uid, core.name_stem(job.name), octave].append(i)
    kinds: dict[int, Hashable] = {}
    for key, members in alike.items():
        volumes = np.log2([1.0 + _bytes(jobs[i].profile) for i in members])
        order = np.argsort(volumes, kind="stable")
        kind = np.concatenate([[0], np.cumsum(np.diff(volumes[order]) > GAP)])
        for place, number in zip(order.tolist(), kind.tolist(), strict=True):
            kinds[members[place]] = (*key, number)
    return kinds


def _bytes(profile: Profile) -> float:
    return profile.numbers.get("write_bytes", 0.0) + profile.numbers.get("read_bytes", 0.0)


def _io_run(number: int, job: FinishedJob, kind: Hashable) -> IoRun | None:
    numbers = job.profile.numbers
    seconds = numbers.get("runtime_seconds", 0.0)
    io_seconds = numbers.get("io_share", 0.0) * seconds
    moved = numbers.get("rate", 0.0) * io_seconds
    if moved < LEAST_BYTES or io_seconds < LEAST_SECONDS:
        return None
    seen = unpacked(job.heatmap)
    return IoRun(
        program=kind,
        job=number,
        start=seen.start if seen else float(job.start),
        seconds=seconds,
        io_seconds=io_seconds,
        moved=moved,
        bin_seconds=seen.bin_seconds if seen else 0.0,
        bins=seen.moved if seen else None,
        flushes=numbers.get("bytes_per_flush", math.inf) < FLUSHES * moved,
        targets=job.targets,
    )


def _alone(job: FinishedJob, run: IoRun, estimates: Estimates, place: int) -> FinishedJob:
    known = estimates.programs[run.program]
    disturbance = Disturbance(
        io_seconds=run.io_seconds,
        exposed=float(estimates.exposed[place]),
        log_kept=math.log(run.rate) - known.log_rate,
        log_sd=known.log_sd,
    )
    lost = disturbance.lost()
    if disturbance.exposed >= EXPOSED:
        lost = run.io_seconds * (1.0 - math.exp(min(0.0, disturbance.log_kept)))
    return replace(job, profile=_profile(job.profile, run, lost), disturbance=disturbance)


def _profile(profile: Profile, run: IoRun, lost: float) -> Profile:
    """Return the profile without the time that was lost."""
    kept = 1.0 - lost / run.io_seconds
    numbers = dict(profile.numbers)
    for name in ("rate", "metadata_rate"):
        if name in numbers:
            numbers[name] /= kept
    numbers["runtime_seconds"] -= lost
    numbers["io_share"] = (run.io_seconds - lost) / numbers["runtime_seconds"]
    if (burst := numbers.get("burst_seconds")) is not None:
        numbers["burst_seconds"] = burst * kept
        if (period := numbers.get("period_seconds")) is not None:
            numbers["period_seconds"] = max(burst, period) - burst * (1.0 - kept)
    return replace(profile, numbers=numbers)
