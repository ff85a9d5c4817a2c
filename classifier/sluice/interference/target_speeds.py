"""Speed of storage targets, by probes and by runs that had them to themselves.

The logs of others tell which runs had Lustre's targets to themselves. The bytes of a run count as
spread evenly over its time and its targets. Jobs without a log are not known.

Targets of one file system differ by about 5 times at a moment, and one of them by more than 10
times over time; a few are slow, most are alike (Huang et al., docs/evidence/storage-models.md, H1).
So a target is compared with its peers, by the rates of the same program there and elsewhere, and
old observations count less.

The speed of a target is the median of the ratios rate here / usual rate elsewhere, each of weight
2^(-age / HALF_LIFE). The usual rate of a program elsewhere is the (upper) median over the other
targets of its median there. The interval is that of a median without any assumption on the
distribution: the quantiles 1/2 -+ Z / (2 sqrt (n)), where n is the sum of the weights. Below four
observations' worth there are no such quantiles, and no verdict.

Users may write any rate and target into a log, or write as slowly as they like. So no user's runs
weigh more than all other evidence of a target together: by themselves they give no verdict, and
against as much of others they make no target slow.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate, chain, pairwise
from typing import TYPE_CHECKING, Protocol

from sluice.interference.observations import MOST_FOREIGN_SHARE
from sluice.policies.core import CoreError

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence

    from sluice.history_db.records import PlacedRun
    from sluice.history_db.store import Store
    from sluice.policies.core import View


def without_corunners(runs: Sequence[PlacedRun]) -> list[PlacedRun]:
    """Leave out runs of which other jobs had more than 10 % of the traffic on a target.

    And those of which sluiced saw it, which slow others all the same.
    """
    on_target: dict[Hashable, list[PlacedRun]] = defaultdict(list)
    runs_of_job = Counter(run.job for run in runs)
    for run in runs:
        for ost in run.osts or ():
            on_target[ost].append(run)
            if runs_of_job[run.job] > 1:
                on_target[ost, run.job].append(run)
    traffic = {place: _Traffic(there) for place, there in on_target.items()}
    return [run for run in runs if not run.with_corunners and not _had_corunners(run, traffic)]


def _had_corunners(run: PlacedRun, traffic: dict[Hashable, _Traffic]) -> bool:
    for ost in run.osts or ():
        several = traffic.get((ost, run.job))
        of_job = several.during(run) if several else _rate_on_target(run)
        others = traffic[ost].during(run) - of_job
        own = max(of_job, run.rate / len(run.osts or ()))
        if others > MOST_FOREIGN_SHARE * (others + own):
            return True
    return False


class _Traffic:
    """Bytes of runs on one target over time."""

    def __init__(self, runs: Iterable[PlacedRun]) -> None:
        steps: dict[int, float] = defaultdict(float)
        for run in runs:
            rate = _rate_on_target(run)
            steps[run.observed] += rate
            steps[run.observed + _seconds(run)] -= rate
        self._times = sorted(steps)
        self._rates = list(accumulate(steps[time] for time in self._times))
        passed = zip(self._rates, pairwise(self._times), strict=False)
        self._moved = list(accumulate((r * (end - begin) for r, (begin, end) in passed), initial=0))

    def during(self, run: PlacedRun) -> float:
        """B/s on average while a run went on."""
        moved = self._until(run.observed + _seconds(run)) - self._until(run.observed)
        return moved / _seconds(run)

    def _until(self, instant: int) -> float:
        i = bisect_right(self._times, instant) - 1
        return self._moved[i] + self._rates[i] * (instant - self._times[i])


def _rate_on_target(run: PlacedRun) -> float:
    """B/s on each of its targets, over its whole time."""
    return run.moved / len(run.osts or ()) / _seconds(run)


def _seconds(run: PlacedRun) -> int:
    return max(1, run.ended - run.observed)


HALF_LIFE = 86400.0  # seconds in which an observation loses half of its weight
WINDOW = 7 * 86400  # seconds; older observations do not count
Z = 1.96  # of a two-sided interval of 95 %
SLOW_BELOW = 2 / 3
"""A target is slow when the upper end of its interval is below this share of its peers' rate."""
SLOWEST = 0.01
"""Smallest published speed of a slow target."""

LONELY = "nothing to compare with"
UNSURE = "not enough evidence"
SLOW = "slow"
KEEPS_UP = "keeps up with its peers"
UNDECIDED = "may be slow, may keep up"


