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
    """Judge the lanes, then other targets that were probed, then Lustre's."""
    probed = _probed(store, now)
    runs = store.runs_on_osts(since=now - WINDOW, latest=MOST_RUNS)
    on_osts = [one for run in runs for one in _on_osts(run)]
    others = sorted({one.target for one in probed} - {lane.name for lane in lanes})
    return [
        *speeds_of_lanes(store, lanes, now),
        *speeds_of([others], probed, now),
        *speeds_of([sorted({one.target for one in on_osts})], on_osts, now),
    ]


def speeds_of_lanes(store: Store, lanes: Sequence[Lane], now: int) -> list[TargetSpeed]:
    """Judge the lanes, in their order.

    They are compared with lanes of the same size alone: a larger one is faster by design.
    """
    names = [lane.name for lane in lanes]
    runs = store.runs_on_lanes(since=now - WINDOW, latest=MOST_RUNS)
    observed = [
        *_probed(store, now),
        *(
            Observation(names[run.lane], _program(run), run.observed, run.rate, is_probe=False)
            for run in runs
            if run.lane is not None and run.lane < len(names)
        ),
    ]
    found = {speed.target: speed for speed in speeds_of(_alike(lanes), observed, now)}
    return [found[name] for name in names]


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


def _probed(store: Store, now: int) -> list[Observation]:
    return [
        Observation(probe.target, probe.program, probe.observed, probe.rate)
        for probe in store.target_probes(since=now - WINDOW)
    ]


def _on_osts(run: PlacedRun) -> list[Observation]:
    """Share a run among its targets: it is as slow as one of them, and does not say which."""
    osts, program = run.osts or (), _program(run)
    return [
        Observation(_ost(ost), program, run.observed, run.rate, 1 / len(osts), is_probe=False)
        for ost in osts
    ]


def _program(run: PlacedRun) -> str:
    return f"{run.uid} {run.exe.partition(' ')[0]} {run.nprocs}"


def _ost(number: int) -> str:
    """Name a target as `lfs` and the servers do, in hexadecimal digits."""
    return f"OST{number:04x}"


def _alike(lanes: Iterable[Lane]) -> list[list[str]]:
    groups: dict[tuple[int, float], list[str]] = defaultdict(list)
    for lane in lanes:
        groups[lane.targets, lane.bandwidth].append(lane.name)
    return list(groups.values())
