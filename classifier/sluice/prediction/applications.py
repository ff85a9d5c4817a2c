"""The application table: what earlier runs of a script, a name, an account or the site did.

What the arguments of the submit line tell of a run. A script does the same with the same words, and
often more with a larger number among them. Both count only where the runs show it: most arguments
say nothing of the I/O.

An entry says how certain it is that the next run is alike: one run proves little.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING

import numpy as np

from sluice.history_db.records import Application, Profile
from sluice.policies import core
from sluice.policies.bundle_writer import ArgumentLaw
from sluice.prediction.evidence_levels import (
    LATEST_JOBS,
    LEVELS,
    Level,
    breadth,
    groups_of,
    latest,
    weights_of,
)
from sluice.prediction.expectation import (
    FIRST_SPREAD,
    MIN_RUNS,
    Law,
    carried_over,
    expected,
    exponents,
    likeness,
    recency,
    vote,
)
from sluice.prediction.submission_features import reliability_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from sluice.prediction.evidence_levels import Reliability
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
    if evidence not in OF_USERS:
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
    if len(jobs) < MIN_RUNS:
        return best
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


OF_USERS = ("user_script", "user_name")
USER_ARGUMENTS, BY_ARGUMENTS = "user_arguments", "user_script"
MAX_ARGUMENTS = 16  # sets of them that one key may have entries for, the commonest
NO_SLOPES: Mapping[str, float] = {}
KEPT_LOGS = 20  # listed behind an entry; the newest
MIN_SIZED_RUNS = 3  # of about one size, for it to have an entry of its own
MAX_SIZED = 8  # entries for sizes that one key may have
ENOUGH_CONFIRMED = 3  # runs, from which those that nothing confirms are left out
DIFFERENT = 1.0  # octaves by which a size's chunk or bytes must be off to need its own


@dataclass(frozen=True, slots=True)
class Learned:
    """An entry of the table: its jobs, and what is expected of them."""

    application: Application
    profile: Profile
    size: float = 0.0
    """Processes that the profile is for; 0: unknown."""
    sizes: tuple[float, float] = (0.0, 0.0)
    """The smallest and the largest of the runs behind it."""
    exponents: Mapping[str, float] = field(default_factory=dict)
    """How numbers of the profile follow the size, by name."""
    law: ArgumentLaw | None = None
    """How numbers of the profile follow a number among the arguments."""
    agreement: float = 0.0
    """Of a user's own runs, those without a trace of I/O too: the share that has its pattern."""
    is_confirmed: bool = False
    """It rests on runs alone whose I/O system counters bear out."""


def learn_applications(
    jobs: Sequence[FinishedJob],
    *,
    calibration: Mapping[str, Reliability] | None = None,
    silent: Sequence[FinishedJob] = (),
    asked: Sequence[FinishedJob] | None = None,
) -> tuple[Learned, ...]:
    """Return the table's entries, numbered from 1; deterministic.

    silent: jobs that left no trace of I/O (jobs.py). asked: leave the entries out that none of
    these jobs would be looked up under.
    """
    without_trace, groups = groups_of(silent), groups_of(in_order(jobs))
    if asked is not None:
        groups = {place: groups[place] for place in groups_of(asked) if place in groups}
    expectations = Expectations()
    return numbered(
        entry
        for place, group in sorted(groups.items())
        for entry in entries_under(
            place,
            group,
            without_trace.get(place, []),
            calibration=calibration or {},
            expectations=expectations,
        )
    )


def entries_under(
    place: tuple[int, int],
    jobs: Sequence[FinishedJob],
    silent: Sequence[FinishedJob],
    *,
    calibration: Mapping[str, Reliability],
    expectations: Expectations | None = None,
) -> Iterator[Learned]:
    """Yield the entries of one key, not numbered yet; place is number of the level and key.

    jobs are all that have the key, the oldest first, and silent those that left no trace of I/O.
    expectations: of the keys before, while their jobs are there.
    """
    number, key = place
    level = LEVELS[number]
    confirmed = [job for job in jobs if job.is_confirmed]
    is_confirmed = len(confirmed) >= min(ENOUGH_CONFIRMED, len(jobs))
    known = latest(level, confirmed if is_confirmed else jobs)
    # an entry that predicted wrongly lately does not count, whatever earlier runs let expect
    pairs = ((job.predicted, job.profile) for job in known) if level.witness is None else ()
    reliability = reliability_of(pairs)
    for entry in _entries(level, key, known, list(silent), expectations or Expectations()):
        profile = _calibrated(entry, calibration)
        profile = replace(profile, confidence=profile.confidence * reliability)
        yield replace(entry, profile=profile, is_confirmed=is_confirmed)


