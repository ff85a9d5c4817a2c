"""A corpus of any size: log number i of a seed is always and everywhere the same.

Each log draws its pattern in turn and everything else at random: program, library, layout, chunk,
processes, noise, what the runtime recorded.
"""

from __future__ import annotations

import csv
from copy import deepcopy
from dataclasses import astuple, dataclass, fields
from typing import TYPE_CHECKING

import numpy as np

from synthetic.others import (
    METADATA,
    NONE,
    READ,
    add_deck,
    add_noise,
    add_scratch,
    add_stream,
    add_turns,
    read_back,
)
from synthetic.run import Recording, Run, write_log
from synthetic.writers import AW, OWC, WS, Program, scattered

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.random import Generator

PROGRAMS = {"owc": OWC, "ws": WS, "aw": AW, "read": READ, "metadata": METADATA, "none": NONE}
PATTERNS = (*PROGRAMS, "mixed")
MIXED = (0.32, 0.68)  # share of the bytes of a mixture's first phase
LOGS_A_DIRECTORY = 1000
APPENDING = {program.__name__ for program in AW}
ALTERNATING = {program.__name__ for program in WS}  # may read a block before they rewrite it
WRITERS = ("owc", "ws", "aw")
ACCOMPANIED = 0.3  # of the writers: share with a smaller phase of another pattern
MINOR = 0.25  # of the bytes: largest share of such a phase
FED = 0.35  # of the writers: share that reads what it needs for its writes
READ_BACK = 0.2  # of the mixtures: share that reads what it has written,
ALONGSIDE = 0.1  # that reads and writes here and there
MOST_BYTES = 2**46  # of a run


@dataclass(frozen=True, slots=True)
class Truth:
    """What is known of a synthesised log."""

    file: str
    """Path below the corpus."""
    pattern: str
    chunk_bytes: int
    """Of the operation that moves most bytes; 0 where the pattern has none."""
    nprocs: int
    app: str
    label_quality: str = "clean: synthesised"


def synthesise(
    folder: Path, count: int, *, seed: int = 1, first: int = 0, patterns: tuple[str, ...] = PATTERNS
) -> Iterator[Truth]:
    """Write `count` genuine logs into a folder, from number `first` on, and say what they are."""
    for number in range(first, first + count):
        pattern = patterns[number % len(patterns)]
        random = np.random.default_rng([seed, number])
        run, app, chunk = _draw(random, pattern)
        name = f"{number // LOGS_A_DIRECTORY:05d}/{number:09d}_{pattern}.darshan"
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        write_log(run, _recording(random), path, jobid=number % (1 << 30) + 1, exe=f"/apps/{app}")
        yield Truth(name, pattern, int(chunk), run.nprocs, app)


def write_labels(truths: Iterator[Truth], file: Path) -> int:
    """Write what is known as `pattern_examples.read_labels` reads it; return how many."""
    count = 0
    with file.open("w", newline="") as out:
        writer = csv.writer(out)
        writer.writerow([column.name for column in fields(Truth)])
        for count, truth in enumerate(truths, 1):  # noqa: B007 it is the result
            writer.writerow(astuple(truth))
    return count


def _recording(random: Generator) -> Recording:
    return Recording(
        named=bool(random.random() < 0.7),
        heatmap=bool(random.random() < 0.6),
        capped=bool(random.random() < 0.8),
    )


def _draw(random: Generator, pattern: str) -> tuple[Run, str, float]:
    """Return a run, the name of its program and its chunk."""
    while True:
        run = Run(random, _processes(random), pause=float(random.choice([0.0, 0.05, 0.5, 5.0])))
        if pattern == "mixed":
            drawn = _mixture(run)
        else:
            program = _choose(random, PROGRAMS[pattern])
            drawn = program.__name__, program(run)
        if drawn is None or run.bytes_moved() > MOST_BYTES:
            continue
        if pattern in WRITERS and random.random() < ACCOMPANIED:
            _accompany(run, pattern)
        if pattern in WRITERS and random.random() < FED:
            _feed(run, drawn[0])
        if pattern == "mixed" and not run.bytes_read() and random.random() < FED:
            add_stream(run)
        add_noise(run)
        return run, *drawn


def _feed(run: Run, program: str) -> None:
    """Add reads that serve the writes (behaviour.find_supply)."""
    kind = run.random.random()
    if kind < 0.3:
        add_deck(run)
    elif kind < 0.6:
        add_stream(run)
    elif program in ALTERNATING:
        add_turns(run, ordered=True)
    else:
        add_scratch(run, share=1.0 if program in APPENDING else MINOR)


def _mixture(run: Run) -> tuple[str, float] | None:
    """Two phases that move about as many bytes; None where they do not."""
    kind = run.random.random()
    if kind < ALONGSIDE:
        scattered(run)
        add_turns(run, ordered=False)
        return "scattered+read", 0.0
    if kind < ALONGSIDE + READ_BACK:
        phase = _choose(run.random, PROGRAMS[str(run.random.choice(WRITERS))])
        phase(run)
        run.clock += run.random.exponential(2)
        read_back(run)
        return f"{phase.__name__}+read_back", 0.0
    first, second = run.random.choice(["owc", "ws", "aw", "read"], size=2, replace=False)
    phases = [_choose(run.random, PROGRAMS[str(name)]) for name in (first, second)]
    phases[0](run)
    before = run.bytes_moved()
    run.clock += run.random.exponential(2)
    phases[1](run)
    share = before / run.bytes_moved()
    if not MIXED[0] <= share <= MIXED[1]:
        return None
    return "+".join(phase.__name__ for phase in phases), 0.0


def _accompany(run: Run, pattern: str) -> None:
    """Add a smaller phase of another pattern, if one drawn is small enough."""
    before, rows, moved = run.bytes_moved(), deepcopy(run.rows), list(run.moved)
    other = str(run.random.choice([name for name in WRITERS if name != pattern]))
    clock = run.clock
    _choose(run.random, PROGRAMS[other])(run)
    if run.bytes_moved() - before > MINOR * run.bytes_moved():
        run.rows, run.moved, run.clock = rows, moved, clock


def _choose(random: Generator, options: tuple[Program, ...]) -> Program:
    return options[int(random.integers(len(options)))]


def _processes(random: Generator) -> int:
    return 1 if random.random() < 0.4 else int(2 ** random.uniform(1, 9))
