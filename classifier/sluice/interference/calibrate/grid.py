"""Co-runs of a default calibration, the most informative first.

Unknown of a program are its weight and its efficiency (its rate alone as a share of the
target's), see `policies/core/interference.h`. Programs that are alike
have alike values, so one co-run says something about others. Each next co-run is the
one whose outcome is least certain, given those before it: a Gaussian process over the
programs' features.

Co-runs of one probe that follow each other share its runs alone (`session.py`), so they are
chosen by blocks: the best co-run, and the best of those with the same probe.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sluice.interference.programs import (
    DIRECT_BYTES,
    KIB,
    MIB,
    READ,
    WRITES,
    Program,
    features,
    likeness,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

CHUNKS = (64 * KIB, 256 * KIB, MIB, 4 * MIB, 16 * MIB)
NOISE_VARIANCE = 0.05**2
"""Of ln rho in one block."""
BLOCK = 3
"""Co-runs of one probe that share its runs alone."""


@dataclass(frozen=True, slots=True)
class PlannedCoRun:
    """A probe alongside signals, still to be measured."""

    probe: Program
    signals: tuple[Program, ...]
    disjoint: bool = False
    """The signals work on another target."""

    def __str__(self) -> str:
        where = " elsewhere" if self.disjoint else ""
        return f"{self.probe} alongside {' and '.join(map(str, self.signals))}{where}"


def default_grid(
    chunks: tuple[int, ...] = CHUNKS,
    *,
    processes: int = 2,
    several_targets: bool = True,
) -> list[PlannedCoRun]:
    """Return the co-runs that a default calibration chooses from.

    Every pattern of writes alongside every other at each chunk; unequal shares of processes at
    unequal chunks, mixes, sync modes and unequal chunks; reads alongside each; triples; another
    target as a control. Each set of programs co-runs once, since all its members are judged.
    """
    middle = chunks[len(chunks) // 2]
    grid = [e for chunk in chunks for e in _each_alongside_each(chunk, processes)]
    grid += _varied(chunks, processes)
    grid += _sync_modes(middle, processes)
    grid += _unequal_chunks(chunks, processes)
    grid += _reads(chunks, processes)
    grid += _triples(chunks, processes)
    if several_targets:
        victims = _plain(middle, processes)
        grid += [PlannedCoRun(victim, (victims[-1],), disjoint=True) for victim in victims]
    return _each_meeting_once(grid)


def _each_meeting_once(grid: list[PlannedCoRun]) -> list[PlannedCoRun]:
    meetings = {(*sorted((e.probe, *e.signals)), e.disjoint): e for e in reversed(grid)}
    return list(reversed(meetings.values()))


def _plain(chunk: int, processes: int) -> list[Program]:
    return [Program(pattern, chunk, processes) for pattern in WRITES]


def _each_alongside_each(chunk: int, processes: int) -> list[PlannedCoRun]:
    pairs = itertools.product(_plain(chunk, processes), repeat=2)
    return [PlannedCoRun(probe, (signal,)) for probe, signal in pairs]


def _sync_modes(chunk: int, processes: int) -> list[PlannedCoRun]:
    unusual = [
        Program("aw", chunk, processes, "each"),
        *([] if chunk % DIRECT_BYTES else [Program("aw", chunk, processes, direct=True)]),
        Program("owc", chunk, processes, "none"),
    ]
    pairs = list(itertools.product(unusual, _plain(chunk, processes)))
    return [PlannedCoRun(a, (b,)) for a, b in (*pairs, *((b, a) for a, b in pairs))]


def _unequal_chunks(chunks: tuple[int, ...], processes: int) -> list[PlannedCoRun]:
    extremes = {(chunks[0], chunks[-1]), (chunks[1 % len(chunks)], chunks[-2 % len(chunks)])}
    return [
        PlannedCoRun(probe, (signal,))
        for small, large in sorted(extremes)
        for probe, signal in itertools.product(_plain(small, processes), _plain(large, processes))
        if small != large
    ]


def _reads(chunks: tuple[int, ...], processes: int) -> list[PlannedCoRun]:
    """Read alongside each plain pattern and another that reads; small, middle and large chunks."""
    sizes = sorted({chunks[0], chunks[len(chunks) // 2], chunks[-1]})
    return [
        PlannedCoRun(Program(READ, chunk, processes), (signal,))
        for chunk in sizes
        for signal in (*_plain(chunk, processes), Program(READ, chunk, processes))
    ]


def _triples(chunks: tuple[int, ...], processes: int) -> list[PlannedCoRun]:
    """One of each pattern; two streams alongside one that flushes; three that flush.

    With these the model's rule for many is judged: streams count as one queue, flushes add up.
    """
    small, middle, large = (
        _plain(chunk, processes)
        for chunk in (chunks[1 % len(chunks)], chunks[len(chunks) // 2], chunks[-2 % len(chunks)])
    )
    owc, ws, aw = middle
    return [
        PlannedCoRun(owc, (ws, aw)),
        PlannedCoRun(ws, (aw, large[2])),
        PlannedCoRun(owc, (small[1], large[1])),
    ]


def _varied(chunks: tuple[int, ...], processes: int) -> list[PlannedCoRun]:
    """Each alongside the three plain patterns at the middle chunk."""
    middle = chunks[len(chunks) // 2]
    small, large = chunks[1 % len(chunks)], chunks[-2 % len(chunks)]
    unlike = [Program(pattern, small, max(1, processes // 2)) for pattern in WRITES]
    unlike += [Program(pattern, large, 3 * processes) for pattern in WRITES]
    unlike += [
        Program("aw", small, 2 * processes, "each"),
        Program("owc", small, 2 * processes, "none"),
        Program("owc+aw", small, 2 * processes),
        Program("ws+aw", small, 2 * processes),
    ]
    pairs = itertools.product(unlike, _plain(middle, processes))
    return [PlannedCoRun(probe, (signal,)) for probe, signal in pairs]


def blocks(coruns: Iterable[PlannedCoRun]) -> Iterator[list[PlannedCoRun]]:
    """Yield up to BLOCK co-runs at a time that follow each other and have the same probe."""
    for _, same in itertools.groupby(coruns, key=lambda corun: corun.probe):
        while block := list(itertools.islice(same, BLOCK)):
            yield block


def most_informative_first(coruns: list[PlannedCoRun]) -> list[PlannedCoRun]:
    """Order them so that any beginning of the list says as much as it can. Deterministic."""
    programs = sorted({p for e in coruns for p in (e.probe, *e.signals)})
    index = {program: i for i, program in enumerate(programs)}
    rows = features(programs)
    n = len(programs)
    prior = likeness(rows, rows)
    cov = np.block([[prior, np.zeros((n, n))], [np.zeros((n, n)), prior]])
    left = {e: _directions(e, index, n) for e in coruns}
    ordered: list[PlannedCoRun] = []
    block: list[PlannedCoRun] = []
    while left:
        same = [e for e in left if block and e.probe == block[0].probe]
        if not same or len(block) == BLOCK:
            same, block = list(left), []
        gains = [sum(np.log1p(h @ cov @ h / NOISE_VARIANCE) for h in left[e]) for e in same]
        best = same[int(np.argmax(np.round(gains, 9)))]
        for h in left.pop(best):
            gain = cov @ h / (h @ cov @ h + NOISE_VARIANCE)
            cov -= np.outer(gain, h @ cov)
        block.append(best)
        ordered.append(best)
    return ordered


def _directions(
    corun: PlannedCoRun, index: dict[Program, int], n: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return how ratio and sum of the rates depend on n weights and n efficiencies."""
    ratio, total = np.zeros(2 * n), np.zeros(2 * n)
    ratio[index[corun.probe]] += 1.0
    total[n + index[corun.probe]] += 1.0
    for signal in corun.signals:
        ratio[index[signal]] -= 1.0 / len(corun.signals)
        total[n + index[signal]] += 1.0 / len(corun.signals)
    if corun.disjoint:
        return 0.1 * total, 0.1 * total
    return ratio, total
