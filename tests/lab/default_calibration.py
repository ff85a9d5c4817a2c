"""Calibrations as `sluice site calibrate run` does them, on targets of the tests."""

from collections.abc import Sequence
from pathlib import Path

from target_kinds import Limits

from sluice.history_db.records import CoRun
from sluice.history_db.store import Store
from sluice.interference.calibrate.grid import PlannedCoRun, default_grid, most_informative_first
from sluice.interference.calibrate.protocol import Timing
from sluice.interference.calibrate.session import Session, Settings
from sluice.interference.calibrate.targets import Target
from sluice.interference.programs import MIB

BUDGET = 570.0  # seconds; of `sluice site calibrate run`
LIMITS = Limits(size=4096 * MIB)


def calibration(
    store: Store, probe: Path, targets: Sequence[Target], plan: Sequence[PlannedCoRun], **how
) -> list[CoRun]:
    settings = Settings(tuple(targets), tuple(plan), **how)
    session = Session.begin(store, settings, site="lab", probe=str(probe))
    session.run(lambda _: None)
    return session.measured


def default_calibration(
    store: Store, probe: Path, targets: Sequence[Target], *, seed: int = 1
) -> list[CoRun]:
    plan = most_informative_first(default_grid())
    return calibration(store, probe, targets, plan, timing=Timing(), budget=BUDGET, seed=seed)
