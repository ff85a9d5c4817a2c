"""What the servers of a target do: what they take, what switching costs, how they share.

Ordering bursts pays where few nodes fill a target, and most where its servers serve by demand or
lose time between programs. Rounds of runs measure that. In a run, equal programs write at the
same time. Each waits for every write, so its streams are the requests that it has outstanding.
A round has for each station:

- one program of 1, 2, 4 and 8 streams: what a stream takes, and where a program's rate stops
  growing;
- 2, 4 and 8 programs of 4 streams, on nodes of their own where the launcher has them: which
  demand fills the target, and what it loses by switching. With n programs it has
  capacity / (1 + switch_cost * (1 - 1 / n)), as in sim/engine/storage/mean_field_station.c;
- one stream alongside a program of 8. First come, first served gives the program 8 times as
  much; fair servers give it as much, or what the stream leaves.

Where a calibration has several tasks, each task has these streams.
"""

from __future__ import annotations

import math
import random
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import fmean, variance
from typing import TYPE_CHECKING

import numpy as np

from sluice.history_db.records import CoRun
from sluice.interference.calibrate.protocol import MOST_FOREIGN_SHARE, Member, measure
from sluice.interference.programs import KIB, MIB, Program

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from sluice.interference.calibrate.protocol import Launcher, Timing
    from sluice.interference.calibrate.targets import Target

    Total = tuple[int, int]
    """Programs at the same time, and streams of each."""

MODE = "capacity"
"""Of the co-runs that these rounds are kept as."""
STATIONS = {
    "bytes": Program("aw", MIB, 1, direct=True),
    "operations": Program("aw", 4 * KIB, 1, direct=True),
}
"""Of a target, as in enum sluice_station, and one stream of the program that fills it."""
NODE_STREAMS = 4
"""Of a program where several run: what a node is taken to have outstanding."""
STREAMS = (1, 2, NODE_STREAMS, 2 * NODE_STREAMS)
PROGRAMS = (2, 4, 8)
WIDE = 8
"""Streams alongside one stream. Lustre's clients keep no more in flight to a target (their
max_rpcs_in_flight); a wider program would ask for no more."""
LEVEL = math.log1p(0.05)
"""A rate whose logarithm more demand raises by no more has stopped growing."""
CONFIDENCE = 0.95
FIRST_COME, FAIR, UNDECIDED = "first come", "fair", "undecided"
LEAST_CONTRAST = math.log(2)
"""By which factor, as a logarithm, the two laws must differ in what they give the wide one."""

# Measuring


def runs_of_a_round(tasks: int) -> list[tuple[Program, ...]]:
    """Return the programs of each run."""
    found: list[tuple[Program, ...]] = []
    for stream in STATIONS.values():

        def of(streams: int, stream: Program = stream) -> Program:
            return replace(stream, processes=streams * tasks)

        found += [(of(streams),) for streams in STREAMS]
        found += [(of(NODE_STREAMS),) * programs for programs in PROGRAMS]
        found += [(of(1), of(WIDE))]
    return found


def runs_to_do(
    rounds: int, *, tasks: int, seed: int, measured: Sequence[CoRun]
) -> Iterator[tuple[Program, ...]]:
    """Yield what of these rounds was not measured, each round in a random order of its own."""
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


# What the runs say


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number and its interval of CONFIDENCE."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Sharing:
    """How a full station divides itself between a wide program and a narrow one."""

    by_demand: Estimate | None
    """1: in proportion to the requests outstanding, first come, first served; 0: evenly."""
    verdict: str
    why: str
    """Of UNDECIDED."""


@dataclass(frozen=True, slots=True)
class Station:
    """What one target has of one thing, in bytes or operations a second. None: not known."""

    target: str
    station: str
    """Of STATIONS."""
    most: float
    """The largest rate of any run."""
    capacity: Estimate | None
    """For one program that fills it. None: fewer than two numbers of programs filled it."""
    fills_at: int | None
    """The smallest number of streams that were measured to fill it."""
    stream_share: Estimate | None
    """Of the capacity, what one stream takes unhindered."""
    node_share: Estimate | None
    """The same of a node, or task, with NODE_STREAMS."""
    switch_cost: Estimate | None
    """Time lost between programs, in the limit of many, as a share of the time that writes."""
    sharing: Sharing
    runs: int
    """That count."""
    dropped: int


