"""Print how well "alone" is learned from contended runs: python tests/bench/alone_bench.py."""

from __future__ import annotations

import math
import sys
from pathlib import Path

import numpy as np

sys.path += [str(Path(__file__).parents[1] / folder) for folder in ("lab", "prediction")]

from contended_runs import LAWS, MeanField, alone, contended, programs
from test_alone import BANDWIDTH, FACTOR, jobs_of

from sluice.policies.core import Z90
from sluice.prediction.solo_estimate import undisturbed

SEEDS = 6
EACH = 8
PROGRAMS = 8


def site(law: str, slots: int, seed: int) -> tuple[list[tuple[float, float, float]], float]:
    """Return error, deviation and error as the runs read, of each program; lost over clock."""
    storage = MeanField(BANDWIDTH, law)
    chosen = programs(np.random.default_rng(seed), PROGRAMS, BANDWIDTH)
    truth = {one.name: alone(one, storage, runs=1)[0] for one in chosen}
    runs = contended(chosen, storage, each=EACH, slots=slots, seed=seed)
    seen = jobs_of(runs)
    found = undisturbed(seen)
    rows = []
    for name, run in truth.items():
        right = math.log(run.moved / run.io_seconds)
        pairs = [(a, b) for a, b in zip(seen, found, strict=True) if a.name == name]
        as_seen, as_found = (
            math.log(np.median([one.profile.numbers["rate"] for one in jobs])) - right
            for jobs in zip(*pairs, strict=True)
        )
        rows.append((as_found, pairs[0][1].disturbance.log_sd, as_seen))
    lost = sum(one.disturbance.lost() for one in found if one.disturbance)
    by_clock = sum(run.seconds - truth[run.program.name].seconds for run in runs)
    return rows, lost / by_clock


def main() -> None:
    print("law     jobs at once  within 1.5  in 90 %  median width  as seen  lost / by clock")
    for law in LAWS:
        for slots in (3, 5, 8):
            sites = [site(law, slots, seed) for seed in range(SEEDS)]
            error, sd, seen = np.array([row for rows, _ in sites for row in rows]).T
            ratios = np.exp(np.mean(np.log([ratio for _, ratio in sites])))
            print(
                f"{law:8}{slots:12}{(abs(error) < FACTOR).mean():12.0%}"
                f"{(abs(error) < Z90 * sd).mean():9.0%}{np.exp(Z90 * np.median(sd)):13.2f}x"
                f"{(abs(seen) < FACTOR).mean():9.0%}{ratios:17.2f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
