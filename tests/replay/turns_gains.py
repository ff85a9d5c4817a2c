"""What turns are worth in replays: the questions, and what the draws answer.

`python tests/replay/turns_gains.py [DRAWS]` prints the tables of docs/evidence/turns.md;
test_turns.py judges the same answers.
"""

import sys
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from statistics import median

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

from gains import DAY, DRAWS, TRACES

from sluice.sim.replay.compare import bound_of
from sluice.sim.replay.io_replay import replay_with_io
from sluice.sim.trace.profiles import SHORT

VARYING = (("burst_spread", "0.3"),)
REAL = {"first_burst": 0.0}
"""Little is known: first bursts are not, and a job's bursts differ (VARYING)."""
CELLS = {
    "KTH-SP2, first come": ("KTH-SP2", "fifo"),
    "KTH-SP2, fair": ("KTH-SP2", "jobs"),
    "256 nodes, first come": ("generated, 256 nodes, load 0.7", "fifo"),
    "256 nodes, fair": ("generated, 256 nodes, load 0.7", "jobs"),
    "64 nodes, first come": ("generated, 64 nodes, load 0.9", "fifo"),
}
BEST = {"turn_latency": 0.0, "turn_trial": 0.0, "turn_learns": 0.0}
"""Verdicts take effect at once, and stations are as they are."""
ASKED = {
    "the best order": ("turns", (), BEST),
    "turns": ("turns", (), {}),
    "turns, as real": ("turns", VARYING, REAL),
    "half of the jobs covered": ("turns", (), {"covered": 0.5}),
    "half of the jobs covered, as real": ("turns", VARYING, {**REAL, "covered": 0.5}),
    "half covered, others not seen": ("turns", VARYING, {**REAL, "covered": 0.5, "seen": 0.0}),
    "Sluice, a day": ("sluice-auto", (), {"max_delay": float(DAY)}),
    "Sluice, a day, and turns": ("sluice-auto", (), {"max_delay": float(DAY), "turns": 1.0}),
    "Sluice, a day, and turns, as real": (
        "sluice-auto",
        VARYING,
        {"max_delay": float(DAY), "turns": 1.0, **REAL},
    ),
}
"""Policy, numbers of the storage, and options."""
HALVES = ("half of the jobs covered, as real", "half covered, others not seen")
UNLEARNED = {"turn_learns": 0.0}
SETTLED = {
    name: ("turns", VARYING, {**REAL, **options})
    for name, options in {
        "budget 1": {"turn_budget": 1.0},
        "budget 3": {"turn_budget": 3.0},
        "budget 30": {"turn_budget": 30.0},
        "guard 5": {"turn_guard": 5.0},
        "guard 40": {"turn_guard": 40.0},
        "what fits in part at 1.5 times the speed left": {"turn_pace": 1.5},
        "what fits in part at full speed": {"turn_pace": 0.0},
        "stations are as the storage says": UNLEARNED,
        "demands taken 30 % too high": {"demand_error": 1.3},
        "the same, stations as the storage says": {"demand_error": 1.3, **UNLEARNED},
        "demands taken 30 % too low": {"demand_error": 0.7},
        "the same, as the storage says": {"demand_error": 0.7, **UNLEARNED},
        "profiles wrong for 30 %": {"wrong": 0.3},
        "latency 5 s": {"turn_latency": 5.0},
        "lengths measured with sd 0.3": {"burst_noise": 0.3},
    }.items()
}
"""As real, but for one thing: what had to be settled."""
SETTLED_ON = ("KTH-SP2, first come", "256 nodes, first come")
FEW = 5


@lru_cache(maxsize=1)
def _plain(cell, mean_field, repetition):
    trace, sharing = CELLS[cell]
    draw = replace(TRACES[trace], sharing=sharing, storage=mean_field).draw(repetition)
    outcomes = _replayed(draw, "none", draw.options)
    return draw, outcomes, bound_of(draw, outcomes)


def _replayed(draw, policy, options):
    return replay_with_io(
        draw.replayable,
        draw.site,
        profiles=draw.profiles,
        storage=draw.storage,
        policy=policy,
        options=options,
    )


def figures(outcomes, plain, bound):
    """Return what one replay comes to alongside that without a policy."""
    io = (plain.state == "completed") & (outcomes.state == "completed")
    io &= outcomes.contention["io_alone"] > 1.0
    stretch = outcomes.contention["io"][io] / outcomes.contention["io_alone"][io]
    longer = outcomes.runtime[io] / plain.runtime[io]
    return {
        "lost": float(outcomes.lost_slot_seconds.sum() / 3600),
        "share": bound.share(float(outcomes.lost_slot_seconds.sum())) or 0.0,
        "wait": float(np.nanmean(outcomes.wait) / np.nanmean(plain.wait)) - 1.0,
        "p99": float(np.quantile(stretch, 0.99)),
        "longer": float((longer > 1.05).sum() / len(longer)),
        "twice": float((longer > 2.0).sum() / plain.ran.sum()),
        "worst": float(longer.max()),
        "held": float((outcomes.contention["held"] > 0).mean()),
    }


@lru_cache
def answers(cell, draws=DRAWS):
    """Return figures by what was asked, one a draw; `none` is plain Slurm."""
    return _answers(cell, draws, ASKED)


