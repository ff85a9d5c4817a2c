"""A calibration: its plan and its measurements, interrupted and resumed at will."""

from __future__ import annotations

import random
import time
from collections import Counter
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sluice.history_db.records import CoRun
from sluice.interference.calibrate import servers
from sluice.interference.calibrate.grid import PlannedCoRun, blocks
from sluice.interference.calibrate.protocol import (
    Inputs,
    Launcher,
    Member,
    Timing,
    measure_blocks,
)
from sluice.interference.calibrate.targets import Target, claimed
from sluice.interference.programs import CalibrationError, Program

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from sluice.history_db.records import Calibration
    from sluice.history_db.store import Store


LEAD_SECONDS = 0.15
SRUN_LEAD_SECONDS = 5.0
FILE_SYSTEMS = "file_systems"  # among a calibration's settings: what its directories lay on
RUNS_ALONE = 2  # of a block
START_SECONDS = 0.35  # from a run's end to the next one's start, alongside what Timing says
MOST_REPEATS = 3  # of a co-run that was dropped
MOST_OF_BUDGET = 1 / 3  # that rounds of what servers do may take
LEARN_FROM = 9  # runs, before their own time says how long the rest will take


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of a calibration, complete enough to resume it."""

    targets: tuple[Target, ...]
    """The first is where interference is measured; the second is another one, as a control."""
    plan: tuple[PlannedCoRun, ...]
    timing: Timing
    budget: float
    """Seconds."""
    seed: int = 1
    prefix: tuple[str, ...] = ()
    tasks: int = 1
    lead_seconds: float = LEAD_SECONDS
    rounds: int = 0
    """Of the service discipline (`servers.py`), before the co-runs."""

    def to_json(self) -> dict[str, Any]:
        return {
            "targets": [
                {"name": t.name, "directories": [str(d) for d in t.directories]}
                | {"counter": t.counter}
                for t in self.targets
            ],
            "plan": [
                {"probe": str(e.probe), "signals": [str(s) for s in e.signals]}
                | {"disjoint": e.disjoint}
                for e in self.plan
            ],
            "timing": asdict(self.timing),
            "budget": self.budget,
            "seed": self.seed,
            "prefix": list(self.prefix),
            "tasks": self.tasks,
            "lead_seconds": self.lead_seconds,
            "rounds": self.rounds,
        }

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Settings:
        return cls(
            targets=tuple(
                Target(t["name"], tuple(Path(d) for d in t["directories"]), t["counter"])
                for t in value["targets"]
            ),
            plan=tuple(
                PlannedCoRun(
                    Program.parse(e["probe"]),
                    tuple(map(Program.parse, e["signals"])),
                    e["disjoint"],
                )
                for e in value["plan"]
            ),
            timing=Timing(**value["timing"]),
            budget=value["budget"],
            seed=value["seed"],
            prefix=tuple(value["prefix"]),
            tasks=value["tasks"],
            lead_seconds=value["lead_seconds"],
            rounds=value["rounds"],
        )


def estimate_seconds(plan: Iterable[PlannedCoRun], timing: Timing, lead_seconds: float) -> float:
    """Estimate how long these co-runs take, before the first."""
    runs = sum(RUNS_ALONE + len(block) for block in blocks(plan))
    return runs * _run_seconds(timing, lead_seconds)


def _run_seconds(timing: Timing, lead_seconds: float) -> float:
    return timing.quiet + lead_seconds + timing.run + timing.tail + START_SECONDS


def rounds_within(settings: Settings) -> int:
    """Return how many rounds of the service discipline leave the co-runs most of the budget."""
    runs = MOST_OF_BUDGET * settings.budget / _run_seconds(settings.timing, settings.lead_seconds)
    return min(settings.rounds, int(runs / len(servers.runs_of_a_round(settings.tasks))))


def runs_of_rounds(settings: Settings) -> int:
    return rounds_within(settings) * len(servers.runs_of_a_round(settings.tasks))


def coruns_within(settings: Settings) -> int:
    """Return how many co-runs of the plan fit into the budget, by the estimate; whole blocks."""
    runs_left = settings.budget / _run_seconds(settings.timing, settings.lead_seconds)
    runs_left -= runs_of_rounds(settings)
    count = 0
    for block in blocks(settings.plan):
        runs_left -= RUNS_ALONE + len(block)
        if runs_left < 0:
            break
        count += len(block)
    return count


@dataclass(slots=True)
class Session:
    """One calibration in the history."""

    store: Store
    number: int
    settings: Settings
    probe: str
    measured: list[CoRun] = field(default_factory=list)
    _inputs: Inputs | None = None

    @classmethod
    def begin(cls, store: Store, settings: Settings, *, site: str, probe: str) -> Session:
        """Make it known to the history. Raises CalibrationError when its targets are in use."""
        with claimed(settings.targets):
            facts = {FILE_SYSTEMS: _file_systems(settings)}
        number = store.interference.add_calibration(
            created=int(time.time()), site=site, settings=settings.to_json() | facts
        )
        return cls(store, number, settings, probe)

    @classmethod
    def resume(cls, store: Store, calibration: Calibration, *, probe: str) -> Session:
        """Take up an interrupted one. Raises CalibrationError when its targets have changed."""
        kept: dict[str, Any] = dict(calibration.settings)
        settings = Settings.from_json(kept)
        before = kept.get(FILE_SYSTEMS, {})
        for directory, now in _file_systems(settings).items():
            if (then := before.get(directory, now)) != now:
                raise CalibrationError(
                    f"{directory}: was on {then} when calibration {calibration.id} began and is "
                    f"on {now} now; mount that again, or begin another calibration"
                )
        return cls(
            store, calibration.id, settings, probe, store.interference.coruns([calibration.id])
        )

    def run(self, tell: Callable[[CoRun], None]) -> None:
        """Measure what is left of the plan, for as long as the budget allows.

        Each result is in the history before the next measurement begins. Raises
        CalibrationError when a program fails, or when another process measures there.
        """
        with claimed(self.settings.targets), Inputs() as inputs:
            # Each task of --srun is a probe on another node, with files of its own.
            self._inputs = None if self.settings.prefix else inputs
            self._run_within_budget(tell)
        self.store.interference.finish_calibration(self.number)

    def seconds_left(self) -> float:
        """Estimate how long `run` takes, but for what will yet be dropped and measured again."""
        settings = self.settings
        missing = self._missing(Counter(_key(e) for e in self._coruns if not e.dropped))
        once = estimate_seconds(missing, settings.timing, settings.lead_seconds)
        once += self._estimate * len(list(self._runs_to_do()))
        return min(once, max(0.0, settings.budget - self._runs_before() * self._estimate))

    def _run_within_budget(self, tell: Callable[[CoRun], None]) -> None:
        """Until the budget is used up; dropped co-runs are measured again at the end."""
        begin = time.monotonic()
        spent, runs = self._runs_before() * self._estimate, 0
        for next_runs, measure in self._steps():
            elapsed = time.monotonic() - begin
            of_a_run = elapsed / runs if runs >= LEARN_FROM else self._estimate
            if spent + elapsed + next_runs * of_a_run > self.settings.budget:
                break
            runs += next_runs
            for measured in measure():
                self._keep(measured, tell)

    def _steps(self) -> Iterator[tuple[int, Callable[[], list[CoRun]]]]:
        """Yield how many runs the next step takes, and what measures it."""
        for programs in self._runs_to_do():
            yield 1, partial(self._measure_run, programs)
        for block in self.to_do():
            yield RUNS_ALONE + len(block), partial(self._measure, block)

    def _keep(self, corun: CoRun, tell: Callable[[CoRun], None]) -> None:
        self.store.interference.add_corun(self.number, corun)
        self.measured.append(corun)
        tell(corun)

    @property
    def _launcher(self) -> Launcher:
        settings = self.settings
        return Launcher(
            self.probe, settings.prefix, settings.tasks, settings.lead_seconds, self._inputs
        )

    @property
    def _estimate(self) -> float:
        """Seconds of a run."""
        return _run_seconds(self.settings.timing, self.settings.lead_seconds)

    def _runs_before(self) -> int:
        """Return how many runs of the budget went before an interruption."""
        return len(self.measured) + RUNS_ALONE * len({e.alone for e in self._coruns})

    @property
    def _coruns(self) -> list[CoRun]:
        return [corun for corun in self.measured if corun.mode == "rates"]

    def _runs_to_do(self) -> Iterator[tuple[Program, ...]]:
        settings = self.settings
        return servers.runs_to_do(
            rounds_within(settings),
            tasks=settings.tasks,
            seed=settings.seed,
            measured=self.measured,
        )

    def to_do(self) -> Iterator[list[PlannedCoRun]]:
        """Yield what the history does not hold: first everything once, then what was dropped."""
        yield from blocks(self._missing(Counter(_key(e) for e in self._coruns)))
        for _ in range(MOST_REPEATS):
            valid = Counter(_key(e) for e in self._coruns if not e.dropped)
            yield from blocks(self._missing(valid))

    def _missing(self, done: Counter[tuple[object, ...]]) -> list[PlannedCoRun]:
        missing = []
        for corun in self.settings.plan:
            if done[_planned_key(corun)] > 0:
                done[_planned_key(corun)] -= 1
            else:
                missing.append(corun)
        return missing

    def _measure_run(self, programs: tuple[Program, ...]) -> list[CoRun]:
        settings = self.settings
        launcher, timing = self._launcher, settings.timing
        return [
            servers.measure_run(programs, settings.targets[0], launcher=launcher, timing=timing)
        ]

    def _measure(self, block: list[PlannedCoRun]) -> list[CoRun]:
        settings = self.settings
        here = settings.targets[0]
        where = [settings.targets[-1] if e.disjoint else here for e in block]
        for corun, there in zip(block, where, strict=True):
            if corun.disjoint and there == here:
                raise CalibrationError(f"{corun}: needs a second --target")
        # An own sequence for each block: resumed or not, the order of its runs is the same.
        order = random.Random(f"{settings.seed} {len(self._coruns)}")  # noqa: S311
        started = int(time.time())
        found = measure_blocks(
            Member(block[0].probe, here),
            [
                [Member(signal, there) for signal in corun.signals]
                for corun, there in zip(block, where, strict=True)
            ],
            launcher=self._launcher,
            timing=settings.timing,
            order=order,
        )
        return [
            CoRun(
                started=started,
                mode="rates",
                members=(str(corun.probe), *map(str, corun.signals)),
                targets=(here.name, *(there.name for _ in corun.signals)),
                alone=tuple(run.rates[0] for run in one.alone),
                together=one.together.rates,
                foreign_share=max(run.foreign for run in (*one.alone, one.together)),
                dropped=one.dropped,
            )
            for corun, there, one in zip(block, where, found, strict=True)
        ]


def _file_systems(settings: Settings) -> dict[str, str]:
    return {
        str(directory): lies_on
        for target in settings.targets
        for directory, lies_on in zip(target.directories, target.file_systems(), strict=True)
    }


def _planned_key(corun: PlannedCoRun) -> tuple[object, ...]:
    return (str(corun.probe), *map(str, corun.signals), corun.disjoint)


def _key(corun: CoRun) -> tuple[object, ...]:
    return (*corun.members, len(set(corun.targets)) > 1)


def one_session(calibrations: Sequence[Calibration]) -> Calibration | None:
    """Return the latest calibration that was interrupted."""
    return next((c for c in reversed(calibrations) if not c.finished), None)
