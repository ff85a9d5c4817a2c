"""What Sluice gains in a replay, and that wrong predictions do no harm; prints the figures.

`pytest -s -m acceptance tests/replay/test_gains.py` prints all; `-k piece` what each piece of
knowledge is worth, and where the rest of the bound goes.

Each cell is asked of 20 draws: other profiles (and jobs, where they are generated), another world,
every number of which is off by a random factor, and other wrong predictions. The belief is a
calibration of the request-level world with its nominal numbers (probing.py), so it is never that
of the world which answers.

How often a policy does better than another is judged by the sign test: if it made no difference,
it would do better in 15 or more of 20 draws with a probability of 2 %. So 15 are taken as better,
and fewer than 15 worse ones as no harm that can be told from chance.
"""

import os
import re
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from statistics import mean, median

import numpy as np
import pytest

from sluice.sim.compare import compare_each
from sluice.sim.experiment import Experiment
from sluice.sim.intervals import interval
from sluice.sim.ladder import RUNGS

KTH = Path(__file__).resolve().parents[3] / "shared/data/traces/KTH-SP2-1996-2.1-cln.swf.gz"
DRAWS = 20
SIGNIFICANT = 15
MOST_MAKESPAN = 1.01
"""Over that of plain EASY, with wrong predictions, on average over the draws: that of a single one
ends with one job and moves by some percent, either way, whenever the order of starts changes:
also where jobs but enter the queue up to NUDGE later, which is printed beside it."""
MOST_WAIT = 1.05
"""Mean and p99 over those of plain EASY, by the median over the draws: some wait so that less is
lost, and nobody may pay much for it."""
DAY = "86400"
"""Conflicts on these machines last for hours: hardly one ends within the default of 1800 s."""

TRACES = {
    "KTH-SP2": Experiment(trace=str(KTH), io_share=0.3),
    "generated, 256 nodes, load 0.7": Experiment(generate=10_000, slots=256, load=0.7, seed=3),
    "generated, 64 nodes, load 0.9": Experiment(generate=10_000, slots=64, load=0.9, seed=101),
}
SHARING = {"fifo": "first come, first served", "jobs": "fair"}
ASKED = {
    "Sluice, 1800 s": {"max_delay": "1800"},
    "Sluice, 1 day": {"max_delay": DAY},
    "1 day, 30 % wrong": {"max_delay": DAY, "wrong": "0.3"},
}
PLAIN, STATIC = "none", "class-lanes"
LESS_KNOWN = ("sluice-no-classifier", "sluice-chunk-only")
RANDOM = "random-lanes"
MOST_OF_IT = 0.9
NUDGE = 60.0
"""Seconds by which a job may enter the queue later where starts change their order by chance."""


@lru_cache
def gains(trace, sharing):
    """Return by what was asked a list of FIGURES, one a draw; print a row of docs/replay.md."""
    if trace == "KTH-SP2" and not KTH.exists():
        pytest.skip(f"{KTH.name} is not beside the repository")
    experiments = [
        replace(TRACES[trace], sharing=sharing, options=tuple(options.items()))
        for options in ASKED.values()
    ]
    found = {}
    for what, comparison in zip(
        ASKED,
        compare_each(
            [experiment.draw for experiment in experiments],
            [STATIC, "sluice-auto"],
            repeats=DRAWS - 1,
            workers=os.cpu_count() or 1,
        ),
        strict=True,
    ):
        found |= {PLAIN: comparison.figures[PLAIN], STATIC: comparison.figures[STATIC]}
        found[what] = comparison.figures["sluice-auto"]
    print(f"\n{trace}, {SHARING[sharing]} servers:")
    found["nudged"] = nudged(experiments[0])
    chance = span([ratio - 1 for ratio in ratios(found, "nudged", "makespan_s")], "{:+.1%}")
    print(f"  makespan of plain EASY where jobs enter up to {NUDGE:.0f} s later: {chance}")
    lost = span([one["lost_slot_hours"] for one in found[PLAIN]], "{:,.0f}")
    print(f"  plain EASY loses {lost} slot-hours; static class lanes "
          f"{span(ratios(found, STATIC, 'lost_slot_hours'), '{:.1f}')} times that")  # fmt: skip
    for what in ASKED:
        print(f"  {what}: {describe(found, what)}")
    for row in rows_of_the_docs(found):
        print(f"| {trace} | {SHARING[sharing]} | {' | '.join(row)} |")
    return found


def rows_of_the_docs(found):
    """Yield this cell's row of each of the two tables in docs/replay.md."""

    def shares(what):
        return cell([100 * (one["share_of_bound"] or 0.0) for one in found[what]], "{:.0f}")

    def changes(what, figure):
        return cell([100 * (ratio - 1) for ratio in ratios(found, what, figure)], "{:+.1f}")

    def wins(what):
        return str(better(found, what, PLAIN, "lost_slot_hours"))

    short, day, wrong = ASKED
    yield shares(short), shares(day), wins(day), shares(wrong), wins(wrong)
    yield (
        changes(day, "wait_mean_s"),
        changes(day, "wait_p99_s"),
        changes(wrong, "makespan_s"),
        changes("nudged", "makespan_s"),
        span(ratios(found, STATIC, "lost_slot_hours"), "{:.1f}"),
    )


def rows_of_the_ladder(found, policy):
    """Yield the row of docs/replay.md on where the rest of the bound goes; none: it loses more."""
    kept_back = [
        one["held_slot_hours"] / (plain["lost_slot_hours"] - one["lost_slot_hours"])
        for one, plain in zip(found[policy], found[PLAIN], strict=True)
        if one["lost_slot_hours"] < plain["lost_slot_hours"]
    ]
    if 2 * len(kept_back) > DRAWS:
        wait = median(ratios(found, policy, "wait_mean_s")) - 1
        share = median(one["share_of_bound"] for one in found[policy])
        digits = float(f"{median(kept_back):.2g}")
        yield f"{share:.0%}", f"{digits:,g}", f"{wait:+.1%}"