def stations(coruns: Sequence[CoRun]) -> list[Station]:
    """Return what the rounds among these co-runs say of each station of each target."""
    found: dict[tuple[str, str], list[CoRun]] = defaultdict(list)
    names = {stream: name for name, stream in STATIONS.items()}
    for corun in coruns:
        if corun.mode != MODE:
            continue
        stream = replace(Program.parse(corun.members[0]), processes=1)
        if stream in names:  # another Sluice may have measured with other programs
            found[corun.targets[0], names[stream]].append(corun)
    return [_station(*place, runs) for place, runs in sorted(found.items())]


def _station(target: str, name: str, coruns: Sequence[CoRun]) -> Station:
    tasks = min(p.processes for e in coruns for p in map(Program.parse, e.members))
    amount = 1 if name == "bytes" else STATIONS[name].chunk_bytes
    totals, pairs = _sorted_out([e for e in coruns if not e.dropped], tasks, amount)
    rates = _Rates(totals)
    line = _capacity_line(rates)
    node = rates.share(line, (1, NODE_STREAMS))
    return Station(
        target=target,
        station=name,
        most=max([0.0, *map(max, totals.values())]),
        capacity=line.capacity if line else None,
        fills_at=_fills_at(rates, line),
        stream_share=rates.share(line, (1, 1)),
        node_share=node and Estimate(*(x / tasks for x in (node.value, node.low, node.high))),
        switch_cost=line.switch_cost if line else None,
        sharing=_sharing(rates, pairs),
        runs=sum(map(len, totals.values())) + len(pairs),
        dropped=sum(bool(e.dropped) for e in coruns),
    )


