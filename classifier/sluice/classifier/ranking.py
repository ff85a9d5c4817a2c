"""Which applications write most, make most metadata, harm most and are harmed most.

Totals are added up a week at a time, and again only for weeks whose runs changed.

Harm is what the interference model says of runs that were seen together: while two of them run
at the same time, each takes s times as long as without the other, so of T seconds together it
lost T (1 - 1/s), times its nodes. Each pair is judged by itself, for the runs of a week that did
I/O for longest.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sluice.classifier.to_core import profile_members
from sluice.history_db.command_lines import program_name
from sluice.history_db.records import Total
from sluice.policies import core
from sluice.policies.published import published_interference
from sluice.policies.structs import View, new

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sluice.history_db.records import Run
    from sluice.history_db.store import Store

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
    harm = harm_among(list(store.runs(store.longest_io(week, MOST_RUNS))))
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


def harm_among(runs: Sequence[Run]) -> dict[Application, Harm]:
    """Return what applications lost to others, from the runs that were at the same time."""
    model = View(new("struct sluice_interference", published_interference()))
    policy = core.default_config().policy
    harm: dict[Application, Harm] = defaultdict(Harm)
    present: list[_Present] = []
    for run in sorted(runs, key=lambda run: (run.log.start or 0, run.log_id)):
        members = profile_members(run.profile)
        if core.class_of(members, policy) == "none":
            continue
        new_one = _Present.of(run, core.pressure_of(members, model, policy))
        present = [other for other in present if other.end > new_one.start][-MOST_AT_ONCE:]
        for other in present:
            together = min(other.end, new_one.end) - new_one.start
            for victim, aggressor in ((new_one, other), (other, new_one)):
                factor = core.io_factor(victim.pressure, [aggressor.pressure], model)
                slowdown = core.job_slowdown(victim.pressure, factor)
                lost = together * (1 - 1 / slowdown) * victim.nodes
                harm[victim.application].suffered += lost
                harm[aggressor.application].caused += lost
        present.append(new_one)
    return harm


@dataclass(frozen=True, slots=True)
class _Present:
    """A run that others meet."""

    application: Application
    start: int
    end: int
    nodes: int
    pressure: View

    @classmethod
    def of(cls, run: Run, pressure: View) -> _Present:
        name = run.job.name if run.job else None
        start = run.log.start or 0
        return cls(
            application=(run.log.uid or 0, application_name(name, run.log.exe)),
            start=start,
            end=run.log.end or start,
            nodes=(run.job.nodes if run.job else None) or 1,
            pressure=pressure,
        )
