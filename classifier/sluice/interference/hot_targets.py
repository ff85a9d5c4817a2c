"""Fit of what jobs lose on hot targets to runs of the same programs at busy and quiet times.

The law is the core's (`policies/core/interference.h`). Of a run, the background is all that others
read and write on its file system meanwhile; it counts as more jobs of the run's own kind, since
what it is made of is not known.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from sluice.interference.busy_runs import (
    FEWEST,
    QUIET,
    Moved,
    counted,
    io_seconds,
    kinds_of,
    moved_by,
    moved_during,
    usual_seconds,
)
from sluice.policies import core
from sluice.policies.structs import View, new
from sluice.prediction.jobs import profile_members

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from sluice.history_db.store import Store
    from sluice.prediction.jobs import FinishedJob

MOST_OTHERS = 30.0
"""More jobs of a kind than these cost what these do."""
ERROR = 0.3
"""Mean absolute error of the logarithm of what runs keep."""
PRIOR_SD = 0.2
"""Of a loss on hot targets, among file systems."""
HIGHEST = 0.995
"""Quantile of the rates of a file system that counts as its highest."""
MONTH = 28 * 86400
COARSE = [step / 10 for step in range(10)]
FINE = [step / 100 for step in range(-9, 10)]
LOSSES = {"hot_write_loss": False, "hot_read_loss": True}
"""Coefficients that the fit finds, by whether they are of reads."""


@dataclass(frozen=True, slots=True)
class Run:
    """A run that is compared with quiet runs of the same program, size and file system."""

    profile: Mapping[str, Any]
    """Members of struct sluice_profile; the rate is that alone."""
    bandwidth: float
    """B/s: the highest rate of its file system."""
    background: float
    """B/s of others on it meanwhile."""
    kept: float
    """Its rate over that of the quiet ones."""

    @property
    def is_busy(self) -> bool:
        """Return whether it can tell what a background costs."""
        return self.background >= QUIET * self.bandwidth

    @property
    def reads(self) -> bool:
        """Return whether it is mostly of reads."""
        return core.reading_share(self.profile) > 0.5


def share_kept(run: Run, model: View) -> float:
    """Return what a law, a struct sluice_interference, says that a run keeps of its rate."""
    pressure = core.pressure_of(run.profile, model, _file_system(run.bandwidth))
    others = min(MOST_OTHERS, run.background / run.profile["rate"])
    fewer = int(others)
    less, more = (core.rate_share(pressure, [pressure] * n, model) for n in (fewer, fewer + 1))
    return float(less + (others - fewer) * (more - less))


@cache
def _file_system(bandwidth: float) -> View:
    lane = f"Lane=fs Targets=1 Bandwidth={bandwidth:.0f}\n"
    policy: View = core.parse_config("fs", lane.encode()).policy
    return policy


def fit_losses(runs: Iterable[Run], interference: Mapping[str, float]) -> dict[str, float]:
    """Return the coefficients of `LOSSES` of which busy runs tell, fitted to these.

    The given coefficients are the prior. The fit is by absolute errors: what a run loses to other
    things than its file system has heavy tails.
    """
    busy = [run for run in runs if run.is_busy]
    told = {name: [run for run in busy if run.reads == reads] for name, reads in LOSSES.items()}
    return {name: _fit(some, interference, name) for name, some in told.items() if some}


def _fit(runs: Sequence[Run], interference: Mapping[str, float], name: str) -> float:
    prior = interference[name]

    def cost(loss: float) -> float:
        model = View(new("struct sluice_interference", {**interference, name: loss}))
        errors = (abs(math.log(run.kept / share_kept(run, model))) for run in runs)
        return math.fsum(errors) / ERROR + ((loss - prior) / PRIOR_SD) ** 2 / 2

    near = min(COARSE, key=cost)
    return min((near + step for step in FINE if 0 <= near + step < 1), key=cost)


def busy_runs(store: Store, jobs: Sequence[FinishedJob]) -> list[Run]:
    """Return the busy ones among the confirmed runs of a history that have quiet ones to compare.

    What others moved is what the servers counted; before the first of their counts, what logs and
    accounting tell. The highest rate of the file system is the highest that either shows.
    """
    known = [job for job in jobs if job.is_confirmed and _is_timed(job)]
    if not known:
        return []
    spans = np.array([(job.start, job.end) for job in known], dtype=np.float64)
    moved = moved_during(_traffic(store, jobs, spans), spans) / (spans[:, 1] - spans[:, 0])
    own = np.array([moved_by(job).bytes for job in known]) / (spans[:, 1] - spans[:, 0])
    rates = [job.profile.numbers["rate"] for job in known]
    bandwidth = max(float(np.quantile(moved, HIGHEST)), *rates)
    others = np.maximum(0.0, moved - own)
    alike: dict[Hashable, list[int]] = defaultdict(list)
    for i, kind in enumerate(kinds_of(known)):
        alike[kind, known[i].start // MONTH].append(i)
    return [
        run for members in alike.values() for run in _compared(known, members, others, bandwidth)
    ]


def _is_timed(job: FinishedJob) -> bool:
    return job.end > job.start and io_seconds(job) > 0 and job.profile.numbers.get("rate", 0.0) > 0


def _traffic(store: Store, jobs: Sequence[FinishedJob], spans: NDArray[np.float64]) -> list[Moved]:
    since, until = float(spans.min()), float(spans.max())
    served = store.interference.server_counts_during(since, until)
    by_servers = [Moved(one.start, one.start + one.seconds, one.bytes) for one in served]
    begun = min((one.start for one in by_servers), default=until)
    by_jobs = [
        *(moved_by(job) for job in jobs),
        *(counted(job) for job in store.jobs.unlogged_jobs_during(since, until)),
    ]
    return by_servers + [one for one in by_jobs if one.start < begun]


def _compared(
    jobs: Sequence[FinishedJob],
    members: Sequence[int],
    others: NDArray[np.float64],
    bandwidth: float,
) -> Iterator[Run]:
    """Yield the busy ones of runs that do the same, where there are quiet ones."""
    quiet = [io_seconds(jobs[i]) for i in members if others[i] < QUIET * bandwidth]
    for i in members if len(quiet) >= FEWEST else ():
        kept = usual_seconds(quiet) / io_seconds(jobs[i])
        run = Run(profile_members(jobs[i].profile), bandwidth, float(others[i]), kept)
        if run.is_busy:
            yield run
