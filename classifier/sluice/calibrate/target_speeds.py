"""What a history knows of the speed of its site's targets, and how to learn more by probes."""

from __future__ import annotations

import time
from collections import defaultdict
from typing import TYPE_CHECKING, Protocol

from sluice.calibrate.protocol import MOST_FOREIGN_SHARE, Member, measure
from sluice.calibrate.stragglers import WINDOW, Observation, speeds_of
from sluice.history_db.records import TargetProbe

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from sluice.calibrate.launch import Launcher
    from sluice.calibrate.programs import Program
    from sluice.calibrate.protocol import Timing
    from sluice.calibrate.stragglers import TargetSpeed
    from sluice.calibrate.targets import Target
    from sluice.history_db.records import PlacedRun
    from sluice.history_db.store import Store

MOST_RUNS = 5000  # of lanes, and as many of Lustre's targets: the latest


class Lane(Protocol):
    """What is used of struct sluice_lane."""

    @property
    def name(self) -> str: ...

    @property
    def targets(self) -> int: ...

    @property
    def bandwidth(self) -> float: ...


def target_speeds(store: Store, lanes: Sequence[Lane], now: int) -> list[TargetSpeed]:
    """Judge the lanes, then other targets that were probed, then Lustre's.

    Lanes are compared with lanes of the same size alone: a larger one is faster by design.
    """
    names = [lane.name for lane in lanes]
    probes = store.target_probes(since=now - WINDOW)
    runs = store.placed_runs(since=now - WINDOW, latest=MOST_RUNS)
    observed = [
        *(Observation(p.target, p.program, p.observed, p.rate) for p in probes),
        *(one for run in runs for one in _of_run(run, names)),
    ]
    others = sorted({one.target for one in observed if one.is_probe} - set(names))
    osts = sorted({ost for run in runs for ost in run.osts or ()})
    groups = [*_alike(lanes), others, [_ost(number) for number in osts]]
    found = {speed.target: speed for speed in speeds_of(groups, observed, now)}
    return [found[name] for name in (*names, *others, *map(_ost, osts))]


def lane_speeds(store: Store, lanes: Sequence[Lane], now: int) -> list[float]:
    """Return what decisions count with: a lane's rate as a share of its peers', 1 if not known."""
    return [speed.published for speed in target_speeds(store, lanes, now)[: len(lanes)]]


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
    CalibrationError when a probe fails.
    """
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


def _of_run(run: PlacedRun, lanes: Sequence[str]) -> Iterator[Observation]:
    """Say where a run was; one on several targets is as slow as one of them, and tells a share."""
    program = f"{run.uid} {run.exe.partition(' ')[0]} {run.nprocs}"
    if run.lane is not None and run.lane < len(lanes):
        yield Observation(lanes[run.lane], program, run.observed, run.rate, is_probe=False)
    for ost in run.osts or ():
        weight = 1 / len(run.osts or ())
        yield Observation(_ost(ost), program, run.observed, run.rate, weight, is_probe=False)


def _ost(number: int) -> str:
    """Name a target as `lfs` and the servers do, in hexadecimal digits."""
    return f"OST{number:04x}"


def _alike(lanes: Iterable[Lane]) -> list[list[str]]:
    groups: dict[tuple[int, float], list[str]] = defaultdict(list)
    for lane in lanes:
        groups[lane.targets, lane.bandwidth].append(lane.name)
    return list(groups.values())
