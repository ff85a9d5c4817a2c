"""What a holdout says of simulated sites whose truth is known."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import binom

from sluice.interference.holdout import FALSE_ALARMS, Effect, Unit, boundary, effect, evidence, walk

SHARES = (0.05, 0.1, 0.3, 0.5)
CHANCE = 1e-3
"""That a test fails although the intervals keep their promise."""


class Site:
    """Jobs whose outcomes drift, of which few lose much, and what acting on them changes.

    Both outcomes of each job are known here, so that the effect is.
    """

    def __init__(self, seed: int, *, jobs: int, share: float, gain: float) -> None:
        rng = np.random.default_rng(seed)
        drift = 0.05 * (1 + np.sin(np.arange(jobs) / rng.uniform(20, 500)))
        suffers = rng.random(jobs) < 0.1
        alone = np.clip(drift + rng.normal(0, 0.02, jobs) + suffers * rng.beta(2, 2, jobs), 0, 1)
        helped = gain * rng.random(jobs) * 2 * alone
        harmed = 0.02 * (rng.random(jobs) < 0.3)
        acted_on = np.clip(alone - helped + harmed, 0, 1)
        self.share = share
        self.held_out = rng.random(jobs) < share
        self.outcomes = np.where(self.held_out, alone, acted_on)
        self.effects = acted_on - alone

    def units(self) -> list[Unit]:
        rows = zip(self.held_out.tolist(), self.outcomes.tolist(), strict=True)
        return [Unit(*row) for row in rows]

    def is_ever_missed(self) -> bool:
        """Whether the interval of any look, one after each job, leaves out the effect till then."""
        sums, variances = walk(self.held_out, self.outcomes, self.share)
        off = sums - np.cumsum(self.effects)
        probability = FALSE_ALARMS / 2
        reached = np.maximum(
            evidence(off, variances, self.share, probability),
            evidence(-off, variances, self.share, probability),
        )
        return bool((reached > math.log(1 / probability)).any())


def missed(sites: int, *, jobs: int) -> int:
    """At how many sites some look was wrong; a quarter of them has no effect at all."""
    return sum(
        Site(
            seed, jobs=jobs, share=SHARES[seed % len(SHARES)], gain=0.3 * (seed // 4 % 4)
        ).is_ever_missed()
        for seed in range(sites)
    )


def test_all_intervals_of_all_looks_hold_the_truth_at_19_of_20_sites():
    sites = 400
    assert missed(sites, jobs=1000) <= binom.ppf(1 - CHANCE, sites, FALSE_ALARMS)


@pytest.mark.acceptance
def test_so_they_do_at_many_sites_for_long():
    sites = 5000
    found = missed(sites, jobs=10_000)
    print(f"{found} of {sites} sites had a wrong look among 10,000; {FALSE_ALARMS:.0%} may")
    assert found <= binom.ppf(1 - CHANCE, sites, FALSE_ALARMS)


def test_a_comparison_that_stops_at_the_first_sure_look_of_a_fixed_interval_is_wrong_often():
    """Why the intervals are wider than those of one look: these are wrong at most sites."""
    wrong = 0
    for seed in range(100):
        site = Site(seed, jobs=1000, share=0.3, gain=0.0)
        sums, variances = walk(site.held_out, site.outcomes, site.share)
        off = np.abs(sums - np.cumsum(site.effects))
        wrong += bool((off > 1.96 * np.sqrt(variances))[30:].any())
    assert wrong > 3 * FALSE_ALARMS * 100


def test_a_real_gain_is_found_and_its_size_is_in_the_interval():
    site = Site(7, jobs=20_000, share=0.3, gain=0.9)
    found = effect(site.units(), site.share)
    assert found.is_certain
    assert found.low <= site.effects.mean() <= found.high < 0
    assert found.mean == pytest.approx(site.effects.mean(), abs=0.01)
    assert (found.units, found.held_out) == (20_000, int(site.held_out.sum()))
    assert found.acted_on_mean < found.held_out_mean


@pytest.mark.parametrize(("share", "jobs"), [(0.1, 2000), (0.5, 500)])
def test_the_guide_says_after_how_many_jobs_an_effect_shows(share, jobs):
    """Outcomes deviate by a tenth, the effect is a twentieth; of 40 sites most see it by then."""
    sure = [0, 0]
    for seed in range(40):
        rng = np.random.default_rng(seed)
        held_out = rng.random(jobs) < share
        outcomes = np.clip(rng.normal(0.3, 0.1, jobs) - 0.05 * ~held_out, 0, 1)
        units = [Unit(*row) for row in zip(held_out.tolist(), outcomes.tolist(), strict=True)]
        for i, looked_at in enumerate((jobs // 2, jobs)):
            sure[i] += effect(units[:looked_at], share).is_certain
    assert sure[0] < 10
    assert sure[1] > 20


def test_intervals_narrow_with_the_units_and_hold_less_than_everything():
    site = Site(3, jobs=4000, share=0.2, gain=0.5)
    units = site.units()
    widths = [found.high - found.low for n in (100, 1000, 4000) if (found := seen(units, n))]
    assert sorted(widths, reverse=True) == widths
    assert widths[-1] < 0.1


def seen(units: list[Unit], count: int) -> Effect:
    return effect(units[:count], 0.2)


def test_of_nobody_nothing_is_known():
    found = effect([], 0.1)
    assert (found.low, found.high, found.acted_on_mean, found.held_out_mean) == (-1, 1, None, None)
    assert not found.is_certain


@pytest.mark.parametrize("share", SHARES)
def test_the_boundary_is_where_the_mixture_of_the_paper_reaches_its_limit(share):
    for variance in (0.1, 10.0, 1000.0):
        reached = boundary(variance, share, 0.025)
        assert mixture(reached, variance, share) == pytest.approx(math.log(40), rel=1e-6)


def mixture(deviation: float, variance: float, share: float) -> float:
    """ln of the mixture of Howard et al., integrated as it is written."""
    scale = 1 / min(share, 1 - share)
    planned = 1000 * 0.1**2 / (share * (1 - share))
    prior = planned / (2 * math.log(20) + math.log1p(2 * math.log(20)))

    def density(left: float, s: float, v: float) -> float:
        """At lambda = (1 - left) / scale: its weight times exp (lambda s - psi (lambda) v)."""
        log_left = math.log(left)
        psi = (-log_left - (1 - left)) / scale**2
        weight = (prior / scale**2 - 1) * log_left + (1 - left) * prior / scale**2
        return math.exp(weight + (1 - left) / scale * s - psi * v)

    def whole(s: float, v: float) -> float:
        return float(quad(density, 0, 1, args=(s, v), limit=500, points=[0.9, 0.99, 0.999])[0])

    return math.log(whole(deviation, variance) / whole(0.0, 0.0))
