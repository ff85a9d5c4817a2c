"""Which storage targets are slow, by probes of them and by the runs of applications.

Targets of one file system differ by about 5 times at a moment, and one of them by more than 10
times over time; a few are slow, most are alike (Huang et al., docs/evidence/storage-models.md, H1).
So a target is compared with its peers, by what the same program got there and elsewhere, and
old observations count less.

The speed of a target is the median of the ratios rate here / usual rate elsewhere, each of them
weighed by 2^(-age / HALF_LIFE). The usual rate of a program elsewhere is the (upper) median over
the other targets of its median there. Its interval is that of a median without any assumption on
the distribution: the quantiles 1/2 -+ Z / (2 sqrt (n)), where n is the sum of the weights. With
fewer than four observations' worth there are no such quantiles, and nothing is said.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Sequence

HALF_LIFE = 86400.0  # seconds: what was seen a day ago counts half
WINDOW = 7 * 86400  # seconds: what is older than that is not looked at
Z = 1.96  # of a two-sided interval of 95 %
SLOW_BELOW = 2 / 3
"""A target is slow when the upper end of its interval is below this share of its peers' rate."""
SLOWEST = 0.01
"""What a slow target counts for at least, however little it gave."""

LONELY = "nothing to compare with"
UNSURE = "not enough evidence"
SLOW = "slow"
KEEPS_UP = "keeps up with its peers"
UNDECIDED = "may be slow, may keep up"


@dataclass(frozen=True, slots=True)
class SpeedObservation:
    """What a program got from a target."""

    target: str
    program: str
    """Compared with itself elsewhere."""
    observed: int
    """UTC seconds."""
    rate: float
    """B/s, > 0."""
    weight: float = 1.0
    """Below 1 where the rate says less of this target alone."""
    is_probe: bool = True


@dataclass(frozen=True, slots=True)
class TargetSpeed:
    """What is known of a target's speed."""

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
        """What decisions count with: 1 for all that is not known to be slow."""
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
    """What a program got from a target, with what all others' cells are compared with."""

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
    """Sort by all that is compared, so that sums do not depend on who told first."""
    return one.observed, one.program, one.is_probe, one.rate, one.weight


def _cells(observations: Iterable[SpeedObservation], now: int) -> dict[Hashable, _Cell]:
    """Rates by program; probes and runs are never compared with one another."""
    cells: dict[Hashable, list[_Weighed]] = defaultdict(list)
    for one in observations:
        age = 2.0 ** (-(now - one.observed) / HALF_LIFE)
        cells[one.is_probe, one.program].append(_Weighed(math.log(one.rate), one.weight * age))
    return {
        program: _Cell(rates, quantile(rates, 0.5), sum(one.weight for one in rates))
        for program, rates in cells.items()
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
    ratios: list[_Weighed] = []
    for program, here in cells.items():
        ratios += _ratios(here, [cell for cell in peers_of[program] if cell is not here])
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
