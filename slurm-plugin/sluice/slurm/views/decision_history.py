"""Decisions on the jobs of some time, as far as a report needs them, from their records.

Of a job that was decided on again near its start the last decision counts, as of a job in observe:
it is what would have become of it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sluice.interference.cost import UNNAMED, Application
from sluice.policies import core
from sluice.policies.core import CoreError
from sluice.policies.record import Record
from sluice.policies.structs import ACTIONS, CLASSES, GRANTS, MODES, REASONS, text_of
from sluice.prediction.submission_features import UNSURE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from sluice.history_db.records import Decision

Number = tuple[str, int]
"""Cluster and job id."""

APART = frozenset({"delay", "disjoint", "turns"})
"""Actions that do something to a job; `colocate` lets it run as it is."""


@dataclass(slots=True)
class Choice:
    """What was chosen for a job that matters to storage."""

    job: Number | None
    """None: sluiced does not know which it is."""
    now: int
    """Of its submission, UTC seconds."""
    owner: Application
    nodes: int
    grant: str
    lot: int
    bundle: int
    """Checksum of that by which it was decided."""
    shared_slowdown: float
    """Of the job, predicted, if it shares all lanes."""
    corunners: int
    """Jobs with I/O that ran when it was submitted."""
    action: str
    shared_loss: float = 0.0
    """Node-seconds that it and others lose, predicted, if it shares all lanes."""
    wait: float = 0.0
    """Seconds that it should wait."""
    own: float = 0.0
    """Node-seconds that it would lose less than by sharing,"""
    others: float = 0.0
    """and that others would lose less to it."""
    coruns: tuple[tuple[int, float], ...] = ()
    """Job ids of those others, and what part of that is each one's."""

    @property
    def waited(self) -> float:
        """Node-seconds."""
        return self.wait * max(1, self.nodes)


@dataclass(slots=True)
class Choices:
    """All of some time."""

    jobs: int = 0
    """Submissions that were decided on."""
    unreadable: int = 0
    """Records of another version of Sluice."""
    first: int | None = None
    """Time of the first decision, UTC seconds."""
    last: int | None = None
    modes: Counter[str] = field(default_factory=Counter)
    actions: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    grants: Counter[str] = field(default_factory=Counter)
    answered: int = 0
    """Jobs of which Sluice knew enough to go by."""
    kept: list[Choice] = field(default_factory=list)
    """Of jobs that matter."""
    by_job: dict[Number, Choice] = field(default_factory=dict)

    def owner_of(self, job: Number) -> Application | None:
        found = self.by_job.get(job)
        return found.owner if found else None


def read_choices(
    decisions: Iterable[Decision], advance: Callable[[int], object] = lambda _: None
) -> Choices:
    """Go through decisions, the oldest first; `advance` is told of each thousand."""
    found = Choices()
    for number, decision in enumerate(decisions, start=1):
        try:
            record = Record.parse(decision.record)
        except CoreError:
            found.unreadable += 1
        else:
            _take(found, decision, record.struct)
        if number % 1000 == 0:
            advance(1000)
    for choice in found.kept:
        found.actions[choice.action] += 1
    return found


def _take(found: Choices, decision: Decision, record: Any) -> None:
    """Count a record (struct sluice_record), which decides again on a job that is there already."""
    job = None if decision.job_id is None else (decision.cluster, decision.job_id)
    decided = record.decision
    if decision.is_second:
        before = found.by_job.get(job) if job else None
        if before is not None:
            _choose(before, decided)
        return
    found.jobs += 1
    found.first = decision.now if found.first is None else found.first
    found.last = decision.now
    found.modes[MODES[record.mode]] += 1
    reason = REASONS[decided.reason]
    found.reasons[reason] += 1
    found.answered += decided.prediction.evidence != 0 and reason not in UNSURE
    found.grants[GRANTS[record.grant.outcome]] += 1
    if not decided.alternative_count or CLASSES[decided.prediction.klass] == "none":
        found.actions[ACTIONS[decided.action]] += 1
        return
    choice = _choice(job, decision, record)
    found.kept.append(choice)
    if job is not None:
        found.by_job[job] = choice


def _choice(job: Number | None, decision: Decision, record: Any) -> Choice:
    submission = record.submission
    name = core.name_stem(text_of(submission.name)) or UNNAMED
    sharing = record.decision.alternatives[0]
    made = Choice(
        job=job,
        now=decision.now,
        owner=Application(submission.uid, name),
        nodes=submission.nodes,
        grant=GRANTS[record.grant.outcome],
        lot=submission.lot,
        bundle=decision.bundle,
        shared_slowdown=sharing.slowdown,
        corunners=record.decision.corunner_count,
        action="",
        shared_loss=sharing.own + sharing.caused,
    )
    _choose(made, record.decision)
    return made


def _choose(choice: Choice, decided: Any) -> None:
    """Say what a struct sluice_decision saves over sharing without turns."""
    choice.action = ACTIONS[decided.action]
    choice.wait = choice.own = choice.others = 0.0
    choice.coruns = ()
    if choice.action not in APART:
        return
    sharing, chosen = decided.alternatives[0], decided.alternatives[decided.chosen]
    choice.wait = decided.wait
    choice.own = sharing.own - chosen.own - chosen.confined
    choice.others = sharing.caused - chosen.caused
    harm = {
        one.job_id: one.nodes * one.together * max(0.0, one.other_slowdown - 1.0)
        for one in decided.coruns[0 : decided.corun_count]
    }
    whole = sum(harm.values())
    if whole > 0:
        choice.coruns = tuple((job, part / whole) for job, part in harm.items() if part > 0)
