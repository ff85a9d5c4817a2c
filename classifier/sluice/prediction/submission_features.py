"""Features of a submission on record: the sizes asked for, and what was predicted.

What live decisions predicted, alongside what the jobs then did. One definition of a prediction that
came true, for the story of a job, for the score of a model, and for the confidence of a program
whose predictions fail.

Best known is a decision record: what the plugin saw, joined to the job. Else the submit line says
what stood on it; only where neither says anything, the accounting's allocation stands in.
"""

from __future__ import annotations

import math
import re
import shlex
from collections import defaultdict
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING

from sluice.policies import core
from sluice.policies.core import Arguments
from sluice.policies.record import Record
from sluice.policies.structs import CoreError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from sluice.history_db.records import Decision, Job, Profile
    from sluice.policies.core import View


VOLUMES = ("write_bytes", "read_bytes")
SCORED = (*VOLUMES, "chunk_bytes", "rate", "burst_seconds", "io_share", "runtime_seconds")
"""Numbers that are laid next to each other."""
FEW_BYTES = 1 << 20
"""Below, factors mean nothing."""
OTHERS = frozenset({"none", "name"})
"""Evidence that is not of the user's own runs: its failures say nothing of these."""
RUNS_HALF_LIFE = 1.5
"""After so many runs, what became of a prediction counts half."""
BENEFIT = 0.5
"""Predictions that are taken to have come true, besides those that were made."""


@dataclass(frozen=True, slots=True)
class Predicted:
    """What a decision went by."""

    evidence: str
    pattern: str
    confidence: float
    is_answered: bool
    """Its pattern was certain enough; how far off the numbers may be, their spread says."""
    numbers: Mapping[str, float] = field(default_factory=dict)
    spread: Mapping[str, float] = field(default_factory=dict)
    """Sd of ln (the next run's value) by number, where the model tells it."""

    @classmethod
    def of(cls, prediction: View, *, is_answered: bool) -> Predicted:
        """Take what counts from a struct sluice_prediction."""
        profile = prediction.profile
        raw = profile.struct  # of a hundred thousand decisions, a view of each number takes long
        known = {name: getattr(raw, name) for name in SCORED}
        spread: Mapping[str, float] = getattr(profile, "spread", None) or {}
        return cls(
            evidence=prediction.evidence,
            pattern=profile.pattern,
            confidence=float(profile.confidence),
            is_answered=is_answered,
            numbers={name: value for name, value in known.items() if value >= 0},
            spread={name: float(spread[name]) for name in SCORED if name in spread},
        )

    @property
    def moved(self) -> float | None:
        """Bytes to be written and read; None where neither is known."""
        known = [self.numbers[name] for name in VOLUMES if name in self.numbers]
        return sum(known) if known else None

    def is_right(self, did: Profile) -> bool | None:
        """Whether the pattern came true; None where that is unknown."""
        if core.UNKNOWN in {self.pattern, did.pattern}:
            return None
        return self.pattern == did.pattern

    def factor(self, did: Profile, name: str) -> float | None:
        """Return what was, as a multiple of what was predicted; None where one is not known."""
        said, was = self.numbers.get(name), did.numbers.get(name)
        return was / said if said and was else None

    def is_within(self, did: Profile, name: str) -> bool | None:
        """Whether a number lies in its interval; None where there is none."""
        factor, spread = self.factor(did, name), self.spread.get(name)
        if factor is None or spread is None:
            return None
        return abs(math.log(factor)) <= core.Z90 * spread

    def came_true(self, did: Profile) -> bool | None:
        """Whether pattern and volume were as predicted; None where that is unknown.

        A volume may be off by a factor of two, or as far as its spread said.
        """
        if self.is_right(did) is False:
            return False
        moved = [self._is_volume_true(did, name) for name in VOLUMES]
        if False in moved:
            return False
        return True if self.is_right(did) or True in moved else None

    def _is_volume_true(self, did: Profile, name: str) -> bool | None:
        said, was = self.numbers.get(name), did.numbers.get(name)
        if said is None or was is None or max(said, was) < FEW_BYTES:
            return None
        factor = max(was, FEW_BYTES) / max(said, FEW_BYTES)
        return 0.5 <= factor <= 2.0 or bool(self.is_within(did, name))


