"""How well the next run is predicted as deployed, against the last run, and what each part does.

    python tests/bench/prediction_bench.py rows [RUNS] [SEEDS]
    python tests/bench/prediction_bench.py parts [RUNS] [SEEDS]
    python tests/bench/prediction_bench.py directories [RUNS] [SEEDS]
    python tests/bench/prediction_bench.py others [RUNS] [SEEDS]
    python tests/bench/prediction_bench.py speed [RUNS]

The runs are made up (`made_users`): users keep an input and switch it under one name, alternate,
vary, drift. `rows` predicts each run from those that had ended two minutes, an hour or a day
before, and decides on it next to those that ran: `decided` is the share of all on which Sluice did
not abstain, `matter` that of those with 2 % of I/O; then, by habit, those that had ended two
minutes before. `parts` takes one part of the learning away at a time. `directories` reads the
working directory as one more argument: runs have one for each input that a user keeps, or each
their own. `others` asks jobs that merely resemble a run: a forest over size, name, user and
account, and the commonest pattern of the account. `speed` times the backtest of 50,000 runs. Three
in ten runs are only learned from.
"""

import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import numpy as np

sys.path.append(str(Path(__file__).parents[1] / "lab"))

from decided_users import is_decided, matters, share_decided, walk_deciding
from made_users import made_users
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.feature_extraction.text import HashingVectorizer

from sluice.policies import core
from sluice.prediction.backtest import Deployed, walk
from sluice.prediction.expectation import MEMORIES, NUMBERS
from sluice.prediction.score import PastPrediction, Score, judge, scores
from sluice.prediction.train import Past

if TYPE_CHECKING:
    from sluice.policies.record import Record
    from sluice.prediction.jobs import FinishedJob

SKIP = 0.3
DELAYS = {"2 minutes": 120, "1 hour": 3600, "1 day": 86400}
COLUMNS = ("answered", "pattern", "within 2x", "last run", "mean", "in 90 %", "wide")
DECIDED = ("decided", "matter")


def show(name: str, score: Score, *more: float | None) -> None:
    figures = (
        score.answered,
        score.accuracy_answered,
        score.bytes_within_2,
        score.last_within_2,
        score.mean_within_2,
        score.bytes_inside,
        score.flagged,
        *more,
    )
    told = (f"{'-' if one is None else f'{one:.1%}':>10}" for one in figures)
    print(f"{name:28} {score.jobs:7} {''.join(told)}", flush=True)


def head(title: str, *more: str) -> None:
    columns = "".join(f"{column:>10}" for column in (*COLUMNS, *more))
    print(f"{title:28} {'jobs':>7} {columns}", flush=True)


def sites(
    runs: int, seeds: int, directories: str = ""
) -> Iterator[tuple[dict[tuple[int, ...], str], Past]]:
    """Yield habits by logs, and the runs, of some made-up sites."""
    for seed in range(1, seeds + 1):
        made = made_users(runs, seed=seed, directories=directories)
        yield {job.logs: habit for habit, job in made}, Past([job for _, job in made], [])


def predicted(
    runs: int,
    seeds: int,
    *,
    known_after: int,
    arm: type[Deployed] = Deployed,
    directories: str = "",
) -> list[tuple[str, PastPrediction]]:
    """Predict the runs of some made-up sites; with the habit of each."""
    found = []
    for habits, past in sites(runs, seeds, directories):
        items, _ = walk(past, skip=SKIP, known_after=known_after, deployed=arm)
        found += [(habits[item.job.logs], item) for item in items]
    return found


def show_rows(runs: int, seeds: int) -> None:
    head("known if ended before", *DECIDED)
    fresh: list[tuple[str, PastPrediction]] = []
    abstained: dict[str, Counter[str]] = {}
    for name, seconds in DELAYS.items():
        found: list[tuple[str, PastPrediction]] = []
        made: list[tuple[FinishedJob, Record]] = []
        for habits, past in sites(runs, seeds):
            items, records = walk_deciding(past, skip=SKIP, known_after=seconds)
            found += [(habits[item.job.logs], item) for item in items]
            made += [(item.job, records[item.job.logs]) for item in items]
        fresh = fresh or found
        those = [(job, record) for job, record in made if matters(job)]
        abstained[name] = Counter(r.decision.reason for _, r in made if not is_decided(r))
        score = judge([item for _, item in found], [])
        show(name, score, share_decided(made), share_decided(those))
    for name, reasons in abstained.items():
        print(f"abstained, {name}: {', '.join(f'{n} {why}' for why, n in reasons.most_common())}")
    print()
    head("habit (2 minutes)")
    habits = {id(item): habit for habit, item in fresh}
    for habit, score in scores([i for _, i in fresh], [], lambda i: habits[id(i)]).items():
        show(habit, score)


class _Without(Deployed):
    """Sluice without a kind of evidence."""

    evidence = ""

    def entries_for(self, job):
        entries = super().entries_for(job)
        return [one for one in entries if one.application.evidence != self.evidence]


class WithoutSizes(_Without):
    evidence = "user_size"


class WithoutArguments(_Without):
    evidence = "user_arguments"


class WithoutOthers(_Without):
    evidence = "name"


class WithoutLaws(Deployed):
    def entries_for(self, job):
        return [replace(one, exponents={}, law=None) for one in super().entries_for(job)]


class WithoutAgeing(Deployed):
    def look_back(self, jobs):
        return replace(super().look_back(jobs), ageing={})


class WithoutCalibration(Deployed):
    def look_back(self, jobs):
        return replace(super().look_back(jobs), calibration={})


