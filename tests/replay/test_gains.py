"""What Sluice gains in a replay, and that wrong predictions do no harm.

`make figures` runs this, prints what is found and writes the tables of docs/evidence/replays.md.

Each cell is asked of 20 draws of the mix `checkpointing`: other profiles (and jobs, where they are
generated), other storage, every number of which is off by a random factor, and other wrong
predictions. Sluice has learned from a calibration of the discrete-event storage model with its
nominal numbers (site_bundle.py), so never from the storage model that answers.

How often a policy does better than another is judged by the sign test. If it made no difference,
it would do better in 15 or more of 20 draws with a probability of 2.1 %, in 17 or more with 0.13 %.
So a gain is claimed of a cell from 15 on, and harm from 17 on: of all comparisons that look for
harm here, one would then find some by chance in one of 17 sets of draws.
"""

import os
from dataclasses import replace
from functools import lru_cache
from statistics import mean, median

import numpy as np
import pytest
from ablations import EVERY
from gains import (
    ASKED,
    CHEAP,
    CHEAP_WAITS,
    DEFAULT,
    DRAWS,
    FEW_AT_A_TIME,
    KTH,
    LESS_KNOWN,
    LONG,
    NUDGED,
    PATIENT,
    PLAIN,
    RANDOM,
    SHARING,
    SLUICE,
    STAKED,
    STAKES,
    STATIC,
    STEPS,
    TRACES,
    TURNS,
    WRONG,
    ablations_file,
    better,
    gains_file,
    ratios,
    save,
    saved,
    span,
    stakes_file,
)

from sluice.sim.replay.compare import compare

GAIN = 15
HARM = 17
MOST_MAKESPAN = 1.01
"""Over that of plain EASY, with wrong predictions, on average over the draws: that of a single one
ends with one job and moves by some percent, either way, whenever the order of starts changes:
also where jobs but enter the queue up to NUDGE later, which is printed next to it."""
MOST_WAIT, MOST_WAIT_FOR_GAIN = 1.01, 1.05
"""Mean and p99 over those of plain EASY, by the median over the draws: some wait so that less is
lost, and nobody may pay much for it."""
MOST_OF_IT = 0.9
NUDGE = 60.0
"""Seconds by which a job may enter the queue later where starts change their order by chance."""


@lru_cache
def gains(trace, sharing):
    """Return by what was asked a list of FIGURES, one a draw; print what they come to."""
    experiment = replace(TRACES[trace], sharing=sharing)
    found = {}
    for what, (policy, options) in ASKED.items():
        asked = replace(experiment, options=tuple(options.items()))
        answers = compared(trace, asked.draw, [policy] if found else [policy, STATIC]).figures
        found = {name: answers[name] for name in (PLAIN, STATIC) if name in answers} | found
        found[what] = answers[policy]
    found[NUDGED] = nudged(experiment)
    save(gains_file(trace, sharing), found)
    print(f"\n{trace}, {SHARING[sharing]} servers:")
    chance = span([ratio - 1 for ratio in ratios(found, NUDGED, "makespan_s")], "{:+.1%}")
    print(f"  makespan of plain EASY where jobs enter up to {NUDGE:.0f} s later: {chance}")
    lost = span([one["lost_slot_hours"] for one in found[PLAIN]], "{:,.0f}")
    print(f"  plain EASY loses {lost} slot-hours; static class lanes "
          f"{span(ratios(found, STATIC, 'lost_slot_hours'), '{:.1f}')} times that")  # fmt: skip
    for what in ASKED:
        print(f"  {what}: {describe(found, what)}")
    return found


def compared(trace, draw, policies):
    """Return the comparison of DRAWS draws."""
    if trace == "KTH-SP2" and not KTH.exists():
        pytest.skip(f"{KTH.name} is not next to the repository")
    workers = os.cpu_count() or 1
    return compare(draw, policies, repeats=DRAWS - 1, workers=workers, known=EVERY)


def nudged(experiment):
    """Return FIGURES of plain EASY, one a draw, where each job enters a little later.

    What that changes is what any change in the order of starts does, whatever makes it.
    """

    def draw(repetition):
        one = experiment.draw(repetition)
        workload = one.replayable.workload
        jobs = workload.jobs.copy()
        later = np.random.default_rng(repetition).uniform(0, NUDGE, len(jobs))
        jobs["begin"] = np.maximum(jobs["begin"], jobs["submit"] + later)
        workload = replace(workload, jobs=jobs)
        return replace(one, replayable=replace(one.replayable, workload=workload))

    return compare(draw, [], repeats=DRAWS - 1, workers=os.cpu_count() or 1).figures[PLAIN]


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
        f"{span(shares, '{:.0%}')} of the bound recovered, "
        f"less lost than plain in {better(found, what, PLAIN, 'lost_slot_hours')} of {DRAWS}, "
        + ", ".join(f"{word} {text}" for word, text in changes.items())
        + f", longer mean wait in {better(found, PLAIN, what, 'wait_mean_s')}, "
        f"longer p99 in {better(found, PLAIN, what, 'wait_p99_s')}"
    )


def cells(traces):
    return pytest.mark.parametrize(
        ("trace", "sharing"), [(trace, sharing) for trace in traces for sharing in SHARING]
    )


