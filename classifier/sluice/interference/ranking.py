"""Which applications write most, make most metadata, harm most and are harmed most.

Totals are added up a week at a time, and again only for weeks whose runs changed.

Harm is what jobs lost: their time in I/O less what it takes alone (undisturbed.py), on each of
their nodes, for the runs of a week that did I/O for longest. It is laid to those that were in I/O
meanwhile.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sluice.history_db.command_lines import program_name
from sluice.history_db.records import Total
from sluice.policies import core
from sluice.prediction.jobs import finished_jobs
from sluice.prediction.undisturbed import undisturbed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from sluice.history_db.records import Run
    from sluice.history_db.store import Store
    from sluice.prediction.jobs import FinishedJob

MOST_RUNS = 3000  # of a week, whose harm to one another is judged
MOST_AT_ONCE = 64  # of them, the latest

Application = tuple[int, str]
"""uid, stem of the name."""


@dataclass(slots=True)
class Harm:
    """Node-seconds."""

    caused: float = 0.0
    suffered: float = 0.0


def refresh(store: Store, advance: Callable[[], None] = lambda: None) -> None:
    """Add up the weeks that changed; `advance` is called after each. Raises HistoryError."""
    weeks = store.stale_weeks()
    for week in weeks:
        store.put_week(week, totals_of(store, week))
        advance()
    if weeks:
        store.put_totals()


def totals_of(store: Store, week: int) -> list[Total]:
    sums: dict[Application, list[float]] = defaultdict(lambda: [0.0] * 4)
    users: dict[int, str] = {}
    for row in store.sums_of_week(week):
        values = sums[row.uid, application_name(row.name, row.exe)]
        if row.user:
            users[row.uid] = row.user
        for i, value in enumerate((row.runs, row.write_bytes, row.read_bytes, row.metadata)):
            values[i] += value
    harm = harm_among(store.runs(store.longest_io(week, MOST_RUNS)))
    nothing = Harm()
    return [
        Total(
            uid=key[0],
            application=key[1],
            user=users.get(key[0]),
            runs=int(values[0]),
            write_bytes=values[1],
            read_bytes=values[2],
            metadata=values[3],
            caused=harm.get(key, nothing).caused,
            suffered=harm.get(key, nothing).suffered,
        )
        for key, values in sorted(sums.items())
    ]


def application_name(name: str | None, exe: str | None) -> str:
    """Return what runs are put together by: the stem of the job's name, else of the program's."""
    return core.name_stem(name or program_name(exe or ""))


def harm_among(runs: Iterable[Run]) -> dict[Application, Harm]:
    """Return what applications lost to others, from the jobs that ran at the same time.

    A job's loss (undisturbed.py) is laid to those that did I/O meanwhile, by how much.
    """
    jobs = undisturbed(finished_jobs(runs))
    harm: dict[Application, Harm] = defaultdict(Harm)
    for job, others in _beside(jobs):
        lost = job.disturbance.lost() * max(1, job.nodes) if job.disturbance else 0.0
        if not lost > 0:
            continue
        parts = [(other, _io_seconds_during(other, job)) for other in others]
        total = sum(part for _, part in parts)
        if not total > 0:
            continue
        harm[_application(job)].suffered += lost
        for other, part in parts:
            harm[_application(other)].caused += lost * part / total
    return harm


def _application(job: FinishedJob) -> Application:
    return job.uid, core.name_stem(job.name)


def _beside(jobs: Sequence[FinishedJob]) -> Iterator[tuple[FinishedJob, list[FinishedJob]]]:
    """Yield each job with those that ran meanwhile, MOST_AT_ONCE at most, the latest."""
    order = sorted(jobs, key=lambda job: (job.start, job.logs))
    present: list[FinishedJob] = []
    beside: dict[tuple[int, ...], list[FinishedJob]] = defaultdict(list)
    for job in order:
        present = [other for other in present if other.end >= job.start][-MOST_AT_ONCE:]
        for other in present:
            beside[job.logs].append(other)
            beside[other.logs].append(job)
        present.append(job)
    for job in order:
        yield job, beside[job.logs]


def _io_seconds_during(other: FinishedJob, job: FinishedJob) -> float:
    """Return how long the other was in I/O while the job ran, were its I/O spread evenly."""
    if other.disturbance is None:
        return 0.0
    together = min(other.end, job.end) - max(other.start, job.start) + 1
    return max(0.0, together) * other.disturbance.io_seconds / (other.end - other.start + 1)
