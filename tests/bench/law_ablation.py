#!/usr/bin/env python3
"""Ablation of the interference law on recorded calibrations and pairs that they did not measure.

    tests/bench/law_ablation.py

Each row fits a law to each of six calibrations of throttled targets (tests/data/throttled) and
predicts the losses of nine sessions of other programs, whose rates alone are known. It prints the
number of fitted numbers; the largest median error of log I and the largest ninth decile of the six
calibrations; and how many losses of a third or more the law calls harmless (a slowdown of at most
5 %), of all that were predicted.

The first row is the product's law; `Law` has the parts that it had before, or does without.
"""

import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "lab"))
from held_out import kept
from recorded import CALIBRATIONS, SESSIONS, coruns, rows

from sluice.interference import site_model
from sluice.interference.fitting import least_squares
from sluice.interference.observations import Observation, observations
from sluice.interference.programs import Program, features, likeness
from sluice.policies import core

SLACK = 1.0
LOSS, HARMLESS = 1 / 3, 1.05
STEP = 1e-6

PRIOR = {
    "stream_level": (math.log(125.0), 0.5),
    "rewrite_level": (0.0, 0.2),
    "create_exponent": (1.0, 0.3),
    "rewrite_exponent": (1.0, 0.3),
    "pooling": (-4.0, 1.5),
}
NINE = PRIOR | {
    "create_level": (-0.1, 0.2),
    "process_exponent": (1.0, 0.05),
    "stream_exponent": (1.0, 0.2),
    "stream_slope": (0.0, 0.15),
}
FIXED = {
    **dict.fromkeys(("rewrite_level", "create_level", "stream_slope"), 0.0),
    **dict.fromkeys(("create_exponent", "rewrite_exponent"), 1.0),
    **dict.fromkeys(("process_exponent", "stream_exponent"), 1.0),
    "pooling": -1000.0,
}


@dataclass(frozen=True)
class Law:
    """Parts of a law; the members of `prior` are fitted."""

    prior: Mapping[str, tuple[float, float]] = field(default_factory=lambda: PRIOR)
    has_overheads: bool = True
    """Whether rates alone tell what flushes cost."""
    endurance: float = 0.0
    """How much more a program keeps, the less it gets alone (beta)."""
    interleaving: float = 0.0
    """How far short rounds slip in during long ones (epsilon)."""
    filling: float = 0.0
    """How far programs use what others' flushes leave (theta)."""
    corrections: tuple[float, float] = (0.0, 0.0)
    """Sd of Gaussian processes over the features: of ln w, and of what a victim holds on with."""

    def fitted(self, kinds: int) -> int:
        """Return how many numbers are fitted."""
        return len(self.prior) + 2 * self.has_overheads + 2 * kinds * bool(self.corrections[0])


LAWS = {
    "the same law in this script": Law(),
    "without pooling of streams": Law({k: v for k, v in PRIOR.items() if k != "pooling"}),
    "without what flushes cost": Law(has_overheads=False),
    "without a rewriting level": Law({k: v for k, v in PRIOR.items() if k != "rewrite_level"}),
    "exponents of the chunk at 1": Law(
        {k: v for k, v in PRIOR.items() if not k.endswith("exponent")}
    ),
    "nine coefficients": Law(NINE),
    "with endurance": Law(endurance=0.1),
    "with interleaving": Law(interleaving=0.1),
    "with filling": Law(filling=1.0),
    "with Gaussian processes": Law(corrections=(0.175, 0.25)),
    "with all of these": Law(
        NINE,
        has_overheads=True,
        endurance=0.1,
        interleaving=0.1,
        filling=1.0,
        corrections=(0.175, 0.25),
    ),
}


class Members:
    """Programs with the rates that they get alone, as arrays."""

    def __init__(self, programs: Sequence[Program], shares: Sequence[float | None]) -> None:
        self.features = features(programs)
        self.s, self.k, level, processes = self.features.T
        self.chunk, self.n = level * math.log(2), processes * math.log(2)
        self.direct = np.array([float(program.direct) for program in programs])
        self.log_share = np.log([1.0 if x is None else min(1.0, x) for x in shares])
        self.is_known = np.array([x is not None for x in shares])