class LastRun(Deployed):
    """Each number by the last run that is most alike."""

    memory = MEMORIES[0]

    def look_back(self, jobs):
        lost = [0.0 if memory == self.memory else 1e6 for memory in MEMORIES]
        return replace(super().look_back(jobs), losses=dict.fromkeys(NUMBERS, lost))


class ManyRuns(LastRun):
    memory = MEMORIES[-1]


ARMS = {
    "as it is": Deployed,
    "without the exact size": WithoutSizes,
    "without arguments": WithoutArguments,
    "without laws of size, words": WithoutLaws,
    "memory: the last run": LastRun,
    "memory: 24 runs": ManyRuns,
    "without ageing": WithoutAgeing,
    "without calibration": WithoutCalibration,
    "without others' runs": WithoutOthers,
}


def show_parts(runs: int, seeds: int) -> None:
    for name, seconds in DELAYS.items():
        head(f"ended {name} before")
        for arm, deployed in ARMS.items():
            found = predicted(runs, seeds, known_after=seconds, arm=deployed)
            show(arm, judge([item for _, item in found], []))


DIRECTORIES = {"": "none known", "input": "one for each input", "run": "one for each run"}


def show_directories(runs: int, seeds: int) -> None:
    head("working directory")
    for directories, name in DIRECTORIES.items():
        found = predicted(runs, seeds, known_after=120, directories=directories)
        show(name, judge([item for _, item in found], []))
        for habit in ("keeps an input", "names its input"):
            show(f"  {habit}", judge([item for one, item in found if one == habit], []))


class Others(Deployed):
    """Keeps what jobs that merely resemble a run would say of its pattern."""

    guesses: ClassVar[dict[object, tuple[tuple[str, float], tuple[str, float]]]] = {}
    """By logs of a job: pattern and confidence by the forest, and by the account."""

    def look_back(self, jobs):
        self._forest = ExtraTreesClassifier(120, min_samples_leaf=2, max_depth=10, random_state=1)
        latest = jobs[-5000:]
        self._forest.fit(features(latest), [job.profile.pattern for job in latest])
        self._accounts: dict[str, Counter[str]] = {}
        for job in jobs:
            self._accounts.setdefault(job.account, Counter())[job.profile.pattern] += 1
        return super().look_back(jobs)

    def entries_for(self, job):
        entries = super().entries_for(job)
        own = [one for one in entries if one.application.evidence == "user_name"]
        if not own or own[0].profile.confidence < core.default_config().policy.min_confidence:
            shares = self._forest.predict_proba(features([job]))[0]
            account = self._accounts.get(job.account, Counter({core.UNKNOWN: 1}))
            pattern, count = account.most_common(1)[0]
            self.guesses[job.logs] = (
                (str(self._forest.classes_[shares.argmax()]), float(shares.max())),
                (pattern, count / account.total()),
            )
        return entries


def features(jobs):
    words = HashingVectorizer(analyzer="char_wb", ngram_range=(3, 3), n_features=32, norm=None)
    sizes = [[np.log2(1 + job.nodes), np.log2(1 + job.tasks)] for job in jobs]
    bits = [[job.uid >> bit & 1 for bit in range(8)] for job in jobs]
    accounts = words.transform([job.account for job in jobs]).toarray()
    return np.hstack([sizes, bits, words.transform([j.name for j in jobs]).toarray(), accounts])


def show_others(runs: int, seeds: int) -> None:
    least = core.default_config().policy.min_confidence
    told: dict[str, list[tuple[bool, bool]]] = {}
    jobs = 0
    for seed in range(1, seeds + 1):
        Others.guesses = {}
        past = Past([job for _, job in made_users(runs, seed=seed)], [])
        items, _ = walk(past, skip=SKIP, known_after=120, deployed=Others)
        jobs += len(items)
        for item in items:
            for kind, guess in zip(
                ("forest", "account"), Others.guesses.get(item.job.logs, ()), strict=False
            ):
                known = "own runs, not certain" if item.is_own else "no own run"
                is_sure = item.confidence < least <= guess[1]
                would_count = is_sure and guess[0] == item.prediction.profile.pattern
                right = guess[0] == item.job.profile.pattern
                told.setdefault(f"{kind}: {known}", []).append((would_count and item.is_own, right))
    print(f"of {jobs} jobs{'':22} {'jobs':>7} {'guess right':>12} {'more answered':>14}")
    for name, rows in sorted(told.items()):
        counts, right = np.array(rows).T
        print(f"{name:34} {len(rows):7} {right.mean():12.1%} {counts.sum() / jobs:14.2%}")


def show_speed(runs: int) -> None:
    past = Past([job for _, job in made_users(runs, seed=1)], [])
    start = time.process_time()
    items, _ = walk(past, skip=SKIP)
    seconds = time.process_time() - start
    print(f"{len(items)} of {runs} runs predicted in {seconds:.0f} s of processor")


def main() -> None:
    what, *numbers = sys.argv[1:] or ["rows"]
    default = {
        "rows": (4000, 4),
        "parts": (2000, 3),
        "directories": (1500, 2),
        "others": (4000, 3),
        "speed": (50_000, 1),
    }
    runs, seeds = (*map(int, numbers), *default[what][len(numbers) :])
    if what == "speed":
        show_speed(runs)
        return
    shown = {
        "rows": show_rows,
        "parts": show_parts,
        "directories": show_directories,
        "others": show_others,
    }
    shown[what](runs, seeds)


if __name__ == "__main__":
    main()
