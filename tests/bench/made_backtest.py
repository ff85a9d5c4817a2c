"""Where prediction breaks, on a made-up history in which the truth of each run is known.

made_backtest.py [RUNS]: docs/evidence/prediction.md; 6000 runs unless told.
"""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "lab"))

from made_history import made_history

from sluice.history_db.records import Run
from sluice.prediction.backtest import walk
from sluice.prediction.jobs import finished_jobs
from sluice.prediction.score import Score, scores
from sluice.prediction.train import Past


def by_situation(runs: int, *, seed: int = 1) -> dict[str, Score]:
    """Predict a made-up year of so many runs; scores by what each run is an example of."""
    made = list(enumerate(made_history(runs, seed=seed), start=1))
    jobs = finished_jobs(Run(i, run.log, run.profile, b"", run.job) for i, run in made)
    situation = {i: run.situation for i, run in made}
    items, earlier = walk(Past(jobs, []), skip=0.3)
    return scores(items, earlier, lambda item: situation[item.job.logs[0]])


def main() -> None:
    found = by_situation(int(sys.argv[1]) if len(sys.argv) > 1 else 6000)
    print(f"{'situation':24} {'jobs':>6} {'answered':>9} {'right':>6} {'bytes in 2x':>12}")
    for name, score in found.items():
        right, within = (
            "-" if share is None else f"{share:.0%}"
            for share in (score.accuracy_answered, score.bytes_within_2)
        )
        print(f"{name:24} {score.jobs:6} {score.answered:9.0%} {right:>6} {within:>12}")


if __name__ == "__main__":
    main()