def _sorted_out(
    coruns: Sequence[CoRun], tasks: int, amount: int
) -> tuple[dict[Total, list[float]], list[tuple[float, float]]]:
    """Return total rates of equal programs, and the rates of narrow and wide ones."""
    totals: dict[Total, list[float]] = defaultdict(list)
    pairs: list[tuple[float, float]] = []
    for corun in coruns:
        streams = [Program.parse(text).processes // tasks for text in corun.members]
        rates = [rate / amount for rate in corun.together]
        if len(set(streams)) == 1:
            totals[len(streams), streams[0]].append(sum(rates))
        else:
            (_, narrow), (_, wide) = sorted(zip(streams, rates, strict=True))
            pairs.append((narrow, wide))
    return totals, pairs


class _Rates:
    """Total rates of repeated runs: ln of their mean, and one spread for all of them."""

    def __init__(self, totals: Mapping[Total, Sequence[float]]) -> None:
        logs = {key: [math.log(rate) for rate in found] for key, found in totals.items()}
        self.ln = {key: fmean(found) for key, found in logs.items()}
        self.count = {key: len(found) for key, found in logs.items()}
        self.freedom = sum(self.count.values()) - len(self.count)
        squares = sum(variance(v) * (len(v) - 1) for v in logs.values() if len(v) > 1)
        self.spread = squares / self.freedom if self.freedom else 0.0
        """Variance of ln of one run."""

    def has(self, *keys: Total) -> bool:
        return all(key in self.ln for key in keys)

    def variance(self, key: Total) -> float:
        return self.spread / self.count[key]

    @property
    def level(self) -> float:
        """By how much one mean must be above another, as logarithms, to be more than even."""
        return max(LEVEL, 2 * math.sqrt(2 * self.spread / max(1, min(self.count.values()))))

    def estimate(self, value: float, sd: float) -> Estimate:
        reach = sd * _t(self.freedom)
        return Estimate(value, value - reach, value + reach)

    def share(self, line: _Line | None, key: Total) -> Estimate | None:
        """Return which share of the capacity such a run takes."""
        if line is None or not self.has(key):
            return None
        ln = self.ln[key] - line.ln_capacity
        bounds = self.estimate(ln, math.sqrt(self.variance(key) + line.ln_variance))
        return Estimate(*(min(1.0, math.exp(x)) for x in (bounds.value, bounds.low, bounds.high)))


@dataclass(frozen=True, slots=True)
class _Line:
    """The time that a full station needs for one unit, 1 / rate, over 1 - 1 / n."""

    ln_capacity: float
    ln_variance: float
    capacity: Estimate
    switch_cost: Estimate


def _capacity_line(rates: _Rates) -> _Line | None:
    """Fit 1 / rate of those numbers of programs that fill the station."""
    full = _full(rates)
    if len(full) < 2:
        return None
    lost = np.array([1 - 1 / n for n in full])
    times = np.array([math.exp(-rates.ln[n, NODE_STREAMS]) for n in full])
    weights = np.array([rates.count[n, NODE_STREAMS] for n in full]) / times**2
    rows = np.stack([np.ones_like(lost), lost])
    inverse = np.linalg.inv(rows * weights @ rows.T)
    intercept, slope = map(float, inverse @ (rows * weights @ times))
    if intercept <= 2 * math.sqrt(rates.spread * inverse[0, 0]):
        return None
    cost = slope / intercept
    gradient = np.array([-cost, 1.0]) / intercept
    reach = math.sqrt(rates.spread * gradient @ inverse @ gradient) * _t(rates.freedom)
    relative = rates.spread * float(inverse[0, 0]) / intercept**2
    if cost <= 0:  # more of it when more programs write: that is noise
        intercept = float(np.average(times, weights=weights))
    ln = rates.estimate(-math.log(intercept), math.sqrt(relative))
    return _Line(
        ln_capacity=ln.value,
        ln_variance=relative,
        capacity=Estimate(*(math.exp(x) for x in (ln.value, ln.low, ln.high))),
        switch_cost=Estimate(max(0.0, cost), max(0.0, cost - reach), max(0.0, cost) + reach),
    )


def _full(rates: _Rates) -> list[int]:
    """Return the numbers of programs that fill the station, the smallest first.

    More streams of one program raise its rate no more, nor does a second program. Several get
    less than they take one by one, and more of them get no more.
    """
    ln = rates.ln
    one = (1, NODE_STREAMS)
    known = [n for n in (1, *PROGRAMS) if rates.has((n, NODE_STREAMS))]
    if not rates.has(one, (1, 2 * NODE_STREAMS)) or len(known) < 2 or not rates.freedom:
        return []
    level = rates.level
    if level > math.log(2) / 2:  # twice the demand could not be told from the same
        return []
    grows = {
        n: ln[after, NODE_STREAMS] - ln[n, NODE_STREAMS] > level for n, after in pairwise(known)
    }
    grows[known[-1]] = grows[known[-2]]
    if not grows[1] and ln[1, 2 * NODE_STREAMS] - ln[one] <= level:
        return known
    short = [n for n in known if n > 1 and ln[n, NODE_STREAMS] < ln[one] + math.log(n) - level]
    return [n for n in short if not any(grows[m] for m in known if m >= n)]


def _fills_at(rates: _Rates, line: _Line | None) -> int | None:
    if line is None:
        return None

    def fills(programs: int, streams: int) -> bool:
        lost = line.switch_cost.value * (1 - 1 / programs)
        return rates.ln[programs, streams] >= line.ln_capacity - math.log1p(lost) - rates.level

    return min((n * streams for n, streams in rates.ln if fills(n, streams)), default=None)


def _sharing(rates: _Rates, pairs: Sequence[tuple[float, float]]) -> Sharing:
    """Compare by which factor the wide one got more with what either law would give it."""
    if len(pairs) < 2 or not rates.has((1, 1)):
        return Sharing(None, UNDECIDED, "fewer than two runs count; give more --rounds")
    odds = [math.log(wide / narrow) for narrow, wide in pairs]
    left = fmean(narrow + wide for narrow, wide in pairs) / math.exp(rates.ln[1, 1]) - 1
    fair, first_come = math.log(max(1.0, left)), math.log(WIDE)
    contrast = first_come - fair
    if contrast < LEAST_CONTRAST:
        return Sharing(None, UNDECIDED, f"one stream and {WIDE} hardly fill it; give more --tasks")
    value = (fmean(odds) - fair) / contrast
    uncertain = (1 + 1 / left) ** 2 * rates.variance((1, 1)) if left > 1 else 0.0
    sd = math.sqrt(variance(odds) / len(odds) + (1 - value) ** 2 * uncertain) / contrast
    reach = sd * _t(len(odds) - 1)
    bounds = Estimate(*(min(1.0, max(0.0, x)) for x in (value, value - reach, value + reach)))
    if bounds.low > 0.5:
        return Sharing(bounds, FIRST_COME, "")
    if bounds.high < 0.5:
        return Sharing(bounds, FAIR, "")
    return Sharing(bounds, UNDECIDED, "the interval has 0.5 inside; give more --rounds")


def _t(freedom: int) -> float:
    """Return by how many standard errors CONFIDENCE reaches to either side."""
    from scipy.special import stdtrit  # noqa: PLC0415 - not there where nobody calibrates

    return float(stdtrit(freedom, (1 + CONFIDENCE) / 2))
