"""What the arguments of the submit line tell of a run.

A script does the same with the same words, and often more with a larger number among them. Both
count only where the runs show it: most arguments say nothing of the I/O.
"""

from __future__ import annotations

import math
from collections import defaultdict
from typing import TYPE_CHECKING

import numpy as np

from sluice.policies import core
from sluice.policies.bundle_writer import ArgumentLaw
from sluice.prediction.expectation import FIRST_SPREAD, Law, carried_over, recency, vote
from sluice.prediction.scaling import exponents

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from sluice.history_db.records import Profile
    from sluice.prediction.jobs import FinishedJob

    Array = NDArray[np.float64]
    Groups = Mapping[int, list[FinishedJob]]

MIN_VALUES = 3  # two could be two cases, and no number
VOLUME = "write_bytes"  # by which arguments are judged
EXPLAINED = 0.5  # of that spread must be gone among runs with the same arguments


def by_arguments(evidence: str, jobs: Sequence[FinishedJob]) -> dict[int, list[FinishedJob]]:
    """Return the jobs by key, those of one set of arguments together.

    Jobs without a script are told by their name, others by the script alone.
    """
    groups: dict[int, list[FinishedJob]] = defaultdict(list)
    if evidence not in {"user_script", "user_name"}:
        return groups
    for job in jobs:
        if job.arguments is None or bool(job.script_signature) != (evidence == "user_script"):
            continue
        groups[job.keys["user_arguments"]].append(job)
    return groups


def explains(groups: Groups, general: Profile, size: float, slopes: Mapping[str, float]) -> bool:
    """Whether runs with the same arguments are alike, and those with others are not.

    general: what is expected whatever the arguments, at a size that numbers follow.
    """
    if len(groups) < 2 or all(len(group) < 2 for group in groups.values()):
        return False
    patterns = {vote(group, recency(group))[0] for group in groups.values()}
    if len(patterns) > 1:
        return True
    spread = general.spread.get(VOLUME, 0.0)
    return spread > core.WIDE and spread_within(groups, size, slopes) < EXPLAINED * spread


def spread_within(groups: Groups, size: float, slopes: Mapping[str, float]) -> float:
    """Return the spread of the volume among runs with the same arguments."""
    squares, freedom = FIRST_SPREAD**2, 1.0
    for group in groups.values():
        values = carried_over(group, [VOLUME], laws_of(group, size, slopes, None))[0]
        logs = np.log(np.maximum(values[~np.isnan(values)], 1024.0))
        if len(logs) > 1:
            squares += float(((logs - logs.mean()) ** 2).sum())
            freedom += len(logs) - 1
    return math.sqrt(squares / freedom)


def argument_law(
    jobs: Sequence[FinishedJob], weights: Array, slopes: Mapping[str, float]
) -> ArgumentLaw | None:
    """Return how the numbers of a profile follow one of the numbers; that which explains most."""
    best: ArgumentLaw | None = None
    least = math.inf
    size = _mean(np.array([job.size for job in jobs]))
    by_size = laws_of(jobs, size, slopes, None)
    for place in range(1, core.MAX_NUMBERS + 1):
        values = _values(jobs, place)
        if len(np.unique(values[values > 0])) < MIN_VALUES:
            continue
        found = exponents(jobs, weights, values, by_size)
        if VOLUME not in found:
            continue
        known = values[values > 0]
        law = ArgumentLaw(place, _mean(values), (float(known.min()), float(known.max())), found)
        rest = carried_over(jobs, [VOLUME], laws_of(jobs, size, slopes, law))[0]
        left = float(np.nanvar(np.log(np.maximum(rest, 1024.0))))
        if left < least:
            best, least = law, left
    return best


def laws_of(
    jobs: Sequence[FinishedJob],
    size: float,
    slopes: Mapping[str, float],
    law: ArgumentLaw | None,
) -> list[Law]:
    """Return what carries the numbers of jobs over to a size and an argument."""
    laws = []
    if size > 0 and slopes:
        laws.append(Law(np.array([job.size for job in jobs]), size, slopes))
    if law is not None:
        laws.append(Law(_values(jobs, law.place), law.value, law.exponents))
    return laws


def _values(jobs: Sequence[FinishedJob], place: int) -> Array:
    """Return the number at a place among the arguments of each job; 0: there is none."""
    return np.array([job.arguments.numbers[place - 1] if job.arguments else 0.0 for job in jobs])


def _mean(values: Array) -> float:
    known = values[values > 0]
    return float(np.exp(np.log(known).mean())) if len(known) else 0.0


def arguments_text(job: FinishedJob) -> str:
    """Tell entries for arguments apart, in a label."""
    if job.arguments is None:
        return ""
    numbers = [f"{number:g}" for number in job.arguments.numbers if number]
    return f" with {', '.join(numbers)}" if numbers else f" with {job.arguments.hash:016x}"
