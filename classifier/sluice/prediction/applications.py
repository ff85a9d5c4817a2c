"""The application table: what earlier runs of a script, a name, an account or the site did.

What the arguments of the submit line tell of a run. A script does the same with the same words, and
often more with a larger number among them. Both count only where the runs show it: most arguments
say nothing of the I/O.

An entry says how certain it is that the next run is alike: one run proves little.
"""

from __future__ import annotations

import math
from bisect import insort
from collections import defaultdict
from dataclasses import dataclass, field, replace
from functools import cached_property
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
    keys_of,
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
    recency,
    vote,
)
from sluice.prediction.hindsight import Hindsight
from sluice.prediction.submission_features import reliability_of

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from sluice.prediction.expectation import Losses
    from sluice.prediction.jobs import FinishedJob

    Array = NDArray[np.float64]
    Groups = Mapping[int, list[FinishedJob]]


MIN_VALUES = 3  # two could be two cases, and no number
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


def explains(groups: Groups) -> bool:
    """Whether runs with the same arguments are alike, and those with others are not."""
    if len(groups) < 2 or all(len(group) < 2 for group in groups.values()):
        return False
    patterns = {vote(group, recency(group))[0] for group in groups.values()}
    if len(patterns) > 1:
        return True
    spread = spread_within([[job for group in groups.values() for job in group]])
    return spread > core.WIDE and spread_within(groups.values()) < EXPLAINED * spread


def spread_within(groups: Iterable[Sequence[FinishedJob]]) -> float:
    """Return the spread of the volume among runs of a group that have the same size."""
    squares, freedom = FIRST_SPREAD**2, 1.0
    for group in groups:
        for alike in by_size(group).values():
            logs = np.log([max(job.moved, 1024.0) for job in alike])
            squares += float(((logs - logs.mean()) ** 2).sum())
            freedom += len(logs) - 1
    return math.sqrt(squares / freedom)


def by_size(jobs: Iterable[FinishedJob]) -> dict[float, list[FinishedJob]]:
    """Return jobs by their size, the one that was asked for last at the end."""
    sizes: dict[float, list[FinishedJob]] = {}
    for job in jobs:
        sizes[job.size] = [*sizes.pop(job.size, []), job]
    return sizes


def argument_law(
    jobs: Sequence[FinishedJob], weights: Array, slopes: Mapping[str, float]
) -> ArgumentLaw | None:
    """Return how the numbers of a profile follow one of the numbers; that which explains most."""
    best: ArgumentLaw | None = None
    if len(jobs) < MIN_RUNS:
        return best
    least, volume = math.inf, volume_of(jobs)
    size = _mean(np.array([job.size for job in jobs]))
    by_size = laws_of(jobs, size, slopes, None)
    for place in range(1, core.MAX_NUMBERS + 1):
        values = _values(jobs, place)
        if len(np.unique(values[values > 0])) < MIN_VALUES:
            continue
        found = exponents(jobs, weights, values, by_size)
        if volume not in found:
            continue
        known = values[values > 0]
        law = ArgumentLaw(place, _mean(values), (float(known.min()), float(known.max())), found)
        rest = carried_over(jobs, [volume], laws_of(jobs, size, slopes, law))[0]
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


def volume_of(jobs: Sequence[FinishedJob]) -> str:
    """Name the number by which arguments are judged: what most bytes of these jobs are."""
    written, read = (
        sum(job.profile.numbers.get(name, 0.0) for job in jobs)
        for name in ("write_bytes", "read_bytes")
    )
    return "read_bytes" if read > written else "write_bytes"


OF_USERS = ("user_script", "user_name")
USER_ARGUMENTS, USER_SIZE = "user_arguments", "user_size"
MAX_ARGUMENTS = 16  # sets of them that one key may have entries for, the commonest
MAX_SIZES = 16  # entries for sizes that one key may have, the latest
NO_SLOPES: Mapping[str, float] = {}
KEPT_LOGS = 20  # listed behind an entry; the newest
LATEST_OF_ALL = 1000  # jobs under a key that are looked through
ENOUGH_CONFIRMED = 3  # runs, from which those that nothing confirms are left out
NOTHING_KNOWN = Hindsight()


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
    newest: int = 0
    """When the newest run behind it ended, UTC seconds."""


