"""Service discipline of a target: first come, first served, or fair shares.

Ordering bursts pays most where servers serve by demand. A round measures that with programs that
wait for every write, so that their streams are the requests outstanding: one stream by itself, and
one stream alongside a program of 8. First come, first served gives the program 8 times as much;
fair servers give it as much, or what the stream leaves. Where a calibration has several tasks,
each task has these streams.
"""

from __future__ import annotations

import math
import random
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from statistics import fmean, variance
from typing import TYPE_CHECKING

from sluice.history_db.records import CoRun
from sluice.interference.calibrate.protocol import Member, measure
from sluice.interference.observations import MOST_FOREIGN_SHARE
from sluice.interference.programs import MIB, Program

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sluice.interference.calibrate.protocol import Launcher, Timing
    from sluice.interference.calibrate.targets import Target

MODE = "capacity"
"""Mode of the co-runs of these rounds in the history."""
STREAM = Program("aw", MIB, 1, direct=True)
WIDE = 8
"""Streams alongside one stream. Lustre's clients keep no more in flight to a target (their
max_rpcs_in_flight); a wider program would ask for no more."""
ROUNDS = 6
CONFIDENCE = 0.95
FIRST_COME, FAIR, UNDECIDED = "first come", "fair", "undecided"
LEAST_CONTRAST = math.log(2)
"""Logarithm of the factor by which the two disciplines must differ in what they give the wide
program."""


def runs_of_a_round(tasks: int) -> list[tuple[Program, ...]]:
    """Return the programs of each run."""
    narrow, wide = (replace(STREAM, processes=streams * tasks) for streams in (1, WIDE))
    return [(narrow,), (narrow, wide)]


def runs_to_do(
    rounds: int, *, tasks: int, seed: int, measured: Sequence[CoRun]
) -> Iterator[tuple[Program, ...]]:
    """Yield the runs of these rounds that were not measured, each round in a random order."""
    done = Counter(corun.members for corun in measured if corun.mode == MODE)
    for number in range(rounds):
        runs = runs_of_a_round(tasks)
        random.Random(f"{seed} servers {number}").shuffle(runs)  # noqa: S311
        yield from (run for run in runs if done[tuple(map(str, run))] <= number)


def measure_run(
    programs: Sequence[Program], target: Target, *, launcher: Launcher, timing: Timing
) -> CoRun:
    """Let programs write at the same time. Raises CalibrationError when one fails."""
    started = int(time.time())
    run = measure(
        [Member(program, target) for program in programs], launcher=launcher, timing=timing
    )
    reason = ""
    if min(run.rates) <= 0:
        reason = "a program did nothing in the window"
    elif run.foreign > MOST_FOREIGN_SHARE:
        reason = f"others had {run.foreign:.0%} of the traffic"
    return CoRun(
        started=started,
        mode=MODE,
        members=tuple(map(str, programs)),
        targets=(target.name,) * len(programs),
        alone=(),
        together=run.rates,
        foreign_share=run.foreign,
        dropped=reason,
    )


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number and its interval of CONFIDENCE."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Discipline:
    """Division of a full target between a wide program and a narrow one."""

    target: str
    verdict: str
    by_demand: Estimate | None
    """1: in proportion to the requests outstanding, first come, first served; 0: evenly."""
    why: str
    """Of UNDECIDED."""
    runs: int
    """Valid ones."""
    dropped: int


def disciplines(coruns: Sequence[CoRun]) -> list[Discipline]:
    """Return the service discipline of each target, by the rounds among these co-runs."""
    found: dict[str, list[CoRun]] = defaultdict(list)
    for corun in coruns:
        if corun.mode == MODE:
            found[corun.targets[0]].append(corun)
    return [_discipline(target, runs) for target, runs in sorted(found.items())]


def _discipline(target: str, coruns: Sequence[CoRun]) -> Discipline:
    counted = [corun for corun in coruns if not corun.dropped]
    alone = [math.log(corun.together[0]) for corun in counted if len(corun.members) == 1]
    pairs = [(corun.together[0], corun.together[1]) for corun in counted if len(corun.members) == 2]
    verdict, by_demand, why = _judge(alone, pairs)
    return Discipline(target, verdict, by_demand, why, len(counted), len(coruns) - len(counted))


def _judge(
    alone: Sequence[float], pairs: Sequence[tuple[float, float]]
) -> tuple[str, Estimate | None, str]:
    """Compare the factor by which the wide program got more with either discipline's.

    alone: logarithms of the narrow program's rate by itself.
    """
    if len(pairs) < 2 or len(alone) < 2:
        return UNDECIDED, None, "fewer than two runs count; measure again"
    odds = [math.log(wide / narrow) for narrow, wide in pairs]
    left = fmean(narrow + wide for narrow, wide in pairs) / math.exp(fmean(alone)) - 1
    fair, first_come = math.log(max(1.0, left)), math.log(WIDE)
    contrast = first_come - fair
    if contrast < LEAST_CONTRAST:
        return UNDECIDED, None, f"one stream and {WIDE} hardly fill it; give more --tasks"
    value = (fmean(odds) - fair) / contrast
    uncertain = (1 + 1 / left) ** 2 * variance(alone) / len(alone) if left > 1 else 0.0
    sd = math.sqrt(variance(odds) / len(odds) + (1 - value) ** 2 * uncertain) / contrast
    reach = sd * _t(len(odds) - 1)
    bounds = Estimate(*(min(1.0, max(0.0, x)) for x in (value, value - reach, value + reach)))
    if bounds.low > 0.5:
        return FIRST_COME, bounds, ""
    if bounds.high < 0.5:
        return FAIR, bounds, ""
    return UNDECIDED, bounds, "the interval has 0.5 inside; measure again"


def _t(freedom: int) -> float:
    """Return by how many standard errors CONFIDENCE reaches to either side."""
    from scipy.special import stdtrit  # noqa: PLC0415 - optional: only calibration needs it

    return float(stdtrit(freedom, (1 + CONFIDENCE) / 2))