def settled(cell, draws=FEW):
    same = {what: ASKED[what] for what in ("turns, as real",)}
    return _answers(cell, draws, {**same, **SETTLED})


def held_of_short_bursts(cell, what, draws=FEW):
    """Return for how many seconds bursts of the mix `short` were held in all."""
    trace, sharing = CELLS[cell]
    policy, storage, options = ASKED[what]
    experiment = replace(TRACES[trace], sharing=sharing, storage=storage, mix=SHORT)
    draws = [experiment.draw(repetition) for repetition in range(draws)]
    return sum(
        _replayed(draw, policy, replace(draw.options, **options)).contention["held"].sum()
        for draw in draws
    )


def _answers(cell, draws, asked):
    found = {}
    for repetition in range(draws):
        for what, (policy, mean_field, options) in sorted(asked.items(), key=lambda one: one[1][1]):
            draw, plain, bound = _plain(cell, mean_field, repetition)
            outcomes = _replayed(draw, policy, replace(draw.options, **options))
            found.setdefault(what, []).append(figures(outcomes, plain, bound))
            if what in ("turns", "turns, as real"):
                name = "none" if what == "turns" else "none, bursts vary"
                found.setdefault(name, []).append(figures(plain, plain, bound))
    return found


def row(what, draws):
    def middle(name):
        return median(one[name] for one in draws)

    shares = [one["share"] for one in draws]
    return (
        f"| {what} | {middle('lost'):,.0f} | {median(shares):.0%} "
        f"({min(shares):.0%} to {max(shares):.0%}) | {middle('wait'):+.1%} | {middle('p99'):.1f} "
        f"| {middle('longer'):.1%} | {middle('twice'):.2%} | {middle('worst'):.1f} |"
    )


HEAD = (
    "| asked | lost, slot-hours | share of the bound (range) | mean wait "
    "| p99 of the I/O slowdown | jobs with I/O 5 % longer | jobs twice as long | longest, times |\n"
    "|---|---|---|---|---|---|---|---|"
)


def show(title, found, draws):
    print(f"\n### {title}, {draws} draws\n\n{HEAD}")
    for what in ("none", "none, bursts vary", *ASKED, *SETTLED):
        if what in found:
            print(row(what, found[what]), flush=True)


CHANCE = {
    "64 nodes, first come": ("turns, as real", *HALVES),
    "256 nodes, first come": HALVES,
    "256 nodes, fair": HALVES,
}
NUDGES = 8
NUDGE = 5.0
"""Seconds by which jobs are submitted later, at most: nobody could tell the difference."""


def nudged(draw, number):
    """Return the draw with other submissions; number 0: as it is."""
    jobs = draw.replayable.workload.jobs.copy()
    later = np.random.default_rng(number).uniform(0.0, NUDGE, len(jobs)) if number else 0.0
    jobs["submit"] = np.maximum.accumulate(jobs["submit"] + later)
    workload = replace(draw.replayable.workload, jobs=jobs)
    return replace(draw, replayable=replace(draw.replayable, workload=workload))


def lost_by_nudge(cell, asked, repetition):
    """Return what plain Slurm and each policy lose in one draw, by nudge of it."""
    lost = {what: np.zeros(NUDGES) for what in ("none", *asked)}
    trace, sharing = CELLS[cell]
    (storage,) = {ASKED[what][1] for what in asked}
    draw = replace(TRACES[trace], sharing=sharing, storage=storage).draw(repetition)
    for number in range(NUDGES):
        moved = nudged(draw, number)
        for what, found in lost.items():
            policy, _, options = ASKED.get(what, (what, (), {}))
            outcomes = _replayed(moved, policy, replace(moved.options, **options))
            found[number] = outcomes.lost_slot_seconds.sum()
    return lost


def chance(cell, asked, draws):
    """Return what plain Slurm and each policy lose, by draw and by nudge of it."""
    by_draw = [lost_by_nudge(cell, asked, repetition) for repetition in range(draws)]
    return {what: np.stack([lost[what] for lost in by_draw]) for what in ("none", *asked)}


def show_chance(cell, asked, draws):
    lost = chance(cell, asked, draws)
    plain = lost.pop("none")
    apart = np.abs(plain / plain[:, :1] - 1).max(axis=1)
    for what, found in lost.items():
        single, mean = 1 - found / plain, 1 - found.mean(axis=1) / plain.mean(axis=1)
        print(
            f"| {cell} | {what} | {median(apart):.0%}; {apart.max():.0%} "
            f"| {median(single[:, 0]):.0%} ({single[:, 0].min():.0%}) "
            f"| {median(mean):.0%} ({mean.min():.0%}) |",
            flush=True,
        )


def main():
    draws = int(sys.argv[1]) if len(sys.argv) > 1 else DRAWS
    for cell in sys.argv[2:] or (*CELLS, "settled", "chance"):
        if cell == "chance":
            for place, asked in CHANCE.items():
                show_chance(place, asked, draws)
        elif cell == "settled":
            for place in SETTLED_ON:
                show(f"{place}, as real but for one thing", settled(place), FEW)
        else:
            show(cell, answers(cell, draws), draws)


if __name__ == "__main__":
    main()
