"""The sizes that a user asked for, as job_submit sees them: the job may have got another size.

Best known is a decision record: what the plugin saw, joined to the job. Else the submit line
says what stood on it; only where neither says anything, the accounting's allocation stands in.
"""

from __future__ import annotations

import re
import shlex
from collections import defaultdict
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from sluice.policies.core import Arguments
from sluice.policies.record import Record
from sluice.policies.structs import CoreError
from sluice.prediction.outcomes import Predicted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from sluice.history_db.records import Decision, Job

UNSURE = frozenset({"unknown_job", "low_confidence", "others_only", "volume_only"})
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