class Fitted:
    """A law with its numbers."""

    def __init__(self, law: Law, seen: Sequence[Observation]) -> None:
        self.law = law
        rates: dict[Program, list[float]] = {}
        for item in seen:
            rates.setdefault(item.victim, []).append(item.rate_alone)
        self.bandwidth = max(item.rate_alone for item in seen)
        alone = {p: median(found) / self.bandwidth for p, found in rates.items()}
        of_site = site_model.fit_overheads(core.default_interference(), alone)
        costs = of_site if law.has_overheads else dict.fromkeys(of_site, 0.0)
        self.costs = (costs["create_overhead"], costs["rewrite_overhead"])
        self.at = np.unique(np.round(features(sorted(rates)), 6), axis=0)
        covariance = likeness(self.at, self.at) + 0.08**2 * np.eye(len(self.at))
        self.root = np.linalg.cholesky(covariance)
        self.pull = np.linalg.inv(covariance)
        self.size = len(law.prior) + 2 * len(self.at) * bool(law.corrections[0])
        self.unknowns = np.zeros(self.size)
        members, index = self.members_of(seen, alone)
        observed = np.log([max(item.rho, 1e-3) for item in seen])

        def residuals(unknowns):
            error = (np.log(self.shares(members, index, unknowns)) - observed) / 0.1
            robust = np.sign(error) * np.sqrt(np.log1p(error**2))
            return np.concatenate([robust, unknowns])

        def slopes(unknowns):
            here = residuals(unknowns)
            steps = STEP * np.eye(self.size)
            return np.column_stack([(residuals(unknowns + one) - here) / STEP for one in steps])

        self.unknowns = least_squares(residuals, slopes, self.size)

    def members_of(self, seen, alone=None):
        """Return the members of all, and (observations, 3) indices; the last is none."""
        programs, shares, index = [], [], np.full((len(seen), 3), -1)
        for row, item in zip(index, seen, strict=True):
            others = item.others_alone or (None,) * len(item.others)
            given = [item.rate_alone, *others]
            for place, (program, rate) in enumerate(
                zip((item.victim, *item.others), given, strict=True)
            ):
                row[place] = len(programs)
                programs.append(program)
                known = alone.get(program) if alone is not None else rate and rate / self.bandwidth
                shares.append(known or None)
        return Members(programs, shares), index

    def values(self, unknowns):
        names = list(self.law.prior)
        found = dict(FIXED)
        for (name, (mean, sd)), x in zip(
            self.law.prior.items(), unknowns[: len(names)], strict=True
        ):
            found[name] = mean + sd * x
        return found, np.split(unknowns[len(names) :], 2)

    def efficiency(self, m: Members):
        """Return ln e of each member."""
        cost = (1 - m.s) * (m.k * self.costs[0] + (1 - m.k) * self.costs[1])
        kind = -np.log1p(cost * np.exp(-m.chunk))
        slack = SLACK if self.law.has_overheads else 0.0
        return np.where(m.is_known, np.maximum(m.log_share, kind - slack), kind)

    def shares(self, m: Members, index, unknowns=None):
        """Return the guaranteed share of each observation's victim."""
        law = self.law
        a, (weight, hold) = self.values(self.unknowns if unknowns is None else unknowns)
        ln_e = self.efficiency(m)
        e = np.exp(ln_e)
        exponent = m.k * a["create_exponent"] + (1 - m.k) * a["rewrite_exponent"]
        level = (m.k * a["create_level"] + (1 - m.k) * a["rewrite_level"]) * (1 - m.direct)
        flush = level + exponent * (m.chunk - ln_e) + a["process_exponent"] * m.n
        stream = (
            a["stream_level"] + a["stream_slope"] * m.chunk / math.log(2)
            + a["stream_exponent"] * m.n
        )  # fmt: skip
        held = -law.endurance * ln_e
        if law.corrections[0]:
            like = likeness(np.round(m.features, 6), self.at) @ self.pull @ self.root
            both = law.corrections[0] * like @ weight
            flush, stream = flush + both, stream + both
            held = held + law.corrections[1] * like @ hold
        f, g = (1 - m.s) * np.exp(flush), m.s * np.exp(stream)
        kappa = math.exp(min(a["pooling"], 4.0))
        j, others = index[:, 0], index[:, 1:]
        is_there = others >= 0
        fv, gv = (x[j] * np.exp(held[j]) for x in (f, g))
        streams = gv + np.where(is_there, g[others], 0.0).sum(axis=1)
        own = fv + gv / (1 + kappa * streams)
        by_itself = (fv + gv / (1 + kappa * gv))[:, None]
        transfer = (e[j] ** 3)[:, None]
        eps, n = law.interleaving, np.exp(m.n)
        idle = law.filling * (1 - e[others])
        gaps = 0.75 * law.filling * e[others] * (1 - m.direct[others]) / np.sqrt(n[others])
        slipping = f[others] ** (1 - eps) * (n[others] * by_itself / n[j][:, None]) ** eps
        counted = transfer * (1 - idle) * slipping + (1 - transfer) * (1 - gaps) * f[others]
        counted = counted + g[others] / (1 + kappa * streams)[:, None]
        return own / (own + np.where(is_there, counted, 0.0).sum(axis=1))

    def predict(self, seen):
        """Return rho of each observation."""
        m, index = self.members_of(seen)
        demand = np.where(m.is_known, np.minimum(1.0, np.exp(m.log_share - self.efficiency(m))), 1)
        others = np.where(index[:, 1:] >= 0, demand[index[:, 1:]], 0.0).sum(axis=1)
        share = np.maximum(self.shares(m, index), 1 - others) / demand[index[:, 0]]
        return np.minimum(1.0, share)


def row(name: str, fitted: int, predicted: Sequence[np.ndarray], seen) -> None:
    true = np.array([item.rho for item in seen])
    errors = [np.abs(np.log(one / true)) for one in predicted]
    lost = true <= 1 - LOSS
    missed = sum(int((one[lost] >= 1 / HARMLESS).sum()) for one in predicted)
    middle, decile = (max(np.quantile(one, q) for one in errors) for q in (0.5, 0.9))
    total = int(lost.sum()) * len(predicted)
    print(
        f"| {name} | {fitted or 'none'} | {middle:.3f} | {decile:.2f} | {missed:,} of {total:,} |"
    )


def main() -> None:
    seen = [item for name in SESSIONS for item in kept(rows(name))]
    known = [
        [item for item in observations(coruns(name)) if item.is_of_writers] for name in CALIBRATIONS
    ]
    print("| law | fitted | median error | nine of ten | called harmless |\n|---|---|---|---|---|")
    for name, models in (
        ("published figures", [site_model.fit([])]),
        ("**the law that is kept**", list(map(site_model.fit, known))),
    ):
        fitted = 7 if len(models) > 1 else 0
        row(name, fitted, [np.array([m.predict(o) for o in seen]) for m in models], seen)
    for name, law in LAWS.items():
        laws = [Fitted(law, one) for one in known]
        row(name, law.fitted(len(laws[-1].at)), [one.predict(seen) for one in laws], seen)


if __name__ == "__main__":
    main()