@dataclass(frozen=True, slots=True)
class SpeedObservation:
    """Rate of a program on a target."""

    target: str
    program: str
    """Compared with itself elsewhere."""
    observed: int
    """UTC seconds."""
    rate: float
    """B/s, > 0."""
    weight: float = 1.0
    """Below 1 where the rate says less of this target alone."""
    uid: int | None = None
    """Of the user of a run; None: a probe of the site's own."""

    @property
    def is_probe(self) -> bool:
        return self.uid is None


@dataclass(frozen=True, slots=True)
class TargetSpeed:
    """Speed of a target, as far as it is known."""

    target: str
    verdict: str
    speed: float | None
    """Rate as a share of its peers'; None: not known. Above 1 where it is faster."""
    low: float | None
    high: float | None
    evidence: float
    """Fresh observations that all of them are worth."""
    probes: int
    runs: int
    latest: int | None
    """Of the observations, UTC seconds."""

    @property
    def is_slow(self) -> bool:
        return self.verdict == SLOW

    @property
    def published(self) -> float:
        """Return the speed in decisions: 1 of every target that is not known to be slow."""
        return self.published_after(was_slow=False)

    def published_after(self, *, was_slow: bool) -> float:
        """Return the same of a target of which it is known whether it was slow until now.

        Then it does until it surely keeps up, or too little is known any more: one near the bound
        would otherwise be slow and keep up in turns, with each run that is seen.
        """
        counts = self.is_slow or (was_slow and self.verdict == UNDECIDED)
        return min(1.0, max(SLOWEST, self.speed)) if counts and self.speed is not None else 1.0


@dataclass(frozen=True, slots=True)
class _Weighed:
    """Logarithm of a rate or ratio."""

    value: float
    weight: float


@dataclass(frozen=True, slots=True, eq=False)
class _Cell:
    """Rates of a program on a target, and their median for comparison."""

    uid: int | None
    rates: list[_Weighed]
    median: float
    weight: float


def speeds_of(
    peers: Iterable[Sequence[str]], observations: Iterable[SpeedObservation], now: int
) -> list[TargetSpeed]:
    """Judge targets, in the order in which they come; `peers` are groups of targets alike.

    Observations of other targets, of the future and of before WINDOW count for nothing.
    """
    by_target: dict[str, list[SpeedObservation]] = defaultdict(list)
    for one in sorted(observations, key=_place):
        if now - WINDOW <= one.observed <= now:
            by_target[one.target].append(one)
    found = []
    for group in peers:
        cells = {target: _cells(by_target[target], now) for target in group}
        peers_of = _by_program(cells.values())
        found += [_judge(target, cells[target], peers_of, by_target[target]) for target in group]
    return found


def _place(one: SpeedObservation) -> tuple[object, ...]:
    """Sort by all that is compared, so that sums do not depend on the order."""
    return one.observed, one.program, -1 if one.uid is None else one.uid, one.rate, one.weight


def _cells(observations: Iterable[SpeedObservation], now: int) -> dict[Hashable, _Cell]:
    """Rates by program and user; probes and runs are never compared with one another."""
    cells: dict[tuple[int | None, str], list[_Weighed]] = defaultdict(list)
    for one in observations:
        age = 2.0 ** (-(now - one.observed) / HALF_LIFE)
        cells[one.uid, one.program].append(_Weighed(math.log(one.rate), one.weight * age))
    return {
        (uid, program): _Cell(uid, rates, quantile(rates, 0.5), sum(one.weight for one in rates))
        for (uid, program), rates in cells.items()
    }


def _by_program(targets: Iterable[dict[Hashable, _Cell]]) -> dict[Hashable, list[_Cell]]:
    """Each program's cells, by their medians: there may be a thousand targets."""
    found: dict[Hashable, list[_Cell]] = defaultdict(list)
    for cells in targets:
        for program, cell in cells.items():
            found[program].append(cell)
    return {program: sorted(cells, key=lambda one: one.median) for program, cells in found.items()}


def _judge(
    target: str,
    cells: dict[Hashable, _Cell],
    peers_of: dict[Hashable, list[_Cell]],
    observations: Sequence[SpeedObservation],
) -> TargetSpeed:
    by_user: dict[int | None, list[_Weighed]] = defaultdict(list)
    for program, here in cells.items():
        elsewhere = [cell for cell in peers_of[program] if cell is not here]
        by_user[here.uid] += _ratios(here, elsewhere)
    ratios = _borne_out(by_user)
    evidence = sum(ratio.weight for ratio in ratios)
    speed = math.exp(quantile(ratios, 0.5)) if ratios else None
    low, high = _interval(ratios, evidence)
    return TargetSpeed(
        target=target,
        verdict=_verdict(speed, low, high),
        speed=speed,
        low=low,
        high=high,
        evidence=evidence,
        probes=sum(one.is_probe for one in observations),
        runs=sum(not one.is_probe for one in observations),
        latest=observations[-1].observed if observations else None,
    )