def cell(percent, form):
    text = span(percent, form).replace(" (", " % (")
    text = re.sub(r"[+-](0(\.0)?)(?![.\d])", r"\1", text)
    return text.replace("-", "\N{MINUS SIGN}")


def nudged(experiment):
    """Return FIGURES of plain EASY, one a draw, where each job enters a little later.

    What that changes is what any change in the order of starts does, whoever makes it.
    """

    def draw(repetition):
        one = experiment.draw(repetition)
        workload = one.replayable.workload
        jobs = workload.jobs.copy()
        later = np.random.default_rng(repetition).uniform(0, NUDGE, len(jobs))
        jobs["begin"] = np.maximum(jobs["begin"], jobs["submit"] + later)
        workload = replace(workload, jobs=jobs)
        return replace(one, replayable=replace(one.replayable, workload=workload))

    (found,) = compare_each([draw], [], repeats=DRAWS - 1, workers=os.cpu_count() or 1)
    return found.figures[PLAIN]


def describe(found, what):
    shares = [one["share_of_bound"] or 0.0 for one in found[what]]
    changes = {
        word: span([ratio - 1 for ratio in ratios(found, what, figure)], "{:+.1%}")
        for word, figure in (
            ("mean wait", "wait_mean_s"),
            ("p99 wait", "wait_p99_s"),
            ("makespan", "makespan_s"),
        )
    }
    return (
        f"{span(shares, '{:.0%}')} of the bound given back, "
        f"less lost than plain in {better(found, what, PLAIN, 'lost_slot_hours')} of {DRAWS}, "
        + ", ".join(f"{word} {text}" for word, text in changes.items())
        + f", longer mean wait in {better(found, PLAIN, what, 'wait_mean_s')}, "
        f"longer p99 in {better(found, PLAIN, what, 'wait_p99_s')}"
    )


def span(values, form):
    """Write the median and where one more draw lies with a probability of 90 %."""
    low_high = interval(values)
    middle = sorted(values)[len(values) // 2]
    return f"{form.format(middle)} ({form.format(low_high.low)} to {form.format(low_high.high)})"


def ratios(found, what, figure):
    """Over the same of plain EASY, a number a draw."""
    return [
        one[figure] / plain[figure] for one, plain in zip(found[what], found[PLAIN], strict=True)
    ]


def better(found, what, other, figure):
    """In how many draws the figure is smaller."""
    pairs = zip(found[what], found[other], strict=True)
    return sum(one[figure] < another[figure] for one, another in pairs)


each_cell = pytest.mark.parametrize(
    ("trace", "sharing"), [(trace, sharing) for trace in TRACES for sharing in SHARING]
)


@pytest.mark.acceptance
@each_cell
def test_sluice_loses_less_than_easy_and_static_lanes(trace, sharing):
    """Under either way of sharing in the servers, so also on top of fair sharing."""
    found = gains(trace, sharing)
    for other in (PLAIN, STATIC):
        assert better(found, "Sluice, 1 day", other, "lost_slot_hours") >= SIGNIFICANT


@pytest.mark.acceptance
@each_cell
@pytest.mark.parametrize("figure", ["wait_mean_s", "wait_p99_s"])
def test_jobs_hardly_wait_longer_for_that(trace, sharing, figure):
    assert median(ratios(gains(trace, sharing), "Sluice, 1 day", figure)) <= MOST_WAIT


@pytest.mark.acceptance
@each_cell
def test_wrong_predictions_do_no_harm(trace, sharing):
    found = gains(trace, sharing)
    wrong = "1 day, 30 % wrong"
    assert mean(ratios(found, wrong, "makespan_s")) <= MOST_MAKESPAN
    assert better(found, PLAIN, wrong, "makespan_s") < SIGNIFICANT
    assert better(found, PLAIN, wrong, "lost_slot_hours") < SIGNIFICANT


@pytest.mark.acceptance
@pytest.mark.parametrize("trace", TRACES)
def test_no_piece_of_knowledge_does_harm_and_waits_are_what_the_bound_is_made_of(trace):
    """Ablations, and the rungs of `sluice replay --explain`.

    On KTH-SP2 one profile for all gives back as much as the classifier's, and keeps jobs back for
    longer: that Sluice gives back more than each ablation holds on the generated traces only.
    """
    if trace == "KTH-SP2" and not KTH.exists():
        pytest.skip(f"{KTH.name} is not beside the repository")
    experiment = replace(TRACES[trace], options=(("max_delay", DAY),))
    policies = ["sluice-auto", *LESS_KNOWN, RANDOM, *RUNGS]
    (comparison,) = compare_each(
        [experiment.draw], policies, repeats=DRAWS - 1, workers=os.cpu_count() or 1
    )
    found = comparison.figures
    print(f"\n{trace}, MaxDelay of a day:")
    for policy in policies:
        print(f"  {policy}: {describe(found, policy)}")
        for row in rows_of_the_ladder(found, policy):
            print(f"| {policy} | {' | '.join(row)} |")
    for less in (*LESS_KNOWN, RANDOM):
        assert better(found, less, "sluice-auto", "lost_slot_hours") < SIGNIFICANT
    assert better(found, PLAIN, RANDOM, "lost_slot_hours") >= SIGNIFICANT
    assert better(found, "one-at-a-time", "two-groups", "lost_slot_hours") == DRAWS
    assert all(one["share_of_bound"] > MOST_OF_IT for one in found["one-at-a-time"])