def learn_applications(
    jobs: Sequence[FinishedJob],
    *,
    hindsight: Hindsight = NOTHING_KNOWN,
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
    expectations = Expectations(hindsight.losses)
    return numbered(
        entry
        for place, group in sorted(groups.items())
        for entry in entries_under(
            place,
            group,
            without_trace.get(place, []),
            hindsight=hindsight,
            expectations=expectations,
        )
    )


def entries_under(
    place: tuple[int, int],
    jobs: Sequence[FinishedJob],
    silent: Sequence[FinishedJob],
    *,
    hindsight: Hindsight,
    expectations: Expectations | None = None,
    sizes: Container[float] | None = None,
) -> Iterator[Learned]:
    """Yield the entries of one key, not numbered yet; place is number of the level and key.

    jobs are all that have the key, the oldest first, and silent those that left no trace of I/O.
    expectations: of the keys before, while their jobs are there. sizes: that are asked about,
    where there are no others.
    """
    number, key = place
    level = LEVELS[number]
    jobs = jobs[-LATEST_OF_ALL:]
    confirmed = [job for job in jobs if job.is_confirmed]
    is_confirmed = len(confirmed) >= min(ENOUGH_CONFIRMED, len(jobs))
    known = latest(level, confirmed if is_confirmed else jobs)
    # an entry that predicted wrongly lately does not count, whatever earlier runs let expect
    pairs = ((job.predicted, job.profile) for job in known) if level.witness is None else ()
    reliability = reliability_of(pairs)
    asked = _Asked(expectations or Expectations(hindsight.losses), sizes)
    for entry in _entries(level, key, known, list(silent), asked):
        profile = hindsight.calibrated(level.evidence, entry.profile)
        profile = replace(profile, confidence=profile.confidence * reliability)
        yield replace(entry, profile=profile, is_confirmed=is_confirmed)


Place = tuple[int, int]
"""Number of a level, and key of an entry and of those for its sizes and arguments."""


class GrowingTable:
    """The jobs behind each key as they end: what is under one depends on these alone."""

    def __init__(
        self, jobs: Sequence[FinishedJob], silent: Sequence[FinishedJob], hindsight: Hindsight
    ) -> None:
        self.hindsight = hindsight
        self._jobs = defaultdict(list, groups_of(in_order(jobs)))
        self._silent = groups_of(silent)

    @property
    def places(self) -> list[Place]:
        return list(self._jobs)

    def add(self, job: FinishedJob) -> list[Place]:
        """Take a job in; return where that matters."""
        places = list(keys_of(job))
        for place in places:
            insort(self._jobs[place], job, key=_age)
        return places

    def remove(self, job: FinishedJob) -> list[Place]:
        """Leave a job out that was taken in; return where that matters."""
        places = list(keys_of(job))
        for place in places:
            self._jobs[place].remove(job)
        return places

    def entries(self, place: Place, sizes: Container[float] | None = None) -> list[Learned]:
        """Return what is learned under a key; sizes: as `entries_under` takes them."""
        jobs, silent = self._jobs.get(place), self._silent.get(place, [])
        if not jobs:
            return []
        return list(entries_under(place, jobs, silent, hindsight=self.hindsight, sizes=sizes))


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
        and entry.application.evidence in {*OF_USERS, USER_ARGUMENTS, USER_SIZE}
        and entry.profile.pattern not in {core.UNKNOWN, "none"}
        for entry in table
    )


def in_order(jobs: Iterable[FinishedJob]) -> list[FinishedJob]:
    """Return the jobs with the oldest first."""
    return sorted(jobs, key=_age)


def _age(job: FinishedJob) -> tuple[int, tuple[int, ...]]:
    return job.start, job.logs


class Expectations:
    """What lists of jobs let expect, each found once: a script's runs are often all of a name."""

    def __init__(self, losses: Losses) -> None:
        self._losses = losses
        self._known: dict[tuple[int, ...], Expectation] = {}

    def of(self, jobs: list[FinishedJob]) -> Expectation:
        """Return what these let expect, by the weights of one witness's runs."""
        key = tuple(map(id, jobs))
        if key not in self._known:
            self._known[key] = Expectation(jobs, self._losses)
        return self._known[key]


