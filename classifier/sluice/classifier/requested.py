"""The sizes that a user asked for, as job_submit sees them: what he got may be another size.

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

from sluice.policies.record import Record

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from sluice.history_db.records import Decision, Job
    from sluice.policies.core import View

SLACK = 3  # seconds between a decision and its job's submit time, at most
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


def requested_on(line: str) -> Requested | None:
    """Return what a submit line asks for; None if no size is on it."""
    try:
        words = shlex.split(line)
    except ValueError:  # sacct cuts long lines, also within quotes
        words = line.split()
    found: dict[str, int] = {}
    for option, value in _options(words[1:]):
        number = re.match(r"\d{1,9}", value)
        if option in _OPTIONS and number:
            found.setdefault(_OPTIONS[option], int(number[0]))
    per_node = found.pop("tasks_per_node", 0)
    if per_node and "tasks" not in found:
        found["tasks"] = per_node * found.get("nodes", 1)
    return Requested(**found) if found else None


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
        """Take them in any order."""
        self._decisions: dict[tuple[str, int], list[Decision]] = defaultdict(list)
        for decision in decisions:
            if decision.job_id is not None:
                self._decisions[decision.cluster, decision.job_id].append(decision)

    def of(self, job: Job) -> View | None:
        for decision in self._decisions.get((job.cluster, job.submission_id), ()):
            if abs(decision.now - job.submit) <= SLACK:
                submission: View = Record.parse(decision.record).submission
                return submission
        return None