each_cell = cells(TRACES)
each_that_gains = cells(["KTH-SP2"])
"""On 256 and 64 nodes delays lose less in 6 to 12 of 20 draws, as chance might."""


@pytest.mark.acceptance
@each_cell
@pytest.mark.parametrize("what", [DEFAULT, LONG])
def test_sluice_does_no_harm_at_the_default_price_of_waits(trace, sharing, what):
    """It saves next to nothing there, either: hardly a delay is worth its wait."""
    found = gains(trace, sharing)
    assert better(found, PLAIN, what, "lost_slot_hours") < HARM
    for figure in ("wait_mean_s", "wait_p99_s"):
        assert median(ratios(found, what, figure)) <= MOST_WAIT


@pytest.mark.acceptance
@each_that_gains
def test_sluice_loses_less_than_easy_where_waits_are_cheap(trace, sharing):
    """Under either way of sharing in the servers, so also on top of fair sharing."""
    assert better(gains(trace, sharing), PATIENT, PLAIN, "lost_slot_hours") >= GAIN


@pytest.mark.acceptance
@each_that_gains
def test_delays_save_more_than_their_price_where_waits_are_cheap(trace, sharing):
    found = gains(trace, sharing)
    held = [one["held_slot_hours"] for one in found[PATIENT]]
    pairs = zip(saved(found, PATIENT), held, strict=True)
    assert median(one - float(CHEAP_WAITS) * delay for one, delay in pairs) > 0


@pytest.mark.acceptance
@each_cell
@pytest.mark.parametrize("figure", ["wait_mean_s", "wait_p99_s"])
def test_jobs_hardly_wait_longer_for_that(trace, sharing, figure):
    assert median(ratios(gains(trace, sharing), PATIENT, figure)) <= MOST_WAIT_FOR_GAIN


@pytest.mark.acceptance
@each_cell
@pytest.mark.parametrize("what", [PATIENT, WRONG])
def test_neither_delays_nor_wrong_predictions_do_harm(trace, sharing, what):
    found = gains(trace, sharing)
    assert mean(ratios(found, what, "makespan_s")) <= MOST_MAKESPAN
    assert better(found, PLAIN, what, "makespan_s") < HARM
    assert better(found, PLAIN, what, "lost_slot_hours") < HARM


@pytest.mark.acceptance
@each_cell
def test_turns_lose_less_than_plain_and_any_delay_in_every_draw(trace, sharing):
    found = gains(trace, sharing)
    for other in (PLAIN, PATIENT):
        assert better(found, TURNS, other, "lost_slot_hours") == DRAWS


@pytest.mark.acceptance
@each_cell
def test_static_lanes_lose_more_than_plain_easy_in_every_draw(trace, sharing):
    assert better(gains(trace, sharing), PLAIN, STATIC, "lost_slot_hours") == DRAWS


@pytest.mark.acceptance
def test_what_is_lost_is_a_matter_of_the_mix():
    """Where few jobs do I/O, or in short bursts, hardly anything is lost, and no lever harms."""
    lost = {}
    for mix, share in STAKES:
        experiment = replace(TRACES["KTH-SP2"], io_share=share, mix=mix)
        found = compared("KTH-SP2", experiment.draw, list(STAKED)).figures
        save(stakes_file(mix, share), found)
        print(f"\nKTH-SP2, {share:.0%} I/O-heavy, mix {mix}:")
        for policy in STAKED:
            print(f"  {policy}: {describe(found, policy)}")
        lost[mix, share] = median(one["lost_share"] for one in found[PLAIN])
        assert better(found, PLAIN, SLUICE, "lost_slot_hours") < HARM
    assert lost["checkpointing", 0.05] < lost["checkpointing", 0.1] < lost["checkpointing", 0.3]
    assert lost["short", 0.3] < lost["checkpointing", 0.1]


@lru_cache
def ablations(trace):
    """Return by policy a list of FIGURES, one a draw: knowing less, and more."""
    experiment = replace(TRACES[trace], options=tuple(CHEAP.items()))
    policies = [RANDOM, *(STEPS if trace == "KTH-SP2" else (SLUICE, *LESS_KNOWN, *FEW_AT_A_TIME))]
    found = compared(trace, experiment.draw, policies).figures
    save(ablations_file(trace), found)
    print(f"\n{trace}, MaxDelay of a day, WaitPrice {CHEAP_WAITS}:")
    for policy in policies:
        print(f"  {policy}: {describe(found, policy)}")
    return found


@pytest.mark.acceptance
@pytest.mark.parametrize("trace", TRACES)
@pytest.mark.parametrize("less", [*LESS_KNOWN, RANDOM])
def test_no_piece_of_knowledge_does_harm(trace, less):
    assert better(ablations(trace), less, SLUICE, "lost_slot_hours") < HARM


@pytest.mark.acceptance
@pytest.mark.parametrize("trace", TRACES)
def test_waits_are_what_the_bound_is_made_of(trace):
    found = ablations(trace)
    assert better(found, PLAIN, RANDOM, "lost_slot_hours") >= GAIN
    assert better(found, "one-at-a-time", "two-groups", "lost_slot_hours") == DRAWS
    shares = [one["share_of_bound"] for one in found["one-at-a-time"]]
    known = [share for share in shares if share is not None]  # of a draw that loses something
    assert len(known) > DRAWS / 2
    assert min(known) > MOST_OF_IT
