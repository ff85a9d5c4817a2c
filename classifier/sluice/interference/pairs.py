"""Interference of pairs of programs, from calibration and production."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from sluice.history_db.records import program_name
from sluice.interference.fitting import together
from sluice.interference.hot_targets import LOSSES, busy_runs, fit_losses
from sluice.interference.observations import Seen, alone_rates, observations, site_coruns
from sluice.interference.programs import ProductionProgram
from sluice.interference.site_model import SiteModel, fit
from sluice.policies import core
from sluice.prediction.expectation import expected
from sluice.prediction.jobs import profile_members
from sluice.prediction.solo_estimate import latest_undisturbed

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from sluice.history_db.records import ObservedInterference
    from sluice.history_db.store import Store
    from sluice.interference.hot_targets import Run
    from sluice.interference.observations import Observation
    from sluice.interference.programs import Program
    from sluice.prediction.jobs import FinishedJob


NEWEST = 100
"""Most jobs of a program that predict its next run; older ones hardly count."""


@dataclass(frozen=True, slots=True)
class Pair:
    """Effect of one application on the rate of another's I/O, by all findings of production."""

    victim: str
    aggressor: str
    rho: float
    """Rate as a share of the undisturbed one; above 1 is a speed-up."""
    log_sd: float
    """Standard deviation of log(rho)."""
    p_value: float
    """Of a fall as large as this, by chance."""
    disturbed: int
    """Slices of time of the victim under the aggressor."""
    undisturbed: int
    is_attributed: bool
    """Whether it is called interference, at the rate of false ones that was asked for last."""


def pooled(rows: Iterable[ObservedInterference]) -> list[Pair]:
    """Combine the findings of each pair at several times, the most harmful first.

    Each counts by its precision. Which pairs are called interference is judged anew, on all.
    """
    by_pair = defaultdict(list)
    for row in rows:
        by_pair[row.victim, row.aggressor].append(row)
    if not by_pair:
        return []
    p_values = [_p_value(group) for group in by_pair.values()]
    latest = max((row for group in by_pair.values() for row in group), key=lambda row: row.found)
    called = false_discovery_rates(p_values) <= latest.false_rate
    pairs = [
        _pair(group, p_value, is_called=bool(is_called))
        for group, p_value, is_called in zip(by_pair.values(), p_values, called, strict=True)
    ]
    return sorted(
        pairs, key=lambda one: (not one.is_attributed, one.rho, one.victim, one.aggressor)
    )


def false_discovery_rates(p_values: Sequence[float]) -> NDArray[np.float64]:
    """Return the share of chance findings among those as sure as each, by Benjamini-Hochberg.

    SciPy has it only from 1.11 on.
    """
    order = np.argsort(p_values)
    ranks = np.arange(1, len(p_values) + 1)
    rates = np.asarray(p_values)[order] * (len(p_values) / ranks)
    found = np.empty_like(rates)
    found[order] = np.minimum.accumulate(rates[::-1])[::-1]
    return np.minimum(found, 1.0)


def _p_value(group: Sequence[ObservedInterference]) -> float:
    return together([row.p_value for row in group])


def _pair(group: Sequence[ObservedInterference], p_value: float, *, is_called: bool) -> Pair:
    precision = [row.log_sd**-2 for row in group]
    log_rho = float(np.average([math.log(row.rho) for row in group], weights=precision))
    return Pair(
        victim=group[0].victim,
        aggressor=group[0].aggressor,
        rho=math.exp(log_rho),
        log_sd=math.fsum(precision) ** -0.5,
        p_value=p_value,
        disturbed=sum(row.disturbed for row in group),
        undisturbed=sum(row.undisturbed for row in group),
        is_attributed=is_called and log_rho < 0,
    )


def seen_in_production(
    store: Store, pairs: Sequence[Pair], jobs: Sequence[FinishedJob] | None = None
) -> list[Seen]:
    """Return what the interference model can learn from these pairs.

    All that were tested, whether they lost, gained or neither: only those that were called
    interference would teach that all lose. Applications whose kind of traffic the
    history does not know are left out. jobs: the latest undisturbed ones, where they were read
    already.
    """
    names = {name for pair in pairs for name in (pair.victim, pair.aggressor)}
    applications = _applications(store, names, jobs)
    return [
        Seen(applications[pair.victim], applications[pair.aggressor], pair.rho, pair.log_sd)
        for pair in pairs
        if {pair.victim, pair.aggressor} <= applications.keys()
    ]


def _applications(
    store: Store, names: set[str], jobs: Sequence[FinishedJob] | None
) -> dict[str, ProductionProgram]:
    """Return those with these names of which the history knows what their next run will do.

    Only by runs that counters confirm, because the model decides about others.
    """
    if not names:
        return {}
    known = latest_undisturbed(store) if jobs is None else jobs
    of_log = {log: job for job in known if job.is_confirmed for log in job.logs}
    by_name: dict[str, dict[tuple[int, ...], FinishedJob]] = defaultdict(dict)
    for log, command, _ in store.runs.commands():
        if (name := program_name(command)) in names and log in of_log:
            by_name[name][of_log[log].logs] = of_log[log]
    found = {}
    for name, own in by_name.items():
        members = profile_members(expected(list(own.values())[-NEWEST:]))
        if min(members.get("chunk_bytes", 0.0), members.get("nprocs", 0.0)) >= 1.0:
            found[name] = ProductionProgram(name, members)
    return found


@dataclass(frozen=True, slots=True)
class SiteEvidence:
    """Evidence of calibrations and of production."""

    measured: list[Observation]
    """Of programs that write or read."""
    rates_alone: dict[Program, float]
    """B/s of each program that was measured alone."""
    production: list[Seen]
    pairs: list[Pair]
    """All that were tested in production, also of applications that the model cannot place."""
    busy: list[Run]

    @property
    def count(self) -> int:
        """How much the model can learn from."""
        measured = sum(one.is_of_writers for one in self.measured)
        return measured + sum(one.is_of_writers for one in self.production) + len(self.busy)

    def model(self) -> SiteModel:
        """Return the interference model of the site; the published one without evidence."""
        site = fit(self.measured, self.production)
        reads = sum(run.reads for run in self.busy)
        basis = replace(site.basis, busy_runs=len(self.busy), busy_reads=reads)
        # what one target shows says nothing of many: the published losses are the prior
        prior = {name: core.default_interference()[name] for name in LOSSES}
        losses = fit_losses(self.busy, site.interference | prior)
        return replace(site, interference=site.interference | losses, basis=basis)


def site_evidence(store: Store, *, jobs: Sequence[FinishedJob] | None = None) -> SiteEvidence:
    """Return it; jobs: the latest undisturbed ones, where they were read already."""
    pairs = pooled(store.interference.observed_interference())
    coruns = site_coruns(store)
    jobs = latest_undisturbed(store) if jobs is None else jobs
    return SiteEvidence(
        measured=[item for item in observations(coruns) if item.is_of_data],
        rates_alone=alone_rates(coruns),
        production=seen_in_production(store, pairs, jobs),
        pairs=pairs,
        busy=busy_runs(store, jobs),
    )
