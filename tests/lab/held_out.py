#!/usr/bin/env python3
"""Programs and pairs that no calibration plans, what they get, and how well that is predicted.

    tests/lab/held_out.py /tmp/lab pairs.jsonl

Chunk sizes, numbers of processes and mixes are others than those of the default grid, drawn at
random but the same each time. Each program is measured alone, each pair once together and some
twice, all in random order; a line a program (`program`, `alone`) and a line a pair (`members`,
`together`), rates in B/s.
"""

import itertools
import json
import math
import random
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from storage_targets import StorageTargets
from target_kinds import Limits

from sluice.interference.calibrate.protocol import Launcher, Member, Timing, find_probe, measure
from sluice.interference.calibrate.targets import Target
from sluice.interference.observations import Observation
from sluice.interference.programs import KIB, MIB, Program
from sluice.interference.site_model import SiteModel

TIMING = Timing(window=3.0)
PROGRAMS = 50
PAIRS = 150
TWICE = 15  # pairs, which say how far two measurements of the same are apart
RUNS_ALONE = 2
CHUNKS = (48, 96, 128, 192, 384, 512, 768, 1536, 2048, 3072, 6144, 8192, 12288)  # KiB
PROCESSES = (1, 2, 3, 4, 6)
PATTERNS = ("owc", "ws", "aw")
MIXES = ("owc+aw", "ws+aw", "owc+ws")
SYNCS = {"owc": ("none",), "aw": ("each", "close", "direct")}


def draw(seed: int = 1) -> list[tuple[Program, Program]]:
    """Return pairs of PROGRAMS programs; each takes part about as often as the others."""
    rng = random.Random(seed)
    programs: dict[Program, None] = {}
    while len(programs) < PROGRAMS:
        programs[_program(rng)] = None
    pairs: list[tuple[Program, Program]] = []
    while len(pairs) < PAIRS:
        deck = rng.sample(list(programs), len(programs))
        pairs += zip(deck[::2], deck[1::2], strict=True)
    return pairs[:PAIRS]


def _program(rng: random.Random) -> Program:
    chunk = rng.choice(CHUNKS) * KIB
    processes = rng.choice(PROCESSES)
    if rng.random() < 0.2:
        return Program(rng.choice(MIXES), chunk, max(2, processes // 2 * 2))
    pattern = rng.choice(PATTERNS)
    if pattern in SYNCS and rng.random() < 0.3:
        how = rng.choice(SYNCS[pattern])
        direct = how == "direct"
        return Program(pattern, chunk, processes, "" if direct else how, direct=direct)
    return Program(pattern, chunk, processes)


def measure_pairs(
    pairs: Sequence[tuple[Program, Program]],
    target: Target,
    probe: str,
    keep: Callable[[dict[str, Any]], None],
    *,
    seed: int = 1,
) -> None:
    """Measure each pair and its programs; `keep` gets each row as soon as it is there."""
    programs = sorted({program for pair in pairs for program in pair})
    runs: list[tuple[Program, ...]] = [(p,) for p in programs] * RUNS_ALONE
    runs += [*pairs, *pairs[:TWICE]]
    random.Random(seed).shuffle(runs)
    launcher = Launcher(probe)
    for members in runs:
        rates = measure([Member(p, target) for p in members], launcher=launcher, timing=TIMING)
        together = list(map(round, rates.rates))
        if len(members) == 1:
            keep({"program": str(members[0]), "alone": together})
        else:
            keep({"members": list(map(str, members)), "together": together})


def kept(rows: Sequence[dict[str, Any]]) -> Iterator[Observation]:
    """Yield what each of two programs kept of its median rate alone.

    As in a calibration, a run in which a program did nothing does not count.
    """
    alone = defaultdict(list)
    for row in rows:
        if "program" in row:
            alone[row["program"]] += row["alone"]
    for row in rows:
        if "members" in row and min(row["together"]) > 0:
            both = list(zip(row["members"], row["together"], strict=True))
            for (name, rate), (other, _) in (both, both[::-1]):
                own, its = median(alone[name]), median(alone[other])
                pair = Program.parse(name), (Program.parse(other),)
                yield Observation(*pair, rate / own, own, (its,))


def noise_floor(rows: Sequence[dict[str, Any]]) -> float:
    """Return what a perfect model's median error would be, from pairs measured more than once.

    Two measurements of one rate differ by the noise of both, and so by sqrt 2 more than one of
    them does from the truth.
    """
    found = defaultdict(list)
    for row in rows:
        if "members" in row and min(row["together"]) > 0:
            both = zip(row["members"], row["together"], strict=True)
            found[tuple(sorted(row["members"]))].append(dict(both))
    apart = [
        abs(math.log(one[name] / other[name]))
        for measured in found.values()
        for one, other in itertools.combinations(measured, 2)
        for name in one
    ]
    return median(apart) / math.sqrt(2)


def median_error(
    model: SiteModel, seen: Sequence[Observation], *, with_rates: bool = True
) -> float:
    """Of log I, all members writing throughout; with_rates: what they get alone is known."""

    def predicted(item: Observation) -> float:
        return model.predict(item) if with_rates else model.share_kept(item.victim, item.others)

    return median(abs(math.log(predicted(o) / o.rho)) for o in seen)


def coverage(model: SiteModel, seen: Sequence[Observation], *, with_rates: bool = True) -> float:
    """Share of what was seen that lies inside the intervals of 90 %."""
    return model.hits(seen, with_rates=with_rates) / len(seen)


def main(lab: str, output: str, seed: str = "1") -> None:
    with (
        StorageTargets(
            lab, lanes=["a"], limits=Limits(size=4096 * MIB), kinds=["blkio", "io.max"]
        ) as targets,
        Path(output).open("w") as file,
    ):
        target = Target("a", (targets.path("a"),))
        measure_pairs(
            draw(int(seed)),
            target,
            find_probe(),
            lambda row: print(json.dumps(row), file=file, flush=True),
        )


if __name__ == "__main__":
    main(*sys.argv[1:])