def numbered(entries: Iterable[Learned], first_id: int = 1) -> tuple[Learned, ...]:
    """Return the entries with ids from `first_id` on."""
    return tuple(
        replace(entry, application=replace(entry.application, id=number))
        for number, entry in enumerate(entries, first_id)
    )


def unconfirmed(table: Iterable[Learned]) -> int:
    """Count the predictions by users' own runs that matter and that no counter confirms."""
    return sum(
        not entry.is_confirmed
        and entry.application.evidence in {*OF_USERS, USER_ARGUMENTS}
        and entry.profile.pattern not in {core.UNKNOWN, "none"}
        for entry in table
    )


def in_order(jobs: Iterable[FinishedJob]) -> list[FinishedJob]:
    """Return the jobs with the oldest first."""
    return sorted(jobs, key=lambda job: (job.start, job.logs))


def _calibrated(entry: Learned, calibration: Mapping[str, Reliability]) -> Profile:
    evidence = entry.application.evidence
    known = calibration.get(BY_ARGUMENTS if evidence == USER_ARGUMENTS else evidence)
    if known is None:
        return entry.profile
    return replace(entry.profile, confidence=known.of(entry.profile.confidence))


class Expectations:
    """What lists of jobs let expect, each found once: a script's runs are often all of a name."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, ...], Expectation] = {}

    def of(self, jobs: list[FinishedJob]) -> Expectation:
        """Return what these let expect, by the weights of one witness's runs."""
        key = tuple(map(id, jobs))
        if key not in self._known:
            self._known[key] = Expectation(jobs)
        return self._known[key]


class Expectation:
    """What jobs, the oldest first, let expect at one size or another."""

    def __init__(self, jobs: list[FinishedJob]) -> None:
        self.jobs = jobs
        self.weights = recency(jobs)
        self._at: dict[float, Profile] = {}

    @cached_property
    def slopes(self) -> dict[str, float]:
        """How numbers follow the size."""
        return exponents(self.jobs, self.weights, np.array([job.size for job in self.jobs]))

    @cached_property
    def law(self) -> ArgumentLaw | None:
        return argument_law(self.jobs, self.weights, self.slopes)

    @cached_property
    def at_any_size(self) -> Profile:
        """What is expected where no law carries numbers over."""
        return expected(self.jobs, self.weights)

    @property
    def usual(self) -> Profile:
        """What is expected at the mean size and argument."""
        if not self.slopes and self.law is None:
            return self.at_any_size
        return self._carried_to(_mean_size(self.jobs), self.weights)

    def at(self, size: float) -> Profile:
        """Return what is expected at a size, by runs of about that size."""
        if size not in self._at:
            self._at[size] = self._carried_to(size, self.weights * likeness(self.jobs, size))
        return self._at[size]

    def _carried_to(self, size: float, weights: Array) -> Profile:
        laws = laws_of(self.jobs, size, self.slopes, self.law)
        return expected(self.jobs, weights, laws=laws)


