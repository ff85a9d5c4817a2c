"""What a history knows of the speed of its site's targets, and how to learn more by probes."""

from __future__ import annotations

import re
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Protocol

from sluice.history_db.records import TargetProbe
from sluice.interference.calibrate.corunners import without_corunners
from sluice.interference.calibrate.protocol import MOST_FOREIGN_SHARE, Member, measure
from sluice.interference.calibrate.slow_targets import (
    WINDOW,
    SpeedObservation,
    TargetSpeed,
    speeds_of,
)
from sluice.interference.calibrate.targets import claimed
from sluice.policies.core import CoreError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from sluice.history_db.records import PlacedRun
    from sluice.history_db.store import Store
    from sluice.interference.calibrate.launch import Launcher
    from sluice.interference.calibrate.protocol import Timing
    from sluice.interference.calibrate.targets import Target
    from sluice.interference.programs import Program
    from sluice.policies.core import View

LAST_OST = 0xFFFF
_OSTS = re.compile(r"(?:(?P<lane>[^:]+):)?(\d{1,5})(?:-(\d{1,5}))?", re.ASCII)

MOST_RUNS = 5000  # of lanes, and as many of Lustre's targets: the latest


class Lane(Protocol):
    """What is used of struct sluice_lane."""

    @property
    def name(self) -> str: ...

    @property
    def targets(self) -> int: ...

    @property
    def bandwidth(self) -> float: ...


@dataclass(frozen=True, slots=True)
class Lanes:
    """The lanes of a site, in the order of its policy."""

    lanes: tuple[Lane, ...]
    osts: Mapping[str, frozenset[str]]
    """Lustre's targets of a lane, where the site says so."""

    @classmethod
    def of(cls, config: View) -> Lanes:
        """Read them from a configuration. Raises CoreError for a LaneOsts that makes no sense."""
        lanes = tuple(config.policy.lanes)
        return cls(lanes, _osts_by_lane(config.lane_osts, {lane.name for lane in lanes}))

    @property
    def names(self) -> list[str]:
        return [lane.name for lane in self.lanes]


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
        for run in store.runs_on_lanes(since=now - WINDOW, until=now, latest=MOST_RUNS)
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


def _speeds_of_others(store: Store, lanes: Lanes, now: int) -> list[TargetSpeed]:
    """Judge all that are no lanes, in the order of their names."""
    runs = [
        (run, [_ost(ost) for ost in run.osts or ()])
        for run in without_corunners(
            store.runs_on_osts(since=now - WINDOW, until=now, latest=MOST_RUNS)
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


def probe_targets(
    targets: Sequence[Target],
    program: Program,
    *,
    rounds: int,
    launcher: Launcher,
    timing: Timing,
) -> Iterator[tuple[TargetProbe, str]]:
    """Run the program alone on each target in turn; yield what it got, and why it does not count.

    Each round begins with another target, so that none is always the first. Raises
    CalibrationError when a probe fails, or when somebody else measures there.
    """
    with claimed(targets):
        for number in range(rounds):
            first = number % len(targets)
            for target in (*targets[first:], *targets[:first]):
                run = measure([Member(program, target)], launcher=launcher, timing=timing)
                probe = TargetProbe(target.name, str(program), int(time.time()), run.rates[0])
                yield probe, _reason_to_drop(probe.rate, run.foreign)


def _reason_to_drop(rate: float, foreign: float) -> str:
    if rate <= 0:
        return "nothing reached it in the window"
    if foreign > MOST_FOREIGN_SHARE:
        return f"others had {foreign:.0%} of the traffic"
    return ""


def _probed(store: Store, now: int) -> list[SpeedObservation]:
    return [
        SpeedObservation(probe.target, probe.program, probe.observed, probe.rate)
        for probe in store.target_probes(since=now - WINDOW)
    ]


def _of_runs(placed: Sequence[tuple[PlacedRun, Sequence[str]]]) -> list[SpeedObservation]:
    """Share a run among its targets: it is as slow as one of them, and does not say which.

    All runs of a job tell of a target no more than one that had it alone: they met the same day.
    """
    told: dict[tuple[str, str], float] = defaultdict(float)
    for run, targets in placed:
        for target in targets:
            told[run.job, target] += 1 / len(targets)
    return [
        SpeedObservation(
            target,
            f"{run.uid} {run.exe} {run.nprocs}",
            run.observed,
            run.rate,
            1 / len(targets) / max(1.0, told[run.job, target]),
            is_probe=False,
        )
        for run, targets in placed
        for target in targets
    ]


def _ost(number: int) -> str:
    """Name a target as `lfs` and the servers do, in hexadecimal digits."""
    return f"OST{number:04x}"


def _osts_by_lane(text: str, lanes: Collection[str]) -> dict[str, frozenset[str]]:
    """Read `sl0:0-3,8,sl1:4-7`: a lane's name stands before the first of its targets."""
    found: dict[str, set[str]] = defaultdict(set)
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
        found[lane] |= {_ost(number) for number in range(first, last + 1)}
    if twice := sorted(ost for ost, lanes in Counter(chain(*found.values())).items() if lanes > 1):
        raise CoreError(f"LaneOsts: {twice[0]} is of two lanes; give each target to one of them")
    return {lane: frozenset(osts) for lane, osts in found.items()}


def _alike(lanes: Iterable[Lane]) -> list[list[str]]:
    groups: dict[tuple[int, float], list[str]] = defaultdict(list)
    for lane in lanes:
        groups[lane.targets, lane.bandwidth].append(lane.name)
    return list(groups.values())
