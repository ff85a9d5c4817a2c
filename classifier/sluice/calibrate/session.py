"""A calibration: its plan, its measurements one by one, interrupted and resumed at will."""

from __future__ import annotations

import random
import time
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sluice.calibrate.errors import CalibrationError
from sluice.calibrate.grid import Encounterable
from sluice.calibrate.launch import Launcher
from sluice.calibrate.programs import Program
from sluice.calibrate.protocol import Member, Timing, measure_block
from sluice.calibrate.targets import Target
from sluice.history_db.records import Encounter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from sluice.history_db.records import Calibration
    from sluice.history_db.store import Store

LEAD_SECONDS = 0.15
SRUN_LEAD_SECONDS = 5.0
START_SECONDS = 0.35  # from a run's end to the next one's start, beside what Timing says
LEARN_FROM = 3  # blocks, before their own time says how long the rest will take


@dataclass(frozen=True, slots=True)
class Settings:
    """All that a calibration needs to be done, or to be gone on with."""

    targets: tuple[Target, ...]
    """The first is where interference is measured; the second is another one, as a control."""
    plan: tuple[Encounterable, ...]
    timing: Timing
    budget: float
    """Seconds."""
    seed: int = 1
    prefix: tuple[str, ...] = ()
    tasks: int = 1
    lead_seconds: float = LEAD_SECONDS

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
        }

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Settings:
        return cls(
            targets=tuple(
                Target(t["name"], tuple(Path(d) for d in t["directories"]), t["counter"])
                for t in value["targets"]
            ),
            plan=tuple(
                Encounterable(
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
        )


def estimate_seconds(blocks: int, timing: Timing, lead_seconds: float) -> float:
    """Estimate how long so many blocks take, before the first."""
    return blocks * 3 * (timing.quiet + lead_seconds + timing.run + timing.tail + START_SECONDS)


def blocks_within(settings: Settings) -> int:
    """How many blocks of the plan fit into the budget, by the estimate."""
    one = estimate_seconds(1, settings.timing, settings.lead_seconds)
    return min(len(settings.plan), int(settings.budget // one))


@dataclass(slots=True)
class Session:
    """One calibration in the history."""

    store: Store
    number: int
    settings: Settings
    probe: str
    measured: list[Encounter] = field(default_factory=list)

    @classmethod
    def begin(cls, store: Store, settings: Settings, *, site: str, probe: str) -> Session:
        number = store.add_calibration(
            created=int(time.time()), site=site, settings=settings.to_json()
        )
        return cls(store, number, settings, probe)

    @classmethod
    def resume(cls, store: Store, calibration: Calibration, *, probe: str) -> Session:
        settings = Settings.from_json(dict(calibration.settings))
        return cls(store, calibration.id, settings, probe, store.encounters([calibration.id]))

    def run(self, tell: Callable[[Encounter], None]) -> None:
        """Measure what is left of the plan until the budget is used up.

        Each encounter is in the history before the next one begins. What was dropped is tried
        again at the end, once. Raises CalibrationError when a program fails.
        """
        begin = time.monotonic()
        spent = self._spent_before()
        for ours, encounter in enumerate(self._to_do()):
            elapsed = time.monotonic() - begin
            one = elapsed / ours if ours >= LEARN_FROM else self._one()
            if spent + elapsed + one > self.settings.budget:
                break
            measured = self._measure(encounter)
            self.store.add_encounter(self.number, measured)
            self.measured.append(measured)
            tell(measured)
        self.store.finish_calibration(self.number)

    def _one(self) -> float:
        return estimate_seconds(1, self.settings.timing, self.settings.lead_seconds)

    def _spent_before(self) -> float:
        """Seconds of the budget that went before an interruption."""
        return len(self.measured) * self._one()

    def _to_do(self) -> Iterator[Encounterable]:
        """Yield what the history does not hold: first everything once, then what was dropped."""
        tried = Counter(_key(e) for e in self.measured)
        for encounter in self.settings.plan:
            if tried[_planned_key(encounter)] > 0:
                tried[_planned_key(encounter)] -= 1
            else:
                yield encounter
        good = Counter(_key(e) for e in self.measured if not e.dropped)
        for encounter in self.settings.plan:
            if good[_planned_key(encounter)] > 0:
                good[_planned_key(encounter)] -= 1
            else:
                yield encounter

    def _measure(self, encounter: Encounterable) -> Encounter:
        settings = self.settings
        here = settings.targets[0]
        there = settings.targets[-1] if encounter.disjoint else here
        if encounter.disjoint and there == here:
            raise CalibrationError(f"{encounter}: needs a second --target")
        # An own sequence for each block: resumed or not, the order of its runs is the same.
        order = random.Random(f"{settings.seed} {len(self.measured)}")  # noqa: S311
        launcher = Launcher(
            self.probe, settings.prefix, settings.tasks, lead_seconds=settings.lead_seconds
        )
        started = int(time.time())
        block = measure_block(
            Member(encounter.probe, here),
            [Member(signal, there) for signal in encounter.signals],
            launcher=launcher,
            timing=settings.timing,
            order=order,
        )
        return Encounter(
            started=started,
            mode="rates",
            members=(str(encounter.probe), *map(str, encounter.signals)),
            targets=(here.name, *(there.name for _ in encounter.signals)),
            offset=0.0,
            alone=tuple(run.rates[0] for run in block.alone),
            together=block.together.rates,
            foreign_share=max(run.foreign for run in (*block.alone, block.together)),
            dropped=block.dropped,
        )


def _planned_key(encounter: Encounterable) -> tuple[object, ...]:
    return (str(encounter.probe), *map(str, encounter.signals), encounter.disjoint)


def _key(encounter: Encounter) -> tuple[object, ...]:
    return (*encounter.members, len(set(encounter.targets)) > 1)


def one_session(calibrations: Sequence[Calibration]) -> Calibration | None:
    """Return the latest calibration that was interrupted."""
    return next((c for c in reversed(calibrations) if not c.finished), None)