def _entries(
    level: Level,
    key: int,
    jobs: list[FinishedJob],
    silent: list[FinishedJob],
    expectations: Expectations,
) -> Iterator[Learned]:
    """Yield the entry of a key, and those of sizes that it does not fit."""
    if level.witness is not None:
        if len({level.witness(job) for job in jobs}) > 1:
            profile = expected(jobs, weights_of(level, jobs))
        else:
            profile = expectations.of(jobs).at_any_size
        yield _entry(level, key, jobs, profile)
        return
    known = expectations.of(jobs)
    entry_of = partial(_entry, level, slopes=known.slopes, law=known.law)
    everything = in_order([*jobs, *silent])[-LATEST_JOBS:] if silent else jobs
    general = _borne_out(entry_of(key, jobs, known.usual), everything)
    yield general
    yield from _entries_by_arguments(level, general, jobs, everything)
    octaves: dict[int, list[float]] = defaultdict(list)
    for job in jobs:
        if job.size > 0:
            octaves[core.size_key(key, job.size)].append(job.size)
    common = sorted(octaves, key=lambda sized: (-len(octaves[sized]), sized))[:MAX_SIZED]
    for sized in sorted(common):
        alike = octaves[sized]
        if MIN_SIZED_RUNS <= len(alike) < len(jobs):
            size = float(2.0 ** round(np.log2(np.median(alike))))
            entry = entry_of(sized, jobs, known.at(size), size=size, runs=len(alike))
            if _differs(entry, general):
                same = [job for job in everything if core.size_key(key, job.size) == sized]
                yield _borne_out(entry, same)


def _entries_by_arguments(
    level: Level, general: Learned, jobs: list[FinishedJob], everything: list[FinishedJob]
) -> Iterator[Learned]:
    """Yield an entry for each set of arguments, where they tell runs apart."""
    groups = by_arguments(level.evidence, jobs)
    if not explains(groups, general.profile, general.size, general.exponents):
        return
    first = spread_within(groups, general.size, general.exponents)
    common = sorted(groups, key=lambda key: (-len(groups[key]), key))[:MAX_ARGUMENTS]
    traces = by_arguments(level.evidence, everything)
    for key in sorted(common):
        group = groups[key]
        laws = laws_of(group, _mean_size(group), general.exponents, None)
        entry = _entry(
            replace(level, evidence=USER_ARGUMENTS),
            key,
            group,
            expected(group, recency(group), laws=laws, first_spread=first),
            slopes=general.exponents,
        )
        yield _borne_out(entry, traces[key])


def _borne_out(entry: Learned, jobs: list[FinishedJob]) -> Learned:
    """Tell how far these runs, the oldest first, have the entry's pattern."""
    pattern = entry.profile.pattern
    weights = recency(jobs)
    same = np.array([job.profile.pattern == pattern != core.UNKNOWN for job in jobs])
    return replace(entry, agreement=float(weights[same].sum() / weights.sum()))


def _mean_size(jobs: Sequence[FinishedJob]) -> float:
    return _mean(np.array([job.size for job in jobs]))


def _entry(
    level: Level,
    key: int,
    jobs: list[FinishedJob],
    profile: Profile,
    *,
    slopes: Mapping[str, float] = NO_SLOPES,
    law: ArgumentLaw | None = None,
    size: float = 0.0,
    runs: int = 0,
) -> Learned:
    """Return an entry for jobs; size: the one that the profile is for, of so many runs."""
    known = [job.size for job in jobs if job.size > 0]
    size = size or _mean_size(jobs)
    confidence = profile.confidence * breadth(level, jobs, profile.pattern)
    logs = [log for job in jobs for log in job.logs][-KEPT_LOGS:]
    return Learned(
        application=Application(
            evidence=level.evidence,
            key=key,
            label=level.label(jobs[-1])
            + (f" at about {size:g} processes" if runs else "")
            + (arguments_text(jobs[-1]) if level.evidence == USER_ARGUMENTS else ""),
            runs=runs or len(jobs),
            logs=tuple(sorted(logs)),
        ),
        profile=replace(profile, confidence=confidence, runs=runs or len(jobs)),
        size=size,
        sizes=(min([*known, size]), max([*known, size])) if known else (0.0, 0.0),
        exponents=slopes if known else {},
        law=law,
    )


def _differs(entry: Learned, general: Learned) -> bool:
    """Whether runs of a size do other things than the scaled profile of all says."""
    if entry.profile.pattern != general.profile.pattern:
        return True
    octaves = np.log2(entry.size / general.size)
    for name in ("chunk_bytes", "write_bytes"):
        own = entry.profile.numbers.get(name, 0.0)
        other = general.profile.numbers.get(name, 0.0)
        if own <= 0 or other <= 0:
            continue
        scaled = np.log2(other) + octaves * general.exponents.get(name, 0.0)
        if abs(np.log2(own) - scaled) > DIFFERENT:
            return True
    return False