def reliability_of(runs: Iterable[tuple[Predicted | None, Profile]]) -> float:
    """Return the share of the latest predictions of these runs that came true, the newest most.

    Of predictions by the user's own runs; 1 where none was made. Runs come the oldest first, as
    what was predicted and what it did.
    """
    verdicts = [
        verdict
        for predicted, did in runs
        if predicted is not None and predicted.evidence not in OTHERS
        if (verdict := predicted.came_true(did)) is not None
    ]
    true = total = BENEFIT
    for rank, verdict in enumerate(reversed(verdicts)):
        weight = 0.5 ** (rank / RUNS_HALF_LIFE)
        total += weight
        true += weight * verdict
    return true / total


UNSURE = frozenset(
    {"unknown_job", "low_confidence", "little_io", "others_only", "volume_only", "ignored"}
)
"""Reasons of decisions whose prediction is too unsure to go by, whatever its numbers."""
SLACK = 3  # seconds between a decision and its job's submit time, at most
_QUOTING = re.compile(r"""['"\\]""")
_OPTIONS = {
    "-N": "nodes",
    "--nodes": "nodes",
    "-n": "tasks",
    "--ntasks": "tasks",
    "-c": "cpus_per_task",
    "--cpus-per-task": "cpus_per_task",
    "--ntasks-per-node": "tasks_per_node",
}


@dataclass(frozen=True, slots=True)
class Requested:
    """0: the user did not say."""

    nodes: int = 0
    tasks: int = 0
    cpus_per_task: int = 0


@dataclass(frozen=True, slots=True)
class Submitted(Requested):
    """What the plugin saw of a job."""

    now: int = 0
    """When it decided, UTC seconds."""
    script_signature: int = 0
    arguments: Arguments | None = None
    """None: no submit line was known."""
    predicted: Predicted | None = None
    """What it expected of the job; None: nothing."""


def requested_on(line: str) -> Requested | None:
    """Return what a submit line asks for; None if no size is on it."""
    words = _words(line)
    found: dict[str, int] = {}
    for option, value in _options(words[1:]):
        number = re.match(r"\d{1,9}", value)
        if option in _OPTIONS and number:
            found.setdefault(_OPTIONS[option], int(number[0]))
    per_node = found.pop("tasks_per_node", 0)
    if per_node and "tasks" not in found:
        found["tasks"] = per_node * found.get("nodes", 1)
    return Requested(**found) if found else None


def _words(line: str) -> list[str]:
    if not _QUOTING.search(line):
        return line.split()  # as shlex, which takes 50 times as long
    try:
        return shlex.split(line)
    except ValueError:  # sacct cuts long lines, also within quotes
        return line.split()


def _options(words: list[str]) -> Iterator[tuple[str, str]]:
    """Yield options with what follows them, up to the script: its arguments are its own."""
    after_option = False
    for word, after in pairwise([*words, ""]):
        if word.startswith("--"):
            option, equals, value = word.partition("=")
            yield option, value if equals else after
            after_option = not equals
        elif word.startswith("-"):
            yield word[:2], word[2:] or after
            after_option = len(word) == 2
        elif after_option:
            after_option = False  # its value
        else:
            return


class Submissions:
    """What the plugin saw of jobs, from the decisions that were joined to them."""

    def __init__(self, decisions: Iterable[Decision]) -> None:
        """Take them in any order; of each only what a job asked for is kept, not its record."""
        self._submitted: dict[tuple[str, int], list[Submitted]] = defaultdict(list)
        for decision in decisions:
            if decision.job_id is None or decision.is_second:
                continue
            if seen := _submitted(decision):
                self._submitted[decision.cluster, decision.job_id].append(seen)

    def of(self, job: Job) -> Submitted | None:
        for submitted in self._submitted.get((job.cluster, job.submission_id), ()):
            if abs(submitted.now - job.submit) <= SLACK:
                return submitted
        return None


def _submitted(decision: Decision) -> Submitted | None:
    """Return what a record tells; None if another version of Sluice made it."""
    try:
        record = Record.parse(decision.record)
    except CoreError:
        return None
    seen = record.submission
    return Submitted(
        nodes=seen.nodes,
        tasks=seen.tasks,
        cpus_per_task=seen.cpus_per_task,
        now=decision.now,
        script_signature=seen.script_signature,
        arguments=Arguments.of(seen.arguments),
        predicted=predicted_in(record),
    )


def predicted_in(record: Record) -> Predicted | None:
    """Return what a decision went by; None where it knew nothing."""
    prediction = record.prediction
    if prediction.evidence == "none":
        return None
    return Predicted.of(prediction, is_answered=record.decision.reason not in UNSURE)