def _ratios(here: _Cell, elsewhere: list[_Cell]) -> list[_Weighed]:
    """Compare a program's rates with its usual one elsewhere, which must weigh as much."""
    if not elsewhere:
        return []
    usual = elsewhere[len(elsewhere) // 2].median
    scale = min(1.0, sum(cell.weight for cell in elsewhere) / here.weight)
    return [_Weighed(one.value - usual, one.weight * scale) for one in here.rates]


def _borne_out(by_user: dict[int | None, list[_Weighed]]) -> list[_Weighed]:
    """Let no user's runs weigh more than probes and the runs of others together."""
    weights = {uid: sum(ratio.weight for ratio in own) for uid, own in by_user.items()}
    total = sum(weights.values())
    found = list(by_user.pop(None, ()))
    for uid, own in by_user.items():
        others = total - weights[uid]
        if 0 < others < weights[uid]:
            found += [replace(one, weight=one.weight * others / weights[uid]) for one in own]
        elif others:
            found += own
    return found


def quantile(values: Iterable[_Weighed], share: float) -> float:
    """Return the smallest value with so large a share of the weight at or below it."""
    ranked = sorted(values, key=lambda one: one.value)
    wanted = share * sum(one.weight for one in ranked)
    below = 0.0
    for one in ranked:
        below += one.weight
        if below >= wanted:
            return one.value
    return ranked[-1].value


def _interval(ratios: list[_Weighed], evidence: float) -> tuple[float | None, float | None]:
    if evidence <= Z**2:  # not even the extremes enclose the median so surely
        return None, None
    reach = Z / (2 * math.sqrt(evidence))
    return math.exp(quantile(ratios, 0.5 - reach)), math.exp(quantile(ratios, 0.5 + reach))


def _verdict(speed: float | None, low: float | None, high: float | None) -> str:
    if speed is None:
        return LONELY
    if low is None or high is None:
        return UNSURE
    if high < SLOW_BELOW:
        return SLOW
    return KEEPS_UP if low >= SLOW_BELOW else UNDECIDED


LAST_OST = 0xFFFF
_OSTS = re.compile(r"(?:(?P<lane>[^:]+):)?(\d{1,5})(?:-(\d{1,5}))?", re.ASCII)

MOST_RUNS = 5000  # of lanes, and as many of Lustre's targets: the latest


class Lane(Protocol):
    """Members of struct sluice_lane."""

    @property
    def name(self) -> str: ...

    @property
    def targets(self) -> int: ...

    @property
    def bandwidth(self) -> float: ...

    @property
    def has_blocks(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Lanes:
    """The lanes of a site, in the order of its policy."""

    lanes: tuple[Lane, ...]
    osts: Mapping[str, tuple[str, ...]]
    """Lustre's targets of a lane, where the site says so, in its order."""

    @classmethod
    def of(cls, config: View) -> Lanes:
        """Read them from a configuration. Raises CoreError for a LaneOsts that makes no sense."""
        lanes = tuple(config.policy.lanes)
        return cls(lanes, _osts_by_lane(config.lane_osts, {lane.name for lane in lanes}))

    @property
    def names(self) -> list[str]:
        return [lane.name for lane in self.lanes]

    @property
    def numbers(self) -> dict[str, tuple[int, int]]:
        """Lane and number of Lustre's targets on lanes with blocks.

        Known where the site names as many as the lane has.
        """
        return {
            ost: (i, target)
            for i, lane in enumerate(self.lanes)
            if lane.has_blocks and len(self.osts.get(lane.name, ())) == lane.targets
            for target, ost in enumerate(self.osts[lane.name])
        }


def target_speeds(store: Store, lanes: Lanes, now: int) -> list[TargetSpeed]:
    """Judge the lanes, then other targets: those that were probed, and Lustre's."""
    return [*speeds_of_lanes(store, lanes, now), *_speeds_of_others(store, lanes, now)]


def speeds_of_lanes(
    store: Store, lanes: Lanes, now: int, *, was_slow: Collection[str] = ()
) -> list[TargetSpeed]:
    """Judge the lanes, in their order; `was_slow` names those that were slow until now.

    They are compared with lanes of the same size alone: a larger one is faster by design. One
    of Lustre's targets that is slow makes its lane as slow, for a striped operation takes its
    slowest target; the evidence is then that target's.
    """
    names = lanes.names
    runs = [
        (run, [names[run.lane]])
        for run in store.interference.runs_on_lanes(since=now - WINDOW, until=now, latest=MOST_RUNS)
        if run.lane is not None and run.lane < len(names) and not run.with_corunners
    ]
    observed = [*_probed(store, now), *_of_runs(runs)]
    found = {speed.target: speed for speed in speeds_of(_alike(lanes.lanes), observed, now)}
    others = _speeds_of_others(store, lanes, now) if lanes.osts else []
    for name, osts in lanes.osts.items():
        published = partial(TargetSpeed.published_after, was_slow=name in was_slow)
        slow = [one for one in others if one.target in osts and published(one) < 1]
        found[name] = replace(min([found[name], *slow], key=published), target=name)
    return [found[name] for name in names]


def slow_targets(
    store: Store, lanes: Lanes, now: int, *, was_slow: Collection[tuple[int, int]] = ()
) -> dict[tuple[int, int], float]:
    """Return the speeds of slow targets of lanes with blocks, by Lanes.numbers."""
    numbers = lanes.numbers
    judged = _speeds_of_others(store, lanes, now) if numbers else []
    found = {
        numbers[one.target]: one.published_after(was_slow=numbers[one.target] in was_slow)
        for one in judged
        if one.target in numbers
    }
    return {number: speed for number, speed in found.items() if speed < 1}


def _speeds_of_others(store: Store, lanes: Lanes, now: int) -> list[TargetSpeed]:
    """Judge all that are no lanes, in the order of their names."""
    runs = [
        (run, [_ost(ost) for ost in run.osts or ()])
        for run in without_corunners(
            store.interference.runs_on_osts(since=now - WINDOW, until=now, latest=MOST_RUNS)
        )
    ]
    observed = [*_probed(store, now), *_of_runs(runs)]
    others = {one.target for one in observed} - set(lanes.names)
    found = speeds_of(_peers(others, lanes), observed, now)
    return sorted(found, key=lambda speed: speed.target)


def _peers(others: Collection[str], lanes: Lanes) -> list[list[str]]:
    """Put targets of lanes alongside those of lanes alike alone, as what they give is by design."""
    groups: dict[tuple[str, ...], list[str]] = defaultdict(list)
    alongside = {
        ost: tuple(names)
        for names in _alike(lanes.lanes)
        for name in names
        for ost in lanes.osts.get(name, ())
    }
    for target in sorted(others):
        groups[alongside.get(target, ())].append(target)
    return list(groups.values())


def _probed(store: Store, now: int) -> list[SpeedObservation]:
    return [
        SpeedObservation(probe.target, probe.program, probe.observed, probe.rate)
        for probe in store.interference.target_probes(since=now - WINDOW)
    ]


def _of_runs(placed: Sequence[tuple[PlacedRun, Sequence[str]]]) -> list[SpeedObservation]:
    """Share a run among its targets: it is as slow as one of them, and does not say which.

    All runs of a job count for a target no more than one run that had it alone.
    """
    told: dict[tuple[str, str], float] = defaultdict(float)
    for run, targets in placed:
        for target in targets:
            told[run.job, target] += 1 / len(targets)
    return [
        SpeedObservation(
            target,
            f"{run.exe} {run.nprocs}",
            run.observed,
            run.rate,
            1 / len(targets) / max(1.0, told[run.job, target]),
            uid=run.uid,
        )
        for run, targets in placed
        for target in targets
    ]


def _ost(number: int) -> str:
    """Name a target as `lfs` and the servers do, in hexadecimal digits."""
    return f"OST{number:04x}"


def _osts_by_lane(text: str, lanes: Collection[str]) -> dict[str, tuple[str, ...]]:
    """Read `sl0:0-3,8,sl1:4-7`: a lane's name stands before the first of its targets."""
    found: dict[str, dict[str, None]] = defaultdict(dict)
    lane = ""
    for item in filter(None, text.split(",")):
        match = _OSTS.fullmatch(item)
        lane = (match and match["lane"]) or lane
        first, last = (int(match[2]), int(match[3] or match[2])) if match else (1, 0)
        if lane not in lanes or not first <= last <= LAST_OST:
            raise CoreError(
                f"LaneOsts: {item!r} is not a lane and numbers of Lustre's targets; write "
                "sl0:0-3,8,sl1:4-7"
            )
        found[lane] |= dict.fromkeys(map(_ost, range(first, last + 1)))
    if twice := sorted(ost for ost, lanes in Counter(chain(*found.values())).items() if lanes > 1):
        raise CoreError(f"LaneOsts: {twice[0]} is of two lanes; give each target to one of them")
    return {lane: tuple(osts) for lane, osts in found.items()}


def _alike(lanes: Iterable[Lane]) -> list[list[str]]:
    groups: dict[tuple[int, float], list[str]] = defaultdict(list)
    for lane in lanes:
        groups[lane.targets, lane.bandwidth].append(lane.name)
    return list(groups.values())
