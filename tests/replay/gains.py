"""What is asked about gains in replays, and what the draws answered.

test_gains.py asks, judges and saves the answers; tables_of_docs.py writes
docs/evidence/replays.md from them.
"""

import json
from pathlib import Path
from statistics import median

from sluice.sim.replay.compare import interval
from sluice.sim.replay.experiment import Experiment

ROOT = Path(__file__).resolve().parents[2]
KTH = ROOT.parent / "shared/data/traces/KTH-SP2-1996-2.1-cln.swf.gz"
SAVED = ROOT / "build" / "figures"

DRAWS = 20
DAY = "86400"
"""Conflicts on these machines last for hours: hardly one ends within the default of 1800 s."""
TRACES = {
    "KTH-SP2": Experiment(trace=str(KTH), io_share=0.3),
    "generated, 256 nodes, load 0.7": Experiment(generate=10_000, slots=256, load=0.7, seed=3),
    "generated, 64 nodes, load 0.9": Experiment(generate=10_000, slots=64, load=0.9, seed=101),
}
SHARING = {"fifo": "first come, first served", "jobs": "fair"}
CHEAP_WAITS = "0.01"
"""A WaitPrice at which delays are worth their wait; at the default of 0.2 hardly any is."""
CHEAP = {"max_delay": DAY, "wait_price": CHEAP_WAITS}
PLAIN, STATIC, SLUICE, TURNS = "none", "class-lanes", "sluice-auto", "turns"
DEFAULT, LONG, PATIENT, WRONG = "1800 s", "1 day", "1 day, cheap waits", "the same, 30 % wrong"
ASKED = {
    DEFAULT: (SLUICE, {}),
    LONG: (SLUICE, {"max_delay": DAY}),
    PATIENT: (SLUICE, CHEAP),
    WRONG: (SLUICE, {**CHEAP, "wrong": "0.3"}),
    TURNS: (TURNS, {}),
}
"""Policy and options; what is not named is as deployed."""
NUDGED = "nudged"
LESS_KNOWN = ("sluice-no-classifier", "sluice-chunk-only")
RANDOM = "random-lanes"
MORE_KNOWN = (
    "sluice-perfect",
    "sluice-oracle",
    "sluice-oracle-free-waits",
    "sluice-oracle-patient",
)
FEW_AT_A_TIME = ("two-groups", "one-at-a-time")
STEPS = (*LESS_KNOWN, SLUICE, *MORE_KNOWN, *FEW_AT_A_TIME)
"""Rows of the table of ablations, of KTH-SP2."""


STAKES = tuple((mix, share) for mix in ("checkpointing", "short") for share in (0.05, 0.1, 0.3))
"""Mixes, and shares of I/O-heavy jobs."""
STAKED = (TURNS, SLUICE, "two-groups", "license-cap")


def stakes_file(mix, share):
    return SAVED / f"stakes, {mix}, {share:.0%}.json"


def gains_file(trace, sharing):
    return SAVED / f"gains, {trace}, {sharing}.json"


def ablations_file(trace):
    return SAVED / f"ablations, {trace}.json"


def save(path, found):
    """Keep FIGURES of each draw, by what was asked."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(found))


def ratios(found, what, figure):
    """Over the same of plain EASY, a number a draw."""
    return [
        one[figure] / plain[figure] for one, plain in zip(found[what], found[PLAIN], strict=True)
    ]


def better(found, what, other, figure):
    """In how many draws the figure is smaller."""
    pairs = zip(found[what], found[other], strict=True)
    return sum(one[figure] < another[figure] for one, another in pairs)


def span(values, form):
    """Write the median and where one more draw lies with a probability of 90 %."""
    ends = interval(values)
    return f"{form.format(median(values))} ({form.format(ends.low)} to {form.format(ends.high)})"


def saved(found, what):
    """Return the slot-hours that fewer are lost than under plain EASY, one a draw."""
    pairs = zip(found[PLAIN], found[what], strict=True)
    return [plain["lost_slot_hours"] - one["lost_slot_hours"] for plain, one in pairs]