class Expectation:
    """What jobs, the oldest first, let expect."""

    def __init__(self, jobs: list[FinishedJob], losses: Losses) -> None:
        self.jobs = jobs
        self.size = _mean_size(jobs)
        self._losses = losses
        self._weights = recency(jobs)

    @cached_property
    def slopes(self) -> dict[str, float]:
        """How numbers follow the size."""
        return exponents(self.jobs, self._weights, np.array([job.size for job in self.jobs]))

    @cached_property
    def law(self) -> ArgumentLaw | None:
        return argument_law(self.jobs, self._weights, self.slopes)

    @cached_property
    def usual(self) -> Profile:
        """What is expected at the mean size and argument."""
        return self.carried_over(self.slopes, self.law)

    def carried_over(
        self,
        slopes: Mapping[str, float],
        law: ArgumentLaw | None,
        first_spread: float = FIRST_SPREAD,
    ) -> Profile:
        """Return what is expected where these carry the runs over to their mean."""
        laws = laws_of(self.jobs, self.size, slopes, law)
        return expected(
            self.jobs, self._weights, laws=laws, first_spread=first_spread, losses=self._losses
        )


@dataclass(frozen=True, slots=True)
class _Asked:
    """What entries are wanted, and what lists of jobs let expect."""

    expectations: Expectations
    sizes: Container[float] | None


def _entries(
    level: Level, key: int, jobs: list[FinishedJob], silent: list[FinishedJob], asked: _Asked
) -> Iterator[Learned]:
    """Yield the entry of a key, those for each size and those for sets of arguments."""
    if level.witness is not None:
        yield _entry(level, key, jobs, expected(jobs, weights_of(level, jobs)))
        return
    known = asked.expectations.of(jobs)
    everything = in_order([*jobs, *silent])[-LATEST_JOBS:] if silent else jobs
    general = _entry(level, key, jobs, known.usual, slopes=known.slopes, law=known.law)
    yield _borne_out(general, everything)
    yield from _entries_by_size(level, general, jobs, everything, asked)
    groups = by_arguments(level.evidence, jobs)
    if not explains(groups):
        return
    first = spread_within(groups.values())
    traces = by_arguments(level.evidence, everything)
    common = sorted(groups, key=lambda key: (-len(groups[key]), key))[:MAX_ARGUMENTS]
    for words in sorted(common):
        group = asked.expectations.of(groups[words])
        profile = group.carried_over(known.slopes, None, first)
        of_words = replace(level, evidence=USER_ARGUMENTS)
        entry = _entry(of_words, words, group.jobs, profile, slopes=known.slopes)
        yield _borne_out(entry, traces[words])
        yield from _entries_by_size(
            of_words, entry, group.jobs, traces[words], asked, first_spread=first
        )


def _entries_by_size(
    level: Level,
    general: Learned,
    jobs: list[FinishedJob],
    everything: list[FinishedJob],
    asked: _Asked,
    *,
    first_spread: float = FIRST_SPREAD,
) -> Iterator[Learned]:
    """Yield an entry for each size that a user asked for, where there are several."""
    sizes = by_size(jobs)
    if len(sizes) == 1:
        return
    if level.evidence != USER_ARGUMENTS:
        level = replace(level, evidence=USER_SIZE)
    for size in sorted(list(sizes)[-MAX_SIZES:]):
        if size > 0 and (asked.sizes is None or size in asked.sizes):
            group = asked.expectations.of(sizes[size])
            profile = group.carried_over(NO_SLOPES, general.law, first_spread)
            key = core.size_key(general.application.key, size)
            entry = _entry(level, key, group.jobs, profile, law=general.law)
            same = [job for job in everything if job.size == size]
            yield _borne_out(_of_size(entry, size), same)


def _of_size(entry: Learned, size: float) -> Learned:
    label = f"{entry.application.label} at {size:g} processes"
    return replace(entry, application=replace(entry.application, label=label))


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
) -> Learned:
    known = [job.size for job in jobs if job.size > 0]
    size = _mean_size(jobs)
    confidence = profile.confidence * breadth(level, jobs, profile.pattern)
    logs = [log for job in jobs for log in job.logs][-KEPT_LOGS:]
    return Learned(
        application=Application(
            evidence=level.evidence,
            key=key,
            label=level.label(jobs[-1])
            + (arguments_text(jobs[-1]) if level.evidence == USER_ARGUMENTS else ""),
            runs=len(jobs),
            logs=tuple(sorted(logs)),
        ),
        profile=replace(profile, confidence=confidence, runs=len(jobs)),
        size=size,
        sizes=(min([*known, size]), max([*known, size])) if known else (0.0, 0.0),
        exponents=slopes if known else {},
        law=law,
        newest=max(job.end for job in jobs),
    )
